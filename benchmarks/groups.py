"""What groups cost that move by their changes: against the rebuild, and against a MERGE of partial sums by hand.

One group has a tenth of all rows; a million groups have one row each. Each round changes rows of both, and the same
counts and sums are kept in three ways, in turning order, in one process. The first round warms up and is not counted. A
fourth job has a greatest and a distinct count, too, for which the source has to be read.

    make bench-groups       # `make bench` puts the figures on its page
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import machine
from costs import measured

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONF = "lake: ./lake\n"
JOB = """\
job: {name}
sources: {{orders: {{table: orders, key: order_id, unique: trusted}}}}
query: |
  SELECT merchant_id, count(*) AS orders, sum(amount) AS revenue, count(amount) AS amounts{more}
  FROM orders
  GROUP BY merchant_id
target: {{table: {name}}}
"""
JOBS = {"moved": "", "with extremes": ", max(day) AS last_day, count(DISTINCT customer_id) AS customers"}


def write_orders(spark: SparkSession, path: str, rows: int) -> None:
    """Write the source: every tenth row is of merchant -1, all others of a merchant of their own."""
    from pyspark.sql import functions as F

    number = F.col("id")
    spark.range(rows).select(
        number.alias("order_id"),
        F.when(number % 10 == 0, -1).otherwise(number).alias("merchant_id"),
        (number % 1000).cast("decimal(10,2)").alias("amount"),
        (number % 365).cast("int").alias("day"),
        (number % 5000).alias("customer_id"),
        F.concat(F.lit("order "), number).alias("remark"),
    ).repartition(4).write.format("delta").option("delta.enableChangeDataFeed", "true").save(path)


def change_orders(spark: SparkSession, path: str, rows: int, count: int) -> None:
    """Give ``count`` rows all over the table another amount."""
    from delta.tables import DeltaTable
    from pyspark.sql import functions as F

    changed = spark.range(count).select((F.col("id") * (rows // count) + F.col("id") % 10).alias("order_id"))
    merge = DeltaTable.forPath(spark, path).alias("t").merge(changed.alias("s"), "t.order_id = s.order_id")
    merge.whenMatchedUpdate(set={"amount": F.col("t.amount") + 1}).execute()


def aggregate_orders(rows: DataFrame) -> DataFrame:
    """Return the groups."""
    from pyspark.sql import functions as F

    sums = F.count("*").alias("orders"), F.sum("amount").alias("revenue"), F.count("amount").alias("amounts")
    return rows.groupBy("merchant_id").agg(*sums)


def rebuild(spark: SparkSession, orders: str, target: str, _version: int) -> None:
    """Write all groups anew."""
    aggregate_orders(spark.read.format("delta").load(orders)).write.format("delta").mode("overwrite").save(target)


def merge_by_hand(spark: SparkSession, orders: str, target: str, version: int) -> None:
    """Merge partial sums of a commit's feed, with nothing that tells whether it was merged before."""
    from delta.tables import DeltaTable
    from pyspark.sql import functions as F

    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version).load(orders)
    sign = F.when(F.col("_change_type").isin("insert", "update_postimage"), 1).otherwise(-1)
    partial = feed.groupBy("merchant_id").agg(
        F.sum(sign).alias("orders"),
        F.sum(sign * F.col("amount")).cast("decimal(20,2)").alias("revenue"),
        F.sum(sign * F.col("amount").isNotNull().cast("int")).alias("amounts"),
    )
    merge = DeltaTable.forPath(spark, target).alias("t").merge(partial.alias("s"), "t.merchant_id = s.merchant_id")
    names = ("orders", "revenue", "amounts")
    merge = merge.whenMatchedDelete("t.orders + s.orders = 0")
    merge = merge.whenMatchedUpdate(set={name: F.col(f"t.{name}") + F.col(f"s.{name}") for name in names})
    merge.whenNotMatchedInsertAll().execute()


def report(costs: dict[str, float], told: dict[str, float], file: Path | None) -> None:
    """Print what each way costs, and write it to a file that ``page.py`` reads."""
    for name, each in costs.items():
        sys.stdout.write(f"{name:14} {each:6.2f} CPU s, {each / costs['rebuild']:.2f} of the rebuild\n")
    if file is not None:
        found = {"machine": machine.describe(), "groups": costs, **told}
        file.write_text(json.dumps(found, indent=2) + "\n")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="1: a million groups of one row")
    parser.add_argument("--changed", type=float, default=0.001, help="the share of the rows that a round changes")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds, after one that is not")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    args = parser.parse_args()

    import enrich
    from enrich.spark.session import get_session

    base = Path(tempfile.mkdtemp(prefix="enrich-bench-"))
    try:
        for folder in ("conf", "jobs", "expectations"):
            (base / folder).mkdir()
        (base / "conf" / "dev.yml").write_text(CONF)
        for name, more in JOBS.items():
            named = name.replace(" ", "_")
            (base / "jobs" / f"{named}.yml").write_text(JOB.format(name=named, more=more))
        project = enrich.load_project(base)
        # Of each ten rows one is of the large group, the first one, too.
        spark, rows = get_session(project.settings.spark), math.ceil(1_000_000 * args.scale / 9 * 10)
        orders, lake = str(base / "lake" / "orders"), base / "lake"
        write_orders(spark, orders, rows)
        enrich.run(project, spark=spark)
        ways = {"rebuild": rebuild, "MERGE by hand": merge_by_hand}
        for name in ways:
            rebuild(spark, orders, str(lake / name.replace(" ", "_")), 0)
        seconds: dict[str, list[float]] = {name: [] for name in (*JOBS, *ways)}
        for number in range(args.rounds + 1):
            change_orders(spark, orders, rows, max(1, int(rows * args.changed)))
            names = list(seconds)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                named = name.replace(" ", "_")

                def step(name: str = name, named: str = named, version: int = number + 1) -> object:
                    if name in ways:
                        return ways[name](spark, orders, str(lake / named), version)
                    return enrich.run(project, [named], spark=spark).exit_code

                cost, found = measured(step, lake)
                if found:
                    raise SystemExit(f"{name}: exit code {found}")
                if number:
                    seconds[name].append(cost.cpu)
        wanted = aggregate_orders(spark.read.format("delta").load(orders))
        for name in ("moved", "with_extremes", "MERGE_by_hand"):
            kept = spark.read.format("delta").load(str(lake / name)).select(*wanted.columns)
            if not wanted.exceptAll(kept).isEmpty():
                raise SystemExit(f"{name}: groups differ")
        told = {"rows": rows, "changed": args.changed, "rounds": args.rounds}
        report({name: round(statistics.median(each), 2) for name, each in seconds.items()}, told, args.json)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
