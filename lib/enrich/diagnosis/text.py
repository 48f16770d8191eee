"""The answers of ``why`` and ``doctor keys`` for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enrich.base.console import clean, format_count, format_table

if TYPE_CHECKING:
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
    parts = []
    if reason.kind is not None:
        parts.append(reason.kind)
    if reason.version is not None:
        parts.append(f"version {reason.version}{f' of {reason.at}' if reason.at else ''}")
    if reason.rules:
        parts.append(", ".join(reason.rules))
    if reason.elements is not None and len(reason.elements) > 1:
        parts.append(", ".join(f"{number} {name}" for name, number in reason.elements.items()))
    if reason.source is not None:
        parts.append(f"in {reason.source}")
    if reason.found is not None:
        parts.append(f"key {quote_key(reason.found)}")
    return clean("; ".join(parts))


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
        lines.append(
            f"  to make {heals} match, write in {report.file} and run `enrich run {report.job} --full-refresh`:"
        )
        lines += ["    sources:", *[f"      {line}" for line in found.suggestion.lines.values()]]
    if found.refused is not None:
        steps = ", ".join(found.refused.normalise)
        confused = ", ".join(
            f"{format_count(number, 'key')} of {alias}" for alias, number in found.refused.ambiguous.items()
        )
        heals = format_count(found.refused.heals, "reference")
        lines.append(f"  not advised: [{steps}] would make {heals} match, but {confused} ambiguous")
    return "\n".join(lines)
