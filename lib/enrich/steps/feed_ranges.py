"""Ranges of a source's commits, before they are read: does the feed tell all, can the snapshots be trusted instead."""

from __future__ import annotations

import logging

from enrich.base import hints
from enrich.base.errors import HistoryError, RefreshNeeded
from enrich.progress.task import FULL_REFRESH, Task
from enrich.storage import feeds, tables
from enrich.storage.feeds import Snapshots, Told

log = logging.getLogger(__name__)


def read_range(task: Task, alias: str, window: tuple[int, int]) -> Told:
    """Read what the commits of a range say of its feed.

    Raises:
        HistoryError: A commit holds what is not known.
    """
    table, cursor = task.tables[alias], task.target.cursor
    mark = None if cursor is None else cursor.sources.get(alias)
    known = mark.partitions if mark is not None and mark.to == window[0] else None
    return feeds.read_range(table.uri, window, known)


def tells_all(task: Task, alias: str, window: tuple[int, int]) -> bool:
    """Return whether a range can be read from its feed: no commit is lost, and the files are all laid out alike.

    Raises:
        HistoryError: A commit holds what is not known.
    """
    return read_range(task, alias, window).is_whole and _keeps_layout(task, alias, window)


def _keeps_layout(task: Task, alias: str, window: tuple[int, int]) -> bool:
    """Return whether the used columns have their values under the same names in the files at both ends of a range.

    Delta refuses a feed across a column that is renamed, or dropped and added again; but where that is the first commit
    of the range, the feed is just empty.
    """
    table, used = task.tables[alias], task.spec.sources[alias].columns
    known = {table.version: table.layout}
    if task.target.cursor is not None:
        mark = task.target.cursor.sources[alias]
        known.setdefault(mark.to, mark.layout)
    ends = []
    for version in window:
        state = None if version in known else tables.state_at(table.uri, version)
        if version not in known and state is None:
            return False
        ends.append(known[version] if state is None else state.layout)
    before, after = ends
    return all(after.get(name) == there for name, there in before.items() if name in used)


def require_sound(task: Task, alias: str, *versions: int) -> None:
    """Refuse versions of a source that seem to be readable, but lack what an empty commit file should tell.

    A full refresh takes them as they are read now.

    Raises:
        HistoryError: A version lacks a commit; or a commit holds what is not known.
    """
    name, snapshots = task.job.job, Snapshots(task.tables[alias].uri)
    for version in versions:
        damaged = snapshots.find_damage(version)
        if damaged is None:
            continue
        said = f"the file of commit {damaged} in the log of source {alias!r} of {name!r} is empty or damaged"
        if task.mode == FULL_REFRESH:
            log.warning("%s: its changes are missing in what is read now", said)
            continue
        hint = f"restore that file and run again, or run `{hints.refresh(name)}` to go on without it"
        if task.target.table is None:
            raise HistoryError(f"{said}, and version {version} is read without it", hint="restore that file")
        raise RefreshNeeded(
            f"{said}, and version {version} would be read without it",
            hint=hint,
            instead="restore that file, and run again",
        )
