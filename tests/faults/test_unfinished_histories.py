"""Histories with versions that move between target and quarantine, where one of the two is ahead of the other."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import enrich
from enrich.answers.inspection import read_status
from enrich.delta.sink import hold_settings
from enrich.delta.tables import open_log, read_commits
from faults.shop import Shop, open_shop
from faults.stops import Crash, crash_on, hooked
from kit.commits import find_commit
from kit.lab import Lab, Prepared
from kit.project import hold_nulls
from kit.session import VACUUM_AT_ONCE

HELD_WHEN_ENDED = 4
"""The job holds open versions of the keys before this one, and ended versions of the others.

A version moves when it ends: of those out of the quarantine, of these into it.
"""


def write_shop(lab: Lab) -> None:
    """A history with versions of both kinds, and two commits that it has not consumed."""
    shop = open_shop(lab, "past")
    rules = (("<", "not_be_null"), (">=", "be_null"))
    lab.suite("past", *[hold(operator, f"expect_column_values_to_{kind}") for operator, kind in rules])
    job = lab.home / "jobs" / "past.yml"
    job.write_text(f"{job.read_text()}expectations: past\n")
    lab.put("things", *[shop.row("things", key) for key in (0, 1, 2, 4, 5)])
    lab.put("things", {**shop.row("things", 4), "name": "other"})
    assert lab.run("past").status == "created"
    assert {row["valid_to"] is None for row in lab.rows("past__quarantine")} == {True, False}
    lab.put("things", *[shop.row("things", key) for key in (0, 3)])
    lab.drop("things", "id IN (1, 5)")


def hold(operator: str, kind: str) -> dict[str, Any]:
    """Return a rule for the end of versions, for keys on one side of ``HELD_WHEN_ENDED``."""
    where = {"type": "comparison", "column": {"name": "id"}, "operator": operator, "parameter": HELD_WHEN_ENDED}
    rule = hold_nulls("valid_to", severity="warning")
    asked = {"row_condition": where, "condition_parser": "great_expectations"}
    return {**rule, "type": kind, "kwargs": rule["kwargs"] | asked}


@pytest.fixture
def shop(prepared: Prepared) -> Shop:
    found = Shop(prepared("held versions", write_shop), 1)
    found.now = 1000
    return found


def crash_after_quarantine(shop: Shop) -> None:
    """Leave a quarantine that is ahead of its target."""
    with pytest.raises(Crash), hooked(crash_on("quarantine.after")):
        shop.lab.run("past")


def assert_whole(shop: Shop) -> None:
    """Compare target and quarantine together with what the source's commits say: no version may be lost or doubled."""
    found = sorted([*shop.found("past"), *shop.found("past__quarantine")], key=repr)
    assert found == shop.expected("past")
    assert shop.lab.run("past").status == "unchanged"


def test_versions_that_move_keep_their_beginning_when_runs_end_between_the_commits(shop: Shop) -> None:
    """Also where the source is restored meanwhile.

    RESTORE is one commit more: what it takes away ends with it, also what an unfinished run had already held.
    """
    crash_after_quarantine(shop)
    shop.lab.put("things", shop.row("things", 2), shop.row("things", 100))
    crash_after_quarantine(shop)
    things = DeltaTable(shop.lab.path("things"))
    things.restore(things.version() - 2)
    crash_after_quarantine(shop)
    assert shop.lab.run("past").exit_code == 0
    assert_whole(shop)


def test_versions_move_back_when_a_table_is_restored(shop: Shop) -> None:
    lab = shop.lab
    lab.put("things", shop.row("things", 2))
    assert lab.run("past").exit_code == 0
    for name in ("past", "past__quarantine"):
        DeltaTable(lab.path(name)).restore(0)
        assert lab.run("past").exit_code == 0
        assert_whole(shop)


@pytest.mark.soak
def test_changes_that_are_taken_again_over_a_quarantine_that_is_ahead(shop: Shop) -> None:
    crash_after_quarantine(shop)
    assert shop.lab.run("past", since="v1").exit_code == 0
    assert_whole(shop)
    crash_after_change(shop)
    assert shop.lab.run("past", until=f"v{DeltaTable(shop.lab.path('things')).version()}").exit_code == 0
    assert_whole(shop)


def crash_after_change(shop: Shop) -> None:
    shop.lab.put("things", shop.row("things", 0))
    crash_after_quarantine(shop)


def write_held(lab: Lab) -> None:
    """A history that holds back versions without a name; it has one of them."""
    lab.table("things", "id", {"id": pa.int64(), "name": pa.string()}, [{"id": 1, "name": "a"}, {"id": 2}])
    lab.suite("past", hold_nulls("name"))
    lab.job(
        "job: past\nkind: history\nsources: {things: {table: things, key: id}}\nfrom: things\n"
        "target: {table: past}\nexpectations: past\n"
    )
    assert lab.run().status == "created"


@pytest.fixture
def held(prepared: Prepared) -> Lab:
    """Give that history after its first run."""
    return prepared("a held version", write_held)


def expire(lab: Lab, version: int) -> None:
    """Let the log of the source begin with a version."""
    things = Path(lab.path("things"))
    DeltaTable(things, version=version).create_checkpoint()
    for each in range(version):
        find_commit(things, each).unlink()


def test_the_quarantine_of_a_history_is_dropped(held: Lab) -> None:
    shutil.rmtree(held.path("past__quarantine"))
    held.put("things", {"id": 3})  # 2
    held.put("things", {"id": 3, "name": "c"}, {"id": 1, "name": "b"})  # 3
    assert (held.run().exit_code, len(held.rows("past__quarantine"))) == (0, 2)
    expire(held, 3)
    shutil.rmtree(held.path("past__quarantine"))
    for how in ({}, {"full_refresh": True}):
        assert held.run(**how).exit_code == 5
    assert "enrich verify past --repair" in str(held.run().error)
    before = held.rows("past")
    (check,) = enrich.verify(enrich.load_project(held.home), repair=True, spark=held.spark).jobs
    assert (check.status, check.error) == ("repaired", None)
    (kept,) = held.rows("past__quarantine")
    began = read_commits(open_log(held.path("things")))[3]
    assert (kept["id"], kept["valid_from"].timestamp() * 1000, kept["valid_to"]) == (2, began, None)
    assert held.rows("past") == before
    held.put("things", {"id": 2, "name": "d"})
    assert held.run().exit_code == 0
    assert len(held.rows("past")) == len(before) + 1


def test_a_repair_says_what_a_quarantine_contains_whose_rows_are_right(held: Lab) -> None:
    """Nothing differs: a row of it is taken out and put back; or it is empty by then, and dropped."""
    job = held.home / "jobs" / "past.yml"
    job.write_text(f"{job.read_text()}history: {{on_delete: erase}}\n")
    held.put("things", {"id": 3, "name": "c"})
    assert held.run(full_refresh=True).exit_code == 0
    expire(held, 2)
    beside = held.path("past__quarantine")
    rows = held.spark.read.format("delta").load(beside).localCheckpoint()
    DeltaTable(beside).delete()
    rows.write.format("delta").mode("append").save(beside)
    assert_mended_by_repair(held)
    held.drop("things", "id = 2")
    assert (held.run().exit_code, held.rows("past__quarantine")) == (0, [])
    shutil.rmtree(beside)
    assert_mended_by_repair(held)


def assert_mended_by_repair(lab: Lab) -> None:
    """A run is refused and names the repair, which changes no row; then a run has nothing to do."""
    refused, before = lab.run(), lab.rows("past")
    assert (refused.exit_code, "run `enrich verify past --repair`" in str(refused.error)) == (5, True)
    (check,) = enrich.verify(enrich.load_project(lab.home), repair=True, spark=lab.spark).jobs
    assert (check.status, check.error, check.differences) == ("repaired", None, [])
    assert (lab.run().status, lab.rows("past")) == ("unchanged", before)


def test_a_run_over_a_gap_that_ends_between_its_commits_is_taken_up(held: Lab) -> None:
    held.put("things", {"id": 3, "name": "c"})
    held.put("things", {"id": 4}, {"id": 1, "name": "b"})
    expire(held, 3)
    with pytest.raises(Crash), hooked(crash_on("quarantine.after")):
        held.run(allow_gap=True)
    refused = held.run()
    assert (refused.exit_code, "--allow-gap" in str(refused.error)) == (5, True)
    found = held.run(allow_gap=True)
    assert (found.error, found.status) == (None, "updated")
    assert {row["name"] for row in held.rows("past")} == {"a", "b", "c"}
    assert sorted(row["id"] for row in held.rows("past__quarantine")) == [2, 4]
    (status,) = read_status(enrich.load_project(held.home))
    assert "are not in this history" in str(status.note)
    assert held.run().status == "unchanged"
    (check,) = enrich.verify(enrich.load_project(held.home), spark=held.spark).jobs
    assert check.status == "equal"


def test_older_rows_that_upkeep_has_moved_are_read_where_they_are_now(held: Lab, tmp_path: Path) -> None:
    """OPTIMIZE and, later, VACUUM come before the run that ends between its commits, as with `enrich maintain`.

    After it, they take the older rows away, and the next run says how to go on.
    """
    held.put("things", {"id": 3})
    held.run()
    place = held.path("past__quarantine")
    before = DeltaTable(place).version()
    held.spark.sql(f"OPTIMIZE delta.`{place}`")
    assert DeltaTable(place).version() == before + 1, "there are two files to put together"
    with hold_settings(held.spark, VACUUM_AT_ONCE):
        held.spark.sql(f"VACUUM delta.`{place}` RETAIN 0 HOURS")
    held.put("things", {"id": 1}, {"id": 3, "name": "c"}, {"id": 4})
    with pytest.raises(Crash), hooked(crash_on("quarantine.after")):
        held.run()
    late = held.copy_to(tmp_path / "late")
    result = held.run()
    assert result.exit_code == 0, result.error
    assert sorted(row["id"] for row in held.rows("past__quarantine")) == [1, 2, 3, 4]
    assert held.run().status == "unchanged"

    table = DeltaTable(late.path("past__quarantine"))
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    lost = late.run("past")
    assert (lost.exit_code, "--full-refresh" in str(lost.error)) == (5, True)
    assert late.run("past", full_refresh=True).exit_code == 0
    for name in ("past", "past__quarantine"):
        found, wanted = ([{**row, "_run_id": None} for row in lab.rows(name)] for lab in (late, held))
        assert found == wanted
