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
    there = event("a", 1, "Ann"), event("b", 2, "Bob"), event("b", 2, "Bob"), event("e", 1, "Eve"), event(None, 3, "x")
    start(lab, LOG, *there)
    lab.append("orders", {"order_id": 4, "customer": "e"})
    first = {job.job: findings(job) for job in lab.run_all().jobs}
    assert first["people"] == [("key_not_null", "customers", "quarantine", 4, 1)]
    assert (names(lab), people(lab)) == (
        {1: "Ann", 2: "Bob", 3: None, 4: "Eve"},
        {"a": "Ann", "b": "Bob", "e": "Eve"},
    )

    # Late, again, in a tie, and without order: one row a key changes at most. A delete event takes the row, whatever
    # comes with it; why says which version did.
    late = [event("a", 0, "late"), event("b", 2, "Bob"), event("b", None, "lost")]
    lab.append("customers", *late, event("c", 9, "C"), event("c", 9, "D"))
    lab.append("customers", event("e", 0, "late"), event("e", 12, None, "d"))
    second = {job.job: job for job in lab.run_all().jobs}
    assert findings(second["people"]) == [("order_unique", "customers", "warn", 4, 1)]
    counts = second["people"].counts
    assert (counts.inserted, counts.updated, counts.deleted) == (1, 0, 1)
    assert second["people"].sources["customers"].changes == 2
    assert (names(lab), people(lab)) == (
        {1: "Ann", 2: "Bob", 3: "D", 4: None},
        {"a": "Ann", "b": "Bob", "c": "D"},
    )
    told = enrich.why(enrich.load_project(lab.home), "orders_named", "4", spark=lab.spark).lookups["customers"]
    assert (told.reason, told.version) == ("deleted_at", DeltaTable(lab.path("customers")).version())

    # The last event is removed: the one before it counts again. Compaction and a RESTORE of the log are nothing else.
    lab.drop("customers", "lsn = 12 or (lsn = 9 and name = 'D')")
    DeltaTable(lab.path("customers")).optimize.compact()
    lab.run("people")
    assert people(lab) == {"a": "Ann", "b": "Bob", "c": "C", "e": "Eve"}
    DeltaTable(lab.path("customers")).restore(1)
    lab.run("people")
    assert people(lab) == {"a": "Ann", "b": "Bob", "e": "Eve"}
    assert lab.run("people", full_refresh=True).status == "unchanged"


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
    failed = lab.run("logged")
    assert failed.exit_code == 2
    assert str(failed.error).startswith("jobs/logged.yml:2: 'delete' of the source 's'")


def lose_feed(lab: Lab, *events: dict[str, Any]) -> None:
    """Write events that the log's feed does not tell."""
    table = DeltaTable(lab.path("customers"))
    table.alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    lab.append("customers", *events)
    table.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})


def test_a_retention_does_not_empty_a_target_unseen_and_a_lost_feed_is_healed_by_comparison(lab: Lab) -> None:
    start(lab, LOG, event("a", 1, "Ann"), event("b", 2, "Bob"), event("c", 3, "Cid"))
    lab.run("people")
    lab.drop("customers", "lsn < 3")
    result = lab.run("people")
    assert (result.status, result.exit_code) == ("blocked", 3)
    assert "mass_change: 2 of 3 rows" in str(result.error)
    assert people(lab) == {"a": "Ann", "b": "Bob", "c": "Cid"}
    lose_feed(lab, event("c", 5, "Cia"), event("d", 3, "Dan"), event("c", 4, "late"))
    result = lab.run("people", accept=["mass_change"])
    assert (result.error, result.sources["customers"].compared) == (None, True)
    assert people(lab) == {"c": "Cia", "d": "Dan"}


def test_rows_of_a_doubled_key_are_held_and_come_back(lab: Lab) -> None:
    doubled = event("b", 2, "Bob"), event("b", 3, "Bo"), event("d", 7, "Dan"), event("d", 8, "Dee")
    start(lab, HELD, event("a", 1, "Ann"), *doubled, event("e", 5, "Eve"), event("e", 6, "Eva"))
    first = {job.job: findings(job) for job in lab.run_all().jobs}
    assert first == {
        "orders_named": [("key_unique", "customers", "warn", 7, 6)],
        "people": [("key_unique", "customers", "quarantine", 7, 6)],
    }

    def held() -> list[str]:
        rows = lab.rows("people__quarantine")
        assert {tuple(row["_failed"]) for row in rows} == {("key_unique",)}
        return sorted(row["name"] for row in rows)

    assert (names(lab), people(lab)) == ({1: "Ann", 2: None, 3: None}, {"a": "Ann"})
    assert held() == ["Bo", "Bob", "Dan", "Dee", "Eva", "Eve"]
    project = enrich.load_project(lab.home)
    assert enrich.why(project, "orders_named", "2", spark=lab.spark).lookups["customers"].reason == "ambiguous"
    assert enrich.why(project, "people", "b", spark=lab.spark).row.reason == "ambiguous"

    # A third row comes to b, a is doubled, the doubling of d ends, and all rows of e go.
    lab.append("customers", event("b", 4, "B"), event("a", 5, "Anna"))
    lab.drop("customers", "lsn = 7 or id = 'e'")
    lab.run_all()
    assert (names(lab), people(lab)) == ({1: None, 2: None, 3: None}, {"d": "Dee"})
    assert held() == ["Ann", "Anna", "B", "Bo", "Bob"]

    # A lost feed is healed by comparison.
    lose_feed(lab, event("c", 3, "Cid"), event("d", 9, "Don"))
    lab.drop("customers", "lsn = 1")
    result = lab.run("people")
    assert (result.error, result.sources["customers"].compared) == (None, True)
    assert (people(lab), held()) == ({"a": "Anna", "c": "Cid"}, ["B", "Bo", "Bob", "Dee", "Don"])


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
    """The jobs and messages of docs/changelogs.md, and the flat forms beside them; each comes to a joined table.

    The page itself, with each of its runs, is played by ``make test-world``.
    """
    for name, text in read_files(CHANGELOGS).items():
        (lab.home / name).write_text(text, encoding="utf-8")
    sink = Sink(lab, monkeypatch)

    def cities(table: str, column: str = "city") -> list[str | None]:
        return [row[column] for row in sorted(lab.rows(table), key=lambda row: row["order_id"])]

    sink.write("snapshot")
    assert {job.status for job in lab.run_all().jobs} == {"created"}
    assert cities("orders_with_customer") == ["Oslo", "Rome", "Graz", None, "Oslo", None, "Oslo"]

    # An update, a delete, a key that changes; then old messages again, with new offsets.
    sink.write("changes")
    sink.write("again")
    lab.job(FLAT)
    flat = lab.run("orders_flat")
    found = ["Bergen", None, None, "Graz", "Bergen", None, "Bergen"]
    assert cities("orders_flat") == found
    assert cities("orders_flat", "same") == [*found[:2], "Graz", *found[3:]]  # by offset, what came last counts
    assert findings(flat) == [("key_not_null", "rewritten", "warn", 5, 3)]

    # A TRUNCATE has no key: the envelopes tell of it.
    (lab.home / "jobs" / "orders_flat.yml").unlink()
    sink.write("truncate")
    second = {job.job: job for job in lab.run_all(accept=["mass_change"]).jobs}
    assert second["customer_events"].counts.inserted == 10  # neither tombstones nor truncations are events
    lost = [(f.failed, f.accepted) for f in second["orders_with_customer"].findings if f.expectation == "mass_change"]
    assert lost == [(5, True)]
    assert cities("orders_with_customer") == [None, None, None, None, None, "Bonn", None]
