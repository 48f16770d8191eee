"""The least that a process can do: a session, one feed, one join, one MERGE, written as a script of its own.

    python benchmarks/bare.py LAKE TARGET VERSION JARS [--fit]

``--fit`` takes the session as enrich sets it for tables of this size, with its class-data archive; otherwise the JVM
and Spark have their own defaults.
"""

from __future__ import annotations

import sys

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

TINY = 200_000
"""About the bytes of the tables."""


def open_session(jars: str, *, fit: bool) -> SparkSession:
    """Start Spark with Delta."""
    if fit:
        from enrich.spark.session import build_session

        return build_session("local[*]", {}, None, TINY)
    builder: SparkSession.Builder = SparkSession.builder.master("local[*]").config("spark.driver.extraClassPath", jars)
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    return builder.config(
        "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    ).getOrCreate()


def main(lake: str, target: str, version: str, jars: str, *options: str) -> int:
    """Bring the products that changed from ``version`` on into the target."""
    spark = open_session(jars, fit="--fit" in options)
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version)
    changed = feed.load(f"{lake}/products").where("_change_type IN ('insert', 'update_postimage')")
    names = spark.read.format("delta").load(f"{lake}/merchants")
    names = names.select("merchant_id", F.col("name").alias("merchant_name"))
    columns = ("product_id", "title", "price", "stock", "merchant_id")
    rows = changed.select(*columns).join(names, "merchant_id", "left")
    table = DeltaTable.forPath(spark, f"{lake}/{target}").alias("t")
    merge = table.merge(rows.alias("s"), "t.product_id = s.product_id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
