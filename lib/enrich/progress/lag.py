"""How far a target is behind its sources, from the sources' logs alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from enrich.base import hints
from enrich.base.errors import EnrichError
from enrich.base.names import CatalogName, Location
from enrich.config.models import Job
from enrich.progress.continuity import goes_on
from enrich.progress.cursor import Mark
from enrich.storage import feeds, retention, tables
from enrich.storage.tables import TableState


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
    kept = retention.compute_retention(state.properties)
    return None if kept is None or seconds is None else max(0.0, round((kept - seconds) / 86400, 2))


def find_way_on(job: Job) -> hints.RunOptions:
    """Return the options with which a job goes on whose source has forgotten changes.

    A full refresh of a history would forget them as well, and is refused.
    """
    return hints.RunOptions(allow_gap=True) if job.remembers else hints.FULL_REFRESH
