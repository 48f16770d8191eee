"""`enrich report`: verdict first on stdout, whole files, no JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

import enrich
from enrich.delta.runs import OUTCOME, RunRow, RunsTable
from enrich.report import write_latest
from kit.command import Call, Start
from kit.history import NOT_NULL, finding, row, state
from kit.project import ROOT, files_below, suite, write_project


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
    return project


def test_text_says_the_verdict_first(ran: Path, call: Call) -> None:
    result = call("--project-dir", ran, "report")
    assert result.exit_code == 0, result.stderr
    first, *rest = result.stdout.splitlines()
    assert first.startswith("warned  1 job: 1 warned, deployment dev, ")
    told = [line.split("  ") for line in rest if line.startswith("    email is missing  held")]
    assert [[cell.strip() for cell in cells if cell] for cells in told] == [
        ["email is missing", "held", "quarantine", "1", "10", "10 %", "0", "expect_column_values_to_not_be_null(email)"]
    ]
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


def test_page_is_written_whole(ran: Path, call: Call, tmp_path: Path) -> None:
    file = tmp_path / "out" / "r.html"
    file.parent.mkdir()
    assert call("--project-dir", ran, "report", "--html", file).exit_code == 0
    assert files_below(file.parent) == {"r.html"}
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")


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
    assert told("--output", "markdown").startswith("### enrich: warned\n")


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
        said = f" passed (email is missing, {NOT_NULL}(email)); `enrich "
        assert (said in result.stderr) == (result.exit_code == 3)
        return result.exit_code, json.loads(result.stdout)["jobs"][0]

    assert [judge(failed)[0] for failed in (10, 11)] == [0, 3]
    told = judge(12)[1]
    assert told["state"]["rules"] == [{"index": 0, "checked": 100, "failed": 12, "error": None}]
    assert (told["now"]["rules"][0]["verdict"], told["rules"][0]["run_verdict"]) == ("warned", "passed")


def test_a_report_needs_no_jvm_and_nothing_heavy(ran: Path, start: Start, tmp_path: Path) -> None:
    done = start("report", "--project-dir", ran, "--html", tmp_path / "r.html", PATH="", PYTHONVERBOSE="1")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "import 'jinja2'" in done.stderr
    for name in ("pyspark", "great_expectations", "pandas", "pyarrow", "py4j"):
        assert f"import '{name}'" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["customer"], 2, "did you mean 'customers'?"),
        (["--runs", "0"], 2, "0 is not in the range"),
        (["--html", "{tmp}/no/r.html"], 2, "--html '{tmp}/no/r.html' cannot be written: No such file or directory"),
        (["--html", "{tmp}"], 2, "is not a regular file"),
        (["--json", "/proc/r.json"], 2, "--json '/proc/r.json' cannot be written"),
        (["--format", "xml"], 2, "'xml' is not one of 'text', 'json', 'html', 'markdown', 'junit'"),
        (["--fail-on", "held"], 2, "'held' is not one of 'warn', 'fail'"),
        (["--show-keys"], 2, "No such option '--show-keys'"),
    ],
)
def test_wrong_calls_are_told(
    ran: Path, call: Call, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    done = call("report", "--project-dir", ran, *[each.format(tmp=tmp_path) for each in arguments])
    assert done.exit_code == code, done.stderr
    assert message.format(tmp=tmp_path) in done.stderr
    assert done.stdout == ""


def test_before_the_first_run_there_is_a_report_too(project: Path, call: Call) -> None:
    result = call("--project-dir", project, "report")
    assert result.exit_code == 0
    assert result.stdout.startswith("never run  1 job: 1 never run")


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
