"""A log of events as a source, and doubled keys that are held: what happens to both around the runs of jobs."""

from __future__ import annotations

import runpy
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import enrich
from kit.pages import CHANGELOGS, read_files

if TYPE_CHECKING:
    from kit.lab import Lab, Row

ORDERS = """\
job: orders_named
sources:
  orders: {table: orders, key: order_id}
  customers: {table: customers, key: id, MORE}
from: orders
join:
  customers: {kind: foreign_key, on: orders.customer}
select: {order_id: orders.order_id, name: customers.name}
target: {table: orders_named}
rules: [{rule: mass_change, at_most: 1.0}]
"""
PEOPLE = """\
job: people
sources: {customers: {table: customers, key: id, MORE}}
from: customers
select: {id: customers.id, name: customers.name}
target: {table: people}
"""
LOG, HELD = "latest: {order: [lsn], delete: op = 'd'}", "doubled_keys: quarantine"
COLUMNS = {"id": pa.string(), "lsn": pa.int64(), "op": pa.string(), "name": pa.string()}


def event(key: str | None, lsn: int | None, name: str | None, op: str = "c") -> dict[str, Any]:
    return {"id": key, "lsn": lsn, "op": op, "name": name}


def start(lab: Lab, more: str, *events: dict[str, Any]) -> None:
    lab.table("customers", "id", COLUMNS)
    lab.append("customers", *events)
    orders = [{"order_id": number, "customer": key} for number, key in enumerate("abc", 1)]
    lab.table("orders", "order_id", {"order_id": pa.int64(), "customer": pa.string()}, orders)
    for job in (ORDERS, PEOPLE):
        lab.job(job.replace("MORE", more))


def names(lab: Lab) -> dict[int, str | None]:
    return {row["order_id"]: row["name"] for row in lab.rows("orders_named")}


def people(lab: Lab) -> dict[str, str | None]:
    return {row["id"]: row["name"] for row in lab.rows("people")}


def findings(result: Any) -> list[tuple[Any, ...]]:
    found = [(f.expectation, f.source, f.action, f.checked, f.failed) for f in result.findings]
    return [each for each in found if each[0] in ("key_not_null", "key_unique", "order_unique")]


def test_a_log_is_what_it_says_now_whatever_happens_to_it(lab: Lab) -> None:
    start(lab, LOG, event("a", 1, "Ann"), event("b", 2, "Bob"), event("b", 2, "Bob"), event(None, 3, "x"))
    first = {job.job: findings(job) for job in lab.run_all().jobs}
    assert first["people"] == [("key_not_null", "customers", "quarantine", 3, 1)]
    assert (names(lab), people(lab)) == ({1: "Ann", 2: "Bob", 3: None}, {"a": "Ann", "b": "Bob"})

    # Late, again, in a tie, and without order: one row a key changes at most.
    late = [
        event("a", 0, "late"),
        event("b", 2, "Bob"),
        event("b", None, "lost"),
        event("c", 9, "C"),
        event("c", 9, "D"),
    ]
    lab.append("customers", *late)
    second = {job.job: job for job in lab.run_all().jobs}
    assert findings(second["people"]) == [("order_unique", "customers", "warn", 3, 1)]
    assert (second["people"].counts.inserted, second["people"].counts.updated) == (1, 0)
    assert second["people"].sources["customers"].changes == 1
    assert names(lab) == {1: "Ann", 2: "Bob", 3: "D"}

    # A delete event takes the row, whatever comes with it; why says which version did.
    lab.append("customers", event("a", 0, "late"), event("a", 12, None, "d"))
    lab.run_all()
    assert (names(lab), people(lab)) == ({1: None, 2: "Bob", 3: "D"}, {"b": "Bob", "c": "D"})
    told = enrich.why(enrich.load_project(lab.home), "orders_named", "1", spark=lab.spark).lookups["customers"]
    assert (told.reason, told.version) == ("deleted_at", DeltaTable(lab.path("customers")).version())

    # The last event is removed: the one before it counts again. Compaction and a RESTORE of the log are nothing else.
    lab.drop("customers", "lsn = 12 or (lsn = 9 and name = 'D')")
    DeltaTable(lab.path("customers")).optimize.compact()
    lab.run_all()
    assert (names(lab), people(lab)) == ({1: "Ann", 2: "Bob", 3: "C"}, {"a": "Ann", "b": "Bob", "c": "C"})
    DeltaTable(lab.path("customers")).restore(1)
    lab.run_all()
    assert people(lab) == {"a": "Ann", "b": "Bob"}
    assert [job.status for job in lab.run_all(since="beginning").jobs] == ["unchanged", "unchanged"]
    assert [job.status for job in lab.run_all(full_refresh=True).jobs] == ["unchanged", "unchanged"]


ODD = """\
job: JOB
sources: {s: {table: odd, key: "i.d", MORE}}
from: s
target: {table: JOB}
"""


def test_dots_in_names_are_read_and_a_condition_that_fails_is_told(lab: Lab) -> None:
    lab.table("odd", "`i.d`", {"i.d": pa.int64(), "lsn": pa.int64(), "op": pa.string(), "a.b": pa.string()})
    ways = {"logged": "latest: {order: lsn, delete: cast(op AS int) = 1}", "alone": HELD}
    for name, more in ways.items():
        lab.job(ODD.replace("JOB", name).replace("MORE", more))
    for number, status in ((1, "created"), (2, "updated")):
        lab.append("odd", {"i.d": number, "lsn": 1, "op": "0", "a.b": "x"})
        assert {each.job: (each.status, each.error) for each in lab.run_all().jobs} == dict.fromkeys(
            ways, (status, None)
        )
    lab.append("odd", {"i.d": 3, "lsn": 1, "op": "n/a", "a.b": "x"})
    found = {each.job: each for each in lab.run_all().jobs}
    assert (found["alone"].status, found["logged"].exit_code) == ("updated", 2)
    assert str(found["logged"].error).startswith("jobs/logged.yml:2: 'delete' of the source 's'")


def test_a_retention_does_not_empty_a_target_unseen(lab: Lab) -> None:
    start(lab, LOG, event("a", 1, "Ann"), event("b", 2, "Bob"), event("c", 3, "Cid"))
    lab.run("people")
    lab.drop("customers", "lsn < 3")
    result = lab.run("people")
    assert (result.status, result.exit_code) == ("blocked", 3)
    assert "mass_change: 2 of 3 rows" in str(result.error)
    assert people(lab) == {"a": "Ann", "b": "Bob", "c": "Cid"}
    lab.run("people", accept=["mass_change"])
    assert people(lab) == {"c": "Cid"}


def test_rows_of_a_doubled_key_are_held_and_come_back(lab: Lab) -> None:
    start(lab, HELD, event("a", 1, "Ann"), event("b", 2, "Bob"), event("b", 3, "Bo"))
    first = {job.job: findings(job) for job in lab.run_all().jobs}
    assert first == {
        "orders_named": [("key_unique", "customers", "warn", 3, 2)],
        "people": [("key_unique", "customers", "quarantine", 3, 2)],
    }

    def held() -> list[tuple[str, Any]]:
        return sorted((row["name"], row["_failed"]) for row in lab.rows("people__quarantine"))

    assert (names(lab), people(lab)) == ({1: "Ann", 2: None, 3: None}, {"a": "Ann"})
    assert held() == [("Bo", ["key_unique"]), ("Bob", ["key_unique"])]
    project = enrich.load_project(lab.home)
    assert enrich.why(project, "orders_named", "2", spark=lab.spark).lookups["customers"].reason == "ambiguous"
    assert enrich.why(project, "people", "b", spark=lab.spark).row.reason == "ambiguous"

    # A third row comes to the doubled key, and another key is doubled.
    lab.append("customers", event("b", 4, "B"), event("a", 5, "Anna"))
    lab.run_all()
    assert (names(lab), people(lab)) == ({1: None, 2: None, 3: None}, {})
    assert [name for name, _ in held()] == ["Ann", "Anna", "B", "Bo", "Bob"]

    # The doubling ends for one; all rows of the other go.
    lab.drop("customers", "lsn = 1 or id = 'b'")
    lab.run_all()
    assert (names(lab), people(lab), held()) == ({1: "Anna", 2: None, 3: None}, {"a": "Anna"}, [])
    assert enrich.verify(enrich.load_project(lab.home), spark=lab.spark).exit_code == 0


@pytest.mark.parametrize("more", [LOG, HELD])
def test_a_lost_feed_is_healed_by_comparison(lab: Lab, more: str) -> None:
    start(lab, more, event("a", 1, "Ann"), event("b", 2, "Bob"))
    lab.run("people")
    table = DeltaTable(lab.path("customers"))
    table.alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    lab.append("customers", event("a", 5, "Anna"), event("c", 3, "Cid"))
    table.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    result = lab.run("people")
    assert (result.error, result.sources["customers"].compared) == (None, True)
    assert people(lab) == ({"b": "Bob", "c": "Cid"} | ({"a": "Anna"} if more == LOG else {}))


FLAT = """\
job: orders_flat
sources:
  orders: {table: orders, key: order_id}
  rewritten: {table: rewritten, key: id, latest: {order: [__lsn], delete: "__deleted = 'true'"}}
  tombstones: {table: tombstones, key: id, latest: {order: [offset], delete: __op IS NULL}}
from: orders
join:
  rewritten: {kind: foreign_key, on: orders.customer_id}
  tombstones: {kind: foreign_key, on: orders.customer_id}
select: {order_id: orders.order_id, city: rewritten.city, same: tombstones.city}
target: {table: orders_flat}
"""
NUMBER, TEXT = pa.int64(), pa.string()
REWRITTEN = {"id": NUMBER, "name": TEXT, "city": TEXT, "__op": TEXT, "__lsn": NUMBER, "__deleted": TEXT}
TOMBSTONES = {"offset": NUMBER, "id": NUMBER, "name": TEXT, "city": TEXT, "__op": TEXT}


class Sink:
    """Puts Debezium's messages into tables: as the page does it, and as ExtractNewRecordState makes them flat."""

    def __init__(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab, self.patch, self.offset = lab, monkeypatch, 0
        lab.table("rewritten", "id", REWRITTEN)
        lab.table("tombstones", "offset", TOMBSTONES)

    def write(self, batch: str) -> None:
        """Write a batch of the page to all tables."""
        self.patch.chdir(self.lab.home)
        self.patch.setattr(sys, "argv", ["debezium.py", batch])
        self.unwrap(runpy.run_path("debezium.py", run_name="__main__")["batches"][batch])

    def unwrap(self, messages: list[Row]) -> None:
        """Write messages in both flat forms: `rewrite-with-tombstone` without the key, and `tombstone` with it."""
        rewritten, tombstones = [], []
        for message in messages:
            self.offset += 1
            value = message["value"] or {"op": None, "after": None}
            if value["op"] == "t":
                continue
            if value["op"] is None:
                rewritten.append(dict.fromkeys(REWRITTEN))
            else:
                about, is_gone = value["after"] or value["before"], str(value["op"] == "d").lower()
                rewritten.append({**about, "__op": value["op"], "__lsn": value["source"]["lsn"], "__deleted": is_gone})
            if value["op"] != "d":  # what is left of a delete is the tombstone
                row = {**(value["after"] or {}), "id": message["key"]["id"]}
                tombstones.append({"offset": self.offset, "__op": value["op"], **row})
        self.lab.append("rewritten", *rewritten)
        self.lab.append("tombstones", *tombstones)


def test_a_log_as_debezium_writes_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs and messages of docs/changelogs.md, and the flat forms beside them; each comes to a joined table."""
    for name, text in read_files(CHANGELOGS).items():
        (lab.home / name).write_text(text, encoding="utf-8")
    lab.job(FLAT)
    sink = Sink(lab, monkeypatch)

    def cities(table: str, column: str = "city") -> list[str | None]:
        return [row[column] for row in sorted(lab.rows(table), key=lambda row: row["order_id"])]

    sink.write("snapshot")
    assert {job.status for job in lab.run_all().jobs} == {"created"}
    found = ["Oslo", "Rome", "Graz", None, "Oslo", None, "Oslo"]
    assert cities("orders_with_customer") == cities("orders_flat") == cities("orders_flat", "same") == found

    # An update, a delete, a key that changes; then old messages again, with new offsets.
    sink.write("changes")
    sink.write("again")
    second = {job.job: job for job in lab.run_all().jobs}
    found = ["Bergen", None, None, "Graz", "Bergen", None, "Bergen"]
    assert cities("orders_with_customer") == cities("orders_flat") == found
    assert cities("orders_flat", "same") == [*found[:2], "Graz", *found[3:]]  # by offset, what came last counts
    assert second["customer_events"].counts.inserted == 9  # neither tombstones nor truncations are events
    assert findings(second["orders_flat"]) == [("key_not_null", "rewritten", "warn", 5, 3)]

    # A TRUNCATE has no key: the envelopes tell of it, the flat forms do not.
    sink.write("truncate")
    sink.unwrap(runpy.run_path("debezium.py")["changes"][3:])
    third = {job.job: job for job in lab.run_all(accept=["mass_change"]).jobs}
    lost = [(f.failed, f.accepted) for f in third["orders_with_customer"].findings if f.expectation == "mass_change"]
    assert lost == [(4, True)]
    assert cities("orders_with_customer") == [None, None, None, None, None, "Bonn", None]
    assert cities("orders_flat") == cities("orders_flat", "same") == [*found[:5], "Bonn", *found[6:]]
