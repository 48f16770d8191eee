"""Test users' jobs: scenario files, which ``enrich test`` and pytest play, and what tests in Python need.

    tests/*.yml -> given tables in a temporary lake -> rounds: commits, a run -> what differs from the file

Importing this starts nothing, and imports neither Spark nor Delta. ``docs/testing.md`` has the format.
"""

from __future__ import annotations

from enrich.testing.differ import assert_same_rows, side_by_side
from enrich.testing.lake import Lake, redirect

__all__ = ["Lake", "assert_same_rows", "redirect", "side_by_side"]
