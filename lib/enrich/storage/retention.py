"""For how long a table's past stays readable, as its properties say."""

from __future__ import annotations

import re
from collections.abc import Mapping

KEEPS_FILES, KEEPS_LOG = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
_INTERVAL = re.compile(r"(?:interval\s+)?((?:[0-9]+\s+(?:week|day|hour|minute|second)s?\s*)+)", re.IGNORECASE)
_PART = re.compile(r"([0-9]+)\s+(week|day|hour|minute|second)", re.IGNORECASE)
_SECONDS = {"week": 604800, "day": 86400, "hour": 3600, "minute": 60, "second": 1}


def compute_retention(properties: Mapping[str, str]) -> int | None:
    """Return for how many seconds a table's past stays readable; None where its properties cannot be understood.

    Removed files stay for a week and the log for thirty days unless the table says otherwise; the shorter one counts.
    """
    files, log = compute_file_retention(properties), _read_interval(properties.get(KEEPS_LOG, "interval 30 days"))
    return None if files is None or log is None else min(files, log)


def compute_file_retention(properties: Mapping[str, str]) -> int | None:
    """Return for how many seconds VACUUM has to leave removed files; None where the property cannot be understood."""
    return _read_interval(properties.get(KEEPS_FILES, "interval 1 week"))


def _read_interval(text: str) -> int | None:
    found = _INTERVAL.fullmatch(str(text).strip())
    if found is None:
        return None
    return sum(int(number) * _SECONDS[unit.lower()] for number, unit in _PART.findall(found[1]))
