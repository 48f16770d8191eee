"""Rows that only a lookup has, and what they refer to in their turn."""

from __future__ import annotations

import pyarrow as pa

import enrich
from scenarios.lab import Lab

JOB = """\
job: shelf
sources:
  products: {table: products, key: id}
  stock: {table: stock, key: id}
  merchants: {table: merchants, key: id}
  countries: {table: countries, key: code}
  regions: {table: regions, key: code}
  labels: {table: labels, key: id}
from: products
join:
  stock: {kind: table, how: full}
  merchants: {kind: foreign_key, on: stock.merchant, how: full}
  countries: {kind: foreign_key, on: "coalesce(products.country, 'de')"}
  regions: {kind: foreign_key, on: countries.region}
  labels: {kind: list, elements: "coalesce(products.labels, array('new'))"}
select:
  id: key
  title: products.title
  merchant_id: merchants.id
  merchant: merchants.name
  country: countries.name
  region: regions.name
  labels: transform(labels, each -> each.text)
target: {table: shelf}
"""


def test_an_expression_gives_rows_without_left_side_a_key(lab: Lab) -> None:
    """What only ``stock`` or ``merchants`` has is German and new, says the job: it follows both, like every row."""
    text = pa.string()
    products = {"id": text, "title": text, "country": text, "labels": pa.list_(text)}
    lab.table("products", "id", products, [{"id": "p1", "title": "x", "country": "fr", "labels": []}])
    stock = [{"id": "p1", "merchant": "m1"}, {"id": "p2", "merchant": "m2"}]
    lab.table("stock", "id", {"id": text, "merchant": text}, stock)
    lab.table("merchants", "id", {"id": text, "name": text}, [{"id": f"m{i}", "name": f"M{i}"} for i in (1, 3)])
    countries = [{"code": "de", "name": "Germany", "region": "eu"}, {"code": "fr", "name": "France", "region": "eu"}]
    lab.table("countries", "code", {"code": text, "name": text, "region": text}, countries)
    lab.table("regions", "code", {"code": text, "name": text}, [{"code": "eu", "name": "Europe"}])
    lab.table("labels", "id", {"id": text, "text": text}, [{"id": "new", "text": "New!"}])
    lab.job(JOB)

    def shelf() -> list[tuple[object, ...]]:
        names = ("id", "merchant_id", "country", "region", "labels")
        return sorted(tuple(row[name] for name in names) for row in lab.rows("shelf"))  # type: ignore[type-var]

    def assert_follows(expected: dict[str, object]) -> None:
        assert lab.run().status == "updated"
        of_p2 = next(row for row in lab.rows("shelf") if row["id"] == "p2")
        lone = next(row for row in lab.rows("shelf") if row["merchant_id"] == "m3")
        for row in (of_p2, lone):
            assert {name: row[name] for name in expected} == expected
        assert lab.run(full_refresh=True).status == "unchanged"

    assert lab.run().status == "created"
    lab.put("countries", {"code": "de", "name": "Deutschland", "region": "eu"})
    assert_follows({"country": "Deutschland", "region": "Europe", "labels": ["New!"]})
    lab.put("regions", {"code": "eu", "name": "EU"})
    assert_follows({"country": "Deutschland", "region": "EU"})
    lab.put("labels", {"id": "new", "text": "Neu!"})
    assert_follows({"labels": ["Neu!"]})
    lab.drop("countries", "code = 'de'")
    assert_follows({"country": None, "region": None, "labels": ["Neu!"]})

    project = enrich.load_project(lab.home)
    told = enrich.why(project, "shelf", {"merchant_id": "m3"}, spark=lab.spark).to_dict()
    assert told["in_target"]
    reasons = {alias: each["reason"] for alias, each in told["lookups"].items()}
    assert reasons == {
        "products": "no_such_key",
        "stock": "foreign_key_null",
        "merchants": "matched",
        "countries": "deleted_at",
        "regions": "foreign_key_null",
        "labels": "matched",
    }
    cells = {name: (each["reason"], each.get("source")) for name, each in told["columns"].items()}
    assert cells == {
        "id": ("no_such_key", "products"),
        "title": ("no_such_key", "products"),
        "merchant_id": ("matched", None),
        "merchant": ("matched", None),
        "country": ("deleted_at", "countries"),
        "region": ("deleted_at", "countries"),
        "labels": ("matched", None),
    }


def test_nan_is_a_key_like_others(lab: Lab) -> None:
    """Spark's and Delta's NaN equals itself; a null equals nothing."""
    number, text, nan = pa.float64(), pa.string(), float("nan")
    lab.table("left", "id", {"id": number, "to": number, "list": pa.list_(number), "v": text})
    lab.table("same", "id", {"id": number, "v": text})
    lab.table("other", "id", {"id": number, "v": text})
    lab.job("""\
job: joined
sources:
  left: {table: left, key: id}
  same: {table: same, key: id}
  other: {table: other, key: id}
  listed: {table: other, key: id}
from: left
join:
  same: {kind: table}
  other: {kind: foreign_key, on: left.to, how: full}
  listed: {kind: list, elements: left.list}
select: {id: left.id, v: left.v, same: same.v, other_id: other.id, other: other.v, listed: listed.v}
target: {table: joined}
""")
    lab.job(
        "job: back\nkind: mirror\nsources: {left: {table: left, key: id}}\nfrom: left\nmirror: {value: to}\n"
        "target: {table: back}\n"
    )
    assert lab.run_all().exit_code == 0

    def assert_all_follow() -> None:
        result = lab.run_all()
        assert result.exit_code == 0, [job.error for job in result.jobs]
        again = lab.run_all(full_refresh=True)
        assert [job.status for job in again.jobs] == ["unchanged", "unchanged"]

    lab.append(
        "left", {"id": nan, "to": nan, "list": [nan, 1.0], "v": "a"}, {"id": 1.0, "to": 2.0, "list": [], "v": "b"}
    )
    lab.append("other", {"id": nan, "v": "o"})
    assert_all_follow()
    lab.append("same", {"id": nan, "v": "s"})
    assert_all_follow()
    (row,) = [row for row in lab.rows("joined") if row["v"] == "a"]
    assert (row["same"], row["other"], row["listed"]) == ("s", "o", ["o", None])
    assert len(lab.rows("joined")) == len(lab.rows("back")) == 2
    lab.drop("other", "v = 'o'")
    assert_all_follow()
    (row,) = [row for row in lab.rows("joined") if row["v"] == "a"]
    assert (row["same"], row["other"], row["listed"]) == ("s", None, [None, None])
    lab.append("other", {"id": nan, "v": "again"})
    lab.drop("left", "v = 'a'")
    assert_all_follow()
    assert [row["other"] for row in lab.rows("joined") if row["v"] is None] == ["again"]
    assert len(lab.rows("back")) == 1
