"""How far a target is behind its sources, from the sources' logs alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from enrich.base.errors import EnrichError
from enrich.config.places import CatalogName, Location
from enrich.storage import retention, tables


@dataclass(frozen=True)
class SourceLag:
    """How far a target is behind one of its sources.

    Attributes:
        consumed: The last version that the target contains; None before the first run.
        latest: The source's latest version; None when it cannot be read.
        seconds: Time since the oldest commit that is not consumed yet; 0 when there is none, None when unknown.
        lag_seconds: Time between the newest commit consumed and the newest there.
        days_left: Days until the source forgets what is not consumed yet; 0 when that has begun, None when nothing is
            waiting or its properties cannot be understood.
        gaps: Versions that a run was told to skip, each from the one before it to the last.
    """

    alias: str
    table: str
    consumed: int | None
    latest: int | None
    seconds: float | None
    lag_seconds: float | None = None
    days_left: float | None = None
    gaps: tuple[tuple[int, int], ...] = ()

    @property
    def versions(self) -> int | None:
        """How many versions are not consumed yet."""
        return None if self.latest is None else self.latest - (-1 if self.consumed is None else self.consumed)


def measure_lag(known: SourceLag, place: Location) -> SourceLag:
    """Return ``known``, which says what is consumed, with how far that is behind the source's latest commit.

    Args:
        known: Alias, table, the version consumed and the gaps.
        place: Where the source is. What cannot be read without Spark, or not at all, stays unknown.
    """
    if isinstance(place, CatalogName):
        return known
    try:
        log = tables.open_log(place)
    except EnrichError:
        return known
    latest, consumed = log.version(), known.consumed
    if consumed is not None and latest <= consumed:
        return replace(known, latest=latest, seconds=0.0, lag_seconds=0.0)
    commits, now = tables.read_commits(log), datetime.now(UTC).timestamp()
    waiting = [at / 1000 for version, at in commits.items() if consumed is None or version > consumed]
    seconds = max(0.0, now - min(waiting)) if waiting else None
    if consumed is None:
        return replace(known, latest=latest, seconds=seconds)
    newest = commits.get(consumed)
    behind = None if newest is None else (commits[max(commits)] - newest) / 1000
    kept = retention.compute_retention(tables.read_open_state(log).properties)
    if consumed + 1 < min(commits, default=0):
        left: float | None = 0.0
    else:
        left = None if kept is None or seconds is None else max(0.0, round((kept - seconds) / 86400, 2))
    return replace(known, latest=latest, seconds=seconds, lag_seconds=behind, days_left=left)
