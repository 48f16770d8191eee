"""A run's commits, and the proof from the log of what became of them: the answer of a call proves nothing.

=====================================  ===========================================  ==========================
the call                               the log                                      the run
=====================================  ===========================================  ==========================
returned                               holds the commit                             is done
returned                               does not: its number was taken, it was       has lost, or plans anew
                                       skipped silently
raised (answer lost, a step after      holds the commit                             is done, and says so
the commit failed, a signal)
raised                                 does not                                     failed, lost or plans anew
=====================================  ===========================================  ==========================

Lost: another run of the job has committed to the target (``Locked``, exit 4). Plans anew: ``Conflict``, and what
``base.failures.is_conflict`` knows of Delta's errors; ``retry`` does it, four times at most. Failed: anything else. A
run that ends between the quarantine's commit and the target's is set right by the next one's plan
(``progress.continuity.find_contained``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from enrich.base.errors import Conflict, Locked
from enrich.base.failpoints import pass_point
from enrich.base.failures import has_lost_rows, is_conflict
from enrich.base.values import find_value_fault
from enrich.progress import cursor
from enrich.progress.cursor import describe_drift
from enrich.progress.plan import Plan
from enrich.storage import tables

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CommitAttempt:
    """One commit to be made.

    Attributes:
        label: The table's name in messages.
        uri: Tells where the table is; a catalog knows a new one only afterwards.
        base: The version that the commit was planned on; None when it creates the table.
        act: Makes the commit.
        landed: Told the commit's version, also when an exception or a signal is on its way.
    """

    label: str
    uri: Callable[[], str | None]
    base: int | None
    act: Callable[[], None]
    landed: Callable[[int], None] = lambda _: None


def commit_and_prove(plan: Plan, write: CommitAttempt) -> int:
    """Make a commit and find it in the log.

    Returns:
        Its version.

    Raises:
        Locked: Another run of the job has committed to the target since this one was planned.
        Conflict: The commit's number was taken by a run that has not reached the target.
    """
    try:
        write.act()
    except BaseException as error:
        version = _find_commit(plan, write)
        if version is None:
            refuse_if_beaten(plan)
            raise
        write.landed(version)
        if not isinstance(error, Exception):
            raise
        log.warning("%s: version %d is committed, but the call failed (%s)", write.label, version, type(error).__name__)
        return version
    version = _find_commit(plan, write)
    if version is None:
        refuse_if_beaten(plan)
        raise Conflict(f"another run is writing {write.label}", hint="run again")
    write.landed(version)
    return version


def _find_commit(plan: Plan, write: CommitAttempt) -> int | None:
    """Return the version of this attempt's commit; None when the log does not hold it."""
    pass_point("proof.before")
    uri = write.uri()
    if uri is None or not tables.exists(uri):
        return None
    versions = cursor.find_commits(tables.read_history(tables.open_log(uri), 20), plan.run_id, write.base)
    pass_point("proof.after")
    return versions[0] if versions else None


def refuse_if_beaten(plan: Plan) -> None:
    """Stop when the target has a newer number than the one that this run was planned on.

    Delta skips or refuses a number that it knows, in the same instant as it commits. But it forgets it where a table
    has a ``delta.setTransactionRetentionDuration``: so this is asked right before each commit, too.

    Raises:
        Locked: Naming the run that was faster.
    """
    if winner := _find_winner(plan, plan.place.uri, cursor.NUMBER, plan.target.number):
        raise Locked(f"run {winner} has written the target of {plan.job.job!r} meanwhile", hint="run again")


def refuse_if_beaten_beside(plan: Plan) -> None:
    """Stop when the quarantine has a newer number than this run was planned on, as ``refuse_if_beaten``.

    Raises:
        Conflict: Another run is between its two commits, or has ended there.
    """
    beside = plan.target.quarantine
    if beside is not None and _find_winner(plan, beside.table.uri, cursor.BESIDE, beside.number):
        raise Conflict(f"another run is writing the quarantine of {plan.job.job!r}", hint="run again")


def _find_winner(plan: Plan, uri: str | None, name: str, planned: int) -> str | None:
    """Return the run that has written a table since this one was planned; None when none has."""
    if uri is None or not tables.exists(uri):
        return None
    log = tables.open_log(uri)
    if cursor.find_number(log, plan.job.job, name) in (None, planned):
        return None
    return cursor.find_writer(tables.read_history(log, 20))


def refuse_drift(plan: Plan, version: int) -> None:
    """Stop when somebody else's rows came between this run's plan and its commit.

    Delta sees what overlaps with a commit; what came shortly before it, only the log shows.

    Raises:
        DriftError: The target is the view no more; the next run says the same.
    """
    table = plan.target.table
    if table is None or plan.place.uri is None:
        return
    found = tables.open_log(plan.place.uri)
    entries = tables.read_history(found, found.version() - table.version)
    base = next((cursor.find_base(each) for each in entries if int(each["version"]) == version), None)
    between = (table.version if base is None else base, version)
    others = cursor.list_others_between(entries, between)
    changing = cursor.list_changing(plan.place.uri, others, plan.spec.columns)
    if changing:
        raise describe_drift(plan.job.job, changing)


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
