"""One test for each row of the table of failures in ``docs/operations.md``, named after the row."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from pyspark.errors import PySparkException

from enrich import load_project, plan, verify
from enrich.base.console import list_notes
from enrich.base.result import JobResult
from enrich.delta import reads
from enrich.delta.sink import hold_settings
from enrich.delta.tables import read_state
from faults.stops import hooked
from kit.commits import find_commit
from kit.lab import Lab, Prepared
from kit.project import hold_nulls
from kit.session import COMPILED, forget_tables

ROOT = Path(__file__).parents[2]
COLUMNS = {"id": pa.int64(), "name": pa.string(), "note": pa.string(), "size": pa.int32()}
MAPPED = (
    "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5',"
    " 'delta.enableChangeDataFeed' = 'true'"
)


def item(key: int, name: str) -> dict[str, object]:
    """Return a row of the source."""
    return {"id": key, "name": name, "note": "n", "size": key}


def run_kept(lab: Lab) -> None:
    """Write three items and a job that keeps their names, and run it."""
    lab.table("items", "id", COLUMNS, [item(key, f"name{key}") for key in (1, 2, 3)])
    lab.job(
        "job: kept\nsources:\n  items: {table: items, key: id}\nfrom: items\n"
        "select: {id: items.id, name: items.name}\nwhere: items.name <> 'hidden'\ntarget: {table: kept}\n"
    )
    assert lab.run().status == "created"


@pytest.fixture
def kept(prepared: Prepared) -> Lab:
    """Give three items and a job that keeps their names, run once."""
    return prepared("kept", run_kept)


def run_kept_twice(lab: Lab) -> None:
    """Do the same; then let a name change and an item come, and run again. Keep the state of the first run."""
    run_kept(lab)
    shutil.copytree(lab.home / "lake" / "_enrich", lab.home / "backup")
    time.sleep(1.1)
    lab.put("items", item(1, "new"), item(4, "name4"))
    assert healed(lab).counts.updated == 1


@pytest.fixture
def kept_twice(prepared: Prepared) -> Lab:
    """Give the target after its second run, in two files, and the state of the first run as ``backup``."""
    return prepared("kept twice", run_kept_twice)


def sql(lab: Lab, statement: str, table: str = "items") -> None:
    """Let an administrator type a statement about a table, written as {}."""
    lab.spark.sql(statement.replace("{}", f"delta.`{lab.path(table)}`"))


def switch_feed(lab: Lab, *, on: bool) -> None:
    """Let an administrator switch the change feed of the source."""
    DeltaTable(lab.path("items")).alter.set_table_properties({"delta.enableChangeDataFeed": str(on).lower()})


def healed(lab: Lab, **how: object) -> JobResult:
    """Run, and compare the target with the source."""
    result = lab.run("kept", **how)
    assert result.exit_code == 0, result.error
    names = {row["id"]: row["name"] for row in lab.rows("items")}
    assert {row["id"]: row["name"] for row in lab.rows("kept")} == names
    return result


def refused(lab: Lab, code: int, *advice: str, **how: object) -> JobResult:
    """Run, and compare exit code and advice; the target is untouched."""
    before = DeltaTable(lab.path("kept")).version()
    result = lab.run("kept", **how)
    assert (result.exit_code, result.status) == (code, "failed"), result.error
    for part in advice:
        assert part in str(result.error)
    assert DeltaTable(lab.path("kept")).version() == before
    return result


# --- sources ---------------------------------------------------------------------------------------------------------


def gain_and_optimize(lab: Lab) -> None:
    DeltaTable(lab.path("items")).alter.add_columns([Field("extra", PrimitiveType("string"))])  # 2
    lab.put("items", {**item(1, "new"), "extra": "e"})  # 3
    lab.append("items", {**item(4, "name4"), "extra": None})  # 4
    DeltaTable(lab.path("items")).optimize.compact()  # 5


def restore(lab: Lab) -> None:
    DeltaTable(lab.path("items")).restore(2)


def overwrite(lab: Lab) -> None:
    rows = [{**item(key, name), "extra": None} for key, name in ((1, "name1"), (2, "new"), (5, "name5"))]
    write_deltalake(lab.path("items"), pa.Table.from_pylist(rows, schema=lab.schema("items")), mode="overwrite")


def change_while_the_feed_is_off(lab: Lab) -> None:
    switch_feed(lab, on=False)
    lab.put("items", {**item(1, "quiet"), "extra": "e"})
    switch_feed(lab, on=True)
    lab.put("items", {**item(2, "loud"), "extra": "e"})


HEALED = (
    (("a source gains a column", "a source is optimized"), gain_and_optimize, (1, 1, 0)),
    (("a source is restored",), restore, (0, 1, 1)),
    (("a source is overwritten",), overwrite, (1, 1, 1)),
    (("a change feed was off for a while",), change_while_the_feed_is_off, (0, 2, 0)),
)
"""Rows of the table -> what happens in a window, and how many rows the run inserts, updates and deletes."""


def test_the_next_run_takes_the_changes(kept: Lab) -> None:
    """One window after the other, of one lake."""
    for rows, happen, wanted in HEALED:
        happen(kept)
        result = healed(kept)
        counts = result.counts
        found = result.mode, (counts.inserted, counts.updated, counts.deleted)
        assert found == ("incremental", wanted), rows


def test_an_unused_column_is_renamed_or_dropped(kept: Lab) -> None:
    sql(kept, f"ALTER TABLE {{}} SET TBLPROPERTIES ({MAPPED})")
    sql(kept, "ALTER TABLE {} RENAME COLUMN note TO remark")
    sql(kept, "UPDATE {} SET name = 'new' WHERE id = 1")
    sql(kept, "ALTER TABLE {} DROP COLUMN remark")
    sql(kept, "UPDATE {} SET name = 'newer' WHERE id = 2")
    assert healed(kept).counts.updated == 2


def test_a_used_column_is_renamed_or_dropped(kept: Lab) -> None:
    sql(kept, f"ALTER TABLE {{}} SET TBLPROPERTIES ({MAPPED})")
    sql(kept, "ALTER TABLE {} RENAME COLUMN name TO title")
    refused(kept, 5, "'name'", "enrich run kept --full-refresh")
    job = kept.home / "jobs" / "kept.yml"
    job.write_text(job.read_text().replace("items.name", "items.title"))
    refused(kept, 5, "enrich run kept --full-refresh")
    assert kept.run(full_refresh=True).exit_code == 0
    assert kept.run().status == "unchanged"


def test_a_used_column_is_dropped_and_added_again(lab: Lab) -> None:
    """The first commit of a window, which Delta's feed passes over; a field of a struct, too."""
    place = pa.struct([("city", pa.string()), ("zip", pa.string())])
    rows = [{"id": key, "name": "old", "place": {"city": "old", "zip": "z"}} for key in (1, 2)]
    lab.table("items", "id", {"id": pa.int64(), "name": pa.string(), "place": place}, rows)
    lab.job("job: kept\nsources:\n  items: {table: items, key: id}\nfrom: items\ntarget: {table: kept}\n")
    lab.run()
    sql(lab, f"ALTER TABLE {{}} SET TBLPROPERTIES ({MAPPED})")
    assert lab.run().status == "unchanged"
    sql(lab, "UPDATE {} SET name = 'newer' WHERE id = 1")
    assert "compared" not in lab.run().sources["items"].to_dict()
    for column in ("name", "place.zip"):
        sql(lab, f"ALTER TABLE {{}} DROP COLUMN {column}")
        sql(lab, f"ALTER TABLE {{}} ADD COLUMNS ({column} string)")
        sql(lab, f"UPDATE {{}} SET {column} = 'new' WHERE id = 1")
    (planned,) = plan(load_project(lab.home), spark=lab.spark).jobs
    assert planned.sources["items"].compared
    both_ends = 2 * sum(DeltaTable(lab.path("items")).get_add_actions().column("size_bytes").to_pylist())
    assert planned.forecast is not None
    assert planned.forecast.reads.bytes >= both_ends
    result = lab.run()
    assert (result.exit_code, result.mode, result.counts.updated) == (0, "incremental", 2), result.error
    assert result.sources["items"].to_dict()["compared"] is True
    assert "its rows at both ends were compared" in "\n".join(list_notes(result))
    sources = {row["id"]: (row["name"], row["place"]["city"], row["place"]["zip"]) for row in lab.rows("items")}
    assert {row["id"]: (row["name"], *row["place"].values()) for row in lab.rows("kept")} == sources
    assert lab.run().status == "unchanged"


def test_a_struct_has_gained_a_field_within_the_range_of_since(lab: Lab) -> None:
    """Also the structs of a list and of a map; the range's two snapshots are compared, by the names of the fields."""
    kind = "STRUCT<zip: STRING, city: STRING>"
    sql(
        lab,
        f"CREATE TABLE {{}} (id BIGINT, place {kind}, places ARRAY<{kind}>, named MAP<STRING, {kind}>) USING delta"
        f" TBLPROPERTIES ({MAPPED})",
    )
    place = "named_struct('zip', 'z', 'city', 'old')"
    values = f"{place}, array({place}, NULL), map('k', {place})"
    sql(lab, f"INSERT INTO {{}} SELECT id, {values} FROM range(3)")
    sql(lab, "INSERT INTO {} VALUES (3, NULL, NULL, NULL)")
    lab.job("job: kept\nsources:\n  items: {table: items, key: id}\nfrom: items\ntarget: {table: kept}\n")
    lab.run()
    sql(lab, "UPDATE {} SET place.city = 'other' WHERE id = 0")
    for field in ("place.country", "places.element.country", "named.value.country"):
        sql(lab, f"ALTER TABLE {{}} ADD COLUMNS ({field} string)")
    sql(lab, "UPDATE {} SET place.country = 'de' WHERE id = 1")
    first = lab.run()
    assert (first.exit_code, first.status) == (0, "updated"), first.error
    result = lab.run(since="items=v2")
    assert (result.exit_code, result.counts.affected_keys) == (0, 2), result.error
    kept, items = (lab.spark.read.format("delta").load(lab.path(name)).collect() for name in ("kept", "items"))
    assert sorted(map(str, kept)) == sorted(map(str, items))


def widen(lab: Lab, column: str, table: str = "items") -> None:
    """Give an int column of a source more room."""
    sql(lab, "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')", table)
    sql(lab, f"ALTER TABLE {{}} ALTER COLUMN {column} TYPE BIGINT", table)


def types(lab: Lab, table: str) -> dict[str, str]:
    """Return the types of a table's columns."""
    return {field.name: str(field.type) for field in lab.schema(table)}


def test_an_unused_column_is_widened(kept: Lab) -> None:
    widen(kept, "size")
    sql(kept, f"UPDATE {{}} SET name = 'new', size = {2**40} WHERE id = 1")
    result = kept.run()
    assert (result.exit_code, result.mode, result.counts.updated) == (0, "incremental", 1), result.error
    assert {row["name"] for row in kept.rows("kept")} == {"new", "name2", "name3"}


def open_widened(lab: Lab) -> None:
    """Write items and their prices, with keys and sizes that have little room, and run a job that holds one row."""
    lab.suite("named", hold_nulls("name", severity="warning"))
    rows = [item(1, "name1"), {**item(2, ""), "name": None}]
    lab.table("items", "id", {**COLUMNS, "id": pa.int32()}, rows)
    lab.table("prices", "id", {"id": pa.int32(), "name": pa.string()}, [{"id": 1, "name": "price"}])
    lab.job(
        "job: kept\nsources:\n  items: {table: items, key: id}\n  prices: {table: prices, key: id}\nfrom: items\n"
        "join:\n  prices: {kind: table, how: full}\n"
        "select: {id: key, name: 'coalesce(items.name, prices.name)', size: items.size, price: prices.name}\n"
        "expectations: named\ntarget: {table: kept}\n"
    )
    lab.run()


def test_a_used_column_is_widened(prepared: Prepared) -> None:
    """The target gets the new type, and its quarantine too: else the first greater number could not be written."""
    lab = prepared("widened", open_widened)
    widen(lab, "size")
    refused(lab, 5, "'size'", "is bigint, and was int when", "enrich run kept --full-refresh")


def test_a_key_is_widened(prepared: Prepared) -> None:
    """And then the column, too: what a full refresh makes of both."""
    lab = prepared("widened", open_widened)
    widen(lab, "id")
    refused(lab, 5, "'id'", "is bigint, and was int when", "enrich run kept --full-refresh")
    one_sided = lab.run(full_refresh=True)
    assert (one_sided.exit_code, "bigint" in str(one_sided.error), "int" in str(one_sided.error)) == (2, True, True)
    widen(lab, "id", "prices")
    widen(lab, "size")
    assert lab.run(full_refresh=True).exit_code == 0
    for table in ("kept", "kept__quarantine"):
        assert (types(lab, table)["id"], types(lab, table)["size"]) == ("int64", "int64"), table
    sql(lab, f"INSERT INTO {{}} VALUES ({2**40}, 'much')", "prices")
    sql(lab, f"UPDATE {{}} SET size = {2**40} + id")
    result = lab.run()
    counts = result.counts.inserted, result.counts.updated
    assert (result.exit_code, result.mode, counts) == (0, "incremental", (1, 1)), result.error
    assert {(row["id"], row["price"], row["size"]) for row in lab.rows("kept")} == {
        (1, "price", 2**40 + 1),
        (2**40, "much", None),
    }
    assert [row["size"] for row in lab.rows("kept__quarantine")] == [2**40 + 2]
    assert lab.run().status == "unchanged"


def test_a_change_feed_is_switched_off(kept: Lab) -> None:
    switch_feed(kept, on=False)
    kept.put("items", item(1, "quiet"))
    refused(kept, 2, "ALTER TABLE", "delta.enableChangeDataFeed")


def test_part_of_a_window_is_vacuumed(kept: Lab, tmp_path: Path) -> None:
    kept.put("items", item(1, "new"))
    kept.put("items", item(2, "new"))
    expired = kept.copy_to(tmp_path / "the log of a source has expired")
    expire(expired, "items")
    vacuum(kept)
    for lab in (kept, expired):
        refused(lab, 5, "cannot be read from version", "enrich run kept --full-refresh")
    expire(kept, "items")
    healed(kept, full_refresh=True)


SEVERAL_ROWS = ("the log of a source has expired", "a source is dropped and created again")
"""Rows of the table that are shown beside another one."""


def vacuum(lab: Lab, table: str = "items") -> None:
    """Remove all files that the latest version of a table does not use, those of the change feed too."""
    DeltaTable(lab.path(table)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    shutil.rmtree(Path(lab.path(table)) / "_change_data", ignore_errors=True)


def moving(lab: Lab, moves: Callable[[], None]) -> Callable[[str], None]:
    """Return a hook that moves a source, and vacuums it, once between a run's plan and its first read."""
    left = [moves]

    def hook(name: str) -> None:
        if name == "changes.before" and left:
            left.pop()()
            vacuum(lab)

    return hook


def test_the_planned_version_is_vacuumed_before_it_is_read(kept: Lab) -> None:
    kept.append("items", item(4, "come"))
    with hooked(moving(kept, lambda: kept.put("items", item(4, "changed")))):
        healed(kept)
    kept.put("items", item(4, "more"))
    with hooked(moving(kept, lambda: kept.put("items", *[item(key, "again") for key in (1, 2, 3, 4)]))):
        refused(kept, 5, "cannot be read from version", "enrich run kept --full-refresh")
    with hooked(moving(kept, lambda: kept.put("items", *[item(key, "all") for key in (1, 2, 3, 4)]))):
        healed(kept, full_refresh=True)
    kept.put("items", item(1, "old"))
    version = DeltaTable(kept.path("items")).version()
    kept.put("items", *[item(key, "new") for key in (1, 2, 3, 4)])
    vacuum(kept)
    refused(kept, 5, "--until ends there", "name a later version", until=f"v{version}")


def test_the_latest_version_of_a_source_has_lost_files(kept: Lab) -> None:
    kept.append("items", item(4, "come"))
    for file in DeltaTable(kept.path("items")).file_uris():
        Path(file).unlink()
    refused(kept, 1, "files or commits of it are gone", "restore the source")


def expire(lab: Lab, table: str) -> None:
    """Do what Delta's log cleanup does: keep the latest checkpoint and what comes after it."""
    log = DeltaTable(lab.path(table))
    log.create_checkpoint()
    for commit in (Path(lab.path(table)) / "_delta_log").glob("*.json"):
        if int(commit.stem) < log.version():
            commit.unlink()


def recreate(lab: Lab) -> None:
    shutil.rmtree(lab.path("items"))
    lab.table("items", "id", COLUMNS)
    for key in (7, 8, 9):
        lab.append("items", item(key, f"other{key}"))


def test_a_source_is_replaced(kept: Lab, tmp_path: Path) -> None:
    recreated = kept.copy_to(tmp_path / "a source is dropped and created again")
    recreate(recreated)
    sql(kept, "CREATE OR REPLACE TABLE {} USING delta AS SELECT 9L id, 'nine' name, 'n' note, 1 size")
    refused(kept, 2, "ALTER TABLE")
    switch_feed(kept, on=True)
    for lab in (kept, recreated):
        refused(lab, 5, "another table", "enrich run kept --full-refresh")
    healed(kept, full_refresh=True)


def test_another_table_is_at_the_path_of_a_source(kept: Lab) -> None:
    kept.table("elsewhere", "id", COLUMNS, [item(key, f"else{key}") for key in (4, 5)])
    shutil.move(kept.path("items"), kept.path("items_away"))
    shutil.copytree(kept.path("elsewhere"), kept.path("items"))
    refused(kept, 5, "another table", "enrich run kept --full-refresh")
    shutil.rmtree(kept.path("items"))
    shutil.move(kept.path("items_away"), kept.path("items"))
    healed(kept)


def test_a_source_comes_from_a_backup_and_is_written_to(kept: Lab) -> None:
    """The backup has nothing of the version that the target has consumed."""
    last = find_commit(Path(kept.path("items")), 1)
    for file in (last, last.with_suffix(".crc")):
        file.unlink()
    for name in ("other", "another"):
        kept.put("items", item(2, name))
    refused(kept, 5, "backup", "enrich run kept --full-refresh")
    healed(kept, full_refresh=True)


def test_a_source_is_gone(kept: Lab) -> None:
    shutil.move(kept.path("items"), kept.path("items_away"))
    refused(kept, 2, "there is no table")
    shutil.move(kept.path("items_away"), kept.path("items"))
    healed(kept)


def test_deletion_vectors_make_a_change_feed_unreadable(lab: Lab) -> None:
    """delta#5662: the feed of a commit whose deletion vector has 64 KB or more; here 71 KB of 530,000 rows."""
    lab.job(
        "job: kept\nsources:\n  items: {table: items, key: id, unique: trusted}\nfrom: items\n"
        "where: items.id < 10\ntarget: {table: kept}\n"
    )
    with hold_settings(lab.spark, COMPILED):
        many = lab.spark.range(530_000).selectExpr("id", "'n' name").coalesce(1)
        writer = many.write.format("delta").option("delta.enableDeletionVectors", "true")
        writer.option("delta.enableChangeDataFeed", "true").save(lab.path("items"))
        assert lab.run().counts.inserted == 10
        sql(lab, "DELETE FROM {} WHERE pmod(hash(id), 2) = 0 OR id = 3")
        result = lab.run()
        found = lab.spark.read.format("delta").load(lab.path("items")).where("id < 10").collect()
    left, expected = {row["id"] for row in lab.rows("kept")}, {row["id"] for row in found}
    assert (result.exit_code, result.mode, left) == (0, "incremental", expected)
    assert 3 not in left


LACKS = ("java.io.IOException: No space left on device", "java.lang.OutOfMemoryError: Java heap space")
LOST_TASK = "Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited)"


def test_room_or_memory_runs_out_or_a_task_fails(kept: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk ends both ways to read a window, an executor the second one; a full refresh would not help."""

    def failing(text: str) -> Callable[..., object]:
        def fail(*_: object, **__: object) -> object:
            raise PySparkException(text)

        return fail

    kept.put("items", item(1, "new"))
    for text, code in (*((lack, 7) for lack in LACKS), (LOST_TASK, 1)):
        with monkeypatch.context() as patch:
            if text in LACKS:
                patch.setattr(reads, "read_change_feed", failing(text))
                assert "--full-refresh" not in str(refused(kept, code, "run again").error), text
            patch.setattr(reads, "read_change_feed", lose_feed)
            patch.setattr(reads, "read_snapshot_difference", failing(text))
            assert "--full-refresh" not in str(refused(kept, code, "run again").error), text
    healed(kept)


def lose_feed(*_: object, **__: object) -> object:
    """Do what Delta does where a feed is lost."""
    raise PySparkException("DELTA_MISSING_CHANGE_DATA")


# --- the target and its quarantine -----------------------------------------------------------------------------------


def test_the_target_is_compacted_and_vacuumed_before_it_is_read(kept_twice: Lab, tmp_path: Path) -> None:
    """By a run, and by `verify`: each meets a target in two files."""
    kept, verified = kept_twice, kept_twice.copy_to(tmp_path / "verified")
    left: list[Lab] = []

    def compact(name: str) -> None:
        if name == "changes.before" and left:
            lab = left.pop()
            DeltaTable(lab.path("kept")).optimize.compact()
            vacuum(lab, "kept")

    kept.put("items", item(4, "changed"))
    with hooked(compact):
        left.append(kept)
        healed(kept)
        left.append(verified)
        assert verify(load_project(verified.home), spark=verified.spark).exit_code == 0
    assert not left


def test_the_target_is_restored_to_a_time(kept_twice: Lab) -> None:
    """Delta records the time as it was typed, without its zone: what the restored rows contain cannot be told."""
    kept = kept_twice
    created = kept.log("kept")[-1]["timestamp"] / 1000 + 1.5
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(created + 5 * 3600))
    sql(kept, f"RESTORE TABLE {{}} TO TIMESTAMP AS OF '{text}+05:00'", "kept")
    assert {row["name"] for row in kept.rows("kept")} == {"name1", "name2", "name3"}
    refused(kept, 6, "enrich verify kept --repair")
    verified = verify(load_project(kept.home), repair=True, spark=kept.spark).jobs[0]
    assert (verified.status, verified.target.differing, verified.target.missing) == ("repaired", 1, 1)


def test_another_writer_writes_into_the_target(kept: Lab, tmp_path: Path) -> None:
    """Into its rows, or the whole table anew."""
    updated = kept.copy_to(tmp_path / "updated")
    DeltaTable(updated.path("kept")).update(predicate="id = 1", updates={"name": "'x'"})
    sql(kept, "CREATE OR REPLACE TABLE {} USING delta AS SELECT 1L id, 'x' name", "kept")
    for lab in (updated, kept):
        refused(lab, 6, "another writer", "enrich verify kept --repair")
    healed(kept, full_refresh=True)
    assert kept.run().status == "unchanged"


RESTORED = ("the target is restored to a version", "the target is optimized or gains a column")


def test_the_next_run_continues_from_what_others_left(kept_twice: Lab) -> None:
    """Rows of the table, and what else changes no value: properties, REORG, a feature that adds all files again."""
    kept = kept_twice
    sql(kept, "RESTORE TABLE {} TO VERSION AS OF 0", "kept")
    sql(kept, "ALTER TABLE {} ADD COLUMNS (seen boolean)", "kept")
    sql(kept, "OPTIMIZE {}", "kept")
    target = DeltaTable(kept.path("kept"))
    target.alter.add_columns([Field("checked", PrimitiveType("boolean"))])
    target.alter.set_table_description("for the call centre")
    sql(kept, "REORG TABLE {} APPLY (PURGE)", "kept")
    more = "'delta.enableRowTracking' = 'true', 'delta.autoOptimize.autoCompact' = 'true'"
    sql(kept, f"ALTER TABLE {{}} SET TBLPROPERTIES ({more})", "kept")
    kept.put("items", item(2, "new"))
    result = healed(kept)
    assert (result.mode, result.sources["items"].start) == ("incremental", 1)
    assert (result.counts.inserted, result.counts.updated) == (1, 2)
    assert kept.schema("kept").names == ["id", "name", "seen", "checked"]
    assert kept.log("kept")[0]["version"] == result.target_version, "nobody compacts after the run"


def test_the_target_loses_a_column(kept: Lab) -> None:
    sql(kept, f"ALTER TABLE {{}} SET TBLPROPERTIES ({MAPPED})", "kept")
    assert kept.run().status == "unchanged"
    again = ("DROP COLUMN name", "ADD COLUMNS (name string)")
    in_capitals = ("RENAME COLUMN name TO other", "RENAME COLUMN other TO NAME")
    for statements in (again, in_capitals, ("DROP COLUMN NAME",)):
        for statement in statements:
            sql(kept, f"ALTER TABLE {{}} {statement}", "kept")
        refused(kept, 6, "another writer", "enrich verify kept --repair")
        if statements != in_capitals:
            assert verify(load_project(kept.home), repair=True, spark=kept.spark).exit_code == 0
    healed(kept)
    sql(kept, "ALTER TABLE {} RENAME COLUMN name TO other", "kept")  # beside a feed that nobody but its writer wants
    healed(kept, full_refresh=True)
    assert read_state(kept.path("kept")).has_change_feed
    sql(kept, "ALTER TABLE {} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')", "kept")  # writes all files anew
    kept.put("items", item(2, "newer"))
    assert healed(kept).mode == "incremental"


def test_the_target_loses_a_column_of_its_key(kept: Lab) -> None:
    sql(kept, f"ALTER TABLE {{}} SET TBLPROPERTIES ({MAPPED})", "kept")
    shutil.copytree(kept.path("kept"), kept.path("other"))
    assert kept.run().status == "unchanged"
    sql(kept, "ALTER TABLE {} RENAME COLUMN id TO other", "kept")
    kept.put("items", item(1, "new"))
    refused(kept, 5, "column 'id' of the target of 'kept'", "enrich run kept --full-refresh")
    project = load_project(kept.home)
    for repair in (False, True):
        (check,) = verify(project, repair=repair, spark=kept.spark).jobs
        assert (check.exit_code, "enrich run kept --full-refresh" in str(check.error)) == (5, True)
    (check,) = verify(project, against="other", spark=kept.spark).jobs
    assert (check.exit_code, "enrich verify kept" in str(check.error)) == (6, True)
    assert healed(kept, full_refresh=True).strategy == "rewrite"


def test_another_writer_widens_a_column_of_the_target(kept: Lab) -> None:
    sql(kept, "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')", "kept")
    kept.put("items", item(1, "new"))
    assert kept.run().mode == "incremental"
    sql(kept, "ALTER TABLE {} ALTER COLUMN id TYPE decimal(20, 0)", "kept")
    sql(kept, "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'false')", "kept")  # and it stays wide
    kept.put("items", item(1, "newer"))
    refused(kept, 5, "column 'id'", "another writer", "enrich run kept --full-refresh")
    assert kept.run(full_refresh=True).exit_code == 0
    sql(kept, "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')", "kept")
    sql(kept, "ALTER TABLE {} ALTER COLUMN id TYPE decimal(20, 0)", "kept")
    sql(kept, "ALTER TABLE {} DROP FEATURE typeWidening", "kept")  # its log does not say any more that it was narrower
    kept.put("items", item(1, "newest"))
    refused(kept, 5, "column 'id'", "another writer", "enrich run kept --full-refresh")
    assert kept.run(full_refresh=True).exit_code == 0
    assert verify(load_project(kept.home), spark=kept.spark).exit_code == 0


@pytest.mark.parametrize("what", ["table", "directory", "parquet"])
def test_something_else_is_at_the_place_of_the_target(kept: Lab, what: str) -> None:
    from enrich.answers.inspection import validate

    shutil.rmtree(kept.path("kept"))
    if what == "table":
        kept.table("kept", "id", {"id": pa.int64()}, [{"id": 77}])
    else:
        Path(kept.path("kept")).mkdir()
        name = "theirs.csv" if what == "directory" else "part-00000-1-c000.snappy.parquet"
        (Path(kept.path("kept")) / name).write_text("77\n")
    for full in (False, True):
        result = kept.run(full_refresh=full)
        assert (result.exit_code, "move it away" in str(result.error)) == (2, True)
    (fault,) = validate(load_project(kept.home))
    assert "move it away" in fault.message
    assert str(fault.where).startswith("jobs/kept.yml:")
    if what == "directory":  # what a run leaves that is killed in its first commit, is nothing
        shutil.rmtree(kept.path("kept"))
        log = Path(kept.path("kept")) / "_delta_log"
        log.mkdir(parents=True)
        for name in (".00000000000000000000.json.5a.tmp", "..00000000000000000000.json.5a.tmp.crc"):
            (log / name).write_text("{")
        assert kept.run().status == "created"


@pytest.mark.parametrize("what", ["directory", "parquet"])
def test_something_else_is_at_the_place_of_the_quarantine(kept: Lab, what: str) -> None:
    from enrich.answers.inspection import validate

    place = Path(kept.path("kept__quarantine"))
    place.mkdir()
    (place / ("theirs.csv" if what == "directory" else "part-00000-1-c000.snappy.parquet")).write_text("77\n")
    for full in (False, True):
        refused(kept, 2, "kept__quarantine is not a Delta table", "move it away", full_refresh=full)
    (planned,) = plan(load_project(kept.home), spark=kept.spark).jobs
    assert (planned.exit_code, "move it away" in str(planned.refused)) == (2, True)
    (fault,) = validate(load_project(kept.home))
    assert "kept__quarantine is not a Delta table" in fault.message
    shutil.rmtree(place)
    healed(kept)


def run_gated(lab: Lab) -> None:
    """Write three items, of which a rule holds one, and run their job."""
    lab.suite("named", hold_nulls("name", severity="warning"))
    lab.table("items", "id", COLUMNS, [item(1, "name1"), item(2, "name2"), {**item(3, ""), "name": None}])
    lab.job(
        "job: kept\nsources:\n  items: {table: items, key: id}\nfrom: items\n"
        "select: {id: items.id, name: items.name}\nexpectations: named\ntarget: {table: kept}\n"
    )
    assert lab.run().counts.quarantined == 1


@pytest.fixture
def gated(prepared: Prepared) -> Lab:
    """Give a job whose quarantine holds one of three items."""
    return prepared("gated", run_gated)


def sorted_out(lab: Lab) -> JobResult:
    """Run, and compare target and quarantine with the source."""
    result = lab.run("kept")
    assert result.exit_code == 0, result.error
    named = {row["id"]: row["name"] for row in lab.rows("items") if row["name"] is not None}
    unnamed = {row["id"] for row in lab.rows("items") if row["name"] is None}
    assert {row["id"]: row["name"] for row in lab.rows("kept")} == named
    assert {row["id"] for row in lab.rows("kept__quarantine")} == unnamed
    return result


def lose_files(lab: Lab, table: str, what: str, **how: object) -> None:
    """Lose what a table's log names, and do what the message says."""
    for file in DeltaTable(lab.path(table)).file_uris():
        Path(file).unlink()
    lab.put("items", item(1, "new"), {**item(2, ""), "name": None})
    refused(lab, 1, f"the {what} of 'kept'", "files or commits of it are gone", f"drop the {what}", **how)
    shutil.rmtree(lab.path(table))


DROPPED = {"the target is dropped": "bootstrap", "the quarantine is dropped": "full_refresh"}
"""What the message says is what the next run makes good: row of the table -> how."""


def test_the_target_has_lost_files(gated: Lab) -> None:
    """A full refresh compares with the same files."""
    lose_files(gated, "kept", "target", full_refresh=True)
    assert sorted_out(gated).mode == DROPPED["the target is dropped"]


def test_the_quarantine_has_lost_files(gated: Lab) -> None:
    lose_files(gated, "kept__quarantine", "quarantine")
    assert sorted_out(gated).mode == DROPPED["the quarantine is dropped"]


def test_the_latest_commit_of_the_target_or_its_quarantine_is_empty(gated_twice: Lab) -> None:
    """As a power cut leaves it. What is undone is computed again."""
    for table in ("kept__quarantine", "kept"):
        place = Path(gated_twice.path(table))
        file = find_commit(place, DeltaTable(place).version())
        file.write_bytes(b"")
        for how in ({}, {"full_refresh": True}):
            refused(gated_twice, 1, str(file), "remove all files of this number there, if it is empty", **how)
        for beside in file.parent.glob(f"*{file.stem}.*"):
            beside.unlink()
        forget_tables(gated_twice.spark)
        sorted_out(gated_twice)
    assert verify(load_project(gated_twice.home), spark=gated_twice.spark).exit_code == 0


def run_gated_twice(lab: Lab) -> None:
    """Do the same; then let another item lose its name, and run again."""
    run_gated(lab)
    lab.put("items", {**item(1, ""), "name": None})
    sorted_out(lab)


@pytest.fixture
def gated_twice(prepared: Prepared) -> Lab:
    """Give the same job after its second run, with two of three items in the quarantine."""
    return prepared("gated twice", run_gated_twice)


def test_the_quarantine_is_restored(gated_twice: Lab) -> None:
    sql(gated_twice, "RESTORE TABLE {} TO VERSION AS OF 0", "kept__quarantine")
    assert sorted_out(gated_twice).mode == "incremental"
    assert gated_twice.run().status == "unchanged"


def test_another_writer_writes_into_the_quarantine_or_widens_a_column_of_it(gated: Lab) -> None:
    DeltaTable(gated.path("kept__quarantine")).delete("id = 3")
    for quick in (False, True):
        (found,) = verify(load_project(gated.home), quick=quick, spark=gated.spark).jobs
        assert (found.exit_code, "quarantine" in str(found.error)) == (6, True)
    gated.put("items", item(1, "new"))
    assert sorted_out(gated).mode == "full_refresh"
    assert gated.run().status == "unchanged"
    sql(gated, "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')", "kept__quarantine")
    sql(gated, "ALTER TABLE {} ALTER COLUMN id TYPE decimal(20, 0)", "kept__quarantine")
    gated.put("items", {**item(1, ""), "name": None})
    assert (gated.run().mode, types(gated, "kept__quarantine")["id"]) == ("full_refresh", "int64")
    assert verify(load_project(gated.home), spark=gated.spark).exit_code == 0


def test_the_target_is_restored_and_its_quarantine_is_not(gated_twice: Lab) -> None:
    DeltaTable(gated_twice.path("kept")).restore(0)
    gated_twice.put("items", item(1, "name1"))  # over the whole window, nothing has changed
    sorted_out(gated_twice)


# --- the job and its state -------------------------------------------------------------------------------------------


def test_the_definition_of_a_job_changes(kept: Lab) -> None:
    job = kept.home / "jobs" / "kept.yml"
    job.write_text(job.read_text().replace("name: items.name}", "name: upper(items.name)}"))
    refused(kept, 5, "definition", "enrich run kept --full-refresh")
    assert kept.run(full_refresh=True).counts.updated == 3
    assert kept.run().status == "unchanged"


def test_the_state_directory_is_lost(kept: Lab) -> None:
    shutil.rmtree(kept.home / "lake" / "_enrich")
    kept.put("items", item(1, "new"))
    assert healed(kept).mode == "incremental"
    assert json.loads(kept.log("kept")[0]["userMetadata"])["number"] == 2


def test_the_state_directory_comes_from_an_old_backup(kept_twice: Lab) -> None:
    state = kept_twice.home / "lake" / "_enrich"
    shutil.rmtree(state)
    shutil.move(kept_twice.home / "backup", state)
    kept_twice.put("items", item(2, "new"))
    result = healed(kept_twice)
    assert (result.mode, result.counts.updated) == ("incremental", 1)
    assert [json.loads(entry["userMetadata"])["number"] for entry in kept_twice.log("kept")] == [3, 2, 1]


def describe(lab: Lab) -> None:
    """Let another commit follow the last run's."""
    sql(lab, "ALTER TABLE {} SET TBLPROPERTIES ('team' = 'shop')", "kept")


def test_the_log_of_the_target_has_expired(kept: Lab) -> None:
    """The number is in the checkpoint, the record behind it in the runs table."""
    kept.put("items", item(1, "new"))
    healed(kept)  # here: the runs table says where its targets are
    describe(kept)
    expire(kept, "kept")
    kept.put("items", item(2, "new"))
    assert healed(kept).mode == "incremental"


def test_the_log_of_the_target_has_expired_also_what_came_after_the_last_run(kept: Lab) -> None:
    """The number is that of the latest run, the rows are not: a RESTORE leads the rows back, and the number stays."""
    kept.put("items", item(1, "new"))
    healed(kept)
    sql(kept, "RESTORE TABLE {} TO VERSION AS OF 0", "kept")
    describe(kept)
    expire(kept, "kept")
    refused(kept, 5, "what the target has consumed", "enrich run kept --full-refresh")
    healed(kept, full_refresh=True)


def test_the_log_of_the_target_has_expired_and_the_state_is_lost(kept: Lab) -> None:
    describe(kept)
    expire(kept, "kept")
    shutil.rmtree(kept.home / "lake" / "_enrich")
    refused(kept, 5, "what the target has consumed", "enrich run kept --full-refresh")
    healed(kept, full_refresh=True)


def test_a_source_that_is_trusted_to_be_unique_is_not(lab: Lab) -> None:
    lab.table("items", "id", COLUMNS, [item(1, "name1")])
    lab.job(
        "job: kept\nsources:\n  items: {table: items, key: id, unique: trusted}\nfrom: items\ntarget: {table: kept}\n"
    )
    lab.run()
    lab.append("items", item(2, "name2"), item(2, "twice"))
    result = lab.run()
    assert (result.exit_code, result.status) == (3, "blocked")
    (finding,) = result.findings
    assert (finding.expectation, finding.source, finding.failed) == ("key_unique", "items", 1)
    assert "key_unique (items)" in str(result.error)
    lab.drop("items", "name = 'twice'")
    assert lab.run().counts.inserted == 1


# --- the table itself ------------------------------------------------------------------------------------------------


def documented() -> list[str]:
    """Return the first cell of each row of the table of failures."""
    text = (ROOT / "docs" / "operations.md").read_text()
    table = text.split("## What may happen to tables", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [line.split("|")[1].strip() for line in lines[1:]]


def test_every_documented_row_has_a_test_of_its_name() -> None:
    """Or is a word in a test's table."""
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    tests = {name for text in texts for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}
    tests |= {to_name(words) for text in texts for words in re.findall(r'"([a-z ]+)"', text)}
    rows = documented()
    assert len(rows) >= 30
    assert [row for row in rows if to_name(row) not in tests] == []


def to_name(row: str) -> str:
    """Return the name of the test of a row."""
    return "test_" + re.sub(r"\W+", "_", row.lower())
