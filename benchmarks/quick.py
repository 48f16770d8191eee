"""Incremental runs against a plain full rebuild of the same join, in one process: ratios, not seconds.

1,000,000 products refer to 10,000 merchants. The rebuild is the join written out as a data engineer would without
enrich: read both tables, join, overwrite the target. Against it: a run after 0.1 % of the products changed, a run after
one merchant (100 products) changed, and a run after nothing changed. Wall seconds, CPU seconds of this process and its
JVM, and bytes that came into the target's directory are taken for each, several times in turn, after a warm-up.

    make bench-quick
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from costs import CONF, Cost, measured

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOB = """\
job: products_with_merchant
sources:
  products: {table: products, key: product_id}
  merchants: {table: merchants, key: merchant_id}
from: products
join:
  merchants: {kind: foreign_key, on: products.merchant_id, how: left}
select:
  product_id: products.product_id
  title: products.title
  price: products.price
  merchant_id: products.merchant_id
  merchant_name: merchants.name
target: {table: products_with_merchant}
"""


def products(spark: SparkSession, count: int, merchants: int) -> DataFrame:
    """Return the products: id, title, price, merchant."""
    from pyspark.sql import functions as F

    number = F.col("id")
    return spark.range(count).select(
        number.alias("product_id"),
        F.concat(F.lit("product "), number).alias("title"),
        (number % 1000).cast("double").alias("price"),
        (number % merchants).alias("merchant_id"),
    )


def sources(spark: SparkSession, lake: Path, count: int, merchants: int) -> None:
    """Write the two source tables, with change feed, as another system would."""
    from pyspark.sql import functions as F

    names = spark.range(merchants).select(
        F.col("id").alias("merchant_id"), F.concat(F.lit("merchant "), F.col("id")).alias("name")
    )
    for name, rows in {"products": products(spark, count, merchants), "merchants": names}.items():
        writer = rows.repartition(4).write.format("delta").option("delta.enableChangeDataFeed", "true")
        writer.option("delta.enableDeletionVectors", "true").save(str(lake / name))


def change(spark: SparkSession, table: Path, condition: str, column: str, value: str) -> None:
    """Update the rows that meet a condition, as another system would."""
    from delta.tables import DeltaTable
    from pyspark.sql import functions as F

    DeltaTable.forPath(spark, str(table)).update(F.expr(condition), {column: F.expr(value)})


def rebuild(spark: SparkSession, lake: Path) -> None:
    """Join everything and overwrite."""
    left = spark.read.format("delta").load(str(lake / "products")).alias("p")
    right = spark.read.format("delta").load(str(lake / "merchants")).alias("m")
    rows = left.join(right, on="merchant_id", how="left")
    rows = rows.selectExpr("product_id", "title", "price", "merchant_id", "name AS merchant_name")
    rows.write.format("delta").mode("overwrite").save(str(lake / "rebuilt"))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products", type=int, default=1_000_000)
    parser.add_argument("--merchants", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds, after one that is not")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    args = parser.parse_args()

    import enrich
    from enrich.spark.session import get_session

    base = Path(tempfile.mkdtemp(prefix="enrich-bench-"))
    try:
        for folder, name, text in (("jobs", "products_with_merchant.yml", JOB), ("conf", "dev.yml", CONF)):
            (base / folder).mkdir()
            (base / folder / name).write_text(text)
        project = enrich.load_project(base)
        lake = base / "lake"
        spark = get_session(project.settings.spark)
        sources(spark, lake, args.products, args.merchants)

        def run() -> None:
            result = enrich.run(project, spark=spark)
            if result.exit_code:
                raise SystemExit(result.jobs[0].error)

        def cost_of_run() -> Cost:
            return measured(run, lake / "products_with_merchant")[0]

        costs: dict[str, list[Cost]] = {}
        print(f"first run of {args.products:,} rows: {cost_of_run().wall:.1f} s")
        for number in range(args.rounds + 1):
            share = f"product_id % 1000 = {number}"
            change(spark, lake / "products", share, "price", f"price + {number + 1}")
            found = {"0.1 % of products": cost_of_run()}
            change(spark, lake / "merchants", f"merchant_id = {number}", "name", f"concat(name, ' {number}')")
            found["one merchant"] = cost_of_run()
            found["nothing"] = cost_of_run()
            found["full rebuild"] = measured(lambda: rebuild(spark, lake), lake / "rebuilt")[0]
            if number:
                for name, cost in found.items():
                    costs.setdefault(name, []).append(cost)
        report(costs, args.json)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return 0


def report(costs: dict[str, list[Cost]], file: Path | None) -> None:
    """Print medians and their ratio to the rebuild's."""
    medians = {
        name: Cost(
            statistics.median(each.wall for each in found),
            statistics.median(each.cpu for each in found),
            int(statistics.median(each.written for each in found)),
        )
        for name, found in costs.items()
    }
    base = medians["full rebuild"]
    print(f"{'after a change of':20} {'wall s':>8} {'CPU s':>8} {'MB':>8}   ratio to a full rebuild: wall, CPU, bytes")
    rows = {}
    for name, cost in medians.items():
        ratios = (cost.wall / base.wall, cost.cpu / base.cpu, cost.written / max(base.written, 1))
        rows[name] = {**vars(cost), "ratios": ratios}
        shown = ", ".join(f"{ratio:.3f}" for ratio in ratios)
        print(f"{name:20} {cost.wall:8.2f} {cost.cpu:8.2f} {cost.written / 1e6:8.2f}   {shown}")
    if file is not None:
        file.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    sys.exit(main())
