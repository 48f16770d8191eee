"""What ``enrich doctor`` finds, without a JVM; the tables are written by delta-rs."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

import enrich
from enrich.answers import doctor
from enrich.answers.doctor import Checkup, Diagnosis, check_machine
from enrich.progress.cursor import name_application
from enrich.spark.jars import find_delta_jars, list_lacking_names
from kit.command import call, restored
from kit.project import CONF, suite, write_project

FEED = {"delta.enableChangeDataFeed": "true"}
JOB = """job: mails
sources: {people: {table: people, key: mail}}
from: people
select: {mail: people.mail, name: people.name}
target: {table: mails}
"""
ROWS = pa.table({"mail": ["anna@example.com", "zoe@example.com"], "name": ["Anna", "Zoe"]})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give a project whose source has rows and whose job has not run."""
    write_project(tmp_path / "project", {"conf/dev.yml": CONF, "jobs/mails.yml": JOB})
    write_deltalake(tmp_path / "project" / "lake" / "people", ROWS, configuration=FEED)
    return tmp_path / "project"


def examine(home: Path) -> Checkup:
    return enrich.diagnose(enrich.load_project(home))


def problems(found: Checkup, check: str) -> list[Diagnosis]:
    return [each for each in found.found if each.check == check and each.level != "ok"]


def write_target(home: Path, columns: str, table: str = "mails", by: str = "mails") -> None:
    """Write a target as the job would, but with values of some columns in its log."""
    write_deltalake(
        home / "lake" / table,
        ROWS,
        mode="append",
        configuration={"delta.dataSkippingStatsColumns": columns},
        commit_properties=CommitProperties(app_transactions=[Transaction(name_application(by), 1)]),
    )


def test_a_good_project_has_no_fault(home: Path) -> None:
    found = examine(home)
    assert found.exit_code == 0
    assert [each for each in found.found if each.level == "fault"] == []
    assert {each.check for each in found.found} >= {"java", "directories", "change_feed", "retention"}


def test_a_source_without_change_feed_is_a_fault(home: Path) -> None:
    DeltaTable(home / "lake" / "people").alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    (fault,) = problems(examine(home), "change_feed")
    assert (fault.exit_code, fault.repair) == (
        2,
        f"ALTER TABLE delta.`{home}/lake/people` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    )


def test_a_source_that_is_not_there_is_a_fault(home: Path) -> None:
    (home / "lake" / "people").rename(home / "lake" / "gone")
    assert [each.exit_code for each in problems(examine(home), "change_feed")] == [2]


def test_jobs_that_pause_longer_than_their_sources_remember_are_told(
    home: Path,
) -> None:
    at = datetime.now(UTC) - timedelta(days=4.9)
    schema = pa.schema(list(_RUNS.items()))
    row = {"run_id": "r", "job": "mails", "target": str(home / "lake" / "mails"), "event": "outcome", "at": at}
    row |= {"status": "updated", "exit_code": 0, "document": "{}"}
    skipped = {**row, "at": at + timedelta(days=2.5), "status": "skipped"}
    others = {**row, "job": "renamed", "at": at - timedelta(days=100)}  # of the job that had this target before
    write_deltalake(home / "lake" / "_enrich" / "runs", pa.Table.from_pylist([row, skipped, others], schema))
    (advice,) = problems(examine(home), "retention")
    assert advice.level == "advice"
    assert "has paused for 4.9 days, and the table keeps its past for 7.0 days" in advice.message
    assert advice.repair is not None
    assert "'delta.deletedFileRetentionDuration' = 'interval 15 days'" in advice.repair
    DeltaTable(home / "lake" / "people").alter.set_table_properties(
        {"delta.deletedFileRetentionDuration": "interval 15 days"}
    )
    assert problems(examine(home), "retention") == []


_RUNS = {
    **dict.fromkeys(("run_id", "job", "target", "event"), pa.string()),
    "number": pa.int64(),
    "at": pa.timestamp("us", "UTC"),
    **dict.fromkeys(("status", "mode"), pa.string()),
    "exit_code": pa.int32(),
    "seconds": pa.float64(),
    "document": pa.string(),
}


def test_values_in_the_log_of_a_target_are_told_without_showing_them(home: Path) -> None:
    write_target(home, "mail,name")
    (others,) = problems(examine(home), "statistics")
    assert "values of name, and no run needs them" in others.message
    assert (others.repair or "").endswith("SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = '`mail`')")
    assert "example.com" not in json.dumps(examine(home).to_dict())


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("torn", 1, "cannot read the log of {}/mails"),
        ("empty", 1, f"{{}}/mails/_delta_log/{1:020}.json, the table's latest commit, is empty, damaged or missing"),
        ("no table", 2, "{}/mails is not a Delta table"),
        ("another job's", 2, "{}/mails/ exists and was not written by job 'mails'"),
        ("another's quarantine", 2, "{}/mails__quarantine exists and was not written by job 'mails'"),
    ],
)
def test_a_target_for_which_every_run_is_refused_is_a_fault(home: Path, what: str, code: int, said: str) -> None:
    """What else is known of the job is told beside it."""
    table = home / "lake" / "mails"
    log = table / "_delta_log" / f"{1:020}.json"
    if what == "no table":
        table.mkdir()
        (table / "notes.txt").write_text("mine")
    for _ in range(0 if what == "no table" else 2):
        write_target(home, "mail", by="renamed" if what == "another job's" else "mails")
    if what == "another's quarantine":
        write_target(home, "mail", "mails__quarantine", "renamed")
    elif what in ("torn", "empty"):
        log.write_text(log.read_text()[:60] if what == "torn" else "")
    found = examine(home)
    (fault,) = problems(found, "tables")
    assert (fault.about, fault.exit_code, found.exit_code, fault.repair is None) == ("mails", code, code, False)
    assert fault.message.startswith(said.format(home / "lake"))
    told = [(each.check, each.level) for each in found.found if each.about == "mails"]
    assert told == [("change_feed", "ok"), ("retention", "ok"), ("tables", "fault")]


def check(home: Path, name: str) -> list[Diagnosis]:
    found = [each for each in check_machine(enrich.load_project(home)) if each.check == name]
    return [each for each in found if each.level != "ok"]


def test_what_is_wrong_with_the_machine_ends_with_7(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home))
    (java,) = check(home, "java")
    assert (java.exit_code, "no bin/java" in java.message) == (7, True)
    monkeypatch.setenv("ENRICH_JARS", str(home))
    (jars,) = check(home, "jars")
    assert (jars.exit_code, "lacks delta-spark" in jars.message) == (7, True)
    (home / "file").write_text("")
    write_project(home, {"conf/dev.yml": f"{CONF}state: ./file/state\n"})
    (state,) = check(home, "directories")
    assert (state.exit_code, state.message) == (7, f"{home / 'file'} is not a directory")
    assert examine(home).exit_code == 7


def test_the_package_that_suites_need_is_asked_for_where_there_are_any(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "great_expectations", None)
    assert check(home, "suites") == []
    files = {"jobs/mails.yml": JOB + "expectations: mails\n", "expectations/mails.json": suite("mails")}
    write_project(home, files)
    (missing,) = check(home, "suites")
    assert (missing.exit_code, missing.repair) == (7, "run `pip install 'enrich-delta[gx]'`")
    assert examine(home).exit_code == 7
    monkeypatch.undo()
    assert check(home, "suites") == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_a_fault(home: Path) -> None:
    (home / "lake").chmod(0o500)
    assert {each.exit_code for each in check(home, "directories")} == {7}
    (home / "lake").chmod(0o700)


def test_directories_that_must_not_be_looked_into_leave_the_table_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = write_project(tmp_path / "my project", {"conf/dev.yml": CONF, "jobs/mails.yml": JOB})
    (home / "lake").mkdir()
    known = Path.exists

    def look(path: Path) -> bool:
        if path.parent == home / "lake":
            raise PermissionError(13, "Permission denied", str(path))
        return known(path)

    monkeypatch.setattr(Path, "exists", look)
    monkeypatch.setattr(os, "access", lambda *_: False)
    lake, *_ = check(home, "directories")[::-1]
    assert (lake.exit_code, lake.repair) == (7, f"chmod -R u+rwX '{home}/lake'")


def test_a_cache_that_is_yet_to_be_filled_is_no_fault(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENRICH_CACHE", str(home / "cache"))
    monkeypatch.delenv("ENRICH_JARS", raising=False)
    (jars,) = check(home, "jars")
    assert (jars.level, jars.repair) == ("advice", "python -m enrich.spark")
    assert not (home / "cache").exists()


def test_little_room_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_LEAST_FREE", 2**70)
    assert "enrich maintain" in (check(home, "directories")[0].repair or "")


def test_the_command_prints_what_repairs_it_and_its_exit_code(home: Path) -> None:
    DeltaTable(home / "lake" / "people").alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    with restored():
        text = call("--project-dir", home, "doctor")
        found = call("--project-dir", home, "doctor", "--output", "json")
        misplaced = call("--project-dir", home, "doctor", "--output", "json", "keys", "mails")
    assert (text.exit_code, found.exit_code, misplaced.exit_code) == (2, 2, 2)
    assert "\n  ALTER TABLE delta." in text.stdout.split("What repairs it:")[1]
    told = json.loads(found.stdout)
    assert (told["exit_code"], [each["check"] for each in told["checks"] if each["level"] == "fault"]) == (
        2,
        ["change_feed"],
    )
    assert "--output stands after the command" in misplaced.stderr


def test_a_runs_table_that_cannot_be_read_is_a_fault(home: Path) -> None:
    log = home / "lake" / "_enrich" / "runs" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("no log")
    found = examine(home)
    (fault,) = problems(found, "tables")
    assert (fault.level, found.exit_code) == ("fault", fault.exit_code)
    assert fault.exit_code > 0


def test_jars_in_which_names_are_missing_are_told(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "delta.jar"
    with zipfile.ZipFile(jar, "w") as written:
        written.writestr(
            "org/apache/spark/sql/delta/commands/DMLWithDeletionVectorsHelper$.class", "processUnmodifiedData"
        )
    monkeypatch.setattr(doctor, "find_delta_jars", lambda *_, **__: (jar,))
    (jars,) = check(home, "jars")
    assert (jars.level, "are written by MERGE" in jars.message) == ("advice", True)
    assert "findFilesWithMatchingRows" in jars.message
    assert "processUnmodifiedData" not in jars.message
    monkeypatch.undo()
    assert list_lacking_names(find_delta_jars()) == []
