"""Named places where a test can stop a run: before, inside and after every write and every call to storage.

Nothing in the configuration, the command line or the environment reaches ``hook``: a test assigns it in Python. Unused,
a point is one comparison.
"""

from __future__ import annotations

from collections.abc import Callable

hook: Callable[[str], None] | None = None
"""Called with the name of every point that a run passes; what it raises takes the place of a crash."""


def pass_point(name: str) -> None:
    """Pass the point ``name``."""
    if hook is not None:
        hook(name)
