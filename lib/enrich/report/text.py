"""Tell a report as lines and tables, which the page and Markdown show as well, and print it for a terminal.

Numbers, rules and verdicts have the same words in every format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from enrich.base.console import clean, format_count, format_reasons, format_table
from enrich.report.models import JobReport, Report, RuleNow, RuleReport, Run, TableNow

_WORDS = {"never_run": "never run", "not_checked": "not checked", "error": "not judged", "unknown": "not known"}


def format_verdict(verdict: str) -> str:
    """Return a verdict in words."""
    return _WORDS.get(verdict, verdict)


def format_moment(at: datetime) -> str:
    """Return a time as ISO 8601 in UTC."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def format_percent(share: float | None) -> str:
    """Return ``12.5 %``; a share that is not quite 0 or 1 never looks like it."""
    if share is None:
        return "-"
    text = f"{share * 100:.1f}"
    if 0 < share < 1 and text in ("0.0", "100.0"):
        return "< 0.1 %" if text == "0.0" else "> 99.9 %"
    return f"{text.removesuffix('.0')} %"


def format_number(value: int | None) -> str:
    """Return ``1,234,567``; a dash for what is not known."""
    return "-" if value is None else f"{value:,}"


def format_threshold(value: int | float) -> str:
    """Return a share, or a number of rows."""
    return format_percent(value) if isinstance(value, float) else format_number(value)


def format_rule(rule: RuleReport | RuleNow) -> str:
    """Return a rule's name: type, columns, source; never its arguments."""
    columns = rule.column_list or ((rule.column,) if rule.column else ())
    name = f"{rule.expectation}({', '.join(columns)})" if columns else rule.expectation
    return f"{name} in {rule.source}" if isinstance(rule, RuleReport) and rule.source else name


_WANTING = {
    "expect_column_values_to_not_be_null": "is missing",
    "expect_column_values_to_be_null": "is not empty",
    "expect_column_values_to_be_unique": "stands in several rows",
    "expect_compound_columns_to_be_unique": "stand together in several rows",
    "expect_column_values_to_be_in_set": "is none of the allowed values",
    "expect_column_values_to_not_be_in_set": "is a value that is not allowed",
    "expect_column_values_to_be_between": "is out of its range",
    "expect_column_value_lengths_to_be_between": "is too short or too long",
    "expect_column_value_lengths_to_equal": "has another length",
    "expect_column_values_to_match_regex": "does not have its form",
    "expect_column_values_to_not_match_regex": "has a form that is not allowed",
    "expect_column_values_to_match_strftime_format": "is no date of its form",
    "expect_column_pair_values_to_be_equal": "differ",
    "expect_multicolumn_values_to_be_equal": "differ",
    "expect_column_pair_values_a_to_be_greater_than_b": "stand in the wrong order",
    "expect_table_row_count_to_be_between": "the table has too many rows or too few",
    "key_not_null": "the key is missing",
    "key_unique": "the key stands in several rows",
    "order_unique": "events of one key have one order",
    "value_unique": "several keys have one value",
    "group_not_null": "the group has a null",
    "match_rate": "too few references have a partner",
    "null_foreign_keys": "the reference is missing",
    "new_orphans": "the partner is gone",
    "mass_change": "too many rows would go, or lose a value",
    "value_conflicts": "several keys have one value",
}


def describe_rule(rule: RuleReport | RuleNow) -> str:
    """Return what is wrong with rows that fail a rule, as its reader would say it: ``email is missing``."""
    columns = rule.column_list or ((rule.column,) if rule.column else ())
    return describe(rule.expectation, columns, rule.source if isinstance(rule, RuleReport) else None)


def describe_reason(reason: str) -> str:
    """Return the same of a reason of the quarantine: ``key_not_null``, ``type:column,column``."""
    expectation, _, columns = reason.partition(":")
    return describe(expectation, columns.split(",") if columns else ())


def describe(expectation: str, columns: Sequence[str], source: str | None = None) -> str:
    """Return what a rule of this type looks for in these columns, in words."""
    said = _WANTING.get(expectation) or "does not hold: " + expectation.removeprefix("expect_").replace("_", " ")
    return " ".join(filter(None, [", ".join(columns), said, f"in {source}" if source else ""]))


def format_since(rule: RuleNow) -> str:
    """Return when the run ended after which rows began to fail; ``or before`` where no earlier count is known."""
    if rule.since is None:
        return ""
    return f"{rule.since.at} or before" if rule.since_or_before else rule.since.at


_COLOURS = {"passed": "green", "warned": "yellow", "skipped": "yellow", "blocked": "red", "failed": "red"}
_TREND = 5


@dataclass(frozen=True)
class Table:
    """Cells under a header, the name of a row first; ``numbers`` are the places of columns that align right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()


@dataclass(frozen=True)
class Part:
    """A title, tables, of which some may have no rows, and a last line; ``is_detail`` is for who asks further."""

    title: str
    tables: Sequence[Table]
    end: str = ""
    is_detail: bool = True


def tell_job(job: JobReport) -> list[Part]:
    """Return what a job is and whose, what is to be done and has changed; in detail the table now, and the run."""
    told = {"owner": job.owner, "private": ", ".join(job.private)}
    words = [(job.description or "").rstrip(". "), *(f"{name}: {each}" for name, each in told.items() if each)]
    parts = [Part(said, [], is_detail=False)] if (said := "; ".join(filter(None, words))) else []
    to_do = [[each.what, each.why, each.rule or "", each.next] for each in job.to_do]
    changes = [write_cells(each.what, each.before, each.now, each.how) for each in job.changes]
    of_changes = Table(("count", "before", "now", "how"), changes, (1, 2))
    found = {"what to do": Table(("finding", "why", "rule", "next"), to_do), "since the run before": of_changes}
    parts += [Part(title, [table], is_detail=False) for title, table in found.items() if table.rows]
    parts += [] if job.now is None else [_tell_now(job.now)]
    if job.quarantine is not None:
        held = job.quarantine.reasons.items()
        reasons = [[describe_reason(reason), format_number(rows), reason] for reason, rows in held]
        title = f"quarantined rows: {format_number(job.quarantine.rows)}"
        parts.append(Part(title, [Table(("reasons", "rows", "rule"), reasons, (1,))]))
    return parts if job.judged is None else [*parts, _tell_judged(job, job.judged)]


def write_cells(*values: str | int | float | tuple[Any, ...] | None) -> list[str]:
    """Return the cells of a row; a fraction is a share, and a history is shown without its last run, which is now."""

    def write(value: Any) -> str:
        if isinstance(value, tuple):
            return " ".join("." if each is None else write(each) for each in value[:-1][-_TREND:])
        if isinstance(value, str):
            return value
        return format_percent(value) if isinstance(value, float) else format_number(value)

    return list(map(write, values))


def _tell_now(now: TableNow) -> Part:
    rules, joins = [], []
    for rule in now.rules:
        said, name, verdict = describe_rule(rule), format_rule(rule), format_verdict(rule.verdict or "unknown")
        allowed = [] if rule.mostly is None else [f"at least {format_percent(rule.mostly)} must pass"]
        allowed += [] if rule.tolerate is None else [f"{format_threshold(rule.tolerate)} may fail"]
        counts = rule.failed, rule.checked, rule.share, format_since(rule), rule.trend
        rules.append(write_cells(said, verdict, *counts, rule.error or ", ".join(allowed), name))
    for alias, each in now.lookups.items():
        references = each.matched, max(0, each.rows - each.null_references), each.match_rate, each.orphans
        joins.append(write_cells(alias, *references, each.null_references, each.orphans_trend))
    has_reasons = any(each.reasons for each in now.nulls.values())
    columns = [
        write_cells(column, each.rows, each.share, each.trend, *[format_reasons(each.reasons, {})] * has_reasons)
        for column, each in now.nulls.items()
        if each.rows or any(each.trend)
    ]
    of_rules = ("checked for", "verdict", "failing", "of", "share", "failing since", "failing before", "note", "rule")
    of_joins = ("joins", "matched", "of references", "match rate", "orphans", "null references", "orphans before")
    full, noun = len(now.nulls) - len(columns), "row" if now.rows == 1 else "rows"
    return Part(
        f"the table now: {format_number(now.rows)} {noun}, counted by the run of {now.counted.at}",
        [
            Table(of_rules, rules, (2, 3, 4)),
            Table(of_joins, joins, (1, 2, 3, 4, 5)),
            Table(("nulls in columns", "rows", "share", "rows before", *["why"] * has_reasons), columns, (1, 2)),
        ],
        f"no nulls in {format_count(full, 'column')}" if full else "",
    )


def format_terms(rule: RuleReport) -> str:
    """Return the error that a rule raised; else its limits."""
    bounds = {"at least": rule.at_least, "at most": rule.at_most}
    terms = [f"{word} {format_threshold(bound)}" for word, bound in bounds.items() if bound is not None]
    terms += ["accepted for this run"] if rule.accepted else []
    return rule.error or ", ".join(terms)


def _tell_judged(job: JobReport, run: Run) -> Part:
    rules = []
    for rule in job.rules:
        whole = "whole table" if rule.scope == "target" and rule.by_row and not rule.error else ""
        said, verdict, end = describe_rule(rule), format_verdict(rule.run_verdict), [format_terms(rule), whole]
        in_all = None if rule.success is None else "yes" if rule.failed else "no"  # of a verdict over all rows
        counts = rule.failed if rule.by_row else in_all, rule.checked, rule.share, rule.trend
        rules.append(write_cells(said, verdict, rule.action, *counts, ", ".join(filter(None, end)), format_rule(rule)))
    lookups = [
        write_cells(alias, each.matched, each.rows, each.share, each.null_references)
        for alias, each in job.lookups.items()
    ]
    versions = [
        write_cells(alias, "start" if window.start is None else str(window.start), str(window.to), window.changes)
        for alias, window in job.sources.items()
    ]
    of_rules = ("checked for", "verdict", "action", "failed", "of", "share", "failed before", "note", "rule")
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in job.stages.items())
    return Part(
        f"the run of {run.at}, {run.status}",
        [
            Table(of_rules, rules, (3, 4, 5)),
            Table(("lookups", "matched", "of rows", "share", "null references"), lookups, (1, 2, 3, 4)),
            Table(("sources", "from", "to", "changed keys"), versions, (1, 2, 3)),
        ],
        "" if run.seconds is None else f"time: {run.seconds:.1f} s{f' ({stages})' if stages else ''}",
    )


def format_report(report: Report) -> str:
    """Return the report for a terminal, verdict first, plain ASCII but for names, which are cleaned."""
    verdict = f"{_colour(report.verdict)}  {report.headline}"
    lines = [f"{verdict}, deployment {clean(report.deployment)}, {report.generated}"]
    for job in report.worst_first:
        name = f"{clean(job.job)}  {_colour(job.verdict)}"
        name += f"  last run {clean(job.last.status)} {job.last.at}" if job.last is not None else ""
        body, error = [clean(job.headline)], (job.last.error if job.last is not None else None) or ""
        body += [click.style("error", fg="red") + f" {clean(line)}" for line in error.splitlines()]
        for part in tell_job(job):
            body.append(clean(part.title))
            for table in (each for each in part.tables if each.rows):
                rows = [[f"  {clean(row[0])}", *map(clean, row[1:])] for row in table.rows]
                body += format_table(table.header, rows, table.numbers).split("\n")
            body += [clean(part.end)] if part.end else []
        lines += ["", name, *(f"  {line}" for line in body)]
    return "\n".join(lines)


def _colour(verdict: str) -> str:
    return click.style(format_verdict(verdict), fg=_COLOURS.get(verdict), bold=True)
