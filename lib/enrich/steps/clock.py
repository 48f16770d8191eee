"""How long the steps of a run take."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class Timed(Protocol):
    """What a step gets first."""

    @property
    def seconds(self) -> dict[str, float]:
        """Stage -> how long it took."""


W = TypeVar("W", bound=Timed)
P = ParamSpec("P")
R = TypeVar("R")


def measure(stage: str) -> Callable[[Callable[Concatenate[W, P], R]], Callable[Concatenate[W, P], R]]:
    """Let a step add its wall-clock time to the ``seconds`` of its first argument."""

    def decorate(step: Callable[Concatenate[W, P], R]) -> Callable[Concatenate[W, P], R]:
        @wraps(step)
        def measured(work: W, /, *args: P.args, **kwargs: P.kwargs) -> R:
            started = time.monotonic()
            try:
                return step(work, *args, **kwargs)
            finally:
                spent = work.seconds.get(stage, 0.0) + time.monotonic() - started
                work.seconds[stage] = round(spent, 3)

        return measured

    return decorate
