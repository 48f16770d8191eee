"""The report for a terminal: verdict first, plain ASCII but for names, which are cleaned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from enrich.base.console import clean, format_table
from enrich.report.models import JobReport, Report
from enrich.report.page import format_number, format_percent, format_rule, format_threshold, format_whole
from enrich.report.values import format_verdict

_COLOURS = {"passed": "green", "warned": "yellow", "skipped": "yellow", "blocked": "red", "failed": "red"}
_TREND = 8


def format_report(report: Report) -> str:
    """Return the report as text.

    ```
    warned  2 jobs: 1 warned, 1 passed

    customers  warned  last run updated 2026-11-21T10:00:00Z
      1 of 2 rules failed
      rules                                        verdict  action  failed  of  share  before
        expect_column_values_to_not_be_null(email)  warned   warn         2  10   20 %  0 0 1
      ...
    ```
    """
    verdict = f"{_format_verdict(report.verdict)}  {report.headline}"
    lines = [f"{verdict}, deployment {clean(report.deployment)}, {report.generated}"]
    for job in report.jobs:
        lines += ["", *_format_job(job)]
    return "\n".join(lines)


def _format_verdict(verdict: str) -> str:
    return click.style(format_verdict(verdict), fg=_COLOURS.get(verdict), bold=True)


def _format_job(job: JobReport) -> list[str]:
    if job.last is None:
        return [f"{clean(job.job)}  {_format_verdict(job.verdict)}"]
    lines = [f"{clean(job.job)}  {_format_verdict(job.verdict)}  last run {clean(job.last.status)} {job.last.at}"]
    body = [clean(job.headline)]
    if job.last.error:
        body += [click.style("error", fg="red") + f" {clean(line)}" for line in job.last.error.splitlines()]
    if job.judged is not None:
        if job.judged.run_id != job.last.run_id:
            body.append(f"the numbers are those of the run of {job.judged.at}")
        body += [
            *_format_rules(job),
            *_format_lookups(job),
            *_format_quarantine(job),
            *_format_versions(job),
            *_format_times(job),
        ]
    return lines + [f"  {line}" for line in body]


def _format_block(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int]) -> list[str]:
    """Return a table whose first column moves to the right below its heading; nothing when it has no rows."""
    listed = [(f"  {clean(row[0])}", *map(clean, row[1:])) for row in rows]
    return format_table(header, listed, right).split("\n") if listed else []


def _format_rules(job: JobReport) -> list[str]:
    rows = [
        (
            format_rule(rule),
            format_verdict(rule.verdict),
            rule.action,
            format_number(rule.failed) if rule.by_row else format_whole(rule).replace("\u2013", "-"),
            format_number(rule.checked),
            _format_percent(rule.share),
            _format_trend(rule.trend[:-1]),
            rule.error or format_threshold(rule),
        )
        for rule in job.rules
    ]
    return _format_block(("rules", "verdict", "action", "failed", "of", "share", "failed before", ""), rows, (3, 4, 5))


def _format_lookups(job: JobReport) -> list[str]:
    rows = [
        (
            alias,
            format_number(each.matched),
            format_number(each.rows),
            _format_percent(each.share),
            format_number(each.null_references),
        )
        for alias, each in job.lookups.items()
    ]
    return _format_block(("lookups", "matched", "of", "rate", "null references"), rows, (1, 2, 3, 4))


def _format_quarantine(job: JobReport) -> list[str]:
    if job.quarantine is None:
        return []
    reasons = [(reason, format_number(rows)) for reason, rows in job.quarantine.reasons.items()]
    return [
        f"quarantined rows: {format_number(job.quarantine.rows)}",
        *_format_block(("reasons", "rows"), reasons, (1,)),
    ]


def _format_versions(job: JobReport) -> list[str]:
    rows = [
        (alias, "start" if window.from_ is None else str(window.from_), str(window.to), format_number(window.changes))
        for alias, window in job.sources.items()
    ]
    return _format_block(("sources", "from", "to", "changed keys"), rows, (1, 2, 3))


def _format_times(job: JobReport) -> list[str]:
    if job.judged is None or job.judged.seconds is None:
        return []
    stages = ", ".join(f"{clean(name)} {seconds:.1f}" for name, seconds in job.stages.items())
    return [f"time: {job.judged.seconds:.1f} s{f' ({stages})' if stages else ''}"]


def _format_percent(share: float | None) -> str:
    return format_percent(share).replace("\u2013", "-")


def _format_trend(values: Sequence[Any]) -> str:
    return " ".join("." if value is None else str(value) for value in values[-_TREND:])
