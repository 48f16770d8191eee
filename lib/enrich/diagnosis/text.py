"""The answers of ``why``, ``failing`` and ``doctor keys`` for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enrich.base import hints
from enrich.base.console import clean, format_count, format_reasons, format_table
from enrich.diagnosis.reasons import DELETED_AT, MATCHED, list_meanings

if TYPE_CHECKING:
    from enrich.diagnosis.causes import FailingRow, FailingRows, RuleCauses
    from enrich.diagnosis.checkup import Checkup
    from enrich.diagnosis.doctor import JoinKeys, KeyReport
    from enrich.diagnosis.reasons import Reason, Why


def format_answer(answer: Why, column: str | None) -> str:
    """Return the answer: one line for a column that was asked for, else the row, the sources and the columns.

    ```
    about     what      reason     detail
    row                 matched
    source    accounts  near_miss  invisible
    column    email     near_miss  invisible; accounts
    ```
    """
    if column is not None:
        (reason,) = answer.columns.values()
        detail = format_detail(reason)
        return f"{reason.reason}: {detail}" if detail else reason.reason
    told = [("row", "", answer.row)]
    told += [("source", alias, reason) for alias, reason in answer.lookups.items()]
    told += [("column", name, reason) for name, reason in answer.columns.items()]
    lines = [(about, clean(what), reason.reason, format_detail(reason)) for about, what, reason in told]
    return format_table(("about", "what", "reason", "detail"), lines)


def format_detail(reason: Reason) -> str:
    """Return what belongs to a reason, in one line."""
    parts = [reason.kind] if reason.kind else []
    if reason.version is not None:
        parts.append(f"version {reason.version}{f' of {reason.at}' if reason.at else ''}")
    if reason.rules:
        parts.append(", ".join(reason.rules))
    if reason.elements is not None and len(reason.elements) > 1:
        parts.append(", ".join(f"{number} {name}" for name, number in reason.elements.items()))
    if reason.source is not None:
        parts.append(f"in {reason.source}")
    if reason.job is not None:
        parts.append(f"held by job {reason.job}: {hints.report(reason.job)}")
    if reason.found is not None:
        parts.append(f"key {quote_key(reason.found)}")
    return clean("; ".join(parts))


_MEANINGS = {
    MATCHED: "every source has its row; the value itself fails the rule",
    DELETED_AT: "the source had the row, and one of its versions deleted it",
}
"""What reasons mean where rows of the target fail a rule, where that is not what they always mean."""


def format_failing(answer: FailingRows) -> str:
    """Return a paragraph for each rule: how many rows fail it, why, and what to ask next.

    ```
    3 of 9 rows fail expect_column_values_to_not_be_null email (rule 0): 2 no such key, 1 near miss (a key that ...)
      rows  reason       detail                 meaning
         2  no_such_key  in accounts            the source has no row with this key, and as far as its history can ...
         1  near_miss    invisible; in accounts the source has a key that differs only by something that a ...
      to ask about one row: enrich why customers --key NAME=VALUE email
    ```
    """
    return "\n\n".join(_format_rule(answer.job, rule) for rule in answer.rules)


def _format_rule(job: str, rule: RuleCauses) -> str:
    name = clean(f"{rule.expectation} {', '.join(rule.columns)} (rule {rule.index})")
    if rule.error is not None:
        return f"{name} raised an error, so its rows are not counted: {clean(rule.error)}"
    first = (
        f"{rule.failed} of {format_count(rule.checked or 0, 'row')} {'fails' if rule.failed == 1 else 'fail'} {name}"
    )
    if not rule.failed:
        return first
    meanings = list_meanings() | _MEANINGS
    lines = [
        (str(cause.rows), cause.reason.reason, format_detail(cause.reason), meanings[cause.reason.reason])
        for cause in rule.causes
    ]
    table = format_table(("rows", "reason", "detail", "meaning"), lines, right=(0,))
    shown = [f"{first}: {format_reasons(rule.reasons, rule.near_misses)}", *_indent(table)]
    if rule.rows:
        shown += _format_rows(rule)
    column = [rule.column] if rule.column is not None and not {".", "`"} & set(rule.column) else []
    shown.append(clean(f"  to ask about one row: {hints.why(job, '--key', 'NAME=VALUE', *column)}"))
    if not rule.rows:
        shown.append("  to see which rows: --show-keys, on a terminal")
    return "\n".join(shown)


def _format_rows(rule: RuleCauses) -> list[str]:
    lines = [(_write_key(row), row.reason.reason, format_detail(row.reason)) for row in rule.rows]
    more = (rule.failed or 0) - len(rule.rows)
    table = format_table(("key", "reason", "detail"), lines)
    return [*_indent(table), *([f"  and {format_count(more, 'row')} more"] if more else [])]


def _write_key(row: FailingRow) -> str:
    """Return a key as the options of ``enrich why``."""
    return " ".join(f"--key {quote_key(f'{name}={value}')}" for name, value in row.key.items())


def _indent(text: str) -> list[str]:
    return [f"  {line}" for line in text.split("\n")]


def quote_key(text: str) -> str:
    """Return a key on one line, with its ends visible."""
    return "'" + clean(text).replace("\n", "\\n") + "'"


def format_keys(report: KeyReport) -> str:
    """Return a paragraph for each join: counts by kind, and the lines that make most references match."""
    if not report.joins:
        return f"{report.job} has no joins, so there are no references to look at"
    return "\n\n".join(clean(format_join(report, each)) for each in report.joins)


def format_join(report: KeyReport, found: JoinKeys) -> str:
    """Return one join's paragraph."""
    near = sum(found.near_misses.values())
    lost = f"{found.unmatched} of {format_count(found.references, 'reference')} without a partner"
    lines = [f"{found.join} ({found.kind}): {lost}" + (f", near misses among them: {near}" if found.unmatched else "")]
    lines += [f"  {number:>8}  {kind}" for kind, number in found.near_misses.items()]
    lines += [f"  {kind}: {quote_key(ours)} nearly matches {quote_key(theirs)}" for kind, ours, theirs in found.pairs]
    if found.suggestion is not None:
        heals = format_count(found.suggestion.heals, "reference")
        lines.append(f"  to make {heals} match, write in {report.file} and run `{hints.refresh(report.job)}`:")
        lines += ["    sources:", *[f"      {line}" for line in found.suggestion.lines.values()]]
    if found.refused is not None:
        steps = ", ".join(found.refused.normalise)
        confused = ", ".join(
            f"{format_count(number, 'key')} of {alias}" for alias, number in found.refused.ambiguous.items()
        )
        heals = format_count(found.refused.heals, "reference")
        lines.append(f"  not advised: [{steps}] would make {heals} match, but {confused} ambiguous")
    return "\n".join(lines)


def format_checkup(found: Checkup) -> str:
    """Return the table of a checkup, a line a check, and below it what repairs what.

    ```
    check      result  about           what was found
    java       ok      /usr/bin/java   a version that Spark runs on
    retention  advice  accounts        ...
    ```
    """
    rows = [(each.check, each.level, clean(each.about), clean(each.message)) for each in found.found]
    lines = [format_table(("check", "result", "about", "what was found"), rows)]
    repairs = dict.fromkeys(each.repair for each in found.found if each.repair is not None)
    if repairs:
        lines += ["", "What repairs it:", *(f"  {clean(repair)}" for repair in repairs)]
    return "\n".join(lines)
