"""`enrich report --reasons` without a JVM: whom it asks, what it says of jobs that cannot answer, its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

import enrich
from cli.shop import JOB
from enrich.answers.reasons import Reason, RuleCauses, sort_causes
from enrich.base.errors import DriftError, EnvironmentFault, HistoryError
from enrich.delta.runs import OUTCOME, RunRow, RunsTable
from kit.command import Call, Start
from kit.history import NOT_NULL, expect, finding, row, state
from kit.project import ROOT, suite, write_project

COUNTS = {Reason("no_such_key"): 9, Reason("deleted_at"): 2, Reason("near_miss", kind="invisible"): 1}
CAUSES = RuleCauses(0, NOT_NULL, "email", None, 100, 12, causes=sort_causes(COUNTS))
WORDS = "9 no such key, 2 deleted, 1 near miss (1 invisible)"
REASONS = {"no_such_key": 9, "deleted_at": 2, "near_miss": 1}


@pytest.fixture
def judged(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three jobs after a run: 12 rows of two targets fail, none of the third. Starting Spark fails."""
    names = ("customers", "orders", "sound")
    files = {f"jobs/{name}.yml": JOB.replace("customers", name) + "expectations: rules\n" for name in names}
    write_project(project, {**files, "expectations/rules.json": suite("rules", expect())})
    loaded = enrich.load_project(project)
    for name in names:
        kept = state(0 if name == "sound" else 12)
        document = json.loads(row(0, job=name, findings=[finding()], state=kept)["document"])
        place = str(loaded.location(name))
        RunsTable(loaded.state).append(RunRow("r0", name, place, OUTCOME, document, None, "updated"))
    monkeypatch.setattr("enrich.spark.session.get_session", lambda *_: pytest.fail("Spark was started"))
    return project


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Job -> what it is answered, or what is raised; the jobs that were asked are kept under their names."""
    answers: dict[str, Any] = {"customers": (CAUSES,), "orders": (CAUSES,), "asked": []}

    def answer(_project: enrich.Project, job: str, *, beside: Any) -> Any:
        answers["asked"].append((job, list(beside)))
        if isinstance(answers[job], BaseException):
            raise answers[job]
        return answers[job]

    monkeypatch.setattr("enrich.answers.failing_rows.find_causes", answer)
    return answers


def read_reasons(text: str) -> dict[str, Any]:
    """Return the reasons of each job's only rule, from a report that fits the schema."""
    report = json.loads(text)
    schema = json.loads((ROOT / "conf" / "schema" / "report.schema.json").read_text())
    Draft7Validator(schema).validate(report)
    return {job["job"]: job["now"]["rules"][0]["reasons"] for job in report["jobs"]}


def test_jobs_with_failing_rows_are_asked_and_told_in_every_format(
    judged: Path, call: Call, asked: dict[str, Any], tmp_path: Path
) -> None:
    files = ("--html", tmp_path / "r.html", "--json", tmp_path / "r.json")
    times = {}
    for form in ("text", "html", "markdown", "junit"):
        result = call("--project-dir", judged, "report", "--reasons", "--format", form, *files)
        assert (result.exit_code, result.stderr) == (0, "")
        times[form] = result.stdout.count(WORDS)
    # Of two jobs: among what is to be done and at the rule; JUnit has it as an attribute and a text.
    assert times == {"text": 4, "html": 4, "markdown": 4, "junit": 4}
    both = ["customers", "orders"]
    assert asked["asked"] == [("customers", both), ("orders", both)] * 4
    expected = {"customers": REASONS, "orders": REASONS, "sound": {}}
    assert read_reasons((tmp_path / "r.json").read_text()) == expected
    assert WORDS in (tmp_path / "r.html").read_text(encoding="utf-8")
    as_json = call("report", "orders", "sound", "--project-dir", judged, "--reasons", "--format", "json")
    assert read_reasons(as_json.stdout) == {"orders": REASONS, "sound": {}}
    assert asked["asked"][-1] == ("orders", ["orders"])


def test_without_the_option_nobody_is_asked(judged: Path, call: Call, asked: dict[str, Any]) -> None:
    result = call("--project-dir", judged, "report", "--output", "json")
    assert read_reasons(result.stdout) == dict.fromkeys(("customers", "orders", "sound"))
    assert "no such key" not in call("--project-dir", judged, "report").stdout
    assert asked["asked"] == []


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (HistoryError("old", hint="run `enrich run orders --full-refresh`"), "old; run `enrich run orders --full-ref"),
        (DriftError("changed", hint="run `enrich verify orders --repair`"), "changed; run `enrich verify orders --re"),
        (enrich.ConfigError("a\nb\x1b", hint="c"), "a b\\x1b; c"),
        (EnvironmentFault("no Java", hint="install it"), "no Java; install it"),
        (ValueError("s3cret"), "internal error: ValueError at cli/commands.py:"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--fail-on", "warn")])
def test_a_job_that_cannot_be_asked_is_one_warning(
    judged: Path, call: Call, asked: dict[str, Any], error: Exception, told: str, more: tuple[str, ...]
) -> None:
    asked["orders"] = error
    result = call("--project-dir", judged, "report", "--reasons", "--output", "json", *more)
    assert result.exit_code == (3 if more else 0)
    line, *ends = result.stderr.splitlines()
    assert line.startswith(f"warning: no reasons for orders: {told}")
    assert all(each.startswith("error: ") for each in ends)
    assert bool(ends) == bool(more)
    assert "s3cret" not in result.output
    assert read_reasons(result.stdout) == {"customers": REASONS, "orders": None, "sound": {}}


def test_a_run_that_came_in_between_leaves_no_reasons(judged: Path, call: Call, asked: dict[str, Any]) -> None:
    asked["orders"] = (RuleCauses(0, NOT_NULL, "email", None, 100, 11, causes=CAUSES.causes[:2]),)
    result = call("--project-dir", judged, "report", "--reasons", "--output", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert read_reasons(result.stdout) == {"customers": REASONS, "orders": None, "sound": {}}


def test_a_signal_ends_the_command(
    judged: Path, call: Call, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JVM was taken away, so what is raised is no answer."""
    asked["customers"] = RuntimeError("no JVM")
    monkeypatch.setattr("enrich.cli.process.find_interruption", lambda: 143)
    result = call("--project-dir", judged, "report", "--reasons")
    assert (result.exit_code, result.stdout, len(asked["asked"])) == (143, "", 1)
    assert result.stderr.startswith("error: terminated (SIGTERM)")


def test_targets_that_are_not_there_are_told_without_spark(judged: Path, call: Call, start: Start) -> None:
    """The true question, as far as it gets without rows."""
    result = call("--project-dir", judged, "report", "--reasons", "--output", "json")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        f"warning: no reasons for {name}: job {name!r} has no target yet;"
        f" run `enrich --project-dir {judged} run {name}` to create it"
        for name in ("customers", "orders")
    ]
    assert read_reasons(result.stdout) == {"customers": None, "orders": None, "sound": {}}
    light = start("--project-dir", judged, "report", "sound", "--reasons", PYTHONVERBOSE="1", PATH="")
    assert light.returncode == 0
    for name in ("pyspark", "great_expectations", "enrich.answers.failing_rows"):
        assert f"import '{name}'" not in light.stderr
