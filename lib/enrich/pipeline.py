"""Run one job, from its window to its commit; a stranger who reads this module knows the system.

    job -> window (pinned versions) -> changes (CDF, net per key) -> affected keys -> join at the pinned versions
        -> expectations -> state -> one commit of rows, cursor and state (MERGE, or by position) -> report

A full refresh and the first run are the same flow with "all keys". Every step returns what it found; what that makes of
the run's result is put together here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from enrich.base.errors import Blocked
from enrich.base.result import JobResult
from enrich.progress.plan import Plan
from enrich.steps import gate, publish, source_changes, state
from enrich.steps.rows import compute_rows, find_affected_keys
from enrich.steps.run import Run
from enrich.steps.source_changes import explain_losses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.delta.runs import RunsTable


def run_job(plan: Plan, session: SparkSession, runs: RunsTable, committed: Callable[[JobResult], None]) -> JobResult:
    """Bring one target up to the versions that a plan pins.

    Args:
        plan: Window, compiled job, state of the target.
        session: A session of the job's own.
        runs: Where the intent is written before the target is touched.
        committed: Told the result as soon as the log shows the commit, whatever becomes of the process then.

    Returns:
        The result; ``blocked`` results wrote nothing.
    """
    with ExitStack() as cleanup:
        run = Run(plan, session, cleanup, committed, publishes=True)
        cleanup.enter_context(explain_losses(run))
        try:
            result, staged = compute(run)
        except gate.Closed as closed:
            return gate.refuse_run(closed, plan)

        # Nothing that the job uses has changed: move the cursor, touch no row.
        if staged is None:
            return publish.write_cursor(run, result, runs)

        # The quarantine first, then rows and cursor in one commit.
        try:
            return publish.write_run(run, result, staged, runs)
        except Blocked as refused:  # by a constraint of one of the two
            return result.failed_with(refused)


def compute(run: Run) -> tuple[JobResult, publish.StagedRun | None]:
    """Compute what a run would write, up to the last rule; ``run`` and ``verify`` share it.

    Returns:
        What is known of the result, and the difference to target and quarantine; None when nothing that the job uses
        has changed.

    Raises:
        gate.Closed: A rule has closed the gate.
    """
    # What the window brought, netted; two rows with one key would make every later step ambiguous.
    changed = source_changes.read_changes(run)
    account = gate.open_account(run).add(changed.findings, sources=changed.window)
    if not run.plan.everything and not changed.differing:
        return account.result, None

    # Every key whose row may differ, computed anew from the pinned snapshots of all sources.
    affected = find_affected_keys(run, changed)
    rows = compute_rows(run, changed, affected)
    lookups = state.count_lookups(run, changed, affected, rows)
    account = account.add(gate.check_job_rules(run, rows, lookups), counts=rows.counts, lookups=rows.lookups)

    # The rules judge before anything is written; what they quarantine waits there.
    judged = gate.judge_rows(run, rows, affected)
    account = account.add(*judged.findings)

    # The difference to the target and to the quarantine, and what it makes of the state of the whole target.
    staged = publish.stage_difference(run, changed, rows, judged, affected)
    counted, scanned = state.count_target(run, staged.target.difference, judged, affected, lookups)

    # Rules about the whole target; too much of it gone points at an emptied source.
    account = account.add(*gate.judge_target(run, judged, counted.rules, scanned))
    account = account.add(gate.check_mass_change(run, staged.target.difference, compared=staged.compared))
    if account.closing:
        raise gate.Closed(account.result, account.closing)
    return account.result, replace(staged, state=counted)
