"""Play the story of ``enrich demo`` on real Delta tables; after each round the target must be as expected.

Its parts are scenario files, which ``enrich.testing`` plays. Unlike ``enrich test``, the demo plays them in a project
that stays, and shows what happens.
"""

from __future__ import annotations

import logging
import re
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

from enrich.answers.reasons import MATCHED, format_keys
from enrich.answers.verification import EQUAL, verify
from enrich.base import hints
from enrich.base.console import clean, format_count, format_finding, format_table, format_window
from enrich.base.errors import ConfigError
from enrich.base.failures import EXPECTATIONS, SPARK, require_extra
from enrich.operations.loading import load_project
from enrich.project.project import Project
from enrich.project.settings import resolve_directory
from enrich.report import write_latest
from enrich.testing.differ import write_cell
from enrich.testing.lake import Lake
from enrich.testing.outcome import format_difference
from enrich.testing.play import Reasons, Stage, get_session, give_tables, play_round
from enrich.testing.reader import read_scenario
from enrich.testing.scenario import Scenario, Write

if TYPE_CHECKING:
    from enrich.answers.reasons import KeyReport

log = logging.getLogger(__name__)

Say = Callable[[str], None]
Row = tuple[Any, ...]  # a target row as it is shown: one value a column, then the reason in sections that tell one

LEGEND = (
    "why: matched, or the reason of `enrich why` why there is no partner: no_such_key (not there yet), deleted_at (it "
    "was deleted), foreign_key_null, near_miss (there is a key that differs only by invisible characters), too_early "
    "(its first version begins later), gone (its version says that it does not exist)"
)
_DONE = {"insert": "inserted", "upsert": "upserted", "update": "updated", "delete": "deleted"}

MARKER = ".enrich-demo"
_MARK = "Written by `enrich demo`, which deletes this directory's content when it starts again.\n"
PROJECT = Path(__file__).parent / "project"
PARTS = ("conf", "jobs", "expectations")
STORY = Path(__file__).parent / "story"
FIRST = "consents"  # the part that is played when none is named


def play(directory: Path, names: tuple[str, ...], say: Say) -> int:
    """Play parts of the story in ``directory``, all if none is named; return 0 if all was as expected, else 1."""
    for extra in (SPARK, EXPECTATIONS):
        require_extra(extra)
    began, chosen = time.monotonic(), read_sections(load_project(PROJECT), names)
    home = start_over(directory, [job for section in chosen.values() for job in section.jobs])
    project = load_project(home)
    log.info("starting Spark, once for all rounds")
    stage = Stage(project, get_session(), Lake(home / "lake"), mend_file)
    if any(map(list_aliases, chosen.values())):
        say(LEGEND)
    wrong = 0
    for name, section in chosen.items():
        wrong += play_section(stage, section, say)
        wrong += name in ENDS and not ENDS[name](stage, section, say)
    say(f"\nThe report about all runs is {write_latest(stage.project)}")
    verdict = f"{wrong} rounds or checks were NOT as expected" if wrong else "Every round was as expected"
    say(f"{verdict} in {time.monotonic() - began:.0f} s. To continue: enrich --project-dir {directory} run")
    if others := [name for name in list_files() if names and name not in names]:
        say(f"enrich demo --all plays the other parts too, and --section NAME one of them: {', '.join(others)}")
    return 1 if wrong else 0


def play_section(stage: Stage, section: Scenario, say: Say) -> int:
    """Play one part's rounds and print its table at the end; return how many rounds were wrong."""
    job, aliases = section.jobs[-1], list_aliases(section)  # the target of the last job is shown
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
            say(f"  another system commits: {format_commit(commit)}")
        played = play_round(stage, section, each)
        reasons = played.reasons.get(job, reasons)
        after: dict[Any, Row] = {}
        for row in played.tables[job].rows:
            cells = tuple(row.values())
            told = map(dict(reasons.get(cells[:1], {})).get, aliases)
            why = next((reason for reason in told if reason not in (None, MATCHED)), MATCHED)
            after[cells[0]] = (*cells, why) if aliases else cells
        if played.report is not None:
            say(f"  enrich doctor keys {played.report.job}:\n{indent(format_keys(played.report), '    ')}")
            say(f"  {played.report.file} now has these lines")
        for done in played.result.jobs if played.result is not None else ():
            windows = ", ".join(format_window(alias, window) for alias, window in done.sources.items())
            counts = f"{done.counts.inserted} inserted, {done.counts.updated} updated, {done.counts.deleted} deleted"
            say(f"  enrich run {done.job}: {done.status} in {done.seconds:.1f} s; {windows}; {counts}")
            for finding in done.findings:
                if finding.success is False or finding.error is not None:
                    say(f"    {format_finding(finding)}")
            if done.error is not None:
                say(f"    {done.error}")
            if done.job == job and done.quarantine is not None:
                say(f"  rows in quarantine: {done.quarantine.rows}")
        say(indent(draw_changes(titles, before, after), "  "))
        for difference in played.differences:
            say(indent(f"FAIL {format_difference(section, difference)}", "  "))
        wrong += bool(played.differences)
        before = after
    if len(section.rounds) > 1:
        say(indent(f"\n{job} now:\n{draw_table(titles, before)}", "  "))
    return wrong


def prove_targets(stage: Stage, section: Scenario, say: Say) -> bool:
    """Compare a part's targets with what their commits say, then with what their sources give; tell if all are so."""
    equal = True
    for quick in (True, False):
        say(f"\ndo the tables hold what {'their commits say' if quick else 'the sources give'}?")
        say(f"  enrich verify{' --quick' if quick else ''}")
        for each in verify(stage.project, section.jobs, quick=quick, spark=stage.spark).jobs:
            told = each.error or ", ".join(each.differences) or f"at version {each.target_version}"
            say(f"    {each.job}: {each.status}, {told}")
            equal = equal and each.status == EQUAL
    return equal


def trace_erased(stage: Stage, section: Scenario, say: Say) -> bool:
    """Show where the key that a part has erased still stands; tell if files have it, but no table has a row."""
    from enrich.answers.trace import trace

    (expected,) = section.rounds[-1].targets.values()
    job, (key,) = expected.job, expected.gone or ()
    found = trace(stage.project, job, key, spark=stage.spark)
    say(f"\nwhich files still have {key}, until when, and what takes it away?\n  enrich trace {job} {key}")
    rows = [(clean(each.table), each.role, each.what, each.until or "-", clean(each.ends)) for each in found.places]
    say(indent(format_table(("table", "kind", "what", "until", "what ends it"), rows), "    "))
    return bool(rows) and "row" not in {each.what for each in found.places}


ENDS = {"groups": prove_targets, "erasure": trace_erased}  # what is asked when a part has been played


def mend_file(project: Project, report: KeyReport) -> Project:
    """Write the suggested lines into the job file of the demo's own project, and return the project as it is then."""
    file = project.dir / report.file
    suggested = [join.suggestion.lines for join in report.joins if join.suggestion is not None]
    lines = {alias: line for each in suggested for alias, line in each.items()}
    file.write_text(add_sources(file.read_text(encoding="utf-8"), lines), encoding="utf-8")
    return load_project(project.dir, target=project.deployment)


def add_sources(text: str, lines: Mapping[str, str]) -> str:
    """Return a job file whose sources, each on a line of its own, read as ``lines`` say."""
    for alias, line in lines.items():
        text = re.sub(rf"(?m)^ *{re.escape(alias)}: *{{table:.*$", f"  {line}".replace("\\", r"\\"), text)
    return text


# --- the parts of the story ------------------------------------------------------------------------------------------


def list_files() -> dict[str, Path]:
    """Return the files of the sections in order, by their names: ``consents`` for ``1_consents.yml``."""
    return {path.stem.partition("_")[2]: path for path in sorted(STORY.glob("*.yml"))}


def read_sections(project: Project, names: tuple[str, ...] = ()) -> dict[str, Scenario]:
    """Return the sections of the story in order, or those named; a ConfigError where there is none of that name."""
    known = list_files()
    for name in names:
        if name not in known:
            raise ConfigError(f"the demo has no section {name!r}", hint=f"its sections are {', '.join(known)}")
    return {name: read_scenario(project, path) for name, path in known.items() if not names or name in names}


def list_aliases(section: Scenario) -> list[str]:
    """Return the sources whose reasons a section tells; a row's reason is that of the first one without partner."""
    written = [result.why for each in section.rounds for job, result in each.results.items() if job == section.jobs[-1]]
    return list(dict.fromkeys(name for rows in written if rows is not None for name in rows.columns[1:]))


def list_columns(section: Scenario) -> list[str]:
    """Return the columns of the target that a section shows, as its first round writes them."""
    (expected,) = section.rounds[0].targets.values()
    return list(expected.whole.columns if expected.whole is not None else ())


# --- what a run changed in a table, and why its cells are null -------------------------------------------------------


def format_cell(value: Any) -> str:
    """Return a cell as YAML has it, but structs without the names of their fields: ``[a1 First Street, a2 null]``."""
    if isinstance(value, dict):
        return " ".join(map(format_cell, value.values()))
    return f"[{', '.join(map(format_cell, value))}]" if isinstance(value, list) else write_cell(value)


def format_commit(commit: Sequence[Write]) -> str:
    """Return what another system committed: ``customer_accounts: 2 upserted``."""
    counts: dict[str, list[str]] = {}
    for write in commit:
        told = f"{len(write.rows)} {_DONE.get(write.verb)}"
        if write.dump is not None:
            what = "complete dump" if write.dump.complete else "dump"
            told = f"{what} of {format_count(len(write.dump.text.splitlines()), 'line')} loaded"
        counts.setdefault(write.table, []).append(told)
    return "; ".join(f"{name}: {', '.join(told)}" for name, told in counts.items())


def split_numbers(key: Any) -> tuple[Any, ...]:
    """Order ``user_2`` before ``user_10``."""
    stem = str(key).rstrip("0123456789")
    return stem, int(str(key).removeprefix(stem) or 0)


def draw_table(titles: Sequence[str], rows: Mapping[Any, Row]) -> str:
    """Return a target as it is."""
    lines = [[" ", *map(format_cell, rows[key])] for key in sorted(rows, key=split_numbers)]
    return format_table(["", *titles], lines)


def draw_changes(titles: Sequence[str], before: Mapping[Any, Row], after: Mapping[Any, Row]) -> str:
    """Return the rows that changed, and how many did not: ``+`` new, ``-`` gone, ``~`` changed, as ``old => new``.

    ```
       customer_id  email                     why
    ~  user_4       null => four@example.com  no_such_key => matched
    9 rows as before
    ```
    """
    lines, same = [], 0
    for key in sorted({*before, *after}, key=split_numbers):
        old, new = before.get(key), after.get(key)
        if old == new:
            same += 1
        elif old is None or new is None:
            lines.append(["+" if old is None else "-", *map(format_cell, new or old or ())])
        else:
            steps = zip(map(format_cell, old), map(format_cell, new), strict=True)
            lines.append(["~", *(now if was == now else f"{was} => {now}" for was, now in steps)])
    as_before = f"{format_count(same, 'row')} as before"
    if not lines:
        return as_before
    return "\n".join([format_table(["", *titles], lines), *([as_before] if same else [])])


# --- the demo's directory: known by a marker, so that only an earlier demo is ever deleted ---------------------------


def start_over(directory: Path, jobs: Collection[str] | None = None) -> Path:
    """Make ``directory`` a fresh copy of the demo's project and return its absolute path.

    ``jobs``: those that it shall have, for the others' sources do not exist; None: all. A directory that holds
    something that is not an earlier demo is a ConfigError.
    """
    directory = directory.absolute()
    resolve_directory("./lake", directory)  # refuses what delta-rs cannot open
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
