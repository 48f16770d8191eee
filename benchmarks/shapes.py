"""The kinds of joins that are measured: their tables, their jobs, and the same joins by plain Spark.

All data is made by Spark from row numbers and their hashes: the same rows on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from enrich import Project

Frames = Mapping[str, DataFrame]


@dataclass(frozen=True)
class Site:
    """A project with its lake, at one size.

    Attributes:
        rows: How many products there are; all other sizes follow from it.
    """

    project: Project
    lake: Path
    rows: int
    spark: SparkSession

    def path(self, table: str) -> str:
        """Return where a table is."""
        return str(self.lake / table)

    def read(self, table: str) -> DataFrame:
        """Return a table's rows as they are now."""
        return self.spark.read.format("delta").load(self.path(table))

    def version(self, table: str) -> int:
        """Return a table's version."""
        return DeltaTable(self.path(table)).version()

    def write_source(self, table: str, rows: DataFrame) -> None:
        """Write a source table as another system would, with change feed and deletion vectors."""
        writer = rows.write.format("delta").option("delta.enableChangeDataFeed", "true")
        writer.option("delta.enableDeletionVectors", "true").save(self.path(table))


@dataclass(frozen=True)
class Shape:
    """A kind of join: a job of enrich, and the same written by hand.

    Attributes:
        name: The job and its target.
        sources: The tables; the driving source is the first.
        key: The columns of the target's key.
        columns: The target's columns.
    """

    name: str
    sources: tuple[str, ...]
    key: tuple[str, ...]
    columns: tuple[str, ...]
    job: str

    def write(self, site: Site) -> None:
        """Write the source tables."""
        raise NotImplementedError

    def join(self, now: Frames) -> DataFrame:
        """Return the target's rows."""
        raise NotImplementedError

    def restrict(self, now: Frames, keys: DataFrame) -> Frames:
        """Return the sources with those rows of the driving source alone that have one of the target's keys."""
        driving = self.sources[0]
        return {**now, driving: now[driving].join(keys, [*self.key], "left_semi")}

    def affected(self, feeds: Frames, now: Frames) -> DataFrame:
        """Return the target's keys, each once, whose rows the changes in the feeds may have changed."""
        raise NotImplementedError


def size_of_merchants(rows: int) -> int:
    """Return how many merchants there are; merchant 0 has a tenth of all products."""
    return max(rows // 100, 50)


def number() -> Column:
    """Return the row's number, of which all of its columns are made."""
    return F.col("id")


def pick(seed: int | Column, among: int) -> Column:
    """Return an even choice from 0 to ``among`` - 1 for each row number."""
    return F.pmod(F.xxhash64(number(), F.lit(seed)), F.lit(among))


class Products(Shape):
    """A foreign key: a product names its merchant."""

    def write(self, site: Site) -> None:
        """Write products, 100 bytes a row when joined, in eight files in the order of their keys; and merchants."""
        count = size_of_merchants(site.rows)
        merchant = F.when(pick(0, 10) == 0, 0).otherwise(1 + pick(1, count - 1))
        products = site.spark.range(0, site.rows, 1, 8).select(
            number().alias("product_id"),
            F.concat(F.lit("product "), F.md5(number().cast("string"))).alias("title"),
            (pick(2, 100_000) / 100).alias("price"),
            pick(3, 1000).cast("int").alias("stock"),
            merchant.alias("merchant_id"),
        )
        merchants = site.spark.range(0, count, 1, 1).select(
            number().alias("merchant_id"),
            F.concat(F.lit("merchant number "), number()).alias("name"),
            pick(4, 90).alias("country"),
        )
        site.write_source("products", products)
        site.write_source("merchants", merchants)

    def join(self, now: Frames) -> DataFrame:
        """Give every product its merchant's name."""
        names = now["merchants"].select("merchant_id", F.col("name").alias("merchant_name"))
        return now["products"].join(names, "merchant_id", "left").select(*self.columns)

    def affected(self, feeds: Frames, now: Frames) -> DataFrame:
        """Take the products that changed, and those whose merchant did."""
        merchants = F.broadcast(feeds["merchants"].select("merchant_id").distinct())
        theirs = now["products"].select("product_id", "merchant_id").join(merchants, "merchant_id", "left_semi")
        return feeds["products"].select("product_id").union(theirs.select("product_id")).distinct()


class Persons(Shape):
    """A list: a person has one to eight addresses."""

    def write(self, site: Site) -> None:
        """Write persons, a fifth as many as products, and half as many addresses."""
        persons, addresses = max(site.rows // 5, 100), max(site.rows // 10, 50)
        places = F.sequence(F.lit(1), (1 + pick(0, 8)).cast("int"))
        ids = F.transform(places, lambda place: pick(place, addresses))
        rows = site.spark.range(0, persons, 1, 4).select(
            number().alias("person_id"), F.concat(F.lit("person "), number()).alias("name"), ids.alias("address_ids")
        )
        site.write_source("persons", rows)
        rows = site.spark.range(0, addresses, 1, 2).select(
            number().alias("address_id"), F.concat(F.lit("city "), pick(1, 5000)).alias("city")
        )
        site.write_source("addresses", rows)

    def join(self, now: Frames) -> DataFrame:
        """Explode the lists, look every address up, and put the lists together again, in their order."""
        items = now["persons"].select("person_id", F.posexplode("address_ids").alias("place", "address_id"))
        found = items.join(now["addresses"], "address_id", "left")
        sorted_items = F.array_sort(F.collect_list(F.struct("place", "address_id", "city")))
        lists = found.groupBy("person_id").agg(sorted_items.alias("items"))
        element = lambda item: F.struct(item["address_id"].alias("address_id"), item["city"].alias("city"))  # noqa: E731
        named = now["persons"].select("person_id", "name").join(lists, "person_id", "left")
        return named.select("person_id", "name", F.transform("items", element).alias("addresses"))

    def affected(self, feeds: Frames, now: Frames) -> DataFrame:
        """Take the persons that changed, and those with an address that did."""
        addresses = F.broadcast(feeds["addresses"].select("address_id").distinct())
        items = now["persons"].select("person_id", F.explode("address_ids").alias("address_id"))
        theirs = items.join(addresses, "address_id", "left_semi").select("person_id")
        return feeds["persons"].select("person_id").union(theirs).distinct()


class Accounts(Shape):
    """A table join: account and balance have the same key."""

    def write(self, site: Site) -> None:
        """Write a fifth as many accounts as products, and a balance for most of them."""
        count = max(site.rows // 5, 100)
        rows = site.spark.range(0, count, 1, 4)
        name = F.concat(F.lit("account "), F.md5(number().cast("string")))
        site.write_source("accounts", rows.select(number().alias("account_id"), name.alias("name")))
        amount = (pick(0, 1_000_000) / 100).alias("amount")
        site.write_source("balances", rows.where(pick(1, 10) > 0).select(number().alias("account_id"), amount))

    def join(self, now: Frames) -> DataFrame:
        """Give every account its balance."""
        return now["accounts"].join(now["balances"], "account_id", "left").select(*self.columns)

    def affected(self, feeds: Frames, now: Frames) -> DataFrame:  # noqa: ARG002 - the keys say it all
        """Take the keys that changed on either side."""
        return reduce(DataFrame.union, [feeds[name].select("account_id") for name in self.sources]).distinct()


class Mirror(Shape):
    """A mirror: value -> key."""

    def write(self, site: Site) -> None:
        """Write half as many entries as there are products."""
        rows = site.spark.range(0, max(site.rows // 2, 100), 1, 4)
        value = F.concat(F.lit("value "), F.md5(number().cast("string"))).alias("value")
        site.write_source("master", rows.select(number().alias("key"), value))

    def join(self, now: Frames) -> DataFrame:
        """Exchange value and key."""
        return now["master"].select("value", "key")

    def affected(self, feeds: Frames, now: Frames) -> DataFrame:  # noqa: ARG002 - the values say it all
        """Take the values before and after."""
        return feeds["master"].select("value").distinct()


PRODUCTS = Products(
    "products_with_merchant",
    ("products", "merchants"),
    ("product_id",),
    ("product_id", "title", "price", "stock", "merchant_id", "merchant_name"),
    """\
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
  stock: products.stock
  merchant_id: products.merchant_id
  merchant_name: merchants.name
target: {table: products_with_merchant}
""",
)
PERSONS = Persons(
    "persons_with_addresses",
    ("persons", "addresses"),
    ("person_id",),
    ("person_id", "name", "addresses"),
    """\
job: persons_with_addresses
sources:
  persons: {table: persons, key: person_id}
  addresses: {table: addresses, key: address_id}
from: persons
join:
  addresses: {kind: list, elements: persons.address_ids}
select:
  person_id: persons.person_id
  name: persons.name
  addresses: addresses
target: {table: persons_with_addresses}
""",
)
ACCOUNTS = Accounts(
    "accounts_with_balance",
    ("accounts", "balances"),
    ("account_id",),
    ("account_id", "name", "amount"),
    """\
job: accounts_with_balance
sources:
  accounts: {table: accounts, key: account_id}
  balances: {table: balances, key: account_id}
from: accounts
join:
  balances: {kind: table, how: left}
select:
  account_id: accounts.account_id
  name: accounts.name
  amount: balances.amount
target: {table: accounts_with_balance}
""",
)
MIRROR = Mirror(
    "mirrored",
    ("master",),
    ("value",),
    ("value", "key"),
    """\
job: mirrored
kind: mirror
sources:
  master: {table: master, key: key}
from: master
mirror: {value: value, conflict: fail}
target: {table: mirrored}
""",
)
