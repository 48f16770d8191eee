"""The benchmarks that are not ours: TPC-H, all of whose tables are one wide target, and the MERGE of LHBench.

Scale 1 is TPC-H's scale factor 1, six million lines; LHBench's table has as many rows as there are products.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from shapes import Frames, Shape, Site, number

ROWS_OF_A_FACTOR = 10_000_000
"""Products that there are at scale 1."""

TABLES = {
    "lineitem": ("l_orderkey", "l_linenumber"),
    "orders": ("o_orderkey",),
    "customer": ("c_custkey",),
    "nation": ("n_nationkey",),
    "region": ("r_regionkey",),
    "part": ("p_partkey",),
    "supplier": ("s_suppkey",),
}
"""TPC-H's tables and their keys; partsupp has no part in the target."""

WIDE = {
    **{
        f"l_{name}": "lineitem"
        for name in (
            *("orderkey", "linenumber", "partkey", "suppkey", "quantity", "extendedprice", "discount", "tax"),
            *("returnflag", "linestatus", "shipdate", "commitdate", "receiptdate", "shipinstruct", "shipmode"),
        )
    },
    **{f"o_{name}": "orders" for name in ("custkey", "orderstatus", "orderdate", "orderpriority", "clerk")},
    **{f"c_{name}": "customer" for name in ("name", "nationkey", "phone", "acctbal", "mktsegment")},
    "n_name": "nation",
    "r_name": "region",
    **{f"p_{name}": "part" for name in ("name", "mfgr", "brand", "type", "size", "container")},
    **{f"s_{name}": "supplier" for name in ("name", "nationkey", "phone", "acctbal")},
}
"""The target's columns, but for the nation of the supplier, and the sources that they come from."""


class Lines(Shape):
    """Seven joins, four of them one after another: a line names its order, and so its customer, nation and region."""

    def write(self, site: Site) -> None:
        """Generate the tables, and write them as they are."""
        places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        generator = shutil.which("tpchgen-cli", path=places)
        if generator is None:
            raise SystemExit("tpchgen-cli is not installed: the extra `bench`")
        folder = site.lake.parent / "tpch"
        command = [generator, "parquet", "--scale-factor", f"{site.rows / ROWS_OF_A_FACTOR:g}", "--quiet"]
        subprocess.run([*command, "--tables", ",".join(TABLES), "--output-dir", folder], check=True)
        for name in TABLES:
            site.write_source(f"tpch_{name}", site.spark.read.parquet(str(folder / f"{name}.parquet")))
        shutil.rmtree(folder)

    def join(self, now: Frames) -> DataFrame:
        """Look up all that a line refers to."""
        mine = {name: now[f"tpch_{name}"] for name in TABLES}
        home = mine["nation"].select(F.col("n_nationkey").alias("home"), F.col("n_name").alias("s_nation"))
        steps: tuple[tuple[DataFrame, str, str], ...] = (
            (mine["orders"], "l_orderkey", "o_orderkey"),
            (mine["customer"], "o_custkey", "c_custkey"),
            (mine["nation"], "c_nationkey", "n_nationkey"),
            (mine["region"], "n_regionkey", "r_regionkey"),
            (mine["part"], "l_partkey", "p_partkey"),
            (mine["supplier"], "l_suppkey", "s_suppkey"),
            (home, "s_nationkey", "home"),
        )
        rows = mine["lineitem"]
        for lookup, name, key in steps:
            rows = rows.join(lookup, F.col(name) == F.col(key), "left")
        return rows.select(*self.columns)

    def restrict(self, now: Frames, keys: DataFrame) -> Frames:
        """Return the lines that are wanted, with their orders: the key tells which."""
        orders = F.broadcast(keys.select(F.col("l_orderkey").alias("o_orderkey")).distinct())
        return {
            **super().restrict(now, keys),
            "tpch_orders": now["tpch_orders"].join(orders, "o_orderkey", "left_semi"),
        }

    def affected(self, feeds: Frames, now: Frames) -> DataFrame:
        """Follow every change of a table to the lines that refer to it, over the tables in between."""

        def changed(table: str) -> DataFrame:
            return feeds[f"tpch_{table}"].select(TABLES[table][0])

        def follow(table: str, column: str, found: DataFrame, *key: str) -> DataFrame:
            """Return the keys of the rows that name one of those that were found."""
            found = F.broadcast(found.toDF(column).distinct())
            return now[f"tpch_{table}"].join(found, column, "left_semi").select(*(key or TABLES[table][:1]))

        nations = changed("nation").union(follow("nation", "n_regionkey", changed("region")))
        customers = changed("customer").union(follow("customer", "c_nationkey", nations))
        orders = changed("orders").union(follow("orders", "o_custkey", customers))
        suppliers = changed("supplier").union(follow("supplier", "s_nationkey", changed("nation")))
        lookups = {"l_orderkey": orders, "l_partkey": changed("part"), "l_suppkey": suppliers}
        theirs = [follow("lineitem", column, found, *self.key) for column, found in lookups.items()]
        return reduce(DataFrame.union, theirs, feeds["tpch_lineitem"].select(*self.key)).distinct()


class Merge(Shape):
    """LHBench's table: four columns, of which none is looked up."""

    def write(self, site: Site) -> None:
        """Write as many rows as there are products."""
        site.write_source("lhbench", make_rows(site.spark.range(0, site.rows, 1, 8)))

    def join(self, now: Frames) -> DataFrame:
        """Return the rows as they are."""
        return now["lhbench"].select(*self.columns)

    def affected(self, feeds: Frames, now: Frames) -> DataFrame:  # noqa: ARG002 - the keys say it all
        """Take the keys that changed."""
        return feeds["lhbench"].select("key").distinct()


def make_rows(numbers: DataFrame) -> DataFrame:
    """Return rows as LHBench makes them of their numbers."""
    text = (number() * 91).cast("string").alias("value2")
    return numbers.select(
        number().alias("key"), (number() * 7.1 + 13.4).alias("value"), text, (number() % 1000).alias("part")
    )


def _write_job(columns: Mapping[str, str]) -> str:
    """Return the job whose target has these columns."""
    sources = {name: f"{name}: {{table: tpch_{name}, key: [{', '.join(key)}]}}" for name, key in TABLES.items()}
    sources["home"] = "home: {table: tpch_nation, key: [n_nationkey]}"
    joins = {
        "orders": "lineitem.l_orderkey",
        "customer": "orders.o_custkey",
        "nation": "customer.c_nationkey",
        "region": "nation.n_regionkey",
        "part": "lineitem.l_partkey",
        "supplier": "lineitem.l_suppkey",
        "home": "supplier.s_nationkey",
    }
    lines = ["job: tpch", "sources:", *(f"  {text}" for text in sources.values()), "from: lineitem", "join:"]
    lines += [f"  {name}: {{kind: foreign_key, on: {on}, how: left}}" for name, on in joins.items()]
    lines += ["select:", *(f"  {name}: {source}.{name}" for name, source in columns.items())]
    return "\n".join([*lines, "  s_nation: home.n_name", "target: {table: tpch}", ""])


TPCH = Lines(
    "tpch",
    tuple(f"tpch_{name}" for name in TABLES),
    ("l_orderkey", "l_linenumber"),
    (*WIDE, "s_nation"),
    _write_job(WIDE),
)
MERGE = Merge(
    "merge",
    ("lhbench",),
    ("key",),
    ("key", "value", "value2", "part"),
    """\
job: merge
sources:
  rows: {table: lhbench, key: key}
from: rows
select: {key: rows.key, value: rows.value, value2: rows.value2, part: rows.part}
target: {table: merge}
""",
)
