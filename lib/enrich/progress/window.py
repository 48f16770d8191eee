"""Find the versions that a run takes from one source, by cursor, ``--since``, ``--until`` and the source's log.

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
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from enrich.base import hints
from enrich.base.errors import ANOTHER_TARGET, ConfigError, HistoryError, RefreshNeeded
from enrich.base.result import BEFORE_ALL, SourceWindow
from enrich.delta import tables
from enrich.delta.tables import TableState
from enrich.progress.continuity import find_feed_start
from enrich.progress.cursor import Mark
from enrich.progress.plan import Asked, Moment, OpenJob, Span, find_moment, spell

log = logging.getLogger("enrich")

Range = tuple[int, int]  # versions of a source, from the one after the first to the second

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def compute_window(
    cursor: int, latest: int, since: int | None = None, until: int | None = None, *, point: bool = False
) -> tuple[SourceWindow, Range | None]:
    """Return the window of the table above, and what is taken again.

    ``cursor`` is the last version that the target contains, ``latest`` the one that the source is pinned at; ``point``
    says that ``since`` and ``until`` are one moment.
    """
    end = latest if until is None else min(latest, until)
    to = max(cursor, end)
    if since is not None and since > cursor and not point:
        return SourceWindow(since, max(since, to), gap=(cursor, since)), None
    again = None if since is None or since >= min(cursor, end) else (since, min(cursor, end))
    return SourceWindow(cursor, to), again


def find_version(moment: Moment, option: str, job: str, alias: str, commits: Mapping[int, int]) -> int:
    """Return the last version of a source that a moment contains; ``BEFORE_ALL`` when it is before the first.

    ``commits``: version -> milliseconds since 1970, of the commits that its log still holds. No such version is a
    ConfigError; a log that does not reach back so far RefreshNeeded.
    """
    if moment == BEFORE_ALL:
        return BEFORE_ALL if option == "--since" else 0
    first, last = min(commits, default=0), max(commits, default=0)
    if isinstance(moment, datetime):
        asked = (moment - _EPOCH) // timedelta(milliseconds=1)
        found = max((version for version, at in commits.items() if at <= asked), default=BEFORE_ALL)
        is_forgotten = found == BEFORE_ALL and first > 0
    else:
        if moment > last:
            hint = f"its latest is {last}"
            raise ConfigError(f"{option} v{moment}: source {alias!r} of {job!r} has no such version", hint=hint)
        found = moment
        is_forgotten = option == "--since" and found + 1 < first
    if is_forgotten:
        raise RefreshNeeded(
            f"{option} {spell('', moment)}: the log of source {alias!r} begins only with version {first}",
            hint=f"run `{hints.refresh(job)}`, and name a later version in {option} from then on",
            instead=f"name a later version in {option}, or leave it out",
        )
    return found


def find_versions(job: str, sources: Mapping[str, TableState], option: str, asked: Asked) -> dict[str, int]:
    """Return alias -> the version that an option means there, as ``find_version``; not where it says nothing."""
    found = {}
    for alias, table in sources.items():
        if (moment := find_moment(asked, alias)) is not None:
            found[alias] = find_version(moment, option, job, alias, tables.read_commits(tables.open_log(table.uri)))
    return found


def pin_sources(
    job: str, sources: Mapping[str, TableState], until: Mapping[str, int], marks: Mapping[str, Mark]
) -> dict[str, TableState]:
    """Take every source back to its ``--until``, but never below what the target contains.

    All aliases of a table are read at one version. ``until``: alias -> the version that ends the window, if one does. A
    version that is not there, or two for one table, are a ConfigError; one that cannot be read any more RefreshNeeded.
    """
    found = dict(sources)
    for alias, end in until.items():
        table = sources[alias]
        same = [other for other, each in sources.items() if each.uri == table.uri]
        if any(until.get(other, end) != end for other in same):
            message = f"--until gives {' and '.join(map(repr, same))} of job {job!r} different versions of one table"
            raise ConfigError(message, hint="give one version: all aliases of a table are read at the same version")
        consumed = [marks[other].to for other in same if other in marks and marks[other].table_id == table.table_id]
        to = max([end, *consumed])
        if to < 0:
            hint = "choose a later one"
            raise ConfigError(f"--until is before the first version of source {alias!r} of job {job!r}", hint=hint)
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


def begin(opened: OpenJob) -> Span:
    """Return the span of a first run or a full refresh; a HistoryError where it would forget versions of the target."""
    alias, target, marks = opened.spec.driving, opened.target, opened.target.marks
    table, mark = opened.tables[alias], marks.get(alias)
    is_other = target.cursor is not None and all(each.first is None for each in marks.values())
    if target.table is None or is_other:  # there is no target, or one of another kind: nothing is forgotten
        first = find_feed_start(table)
        return Span(first, first, whole=True)
    # Without a record, only the very first version forgets nothing for sure.
    wanted = 0 if mark is None or mark.first is None else mark.first
    found = find_feed_start(table, wanted, used=None if mark is None else mark.columns)
    why = ""
    if mark is not None and mark.table_id != table.table_id:
        why = f"source {alias!r} is another table now than the one that the history was read from"
    elif found > wanted:
        why = (
            f"the history begins with version {wanted} of source {alias!r}, and the change feed of this source is whole"
            f" only from version {found} on"
        )
    if why:
        hint = ANOTHER_TARGET if target.cursor is None else f"run without it, or {ANOTHER_TARGET}"
        raise HistoryError(f"a full refresh of {opened.job.job!r} would forget what its target knows: {why}", hint=hint)
    return Span(wanted, wanted, whole=True)


def find_since(opened: OpenJob) -> dict[str, int]:
    """Return the version that ``--since`` means for the source of a history; empty when it says nothing of it.

    A time says how much to take once more, as in a crontab. Where the history or the feed begins later, it means the
    first version that can be taken again; a version that is named is not moved. Errors: as ``find_version``.
    """
    name, alias, since = opened.job.job, opened.spec.driving, opened.options.since
    is_time = isinstance(find_moment(since, alias), datetime)
    try:
        versions = find_versions(name, opened.tables, "--since", since)
    except HistoryError:
        if not is_time:
            raise
        versions = {alias: BEFORE_ALL}  # the log begins later
    mark = opened.target.marks[alias]
    if not is_time or versions[alias] >= mark.to:
        return versions
    found = versions[alias]
    wanted = max(found, mark.to if mark.first is None else mark.first)
    start = min(mark.to, find_feed_start(opened.tables[alias], wanted, readable=False, used=mark.columns))
    # A replay may end before that: then there is nothing to take again.
    start = min(start, max(found, opened.until.get(alias, start)))
    if start > found:
        log.info("%s: --since is earlier than what can be taken again of %s: from version %d on", name, alias, start)
    return {alias: start}


def go_on(opened: OpenJob, at: SourceWindow, again: Sequence[Range]) -> tuple[Span, SourceWindow]:
    """Return the span and the window of an incremental run; they start later than they should where the feed is lost.

    ``at`` is the window as cursor and options say it, ``again`` what is taken once more. A feed that is lost is a
    HistoryError where that is not allowed.
    """
    job, alias, asked = opened.job.job, opened.spec.driving, opened.asked
    table, mark = opened.tables[alias], opened.target.marks[alias]
    first = mark.to if mark.first is None else mark.first
    start = mark.to if at.start is None else at.start
    wanted = min([start, *[each[0] for each in again]])
    if wanted < first:
        raise HistoryError(
            f"--since is before version {first} of source {alias!r}, with which the history of {job!r} begins",
            hint=f"run `{hints.run(job, replace(asked, since=f'{alias}=v{first}'))}`, or name a later version",
        )
    skips = start > mark.to  # as --since asked for it
    found = find_feed_start(table, wanted, readable=skips, used=mark.columns)
    if found > wanted and again:
        raise HistoryError(
            f"the change feed of source {alias!r} of {job!r} is whole only after version {found}",
            hint=f"run `{hints.run(job, replace(asked, since=f'{alias}=v{found}'))}`, or name a later version,"
            " or leave --since out",
        )
    if found == wanted and not skips:
        return Span(first, wanted), at
    if not opened.options.allow_gap:
        raise HistoryError(
            f"the change feed of source {alias!r} of {job!r} is lost from version {min(wanted, mark.to) + 1} to"
            f" {found}",
            hint=f"run `{hints.run(job, replace(asked, allow_gap=True))}`, which records what differs as a change of"
            f" version {found}",
        )
    start, gap = max(found, mark.to), (mark.to, found) if found > mark.to else None
    return Span(first, start, compares=True), SourceWindow(start, at.to, gap=gap)


def look_back(opened: OpenJob) -> Span:
    """Return the span of a comparison: as far back as the feed can be read."""
    alias = opened.spec.driving
    mark = opened.target.marks[alias]
    first = mark.to if mark.first is None else mark.first
    found = find_feed_start(opened.tables[alias], first, used=mark.columns)
    return Span(first, found, whole=found == first, compares=found > first)
