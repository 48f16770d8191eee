"""The target's files, put in shape right after the run's own commit where many runs have made them many or sparse.

The rows are committed by then: whatever goes wrong here is a warning. ``docs/adr/0021-upkeep.md``.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from enrich.base import hints
from enrich.base.result import APPEND, MERGE, Compaction, JobResult
from enrich.steps.work import Work, measure
from enrich.storage import shape, upkeep

log = logging.getLogger("enrich")


def keep_in_shape(work: Work, result: JobResult) -> JobResult:
    """Run OPTIMIZE on the target if the run's commit leaves it out of shape and ``conf/`` does not forbid it.

    Returns:
        The result, with what was done; as it was when that is not needed or fails.
    """
    uri = work.task.place.uri
    if result.strategy not in (MERGE, APPEND) or result.written is None or uri is None:
        return result
    try:
        why = _find_need(work, uri, result)
        return result if why is None else replace(result, optimized=_optimize(work, uri, why))
    except Exception as error:  # noqa: BLE001 - the job is done, and another run or `enrich maintain` can do this
        log.warning(
            "%s: the rows are committed, but OPTIMIZE failed (%s); `%s` tries it again",
            *(result.job, type(error).__name__, hints.maintain(result.job)),
        )
        return result


def _find_need(work: Work, uri: str, result: JobResult) -> str | None:
    limits = work.task.optimize
    if limits is None or not limits.after_commit:
        return None
    rows = result.state.rows if result.state is not None else None
    return shape.find_need(shape.measure_shape(uri), rows, limits)


@measure("optimize")
def _optimize(work: Work, uri: str, why: str) -> Compaction | None:
    task = work.task
    assert task.optimize is not None  # noqa: S101 - it has told why
    log.info("%s: OPTIMIZE of the target: %s", task.job.job, why)
    author = upkeep.Author(task.run_id, task.job.job, task.optimize.deleted_rows)
    return upkeep.optimize_table(work.session, uri, author, why)
