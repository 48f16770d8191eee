"""Read sizes, and write them: for people, and for commands."""

from __future__ import annotations

import re
from decimal import Decimal

_UNITS = ("B", "kB", "MB", "GB", "TB")
_SIZE = re.compile(r"([0-9]{1,18}(?:[.][0-9]{1,9})?) ?(?:([kmgt]?)(i?)b)?", re.ASCII | re.IGNORECASE)


def parse_size(text: str) -> int | None:
    """Return how many bytes ``20GB``, ``1.5 TB``, ``64MiB`` or ``1000`` are; None for other texts, and for nothing."""
    found = _SIZE.fullmatch(text)
    if found is None or (found[3] and not found[2]):
        return None
    base, power = 1024 if found[3] else 1000, " kmgt".index((found[2] or " ").lower())
    return int(Decimal(found[1]) * base**power) or None


def spell_size(count: int) -> str:
    """Return a size that ``parse_size`` reads, of three digits, which is no smaller."""
    power = min(len(_UNITS) - 1, (len(str(count)) - 1) // 3)
    step = 10 ** max(0, len(str(count)) - 3)
    return f"{-(-count // step) * step / 1000**power:.12g}{_UNITS[power]}"


def format_bytes(count: int) -> str:
    """Return bytes in the unit that leaves one to three digits before the point: ``27 B``, ``1.5 MB``."""
    power = min(len(_UNITS) - 1, (len(str(count)) - 1) // 3)
    return f"{count} B" if power == 0 else f"{count / 1000**power:.1f} {_UNITS[power]}"
