"""``enrich status`` and ``enrich proof`` tell what the target's commit records, without a JVM."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError

import enrich
from cli.shop import ACCOUNTS, CONF, write_table
from enrich.base.result import LookupState, RuleState, State
from enrich.delta.runs import OUTCOME, PROVEN, RunRow
from enrich.delta.tables import read_state
from enrich.observe.run import Observer
from enrich.operations.workplace import Workplace
from enrich.progress.cursor import Cursor, Mark
from kit.command import Call
from kit.commits import date_commit

TARGET = pa.schema([("id", pa.string()), ("email", pa.string()), ("consent", pa.bool_())])
RULES = (RuleState(0, 100, 12), RuleState(1, 100, 0), RuleState(3), RuleState(4, error="KeyError"))
KEPT = State(100, RULES, {"accounts": LookupState(103, 90, 3)}, {"id": 0, "email": 12})


@pytest.fixture
def told(project: Path, call: Call) -> Any:
    """Give a target a record with a state, and return what ``status`` says of it, as JSON and as text."""

    def _told(state: State | None) -> tuple[dict[str, Any], list[str]]:
        loaded = enrich.load_project(project)
        task = Workplace(loaded, ["customers"], run_id="r0").open_job(loaded.jobs["customers"])
        marks = {alias: Mark(table.table_id, None, table.version, {}) for alias, table in task.tables.items()}
        cursor = Cursor("r0", "customers", 1, task.definition, marks, tuple(TARGET.names), state=state)
        record = CommitProperties(
            custom_metadata={"userMetadata": cursor.to_json()}, app_transactions=[Transaction("enrich/customers", 1)]
        )
        rows = pa.Table.from_pylist([], schema=TARGET)
        write_deltalake(str(project / "lake" / "customers"), rows, mode="append", commit_properties=record)
        (job,) = json.loads(call("--project-dir", project, "status", "--output", "json").stdout)["jobs"]
        return job, call("--project-dir", project, "status").stdout.splitlines()

    return _told


def test_state_is_told_as_recorded(told: Any) -> None:
    job, lines = told(KEPT)
    assert job["state"] == KEPT.to_dict()
    assert lines[0].split()[:5] == ["job", "version", "rows", "rules", "failing"]
    assert lines[1].split()[:7] == ["customers", "0", "100", "1", "of", "2", "consents"]
    assert lines[2].split()[0] == "accounts"


def test_rows_are_told_where_no_rule_is_counted(told: Any) -> None:
    _, lines = told(State(5))
    assert lines[1].split()[:4] == ["customers", "0", "5", "-"]


def test_a_record_of_an_older_release_has_no_state(told: Any) -> None:
    job, lines = told(None)
    assert (job["state"], lines[1].split()[:4]) == (None, ["customers", "0", "-", "-"])


def test_before_the_first_run_there_is_no_state(project: Path, call: Call) -> None:
    (job,) = json.loads(call("--project-dir", project, "status", "--output", "json").stdout)["jobs"]
    assert (job["state"], job["target_version"]) == (None, None)


def test_max_lag_names_the_jobs_that_are_late(told: Any, project: Path, call: Call) -> None:
    told(KEPT)
    fresh = call("--project-dir", project, "status", "--max-lag", "1m", "--output", "json")
    answer = json.loads(fresh.stdout)
    assert (fresh.exit_code, answer["exit_code"], answer["late"], answer["max_lag_seconds"]) == (0, 0, [], 60.0)
    log = project / "lake" / "accounts"
    write_table(log, [{"id": "c", "email": None}], ACCOUNTS)
    for version in range(3):
        at = datetime.now(UTC) - timedelta(hours=2, seconds=-version)
        date_commit(log, version, at.timestamp() * 1000)
    for limit, code in (("1h", 3), ("3h", 0), ("2d", 0)):
        assert call("--project-dir", project, "status", "--max-lag", limit).exit_code == code
    late = call("--project-dir", project, "status", "--max-lag", "1h", "--output", "json")
    answer = json.loads(late.stdout)
    assert (late.exit_code, answer["exit_code"], answer["late"]) == (3, 3, ["customers"])
    assert late.stderr == (
        "error: customers is late: changes of accounts have been waiting for 2 h;"
        f" run `enrich --project-dir {project} run customers`\n"
    )


def test_a_job_about_which_nothing_is_known_is_late(bare_project: Path, call: Call) -> None:
    result = call("--project-dir", bare_project, "status", "--max-lag", "30m")
    assert result.exit_code == 3
    assert "how long changes of consents have been waiting is not known" in result.stderr


def read_status(project: Path, call: Call) -> dict[str, Any]:
    """Return what ``status`` says of the only job, which must be late."""
    result = call("--project-dir", project, "status", "--max-lag", "30d", "--output", "json")
    answer = json.loads(result.stdout)
    (job,) = answer["jobs"]
    assert (result.exit_code, answer["late"]) == (3, ["customers"])
    assert job["refused"] is None or f"; {job['refused']}\n" in result.stderr
    found: dict[str, Any] = job
    return found


def test_a_source_that_was_replaced_is_not_called_fresh(told: Any, project: Path, call: Call) -> None:
    """It has the version that was consumed, or a later one; the versions count something else."""
    told(KEPT)
    shutil.rmtree(project / "lake" / "accounts")
    for key in ("z", "y"):
        write_table(project / "lake" / "accounts", [{"id": key, "email": None}], ACCOUNTS)
        job = read_status(project, call)
        lag = job["sources"]["accounts"]
        assert (lag["seconds"], lag["lag_seconds"], lag["versions_behind"], lag["replaced"]) == (None, None, None, True)
        assert job["sources"]["consents"]["seconds"] == 0
        assert "source 'accounts' of 'customers' is another table than the one consumed up to version 1" in job["note"]
        assert job["note"] == job["refused"]
        assert job["note"].endswith(f"run `enrich --project-dir {project} run customers --full-refresh`")


def test_a_source_that_is_missing_is_noted(told: Any, project: Path, call: Call) -> None:
    told(KEPT)
    (project / "lake" / "accounts").rename(project / "lake" / "gone")
    job = read_status(project, call)
    assert job["sources"]["accounts"]["latest"] is None
    assert f"there is no table at {project}/lake/accounts" in job["note"]


def test_a_missing_permission_ends_a_run_with_7_and_names_the_place(
    project: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """delta-rs says of a directory that may not be entered that there is no table, and Python that it may not look."""

    def deny(uri: str, **_: Any) -> None:
        if uri.endswith("accounts"):
            raise TableNotFoundError("does not exist or you don't have access! Os { code: 13, PermissionDenied }")
        raise OSError(f"Unable to open file {uri}/_delta_log/_last_checkpoint Permission denied (os error 13)")

    monkeypatch.setattr("deltalake.DeltaTable", deny)
    for name in ("accounts", "consents"):
        (project / "jobs" / "customers.yml").write_text(
            f"job: customers\nsources: {{a: {{table: {name}, key: id}}}}\nfrom: a\ntarget: {{table: customers}}\n"
        )
        result = call("--project-dir", project, "run", "--output", "json")
        (job,) = json.loads(result.stdout)["jobs"]
        assert result.exit_code == 7
        assert job["error"].startswith(f"a permission is missing: {project}/lake/{name} cannot be read or written; ")


def test_a_damaged_runs_table_is_told_with_its_place_and_a_way_out(project: Path, call: Call) -> None:
    log = project / "lake" / "_enrich" / "runs" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("no log")
    for command in ("status", "report"):
        result = call("--project-dir", project, command)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"error: the runs table at {project}/lake/_enrich/runs cannot be read (")
        assert "restore it, or move it away" in result.stderr


def test_a_definition_that_has_changed_is_noted(told: Any, project: Path, call: Call) -> None:
    told(KEPT)
    path = project / "jobs" / "customers.yml"
    path.write_text(path.read_text().replace("how: full", "how: left"))
    (job,) = json.loads(call("--project-dir", project, "status", "--output", "json").stdout)["jobs"]
    changed = "the definition of 'customers' changed since its target was written"
    words = f"enrich --project-dir {project}"
    shows = f"`{words} diff customers` shows what that changes"
    assert job["note"] == f"{changed} ({shows}); run `{words} run customers --full-refresh`"


def test_commands_in_messages_are_for_the_deployment(told: Any, project: Path, call: Call) -> None:
    """Run as it stands, a command without --target would be for dev, and from elsewhere for no project."""
    told(KEPT)
    path = project / "jobs" / "customers.yml"
    path.write_text(path.read_text().replace("how: full", "how: left"))
    (project / "conf" / "prod.yml").write_text(CONF)
    command = f"`enrich --project-dir {project} --target prod run customers --full-refresh`"
    place = ("--project-dir", project, "--target", "prod")
    (noted,) = json.loads(call(*place, "status", "--output", "json").stdout)["jobs"]
    assert noted["note"].endswith(f"; run {command}")
    run = call(*place, "run", "--output", "json")
    (failed,) = json.loads(run.stdout)["jobs"]
    assert (run.exit_code, failed["error"].endswith(f"; run {command}")) == (5, True)
    assert failed["error"] in call(*place, "report").stdout
    with pytest.raises(enrich.ConfigError, match="`enrich ls` lists the jobs"):
        enrich.run(enrich.load_project(project), ["unlike any other"])


ACTIVE = "job: active\nsources: {customers: {table: customers, key: id}}\nfrom: customers\ntarget: {table: active}\n"


def test_tables_that_a_run_makes_need_no_note(project: Path, call: Call) -> None:
    (project / "jobs" / "active.yml").write_text(ACTIVE)
    jobs = json.loads(call("--project-dir", project, "status", "--output", "json").stdout)["jobs"]
    assert {job["job"]: job["note"] for job in jobs} == {"customers": None, "active": None}


def test_a_target_gets_its_change_feed_from_the_run_that_first_reads_it(told: Any, project: Path, call: Call) -> None:
    told(KEPT)
    assert not read_state(str(project / "lake" / "customers")).has_change_feed
    (project / "jobs" / "active.yml").write_text(ACTIVE)
    jobs = json.loads(call("--project-dir", project, "status", "--output", "json").stdout)["jobs"]
    assert {job["job"]: job["refused"] for job in jobs} == {"customers": None, "active": None}


def test_no_days_are_left_when_files_of_waiting_changes_are_gone(told: Any, project: Path, call: Call) -> None:
    """Whoever runs VACUUM may keep less than the table's properties say."""
    told(KEPT)
    table = DeltaTable(project / "lake" / "accounts")
    table.update(updates={"email": "'new@example.com'"})
    (job,) = json.loads(call("--project-dir", project, "status", "--output", "json").stdout)["jobs"]
    lag = job["sources"]["accounts"]
    assert (lag["versions_behind"], lag["days_left"] > 6) == (1, True)
    vacuumed = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert vacuumed
    (job,) = json.loads(call("--project-dir", project, "status", "--output", "json").stdout)["jobs"]
    assert job["sources"]["accounts"]["days_left"] == 0
    assert "may be gone already" in job["note"]


def test_changes_that_a_source_may_have_forgotten_need_perhaps_a_full_refresh(
    told: Any, project: Path, call: Call
) -> None:
    """The oldest change that waits is gone, so nobody knows for how long it has been waiting."""
    told(KEPT)
    for key in ("x", "y"):
        write_table(project / "lake" / "accounts", [{"id": key, "email": None}], ACCOUNTS)
    DeltaTable(project / "lake" / "accounts").create_checkpoint()
    for version in range(3):
        (project / "lake" / "accounts" / "_delta_log" / f"{version:020}.json").unlink()
    job = read_status(project, call)
    lag = job["sources"]["accounts"]
    assert (lag["seconds"], lag["days_left"], lag["versions_behind"]) == (None, 0, 2)
    run = f"run `enrich --project-dir {project} run customers"
    assert job["note"] == (
        f"changes of accounts that are waiting may be gone already: {run}`; if it is refused, {run} --full-refresh`"
    )


@pytest.mark.parametrize("text", ["", "30", "30 min", "-1h", "yesterday"])
def test_a_wrong_duration_is_refused(project: Path, call: Call, text: str) -> None:
    result = call("--project-dir", project, "status", "--max-lag", text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "30m, 12h, 3d, 2w" in result.stderr


def test_a_run_that_ends_its_window_early_leaves_a_lag_in_the_metrics(told: Any, project: Path, call: Call) -> None:
    """It finds nothing to do, and tells what waits all the same."""
    told(KEPT)
    (project / "conf" / "dev.yml").write_text(f"{CONF}metrics: {{file: enrich.prom}}\n")
    write_table(project / "lake" / "accounts", [{"id": "c", "email": None}], ACCOUNTS)
    result = call("--project-dir", project, "run", "--until", "accounts=v1,consents=v1", "--output", "json")
    assert json.loads(result.stdout)["jobs"][0]["status"] == "unchanged"
    lines = (project / "enrich.prom").read_text().splitlines()
    lags = dict(line.rsplit(" ", 1) for line in lines if line.startswith("enrich_job_lag_seconds{"))
    labels = 'job="customers",deployment="dev",source='
    assert float(lags[f'enrich_job_lag_seconds{{{labels}"accounts"}}']) > 0
    assert lags[f'enrich_job_lag_seconds{{{labels}"consents"}}'] == "0"
    assert 'enrich_job_match_ratio{job="customers",deployment="dev",lookup="accounts"} 0.9' in lines


def test_proof_prints_what_is_recorded_and_the_query_that_computes_it(told: Any, project: Path, call: Call) -> None:
    told(replace(KEPT, proof=(100, 2**64 - 1, 7)))
    text = call("--project-dir", project, "proof", "customers")
    assert text.exit_code == 0, text.stderr
    assert text.stdout.splitlines()[:3] == [
        "customers, version 0",
        f"target: 100 rows, sums {2**64 - 1} 7",
        "quarantine: no proof is recorded",
    ]
    answer = json.loads(
        call("--project-dir", project, "proof", "customers", "--dialect", "duckdb", "--output", "json").stdout
    )
    assert answer["target"] == {"rows": 100, "sums": [str(2**64 - 1), "7"]}
    assert (answer["quarantine"], answer["target_version"], answer["dialect"]) == (None, 0, "duckdb")
    assert answer["quarantine_query"] is None, "there is no quarantine"
    place = f"delta_scan('{project / 'lake' / 'customers'}')"
    (proof,) = duckdb.execute(answer["query"].replace(place, "(SELECT 'a' id, NULL email, true consent)")).fetchall()
    assert proof[0] == 1

    told(replace(KEPT, proof=(101, 1, 7)))
    for version, scan in ((0, place.replace(")", ", version => 0)")), (1, place)):
        asked = ("proof", "customers", "--version", str(version), "--dialect", "duckdb", "--output", "json")
        answer = json.loads(call("--project-dir", project, *asked).stdout)
        assert (answer["target"]["rows"], f"FROM {scan})" in answer["query"]) == (100 + version, True), answer["query"]


def test_what_was_proven_of_another_table_is_not_told(told: Any, project: Path, call: Call) -> None:
    """The target was dropped after ``verify`` had found it equal, and begins anew."""
    told(KEPT)
    place = str(project / "lake" / "customers")
    runs = Workplace(enrich.load_project(project), [], run_id="").runs
    for known, shown in (({"table_id": "another"}, None), ({"table_id": read_state(place).table_id}, 0), ({}, 0)):
        runs.append(RunRow("r1", "customers", place, PROVEN, {"version": 0} | known))
        (job,) = json.loads(call("--project-dir", project, "status", "--output", "json").stdout)["jobs"]
        assert job["proven"] is None if shown is None else (job["proven"]["version"], len(job["proven"])) == (shown, 2)
    runs.append(RunRow("r1", "customers", place, PROVEN, {"version": 0, "table_id": read_state(place).table_id}))
    shutil.rmtree(place)
    (job,) = json.loads(call("--project-dir", project, "status", "--output", "json").stdout)["jobs"]
    assert (job["proven"], job["target_version"]) == (None, None)


def test_a_run_of_another_job_with_the_same_target_is_not_this_jobs(project: Path, call: Call) -> None:
    """A job was renamed by mistake, its run refused, and it has got its old name back."""
    (project / "hook").write_text("https://h/")
    (project / "conf" / "dev.yml").write_text(f"{CONF}notify: {{ops: {{url: {{file: hook}}}}}}\n")
    loaded, place = enrich.load_project(project), str(project / "lake" / "customers")
    for last, rows in ((None, [("renamed", "failed")]), ("updated", [("customers", "updated"), ("renamed", "failed")])):
        for job, status in rows:
            row = RunRow("r1", job, place, OUTCOME, {}, status=status)
            Workplace(loaded, [], run_id="").runs.append(row)
        (told,) = json.loads(call("--project-dir", project, "status", "--output", "json").stdout)["jobs"]
        assert told["last_status"] == last
        assert Observer(loaded, "r2").previous == ({} if last is None else {"customers": last})


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("a version that is not there yet", 2, "the target of 'customers' has no version 1 yet; its latest is 0"),
        ("another job's", 2, "customers/ exists and was not written by job 'customers'; "),
        ("latest commit empty", 1, "the table's latest commit, is empty, damaged or missing; "),
        ("no table", 2, "customers is not a Delta table; "),
        ("nothing", 5, "job 'customers' has no target yet; "),
    ],
)
def test_proof_says_of_a_target_what_a_run_would(
    told: Any, project: Path, call: Call, what: str, code: int, said: str
) -> None:
    """A command that would be refused, too, is not proposed."""
    told(replace(KEPT, proof=(100, 1, 7)))
    table = project / "lake" / "customers"
    if what == "latest commit empty":
        told(replace(KEPT, proof=(100, 1, 7)))
        (table / "_delta_log" / f"{1:020}.json").write_text("")
    elif what != "a version that is not there yet":
        shutil.rmtree(table)
        if what == "another job's":
            by = CommitProperties(app_transactions=[Transaction("enrich/renamed", 1)])
            write_deltalake(str(table), pa.Table.from_pylist([], schema=TARGET), commit_properties=by)
        elif what == "no table":
            table.mkdir()
            (table / "notes.txt").write_text("mine")
    found = call("--project-dir", project, "proof", "customers", *(("--version", "1") if "version" in what else ()))
    assert (found.exit_code, found.stdout) == (code, "")
    assert said in found.stderr
    assert "--repair" not in found.stderr


def test_proof_says_what_records_one(told: Any, project: Path, call: Call) -> None:
    told(KEPT)
    found = call("--project-dir", project, "proof", "customers")
    assert found.exit_code == 5
    assert "no proof is recorded for version 0 of the target of 'customers'" in found.stderr
    assert f"`enrich --project-dir {project} verify customers --repair`" in found.stderr
