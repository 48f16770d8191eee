"""What a run would do, before anything is written: versions, commits, changed and affected keys, and what is refused.

``enrich plan`` takes no lock and writes no row, and starts a JVM only for jobs whose sources moved: keys are counted by
the steps that a run takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from enrich.base.errors import find_gravest
from enrich.base.names import find_quarantine, identify
from enrich.base.result import SourceWindow, name_deployment
from enrich.config.models import Job
from enrich.config.project import Project, find_upstream
from enrich.operations.choice import choose_jobs, read_window
from enrich.operations.forecast import IDLE, SWITCH, Forecast, foresee, foresee_count
from enrich.operations.workplace import Options, Workplace
from enrich.progress.prepare import foresee_mode, open_task
from enrich.progress.since import Said
from enrich.progress.task import BOOTSTRAP, Task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.base.spec import Affected
    from enrich.steps.source_changes import Changes
    from enrich.steps.work import Work


@dataclass(frozen=True)
class SourcePlan:
    """What a run would take from one source.

    Attributes:
        window: Versions and, where they were counted, changed keys (at a first run and a full refresh: rows).
        affected: Target keys that these changes reach; None when every key is computed.
    """

    window: SourceWindow
    affected: int | None = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the source's part of the JSON."""
        start = -1 if self.window.start is None else self.window.start
        return {**self.window.to_dict(), "commits": self.window.to - start, "affected_keys": self.affected}


@dataclass(frozen=True)
class JobPlan:
    """What a run would do with one job.

    Attributes:
        mode: As in a result; None when the job would not get that far.
        affected: Target keys to compute; None for all of them.
        has_work: Whether the run would start Spark for it.
        after: Jobs of this plan that write one of its sources first; what they bring is not in these numbers.
        refused: Why the run would end here, with the next step.
        exit_code: What the job would end with, as far as can be known before its rows are computed.
        forecast: What the run would do to the target; None when the job would not get that far.
    """

    job: str
    mode: str | None = None
    sources: dict[str, SourcePlan] = field(default_factory=dict)
    affected: int | None = 0
    has_work: bool = False
    after: tuple[str, ...] = ()
    refused: str | None = None
    exit_code: int = 0
    forecast: Forecast | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the job's part of the JSON."""
        return {
            "job": self.job,
            "mode": self.mode,
            "sources": {alias: source.to_dict() for alias, source in self.sources.items()},
            "affected_keys": self.affected,
            "has_work": self.has_work,
            "after": list(self.after),
            "refused": self.refused,
            "exit_code": self.exit_code,
            "forecast": self.forecast.to_dict() if self.forecast is not None else None,
        }


@dataclass(frozen=True)
class PlanResult:
    """What one ``enrich plan`` found."""

    deployment: str
    jobs: tuple[JobPlan, ...] = ()

    @property
    def exit_code(self) -> int:
        """The most serious of the exit codes that the jobs would end with."""
        return find_gravest([job.exit_code for job in self.jobs])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich plan --output json``."""
        jobs = [job.to_dict() for job in self.jobs]
        return {**name_deployment(self.deployment), "exit_code": self.exit_code, "jobs": jobs}


def plan(  # noqa: PLR0913 - the public interface: every keyword is an option of `enrich plan`
    project: Project,
    jobs: Sequence[str] | None = None,
    *,
    exclude: Iterable[str] = (),
    spark: SparkSession | None = None,
    since: Said = None,
    until: Said = None,
    allow_gap: bool = False,
    full_refresh: bool = False,
) -> PlanResult:
    """Say what ``run`` with the same arguments would take, compute and refuse; nothing is written.

    Args:
        project: What ``load_project`` gave.
        jobs: Names; None for all.
        exclude: Names to leave out.
        spark: A session, left as it was found; None: the active one, or one is built when keys must be counted.
        since: As for ``run``.
        until: As for ``run``.
        allow_gap: As for ``run``.
        full_refresh: As for ``run``.

    Raises:
        ConfigError: An unknown job, or an option that cannot be honoured.
    """
    names = choose_jobs(project, jobs, exclude)
    bounds = read_window(project, names, (since, until), allow_gap=allow_gap, full_refresh=full_refresh)
    options = Options(full_refresh, dry_run=True, bounds=bounds)
    workplace = Workplace(project, names, options, given=spark)
    workplace.pin()
    found: dict[str, JobPlan] = {}
    for name in names:
        before = [found[other] for other in find_upstream(project, name) if other in found]
        found[name] = _plan_job(workplace, project.jobs[name], before)
    return PlanResult(project.deployment, tuple(found.values()))


def _plan_job(workplace: Workplace, job: Job, before: Sequence[JobPlan]) -> JobPlan:
    """Plan one job; what it would be refused for is part of the plan."""
    name, options = job.job, workplace.options
    for other in before:
        if other.refused is not None:
            return JobPlan(name, refused=f"skipped: it reads job {other.job!r}, which would not succeed")
    after = tuple(other.job for other in before if other.has_work)
    try:
        if unmade := workplace.list_unmade(job, _list_created(workplace, before)):
            mode = foresee_mode(job, *workplace.target(job), unmade, full_refresh=options.full_refresh)
            return JobPlan(name, mode, has_work=True, affected=None, after=after)
        task = open_task(workplace.task(job), full_refresh=options.full_refresh, bounds=options.bounds)
        sources = {alias: SourcePlan(window) for alias, window in task.window.items()}
        found = JobPlan(name, task.mode, sources, after=after, forecast=IDLE)
        if task.needs_feed:
            found = replace(found, has_work=True, forecast=SWITCH)
        if task.lacks_state and task.target.table is not None:
            found = replace(found, has_work=True, forecast=foresee_count(task))
        if task.everything or task.moved or task.again or task.ends_trust:
            found = workplace.open_inside(task, lambda complete, session: _count_keys(complete, session, found))
    except Exception as error:  # noqa: BLE001 - a refusal is what a plan is asked for
        known = workplace.describe(job, error)
        return JobPlan(name, after=after, refused=str(known), exit_code=known.exit_code)
    return found


def _list_created(workplace: Workplace, before: Sequence[JobPlan]) -> set[str]:
    """Return the tables that earlier jobs of a run make, as ``identify`` names them."""
    project = workplace.project
    new = [project.location(project.jobs[other.job].target.table) for other in before if other.mode == BOOTSTRAP]
    return {identify(each) for place in new for each in (place, find_quarantine(place))}


def _count_keys(task: Task, session: SparkSession, found: JobPlan) -> JobPlan:
    """Count changed and affected keys, per source and in all."""
    from enrich.steps import gate, source_changes
    from enrich.steps.outgrown import fit_to_target
    from enrich.steps.work import Work

    task = fit_to_target(task, session)
    with ExitStack() as cleanup:
        work = Work(task, session, cleanup)
        changed = source_changes.read_changes(work)
        single = {alias: _find_affected(work, _select_source(changed, alias)) for alias in changed.window}
        counts = {alias: _count(work, each) for alias, each in single.items()}
        sources = {alias: SourcePlan(window, counts[alias]) for alias, window in changed.window.items()}
        affected = _find_affected(work, changed)
        forecast = foresee(work, changed, affected)
        count = _count(work, affected)
        found = replace(found, mode=task.mode, sources=sources, affected=count, has_work=True, forecast=forecast)
        try:
            gate.require_open(work, changed.findings)
        except gate.Closed as closed:
            refused = gate.refuse_run(work.result, closed.findings, work.task)
            return replace(found, refused=refused.error, exit_code=refused.exit_code)
        return found


def _select_source(changed: Changes, alias: str) -> Changes:
    """Return the changes of one source alone."""
    net = {alias: changed.net[alias]} if alias in changed.net else {}
    again = {alias: changed.again[alias]} if alias in changed.again else {}
    return replace(changed, net=net, again=again)


def _count(work: Work, affected: Affected | None) -> int | None:
    """Count keys that changes reach; None for all."""
    return None if work.task.everything else affected.count if affected is not None else 0


def _find_affected(work: Work, changed: Changes) -> Affected | None:
    from enrich.steps import affected_keys

    return affected_keys.find_affected_keys(work, changed) if changed.differing else None
