"""Open a job to ask about it: its sources as its target has consumed them, and their later versions beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from enrich.answers.reasons import FOREIGN_KEY_NULL, MATCHED, NO_SUCH_KEY, Reason
from enrich.base.errors import RefreshNeeded
from enrich.base.result import SourceWindow
from enrich.base.spec import Affected, JobSpec, Step, name_left_key, name_right_key
from enrich.delta import tables
from enrich.frames.columns import make_comparable, take_column, write_key
from enrich.operations.loading import choose_jobs
from enrich.operations.workplace import Workplace
from enrich.progress.decision import decide_plan
from enrich.progress.plan import Options, Plan
from enrich.project.models import Job
from enrich.project.project import Project
from enrich.steps.run import Run

Answer = TypeVar("Answer")


@dataclass(kw_only=True)
class Inquiry(Run):
    """A job that is asked about, with the tables of its project; its window ends where the target's cursor does."""

    workplace: Workplace

    @cached_property
    def read_times(self) -> Callable[[str], Mapping[int, int]]:
        """Return when the versions of a source were written, in milliseconds; each log is read once."""
        return cache(lambda alias: tables.read_commits(tables.open_log(self.plan.tables[alias].uri)))


def open_recorded(project: Project, name: str, spark: SparkSession | None) -> tuple[Workplace, Plan]:
    """Return where a job is asked about, and the job with its window ending where the target's cursor does.

    Without target, the window ends at the latest versions. Errors: no such job, it does not fit its tables
    (ConfigError), or its target was written from another definition or other sources (HistoryError), or by somebody
    else (DriftError).
    """
    workplace = Workplace(project, choose_jobs(project, [name], ()), Options(), "", spark)
    return workplace, open_consumed(workplace, project.jobs[name])


def open_consumed(workplace: Workplace, job: Job) -> Plan:
    """Return a job as ``open_recorded`` does, in a workplace that is there."""
    try:
        plan = decide_plan(replace(workplace.open_job(job, as_recorded=True), options=Options(allow_gap=True)))
    except RefreshNeeded as error:
        raise workplace.describe(job, error) from error
    starts = {alias: each.gap[0] if each.gap is not None else each.start for alias, each in plan.window.items()}
    consumed = {alias: start if start is not None else plan.window[alias].to for alias, start in starts.items()}
    return replace(plan, window={alias: SourceWindow(end, end) for alias, end in consumed.items()})


def inquire(workplace: Workplace, plan: Plan, session: SparkSession, cleanup: ExitStack) -> Inquiry:
    """Return the job of a plan to be asked about, which sees the latest versions of its sources."""
    latest = {alias: workplace.table(source.table) for alias, source in plan.job.sources.items()}
    return Inquiry(replace(plan, tables=latest), session, cleanup, workplace=workplace)


def answer_inside(workplace: Workplace, plan: Plan, answer: Callable[[Inquiry], Answer]) -> Answer:
    """Answer with the job opened in Spark; what Spark raises becomes one line without values.

    The job is compiled against the tables of ``plan``; the answer sees their latest versions.
    """

    def run(ready: Plan, session: SparkSession) -> Answer:
        with ExitStack() as cleanup:
            return answer(inquire(workplace, ready, session, cleanup))

    try:
        return workplace.open_inside(plan, run)
    except (PySparkException, Py4JJavaError) as error:
        raise workplace.describe(plan.job, error) from error


# --- Which rows of the target: those with a left key, or those that only a lookup has --------------------------------


@dataclass(frozen=True)
class Side:
    """Which rows of a target are asked for.

    A row of a right or full foreign-key join that no driving row refers to has no left key; it is known by the
    lookup's.
    """

    alias: str  # the source whose key they have: the driving one, or for rows without left side the lookup
    columns: tuple[str, ...]  # that source's columns, in the order of the key
    identity: tuple[str, ...]  # the target's columns that hold the key
    right: Step | None = None  # the join that keeps rows without left side, when those are asked for

    @property
    def names(self) -> list[str]:
        """The key's columns in staged frames."""
        return (name_left_key if self.right is None else name_right_key)(len(self.identity))


def list_sides(spec: JobSpec) -> list[Side]:
    """Return the rows with a left key, and where a join keeps them those that only its lookup has."""
    left, right = Side(spec.driving, spec.key_columns, spec.identity[: len(spec.key_columns)]), spec.right_step
    if right is None:
        return [left]
    return [left, Side(right.alias, spec.sources[right.alias].key, spec.right_identity, right)]


def build_affected(run: Run, side: Side, keys: DataFrame) -> Affected:
    """Return the keys to look at, and none of the other side."""
    other = {each.right is None: each for each in list_sides(run.plan.spec)}.get(side.right is not None)
    if other is None:
        return Affected(keys)
    none = run.snapshot(other.alias).select(*map(take_column, other.columns)).toDF(*other.names).limit(0)
    return Affected(keys, none) if side.right is None else Affected(none, keys)


def assume_reasons(spec: JobSpec, side: Side, asked: Sequence[str], driving: Reason | None = None) -> dict[str, Reason]:
    """Return the reasons, by alias, of a row that refers to no source, not even with a null.

    A source that a driving row refers to not even once has nothing to miss. Where there is no driving row, nothing
    refers to a source: it has the driving source's reason, ``driving``. A row without left side is one that the driving
    source has no row for; what only the left side would refer to is null. ``asked`` are the sources that rows of this
    side may refer to.
    """
    if side.right is not None:
        nothing = dict.fromkeys(spec.sources, Reason(FOREIGN_KEY_NULL)) | {spec.driving: Reason(NO_SUCH_KEY)}
        return nothing | dict.fromkeys(asked, Reason(MATCHED))
    if driving is None or driving.reason == MATCHED:
        return dict.fromkeys(spec.sources, Reason(MATCHED))
    return dict.fromkeys(spec.sources, replace(driving, source=spec.driving))


def find_dependencies(spec: JobSpec, side: Side, column: str) -> list[str]:
    """Return the sources that a target column depends on, in the order of the joins.

    A right or full table join gives a row also to a key that the joins before it have removed or not met. The last
    source that the column reads comes once more in the end: a null that no missing partner explains stands there.
    """
    if not spec.outputs:
        return [spec.driving]
    used = {path[0] for output in spec.outputs if output.name == column for path in output.paths}
    # What leads to the lookup on the left is not there in a row without left side, and not missed.
    ends = {each.alias for each in (() if side.right is None else spec.steps[: spec.steps.index(side.right)])}
    for step in reversed(spec.steps):
        if step.alias in used and step != side.right:
            used |= step.reads - ends - {spec.driving}
    if side.right is not None and "key" in used:
        used.add(spec.driving)
    order = [spec.driving, *[step.alias for step in spec.steps]]
    read = [alias for alias in order if alias in used]
    widening = [place for place, step in enumerate(spec.steps, 1) if step.shares_key and step.keeps_right]
    for alias in read if widening and side.right is None else ():
        # Of the joins up to where it is read, the last that gives rows to other keys: those before it remove nothing.
        first = max((place for place in widening if place <= order.index(alias)), default=0)
        removing = [step.alias for step in spec.steps[max(first - 1, 0) :] if step.how in ("inner", "right")]
        used.update(removing if first else [spec.driving, *removing])
    return [*[alias for alias in order if alias in used], *read[-1:]]


def write_keys(rows: DataFrame, names: Sequence[str]) -> dict[str, Column]:
    """Return the parts of a key, by their names, as texts: one for equal values. Python has not all dates."""
    kinds = {name: rows.schema[name].dataType for name in names}
    return {name: write_key(make_comparable(F.col(name), kind), kind) for name, kind in kinds.items()}
