"""``enrich verify`` finds what is wrong to the row and mends it; ``enrich plan`` foretells a run and writes nothing."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import enrich
from enrich.answers.verification import Check, Discrepancy
from enrich.base import context
from enrich.cli.checks import format_verification
from enrich.delta import extents
from enrich.delta.forecasts import measure_feed
from enrich.report import read_report
from enrich.steps import publish
from faults.stops import Crash, crash_on, hooked
from kit.lab import Lab, Prepared
from kit.project import hold_nulls
from kit.session import live_in_zone
from scenarios.conftest import open_consents

NOTHING = Discrepancy()


def verify(lab: Lab, **how: Any) -> Check:
    return enrich.verify(enrich.load_project(lab.home), spark=lab.spark, **how).jobs[0]


def report(lab: Lab) -> Any:
    return read_report(enrich.load_project(lab.home)).jobs[0]


def extent(lab: Lab, table: str) -> dict[str, int]:
    """Return the files that a table has, and their bytes."""
    sizes = pa.table(DeltaTable(lab.path(table)).get_add_actions(flatten=True))["size_bytes"].to_pylist()
    return {"files": len(sizes), "bytes": sum(sizes)}


def planned(lab: Lab, **how: Any) -> dict[str, Any]:
    result = enrich.plan(enrich.load_project(lab.home), spark=lab.spark, **how).to_dict()
    found: dict[str, Any] = result["jobs"][0] | {"all": result["exit_code"]}
    return found


def files(lab: Lab) -> set[Path]:
    return {path for path in lab.home.rglob("*") if path.is_file()}


def change_foreign(lab: Lab, table: str, condition: str, **values: str) -> None:
    """Update rows of a target as another writer would, or delete them when there are no values."""
    found = DeltaTable(lab.path(table))
    if values:
        found.update(values, predicate=condition)
    else:
        found.delete(condition)


def run_held(lab: Lab) -> None:
    """Run the consents job with a rule that holds rows without e-mail; one consent has no key."""
    open_consents(lab)
    job = lab.home / "jobs" / "customers.yml"
    job.write_text(job.read_text() + "expectations: mails\n")
    lab.suite("mails", hold_nulls("email"))
    lab.put("accounts", *({"id": f"u{i}", "email": f"{i}@example.com", "note": "n"} for i in (4, 5, 6)))
    lab.append("consents", {"id": None, "ok": True})
    assert lab.run().status == "created"


@pytest.fixture
def held(prepared: Prepared) -> Lab:
    """Give that job after its first run."""
    return prepared("verified", run_held)


def test_a_repair_that_ends_after_its_commit_is_told_and_recorded(held: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal may end it, or the storage where it is recorded fail."""
    lab, good = held, held.rows("customers")
    told: list[Check] = []

    def repair() -> None:
        verify(lab, repair=True, on_result=told.append)

    change_foreign(lab, "customers", "id = 'u1'")
    with pytest.raises(Crash), hooked(crash_on("merge.before")):
        repair()
    assert (told, context.written.get()) == ([], "the target of 'customers' is unchanged")
    recorded = report(lab).last
    with pytest.raises(Crash), hooked(crash_on("merge.after")):
        repair()
    version = DeltaTable(lab.path("customers")).version()
    assert [(each.status, each.target_version, each.exit_code) for each in told] == [("repaired", version, 0)]
    assert context.written.get() == f"version {version} of the target of 'customers' is committed"
    assert report(lab).last not in (None, recorded)
    assert lab.rows("customers") == good

    change_foreign(lab, "customers", "id = 'u1'")
    write = publish.write_run

    def fail_afterwards(*args: Any) -> None:
        write(*args)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(publish, "write_run", fail_afterwards)
    found = verify(held, repair=True)
    assert (found.status, found.exit_code, found.target) == ("repaired", 0, Discrepancy(1, 0, 0))
    assert found.target_version == DeltaTable(held.path("customers")).version()


def test_verify_counts_to_the_row_and_repair_heals_drift(held: Lab) -> None:
    lab = held
    good, waiting = lab.rows("customers"), lab.rows("customers__quarantine")
    change_foreign(lab, "customers", "id = 'u1'")
    change_foreign(lab, "customers", "id = 'u2'", email="'other@example.com'")
    of_u4 = next(row for row in good if row["id"] == "u4")
    of_u5 = {"id": "u5", "email": "5@else.example.com"}
    lab.append("customers", {"id": "x9"}, {"id": None, "email": "nobody@example.com"})
    lab.append("customers", of_u4, of_u5)  # second copies, one equal and one not
    change_foreign(lab, "customers__quarantine", "id = 'u3'")
    lab.append("customers__quarantine", {"id": "x8", "_failed": ["made_up"], "_run_id": "r"})
    lab.append("customers__quarantine", {"ok": True, "_failed": ["key_not_null"], "_run_id": "r"})

    drift = lab.run()
    assert (drift.status, drift.exit_code) == ("failed", 6)
    assert "enrich verify customers --repair" in str(drift.error)
    before = files(lab)
    found = verify(lab)
    assert (found.status, found.exit_code) == ("different", 6)
    assert (found.target, found.quarantine) == (Discrepancy(1, 4, 1), Discrepancy(1, 2, 0))
    assert len(found.others) == 4
    assert files(lab) == before

    number = enrich.progress.target.read_target(lab.path("customers"), "customers", _runs(lab), lab.path("customers"))
    mended = verify(lab, repair=True)
    assert (mended.status, mended.exit_code, mended.target) == ("repaired", 0, Discrepancy(1, 4, 1))
    again = enrich.progress.target.read_target(lab.path("customers"), "customers", _runs(lab), lab.path("customers"))
    assert again.number == number.number + 1
    assert again.cursor is not None
    assert number.cursor is not None
    assert again.cursor.sources == number.cursor.sources
    assert lab.rows("customers") == good
    held_now = [{**row, "_run_id": None} for row in lab.rows("customers__quarantine")]
    assert held_now == [{**row, "_run_id": None} for row in waiting]
    assert lab.log("customers")[0]["operation"] == "MERGE"
    before = files(lab)
    clean = verify(lab, repair=True)
    assert (clean.status, clean.exit_code, clean.target, clean.quarantine) == ("equal", 0, NOTHING, NOTHING)
    assert {file.parts[-2] for file in files(lab) - before} <= {"runs", "_delta_log"}, "that it was proven is noted"
    assert {each for each in files(lab) if "runs" not in each.parts} == {e for e in before if "runs" not in e.parts}
    assert lab.log("customers")[0]["version"] == mended.target_version
    recorded = _runs(lab).read_recent(2)
    assert [row["status"] for row in recorded] == ["created", "failed", "updated"]
    rules = [rule.fingerprint for rule in enrich.load_project(lab.home).suites["mails"].rules]
    assert [json.loads(row["document"])["suite_rules"] for row in recorded] == [rules] * 3


def _runs(lab: Lab) -> Any:
    from enrich.delta.runs import RunsTable

    return RunsTable(enrich.load_project(lab.home).state)


RULED = """\
job: ruled
sources: {orders: {table: orders, key: id}, buyers: {table: buyers, key: id}}
from: orders
join: {buyers: {kind: foreign_key, on: orders.buyer}}
select: {id: orders.id, name: buyers.name}
target: {table: ruled}
rules:
  - {rule: match_rate, join: buyers, at_least: 0.9, action: fail}
  - {rule: mass_change, at_most: 0.5}
"""


def test_rules_stop_neither_a_comparison_nor_a_repair(lab: Lab) -> None:
    """They say when a run may write, not what is right."""
    text = pa.string()
    lab.table("orders", "id", {"id": text, "buyer": text}, [{"id": "o1", "buyer": "b1"}])
    lab.table("buyers", "id", {"id": text, "name": text})
    lab.job(RULED)
    assert lab.run(accept=["match_rate"]).status == "created"
    good = lab.rows("ruled")
    write_deltalake(lab.path("ruled"), pa.table({"id": ["x", "y", "z"], "name": ["", "", ""]}), mode="append")
    assert lab.run().exit_code == 6
    found = [verify(lab, repair=repair) for repair in (False, True)]
    assert [(each.status, each.exit_code) for each in found] == [("different", 6), ("repaired", 0)]
    assert lab.rows("ruled") == good


@pytest.mark.soak
def test_a_report_says_after_a_repair_what_it_said_before(held: Lab) -> None:
    lab = held
    warn = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "ok"}, "severity": "warning"}
    count = {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 0}, "severity": "warning"}
    lab.suite("mails", hold_nulls("email"), warn, count)
    lab.run(full_refresh=True)
    before = report(lab)
    rules = {rule.expectation: rule.verdict for rule in before.rules}
    assert (before.verdict, rules[warn["type"]], rules[count["type"]]) == ("warned", "warned", "warned")

    change_foreign(lab, "customers", "id = 'u1'")
    assert verify(lab, repair=True).status == "repaired"
    after = report(lab)
    assert (after.last.mode, after.judged.run_id) == ("repair", before.last.run_id)
    assert {rule.expectation: rule.verdict for rule in after.rules} == rules
    assert (after.verdict, after.headline, after.quarantine) == ("warned", before.headline, before.quarantine)
    assert [(rule.expectation, rule.verdict, rule.failed) for rule in after.now.rules] == [
        (rule.expectation, rule.verdict, rule.failed) for rule in before.now.rules
    ]

    lab.suite("mails", hold_nulls("email"), warn, {**count, "severity": "critical"})
    lab.put("accounts", {"id": "u1", "email": "one@example.com", "note": "n"})
    assert lab.run().status == "blocked"
    blocked = report(lab)
    assert verify(lab, repair=True).status == "equal"
    assert (report(lab).verdict, report(lab).last) == ("blocked", blocked.last)
    change_foreign(lab, "customers", "id = 'u2'")
    assert verify(lab, repair=True).status == "repaired"
    assert (report(lab).verdict, report(lab).headline) == ("blocked", blocked.headline)


@pytest.mark.soak
def test_another_time_zone_of_the_machine_moves_no_row(lab: Lab) -> None:
    hours = {f"e{hour}": datetime(2024, 6, 1, hour, tzinfo=UTC) for hour in (9, 11, 13, 18)}
    rows = [{"id": key, "at": at} for key, at in hours.items()]
    lab.table("events", "id", {"id": pa.string(), "at": pa.timestamp("us", tz="UTC")}, rows)
    lab.job(
        "job: days\nsources:\n  events: {table: events, key: id}\nfrom: events\n"
        "select: {id: events.id, at: events.at}\ntarget: {table: days}\nexpectations: days\n"
    )
    noon = {"column": "at", "min_value": "2024-06-01T12:00:00"}
    hold, warn = ({"enrich": {"action": action}} for action in ("quarantine", "warn"))
    lab.suite(
        "days",
        {"type": "expect_column_values_to_be_between", "kwargs": noon, "meta": hold},
        {"type": "expect_column_min_to_be_between", "kwargs": noon, "meta": warn},
    )
    lab.run()
    with live_in_zone("America/New_York"):
        checked = verify(lab)
        lab.put("events", {"id": "e13", "at": datetime(2024, 6, 1, 12, 30, tzinfo=UTC)})
        result = lab.run()
    assert (checked.status, checked.target, checked.quarantine) == ("equal", NOTHING, NOTHING)
    assert [(each.checked, each.success) for each in result.findings] == [(1, True), (2, True)]
    assert [row["id"] for row in lab.rows("days")] == ["e13", "e18"]


def test_verify_finds_what_a_gap_left_out_and_a_vacuumed_source(joined: Lab) -> None:
    lab = joined
    lab.put("accounts", {"id": "u3", "email": "3@example.com", "note": "n"})  # 2: will be skipped
    lab.put("accounts", {"id": "u4", "email": "4@example.com", "note": "n"})  # 3
    lab.run(since="accounts=v2", allow_gap=True)
    gap = verify(lab)
    assert (gap.exit_code, gap.target, gap.gaps) == (6, Discrepancy(differing=1), {"accounts": [[1, 2]]})
    mended = verify(lab, repair=True)
    assert (mended.status, mended.exit_code) == ("repaired", 0)
    assert {row["id"]: row["email"] for row in lab.rows("customers")}["u3"] == "3@example.com"

    # A source that was quiet for long is read at the recorded version, also when there is a later one.
    lab.put("accounts", {"id": "u4", "email": "four@example.com", "note": "n"})  # 4
    for commit in sorted(Path(lab.path("accounts"), "_delta_log").glob("*.json"))[:4]:
        os.utime(commit, (commit.stat().st_mtime - 20 * 86_400,) * 2)
    after = verify(lab)
    assert (after.status, after.gaps) == ("equal", {})

    # Another version of each row; every file that held the old ones is gone, and so are those of the change feed.
    lab.put("accounts", *({"id": f"u{i}", "email": f"new{i}@example.com", "note": "n"} for i in (1, 2, 3, 4)))
    DeltaTable(lab.path("accounts")).vacuum(0, dry_run=False, enforce_retention_duration=False)
    shutil.rmtree(Path(lab.path("accounts"), "_change_data"))
    lost = verify(lab)
    assert (lost.status, lost.exit_code) == ("failed", 5)
    assert "enrich run customers --full-refresh" in str(lost.error)
    target = lab.log("customers")
    wide = lab.run(since="accounts=v1")
    assert (wide.status, wide.exit_code) == ("failed", 5)
    assert "enrich run customers --full-refresh" in str(wide.error)
    assert lab.log("customers") == target
    assert lab.run(full_refresh=True).status == "updated"


def test_plan_foretells_a_run_and_writes_nothing(consents: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, before = consents, files(consents)
    unknown = verify(lab)
    assert (unknown.exit_code, unknown.status) == (5, "failed")
    assert "run `enrich run customers`" in str(unknown.error)
    first = planned(lab)
    assert (first["mode"], first["affected_keys"], first["has_work"]) == ("bootstrap", None, True)
    assert first["sources"]["consents"] == {"from": None, "to": 1, "changes": 3, "commits": 2, "affected_keys": None}
    sizes = {name: extent(lab, name) for name in ("consents", "accounts")}
    reads = first["forecast"]["reads"]
    whole = {name: sum(each[name] for each in sizes.values()) for name in ("files", "bytes")}
    assert reads["files"] == whole["files"]
    assert 0 < reads["bytes"] < 2 * whole["bytes"], "keys are read twice, and the column that no job uses is not"
    assert first["forecast"] == {
        "strategy": "create",
        "why": "there is no target yet",
        "reads": reads,
        "writes": None,
        "optimize": None,
        "refresh": None,
    }
    assert files(lab) == before

    created = lab.run().to_dict()
    assert (created["strategy"], created["written"]) == ("create", extent(lab, "customers"))
    with monkeypatch.context() as patch:
        patch.setattr("enrich.spark.session.borrow_session", lambda _: pytest.fail("a session was opened"))
        idle = planned(lab)
    assert (idle["mode"], idle["affected_keys"], idle["has_work"], idle["all"]) == ("incremental", 0, False, 0)
    assert (idle["forecast"]["strategy"], lab.run().strategy) == ("nothing", "nothing")

    lab.put("accounts", *({"id": key, "email": f"{key}@example.com", "note": "n"} for key in ("u2", "u3", "u8")))
    lab.put("accounts", {"id": "u1", "email": "1@example.com", "note": "another, which no job uses"})
    lab.drop("consents", "id = 'u2'")
    before = files(lab)
    moved = planned(lab)
    assert moved["sources"]["accounts"] == {"from": 1, "to": 3, "changes": 3, "commits": 2, "affected_keys": 3}
    assert moved["sources"]["consents"] == {"from": 1, "to": 2, "changes": 1, "commits": 1, "affected_keys": 1}
    assert (moved["affected_keys"], moved["refused"]) == (3, None)
    assert moved["forecast"]["strategy"] == "merge"
    assert moved["forecast"]["why"].startswith("accounts, consents must be read, too; the target is small")
    assert moved["forecast"]["writes"] == extent(lab, "customers")
    files_there = sum(extent(lab, name)["files"] for name in (*sizes, "customers"))
    assert moved["forecast"]["refresh"]["files"] == files_there < moved["forecast"]["reads"]["files"]
    assert moved["forecast"]["refresh"]["bytes"] <= moved["forecast"]["reads"]["bytes"]
    again = planned(lab, since="accounts=v0")["forecast"]["reads"]["files"]
    assert again == moved["forecast"]["reads"]["files"] + 1  # that of version 1, once more
    beyond = planned(lab, since="accounts=v2")
    assert (beyond["exit_code"], beyond["all"], beyond["mode"]) == (2, 2, None)
    assert "--allow-gap" in beyond["refused"]
    skipping = planned(lab, since="accounts=v2", allow_gap=True)
    assert skipping["sources"]["accounts"]["gap"] == [1, 2]
    assert skipping["forecast"]["why"].startswith("accounts must be read, too")
    assert files(lab) == before
    result = lab.run()
    assert (result.counts.affected_keys, result.strategy) == (moved["affected_keys"], "merge")
    assert result.to_dict()["written"]["files"] == 1

    lab.append("consents", {"id": "u7", "ok": True})
    assert planned(lab)["forecast"]["refresh"] is None  # one row of several
    assert lab.run().strategy == "append"
    lab.put("accounts", {"id": "u1", "email": "1@example.com", "note": "a third one, which no job uses"})
    assert planned(lab)["forecast"]["strategy"] == "cursor"
    assert lab.run().strategy == "cursor"
    assert planned(lab, full_refresh=True)["forecast"]["strategy"] == "compare"

    lab.append("accounts", {"id": "u8", "email": "again@example.com", "note": "n"})
    blocked = planned(lab)
    assert (blocked["exit_code"], "key_unique" in blocked["refused"]) == (3, True)


def test_a_plan_counts_the_quarantine_and_where_its_rows_without_key_come_from(
    held: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = held
    lab.put("accounts", {"id": "u1", "email": None, "note": "n"})
    found = planned(lab)["forecast"]
    feed = measure_feed(lab.path("accounts"), [DeltaTable(lab.path("accounts")).version()])
    tables = [extent(lab, name) for name in ("consents", "customers", "customers__quarantine")]
    files_there = feed.files + sum(each["files"] for each in tables)
    assert (found["strategy"], found["reads"]["files"]) == ("merge", files_there)
    assert found["writes"] == tables[1]  # it is small
    monkeypatch.setattr(extents, "SMALL_TABLE", -1)
    rows = len(lab.rows("customers"))
    assert planned(lab)["forecast"]["writes"] == {"files": 2, "bytes": -(-tables[1]["bytes"] // rows)}


def test_a_quarantine_that_a_run_has_written_ahead_is_no_difference(held: Lab) -> None:
    """While a run is between its two commits, and when it has died there; it is `run` that helps."""
    lab, seen = held, []
    lab.put("accounts", {"id": "u1", "email": None, "note": "n"})

    def look(point: str) -> None:
        if point == "quarantine.after":
            seen.append(verify(lab))
            raise Crash(point)

    with pytest.raises(Crash), hooked(look):
        lab.run()
    (check,) = seen
    assert (check.status, check.exit_code, check.error) == ("equal", 0, None)
    assert (check.target, check.quarantine.surplus) == (NOTHING, 1)
    assert check.to_dict()["quarantine_versions"] == {"consents": 2, "accounts": 3}
    told = format_verification(enrich.answers.verification.VerifyResult("r", "d", (check,)))
    assert "the quarantine contains other versions than the target" in told
    assert "`enrich run customers`" in told

    change_foreign(lab, "customers", "id = 'u2'")
    found = verify(lab, repair=True)
    assert (found.status, found.target, found.quarantine.surplus) == ("repaired", Discrepancy(missing=1), 1)
    mended = verify(lab)
    assert (mended.quarantine, mended.to_dict()["quarantine_versions"]) == (NOTHING, {})
    assert {row["id"] for row in lab.rows("customers__quarantine")} == {None, "u3"}
    lab.put("accounts", {"id": "u3", "email": "3@example.com", "note": "n"})
    assert lab.run().status == "updated"
    assert {row["id"] for row in lab.rows("customers__quarantine")} == {None, "u1"}
    assert "u3" in {row["id"] for row in lab.rows("customers")}


def test_the_first_reader_of_a_target_is_planned_before_the_change_feed_is_on(joined: Lab) -> None:
    """And later the plan says what becomes of it when the run makes its source anew."""
    lab = joined
    lab.job(
        "job: readers\nsources:\n  customers: {table: customers, key: id}\nfrom: customers\n"
        "select: {id: customers.id, email: customers.email}\ntarget: {table: readers}\n"
    )
    found = enrich.plan(enrich.load_project(lab.home), spark=lab.spark)
    plans = {each.job: (each.refused, each.has_work, each.after) for each in found.jobs}
    assert plans == {"customers": (None, True, ()), "readers": (None, True, ("customers",))}
    upstream = found.jobs[0].forecast
    assert upstream is not None
    assert (upstream.strategy, "change feed" in upstream.why) == ("nothing", True)
    assert [each.exit_code for each in lab.run_all(dry_run=True).jobs] == [0, 0]
    alone = enrich.plan(enrich.load_project(lab.home), ["readers"], spark=lab.spark).jobs[0]
    assert alone.exit_code == 2, "nobody would switch it on"
    assert "run customers`, which writes it, switches it on" in str(alone.refused)
    assert [each.status for each in lab.run_all().jobs] == ["unchanged", "created"]

    shutil.rmtree(lab.path("customers"))  # the source of a target, made anew by the job before
    again = enrich.plan(enrich.load_project(lab.home), spark=lab.spark).jobs
    assert [(each.mode, each.exit_code) for each in again] == [("bootstrap", 0), (None, 0)]
    ended = lab.run_all()
    assert [(each.mode, each.exit_code) for each in ended.jobs] == [("bootstrap", 0), (None, 5)]


@pytest.mark.soak
def test_a_target_whose_reader_spells_it_in_another_way_is_planned_and_run_like_any_other(joined: Lab) -> None:
    lab = joined
    (lab.home / "link").symlink_to("lake")
    lab.job(
        "job: readers\nsources:\n  customers: {table: ./link/customers, key: id}\nfrom: customers\n"
        "select: {id: customers.id, email: customers.email}\ntarget: {table: readers}\n"
    )
    found = enrich.plan(enrich.load_project(lab.home), spark=lab.spark)
    assert [(each.refused, each.after) for each in found.jobs] == [(None, ()), (None, ("customers",))]
    assert [each.exit_code for each in lab.run_all(dry_run=True).jobs] == [0, 0]
    assert [each.status for each in lab.run_all().jobs] == ["unchanged", "created"]
    lab.put("accounts", {"id": "u1", "email": "new@example.com", "note": "n"})
    assert [each.status for each in lab.run_all().jobs] == ["updated", "updated"], "it reads what was just written"
    for table in ("customers", "readers"):
        shutil.rmtree(lab.path(table))
    assert [each.mode for each in enrich.plan(enrich.load_project(lab.home), spark=lab.spark).jobs] == ["bootstrap"] * 2
    assert [each.status for each in lab.run_all().jobs] == ["created", "created"]
