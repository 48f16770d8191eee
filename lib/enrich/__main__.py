"""Run the command ``enrich`` as ``python -m enrich``."""

from __future__ import annotations

from enrich.cli import main

main()
