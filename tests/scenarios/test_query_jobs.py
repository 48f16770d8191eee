"""A job that is a query: changed on both sides, with a star that follows its table, rewritten without a refresh."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

import enrich
from kit.lab import Lab

SHOP = """\
job: shop
sources:
  products:  {table: products,  key: id}
  merchants: {table: merchants, key: id}
query: |
  SELECT p.*, m.name AS merchant_name, p.added - TIMESTAMP '2026-01-01 00:00:00' AS age
  FROM products AS p
  LEFT JOIN merchants AS m ON p.merchant = m.code
  WHERE p.price > 0                    -- gifts are left out
target: {table: shop}
"""
AS_YAML = """\
job: shop
sources:
  p: {table: products,  key: id}
  m: {table: merchants, key: id}
from: p
join:
  m: {kind: foreign_key, on: p.merchant}
select: {id: p.id, merchant_name: m.name}
target: {table: shop}
"""


@pytest.fixture
def shop(lab: Lab) -> Lab:
    products = {"id": pa.int64(), "merchant": pa.int64(), "price": pa.float64(), "added": pa.timestamp("us", "UTC")}
    rows = [{"id": 1, "merchant": 7, "price": 1.0}, {"id": 2, "merchant": 8, "price": 0.0}]
    lab.table("products", "id", products, rows)
    lab.table("merchants", "id", {"id": pa.int64(), "name": pa.string()}, [{"id": 7, "name": "A"}])
    return lab


def test_a_query_is_kept_right(shop: Lab) -> None:
    # What the file, the tables and Spark know is told by each at its place in the file.
    shop.job(SHOP)
    with pytest.raises(enrich.ConfigError, match=r"shop\.yml:8:31: ON names m\.code"):
        enrich.load_project(shop.home)
    text = SHOP.replace("m.code", "m.id")
    shop.job(text.replace("p.merchant =", "p.merchand ="))
    refused = shop.run("shop")
    assert "shop.yml:8:31: 'p.merchand' is no column of 'p'; did you mean 'merchant'?" in str(refused.error)
    shop.job(text)
    refused = shop.run("shop")
    assert (refused.exit_code, "'age' is interval" in str(refused.error)) == (2, True), refused.error

    text = text.replace(", p.added - TIMESTAMP '2026-01-01 00:00:00' AS age", "").replace(
        "m.name AS merchant_name", "m.name"
    )
    shop.job(text)
    assert shop.run("shop").status == "created"
    assert [(row["id"], row["name"]) for row in shop.rows("shop")] == [(1, "A")]

    shop.put("merchants", {"id": 7, "name": "B"}, {"id": 8, "name": "C"})
    shop.put("products", {"id": 2, "merchant": 8, "price": 2.0, "added": None})
    assert shop.run("shop").status == "updated"
    assert [(row["id"], row["name"]) for row in shop.rows("shop")] == [(1, "B"), (2, "C")]

    # A column that the table gains follows into the target.
    DeltaTable(shop.path("products")).alter.add_columns(Field("colour", PrimitiveType("string")))
    shop.put("products", {"id": 1, "merchant": 7, "price": 1.0, "added": None, "colour": "red"})
    found = shop.run("shop")
    assert found.status == "updated", found.error
    assert [(row["id"], row["colour"]) for row in shop.rows("shop")] == [(1, "red"), (2, None)]


def test_the_same_job_in_other_words_has_nothing_to_do(shop: Lab) -> None:
    shop.job(AS_YAML)
    assert shop.run("shop").status == "created"
    text = enrich.sql(enrich.load_project(shop.home), "shop")
    assert text == "SELECT p.id,\n       m.name AS merchant_name\nFROM p\nLEFT JOIN m ON p.merchant = m.id"
    query = text.replace("FROM p", "FROM products AS p").replace("JOIN m", "JOIN merchants AS m")
    head = SHOP.partition("query")[0]
    shop.job(f"{head}query: >-\n  {' '.join(query.split())}\ntarget: {{table: shop}}\n")
    assert shop.run("shop").status == "unchanged"


def test_fields_and_columns_are_called_as_spark_calls_them(lab: Lab) -> None:
    """Names in another case than the table's, in parentheses, and a column that is called as its table."""
    status = {"id": pa.int64(), "Status": pa.string(), "Vals": pa.list_(pa.int64())}
    status |= {"Tags": pa.map_(pa.string(), pa.string()), "Place": pa.struct({"City": pa.string()})}
    row = {"id": 1, "Status": "open", "Vals": [1, 2], "Tags": [("A", "u"), ("a", "w")], "Place": {"City": "Rome"}}
    lab.table("status", "id", status, [row])
    lab.table("other", "id", {"id": pa.int64(), "status": pa.string()}, [{"id": 1, "status": "shut"}])
    head = "sources: {status: {table: status, key: id}, other: {table: other, key: id}}\n"
    alone = "sources: {status: {table: status, key: id}}\n"
    shown = (
        *("struct((STATUS), ((s.ID)))", "(status, ID)", "arrays_zip((VALS), coalesce(vals))", "status = 'open'"),
        *("transform(VALS, x -> (x, STATUS))", "struct(struct((ID)) AS a)"),
    )
    columns = "".join(f", to_json(struct({each} AS c)) AS j{i}, {each} AS c{i}" for i, each in enumerate(shown))
    texts = {
        "plain": f"SELECT s.id{columns} FROM status AS s WHERE STATUS = 'open'",
        "own": "SELECT id, STATUS, Status.status AS again FROM status WHERE status > 'a'",
        "joined": "SELECT a.id, to_json((b.ID, (a.ID), b.STATUS)) AS c FROM status a JOIN other b ON a.id = b.id",
        "tags": "SELECT tags.A AS x, tags.a AS y, concat(Tags.a, place.CITY, count(*)) AS n, (max(id), count(*)) AS t"
        ", PLACE.city, to_json(struct(place.CITY)) AS c FROM status GROUP BY tags.A, tags.a, Place.City",
        "many": "SELECT STATUS, to_json(struct((count(*)), (STATUS), sum(ALL ID))) AS c FROM status GROUP BY status",
    }
    twins = "SELECT a.id, array(struct(a.status, b.status)) AS c FROM status a JOIN other b ON a.id = b.id"
    for name, text in (*texts.items(), ("twins", twins)):
        lab.job(f"job: {name}\n{head if 'JOIN' in text else alone}query: |\n  {text}\ntarget: {{table: {name}}}\n")
    done = {each.job: each for each in lab.run_all().jobs}
    session = lab.spark.newSession()
    for table in ("status", "other"):
        session.read.format("delta").load(lab.path(table)).createOrReplaceTempView(table)
    for name, text in texts.items():
        assert done[name].status == "created", done[name].error
        wanted, found = session.sql(text), session.read.format("delta").load(lab.path(name))
        assert (found.dtypes, found.collect()) == (wanted.dtypes, wanted.collect()), name
    said = "twins.yml:4:16: column 'c' has a struct with two fields 'status', which no target can hold"
    assert (done["twins"].exit_code, said in str(done["twins"].error)) == (2, True), done["twins"].error
