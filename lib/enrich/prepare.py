"""A job, the logs of its tables and its target's cursor -> what this run has to do; files and logs only, no JVM."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from enrich import evolution, guards
from enrich.compiler import Plan, compile_job
from enrich.config.graph import QUARANTINE
from enrich.config.models import Job
from enrich.config.places import CatalogName, Location, sibling
from enrich.cursor import UNKNOWN, Cursor, Mark, TargetState, digest, drift
from enrich.errors import ConfigError, Fault, HistoryError, Locked
from enrich.result import Finding, JobResult, SourceWindow
from enrich.since import Bounds
from enrich.spec import JobSpec, quoted
from enrich.tables import CHANGE_FEED, TableState, is_occupied, read_state
from enrich.window import BEFORE_ALL, reach, versions

if TYPE_CHECKING:
    from enrich.compiler.steps import Typer
    from enrich.quality.suites import Suite

log = logging.getLogger("enrich")

BOOTSTRAP, INCREMENTAL, FULL_REFRESH = "bootstrap", "incremental", "full_refresh"
REPLAY, REPAIR = "replay", "repair"
_BY_CHANGES = (INCREMENTAL, REPLAY)


@dataclass(frozen=True)
class Place:
    """Where a target is.

    Attributes:
        uri: Absolute path or URI; None for a catalog table that does not exist yet.
        location: What the job file names: a path, a URI or a catalog name.
        held_uri: Where the quarantine is, as ``uri``.
        change_feed: True when somebody reads the target's changes.
    """

    uri: str | None
    location: Location
    held_uri: str | None
    change_feed: bool

    @property
    def label(self) -> str:
        """The target's name in the runs table and in messages."""
        return str(self.location)

    @property
    def name(self) -> str:
        """The quoted name for SQL."""
        return _in_sql(self.location)

    @property
    def held_name(self) -> str:
        """The quarantine's quoted name for SQL."""
        return _in_sql(sibling(self.location, QUARANTINE))


def _in_sql(location: Location) -> str:
    return location.quoted() if isinstance(location, CatalogName) else quoted("delta", location)


@dataclass(frozen=True)
class Task:
    """One job of one run, ready for the engine.

    Attributes:
        tables: Alias -> the pinned state of its table.
        window: Alias -> the versions to consume.
        until: Alias -> where ``--until`` ends its window, which may be before the cursor.
        again: Alias -> versions before the cursor whose changed keys are computed anew as well.
        gaps: Alias -> versions after the cursor that are skipped.
        target: What is at the target now.
        committed: Told the result as soon as the log shows the job's commit, whatever becomes of the process then.
        number: This run's transaction number; 0 until the intent is written.
        accepted: Names of the job's rules that shall not block this run.
        retry: True when the rows that the quarantine holds shall be computed again.
        held: The quarantine's version that belongs to this run's rows; ``UNKNOWN`` until it is written.
    """

    job: Job
    plan: Plan
    suite: Suite | None
    tables: Mapping[str, TableState]
    window: Mapping[str, SourceWindow]
    place: Place
    target: TargetState
    mode: str
    run_id: str
    dry_run: bool = False
    committed: Callable[[JobResult], None] = lambda _: None
    number: int = 0
    accepted: frozenset[str] = frozenset()
    retry: bool = False
    until: Mapping[str, int] = field(default_factory=dict)
    again: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    gaps: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    held: int | None = None

    @property
    def spec(self) -> JobSpec:
        """The compiled job."""
        return self.plan.spec

    @property
    def everything(self) -> bool:
        """True when all keys are computed anew."""
        return self.mode not in _BY_CHANGES or any(start == BEFORE_ALL for start, _ in self.again.values())

    @property
    def moved(self) -> tuple[str, ...]:
        """Aliases with new versions, taken or skipped."""
        return tuple(alias for alias, each in self.window.items() if each.start != each.to or alias in self.gaps)

    @property
    def is_idle(self) -> bool:
        """True when there is nothing to compute, nor anything to record."""
        undoes = self.undoes and not self.dry_run
        return not (self.everything or self.moved or self.again or self.needs_feed or self.retry or undoes)

    @property
    def unjudged(self) -> tuple[Finding, ...]:
        """The findings of a run that judges no row: the suite's expectations, then the job's rules."""
        rules = self.suite.rules if self.suite is not None else ()
        return (*[rule.unjudged for rule in rules], *guards.unjudged(self.job.rules, self.accepted))

    @property
    def advances(self) -> bool:
        """True when the run has something to record even if no row differs."""
        old = self.target.cursor.sources.values() if self.target.cursor is not None else ()
        closes = self.everything and any(mark.gaps for mark in old)
        return self.mode not in _BY_CHANGES or bool(self.moved) or closes

    @property
    def needs_feed(self) -> bool:
        """True when the target exists, has a reader and records no changes yet."""
        table = self.target.table
        return table is not None and self.place.change_feed and not table.has_change_feed

    @property
    def undoes(self) -> bool:
        """True when the quarantine first has to go back to the rows that belong to the target's."""
        return not self.everything and self.target.quarantine is not None and not self.target.quarantine.follows

    @property
    def rewrites(self) -> bool:
        """True when the target's rows have other columns or types than this job's, or are somebody else's doing."""
        cursor, table = self.target.cursor, self.target.table
        if table is None or self.mode != FULL_REFRESH:
            return False
        if cursor is None or bool(self.target.foreign) or cursor.definition != self.definition:
            return True
        if any(name not in self.spec.columns for name in cursor.columns) or evolution.reshaped(cursor, self.spec):
            return True
        return any(evolution.retyped(cursor, alias, source.columns) for alias, source in self.spec.sources.items())

    @property
    def definition(self) -> str:
        """The hash of what the job means."""
        return definition_of(self.plan, self.suite)

    def cursor(self) -> Cursor:
        """Return the record of this run, for the intent and for the commit."""
        marks = {}
        for alias, each in self.window.items():
            columns = dict(self.spec.sources[alias].columns)
            marks[alias] = Mark(self.tables[alias].table_id, each.start, each.to, columns, self._open_gaps(alias))
        base = None if self.target.table is None else self.target.table.version
        return Cursor(
            self.run_id, self.job.job, self.number, self.definition, marks, self.spec.columns, base, self.held
        )

    def _open_gaps(self, alias: str) -> tuple[tuple[int, int], ...]:
        """Return a source's gaps after this run: the old ones and its own, unless it compares every row."""
        if self.everything:
            return ()
        mark = self.target.cursor.sources.get(alias) if self.target.cursor is not None else None
        gaps = [*(mark.gaps if mark is not None else ()), *([self.gaps[alias]] if alias in self.gaps else ())]
        return tuple(gaps)


def definition_of(plan: Plan, suite: Suite | None) -> str:
    """Hash the job's meaning: sources, keys, joins, columns, condition, and the rules that move rows to quarantine."""
    from enrich.quality.suites import quarantine_fingerprint

    rules = quarantine_fingerprint(suite) if suite is not None else None
    return digest({**plan.meaning, "quarantine": rules} if rules else plan.meaning)


def check_free(job: Job, uri: str | None) -> None:
    """Refuse to create a target where something else already is.

    Raises:
        ConfigError: A file, or a directory that is not empty.
    """
    if uri is not None and is_occupied(uri):
        raise ConfigError(
            f"{uri} exists and is no Delta table", hint="move it away, or name another target", where=job.at("target")
        )


def check_sources(job: Job, tables: Mapping[str, TableState]) -> None:
    """Refuse sources without change feed; the message holds the statement that mends it.

    Raises:
        ConfigError: Naming every such source.
    """
    faults = []
    for alias, table in tables.items():
        if not table.has_change_feed:
            faults.append(
                Fault(
                    f"source {alias!r} ({job.sources[alias].table}) has no change feed; run: ALTER TABLE"
                    f" delta.`{table.uri}` SET TBLPROPERTIES ('{CHANGE_FEED}' = 'true')",
                    job.at("sources", alias),
                )
            )
    if faults:
        raise ConfigError.of(faults)


def compiled(job: Job, tables: Mapping[str, TableState], cursor: Cursor | None, typer: Typer | None = None) -> Plan:
    """Compile a job against its tables.

    A column that the cursor knows and the table lost is not a slip in the job file: the source changed.

    Raises:
        ConfigError: The job file does not fit its tables.
        HistoryError: It did when the target was last written.
    """
    schemas = {alias: table.columns for alias, table in tables.items()}
    if cursor is not None:
        evolution.check(job.job, schemas, cursor)
    return compile_job(job, schemas, typer)


def opened(task: Task, *, full_refresh: bool, bounds: Bounds | None = None) -> Task:
    """Decide mode and window, and refuse what cannot be continued.

    Raises:
        ConfigError: ``--since`` would skip changes.
        DriftError: Somebody else changed the target's rows.
        HistoryError: The definition changed, the cursor is lost, or a source is another table than before.
    """
    name, target = task.job.job, task.target
    if target.table is None:
        return whole(task, BOOTSTRAP)
    if full_refresh:
        return whole(task)
    cursor = _known_cursor(task)
    if target.foreign:
        raise drift(name, target.foreign)
    _check_same(task, cursor)
    if cursor.held == UNKNOWN or (cursor.held is not None and target.quarantine is None):
        return whole(task)  # there is no version of the quarantine to go on from
    if evolution.reshaped(cursor, task.spec):
        return whole(task)  # every list is written anew, its elements in their new shape
    return _continued(task, cursor, bounds or Bounds())


def reopened(task: Task) -> Task:
    """Take a job back to the versions that its target records, to be compared with what they give.

    Raises:
        HistoryError: The target does not exist, its cursor is lost, or it is not this job's doing over these sources.
    """
    if task.target.table is None:
        raise HistoryError(
            f"job {task.job.job!r} has no target yet", hint=f"run `enrich run {task.job.job}` to create it"
        )
    cursor = _known_cursor(task)
    _check_same(task, cursor)
    if lists := evolution.reshaped(cursor, task.spec):
        raise HistoryError(
            f"source {lists[0]!r} has gained a column since the target was written, and its lists show all columns",
            hint=f"run `enrich run {task.job.job}`, which writes them anew",
        )
    window = {alias: SourceWindow(mark.start, mark.to) for alias, mark in cursor.sources.items()}
    return replace(task, mode=REPAIR, window=window)


def _known_cursor(task: Task) -> Cursor:
    if task.target.cursor is None:
        raise HistoryError(
            f"neither the log of {task.place.label} nor the runs table says what it has consumed",
            hint=f"run `enrich run {task.job.job} --full-refresh`",
        )
    return task.target.cursor


def _check_same(task: Task, cursor: Cursor) -> None:
    """Refuse a target that is the doing of another definition, or of other sources."""
    name = task.job.job
    if cursor.definition != task.definition:
        raise HistoryError(
            f"the definition of {name!r} changed since its target was written",
            hint=f"run `enrich run {name} --full-refresh`",
        )
    for alias in cursor.sources:
        _check_identity(cursor, alias, task.tables[alias])


def _continued(task: Task, cursor: Cursor, bounds: Bounds) -> Task:
    """Put the window of each source together from the cursor and what the run was told."""
    name = task.job.job
    since = versions(name, task.tables, bounds.since)
    window, again, gaps = {}, {}, {}
    for alias in task.tables:
        mark, point = cursor.sources[alias], bounds.is_point(alias)
        asked, end = since.get(alias), task.until.get(alias)
        if asked is not None and end is not None and asked > end:
            raise ConfigError(
                f"--since is later than --until for source {alias!r} of {name!r}", hint="exchange the two"
            )
        latest = task.tables[alias].version
        found = reach(mark.to, latest, asked if asked is None else min(asked, latest), end, point=point)
        if found.gap is not None and not bounds.allow_gap:
            raise ConfigError(
                f"--since would skip changes of source {alias!r} of {name!r}: versions {found.gap[0] + 1} to"
                f" {found.gap[1]} are not in the target yet",
                hint="leave --since out to take them, or accept the loss with --allow-gap",
            )
        window[alias] = SourceWindow(found.start, found.to, gap=found.gap)
        if found.again is not None:
            again[alias] = found.again
        if found.gap is not None:
            gaps[alias] = found.gap
    return replace(task, mode=REPLAY if bounds.replays else INCREMENTAL, window=window, again=again, gaps=gaps)


def announce(task: Task) -> None:
    """Say what the job is about to do, and loudly what it leaves out."""
    windows = [f"{alias} {each.start}->{each.to}" for alias, each in task.window.items() if each.start != each.to]
    windows += [f"{alias} {start}->{end} again" for alias, (start, end) in task.again.items()]
    log.info("%s: %s", task.job.job, task.mode if task.everything else f"{task.mode} of {', '.join(windows)}")
    for alias, (start, end) in task.gaps.items():
        log.warning(
            "%s: versions %d to %d of source %s are skipped: rows may be missing or stale until"
            " `enrich verify %s --repair` or a full refresh",
            *(task.job.job, start + 1, end, alias, task.job.job),
        )


def whole(task: Task, mode: str = FULL_REFRESH) -> Task:
    """Return the task with all keys computed anew."""
    window = {alias: SourceWindow(None, table.version) for alias, table in task.tables.items()}
    return replace(task, mode=mode, window=window)


def _check_identity(cursor: Cursor, alias: str, table: TableState) -> None:
    """Refuse a source that was dropped and created again: its versions count something else.

    A target can also be ahead of this run's pinned versions: another run has come and gone since they were read.
    """
    mark = cursor.sources[alias]
    same = mark.table_id == table.table_id
    if same and table.version < mark.to <= read_state(table.uri).version:
        raise Locked(
            f"run {cursor.run_id} has brought the target of {cursor.job!r} further than this run could",
            hint="run again",
        )
    if not same or table.version < mark.to:
        raise HistoryError(
            f"source {alias!r} of {cursor.job!r} is another table than the one consumed up to version {mark.to}",
            hint=f"run `enrich run {cursor.job} --full-refresh`",
        )
