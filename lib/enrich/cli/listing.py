"""What ``status`` and ``schema`` show. All of it without a JVM."""

from __future__ import annotations

import json
from typing import Any

from enrich.answers import inspection
from enrich.base.console import clean, format_table
from enrich.project.project import Project


def format_schema(kind: str) -> str:
    """Return the JSON Schema of a kind of file, of the report, or of a run's result."""
    found: dict[str, Any]
    if kind == "test":
        from enrich.testing.scenario import build_schema as build_test_schema

        found = build_test_schema()
    elif kind in ("report", "result"):
        from enrich.report import models

        found = models.build_schema() if kind == "report" else models.build_result_schema()
    else:
        from enrich.project.models import build_schemas

        found = build_schemas()[f"{kind}.schema.json"]
    return json.dumps(found, indent=2)


_STATUS = (
    "job", "version", "rows", "rules failing", "source", "contains", "latest", "behind", "lag", "waiting", "days left",
    "last run",
)  # fmt: skip


def collect_status(project: Project) -> list[dict[str, Any]]:
    """Return the state of every job's target in run order, as ``enrich status --output json`` gives it."""
    return [
        vars(each)
        | {
            "sources": {lag.alias: vars(lag) | {"versions_behind": lag.versions} for lag in each.sources},
            "last_run": each.last_run.isoformat(timespec="seconds") if each.last_run else None,
        }
        for each in inspection.read_status(project)
    ]


def format_status(jobs: list[dict[str, Any]]) -> str:
    """Return the table of ``enrich status``: a line a job and source.

    ``rules failing`` are those with failing rows in the target, of those that are counted, whatever they tolerate.
    ``lag`` is the time between the newest commit contained and the newest there, ``waiting`` the age of the oldest one
    that is not contained, ``days left`` the time until the source forgets it.
    """
    rows: list[tuple[str, ...]] = []
    for job in jobs:
        last = f"{job['last_status']} {job['last_run']}" if job["last_status"] else "never"
        held, failing = "-", "-"
        if (state := job["state"]) is not None:
            counted = [rule["failed"] for rule in state["rules"] if rule["failed"] is not None]
            held = str(state["rows"])
            failing = f"{sum(failed > 0 for failed in counted)} of {len(counted)}" if counted else "-"
        told = (clean(job["job"]), _format_number(job["target_version"]), held, failing, last)
        for lag in job["sources"].values():
            *head, outcome = told
            lags = (lag["consumed"], lag["latest"], lag["versions_behind"])
            times = (format_waiting(lag["lag_seconds"]), format_waiting(lag["seconds"]))
            left = "-" if lag["days_left"] is None else f"{lag['days_left']:.1f}"
            rows.append((*head, clean(lag["alias"]), *map(_format_number, lags), *times, left, outcome))
            told = ("", "", "", "", "")
    shown = format_table(_STATUS, rows, right=(1, 2, 5, 6, 7, 8, 9, 10))
    notes = [clean(f"{job['job']}: {job['note']}") for job in jobs if job["note"]]
    return "\n".join([shown, *notes])


def _format_number(value: int | None) -> str:
    return "-" if value is None else str(value)


def format_waiting(seconds: float | None) -> str:
    """Return how long the oldest change has been waiting: ``40 s``, ``3 min``, ``5 h``; ``-`` when there is none."""
    if not seconds:
        return "-"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
