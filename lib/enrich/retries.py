"""Another attempt, from a fresh plan, where somebody else's commit came between a job's plan and its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from enrich.failures import is_conflict

log = logging.getLogger("enrich")

T = TypeVar("T")

PAUSES = (0.5, 1.5, 4.0)
"""Seconds before the next attempt, half of it more or less."""


def retried(attempt: Callable[[], T], job: str, run_id: str, is_final: Callable[[], bool]) -> T:
    """Make attempts until one succeeds, fails for another reason than a conflict, or is the last.

    Args:
        attempt: Plans and does the job.
        job: The job's name.
        run_id: Decides how long this run waits: two of them do not wait in step.
        is_final: Tells whether the job is done in spite of the error.
    """
    for pause in PAUSES:
        try:
            return attempt()
        except Exception as error:
            if is_final() or not is_conflict(error):
                raise
            log.info("%s: another writer came between (%s); planning anew", job, type(error).__name__)
        time.sleep(pause * (0.5 + int(run_id[:4], 16) / 0xFFFF))
    return attempt()
