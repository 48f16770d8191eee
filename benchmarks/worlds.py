"""What happens to the sources between two runs: for each world one change, made as another system would make it.

Every round changes other rows, and leaves as many rows changed as the round before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from delta.tables import DeltaTable
from moments import CLICKS, MANY_CLICKS, MANY_VERSIONS, PAYMENTS
from public import MERGE, ROWS_OF_A_FACTOR, TPCH, make_rows
from pyspark.sql import Column
from pyspark.sql import functions as F
from shapes import ACCOUNTS, MIRROR, PERSONS, PRODUCTS, Shape, Site

import enrich
from enrich.spark.session import get_session

SHAPES = (PRODUCTS, PERSONS, ACCOUNTS, MIRROR, CLICKS, PAYMENTS, TPCH, MERGE)
REBUILT = (PRODUCTS, TPCH, MERGE)
"""The shapes whose targets are also rebuilt, and kept by hand."""

CONF = """\
lake: ./lake
spark:
  master: local[*]
  conf:
    # So that jobs and stages are still there to be counted when a step has ended.
    spark.ui.retainedJobs: 5000
    spark.ui.retainedStages: 5000
    spark.ui.retainedTasks: 2000
"""


@dataclass(frozen=True)
class World:
    """One change, and what is measured after it.

    Attributes:
        name: As ``--only`` names it.
        title: As tables show it.
        change: Changes the sources; the number is that of the round.
        rivals: What is measured beside enrich.
        warms_up: False where another world has the JVM compile the same plans before.
        is_small_too: Whether a tenth of the table is measured as well.
    """

    name: str
    title: str
    shape: Shape
    change: Callable[[Site, int], None]
    rivals: tuple[str, ...] = ("floor",)
    warms_up: bool = True
    is_small_too: bool = False


def name_whole(what: str, shape: Shape) -> str:
    """Return how the ``first`` runs of a shape, or its ``rebuild``, are called among the worlds."""
    return what if shape is PRODUCTS else f"{what}_{shape.name}"


def open_site(base: Path, rows: int, jobs: Mapping[str, str] | None = None, size: int | None = None) -> Site:
    """Write a project, and return it with a session; the first one starts the JVM.

    Args:
        base: A new directory.
        rows: How many products there will be.
        jobs: Job files by the names of their jobs; None for one of each shape.
        size: Bytes of the tables, by which enrich chooses the settings of the JVM; None for those of large tables.
    """
    write_project(base, {shape.name: shape.job for shape in SHAPES} if jobs is None else jobs)
    project = enrich.load_project(base)
    return Site(project, base / "lake", rows, get_session(project.settings.spark, lambda: size))


def write_project(base: Path, jobs: Mapping[str, str]) -> None:
    """Write the files of a project."""
    for folder in ("jobs", "conf"):
        (base / folder).mkdir(parents=True)
    (base / "conf" / "dev.yml").write_text(CONF)
    for name, text in jobs.items():
        (base / "jobs" / f"{name}.yml").write_text(text)


def _update(site: Site, table: str, condition: Column, **values: Column) -> None:
    """Update the rows of a source that meet a condition."""
    DeltaTable.forPath(site.spark, site.path(table)).update(condition, dict(values))


def _every(column: str, step: int, number: int) -> Column:
    """Choose every so-many-th key, other ones each round."""
    return F.pmod(F.col(column), F.lit(max(step, 1))) == number % max(step, 1)


def _newest(site: Site) -> Column:
    """Choose the newest two per cent of the products."""
    return F.col("product_id") >= site.rows - site.rows // 50


def _raise_prices(site: Site, condition: Column) -> None:
    _update(site, "products", condition, price=F.col("price") + 1)


def _rename_merchants(site: Site, first: int, count: int, number: int) -> None:
    """Give merchants another name, which all of their products show."""
    name = F.concat(F.lit("merchant number "), "merchant_id", F.lit(f", {number}"))
    _update(site, "merchants", F.col("merchant_id").between(first, first + count - 1), name=name)


def _change_near(site: Site, number: int) -> None:
    _raise_prices(site, _newest(site) & _every("product_id", 20, number))
    _rename_merchants(site, 1 + number % 2 * 10, 10, number)


def _change_far(site: Site, number: int) -> None:
    _raise_prices(site, _every("product_id", 1000, number))
    _rename_merchants(site, 21 + number % 2 * 10, 10, number)


def _change_one(site: Site, number: int) -> None:
    _raise_prices(site, F.col("product_id") == 17 + number)


def _change_nothing(site: Site, number: int) -> None:
    """Leave everything as it is."""


def _delete(site: Site, number: int) -> None:
    DeltaTable.forPath(site.spark, site.path("products")).delete(_every("product_id", 1000, 500 + number))


def _change_tenth(site: Site, number: int) -> None:
    _raise_prices(site, _every("product_id", 10, number))


def _change_thousand_near(site: Site, number: int) -> None:
    _raise_prices(site, _newest(site) & _every("product_id", site.rows // 50_000, number))


def _change_thousand_far(site: Site, number: int) -> None:
    _raise_prices(site, _every("product_id", site.rows // 1000, number))


def _rename_largest(site: Site, number: int) -> None:
    _rename_merchants(site, 0, 1, number)


def _change_persons(site: Site, number: int) -> None:
    """Turn the lists of 0.1 % of the persons round, and let ten addresses move."""
    _update(site, "persons", _every("person_id", 1000, number), address_ids=F.reverse("address_ids"))
    city = F.concat(F.lit("new city "), F.lit(str(number)))
    _update(site, "addresses", F.col("address_id").between(number * 10, number * 10 + 9), city=city)


def _change_balances(site: Site, number: int) -> None:
    _update(site, "balances", _every("account_id", 1000, number), amount=F.col("amount") + 1)


def _change_master(site: Site, number: int) -> None:
    """Give 0.1 % of the keys another value: as many values appear as disappear."""
    value = F.concat(F.lit("value "), F.md5(F.concat_ws("-", "key", F.lit(str(number)))))
    _update(site, "master", _every("key", 1000, number), value=value)


def _change_versions(site: Site, condition: Column, number: int) -> None:
    """Give versions another e-mail."""
    _update(site, "versions", condition, email=F.concat(F.lit(f"{number}."), "email"))


def _change_some_versions(site: Site, number: int) -> None:
    """Change 0.1 % of the versions, of as many accounts."""
    by_time = F.pmod(F.xxhash64("account_id", "valid_from"), F.lit(1000)) == number % 1000
    _change_versions(site, by_time & (F.col("account_id") != MANY_VERSIONS), number)


def _change_busy_account(site: Site, number: int) -> None:
    """Change one version in the middle of the account that has a fifth of all clicks."""
    times = site.read("versions").where(F.col("account_id") == MANY_CLICKS)
    found = times.agg(F.percentile_approx(F.unix_micros("valid_from"), 0.5)).first()
    assert found is not None
    middle = F.timestamp_micros(F.lit(found[0]))
    _change_versions(site, (F.col("account_id") == MANY_CLICKS) & (F.col("valid_from") == middle), number)


def _change_long_history(site: Site, number: int) -> None:
    """Change 0.1 % of the versions of the account that has a fifth of all."""
    by_time = F.pmod(F.xxhash64("valid_from"), F.lit(1000)) == number % 1000
    _change_versions(site, by_time & (F.col("account_id") == MANY_VERSIONS), number)


def _change_payments(site: Site, number: int) -> None:
    """Let 0.1 % of the payments be six hours later."""
    _update(site, "payments", _every("payment_id", 1000, number), paid_at=F.col("paid_at") + F.expr("INTERVAL 6 HOURS"))


def _change_alone(site: Site, number: int) -> None:
    _raise_prices(site, _every("product_id", 1000, 300 + number))


# --- TPC-H: choices by hash, for the benchmark's own keys of a refresh are neighbours ----------


def _choose(number: int, *columns: str) -> Column:
    """Choose 0.1 % of the keys, other ones each round."""
    return F.pmod(F.xxhash64(*columns), F.lit(1000)) == number


def _insert_orders(site: Site, number: int) -> None:
    """Insert 0.1 % new orders with their lines, under keys that TPC-H leaves free for its refresh function 1."""
    for table, key in (("tpch_orders", "o_orderkey"), ("tpch_lineitem", "l_orderkey")):
        rows = site.read(table).where(_choose(number, key) & (F.col(key) % 32 < 8)).withColumn(key, F.col(key) + 8)
        rows.write.format("delta").mode("append").save(site.path(table))


def _delete_orders(site: Site, number: int) -> None:
    """Delete 0.1 % of the orders with their lines, as TPC-H's refresh function 2."""
    for table, key in (("tpch_lineitem", "l_orderkey"), ("tpch_orders", "o_orderkey")):
        DeltaTable.forPath(site.spark, site.path(table)).delete(_choose(500 + number, key))


def _change_lines(site: Site, number: int) -> None:
    chosen = _choose(number, "l_orderkey", "l_linenumber")
    _update(site, "tpch_lineitem", chosen, l_tax=F.col("l_tax") + F.lit("0.01").cast("decimal(15,2)"))


def _change_ten(table: str, key: str, least: int, column: str) -> Callable[[Site, int], None]:
    """Return a change of ten keys that are far apart, of which there are at least so many at scale 1."""

    def change(site: Site, number: int) -> None:
        step = max(least * site.rows // ROWS_OF_A_FACTOR // 10, 3)
        value = F.concat(F.col(column), F.lit(f", {number}"))  # of the customers, a third has no orders
        _update(site, table, F.pmod(F.col(key), F.lit(step)) == (3 * number + 1) % step, **{column: value})

    return change


def _change_line(site: Site, number: int) -> None:
    """Change the first line after a key."""
    after = site.read("tpch_lineitem").where(F.col("l_orderkey") > 3200 * number)
    found = after.orderBy("l_orderkey", "l_linenumber").first()
    assert found is not None
    one = (F.col("l_orderkey") == found.l_orderkey) & (F.col("l_linenumber") == found.l_linenumber)
    _update(site, "tpch_lineitem", one, l_quantity=F.col("l_quantity") + F.lit(1).cast("decimal(15,2)"))


def _rename_nation(site: Site, number: int) -> None:
    name = F.concat(F.col("n_name"), F.lit(f", {number}"))
    _update(site, "tpch_nation", F.col("n_nationkey") == number % 25, n_name=name)


# --- LHBench ----------------------------------------------------------------------------------------------------------


def change_share(share: float) -> Callable[[Site, int], None]:
    """Return a change of this share of the rows: half of them scattered and updated, half new ones at the end."""

    def change(site: Site, number: int) -> None:
        count = max(round(site.rows * share), 1)
        updated, found = max(count // 2, 1), site.read("lhbench").agg(F.max("key")).first()
        assert found is not None
        chosen = _every("key", site.rows // updated, 7 * number) & (F.col("key") < site.rows)
        _update(site, "lhbench", chosen, value=F.col("value") + 1)
        if count > updated:
            new = site.spark.range(found[0] + 1, found[0] + 1 + count - updated, 1, 1)
            make_rows(new).write.format("delta").mode("append").save(site.path("lhbench"))

    return change


BY_HAND = ("hand", "hand_dv", "floor")
WITH_VECTORS = ("hand_dv", "floor")
PERCENTS = ("0.0001", "0.001", "0.01", "0.1")
"""Shares of LHBench's rows."""

WORLDS = (
    World("near", "local 0.1 % of the products, 10 merchants", PRODUCTS, _change_near, BY_HAND),
    World("far", "scattered 0.1 % of the products, 10 merchants", PRODUCTS, _change_far, BY_HAND, warms_up=False),
    World("alone", "scattered 0.1 % of the products alone", PRODUCTS, _change_alone, BY_HAND, warms_up=False),
    World("one", "one product", PRODUCTS, _change_one, BY_HAND),
    World("nothing", "nothing", PRODUCTS, _change_nothing, (), warms_up=False),
    World("deletes", "0.1 % of the products deleted", PRODUCTS, _delete),
    World("largest", "one merchant with a tenth of all products", PRODUCTS, _rename_largest, ("update",)),
    World("tenth", "a tenth of the products", PRODUCTS, _change_tenth, (), warms_up=False),
    World("thousand_near", "1,000 local products", PRODUCTS, _change_thousand_near, (), False, True),
    World("thousand_far", "1,000 scattered products", PRODUCTS, _change_thousand_far, (), False, True),
    World("persons", "lists: 0.1 % of the persons, 10 addresses", PERSONS, _change_persons),
    World("accounts", "equal keys: 0.1 % of the balances", ACCOUNTS, _change_balances),
    World("mirror", "mirror: 0.1 % of the values", MIRROR, _change_master),
    World("versions", "as of: 0.1 % of the versions", CLICKS, _change_some_versions),
    World("busy", "as of: a version of the account with a fifth of all clicks", CLICKS, _change_busy_account),
    World("long", "as of: versions of the account with a fifth of all", CLICKS, _change_long_history),
    World("payments", "interval: 0.1 % of the payments", PAYMENTS, _change_payments),
    World("rf1", "TPC-H: 0.1 % new orders with their lines", TPCH, _insert_orders, WITH_VECTORS),
    World("rf2", "TPC-H: 0.1 % of the orders deleted with their lines", TPCH, _delete_orders, WITH_VECTORS),
    World("lines", "TPC-H: 0.1 % of the lines", TPCH, _change_lines, WITH_VECTORS),
    World("line", "TPC-H: one line", TPCH, _change_line, WITH_VECTORS),
    World(
        *("customers", "TPC-H: ten customers", TPCH),
        *(_change_ten("tpch_customer", "c_custkey", 150_000, "c_phone"), WITH_VECTORS),
    ),
    World(
        *("suppliers", "TPC-H: ten suppliers", TPCH),
        *(_change_ten("tpch_supplier", "s_suppkey", 10_000, "s_phone"), WITH_VECTORS),
    ),
    World(
        *("parts", "TPC-H: ten parts", TPCH),
        *(_change_ten("tpch_part", "p_partkey", 200_000, "p_name"), WITH_VECTORS),
    ),
    World("nation", "TPC-H: one nation renamed, 8 % of the lines", TPCH, _rename_nation, WITH_VECTORS),
    *(
        World(
            *(f"merge_{percent}", f"LHBench: {percent} % of the rows", MERGE),
            *(change_share(float(percent) / 100), WITH_VECTORS, True, True),
        )
        for percent in PERCENTS
    ),
)
"""In the order of a round: a rival's target follows until the first world in which it has no part."""
