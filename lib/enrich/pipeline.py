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
        result = JobResult(task.job.job, BLOCKED, task.mode, dict(task.window), stages=work.seconds)

        # What the window brought, netted; two rows with one key would make every later step ambiguous.
        changed = stages.read_changes(work)
        result = replace(result, sources=changed.window, findings=changed.findings)
        if closed_by := gate.closing(changed.findings):
            return gate.refused(result, closed_by)

        # Nothing that the job uses has changed: move the cursor, touch no row.
        if not task.everything and not changed.differing:
            return publish.cursor_alone(work, result, runs)

        # Every key whose row may differ, computed anew from the pinned snapshots of all sources.
        affected = stages.affected_keys(work, changed)
        rows = stages.new_rows(work, changed, affected)
        result = replace(result, counts=rows.counts, lookups=rows.lookups, findings=(*changed.findings, *rows.findings))
        if closed_by := gate.closing(rows.findings):
            return gate.refused(result, closed_by)

        # The rules judge before anything is written; what they hold back waits in the quarantine.
        verdict = gate.judged(work, rows, affected)
        result = replace(result, findings=(*verdict.findings, *changed.findings))
        if verdict.closing:
            return gate.refused(result, verdict.closing)

        # The difference to the target and to the quarantine: the quarantine first, then rows and cursor in one commit.
        staged = publish.staged(work, changed, verdict, affected)
        return publish.written(work, result, staged, runs)
