"""What enrich is measured against: the same targets kept right by hand, as a good engineer would write it.

Each rival has targets of its own in the lake; every round begins with equal rows in all of them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from shapes import Frames, Shape, Site

import enrich
from enrich.base.spec import FILE, OPERATION, PLACE, ROW
from enrich.delta import positions, reads, sink, tables

BROADCAST = 100_000
"""Up to so many changed rows are sent to every task; nobody would send more."""


def name_target(rival: str, shape: Shape) -> str:
    """Return a rival's table; a plain UPDATE is a floor, too, and keeps the same table."""
    if rival == "enrich":
        return shape.name
    return f"{'floor' if rival == 'update' else rival}_{shape.name}"


def read_sources(site: Site, shape: Shape) -> Frames:
    """Return the sources as they are now."""
    return {name: site.read(name) for name in shape.sources}


# --- (a) a full rebuild by plain Spark -------------------------------------------------------------------------------


def rebuild(site: Site, shape: Shape) -> None:
    """Read everything, join, overwrite."""
    rows = shape.join(read_sources(site, shape))
    rows.write.format("delta").mode("overwrite").save(site.path(name_target("rebuild", shape)))


def run_enrich(site: Site, shape: Shape) -> None:
    """Let enrich bring its target up to date."""
    result = enrich.run(site.project, [shape.name], spark=site.spark)
    if result.exit_code:
        raise SystemExit(f"enrich: {result.jobs[0].error or result.to_dict()}")


# --- (b) change feed and MERGE, as Delta's documentation shows them ---------------------------------------------------


def read_versions(site: Site, shape: Shape) -> dict[str, int]:
    """Return the versions of the sources."""
    return {name: site.version(name) for name in shape.sources}


def read_feed(site: Site, table: str, before: int) -> DataFrame:
    """Return the changes of a source after a version; none where it has not moved."""
    now = site.version(table)
    if now == before:
        return site.read(table).limit(0)
    feed = site.spark.read.format("delta").option("readChangeFeed", "true")
    return feed.option("startingVersion", before + 1).option("endingVersion", now).load(site.path(table))


@contextmanager
def compute_changes(site: Site, shape: Shape, before: Mapping[str, int]) -> Iterator[DataFrame]:
    """Yield each affected key with its new row; ``gone`` where it has none any more."""
    now = read_sources(site, shape)
    feeds = {name: read_feed(site, name, before[name]) for name in shape.sources}
    keys = shape.affected(feeds, now).persist()
    rows = shape.join(shape.restrict(now, F.broadcast(keys))).withColumn("here", F.lit(True))
    try:
        yield keys.join(rows, [*shape.key], "left").withColumn("gone", F.col("here").isNull()).drop("here")
    finally:
        keys.unpersist()


def merge_by_hand(site: Site, shape: Shape, target: str, before: Mapping[str, int]) -> None:
    """Read the feeds, compute the affected rows, MERGE them: update, insert, delete."""
    values = {name: f"s.{name}" for name in shape.columns}
    with compute_changes(site, shape, before) as rows:
        merge = _begin_merge(site, shape, target, rows)
        merge = merge.whenMatchedDelete("s.gone").whenMatchedUpdate(set=dict(values))
        merge.whenNotMatchedInsert("NOT s.gone", values=dict(values)).execute()


def _begin_merge(site: Site, shape: Shape, target: str, rows: DataFrame) -> DeltaMergeBuilder:
    table = DeltaTable.forPath(site.spark, site.path(target)).alias("t")
    return table.merge(rows.alias("s"), " AND ".join(f"t.{name} = s.{name}" for name in shape.key))


# --- (c) the floor: one write of rows that are ready -----------------------------------------------------------------


@dataclass(frozen=True)
class Ready:
    """The rows that a write needs, as a parquet file holds them.

    Attributes:
        path: The file: the target's columns and ``OPERATION``, which is ``U``, ``I`` or ``D``.
        ops: How many rows of each there are.
        places: The file with the places of the rows that go or are replaced; None where a MERGE is cheaper, for the
            target is small.
        version: The target's version in which the places are valid.
    """

    path: str
    ops: Mapping[str, int]
    places: str | None
    version: int


def make_ready(site: Site, shape: Shape, before: Mapping[str, int]) -> Ready:
    """Compute the rows that the floor will write, and find the places of the old ones."""
    target, path, places = (
        site.path(name_target("floor", shape)),
        site.path("ready.parquet"),
        site.path("places.parquet"),
    )
    version, key = tables.open_log(target).version(), [*shape.key]
    known = reads.read_snapshot(site.spark, target, version, key, places=True)
    op = F.when(~F.col("gone"), F.when(F.col(PLACE).isNotNull(), "U").otherwise("I")).when(
        F.col(PLACE).isNotNull(), "D"
    )
    with compute_changes(site, shape, before) as changes:
        rows = changes.join(known, key, "left").withColumn(OPERATION, op).where(F.col(OPERATION).isNotNull()).persist()
        rows.select(*shape.columns, OPERATION).coalesce(2).write.mode("overwrite").parquet(path)
        rows.where(f"{OPERATION} <> 'I'").select(f"{PLACE}.*").coalesce(2).write.mode("overwrite").parquet(places)
        rows.unpersist()
    found = site.spark.read.parquet(path).groupBy(OPERATION).count().collect()
    wanted = sink.wants_places(tables.read_state(target))
    return Ready(path, {row[OPERATION]: row["count"] for row in found}, places if wanted else None, version)


def write_ready(site: Site, shape: Shape, ready: Ready) -> None:
    """Bring ready rows into the target by one commit: an append, by position, or a MERGE of the clauses needed."""
    target, kinds = name_target("floor", shape), set(ready.ops)
    rows = site.spark.read.parquet(ready.path)
    if not kinds:
        return
    if kinds == {"I"}:
        rows.drop(OPERATION).write.format("delta").mode("append").save(site.path(target))
    elif ready.places is not None:
        replaced = sum(ready.ops.get(letter, 0) for letter in "UD")
        old = site.spark.read.parquet(ready.places).select(FILE, ROW)
        changed = sink.Changed(rows, {}, False, ready.ops, old=old, replaced=replaced)
        table = positions.open_table(site.spark, site.path(target), ready.version, changed)
        if isinstance(table, str):
            raise SystemExit(f"{target} cannot be written by position: {table}")
        positions.write_by_position(site.spark, target, table, changed)
    else:
        _merge_ready(site, shape, rows, ready)


def _merge_ready(site: Site, shape: Shape, rows: DataFrame, ready: Ready) -> None:
    kinds, values = set(ready.ops), {name: f"s.{name}" for name in shape.columns}
    with sink.hold_settings(site.spark, {"spark.databricks.delta.merge.materializeSource": "none"}):
        staged = F.broadcast(rows) if sum(ready.ops.values()) <= BROADCAST else rows
        merge = _begin_merge(site, shape, name_target("floor", shape), staged)
        if "D" in kinds:
            merge = merge.whenMatchedDelete(f"s.{OPERATION} = 'D'" if "U" in kinds else None)
        if "U" in kinds:
            merge = merge.whenMatchedUpdate(set=dict(values))
        if "I" in kinds:
            merge = merge.whenNotMatchedInsert(values=dict(values))
        merge.execute()


# --- (d) a plain UPDATE ----------------------------------------------------------------------------------------------


def update_products(site: Site, shape: Shape) -> None:
    """Bring the name of merchant 0 to all of its products."""
    name = site.read("merchants").where("merchant_id = 0").first()
    assert name is not None
    target = DeltaTable.forPath(site.spark, site.path(name_target("update", shape)))
    target.update(F.col("merchant_id") == 0, {"merchant_name": F.lit(name["name"])})


# --- equal targets ---------------------------------------------------------------------------------------------------


def copy_target(site: Site, shape: Shape, rival: str) -> None:
    """Give a rival a table to begin with: the floor that of enrich, with all of its history, others the rebuilt one.

    Data files are never changed, so that links to them will do.
    """
    original = "enrich" if rival == "floor" else "rebuild"
    source, copy = (Path(site.path(name_target(name, shape))) for name in (original, rival))
    remove_target(site, shape, rival)
    shutil.copytree(source, copy, copy_function=_link_data)
    if rival == "hand_dv":
        statement = "ALTER TABLE delta.`{}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        site.spark.sql(statement.format(copy))
    site.read(copy.name).count()  # Delta keeps what it has read of a log; enrich's has been read, too


def remove_target(site: Site, shape: Shape, rival: str) -> Path:
    """Remove a target, and what Delta keeps in memory of it; return its directory."""
    folder = Path(site.path(name_target(rival, shape)))
    shutil.rmtree(folder, ignore_errors=True)
    jvm: Any = site.spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(str(folder))
    jvm.org.apache.spark.sql.delta.DeltaLog.invalidateCache(site.spark._jsparkSession, path)
    return folder


def _link_data(source: str, copy: str) -> None:
    if "_delta_log" in source or not source.endswith(".parquet"):
        shutil.copy2(source, copy)
    else:
        os.link(source, copy)


def fingerprint(rows: DataFrame, shape: Shape) -> tuple[int, int]:
    """Return how many rows there are, and the sum of their hashes."""
    number = F.xxhash64(*shape.columns).cast("decimal(20,0)")
    found = rows.agg(F.count("*"), F.sum(number)).first()
    assert found is not None
    return int(found[0]), int(found[1] or 0)


def check_targets(site: Site, shape: Shape, rivals: tuple[str, ...]) -> None:
    """End the benchmark unless the targets of all rivals are what the sources say."""
    right = fingerprint(shape.join(read_sources(site, shape)), shape)
    for rival in rivals:
        target = name_target(rival, shape)
        found = fingerprint(site.read(target), shape)
        if found != right:
            raise SystemExit(
                f"WRONG: {target} has {found[0]:,} rows, hash {found[1]}; right are {right[0]:,}, {right[1]}"
            )
