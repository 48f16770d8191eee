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
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enrich.base.console import clean, format_count
from enrich.base.files import WholeFile
from enrich.delta.stores import find_local_path, write_object
from enrich.project.project import Project
from enrich.report import charts
from enrich.report.document import read_report
from enrich.report.models import Report, RuleNow, RuleReport
from enrich.report.words import (
    format_allowed,
    format_number,
    format_percent,
    format_rule,
    format_since,
    format_terms,
    format_verdict,
    format_whole,
    format_why,
    list_rules,
    select_nulls,
)

if TYPE_CHECKING:
    from jinja2 import Environment

_FORMULA = ("=", "+", "-", "@")


def render_page(report: Report) -> str:
    """Return the page; it works offline, in dark and light, on paper and on a telephone."""
    return build_environment(html=True).get_template("page.html").render(report=report)


@cache
def build_environment(*, html: bool) -> Environment:
    """Return what the templates of a report share; all texts are cleaned, and those of HTML and XML are escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
    from markupsafe import Markup

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
        "seconds": lambda value: "\u2013" if value is None else f"{value:,.1f} s",
        "word": format_verdict,
        "named": format_rule,
        "whole": format_whole,
        "terms": format_terms,
        "allowed": format_allowed,
        "since": format_since,
        "why": format_why,
        "changes": charts.list_changes,
        # A narrow column may break a name after an underscore and before a bracket.
        "breakable": lambda name: Markup("<wbr>").join(re.split(r"(?<=_)|(?=\()", show(name))),
        "null_columns": select_nulls,
        "full_columns": lambda now: [*filterfalse(select_nulls(now).__contains__, now.nulls)],
    }
    found.globals |= {"charts": charts, "format_percent": format_percent, "format_number": format_number}
    return found


def _clean_text(value: Any) -> Any:
    return clean(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


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


# --- Markdown ---------------------------------------------------------------------------------------------------------

_SETTLED = ("passed", "never_run", "not_checked")


def format_markdown(report: Report) -> str:
    """Return the report as Markdown of GitHub's kind, for a pull request's comment; GitLab and Azure read it as well.

    What fails comes first, what passed is folded away.

    ```
    ### enrich: warned

    2 jobs: 1 warned, 1 passed. Deployment `dev`, 2026-11-21T10:00:00Z.

    | job | verdict | rows | in short |
    | --- | --- | ---: | --- |
    | `customers` | **warned** | 100 | table now: 1 of 2 rules fails; this run: 2 passed |
    ...
    ```
    """
    environment = build_environment(html=False)
    environment.filters |= {
        "code": quote_text,
        "html": _quote_as_html,
        "bold": lambda verdict: format_verdict(verdict) if verdict in _SETTLED else f"**{format_verdict(verdict)}**",
        # Reasons stay as they are while they are made of our words.
        "plain": lambda why: why if re.fullmatch(r"[A-Za-z0-9 ,:;()]*", why) else quote_text(why),
        "counted": format_count,
    }
    text = environment.get_template("report.md.jinja").render(report=report, settled=_SETTLED)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip()


def quote_text(text: str) -> str:
    """Return a text as code: nothing in it is Markdown, HTML, a mention or the end of a cell."""
    shown = clean(text).replace("\n", " ").strip()
    if "|" in shown or not shown:
        return _quote_as_html(shown)  # a table is cut into cells before code is looked for
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence, pad = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _quote_as_html(text: str) -> str:
    """Return a text as code where Markdown's own is none: within HTML, or with what would end a cell."""
    shown = clean(text).replace("\n", " ")
    escaped = (char if char.isalnum() or char == " " else f"&#{ord(char)};" for char in shown)
    return f"<code>{''.join(escaped)}</code>"


# --- JUnit XML --------------------------------------------------------------------------------------------------------

_FAILURE, _ERROR, _SKIPPED = "failure", "error", "skipped"
_OF_RULE = {
    "error": _ERROR,
    "blocked": _FAILURE,
    "held": _FAILURE,
    "warned": _FAILURE,
    "not_checked": _SKIPPED,
}
_OF_JOB = {"failed": _ERROR, "blocked": _FAILURE, "skipped": _SKIPPED, "never_run": _SKIPPED}


@dataclass(frozen=True)
class Case:
    """One case; ``end`` is ``failure``, ``error``, ``skipped``, or empty, and with it come a verdict and what is told.

    Attributes:
        place: What is shown above its name: a class, for most tools.
        told: All that is wrong; ``message`` is its one line.
    """

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
    """Return an XML document of ASCII characters, in which there is no character that XML does not know."""
    text = build_environment(html=False).get_template("junit.xml.jinja").render(name=name, suites=suites)
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def format_junit(report: Report) -> str:
    """Return the report as an XML document of ASCII characters: a suite a job, a case a rule, and one for the job.

    ```
    rule      run, table now             case
    email     passed, 12 rows fail       failure: 12 of 100 rows of the table fail
    country   passed, 0 rows fail        -
    job       blocked                    failure: blocked by ...
    ```

    Attributes and elements are those that Jenkins' schema (junit-10.xsd) knows; GitLab, GitHub actions and Azure read
    them.

    Rules that are ``warned`` or worse are failures; those that raised are errors; those that judged no row are skipped.
    The case ``job`` fails with the job, and also where a job is ``warned`` by something that is no rule's failure:
    quarantined rows.
    """
    suites = []
    for job in report.jobs:
        seconds = 0.0 if job.last is None else job.last.seconds or 0.0
        place = f"enrich.{report.deployment}.{job.job}"
        names: Counter[str] = Counter()
        cases = []
        for name, verdict, run, now in list_rules(job):
            names[name] += 1
            unique = name if names[name] == 1 else f"{name} #{names[name]}"
            end = _OF_RULE.get(verdict, "")
            told = "; ".join(_tell_rule(run, now)) if end else ""
            cases.append(Case(place, unique, 0.0, end, verdict, told or format_verdict(verdict), told))
        shown = any(case.end for case in cases)
        end = _OF_JOB.get(job.verdict) or (_FAILURE if job.verdict == "warned" and not shown else "")
        told = "\n".join(filter(None, [job.headline, job.last.error if job.last else None]))
        message = told.partition("\n")[0] or format_verdict(job.verdict)
        cases.append(Case(place, "job", seconds, end, job.verdict, message, told))
        at = (job.last.at if job.last is not None else report.generated).removesuffix("Z")
        suites.append(CaseSuite(job.job, tuple(cases), seconds, at))
    return format_suites(f"enrich {report.deployment}", suites)


def _tell_rule(run: RuleReport | None, now: RuleNow | None) -> Iterator[str]:
    """Yield what the table and the run say of a rule."""
    if now is not None and now.failed is not None:
        since = f" since {format_since(now)}" if now.since else ""
        why = f": {format_why(now)}" if now.reasons else ""
        yield f"table now: {format_number(now.failed)} of {format_number(now.checked)} rows fail{since}{why}"
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
