"""Reports of projects of any size, as a year of runs would leave them, made without a run."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from enrich.report import Report, build_report
from enrich.report.models import SourceRead
from kit.history import expect, finding, project_in, row, state

BETWEEN, UNIQUE = "expect_column_values_to_be_between", "expect_column_values_to_be_unique"
PAIR = "expect_column_pair_values_a_to_be_greater_than_b"


def random_feeds(count: int) -> dict[str, list[str]]:
    """Return so many jobs by name, each with the jobs and tables that it reads."""
    dice, feeds = random.Random(count), dict[str, list[str]]()
    for number in range(count):
        known = [*list(feeds)[-12:], *(f"crm.consent_events_with_account_{dice.randrange(count)}" for _ in range(6))]
        feeds[f"job{number:03}"] = dice.sample(known, dice.randint(1, 3))
    return feeds


def report_of_size(home: Path, count: int, feeds: Mapping[str, Sequence[str]] | None = None) -> Report:
    """Return a report of so many jobs, of which in a large project one in ten has something to do."""
    feeds = feeds or random_feeds(count)
    allowed = expect("ok", BETWEEN, enrich={"tolerate": 20}, max_value=9)
    project = project_in(home, rules=[expect(), allowed, expect("id", UNIQUE, mostly=0.99)])
    base = project.jobs["customers"]
    jobs = [
        (
            base.model_copy(
                update={
                    "job": name,
                    "target": base.target.model_copy(update={"table": f"shop.{name}"}),
                    "description": "Who may be written to, and with what address.",
                    "owner": "team-crm@example.org",
                }
            ),
            list_runs(number, name),
        )
        for number, name in enumerate(feeds)
    ]
    report = build_report(jobs, project)
    reads = {
        name: tuple(
            SourceRead(alias=f"s{place}", table=each, job=each if each in feeds else None)
            for place, each in enumerate(others)
        )
        for name, others in feeds.items()
    }
    found = tuple(job.model_copy(update={"reads": reads[job.job]}) for job in report.jobs)
    return report.model_copy(update={"jobs": found})


def list_runs(number: int, job: str) -> list[dict[str, Any]]:
    """Return the rows of the runs table of one job."""
    ends = {0: "failed", 3: "blocked", 6: "skipped"}
    if number % 100 == 29:
        return []
    warns, found = number % 15 == 0, list[dict[str, Any]]()
    for run in range(8):
        missing = (4 + run) * 1_000 if warns else 0
        findings = [
            finding(failed=run if warns else 0, success=not warns or not run),
            finding(BETWEEN, index=1, column="ok", checked=300, failed=12, success=True, tolerated=True),
            finding(UNIQUE, index=2, column="id", scope="target", checked=2_345_678),
            finding(PAIR, index=3, column=None, column_list=["valid_to", "valid_from"], action="quarantine",
                    failed=2 if warns else 0, success=not warns),
            finding("match_rate", index=None, column=None, source="accounts", at_least=0.95, checked=300, failed=4),
        ]  # fmt: skip
        counted = state(
            *(missing, 12, 0),
            rows=2_345_678,
            lookups={"accounts": {"rows": 2_345_678, "matched": 2_300_000 - run, "null_references": 4_000}},
            nulls={"id": 0, "email": missing, "a_column_with_a_rather_long_name": 17},
        )
        held = {"rows": 2, "reasons": {f"{PAIR}:valid_to,valid_from": 2}} if warns else None
        lookups = {"accounts": {"kind": "table", "rows": 300, "matched": 296, "null_references": 1}}
        more: dict[str, Any] = {"findings": findings, "state": counted, "quarantine": held, "lookups": lookups}
        stages = {"plan": 0.4, "join": 1.25, "judge": 0.75, "write": 1.5}
        found.append(row(run, job=job, inserted=1_234, stages=stages, **more))
    if status := ends.get(number % 100):
        error = f"job {job}: the source accounts was replaced by another table; run `enrich run {job} --full-refresh`"
        found.append(row(8, job=job, status=status, error=error if status == "failed" else None, sources={}))
    return found
