"""``enrich demo``: a story on real Delta tables, in rounds; after each round the target must be as expected.

Its parts are scenario files, which ``enrich.testing`` plays. Unlike ``enrich test``, the demo plays them in a project
that stays, and shows what happens.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

from enrich.base.console import format_finding, format_window
from enrich.base.extras import EXPECTATIONS, SPARK, require_extra
from enrich.base.result import JobResult
from enrich.config.project import Project
from enrich.demo import picture
from enrich.demo.directory import PROJECT, start_over
from enrich.demo.story import Row, choose_reason, job_of, list_aliases, list_columns, list_names, read_sections
from enrich.diagnosis.answers import format_keys
from enrich.operations.loading import load_project
from enrich.report import write_latest
from enrich.testing.lake import Lake
from enrich.testing.outcome import format_difference
from enrich.testing.play import Played, Reasons, Stage, get_session, give_tables, play_round
from enrich.testing.scenario import Scenario

if TYPE_CHECKING:
    from enrich.diagnosis.answers import KeyReport

log = logging.getLogger(__name__)

Say = Callable[[str], None]

FIRST = "consents"
"""The part that is played when none is named."""


def play(directory: Path, names: tuple[str, ...], say: Say) -> int:
    """Play parts of the story in ``directory``, all if none is named; return 0 if every table was as expected, else 1.

    Raises:
        ConfigError: The directory has other content, or a section is unknown.
        EnvironmentFault: Spark does not start, or an extra is not installed.
    """
    for extra in (SPARK, EXPECTATIONS):
        require_extra(extra)
    began, chosen = time.monotonic(), read_sections(load_project(PROJECT), names)
    home = start_over(directory, [job for section in chosen for job in section.jobs])
    project = load_project(home)
    log.info("starting Spark, once for all rounds")
    stage = Stage(project, get_session(), Lake(home / "lake"), mend_file)
    if any(list_aliases(section) for section in chosen):
        say(picture.LEGEND)
    wrong = sum(play_section(stage, section, say) for section in chosen)
    say(f"\nThe report about all runs is {write_latest(stage.project)}")
    verdict = f"{wrong} rounds were NOT as expected" if wrong else "Every round was as expected"
    say(f"{verdict} in {time.monotonic() - began:.0f} s. To continue: enrich --project-dir {directory} run")
    if others := [name for name in list_names() if names and name not in names]:
        say(f"enrich demo --all plays the other parts too, and --section NAME one of them: {', '.join(others)}")
    return 1 if wrong else 0


def play_section(stage: Stage, section: Scenario, say: Say) -> int:
    """Play one part's rounds and print its table at the end; return how many rounds were wrong."""
    job, aliases = job_of(section), list_aliases(section)
    say(f"\n=== {section.title}\n{section.about}")
    titles = [*list_columns(section), *(["why"] if aliases else [])]
    give_tables(stage, section)
    say(f"  another system has written: {picture.format_given(section.tables)}")
    stage.tables, wrong = {}, 0
    before: dict[Any, Row] = {}
    reasons: Reasons = {}
    for each in section.rounds:
        say(f"\nround {each.number}: {each.title}")
        for commit in each.commits:
            say(f"  another system commits: {picture.format_commit(commit)}")
        played = play_round(stage, section, each)
        reasons = played.reasons.get(job, reasons)
        after = lay_out(played, job, reasons, aliases)
        tell_round(played, section, say)
        say(indent(picture.draw_changes(titles, before, after), "  "))
        for difference in played.differences:
            say(indent(f"FAIL {format_difference(section, difference)}", "  "))
        wrong += bool(played.differences)
        before = after
    if len(section.rounds) > 1:
        say(indent(f"\n{job} now:\n{picture.draw_table(titles, before)}", "  "))
    return wrong


def tell_round(played: Played, section: Scenario, say: Say) -> None:
    """Print what the doctor said, what the run did, and how many rows are in quarantine."""
    if played.report is not None:
        say(f"  enrich doctor keys {played.report.job}:\n{indent(format_keys(played.report), '    ')}")
        say(f"  {played.report.file} now has these lines")
    for job in played.result.jobs if played.result is not None else ():
        tell_job(job, say)
        if job.job == job_of(section) and job.quarantine is not None:
            say(f"  rows in quarantine: {job.quarantine.rows}")


def tell_job(job: JobResult, say: Say) -> None:
    """Print what a run did with a job."""
    windows = ", ".join(format_window(alias, window) for alias, window in job.sources.items())
    counts = f"{job.counts.inserted} inserted, {job.counts.updated} updated, {job.counts.deleted} deleted"
    say(f"  enrich run {job.job}: {job.status} in {job.seconds:.1f} s; {windows}; {counts}")
    for finding in job.findings:
        if finding.success is not True:
            say(f"    {format_finding(finding)}")
    if job.error is not None:
        say(f"    {job.error}")


def lay_out(played: Played, job: str, reasons: Reasons, aliases: list[str]) -> dict[Any, Row]:
    """Return the job's target by key: its cells and, in parts that tell one, the reason of its key."""
    found = {}
    for row in played.tables[job].rows:
        cells = tuple(row.values())
        told = dict(reasons.get(cells[:1], {}))
        found[cells[0]] = (*cells, choose_reason(told, aliases)) if aliases else cells
    return found


def mend_file(project: Project, report: KeyReport) -> Project:
    """Write the suggested lines into the job file of the demo's own project, and return the project as it is then."""
    file = project.dir / report.file
    suggested = [join.suggestion.lines for join in report.joins if join.suggestion is not None]
    lines = {alias: line for each in suggested for alias, line in each.items()}
    file.write_text(add_sources(file.read_text(encoding="utf-8"), lines), encoding="utf-8")
    return load_project(project.dir, target=project.deployment)


def add_sources(text: str, lines: Mapping[str, str]) -> str:
    """Return a job file whose sources, each on a line of its own, read as ``lines`` say."""

    def line_of(line: str) -> str:
        alias = line.partition(":")[0].strip()
        return f"  {lines[alias]}" if "{table:" in line and alias in lines else line

    return "\n".join(line_of(line) for line in text.split("\n"))
