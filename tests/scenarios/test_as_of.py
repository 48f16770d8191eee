"""As-of joins: what changes of versions reach, what is counted, and why an event has no version."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import enrich
from enrich.answers.question import explain

if TYPE_CHECKING:
    from kit.lab import Lab

JOB = """\
job: seen
sources:
  clicks: {table: clicks, key: id}
  accounts: {table: accounts, key: [customer, since], normalise: [trim, lower]}
  firms: {table: firms, key: id}
from: clicks
join:
  accounts:
    kind: as_of
    on: clicks.customer
    at: clicks.ts
    valid_from: since
    valid_to: until
    gone: accounts.deleted
  firms: {kind: foreign_key, on: accounts.firm}
select: {id: clicks.id, email: accounts.email, firm: firms.name}
target: {table: seen}
"""
TIME = pa.timestamp("us", tz="UTC")
TEXT = pa.string()


def at(hour: int) -> datetime:
    return datetime(2026, 11, 1, hour, tzinfo=UTC)


def click(name: str, customer: str | None, hour: int | None) -> dict[str, Any]:
    return {"id": name, "customer": customer, "ts": None if hour is None else at(hour)}


def version(customer: str, hour: int, email: str, until: int | None = None, **more: Any) -> dict[str, Any]:
    row = {"customer": customer, "since": at(hour), "until": None if until is None else at(until), "email": email}
    return {**row, "deleted": None, "firm": None, **more}


def open_clicks(lab: Lab) -> None:
    """Write events at every second hour and versions of some accounts, and run the job."""
    lab.table("clicks", "id", {"id": TEXT, "customer": TEXT, "ts": TIME})
    kinds = {"customer": TEXT, "since": TIME, "until": TIME, "email": TEXT, "deleted": pa.bool_(), "firm": TEXT}
    lab.table("accounts", "customer", kinds)
    lab.table("firms", "id", {"id": TEXT, "name": TEXT}, [{"id": "f1", "name": "Firm"}])
    clicks = [click(f"u1_{hour:02}", " U1", hour) for hour in range(0, 24, 2)]
    clicks += [click("u2_05", "u2", 5), click("u2_10", "u2", 10), click("u2_15", "u2", 15), click("nobody", None, 5)]
    clicks += [click("never", "u1", None), click("unknown", "u9", 5), click("u3_12", "u3", 12), click("late", "u4", 1)]
    lab.append("clicks", *clicks)
    lab.append(
        "accounts",
        *[version("u1", 2, "a", firm="f1"), version("u1", 10, "b"), version("u1", 20, "c")],
        *[version("u2", 4, "early"), version("u2", 6, "short", until=10)],
        *[version("u3", 1, "there"), version("u3", 12, "x", deleted=True), version("u4", 2, "after")],
    )
    lab.job(JOB)
    found = lab.run()
    assert found.status == "created"
    # Two events without customer or moment, and all that have no firm: no version has one but the first of u1.
    assert found.counts.null_foreign_keys == 2 + (20 - 4)
    lookup = found.lookups["accounts"]
    assert (lookup.kind, lookup.rows, lookup.matched, lookup.null_references) == ("as_of", 20, 12, 2)


@pytest.fixture
def clicks(prepared: Any) -> Lab:
    lab: Lab = prepared("clicks", open_clicks)
    return lab


def emails(lab: Lab) -> dict[str, str | None]:
    return {row["id"]: row["email"] for row in lab.rows("seen")}


U1 = {f"u1_{hour:02}": "a" if hour < 10 else "b" if hour < 20 else "c" for hour in range(2, 24, 2)} | {"u1_00": None}
OTHERS = {"u2_05": "early", "nobody": None, "never": None, "unknown": None, "u3_12": None, "late": None}
ENDED = {"u2_10": None, "u2_15": None}


@pytest.mark.soak
def test_changes_of_versions_reach_the_events_between_them(clicks: Lab) -> None:
    assert emails(clicks) == {**U1, **OTHERS, **ENDED}
    assert {row["id"] for row in clicks.rows("seen") if row["firm"] == "Firm"} == {
        f"u1_0{hour}" for hour in (2, 4, 6, 8)
    }

    # A version comes between two: what is after it and before the next one.
    clicks.append("accounts", version("u1", 14, "between"))
    found = clicks.run()
    assert (found.counts.affected_keys, found.counts.updated) == (3, 3)
    moved = dict.fromkeys(("u1_14", "u1_16", "u1_18"), "between")
    assert emails(clicks) == {**U1, **OTHERS, **ENDED, **moved}

    # It is corrected, and its neighbour goes: the events of both, and no others.
    clicks.drop("accounts", "customer = 'u1' AND email IN ('between', 'c')")
    clicks.append("accounts", version("u1", 14, "corrected"))
    found = clicks.run()
    assert (found.counts.affected_keys, found.counts.updated) == (5, 5)
    moved = dict.fromkeys(("u1_14", "u1_16", "u1_18", "u1_20", "u1_22"), "corrected")
    assert emails(clicks) == {**U1, **OTHERS, **ENDED, **moved}

    # It begins at another time, one event moves to another moment, one comes late.
    clicks.drop("accounts", "customer = 'u1' AND email = 'corrected'")
    clicks.append("accounts", version("u1", 16, "corrected"))
    clicks.put("clicks", click("u1_02", "u1", 23), click("new", "u1", 15))
    found = clicks.run()
    assert found.counts.affected_keys == 5 + 2
    expected = {**U1, **OTHERS, **ENDED, **moved, "u1_14": "b", "u1_02": "corrected", "new": "b"}
    assert emails(clicks) == expected
    assert enrich.verify(enrich.load_project(clicks.home), ["seen"], spark=clicks.spark).exit_code == 0


def test_an_inclusive_end_is_valid_and_what_follows_it_is_not(clicks: Lab) -> None:
    clicks.job(JOB.replace("valid_to: until", "valid_to: {column: until, inclusive: true}"))
    clicks.append("clicks", click("u7_10", "u7", 10))
    clicks.append("accounts", version("u7", 6, "moved", until=10))
    assert clicks.run(full_refresh=True).status == "updated"
    assert emails(clicks) == {**U1, **OTHERS, **ENDED, "u2_10": "short", "u7_10": "moved"}

    # The next version begins later: between the two there is none, and why says so. An end is moved before its event.
    clicks.append("accounts", version("u2", 15, "next"))
    clicks.append("clicks", click("gap", "u2", 12))
    clicks.drop("accounts", "customer = 'u7'")
    clicks.append("accounts", version("u7", 6, "moved", until=9))
    found = clicks.run()
    assert (found.counts.affected_keys, found.counts.inserted, found.counts.updated) == (3, 1, 2)
    assert emails(clicks) == {**U1, **OTHERS, "u2_10": "short", "gap": None, "u2_15": "next", "u7_10": None}
    project = enrich.load_project(clicks.home)
    told = explain(project, "seen", ("gap", "u2_10", "u7_10"), "email", spark=clicks.spark)
    assert [each.columns["email"].reason for each in told] == ["ended", "matched", "ended"]


def test_why_an_event_has_no_version(clicks: Lab) -> None:
    clicks.append("accounts", version("u4", 0, "healed"), version("u9", 6, "too late"))
    project = enrich.load_project(clicks.home)

    reasons = {
        "u1_00": "too_early",
        "u2_10": "ended",
        "u3_12": "gone",
        "nobody": "foreign_key_null",
        "never": "foreign_key_null",
        "unknown": "no_such_key",
        "late": "arrived_after_window",
    }
    keys = [row["id"] for row in clicks.rows("clicks")]
    every = dict(zip(keys, explain(project, "seen", keys, "email", spark=clicks.spark), strict=True))
    cells = {key: (every[key].columns["email"].reason, every[key].columns["email"].source) for key in keys}
    assert {key: cells[key] for key in reasons} == {key: (reason, "accounts") for key, reason in reasons.items()}
    assert cells["u1_02"] == ("matched", None)
    told = Counter(each.lookups["accounts"].reason for each in every.values())
    assert told == {**dict.fromkeys(set(reasons.values()), 1), "ended": 2, "foreign_key_null": 2, "matched": 12}
