"""``enrich run`` and ``status`` on real tables: the JSON line, counts, exit codes, signals, and a run without Java."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cli.shop import ACCOUNTS, CONSENTS, write_table
from enrich.testing import Lake
from kit import command
from kit.command import Call, Start
from kit.patience import wait_until
from kit.processes import alive, descendants, needs_proc
from kit.project import files_below

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB_KEYS = [
    *("job", "status", "mode", "sources", "affected_keys", "inserted", "updated", "deleted", "quarantined"),
    *("null_foreign_keys", "null_list_ids", "null_values", "target_version", "findings", "error"),
    *("lookups", "quarantine", "quarantined_upstream", "stages", "strategy", "written", "state", "optimized"),
]
FINDING_KEYS = ["index", "expectation", "column", "action", "checked", "failed", "success", "error"]


def run(call: Call, project: Path, *args: object) -> tuple[int, dict[str, Any]]:
    """Run with JSON output; return the exit code and the only job's part."""
    result = call("--project-dir", project, "run", "--output", "json", *args)
    assert result.stdout.count("\n") == 1, result.output
    answer = json.loads(result.stdout)
    assert list(answer) == ["run_id", "target", "deployment", "exit_code", "dry_run", "jobs"]
    assert answer["exit_code"] == result.exit_code
    (job,) = answer["jobs"]
    return result.exit_code, job


def add(project: Path, name: str, *rows: dict[str, object]) -> None:
    write_table(project / "lake" / name, list(rows), CONSENTS if name == "consents" else ACCOUNTS)


def list_heavy_imports(project: Path) -> set[str]:
    """Return which of the packages that are slow to import a run with nothing to do imports."""
    code = (
        "import sys\nfrom enrich.cli import main\nsys.argv[0] = 'enrich'\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0, end.code\n"
        "print('\\n' + ' '.join(sys.modules))"
    )
    words = [sys.executable, "-c", code, "--project-dir", str(project), "run", "--output", "json"]
    done = subprocess.run(
        words, capture_output=True, text=True, env=command.environment(PATH="", JAVA_HOME=None), check=True
    )
    return {"pyspark", "delta", "pyarrow", "pandas", "great_expectations"} & set(done.stdout.splitlines()[-1].split())


def test_a_first_run_then_a_change_then_nothing(
    interpreted: SparkSession, call: Call, start: Start, project: Path, tmp_path: Path
) -> None:
    code, job = run(call, project)
    assert (code, job["status"], job["mode"]) == (0, "created", "bootstrap")
    assert list(job) == JOB_KEYS
    assert job["sources"]["consents"] == {"from": None, "to": 1, "changes": 3}
    assert (job["inserted"], job["updated"], job["deleted"], job["error"]) == (3, 0, 0, None)
    assert job["target_version"] == 0

    add(project, "accounts", {"id": "c", "email": "c@example.com"})
    result = call("--project-dir", project, "run")
    assert result.exit_code == 0
    header, line, last = result.stdout.splitlines()
    assert header.split() == ["job", "status", "mode", "inserted", "updated", "deleted", "windows"]
    assert "updated" in line
    assert "accounts 1->2 (1)" in line
    assert re.fullmatch(r"run \w+, deployment dev: 1 job changed", last)
    assert "customers: reading versions" in result.stderr
    rows = {row["id"]: row["email"] for row in Lake(project / "lake").rows("customers")}
    assert rows == {key: f"{key}@example.com" for key in "abc"}

    page = project / "lake" / "_enrich" / "reports" / "latest.html"
    told = json.loads(page.with_suffix(".json").read_text())["jobs"][0]
    assert [each["status"] for each in told["runs"]] == ["created", "updated"]
    assert told["lookups"]["accounts"]["rows"] == 1
    assert set(told["stages"]) >= {"changes", "keys", "join", "difference", "write"}
    written = page.stat().st_mtime_ns

    # From here on without Java: nothing to do needs none, and work is exit 7.
    hidden = {"PATH": "", "JAVA_HOME": None}
    version = DeltaTable(str(project / "lake" / "customers")).version()
    idle = start("--project-dir", project, "run", "--output", "json", **hidden)
    assert list_heavy_imports(project) == set(), "what takes a second to import is not needed to find nothing to do"
    assert page.stat().st_mtime_ns == written
    assert (idle.returncode, json.loads(idle.stdout)["jobs"][0]["status"]) == (0, "unchanged"), idle.stderr
    assert start("--project-dir", project, "run", "--quiet", "--skip-code", "99", **hidden).returncode == 99
    status = json.loads(start("--project-dir", project, "status", "--output", "json", **hidden).stdout)["jobs"][0]
    assert (status["last_status"], status["target_version"]) == ("unchanged", version)
    assert {alias: source["versions_behind"] for alias, source in status["sources"].items()} == {
        "consents": 0,
        "accounts": 0,
    }
    assert DeltaTable(str(project / "lake" / "customers")).version() == version

    add(project, "accounts", {"id": "d", "email": "d@example.com"})
    text = start("--project-dir", project, "status", **hidden).stdout
    assert re.search(r"accounts +2 +3 +1 +\d+ (s|min)", text)
    work = start("--project-dir", project, "run", **hidden)
    assert work.returncode == 7
    assert "Java" in work.stdout

    # With Java again; --quiet leaves stderr empty.
    quiet = call("--project-dir", project, "run", "--quiet", "--result-file", tmp_path / "result.json")
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    assert len(quiet.stdout.splitlines()) == 2
    assert json.loads((tmp_path / "result.json").read_text())["jobs"][0]["inserted"] == 1


def test_a_dry_run_counts_and_writes_nothing_and_json_logs_are_json(
    interpreted: SparkSession, call: Call, project: Path
) -> None:
    before = files_below(project)
    result = call("--project-dir", project, "run", "--dry-run", "--output", "json", "--log-format", "json")
    assert (result.exit_code, json.loads(result.stdout)["jobs"][0]["inserted"]) == (0, 3)
    assert {name for name in files_below(project) - before if "/locks/" not in name} == set()
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert lines
    assert all(list(line)[:6] == ["time", "level", "logger", "run_id", "job", "message"] for line in lines)


def test_two_rows_with_one_key_block_with_counts_and_no_values(
    interpreted: SparkSession, call: Call, project: Path, tmp_path: Path
) -> None:
    add(project, "accounts", {"id": "a", "email": "second@example.com"}, {"id": "a", "email": "third@example.com"})
    before = files_below(project)
    result = call("--project-dir", project, "run", "--result-file", tmp_path / "result.json")
    (job,) = json.loads((tmp_path / "result.json").read_text())["jobs"]
    assert (result.exit_code, job["status"]) == (3, "blocked")
    (finding,) = [finding for finding in job["findings"] if finding["expectation"] == "key_unique"]
    assert list(finding)[: len(FINDING_KEYS)] == FINDING_KEYS
    assert (finding["source"], finding["action"], finding["failed"], finding["success"]) == (
        "accounts",
        "fail",
        2,
        False,
    )
    assert "@example.com" not in json.dumps(job)
    assert {name for name in files_below(project) - before if not name.startswith("lake/_enrich/")} == set()
    assert "fail key_unique in accounts: 2 of" in result.stdout
    assert "@example.com" not in result.stdout


def test_rows_with_a_null_key_are_left_out_and_counted(interpreted: SparkSession, call: Call, project: Path) -> None:
    add(project, "accounts", {"id": None, "email": "nobody@example.com"})
    code, job = run(call, project)
    assert (code, job["status"], job["inserted"]) == (0, "created", 3)
    (finding,) = [finding for finding in job["findings"] if finding["expectation"] == "key_not_null"]
    assert (finding["source"], finding["failed"], finding["success"]) == ("accounts", 1, False)
    assert None not in {row["id"] for row in Lake(project / "lake").rows("customers")}


def test_other_jobs_run_when_one_fails(interpreted: SparkSession, call: Call, project: Path) -> None:
    text = (project / "jobs" / "customers.yml").read_text()
    broken = text.replace("customers", "broken").replace("table: accounts", "table: nowhere")
    (project / "jobs" / "broken.yml").write_text(broken)
    result = call("--project-dir", project, "run", "--output", "json")
    jobs = {job["job"]: job["status"] for job in json.loads(result.stdout)["jobs"]}
    assert (result.exit_code, jobs) == (2, {"broken": "failed", "customers": "created"})
    result = call("--project-dir", project, "run", "--output", "json", "--fail-fast")
    jobs = {job["job"]: job["status"] for job in json.loads(result.stdout)["jobs"]}
    assert (result.exit_code, jobs) == (2, {"broken": "failed", "customers": "skipped"})
    only = call("--project-dir", project, "run", "--output", "json", "--exclude", "brok*")
    assert (only.exit_code, [job["job"] for job in json.loads(only.stdout)["jobs"]]) == (0, ["customers"])


ACTIVE = "job: active\nsources: {customers: {table: customers, key: id}}\nfrom: customers\ntarget: {table: active}\n"


def test_a_skipped_job_is_recorded_so_that_status_and_report_see_it(call: Call, bare_project: Path) -> None:
    (bare_project / "jobs" / "active.yml").write_text(ACTIVE)
    place = ("--project-dir", bare_project)
    statuses = {"customers": "failed", "active": "skipped"}

    def told(*args: str) -> dict[str, str]:
        jobs = json.loads(call(*place, *args, "--output", "json").stdout)["jobs"]
        return {job["job"]: job.get("last_status") or job.get("verdict") or job["status"] for job in jobs}

    assert told("run", "--dry-run") == statuses
    assert told("report") == dict.fromkeys(statuses, "never_run")
    assert told("run") == told("status") == told("report") == statuses
    assert call(*place, "report", "active", "--fail-on", "fail").exit_code == 3


def test_a_skip_that_cannot_be_recorded_stays_a_skip(call: Call, bare_project: Path) -> None:
    (bare_project / "jobs" / "active.yml").write_text(ACTIVE)
    (bare_project / "lake" / "_enrich").mkdir(parents=True)
    (bare_project / "lake" / "_enrich" / "runs").write_text("no table")
    result = call("--project-dir", bare_project, "run", "--output", "json")
    jobs = {job["job"]: job["status"] for job in json.loads(result.stdout)["jobs"]}
    assert (result.exit_code, jobs) == (2, {"customers": "failed", "active": "skipped"})


# --- signals, with a process and a JVM of their own ------------------------------------------------------------------


@needs_proc
@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.soak)]
)
def test_a_signal_ends_the_run_and_takes_the_jvm_along(project: Path, sent: signal.Signals, code: int) -> None:
    conf = project / "conf" / "dev.yml"
    conf.write_text(f"{conf.read_text()}lineage: {{file: events.jsonl}}\nmetrics: {{file: enrich.prom}}\n")
    line = command.line("--project-dir", project, "run", "--output", "json")
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, env=command.environment()) as process:
        assert process.stderr is not None
        for said in process.stderr:
            if "bootstrap" in said:
                break
        started = descendants(process.pid)
        assert started, "there is a JVM to take along"
        process.send_signal(sent)
        out, err = process.communicate(timeout=300)
    assert process.returncode == code, out + err
    assert len(err.splitlines()) == 1, "one line, no traceback"
    answer = json.loads(out)
    assert answer["exit_code"] == code
    events = [json.loads(event)["eventType"] for event in (project / "events.jsonl").read_text().splitlines()]
    assert events == ["START", "ABORT"]
    wait_until(lambda: not any(map(alive, started)), "the end of the JVM")
    assert not (project / "lake" / "customers").exists()
