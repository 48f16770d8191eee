"""A small project with a job of every kind, and what happens to its sources in three rounds.

The lakes in this directory are what earlier states of enrich made of the first two rounds. They go on with the third.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kit.lab import Lab
from kit.project import CONF, hold_nulls, suite, write_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AT = pa.timestamp("us", tz="UTC")

JOBS = {
    "consents_with_email": """\
job: consents_with_email
sources:
  consents: {table: consents, key: customer_id}
  accounts: {table: accounts, key: customer_id, normalise: [trim, lower]}
from: consents
join:
  accounts: {kind: table, how: full}
select: {customer_id: key, email: accounts.email, ok: consents.ok}
target: {table: consents_with_email}
expectations: consents_with_email
""",
    "products_with_merchant": """\
job: products_with_merchant
sources:
  products: {table: products, key: product_id}
  merchants: {table: merchants, key: merchant_id}
  countries: {table: countries, key: code}
from: products
join:
  merchants: {kind: foreign_key, on: products.merchant_id, how: full}
  countries: {kind: foreign_key, on: merchants.country, how: left}
select:
  product_id: products.product_id
  title: products.title
  merchant_id: merchants.merchant_id
  merchant: merchants.name
  country: countries.name
target: {table: products_with_merchant}
""",
    "persons_with_addresses": """\
job: persons_with_addresses
sources:
  persons: {table: persons, key: person_id}
  addresses: {table: addresses, key: address_id}
from: persons
join:
  addresses: {kind: list, elements: persons.address_ids}
target: {table: persons_with_addresses}
""",
    "email_mirror": """\
job: email_mirror
kind: mirror
sources:
  accounts: {table: accounts, key: customer_id}
from: accounts
mirror: {value: email, conflict: first}
target: {table: email_mirror}
""",
    "merchants_history": """\
job: merchants_history
kind: history
sources:
  merchants: {table: merchants, key: merchant_id}
from: merchants
target: {table: merchants_history}
""",
    "orders_with_payments": """\
job: orders_with_payments
sources:
  orders: {table: orders, key: order_event_id}
  payments: {table: payments, key: payment_event_id}
from: orders
join:
  payments:
    kind: interval
    on: orders.order_id
    match: order_id
    at: orders.ts
    time: ts
    between: [-1h, 24h]
    how: full
select: {order_event_id: orders.order_event_id, payment_event_id: payments.payment_event_id, amount: payments.amount}
target: {table: orders_with_payments}
""",
    "orders_with_price": """\
job: orders_with_price
sources:
  orders: {table: orders, key: order_event_id}
  prices: {table: prices, key: [order_id, valid_from]}
from: orders
join:
  prices: {kind: as_of, on: orders.order_id, at: orders.ts, valid_from: valid_from, how: left}
select: {order_event_id: orders.order_event_id, price: prices.price}
target: {table: orders_with_price}
""",
    "products_by_merchant": """\
job: products_by_merchant
sources: {p: {table: products, key: product_id}}
query: |
  SELECT merchant_id, count(*) AS products, sum(product_id) AS total, max(title) AS last,
         count(DISTINCT title) AS titles
  FROM p GROUP BY merchant_id
target: {table: products_by_merchant}
""",
    "consents_by_answer": """\
job: consents_by_answer
sources: {c: {table: consents_with_email, key: customer_id}}
query: SELECT ok, count(*) AS customers, min(email) AS first FROM c GROUP BY ok
target: {table: consents_by_answer}
""",
}

GROUPS = ("products_by_merchant", "consents_by_answer")
"""The jobs that came after the first of the lakes: groups of a table, and of what another job gives."""


def at(day: int, hour: int = 0) -> datetime:
    """Return a moment in March 2026."""
    return datetime(2026, 3, day, hour, tzinfo=UTC)


def begin(home: Path, spark: SparkSession) -> Lab:
    """Write the files of the project and the first rows of its sources."""
    files = {f"jobs/{name}.yml": text for name, text in JOBS.items()}
    emails = suite("consents_with_email", hold_nulls("email"))
    write_project(home, {**files, "conf/dev.yml": CONF, "expectations/consents_with_email.json": emails})
    lab = Lab(home, spark)
    text, whole = pa.string(), pa.int64()
    lab.table("consents", "customer_id", {"customer_id": text, "ok": pa.bool_()})
    lab.put("consents", *[{"customer_id": f"c{n}", "ok": n % 2 == 0} for n in range(6)])
    lab.table("accounts", "customer_id", {"customer_id": text, "email": text})
    lab.put("accounts", *[{"customer_id": f"C{n} ", "email": f"{n}@example.com"} for n in (0, 1, 2, 7)])
    lab.table("products", "product_id", {"product_id": whole, "title": text, "merchant_id": text})
    lab.put("products", *[{"product_id": n, "title": f"t{n}", "merchant_id": f"m{n % 3}"} for n in range(8)])
    lab.table("merchants", "merchant_id", {"merchant_id": text, "name": text, "country": text})
    lab.put("merchants", *[{"merchant_id": f"m{n}", "name": f"n{n}", "country": "DE"} for n in (0, 1, 9)])
    lab.table("countries", "code", {"code": text, "name": text})
    lab.put("countries", {"code": "DE", "name": "Germany"})
    lab.table("persons", "person_id", {"person_id": text, "address_ids": pa.list_(whole)})
    lab.put("persons", {"person_id": "p1", "address_ids": [1, 2, 2]}, {"person_id": "p2", "address_ids": None})
    lab.table("addresses", "address_id", {"address_id": whole, "city": text})
    lab.put("addresses", {"address_id": 1, "city": "Ulm"})
    lab.table("orders", "order_event_id", {"order_event_id": text, "order_id": text, "ts": _AT})
    lab.put("orders", *[{"order_event_id": f"e{n}", "order_id": f"o{n % 2}", "ts": at(n)} for n in range(1, 5)])
    lab.table("payments", "payment_event_id", {"payment_event_id": text, "order_id": text, "ts": _AT, "amount": whole})
    lab.put("payments", {"payment_event_id": "y1", "order_id": "o1", "ts": at(1, 5), "amount": 5})
    lab.table("prices", "order_id", {"order_id": text, "valid_from": _AT, "price": whole})
    lab.put("prices", {"order_id": "o0", "valid_from": at(1), "price": 10})
    return lab


def go_on(lab: Lab) -> None:
    """Change every source: rows are updated, inserted and deleted, keys move, held rows heal."""
    lab.put("accounts", {"customer_id": "c3", "email": "3@example.com"}, {"customer_id": "C1 ", "email": None})
    lab.drop("consents", "customer_id = 'c0'")
    lab.put("products", {"product_id": 1, "title": "t1", "merchant_id": "m9"})
    lab.put("merchants", {"merchant_id": "m2", "name": "new", "country": "DE"})
    lab.drop("merchants", "merchant_id = 'm0'")
    lab.put("persons", {"person_id": "p1", "address_ids": [2, 1]})
    lab.put("addresses", {"address_id": 2, "city": "Bonn"})
    lab.put("payments", {"payment_event_id": "y2", "order_id": "o0", "ts": at(2, 3), "amount": 7})
    lab.put("orders", {"order_event_id": "e1", "order_id": "o0", "ts": at(1)})
    lab.append("prices", {"order_id": "o1", "valid_from": at(2), "price": 11})


def go_on_again(lab: Lab) -> None:
    """Change every source once more."""
    lab.put(
        "accounts", {"customer_id": "C1 ", "email": "one@example.com"}, {"customer_id": "c5", "email": "5@example.com"}
    )
    lab.drop("accounts", "customer_id = 'c3'")
    lab.put("merchants", {"merchant_id": "m1", "name": "renamed", "country": "FR"})
    lab.put("countries", {"code": "FR", "name": "France"})
    lab.drop("products", "product_id = 2")
    lab.put("persons", {"person_id": "p3", "address_ids": [1, 3]})
    lab.drop("addresses", "address_id = 1")
    lab.drop("payments", "payment_event_id = 'y1'")
    lab.put("orders", {"order_event_id": "e5", "order_id": "o1", "ts": at(5)})
    lab.append("prices", {"order_id": "o1", "valid_from": at(4), "price": 12})
