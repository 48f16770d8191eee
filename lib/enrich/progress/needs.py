"""Which versions of its sources a job may still have to read: those after its cursor, or after one that may come back.

The cursor is that of the target's latest record. A RESTORE of the target or of its quarantine, possible as long as
Delta keeps the files, brings back what an older version had consumed; what came since is then read once more.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain

from enrich.base import hints
from enrich.base.errors import HistoryError
from enrich.progress.cursor import Cursor, TargetState, read_records
from enrich.storage.retention import compute_file_retention
from enrich.storage.tables import open_log, read_history, read_state


@dataclass(frozen=True)
class Need:
    """What a job may still read of one source.

    Attributes:
        table_id: The identity of the table that it has read; of another one at the same place it needs nothing.
        version: The version that its target contains; it needs this one, and the changes after it.
        earlier: Versions that a RESTORE, ``--since`` over a gap, or a quarantine that was left behind may ask for.
    """

    job: str
    table_id: str
    version: int
    earlier: tuple[int, ...] = ()

    def find_oldest(self, commits: Collection[int], latest: int) -> int | None:
        """Return the oldest version that may be asked for; None when it is the latest one, or none is left.

        Where the log, which holds ``commits``, has lost what came after an earlier one, no files can bring it back.

        Raises:
            HistoryError: The log has lost what the job reads next.
        """
        if self.version < latest and self.version + 1 not in commits:
            raise HistoryError(
                f"nothing is removed: job {self.job!r} has yet to read what came after version {self.version}, and the"
                " table's log no longer holds all of that",
                hint=f"run `{hints.run(self.job)}`",
            )
        left = [each for each in (*self.earlier, self.version) if each < latest and each + 1 in commits]
        return min(left, default=None)


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
        raise HistoryError(f"nobody knows what the target of {job!r} has consumed", hint=f"run `{hints.refresh(job)}`")
    cursors = [target.cursor, *_list_restorable(target.table.uri, job)]
    beside = target.quarantine
    if beside is not None and quarantine is not None:
        kept = [*([beside.cursor] if beside.cursor is not None else []), *_list_restorable(quarantine, job)]
        # What belongs to the target contains what the target does, however old its own record is.
        cursors += [each for each in kept if each != beside.cursor or not beside.belongs_to(target.cursor)]
    found: dict[str, Need] = {}
    for alias, mark in target.cursor.sources.items():
        marks = [each.sources[alias] for each in cursors if alias in each.sources]
        versions = [[each.to, *[gap[0] for gap in each.gaps]] for each in marks if each.table_id == mark.table_id]
        earlier = {max(0, each) for each in chain.from_iterable(versions) if each < mark.to}
        found[alias] = Need(job, mark.table_id, mark.to, tuple(sorted(earlier)))
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
