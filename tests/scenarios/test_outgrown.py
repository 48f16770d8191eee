"""Targets whose table cannot hold their rows any more: lists of another shape, and columns of other writers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

import enrich
from kit.lab import Lab

TEXT, NUMBER = pa.string(), pa.int64()
LISTS = """\
job: lists
sources:
  persons: {table: persons, key: id}
  addresses: {table: addresses, key: id}
from: persons
join:
  addresses: {kind: list, elements: persons.ids}
select: {id: persons.id, items: addresses}
target: {table: lists}
"""
CHAIN = """\
job: lists
sources:
  persons: {table: persons, key: id}
  addresses: {table: addresses, key: id}
  countries: {table: countries, key: code}
from: persons
join:
  addresses: {kind: list, elements: persons.ids}
  countries: {kind: list, elements: addresses, element_key: country}
select: {id: persons.id, items: countries}
target: {table: lists}
"""
ONE = "job: one\nsources:\n  items: {table: items, key: id}\nfrom: items\ntarget: {table: one}\n"


def alter(lab: Lab, table: str, change: str) -> None:
    lab.spark.sql(f"ALTER TABLE delta.`{lab.path(table)}` {change}")


def compared(lab: Lab) -> str:
    (found,) = enrich.verify(enrich.load_project(lab.home), spark=lab.spark).jobs
    return found.status


def read(lab: Lab, table: str) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in lab.spark.read.format("delta").load(lab.path(table)).collect()]


def items(lab: Lab) -> dict[str, list[dict[str, Any]]]:
    return {row["id"]: row["items"] for row in read(lab, "lists")}


@pytest.mark.parametrize(
    "kinds", [pytest.param((TEXT, TEXT), marks=pytest.mark.soak), (TEXT, NUMBER)], ids=["one type", "two types"]
)
def test_lists_follow_a_lookup_whose_columns_are_put_in_another_order(lab: Lab, kinds: tuple[Any, Any]) -> None:
    first, second = ("1", "2") if kinds[1] == TEXT else ("1", 2)
    lab.table("persons", "id", {"id": TEXT, "ids": pa.list_(TEXT)}, [{"id": "p1", "ids": ["a1"]}])
    lab.table("addresses", "id", {"id": TEXT, "a": kinds[0], "b": kinds[1]}, [{"id": "a1", "a": first, "b": None}])
    lab.job(LISTS)
    lab.run()
    alter(lab, "addresses", "ALTER COLUMN b AFTER id")
    lab.put("addresses", {"id": "a1", "a": None, "b": second})
    written = lab.run()
    assert (written.mode, written.strategy) == ("full_refresh", "rewrite")
    assert items(lab) == {"p1": [{"id": "a1", "b": second, "a": None}]}
    lab.put("persons", {"id": "p2", "ids": ["a1"]})
    assert lab.run().strategy == "append"
    assert lab.run(full_refresh=True).status == "unchanged"


def test_lists_follow_a_lookup_that_only_feeds_the_one_that_is_shown(lab: Lab) -> None:
    lab.table("persons", "id", {"id": TEXT, "ids": pa.list_(TEXT)}, [{"id": "p1", "ids": ["a1", "a2"]}])
    streets = [{"id": "a1", "street": "s1", "country": "de"}, {"id": "a2", "street": "s2", "country": "fr"}]
    lab.table("addresses", "id", dict.fromkeys(("id", "street", "country"), TEXT), streets)
    lab.table("countries", "code", dict.fromkeys(("code", "name"), TEXT), [{"code": "de", "name": "Germany"}])
    lab.job(CHAIN)
    lab.run()
    DeltaTable(lab.path("addresses")).alter.add_columns([Field("zip", PrimitiveType("integer"))])
    assert lab.run().strategy == "rewrite"
    lab.put("addresses", {**streets[0], "zip": 1})
    assert lab.run().strategy == "merge"
    assert [(each["zip"], each["name"]) for each in items(lab)["p1"]] == [(1, "Germany"), (None, None)]
    assert compared(lab) == "equal"


def test_a_column_that_another_writer_has_added_meets_one_that_the_source_gains(lab: Lab) -> None:
    lab.table("items", "id", {"id": TEXT}, [{"id": "1"}, {"id": "2"}])
    lab.job(ONE)
    lab.run()
    alter(lab, "one", "ADD COLUMNS (NOTE STRING, size INT)")

    def gain(column: str) -> None:
        DeltaTable(lab.path("items")).alter.add_columns([Field(column, PrimitiveType("string"))])

    gain("note")
    lab.put("items", {"id": "1", "note": "n"})
    assert lab.run().status == "updated"
    lab.put("items", {"id": "1", "note": None})
    assert lab.run().counts.updated == 1
    assert {row["NOTE"] for row in read(lab, "one")} == {None}

    gain("size")
    lab.put("items", {"id": "1", "note": None, "size": "large"})
    refused = enrich.run(enrich.load_project(lab.home), spark=lab.spark)
    assert refused.exit_code == 5
    assert "column 'size' of the target of 'one' is of another writer" in str(refused.jobs[0].error)
    assert lab.run(full_refresh=True).strategy == "rewrite"
    assert {row["size"] for row in read(lab, "one")} == {"large", None}
