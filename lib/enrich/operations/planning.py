"""Say what a run would do, before anything is written: versions, commits, changed and affected keys, refusals.

``enrich plan`` takes no lock and writes no row, and starts a JVM only for jobs whose sources moved: keys are counted by
the steps that a run takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from enrich.base import result
from enrich.base.errors import find_gravest
from enrich.base.names import identify
from enrich.base.result import Shown, SourceWindow, Told, name_deployment, show_jobs
from enrich.delta import tables
from enrich.operations.forecast import DESCRIBE, IDLE, SWITCH, Forecast, foresee
from enrich.operations.loading import choose_jobs, read_run_options
from enrich.operations.workplace import Workplace
from enrich.progress.decision import decide_plan
from enrich.progress.plan import BOOTSTRAP, Plan
from enrich.progress.since import Said
from enrich.project.models import Job
from enrich.project.project import Project, find_edges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.base.spec import Affected
    from enrich.steps.source_changes import Changes


@dataclass(frozen=True)
class SourcePlan(SourceWindow):
    """What a run would take from one source, and how many target keys that reaches; None for all of them."""

    commits: int = 0
    affected_keys: int | None = 0

    @staticmethod
    def of(window: SourceWindow, affected: int | None = 0) -> SourcePlan:
        """Complete a window; its ``changes`` are rows at a first run and a full refresh."""
        start = result.BEFORE_ALL if window.start is None else window.start
        return SourcePlan(**vars(window), commits=window.to - start, affected_keys=affected)


@dataclass(frozen=True)
class JobPlan(Told):
    """What a run would do with one job; what is known before its rows are computed.

    Attributes:
        mode: As in a result; None when the job would not get that far, or reads tables that the run makes first.
        affected_keys: Target keys to compute; None for all of them.
        has_work: Whether the run would start Spark for it.
        after: Jobs of this plan that write one of its sources first; what they bring is not in these numbers.
        refused: Why the run would end here, with the next step.
    """

    job: str
    mode: str | None = None
    sources: dict[str, SourcePlan] = field(default_factory=dict)
    affected_keys: int | None = 0
    has_work: bool = False
    after: tuple[str, ...] = ()
    refused: str | None = None
    exit_code: int = 0
    forecast: Forecast | None = None


@dataclass(frozen=True, repr=False)
class PlanResult(Shown):
    """What one ``enrich plan`` found."""

    deployment: str
    jobs: tuple[JobPlan, ...] = ()

    @property
    def exit_code(self) -> int:
        """The most serious of the exit codes that the jobs would end with."""
        return find_gravest([job.exit_code for job in self.jobs])

    def summarise(self) -> tuple[str, list[dict[str, object]]]:
        """Return whether there is something to do, and the jobs."""
        line = f"plan, deployment {self.deployment}: {sum(job.has_work for job in self.jobs)} of {len(self.jobs)} jobs"
        return f"{line} have work", show_jobs(self.jobs, "job", "mode", "has_work", "affected_keys", "refused")

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

    Without ``spark``, the active session is used, or one is built when keys must be counted.

    Raises:
        ConfigError: An unknown job, or an option that cannot be honoured.
    """
    names = choose_jobs(project, jobs, exclude)
    options = read_run_options(
        project, names, since, until, allow_gap=allow_gap, full_refresh=full_refresh, dry_run=True
    )
    workplace = Workplace(project, names, options, given=spark)
    workplace.pin()
    found: dict[str, JobPlan] = {}
    edges = find_edges(project)
    for name in names:
        before = [found[other] for other in edges[name] if other in found]
        found[name] = _plan_job(workplace, project.jobs[name], before)
    return PlanResult(project.deployment, tuple(found.values()))


def _plan_job(workplace: Workplace, job: Job, before: Sequence[JobPlan]) -> JobPlan:
    """Plan one job; what it would be refused for is part of the plan."""
    name = job.job
    for other in before:
        if other.refused is not None:
            return JobPlan(name, refused=f"skipped: it reads job {other.job!r}, which would not succeed")
    after = tuple(other.job for other in before if other.has_work)
    try:
        # Tables that earlier jobs of a run make: nothing is known of a job before all of its sources are there.
        created = workplace.list_tables_written(other.job for other in before if other.mode == BOOTSTRAP)
        places = [workplace.project.location(each.table) for each in job.sources.values()]
        absent = [each for each in places if (uri := workplace.locate(each)) is None or not tables.exists(uri)]
        if absent and all(identify(each) in created for each in absent):
            mode = BOOTSTRAP if workplace.target(job)[0].table is None else None
            return JobPlan(name, mode, has_work=True, affected_keys=None, after=after)
        plan = decide_plan(workplace.open_job(job))
        sources = {alias: SourcePlan.of(window) for alias, window in plan.window.items()}
        found = JobPlan(name, plan.mode, sources, after=after, forecast=IDLE)
        if plan.needs_feed or plan.new_comments:
            found = replace(found, has_work=True, forecast=SWITCH if plan.needs_feed else DESCRIBE)
        if plan.lacks_state and plan.target.table is not None:
            found = replace(found, has_work=True, forecast=foresee(plan))
        if plan.everything or plan.moved or plan.again or plan.unsearched:
            found = workplace.open_inside(
                plan, lambda complete, own: _count_keys(workplace.fit(complete, own), own, found)
            )
    except Exception as error:  # noqa: BLE001 - a refusal is what a plan is asked for
        known = workplace.describe(job, error)
        return JobPlan(name, after=after, refused=str(known), exit_code=known.exit_code)
    return found


def _count_keys(plan: Plan, session: SparkSession, found: JobPlan) -> JobPlan:
    """Count changed and affected keys, per source and in all."""
    from enrich.steps import gate, source_changes
    from enrich.steps.rows import find_affected_keys
    from enrich.steps.run import Run

    with ExitStack() as cleanup:
        run = Run(plan, session, cleanup)
        changed = source_changes.read_changes(run)

        def find(changes: Changes) -> tuple[Affected | None, int | None]:
            affected = find_affected_keys(run, changes) if changes.differing else None
            return affected, None if plan.everything else affected.count if affected is not None else 0

        sources = {}
        for alias, window in changed.window.items():
            net = {alias: changed.net[alias]} if alias in changed.net else {}
            again = {alias: changed.again[alias]} if alias in changed.again else {}
            sources[alias] = SourcePlan.of(window, find(replace(changed, net=net, again=again))[1])
        affected, count = find(changed)
        forecast = foresee(plan, changed, affected)
        found = replace(found, mode=plan.mode, sources=sources, affected_keys=count, has_work=True, forecast=forecast)
        try:
            gate.open_account(run).add(changed.findings, sources=changed.window)
        except gate.Closed as closed:
            refused = gate.refuse_run(closed, plan)
            return replace(found, refused=refused.error, exit_code=refused.exit_code)
        return found
