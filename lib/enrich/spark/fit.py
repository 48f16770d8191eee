"""Fit the JVM and Spark to the work and the machine, where the configuration does not say (docs/adr/0014-jvm-fit.md).

A run on small tables ends before the JVM has made good machine code of anything; a run on large ones wins it back.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from enrich.spark import ADAPTIVE, ADAPTIVE_BY_CHANGE, PARTITIONS

# Bytes of all tables below which it costs more to compile a query than to interpret it.
INTERPRETED = 4 * 2**20
# Bytes below which the JVM's second compiler costs more than its code saves.
QUICKLY_COMPILED = 256 * 2**20
# The least and the most that a local Spark gets of a machine's memory, of which it gets a quarter.
MEMORY = (2 * 2**30, 8 * 2**30)

# What is called 5,000 times the JVM compiles once more, well; most of what plans a query is, and never wins that back.
# Loops over millions of rows soon pass these numbers, too.
COMPILED_LATE = (
    "-XX:Tier4InvocationThreshold=80000",
    "-XX:Tier4MinInvocationThreshold=12000",
    "-XX:Tier4CompileThreshold=240000",
    "-XX:Tier4BackEdgeThreshold=640000",
)

HASHED = ("spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold", "spark.sql.adaptive.advisoryPartitionSizeInBytes")
"""Up to which size adaptive execution hashes a shuffled partition instead of sorting it, and the size that it aims at;
it hashes nothing where the second is larger."""

_PARTITIONS_A_CORE = 3
# A sort, an aggregation or a hash table takes memory in pages: of 64 MB for ten rows, if Spark chooses their size.
_SMALL_PAGES = {"spark.buffer.pageSize": "1m"}
# One task for what fits into one; and a plan's description is its compiled code, of which there is none.
_INTERPRETED = {
    PARTITIONS: "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.ui.explainMode": "codegen",
}
_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")
_FROM_OUTSIDE = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


class Fit(NamedTuple):
    """Options of the JVM and settings of Spark for the work at hand."""

    options: tuple[str, ...]
    conf: Mapping[str, str]


def choose_fit(size: int | None, master: str | None, given: str | None) -> Fit:
    """Return the settings of a local Spark for tables of ``size`` bytes, or an unknown number.

    ``given`` are the JVM's options of the configuration: a second collector would keep it from starting.
    """
    if master is None or not is_in_one_process(master):
        return Fit((), {})
    adaptive = {ADAPTIVE_BY_CHANGE: "true"}
    # Without the second compiler the room for code would be 48 MB, which thousands of small queries fill. In the small
    # heap that a JVM begins with, every eighth second goes into collecting what queries throw away.
    options = ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:NewSize=200m"]
    collector = "-XX:+UseSerialGC"
    if size is None or size >= QUICKLY_COMPILED:
        # No pause is too long for a run: the fewest CPU seconds are right.
        options, collector = [*COMPILED_LATE], "-XX:+UseParallelGC"
        conf = {PARTITIONS: str(max(4, _PARTITIONS_A_CORE * count_cores(master))), **adaptive}
    elif size >= INTERPRETED:
        conf = {PARTITIONS: str(max(4, count_cores(master))), **adaptive, **_SMALL_PAGES}
    else:
        conf = {ADAPTIVE: "false", **_INTERPRETED, **_SMALL_PAGES}
    if not _COLLECTOR.search(" ".join(filter(None, [given, *map(os.environ.get, _FROM_OUTSIDE)]))):
        options.append(collector)
    return Fit(tuple(options), conf)


def choose_hashed(memory: int, cores: int) -> int:
    """Return how many bytes a partition may have of which a hash table is made in a JVM with so much memory.

    It fits 64 times into a core's part: its bytes are packed, and a hash table cannot be moved to the disk; a task may
    have several, and cached rows beside them.
    """
    return min(64 * 2**20, memory // (64 * cores))


def choose_memory() -> str:
    """Return how much memory a local Spark gets, in Spark's notation: a quarter of what there is, within ``MEMORY``.

    There is the machine's, or less where a control group is limited.
    """
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    there = min([there, *(limit for (limit,) in _list_limits("memory.max"))])
    least, most = MEMORY
    return f"{min(max(there // 4, least), most) // 2**20}m"


def _list_limits(name: str) -> list[list[int]]:
    """Return the numbers in a file of the control groups (version 2) that this process is in; ``max`` is no limit."""
    found = []
    with suppress(OSError):  # no Linux
        own = Path(_OWN_GROUPS.read_text(encoding="utf-8").partition("0::/")[2].partition("\n")[0])
        for group in (own, *own.parents):  # in a container, the root is its own
            with suppress(OSError, ValueError):
                found.append([int(word) for word in (_GROUPS / group / name).read_text(encoding="ascii").split()])
    return found


def is_in_one_process(master: str) -> bool:
    """Tell ``local`` and ``local[...]`` from ``local-cluster[...]``, whose executors are processes."""
    return master == "local" or master.startswith("local[")


def count_cores(master: str) -> int:
    """Return how many tasks a local master runs at a time: ``local``, ``local[4]``, ``local[*]``, ``local[4,2]``."""
    if named := re.match(r"local\[(\d+)", master):
        return max(1, int(named[1]))  # Spark itself refuses none
    if master == "local":
        return 1
    # As the JVM counts processors: a control group may be limited to so many microseconds of them in a period.
    machine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return min([machine, *(max(1, math.ceil(quota / period)) for quota, period in _list_limits("cpu.max"))])
