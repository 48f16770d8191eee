"""Hold what a run does with one job: the open job, and the plan that ``enrich.progress.decision`` makes of it."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from enrich.base import hints, suites
from enrich.base.hints import RunOptions
from enrich.base.names import CatalogName, Location, find_quarantine
from enrich.base.result import BEFORE_ALL, Finding, Proof, SourceWindow, State
from enrich.base.spec import CompiledJob, JobSpec, quote
from enrich.base.suites import Suite, fingerprint_quarantine, list_uncounted, select_quarantine_rules
from enrich.delta.tables import TableState
from enrich.progress.cursor import Cursor, Mark, TargetState

if TYPE_CHECKING:
    from enrich.project.models import Job, Optimize, Rule

log = logging.getLogger("enrich")

BOOTSTRAP, INCREMENTAL, FULL_REFRESH = "bootstrap", "incremental", "full_refresh"
REPLAY, REPAIR = "replay", "repair"
_BY_CHANGES = (INCREMENTAL, REPLAY)

Moment = int | datetime  # a version, `BEFORE_ALL` for the beginning, or an instant in UTC
Asked = Mapping[str, Moment]
"""What one option says: alias -> moment; under ``""`` what it says of all sources that it does not name."""


@dataclass(frozen=True)
class Options:
    """What a run is asked for."""

    # Widens the windows backwards; where it says nothing they start at the cursor.
    since: Asked = field(default_factory=dict)
    until: Asked = field(default_factory=dict)  # ends the windows; where it says nothing they end at the latest version
    # ``since`` may lie beyond the cursor, and histories may leave out what no feed tells any more.
    allow_gap: bool = False
    full_refresh: bool = False  # compute all keys anew
    dry_run: bool = False  # compute and count, write nothing
    accepted: frozenset[str] = frozenset()  # names of rules that shall not block
    max_bytes: int | None = None  # a job that would read more is refused before it reads anything

    def is_point(self, alias: str) -> bool:
        """Return whether both ends of a source's window are one moment.

        Airflow's data interval is such a point for cron schedules: it says how far to go, not what to leave out.
        """
        start = find_moment(self.since, alias)
        return start is not None and start == find_moment(self.until, alias)


def find_moment(asked: Asked, alias: str) -> Moment | None:
    """Return what an option says of a source; None for nothing."""
    return asked.get(alias, asked.get(""))


def spell(alias: str, moment: Moment) -> str:
    """Return a moment of a source, or under ``""`` of all, as on the command line."""
    text = "beginning" if moment == BEFORE_ALL else f"v{moment}"
    if isinstance(moment, datetime):
        text = moment.isoformat().replace("+00:00", "Z")
    return f"{alias}={text}" if alias else text


@dataclass(frozen=True)
class TargetPlace:
    """Where a target is."""

    uri: str | None  # absolute path or URI; None for a catalog table that does not exist yet
    location: Location  # what the job file names: a path, a URI or a catalog name
    quarantine_uri: str | None  # where the quarantine is, as ``uri``
    change_feed: bool  # True when somebody reads the target's changes

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
class Span:
    """What a run computes a history from."""

    first: int  # the version with which the history begins; its rows hold from that commit on
    start: int  # the feed is read after this version
    # True when the rows of ``first`` are where it starts; False: the versions that target and quarantine have.
    whole: bool = False
    compares: bool = False  # whether what is recorded is compared with the source's rows at ``start``


@dataclass(frozen=True)
class OpenJob:
    """One job, compiled against its tables as they were found: their pins and places. Nothing is decided yet."""

    job: Job
    compiled: CompiledJob
    suite: Suite | None
    tables: Mapping[str, TableState]  # alias -> the pinned state of its table
    place: TargetPlace
    target: TargetState  # what is at the target now
    run_id: str
    options: Options = field(default_factory=Options)
    # Alias -> where ``--until`` ends its window, which may be before the cursor.
    until: Mapping[str, int] = field(default_factory=dict)
    optimize: Optimize | None = None  # when the run puts the target's files in shape after its commit; None: never
    # Target column -> the comment that it shall have, and no name -> the table's.
    comments: Mapping[str, str] = field(default_factory=dict)
    # ``base.rowforms.write_row``, which gives the SQL for the text of a row; None: nothing is proven.
    write_row: Callable[..., str] | None = None

    @property
    def spec(self) -> JobSpec:
        """The compiled job."""
        return self.compiled.spec

    @property
    def asked(self) -> RunOptions:
        """What the run was asked for, as another command for this job asks for it again."""
        options, job = self.options, self.job
        accept = sorted(options.accepted & {rule.rule for rule in job.rules if rule.blocks})
        since, until = (
            ",".join(spell(alias, each) for alias, each in asked.items() if alias in {"", *job.sources}) or None
            for asked in (options.since, options.until)
        )
        allow_gap = options.allow_gap and (since is not None or job.remembers)
        return RunOptions(options.full_refresh, since, until, allow_gap, tuple(accept), options.max_bytes)

    @property
    def definition(self) -> str:
        """The hash of what the job means: sources, keys, joins, columns, condition, rules that move rows away."""
        rules = fingerprint_quarantine(self.suite) if self.suite is not None else None
        meaning = {**self.compiled.meaning, "quarantine": rules} if rules else self.compiled.meaning
        text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def unsearched(self) -> frozenset[str]:
        """Aliases that the job does not trust any more: two rows may share a key there, for nobody looked."""
        trusted = {alias for alias, mark in self.target.marks.items() if mark.trusted}
        return frozenset(alias for alias in trusted & self.spec.sources.keys() if not self.spec.sources[alias].trusted)

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

    def list_recorded(self, names: Iterable[str]) -> list[str]:
        """Return those of some columns that the job has written, not another writer; all of its own without record."""
        cursor = self.target.cursor
        known = {name.lower() for name in (self.spec.columns if cursor is None else cursor.columns)}
        return [name for name in names if name.lower() in known]

    @property
    def unjudged(self) -> tuple[Finding, ...]:
        """The findings of a run that judges no row: the suite's expectations, then the job's rules."""
        rules = self.suite.rules if self.suite is not None else ()
        return (*[rule.unjudged for rule in rules], *suites.list_unjudged(self.job.rules, self.options.accepted))

    @property
    def needs_feed(self) -> bool:
        """True when the target exists, has a reader and records no changes yet."""
        table = self.target.table
        return table is not None and self.place.change_feed and not table.has_change_feed

    @property
    def new_comments(self) -> dict[str, str]:
        """The comments that the target and its columns do not have yet; what has none in the files keeps its own."""
        table = self.target.table
        known = {} if table is None else {"": "", **dict.fromkeys(table.columns, ""), **table.comments}
        return {name: text for name, text in self.comments.items() if known.get(name, text) != text}


@dataclass(frozen=True, kw_only=True)
class Plan(OpenJob):
    """What a run does with an open job. It is made once and never changed: a second decision is another plan."""

    mode: str
    window: Mapping[str, SourceWindow]  # alias -> the versions to consume
    # Alias -> ranges before or around the cursor whose changed keys are computed anew as well. Each is read by itself:
    # between its two ends only its own feed, or its own two snapshots, tell what changed.
    again: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    span: Span | None = None  # what a history is computed from; None for other jobs
    # True when the target's rows have other columns or types than this job's, or are somebody else's doing: then all
    # are written, in place of the table.
    rewrites: bool = False
    # True when the target's table cannot hold the job's rows, going by what Spark knows of their types.
    outgrown: bool = False
    has_copies: bool = False  # whether rows of the target may share an identity: others may have written them
    # True when rows of a history that nothing has changed may have to be written anew, or moved between target and
    # quarantine: all that is recorded is compared.
    anew: bool = False

    @property
    def everything(self) -> bool:
        """True when all keys are computed anew."""
        return self.mode not in _BY_CHANGES or self.anew or reaches_before_all(self.again)

    @property
    def moved(self) -> tuple[str, ...]:
        """Aliases with new versions, taken or skipped."""
        return tuple(alias for alias, each in self.window.items() if each.start != each.to or each.gap is not None)

    @property
    def is_idle(self) -> bool:
        """True when there is nothing to compute, nor anything to record."""
        computes = self.everything or self.moved or self.again or self.unsearched
        return not (computes or self.needs_feed or self.new_comments or self.lacks_state)

    @property
    def explains_target(self) -> bool:
        """True when the target is what the job makes of the sources at the versions that its record names."""
        is_ours = not (self.everything or self.has_copies or self.lacks_state)
        has_gaps = self.has_gap or any(mark.gaps for mark in self.target.marks.values())
        return is_ours and not (has_gaps or self.again) and self.recorded_state is not None

    @property
    def has_gap(self) -> bool:
        """True when the window of a source leaves out versions."""
        return any(each.gap is not None for each in self.window.values())

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The job's own rules; none in a repair, for they say when a run may write, not what is right."""
        return () if self.mode == REPAIR else self.job.rules

    @property
    def judging_suite(self) -> Suite | None:
        """The suite that judges the rows; a repair only asks which of them belong to the target."""
        return self.suite if self.suite is None or self.mode != REPAIR else select_quarantine_rules(self.suite)

    @property
    def advances(self) -> bool:
        """True when the run has something to record even if no row differs."""
        closes = self.everything and any(mark.gaps for mark in self.target.marks.values())
        records = bool(self.moved or self.unsearched) or self.target.is_apart or self.lacks_state
        return self.mode not in _BY_CHANGES or records or closes

    def cursor(self, number: int, quarantine: tuple[int, str | None], state: State, held: Proof | None) -> Cursor:
        """Return the record of this run, for the intent and for both commits.

        ``quarantine``: the number of the quarantine's rows that belong to the run's, and the run that wrote them; 0 and
        None without a quarantine. ``state``: what the target holds afterwards; ``held``: what proves the quarantine.
        """
        target, beside = self.target.table, self.target.quarantine
        return Cursor(
            self.run_id, self.job.job, number, self.definition,
            sources={alias: self._mark(alias) for alias in self.window}, columns=self.spec.columns,
            base=None if target is None else target.version, table_id=None if target is None else target.table_id,
            quarantine_number=quarantine[0], quarantine_run=quarantine[1],
            quarantine_base=None if beside is None else beside.table.version,
            state=state, held=held,
        )  # fmt: skip

    def _mark(self, alias: str) -> Mark:
        source, table, at = self.spec.sources[alias], self.tables[alias], self.window[alias]
        columns, gaps = dict(source.columns), self.list_open_gaps(alias)
        commit, partitions = (table.commit, table.partitions) if at.to == table.version else (None, None)
        first = None if self.span is None else self.span.first
        chars = {name: table.chars[name] for name in columns if name in table.chars}
        return Mark(table.table_id, at.start, at.to, columns, gaps, commit, first, chars, source.trusted, partitions)

    def list_open_gaps(self, alias: str) -> tuple[tuple[int, int], ...]:
        """Return a source's gaps after this run: the old ones and its own, unless it compares every row."""
        mark, gap = self.target.marks.get(alias), self.window[alias].gap
        gaps = (*(() if mark is None else mark.gaps), *(() if gap is None else (gap,)))
        if not self.everything:
            return gaps
        if self.span is None or self.span.whole:
            return ()
        # Over what ends before the feed that is read, nothing can be computed again.
        return tuple(each for each in gaps if each[1] <= self.span.start)

    def announce(self) -> None:
        """Say what the job is about to do, and loudly what it leaves out."""
        job = self.job.job
        windows = [f"{each} {self.window[each].start}->{self.window[each].to}" for each in self.moved]
        windows += [f"{alias} {start}->{to} once more" for alias, each in self.again.items() for start, to in each]
        log.info("%s: %s", job, self.mode if self.everything or not windows else f"{self.mode} of {', '.join(windows)}")
        for alias, each in self.window.items():
            if each.gap is not None:
                said = f"rows may be missing or outdated until `{hints.repair(job)}` or a full refresh"
                said = f"what differs is recorded as a change of version {each.gap[1]}" if self.job.remembers else said
                left_out = f"versions {each.gap[0] + 1} to {each.gap[1]} of source {alias} are left out"
                log.warning("%s: %s: %s", job, left_out, said)


def reaches_before_all(again: Mapping[str, tuple[tuple[int, int], ...]]) -> bool:
    """Tell whether ranges that are taken again begin before the first version."""
    return any(start == BEFORE_ALL for ranges in again.values() for start, _ in ranges)
