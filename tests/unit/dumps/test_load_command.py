"""``enrich load`` where Spark is not needed: dumps and options that are refused, and how that is told."""

from __future__ import annotations

import errno
import fcntl
import json
import re
from pathlib import Path

import pytest

import enrich
from enrich.base.errors import Locked
from enrich.dumps.result import BadLines, LoadResult, format_load
from kit.command import call, restored
from kit.project import CONF, SHOP, write_project


@pytest.fixture
def home(tmp_path: Path) -> Path:
    files = {"conf/dev.yml": CONF, "jobs/shop.yml": SHOP, "d.csv": "id,n\n1,secret\n2,b,c\n,x\n3,a\n3,b\n"}
    return write_project(tmp_path / "project", files)


def test_a_refused_dump_is_told_with_lines_and_no_values(home: Path) -> None:
    with restored():
        found = call("--project-dir", home, "load", "accounts", home / "d.csv", "--key", "id", "--output", "json")
        text = call("--project-dir", home, "load", "accounts", home / "d.csv", "--key", "id", "--quiet")
    told = json.loads(found.stdout)
    assert (found.exit_code, text.exit_code, told["exit_code"], told["status"]) == (3, 3, 3, "refused")
    assert (told["read"], told["inserted"], told["version"], told["dry_run"]) == (5, 0, None, False)
    assert {each["cause"]: each["lines"] for each in told["faults"]} == {
        "wrong number of fields": 1, "null in the key": 1, "key that stands twice": 2,
    }  # fmt: skip
    assert told["faults"][0]["first"] == [f"{home / 'd.csv'}:3"]
    assert "correct the lines, or leave them out with --bad-rows skip" in text.stderr
    assert "secret" not in found.stdout + found.stderr + text.stdout + text.stderr
    assert not (home / "lake" / "accounts").exists()


def test_a_name_in_tables_yml_is_its_table(home: Path) -> None:
    (home / "tables.yml").write_text("accounts: {table: raw, key: id}\nraw: {table: rarer, key: id}\n")
    project = enrich.load_project(home)
    for name, place in (("accounts", "raw"), ("./lake/accounts", "accounts"), ("raw", "rarer")):
        found = enrich.load(project, name, [str(home / "d.csv")], key=["id"])
        assert (found.status, found.table) == ("refused", str(home / "lake" / place))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--key", "id", "--delimiter", ";;"], "--delimiter is one character"),
        (["--key", "id,ID"], "names a column twice"),
        (["--key", "id", "--max-delete", "0.1"], "--max-delete goes with --complete"),
        (["--key", "id", "--columns", "id,m"], "give --header if it has other names for them, or --no-header"),
        (["--key", "id", "--columns", "n,id"], "in another order"),
        (["--key", "id", "--columns", "id,n,m"], "has 2 fields, and --columns names 3"),
        (["--key", "id", "--columns", "id,n", "--header", "--no-header"], "say the opposite"),
        (["--key", "id", "--quote", "''"], "--quote is one character"),
        (["--key", "id", "--escape", ",", "--delimiter", ","], "--escape is one character, and not the delimiter"),
        (["--key", "id", "--no-header"], "--no-header needs --columns"),
        (["--key", "id", "--format", "json", "--delimiter", ";", "--null", "x"], "--delimiter and --null are for CSV"),
        (["--key", "id", "--format", "parquet", "--encoding", "cp1252"], "--encoding is for text"),
        (["--key", "nope"], "and no column 'nope'"),
        (["--key", "id", "--types", "id"], "does not name columns"),
    ],
)
def test_options_that_say_nothing_together_are_refused(home: Path, options: list[str], told: str) -> None:
    with restored():
        found = call("--project-dir", home, "load", "accounts", home / "d.csv", *options)
    assert (found.exit_code, told in found.stderr + str(found.output)) == (2, True)


def test_an_empty_file_among_others_is_no_reason_to_delete(home: Path) -> None:
    (home / "empty.csv").touch()
    files = ("--project-dir", home, "load", "accounts", home / "d.csv", home / "empty.csv", "--key", "id")
    with restored():
        found, kept = call(*files, "--complete"), call(*files)
    assert (found.exit_code, "empty.csv is empty: it has not even a header; make the" in found.stderr) == (2, True)
    assert (kept.exit_code, "is empty" in kept.stderr) == (3, False), "refused for its bad lines alone"


def test_a_file_that_is_not_there_is_refused(home: Path) -> None:
    with restored():
        found = call("--project-dir", home, "load", "accounts", home / "nope.csv", "--key", "id")
    assert (found.exit_code, "there is no file" in found.stderr) == (2, True)


def test_a_second_load_is_told_which_table_the_first_one_loads(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    project, beside = enrich.load_project(home), list[str]()

    def load_again() -> None:
        with pytest.raises(Locked) as refused:
            enrich.load(project, "accounts", [str(home / "d.csv")], key=["id"])
        beside.append(str(refused.value))

    first = enrich.load(project, "accounts", [str(home / "d.csv")], key=["id"], check=load_again)
    assert first.status == "refused", "for its lines"
    assert re.fullmatch(rf"run {first.run_id} \(.*\) is loading table accounts; run again when it has ended", beside[0])

    def no_locks(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with caplog.at_level("WARNING", "enrich"):
        enrich.load(project, "accounts", [str(home / "d.csv")], key=["id"])
    assert any(each.startswith("accounts: the file system of ") for each in caplog.messages)


def test_a_place_with_something_else_is_refused(home: Path) -> None:
    (home / "lake" / "accounts").mkdir(parents=True)
    (home / "lake" / "accounts" / "x.txt").write_text("x")
    with restored():
        found = call("--project-dir", home, "load", "accounts", home / "d.csv", "--key", "id")
    assert (found.exit_code, "is not a Delta table" in found.stderr) == (2, True)


def test_the_text_says_what_was_done_and_left_out() -> None:
    faults = (BadLines("null in the key", 12, ("d.csv:2", "d.csv:3")),)
    found = LoadResult("r", "dev", "/lake/accounts", "updated", True, 7, 100, 1, 2, 3, 85, 12, faults)
    assert format_load("accounts", found).splitlines() == [
        "accounts: updated, version 7: 1 row inserted, 2 updated, 3 deleted, 85 unchanged",
        "12 lines left out",
        "  null in the key: 12 lines (d.csv:2, d.csv:3, ...)",
        "dry run: nothing was written",
    ]
