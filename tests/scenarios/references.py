"""A lake with a row for each reason of `enrich why`, and jobs of every kind over it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable

from kit.lab import FEED
from kit.project import hold_nulls

if TYPE_CHECKING:
    from enrich import Why
    from enrich.answers.reasons import FailingRows, RuleCauses
    from kit.lab import Lab

WIDE = """\
job: wide
sources:
  products: {table: products, key: id}
  merchants: {table: merchants, key: id}
  countries: {table: countries, key: code}
  tags: {table: tags, key: id}
from: products
join:
  merchants: {kind: foreign_key, on: products.merchant}
  countries: {kind: foreign_key, on: merchants.country}
  tags: {kind: list, elements: products.tags}
select:
  id: products.id
  title: products.title
  merchant: merchants.name
  country: countries.name
  tags: tags
where: products.price > 0
target: {table: wide}
expectations: wide
"""
PAIRS = """\
job: pairs
sources:
  prices: {table: prices, key: [country, number]}
  stock: {table: stock, key: [country, number]}
from: prices
join:
  stock: {kind: table, how: inner}
select: {country: key.country, number: key.number, price: prices.price, stock: stock.stock}
target: {table: pairs}
"""
MIRROR = """\
job: mirrored
kind: mirror
sources:
  merchants: {table: merchants, key: id}
from: merchants
mirror: {value: name}
target: {table: mirrored}
"""
SHELF = """\
job: shelf
sources:
  products: {table: products, key: id}
  merchants: {table: merchants, key: id}
  countries: {table: countries, key: code}
  tags: {table: tags, key: id}
from: products
join:
  merchants: {kind: foreign_key, on: products.merchant, how: full}
  countries: {kind: foreign_key, on: merchants.country}
  tags: {kind: list, elements: products.tags}
select:
  id: products.id
  title: products.title
  merchant_id: merchants.id
  merchant: merchants.name
  country: countries.name
  tags: tags
where: coalesce(merchants.name, '') != 'hidden' AND coalesce(products.price, 1) > 0
target: {table: shelf}
expectations: shelf
"""
VALUE = "s3cret"
NOT_NULL = "expect_column_values_to_not_be_null"
Rule = dict[str, Any]


def open_references(lab: Lab) -> None:
    """Write tables with one row for each reason; m2, p0 and a tag are deleted before the first run."""
    text, number = pa.string(), pa.int64()
    products = {"id": text, "title": text, "merchant": text, "tags": pa.list_(text), "price": number}
    lab.table("products", "id", products)
    lab.table("merchants", "id", {"id": text, "name": text, "country": text})
    lab.table("countries", "code", {"code": text, "name": text})
    # A change feed that was switched on late: the history before it cannot be read.
    tags = DeltaTable.create(lab.path("tags"), pa.schema([("id", text), ("label", text)]))
    for name, column in (("prices", "price"), ("stock", "stock")):
        lab.table(name, "country", {"country": text, "number": number, column: number})

    def product(key: str, merchant: str | None, tags: list[Any] | None = None, **more: Any) -> dict[str, Any]:
        return {"id": key, "title": VALUE, "merchant": merchant, "tags": tags, "price": 1, **more}

    lab.append("merchants", *[{"id": f"m{i}", "name": f"{VALUE}{i}", "country": "de"} for i in (1, 2)])
    lab.append("merchants", {"id": "m4", "name": None, "country": "fr"})
    lab.append("countries", {"code": "de", "name": VALUE})
    lab.append("tags", {"id": "t1", "label": VALUE}, {"id": "t2", "label": VALUE})
    tags.update_incremental()
    tags.alter.set_table_properties(FEED)
    lab.append("products", product("p0", "m1"))
    lab.drop("merchants", "id = 'm2'")
    lab.drop("products", "id = 'p0'")
    lab.drop("tags", "id = 't2'")
    lab.append(
        "products",
        product("p1", "m1", ["t1"]),
        product("p2", None, []),
        product("p3", "mX"),
        product("p4", "M1", ["t1", "t2", "t9", "\u200bt1", None]),
        product("p5", "m2"),
        product("p6", "m3"),
        product("p7", "m1", price=0),
        product("p8", "m1", title=None),
        product("p9", "m4", ["t1", "t1"]),
    )
    lab.append("prices", *[{"country": each, "number": 7, "price": 1} for each in ("de", "a,number=8", "AT")])
    lab.append("stock", *[{"country": each, "number": 7, "stock": 1} for each in ("de", "at")])
    lab.suite("wide", hold_nulls("title"))
    for job in (WIDE, PAIRS, MIRROR):
        lab.job(job)


def rule(kind: str, /, action: str = "warn", **kwargs: Any) -> Rule:
    return {"type": kind, "kwargs": kwargs, "meta": {"enrich": {"action": action}}}


def check_against_why(answer: FailingRows, told: Iterable[tuple[Mapping[str, str], Why]]) -> None:
    """Hold the failing rows of every rule against what `why` says of their cells, where it was asked about the row."""
    cells = {json.dumps(key): {n: each.reason for n, each in found.columns.items()} for key, found in told}
    assert any(json.dumps(row.key) in cells for each in answer.rules for row in each.rows)
    for each in answer.rules:
        asked = [(row.reason.reason, cells[key]) for row in each.rows if (key := json.dumps(row.key)) in cells]
        for reason, found in asked:
            assert reason == next((found[n] for n in each.columns if found[n] != "matched"), "matched"), each
        assert each.reasons == Counter(row.reason.reason for row in each.rows)
        assert each.failed is None or sum(each.reasons.values()) == each.failed == len(each.rows)


def find_rule(answer: FailingRows, index: int) -> RuleCauses:
    return next(each for each in answer.rules if each.index == index)


def list_keys(found: RuleCauses) -> set[str]:
    return {",".join(row.key.values()) for row in found.rows}
