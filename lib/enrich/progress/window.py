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

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from enrich.base import hints
from enrich.base.errors import ConfigError, RefreshNeeded
from enrich.base.result import BEFORE_ALL
from enrich.progress.since import Asked, Beginning, Moment, Version
from enrich.storage import tables
from enrich.storage.tables import TableState

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
