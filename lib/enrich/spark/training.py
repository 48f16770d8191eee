"""What the class-data archive is made from: ``python -m enrich.spark.training FILE`` does what a small run does."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from enrich.spark.session import build_session


def train(spark: SparkSession, lake: Path) -> None:
    """Create tables, change them, read changes and snapshots, join them, and merge the result."""
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
    left, right, target = (f"delta.`{lake / name}`" for name in ("left", "right", "target"))
    for name in ("left", "right"):
        rows = spark.range(9).select("id", F.col("id").cast("string").alias("text"), F.array("id").alias("list"))
        rows.write.format("delta").options(**properties).save(str(lake / name))
    for table in (left, right):
        spark.sql(" ".join(["UPDATE", table, "SET text = 'new' WHERE id < 3"]))
        spark.sql(" ".join(["DELETE FROM", table, "WHERE id = 3"]))

    def snapshot(name: str) -> DataFrame:
        return spark.read.format("delta").option("versionAsOf", 1).load(str(lake / name))

    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
    changed = feed.load(str(lake / "left")).groupBy("id").agg(F.max(F.struct("_commit_version", "text")).alias("last"))
    changed = changed.persist()
    changed.count()
    exploded = snapshot("left").withColumn("item", F.explode("list")).join(F.broadcast(changed.select("id")), "id")
    joined = exploded.join(
        snapshot("right").select(F.col("id").alias("item"), F.col("text").alias("other")), "item", "full"
    )
    joined.groupBy("id").agg(F.collect_list(F.struct("item")).alias("items")).localCheckpoint().createOrReplaceTempView(
        "joined"
    )
    create = ["CREATE TABLE", target, "USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"]
    spark.sql(" ".join([*create, "AS SELECT * FROM joined"]))
    merge = ["MERGE INTO", target, "t USING (SELECT * FROM joined LIMIT 4) s ON t.id <=> s.id"]
    merge += ["WHEN MATCHED AND s.id = 1 THEN DELETE WHEN MATCHED AND s.id = 2 THEN UPDATE SET items = s.items"]
    spark.sql(" ".join([*merge, "WHEN NOT MATCHED THEN INSERT *"]))
    spark.sql(" ".join(["SELECT * FROM", target, "ORDER BY id"])).collect()


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
