"""``enrich report``: one of five formats on stdout, the page and the JSON in files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from enrich.answers.reasons import RuleCauses
from enrich.base import hints
from enrich.base.console import clean
from enrich.base.files import WholeFile
from enrich.cli.options import NOT_PASSED, Call, build_graph, choose
from enrich.cli.process import convert_error, format_json_line, put, say_result, stop_if_interrupted
from enrich.project.project import Project
from enrich.report import Report, add_reasons, read_report
from enrich.report.document import list_failing
from enrich.report.page import format_junit, format_markdown, render_page
from enrich.report.text import format_report, format_rule

_BAD = ("failed", "blocked", "skipped")
FAIL_ON: dict[str | None, tuple[str, ...]] = {None: (), "fail": _BAD, "warn": (*_BAD, "warned")}
"""The verdicts that each value of ``--fail-on`` is about."""

FORMATS: dict[str, Callable[[Report], str]] = {
    "text": format_report,
    "json": lambda report: format_json_line(report.to_dict()),
    # The page says that it is UTF-8, and stdout may be anything: as ASCII it is both.
    "html": lambda report: render_page(report).encode("ascii", "xmlcharrefreplace").decode("ascii"),
    "markdown": format_markdown,
    "junit": format_junit,
}
"""What can go to stdout."""


def make_report(  # noqa: PLR0913 - its options
    call: Call,
    *,
    jobs: Sequence[str],
    html: Path | None,
    json_file: Path | None,
    runs: int,
    reasons: bool,
    fail_on: str | None,
) -> int:
    """Make the report and put it where it was asked for; return 0, whatever the verdict, or 3 with ``--fail-on``."""
    project = call.load_project()
    chosen = choose(build_graph(project), jobs, (), ())
    with ExitStack() as cleanup:
        page_file = cleanup.enter_context(WholeFile(html, "--html")) if html else None
        data_file = cleanup.enter_context(WholeFile(json_file, "--json")) if json_file else None
        report = read_report(project, chosen, runs)
        if reasons:
            report = add_reasons(report, _ask_for_reasons(project, list_failing(report)))
        if data_file is not None:
            data_file.write(json.dumps(report.to_dict(), indent=2))
        if page_file is not None:
            page_file.write(render_page(report))
    say_result(FORMATS[call.output](report))
    for job in (each for each in report.jobs if each.verdict in FAIL_ON[fail_on]):
        why = job.last.error if job.last is not None and job.verdict != "warned" else None
        if why is None:
            failing = [rule for rule in (job.now.rules if job.now is not None else ()) if rule.verdict == "warned"]
            rules = ", ".join(dict.fromkeys(map(format_rule, failing)))
            ask = hints.failing(job.job) if failing else hints.report(job.job)
            why = f"{job.headline}{f' ({rules})' if rules else ''}; `{ask}` says more"
        call.say_failure(f"{job.job}: {job.verdict}: {why}", job.job)
    return NOT_PASSED if report.verdict in FAIL_ON[fail_on] else 0


def _ask_for_reasons(project: Project, jobs: Sequence[str]) -> dict[str, tuple[RuleCauses, ...]]:
    """Return why rows fail, by job; a job that cannot be asked is a warning, and is reported without reasons."""
    found = {}
    for name in jobs:
        try:
            from enrich.answers.failing_rows import find_causes  # which needs Spark

            found[name] = find_causes(project, name, beside=jobs)
        except Exception as error:  # noqa: BLE001 - whatever keeps one job from an answer, the report is made
            stop_if_interrupted()
            told = " ".join(str(convert_error(error)).split())
            put(click.style("warning: ", fg="yellow") + clean(f"no reasons for {name}: {told}"), sys.stderr)
    return found
