"""Stop, or plan anew, a run whose commit would be, or is, no longer the view: another one was faster, or others wrote.

A run that ends between its two commits is set right by the next one's plan (``progress.continuity.find_apart``).
"""

from __future__ import annotations

from enrich.base.errors import Conflict, Locked
from enrich.delta import tables
from enrich.progress import cursor
from enrich.progress.cursor import describe_drift
from enrich.progress.plan import Plan


def refuse_if_beaten(plan: Plan, *, beside: bool = False) -> None:
    """Raise when the target, or the quarantine ``beside`` it, has a newer number than the one that was planned on.

    Delta refuses a number that it knows; but ``delta.setTransactionRetentionDuration`` may let it forget numbers.

    Raises:
        Locked: Another run has written the target.
        Conflict: Another run is between its two commits.
    """
    if not beside:
        if winner := _find_winner(plan, plan.place.uri, cursor.NUMBER, plan.target.number):
            raise Locked(f"run {winner} has written the target of {plan.job.job!r} meanwhile", hint="run again")
    elif (there := plan.target.quarantine) and _find_winner(plan, there.table.uri, cursor.BESIDE, there.number):
        raise Conflict(f"another run is writing the quarantine of {plan.job.job!r}", hint="run again")


def _find_winner(plan: Plan, uri: str | None, name: str, planned: int) -> str | None:
    if uri is None or not tables.exists(uri):
        return None
    log = tables.open_log(uri)
    if cursor.find_number(log, plan.job.job, name) in (None, planned):
        return None
    records = map(cursor.read_run, tables.read_history(log, tables.RECENT))
    return next((found["run_id"] for found in records if "run_id" in found), "another run")


def refuse_drift(plan: Plan, version: int) -> None:
    """Raise ``DriftError`` when others' rows came between plan and commit; Delta sees only what overlaps."""
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
