"""``--since``, ``--until``, ``plan``, ``verify`` and ``status`` as far as they need no JVM: refusals, lags, notes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

import enrich
from cli.shop import ACCOUNTS, CONSENTS, JOB, write_table
from enrich.base.errors import EnvironmentFault
from enrich.base.result import State
from enrich.base.suites import list_uncounted
from enrich.delta import locks, tables
from enrich.operations.workplace import Workplace
from enrich.progress.cursor import Cursor, Mark
from kit.command import Call
from kit.commits import date_commit, edit_commit
from kit.project import files_below, suite, write_project

TARGET = pa.schema([("id", pa.string()), ("email", pa.string()), ("consent", pa.bool_())])
Versions = dict[str, int]


def commit_times(table: Path, seconds_ago: dict[int, float]) -> None:
    """Date commits back."""
    now = datetime.now(UTC)
    for version, ago in seconds_ago.items():
        date_commit(table, version, (now - timedelta(seconds=ago)).timestamp() * 1000)


def pretend(project: Path, versions: Versions, gaps: tuple[tuple[int, int], ...] = ()) -> None:
    """Make a target whose log says that it contains these versions; its rows do not matter here."""
    loaded = enrich.load_project(project)
    task = Workplace(loaded, ["customers"], run_id="r0").open_job(loaded.jobs["customers"])
    marks = {
        alias: Mark(task.tables[alias].table_id, None, to, {}, gaps if alias == "accounts" else ())
        for alias, to in versions.items()
    }
    state = State(0, list_uncounted(task.suite))
    cursor = Cursor("r0", "customers", 1, task.definition, marks, ("id", "email", "consent"), state=state)
    record = CommitProperties(
        custom_metadata={"userMetadata": cursor.to_json()}, app_transactions=[Transaction("enrich/customers", 1)]
    )
    rows = pa.Table.from_pylist([], schema=TARGET)
    write_deltalake(str(project / "lake" / "customers"), rows, mode="append", commit_properties=record)


@pytest.fixture
def shop(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Consents at 2 and accounts at 4, a target at 2 and 2; starting Spark fails."""
    for key in ("x", "y", "z"):
        write_table(project / "lake" / "accounts", [{"id": key, "email": f"{key}@example.com"}], ACCOUNTS)
    write_table(project / "lake" / "consents", [{"id": "x", "consent": True}], CONSENTS)
    monkeypatch.setattr("enrich.spark.session.get_session", lambda *_: pytest.fail("Spark was started"))
    return project


def said(call: Call, project: Path, *args: object, **environment: str) -> tuple[int, dict[str, Any]]:
    result = call("--project-dir", project, *args, "--output", "json", **environment)
    assert result.stdout.count("\n") == 1, result.output
    answer = json.loads(result.stdout)
    assert answer["exit_code"] == result.exit_code
    return result.exit_code, answer


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--since", "yesterday"],
            "--since 'yesterday' is not a version, time or duration; valid forms are 2026-11-01T00:00Z",
        ),
        (["--until", "2026-02-29"], "there is no such time"),
        (["--since", "v42"], "name the source: --since consents=v42,accounts=v42"),
        (["--since", "acounts=v1"], "no job to run has a source 'acounts'; did you mean 'accounts'?"),
        (["--since", "1d", "--until", "2d"], "--since is later than --until"),
        (["--since", "1d", "--since", "2d"], "is given twice"),
        (["--allow-gap"], "--allow-gap goes with --since"),
        (["--since", "1d", "--full-refresh"], "--full-refresh computes every row"),
    ],
)
def test_what_the_options_show_is_refused_before_anything(
    command: str, options: list[str], message: str, call: Call, shop: Path
) -> None:
    before = files_below(shop)
    code, answer = said(call, shop, command, *options)
    assert (code, answer["jobs"]) == (2, [])
    assert message in answer["error"]
    assert files_below(shop) == before


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--since", "accounts=v3"], 2, "versions 3 to 3 are not in the target yet; run `enrich"),
        (["--since", "0m"], 2, "accept the loss with --allow-gap: `enrich"),
        (["--since", "accounts=v99"], 2, "has no such version; its latest is 4"),
        (["--until", "consents=v3"], 2, "has no such version; its latest is 2"),
        (["--since", "accounts=v2", "--until", "accounts=1d,consents=1d"], 2, "--since is later than --until"),
    ],
)
def test_what_the_logs_show_is_refused(
    command: str, options: list[str], code: int, message: str, call: Call, shop: Path
) -> None:
    pretend(shop, {"consents": 2, "accounts": 2})
    target = files_below(shop / "lake" / "customers")
    found, answer = said(call, shop, command, *options)
    assert found == code
    (job,) = answer["jobs"]
    assert message in job["error" if command == "run" else "refused"]
    assert files_below(shop / "lake" / "customers") == target


def test_several_ends_may_come_from_the_environment(call: Call, shop: Path) -> None:
    pretend(shop, {"consents": 2, "accounts": 2})
    code, answer = said(call, shop, "plan", ENRICH_UNTIL="accounts=v2,consents=v2")
    assert (code, answer["jobs"][0]["has_work"]) == (0, False)
    assert answer["jobs"][0]["sources"]["accounts"] == {
        "from": 2,
        "to": 2,
        "changes": 0,
        "commits": 0,
        "affected_keys": 0,
    }


def test_a_log_that_was_cut_is_refused_with_the_command(call: Call, shop: Path) -> None:
    pretend(shop, {"consents": 2, "accounts": 4})
    accounts = shop / "lake" / "accounts"
    DeltaTable(str(accounts)).create_checkpoint()
    for version in range(3):
        (accounts / "_delta_log" / f"{version:020d}.json").unlink()
    for since in ("accounts=v1", "accounts=2020-01-01"):
        code, answer = said(call, shop, "run", "--since", since)
        assert code == 5
        run = f"`enrich --project-dir {shop} run customers --full-refresh`"
        assert f"begins only with version 3; run {run}" in answer["jobs"][0]["error"]
    assert said(call, shop, "run", "--since", "accounts=v4")[1]["jobs"][0]["status"] == "unchanged"


def test_an_until_below_the_cursor_and_an_empty_interval_do_nothing(call: Call, shop: Path) -> None:
    pretend(shop, {"consents": 2, "accounts": 4})
    for options in (["--until", "2020-01-01"], ["--until", "accounts=v1"], ["--since", "1w", "--until", "1w"]):
        code, answer = said(call, shop, "run", *options)
        (job,) = answer["jobs"]
        assert (code, job["status"]) == (0, "unchanged")
        assert {alias: (each["from"], each["to"]) for alias, each in job["sources"].items()} == {
            "consents": (2, 2),
            "accounts": (4, 4),
        }


def test_a_first_run_needs_a_version_at_its_end(call: Call, shop: Path) -> None:
    before = files_below(shop / "lake" / "accounts")
    code, answer = said(call, shop, "run", "--until", "2020-01-01")
    assert code == 2
    assert "--until is before the first version of source" in answer["jobs"][0]["error"]
    assert files_below(shop / "lake" / "accounts") == before


def test_aliases_of_one_table_end_at_one_version(call: Call, shop: Path) -> None:
    job = (shop / "jobs" / "customers.yml").read_text()
    twice = job.replace("  accounts: {table: accounts, key: id}", "  accounts: {table: consents, key: id}")
    (shop / "jobs" / "customers.yml").write_text(twice.replace("email: accounts.email", "email: accounts.consent"))
    code, answer = said(call, shop, "run", "--until", "consents=v1,accounts=v2")
    assert (code, "different versions of one table" in answer["jobs"][0]["error"]) == (2, True)


def test_the_instant_that_is_meant_is_logged(call: Call, shop: Path) -> None:
    pretend(shop, {"consents": 2, "accounts": 4})
    result = call("--project-dir", shop, "run", "--until", "2026-11-01T00:00+02:00")
    assert "--until is 2026-10-31T22:00:00Z" in result.stderr


def test_verify_says_why_it_cannot_compare(call: Call, shop: Path) -> None:
    code, answer = said(call, shop, "verify")
    assert (code, answer["jobs"][0]["status"]) == (5, "failed")
    assert f"run `enrich --project-dir {shop} run customers` to create it" in answer["jobs"][0]["error"]
    code, answer = said(call, shop, "verify", "custmers")
    assert (code, answer["jobs"], "did you mean 'customers'" in answer["error"]) == (2, [], True)
    text = call("--project-dir", shop, "verify")
    assert text.stdout.splitlines()[1].split() == ["customers", "failed", "-", "-", "-", "-"]


def test_plan_text_says_what_is_refused_and_what_is_left_to_do(call: Call, shop: Path) -> None:
    pretend(shop, {"consents": 2, "accounts": 4})
    idle = call("--project-dir", shop, "plan").stdout.splitlines()
    assert idle[1].split() == ["customers", "incremental", "consents", "2->2", "(0)", "0", "0"]
    assert idle[3].split() == ["all", "sources", "-", "-", "0"]
    (shop / "jobs" / "customers.yml").write_text(
        (shop / "jobs" / "customers.yml").read_text() + "where: key is not null\n"
    )
    changed = call("--project-dir", shop, "plan")
    assert changed.exit_code == 5
    assert "customers: refused, exit 5: the definition of 'customers' changed" in changed.stdout


def test_a_dry_run_needs_no_lock_and_writes_nothing(call: Call, shop: Path) -> None:
    pretend(shop, {"consents": 2, "accounts": 4})
    before = files_below(shop)
    with locks.hold_lock(str(shop / "lake" / "_enrich"), "customers", "r1"):
        assert call("--project-dir", shop, "run").exit_code == 4
        held = files_below(shop)
        assert call("--project-dir", shop, "run", "--dry-run").exit_code == 0
        assert files_below(shop) == held
    shutil.rmtree(shop / "lake" / "_enrich")
    assert call("--project-dir", shop, "run", "--dry-run").exit_code == 0
    assert files_below(shop) == before


def test_status_tells_lag_gaps_and_what_is_about_to_be_forgotten(call: Call, shop: Path) -> None:
    pretend(shop, {"consents": 2, "accounts": 2}, gaps=((0, 1),))
    commit_times(shop / "lake" / "accounts", {0: 900_000, 1: 800_000, 2: 600_000, 3: 590_400, 4: 10})
    (job,) = json.loads(call("--project-dir", shop, "status", "--output", "json").stdout)["jobs"]
    accounts, consents = job["sources"]["accounts"], job["sources"]["consents"]
    assert (accounts["consumed"], accounts["latest"], accounts["versions_behind"]) == (2, 4, 2)
    assert accounts["lag_seconds"] == pytest.approx(599_990, abs=1)
    assert accounts["seconds"] == pytest.approx(590_400, abs=60)
    assert accounts["days_left"] == pytest.approx(7 - 590_400 / 86_400, abs=0.01)
    assert accounts["gaps"] == [[0, 1]]
    assert (consents["lag_seconds"], consents["seconds"], consents["days_left"], consents["gaps"]) == (0, 0, None, [])
    assert job["note"] == (
        f"versions 1 to 1 of accounts were left out: run `enrich --project-dir {shop} verify customers --repair`;"
        " source accounts forgets changes that are waiting within a day:"
        f" run `enrich --project-dir {shop} run customers`"
    )
    text = call("--project-dir", shop, "status").stdout.splitlines()
    assert text[2].split()[:9] == ["accounts", "2", "4", "2", "7", "d", "7", "d", "0.2"]
    assert text[3].startswith("customers: versions 1 to 1 of accounts were left out")


def test_commit_times_ascend_as_delta_orders_them(tmp_path: Path) -> None:
    table = tmp_path / "t"
    for _ in range(5):
        write_table(table, [{"id": "a", "email": None}], ACCOUNTS)
    commit_times(table, {0: 500, 1: 400, 2: 450, 3: 400, 4: 100, 5: 50})
    times = tables.read_commits(tables.open_log(str(table)))
    base = times[0]
    assert [round((at - base) / 1000, 3) for at in times.values()] == [0, 100, 100.001, 100.002, 400, 450]
    edit_commit(table, 4, "commitInfo", inCommitTimestamp=base + 7)
    assert tables.read_commits(tables.open_log(str(table)))[4] != base + 7, "the table does not keep them"
    # Once they are on, they are taken, whatever the writers' clocks said; but not before what came before them.
    on = {"delta.enableInCommitTimestamps": "true", "delta.inCommitTimestampEnablementVersion": "4"}
    edit_commit(table, 0, "metaData", configuration=on)
    assert tables.read_commits(tables.open_log(str(table)))[4] == times[3] + 1
    edit_commit(table, 4, "commitInfo", inCommitTimestamp=times[3] + 7)
    assert tables.read_commits(tables.open_log(str(table)))[4] == times[3] + 7


@pytest.mark.parametrize(
    ("files", "log", "seconds"),
    [
        (None, None, 604_800),
        ("interval 2 days", None, 172_800),
        ("interval 1 week", "interval 3 hours", 10_800),
        ("INTERVAL 1 day 12 hours", None, 129_600),
        ("90 minutes", None, 5_400),
        ("interval 0 seconds", None, 0),
        ("interval 1 month", None, None),
        ("a while", None, None),
        ("", None, None),
    ],
)
def test_how_long_history_is_kept(files: str | None, log: str | None, seconds: int | None) -> None:
    found = {"delta.deletedFileRetentionDuration": files, "delta.logRetentionDuration": log}
    assert tables.compute_retention({name: text for name, text in found.items() if text is not None}) == seconds


@pytest.mark.parametrize(
    "command", ["run", "verify", "why customers x email", "failing customers", "doctor keys customers"]
)
def test_what_starts_spark_says_how_large_its_tables_are(
    shop: Path, call: Call, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    if command.startswith("failing"):
        rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "email"}}
        job = JOB + "expectations: s\n"
        write_project(shop, {"jobs/customers.yml": job, "expectations/s.json": suite("s", rule)})
    if command.startswith(("verify", "why", "failing")):
        pretend(shop, {"consents": 2, "accounts": 2})
    sizes: list[int | None] = []

    def start(_: object, size: Callable[[], int | None]) -> None:
        sizes.append(size())
        raise EnvironmentFault("there is no Java")

    monkeypatch.setattr("enrich.spark.session.get_session", start)
    assert call("--project-dir", str(shop), *command.split()).exit_code == 7
    files = [path for name in ("consents", "accounts") for path in (shop / "lake" / name).glob("*.parquet")]
    assert sizes == [sum(path.stat().st_size for path in files)]
