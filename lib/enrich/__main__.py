"""``python -m enrich`` is the command ``enrich``."""

from __future__ import annotations

from enrich.cli import main

main()
