"""Rows of a table whose files are listed once are those that Delta's own reader gives, whatever the table is like."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from enrich.delta.reads import read_files, read_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

KINDS = "id bigint, part string, day date, text string, one struct<a: int, b: array<string>>, fixed char(3)"
TABLES = {
    "plain": "",
    "partitioned": "PARTITIONED BY (part, day)",
    "clustered": "CLUSTER BY (id)",
    "with vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "with mapped columns": "PARTITIONED BY (part) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "with rows tracked": "TBLPROPERTIES ('delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true')",
    "with wider types": "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_the_same_by_its_files(interpreted: SparkSession, tmp_path: Path, name: str) -> None:
    """At the versions before and after a change of the schema; names and values have letters that the log escapes."""
    spark, path = interpreted, str(tmp_path / "a table")
    table = f"delta.`{path}`"
    spark.sql(" ".join([f"CREATE TABLE {table} ({KINDS}) USING delta", TABLES[name]]))
    rows = spark.range(12).selectExpr(
        "id",
        "CASE WHEN id % 3 > 0 THEN concat('a b/=%', id % 3) END AS part",
        "CASE WHEN id % 2 = 0 THEN DATE'2026-01-01' END AS day",
        "string(id) AS text",
        "named_struct('a', int(id), 'b', array(string(id), null)) AS one",
        "CASE WHEN id % 5 > 0 THEN string(id % 10) END AS fixed",
    )
    rows.coalesce(1).write.format("delta").mode("append").save(path)
    if "Tracking" not in TABLES[name]:  # Spark finds no `_metadata` of a path there
        spark.sql(f"DELETE FROM {table} WHERE id IN (3, 7)")
    last = spark.read.format("delta").load(path)
    changes = {
        "with mapped columns": [
            f"ALTER TABLE {table} RENAME COLUMN text TO words",
            f"ALTER TABLE {table} DROP COLUMN one",
        ],
        "with wider types": [f"ALTER TABLE {table} CHANGE COLUMN one.a TYPE bigint"],
    }
    for statement in changes.get(name, [f"ALTER TABLE {table} ADD COLUMNS (more int)"]):
        spark.sql(statement)
    spark.sql(f"INSERT INTO {table} (id, part) VALUES (99, 'new')")
    latest = DeltaTable(path).version()
    for version, names in (
        (latest - len(changes.get(name, "1")) - 1, last.columns),
        (latest, spark.table(table).columns),
    ):
        ours, theirs = (read(spark, path, version, names) for read in (read_files, read_snapshot))
        assert ours.schema == theirs.schema
        assert "Batch" in str(
            ours._jdf.queryExecution().optimizedPlan().collectLeaves().head().relation().location().getClass()
        )
        assert sorted(map(repr, ours.collect())) == sorted(map(repr, theirs.collect()))
        assert ours.count() > 9


def test_a_table_in_the_place_of_another_is_read(interpreted: SparkSession, tmp_path: Path) -> None:
    """Delta remembers the table that was there, which had as many versions."""
    path = tmp_path / "table"
    for text in ("old", "new"):
        shutil.rmtree(path, ignore_errors=True)
        write_deltalake(path, pa.table({"text": [text]}))
        assert [row[0] for row in read_files(interpreted, str(path), 0, ["text"]).collect()] == [text]


def test_files_are_those_that_the_commit_notes_and_no_other_commits_note_counts(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    spark, noted, other = interpreted, tmp_path / "noted", tmp_path / "other"
    spark.range(1).write.format("delta").save(str(noted))
    shutil.copytree(noted, other)
    spark.range(1, 3).write.format("delta").mode("append").save(str(noted))
    write_deltalake(str(other), pa.table({"id": [7]}), mode="append")
    shutil.copy(noted / "_delta_log" / f"{1:020d}.crc", other / "_delta_log")
    scheduler = spark._jsc.sc().dagScheduler()
    asked = []
    for place, ids in ((noted, [0, 1, 2]), (other, [0, 7])):
        before = scheduler.numTotalJobs()
        rows = read_files(spark, str(place), 1, ["id"])
        asked.append(scheduler.numTotalJobs() - before)
        assert sorted(row[0] for row in rows.collect()) == ids
    assert asked[0] == 0 < asked[1]
