"""What stderr says: lines of JSON with run and job, errors too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kit.command import Call

KEYS = ["time", "level", "logger", "run_id", "job", "message"]


def lines(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    assert found
    assert all(list(line)[: len(KEYS)] == KEYS for line in found)
    return found


@pytest.fixture
def broken(bare_project: Path) -> Path:
    """A project whose sources do not exist: its jobs fail before Spark is needed."""
    return bare_project


@pytest.mark.parametrize("quiet", [[], ["--quiet"]], ids=["loud", "quiet"])
def test_a_failed_job_is_a_line_with_its_error(broken: Path, call: Call, quiet: list[str]) -> None:
    result = call("--project-dir", broken, "run", "--output", "json", "--log-format", "json", *quiet)
    (end,) = [line for line in lines(result.stderr) if line["level"] == "error"]
    answer = json.loads(result.stdout)
    assert (end["run_id"], end["job"]) == (answer["run_id"], "customers")
    assert (end["status"], end["exit_code"], end["error"]) == ("failed", 2, answer["jobs"][0]["error"])
    told = [line for line in lines(result.stderr) if line["message"] == "customers: reading versions"]
    assert [(line["run_id"], line["job"]) for line in told] == ([] if quiet else [(answer["run_id"], "customers")])


@pytest.mark.parametrize("options", [(), ("--quiet",), ("--quiet", "--output", "json"), ("--dry-run",)])
def test_a_failed_job_leaves_its_reason_on_stderr(broken: Path, call: Call, options: tuple[str, ...]) -> None:
    result = call("--project-dir", broken, "run", *options)
    (line,) = [line for line in result.stderr.splitlines() if " error: " in line]
    told = "error: customers: failed: jobs/customers.yml:3: there is no table at "
    assert (result.exit_code, line.partition(" ")[2].startswith(told)) == (2, True)
    assert line.endswith("create it, or correct the table's name")


@pytest.mark.parametrize("quiet", [[], ["--quiet"]], ids=["loud", "quiet"])
def test_a_terminal_is_told_the_reason_once(
    broken: Path, call: Call, quiet: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enrich.cli.process.is_seen", lambda output: output == "text")
    text = call("--project-dir", broken, "run", *quiet)
    assert (text.stdout + text.stderr).count("there is no table at") == 1
    assert ("error: customers: failed\n" in text.stderr) == (not quiet)
    for_machines = call("--project-dir", broken, "run", "--output", "json", *quiet)
    assert "there is no table at" in for_machines.stdout
    assert "there is no table at" in for_machines.stderr


def test_verify_names_its_run_too(project: Path, call: Call) -> None:
    result = call("--project-dir", project, "verify", "--output", "json", "--log-format", "json")
    answer = json.loads(result.stdout)
    (end,) = [line for line in lines(result.stderr) if line["level"] == "error"]
    assert (end["run_id"], end["job"], end["exit_code"]) == (answer["run_id"], "customers", 5)


def test_an_unreadable_project_is_lines_of_json(broken: Path, call: Call) -> None:
    (broken / "jobs" / "customers.yml").write_text("job: customers\nsauces: {}\nfro: x\n")
    result = call("--project-dir", broken, "run", "--log-format", "json")
    found = lines(result.stderr)
    assert result.exit_code == 2
    assert len(found) > 1
    assert all((line["level"], line["run_id"], line["job"]) == ("error", None, None) for line in found)
    assert any("jobs/customers.yml:2" in line["message"] for line in found)


@pytest.mark.parametrize("args", [["run", "--nonsense"], ["status", "--max-lag", "soon"]])
def test_a_wrong_command_line_is_a_line_of_json(broken: Path, call: Call, args: list[str]) -> None:
    result = call("--project-dir", broken, *args, ENRICH_LOG_FORMAT="json")
    assert result.exit_code == 2
    (line,) = lines(result.stderr)
    assert line["level"] == "error"
    assert call("--project-dir", broken, "run", "--nonsense").stderr.startswith("Usage: enrich run"), "the next is text"
