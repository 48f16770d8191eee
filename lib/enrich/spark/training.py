"""What the class-data archive is made from: ``python -m enrich.spark.training FILE`` does what a small run does."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from enrich.spark.session import build_session


def train(spark: SparkSession, lake: Path) -> None:
    """Create tables, change them, read changes and snapshots, join them, and merge the result."""
    for name in ("left", "right"):
        rows = spark.range(9).select("id", F.col("id").cast("string").alias("text"), F.array("id").alias("list"))
        rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(lake / name))
        table = DeltaTable.forPath(spark, str(lake / name))
        table.update(F.col("id") < 3, {"text": F.lit("new")})
        table.delete(F.col("id") == 3)

    def snapshot(name: str) -> DataFrame:
        return spark.read.format("delta").option("versionAsOf", 1).load(str(lake / name))

    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
    changed = feed.load(str(lake / "left")).groupBy("id").agg(F.max(F.struct("_commit_version", "text")).alias("last"))
    changed = changed.persist()
    changed.count()
    exploded = snapshot("left").withColumn("item", F.explode("list")).join(F.broadcast(changed.select("id")), "id")
    joined = exploded.join(snapshot("right").withColumnRenamed("id", "item").drop("list"), "item", "full")
    joined = joined.groupBy("id").agg(F.collect_list(F.struct("item")).alias("items")).localCheckpoint()
    joined.createOrReplaceTempView("joined")
    properties = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    name = "".join(["delta.`", str(lake / "target"), "`"])
    spark.sql(" ".join(["CREATE TABLE", name, "USING delta", properties, "AS SELECT * FROM joined"]))
    target = DeltaTable.forPath(spark, str(lake / "target"))
    merge = target.alias("t").merge(joined.limit(4).alias("s"), "t.id <=> s.id")
    merge = merge.whenMatchedDelete("s.id = 1").whenMatchedUpdate("s.id = 2", {"items": "s.items"})
    merge.whenNotMatchedInsertAll().execute()
    target.toDF().orderBy("id").collect()


def main(file: str) -> int:
    """Train a JVM that writes its classes to ``file`` when it ends, and wait for that."""
    spark = build_session("local[2]", {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={file}"}, None, 0)
    with tempfile.TemporaryDirectory() as lake:
        train(spark, Path(lake))
    gateway: Any = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
