"""Put a target's files in shape right after a run's commit, where many runs have made them many or sparse.

The rows are committed by then: whatever goes wrong here is a warning. ``docs/adr/0021-upkeep.md``.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from enrich.base import hints
from enrich.base.result import APPEND, MERGE, JobResult
from enrich.progress.task import Task
from enrich.storage import shape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("enrich")


def keep_in_shape(task: Task, session: SparkSession, result: JobResult) -> JobResult:
    """Run OPTIMIZE on the target if the run's commit leaves it out of shape and ``conf/`` does not forbid it.

    Returns:
        The result, with what was done; as it was when that is not needed or fails.
    """
    uri, limits = task.place.uri, task.optimize
    if result.strategy not in (MERGE, APPEND) or result.written is None or uri is None:
        return result
    if limits is None or not limits.after_commit:
        return result
    try:
        from enrich.storage import upkeep

        rows = result.state.rows if result.state is not None else None
        why = shape.find_need(shape.measure_shape(uri), rows, limits)
        if why is None:
            return result
        started = time.monotonic()
        log.info("%s: OPTIMIZE of the target: %s", result.job, why)
        author = upkeep.Author(task.run_id, result.job, limits.deleted_rows)
        done = upkeep.optimize_table(session, uri, author, why)
        spent = {**result.stages, "optimize": round(time.monotonic() - started, 3)}
        return replace(result, optimized=done, stages=spent)
    except Exception as error:  # noqa: BLE001 - the job is done, and another run or `enrich maintain` can do this
        log.warning(
            "%s: the rows are committed, but OPTIMIZE failed (%s); `%s` tries it again",
            *(result.job, type(error).__name__, hints.maintain(result.job)),
        )
        return result
