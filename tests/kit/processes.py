"""What runs below a process, as /proc has it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")


class Process(NamedTuple):
    """A line of the process table; a zombie is none.

    Attributes:
        seconds: CPU seconds of the process and of its children that have ended.
    """

    pid: int
    name: str
    parent: int
    group: int
    seconds: float = 0.0


def living() -> list[Process]:
    """Return the processes that live now."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, tail = path.read_text().rsplit(")", 1)
        except OSError:
            continue
        state, parent, group, *rest = tail.split()
        if state != "Z":
            seconds = sum(map(int, rest[8:12])) / os.sysconf("SC_CLK_TCK")
            found.append(Process(int(path.parent.name), head.split("(", 1)[1], int(parent), int(group), seconds))
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


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process, of those below it, and of those below it that have ended."""
    below = descendants(pid)
    return sum(process.seconds for process in living() if process.pid in below or process.pid == pid)
