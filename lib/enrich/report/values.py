"""Values of a document that anybody may have written: checked, bounded, cut; never an exception."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

MAX_NAME, MAX_ERROR = 200, 500
"""Longer texts are cut to this many characters."""

_WORDS = {"never_run": "never run", "not_checked": "not checked", "error": "not judged", "unknown": "not known"}


def read_text(value: Any, limit: int = MAX_NAME) -> str | None:
    """Return a text, cut when it is too long; None for anything else."""
    if not isinstance(value, str):
        return None
    whole = value.encode("utf-8", "backslashreplace").decode("utf-8")  # half of a pair of surrogates is no text
    return whole if len(whole) <= limit else f"{whole[: limit - 3]}..."


def read_name(value: Any) -> str:
    """Return a name; a question mark for what is none."""
    return read_text(value) or "?"


def read_number(value: Any) -> int | None:
    """Return a whole number; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_count(value: Any) -> int:
    """Return a whole number that is not negative; 0 for anything else."""
    return max(0, read_number(value) or 0)


def read_amount(value: Any) -> int | None:
    """Return a whole number that is not negative; None for anything else."""
    found = read_number(value)
    return found if found is not None and found >= 0 else None


def read_seconds(value: Any) -> float | None:
    """Return a finite number that is not negative, to the millisecond; None for anything else."""
    found = _read_finite(value)
    return None if found is None else round(found, 3)


def read_bound(value: Any) -> int | float | None:
    """Return a threshold: a whole number as such, a share as a fraction."""
    return read_number(value) if isinstance(value, int) else _read_finite(value)


def compute_share(part: int, whole: int) -> float | None:
    """Return ``part`` of ``whole``; None of nothing."""
    return round(min(part, whole) / whole, 6) if whole else None


def _read_finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return max(0.0, float(value)) if math.isfinite(value) else None
    except OverflowError:  # a whole number that no float can hold
        return None


def read_mapping(value: Any) -> dict[str, Any]:
    """Return a mapping; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def read_list(value: Any) -> list[Any]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def read_mappings(value: Any) -> dict[str, Mapping[str, Any]]:
    """Return the items of a mapping that are mappings themselves."""
    return {name: each for name, each in read_mapping(value).items() if isinstance(each, dict)}


def format_verdict(verdict: str) -> str:
    """Return a verdict in words."""
    return _WORDS.get(verdict, verdict)


def format_moment(at: datetime) -> str:
    """Return a time as ISO 8601 in UTC."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
