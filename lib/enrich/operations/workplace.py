"""Open what a job's work needs: pinned tables, where they are, the session once it is needed; nothing is decided.

``run``, ``plan``, ``verify``, ``why`` and ``doctor`` open the same workplace. Locks, retries and records
are the runner's.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from enrich.base import context, hints
from enrich.base.errors import ConfigError, EnrichError, Fault, HistoryError, RefreshNeeded
from enrich.base.failpoints import pass_point
from enrich.base.failures import SPARK, describe_error, find_value_fault, require_extra
from enrich.base.names import FEED_COLUMNS, CatalogName, Location, find_quarantine, identify
from enrich.base.result import JobResult, Quarantine
from enrich.base.rowforms import write_row
from enrich.base.spec import FAILED_COLUMN, JobSpec
from enrich.delta import extents, locks, tables
from enrich.delta.runs import RunsTable
from enrich.delta.tables import CHANGE_FEED, TableState, has_mapping, is_occupied, suggest_properties
from enrich.progress import continuity, window
from enrich.progress.cursor import TargetState
from enrich.progress.decision import decide_again
from enrich.progress.plan import OpenJob, Options, Plan, TargetPlace
from enrich.progress.target import read_quarantine_state, read_target
from enrich.project.compile import compile_job
from enrich.project.kinds import JOBS
from enrich.project.kinds.syntax import IDENTITY
from enrich.project.models import Job, explain_value_fault
from enrich.project.project import Project, find_edges
from enrich.project.querynames import rewrite
from enrich.project.suitefiles import check_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("enrich")

Done = TypeVar("Done")
Opened = TypeVar("Opened", bound=OpenJob)


def check_free(job: Job, uri: str | None) -> None:
    """Refuse, by a ConfigError, to create a target, or its quarantine, where something else already is."""
    if uri is not None and is_occupied(uri):
        hint = "move it away, or name another target"
        raise ConfigError(f"{uri} is not a Delta table", hint=hint, where=job.at("target"))


def check_sources(job: Job, tables: Mapping[str, TableState], makers: Mapping[str, str]) -> None:
    """Refuse sources without change feed, and histories whose feed Delta cannot read, with what mends it.

    ``makers`` are the jobs that write sources, by alias; a run of theirs switches on the feed of a target that is read.
    """
    faults = []
    for alias, table in tables.items():
        named, place = f"source {alias!r} ({job.sources[alias].table})", job.at("sources", alias)
        if not table.has_change_feed:
            mend = f"run in Spark SQL: {suggest_properties(table.uri, {CHANGE_FEED: 'true'})}"
            if maker := makers.get(alias):
                mend = f"`{hints.run(maker)}`, which writes it, switches it on"
            faults.append(Fault(f"{named} has no change feed; {mend}", place))
        # What other jobs cannot read, they compare.
        for name in [name for name in table.columns if name.lower() in FEED_COLUMNS] if job.remembers else []:
            message = (
                f"{named} has a column {name!r}, and so has its change feed: Delta cannot read what its commits"
                " changed, of which a history consists; rename the column"
            )
            faults.append(Fault(message, place))
    if faults:
        raise ConfigError.of(faults)


def list_comments(job: Job, spec: JobSpec, tables: Mapping[str, TableState]) -> dict[str, str]:
    """Return target column -> its comment, and no name -> the table's.

    A column about which the job says nothing has the description, or the comment, of the column that it is.
    """
    deep = {each.name for each in spec.outputs if any(len(path) > 2 for path in each.paths)}  # fields of a column
    found = {"": job.description}
    for column, origins in JOBS[spec.kind].find_origins(spec).items():
        (alias, name), how = next(iter(origins.items()), (("", ""), ""))
        if how == IDENTITY and column not in deep:
            found[column] = job.describe(alias, name).description or tables[alias].comments.get(name)
    found |= {column: told.description for column, told in job.columns.items() if told.description}
    return {column: text for column, text in found.items() if text}


@dataclass
class Workplace:
    """The tables of a project as one operation sees them, and the session that it works in."""

    project: Project
    chosen: Sequence[str]  # the jobs of this operation, which see the same versions of the sources that they share
    options: Options = field(default_factory=Options)
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    given: SparkSession | None = None  # the session that the caller has handed over
    built: SparkSession | None = None  # the session that is used, once there is one
    by_changes: bool = False  # whether it takes what has changed, unless all is asked for
    # Place, as ``identify`` spells it -> the pinned state of a table, or why it cannot be read.
    pins: dict[str, TableState | EnrichError] = field(default_factory=dict)
    places: dict[CatalogName, str | None] = field(default_factory=dict)  # catalog name -> where the table is
    wrote: set[str] = field(default_factory=set)  # where this operation has written tables, spelled in the same way
    # Job -> its result, as soon as the log has its commit.
    committed: dict[str, JobResult] = field(default_factory=dict)
    _safe: set[str] = field(default_factory=set)

    @property
    def runs(self) -> RunsTable:
        """The table of intents and outcomes."""
        return RunsTable(self.project.state, self.project.settings.keep_runs)

    def session(self) -> SparkSession:
        """Return the run's session, built at its first use; one of Spark Connect is an EnvironmentFault."""
        if self.given is not None:
            from enrich.spark.session import refuse_connect

            refuse_connect(self.given)
        if self.built is None:
            require_extra(SPARK)
            from enrich.spark.session import get_session

            if self.given is None:
                log.info("starting Spark")
            pass_point("session.before")
            self.built = self.given or get_session(self.project.settings.spark, self._measure_tables)
            pass_point("session.after")
        return self.built

    def _measure_tables(self) -> int | None:
        """Count the bytes of the jobs' tables, fewer where only changes are taken (ADR 14); None where nobody knows."""
        from enrich.spark.fit import QUICKLY_COMPILED

        jobs = [self.project.jobs[name] for name in self.chosen]
        targets = {self.project.location(job.target.table) for job in jobs}
        places = targets | {self.project.location(each.table) for job in jobs for each in job.sources.values()}
        if any(isinstance(place, CatalogName) for place in places):
            return None  # only Spark's catalog knows where they are
        try:
            found = {place: extents.measure_table(str(place)) for place in places}
            size = sum(each.bytes for each in found.values())
            if self.by_changes and not self.options.full_refresh and all(found[each].files for each in targets):
                size = min(size, max(size // 16, QUICKLY_COMPILED - 1))
            return size
        except Exception as error:  # noqa: BLE001 - whatever storage raises: the job that needs the table will say it
            log.debug("the tables cannot be measured (%s)", type(error).__name__)
            return None

    def locate(self, place: Location) -> str | None:
        """Return where a table is, None for a catalog table that does not exist; the catalog is asked once."""
        if isinstance(place, str):
            return place
        if self.places.get(place) is None:
            from enrich.delta.reads import find_catalog_location

            self.places[place] = find_catalog_location(self.session(), place.parts)
        return self.places[place]

    def find_maker(self, reference: str) -> Job | None:
        """Return the job whose target a table is."""
        spot = identify(self.project.location(reference))
        maker = self.project.jobs.get(self.project.makers.get(spot, ""))  # of the quarantine, too
        return maker if maker is not None and identify(self.project.location(maker.target.table)) == spot else None

    def spot(self, reference: str) -> str | None:
        """Return where a table is, in a text that is the same for all spellings of that place, as for links."""
        uri = self.locate(self.project.location(reference))
        return None if uri is None else identify(uri)

    def list_tables_written(self, jobs: Iterable[str]) -> set[str]:
        """Return the places of the targets and quarantines of some jobs, as ``identify`` spells them."""
        targets = {self.project.location(self.project.jobs[name].target.table) for name in jobs}
        return {identify(each) for place in targets for each in (place, find_quarantine(place))}

    def pin(self) -> None:
        """Read the version of every source once, before the first job: all jobs see the same cut.

        A source that another job of this run writes, its quarantine too, is pinned when that job is done.
        """
        written = self.list_tables_written(self.chosen)
        for name in self.chosen:
            for source in self.project.jobs[name].sources.values():
                place = self.project.location(source.table)
                if identify(place) not in written and isinstance(place, str):
                    with suppress(EnrichError):  # kept with the pin, and raised for the job that needs the table
                        self.table(source.table)

    def table(self, reference: str) -> TableState:
        """Return the pinned state of a source."""
        uri = self.locate(self.project.location(reference))
        if uri is None:
            raise ConfigError(f"the catalog has no table {reference!r}", hint="create it, or correct the name")
        spot = identify(uri)
        if spot not in self.pins:
            try:
                self.pins[spot] = tables.read_state(uri)
            except EnrichError as error:
                self.pins[spot] = error
        found = self.pins[spot]
        if isinstance(found, EnrichError):
            raise found
        return found

    def open_job(self, job: Job, *, as_recorded: bool = False) -> OpenJob:
        """Compile a job against its tables, ``as_recorded`` at the versions that its target contains.

        A file that does not fit its tables is a ConfigError; a source that has lost a recorded column a HistoryError.
        """
        options, suite = self.options, self.project.suite(job)
        latest, writers = {}, {alias: self.find_maker(source.table) for alias, source in job.sources.items()}
        makers = {alias: maker.job for alias, maker in writers.items() if maker is not None}
        for alias, source in job.sources.items():
            try:
                latest[alias] = self.table(source.table)
            except ConfigError as error:
                hint, at = error.hint, self.project.location(source.table)
                is_there = isinstance(at, str) and (tables.exists(at) or tables.is_occupied(at))
                if (maker := makers.get(alias)) and not is_there:
                    hint = f"job {maker} writes it: run `{hints.run(maker)}` first"
                raise ConfigError(error.message, hint=hint, where=job.at("sources", alias)) from None
        target, place = self.target(job)
        if as_recorded:
            ends = {mark.table_id: mark.to for mark in target.marks.values()}  # an alias may have got another name
            until = {alias: ends[table.table_id] for alias, table in latest.items() if table.table_id in ends}
        else:
            until = window.find_versions(job.job, latest, "--until", options.until)
            for alias, end in until.items():
                # A table that this run has created had no version before, and is taken whole.
                if end < 0 and target.table is None and self.spot(job.sources[alias].table) in self.wrote:
                    until[alias] = latest[alias].version
        pinned = window.pin_sources(job.job, latest, until, target.marks)
        schemas = {alias: table.columns for alias, table in pinned.items()}
        if target.cursor is not None and target.table is not None and not options.full_refresh:
            continuity.check_columns(job.job, schemas, target.cursor)
        compiled = compile_job(job, schemas, is_mapped=has_mapping(target.table))
        fed = latest
        if options.dry_run and not as_recorded:  # the run would switch their change feeds on before this job
            fed = {alias: each for alias, each in latest.items() if makers.get(alias) not in {*self.chosen} - {job.job}}
        check_sources(job, fed, makers)
        if suite is not None and (faults := check_columns(suite, compiled.spec.columns)):
            raise ConfigError.of(faults)
        comments, optimize = list_comments(job, compiled.spec, pinned), self.project.settings.optimize
        opened = (job, compiled, suite, pinned, place, target, self.run_id, options, until, optimize, comments)
        return OpenJob(*opened, write_row)

    def target(self, job: Job) -> tuple[TargetState, TargetPlace]:
        """Return what is at a job's target now, and where that is."""
        has_reader = any(job.job in others for others in find_edges(self.project).values())
        location = self.project.location(job.target.table)
        uri, quarantine_uri = self.locate(location), self.locate(find_quarantine(location))
        place = TargetPlace(uri, location, quarantine_uri, has_reader or bool(job.target.change_feed))
        if uri is None or not tables.exists(uri):
            check_free(job, uri)
            found = TargetState(None, None, 0)
        else:
            found = read_target(uri, job.job, self.runs, place.label)
        beside_it = read_quarantine_state(quarantine_uri, job.job) if quarantine_uri is not None else None
        if beside_it is None:
            check_free(job, quarantine_uri)
        return replace(found, quarantine=beside_it), place

    def describe(self, job: Job, error: Exception) -> EnrichError:
        """Return what a job ends with, as ``describe_error``; a full refresh of a history may be refused."""
        if not isinstance(error, EnrichError) and (fault := find_value_fault(error)) is not None:
            with suppress(EnrichError):  # the texts that Spark has got
                columns = {alias: self.table(source.table).columns for alias, source in job.sources.items()}
                job = rewrite(job, columns) if job.query else job
            return explain_value_fault(job, fault)
        known = describe_error(error, job.job)
        if isinstance(known, RefreshNeeded) and job.remembers:
            hint = f"{known.instead}; or {known.hint}, which is refused where it would forget versions"
            return HistoryError(known.message, hint=hint)
        return known

    def open_inside(self, opened: Opened, do: Callable[[Opened, SparkSession], Done]) -> Done:
        """Do a job's work in a session of its own; expressions whose types need Spark are compiled there."""
        return self.work_inside(lambda own: do(self.complete(opened, own), own))

    def complete(self, opened: Opened, own: SparkSession) -> Opened:
        """Compile what only Spark can find the types of."""
        from enrich.spark.session import find_type

        if opened.compiled.complete:
            return opened
        schemas = {alias: table.columns for alias, table in opened.tables.items()}
        compiled = compile_job(opened.job, schemas, partial(find_type, own), is_mapped=has_mapping(opened.target.table))
        return replace(opened, compiled=compiled)

    def fit(self, plan: Plan, own: SparkSession) -> Plan:
        """Return a plan whose rows its target can hold, by the types that Spark gives them, as ``decide_again``."""
        from enrich.steps.rows import find_types

        return decide_again(plan, lambda: find_types(plan, own))

    def work_inside(self, run: Callable[[SparkSession], Done]) -> Done:
        """Do some work in a session of its own."""
        from enrich.spark.session import activate, borrow_session

        with borrow_session(self.session()) as own, activate(own):
            return run(own)

    def require_safe_commits(self, uri: str | None, own: SparkSession) -> None:
        """Refuse to write where another writer could overwrite the commit; tables yet without a place are not known.

        That is an EnvironmentFault: log store or server of a table in S3 do not exclude a second commit.
        """
        from enrich.spark.logstore import require_exclusive_commits

        if uri is not None and uri not in self._safe:
            if require_exclusive_commits(uri, own):
                locks.require_conditional_writes(uri)
            self._safe.add(uri)

    def count_quarantined(self, job: Job) -> Quarantine | None:
        """Count what the job's quarantine holds, from its files; a job that is done does not fail for that."""
        try:
            uri = self.locate(find_quarantine(self.project.location(job.target.table)))
            if uri is None or not tables.exists(uri):
                return None
            return Quarantine.of(tables.count_labelled_rows(uri, FAILED_COLUMN))
        except Exception as error:  # noqa: BLE001 - whatever storage and log raise
            log.warning("%s: the quarantine cannot be counted (%s)", job.job, type(error).__name__)
            return None

    def note_commit(self, job: Job) -> None:
        """Forget the pins of the tables that this run has just written, for the jobs that read them."""
        place = self.project.location(job.target.table)
        for each in (place, find_quarantine(place)):
            if (uri := self.locate(each)) is not None:
                self.pins.pop(identify(uri), None)
                self.wrote.add(identify(uri))

    def note_result(self, result: JobResult) -> None:
        """Keep the result of a job whose commit is in the log."""
        self.committed[result.job] = result
        context.note_written(f"version {result.target_version} of the target of {result.job!r} is committed")
        self.note_commit(self.project.jobs[result.job])
