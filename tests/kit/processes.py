"""What runs below a process, as /proc has it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")


class Process(NamedTuple):
    """A line of the process table; a zombie is none."""

    pid: int
    name: str
    parent: int
    group: int


def living() -> list[Process]:
    """Return the processes that live now."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, tail = path.read_text().rsplit(")", 1)
        except OSError:
            continue
        state, parent, group = tail.split()[:3]
        if state != "Z":
            found.append(Process(int(path.parent.name), head.split("(", 1)[1], int(parent), int(group)))
    return found


def members(group: int) -> list[int]:
    """Return the processes of a group."""
    return [process.pid for process in living() if process.group == group]


def descendants(pid: int) -> set[int]:
    """Return the processes below a process."""
    processes, found = living(), {pid}
    while more := {each.pid for each in processes if each.parent in found} - found:
        found |= more
    return found - {pid}


def alive(pid: int) -> bool:
    """Tell whether a process lives."""
    return any(process.pid == pid for process in living())
