"""The report for a terminal: verdict first, plain ASCII but for names, which are cleaned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from enrich.console import clean, table
from enrich.report.page import allowed, named, number, percent, whole, word

if TYPE_CHECKING:
    from enrich.report.models import JobReport, Report

_COLOURS = {"passed": "green", "warned": "yellow", "skipped": "yellow", "blocked": "red", "failed": "red"}
_TREND = 8


def report_text(report: Report) -> str:
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
    lines = [f"{_verdict(report.verdict)}  {report.headline}, target {clean(report.target)}, {report.generated}"]
    for job in report.jobs:
        lines += ["", *_job(job)]
    return "\n".join(lines)


def _verdict(verdict: str) -> str:
    return click.style(word(verdict), fg=_COLOURS.get(verdict), bold=True)


def _job(job: JobReport) -> list[str]:
    if job.last is None:
        return [f"{clean(job.job)}  {_verdict(job.verdict)}"]
    lines = [f"{clean(job.job)}  {_verdict(job.verdict)}  last run {clean(job.last.status)} {job.last.at}"]
    body = [clean(job.headline)]
    if job.last.error:
        body += [click.style("error", fg="red") + f" {clean(line)}" for line in job.last.error.splitlines()]
    if job.judged is not None:
        if job.judged.run_id != job.last.run_id:
            body.append(f"figures of the run of {job.judged.at}")
        body += [*_rules(job), *_lookups(job), *_quarantine(job), *_versions(job), *_times(job)]
    return lines + [f"  {line}" for line in body]


def _block(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int]) -> list[str]:
    """Return a table whose first column moves to the right below its heading; nothing when it has no rows."""
    listed = [(f"  {clean(row[0])}", *map(clean, row[1:])) for row in rows]
    return table(header, listed, right).split("\n") if listed else []


def _rules(job: JobReport) -> list[str]:
    rows = [
        (
            named(rule),
            word(rule.verdict),
            rule.action,
            number(rule.failed) if rule.by_row else whole(rule).replace("\u2013", "-"),
            number(rule.checked),
            _percent(rule.share),
            _trend(rule.trend[:-1]),
            rule.error or allowed(rule),
        )
        for rule in job.rules
    ]
    return _block(("rules", "verdict", "action", "failed", "of", "share", "failed before", ""), rows, (3, 4, 5))


def _lookups(job: JobReport) -> list[str]:
    rows = [
        (alias, number(each.matched), number(each.rows), _percent(each.share), number(each.null_references))
        for alias, each in job.lookups.items()
    ]
    return _block(("lookups", "matched", "of", "rate", "null references"), rows, (1, 2, 3, 4))


def _quarantine(job: JobReport) -> list[str]:
    if job.quarantine is None:
        return []
    reasons = [(reason, number(rows)) for reason, rows in job.quarantine.reasons.items()]
    return [f"quarantine: {number(job.quarantine.rows)} held", *_block(("reasons", "rows"), reasons, (1,))]


def _versions(job: JobReport) -> list[str]:
    rows = [
        (alias, "start" if window.from_ is None else str(window.from_), str(window.to), number(window.changes))
        for alias, window in job.sources.items()
    ]
    return _block(("sources", "from", "to", "changed keys"), rows, (1, 2, 3))


def _times(job: JobReport) -> list[str]:
    if job.judged is None or job.judged.seconds is None:
        return []
    stages = ", ".join(f"{clean(name)} {seconds:.1f}" for name, seconds in job.stages.items())
    return [f"time: {job.judged.seconds:.1f} s{f' ({stages})' if stages else ''}"]


def _percent(share: float | None) -> str:
    return percent(share).replace("\u2013", "-")


def _trend(values: Sequence[Any]) -> str:
    return " ".join("." if value is None else str(value) for value in values[-_TREND:])
