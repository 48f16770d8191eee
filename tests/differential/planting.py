"""How a wrong variant takes the place of a function, for the keys of some histories."""

from __future__ import annotations

from collections.abc import Callable
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
