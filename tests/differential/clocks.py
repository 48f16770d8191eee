"""The times of a table's commits: as the log tells them, and as writers tell them whose clocks disagree."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from deltalake import DeltaTable

from kit.commits import date_commit, find_commit

_HALF_AN_HOUR, _LATE = 1_800_000, 2_400_000
TEN = datetime(2026, 3, 29, 10, tzinfo=UTC)
"""When the first commit is made: later ones meet the moments of ``columns.DOMAINS`` exactly."""


def read_raw_times(path: Path) -> list[int]:
    """Return the time that each commit of a table says of itself, in milliseconds since 1970."""
    found = []
    for version in range(DeltaTable(str(path)).version() + 1):
        actions = [json.loads(line) for line in find_commit(path, version).read_text().splitlines()]
        found.append(next(each["commitInfo"]["timestamp"] for each in actions if "commitInfo" in each))
    return found


def read_times(path: Path) -> list[int]:
    """Return the commits' times in their order: each at least a millisecond after the one before."""
    found: list[int] = []
    for at in read_raw_times(path):
        found.append(at if not found else max(at, found[-1] + 1))
    return found


def tell_time(version: int) -> int:
    """Return what the writer of a version says of its time: each fourth one is forty minutes ahead."""
    return round(TEN.timestamp() * 1000) + _HALF_AN_HOUR * version + (_LATE if version % 4 == 1 else 0)


def skew_times(path: Path, first: int) -> None:
    """Let the commits from ``first`` on tell the times of writers whose clocks disagree."""
    for version in range(first, DeltaTable(str(path)).version() + 1):
        date_commit(path, version, tell_time(version))
