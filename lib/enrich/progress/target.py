"""Read what is at a job's target and quarantine: the tables, what their rows contain, and what others have done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from enrich.base.errors import ConfigError, RunFailed
from enrich.base.spec import FAILED_COLUMN
from enrich.delta.runs import RunsTable
from enrich.delta.tables import RECENT, TableState, exists, open_log, read_history, read_open_state
from enrich.progress import cursor
from enrich.progress.cursor import Cursor, QuarantineState, TargetState


def read_target(uri: str, job: str, runs: RunsTable, label: str) -> TargetState:
    """Read the state of an existing target; ``label`` is its name in ``runs``, which have another copy of the cursor.

    A table that this job never wrote, or of which nothing tells that it did, is a ConfigError.
    """
    table, number, walked = _open_history(uri, job, cursor.NUMBER, lambda walked: walked.is_explained)
    known = None
    if number is None:  # its log knows none any more
        number = runs.last_number(label, committed=True)
        known = runs.read_committed(label, number)
        if known is None or known[0].get("job") != job:
            raise _describe_foreign(table.uri, job)
        if _find_expired(known, walked.oldest) is None and known[0].get("table_id") != table.table_id:
            raise _describe_foreign(table.uri, job)
    found, others = walked.record, walked.others
    if found is not None and not walked.is_explained:
        found = None  # what came between its plan and its commit is forgotten, or the table was dropped between them
    elif found is not None and walked.base is not None:
        others += cursor.list_others_between(walked.entries, (walked.base, walked.version))
    elif found is None and not walked.restored:
        found = _find_expired(known or runs.read_committed(label, number), walked.oldest)
    recorded = None if found is None else Cursor.from_dict(found)
    changing = cursor.list_changing(uri, others, () if recorded is None else recorded.columns)
    return TargetState(table, recorded, number, changing)


def _find_expired(committed: tuple[dict[str, Any], int | None] | None, oldest: int) -> dict[str, Any] | None:
    """Return the record of a commit that the log has forgotten, if it still knows all that came after it.

    What is forgotten may have been a RESTORE, which leaves the number as it was, or somebody else's rows.
    """
    record, version = committed or ({}, None)
    return record if version is not None and version + 1 == oldest else None


def read_quarantine_state(uri: str, job: str) -> QuarantineState | None:
    """Read the state of a job's quarantine; None when there is none, a ConfigError where this job never wrote it."""
    if not exists(uri):
        return None
    table, number, walked = _open_history(uri, job, cursor.BESIDE, lambda walked: walked.record is not None)
    if number is None:
        raise _describe_foreign(uri, job)
    found = Cursor.from_dict(walked.record) if walked.record is not None else None
    base = -1 if found is None or found.quarantine_base is None else found.quarantine_base
    restored = [int(each["version"]) for each in walked.entries if each.get("operation") == "RESTORE"]
    # An append may have made a table, where it found none any more, or have met rows of before.
    if walked.unclear or base >= walked.version or any(base < each < walked.version for each in restored):
        return QuarantineState(table, number, None, None, walked.oldest)
    # The log forgets records and keeps the latest number; but a RESTORE does not take that number back.
    present = found.quarantine_number if found is not None else None if walked.restored else number
    columns = (FAILED_COLUMN, *(found.columns if found is not None else ()))
    is_edited = bool(cursor.list_changing(uri, walked.others, columns, types=True))  # wide columns take no narrow rows
    return QuarantineState(table, number, present, found, walked.oldest, is_edited=is_edited)


def read_record_at(uri: str, job: str, version: int | None = None) -> tuple[Cursor | None, int]:
    """Return what a job's commits say of a table's rows at a version, None for the latest one, and the version.

    There is no such record where others have changed values since.
    """
    log = open_log(uri)
    at = log.version() if version is None else version
    walked = _walk([entry for entry in read_history(log) if int(entry["version"]) <= at], job)
    if walked.record is None or walked.unclear:
        return None, at
    found = Cursor.from_dict(walked.record)
    return (None if cursor.list_changing(uri, walked.others, found.columns) else found), at


@dataclass(frozen=True)
class _Walked:
    """What a table's history says about its present rows."""

    entries: list[dict[str, Any]]  # the history, latest first
    others: tuple[int, ...]  # commits of others since the record's, latest first, but for upkeep
    restored: bool  # True when a RESTORE has led back to older rows
    unclear: bool  # True when a RESTORE has led back to rows of which nobody can say when they were there
    record: dict[str, Any] | None = None  # the run that the rows come from; None when these entries do not tell
    version: int = 0  # its commit
    base: int | None = None  # the version that this commit goes on from, as ``find_base`` says

    @property
    def oldest(self) -> int:
        """The first version of these entries."""
        return int(self.entries[-1]["version"])

    @property
    def is_explained(self) -> bool:
        """True when the entries hold the record and all that came between its plan and its commit."""
        after = self.version if self.base is None else self.base + 1
        return self.record is not None and self.oldest <= after <= self.version


def _open_history(
    uri: str, job: str, name: str, is_enough: Callable[[_Walked], bool]
) -> tuple[TableState, int | None, _Walked]:
    """Return a table's state, its highest number as ``find_number``, and what its history says.

    The latest commits are read; all of them where these are not enough.
    """
    log = open_log(uri)
    walked = _walk(read_history(log, RECENT), job)
    if not is_enough(walked):
        walked = _walk(read_history(log), job)
    if not walked.entries:
        said = f"{uri}/_delta_log/{log.version():020}.json, the table's latest commit, is empty, damaged or missing"
        undo = "or undo the commit: remove all files of this number there, if it is empty, and run again"
        raise RunFailed(said, hint=f"restore that file, {undo}")
    return read_open_state(log), cursor.find_number(log, job, name), walked


def _describe_foreign(uri: str, job: str) -> ConfigError:
    return ConfigError(
        f"{uri} exists and was not written by job {job!r}",
        hint="move it away, choose another target table, or give a job that was renamed its old name again",
    )


def _walk(entries: list[dict[str, Any]], job: str) -> _Walked:
    """Find the latest record of ``job`` that the table's present rows come from, and what others did after it."""
    others: list[int] = []
    below: int | None = None
    unclear = False
    for entry in entries:
        version, operation = int(entry["version"]), str(entry.get("operation", ""))
        if below is not None and version > below:
            continue
        if (record := cursor.read_record(entry, job)) is not None:
            return _Walked(entries, tuple(others), below is not None, unclear, record, version, cursor.find_base(entry))
        named = str((entry.get("operationParameters") or {}).get("version"))
        if operation == "RESTORE" and named.isdigit():
            below = int(named)
        elif operation not in cursor.UPKEEP:
            unclear = unclear or operation == "RESTORE"  # to a time, in the zone of whoever typed it
            others.append(version)
    return _Walked(entries, tuple(others), below is not None, unclear)
