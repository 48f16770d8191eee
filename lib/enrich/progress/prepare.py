"""A job, the logs of its tables and its target's cursor -> what this run has to do; files and logs only, no JVM."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from enrich.base.errors import ConfigError, Fault, HistoryError
from enrich.base.result import Finding, JobResult, SourceWindow
from enrich.base.spec import HistorySpec, JobSpec, quote
from enrich.base.state import State
from enrich.compiler import CompiledJob, compile_job
from enrich.compiler.steps import Typer
from enrich.config.models import Job, Optimize
from enrich.config.places import CatalogName, Location, find_quarantine
from enrich.progress import continuity, evolution, spans
from enrich.progress.cursor import Cursor, Mark, TargetState, describe_drift
from enrich.progress.since import Bounds
from enrich.progress.spans import Span
from enrich.progress.window import BEFORE_ALL, compute_reach, find_versions
from enrich.quality import guards
from enrich.quality.suites import Suite, fingerprint_quarantine, list_uncounted, select_quarantine_rules
from enrich.storage.tables import CHANGE_FEED, TableState, is_occupied, suggest_properties

log = logging.getLogger("enrich")

BOOTSTRAP, INCREMENTAL, FULL_REFRESH = "bootstrap", "incremental", "full_refresh"
REPLAY, REPAIR = "replay", "repair"
_BY_CHANGES = (INCREMENTAL, REPLAY)


@dataclass(frozen=True)
class TargetPlace:
    """Where a target is.

    Attributes:
        uri: Absolute path or URI; None for a catalog table that does not exist yet.
        location: What the job file names: a path, a URI or a catalog name.
        quarantine_uri: Where the quarantine is, as ``uri``.
        change_feed: True when somebody reads the target's changes.
    """

    uri: str | None
    location: Location
    quarantine_uri: str | None
    change_feed: bool

    @property
    def label(self) -> str:
        """The target's name in the runs table and in messages."""
        return str(self.location)

    @property
    def name(self) -> str:
        """The quoted name for SQL."""
        return _quote_location(self.location)

    @property
    def quarantine_name(self) -> str:
        """The quarantine's quoted name for SQL."""
        return _quote_location(find_quarantine(self.location))


def _quote_location(location: Location) -> str:
    return quote(*location.parts) if isinstance(location, CatalogName) else quote("delta", location)


@dataclass(frozen=True)
class Task:
    """One job of one run, ready for the engine.

    Attributes:
        tables: Alias -> the pinned state of its table.
        window: Alias -> the versions to consume.
        until: Alias -> where ``--until`` ends its window, which may be before the cursor.
        again: Alias -> versions before the cursor whose changed keys are computed anew as well.
        target: What is at the target now.
        committed: Told the result as soon as the log shows the job's commit, whatever becomes of the process then.
        accepted: Names of the job's rules that shall not block this run.
        retry: True when the rows that the quarantine holds shall be computed again.
        apart: Alias -> the version that the quarantine contains; empty while it contains what the target does.
        optimize: When the run puts the target's files in shape after its commit; None: never.
        span: What a history is computed from; None for other jobs, and before mode and window are decided.
    """

    job: Job
    plan: CompiledJob
    suite: Suite | None
    tables: Mapping[str, TableState]
    window: Mapping[str, SourceWindow]
    place: TargetPlace
    target: TargetState
    mode: str
    run_id: str
    dry_run: bool = False
    committed: Callable[[JobResult], None] = lambda _: None
    accepted: frozenset[str] = frozenset()
    retry: bool = False
    until: Mapping[str, int] = field(default_factory=dict)
    again: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    apart: Mapping[str, int] = field(default_factory=dict)
    optimize: Optimize | None = None
    span: Span | None = None

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
        return tuple(alias for alias, each in self.window.items() if each.start != each.to or each.gap is not None)

    @property
    def is_idle(self) -> bool:
        """True when there is nothing to compute, nor anything to record."""
        busy = self.everything or self.moved or self.again or self.needs_feed or self.retry
        return not (busy or self.lacks_state)

    @property
    def judging_suite(self) -> Suite | None:
        """The suite that judges the rows; a repair only asks which of them belong to the target."""
        if self.suite is None or self.mode != REPAIR:
            return self.suite
        return select_quarantine_rules(self.suite)

    @property
    def holds_rows(self) -> bool:
        """True when a rule may keep rows out of the target."""
        return self.suite is not None and select_quarantine_rules(self.suite) is not None

    @property
    def recorded_state(self) -> State | None:
        """What the target holds, as its record says it for the rules of the suite as it is now; None without record."""
        cursor = self.target.cursor
        if cursor is None or cursor.state is None or self.target.table is None:
            return None
        return cursor.state.under(list_uncounted(self.suite))

    @property
    def lacks_state(self) -> bool:
        """True when the target has no recorded state, or none for a rule that its suite has gained."""
        cursor = self.target.cursor
        if self.target.table is None or cursor is None:
            return False
        known = {each.rule for each in cursor.state.rules} if cursor.state is not None else set()
        return cursor.state is None or any(each.rule not in known for each in list_uncounted(self.suite))

    @property
    def unjudged(self) -> tuple[Finding, ...]:
        """The findings of a run that judges no row: the suite's expectations, then the job's rules."""
        rules = self.suite.rules if self.suite is not None else ()
        return (*[rule.unjudged for rule in rules], *guards.list_unjudged(self.job.rules, self.accepted))

    @property
    def advances(self) -> bool:
        """True when the run has something to record even if no row differs."""
        closes = self.everything and any(mark.gaps for mark in self.target.marks.values())
        return self.mode not in _BY_CHANGES or bool(self.moved) or bool(self.apart) or closes or self.lacks_state

    @property
    def needs_feed(self) -> bool:
        """True when the target exists, has a reader and records no changes yet."""
        table = self.target.table
        return table is not None and self.place.change_feed and not table.has_change_feed

    @property
    def rewrites(self) -> bool:
        """True when the target's rows have other columns or types than this job's, or are somebody else's doing."""
        cursor, table = self.target.cursor, self.target.table
        if table is None or self.mode != FULL_REFRESH:
            return False
        if cursor is None or bool(self.target.foreign) or cursor.definition != self.definition:
            return True
        return not evolution.fits(cursor, self.spec)

    @property
    def definition(self) -> str:
        """The hash of what the job means: sources, keys, joins, columns, condition, rules that move rows away."""
        rules = fingerprint_quarantine(self.suite) if self.suite is not None else None
        meaning = {**self.plan.meaning, "quarantine": rules} if rules else self.plan.meaning
        text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def cursor(self, number: int, quarantine: int, state: State) -> Cursor:
        """Return the record of this run, for the intent and for both commits.

        Args:
            number: The run's number.
            quarantine: The number of the quarantine's rows that belong to the run's; 0 without a quarantine.
            state: What the target holds after it.
        """
        marks = {}
        for alias, each in self.window.items():
            columns = dict(self.spec.sources[alias].columns)
            table, gaps = self.tables[alias], self._open_gaps(alias)
            commit = table.commit if each.to == table.version else None
            layout = {name: table.layout[name] for name in columns}
            first = None if self.span is None else self.span.first
            marks[alias] = Mark(table.table_id, each.start, each.to, columns, gaps, commit, layout, first)
        return Cursor(
            self.run_id,
            self.job.job,
            number,
            self.definition,
            marks,
            self.spec.columns,
            None if self.target.table is None else self.target.table.version,
            quarantine,
            None if self.target.quarantine is None else self.target.quarantine.table.version,
            state,
        )

    def _open_gaps(self, alias: str) -> tuple[tuple[int, int], ...]:
        """Return a source's gaps after this run: the old ones and its own, unless it compares every row."""
        mark, gap = self.target.marks.get(alias), self.window[alias].gap
        if self.everything:
            return () if mark is None or self.span is None else self.span.list_lost(mark.gaps)
        return (*(mark.gaps if mark is not None else ()), *([gap] if gap is not None else ()))


def check_free(job: Job, uri: str | None) -> None:
    """Refuse to create a target where something else already is.

    Raises:
        ConfigError: A file, or a directory that is not empty.
    """
    if uri is not None and is_occupied(uri):
        raise ConfigError(
            f"{uri} is not a Delta table", hint="move it away, or name another target", where=job.at("target")
        )


def check_sources(job: Job, tables: Mapping[str, TableState]) -> None:
    """Refuse sources without change feed; the message holds the statement that mends it.

    Raises:
        ConfigError: Naming every such source.
    """
    faults = [
        Fault(
            f"source {alias!r} ({job.sources[alias].table}) has no change feed; run:"
            f" {suggest_properties(table.uri, {CHANGE_FEED: 'true'})}",
            job.at("sources", alias),
        )
        for alias, table in tables.items()
        if not table.has_change_feed
    ]
    if faults:
        raise ConfigError.of(faults)


def compile_task(
    job: Job, tables: Mapping[str, TableState], cursor: Cursor | None, typer: Typer | None = None
) -> CompiledJob:
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


def open_task(task: Task, *, full_refresh: bool, bounds: Bounds | None = None) -> Task:
    """Decide mode and window, and refuse what cannot be continued.

    Raises:
        ConfigError: ``--since`` would skip changes.
        DriftError: Somebody else changed the target's rows.
        HistoryError: The definition changed, the cursor is lost, or a source is another table than before.
    """
    name, target = task.job.job, task.target
    if target.table is None:
        return open_whole(task, BOOTSTRAP)
    if full_refresh:
        return open_whole(task)
    cursor = _require_cursor(task)
    if target.foreign:
        raise describe_drift(name, target.foreign)
    continuity.check(cursor, task.definition, task.tables)
    if evolution.find_reshaped(cursor, task.spec):
        return open_whole(task)  # every list is written anew, its elements in their new shape
    beside = continuity.find_contained(target, cursor, task.spec, task.tables)
    if beside is None:
        return open_whole(task)
    return _continue_task(task, (cursor, beside), bounds or Bounds())


def reopen_task(task: Task) -> Task:
    """Take a job back to the versions that its target records, to be compared with what they give.

    Raises:
        HistoryError: The target does not exist, its cursor is lost, or it is not this job's doing over these sources.
    """
    if task.target.table is None:
        raise HistoryError(
            f"job {task.job.job!r} has no target yet", hint=f"run `enrich run {task.job.job}` to create it"
        )
    cursor = _require_cursor(task)
    continuity.check(cursor, task.definition, task.tables)
    if lists := evolution.find_reshaped(cursor, task.spec):
        raise HistoryError(
            f"source {lists[0]!r} has gained a column since the target was written, and its lists show all columns",
            hint=f"run `enrich run {task.job.job}`, which writes them again",
        )
    window = {alias: SourceWindow(mark.start, mark.to) for alias, mark in cursor.sources.items()}
    task = replace(task, mode=REPAIR, window=window)
    found = spans.look_back(task.spec.driving, task) if isinstance(task.spec, HistorySpec) else None
    return replace(task, span=found)


def _require_cursor(task: Task) -> Cursor:
    if task.target.cursor is None:
        raise HistoryError(
            f"neither the log of {task.place.label} nor the runs table says what the target has consumed",
            hint=f"run `enrich run {task.job.job} --full-refresh`",
        )
    return task.target.cursor


def _continue_task(task: Task, contained: tuple[Cursor, Cursor], bounds: Bounds) -> Task:
    """Put the window of each source together from what target and quarantine contain, and what the run was told."""
    name, (cursor, beside) = task.job.job, contained
    since = find_versions(name, task.tables, bounds.since)
    window, again = {}, {}
    for alias, table in task.tables.items():
        mark, point = cursor.sources[alias], bounds.is_point(alias)
        asked, end = since.get(alias), task.until.get(alias)
        if asked is not None and end is not None and asked > end:
            raise ConfigError(
                f"--since is later than --until for source {alias!r} of {name!r}", hint="exchange the two values"
            )
        start = None if asked is None else min(asked, table.version)
        found = compute_reach(mark.to, table.version, start, end, point=point)
        if found.gap is not None and not bounds.allow_gap:
            raise ConfigError(
                f"--since would leave out changes of source {alias!r} of {name!r}: versions {found.gap[0] + 1} to"
                f" {found.gap[1]} are not in the target yet",
                hint="run without --since to take them, or accept the loss with --allow-gap",
            )
        window[alias] = SourceWindow(found.start, found.to, gap=found.gap)
        if ranges := [
            each for each in (found.again, continuity.find_range_between(cursor, beside, alias)) if each is not None
        ]:
            again[alias] = (min(start for start, _ in ranges), max(end for _, end in ranges))
    mode = REPLAY if bounds.replays else INCREMENTAL
    apart = {alias: mark.to for alias, mark in beside.sources.items()} if beside is not cursor else {}
    task = replace(task, mode=mode, window=window, again=again, apart=apart)
    if not isinstance(task.spec, HistorySpec):
        return task
    if task.everything:
        return replace(task, span=_begin_history(task))
    span, at = spans.go_on(name, task.spec.driving, task, allow_gap=bounds.allow_gap)
    return replace(task, span=span, window={task.spec.driving: at})


def announce(task: Task) -> None:
    """Say what the job is about to do, and loudly what it leaves out."""
    windows = [f"{alias} {each.start}->{each.to}" for alias, each in task.window.items() if each.start != each.to]
    windows += [f"{alias} {start}->{end} once more" for alias, (start, end) in task.again.items()]
    log.info("%s: %s", task.job.job, task.mode if task.everything else f"{task.mode} of {', '.join(windows)}")
    for alias, each in task.window.items():
        if each.gap is not None:
            log.warning(
                "%s: versions %d to %d of source %s are left out: rows may be missing or outdated until"
                " `enrich verify %s --repair` or a full refresh",
                *(task.job.job, each.gap[0] + 1, each.gap[1], alias, task.job.job),
            )


def open_whole(task: Task, mode: str = FULL_REFRESH) -> Task:
    """Return the task with all keys computed anew."""
    window = {alias: SourceWindow(None, table.version) for alias, table in task.tables.items()}
    task = replace(task, mode=mode, window=window)
    return replace(task, span=_begin_history(task)) if isinstance(task.spec, HistorySpec) else task


def _begin_history(task: Task) -> Span:
    return spans.begin(task.job.job, task.spec.driving, task.tables[task.spec.driving], task.target)
