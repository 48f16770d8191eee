"""The joins in time that are measured: clicks with the version that was valid then, payments near their orders.

One account has a fifth of all clicks, another one a fifth of all versions and a twentieth of the clicks: at scale 1 a
million clicks, and a million versions with 200,000 clicks.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from shapes import Frames, Shape, Site, number, pick

YEAR = 365 * 86_400
"""Seconds over which the times are spread."""
MANY_CLICKS, MANY_VERSIONS = 0, 1
"""The accounts with a fifth of all clicks, and with a fifth of all versions."""


def _at(seconds: Column) -> Column:
    return F.timestamp_seconds(F.lit(1_735_689_600) + seconds)


class Clicks(Shape):
    """An as-of join: a click with the version of its account that was valid then."""

    def write(self, site: Site) -> None:
        """Write half as many clicks and versions as there are products; an account has some 20 versions."""
        clicks = max(site.rows // 2, 500)
        accounts = max(site.rows // 50, 20)
        account = F.when(pick(0, 5) == 0, MANY_CLICKS).when(pick(4, 20) == 0, MANY_VERSIONS)
        account = account.otherwise(pick(1, accounts))
        rows = site.spark.range(0, clicks, 1, 8).select(
            number().alias("click_id"), account.alias("account_id"), _at(pick(2, YEAR)).alias("clicked_at")
        )
        site.write_source("clicks", rows)
        # An account's versions are as far apart as it has few; no two of them begin at the same time.
        few, many = clicks * 4 // 5, clicks // 5
        of_few = site.spark.range(0, few, 1, 8).select(
            number(), F.pmod(number(), F.lit(accounts)).alias("account_id"), F.floor(number() / accounts).alias("turn")
        )
        since = F.col("turn") * (YEAR // (few // accounts + 1)) + pick(3, 3600)
        of_few = of_few.where(F.col("account_id") != MANY_VERSIONS).select("account_id", _at(since).alias("valid_from"))
        of_many = site.spark.range(0, many, 1, 2).select(
            F.lit(MANY_VERSIONS).cast("long").alias("account_id"),
            F.timestamp_micros(F.lit(1_735_689_600_000_000) + number() * (YEAR * 1_000_000 // many)).alias(
                "valid_from"
            ),
        )
        email = F.concat(F.md5(F.concat_ws("-", "account_id", "valid_from")), F.lit("@example.com")).alias("email")
        site.write_source("versions", of_few.union(of_many).select("account_id", "valid_from", email))

    def join(self, now: Frames) -> DataFrame:
        """Give every click the e-mail of the last version before it."""
        return self._match(now["clicks"], now["versions"]).select(*self.columns)

    def affected(self, feeds: Frames, now: Frames) -> DataFrame:
        """Take the clicks that changed, and those whose version did."""
        versions = F.broadcast(feeds["versions"].select("account_id", F.col("valid_from").alias("since")).distinct())
        accounts = versions.select("account_id").distinct()
        mine = {name: now[name].join(accounts, "account_id", "left_semi") for name in self.sources}
        matched = self._match(mine["clicks"], mine["versions"]).join(versions, ["account_id", "since"], "left_semi")
        return feeds["clicks"].select("click_id").union(matched.select("click_id")).distinct()

    @staticmethod
    def _match(clicks: DataFrame, versions: DataFrame) -> DataFrame:
        """Sort versions and clicks of each account by time; a click takes the last version above it."""
        version = F.struct(F.col("valid_from").alias("since"), "email")
        both = clicks.withColumns(
            {"at": F.col("clicked_at"), "version": F.lit(None).cast("struct<since:timestamp,email:string>")}
        )
        theirs = versions.select(
            F.lit(None).alias("click_id"), "account_id", F.col("valid_from").alias("at"), version.alias("version")
        )
        both = both.unionByName(theirs, allowMissingColumns=True)
        before = Window.partitionBy("account_id").orderBy("at", F.col("click_id").isNotNull())
        found = both.withColumn("version", F.last("version", ignorenulls=True).over(before))
        return found.where("click_id IS NOT NULL").select(
            "click_id", "account_id", "clicked_at", "version.since", "version.email"
        )


class Payments(Shape):
    """An interval join: payments up to an hour before their order and a day after it."""

    def write(self, site: Site) -> None:
        """Write a fifth as many orders as products, and a payment for each, most of them within the interval."""
        rows = site.spark.range(0, max(site.rows // 5, 100), 1, 4)
        ordered = pick(0, YEAR)
        site.write_source("orders", rows.select(number().alias("order_id"), _at(ordered).alias("ordered_at")))
        payments = rows.select(
            number().alias("payment_id"),
            number().alias("paid_order"),
            _at(ordered + pick(1, 100_000) - 3600).alias("paid_at"),
            (pick(2, 1_000_000) / 100).alias("amount"),
        )
        site.write_source("payments", payments)

    def join(self, now: Frames) -> DataFrame:
        """Give every payment its order, where that is near enough."""
        orders, payments = now["orders"], now["payments"]
        apart = F.unix_micros("paid_at") - F.unix_micros("ordered_at")
        paired = payments.join(orders, F.col("paid_order") == F.col("order_id"))
        return paired.where(apart.between(-3_600_000_000, 86_400_000_000)).select(*self.columns)

    def restrict(self, now: Frames, keys: DataFrame) -> Frames:
        """Return the payments that are wanted, with all orders."""
        return {**now, "payments": now["payments"].join(keys, [*self.key], "left_semi")}

    def affected(self, feeds: Frames, now: Frames) -> DataFrame:
        """Take the payments that changed, and those of orders that did."""
        orders = F.broadcast(feeds["orders"].select(F.col("order_id").alias("paid_order")).distinct())
        theirs = now["payments"].join(orders, "paid_order", "left_semi").select("payment_id")
        return feeds["payments"].select("payment_id").union(theirs).distinct()


CLICKS = Clicks(
    "clicks_with_account",
    ("clicks", "versions"),
    ("click_id",),
    ("click_id", "account_id", "clicked_at", "email"),
    """\
job: clicks_with_account
sources:
  clicks: {table: clicks, key: click_id}
  accounts: {table: versions, key: [account_id, valid_from]}
from: clicks
join:
  accounts: {kind: as_of, on: clicks.account_id, at: clicks.clicked_at, valid_from: valid_from}
select:
  click_id: clicks.click_id
  account_id: clicks.account_id
  clicked_at: clicks.clicked_at
  email: accounts.email
target: {table: clicks_with_account}
""",
)
PAYMENTS = Payments(
    "payments_of_orders",
    ("orders", "payments"),
    ("payment_id",),
    ("payment_id", "order_id", "ordered_at", "paid_at", "amount"),
    """\
job: payments_of_orders
sources:
  orders: {table: orders, key: order_id}
  payments: {table: payments, key: payment_id}
from: orders
join:
  payments:
    kind: interval
    on: orders.order_id
    match: paid_order
    at: orders.ordered_at
    time: paid_at
    between: [-1h, 24h]
    how: inner
select:
  payment_id: payments.payment_id
  order_id: orders.order_id
  ordered_at: orders.ordered_at
  paid_at: payments.paid_at
  amount: payments.amount
target: {table: payments_of_orders}
""",
)
