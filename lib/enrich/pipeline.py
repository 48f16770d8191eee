"""One job, from its window to its commit; a stranger who reads this module knows the system.

    job -> window (pinned versions) -> changes (CDF, net per key) -> affected keys -> join at the pinned versions
        -> expectations -> state -> MERGE + cursor + state in one commit -> report

A full refresh and the first run are the same flow with "all keys".
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from enrich.base.result import JobResult
from enrich.progress.task import Task
from enrich.steps import affected_keys, gate, publish, source_changes, state
from enrich.steps.losses import explain_losses
from enrich.steps.rows import compute_rows
from enrich.steps.work import Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.storage.runs import RunsTable


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
        work = Work(task, session, cleanup)
        cleanup.enter_context(explain_losses(work))
        try:
            staged = compute(work)
        except gate.Closed as closed:
            return gate.refuse_run(work.result, closed.findings, task)

        # Nothing that the job uses has changed: move the cursor, touch no row.
        if staged is None:
            return publish.write_cursor(work, runs)

        # The quarantine first, then rows and cursor in one commit.
        return publish.write_run(work, staged, runs)


def compute(work: Work) -> publish.StagedRun | None:
    """Compute what a run would write, up to the last rule; ``run`` and ``verify`` share it.

    Returns:
        The difference to target and quarantine; None when nothing that the job uses has changed.

    Raises:
        gate.Closed: A rule has closed the gate.
    """
    # What the window brought, netted; two rows with one key would make every later step ambiguous.
    changed = source_changes.read_changes(work)
    gate.require_open(work, changed.findings)
    if not work.task.everything and not changed.differing and not work.task.retry:
        return None

    # Every key whose row may differ, computed anew from the pinned snapshots of all sources.
    affected = affected_keys.find_affected_keys(work, changed)
    rows = compute_rows(work, changed, affected)
    work.result = replace(work.result, counts=rows.counts, lookups=rows.lookups)
    lookups = state.count_lookups(work, changed, affected, rows)
    gate.check_job_rules(work, rows, lookups)

    # The rules judge before anything is written; what they quarantine waits there.
    judged = gate.judge_rows(work, rows, affected)

    # The difference to the target and to the quarantine, and what it makes of the state of the whole target.
    staged = publish.stage_difference(work, changed, judged, affected)
    counted = state.count_target(work, staged.target, judged, affected, lookups)

    # Rules about the whole target; too much of it gone points at an emptied source.
    gate.judge_target(work, judged, counted.state.rules, counted.scanned)
    gate.check_mass_change(work, staged.target, compared=staged.compared)
    gate.require_accepted(work)
    return replace(staged, state=counted.state)
