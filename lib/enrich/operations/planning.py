"""Say what a run would do, before anything is written: versions, commits, changed and affected keys, refusals.

``enrich plan`` takes no lock and writes no row, and starts a JVM only for jobs whose sources moved: keys are counted by
the steps that a run takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Any

from enrich.base import result
from enrich.base.errors import find_gravest
from enrich.base.names import identify
from enrich.base.result import Extent, SourceWindow, Told, name_deployment
from enrich.delta import extents, tables
from enrich.joins import find_kind
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
    from enrich.steps.run import Run
    from enrich.steps.source_changes import Changes


@dataclass(frozen=True)
class Forecast(Told):
    """What a run would do to one target.

    Attributes:
        strategy: ``create rewrite compare merge cursor nothing``; a merge that brings new rows alone is an append.
        reads: At most: the files in which the sources' commits tell what changed, and the tables beside them.
        writes: About: the files of a small target or of one that is written anew; else the affected rows, each as large
            as the target's on average, in one file more than they are spread over. None where nobody knows.
        optimize: Why it would run OPTIMIZE on the target after its commit; None when nothing calls for it yet.
        refresh: What a full refresh would read, where that is no more than the run reads for at least half of the
            target's rows; None elsewhere. The run does not turn into one: its rules would judge other rows (ADR 16).
    """

    strategy: str
    why: str
    reads: Extent
    writes: Extent | None = None
    optimize: str | None = None
    refresh: Extent | None = None


IDLE = Forecast(result.NOTHING, "no source has changed", Extent(), Extent())
SWITCH = replace(IDLE, why="no source has changed; the target's change feed is switched on for its first reader")


def foresee_count(plan: Plan) -> Forecast:
    """Tell what a run would do that only counts what the record of its target lacks: it reads target and sources."""
    places = [*plan.tables.values(), *([plan.target.table] if plan.target.table is not None else [])]
    reads = sum((extents.measure_table(each.uri) for each in places), Extent())
    return Forecast(result.CURSOR, "the record lacks counts of the whole target", reads, Extent())


def foresee(run: Run, changed: Changes, affected: Affected | None) -> Forecast:
    """Tell what a run would do; ``affected``: None for no key, and for all in a run that computes everything."""
    plan, target = run.plan, run.plan.target.table
    if not plan.everything and (affected is None or not affected.count):
        feeds = _measure_feeds(run, changed)
        if plan.lacks_state:
            found = foresee_count(plan)
            return replace(found, reads=found.reads + feeds)
        return Forecast(result.CURSOR, "no change reaches the target", feeds, Extent())
    there = extents.measure_table(target.uri) if target is not None else Extent()
    sizes = {alias: extents.measure_table(each.uri) for alias, each in plan.tables.items()}
    whole = sum(sizes.values(), there)
    if affected is None or plan.everything:
        if target is None:
            return Forecast(result.CREATE, "there is no target yet", whole)
        if plan.rewrites:
            why = (
                "the target's table cannot hold the rows as they are" if plan.outgrown else "the definition has changed"
            )
            return Forecast(result.REWRITE, why, whole, there)
        why = "every row is computed and compared with the target"
        return Forecast(result.COMPARE, why, whole, None, _foresee_upkeep(plan))
    beside = plan.target.quarantine
    # A quarantine has rows without a key, which no feed names: they are looked for in the driving source.
    keyless = {plan.spec.driving} if beside is not None else set()
    left_out = {alias for alias, window in plan.window.items() if window.gap is not None}
    tables_read = find_kind(plan.spec).list_tables_read(run, changed, affected)
    read = sorted(plan.unsearched | keyless | left_out | tables_read)
    held = extents.measure_table(beside.table.uri) if beside is not None else Extent()
    reads = sum((sizes[alias] for alias in read), _measure_feeds(run, changed) + there + held)
    why = f"{', '.join(read)} must be read, too" if read else "the feeds hold all rows that are needed"
    state, writes, is_worth = plan.recorded_state, None, False
    if state is not None:
        if state.rows:  # else the target has none to go by
            size = ceil(affected.count * there.bytes / state.rows)
            writes = Extent(min(there.files, affected.count) + 1, size)
        # A full refresh of a history may lose something.
        is_half = 2 * affected.count >= state.rows and not plan.spec.remembers
        is_worth = is_half and whole.bytes <= reads.bytes
    marks = "deletion vectors mark the rows that go"
    if there.bytes <= extents.SMALL_TABLE:
        writes, marks = there, "the target is small: files with changed rows are written anew"
    refresh = whole if is_worth else None
    return Forecast(result.MERGE, f"{why}; {marks}", reads, writes, _foresee_upkeep(plan), refresh)


def _foresee_upkeep(plan: Plan) -> str | None:
    """Return why a run that writes rows would run OPTIMIZE, going by the files that the target has now."""
    table = plan.target.table
    if table is None or plan.optimize is None or not plan.optimize.after_commit:
        return None
    return extents.find_need(table.uri, plan.optimize)


def _measure_feeds(run: Run, changed: Changes) -> Extent:
    """Measure the files in which the commits that a run reads tell what changed.

    Where a feed does not tell all, it is the source's table at both ends of the range, each about as large as now.
    """
    plan, found = run.plan, Extent()
    for alias, window in plan.window.items():
        start = window.to if window.start is None else window.start
        read = {(start, window.to), *plan.again.get(alias, ())}
        compared = changed.compared.get(alias, frozenset())
        versions = {version for start, end in read - compared for version in range(start + 1, end + 1)}
        versions -= {end for _, end in compared - read}  # single commits of a history's window
        there = extents.measure_table(plan.tables[alias].uri) if compared else Extent()
        found += sum((there + there for _ in compared), Extent())
        found += sum((extents.measure_feed(plan.tables[alias].uri, version) for version in sorted(versions)), Extent())
    return found


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
        if plan.needs_feed:
            found = replace(found, has_work=True, forecast=SWITCH)
        if plan.lacks_state and plan.target.table is not None:
            found = replace(found, has_work=True, forecast=foresee_count(plan))
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
        forecast = foresee(run, changed, affected)
        found = replace(found, mode=plan.mode, sources=sources, affected_keys=count, has_work=True, forecast=forecast)
        try:
            gate.open_account(run).add(changed.findings, sources=changed.window)
        except gate.Closed as closed:
            refused = gate.refuse_run(closed, plan)
            return replace(found, refused=refused.error, exit_code=refused.exit_code)
        return found
