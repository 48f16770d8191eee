"""Say numbers, rules and verdicts of a report: the same words in every format."""

from __future__ import annotations

from datetime import UTC, datetime

from enrich.report.models import RuleNow, RuleReport

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


def format_terms(rule: RuleReport) -> str:
    """Return what a rule of a run allows: the threshold of a job rule, that it was lifted, that it judged all rows."""
    bounds = {"at least": rule.at_least, "at most": rule.at_most}
    told = [f"{word} {format_threshold(bound)}" for word, bound in bounds.items() if bound is not None]
    told += ["accepted for this run"] if rule.accepted else []
    return ", ".join([*told, *(["whole table"] if rule.scope == "target" and rule.by_row else [])])


def format_since(rule: RuleNow) -> str:
    """Return when the run ended after which rows began to fail; ``or before`` where no earlier count is known."""
    if rule.since is None:
        return ""
    return f"{rule.since.at} or before" if rule.since_or_before else rule.since.at
