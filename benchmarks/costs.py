"""What one step of a benchmark takes: seconds, CPU seconds of all processes, bytes, Spark jobs and tasks, memory."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from py4j.protocol import Py4JJavaError

from enrich.steps.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = "lake: ./lake\nspark: {master: 'local[2]', conf: {spark.sql.shuffle.partitions: 4, spark.driver.memory: 4g}}\n"

SUBREAPER = 36
"""``PR_SET_CHILD_SUBREAPER``: processes that lose their parent become children of ours."""

PATIENCE = 600
"""Seconds that a command and the processes that it leaves behind may take."""

HEAVY = 2000
"""Milliseconds of work from which on a stage is looked through for a task that takes longer than the others."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Cost:
    """What one step took.

    Attributes:
        wall: Seconds.
        cpu: Seconds of this process and of all that it has started, with those that outlived their parents.
        written: Bytes that came into the step's directory.
        read: Bytes that the system handed to the processes, from the disk or from its cache: of tables, and of what
            tasks wrote for one another. Spark's own count leaves out the columns of Parquet files that it reads from
            several places of a file at once.
        shuffled: Bytes that Spark's tasks wrote for one another.
        jobs: Spark's jobs.
        tasks: Spark's tasks.
        peak: Bytes of memory that the JVM had at most.
        skew: The longest task, by the median of its stage; 1 where no stage had work for several tasks. Stages that
            read files, or rows kept from such a stage, are left out: their tasks are as even as the files, and a file
            is read by more tasks the longer it is, whatever keys it holds.
        files: Data files that the target has afterwards, where these are counted.
        stages: Stage of a run of enrich -> its CPU seconds and Spark jobs.
    """

    wall: float
    cpu: float
    written: int = 0
    read: int = 0
    shuffled: int = 0
    jobs: int = 0
    tasks: int = 0
    peak: int = 0
    skew: float = 1.0
    files: int = 0
    stages: dict[str, dict[str, float]] = field(default_factory=dict)


def measured(step: Callable[[], Result], folder: Path, spark: SparkSession | None = None) -> tuple[Cost, Result]:
    """Take a step; return what it took, and what it returned.

    Args:
        step: What is measured.
        folder: Where it writes.
        spark: The session whose JVM and whose jobs are watched, too; it begins with an empty heap.
    """
    watch = Watch(spark) if spark is not None else None
    _SPENT.clear()
    written, read, cpu, start = size_of(folder), count_read_bytes(), cpu_seconds(), time.perf_counter()
    result = step()
    wall, cpu, read = time.perf_counter() - start, cpu_seconds() - cpu, count_read_bytes() - read
    seen = watch.read() if watch is not None else {}
    written, read = size_of(folder) - written, read if watch is not None else 0
    return Cost(wall, cpu, written, read, **seen, stages=dict(_SPENT)), result


_SPENT: dict[str, dict[str, float]] = {}
"""What the stages of the run that is being measured have taken so far."""


def watch_stages() -> None:
    """Let runs of enrich note from now on, whenever a stage ends, what has been spent since the one before."""
    begin = Run.__post_init__

    def begin_noting(run: Run) -> None:
        begin(run)
        run.seconds = _Noting(run.session)

    Run.__post_init__ = begin_noting  # type: ignore[method-assign]


class _Noting(dict[str, float]):
    """The seconds of a run's stages."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self.scheduler = context._jsc.sc().dagScheduler()
        self.last = cpu_seconds(), int(self.scheduler.numTotalJobs())

    def __setitem__(self, stage: str, seconds: float) -> None:
        super().__setitem__(stage, seconds)
        now = cpu_seconds(), int(self.scheduler.numTotalJobs())
        spent = _SPENT.setdefault(stage, {"cpu": 0.0, "jobs": 0.0})
        spent["cpu"], spent["jobs"] = spent["cpu"] + now[0] - self.last[0], spent["jobs"] + now[1] - self.last[1]
        self.last = now


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a directory; 0 where there is none."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# --- processes -------------------------------------------------------------------------------------------------------


def cpu_seconds() -> float:
    """Return the CPU seconds of this process, of all that descend from it, and of those of them that have ended."""
    ticks = sum(sum(used) for _, used in _find_family().values())
    return ticks / os.sysconf("SC_CLK_TCK")


def count_read_bytes() -> int:
    """Return the bytes that this process, all that descend from it, and those of them that have ended, have read."""
    found = 0
    for process in _find_family():
        try:
            lines = Path("/proc", str(process), "io").read_text(encoding="ascii").splitlines()
        except OSError:  # it has ended meanwhile, or belongs to somebody else
            continue
        found += next(int(line.split()[1]) for line in lines if line.startswith("rchar:"))
    return found


def _find_family() -> dict[int, tuple[int, tuple[int, ...]]]:
    """Return process -> parent and ticks (user, system, and both of ended children), for us and our descendants."""
    known: dict[int, tuple[int, tuple[int, ...]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:  # it has ended meanwhile
                continue
            known[int(entry.name)] = int(fields[1]), tuple(map(int, fields[11:15]))
    ours, size = {os.getpid()}, 0
    while len(ours) > size:
        size = len(ours)
        ours |= {process for process, (parent, _) in known.items() if parent in ours}
    return {process: known[process] for process in ours}


def adopt_orphans() -> None:
    """Let processes whose parents end become children of this one, so that their CPU seconds are counted here."""
    if ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the system does not hand orphans over")


def measure_command(command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> tuple[Cost, str]:
    """Run a command as a process of its own; return what it and all that it left behind took, and its stdout.

    Wall seconds end with the command; CPU seconds when its last orphan has ended. ``adopt_orphans`` comes first.
    """
    before = set(_find_family())

    def call() -> tuple[float, str]:
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=env, check=False)
        wall = time.perf_counter() - start
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        _wait_for_orphans(before)
        return wall, done.stdout

    cost, (wall, output) = measured(call, folder)
    return Cost(wall, cost.cpu, cost.written), output


def _wait_for_orphans(before: set[int]) -> None:
    """Wait until no process is left that was not there before."""
    limit = time.monotonic() + PATIENCE
    while left := set(_find_family()) - before:
        for process in left:
            try:
                os.waitpid(process, os.WNOHANG)
            except ChildProcessError:  # its parent still lives
                continue
        if time.monotonic() > limit:
            raise SystemExit(f"processes {sorted(left)} do not end")
        time.sleep(0.05)


# --- the JVM and Spark -----------------------------------------------------------------------------------------------


class Watch:
    """What Spark counts by itself, from now on. The session must keep its jobs and stages long enough."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        context._jvm.java.lang.System.gc()
        self.jvm = Path("/proc") / str(context._gateway.proc.pid)
        (self.jvm / "clear_refs").write_text("5")  # the peak begins anew
        self.halves = context._gateway.new_array(context._jvm.double, 2)
        self.halves[0], self.halves[1] = 0.5, 1.0
        self.core = context._jsc.sc()
        self.first = self._count_jobs()

    def _count_jobs(self) -> int:
        return int(self.core.dagScheduler().numTotalJobs())

    def read(self) -> dict[str, Any]:
        """Return the counts since then, by their names in ``Cost``."""
        lines = (self.jvm / "status").read_text().splitlines()
        peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
        last, store = self._count_jobs(), self.core.statusStore()
        self.core.listenerBus().waitUntilEmpty()
        stages: set[int] = set()
        for number in range(self.first, last):
            ids = store.job(number).stageIds()
            stages |= {int(ids.apply(place)) for place in range(ids.size())}
        found = {"shuffled": 0, "tasks": 0}
        skew = 1.0
        for stage in stages:
            try:
                data = store.lastStageAttempt(stage)
            except Py4JJavaError:  # of all stages Spark forgets those first that were skipped, and have done nothing
                continue
            found["shuffled"] += data.shuffleWriteBytes()
            found["tasks"] += data.numCompleteTasks()
            shuffled = data.inputBytes() == 0
            if shuffled and data.executorRunTime() > HEAVY and data.numCompleteTasks() > 2:
                summary = store.taskSummary(stage, data.attemptId(), self.halves)
                if summary.isDefined():
                    times = summary.get().duration()
                    skew = max(skew, times.apply(1) / max(times.apply(0), 1.0))
        return {**found, "jobs": last - self.first, "peak": peak, "skew": skew}
