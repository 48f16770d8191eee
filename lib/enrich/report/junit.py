"""Render the report as JUnit XML, for continuous integration: a suite a job, a case a rule, and one for the job itself.

    rule      run, table now             case
    email     passed, 12 rows fail       failure: 12 of 100 rows of the table fail
    country   passed, 0 rows fail        -
    job       blocked                    failure: blocked by ...

Attributes and elements are those that Jenkins' schema (junit-10.xsd) knows; GitLab, GitHub actions and Azure read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from enrich.report.models import JobReport, Report, RuleNow, RuleReport
from enrich.report.page import build_environment
from enrich.report.words import format_number, format_since, format_verdict, format_why, list_rules

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
    """Return the report as an XML document of ASCII characters.

    Rules that are ``warned`` or worse are failures; those that raised are errors; those that judged no row are skipped.
    The case ``job`` fails with the job, and also where a job is ``warned`` by something that is no rule's failure:
    quarantined rows.
    """
    return format_suites(f"enrich {report.deployment}", [_build_suite(job, report) for job in report.jobs])


def _build_suite(job: JobReport, report: Report) -> CaseSuite:
    seconds = 0.0 if job.last is None else job.last.seconds or 0.0
    place = f"enrich.{report.deployment}.{job.job}"
    names: Counter[str] = Counter()
    cases = []
    for rule in list_rules(job):
        names[rule.name] += 1
        name = rule.name if names[rule.name] == 1 else f"{rule.name} #{names[rule.name]}"
        end = _OF_RULE.get(rule.verdict, "")
        told = "; ".join(_tell_rule(rule.run, rule.now)) if end else ""
        cases.append(Case(place, name, 0.0, end, rule.verdict, told or format_verdict(rule.verdict), told))
    shown = any(case.end for case in cases)
    end = _OF_JOB.get(job.verdict) or (_FAILURE if job.verdict == "warned" and not shown else "")
    told = "\n".join(filter(None, [job.headline, job.last.error if job.last else None]))
    message = told.partition("\n")[0] or format_verdict(job.verdict)
    cases.append(Case(place, "job", seconds, end, job.verdict, message, told))
    at = (job.last.at if job.last is not None else report.generated).removesuffix("Z")
    return CaseSuite(job.job, tuple(cases), seconds, at)


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
