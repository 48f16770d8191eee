"""Render the report as one HTML file: no script, nothing to fetch, every text escaped; every run leaves one behind."""

from __future__ import annotations

import json
import logging
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enrich.base.console import clean
from enrich.base.files import WholeFile
from enrich.delta.stores import find_local_path, write_object
from enrich.project.project import Project
from enrich.report import charts
from enrich.report.document import read_report
from enrich.report.models import JobReport, Report, RuleNow
from enrich.report.words import (
    format_allowed,
    format_number,
    format_percent,
    format_rule,
    format_seconds,
    format_since,
    format_terms,
    format_verdict,
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
    return build_environment(html=True).get_template("page.html").render(report=report)


@cache
def build_environment(*, html: bool) -> Environment:
    """Return what the templates of a report share; all texts are cleaned, and those of HTML and XML are escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    found = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=select_autoescape(("html", "xml.jinja")),
        undefined=StrictUndefined,
        finalize=show if html else _clean_text,
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


def _clean_text(value: Any) -> Any:
    return clean(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


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
    text = _clean_text(value)
    is_plain = isinstance(text, str) and not hasattr(text, "__html__")
    return f"'{text}" if is_plain and text.startswith(_FORMULA) else text


log = logging.getLogger("enrich")


def find_latest(project: Project) -> Path | None:
    """Return where the page of the last run is; None when the state is in an object store."""
    state = find_local_path(project.state)
    return None if state is None else state / "reports" / "latest.html"


def write_latest(project: Project) -> Path | None:
    """Write page and JSON over those of the run before; a report that fails is a warning, never a failed run.

    Returns:
        The page's file; None when it is in an object store, or was not written.
    """
    path = find_latest(project)
    place = f"{project.state}/reports" if path is None else path.parent
    try:
        report = read_report(project)
        for name, text in (("latest.html", render_page(report)), ("latest.json", json.dumps(report.to_dict()))):
            if path is None:
                write_object(project.state, f"reports/{name}", text + "\n")
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with WholeFile(path.with_name(name), "the report") as whole:
                whole.write(text)
    except Exception as error:  # noqa: BLE001 - the run is done and recorded; `enrich report` can be called again
        log.warning("the report of this run was not written to %s (%s)", place, type(error).__name__)
        return None
    return path
