"""Another attempt, from a fresh plan: after somebody else's commit, or where an executor took computed rows with it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from enrich.base.failures import has_lost_rows, is_conflict
from enrich.base.values import find_value_fault

log = logging.getLogger("enrich")

T = TypeVar("T")

PAUSES = (0.5, 1.5, 4.0)
"""Seconds before the next attempt, half of it more or less."""


def retry(attempt: Callable[[], T], job: str, run_id: str, is_final: Callable[[], bool]) -> T:
    """Make attempts until one succeeds, is the last, or fails for a reason that a fresh plan does not heal.

    Rows that got lost are computed anew once: where it happens again, executors die of the job itself.

    Args:
        attempt: Plans and does the job.
        job: The job's name.
        run_id: Decides how long this run waits: two of them do not wait in step.
        is_final: Tells whether the job is done in spite of the error.
    """
    losses = 0
    for pause in PAUSES:
        try:
            return attempt()
        except Exception as error:
            lost = has_lost_rows(error)
            losses += lost
            is_value = find_value_fault(error) is not None  # its text may quote what looks like a conflict
            if is_final() or is_value or losses > 1 or not (lost or is_conflict(error)):
                raise
            what = "an executor was lost with computed rows" if lost else "another writer committed meanwhile"
            log.info("%s: %s (%s); planning again", job, what, type(error).__name__)
        time.sleep(pause * (0.5 + int(run_id[:4], 16) / 0xFFFF))
    return attempt()
