"""``enrich report``: one of five formats on stdout, the page and the JSON in files, the keys on a terminal."""

from __future__ import annotations

import json
import sys
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click
from click.core import ParameterSource

from enrich import answers
from enrich.base import hints
from enrich.base.console import clean
from enrich.base.errors import ConfigError
from enrich.base.files import WholeFile
from enrich.cli.options import build_graph, choose, refuse_stored_keys
from enrich.cli.process import (
    convert_error,
    format_json_line,
    log_to_stderr,
    put,
    say_failure,
    say_result,
    stop_if_interrupted,
)
from enrich.project.project import Project
from enrich.report import Report, add_reasons, read_report
from enrich.report.document import Causes, list_failing
from enrich.report.models import JobReport
from enrich.report.page import find_latest, format_junit, format_markdown, render_page
from enrich.report.text import format_quarantined_keys, format_report
from enrich.report.words import format_rule

NOT_PASSED = 3
"""The exit code of ``--fail-on``: that of a run that a rule has blocked."""

FAIL_ON: dict[str, tuple[str, ...]] = {
    "fail": ("failed", "blocked", "skipped"),
    "warn": ("failed", "blocked", "skipped", "warned"),
}
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


@dataclass(frozen=True)
class Wanted:
    """What ``enrich report`` was asked for; the fields are its arguments."""

    jobs: Sequence[str]
    html: Path | None
    json: Path | None
    runs: int
    open: bool
    reasons: bool
    show_keys: bool
    fail_on: str | None
    format: str


def choose_format(ctx: click.Context, output: str, form: str | None) -> str:
    """Return the format of stdout: ``--format`` or the older ``--output``, of which one may stand on the command line.

    The command line overrules the environment; of two variables that of ``--format`` counts.

    Raises:
        UsageError: Both are on the command line and say something else.
    """
    given = [name for name in ("form", "output") if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if len(given) == 2 and form != output:
        raise click.UsageError(f"--format {form} and --output {output} contradict each other; leave out --output")
    return output if form is None or given == ["output"] else form


def make_report(project: Project, wanted: Wanted) -> int:
    """Make the report and put it where it was asked for; return 0, whatever the verdict, or 3 with ``--fail-on``.

    Raises:
        EnrichError: An unknown job, a file that cannot be written, a runs table that cannot be read.
    """
    refuse_stored_keys(wanted.format, show_keys=wanted.show_keys)
    chosen = choose(build_graph(project), wanted.jobs, (), ())
    with ExitStack() as cleanup:
        page_file = _prepare_page_file(project, wanted.html, cleanup) if wanted.html or wanted.open else None
        data_file = cleanup.enter_context(WholeFile(wanted.json, "--json")) if wanted.json else None
        report = read_report(project, chosen, wanted.runs)
        if wanted.reasons:
            report = add_reasons(report, _ask_for_reasons(project, list_failing(report)))
        if data_file is not None:
            data_file.write(json.dumps(report.to_dict(), indent=2))
        if page_file is not None:
            page_file.write(render_page(report))
    say_result(FORMATS[wanted.format](report))
    if wanted.show_keys:
        say_result("\n" + "\n\n".join(format_quarantined_keys(project, project.jobs[name]) for name in chosen))
    if wanted.open and page_file is not None and not webbrowser.open(page_file.path.resolve().as_uri()):
        put(f"no browser was found; open {page_file.path} yourself", sys.stderr)
    wanting = FAIL_ON[wanted.fail_on] if wanted.fail_on is not None else ()
    for job in report.jobs:
        if job.verdict in wanting:
            say_failure(_describe_verdict(job), job.job, output=wanted.format)
    return NOT_PASSED if report.verdict in wanting else 0


def _describe_verdict(job: JobReport) -> str:
    """Return a job's verdict, what it is about, and the next step."""
    why = job.last.error if job.last is not None and job.verdict != "warned" else None
    failing = [rule for rule in (job.now.rules if job.now is not None else ()) if rule.verdict == "warned"]
    if why is None:
        rules = ", ".join(dict.fromkeys(map(format_rule, failing)))
        ask = hints.failing(job.job) if failing else hints.report(job.job)
        why = f"{job.headline}{f' ({rules})' if rules else ''}; `{ask}` says more"
    return f"{job.job}: {job.verdict}: {why}"


def _ask_for_reasons(project: Project, jobs: Sequence[str]) -> dict[str, Sequence[Causes]]:
    """Return why rows fail, by job; a job that cannot be asked is a warning, and the report goes without its reasons.

    Raises:
        Interrupted: A signal has come.
    """
    log_to_stderr("text", quiet=True)
    found: dict[str, Sequence[Causes]] = {}
    for name in jobs:
        try:
            found[name] = answers.find_causes(project, name, beside=jobs)
        except Exception as error:  # noqa: BLE001 - whatever keeps one job from an answer, the report is made
            stop_if_interrupted()
            told = " ".join(str(convert_error(error)).split())
            put(click.style("warning: ", fg="yellow") + clean(f"no reasons for {name}: {told}"), sys.stderr)
    return found


def _prepare_page_file(project: Project, html: Path | None, cleanup: ExitStack) -> WholeFile:
    """Return the page's file: the one asked for, or for ``--open`` alone the one that runs leave."""
    path = html or find_latest(project)
    if path is None:
        raise ConfigError(
            "--open needs a local file: the state directory is in an object store", hint="name it with --html F"
        )
    if html is None:
        path.parent.mkdir(parents=True, exist_ok=True)
    return cleanup.enter_context(WholeFile(path, "--html"))
