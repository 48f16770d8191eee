"""Which versions of its sources a job may still have to read: those after its cursor, or after one that may come back.

The cursor is that of the target's latest record. A RESTORE of the target or of its quarantine, possible as long as
Delta keeps the files, brings back what an older version had consumed; what came since is then read once more.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from enrich.base.errors import HistoryError
from enrich.progress.cursor import Cursor, TargetState, read_records
from enrich.storage.retention import compute_file_retention
from enrich.storage.tables import open_log, read_history, read_state


@dataclass(frozen=True)
class Need:
    """What a job may still read of one source.

    Attributes:
        table_id: The identity of the table that it has read; of another one at the same place it needs nothing.
        version: It needs this version, and the changes after it.
    """

    job: str
    table_id: str
    version: int


def list_needs(job: str, target: TargetState, quarantine: str | None) -> dict[str, Need]:
    """Return alias -> what the job may still read of that source; empty before its first run.

    Args:
        job: The job's name.
        target: What is at its target now.
        quarantine: Where its quarantine is; None where nobody knows.

    Raises:
        HistoryError: Neither the target's log nor the runs table says what it has consumed.
    """
    if target.table is None:
        return {}
    if target.cursor is None:
        raise HistoryError(
            f"nobody knows what the target of {job!r} has consumed", hint=f"run `enrich run {job} --full-refresh`"
        )
    cursors = [target.cursor, *_list_restorable(target.table.uri, job)]
    if target.quarantine is not None and quarantine is not None:
        cursors += [each for each in (target.quarantine.cursor,) if each is not None]
        cursors += _list_restorable(quarantine, job)
    found: dict[str, Need] = {}
    for alias, mark in target.cursor.sources.items():
        marks = [each.sources[alias] for each in cursors if alias in each.sources]
        versions = [min([each.to, *[gap[0] for gap in each.gaps]]) for each in marks if each.table_id == mark.table_id]
        found[alias] = Need(job, mark.table_id, max(0, min(versions)))
    return found


def _list_restorable(uri: str, job: str) -> list[Cursor]:
    """Return what the versions of a table had consumed to which a RESTORE may go back."""
    kept = compute_file_retention(read_state(uri).properties)
    since = 0.0 if kept is None else (time.time() - kept) * 1000
    found = []
    for at, cursor in read_records(read_history(open_log(uri)), job):
        found.append(cursor)
        if at < since:  # its version was the latest one when the time began; those before it are gone
            break
    return found
