"""`enrich report`: verdict first on stdout, whole files, no JVM, keys only when asked for and never in a file."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from jsonschema import Draft7Validator

import enrich
from enrich.delta.runs import OUTCOME, RunRow, RunsTable
from enrich.report import write_latest
from kit import command
from kit.command import Call, Start
from kit.history import finding, row, state
from kit.project import ROOT, files_below, suite, write_project

CANARY = "canary.key@example.com"


@pytest.fixture
def ran(project: Path) -> Path:
    """The project after two runs, the second of which held a row back."""
    loaded = enrich.load_project(project)
    target = str(loaded.location("customers"))
    held = {"rows": 1, "reasons": {"expect_column_values_to_not_be_null:email": 1}}
    documents: list[dict[str, Any]] = [{"status": "created"}, {"quarantine": held, "quarantined": 1}]
    for number, more in enumerate(documents):
        rules = [finding(failed=number, success=not number, action="quarantine")]
        document = json.loads(row(number, findings=rules, **more)["document"])
        runs = RunsTable(loaded.state)
        runs.append(
            RunRow(f"r{number}", "customers", target, OUTCOME, document, None, document["status"], "incremental", 0, 2)
        )
    rows = [{"id": CANARY, "email": None, "_failed": ["expect_column_values_to_not_be_null:email"], "_run_id": "r1"}]
    rows += [{"id": f"\x1b[31m\u202e{'x' * 200}", "email": None, "_failed": ["key_not_null"], "_run_id": "r1"}]
    schema = pa.schema(
        [("id", pa.string()), ("email", pa.string()), ("_failed", pa.list_(pa.string())), ("_run_id", pa.string())]
    )
    write_deltalake(f"{target}__quarantine", pa.Table.from_pylist(rows, schema=schema))
    return project


def test_text_says_the_verdict_first(ran: Path, call: Call) -> None:
    result = call("--project-dir", ran, "report")
    assert result.exit_code == 0, result.stderr
    first, *rest = result.stdout.splitlines()
    assert first.startswith("warned  1 job: 1 warned, deployment dev, ")
    assert any(
        "expect_column_values_to_not_be_null(email)  held     quarantine       1  10   10 %  0" in line for line in rest
    )
    assert any("quarantined rows: 1" in line for line in rest)


def test_json_is_one_line_that_fits_the_published_schema(ran: Path, call: Call, tmp_path: Path) -> None:
    result = call("report", "customers", "--project-dir", ran, "--output", "json", "--json", tmp_path / "r.json")
    assert result.stdout.count("\n") == 1
    report = json.loads(result.stdout)
    kept = json.loads((tmp_path / "r.json").read_text())
    assert kept | {"generated": ""} == report | {"generated": ""}
    schema = json.loads((ROOT / "conf" / "schema" / "report.schema.json").read_text())
    Draft7Validator(schema).validate(report)
    assert (report["version"], report["verdict"], len(report["jobs"][0]["runs"])) == (1, "warned", 2)
    assert (
        len(json.loads(call("--project-dir", ran, "report", "--runs", 1, "--output", "json").stdout)["jobs"][0]["runs"])
        == 1
    )


def test_page_is_written_whole_and_shown(
    ran: Path, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown: list[str] = []

    def show(url: str) -> bool:
        shown.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", show)
    file = tmp_path / "out" / "r.html"
    file.parent.mkdir()
    assert call("--project-dir", ran, "report", "--html", file).exit_code == 0
    assert files_below(file.parent) == {"r.html"}
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert shown == []
    call("--project-dir", ran, "report", "--html", file, "--open")
    call("--project-dir", ran, "report", "--open")
    latest = ran / "lake" / "_enrich" / "reports" / "latest.html"
    assert shown == [file.as_uri(), latest.as_uri()]
    assert latest.exists()


def test_each_format_goes_to_stdout_and_files_are_written_all_the_same(ran: Path, call: Call, tmp_path: Path) -> None:
    def told(*arguments: object, **environment: str) -> str:
        result = call("--project-dir", ran, "report", *arguments, **environment)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout

    files = ("--html", tmp_path / "r.html", "--json", tmp_path / "r.json")
    text, page = told(), told("--format", "html", *files)
    assert text.splitlines()[1:] == told("--format", "text").splitlines()[1:]
    assert page.startswith("<!doctype html>")
    assert page.isascii()
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "warned"
    assert told("--format", "markdown").startswith("### enrich: warned\n")
    assert told("--format", "junit").startswith("<?xml")
    assert json.loads(told("--format", "json"))["jobs"][0]["job"] == "customers"
    assert told("--format", "json").count("\n") == 1
    assert told("--format", "json", "--output", "json").startswith("{")


def test_the_command_line_overrules_the_environment(ran: Path, call: Call) -> None:
    def first(*arguments: object, **environment: str) -> str:
        return call("--project-dir", ran, "report", *arguments, **environment).stdout[:1]

    assert first(ENRICH_OUTPUT="json") == "{"
    assert first("--format", "junit", ENRICH_OUTPUT="json") == "<"
    assert first("--output", "json", ENRICH_REPORT_FORMAT="junit") == "{"
    assert first(ENRICH_OUTPUT="json", ENRICH_REPORT_FORMAT="markdown") == "#"


def test_fail_on_ends_with_3_and_writes_the_report_all_the_same(ran: Path, call: Call, tmp_path: Path) -> None:
    def ended(*arguments: object) -> int:
        result = call("--project-dir", ran, "report", "--format", "junit", "--html", tmp_path / "r.html", *arguments)
        assert result.stdout.startswith("<?xml")
        assert (tmp_path / "r.html").exists()
        (tmp_path / "r.html").unlink()
        return result.exit_code

    assert (ended(), ended("--fail-on", "warn"), ended("--fail-on", "fail")) == (0, 3, 0)
    loaded = enrich.load_project(ran)
    for status, code in (("blocked", 3), ("skipped", 3), ("failed", 3), ("unchanged", 0)):
        outcome = json.loads(row(2, status=status, sources={})["document"])
        place = str(loaded.location("customers"))
        RunsTable(loaded.state).append(RunRow("r2", "customers", place, OUTCOME, outcome, None, status, "incremental"))
        assert (ended("--fail-on", "fail"), status) == (code, status)
    assert (ended("--fail-on", "warn"), ended()) == (3, 0)


def test_what_fails_in_the_table_is_a_warning_although_the_run_passed(project: Path, call: Call) -> None:
    job = project / "jobs" / "customers.yml"
    job.write_text(job.read_text() + "expectations: rules\n")
    allowed = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "email", "mostly": 0.9}}
    write_project(project, {"expectations/rules.json": suite("rules", {**allowed, "severity": "warning"})})
    loaded = enrich.load_project(project)

    def judge(failed: int) -> tuple[int, Any]:
        document = json.loads(row(1, findings=[finding()], state=state(failed))["document"])
        place = str(loaded.location("customers"))
        RunsTable(loaded.state).append(RunRow("r1", "customers", place, OUTCOME, document, None, "updated"))
        result = call("--project-dir", project, "report", "--fail-on", "warn", "--output", "json")
        return result.exit_code, json.loads(result.stdout)["jobs"][0]

    assert [judge(failed)[0] for failed in (10, 11)] == [0, 3]
    told = judge(12)[1]
    assert told["state"]["rules"] == [{"index": 0, "checked": 100, "failed": 12, "error": None}]
    assert (told["now"]["rules"][0]["verdict"], told["rules"][0]["run_verdict"]) == ("warned", "passed")


@pytest.mark.usefixtures("terminal")
def test_keys_are_printed_when_asked_for_and_in_no_file(ran: Path, call: Call, tmp_path: Path) -> None:
    files = ("--html", tmp_path / "r.html", "--json", tmp_path / "r.json")
    without = call("--project-dir", ran, "report", *files)
    result = call("--project-dir", ran, "report", "--show-keys", *files)
    assert result.exit_code == 0, result.stderr
    assert CANARY in result.stdout
    assert "expect_column_values_to_not_be_null:email" in result.stdout
    assert "\\x1b[31m\\u202exxx" in result.stdout
    assert "\x1b[31m\u202e" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) < 200
    assert CANARY not in without.stdout + (tmp_path / "r.html").read_text() + (tmp_path / "r.json").read_text()
    refused = call("--project-dir", ran, "report", "--show-keys", "--output", "json")
    assert refused.exit_code != 0
    assert CANARY not in refused.stdout


def test_a_real_terminal_shows_keys_without_jvm_and_nothing_heavy(ran: Path, tmp_path: Path) -> None:
    line = command.line("report", "--project-dir", ran, "--show-keys", "--html", tmp_path / "r.html")
    environment = {"PYTHONPATH": str(ROOT / "lib"), "PATH": "", "PYTHONVERBOSE": "1"}
    reader, terminal = os.openpty()
    with (tmp_path / "stderr").open("w+") as stderr, os.fdopen(reader, "rb") as screen:
        process = subprocess.Popen(line, env=environment, stdout=terminal, stderr=stderr)
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # the end of a terminal
            while part := screen.read1():
                shown += part
        code = process.wait(timeout=300)
        stderr.seek(0)
        imported = stderr.read()
    assert code == 0, imported[-2000:]
    assert CANARY in shown.decode()
    assert "import 'jinja2'" in imported
    for name in ("pyspark", "great_expectations", "pandas", "pyarrow", "py4j"):
        assert f"import '{name}'" not in imported


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["customer"], 2, "did you mean 'customers'?"),
        (["--runs", "0"], 2, "0 is not in the range"),
        (["--html", "{tmp}/no/r.html"], 2, "--html '{tmp}/no/r.html' cannot be written: No such file or directory"),
        (["--html", "{tmp}"], 2, "is not a regular file"),
        (["--json", "/proc/r.json"], 2, "--json '/proc/r.json' cannot be written"),
        (["--show-keys", "--output", "json"], 2, "--show-keys prints keys for people"),
        (["--show-keys", "--format", "junit"], 2, "with text alone; leave out --format junit"),
        (["--format", "html", "--output", "json"], 2, "--format html and --output json contradict each other"),
        (["--format", "xml"], 2, "'xml' is not one of 'text', 'json', 'html', 'markdown', 'junit'"),
        (["--fail-on", "held"], 2, "'held' is not one of 'warn', 'fail'"),
        (["--show-keys"], 2, "--show-keys prints only to a terminal, and stdout is not one"),
    ],
)
def test_wrong_calls_are_told(
    ran: Path, start: Start, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    done = start("report", "--project-dir", ran, *[each.format(tmp=tmp_path) for each in arguments])
    assert done.returncode == code, done.stderr
    assert message.format(tmp=tmp_path) in done.stderr
    assert done.stdout == ""


@pytest.mark.usefixtures("terminal")
def test_before_the_first_run_there_is_a_report_too(project: Path, call: Call) -> None:
    result = call("--project-dir", project, "report", "--show-keys")
    assert result.exit_code == 0
    assert result.stdout.startswith("never run  1 job: 1 never run")
    assert "customers: there is no quarantine" in result.stdout


# --- the report that runs leave ---------------------------------------------------------------------------------------


def test_a_run_that_failed_leaves_a_report(bare_project: Path, call: Call) -> None:
    result = call("--project-dir", bare_project, "run")
    assert result.exit_code == 2
    folder = bare_project / "lake" / "_enrich" / "reports"
    assert files_below(folder) == {"latest.html", "latest.json"}
    assert json.loads((folder / "latest.json").read_text())["verdict"] == "failed"


def test_a_report_that_cannot_be_written_is_a_warning(ran: Path, caplog: Any) -> None:
    folder = ran / "lake" / "_enrich" / "reports"
    folder.write_text("in the way")
    assert write_latest(enrich.load_project(ran)) is None
    assert "was not written" in caplog.text
    assert folder.read_text() == "in the way"


def test_a_dry_run_leaves_none(bare_project: Path, call: Call) -> None:
    call("--project-dir", bare_project, "run", "--dry-run")
    assert not (bare_project / "lake" / "_enrich" / "reports").exists()
