"""The report as one HTML file: no script, nothing to fetch, every text escaped."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enrich.base.console import clean
from enrich.report import charts
from enrich.report.models import Report, RuleReport
from enrich.report.values import format_verdict

if TYPE_CHECKING:
    from jinja2 import Environment

_FORMULA = ("=", "+", "-", "@")


def render_page(report: Report) -> str:
    """Return the page; it works offline, in dark and light, on paper and on a telephone."""
    return _build_environment().get_template("page.html").render(report=report)


@lru_cache(maxsize=1)
def _build_environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    found = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=show,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "percent": format_percent,
        "number": format_number,
        "seconds": format_seconds,
        "word": format_verdict,
        "named": format_rule,
        "whole": format_whole,
        "allowed": format_threshold,
    }
    found.globals |= {"charts": charts, "format_percent": format_percent}
    return found


def show(value: Any) -> Any:
    """Return what the page shows of a value: no hidden characters, and nothing that a spreadsheet would compute.

    Jinja hands every value to this before it escapes it; what is escaped already stays.
    """
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    text = clean(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


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


def format_seconds(value: float | None) -> str:
    """Return ``1.2 s``; a dash for what is not known."""
    return "\u2013" if value is None else f"{value:,.1f} s"


def format_rule(rule: RuleReport) -> str:
    """Return a rule's name: type, columns, source; never its arguments."""
    columns = rule.column_list or ((rule.column,) if rule.column else ())
    name = f"{rule.expectation}({', '.join(columns)})" if columns else rule.expectation
    return f"{name} in {rule.source}" if rule.source else name


def format_threshold(rule: RuleReport) -> str:
    """Return the threshold of one of the job's own rules, and that it was lifted: ``at least 80 %, accepted``."""
    bounds = {"at least": rule.at_least, "at most": rule.at_most}
    told = [
        f"{word} {format_percent(n) if isinstance(n, float) else format_number(n)}"
        for word, n in bounds.items()
        if n is not None
    ]
    return ", ".join([*told, *(["accepted for this run"] if rule.accepted else [])])


def format_whole(rule: RuleReport) -> str:
    """Return ``yes`` or ``no``: whether a rule failed that has one verdict for all rows; a dash for no verdict."""
    return "\u2013" if rule.success is None else "yes" if rule.failed else "no"
