"""Read from a log what the commits of a range say of a change feed, and whether their files hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from enrich.delta import tables


class Told(NamedTuple):
    """What the commits of a range say of its feed: versions that the log lacks, and those with other partitions."""

    lost: tuple[int, ...] = ()
    repartitioned: tuple[int, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True when the feed tells all, as far as the log can say."""
        return not self.lost and not self.repartitioned


def read_range(uri: str, window: tuple[int, int], partitions: Sequence[str] | None = None) -> Told:
    """Read the commits after ``window[0]`` up to ``window[1]``; ``partitions``: those at its start, else the log's."""
    lost, changed, before = [], [], partitions
    for version in range(window[0] + 1, window[1] + 1):
        found = tables.actions(uri, version, "metaData")
        if found is None:
            lost.append(version)
        for each in found or ():
            if before is None and version > 0:
                state = tables.state_at(uri, version - 1)
                before = None if state is None else state.partitions
            now = each["metaData"].get("partitionColumns") or []
            if version > 0 and (before is None or set(before) != set(now)):
                changed.append(version)
            before = now
    return Told(tuple(lost), tuple(changed))


def find_damage(uri: str, version: int) -> int | None:
    """Return the first commit, of those that a version is read from, whose file is empty or holds something else.

    A reader passes over an empty one in silence; a commit that is missing ends each reader with an error.
    """
    commits, checkpoints = tables.list_log(uri)
    base = max((each for each in checkpoints if each <= version), default=-1)
    read_from = [each for each in range(base + 1, version + 1) if each in commits]
    return next((each for each in read_from if tables.actions(uri, each, "commitInfo") is None), None)
