"""``enrich demo`` plays its story right, starts again cleanly, and what it leaves is a project to go on with."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

import enrich.demo as directory
from enrich.answers.reasons import MATCHED, list_meanings
from enrich.answers.verification import DIFFERENT, EQUAL, Check, Discrepancy, VerifyResult
from enrich.base.errors import ConfigError
from enrich.demo import (
    MARKER,
    PROJECT,
    Row,
    add_sources,
    draw_changes,
    draw_table,
    list_aliases,
    list_columns,
    play,
    prove_targets,
    read_sections,
    start_over,
    trace_erased,
)
from enrich.project.project import load_project
from enrich.report.models import KeyPlace, KeyTrace
from enrich.testing import Lake
from enrich.testing.scenario import Round, Scenario, WrittenRow
from faults.shop import SOAK
from kit import command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PLAYED = () if SOAK else ("consents",)
"""The parts that are played: in the soak, all. Of the joins that the others show, the truth tables have every line."""
BLOCK = re.compile(r"<!-- demo: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)


def sections(*names: str) -> list[Scenario]:
    return [*read_sections(load_project(PROJECT), names).values()]


def section(name: str) -> Scenario:
    return sections(name)[0]


def titles(part: Scenario) -> list[str]:
    return [*list_columns(part), *(["why"] if list_aliases(part) else [])]


def read_cells(row: WrittenRow) -> Row:
    """Decimals are written as texts, so that they have their zeros."""
    is_decimal = re.compile(r"\d+\.\d\d").fullmatch
    return tuple(Decimal(cell) if isinstance(cell, str) and is_decimal(cell) else cell for cell in row.cells.values())


def compute_expected_tables(section: Scenario) -> Iterator[tuple[Round, dict[Any, Row]]]:
    """Yield each round with the whole table that must stand after it, by key; its cells as texts and nulls."""
    aliases, table = list_aliases(section), dict[Any, Row]()
    for each in section.rounds:
        (expected,) = each.targets.values()
        written = expected.whole or expected.changed
        new = [read_cells(row) for row in (written.rows if written is not None else ())]
        table = {key: row for key, row in table.items() if key not in (expected.gone or ())}
        reasons = {}
        for result in each.results.values():
            for row in result.why.rows if result.why is not None else ():
                key, *_ = told = read_cells(row)
                reasons[key] = next((reason for reason in told[1:] if reason != MATCHED), MATCHED)
        for cells in new:
            table[cells[0]] = (*cells, reasons.get(cells[0], MATCHED)) if aliases else cells
        yield each, dict(table)


# --- the story itself, without Spark ---------------------------------------------------------------------------------


def test_the_story_is_the_one_that_the_issue_tells() -> None:
    tables = [(each, dict(table)) for each, table in compute_expected_tables(section("consents"))]
    emails = [[row[1] for row in table.values()] for _, table in tables]
    assert (len(emails[0]), emails[0].count(None)) == (10, 2)
    assert emails[1].count(None) == 0
    assert tables[2][0].results["consents_with_email"].status == "unchanged"
    erased = next(table for each, table in tables if "GDPR" in each.title)
    assert "eight@example.com" not in [row[1] for row in erased.values()]
    assert erased["user_8"][-1] == "deleted_at"
    assert {row[-1] for key, row in tables[-2][1].items() if "user_11" in key} == {"near_miss"}
    assert tables[-1][0].doctor == "consents_with_email"
    assert [row[1] for key, row in tables[-1][1].items() if "user_11" in key] == ["eleven@example.com"]
    assert {row[-1] for _, table in tables for row in table.values()} <= list_meanings().keys()


def test_nulls_of_a_moment_have_three_causes_and_heal_where_they_should() -> None:
    tables = [table for _, table in compute_expected_tables(section("moments"))]
    reasons = [{row[-1] for row in table.values() if row[-2] is None} for table in tables]
    assert (reasons[0], reasons[-1]) == ({"no_such_key", "too_early", "gone"}, {"gone"})
    loaded = [write for each in section("moments").rounds for commit in each.commits for write in commit if write.dump]
    assert [write.dump.complete for write in loaded if write.dump is not None] == [False, False, True, False]


def test_the_samples_write_what_the_story_reads(tmp_path: Path) -> None:
    project = load_project(start_over(tmp_path / "demo"))
    for each in sections():
        for job in map(project.jobs.__getitem__, each.jobs):
            if job.select is not None and job.job == each.jobs[-1]:
                assert list(job.select) == list_columns(each)
            written = {*each.tables, *each.jobs}
            assert {source.table for source in job.sources.values()} <= written


def test_what_the_doctor_suggests_goes_into_the_sources_alone(tmp_path: Path) -> None:
    file = start_over(tmp_path / "demo") / "jobs" / "consents_with_email.yml"
    before = file.read_text().split("\n")
    lines = {"accounts": "accounts: {table: customer_accounts, key: customer_id, normalise: [visible]}"}
    after = add_sources(file.read_text(), lines).split("\n")
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert [new for _, new in changed] == [f"  {lines['accounts']}"]
    file.write_text("\n".join(after))
    assert load_project(tmp_path / "demo").jobs["consents_with_email"].sources["accounts"].normalise == ("visible",)


def test_changes_are_shown_as_old_and_new() -> None:
    part = titles(section("consents"))
    before = {"user_2": ("user_2", None, True, True, "no_such_key"), "user_10": ("user_10", "x", True, True, "matched")}
    after = {"user_2": ("user_2", "y", True, True, "matched"), "user_3": ("user_3", "z", None, True, "matched")}
    lines = draw_changes(part, before, after | {"user_1": before["user_10"]}).splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["+", "user_10", "x"],
        ["~", "user_2", "null"],
        ["+", "user_3", "z"],
        ["-", "user_10", "x"],
    ]
    assert "null => y" in lines[2]
    assert draw_changes(part, before, before) == "2 rows as before"
    structs = {"a": ("a", [{"id": "a1", "street": "First Street"}, {"id": "a2", "street": None}], "\u200b", "7")}
    shown = re.split(" {2,}", draw_table(["key", "list", "hidden", "text"], structs).split("\n")[1])
    assert shown[-3:] == [
        "[a1 First Street, a2 null]", "'\\u200b'", "'7'",
    ]  # fmt: skip


@pytest.mark.parametrize("page", ["README.md", "docs/groups.md"])
def test_pages_show_the_table_that_a_part_ends_with(page: str) -> None:
    path = ROOT / page
    text = path.read_text(encoding="utf-8")

    def drawn(found: re.Match[str]) -> str:
        part = section(found[1])
        *_, (_, table) = compute_expected_tables(part)
        shown = "\n".join(line.rstrip() for line in draw_table(titles(part), table).splitlines())
        return f"<!-- demo: {found[1]} -->\n```\n{shown}\n```\n<!-- end -->"

    fresh = BLOCK.sub(drawn, text)
    if os.environ.get("ENRICH_WRITE_DOCS") == "1":
        path.write_text(fresh, encoding="utf-8")
    assert BLOCK.search(fresh)
    assert path.read_text(encoding="utf-8") == fresh


@pytest.mark.parametrize("wrong", [None, True, False])
def test_the_groups_end_with_both_ways_of_verifying(monkeypatch: pytest.MonkeyPatch, wrong: bool | None) -> None:
    """A table that is not equal, by either way, fails the demo."""
    lines = list[str]()

    def verify(project: object, jobs: Sequence[str], *, quick: bool, spark: object) -> VerifyResult:
        joined, grouped = jobs
        last = Check(grouped, DIFFERENT, target=Discrepancy(surplus=1)) if quick is wrong else Check(grouped, EQUAL)
        return VerifyResult("", "dev", (Check(joined, EQUAL, target_version=3), last))

    monkeypatch.setattr(directory, "verify", verify)
    stage: Any = SimpleNamespace(project=None, spark=None)
    assert prove_targets(stage, section("groups"), lines.append) is (wrong is None)
    assert [line for line in lines if "sales_with" in line] == ["    sales_with_merchant: equal, at version 3"] * 2
    assert lines.count("    sales_by_merchant: different, 1 surplus") == (wrong is not None)


@pytest.mark.parametrize(("found", "right"), [((), False), (("log", "row"), False), (("masked", "change_feed"), True)])
def test_the_erasure_ends_with_the_files_that_have_the_key(
    monkeypatch: pytest.MonkeyPatch, found: Sequence[str], right: bool
) -> None:
    """A row that is still in a table fails the demo, and so does a trace that looks at nothing."""
    asked, lines = [], list[str]()

    def trace(project: object, job: str, key: str, *, spark: object) -> KeyTrace:
        asked.append((job, key))
        told = {"table": "t", "role": "source", "files": ["f"], "until": None, "ends": "VACUUM"}
        places = tuple(KeyPlace.model_validate({**told, "what": what}) for what in found)
        return KeyTrace(job=job, deployment="dev", exit_code=3, places=places)

    monkeypatch.setattr("enrich.answers.trace.trace", trace)
    stage: Any = SimpleNamespace(project=None, spark=None)
    assert trace_erased(stage, section("erasure"), lines.append) is right
    assert asked == [("reachable_customers", "user_12")]
    assert [what in lines[-1] for what in found] == [True] * len(found)


# --- the directory ---------------------------------------------------------------------------------------------------


def test_a_second_demo_starts_again_cleanly(tmp_path: Path) -> None:
    home = start_over(tmp_path / "demo")
    (home / "lake").mkdir()
    (home / "jobs" / "mine.yml").write_text("x")
    assert start_over(tmp_path / "demo") == home
    assert not (home / "lake").exists()
    assert not (home / "jobs" / "mine.yml").exists()
    assert (home / "jobs" / "consents_with_email.yml").is_file()


def test_what_pip_has_compiled_beside_the_jobs_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "installed"
    shutil.copytree(PROJECT, installed)
    (installed / "jobs" / "__pycache__").mkdir(exist_ok=True)
    (installed / "jobs" / "__pycache__" / "airflow_dag.cpython-311.pyc").write_bytes(b"")
    monkeypatch.setattr(directory, "PROJECT", installed)
    home = start_over(tmp_path / "demo", ["consents_with_email"])
    assert [path.name for path in (home / "jobs").iterdir()] == ["consents_with_email.yml"]


@pytest.mark.parametrize("kind", ["a full directory", "a false marker", "a link as marker", "a file", "a link"])
def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path, kind: str) -> None:
    home = tmp_path / "home"
    real = start_over(tmp_path / "real")
    if kind == "a file":
        home.write_text("mine")
    elif kind == "a link":
        home.symlink_to(real)
    else:
        home.mkdir()
        (home / "thesis.txt").write_text("mine")
        if kind == "a false marker":
            (home / MARKER).write_text("hello")
        if kind == "a link as marker":
            (home / MARKER).symlink_to(real / MARKER)
    with pytest.raises(ConfigError) as caught:
        start_over(home)
    assert caught.value.exit_code == 2
    assert "`enrich demo another-demo`" in str(caught.value)
    assert (home / "thesis.txt").exists() or kind in ("a file", "a link")
    assert (real / "jobs").is_dir()


def test_an_empty_directory_will_do(tmp_path: Path) -> None:
    assert (start_over(tmp_path) / MARKER).is_file()


def test_an_unknown_section_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no section 'nope'; its sections are consents"):
        play(tmp_path / "demo", ("nope",), print)
    assert not (tmp_path / "demo").exists()


def test_a_part_leaves_a_project_of_its_own_jobs(tmp_path: Path) -> None:
    start_over(tmp_path / "demo", ["consents_with_email"])
    assert list(load_project(tmp_path / "demo").jobs) == ["consents_with_email"]


# --- the play --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played(interpreted: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, list[str]]:
    """The demo, once, in the tests' session."""
    home, lines = tmp_path_factory.mktemp("demo") / "enrich-demo", list[str]()
    code = play(home, PLAYED, lines.append)
    return home, code, "\n".join(lines).split("\n")


def test_every_round_is_as_the_story_says(played: tuple[Path, int, list[str]]) -> None:
    _, code, lines = played
    assert [line for line in lines if "FAIL" in line] == []
    assert code == 0
    assert any("normalise: [visible]" in line for line in lines)
    assert any("to make 1 reference match" in line for line in lines)
    assert any(line.startswith("Every round was as expected") for line in lines[-2:])
    assert sum(line.startswith("round ") for line in lines) == sum(len(each.rounds) for each in sections(*PLAYED))


def test_the_run_afterwards_goes_on_from_there_without_a_jvm(played: tuple[Path, int, list[str]]) -> None:
    home, _, _ = played
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "lib"), "PATH": ""}
    environment.pop("JAVA_HOME", None)
    done = subprocess.run(
        [sys.executable, "-m", "enrich", "--project-dir", str(home), "run", "--output", "json"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = json.loads(done.stdout)["jobs"]
    assert {job["job"]: job["status"] for job in jobs} == {
        job: "unchanged" for each in sections(*PLAYED) for job in each.jobs
    }


def test_an_erased_address_is_in_no_current_row_nor_in_any_log(played: tuple[Path, int, list[str]]) -> None:
    home, _, _ = played
    erased = {"consents_with_email", "reachable_customers"} & {job for each in sections(*PLAYED) for job in each.jobs}
    assert erased
    for name in erased:
        path = home / "lake" / name
        assert "eight@example.com" not in str(Lake(home / "lake").rows(name))
        for log in (path / "_delta_log").glob("*.json"):
            assert "@example.com" not in log.read_text(encoding="utf-8")
    assert DeltaTable(str(home / "lake" / "consents_with_email")).version() > 0


def test_the_commands_of_asked_elsewhere_run(
    played: tuple[Path, int, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over what the first part leaves, as the page says; what starts anew is played by other tests."""
    text = (ROOT / "docs" / "asked-elsewhere.md").read_text(encoding="utf-8")
    commands = [re.findall(r"^ {4}(\S.*?)(?: +#.*)?$", each, re.MULTILINE) for each in text.split("\n## ")[1:]]
    assert [bool(each) for each in commands] == [True] * 10
    over_the_demo, anew = [list[str](), list[str]()]
    for line in itertools.chain(*commands):
        (over_the_demo if line.startswith("enrich ") else anew).append(line)
    shutil.copytree(played[0], tmp_path / "enrich-demo")
    monkeypatch.chdir(tmp_path)
    ends = {}
    with command.restored():
        for line in over_the_demo:
            found = command.call("--project-dir", "enrich-demo", *shlex.split(line)[1:])
            ends[line] = found.exit_code
            assert found.exit_code in (0, 3), (line, found.output)
            assert found.stdout, line
    assert {line for line, code in ends.items() if code} == {"enrich trace consents_with_email user_8"}, (
        "it is still there"
    )
    parts = {word[1] for line in anew if (word := re.fullmatch(r"\.venv/bin/enrich demo --section (\w+)", line))}
    assert parts <= read_sections(load_project(PROJECT), ()).keys()
    others = [line for line in anew if "demo" not in line]
    assert others == [".venv/bin/enrich init shop && .venv/bin/enrich --project-dir shop test"]


def test_a_round_that_is_not_as_the_story_says_fails_the_demo(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from enrich.base.result import JobResult, RunResult

    def idle(project: object, jobs: list[str], **how: object) -> RunResult:
        return RunResult("r", "dev", tuple(JobResult(job, "unchanged") for job in jobs))

    monkeypatch.setattr("enrich.testing.play.run", idle)
    lines: list[str] = []
    assert play(tmp_path / "demo", ("mirror",), lines.append) == 1
    text = "\n".join(lines)
    assert "expected created, found unchanged" in text
    assert "FAIL" in text
    assert "rounds or checks were NOT as expected" in text
