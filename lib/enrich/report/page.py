"""The report as one HTML file: no script, nothing to fetch, every text escaped."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enrich.console import clean
from enrich.report import charts
from enrich.report.models import JobReport, Lookup, Report, Rule

if TYPE_CHECKING:
    from jinja2 import Environment

_FORMULA = ("=", "+", "-", "@")
_WORDS = {"never_run": "never run", "not_checked": "not checked", "error": "not judged"}


def page(report: Report) -> str:
    """Return the page; it works offline, in dark and light, on paper and on a telephone."""
    return _environment().get_template("page.html").render(report=report)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    found = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "percent": percent,
        "number": number,
        "seconds": seconds,
        "word": word,
        "named": named,
        "whole": whole,
        "allowed": allowed,
    }
    found.globals |= {
        "charts": charts,
        "rule_line": rule_line,
        "lookup_line": lookup_line,
        "held_line": held_line,
        "time_line": time_line,
    }
    return found


def shown(value: Any) -> Any:
    """Return what the page shows of a value: no hidden characters, and nothing that a spreadsheet would compute.

    Jinja hands every value to this before it escapes it; what is escaped already stays.
    """
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    text = clean(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def percent(share: float | None) -> str:
    """Return ``12.5 %``; a share that is not quite 0 or 1 never looks like it."""
    if share is None:
        return "\u2013"
    text = f"{share * 100:.1f}"
    if 0 < share < 1 and text in ("0.0", "100.0"):
        return "< 0.1 %" if text == "0.0" else "> 99.9 %"
    return f"{text.removesuffix('.0')} %"


def number(value: int | None) -> str:
    """Return ``1,234,567``; a dash for what is not known."""
    return "\u2013" if value is None else f"{value:,}"


def seconds(value: float | None) -> str:
    """Return ``1.2 s``; a dash for what is not known."""
    return "\u2013" if value is None else f"{value:,.1f} s"


def word(verdict: str) -> str:
    """Return a verdict in words."""
    return _WORDS.get(verdict, verdict)


def named(rule: Rule) -> str:
    """Return a rule's name: type, columns, source; never its arguments."""
    columns = rule.column_list or ((rule.column,) if rule.column else ())
    name = f"{rule.expectation}({', '.join(columns)})" if columns else rule.expectation
    return f"{name} in {rule.source}" if rule.source else name


def allowed(rule: Rule) -> str:
    """Return the threshold of one of the job's own rules, and that it was lifted: ``at least 80 %, accepted``."""
    bounds = {"at least": rule.at_least, "at most": rule.at_most}
    told = [
        f"{word} {percent(n) if isinstance(n, float) else number(n)}" for word, n in bounds.items() if n is not None
    ]
    return ", ".join([*told, *(["accepted for this run"] if rule.accepted else [])])


def whole(rule: Rule) -> str:
    """Return ``yes`` or ``no``: whether a rule failed that has one verdict for all rows; a dash for no verdict."""
    return "\u2013" if rule.success is None else "yes" if rule.failed else "no"


def rule_line(rule: Rule) -> charts.Line | None:
    """Draw the rows that failed, run by run."""
    known = [failed for failed in rule.trend if failed is not None]
    if len(known) < 2:
        return None
    return charts.line(rule.trend, f"failed in the last {len(known)} runs: {_listed(known)}")


def lookup_line(lookup: Lookup) -> charts.Line | None:
    """Draw the match rate, run by run."""
    known = [share for share in lookup.trend if share is not None]
    if len(known) < 2:
        return None
    return charts.line(
        lookup.trend, f"matched in the last {len(known)} runs: {_listed([percent(s) for s in known])}", top=1.0
    )


def held_line(job: JobReport) -> charts.Line | None:
    """Draw the rows in quarantine, run by run."""
    held = [run.held for run in job.runs]
    known = [rows for rows in held if rows is not None]
    if len(known) < 2:
        return None
    return charts.line(held, f"held after the last {len(known)} runs: {_listed(known)}")


def time_line(job: JobReport) -> charts.Line | None:
    """Draw the seconds that each run took."""
    known = [run.seconds for run in job.runs if run.seconds is not None]
    if len(known) < 2:
        return None
    told = f"seconds of the last {len(known)} runs: {_listed([f'{value:.1f}' for value in known])}"
    return charts.line([run.seconds for run in job.runs], told)


def _listed(values: list[Any]) -> str:
    """Return the last ten values, for those who do not see the line."""
    return ", ".join(str(value) for value in values[-10:])
