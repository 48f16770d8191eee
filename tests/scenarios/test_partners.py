"""How many partners rows have, kept by runs in which one thing changes: no other row hides what was left out.

In the random histories thousands of changes share a run, so that a run that may leave the partners as they were is
never among them. Which columns decide is read off the compiled jobs; a run shows it for each kind of join.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import enrich
from enrich.base.result import Lookups
from enrich.base.spec import JoinSpec
from enrich.joins import chain
from enrich.project.compile import compile_job
from kit.lab import Lab, Row

TIME, TEXT = pa.timestamp("us", tz="UTC"), pa.string()
JOBS = (
    """\
job: seen
sources:
  clicks: {table: clicks, key: id}
  versions: {table: versions, key: [customer, since]}
from: clicks
join:
  versions:
    kind: as_of
    on: clicks.customer
    at: clicks.ts
    valid_from: since
    valid_to: until
    gone: versions.deleted
select: {id: clicks.id, note: clicks.note, email: versions.email}
target: {table: seen}
""",
    """\
job: near
sources:
  clicks: {table: clicks, key: id}
  calls: {table: calls, key: id}
from: clicks
join:
  calls: {kind: interval, on: clicks.customer, match: customer, at: clicks.ts, time: ts, between: [0h, 2h]}
select: {id: clicks.id, call: calls.id, note: calls.note}
target: {table: near}
""",
    """\
job: baskets
sources:
  baskets: {table: baskets, key: id}
  firms: {table: firms, key: id}
from: baskets
join:
  firms: {kind: list, elements: baskets.firms}
select: {id: baskets.id, note: baskets.note, firms: firms}
target: {table: baskets_with_firms}
""",
    """\
job: pairs
sources:
  firms: {table: firms, key: id}
  notes: {table: notes, key: id}
  ends: {table: firms, key: id}
from: firms
join:
  notes: {kind: table, how: full}
  ends: {kind: foreign_key, on: "coalesce(notes.other, firms.other)"}
select: {id: key, name: firms.name, note: notes.note, end: ends.name}
target: {table: pairs}
""",
)


def at(hour: int | None) -> datetime | None:
    return None if hour is None else datetime(2026, 11, 1, hour, tzinfo=UTC)


def click(customer: str | None, hour: int, note: str = "n", number: str = "c1") -> dict[str, Any]:
    return {"id": number, "customer": customer, "ts": at(hour), "note": note}


def version(until: int | None, email: str = "e", *, deleted: bool = False) -> dict[str, Any]:
    row = {"customer": "u1", "since": at(1), "until": at(until), "email": email}
    return {**row, "deleted": deleted}


def call(customer: str, hour: int, note: str = "n") -> dict[str, Any]:
    return {"id": "k1", "customer": customer, "ts": at(hour), "note": note}


def firm(name: str, other: str | None = None, number: str = "f1") -> dict[str, Any]:
    return {"id": number, "name": name, "other": other}


TABLES = {
    "clicks": {"id": TEXT, "customer": TEXT, "ts": TIME, "note": TEXT},
    "versions": {"customer": TEXT, "since": TIME, "until": TIME, "email": TEXT, "deleted": pa.bool_()},
    "calls": {"id": TEXT, "customer": TEXT, "ts": TIME, "note": TEXT},
    "firms": {"id": TEXT, "name": TEXT, "other": TEXT},
    "baskets": {"id": TEXT, "firms": pa.list_(TEXT), "note": TEXT},
    "notes": {"id": TEXT, "note": TEXT, "other": TEXT},
}


@pytest.fixture
def partners(lab: Lab) -> Lab:
    """Give a row or two of each kind, and jobs of all kinds of joins, which have not run yet."""
    rows: dict[str, list[Row]] = {
        "clicks": [click("u1", 5), click(None, 5, number="c2")],
        "versions": [version(None)],
        "calls": [call("u9", 6)],
        "firms": [firm("one"), firm("two", None, "f2")],
        "baskets": [{"id": "b1", "firms": ["f1", "f9"], "note": "n"}],
        "notes": [{"id": "f1", "note": "n", "other": None}],
    }
    for name, columns in TABLES.items():
        lab.table(name, "customer" if name == "versions" else "id", columns, rows[name])
    for job in JOBS:
        lab.job(job)
    return lab


DECIDING = {
    "seen": {("clicks", "customer"), ("clicks", "ts"), ("versions", "until"), ("versions", "deleted")},
    "near": {("clicks", "customer"), ("clicks", "ts"), ("calls", "customer"), ("calls", "ts")},
    "baskets": {("baskets", "firms")},
    "pairs": {("notes", "other"), ("firms", "other")},
}
"""Job -> the columns beside keys that decide which partners a row has."""


def test_what_decides_about_partners(partners: Lab) -> None:
    types = {TEXT: "string", TIME: "timestamp", pa.bool_(): "boolean"}
    of_list = {"type": "array", "elementType": "string", "containsNull": True}
    found = {}
    for name, job in enrich.load_project(partners.home).jobs.items():
        tables = {
            alias: {column: types.get(kind, of_list) for column, kind in TABLES[source.table].items()}
            for alias, source in job.sources.items()
        }
        spec = compile_job(job, tables).spec
        assert isinstance(spec, JoinSpec)
        found[name] = {pair for step in spec.steps for pair in step.decisive}
    assert found == DECIDING


WINDOWS: list[tuple[list[tuple[str, Row]], dict[str, dict[str, tuple[int, int, int]]]]] = [
    (
        [],
        {
            "seen": {"versions": (2, 1, 1)},
            "near": {"calls": (2, 0, 1)},
            "baskets": {"firms": (2, 1, 0)},
            "pairs": {"notes": (2, 1, 0), "ends": (2, 0, 2)},
        },
    ),
    (
        [
            ("versions", version(4)),  # ends before the click
            ("calls", call("u1", 6)),
            ("baskets", {"id": "b1", "firms": ["f1", None, "f2"], "note": "n"}),
            ("notes", {"id": "f1", "note": "n", "other": "f2"}),
        ],
        {
            "seen": {"versions": (2, 0, 1)},
            "near": {"calls": (2, 1, 1)},
            "baskets": {"firms": (3, 2, 1)},
            "pairs": {"notes": (2, 1, 0), "ends": (2, 1, 1)},
        },
    ),
]
"""Rows that are put; job -> of each of its joins the rows, those with a partner, and those with a null."""

INDIFFERENT = (
    ("versions", version(4, "new")),
    ("clicks", click("u1", 5, "new")),
    ("calls", call("u1", 6, "new")),
    ("baskets", {"id": "b1", "firms": ["f1", None, "f2"], "note": "new"}),
    ("notes", {"id": "f1", "note": "new", "other": "f2"}),
    ("firms", firm("new")),
)


def test_what_decides_is_counted_and_other_columns_leave_partners_as_they_were(
    partners: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody counts them then: what cannot differ is not computed."""
    lookups: dict[str, Lookups] = {}
    for rows, expected in WINDOWS:
        for table, row in rows:
            partners.put(table, row)
        done = partners.run_all(*expected).jobs
        lookups |= {each.job: each.state.lookups for each in done if each.state is not None}
        assert {
            each.job: {
                alias: (count.rows, count.matched, count.null_references) for alias, count in lookups[each.job].items()
            }
            for each in done
        } == expected

    counted: list[str] = []
    original = chain._count_partners

    def note(*args: Any) -> Lookups:
        counted.append("once more")
        return original(*args)

    monkeypatch.setattr(chain, "_count_partners", note)
    for table, row in INDIFFERENT:
        partners.put(table, row)
    done = partners.run_all().jobs
    assert [each.status for each in done] == ["updated"] * len(JOBS)
    assert {each.job: each.state and each.state.lookups for each in done} == lookups
    assert counted == []
