"""Runs under observation: lineage, metrics and notifications, and what happens when they fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft7Validator
from prometheus_client.parser import text_string_to_metric_families

import enrich
from cli.shop import CONF
from enrich.report.models import build_result_schema
from kit import command
from kit.command import Call
from kit.lineage import check_event
from kit.listener import Listener, listen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WATCHED = """
lineage: {file: watch/events.jsonl}
metrics: {file: watch/enrich.prom}
notify:
  pager: {url: {env: HOOK}, headers: {X-Token: {file: watch/token}}}
"""


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    with listen() as listener:
        monkeypatch.setenv("HOOK", f"{listener.url}s3cret-path")
        yield listener


def watch(project: Path, text: str = WATCHED) -> Path:
    """Let the deployment name who watches; return the directory that they write to."""
    (project / "conf" / "dev.yml").write_text(CONF + text)
    (project / "watch").mkdir()
    (project / "watch" / "token").write_text("s3cret-token\n")
    return project / "watch"


def events(directory: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
    for event in found:
        check_event(event)
    return found


def figures(directory: Path) -> dict[str, float]:
    """Return name and last label's value of each sample."""
    text = (directory / "enrich.prom").read_text(encoding="utf-8")
    return {
        f"{sample.name.removeprefix('enrich_job_')} {list(sample.labels.values())[-1]}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_real_run_tells_them_all(interpreted: SparkSession, call: Call, project: Path, hook: Listener) -> None:
    directory = watch(project)
    (project / "lake" / "accounts").rename(project / "elsewhere")
    failed = call("--project-dir", project, "run", "--output", "json")
    (project / "elsewhere").rename(project / "lake" / "accounts")
    created = call("--project-dir", project, "run", "--output", "json", "--log-format", "json")
    idle = call("--project-dir", project, "run", "--output", "json")
    results = [json.loads(each.stdout) for each in (failed, created, idle)]
    assert [each["jobs"][0]["status"] for each in results] == ["failed", "created", "unchanged"]
    for result in results:
        Draft7Validator(build_result_schema()).validate(result)

    kinds = ["START", "FAIL", "START", "COMPLETE", "START", "COMPLETE"]
    assert [event["eventType"] for event in events(directory)] == kinds
    (target,) = events(directory)[3]["outputs"]
    assert target["facets"]["version"]["datasetVersion"] == "0"
    assert {each["name"] for each in target["facets"]["schema"]["fields"]} >= {"email", "consent"}
    assert target["facets"]["dataQualityMetrics"]["rowCount"] == 3
    (email,) = target["facets"]["columnLineage"]["fields"]["email"]["inputFields"]
    assert (Path(email["name"]).name, email["field"]) == ("accounts", "email")
    assert [each["facets"]["version"]["datasetVersion"] for each in events(directory)[5]["inputs"]] == ["1", "1"]

    found = figures(directory)
    assert (found["runs_total failed"], found["runs_total created"], found["runs_total unchanged"]) == (1, 1, 1)
    assert (found["rows_total inserted"], found["target_rows dev"], found["lag_seconds accounts"]) == (3, 3, 0)
    assert found["match_ratio accounts"] == pytest.approx(2 / 3)

    assert [(each["event"], each["run_id"]) for each in hook.bodies] == [
        ("failure", results[0]["run_id"]),
        ("recovery", results[1]["run_id"]),
    ]
    assert {(path, headers["X-Token"]) for path, headers, _ in hook.received} == {("/s3cret-path", "s3cret-token")}
    logged = [json.loads(line) for line in created.stderr.splitlines()]
    assert {line["run_id"] for line in logged} == {results[1]["run_id"]}
    assert {line["job"] for line in logged} == {"customers"}
    everything = [
        directory / "events.jsonl",
        directory / "enrich.prom",
        *(project / "lake" / "_enrich").rglob("*.json"),
    ]
    told = "".join(path.read_text() for path in everything) + failed.output + created.output + idle.output
    assert "s3cret" not in told
    assert "@example.com" not in told + "".join(map(json.dumps, hook.bodies))


def test_a_dry_run_tells_nobody(call: Call, bare_project: Path, hook: Listener) -> None:
    directory = watch(bare_project)
    assert call("--project-dir", bare_project, "run", "--dry-run").exit_code == 2
    assert [path.name for path in directory.iterdir()] == ["token"]
    assert hook.received == []


@pytest.mark.parametrize(
    ("hook_is", "token", "said"),
    [
        (None, "t", "the environment variable HOOK of 'notify.pager.url' is not set"),
        ("s3cret", "t", "what 'notify.pager.url' names is no http address"),
        ("https://h/s3cret", None, "watch/token' of 'notify.pager.headers.X-Token' cannot be read: No such file"),
        ("https://h/s3cret", " \n", "'notify.pager.headers.X-Token' is empty"),
    ],
)
def test_a_secret_that_is_not_there_refuses_the_run(
    call: Call, bare_project: Path, monkeypatch: pytest.MonkeyPatch, hook_is: str | None, token: str | None, said: str
) -> None:
    directory = watch(bare_project)
    monkeypatch.delenv("HOOK", raising=False)
    if hook_is is not None:
        monkeypatch.setenv("HOOK", hook_is)
    (directory / "token").unlink()
    if token is not None:
        (directory / "token").write_text(token)
    result = call("--project-dir", bare_project, "run")
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert "conf/dev.yml: " in result.stderr
    assert "s3cret" not in result.output
    assert not (bare_project / "lake").exists(), "nothing was run"


def test_lineage_without_its_package_is_an_environment_error(
    call: Call, bare_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(bare_project, "lineage: {file: e.jsonl}\n")
    for name in [name for name in sys.modules if name.startswith(("openlineage", "enrich.observe"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openlineage", None)
    result = call("--project-dir", bare_project, "run")
    assert result.exit_code == 7
    assert "openlineage-python" in result.stderr
    assert "[lineage]" in result.stderr


def test_a_lineage_server_that_hangs_is_waited_for_once(call: Call, project: Path) -> None:
    """Two jobs with a start and an end each: four events, of which the first one is not answered in time."""
    (project / "lake" / "accounts").rename(project / "elsewhere")
    job = (project / "jobs" / "customers.yml").read_text()
    (project / "jobs" / "second.yml").write_text(job.replace("customers", "second"))
    with listen(delay=4) as listener:
        watch(project, f"lineage: {{url: '{listener.url}', timeout: 1}}\n")
        result = call("--project-dir", project, "run")
    assert result.exit_code == 2
    warnings = [line for line in result.stderr.splitlines() if "warning: lineage" in line]
    assert len(warnings) == 1
    assert "not delivered" in warnings[0]
    assert listener.url not in warnings[0]
    assert len(listener.received) == 1


@pytest.mark.parametrize("answer", [404, 503])
def test_a_lineage_server_that_refuses_fails_no_run(call: Call, bare_project: Path, answer: int) -> None:
    with listen(answer) as listener:
        watch(bare_project, f"lineage: {{url: '{listener.url}', timeout: 5}}\n")
        result = call("--project-dir", bare_project, "run")
    assert result.exit_code == 2
    assert result.stderr.count("lineage: the start of customers, and what follows in this run: not delivered") == 1


def test_metrics_that_cannot_be_written_fail_no_run(call: Call, bare_project: Path) -> None:
    directory = watch(bare_project, "metrics: {file: watch/enrich.prom}\n")
    (directory / "enrich.prom").mkdir()
    result = call("--project-dir", bare_project, "run")
    assert result.exit_code == 2
    assert "metrics: not delivered (metrics.file" in result.stderr


def test_nobody_listens_to_notifications(call: Call, bare_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch(bare_project, "notify: {pager: {url: {env: HOOK}, timeout: 1}}\n")
    with listen() as listener:
        url = listener.url
    monkeypatch.setenv("HOOK", f"{url}s3cret")
    result = call("--project-dir", bare_project, "run")
    assert result.exit_code == 2
    assert "notify.pager: not delivered (ConnectionRefusedError, after 2 attempts); the run goes on" in result.stderr
    assert "s3cret" not in result.output


def test_an_interrupted_run_is_aborted_and_tells_what_was_done(project: Path, hook: Listener) -> None:
    """What a signal does: an exception that is none of a job's takes its way, after the first of two jobs."""
    directory = watch(project)
    (project / "lake" / "accounts").rename(project / "elsewhere")
    job = (project / "jobs" / "customers.yml").read_text()
    (project / "jobs" / "second.yml").write_text(job.replace("customers", "second"))
    ended = []

    def stop(result: enrich.JobResult) -> None:
        ended.append(result.job)
        if len(ended) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        enrich.run(enrich.load_project(project), on_result=stop)
    assert [(each["job"]["name"], each["eventType"]) for each in events(directory)] == [
        ("customers", "START"),
        ("customers", "FAIL"),
        ("second", "START"),
        ("second", "ABORT"),
    ]
    assert [[job["job"] for job in each["jobs"]] for each in hook.bodies] == [["customers"]]
    assert figures(directory)["runs_total failed"] == 1


def test_what_nobody_asks_for_is_not_imported(project: Path) -> None:
    (project / "lake" / "accounts").rename(project / "elsewhere")
    code = (
        f"import enrich, sys; enrich.run(enrich.load_project({str(project)!r}));"
        "print(*[name for name in sys.modules if name.startswith(('enrich.observe', 'openlineage', 'requests'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=command.environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["enrich.observe", "enrich.observe.run"]
