"""Render the report by templates: one HTML file, which every run leaves behind, Markdown, and JUnit XML.

The page has no script and nothing to fetch, and every text in it is escaped. In Markdown every text that is not ours
stands as code, so that no name becomes a link, a mention, a heading or a column of a table.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enrich.base.console import clean
from enrich.base.files import WholeFile
from enrich.delta.stores import find_local_path, write_object
from enrich.project.project import Project
from enrich.report.document import read_report
from enrich.report.graph import SIZE, draw_picture, list_nodes, select_near
from enrich.report.models import Attempt, JobReport, Report, RuleNow, RuleReport
from enrich.report.text import Table, format_number, format_rule, format_since, format_verdict, tell_job, write_cells

if TYPE_CHECKING:
    from jinja2 import Environment

log = logging.getLogger("enrich")


@cache
def _open_templates(*, html: bool) -> Environment:
    """Return the templates of a report; all texts are cleaned, and those of HTML and XML are escaped."""
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
        "word": format_verdict,
        "number": format_number,
        "parts": tell_job,
        "runs": _tell_runs,
        "code": quote_text,
        "html": _quote_as_html,
        "bold": lambda verdict: format_verdict(verdict) if verdict in _SETTLED else f"**{format_verdict(verdict)}**",
        "plain": lambda text: text if _PLAIN.fullmatch(text) else quote_text(text),
    }
    return found


def _clean_text(value: Any) -> Any:
    return clean(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


# --- HTML -------------------------------------------------------------------------------------------------------------


_FEW = 40  # jobs; the page of more shows first what there is to do, and folds the rest


def render_page(report: Report) -> str:
    """Return the page; it works offline, in dark and light, on paper and on a telephone."""
    nodes, few = list_nodes(report), len(report.jobs) <= _FEW
    # What is near is cut out of nodes of its own; the page of a few jobs has no use for it.
    pictures = {"whole": draw_picture(nodes), "near": None if few else draw_picture(select_near(list_nodes(report)))}
    links = {node.name: node for node in nodes if node.number}
    page = _open_templates(html=True).get_template("page.html")
    return page.render(report=report, few=few, **pictures, size=SIZE, alone=False, links=links)


def format_svg(report: Report) -> str:
    """Return the picture of the project as an SVG document of its own."""
    drawn = _open_templates(html=True).get_template("graph.html")
    return drawn.render(report=report, picture=draw_picture(list_nodes(report)), key="graph", size=SIZE, alone=True)


def show(value: Any) -> Any:
    """Return what the page shows of a value: no hidden characters, and nothing that a spreadsheet would compute.

    Jinja hands every value to this before it escapes it; what is escaped already stays.
    """
    text = _clean_text(value)
    is_plain = isinstance(text, str) and not hasattr(text, "__html__")
    return f"'{text}" if is_plain and text != "-" and text.startswith(("=", "+", "-", "@")) else text


def _tell_runs(job: JobReport) -> Table:
    header = ("ended", "status", "mode", "inserted", "updated", "deleted", "newly quarantined", "seconds", "error")
    rows = []
    for run in reversed(job.runs):
        counts, seconds = (run.inserted, run.updated, run.deleted, run.quarantined), f"{run.seconds or 0.0:,.1f}"
        rows.append(write_cells(run.at, run.status, run.mode, *counts, seconds, run.error or ""))
    return Table(header, rows, (3, 4, 5, 6, 7))


def write_latest(project: Project) -> Path | None:
    """Write page and JSON over those of the run before, and return the page's file, if it is a local one.

    A report that fails is a warning, never a failed run.
    """
    state = find_local_path(project.state)
    try:
        report = read_report(project)
        for name, text in (("latest.html", render_page(report)), ("latest.json", json.dumps(report.to_dict()))):
            if state is None:
                write_object(project.state, f"reports/{name}", text + "\n")
                continue
            (state / "reports").mkdir(parents=True, exist_ok=True)
            with WholeFile(state / "reports" / name, "the report") as whole:
                whole.write(text)
    except Exception as error:  # noqa: BLE001 - the run is done and recorded; `enrich report` can be called again
        log.warning("the report of this run was not written to %s/reports (%s)", project.state, type(error).__name__)
        return None
    return None if state is None else state / "reports" / "latest.html"


# --- Markdown ---------------------------------------------------------------------------------------------------------

_SETTLED = ("passed", "never_run", "not_checked")
_PLAIN = re.compile(r"([A-Za-z0-9 ,:;()%-]|[<>](?= [0-9])|(?<=[0-9])\.(?=[0-9]))*")
"""What Markdown leaves as it is: our words, numbers and times."""


def format_markdown(report: Report) -> str:
    """Return the report as Markdown of GitHub's kind, for a comment on a pull request; what passed is folded away."""
    text = _open_templates(html=False).get_template("report.md.jinja").render(report=report, settled=_SETTLED)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip()


def quote_text(text: str) -> str:
    """Return a text as code: nothing in it is Markdown, HTML, a mention or the end of a cell."""
    shown = clean(text).replace("\n", " ").strip()
    is_plain = shown and not set(shown) & set("`|")  # a table is cut into cells before code is looked for
    return f"`{shown}`" if is_plain else _quote_as_html(shown)


def _quote_as_html(text: str) -> str:
    """Return a text as code where Markdown's own is none: within HTML, or with what would end a cell."""
    escaped = (char if char.isalnum() or char == " " else f"&#{ord(char)};" for char in clean(text).replace("\n", " "))
    return f"<code>{''.join(escaped)}</code>"


# --- JUnit XML --------------------------------------------------------------------------------------------------------

_OF_RULE = {"error": "error", "blocked": "failure", "held": "failure", "warned": "failure", "not_checked": "skipped"}
_OF_JOB = {"failed": "error", "blocked": "failure", "skipped": "skipped", "never_run": "skipped"}


@dataclass(frozen=True)
class Case:
    """One case; ``end`` is ``failure``, ``error``, ``skipped``, or empty, and ``place`` is shown above its name."""

    place: str
    name: str
    seconds: float = 0.0
    end: str = ""
    verdict: str = ""
    message: str = ""
    told: str = ""


@dataclass(frozen=True)
class CaseSuite:
    """The cases of one job or file, how long they took, and when that was, if it is known."""

    name: str
    cases: tuple[Case, ...]
    seconds: float
    at: str = ""


def format_suites(name: str, suites: Sequence[CaseSuite]) -> str:
    """Return an XML document of ASCII characters, in which there is no character that XML does not know.

    Attributes and elements are those that Jenkins' schema (junit-10.xsd) has; GitLab, GitHub and Azure read them.
    """
    text = _open_templates(html=False).get_template("junit.xml.jinja").render(name=name, suites=suites)
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def format_junit(report: Report) -> str:
    """Return the report as XML: a suite a job, a case a rule, and a case ``job``.

    Rules that are ``warned`` or worse are failures; those that raised are errors; those that judged no row are skipped.
    The case ``job`` also fails where a job is ``warned`` by quarantined rows, and by no rule.
    """
    suites = []
    for job in report.jobs:
        place, names = f"enrich.{report.deployment}.{job.job}", Counter[str]()
        cases, paired = [], {run.now.index for run in job.rules if run.now}
        rules: list[tuple[RuleReport | None, RuleNow | None]] = [(run, run.now) for run in job.rules]
        rules += [(None, now) for now in (job.now.rules if job.now else ()) if now.index not in paired]
        for run, now in rules:
            name, verdict = next((format_rule(each), each.verdict or "not_checked") for each in (run, now) if each)
            names[name] += 1
            unique = name if names[name] == 1 else f"{name} #{names[name]}"
            end = _OF_RULE.get(verdict, "")
            told = "; ".join(_tell_rule(run, now)) if end else ""
            cases.append(Case(place, unique, 0.0, end, verdict, told or format_verdict(verdict), told))
        end = _OF_JOB.get(job.verdict, "")
        if job.verdict == "warned" and not any(case.end for case in cases):
            end = "failure"
        last = job.last or Attempt(run_id="", at=report.generated, status="")
        seconds, told = last.seconds or 0.0, "\n".join(filter(None, [job.headline, last.error]))
        cases.append(Case(place, "job", seconds, end, job.verdict, job.headline, told))
        suites.append(CaseSuite(job.job, tuple(cases), seconds, last.at.removesuffix("Z")))
    return format_suites(f"enrich {report.deployment}", suites)


def _tell_rule(run: RuleReport | None, now: RuleNow | None) -> Iterator[str]:
    if now is not None and now.failed is not None:
        since = f" since {format_since(now)}" if now.since else ""
        yield f"table now: {format_number(now.failed)} of {format_number(now.checked)} rows fail{since}"
    if now is not None and now.error:
        yield f"table now: raised {now.error}"
    if run is not None and run.error:
        yield f"this run: raised {run.error}"
    elif run is not None and run.success is None:
        yield "this run: judged no row"
    elif run is not None and run.by_row:
        yield f"this run: {format_number(run.failed)} of {format_number(run.checked)} rows failed, action {run.action}"
    elif run is not None:
        yield f"this run: {'failed' if run.failed else 'passed'}, action {run.action}"
