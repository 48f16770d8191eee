"""Features that a table has lost since: Delta reads older commits as if they had never had them."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import enrich
from kit.lab import Lab

PAST = "job: past\nkind: history\nsources: {facts: {table: facts, key: id}}\nfrom: facts\ntarget: {table: past}\n"
OF_G = f"{PAST}history: {{columns: [g]}}\n"
VECTORS = "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = '%s')"
DROP = ("REORG TABLE {} APPLY (PURGE)", "ALTER TABLE {} DROP FEATURE deletionVectors")


def act(lab: Lab, *statements: str) -> int:
    """Run statements on the source, which they call ``{}``, and return its version."""
    for each in statements:
        lab.spark.sql(each.replace("{}", f"delta.`{lab.path('facts')}`"))
    return DeltaTable(lab.path("facts")).version()


def test_the_deletion_vectors_of_a_source_are_dropped(lab: Lab) -> None:
    """After DROP FEATURE, Delta's feed has all rows of a file for each commit that marked some of them as deleted."""
    lab.table("facts", "id", {"id": pa.int64(), "g": pa.string()}, [{"id": i, "g": "ab"[i % 2]} for i in range(6)])
    lab.job(
        "job: counts\nsources: {facts: {table: facts, key: id}}\n"
        "query: SELECT g, count(*) AS n FROM facts GROUP BY g\ntarget: {table: counts}\n"
    )
    lab.job(PAST)
    act(lab, VECTORS % "true")
    assert {each.status for each in lab.run_all().jobs} == {"created"}
    act(lab, "DELETE FROM {} WHERE id = 1", VECTORS % "false", *DROP, "INSERT INTO {} VALUES (7, 'b')")
    assert [each.error for each in lab.run_all().jobs] == [None, None]
    assert {row["g"]: row["n"] for row in lab.rows("counts")} == {"a": 3, "b": 3}
    assert {row["id"] for row in lab.rows("past") if row["valid_to"] is not None} == {1}
    checked = enrich.verify(enrich.load_project(lab.home), spark=lab.spark).jobs
    assert [each.status for each in checked] == ["equal", "equal"]


def test_the_deletion_vectors_of_a_source_are_dropped_and_come_back(lab: Lab) -> None:
    """The table has vectors at both ends and now, but part of the feed is read as of a version that had none."""
    lab.table("facts", "id", {"id": pa.int64(), "g": pa.string()}, [{"id": i, "g": "ab"[i % 2]} for i in range(6)])
    lab.job(PAST)
    assert lab.run().status == "created"
    act(lab, VECTORS % "true", "DELETE FROM {} WHERE id = 1", VECTORS % "false", *DROP)
    without = act(lab, "INSERT INTO {} VALUES (7, 'b')")
    act(lab, VECTORS % "true", "DELETE FROM {} WHERE id = 2")
    now = lab.spark.read.format("delta").load(lab.path("facts"))
    anew = now.write.format("delta").mode("overwrite").option("overwriteSchema", "true")  # delta-rs refuses the table
    anew.partitionBy("g").save(lab.path("facts"))
    for until in (f"v{without}", None):
        assert lab.run(until=until).error is None
        versions = lab.rows("past")
        gone = {1} if until else {1, 2}
        assert {row["id"] for row in versions if row["valid_to"] is not None} == gone
        assert {row["id"] for row in versions if row["valid_to"] is None} == {0, 1, 2, 3, 4, 5, 7} - gone


def test_the_column_mapping_of_a_source_is_switched_off(lab: Lab) -> None:
    """Delta reads no feed across that commit, also where all columns have the names that they always had."""
    lab.table("facts", "id", {"id": pa.int64(), "g": pa.string()}, [{"id": i, "g": "a"} for i in range(3)])
    lab.job(OF_G)
    assert lab.run().status == "created"
    change = "ALTER TABLE {} SET TBLPROPERTIES ('delta.columnMapping.mode' = '%s')"
    act(lab, change % "name", "DELETE FROM {} WHERE id = 1", change % "none", "DELETE FROM {} WHERE id = 2")
    assert lab.run().error is None
    assert {(row["id"], row["valid_to"] is None) for row in lab.rows("past")} == {(0, True), (1, False), (2, False)}


def test_a_column_goes_after_the_end_of_a_window(lab: Lab) -> None:
    """Delta reads no feed of before by the columns of later, where a column has gone: those of then tell as much."""
    columns = {"id": pa.int64(), "g": pa.string(), "u": pa.string()}
    lab.table("facts", "id", columns, [{"id": i, "g": "a", "u": "u"} for i in range(3)])
    lab.job(OF_G)
    assert lab.run().status == "created"
    lab.drop("facts", "id = 1")
    until = DeltaTable(lab.path("facts")).version()
    less = pa.table({"id": [2], "g": ["a"]})
    write_deltalake(lab.path("facts"), less, mode="overwrite", schema_mode="overwrite")
    for till, gone in ((f"v{until}", {1}), (None, {0, 1})):
        assert lab.run(until=till).error is None
        assert {row["id"] for row in lab.rows("past") if row["valid_to"] is not None} == gone
