"""Read what people write, such as durations and sizes, and find the word that they meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from difflib import get_close_matches

from enrich.base.errors import show_text

_DURATION = re.compile(r"([0-9]{1,15})([smhdw])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def parse_duration(text: str) -> int | None:
    """Return how many seconds ``90s``, ``30m``, ``12h``, ``3d`` or ``2w`` are; None for other texts."""
    found = _DURATION.fullmatch(text)
    return None if found is None else int(found[1]) * _SECONDS[found[2]]


_SIZE = re.compile(r"([0-9]{1,18}(?:[.][0-9]{1,9})?) ?(?:([kmgt]?)(i?)b)?", re.ASCII | re.IGNORECASE)


def parse_size(text: str) -> int | None:
    """Return how many bytes ``20GB``, ``1.5 TB``, ``64MiB`` or ``1000`` are; None for other texts, and for nothing."""
    found = _SIZE.fullmatch(text)
    if found is None or (found[3] and not found[2]):
        return None
    base, power = 1024 if found[3] else 1000, " kmgt".index((found[2] or " ").lower())
    return int(Decimal(found[1]) * base**power) or None


def suggest(word: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """Return what a message says after an unknown word: ``did you mean 'x'?``, whatever its case.

    Where no known word is near, it is ``otherwise``, or the known ones; those of a set are in the alphabet's order.
    """
    words = sorted(known) if isinstance(known, set | frozenset) else list(known)
    folded = {each.lower(): each for each in reversed(words)}
    if near := get_close_matches(word.lower(), folded, n=1):
        return f"did you mean {folded[near[0]]!r}?"
    if otherwise is not None:
        return otherwise
    return f"it can be {show_text(', '.join(words))}" if words else ""


def did_you_mean(word: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """Return `suggest` as the end of a sentence, with the semicolon before it."""
    return f"; {said}" if (said := suggest(word, known, otherwise)) else ""
