"""How far apart in time two rows may be, as a job file says it: ``90s``, ``-1h``, ``2d``, or a number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from enrich.base.errors import show_text

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([+-]?)([0-9]{1,15})([smhd])", re.ASCII)
_MOST = Decimal(10) ** 18
"""How great a bound may be, in microseconds or as a number: with it sums stay within 64 bits."""


@dataclass(frozen=True)
class Bound:
    """One end of ``between``.

    Attributes:
        amount: Seconds, or a number.
        is_duration: Whether it has a unit of time; a 0 needs none.
    """

    amount: Decimal
    is_duration: bool


def read_bound(value: Any) -> Bound | None:
    """Return what a value of ``between`` means; None when it is neither a duration nor a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        number = Decimal(repr(value))
        return Bound(number, is_duration=False) if number.is_finite() and abs(number) <= _MOST else None
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return None
    seconds = Decimal(found[2]) * SECONDS[found[3]]
    if seconds * 1_000_000 > _MOST:
        return None
    return Bound(-seconds if found[1] == "-" else seconds, is_duration=True)


def find_bound_faults(values: Sequence[Any]) -> list[str]:
    """Return what is wrong with ``between``, whatever the type of the times."""
    if len(values) != 2:
        return [f"'between' needs two bounds, the lower and the upper one, not {len(values)}"]
    bounds = [read_bound(value) for value in values]
    faults = [
        f"'between' has {show_text(str(value))!r}; write a duration such as 90s, 10m, 1h or 2d, or a number for numbers"
        for value, bound in zip(values, bounds, strict=True)
        if bound is None
    ]
    lower, upper = bounds
    if lower is None or upper is None:
        return faults
    if lower.amount and upper.amount and lower.is_duration != upper.is_duration:
        return ["'between' has a duration and a number; give both bounds a unit, or none"]
    if lower.amount > upper.amount:
        return ["the first bound of 'between' is greater than the second; write the lower bound first"]
    return []


def scale_bounds(values: Sequence[Any], kind: str) -> tuple[Decimal, Decimal] | str:
    """Return the bounds as the times of a type count, or what is wrong with them.

    Args:
        values: Two bounds without faults.
        kind: ``date``, ``timestamp``, ``timestamp_ntz`` or a numeric type, as Delta names it.

    Returns:
        Days, microseconds, or numbers.
    """
    bounds = [bound for value in values if (bound := read_bound(value)) is not None]
    lower, upper = bounds
    has_units = any(bound.is_duration and bound.amount for bound in bounds)
    lacks_units = any(not bound.is_duration and bound.amount for bound in bounds)
    is_time = kind in ("date", "timestamp", "timestamp_ntz")
    if not is_time:
        return "the times are numbers; write the bounds as numbers" if has_units else (lower.amount, upper.amount)
    if lacks_units:
        return f"the times are of type {kind}; give the bounds a unit: 90s, 10m, 1h, 2d"
    if kind != "date":
        return lower.amount * 1_000_000, upper.amount * 1_000_000
    if any(bound.amount % SECONDS["d"] for bound in bounds):
        return "the times are dates; write the bounds as whole days: 2d"
    return lower.amount / SECONDS["d"], upper.amount / SECONDS["d"]
