"""What one step of a benchmark takes: seconds, CPU seconds of this process and its JVM, bytes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

CONF = "lake: ./lake\nspark: {master: 'local[2]', conf: {spark.sql.shuffle.partitions: 4, spark.driver.memory: 4g}}\n"

Result = TypeVar("Result")


@dataclass(frozen=True)
class Cost:
    """What one step took."""

    wall: float
    cpu: float
    written: int


def jvm_ticks() -> int:
    """Return the CPU ticks that child processes of this one have used so far (the JVM is one of them)."""
    total = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                total += int(fields[11]) + int(fields[12])
    return total


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a directory."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measured(step: Callable[[], Result], folder: Path) -> tuple[Cost, Result]:
    """Time a step; return what it took, and what it returned."""
    before, ticks, own, start = size_of(folder), jvm_ticks(), time.process_time(), time.perf_counter()
    result = step()
    wall = time.perf_counter() - start
    cpu = time.process_time() - own + (jvm_ticks() - ticks) / os.sysconf("SC_CLK_TCK")
    return Cost(wall, cpu, size_of(folder) - before), result
