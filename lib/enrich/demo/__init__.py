"""``enrich demo``: a story on real Delta tables, in rounds; after each round the target must be as expected."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import enrich
from enrich.base.console import format_finding, format_window
from enrich.base.extras import EXPECTATIONS, SPARK, require_extra
from enrich.base.result import CREATED, UPDATED, RunResult
from enrich.config import Project
from enrich.demo import picture
from enrich.demo.directory import start_over
from enrich.demo.story import Round, Row, Section, compute_expected_tables, read_sections
from enrich.demo.tables import Lake
from enrich.diagnosis.text import format_keys
from enrich.operations.loading import load_project
from enrich.report import write_latest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

Say = Callable[[str], None]

FIRST = "consents"
"""The part that is played when none is named."""


@dataclass(frozen=True)
class Stage:
    """What all rounds share: the project, its session, its lake, and where to print.

    Attributes:
        reasons: Job -> key -> reason, as of the last run that changed the job's target.
    """

    project: Project
    spark: SparkSession
    lake: Lake
    say: Say
    reasons: dict[str, dict[Any, str]] = field(default_factory=dict)


def play(directory: Path, names: tuple[str, ...], say: Say) -> int:
    """Play parts of the story in ``directory``, all if none is named; return 0 if every table was as expected, else 1.

    Raises:
        ConfigError: The directory has other content, or a section is unknown.
        EnvironmentFault: Spark does not start, or an extra is not installed.
    """
    for extra in (SPARK, EXPECTATIONS):
        require_extra(extra)
    from enrich.spark.session import get_session

    began, chosen = time.monotonic(), read_sections(names)
    home = start_over(directory, [job for section in chosen for job in (section.job, *section.runs)])
    project = load_project(home, target="dev")
    log.info("starting Spark, once for all rounds")
    stage = Stage(project, get_session(project.settings.spark, lambda: 0), Lake(home / "lake"), say)
    if any(section.why for section in chosen):
        say(picture.LEGEND)
    wrong = sum(play_section(stage, section) for section in chosen)
    say(f"\nThe report about all runs is {write_latest(project)}")
    verdict = f"{wrong} rounds were NOT as expected" if wrong else "Every round was as expected"
    say(f"{verdict} in {time.monotonic() - began:.0f} s. To continue: enrich --project-dir {directory} run")
    if others := [section.name for section in read_sections() if section not in chosen]:
        say(f"enrich demo --all plays the other parts too, and --section NAME one of them: {', '.join(others)}")
    return 1 if wrong else 0


def play_section(stage: Stage, section: Section) -> int:
    """Play one job's rounds and print its table at the end; return how many rounds were wrong."""
    stage = reload(stage)  # an earlier part may have changed a job file
    stage.say(f"\n=== {section.title}\n{section.about}")
    stage.lake.create(section)
    before: dict[Any, Row] = {}
    wrong = 0
    for number, (each, expected) in enumerate(compute_expected_tables(section), 1):
        stage.say(f"\nround {number}: {each.title}")
        for commit in each.commits:
            stage.lake.write(section, commit)
            stage.say(f"  another system commits: {picture.format_commit(commit)}")
        stage = heal(stage, section) if each.heal else stage
        result, after = play_round(stage, section, before, full_refresh=each.heal)
        faults = find_differences(stage, section, each, result)
        if after != expected:
            faults.append(f"the table differs:\n{indent(picture.draw_difference(section, after, expected), '  ')}")
        for fault in faults:
            stage.say(f"  FAIL {fault}")
        wrong += bool(faults)
        before = after
    if len(section.rounds) > 1:
        stage.say(indent(f"\n{section.job} now:\n{picture.draw_table(section, before)}", "  "))
    return wrong


def heal(stage: Stage, section: Section) -> Stage:
    """Ask `enrich doctor keys`, and write the lines that it suggests into the job file of the demo's own project."""
    report = enrich.doctor_keys(stage.project, section.job, spark=stage.spark)
    stage.say(f"  enrich doctor keys {section.job}:\n{indent(format_keys(report), '    ')}")
    file = stage.project.dir / report.file
    suggested = [join.suggestion.lines for join in report.joins if join.suggestion is not None]
    lines = {alias: line for each in suggested for alias, line in each.items()}
    file.write_text(add_sources(file.read_text(encoding="utf-8"), lines), encoding="utf-8")
    stage.say(f"  {report.file} now has these lines")
    return reload(stage)


def reload(stage: Stage) -> Stage:
    """Return the stage with the project as its files are now."""
    return replace(stage, project=load_project(stage.project.dir, target=stage.project.deployment))


def add_sources(text: str, lines: Mapping[str, str]) -> str:
    """Return a job file whose sources, each on a line of its own, read as ``lines`` say."""

    def line_of(line: str) -> str:
        alias = line.partition(":")[0].strip()
        return f"  {lines[alias]}" if "{table:" in line and alias in lines else line

    return "\n".join(line_of(line) for line in text.split("\n"))


def play_round(
    stage: Stage, section: Section, before: dict[Any, Row], *, full_refresh: bool
) -> tuple[RunResult, dict[Any, Row]]:
    """Run the section's jobs, print what changed, and return the result and the target as it now stands."""
    jobs = list(section.runs) or [section.job]
    result = enrich.run(stage.project, jobs=jobs, spark=stage.spark, full_refresh=full_refresh)
    for job in result.jobs:
        windows = ", ".join(format_window(alias, window) for alias, window in job.sources.items())
        counts = f"{job.counts.inserted} inserted, {job.counts.updated} updated, {job.counts.deleted} deleted"
        stage.say(f"  enrich run {job.job}: {job.status} in {job.seconds:.1f} s; {windows}; {counts}")
        for finding in job.findings:
            if finding.success is not True:
                stage.say(f"    {format_finding(finding)}")
        if job.error is not None:
            stage.say(f"    {job.error}")
    if section.why and result.jobs[-1].status in (CREATED, UPDATED):
        stage.reasons[section.job] = explain_missing(stage, section)
    after = stage.lake.target(section, stage.reasons.get(section.job, {}))
    stage.say(indent(picture.draw_changes(section, before, after), "  "))
    return result, after


def explain_missing(stage: Stage, section: Section) -> dict[Any, str]:
    """Return in one word for each key why a source that the section tells of has no partner; `enrich why` decides."""
    from enrich.diagnosis.inquiry import find_all_reasons

    told = {}
    for (key,), reasons in find_all_reasons(stage.project, section.job, stage.spark).items():
        words = [reasons[alias].reason for alias in section.why if alias in reasons]
        told[key] = next((word for word in words if word != "matched"), "matched")
    return told


def find_differences(stage: Stage, section: Section, each: Round, result: RunResult) -> list[str]:
    """Return what is not as expected: exit code, status, number of rows in quarantine."""
    status = next((job.status for job in result.jobs if job.job == section.job), "missing")
    pairs = {"exit code": (result.exit_code, each.exit_code), "status": (status, each.status)}
    if each.quarantine is not None:
        held = len(stage.lake.rows(f"{section.job}__quarantine"))
        stage.say(f"  rows in quarantine: {held}")
        pairs["rows in quarantine"] = (held, each.quarantine)
    return [f"{what}: {found}, expected {told}" for what, (found, told) in pairs.items() if found != told]
