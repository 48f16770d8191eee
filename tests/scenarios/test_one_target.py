"""One target over time: its commits, its cursor, and what administrators do to it and to its sources."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from enrich.progress.cursor import name_application
from kit.lab import Lab, Row


def emails(lab: Lab) -> dict[str, str | None]:
    """Return the target as id -> e-mail."""
    return {row["id"]: row["email"] for row in lab.rows("customers")}


@pytest.mark.smoke
def test_each_run_is_one_commit_that_carries_rows_and_cursor(consents: Lab) -> None:
    """A dry run before counts the same and writes nothing; rows without key are counted, left out and held."""
    consents.append("consents", {"id": None, "ok": True}, {"id": None, "ok": True})
    consents.append("accounts", {"id": None, "email": "x@example.com", "note": "n"})
    dry = consents.run(dry_run=True)
    assert (dry.status, dry.counts.inserted) == ("created", 3)
    assert not consents.exists("customers")
    first = consents.run()
    assert (first.status, first.mode, first.counts.inserted, first.target_version) == ("created", "bootstrap", 3, 0)
    found = {(each.expectation, each.source, each.action): (each.checked, each.failed) for each in first.findings}
    assert found == {("key_not_null", "consents", "quarantine"): (5, 2), ("key_not_null", "accounts", "warn"): (3, 1)}
    assert len(consents.rows("customers")) == 3
    held = consents.rows("customers__quarantine")
    assert [(row["id"], row["ok"], row["email"], row["_failed"]) for row in held] == [
        (None, True, None, ["key_not_null"])
    ] * 2
    assert first.counts.quarantined == 2

    consents.put("accounts", {"id": "u3", "email": "3@example.com", "note": "n"})
    consents.drop("consents", "id IS NULL")
    consents.append("consents", {"id": None, "ok": False})
    dry = consents.run(dry_run=True)
    assert (dry.counts.updated, len(consents.log("customers"))) == (1, 1)
    second = consents.run()
    assert (second.status, second.mode, second.target_version) == ("updated", "incremental", 1)
    assert (second.counts.updated, second.counts.quarantined) == (1, 1)
    assert [row["ok"] for row in consents.rows("customers__quarantine")] == [False]
    assert emails(consents) == {"u1": "1@example.com", "u2": "2@example.com", "u3": "3@example.com"}
    latest, created = consents.log("customers")
    record = json.loads(latest["userMetadata"])
    accounts = DeltaTable(consents.path("accounts"))
    assert latest["operation"] == "MERGE"
    assert (
        record["number"]
        == 2
        == DeltaTable(consents.path("customers")).transaction_version(name_application("customers"))
    )
    assert record["run_id"] != json.loads(created["userMetadata"])["run_id"]
    mark = record["sources"]["accounts"]
    assert (mark["table_id"], mark["from"], mark["to"]) == (str(accounts.metadata().id), 2, 3)
    assert "example.com" not in json.dumps(consents.log("customers"))


def test_nothing_to_do_commits_nothing_and_starts_no_spark(joined: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("enrich.spark.session.borrow_session", lambda _: pytest.fail("a session was opened"))
    again = joined.run()
    assert (again.status, again.exit_code, again.target_version) == ("unchanged", 0, 0)


def test_unused_columns_and_reversed_changes_move_the_cursor_alone(joined: Lab) -> None:
    joined.put("accounts", {"id": "u1", "email": "1@example.com", "note": "other"})
    joined.put("accounts", {"id": "u2", "email": "wrong@example.com", "note": "n"})
    joined.put("accounts", {"id": "u2", "email": "2@example.com", "note": "n"})
    before = DeltaTable(joined.path("customers"))
    result = joined.run()
    assert (result.status, result.sources["accounts"].changes) == ("unchanged", 0)
    after = DeltaTable(joined.path("customers"))
    assert (after.version(), after.file_uris()) == (before.version() + 1, before.file_uris())
    assert joined.run().sources["accounts"].start == 4


def test_a_duplicate_blocks_later_runs_until_it_is_gone(joined: Lab) -> None:
    joined.append("accounts", {"id": "u1", "email": "new@example.com", "note": "n"})
    for _ in range(2):
        result = joined.run()
        assert (result.status, result.findings[0].expectation, result.findings[0].failed) == (
            "blocked",
            "key_unique",
            1,
        )
        assert emails(joined)["u1"] == "1@example.com"
    query = str(result.error).split("whose keys `", 1)[1].split("` lists", 1)[0]
    assert joined.spark.sql(query).collect() == [("u1", 2)]
    joined.drop("accounts", "id = 'u1' AND email = '1@example.com'")
    assert joined.run().status == "updated"
    assert emails(joined)["u1"] == "new@example.com"


def test_a_changed_definition_asks_for_a_full_refresh_and_gets_its_columns(joined: Lab) -> None:
    job = joined.home / "jobs" / "customers.yml"
    job.write_text(job.read_text().replace("  email: accounts.email\n", "  mail: upper(accounts.email)\n"))
    refused = joined.run()
    assert (refused.status, refused.exit_code) == ("failed", 5)
    assert "--full-refresh" in str(refused.error)
    assert joined.run(full_refresh=True).status == "updated"
    assert joined.rows("customers")[0] == {"id": "u1", "mail": "1@EXAMPLE.COM", "ok": True}
    assert joined.run().status == "unchanged"


def test_comments_and_spelling_do_not_change_a_definition(joined: Lab) -> None:
    job = joined.home / "jobs" / "customers.yml"
    job.write_text("# a comment\n" + job.read_text().replace("accounts.email", "'`accounts` . email'"))
    assert joined.run().status == "unchanged"


COPIES = "job: copies\nsources:\n  items: {table: items, key: id}\nfrom: items\ntarget: {table: copies}\n"
MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"


def alter(lab: Lab, table: str, change: str) -> None:
    lab.spark.sql(f"ALTER TABLE delta.`{lab.path(table)}` {change}")


def gain(lab: Lab, table: str, column: str, kind: str) -> None:
    """Let a source gain a column."""
    DeltaTable(lab.path(table)).alter.add_columns([Field(column, PrimitiveType(kind))])


def insert(lab: Lab, table: str, values: str) -> None:
    lab.spark.sql(f"INSERT INTO delta.`{lab.path(table)}` VALUES {values}")


def assert_as_recomputed(lab: Lab) -> None:
    result = lab.run(full_refresh=True)
    assert (result.status, result.mode, result.error) == ("unchanged", "full_refresh", None)


def test_a_column_that_a_source_gains_follows_into_a_target_without_select_and_its_quarantine(lab: Lab) -> None:
    rows: list[Row] = [{"id": 1, "name": "a"}, {"id": None, "name": "x"}, {"id": None, "name": "w"}]
    lab.table("items", "id", {"id": pa.int64(), "name": pa.string()})
    lab.append("items", *rows)
    lab.job(COPIES)
    assert lab.run().counts.quarantined == 2
    gain(lab, "items", "size", "integer")
    lab.append("items", {"id": 2, "name": "b", "size": 7}, {"id": None, "name": "y", "size": 8})
    lab.drop("items", "name = 'w'")
    result = lab.run()
    assert (result.error, result.counts.inserted, result.counts.quarantined) == (None, 1, 1)
    assert result.quarantine is not None
    assert result.quarantine.rows == 2
    assert lab.rows("copies") == [{"id": 1, "name": "a", "size": None}, {"id": 2, "name": "b", "size": 7}]
    held = [(row["name"], row.get("size")) for row in lab.rows("copies__quarantine")]
    assert sorted(held) == [("x", None), ("y", 8)]
    assert_as_recomputed(lab)


@pytest.mark.soak
def test_a_column_follows_also_where_rows_are_only_deleted(lab: Lab) -> None:
    lab.table("items", "id", {"id": pa.int64(), "name": pa.string()}, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    lab.job(COPIES)
    lab.run()
    alter(lab, "items", "ADD COLUMNS (size int)")
    lab.drop("items", "id = 1")
    assert lab.run().counts.deleted == 1
    assert lab.rows("copies") == [{"id": 2, "name": "b", "size": None}]
    assert_as_recomputed(lab)


@pytest.mark.soak
def test_a_time_without_zone_follows_into_target_quarantine_and_lists(lab: Lab) -> None:
    """Delta gives an existing table such a column only if it is told to."""
    lab.table("items", "id", {"id": pa.int64(), "homes": pa.list_(pa.int64())})
    lab.append("items", {"id": 1, "homes": [7]}, {"id": None, "homes": [7]})
    lab.table("addresses", "id", {"id": pa.int64(), "street": pa.string()}, [{"id": 7, "street": "s"}])
    lab.job(COPIES)
    lab.job(
        "job: homes\nsources:\n  items: {table: items, key: id}\n  addresses: {table: addresses, key: id}\n"
        "from: items\njoin:\n  addresses: {kind: list, elements: items.homes}\n"
        "select: {id: items.id, homes: addresses}\ntarget: {table: homes}\n"
    )
    assert [each.error for each in lab.run_all().jobs] == [None, None]
    for table in ("items", "addresses"):
        alter(lab, table, "SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')")
        alter(lab, table, "ADD COLUMNS (seen timestamp_ntz)")
    insert(
        lab,
        "items",
        "(2, array(7L), timestamp_ntz'2026-01-01 00:00:00'), (null, null, timestamp_ntz'2026-01-02 00:00:00')",
    )
    lab.spark.sql(f"UPDATE delta.`{lab.path('addresses')}` SET seen = timestamp_ntz'2026-01-03 00:00:00'")
    assert [each.error for each in lab.run_all().jobs] == [None, None]
    assert [row["seen"] for row in lab.rows("copies")] == [None, datetime.fromisoformat("2026-01-01")]
    assert {row["seen"] for row in lab.rows("copies__quarantine")} == {None, datetime.fromisoformat("2026-01-02")}
    assert lab.rows("homes")[0]["homes"] == [{"id": 7, "street": "s", "seen": datetime.fromisoformat("2026-01-03")}]
    again = lab.run_all(full_refresh=True)
    assert [(each.error, each.counts.updated) for each in again.jobs] == [(None, 0), (None, 0)]


def test_a_column_that_a_lookup_gains_follows_into_lists(lab: Lab) -> None:
    number, text = pa.int64(), pa.string()
    lab.table("persons", "id", {"id": number, "homes": pa.list_(number)}, [{"id": 1, "homes": [7, 8]}])
    lab.table("addresses", "id", {"id": number, "street": text}, [{"id": 7, "street": "s"}])
    lab.job("""\
job: homes
sources:
  persons: {table: persons, key: id}
  addresses: {table: addresses, key: id}
from: persons
join:
  addresses: {kind: list, elements: persons.homes}
select: {id: persons.id, homes: addresses}
target: {table: homes}
""")
    lab.run()
    gain(lab, "addresses", "zip", "string")
    result = lab.run()
    assert (result.error, result.status, result.mode) == (None, "updated", "full_refresh")
    nothing = {"id": 8, "street": None, "zip": None}
    assert lab.rows("homes") == [{"id": 1, "homes": [{"id": 7, "street": "s", "zip": None}, nothing]}]
    lab.append("addresses", {"id": 8, "street": "t", "zip": "12"})
    assert lab.run().mode == "incremental"
    assert lab.rows("homes")[0]["homes"][1] == {"id": 8, "street": "t", "zip": "12"}

    alter(lab, "addresses", f"SET TBLPROPERTIES ({MAPPED})")
    alter(lab, "addresses", "DROP COLUMN street")
    assert lab.run().exit_code == 5
    assert lab.run(full_refresh=True).status == "updated"
    assert lab.rows("homes") == [{"id": 1, "homes": [{"id": 7, "zip": None}, {"id": 8, "zip": "12"}]}]
    assert lab.run().status == "unchanged"


@pytest.mark.soak
def test_a_column_that_a_source_drops_leaves_a_target_without_select(lab: Lab) -> None:
    lab.table("items", "id", {"id": pa.int64(), "name": pa.string()}, [{"id": 1, "name": "secret"}])
    lab.job(COPIES)
    lab.run()
    alter(lab, "items", f"SET TBLPROPERTIES ({MAPPED})")
    alter(lab, "items", "DROP COLUMN name")
    assert lab.run().exit_code == 5
    assert lab.run(full_refresh=True).exit_code == 0
    assert lab.rows("copies") == [{"id": 1}]
    alter(lab, "items", "ADD COLUMNS (name string)")
    assert lab.run().exit_code == 0
    assert lab.rows("copies") == [{"id": 1, "name": None}]
    assert_as_recomputed(lab)


@pytest.mark.soak
def test_a_column_comes_with_rows_into_a_full_foreign_key_join(lab: Lab) -> None:
    number, text = pa.int64(), pa.string()
    lab.table("products", "id", {"id": number, "merchant": number}, [{"id": 1, "merchant": 7}])
    lab.table("merchants", "id", {"id": number, "name": text}, [{"id": 7, "name": "m"}, {"id": 8, "name": "n"}])
    lab.job("""\
job: offers
sources:
  products: {table: products, key: id}
  merchants: {table: merchants, key: id}
from: products
join:
  merchants: {kind: foreign_key, on: products.merchant, how: full}
target: {table: offers}
""")
    assert lab.run().status == "created"
    for table, row in (("products", "(2, 8, 'new')"), ("merchants", "(9, 'o', 'new')")):
        alter(lab, table, "ADD COLUMNS (note string)")
        insert(lab, table, row)
    result = lab.run()
    assert (result.error, result.mode, result.counts.inserted) == (None, "incremental", 2)
    assert_as_recomputed(lab)


def test_a_target_gets_its_feed_when_somebody_reads_it(joined: Lab) -> None:
    assert "delta.enableChangeDataFeed" not in DeltaTable(joined.path("customers")).metadata().configuration
    joined.job(
        "job: reachable\nsources:\n  customers: {table: customers, key: id}\nfrom: customers\n"
        "where: customers.email is not null\ntarget: {table: reachable}\n"
    )
    results = {each.job: each.status for each in joined.run_all().jobs}
    assert results == {"customers": "unchanged", "reachable": "created"}
    joined.drop("accounts", "id = 'u1'")
    counts = {each.job: each.counts for each in joined.run_all().jobs}
    assert (counts["customers"].updated, counts["reachable"].deleted) == (1, 1)
    assert [row["id"] for row in joined.rows("reachable")] == ["u2"]


def test_two_rows_with_one_key_block_the_first_run_which_skips_its_readers_and_nobody_else(consents: Lab) -> None:
    consents.job(
        "job: reachable\nsources:\n  customers: {table: customers, key: id}\nfrom: customers\n"
        "target: {table: reachable}\n"
    )
    consents.table("things", "id", {"id": pa.int64()}, [{"id": 1}])
    consents.job("job: other\nsources:\n  t: {table: things, key: id}\nfrom: t\ntarget: {table: other}\n")
    of_u1: dict[str, Row] = {
        "consents": {"id": "u1", "ok": True},
        "accounts": {"id": "u1", "email": "secret@example.com", "note": "n"},
    }
    for table, row in of_u1.items():
        consents.append(table, row, row)
    result = consents.run_all()
    done = {each.job: each for each in result.jobs}
    assert {name: each.status for name, each in done.items()} == {
        "customers": "blocked",
        "reachable": "skipped",
        "other": "created",
    }
    assert result.exit_code == 3
    blocked = done["customers"]
    assert (blocked.exit_code, blocked.target_version) == (3, None)
    found = {(each.expectation, each.source): each.failed for each in blocked.findings}
    assert found == {("key_unique", "consents"): 2, ("key_unique", "accounts"): 2}
    assert "secret" not in str(blocked.to_dict())
    assert "u1" not in str(blocked.error)
    assert not consents.exists("customers")


def test_types_that_differ_are_refused_naming_both(consents: Lab, tmp_path: Path) -> None:
    shutil.rmtree(consents.path("accounts"))
    consents.table("accounts", "id", {"id": pa.int64(), "email": pa.string(), "note": pa.string()})
    result = consents.run()
    assert (result.status, result.exit_code) == ("failed", 2)
    assert "consents.id is string and accounts.id is bigint" in str(result.error)
    assert "jobs/customers.yml:" in str(result.error)
    assert not consents.exists("customers")


def test_catalog_tables_are_resolved_through_the_session(lab: Lab) -> None:
    """Those of ``catalog``, which enrich writes, and those of ``sources``, which it reads."""
    from pyspark.sql import functions as F

    own, others = "lab_catalog", "lab_silver"
    for schema in (own, others):
        lab.spark.sql(f"CREATE SCHEMA {schema} LOCATION '{lab.home / schema}'")
    try:
        rows = lab.spark.range(3).select("id", F.lit("n").alias("name"))
        rows.write.format("delta").option("delta.enableChangeDataFeed", "true").saveAsTable(f"{others}.items")
        conf = f"catalog: {own}\nstate: ./state\nsources: {{catalog: spark_catalog.{others}}}\n"
        (lab.home / "conf" / "dev.yml").write_text(conf)
        lab.job("job: copies\nsources:\n  items: {table: items, key: id}\nfrom: items\ntarget: {table: copies}\n")
        assert lab.run().status == "created"
        lab.spark.sql(f"INSERT INTO {others}.items VALUES (9, 'n'), (NULL, 'n')")
        result = lab.run()
        assert (result.status, result.counts.inserted, result.counts.quarantined) == ("updated", 1, 1)
        assert lab.spark.table(f"{own}.copies").count() == 4
        assert lab.spark.table(f"{own}.copies__quarantine").count() == 1
        assert lab.run().status == "unchanged"
        assert [row.tableName for row in lab.spark.sql(f"SHOW TABLES IN {others}").collect()] == ["items"]
    finally:
        for schema in (own, others):
            lab.spark.sql(f"DROP SCHEMA {schema} CASCADE")
