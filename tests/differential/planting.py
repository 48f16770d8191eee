"""How a wrong variant takes the place of a function, for the keys of some histories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import Column

    Mine = Callable[[Column], Column]
    """A key -> whether it belongs to a history that the bug is planted in."""
    Plant = Callable[[pytest.MonkeyPatch, Mine], None]


def wrap(patch: pytest.MonkeyPatch, module: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace ``module.name`` by ``around(original, *args, **kwargs)``."""
    original = getattr(module, name)

    @wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs)

    patch.setattr(module, name, wrapped)


def merge_ranges(read: Callable[..., Any], run: Any, alias: str) -> Any:
    """Read again what ``--since`` names and what a dead run has taken as one range."""
    ranges = run.plan.again[alias]
    whole = min(start for start, _ in ranges), max(end for _, end in ranges)
    plan, run.plan = run.plan, replace(run.plan, again={**run.plan.again, alias: (whole,)})
    try:
        return read(run, alias)
    finally:
        run.plan = plan
