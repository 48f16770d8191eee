"""May a target be continued from its cursor: the same definition, the same sources, and a quarantine to go on from."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from enrich.base import hints
from enrich.base.errors import ANOTHER_TARGET, Locked, RefreshNeeded
from enrich.base.spec import JobSpec
from enrich.progress import evolution
from enrich.progress.cursor import UPKEEP, Cursor, Mark, TargetState, read_record
from enrich.storage.tables import TableState, fingerprint, open_log, read_history, read_state


def check(cursor: Cursor, definition: str, tables: Mapping[str, TableState]) -> None:
    """Refuse a target that is the doing of another definition, or of other sources.

    Raises:
        RefreshNeeded: The job, or a source, is another one than when the target was written.
        Locked: Another run has brought the target further than this run's pinned versions.
    """
    if cursor.definition != definition:
        raise _describe_redefined(cursor)
    for alias in cursor.sources:
        _check_source(cursor, alias, tables[alias])


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


def _check_source(cursor: Cursor, alias: str, table: TableState) -> None:
    """Refuse a source that was dropped and created again, or taken from a backup: its versions count something else.

    A target can also be ahead of this run's pinned versions: another run has come and gone since they were read.
    """
    mark = cursor.sources[alias]
    same = mark.table_id == table.table_id
    if same and table.version < mark.to <= read_state(table.uri).version:
        raise Locked(
            f"run {cursor.run_id} has brought the target of {cursor.job!r} further than this run could",
            hint="run again",
        )
    if not goes_on(table, mark):
        raise _describe_replaced(cursor, alias, ", or a backup of it that was written to since" if same else "")


def goes_on(table: TableState, mark: Mark) -> bool:
    """Return whether a table is the one that was consumed up to ``mark``, at that version or a later one."""
    return mark.table_id == table.table_id and table.version >= mark.to and _knows(table, mark)


def _knows(table: TableState, mark: Mark) -> bool:
    """Return whether a table's log has the commit up to which it was consumed, and not another one under its number.

    A log that has forgotten the commit cannot tell, and is trusted.
    """
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
    if found is None or cursor.quarantine is None or found.definition != cursor.definition:
        return None
    if not evolution.fits(found, spec) or evolution.find_reshaped(found, spec) or evolution.find_recast(found, tables):
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
    if found is None or cursor.quarantine is None:
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
