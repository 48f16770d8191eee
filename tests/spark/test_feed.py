"""The change feed as it is read: what Delta's reader says of its columns, and a Delta that is not known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from enrich.base.errors import EnvironmentFault
from enrich.base.spec import COMMIT, WEIGHT, SourceSpec
from enrich.delta import reads
from enrich.frames.changes import sum_images

PROPERTIES = {
    "delta.enableChangeDataFeed": "true",
    "delta.columnMapping.mode": "name",
    "delta.enableTypeWidening": "true",
}


def test_columns_of_a_feed_have_no_notes_of_delta(spark: SparkSession, tmp_path: Path) -> None:
    """Mapped names and widened types are its table's own: a target that is written from a feed must not get them."""
    name = f"delta.`{tmp_path / 'items'}`"
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in PROPERTIES.items())
    kinds = "`i.d` int NOT NULL, code char(3), deep struct<x: int, y: array<map<string, struct<z: int>>>>"
    spark.sql(f"CREATE TABLE {name} ({kinds}) USING delta TBLPROPERTIES ({listed})")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN deep.x TYPE bigint")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a', struct(2, array(map('k', struct(3)))))")
    spark.sql(f"UPDATE {name} SET code = 'b'")
    columns = ["i.d", "code", "deep"]
    feed = reads.read_change_feed(spark, str(tmp_path / "items"), (1, 3), columns)
    there = spark.read.format("delta").load(str(tmp_path / "items"))
    assert [field.jsonValue() for field in feed.schema.fields][:3] == [each.jsonValue() for each in there.schema.fields]
    assert feed.columns == [*columns, WEIGHT, COMMIT]
    deep = (2, [{"k": (3,)}])
    expected = [(1, "a  ", deep, 1, 2), (1, "a  ", deep, -1, 3), (1, "b  ", deep, 1, 3)]
    assert sorted(map(tuple, feed.collect()), key=lambda row: row[3:], reverse=True) == sorted(
        expected, key=lambda row: row[3:], reverse=True
    )


def test_a_feed_is_not_read_in_an_unknown_way(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its values might be others than those of the snapshots."""
    spark.range(3).write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(tmp_path / "items"))
    jvm = cast("Any", spark._jvm)
    classes = SimpleNamespace(scala=jvm.scala, org=SimpleNamespace(apache=jvm.java))
    monkeypatch.setattr(spark, "_jvm", classes)
    with pytest.raises(EnvironmentFault, match="in a way that enrich does not know"):
        reads.read_change_feed(spark, str(tmp_path / "items"), (-1, 0), ["id"])


def test_a_kept_frame_has_no_past(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is made of it, joins with itself included, is planned from there on; an unknown Spark keeps the past."""
    kept = spark.range(3).where("id > 0").persist()
    found: Any = reads.forget_past(kept)
    assert found._jdf.queryExecution().analyzed().nodeName() == "InMemoryRelation"
    assert sorted(row.id for row in found.join(found, on="id").unionByName(kept).collect()) == [1, 1, 2, 2]
    kept.unpersist()
    assert found.count() == 2, "computed again"
    jvm = cast("Any", spark._jvm)
    monkeypatch.setattr(spark, "_jvm", SimpleNamespace(org=SimpleNamespace(apache=jvm.java)))
    assert reads.forget_past(kept) is kept


def test_images_are_summed_without_sorting_wide_rows(spark: SparkSession) -> None:
    """What has one form stands for its group: a text beside its group would make Spark sort all images, twice."""
    source = SourceSpec("s", ("id",), {"id": "long", "mail": "string", "size": "double"})
    rows = [(1, "a", 0.0, -1), (1, "b", -0.0, 1), (2, "c", 0.0, 1), (2, "c", 0.0, -1), (3, None, 0.0, 1)]
    feed = spark.createDataFrame([*rows, (3, None, -0.0, -1)], f"id long, mail string, size double, {WEIGHT} int")
    feed = feed.withColumn("mail", F.col("mail").alias("mail", metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}))
    summed = sum_images(feed, source)
    assert sorted(map(str, summed.collect())) == sorted(
        f"Row(id={key}, mail={mail!r}, size={size}, {WEIGHT}={weight})"
        for key, mail, size, weight in [*rows[:2], *rows[4:], (3, None, -0.0, -1)]
    )
    assert [field.metadata for field in summed.schema.fields if field.metadata] == []
    found, waiting = set(), [cast("Any", summed)._jdf.queryExecution().sparkPlan()]
    while waiting:
        node = waiting.pop()
        found.add(node.nodeName())
        waiting += [node.children().apply(place) for place in range(node.children().size())]
    assert {name for name in found if "Aggregate" in name} == {"HashAggregate"}


def test_a_netted_feed_says_the_same_and_reads_each_file_once(interpreted: SparkSession, tmp_path: Path) -> None:
    """Deletes, whose commits have deletion vectors alone, among all others."""
    spark, name, uri = interpreted, f"delta.`{tmp_path / 'items'}`", str(tmp_path / "items")
    listed = "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true'"
    spark.sql(
        f"CREATE TABLE {name} USING delta TBLPROPERTIES ({listed}) AS SELECT id, id % 7 AS n FROM range(0, 40, 1, 1)"
    )
    for statement in (
        "DELETE FROM {} WHERE id % 10 = 1",
        "DELETE FROM {} WHERE id % 10 = 2",
        "UPDATE {} SET n = 9 WHERE id % 10 = 3",
        "DELETE FROM {} WHERE id % 10 IN (3, 4)",
        "INSERT INTO {} SELECT id, 0 FROM range(40, 50, 1, 1)",
        "DELETE FROM {} WHERE id = 45",
        "RESTORE {} TO VERSION AS OF 2",
        "INSERT INTO {} SELECT id, 0 FROM range(50, 60, 1, 1)",
        "DELETE FROM {} WHERE id % 10 = 5",
        "OPTIMIZE {}",
        "DELETE FROM {} WHERE id % 10 = 6",
        "RESTORE {} TO VERSION AS OF 9",
        "DELETE FROM {} WHERE id < 40",
        "DELETE FROM {} WHERE id = 50",
        "RESTORE {} TO VERSION AS OF 13",
    ):
        spark.sql(statement.format(name))

    def count_files(rows: DataFrame) -> int:
        leaves = cast("Any", rows)._jdf.queryExecution().analyzed().collectLeaves()
        parts = [leaves.apply(place) for place in range(leaves.size())]
        return sum(
            len(each.relation().location().inputFiles()) for each in parts if each.nodeName() == "LogicalRelation"
        )

    states = [Counter(spark.read.option("versionAsOf", each).format("delta").load(uri).collect()) for each in range(16)]
    for start, end in ((0, 2), (1, 2), (0, 13), (2, 7), (4, 6), (8, 12), (13, 15)):
        netted = reads.read_change_feed(spark, uri, (start, end), ["id", "n"], net=True)
        found = Counter(states[start])
        for identity, n, weight, _ in netted.collect():
            found[Row(id=identity, n=n)] += weight
        assert {row: count for row, count in found.items() if count} == states[end], (start, end)
        if end == 2:  # from none to the second vector, and from the first to the second
            assert count_files(netted) == 1, start
