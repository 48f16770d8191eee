"""Play the story of ``enrich demo`` on real Delta tables; after each round the target must be as expected.

Its parts are scenario files, which ``enrich.testing`` plays. Unlike ``enrich test``, the demo plays them in a project
that stays, and shows what happens.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

from enrich.answers.reasons import MATCHED, format_keys
from enrich.base import hints
from enrich.base.console import format_count, format_finding, format_window
from enrich.base.errors import ConfigError
from enrich.base.extras import EXPECTATIONS, SPARK, require_extra
from enrich.base.result import JobResult
from enrich.demo import picture
from enrich.demo.picture import Row
from enrich.operations.loading import load_project
from enrich.project.project import Project
from enrich.report import write_latest
from enrich.testing.lake import Lake
from enrich.testing.outcome import format_difference
from enrich.testing.play import Played, Reasons, Stage, get_session, give_tables, play_round
from enrich.testing.reader import read_scenario
from enrich.testing.scenario import Scenario

if TYPE_CHECKING:
    from enrich.answers.reasons import KeyReport

log = logging.getLogger(__name__)

Say = Callable[[str], None]

MARKER = ".enrich-demo"
_MARK = "Written by `enrich demo`, which deletes this directory's content when it starts again.\n"
PROJECT = Path(__file__).parent / "project"
PARTS = ("conf", "jobs", "expectations")
STORY = Path(__file__).parent / "story"
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
    given = [f"{name}: {format_count(len(table.rows), 'row')}" for name, table in section.tables.items()]
    say(f"  another system has written: {'; '.join(given)}")
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
    found = text.split("\n")
    for at, line in enumerate(found):
        alias = line.partition(":")[0].strip()
        if "{table:" in line and alias in lines:
            found[at] = f"  {lines[alias]}"
    return "\n".join(found)


# --- the parts of the story ------------------------------------------------------------------------------------------


def list_names() -> list[str]:
    """Return the names of the sections, in order: ``consents`` for ``1_consents.yml``."""
    return [path.stem.partition("_")[2] for path in sorted(STORY.glob("*.yml"))]


def read_sections(project: Project, names: tuple[str, ...] = ()) -> list[Scenario]:
    """Return the sections of the story in order, or those named.

    Raises:
        ConfigError: There is no section of that name.
    """
    known = list_names()
    for name in names:
        if name not in known:
            raise ConfigError(f"the demo has no section {name!r}", hint=f"its sections are {', '.join(known)}")
    files = sorted(STORY.glob("*.yml"))
    return [read_scenario(project, path) for path, name in zip(files, known, strict=True) if not names or name in names]


def job_of(section: Scenario) -> str:
    """Return the job whose target a section shows: the last one."""
    return section.jobs[-1]


def list_aliases(section: Scenario) -> list[str]:
    """Return the sources whose reasons a section tells; a row's reason is that of the first one without partner."""
    written = [result.why for each in section.rounds for job, result in each.results.items() if job == job_of(section)]
    return list(dict.fromkeys(name for rows in written if rows is not None for name in rows.columns[1:]))


def choose_reason(told: dict[str, str], aliases: list[str]) -> str:
    """Return a row's reason, of those of its sources."""
    return next((told[alias] for alias in aliases if told.get(alias, MATCHED) != MATCHED), MATCHED)


def list_columns(section: Scenario) -> list[str]:
    """Return the columns of the target that a section shows, as its first round writes them."""
    (expected,) = section.rounds[0].targets.values()
    return list(expected.whole.columns if expected.whole is not None else ())


# --- the demo's directory: known by a marker, so that only an earlier demo is ever deleted ---------------------------


def start_over(directory: Path, jobs: Collection[str] | None = None) -> Path:
    """Make ``directory`` a fresh copy of the demo's project and return its absolute path.

    Args:
        directory: Where to.
        jobs: The jobs that it shall have: the others' sources do not exist. None: all.

    Raises:
        ConfigError: The directory holds something that is not an earlier demo.
    """
    directory = directory.absolute()
    marker = directory / MARKER
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise _refuse(directory, "is not a directory")
    if directory.exists() and any(directory.iterdir()):
        if marker.is_symlink() or not marker.is_file() or marker.read_text(encoding="utf-8") != _MARK:
            raise _refuse(directory, "is not empty and is not the directory of an earlier demo")
        # The marker last: a demo stopped halfway is still known as one.
        for path in sorted(directory.iterdir(), key=lambda path: path.name == MARKER):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    directory.mkdir(parents=True, exist_ok=True)
    marker.write_text(_MARK, encoding="utf-8")
    (directory / ".gitignore").write_text("*\n", encoding="utf-8")
    compiled = shutil.ignore_patterns("__pycache__")  # pip compiles the DAG beside the jobs where it installs us
    for part in PARTS:
        shutil.copytree(PROJECT / part, directory / part, copy_function=shutil.copyfile, ignore=compiled)
    for file in (directory / "jobs").iterdir():
        if jobs is not None and file.stem not in jobs:
            file.unlink()
    return directory


def _refuse(directory: Path, what: str) -> ConfigError:
    return ConfigError(f"{str(directory)!r} {what}", hint=f"name another directory: `{hints.demo('another-demo')}`")
