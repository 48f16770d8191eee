"""All jobs of one run: their order, one consistent cut of their sources, one result; a JVM only when there is work."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

from enrich import cursor, locks, quarantine, tables, window
from enrich.config import graph
from enrich.config.models import Job
from enrich.config.places import CatalogName, sibling
from enrich.config.project import Project
from enrich.cursor import TargetState
from enrich.errors import ConfigError, EnrichError
from enrich.failures import named
from enrich.faults import point
from enrich.prepare import Place, Task, announce, check_free, check_sources, compiled, opened, whole
from enrich.result import FAILED, SKIPPED, UNCHANGED, JobResult, Quarantine, RunResult
from enrich.retries import retried
from enrich.runs import RunsTable, outcome_row
from enrich.since import Bounds, Said, asked_for
from enrich.tables import TableState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("enrich")

Done = TypeVar("Done")


@dataclass(frozen=True)
class Options:
    """How to run.

    Attributes:
        full_refresh: Compute all keys anew.
        dry_run: Compute and count, write nothing.
        retry_quarantined: Compute the rows that a quarantine holds again.
        accepted: Names of rules that shall not block.
        bounds: What was said of the windows.
    """

    full_refresh: bool = False
    dry_run: bool = False
    retry_quarantined: bool = False
    accepted: frozenset[str] = frozenset()
    bounds: Bounds = field(default_factory=Bounds)


def run(  # noqa: PLR0913 - the public interface: every keyword is an option of `enrich run`
    project: Project,
    jobs: Sequence[str] | None = None,
    *,
    exclude: Iterable[str] = (),
    spark: SparkSession | None = None,
    since: Said = None,
    until: Said = None,
    allow_gap: bool = False,
    full_refresh: bool = False,
    dry_run: bool = False,
    retry_quarantined: bool = False,
    accept: Iterable[str] = (),
    fail_fast: bool = False,
    on_result: Callable[[JobResult], None] | None = None,
) -> RunResult:
    """Run jobs in the order of their dependencies.

    Args:
        project: What ``load_project`` gave.
        jobs: Names; None for all.
        exclude: Names to leave out.
        spark: A Delta-capable session, left as it was found; None: the active one, or one is built when there is work.
        since: Widen each window back to here, in a form of ``enrich.since``; several as a sequence or comma-separated.
        until: End each window here; the same forms. With both, replay that window.
        allow_gap: Let ``since`` skip changes that are not in the target yet; the cursor records the gap.
        full_refresh: Compute every row anew and write the difference.
        dry_run: Compute and count, write nothing.
        retry_quarantined: Compute the rows that a quarantine holds again, even if no source has moved.
        accept: Rules of the jobs (``mass_change`` ...) that shall warn in this run where they would block it.
        fail_fast: Skip the remaining jobs after the first that does not succeed.
        on_result: Called with each job's result as it ends.

    Returns:
        One result per job; a failed job is a result, not an exception.

    Raises:
        ConfigError: An unknown job, or an option that cannot be honoured.
    """
    names = chosen(project, jobs, exclude)
    accepted = _accepted(project, names, accept)
    aliases = {name: project.jobs[name].sources for name in names}
    bounds = asked_for(aliases, (since, until), allow_gap=allow_gap, full_refresh=full_refresh)
    options = Options(full_refresh, dry_run, retry_quarantined, accepted, bounds)
    running = Running(project, options, uuid.uuid4().hex, spark)
    running.pin(names)
    results: list[JobResult] = []
    for name in names:
        stopped = fail_fast and any(each.exit_code for each in results)
        try:
            result = running.skipped(name) if stopped else running.job(name)
        except BaseException:  # a signal: what is committed is told, then it takes its way
            if on_result is not None and name in running.done:
                on_result(running.done[name])
            raise
        results.append(result)
        if on_result is not None:
            on_result(result)
    if running.worked and not dry_run:
        from enrich import report

        report.write_latest(project)
    return RunResult(running.run_id, project.target, tuple(results))


def chosen(project: Project, jobs: Sequence[str] | None, exclude: Iterable[str]) -> list[str]:
    """Return the jobs to run, in order; unknown names are errors."""
    out = set(exclude)
    wanted = list(project.jobs) if jobs is None else list(jobs)
    for name in [*wanted, *out]:
        if name not in project.jobs:
            close = get_close_matches(name, project.jobs, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "see `enrich ls`"
            raise ConfigError(f"there is no job {name!r}", hint=hint)
    return graph.ordered([name for name in wanted if name not in out], project)


def _accepted(project: Project, names: Sequence[str], accept: Iterable[str]) -> frozenset[str]:
    """Return the rules to accept; one that none of the jobs can break is an error, it would accept nothing."""
    blocking = {rule.rule for name in names for rule in project.jobs[name].rules if rule.blocks}
    for rule in accept:
        if rule not in blocking:
            hint = f"it can be {', '.join(sorted(blocking))}" if blocking else "leave --accept out"
            raise ConfigError(f"no job of this run has a rule {rule!r} that would block it", hint=hint)
    return frozenset(accept)


@dataclass
class Running:
    """One run's state: pinned tables, the session once it is needed, what became of each job."""

    project: Project
    options: Options
    run_id: str
    given: SparkSession | None = None
    built: SparkSession | None = None
    pins: dict[str, TableState | EnrichError] = field(default_factory=dict)
    places: dict[CatalogName, str | None] = field(default_factory=dict)
    done: dict[str, JobResult] = field(default_factory=dict)
    wrote: set[str] = field(default_factory=set)
    committed: dict[str, JobResult] = field(default_factory=dict)

    @property
    def worked(self) -> bool:
        """True when a job did more than to find that nothing had changed."""
        return self.built is not None or any(each.status != UNCHANGED for each in self.done.values())

    @property
    def runs(self) -> RunsTable:
        """The table of intents and outcomes."""
        return RunsTable(self.project.state)

    def session(self) -> SparkSession:
        """Return the run's session, built at its first use."""
        if self.built is None:
            from enrich.session import get_session

            if self.given is None:
                log.info("starting Spark")
            point("session.before")
            self.built = self.given or get_session(self.project.settings.spark)
            point("session.after")
        return self.built

    def uri(self, reference: str) -> str | None:
        """Return where a table is; None for a catalog table that does not exist."""
        place = self.project.location(reference)
        if isinstance(place, str):
            return place
        return self._located(place)

    def _located(self, place: CatalogName) -> str | None:
        """Ask the catalog where a table is, once."""
        if self.places.get(place) is None:
            self.places[place] = tables.catalog_location(self.session(), place.parts)
        return self.places[place]

    def pin(self, names: Sequence[str]) -> None:
        """Read the version of every source once, before the first job: all jobs see the same cut.

        A source that another job of this run writes, its quarantine too, is pinned when that job is done.
        """
        targets = {self.project.location(self.project.jobs[name].target.table) for name in names}
        written = targets | {sibling(place, graph.QUARANTINE) for place in targets}
        for name in names:
            for source in self.project.jobs[name].sources.values():
                place = self.project.location(source.table)
                if place not in written and isinstance(place, str):
                    with suppress(EnrichError):  # kept with the pin, and raised for the job that needs the table
                        self.table(source.table)

    def table(self, reference: str) -> TableState:
        """Return the pinned state of a source."""
        uri = self.uri(reference)
        if uri is None:
            raise ConfigError(f"the catalog has no table {reference!r}", hint="create it, or correct the name")
        if uri not in self.pins:
            try:
                self.pins[uri] = tables.read_state(uri)
            except EnrichError as error:
                self.pins[uri] = error
        found = self.pins[uri]
        if isinstance(found, EnrichError):
            raise found
        return found

    def skipped(self, name: str) -> JobResult:
        """Note a job that is not run because another one did not succeed."""
        self.done[name] = JobResult(name, SKIPPED, error="skipped: an earlier job did not succeed", exit_code=0)
        return self.done[name]

    def job(self, name: str) -> JobResult:
        """Run one job and record its outcome; never raises for what a job can do wrong."""
        for other in graph.upstream(self.project, name):
            if other in self.done and (self.done[other].exit_code or self.done[other].status == SKIPPED):
                result = JobResult(name, SKIPPED, error=f"skipped: job {other!r}, which it reads, did not succeed")
                self.done[name] = result
                return result
        started = time.monotonic()
        try:
            with locks.held(self.project.state, name, self.run_id):
                job = self.project.jobs[name]
                result = retried(lambda: self._run(job), name, self.run_id, lambda: name in self.committed)
        except Exception as error:  # noqa: BLE001 - a job's failure is a result; the other jobs still run
            result = self._ended(name, error)
        except BaseException:
            if name in self.committed:
                self.done[name] = self.recorded(self.committed[name])
            raise
        result = replace(result, seconds=round(time.monotonic() - started, 3))
        self.done[name] = result
        return self.recorded(result)

    def _ended(self, name: str, error: Exception) -> JobResult:
        """Return what became of a job that raised: what its log says, whatever went wrong after the commit."""
        if name not in self.committed:
            return JobResult(name, FAILED).failed_with(named(error, name))
        log.warning("%s: committed; %s afterwards", name, type(error).__name__)
        return self.committed[name]

    def _note(self, result: JobResult) -> None:
        """Keep the result of a job whose commit is in the log."""
        self.committed[result.job] = result
        self.moved_on(self.project.jobs[result.job])

    def recorded(self, result: JobResult) -> JobResult:
        """Append the outcome to the runs table; a state directory that cannot be written fails the job."""
        if self.options.dry_run:
            return result
        target = str(self.project.location(self.project.jobs[result.job].target.table))
        try:
            point("outcome.before")
            self.runs.append(outcome_row(self.run_id, target, result))
            point("outcome.after")
        except Exception as error:  # noqa: BLE001 - as in ``job``
            if not result.exit_code:
                return replace(result.failed_with(named(error, result.job)), counts=result.counts)
        return result

    def _run(self, job: Job) -> JobResult:
        log.info("%s: reading versions", job.job)
        task = opened(self.task(job), full_refresh=self.options.full_refresh, bounds=self.options.bounds)
        table = task.target.table
        if table is not None and task.is_idle:
            unchanged = JobResult(job.job, UNCHANGED, task.mode, dict(task.window), target_version=table.version)
            return replace(unchanged, findings=task.unjudged, quarantine=self._held(job))
        from enrich import pipeline

        if task.undoes and not task.dry_run:
            task = self._undone(task)

        def flow(complete: Task, own: SparkSession) -> JobResult:
            announce(complete)
            return pipeline.run_job(complete, own, self.runs)

        return replace(self.inside(task, flow), quarantine=self._held(job))

    def _undone(self, task: Task) -> Task:
        """Lead the quarantine back to the target's rows, and plan anew."""
        from enrich import commits

        undone = self.inside(task, lambda complete, own: commits.undone(own, complete))
        fresh = opened(self.task(task.job), full_refresh=self.options.full_refresh, bounds=self.options.bounds)
        return fresh if undone else whole(fresh)

    def inside(self, task: Task, work: Callable[[Task, SparkSession], Done]) -> Done:
        """Do a job's work in a session of its own; expressions whose types need Spark are compiled there."""
        from enrich.compiler.sparktypes import typer
        from enrich.session import activated, borrowed_session

        session = self.session()
        with borrowed_session(session) as own, activated(own):
            if not task.plan.complete:
                known = None if task.everything else task.target.cursor
                task = replace(task, plan=compiled(task.job, task.tables, known, typer(own)))
            return work(task, own)

    def _held(self, job: Job) -> Quarantine | None:
        """Count what the job's quarantine holds, from its files; a job that is done does not fail for that."""
        try:
            counted = self._labelled(job)
        except Exception as error:  # noqa: BLE001 - whatever storage and log raise
            log.warning("%s: the quarantine cannot be counted (%s)", job.job, type(error).__name__)
            return None
        return Quarantine.of(counted) if counted is not None else None

    def _labelled(self, job: Job) -> list[tuple[tuple[str, ...], int]] | None:
        """Count the quarantine's rows by their reasons; None without a quarantine."""
        place = sibling(self.project.location(job.target.table), graph.QUARANTINE)
        uri = self._located(place) if isinstance(place, CatalogName) else place
        if uri is None or not tables.exists(uri):
            return None
        return tables.labelled_rows(uri, quarantine.FAILED)

    def _retries(self, job: Job) -> bool:
        """Tell whether the quarantine holds rows with a key that this run shall compute again."""
        if not self.options.retry_quarantined:
            return False
        return any(quarantine.KEY_NOT_NULL not in texts for texts, _ in self._labelled(job) or ())

    def moved_on(self, job: Job) -> None:
        """Forget the pins of the tables that this run has just written, for the jobs that read them."""
        place = self.project.location(job.target.table)
        for each in (place, sibling(place, graph.QUARANTINE)):
            uri = self._located(each) if isinstance(each, CatalogName) else each
            self.pins.pop(uri or "", None)
            self.wrote.add(uri or "")

    def task(self, job: Job, *, as_recorded: bool = False) -> Task:
        """Put together what the job has to do, from files and logs.

        Args:
            job: The job.
            as_recorded: Take its sources at the versions that its target contains, whatever came later.
        """
        latest = {alias: self._source(job, alias) for alias in job.sources}
        target, place = self.target(job)
        full = self.options.full_refresh or target.table is None
        contained = {alias: to for alias, (_, to) in target.consumed.items() if alias in latest}
        until = contained if as_recorded else self._until(job, latest, target)
        pinned = window.pinned(job.job, latest, until, target.consumed)
        plan = compiled(job, pinned, None if full else target.cursor)
        check_sources(job, latest)
        suite = self.project.suites.get(job.expectations) if job.expectations else None
        if suite is not None:
            from enrich.quality.suites import check_columns

            faults = check_columns(suite, plan.spec.columns)
            if faults:
                raise ConfigError.of(faults)
        task = Task(job, plan, suite, pinned, {}, place, target, "", self.run_id, self.options.dry_run, self._note)
        task = replace(task, until=until)
        return replace(task, accepted=self.options.accepted, retry=self._retries(job))

    def _until(self, job: Job, latest: Mapping[str, TableState], target: TargetState) -> dict[str, int]:
        """Return where the windows end; a table that this run has created had no version before, and is taken whole."""
        found = window.versions(job.job, latest, self.options.bounds.until)
        wrote = {alias for alias in found if self.uri(job.sources[alias].table) in self.wrote}
        fresh = wrote if target.table is None else set()
        return {alias: latest[alias].version if end < 0 and alias in fresh else end for alias, end in found.items()}

    def _source(self, job: Job, alias: str) -> TableState:
        try:
            return self.table(job.sources[alias].table)
        except ConfigError as error:
            raise ConfigError(error.message, hint=error.hint, where=job.at("sources", alias)) from None

    def target(self, job: Job) -> tuple[TargetState, Place]:
        """Return what is at a job's target now, and where that is."""
        read = bool(graph.downstream(self.project, job.job)) or bool(job.target.change_feed)
        location, uri = self.project.location(job.target.table), self.uri(job.target.table)
        beside = sibling(location, graph.QUARANTINE)
        held = self._located(beside) if isinstance(beside, CatalogName) else beside
        place = Place(uri, location, held, read)
        if uri is None or not tables.exists(uri):
            check_free(job, uri)
            found = TargetState(None, None, 0)
        else:
            found = cursor.read(uri, job.job, self.runs, place.label)
        beside_it = cursor.quarantine_state(held, job.job, found.cursor) if held is not None else None
        return replace(found, quarantine=beside_it), place
