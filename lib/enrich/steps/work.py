"""One job's run inside Spark: what all steps of the flow share."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from enrich.base.result import BLOCKED, Finding, JobResult
from enrich.base.spec import JoinSpec, quote
from enrich.frames import join, normalise
from enrich.frames.identity import Identity
from enrich.progress.prepare import Task
from enrich.storage import tables


@dataclass
class Work:
    """One job's run inside Spark.

    Attributes:
        session: The job's own session.
        cleanup: Releases what the stages persisted.
        result: What is known of the run's result; grows from stage to stage.
        seconds: Stage -> how long it took; fills as the stages end.
    """

    task: Task
    session: SparkSession
    cleanup: ExitStack
    result: JobResult = field(init=False)
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        task = self.task
        self.result = JobResult(
            task.job.job, BLOCKED, task.mode, dict(task.window), findings=task.unjudged, stages=self.seconds
        )

    def keep(self, frame: DataFrame) -> DataFrame:
        """Persist a frame until the job ends."""
        frame = frame.persist()
        self.cleanup.callback(frame.unpersist)
        return frame

    def snapshot(self, alias: str, version: int | None = None, *, null_keys: bool = False) -> DataFrame:
        """Return the rows of a source, at the window's end unless told otherwise, with or only without a whole key."""
        source, state = self.task.spec.sources[alias], self.task.tables[alias]
        names, end = list(source.columns), self.task.window[alias].to
        rows = tables.read_snapshot(self.session, state.uri, end, names)
        if version is not None and version != end:  # the source may have gained columns since
            rows = tables.read_snapshot(self.session, state.uri, version, names, like=rows)
        rows = normalise.normalise_keys(rows, source)
        is_null = reduce(or_, [F.col(quote(name)).isNull() for name in source.key])
        return rows.where(is_null if null_keys else ~is_null)

    def sources(self, *, before: bool = False, at: Mapping[str, int | None] | None = None) -> join.Sources:
        """Return all snapshots, at the window's end or before it, or at other versions."""
        spec = self.task.spec
        assert isinstance(spec, JoinSpec)  # noqa: S101 - callers have looked at the kind
        versions = at or {alias: each.start if before else None for alias, each in self.task.window.items()}
        return join.Sources(spec, {alias: self.snapshot(alias, versions[alias]) for alias in spec.sources})


def build_finding(rule: str, action: str, counts: tuple[int, int], alias: str | None) -> Finding:
    """Return what a built-in rule found wanting: rows checked, and rows that failed."""
    return Finding(None, rule, None, action, counts[0], counts[1], success=False, source=alias)


def identify_rows(task: Task) -> Identity:
    """Return how the target's rows are told apart."""
    return Identity(task.spec.identity, task.spec.right_identity)


def read_target(work: Work) -> DataFrame | None:
    """Return the target's rows at its pinned version; None when it does not exist."""
    table = work.task.target.table
    if table is None:
        return None
    names = [name for name in work.task.spec.columns if name in table.columns]
    return tables.read_snapshot(work.session, table.uri, table.version, names)
