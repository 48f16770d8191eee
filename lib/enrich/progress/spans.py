"""What a history is computed from: a version's rows and the feed after it, or the recorded versions and the feed.

=======================  ===================  ===================  ======================================
run                      versions before      feed                 compared with a snapshot
=======================  ===================  ===================  ======================================
first, full refresh      rows of ``first``    after ``first``      -
incremental              as recorded          after the cursor     -
over a lost range        as recorded          after the gap        at the gap's end
verify                   as a full refresh; where the feed is lost like a run over a lost range
=======================  ===================  ===================  ======================================
"""

from __future__ import annotations

import logging
from dataclasses import replace

from enrich.base import hints
from enrich.base.errors import ANOTHER_TARGET, HistoryError
from enrich.base.result import BEFORE_ALL, SourceWindow
from enrich.progress.cursor import TargetState
from enrich.progress.since import Asked, Instant
from enrich.progress.task import Span, Task
from enrich.progress.window import find_versions
from enrich.storage.feeds import find_feed_start
from enrich.storage.tables import TableState

log = logging.getLogger("enrich")


def begin(job: str, alias: str, table: TableState, target: TargetState) -> Span:
    """Return the span of a first run or a full refresh.

    Raises:
        HistoryError: It would forget versions that the target has.
    """
    mark = target.marks.get(alias)
    if not _has_history(target):  # nothing is forgotten
        first = find_feed_start(table)
        return Span(first, first, whole=True)
    # Without a record, only the very first version forgets nothing for sure.
    wanted = 0 if mark is None or mark.first is None else mark.first
    found = find_feed_start(table, wanted, used=None if mark is None else mark.columns)
    if mark is not None and mark.table_id != table.table_id:
        raise _describe_replaced(job, alias)
    if found > wanted:
        raise _refuse_to_forget(
            job,
            f"the history begins with version {wanted} of source {alias!r}, and the change feed of this source is whole"
            f" only from version {found} on",
        )
    return Span(wanted, wanted, whole=True)


def check_unmade(job: str, alias: str, target: TargetState) -> None:
    """Refuse, as ``begin`` does afterwards, a full refresh over a source that a run is about to make.

    Raises:
        HistoryError: The target has versions that were read from another table.
    """
    if alias in target.marks and _has_history(target):
        raise _describe_replaced(job, alias)


def _has_history(target: TargetState) -> bool:
    """Return whether a full refresh could forget versions: not without a target, nor with that of another kind."""
    cursor = target.cursor
    is_other = cursor is not None and all(each.first is None for each in cursor.sources.values())
    return target.table is not None and not is_other


def find_since(task: Task, asked: Asked | None) -> dict[str, int]:
    """Return the version that ``--since`` means for the source of a history; empty when it says nothing of it.

    A time says how much to take once more, as in a crontab. Where the history or the feed begins later, it means the
    first version that can be taken again; a version that is named is not moved.

    Raises:
        EnrichError: As ``find_version``; of a time only when it cannot be read.
    """
    name, alias = task.job.job, task.spec.driving
    if asked is None or not isinstance(asked.of(alias), Instant):
        return find_versions(name, task.tables, asked)
    try:
        found = find_versions(name, task.tables, asked)[alias]
    except HistoryError:  # the log begins later
        found = BEFORE_ALL
    mark = task.target.marks[alias]
    if found >= mark.to:
        return {alias: found}
    wanted = max(found, mark.to if mark.first is None else mark.first)
    begin = min(mark.to, find_feed_start(task.tables[alias], wanted, readable=False, used=mark.columns))
    # A replay may end before that: then there is nothing to take again.
    begin = min(begin, max(found, task.until.get(alias, begin)))
    if begin > found:
        log.info("%s: --since is earlier than what can be taken again of %s: from version %d on", name, alias, begin)
    return {alias: begin}


def go_on(job: str, alias: str, task: Task, *, allow_gap: bool) -> tuple[Span, SourceWindow]:
    """Return the span and the window of an incremental run; they start later than they should where the feed is lost.

    Raises:
        HistoryError: The feed is lost, and that is not allowed; or of what shall be taken again.
    """
    table, mark, at, again = task.tables[alias], task.target.marks[alias], task.window[alias], task.again.get(alias, ())
    first = mark.to if mark.first is None else mark.first
    start = mark.to if at.start is None else at.start
    wanted = min([start, *[each[0] for each in again]])
    if wanted < first:
        raise HistoryError(
            f"--since is before version {first} of source {alias!r}, with which the history of {job!r} begins",
            hint=f"run `{hints.run(job, replace(task.asked, since=f'{alias}=v{first}'))}`, or name a later version",
        )
    skips = start > mark.to  # as --since asked for it
    found = find_feed_start(table, wanted, readable=skips, used=mark.columns)
    if found > wanted and again and not task.apart:
        raise HistoryError(
            f"the change feed of source {alias!r} of {job!r} is whole only after version {found}",
            hint=f"run `{hints.run(job, replace(task.asked, since=f'{alias}=v{found}'))}`, or name a later version, or"
            " leave --since out",
        )
    if found == wanted and not skips:
        return Span(first, wanted), at
    if not allow_gap:
        lost = min(wanted, mark.to) + 1
        raise HistoryError(
            f"the change feed of source {alias!r} of {job!r} is lost from version {lost} to {found}",
            hint=f"run `{hints.run(job, replace(task.asked, allow_gap=True))}`, which records what differs as a change"
            f" of version {found}",
        )
    # What the quarantine alone lacks, or has more than the target, is derived from the recorded versions.
    start, gap = max(found, mark.to), (mark.to, found) if found > mark.to else None
    return Span(first, start, compares=True), SourceWindow(start, at.to, gap=gap)


def look_back(alias: str, task: Task) -> Span:
    """Return the span of a comparison: as far back as the feed can be read."""
    mark = task.target.marks[alias]
    first = mark.to if mark.first is None else mark.first
    found = find_feed_start(task.tables[alias], first, used=mark.columns)
    return Span(first, found, whole=found == first, compares=found > first)


def _describe_replaced(job: str, alias: str) -> HistoryError:
    return _refuse_to_forget(job, f"source {alias!r} is another table now than the one that the history was read from")


def _refuse_to_forget(job: str, why: str) -> HistoryError:
    return HistoryError(
        f"a full refresh of {job!r} would forget what its target knows: {why}",
        hint=f"run without it, or {ANOTHER_TARGET}",
    )
