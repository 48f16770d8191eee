"""Hold a target's record against its tables as they are now: may it go on from there, and how far is it behind?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from enrich.base import hints
from enrich.base.errors import ANOTHER_TARGET, EnrichError, Locked, RefreshNeeded
from enrich.base.names import CatalogName, Location
from enrich.base.schemas import strip_type
from enrich.base.spec import DataType, JobSpec
from enrich.delta import feeds, tables
from enrich.delta.tables import TableState, fingerprint, keeps_values, open_log, read_history, read_state, state_at
from enrich.progress.cursor import UPKEEP, Cursor, Mark, TargetState, read_record
from enrich.project.models import Job


def check(cursor: Cursor, definition: str, tables: Mapping[str, TableState]) -> None:
    """Refuse a target that is the doing of another definition, or of other sources.

    Raises:
        RefreshNeeded: The job, or a source, is another one than when the target was written.
        Locked: Another run has brought the target further than this run's pinned versions.
    """
    if cursor.definition != definition:
        raise _describe_redefined(cursor)
    for alias, mark in cursor.sources.items():
        table, same = tables[alias], mark.table_id == tables[alias].table_id
        if same and table.version < mark.to <= read_state(table.uri).version:
            raise Locked(
                f"run {cursor.run_id} has brought the target of {cursor.job!r} further than this run could",
                hint="run again",
            )
        if not goes_on(table, mark):  # dropped and created again, or from a backup: its versions count something else
            raise _describe_replaced(cursor, alias, ", or a backup of it that was written to since" if same else "")


def describe_unmade(cursor: Cursor, unmade: Collection[str]) -> RefreshNeeded:
    """Return the error of a target some of whose sources a run is about to make, as ``check`` gives it afterwards.

    A table that does not exist yet is not the one that was consumed.

    Args:
        cursor: What the target has consumed.
        unmade: The aliases of these sources.
    """
    if any(alias not in cursor.sources for alias in unmade):
        return _describe_redefined(cursor)  # it had fewer sources
    return _describe_replaced(cursor, next(alias for alias in cursor.sources if alias in unmade))


def _describe_redefined(cursor: Cursor) -> RefreshNeeded:
    return RefreshNeeded(
        f"the definition of {cursor.job!r} changed since its target was written",
        hint=f"run `{hints.refresh(cursor.job)}`",
        instead=f"take the change back, or {ANOTHER_TARGET}",
    )


def _describe_replaced(cursor: Cursor, alias: str, more: str = "") -> RefreshNeeded:
    return RefreshNeeded(
        f"source {alias!r} of {cursor.job!r} is another table than the one consumed up to version"
        f" {cursor.sources[alias].to}{more}",
        hint=f"run `{hints.refresh(cursor.job)}`",
        instead=f"put the right table back, or {ANOTHER_TARGET}",
    )


def goes_on(table: TableState, mark: Mark) -> bool:
    """Return whether a table is the one that was consumed up to ``mark``, at that version or a later one.

    Its log must not have another commit under that number; a log that has forgotten the commit cannot tell, and is
    trusted.
    """
    if mark.table_id != table.table_id or table.version < mark.to:
        return False
    commit = table.commit if table.version == mark.to else fingerprint(table.uri, mark.to)
    return None in (commit, mark.commit) or commit == mark.commit


def find_contained(
    target: TargetState, cursor: Cursor, spec: JobSpec, tables: Mapping[str, TableState]
) -> Cursor | None:
    """Return what the quarantine contains, seen from the target's ``cursor``.

    It is ahead when a run ended between its two commits, or when the target was restored; it is behind when it was
    restored itself.

    Returns:
        ``cursor`` itself when there is nothing to make good; None when nobody knows what it contains.
    """
    there = target.quarantine
    if there is None:  # never needed, or dropped
        return None if cursor.quarantine else cursor
    found, base = there.cursor, cursor.quarantine_base
    if found is None and (base is None or there.oldest > base + 1):
        return None  # what came after the target's commit is forgotten: a RESTORE may have been among it
    if there.belongs_to(cursor):
        return cursor
    if found is None or found.definition != cursor.definition:
        return None
    if not fits(found, spec) or find_reshaped(found, spec) or find_recast(found, tables):
        return None
    for alias, mark in found.sources.items():
        latest = read_state(tables[alias].uri)
        if not goes_on(latest, mark):
            return None
    return found


def list_apart(target: TargetState, cursor: Cursor) -> dict[str, int]:
    """Return alias -> the version that the quarantine contains, where the next run makes it good for other ones.

    Empty where it contains what ``cursor`` does, even if a run with the same versions has ended too early, and where
    nobody knows: then its rows are to be compared, for the next run changes nothing about them.
    """
    there = target.quarantine
    found = None if there is None or there.belongs_to(cursor) else there.cursor
    if found is None:
        return {}
    same = found.definition == cursor.definition and found.sources.keys() == cursor.sources.keys()
    if same and not any(list_ranges_between(cursor, found, alias) for alias in cursor.sources):
        return {}
    return {alias: mark.to for alias, mark in found.sources.items()}


def find_quarantine_version(uri: str, named: Cursor) -> int | None:
    """Return the version of a quarantine to read the rows in that a target's record names; None when it is forgotten.

    That is the last one before its rows changed: VACUUM may have removed the files that an OPTIMIZE has put together.
    """
    same: int | None = None
    for entry in read_history(open_log(uri)):
        record, version = read_record(entry, named.job), int(entry["version"])
        same = version if same is None else same
        is_named = record is not None and record.get("quarantine_number") == named.quarantine
        if record is not None and is_named and named.quarantine_run in (None, record["run_id"]):
            return same
        if record is not None or entry.get("operation") not in UPKEEP:
            same = None
    return None


def list_ranges_between(cursor: Cursor, other: Cursor, alias: str) -> list[tuple[int, int]]:
    """Return the versions of a source, ends like ``start`` and ``to``, that only one of two records may contain.

    That is what lies between the two, and what only one of them has left out before.
    """
    ours, theirs = cursor.sources[alias], other.sources[alias]
    if other is cursor:
        return []
    start, end = sorted((ours.to, theirs.to))
    apart = [gap for gap in (*ours.gaps, *theirs.gaps) if (gap in ours.gaps) != (gap in theirs.gaps)]
    before = [gap for gap in apart if gap[0] < start or gap[1] > end]
    return [*([(start, end)] if start < end else []), *dict.fromkeys(before)]


def check_columns(job: str, schemas: Mapping[str, Mapping[str, DataType]], cursor: Cursor) -> None:
    """Refuse sources whose used columns went or changed their type.

    Raises:
        RefreshNeeded: Naming the first of them.
    """
    for alias, mark in cursor.sources.items():
        if alias not in schemas:
            continue
        now = schemas[alias]
        gone = [name for name in mark.columns if name not in now]
        # What a struct has gained is null in all rows of before.
        retyped = [
            name
            for name in find_retyped(cursor, alias, now)
            if isinstance(mark.columns[name], str) or not keeps_values(mark.columns[name], now[name])
        ]
        for name in (*gone, *retyped):
            what = "is gone" if name in gone else "has another type"
            raise RefreshNeeded(
                f"column {name!r} of source {alias!r} {what} since the target was written",
                hint=f"correct the job file if it names the column, then run `{hints.refresh(job)}`",
            )


def find_retyped(cursor: Cursor, alias: str, columns: Mapping[str, DataType]) -> list[str]:
    """Return the columns of a source that have another type than when the target was written."""
    mark = cursor.sources.get(alias)
    before = mark.columns if mark is not None else {}
    return [name for name, kind in before.items() if name in columns and strip_type(columns[name]) != strip_type(kind)]


def find_recast(cursor: Cursor, tables: Mapping[str, TableState]) -> list[str]:
    """Return the sources whose values Spark reads otherwise than when the target was written: as CHAR, or no more.

    Where neither record nor log tells what a column was declared with, it may have been anything.
    """
    found = []
    for alias, mark in cursor.sources.items():
        before, table = mark.chars, tables[alias]
        if before is None and mark.to != table.version:
            state = state_at(table.uri, mark.to)
            before = None if state is None else state.chars
        elif before is None:
            before = table.chars
        if before is None or any(before.get(name) != table.chars.get(name) for name in mark.columns):
            found.append(alias)
    return found


def fits(cursor: Cursor, spec: JobSpec) -> bool:
    """Return whether a table that was written under ``cursor`` can hold the job's rows as they are now.

    Elements of lists are structs of all columns of the lookup; MERGE compares and writes structs of one shape alone.
    """
    if any(name not in spec.columns for name in cursor.columns):
        return False
    shown = {path for output in spec.outputs for path in output.paths}
    if any((alias,) in shown for alias in find_reshaped(cursor, spec)):
        return False
    if spec.remembers:  # its rows are fitted to fields that have come
        before, now = cursor.sources[spec.driving].columns, spec.sources[spec.driving].columns
        return all(keeps_values(kind, now[name]) for name, kind in before.items() if name in now)
    return not any(find_retyped(cursor, alias, source.columns) for alias, source in spec.sources.items())


def find_reshaped(cursor: Cursor, spec: JobSpec) -> list[str]:
    """Return the lists that are read as a whole and whose lookup has other columns than when the target was written.

    A new column changes each of them, also those that no change of a row leads to: the text of a list, for instance.
    """
    return [
        alias
        for alias in sorted(spec.read_whole)
        if alias in cursor.sources and set(cursor.sources[alias].columns) != set(spec.sources[alias].columns)
    ]


@dataclass(frozen=True)
class SourceLag:
    """How far a target is behind one of its sources.

    Attributes:
        consumed: The last version that the target contains; None before the first run.
        latest: The source's latest version; None when it cannot be read.
        seconds: Time since the oldest commit that is not consumed yet; 0 when there is none, None when unknown, also
            because the source has forgotten that commit.
        lag_seconds: Time between the newest commit consumed and the newest there.
        days_left: Days until the source forgets what is not consumed yet; 0 when that has begun, None when nothing is
            waiting or its properties cannot be understood.
        gaps: Versions that a run was told to skip, each from the one before it to the last.
        replaced: True when the source is another table than the one consumed, so that its versions count something
            else.
    """

    alias: str
    table: str
    consumed: int | None
    latest: int | None
    seconds: float | None
    lag_seconds: float | None = None
    days_left: float | None = None
    gaps: tuple[tuple[int, int], ...] = ()
    replaced: bool = False

    @property
    def versions(self) -> int | None:
        """How many versions are not consumed yet; None when unknown."""
        if self.latest is None or self.replaced:
            return None
        return self.latest - (-1 if self.consumed is None else self.consumed)


def measure_lag(alias: str, table: str, place: Location, mark: Mark | None) -> SourceLag:
    """Return how far what is consumed is behind the latest commit of a source.

    Args:
        alias: The source.
        table: Its table, as the job file names it.
        place: Where it is. What cannot be read without Spark, or not at all, stays unknown.
        mark: What is consumed; None before the first run.
    """
    consumed, gaps = (None, ()) if mark is None else (mark.to, mark.gaps)
    known = SourceLag(alias, table, consumed, None, None, gaps=gaps)
    if isinstance(place, CatalogName):
        return known
    try:
        log = tables.open_log(place)
        state = tables.read_open_state(log)
        if mark is not None and not goes_on(state, mark):
            return replace(known, latest=state.version, replaced=True)
    except EnrichError:
        return known
    known = replace(known, latest=state.version)
    if state.version == consumed:
        return replace(known, seconds=0.0, lag_seconds=0.0)
    commits, now = tables.read_commits(log), datetime.now(UTC).timestamp()
    waiting = [at / 1000 for version, at in commits.items() if consumed is None or version > consumed]
    seconds = max(0.0, now - min(waiting)) if waiting else None
    if consumed is None:
        return replace(known, seconds=seconds)
    newest = commits.get(consumed)
    behind = None if newest is None else (commits[max(commits)] - newest) / 1000
    if consumed + 1 < min(commits, default=0):
        return replace(known, lag_seconds=behind, days_left=0.0)
    return replace(known, seconds=seconds, lag_seconds=behind, days_left=_count_days(state, consumed, seconds))


def _count_days(state: TableState, consumed: int, seconds: float | None) -> float | None:
    """Return for how many days what is not consumed yet stays readable; whoever ran VACUUM may have left less."""
    try:
        if feeds.has_lost_changes(state.uri, consumed, state.version):
            return 0.0
    except EnrichError:
        return None
    kept = tables.compute_retention(state.properties)
    return None if kept is None or seconds is None else max(0.0, round((kept - seconds) / 86400, 2))


def find_way_on(job: Job) -> hints.RunOptions:
    """Return the options with which a job goes on whose source has forgotten changes.

    A full refresh of a history would forget them as well, and is refused.
    """
    return hints.RunOptions(allow_gap=True) if job.remembers else hints.FULL_REFRESH
