"""Read values of a document that anybody may have written, and say them: the same words in every format.

What is read is checked, bounded and cut; never an exception.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from enrich.base.console import format_reasons
from enrich.report.models import JobReport, NullsNow, RuleNow, RuleReport, RuleVerdict, TableNow

MAX_NAME, MAX_ERROR = 200, 500
"""Longer texts are cut to this many characters."""

_WORDS = {"never_run": "never run", "not_checked": "not checked", "error": "not judged", "unknown": "not known"}


def read_text(value: Any, limit: int = MAX_NAME) -> str | None:
    """Return a text, cut when it is too long; None for anything else."""
    if not isinstance(value, str):
        return None
    whole = value.encode("utf-8", "backslashreplace").decode("utf-8")  # half of a pair of surrogates is no text
    return whole if len(whole) <= limit else f"{whole[: limit - 3]}..."


def read_name(value: Any) -> str:
    """Return a name; a question mark for what is none."""
    return read_text(value) or "?"


def read_number(value: Any) -> int | None:
    """Return a whole number; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_count(value: Any) -> int:
    """Return a whole number that is not negative; 0 for anything else."""
    return max(0, read_number(value) or 0)


def read_amount(value: Any) -> int | None:
    """Return a whole number that is not negative; None for anything else."""
    found = read_number(value)
    return found if found is not None and found >= 0 else None


def read_seconds(value: Any) -> float | None:
    """Return a finite number that is not negative, to the millisecond; None for anything else."""
    found = _read_finite(value)
    return None if found is None else round(found, 3)


def read_bound(value: Any) -> int | float | None:
    """Return a threshold: a whole number as such, a share as a fraction."""
    return read_number(value) if isinstance(value, int) else _read_finite(value)


def compute_share(part: int, whole: int) -> float | None:
    """Return ``part`` of ``whole``; None of nothing."""
    return round(min(part, whole) / whole, 6) if whole else None


def _read_finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return max(0.0, float(value)) if math.isfinite(value) else None
    except OverflowError:  # a whole number that no float can hold
        return None


def read_mapping(value: Any) -> dict[str, Any]:
    """Return a mapping; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def read_list(value: Any) -> list[Any]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def read_mappings(value: Any) -> dict[str, Mapping[str, Any]]:
    """Return the items of a mapping that are mappings themselves."""
    return {name: each for name, each in read_mapping(value).items() if isinstance(each, dict)}


def format_verdict(verdict: str) -> str:
    """Return a verdict in words."""
    return _WORDS.get(verdict, verdict)


def format_moment(at: datetime) -> str:
    """Return a time as ISO 8601 in UTC."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def format_percent(share: float | None) -> str:
    """Return ``12.5 %``; a share that is not quite 0 or 1 never looks like it."""
    if share is None:
        return "\u2013"
    text = f"{share * 100:.1f}"
    if 0 < share < 1 and text in ("0.0", "100.0"):
        return "< 0.1 %" if text == "0.0" else "> 99.9 %"
    return f"{text.removesuffix('.0')} %"


def format_number(value: int | None) -> str:
    """Return ``1,234,567``; a dash for what is not known."""
    return "\u2013" if value is None else f"{value:,}"


def format_rule(rule: RuleReport | RuleNow) -> str:
    """Return a rule's name: type, columns, source; never its arguments."""
    columns = rule.column_list or ((rule.column,) if rule.column else ())
    name = f"{rule.expectation}({', '.join(columns)})" if columns else rule.expectation
    return f"{name} in {rule.source}" if isinstance(rule, RuleReport) and rule.source else name


def format_terms(rule: RuleReport) -> str:
    """Return what a rule of a run allows: the threshold of a job rule, that it was lifted, that it judged all rows."""
    bounds = {"at least": rule.at_least, "at most": rule.at_most}
    told = [
        f"{word} {format_percent(n) if isinstance(n, float) else format_number(n)}"
        for word, n in bounds.items()
        if n is not None
    ]
    told += ["accepted for this run"] if rule.accepted else []
    return ", ".join([*told, *(["whole table"] if rule.scope == "target" and rule.by_row else [])])


def format_allowed(rule: RuleNow) -> str:
    """Return what the suite allows in the table: ``at least 95 % must pass, 10 may fail``."""
    told = [] if rule.mostly is None else [f"at least {format_percent(float(rule.mostly))} must pass"]
    if rule.tolerate is not None:
        share = isinstance(rule.tolerate, float)
        told.append(f"{format_percent(rule.tolerate) if share else format_number(int(rule.tolerate))} may fail")
    return ", ".join(told)


def format_since(rule: RuleNow) -> str:
    """Return when the run ended after which rows began to fail; ``or before`` where no earlier count is known."""
    if rule.since is None:
        return ""
    return f"{rule.since.at} or before" if rule.since_or_before else rule.since.at


def format_why(rule: RuleNow) -> str:
    """Return why rows fail, as ``enrich failing`` says it; empty where that was not asked or is not known."""
    return format_reasons(rule.reasons or {}, rule.near_misses)


def select_nulls(now: TableNow) -> dict[str, NullsNow]:
    """Return the columns that are null in some row, or were in the history."""
    return {column: each for column, each in now.nulls.items() if each.rows or any(each.trend)}


def format_whole(rule: RuleReport) -> str:
    """Return ``yes`` or ``no``: whether a rule failed that has one verdict for all rows; a dash for no verdict."""
    return "\u2013" if rule.success is None else "yes" if rule.failed else "no"


def list_rules(job: JobReport) -> list[tuple[str, RuleVerdict, RuleReport | None, RuleNow | None]]:
    """Return name and verdict of each rule, what it said of the run, and what it says of the table.

    Those of the run come first, then those that only the table knows. Rules are the same when type and columns are; of
    several such rules the first belongs to the first.
    """
    waiting: dict[tuple[object, ...], list[RuleNow]] = {}
    for now in () if job.now is None else job.now.rules:
        waiting.setdefault((now.expectation, now.column, now.column_list), []).append(now)
    found: list[tuple[str, RuleVerdict, RuleReport | None, RuleNow | None]] = []
    for run in job.rules:
        same = [] if run.index is None else waiting.get((run.expectation, run.column, run.column_list), [])
        found.append((format_rule(run), run.verdict, run, same.pop(0) if same else None))
    rest = [now for each in waiting.values() for now in each]
    return [*found, *((format_rule(now), now.verdict or "not_checked", None, now) for now in rest)]
