"""One job, from its window to its commit; a stranger who reads this module knows the system.

    job -> window (pinned versions) -> changes (CDF, net per key) -> affected keys -> join at the pinned versions
        -> expectations -> MERGE + cursor in one commit -> report

A full refresh and the first run are the same flow with "all keys".
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from enrich import gate, publish, stages
from enrich.prepare import Task
from enrich.result import BLOCKED, JobResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.runs import RunsTable


def run_job(task: Task, session: SparkSession, runs: RunsTable) -> JobResult:
    """Bring one target up to the versions that ``task`` pins.

    Args:
        task: The prepared job: window, compiled spec, target's state.
        session: A session of the job's own.
        runs: Where the intent is written before the target is touched.

    Returns:
        The result; ``blocked`` results wrote nothing.
    """
    with ExitStack() as cleanup:
        work = stages.Work(task, session, cleanup)
        result = JobResult(
            task.job.job, BLOCKED, task.mode, dict(task.window), findings=task.unjudged, stages=work.seconds
        )

        # What the window brought, netted; two rows with one key would make every later step ambiguous.
        changed = stages.read_changes(work)
        result = replace(result, sources=changed.window).with_findings(changed.findings)
        if closed_by := gate.closing(changed.findings):
            return gate.refused(result, closed_by)

        # Nothing that the job uses has changed: move the cursor, touch no row.
        if not task.everything and not changed.differing and not task.retry:
            return publish.cursor_alone(work, result, runs)

        # Every key whose row may differ, computed anew from the pinned snapshots of all sources.
        affected = stages.affected_keys(work, changed)
        rows = stages.new_rows(work, changed, affected)
        guarded = (*rows.findings, *gate.guarded(work, rows))
        result = replace(result, counts=rows.counts, lookups=rows.lookups).with_findings(guarded)
        if closed_by := gate.closing(guarded):
            return gate.refused(result, closed_by)

        # The rules judge before anything is written; what they hold back waits in the quarantine.
        verdict = gate.judged(work, rows, affected)
        result = result.with_findings(verdict.findings)
        if verdict.closing:
            return gate.refused(result, verdict.closing)

        # The difference to the target and to the quarantine; too much of the target gone points at an emptied source.
        staged = publish.staged(work, changed, verdict, affected)
        lost = gate.mass_change(work, staged.target, compared=staged.compared)
        result = result.with_findings(lost)
        if closed_by := gate.closing(lost):
            return gate.refused(result, closed_by)

        # The quarantine first, then rows and cursor in one commit.
        return publish.written(work, result, staged, runs)
