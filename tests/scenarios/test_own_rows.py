"""Rows that only a lookup has, and what they refer to in their turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

import enrich
from kit.lab import Lab, Row

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
NAMES = ("id", "title", "merchant_id", "merchant", "country", "region", "labels")


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

    of_p1: Row = {"id": "p1", "title": "x", "merchant_id": "m1", "merchant": "M1", "country": "France", "labels": []}
    of_p2: Row = {"id": "p2", "title": None, "merchant_id": None, "merchant": None}
    lone: Row = {"id": None, "title": None, "merchant_id": "m3", "merchant": "M3"}

    def assert_follows(region: str, german: Row) -> None:
        assert lab.run().status == "updated"
        expected = [{**of_p1, "region": region}, {**of_p2, **german}, {**lone, **german}]
        assert sorted(lab.rows("shelf"), key=repr) == sorted(({n: row[n] for n in NAMES} for row in expected), key=repr)

    assert lab.run().status == "created"
    lab.put("regions", {"code": "eu", "name": "EU"})
    assert_follows("EU", {"country": "Germany", "region": "EU", "labels": ["New!"]})
    lab.put("labels", {"id": "new", "text": "Neu!"})
    assert_follows("EU", {"country": "Germany", "region": "EU", "labels": ["Neu!"]})
    lab.drop("countries", "code = 'de'")
    assert_follows("EU", {"country": None, "region": None, "labels": ["Neu!"]})

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
    """Spark's and Delta's NaN equals itself; a null equals nothing. Each case is a part of the key beside the NaN."""
    whole, number, text, nan = pa.int64(), pa.float64(), pa.string(), float("nan")
    lab.table(
        "left", "id", {"h": whole, "id": number, "twin": whole, "to": number, "list": pa.list_(number), "v": text}
    )
    for name in ("same", "other"):
        lab.table(name, "id", {"h": whole, "id": number, "v": text})
    lab.table("listed", "id", {"id": number, "v": text})
    lab.job("""\
job: joined
sources:
  left: {table: left, key: [h, id]}
  same: {table: same, key: [h, id]}
  other: {table: other, key: [h, id]}
  listed: {table: listed, key: id}
from: left
join:
  same: {kind: table}
  other: {kind: foreign_key, on: [left.h, left.to], how: full}
  listed: {kind: list, elements: left.list}
select:
  h: left.h
  id: left.id
  v: left.v
  same: same.v
  of: other.h
  other_id: other.id
  other: other.v
  listed: listed.v
target: {table: joined}
""")
    lab.job(
        "job: back\nkind: mirror\nsources: {left: {table: left, key: [h, id]}}\nfrom: left\n"
        "mirror: {value: [twin, to]}\ntarget: {table: back}\n"
    )

    def assert_follows(joined: list[tuple[object, ...]], back: list[tuple[int, float]]) -> None:
        """Compare all rows: NaN as text, for in Python it equals nothing."""
        result = lab.run_all()
        assert result.exit_code == 0, [job.error for job in result.jobs]
        names = ("h", "id", "v", "same", "of", "other_id", "other", "listed")
        found = [tuple(str(row[name]) for name in names) for row in lab.rows("joined")]
        assert sorted(found) == sorted(tuple(map(str, row)) for row in joined)
        found = [(str(row["twin"]), str(row["to"])) for row in lab.rows("back")]
        assert sorted(found) == sorted(tuple(map(str, row)) for row in back)

    def left(case: int) -> Row:
        return {"h": case, "id": nan, "twin": case, "to": nan, "list": [nan, 1.0], "v": "a"}

    def right(case: int, v: str) -> Row:
        return {"h": case, "id": nan, "v": v}

    came, stays, loses, goes = 1, 2, 3, 4
    lab.append("left", *[left(case) for case in (stays, loses, goes)])
    lab.append("left", {"h": 9, "id": 1.0, "twin": 9, "to": 2.0, "list": [], "v": "b"})
    lab.append("other", *[right(case, "o") for case in (stays, loses, goes)])
    second: tuple[object, ...] = (9, 1.0, "b", None, None, None, None, [])
    assert_follows(
        [*[(case, nan, "a", None, case, nan, "o", [None, None]) for case in (stays, loses, goes)], second],
        [*[(case, nan) for case in (stays, loses, goes)], (9, 2.0)],
    )
    lab.append("left", left(came))
    lab.append("same", right(stays, "s"))
    lab.append("listed", {"id": nan, "v": "l"})
    lab.drop("other", f"h IN ({loses}, {goes})")
    lab.append("other", right(goes, "again"), right(came, "o"))
    lab.drop("left", f"h = {goes}")
    assert_follows(
        [
            (came, nan, "a", None, came, nan, "o", ["l", None]),
            (stays, nan, "a", "s", stays, nan, "o", ["l", None]),
            (loses, nan, "a", None, None, None, None, ["l", None]),
            (None, None, None, None, goes, nan, "again", None),
            second,
        ],
        [(came, nan), (stays, nan), (loses, nan), (9, 2.0)],
    )


TEXT = pa.string()


def sources(names: str) -> str:
    """Return the sources of a job, one letter each, the first one driving."""
    return "".join(f"  {name}: {{table: {name}, key: id}}\n" for name in names) + f"from: {names[0]}\n"


def follow(lab: Lab, job: str, **rows: Sequence[Mapping[str, object]]) -> dict[object, object]:
    """Run a job, change ``de`` in ``c``, run again, and return the target's ``v`` by ``id``."""
    for name, contents in rows.items():
        lab.table(name, "id", {"id": TEXT, "c": TEXT, "m": TEXT, "v": TEXT}, [dict(row) for row in contents])
    lab.job(job)
    assert lab.run().status == "created"
    lab.put("c", {"id": "de", "v": "new"})
    result = lab.run()
    assert (result.status, result.error) == ("updated", None)
    return {row["id"]: row["v"] for row in lab.rows("j")}


@pytest.mark.soak
@pytest.mark.parametrize("how", ["inner", "right"])
def test_what_a_join_removes_comes_back_with_another_reference(lab: Lab, how: str) -> None:
    """``a`` has no row 1, so the left row goes; ``b`` brings the key back, and refers to ``c`` by its own column.

    Random histories play it in each `make test`: ``back_by_full`` of ``differential/worlds_of_chains.py``.
    """
    job = (
        f"job: j\nsources:\n{sources('labc')}join:\n  a: {{kind: table, how: {how}}}\n  b: {{kind: table, how: full}}\n"
        "  c: {kind: foreign_key, on: 'coalesce(l.c, b.c)'}\n"
        "select: {id: key, of_l: l.c, of_b: b.c, v: c.v}\ntarget: {table: j}\n"
    )
    left = [{"id": "1", "c": "fr"}, {"id": "2", "c": "fr"}]
    brought = [{"id": "1", "c": "de"}, {"id": "2", "c": "de"}, {"id": "3", "c": "de"}]
    found = follow(lab, job, l=left, a=[{"id": "2"}], b=brought, c=[{"id": "de", "v": "old"}])
    assert found == {"1": "new", "2": None, "3": "new"}


@pytest.mark.soak
def test_a_reference_that_reads_nothing_of_a_right_side_needs_what_leads_to_it(lab: Lab) -> None:
    job = (
        f"job: j\nsources:\n{sources('lamc')}join:\n  a: {{kind: foreign_key, on: l.m}}\n"
        "  m: {kind: foreign_key, on: a.m, how: full}\n  c: {kind: foreign_key, on: \"coalesce(l.c, 'de')\"}\n"
        "select: {id: 'coalesce(l.id, m.id)', l_id: l.id, m_id: m.id, v: c.v}\ntarget: {table: j}\n"
    )
    merchants = [{"id": "x", "v": "X"}, {"id": "y", "v": "Y"}]
    assistants = [{"id": "m1", "m": "x"}, {"id": "m2", "m": "y"}]
    left = [{"id": "1", "c": "fr", "m": "m1"}]
    assert follow(lab, job, l=left, a=assistants, m=merchants, c=[{"id": "de", "v": "old"}]) == {"1": None, "y": "new"}


@pytest.mark.soak
def test_rows_of_a_lookup_alone_go_when_another_join_brings_a_reference(lab: Lab) -> None:
    """What row 1 refers to depends on what two table joins before it remove and add."""
    job = (
        f"job: j\nsources:\n{sources('labc')}join:\n  a: {{kind: table, how: inner}}\n  b: {{kind: table, how: full}}\n"
        "  c: {kind: foreign_key, on: 'coalesce(l.c, b.c)', how: full}\n"
        "select: {id: 'coalesce(key, c.id)', l_id: key, c_id: c.id, v: c.v}\ntarget: {table: j}\n"
    )
    looked_up = [{"id": "de", "v": "old"}, {"id": "fr", "v": "old"}]
    found = follow(lab, job, l=[{"id": "1", "c": "fr"}], a=[], b=[{"id": "1", "c": "de"}], c=looked_up)
    assert found == {"1": "new", "fr": "old"}
    lab.put("a", {"id": "1"})
    assert lab.run().error is None
    assert {row["id"]: row["v"] for row in lab.rows("j")} == {"1": "old", "de": "new"}


def test_rows_without_key_and_removed_rows_fail_no_run(lab: Lab) -> None:
    """The condition guards ``select``, an inner join guards what comes after it: also for rows that are held."""
    whole = pa.int64()
    lab.table("l", "id", {"id": TEXT, "quantity": whole, "total": whole, "to": TEXT, "items": pa.list_(whole)})
    lab.append("l", {"id": None, "quantity": 0, "total": 7}, {"id": "1", "quantity": 2, "total": 8, "to": "a"})
    lab.append("l", {"id": "2", "quantity": 0, "total": 8, "to": "b", "items": [1]})
    lab.table("a", "id", {"id": TEXT, "v": TEXT}, [{"id": "a", "v": "A"}])
    lab.table("n", "id", {"id": whole, "v": TEXT}, [{"id": 4, "v": "four"}])
    lab.job("""\
job: j
sources:
  l: {table: l, key: id}
  a: {table: a, key: id}
  n: {table: n, key: id}
  o: {table: n, key: id}
from: l
join:
  a: {kind: foreign_key, on: l.to, how: inner}
  n: {kind: foreign_key, on: "l.total div l.quantity"}
  o: {kind: list, elements: "transform(l.items, each -> each div l.quantity)"}
select: {id: l.id, each: l.total / l.quantity, total: l.total, v: n.v}
where: l.quantity > 0
target: {table: j}
""")
    assert lab.run().error is None
    (row,) = lab.rows("j")
    assert (row["each"], row["v"]) == (4.0, "four")
    lab.put("n", {"id": 4, "v": "vier"})
    lab.append("l", {"id": None, "quantity": 0, "total": 9})
    result = lab.run()
    assert result.error is None
    assert result.counts.updated == 1
    held = lab.rows("j__quarantine")
    assert sorted((row["total"], row["each"]) for row in held) == [(7, None), (9, None)]
