"""The report for a terminal: verdict first, plain ASCII but for names, which are cleaned.

The keys of quarantined rows, for `--show-keys`, are printed there too, and never written to a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from enrich.base.console import clean, format_count, format_table
from enrich.base.errors import RunFailed
from enrich.base.names import CatalogName, find_quarantine
from enrich.base.spec import FAILED_COLUMN, quote
from enrich.delta import tables
from enrich.project.compile import compile_job
from enrich.project.models import Job
from enrich.project.project import Project
from enrich.report.models import JobReport, Report, Run, TableNow
from enrich.report.words import (
    format_allowed,
    format_number,
    format_percent,
    format_rule,
    format_since,
    format_terms,
    format_verdict,
    format_whole,
    format_why,
    select_nulls,
)

_COLOURS = {"passed": "green", "warned": "yellow", "skipped": "yellow", "blocked": "red", "failed": "red"}
_TREND = 5


def format_report(report: Report) -> str:
    """Return the report as text.

    ```
    warned  2 jobs: 1 warned, 1 passed

    customers  warned  last run updated 2026-11-21T10:00:00Z
      table now: 1 of 2 rules fails; this run: 1 failed, 1 passed
      the table now: 100 rows, counted by the run of 2026-11-21T10:00:00Z
      rules                                         verdict  failing   of  share  failing since         before
        expect_column_values_to_not_be_null(email)  warned        12  100   12 %  2026-11-20T10:00:00Z  0 0 8
      ...
      the run of 2026-11-21T10:00:00Z, updated
      rules                                         verdict  action  failed  of  share  failed before
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
    if job.now is not None:
        body += _format_now(job.now)
    if job.quarantine is not None:
        reasons = [(reason, format_number(rows)) for reason, rows in job.quarantine.reasons.items()]
        body.append(f"quarantined rows: {format_number(job.quarantine.rows)}")
        body += _format_block(("reasons", "rows"), reasons, (1,))
    if job.judged is not None:
        body += _format_judged(job, job.judged)
    return lines + [f"  {line}" for line in body]


def _format_block(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int]) -> list[str]:
    """Return a table whose first column moves to the right below its heading; nothing when it has no rows."""
    listed = [(f"  {clean(row[0])}", *map(clean, row[1:])) for row in rows]
    return format_table(header, listed, right).split("\n") if listed else []


def _format_now(now: TableNow) -> list[str]:
    rules = [
        (
            format_rule(rule),
            format_verdict(rule.verdict or "unknown"),
            _format_number(rule.failed),
            _format_number(rule.checked),
            _format_percent(rule.share),
            format_since(rule),
            _format_trend(rule.trend[:-1]),
            rule.error or format_allowed(rule),
        )
        for rule in now.rules
    ]
    reasons = [(format_rule(rule), why) for rule in now.rules if (why := format_why(rule))]
    joins = [
        (
            alias,
            format_number(each.matched),
            format_number(max(0, each.rows - each.null_references)),
            _format_percent(each.match_rate),
            format_number(each.orphans),
            format_number(each.null_references),
            _format_trend(each.orphans_trend[:-1]),
        )
        for alias, each in now.lookups.items()
    ]
    told = select_nulls(now)
    nulls = [
        (column, format_number(each.rows), _format_percent(each.share), _format_trend(each.trend[:-1]))
        for column, each in told.items()
    ]
    others = len(now.nulls) - len(told)
    of_rules = ("rules", "verdict", "failing", "of", "share", "failing since", "failing before", "")
    of_joins = ("joins", "matched", "of references", "match rate", "orphans", "null references", "orphans before")
    rows = f"{format_number(now.rows)} row{'' if now.rows == 1 else 's'}"
    return [
        f"the table now: {rows}, counted by the run of {now.counted.at}",
        *_format_block(of_rules, rules, (2, 3, 4)),
        *_format_block(("why rows fail", ""), reasons, ()),
        *_format_block(of_joins, joins, (1, 2, 3, 4, 5)),
        *_format_block(("nulls in columns", "rows", "share", "rows before"), nulls, (1, 2)),
        *([f"no nulls in {format_count(others, 'column')}"] if others else []),
    ]


def _format_judged(job: JobReport, run: Run) -> list[str]:
    rules = [
        (
            format_rule(rule),
            format_verdict(rule.run_verdict),
            rule.action,
            format_number(rule.failed) if rule.by_row else format_whole(rule).replace("\u2013", "-"),
            format_number(rule.checked),
            _format_percent(rule.share),
            _format_trend(rule.trend[:-1]),
            rule.error or format_terms(rule),
        )
        for rule in job.rules
    ]
    lookups = [
        (
            alias,
            format_number(each.matched),
            format_number(each.rows),
            _format_percent(each.share),
            format_number(each.null_references),
        )
        for alias, each in job.lookups.items()
    ]
    versions = [
        (alias, "start" if window.start is None else str(window.start), str(window.to), format_number(window.changes))
        for alias, window in job.sources.items()
    ]
    lines = [
        f"the run of {run.at}, {clean(run.status)}",
        *_format_block(("rules", "verdict", "action", "failed", "of", "share", "failed before", ""), rules, (3, 4, 5)),
        *_format_block(("lookups", "matched", "of rows", "share", "null references"), lookups, (1, 2, 3, 4)),
        *_format_block(("sources", "from", "to", "changed keys"), versions, (1, 2, 3)),
    ]
    if run.seconds is not None:
        stages = ", ".join(f"{clean(name)} {seconds:.1f}" for name, seconds in job.stages.items())
        lines.append(f"time: {run.seconds:.1f} s{f' ({stages})' if stages else ''}")
    return lines


def _format_percent(share: float | None) -> str:
    return format_percent(share).replace("\u2013", "-")


def _format_number(value: int | None) -> str:
    return format_number(value).replace("\u2013", "-")


def _format_trend(values: Sequence[Any]) -> str:
    return " ".join("." if value is None else format_number(value) for value in values[-_TREND:])


# --- keys -------------------------------------------------------------------------------------------------------------

LIMIT = 100
"""How many keys of one job are shown."""

_LONGEST = 80


def format_quarantined_keys(project: Project, job: Job) -> str:
    """Return a table of the keys that the job's quarantine holds, each with its rules; at most ``LIMIT``.

    Raises:
        EnrichError: A table cannot be read, or the job does not compile against its sources.
    """
    quarantine = find_quarantine(project.location(job.target.table))
    if isinstance(quarantine, CatalogName):
        return f"{job.job}: the quarantine is a catalog table; read it with Spark"
    if not tables.exists(quarantine):
        return f"{job.job}: there is no quarantine"
    columns = {}
    for alias, source in job.sources.items():
        place = project.location(source.table)
        if isinstance(place, CatalogName):
            raise RunFailed(f"{source.table!r} is a catalog table", hint="read the quarantine with Spark")
        columns[alias] = tables.read_state(place).columns
    spec = compile_job(job, columns).spec
    names = (*spec.identity, *spec.right_identity)
    try:
        rows = tables.read_first_rows(quarantine, (*names, FAILED_COLUMN), LIMIT + 1)
    except Exception as error:
        raise RunFailed(
            f"the quarantine at {quarantine} cannot be read ({type(error).__name__})",
            hint=f"read it with Spark: SELECT {quote(names[0])}, {FAILED_COLUMN}",
        ) from error
    lines = []
    for row in rows[:LIMIT]:
        failed = row[FAILED_COLUMN]
        rules = clean(", ".join(map(str, failed))) if isinstance(failed, list) else "-"
        lines.append([*(_format_value(row[name]) for name in names), rules])
    shown = [format_table((*names, "rules"), lines)] if lines else []
    return "\n".join([f"{job.job}: quarantined keys", *shown, *(["and more"] if len(rows) > LIMIT else [])])


def _format_value(value: Any) -> str:
    text = "null" if value is None else clean(str(value)).replace("\n", "\\n")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
