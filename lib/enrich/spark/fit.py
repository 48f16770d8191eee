"""Fit the JVM and Spark to the work and the machine, where the configuration does not say (docs/adr/0014-jvm-fit.md).

A run on small tables ends before the JVM has made good machine code of anything; a run on large ones wins it back.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from enrich.spark import ADAPTIVE, ADAPTIVE_BY_CHANGE

INTERPRETED = 4 * 2**20
"""Bytes of all tables below which it costs more to compile a query than to interpret it."""

QUICKLY_COMPILED = 256 * 2**20
"""Bytes below which the JVM's second compiler costs more than its code saves."""

MEMORY = (2 * 2**30, 8 * 2**30)
"""The least and the most that a local Spark gets of a machine's memory, of which it gets a quarter."""

_SMALL_PAGES = {"spark.buffer.pageSize": "1m"}
"""A sort, an aggregation or a hash table takes memory in pages: of 64 MB for ten rows, if Spark chooses their size."""

HASHED = "spark.enrich.hashedPartition"
"""Says how large a shuffled partition may be, in bytes, of which a job's session makes a hash table."""

_HASHED = "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold"
_PARTITION = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_PARTITION_ONCE = "spark.sql.adaptive.shuffle.targetPostShuffleInputSize"  # the same, as Spark once called it
_LARGEST_PARTITION = 64 * 2**20
_SPARE = 64
"""How often a hashed partition fits into a core's part of the memory: its bytes are packed, and a hash table cannot be
moved to the disk; a task may have several, and cached rows beside them."""

_PARTITIONS_A_CORE = 3
_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")
_FROM_OUTSIDE = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


@dataclass(frozen=True)
class Fit:
    """Settings for the work at hand.

    Attributes:
        options: The JVM's.
        conf: Spark's.
    """

    options: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)


def choose_fit(size: int | None, master: str | None, given: str | None) -> Fit:
    """Return the settings for tables of ``size`` bytes.

    Args:
        size: Bytes of the tables that a run may read; None when that is not known.
        master: Spark's master; only a local one does the work in the JVM that is started here.
        given: The options that the configuration gives to the JVM; a second collector would keep it from starting.
    """
    if master is None or not is_in_one_process(master):
        return Fit()
    # Spark's own file of settings, where there is one, gives the JVM options of its own.
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (str(Path(home, "conf")) if home else None)
    try:
        defaults = Path(folder, "spark-defaults.conf").read_text(encoding="utf-8") if folder else ""
    except (OSError, UnicodeDecodeError):
        defaults = ""
    said = " ".join(filter(None, [given, defaults, *map(os.environ.get, _FROM_OUTSIDE)]))
    names_collector = _COLLECTOR.search(said) is not None
    if size is None or size >= QUICKLY_COMPILED:
        # No pause is too long for a run, so the collector that takes the fewest CPU seconds is right.
        partitions = max(4, _PARTITIONS_A_CORE * count_cores(master))
        conf = {"spark.sql.shuffle.partitions": str(partitions), ADAPTIVE_BY_CHANGE: "true"}
        return Fit(() if names_collector else ("-XX:+UseParallelGC",), conf)
    collector = () if names_collector else ("-XX:+UseSerialGC",)
    # Without the second compiler the room for code would be 48 MB, which thousands of small queries fill.
    options = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", *collector)
    if size >= INTERPRETED:
        return Fit(options, {**_SMALL_PAGES, "spark.sql.shuffle.partitions": "4", ADAPTIVE_BY_CHANGE: "true"})
    conf = {
        **_SMALL_PAGES,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        ADAPTIVE: "false",
    }
    return Fit(options, conf)


def choose_hashed(memory: int, cores: int) -> int:
    """Return how many bytes a partition may have of which a hash table is made.

    Args:
        memory: The most bytes that the JVM takes.
        cores: How many tasks it runs at a time.
    """
    return min(_LARGEST_PARTITION, memory // (_SPARE * cores))


def prefer_hashing(conf: Mapping[str, str]) -> dict[str, str]:
    """Let adaptive execution hash the smaller side of a join, where it has seen that it fits, and not sort both.

    Args:
        conf: What a session has by now; it wins.
    """
    if HASHED not in conf or conf.keys() & {_HASHED, _PARTITION, _PARTITION_ONCE}:
        return {}
    # Spark hashes nothing where its partitions may become larger than what may be hashed.
    return {_HASHED: conf[HASHED], _PARTITION: conf[HASHED]}


def choose_memory() -> str:
    """Return how much memory a local Spark gets, in Spark's notation: a quarter of what there is, within ``MEMORY``."""
    least, most = MEMORY
    return f"{min(max(find_memory() // 4, least), most) // 2**20}m"


def find_memory() -> int:
    """Return the bytes that this process may use: the machine's, or fewer where a control group is limited."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for group in _list_groups("memory"):
        found += [number for name in ("memory.max", "memory.limit_in_bytes") for number in _read_numbers(group / name)]
    return min(found)


def find_processors() -> int:
    """Return on how many processors this process may be at a time, as the JVM counts them.

    A control group may be limited to so many microseconds of processors in a period (``cpu.max``), so that a container
    with two processors sees all those of its machine.
    """
    found = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1]
    for group in _list_groups("cpu"):
        files = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
        limits = [[number for name in names for number in _read_numbers(group / name)] for names in files]
        found += [max(1, math.ceil(each[0] / each[1])) for each in limits if len(each) == 2 and min(each) > 0]
    return min(found)


def _list_groups(controller: str) -> list[Path]:
    """Return the directories of the control groups that this process is in: of the first version and of the second."""
    try:
        lines = _OWN_GROUPS.read_text(encoding="utf-8").splitlines()
    except OSError:  # no Linux
        return []
    found = []
    for line in lines:
        number, names, own = line.split(":", 2)
        kinds = names.split(",")
        if number == "0" or controller in kinds:
            root = _GROUPS if number == "0" else _GROUPS / controller
            inside = Path(own.lstrip("/"))
            found += [root / inside, *[root / each for each in inside.parents]]  # in a container, the root is its own
    return found


def _read_numbers(file: Path) -> list[int]:
    """Return the numbers in a control group's file: none where there is no such file, or no limit (``max``)."""
    try:
        return [int(word) for word in file.read_text(encoding="ascii").split()]
    except (OSError, ValueError):
        return []


def is_in_one_process(master: str) -> bool:
    """Tell ``local`` and ``local[...]`` from ``local-cluster[...]``, whose executors are processes."""
    return master == "local" or master.startswith("local[")


def count_cores(master: str) -> int:
    """Return how many tasks a local master runs at a time: ``local``, ``local[4]``, ``local[*]``, ``local[4,2]``."""
    named = re.match(r"local\[(\d+)", master)
    if named:
        return int(named[1])
    return 1 if master == "local" else find_processors()
