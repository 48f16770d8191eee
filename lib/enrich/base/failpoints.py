"""Name the places where a test can stop a run: before, inside and after every write and every call to storage."""

from __future__ import annotations

from collections.abc import Callable

# Called with the name of every point that a run passes; what it raises takes the place of a crash. Only tests set it.
hook: Callable[[str], None] | None = None


def pass_point(name: str) -> None:
    """Pass the point ``name``."""
    if hook is not None:
        hook(name)
