"""The latest version that begins not after a moment, and the rows that changed versions reach."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import defaultdict
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from enrich.frames.join import SALT, spread_nulls
from enrich.joins import as_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAN = float("nan")


def latest(session: SparkSession, rows: list[Any], versions: list[Any], schema: str) -> list[Any]:
    """Return ``LATEST`` for each row, in their order."""
    key, time = (part.strip() for part in schema.split(","))
    asked = session.createDataFrame([(i, *row) for i, row in enumerate(rows)], f"id int, {key}, {time}")
    names = asked.columns[1:]
    asked = asked.withColumn(SALT, spread_nulls(["id"], names))
    found = as_of.find_latest(asked, session.createDataFrame(versions, schema), names)
    return [row[as_of.LATEST] for row in found.orderBy("id").collect()]


def test_bounds_nulls_and_unknown_keys(interpreted: SparkSession) -> None:
    versions = [("a", 10), ("a", 20), ("b", 5)]
    asked = {
        ("a", 9): None,
        ("a", 10): 10,
        ("a", 19): 10,
        ("a", 20): 20,
        ("a", 10**6): 20,
        ("b", 5): 5,
        ("b", 4): None,
        ("c", 100): None,
        (None, 100): None,
        ("a", None): None,
        (None, None): None,
    }
    assert latest(interpreted, list(asked), versions, "k string, t int") == list(asked.values())


def test_numbers_that_are_written_in_several_ways_are_one_moment(interpreted: SparkSession) -> None:
    versions = [(1, -0.0), (1, 2.0), (2, NAN), (3, 0.0)]
    asked = [(1, 0.0), (1, -0.0), (1, -1.0), (1, NAN), (2, NAN), (2, 9.0), (3, -0.0)]
    found = latest(interpreted, asked, versions, "k int, t double")
    zero = "-0.0" if interpreted.version < "4.2" else "0.0"
    assert [None if each is None else repr(each) for each in found] == [zero, zero, None, "2.0", "nan", None, "0.0"]


def test_random_timelines_of_all_sizes(interpreted: SparkSession) -> None:
    rng = random.Random(14)
    first = date(2024, 1, 1)
    timelines = {key: sorted(rng.sample(range(3000), size)) for key, size in enumerate([0, 1, 2, 3, 4, 5, 63, 64, 999])}
    versions = [(key, first + timedelta(time)) for key, times in timelines.items() for time in times]
    asked = [(key, rng.randrange(-1, 3001)) for key in timelines for _ in range(120)]
    asked += [(key, time + near) for key, times in timelines.items() for time in times[:40] for near in (-1, 0, 1)]
    expected = []
    for key, time in asked:
        place = bisect_right(timelines[key], time)
        expected.append(first + timedelta(timelines[key][place - 1]) if place else None)
    rows = [(key, first + timedelta(time)) for key, time in asked]
    assert latest(interpreted, rows, versions, "k int, t date") == expected


def test_changed_versions_reach_the_rows_until_the_next_version_and_no_others(interpreted: SparkSession) -> None:
    moments = [(f"{key}{time}", key, time) for key in "abcd" for time in (5, 10, 15, 20, 25, 30, 35)]
    rows = interpreted.createDataFrame(moments, "id string, k string, t int")
    now = [("a", 10), ("a", 20), ("a", 30), ("b", 10), ("b", 30), ("c", 10), ("d", 10)]
    # a: one came between two; b: one between two went; c: the first went, and another is corrected; d: as it was.
    changed = [("a", 20), ("b", 20), ("c", 5), ("c", 10)]
    found = as_of.find_touched(
        rows,
        interpreted.createDataFrame(now, "k string, t int"),
        interpreted.createDataFrame(changed, "k string, t int"),
        lambda frame: frame,
    )
    refer = defaultdict(set)
    for row in found.collect():
        refer[row["k"], row["t"]].add(row["id"])
    touched = {key: refer[key] for key in changed}
    assert touched == {
        ("a", 20): {"a20", "a25"},
        ("b", 20): {"b20", "b25"},
        ("c", 5): {"c5"},
        ("c", 10): {"c10", "c15", "c20", "c25", "c30", "c35"},
    }
    assert not any(key == "d" for key, _ in refer), "rows of a key without changes are left out first"


def test_a_key_with_most_events_and_versions_makes_no_cross_product(interpreted: SparkSession) -> None:
    size = 200_000
    rows = interpreted.range(size).select("id", F.lit("hot").alias("k"), (F.col("id") * 2 + 1).alias("t"))
    versions = interpreted.range(size).select(F.lit("hot").alias("k"), (F.col("id") * 2).alias("t"))
    found = as_of.find_latest(rows.withColumn(SALT, F.lit(0)), versions, ["k", "t"])
    # Each join is by equality with one piece of the timeline, so no join gives more rows than there are events.
    assert found.where(F.col(as_of.LATEST) == F.col("t") - 1).count() == size
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "CartesianProduct" not in plan
    assert "BroadcastNestedLoopJoin" not in plan
    # A piece is as long as there are pieces: what one event meets grows with the root of the versions.
    pieces = as_of.cut_into_pieces(versions, ["k"], "t")
    longest, count = pieces.agg(F.max(F.size("__enrich_times")), F.count("*")).first() or (0, 0)
    assert longest <= 600
    assert count <= 600


@pytest.mark.parametrize(
    "time",
    [
        "timestamp_seconds(id)",
        "if(id = 0, 0, id + 1000000000000)",
        "cast(floor(pow(1.0001, id)) as decimal(38)) + id",
    ],
    ids=["evenly", "all but one together", "ever farther apart"],
)
def test_no_task_sorts_the_times_of_a_key_with_very_many_versions(
    interpreted: SparkSession, monkeypatch: pytest.MonkeyPatch, time: str
) -> None:
    monkeypatch.setattr(as_of, "_TOGETHER", 512)
    size = 100_000
    session = interpreted.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "8")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    versions = session.range(size).select(F.lit("hot").alias("k"), F.expr(time).alias("t"))
    pieces = as_of.cut_into_pieces(versions, ["k"], "t").withColumn("task", F.spark_partition_id())
    times = F.sum(F.size("__enrich_times")).alias("times")
    sorted_by = {row["task"]: row["times"] for row in pieces.groupBy("task").agg(times).collect()}
    assert sum(sorted_by.values()) == size
    assert max(sorted_by.values()) <= size / 4


def test_a_key_that_is_cut_into_ranges_finds_the_same_versions(
    interpreted: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(as_of, "_TOGETHER", 3)
    test_random_timelines_of_all_sizes(interpreted)
    test_numbers_that_are_written_in_several_ways_are_one_moment(interpreted)
