"""The report as JUnit XML, for continuous integration: a suite a job, a case a rule, and one case for the job itself.

    rule      run, table now             case
    email     passed, 12 rows fail       failure: 12 of 100 rows of the table fail
    country   passed, 0 rows fail        -
    job       blocked                    failure: blocked by ...

Attributes and elements are those that Jenkins' schema (junit-10.xsd) knows; GitLab, GitHub actions and Azure read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from enrich.base.console import clean
from enrich.report.models import JobReport, Report, RuleNow, RuleReport
from enrich.report.values import format_verdict
from enrich.report.words import format_number, format_since, format_why, list_rules

_FAILURE, _ERROR, _SKIPPED = "failure", "error", "skipped"
_OF_RULE = {
    "error": _ERROR,
    "blocked": _FAILURE,
    "held": _FAILURE,
    "warned": _FAILURE,
    "not_checked": _SKIPPED,
}
_OF_JOB = {"failed": _ERROR, "blocked": _FAILURE, "skipped": _SKIPPED, "never_run": _SKIPPED}
_COUNTED = {"tests": "", "failures": _FAILURE, "errors": _ERROR, "skipped": _SKIPPED}


def format_junit(report: Report) -> str:
    """Return the report as an XML document of ASCII characters.

    Rules that are ``warned`` or worse are failures; those that raised are errors; those that judged no row are skipped.
    The case ``job`` fails with the job, and also where a job is ``warned`` by something that is no rule's failure:
    quarantined rows.
    """
    root = ET.Element("testsuites", name=_clean(f"enrich {report.deployment}"))
    for job in report.jobs:
        root.append(_build_suite(job, report))
    return finish_document(root, sum((job.last.seconds or 0.0) for job in report.jobs if job.last is not None))


def finish_document(root: ET.Element, seconds: float) -> str:
    """Return a document of suites as text of ASCII characters, with its counts and how long all of it took."""
    _set_counts(root, seconds, ("tests", "failures", "errors"))
    ET.indent(root)
    found: bytes = ET.tostring(root, encoding="us-ascii", xml_declaration=True)
    return found.decode("ascii")


def _build_suite(job: JobReport, report: Report) -> ET.Element:
    seconds = 0.0 if job.last is None else job.last.seconds or 0.0
    suite = ET.Element("testsuite", name=_clean(job.job))
    place = f"enrich.{report.deployment}.{job.job}"
    names: Counter[str] = Counter()
    for rule in list_rules(job):
        names[rule.name] += 1
        number = names[rule.name]
        case = add_case(suite, place, rule.name if number == 1 else f"{rule.name} #{number}")
        if (end := _OF_RULE.get(rule.verdict)) is not None:
            told = "; ".join(_tell_rule(rule.run, rule.now))
            add_end(case, end, rule.verdict, told or format_verdict(rule.verdict), told)
    shown = any(len(case) for case in suite)
    end = _OF_JOB.get(job.verdict) or (_FAILURE if job.verdict == "warned" and not shown else None)
    case = add_case(suite, place, "job", seconds)
    if end is not None:
        told = "\n".join(filter(None, [job.headline, job.last.error if job.last else None]))
        add_end(case, end, job.verdict, told.partition("\n")[0] or format_verdict(job.verdict), told)
    finish_suite(suite, seconds)
    suite.set("timestamp", (job.last.at if job.last is not None else report.generated).removesuffix("Z"))
    return suite


def add_case(suite: ET.Element, place: str, name: str, seconds: float = 0.0) -> ET.Element:
    """Add a case to a suite."""
    return ET.SubElement(suite, "testcase", classname=_clean(place), name=_clean(name), time=f"{seconds:.3f}")


def add_end(case: ET.Element, kind: str, verdict: str, message: str, told: str) -> None:
    """Say in a case what was wrong: ``failure``, ``error`` or ``skipped``, in one line and in full."""
    ET.SubElement(case, kind, type=verdict, message=_clean(message)).text = clean(told)


def finish_suite(suite: ET.Element, seconds: float) -> None:
    """Count the cases of a suite, and say how long they took."""
    _set_counts(suite, seconds, tuple(_COUNTED))


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


def _set_counts(element: ET.Element, seconds: float, names: tuple[str, ...]) -> None:
    """Count the cases below an element, by how they ended."""
    cases = list(element.iter("testcase"))
    for name in names:
        kind = _COUNTED[name]
        element.set(name, str(sum(not kind or case.find(kind) is not None for case in cases)))
    element.set("time", f"{seconds:.3f}")


def _clean(text: str) -> str:
    """Return a text for an attribute: one line without characters that XML does not know."""
    return clean(text).replace("\n", " ")
