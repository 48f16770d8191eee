"""Cursor, ``--since``, ``--until`` and the source's log -> the versions that a run takes from one source.

``C`` is the cursor, 5; the source stands at 9:

=====================  ==================  =========================================
asked                  window              taken again
=====================  ==================  =========================================
nothing                (5, 9]              -
since 2                (5, 9]              (2, 5]: what changed there is computed anew
since 7                refused; with a gap (7, 9], and the gap (5, 7] is recorded
until 7                (5, 7]              -
until 3                (5, 5]              -
since 2, until 7       (5, 7]              (2, 5]
since 2, until 4       (5, 5]              (2, 4]
since 4, until 4       (5, 5]              -
since 7, until 7       (5, 7]              -; a point says how far, not what to leave out
=====================  ==================  =========================================
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from enrich.base import hints
from enrich.base.errors import ANOTHER_TARGET, ConfigError, HistoryError, RefreshNeeded
from enrich.base.result import BEFORE_ALL, SourceWindow
from enrich.delta import tables
from enrich.delta.feeds import find_feed_start
from enrich.delta.tables import TableState
from enrich.progress.cursor import TargetState
from enrich.progress.plan import OpenJob, Span
from enrich.progress.since import Asked, Beginning, Instant, Moment, Version

log = logging.getLogger("enrich")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Reach:
    """What a run takes from one source.

    Attributes:
        start: The version before the window; changes up to it are in the target, or in ``gap``.
        to: The pinned version.
        again: A range before the cursor whose changed keys are computed anew, ends like ``start`` and ``to``.
        gap: A range that is skipped.
    """

    start: int
    to: int
    again: tuple[int, int] | None = None
    gap: tuple[int, int] | None = None


def compute_reach(
    cursor: int, latest: int, since: int | None = None, until: int | None = None, *, point: bool = False
) -> Reach:
    """Put the four versions together.

    Args:
        cursor: The last version that the target contains.
        latest: The version that the source is pinned at, or its latest.
        since: Changes after it are in the window; None: after the cursor.
        until: Changes after it are not; None: all are.
        point: ``since`` and ``until`` are one moment.
    """
    end = latest if until is None else min(latest, until)
    to = max(cursor, end)
    if since is None or since == cursor:
        return Reach(cursor, to)
    if since > cursor:
        return Reach(cursor, to) if point else Reach(since, max(since, to), gap=(cursor, since))
    until_again = min(cursor, end)
    return Reach(cursor, to, again=(since, until_again) if since < until_again else None)


def find_version(moment: Moment, option: str, job: str, alias: str, commits: Mapping[int, int]) -> int:
    """Return the last version of a source that a moment contains; ``BEFORE_ALL`` when it is before the first.

    Args:
        moment: What was asked for.
        option: ``--since`` or ``--until``.
        job: Whose source it is, for messages, as is ``alias``.
        alias: The source.
        commits: Version -> milliseconds since 1970, of the commits that its log still holds.

    Raises:
        ConfigError: There is no such version.
        RefreshNeeded: The log does not reach back so far.
    """
    if isinstance(moment, Beginning):
        return BEFORE_ALL if option == "--since" else 0
    first, last = min(commits, default=0), max(commits, default=0)
    if isinstance(moment, Version):
        if moment.number > last:
            raise ConfigError(
                f"{option} {moment}: source {alias!r} of {job!r} has no such version", hint=f"its latest is {last}"
            )
        found = moment.number
        is_forgotten = option == "--since" and found + 1 < first
    else:
        asked = (moment.at - _EPOCH) // timedelta(milliseconds=1)
        found = max((version for version, at in commits.items() if at <= asked), default=BEFORE_ALL)
        is_forgotten = found == BEFORE_ALL and first > 0
    if is_forgotten:
        raise RefreshNeeded(
            f"{option} {moment}: the log of source {alias!r} begins only with version {first}",
            hint=f"run `{hints.refresh(job)}`",
            instead=f"name a later version in {option}, or leave it out",
        )
    return found


def find_versions(job: str, sources: Mapping[str, TableState], asked: Asked | None) -> dict[str, int]:
    """Return alias -> the version that an option means there; aliases of which it says nothing are left out.

    Raises:
        EnrichError: As ``find_version``.
    """
    found = {}
    for alias, table in sources.items():
        moment = asked.of(alias) if asked is not None else None
        if asked is not None and moment is not None:
            commits = tables.read_commits(tables.open_log(table.uri))
            found[alias] = find_version(moment, asked.option, job, alias, commits)
    return found


def pin_sources(
    job: str, sources: Mapping[str, TableState], until: Mapping[str, int], consumed: Mapping[str, tuple[str, int]]
) -> dict[str, TableState]:
    """Take every source back to its ``--until``, but never below what the target contains.

    Args:
        job: The job's name.
        sources: Alias -> the latest state of its table.
        until: Alias -> the version that ends the window, where one does.
        consumed: Alias -> identity of its table and the last version that the target contains.

    Returns:
        Alias -> the state to read; one version for all aliases of a table.

    Raises:
        ConfigError: The source has no version so early, or two aliases of one table were given different ones.
        RefreshNeeded: The version cannot be read any more.
    """
    found = dict(sources)
    for alias, end in until.items():
        table = sources[alias]
        same = [other for other, each in sources.items() if each.uri == table.uri]
        if any(until.get(other, end) != end for other in same):
            raise ConfigError(
                f"--until gives {' and '.join(map(repr, same))} of job {job!r} different versions of one table",
                hint="give one version: all aliases of a table are read at the same version",
            )
        past = [consumed[other][1] for other in same if other in consumed and consumed[other][0] == table.table_id]
        to = max([end, *past])
        if to < 0:
            raise ConfigError(
                f"--until is before the first version of source {alias!r} of job {job!r}", hint="choose a later one"
            )
        if to < table.version:
            state = tables.state_at(table.uri, to)
            if state is None:
                raise RefreshNeeded(
                    f"the log of source {alias!r} of {job!r} does not know version {to} any more",
                    hint=f"run `{hints.refresh(job)}`",
                    instead=f"run `{hints.run(job)}`, which goes on to the latest version",
                )
            found |= dict.fromkeys(same, state)
    return found


# --- What a history is computed from: a version's rows and the feed after it, or the recorded versions and the feed ---
#
# =======================  ===================  ===================  ======================================
# run                      versions before      feed                 compared with a snapshot
# =======================  ===================  ===================  ======================================
# first, full refresh      rows of ``first``    after ``first``      -
# incremental              as recorded          after the cursor     -
# over a lost range        as recorded          after the gap        at the gap's end
# verify                   as a full refresh; where the feed is lost like a run over a lost range
# =======================  ===================  ===================  ======================================


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


def find_since(opened: OpenJob, asked: Asked | None) -> dict[str, int]:
    """Return the version that ``--since`` means for the source of a history; empty when it says nothing of it.

    A time says how much to take once more, as in a crontab. Where the history or the feed begins later, it means the
    first version that can be taken again; a version that is named is not moved.

    Raises:
        EnrichError: As ``find_version``; of a time only when it cannot be read.
    """
    name, alias = opened.job.job, opened.spec.driving
    if asked is None or not isinstance(asked.of(alias), Instant):
        return find_versions(name, opened.tables, asked)
    try:
        found = find_versions(name, opened.tables, asked)[alias]
    except HistoryError:  # the log begins later
        found = BEFORE_ALL
    mark = opened.target.marks[alias]
    if found >= mark.to:
        return {alias: found}
    wanted = max(found, mark.to if mark.first is None else mark.first)
    begin = min(mark.to, find_feed_start(opened.tables[alias], wanted, readable=False, used=mark.columns))
    # A replay may end before that: then there is nothing to take again.
    begin = min(begin, max(found, opened.until.get(alias, begin)))
    if begin > found:
        log.info("%s: --since is earlier than what can be taken again of %s: from version %d on", name, alias, begin)
    return {alias: begin}


def go_on(
    opened: OpenJob, at: SourceWindow, again: Sequence[tuple[int, int]], *, is_apart: bool, allow_gap: bool
) -> tuple[Span, SourceWindow]:
    """Return the span and the window of an incremental run; they start later than they should where the feed is lost.

    Args:
        opened: The job.
        at: The window as cursor and options say it.
        again: What is taken once more.
        is_apart: Whether the quarantine contains other versions than the target.
        allow_gap: Whether what no feed tells any more may be left out.

    Raises:
        HistoryError: The feed is lost, and that is not allowed; or of what shall be taken again.
    """
    job, alias = opened.job.job, opened.spec.driving
    table, mark = opened.tables[alias], opened.target.marks[alias]
    first = mark.to if mark.first is None else mark.first
    start = mark.to if at.start is None else at.start
    wanted = min([start, *[each[0] for each in again]])
    if wanted < first:
        raise HistoryError(
            f"--since is before version {first} of source {alias!r}, with which the history of {job!r} begins",
            hint=f"run `{hints.run(job, replace(opened.asked, since=f'{alias}=v{first}'))}`, or name a later version",
        )
    skips = start > mark.to  # as --since asked for it
    found = find_feed_start(table, wanted, readable=skips, used=mark.columns)
    if found > wanted and again and not is_apart:
        raise HistoryError(
            f"the change feed of source {alias!r} of {job!r} is whole only after version {found}",
            hint=f"run `{hints.run(job, replace(opened.asked, since=f'{alias}=v{found}'))}`, or name a later version,"
            " or leave --since out",
        )
    if found == wanted and not skips:
        return Span(first, wanted), at
    if not allow_gap:
        lost = min(wanted, mark.to) + 1
        raise HistoryError(
            f"the change feed of source {alias!r} of {job!r} is lost from version {lost} to {found}",
            hint=f"run `{hints.run(job, replace(opened.asked, allow_gap=True))}`, which records what differs as a"
            f" change of version {found}",
        )
    # What the quarantine alone lacks, or has more than the target, is derived from the recorded versions.
    start, gap = max(found, mark.to), (mark.to, found) if found > mark.to else None
    return Span(first, start, compares=True), SourceWindow(start, at.to, gap=gap)


def look_back(opened: OpenJob) -> Span:
    """Return the span of a comparison: as far back as the feed can be read."""
    alias = opened.spec.driving
    mark = opened.target.marks[alias]
    first = mark.to if mark.first is None else mark.first
    found = find_feed_start(opened.tables[alias], first, used=mark.columns)
    return Span(first, found, whole=found == first, compares=found > first)


def _describe_replaced(job: str, alias: str) -> HistoryError:
    return _refuse_to_forget(job, f"source {alias!r} is another table now than the one that the history was read from")


def _refuse_to_forget(job: str, why: str) -> HistoryError:
    return HistoryError(
        f"a full refresh of {job!r} would forget what its target knows: {why}",
        hint=f"run without it, or {ANOTHER_TARGET}",
    )
