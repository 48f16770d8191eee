"""A difference by position: what stands in the table and in its feed, and what is refused or left to MERGE.

Each case is written in both ways; which one it was is asserted by what the commit says of itself.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from enrich.base import failpoints
from enrich.base.errors import Conflict
from enrich.base.failures import is_conflict
from enrich.base.spec import FILE, OPERATION, PLACE, ROW
from enrich.delta import extents, positions, reads, sink, tables
from enrich.delta.sink import Changed, write_difference
from enrich.frames.difference import Difference, Identity, compute_difference
from kit.commits import make_commit
from kit.session import VACUUM_AT_ONCE

KEY = Identity(("id",))
Rows = list[tuple[Any, ...]]
SCHEMA = "id long, name string, at struct<x: int, y: array<string>>"
BEFORE: Rows = [(n, f"n{n}", (n, [f"y{n}", None])) for n in range(12)] + [(None, "none", None)]
FEED = {tables.CHANGE_FEED: "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
VECTORS = {tables.VECTORS: "true"}


def make_table(spark: SparkSession, place: Path, properties: dict[str, str], rows: Rows = BEFORE) -> str:
    """A table of three files, in a directory with letters that paths escape."""
    frame = spark.createDataFrame(rows, SCHEMA)
    frame.repartition(3).write.format("delta").options(**{**VECTORS, **properties}).save(str(place))
    return str(place)


def compare(spark: SparkSession, table: str, wanted: DataFrame, *, copies: bool = False) -> Changed:
    """Return the difference that leads from the table to the wanted rows."""
    state = tables.read_state(table)
    old = reads.read_snapshot(spark, table, state.version, list(state.columns), places=True)
    new = wanted.select(F.col("id").alias("__enrich_k0"), "*")
    found = compute_difference(new, old, KEY, has_copies=copies, keep_old=state.has_change_feed)
    return as_changed(found)


def as_changed(found: Difference) -> Changed:
    matches = {**KEY.of("t."), "m": F.lit(True)}  # as for rows with copies: an insert matches nothing
    rows = found.rows.withColumn("m", F.col(OPERATION) != "I")
    return Changed(rows, matches, True, found.operations, old=found.old, replaced=found.replaced)


def write(spark: SparkSession, table: str, changed: Changed, *, by_position: bool = True) -> dict[str, Any]:
    """Write a difference in one of the two ways, and return what the commit says of itself."""
    version = DeltaTable(table).version()
    changed = changed if by_position else replace(changed, old=None)
    write_difference(spark, table, changed, make_commit("a", version + 1, "m", version))
    log = DeltaTable(table)
    assert (log.version(), log.transaction_version("a")) == (version + 1, version + 1)
    (entry,) = log.history(1)
    assert (entry["userMetadata"], entry["operation"]) == ("m", "MERGE")
    assert (entry["operationParameters"]["predicate"] == "[]") is by_position, "the other way"
    return dict(entry)


def read(spark: SparkSession, table: str) -> Counter[str]:
    """Return the table's rows as Spark sees them, which delta-rs sees as well."""
    rows = spark.read.format("delta").load(table).collect()
    theirs = tables.query_rows("SELECT id, name FROM this", this=DeltaTable(table))
    assert Counter((row["id"], row["name"]) for row in theirs) == Counter((row["id"], row["name"]) for row in rows)
    return Counter(map(str, rows))


def read_feed(spark: SparkSession, table: str) -> Counter[tuple[str, str]]:
    """Return the last commit's changes as Spark sees them, which delta-rs sees as well."""
    version = DeltaTable(table).version()
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version).load(table)
    rows = feed.select("_change_type", "id", "name", "at").collect()
    read = DeltaTable(table).load_cdf(starting_version=version, ending_version=version).read_all()
    theirs = zip(*(read.column(name).to_pylist() for name in ("_change_type", "id", "name")), strict=True)
    assert Counter(theirs) == Counter(tuple(row[:3]) for row in rows)
    return Counter((row[0], str(row[1:])) for row in rows)


def wanted(spark: SparkSession, letters: str) -> DataFrame:
    """What the table shall hold: 1 to 3 with other names, 4 to 7 not, 20 and 21 as well."""
    rows = [row for row in BEFORE if not ("D" in letters and row[0] in (4, 5, 6, 7))]
    rows = [(n, "other", at) if "U" in letters and n in (1, 2, 3, None) else (n, name, at) for n, name, at in rows]
    return spark.createDataFrame(rows + ([(20, "new", None), (21, "new", (1, []))] if "I" in letters else []), SCHEMA)


@pytest.mark.parametrize(("letters", "feed"), [("UDI", {}), ("UDI", FEED), ("D", FEED), ("D", MAPPED)])
def test_both_ways_write_the_same(
    interpreted: SparkSession, tmp_path: Path, letters: str, feed: dict[str, str]
) -> None:
    table, same = make_table(interpreted, tmp_path / "a b%c=1" / "t", feed), str(tmp_path / "same")
    shutil.copytree(table, same)
    rows = wanted(interpreted, letters)
    for way, place in ((True, table), (False, same)):
        write(interpreted, place, compare(interpreted, place, rows), by_position=way)
    found = read(interpreted, table)
    assert found == Counter(map(str, rows.collect())) == read(interpreted, same)
    if FEED.keys() <= feed.keys():
        assert read_feed(interpreted, table) == read_feed(interpreted, same)
    text = "".join(each.read_text() for each in Path(table, "_delta_log").glob("*1.json"))
    assert "other" not in json.dumps([json.loads(line).get("commitInfo") for line in text.splitlines()])


def test_vectors_that_are_there_stay_and_what_comes_afterwards_works(interpreted: SparkSession, tmp_path: Path) -> None:
    """Rows with copies, a table with partitions and constraints, then OPTIMIZE, RESTORE and VACUUM."""
    spark, table = interpreted, str(tmp_path / "t")

    def with_parts(rows: DataFrame) -> DataFrame:
        return rows.where("id IS NOT NULL").withColumn("part", F.col("id") % 2)

    twice = with_parts(spark.createDataFrame([*BEFORE, *BEFORE], SCHEMA))
    twice.repartition(2).write.format("delta").options(**VECTORS, **FEED).partitionBy("part").save(table)
    spark.sql(f"ALTER TABLE delta.`{table}` ADD CONSTRAINT named CHECK (name <> 'bad')")
    for letters in ("UD", "I"):
        rows = with_parts(wanted(spark, letters))
        changed = compare(spark, table, rows, copies=True)
        write(spark, table, changed)
        assert read(spark, table) == Counter(map(str, rows.collect())), letters
    assert Counter(kind for kind, _ in read_feed(spark, table).elements()) == {
        "insert": 6,
        **dict.fromkeys(("update_preimage", "update_postimage"), 3),
    }
    before = read(spark, table)
    with pytest.raises(Exception, match=r"(?i)constraint"):
        write(spark, table, compare(spark, table, rows.withColumn("name", F.lit("bad"))))
    assert read(spark, table) == before
    with sink.hold_settings(spark, VACUUM_AT_ONCE):
        spark.sql(f"OPTIMIZE delta.`{table}`")
        assert read(spark, table) == before
        spark.sql(f"RESTORE delta.`{table}` TO VERSION AS OF 2")
        assert read(spark, table) == Counter(map(str, with_parts(wanted(spark, "UD")).collect()))
        spark.sql(f"VACUUM delta.`{table}` RETAIN 0 HOURS")
    assert sum(read(spark, table).values()) == 8


def test_another_commit_in_between_is_a_conflict(
    interpreted: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark, first = interpreted, make_table(interpreted, tmp_path / "t", {})
    acts: dict[str, Callable[[str], object]] = {
        "insert": lambda place: (
            spark.createDataFrame(BEFORE[:1], SCHEMA).write.format("delta").mode("append").save(place)
        ),
        "delete": lambda place: spark.sql(f"DELETE FROM delta.`{place}` WHERE id = 2"),
        "compacted": lambda place: spark.sql(f"OPTIMIZE delta.`{place}`"),
    }
    for name, act in acts.items():
        table = str(shutil.copytree(first, tmp_path / name))
        changed = compare(spark, table, wanted(spark, "UD"))

        def in_between(point: str, act: Callable[[str], object] = act, place: str = table) -> None:
            if point == "positions.marked":
                act(place)

        monkeypatch.setattr(failpoints, "hook", in_between)
        with pytest.raises(Exception, match=r".") as error:
            write(spark, table, changed)
        assert is_conflict(error.value), name
        assert DeltaTable(table).version() == 1, name
        monkeypatch.setattr(failpoints, "hook", None)
        if name == "compacted":  # places are those of files that are gone
            write(spark, table, changed, by_position=False)
            assert read(spark, table) == Counter(map(str, wanted(spark, "UD").collect()))


def test_rows_that_would_go_are_those_that_were_compared(interpreted: SparkSession, tmp_path: Path) -> None:
    """A vector that is forgotten, a row that is marked twice, one that is gone already: nothing is committed."""
    spark, table = interpreted, make_table(interpreted, tmp_path / "t", FEED)
    changed = compare(spark, table, wanted(spark, "UD"))
    assert changed.old is not None
    write(spark, table, changed)
    gone = changed.old
    right = compare(spark, table, wanted(spark, "I"))
    old = right.old
    assert old is not None
    least = old.agg(F.min(ROW)).collect()[0][0]
    others = old.where(F.col(ROW) > least)
    for bad in (others, others.unionByName(others.limit(1)), gone):
        with pytest.raises(Conflict, match="would go"):
            write(spark, table, replace(right, old=bad, replaced=right.replaced))
    assert DeltaTable(table).version() == 1
    write(spark, table, right)
    assert read(spark, table) == Counter(map(str, wanted(spark, "I").collect()))


def test_what_cannot_be_written_by_position_is_a_merge(
    interpreted: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark, table = interpreted, make_table(interpreted, tmp_path / "t", FEED)
    changed = compare(spark, table, wanted(spark, "UD"))
    old = changed.old
    assert old is not None

    def ask(place: str = table, version: int = 0, **other: Any) -> str:
        found = positions.open_table(spark, place, version, replace(changed, **other))
        return found if isinstance(found, str) else "by position"

    assert ask() == "by position"
    assert "where its rows are" in ask(old=None)
    assert "version" in ask(version=1)
    assert "feed" in ask(old=old.select(OPERATION, FILE, ROW))
    assert "other columns" in ask(rows=changed.rows.withColumn("more", F.lit(1)))
    assert "other columns" in ask(rows=changed.rows.withColumn("name", F.lit(1)))
    assert "other columns" in ask(rows=changed.rows.drop("name"))
    for name, properties in {"row": {"delta.enableRowTracking": "true"}, "none": {tables.VECTORS: "false"}}.items():
        place = make_table(spark, tmp_path / name, properties)
        assert ("rowTracking" if name == "row" else "no deletion vectors") in ask(place)
    spark.sql(
        f"CREATE TABLE delta.`{tmp_path}/made` (id long, name string, at struct<x: int, y: array<string>>,"
        " up string GENERATED ALWAYS AS (upper(name))) USING delta TBLPROPERTIES (delta.enableDeletionVectors = true)"
    )
    assert "delta.generationExpression" in ask(str(tmp_path / "made"), rows=changed.rows.withColumn("up", F.lit("")))
    monkeypatch.setattr(positions, "POSITIONAL", ("NoSuchClass",))
    assert "other classes" in ask()
    monkeypatch.undo()
    jvm: Any = spark._jvm
    monkeypatch.setattr(positions, "make_sequence", lambda *_: jvm.no.such.Class())
    with pytest.raises(AssertionError, match="the other way"):
        write(spark, table, changed)
    assert read(spark, table) == Counter(map(str, wanted(spark, "UD").collect()))


def test_places_are_read_where_they_are_of_use(interpreted: SparkSession, tmp_path: Path) -> None:
    table = tables.read_state(make_table(interpreted, tmp_path / "t", {}))
    assert not sink.wants_places(None)
    assert not sink.wants_places(table), "a small table"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extents, "SMALL_TABLE", 0)
        assert sink.wants_places(table)
        assert not sink.wants_places(replace(table, properties={}))
        patch.setenv("DATABRICKS_RUNTIME_VERSION", "16")
        assert not sink.wants_places(table)
    place = tmp_path / "taken"
    interpreted.range(1).withColumn("_metadata", F.lit(1)).write.format("delta").save(str(place))
    assert PLACE not in reads.read_snapshot(interpreted, str(place), 0, ["id"], places=True).columns
