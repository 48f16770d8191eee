"""The report as one HTML file: no script, nothing to fetch, every text escaped."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enrich.base.console import clean
from enrich.report import charts
from enrich.report.models import JobReport, Report, RuleNow
from enrich.report.values import format_verdict
from enrich.report.words import (
    format_allowed,
    format_number,
    format_percent,
    format_rule,
    format_seconds,
    format_since,
    format_terms,
    format_whole,
    format_why,
    select_nulls,
    select_others,
)

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

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
        "terms": format_terms,
        "allowed": format_allowed,
        "since": format_since,
        "why": format_why,
        "changes": list_changes,
        "breakable": break_name,
        "null_columns": select_nulls,
        "full_columns": select_others,
    }
    found.globals |= {"charts": charts, "format_percent": format_percent, "format_number": format_number}
    return found


def break_name(name: str) -> Markup:
    """Return a name, escaped, that a narrow column may break after an underscore and before a bracket."""
    from markupsafe import Markup

    return Markup("<wbr>").join(re.split(r"(?<=_)|(?=\()", show(name)))


def list_changes(job: JobReport) -> list[tuple[RuleNow, list[charts.TrendStep]]]:
    """Return the rules whose failing rows changed in the history, each with the runs that changed them."""
    rules = () if job.now is None else job.now.rules
    return [(rule, steps) for rule in rules if (steps := charts.list_steps(rule, job.runs))]


def show(value: Any) -> Any:
    """Return what the page shows of a value: no hidden characters, and nothing that a spreadsheet would compute.

    Jinja hands every value to this before it escapes it; what is escaped already stays.
    """
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    text = clean(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
