"""Stop a run at a fault point: as a crash that nothing swallows, or as an error of the storage."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from enrich import faults


class Crash(BaseException):
    """What stands for the end of the process."""


@contextmanager
def hooked(hook: Callable[[str], None]) -> Iterator[None]:
    """Let every point call ``hook``."""
    faults.hook = hook
    try:
        yield
    finally:
        faults.hook = None


@contextmanager
def crash_at(place: int) -> Iterator[None]:
    """Crash at the point with this number, counted from 0; the dead do nothing more."""
    passed = 0

    def hook(name: str) -> None:
        nonlocal passed
        passed += 1
        if passed > place:
            raise Crash(name)

    with hooked(hook):
        yield


@contextmanager
def error_at(place: int) -> Iterator[None]:
    """Fail once, with an error of the operating system, at the point with this number."""
    passed = 0

    def hook(name: str) -> None:
        nonlocal passed
        passed += 1
        if passed == place + 1:
            raise OSError(name)

    with hooked(hook):
        yield


@contextmanager
def traced() -> Iterator[list[str]]:
    """Collect the points that are passed."""
    names: list[str] = []
    with hooked(names.append):
        yield names


class Pause:
    """Halts one thread at a point until it is told to go on; everybody else passes.

    Attributes:
        name: The point.
        hit: Which time of passing it counts, from 1.
    """

    def __init__(self, name: str, hit: int = 1) -> None:
        self.name, self.left = name, hit
        self.reached, self.resumed = threading.Event(), threading.Event()
        self.thread: threading.Thread | None = None

    def __call__(self, name: str) -> None:
        if threading.current_thread() is not self.thread or name != self.name:
            return
        self.left -= 1
        if self.left == 0:
            self.reached.set()
            assert self.resumed.wait(120), f"nobody resumed {name}"
