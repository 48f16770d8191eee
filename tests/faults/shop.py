"""One small lake with a job of each kind, changes that every job notices, and what each target must then hold."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from kit.lab import Lab, Row, Rows
from kit.project import CUSTOMERS, hold_nulls

SOAK = bool(os.environ.get("ENRICH_SOAK"))
"""The long version of these tests."""

KEYS = range(6)
TABLES = {
    "consents": {"id": pa.int64(), "ok": pa.bool_()},
    "accounts": {"id": pa.int64(), "email": pa.string()},
    "products": {"id": pa.int64(), "merchant": pa.int64(), "price": pa.int64()},
    "merchants": {"id": pa.int64(), "name": pa.string()},
    "persons": {"id": pa.int64(), "homes": pa.list_(pa.int64())},
    "addresses": {"id": pa.int64(), "city": pa.string()},
    "master": {"id": pa.int64(), "value": pa.string()},
    "orders": {"id": pa.int64(), "amount": pa.int64()},
    "things": {"id": pa.int64(), "name": pa.string(), "size": pa.int64()},
    "sales": {"id": pa.int64(), "shop": pa.int64(), "amount": pa.int64()},
}
JOBS = {
    "customers": CUSTOMERS.removeprefix("job: customers\n").removesuffix("target: {table: customers}\n"),
    "offers": """\
sources:
  products: {table: products, key: id}
  merchants: {table: merchants, key: id}
from: products
join:
  merchants: {kind: foreign_key, on: products.merchant}
select:
  id: products.id
  price: products.price
  merchant: merchants.name
""",
    "homes": """\
sources:
  persons: {table: persons, key: id}
  addresses: {table: addresses, key: id}
from: persons
join:
  addresses: {kind: list, elements: persons.homes}
select:
  id: persons.id
  cities: addresses.city
""",
    "lookup": """\
kind: mirror
sources:
  master: {table: master, key: id}
from: master
mirror: {value: value, conflict: first}
""",
    "checked": """\
sources:
  orders: {table: orders, key: id}
from: orders
select: {id: orders.id, amount: orders.amount}
expectations: checked
""",
    "past": """\
kind: history
sources:
  things: {table: things, key: id}
from: things
history: {columns: [name]}
""",
    "sums": """\
sources:
  sales: {table: sales, key: id}
query: |
  SELECT shop, count(*) AS sales, count(amount) AS known, sum(amount) AS amount, max(amount) AS most
  FROM sales GROUP BY shop
expectations: sums
""",
}
"""Job kind by kind: table join, foreign key, list, mirror, gate with quarantine, history, groups with quarantine."""

PLAIN = """\
sources:
  orders: {table: orders, key: id}
from: orders
select: {id: orders.id, amount: orders.amount}
where: orders.amount IS NOT NULL
"""
"""The job ``plain``, beside the others: it keeps the rows that ``checked`` keeps, and has no quarantine."""

HOLDING = ("checked", "sums")
"""The jobs with a quarantine, of rows without an amount."""

TIMELESS = tuple(job for job in JOBS if job != "past")
"""The jobs whose targets are what their sources are now: they heal where a past is lost for good."""

SOURCES = {
    "customers": ("consents", "accounts"),
    "offers": ("products", "merchants"),
    "homes": ("persons", "addresses"),
    "lookup": ("master",),
    "checked": ("orders",),
    "past": ("things",),
    "sums": ("sales",),
    "plain": ("orders",),
}


def open_shop(lab: Lab, *jobs: str, seed: int = 0) -> Shop:
    """Write sources and jobs, of all kinds or the named ones."""
    for job in HOLDING:
        lab.suite(job, hold_nulls("amount", severity="warning"))
    shop = Shop(lab, seed)
    for job in jobs or JOBS:
        for table in SOURCES[job]:
            if not lab.exists(table):
                lab.table(table, "id", TABLES[table])
        lab.job(f"job: {job}\n{JOBS.get(job, PLAIN)}target: {{table: {job}}}\n")
        shop.change(job)
    return shop


class Shop:
    """A lake, and a clock that makes every change a new one."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab = lab
        self.random = random.Random(seed)
        self.now = 0
        self.quarantined = Counter[str]()
        self.snapshots: dict[tuple[str, int], Rows] = {}

    def row(self, table: str, key: int) -> Row:
        """Return a row that no table has had before."""
        self.now += 1
        pick = self.random.choice
        if table == "sales":
            return {"id": key, "shop": pick([None, 0, 1, 2]), "amount": pick([None, self.now])}
        rows: dict[str, Row] = {
            "consents": {"id": key, "ok": pick([True, False])},
            "accounts": {"id": key, "email": f"mail{self.now}"},
            "products": {"id": key, "merchant": pick([None, *KEYS]), "price": self.now},
            "merchants": {"id": key, "name": f"name{self.now}"},
            "persons": {"id": key, "homes": pick([None, [], [*self.random.choices(KEYS, k=2), self.now]])},
            "addresses": {"id": key, "city": f"city{self.now}"},
            "master": {"id": key, "value": pick([None, "a", "b", f"value{self.now}"])},
            "orders": {"id": key, "amount": pick([None, self.now])},
            "things": {"id": key, "name": pick([None, "a", "b"]), "size": self.now},
        }
        return rows[table]

    def change(self, job: str) -> None:
        """Change the sources of a job: upserts, deletes, and something that its target surely notices."""
        for table in SOURCES[job]:
            keys = self.random.sample(KEYS, 3)
            self.lab.put(table, *[self.row(table, key) for key in keys[:2]])
            self.lab.drop(table, f"id = {keys[2]}")
        sure = {"customers": "accounts", "offers": "products", "homes": "persons", "lookup": "master"}.get(job)
        sure = "things" if job == "past" else sure
        self.now += 1
        if sure == "persons":
            self.lab.put(sure, {"id": 100, "homes": [0] * (self.now % 5 + 1)})
        elif sure == "master":
            self.lab.put(sure, {"id": 100, "value": f"value{self.now}"})
        elif sure == "things":
            self.lab.put(sure, {"id": 100, "name": f"name{self.now}", "size": 0})
        elif sure is not None:
            self.lab.put(sure, {**self.row(sure, 100)})
        else:  # one row comes to the quarantine, another one leaves it
            held = self.quarantined[job] = 1 - self.quarantined[job]  # not by the clock, which other changes move, too
            self.put_amounts(job, {100 + i: None if held == i else self.now for i in range(2)})

    def put_amounts(self, job: str, amounts: dict[int, int | None]) -> None:
        """Give a job with a quarantine rows that stand by themselves."""
        (table,) = SOURCES[job]
        more = [name for name in TABLES[table] if name not in ("id", "amount")]
        rows = [{"id": key, "amount": amount, **dict.fromkeys(more, key)} for key, amount in amounts.items()]
        self.lab.put(table, *rows)

    def expected(self, job: str, versions: dict[str, int] | None = None) -> Rows:
        """Return what a job's target holds, from its sources as they are now or were at ``versions``."""
        at = versions or {}
        if job == "past":
            return in_order(self._past("things", at.get("things")))
        return in_order([row for row in self._view(job, at) if job not in HOLDING or row["amount"] is not None])

    def _view(self, job: str, at: dict[str, int]) -> Rows:
        """Return what a job makes of its sources, whether a rule holds it or not."""
        tables = {t: {row["id"]: row for row in self.lab.rows(t, at.get(t))} for t in SOURCES[job]}
        return _VIEWS[job](*tables.values())

    def _past(self, table: str, last: int | None) -> Rows:
        """Return the versions of a table's rows, from its snapshots one by one."""
        log = sorted(self.lab.log(table), key=lambda entry: int(entry["version"]))
        found: Rows = []
        opened: dict[int, Row] = {}
        at = 0
        for entry in log:
            at = max(int(entry["timestamp"]), at + 1)
            if last is not None and int(entry["version"]) > last:
                break
            place = table, int(entry["version"])
            if place not in self.snapshots:
                self.snapshots[place] = self.lab.rows(*place)
            rows = {row["id"]: row["name"] for row in self.snapshots[place]}
            moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=at)
            for key in [key for key, row in opened.items() if key not in rows or rows[key] != row["name"]]:
                found.append({**opened.pop(key), "valid_to": moment})
            for key in rows.keys() - opened.keys():
                opened[key] = {"id": key, "valid_from": moment, "valid_to": None, "name": rows[key]}
        return [*found, *opened.values()]

    def held(self, job: str, versions: dict[str, int] | None = None) -> Rows:
        """Return what a job's quarantine holds, from its source as it is now or was at its version."""
        return in_order([row for row in self._view(job, versions or {}) if row["amount"] is None])

    def found(self, table: str, version: int | None = None) -> Rows:
        """Return a target's or quarantine's rows, now or at a version, without what the quarantine adds to them."""
        if not self.lab.exists(table):
            return []
        return in_order([{k: v for k, v in row.items() if k[0] != "_"} for row in self.lab.rows(table, version)])

    def assert_current(self, *jobs: str) -> None:
        """Compare targets and quarantine with what they must hold."""
        for job in jobs:
            assert self.found(job) == self.expected(job), job
            if job in HOLDING:
                assert self.found(f"{job}__quarantine") == self.held(job), job


def in_order(rows: Rows) -> Rows:
    """Sort rows as text."""
    return sorted(rows, key=repr)


Table = dict[int, dict[str, Any]]


def _customers(consents: Table, accounts: Table) -> Rows:
    return [
        {"id": key, "email": accounts.get(key, {}).get("email"), "ok": consents.get(key, {}).get("ok")}
        for key in consents.keys() | accounts.keys()
    ]


def _offers(products: Table, merchants: Table) -> Rows:
    return [
        {"id": key, "price": row["price"], "merchant": merchants.get(row["merchant"], {}).get("name")}
        for key, row in products.items()
    ]


def _homes(persons: Table, addresses: Table) -> Rows:
    def cities(homes: list[int] | None) -> list[str | None] | None:
        return None if homes is None else [addresses.get(home, {}).get("city") for home in homes]

    return [{"id": key, "cities": cities(row["homes"])} for key, row in persons.items()]


def _lookup(master: Table) -> Rows:
    first: dict[str, int] = {}
    for key in sorted(master, reverse=True):
        if (value := master[key]["value"]) is not None:
            first[value] = key
    return [{"value": value, "id": key} for value, key in first.items()]


def _checked(orders: Table) -> Rows:
    return [{"id": row["id"], "amount": row["amount"]} for row in orders.values()]


def _sums(sales: Table) -> Rows:
    shops: dict[int, list[int | None]] = {}
    for row in sales.values():
        if row["shop"] is not None:
            shops.setdefault(row["shop"], []).append(row["amount"])
    return [_add_up(shop, len(amounts), [a for a in amounts if a is not None]) for shop, amounts in shops.items()]


def _add_up(shop: int, sales: int, known: list[int]) -> Row:
    whole = {"amount": sum(known) if known else None, "most": max(known, default=None)}
    return {"shop": shop, "sales": sales, "known": len(known), **whole}


_VIEWS: dict[str, Callable[..., Rows]] = {
    "customers": _customers,
    "offers": _offers,
    "homes": _homes,
    "lookup": _lookup,
    "checked": _checked,
    "plain": lambda orders: [row for row in _checked(orders) if row["amount"] is not None],
    "sums": _sums,
}
