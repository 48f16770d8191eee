"""Say what a run would do, before anything is written: versions, changed and affected keys, refusals, and its cost.

``enrich plan`` takes no lock and writes no row, and starts a JVM only for jobs whose sources moved: keys are counted by
the steps that a run takes. What it reads and does to its target is forecast from logs and the footers of files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from math import ceil, inf
from typing import TYPE_CHECKING, Any

from enrich.base import hints, result
from enrich.base.errors import Blocked, format_bytes
from enrich.base.failures import SPARK, require_extra
from enrich.base.names import identify
from enrich.base.result import BLOCKED, Extent, JobResult, ShownJobs, SourceWindow, Told, name_deployment
from enrich.base.spec import list_sharing, quote
from enrich.base.suites import TARGET
from enrich.delta import extents, forecasts, tables
from enrich.joins import find_kind
from enrich.operations.loading import choose_jobs, read_run_options
from enrich.operations.workplace import Workplace
from enrich.progress.decision import decide_plan
from enrich.progress.plan import BOOTSTRAP, FULL_REFRESH, Plan
from enrich.progress.since import Said
from enrich.project.models import Job
from enrich.project.project import Project, find_edges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.base.spec import Affected
    from enrich.steps.source_changes import Changes


@dataclass(frozen=True)
class Forecast(Told):
    """What a run would do to one target.

    Attributes:
        strategy: ``create rewrite compare merge cursor nothing``; a merge that brings new rows alone is an append.
        reads: About: the files in which the sources' commits tell what changed, and those of the tables beside them;
            the bytes of the columns that are read, as often as they are.
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
DESCRIBE = replace(IDLE, why="no source has changed; the target gets the comments that the files have for it")


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
class PlanResult(ShownJobs):
    """What one ``enrich plan`` found."""

    deployment: str
    jobs: tuple[JobPlan, ...] = ()

    def summarise(self) -> tuple[str, list[dict[str, object]]]:
        """Return whether there is something to do, and the jobs."""
        line = f"plan, deployment {self.deployment}: {sum(job.has_work for job in self.jobs)} of {len(self.jobs)} jobs"
        return f"{line} have work", self.show_jobs("job", "mode", "has_work", "affected_keys", "refused")

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

    Without ``spark``, the active session is used, or one is built when keys must be counted. An unknown job, or an
    option that cannot be honoured, is a ConfigError.
    """
    names = choose_jobs(project, jobs, exclude)
    options = read_run_options(
        project, names, since, until, allow_gap=allow_gap, full_refresh=full_refresh, dry_run=True
    )
    workplace = Workplace(project, names, options, given=spark, by_changes=True)
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
            found = workplace.open_inside(plan, lambda opened, own: _count_keys(workplace.fit(opened, own), own, found))
    except Exception as error:  # noqa: BLE001 - a refusal is what a plan is asked for
        known = workplace.describe(job, error)
        return JobPlan(name, after=after, refused=str(known), exit_code=known.exit_code)
    return found


def _count_keys(plan: Plan, session: SparkSession, found: JobPlan) -> JobPlan:
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


# --- the forecast: what a run reads and writes; no row is read for that -----------------------------------------------


def refuse_beyond_cap(plan: Plan) -> JobResult | None:
    """Return the result of a job that would read more than ``--max-bytes``; None for any other. Nothing is read."""
    cap, name = plan.options.max_bytes, plan.job.job
    if cap is None:
        return None
    require_extra(SPARK)
    found = foresee_reads(plan)[0].bytes
    if found <= cap:
        return None
    allowing = hints.run(name, replace(plan.asked, max_bytes=found))
    said = f"job {name!r} would read about {format_bytes(found)}, and --max-bytes allows {format_bytes(cap)}"
    hint = f"nothing was read or written; `{allowing}` allows it"
    known = JobResult(name, BLOCKED, plan.mode, dict(plan.window), findings=plan.unjudged, state=plan.recorded_state)
    return known.failed_with(Blocked(said, hint=hint))


def foresee(plan: Plan, changed: Changes | None = None, affected: Affected | None = None) -> Forecast:
    """Tell what a run would do; ``affected``: None for no key, and for all in a run that computes everything."""
    moved = {}
    if changed is not None:
        moved = {alias: alias not in changed.net or changed.net[alias].grown > 0 for alias in changed.differing}
    reads, read = foresee_reads(plan, moved, affected)
    if not plan.everything and (affected is None or not affected.count):
        why = "the record lacks counts of the whole target" if plan.lacks_state else "no change reaches the target"
        return Forecast(result.CURSOR, why, reads, Extent())
    target = plan.target.table
    there = extents.measure_table(target.uri) if target is not None else Extent()
    if affected is None or plan.everything:
        if target is None:
            return Forecast(result.CREATE, "there is no target yet", reads)
        if plan.rewrites:
            lacks = "the target's table cannot hold the rows as they are"
            why = lacks if plan.outgrown else "the definition has changed"
            return Forecast(result.REWRITE, why, reads, there)
        why = "every row is computed and compared with the target"
        return Forecast(result.COMPARE, why, reads, None, extents.find_need(target.uri, plan.optimize))
    why = f"{', '.join(sorted(read))} must be read, too" if read else "the feeds hold all rows that are needed"
    explain = getattr(find_kind(plan.spec), "explain_reads", lambda _: None)
    why = ": ".join(filter(None, (why, explain(plan))))
    state, writes, refresh = plan.recorded_state, None, None
    if state is not None:
        if state.rows:  # else the target has none to go by
            writes = Extent(min(there.files, affected.count) + 1, ceil(affected.count * there.bytes / state.rows))
        # A full refresh of a history may lose something.
        if 2 * affected.count >= state.rows and not plan.spec.remembers:
            refresh = foresee_reads(replace(plan, mode=FULL_REFRESH))[0]
    marks = "deletion vectors mark the rows that go"
    if there.bytes <= extents.SMALL_TABLE:
        writes, marks = there, "the target is small: files with changed rows are written anew"
    is_worth = refresh is not None and refresh.bytes <= reads.bytes
    upkeep = None if target is None else extents.find_need(target.uri, plan.optimize)  # by the files of now
    return Forecast(result.MERGE, f"{why}; {marks}", reads, writes, upkeep, refresh if is_worth else None)


def foresee_reads(
    plan: Plan, moved: Mapping[str, bool] | None = None, affected: Affected | None = None
) -> tuple[Extent, set[str]]:
    """Return what a run reads, and the sources whose tables it reads beside their feeds.

    ``moved``: alias of each source that differs -> whether rows of new keys may have come; None: nobody knows yet, and
    all with commits do. ``affected``: None: nobody knows how many.
    """
    spec, target, beside = plan.spec, plan.target.table, plan.target.quarantine
    there = extents.measure_table(target.uri) if target is not None else Extent()
    whole = {alias: extents.measure_table(each.uri) for alias, each in plan.tables.items()}
    sizes = {**whole}
    measure_share = cache(lambda alias, names: _find_share(plan.tables[alias], names))
    used = {alias: tuple(source.columns) for alias, source in spec.sources.items()}
    feeds = {} if plan.everything else {alias: _measure_feed(plan, alias, sizes[alias]) for alias in plan.window}
    if moved is None:
        moved = {alias: True for alias, each in feeds.items() if each.bytes}
    if (ends := _find_ends(plan, moved)) is not None and target is not None:
        there = forecasts.measure_near(target.uri, spec.identity[0], ends)
        near = {alias: spec.sources[alias].key[0] for alias in list_sharing(spec)}
        sizes |= {alias: forecasts.measure_near(plan.tables[alias].uri, key, ends) for alias, key in near.items()}
    costs = [(each.bytes, alias, used[alias]) for alias, each in feeds.items()]
    scans, beside_it = list[tuple[str, tuple[str, ...]]](), Extent()
    if plan.everything or moved or plan.unsearched:
        from enrich.delta.sink import wants_places

        scans += [(alias, tuple(names or used[alias])) for alias, names in find_kind(spec).list_reads(plan, moved)]
        scans += [(alias, used[alias]) for alias, window in plan.window.items() if window.gap is not None]
        # Of the keys that a feed names, the other rows are read, too.
        scans += [(alias, used[alias]) for alias in moved if spec.sources[alias].is_derived]
        if beside is not None:  # it has rows without a key, which no feed names: they are in the driving source
            scans.append((spec.driving, used[spec.driving]))
            beside_it = extents.measure_table(beside.table.uri)
        # The target's old rows are read; a MERGE finds the files with such rows once more, and writes these anew.
        rules = plan.judging_suite.rules if plan.judging_suite is not None else ()
        others = [rule for rule in rules if rule.judged_scope == TARGET and not rule.spec.is_row]
        once_more = (spec.remembers or not wants_places(target), plan.lacks_state, bool(others))
        times = 1.0 if plan.everything else 1 + sum(once_more)
        state, count = plan.recorded_state, inf if affected is None else affected.count
        if affected is None and state is not None and {*moved} <= {*list_sharing(spec)}:
            count = state.rows * sum(feeds[each].bytes / max(whole[each].bytes, 1) for each in moved)
        knows = getattr(find_kind(spec), "knows_old", lambda *_: False)
        if target is not None and wants_places(target) and knows(plan, count):  # by keys alone: steps/publish.py
            times += _find_share(target, [*spec.identity, *spec.right_identity]) - 1
        beside_it += replace(there, bytes=ceil(there.bytes * times))
    elif plan.lacks_state:
        scans, beside_it = [*used.items()], there
    read = {alias for alias, _ in scans} | plan.unsearched
    # Two rows with one key are looked for where rows of new keys may have come.
    grown = {*spec.sources} if plan.everything else {alias for alias, new in moved.items() if new}
    searched = [a for a in grown | plan.unsearched if spec.sources[a].is_searched and not spec.remembers]
    costs += [(sizes[alias].bytes, alias, names) for alias, names in scans]
    costs += [(sizes[alias].bytes, alias, spec.sources[alias].key) for alias in searched]
    files = sum(each.files for each in (*feeds.values(), *[sizes[alias] for alias in read]))
    found = Extent(files, ceil(sum(size * measure_share(alias, names) for size, alias, names in costs)))
    return found + beside_it, read


def _find_share(table: tables.TableState, names: Iterable[str]) -> float:
    return forecasts.find_share(table.uri, [table.layout[name].get(f".{quote(name)}", name) for name in names])


def _find_ends(plan: Plan, moved: Collection[str]) -> tuple[int, int] | None:
    """Return between which keys all changes lie where these alone are affected: files beyond are skipped; else None."""
    spec = plan.spec
    alone = spec.key_columns == spec.sources[spec.driving].key and {*moved} <= {*list_sharing(spec)}
    if not alone or not moved or spec.remembers or spec.adds_rows:
        return None
    if plan.everything or plan.again or plan.lacks_state or plan.unsearched:
        return None
    found = []
    for alias in moved:
        start, to = plan.window[alias].start, plan.window[alias].to
        commits = range(to if start is None else start + 1, to + 1)
        found.append(forecasts.find_ends(plan.tables[alias].uri, commits, spec.sources[alias].key[0]))
    known = [each for each in found if each is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if len(known) == len(found) else None


def _measure_feed(plan: Plan, alias: str, there: Extent) -> Extent:
    """Measure the files in which the commits that a run reads of a source tell what changed.

    Where a feed does not tell all, it is the source's table at both ends of the range, each about as large as now.
    """
    window, uri, found, versions = plan.window[alias], plan.tables[alias].uri, Extent(), set[int]()
    for first, last in {(window.to if window.start is None else window.start, window.to), *plan.again.get(alias, ())}:
        if first == last:
            continue
        from enrich.steps.source_changes import read_range, tells_all

        told, inside = read_range(plan, alias, (first, last)), {*range(first + 1, last + 1)}
        apart = {*tables.list_apart(uri, told)} if plan.spec.remembers else set()
        if not plan.spec.remembers and not tells_all(plan, alias, told):
            apart, inside = {last}, set()
        found += sum((there + there for _ in apart), Extent())
        versions |= inside - apart
    together = [[each] for each in versions] if plan.spec.remembers else [versions]
    return found + sum((forecasts.measure_feed(uri, each) for each in together), Extent())
