"""Stop a run at a fault point: as a crash that nothing swallows, or as an error of the storage."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from enrich.base import failpoints


class Crash(BaseException):
    """What stands for the end of the process."""


_hooks: list[Callable[[str], None]] = []


def _call_all(name: str) -> None:
    for hook in _hooks:
        hook(name)


@contextmanager
def hooked(hook: Callable[[str], None]) -> Iterator[None]:
    """Let every point call ``hook``, beside the hooks of the blocks around this one."""
    _hooks.append(hook)
    failpoints.hook = _call_all
    try:
        yield
    finally:
        _hooks.remove(hook)
        failpoints.hook = _call_all if _hooks else None


class Place(NamedTuple):
    """A point of a run: its name, and which time of passing it counts, from 1."""

    name: str
    hit: int = 1


@contextmanager
def crash_at(place: Place) -> Iterator[None]:
    """Crash at a place; the dead do nothing more."""
    passed, dead = 0, False

    def hook(name: str) -> None:
        nonlocal passed, dead
        passed += name == place.name
        dead = dead or passed == place.hit
        if dead:
            raise Crash(name)

    with hooked(hook):
        yield


def crash_on(name: str) -> Callable[[str], None]:
    """Return a hook that crashes at the first passing of a point."""

    def hook(point: str) -> None:
        if point == name:
            raise Crash(name)

    return hook


@contextmanager
def error_at(place: Place) -> Iterator[None]:
    """Fail once, with an error of the operating system, at a place."""
    passed = 0

    def hook(name: str) -> None:
        nonlocal passed
        if name == place.name:
            passed += 1
            if passed == place.hit:
                raise OSError(name)

    with hooked(hook):
        yield
    assert passed >= place.hit, f"{place} was not passed"


def places(trace: Iterable[str]) -> list[Place]:
    """Return the places of a run that passed the points of ``trace``, in order."""
    seen = Counter[str]()
    found = []
    for name in trace:
        seen[name] += 1
        found.append(Place(name, seen[name]))
    return found


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
