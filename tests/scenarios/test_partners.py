"""How many partners rows have, kept by runs in which one thing changes: no other row hides what was left out.

In the random histories thousands of changes share a run, so that a run that may leave the partners as they were is
never among them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from enrich.base.result import Lookups
from enrich.joins import chain
from kit.lab import Lab

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def click(customer: str | None, hour: int, note: str = "n") -> dict[str, Any]:
    return {"id": "c1", "customer": customer, "ts": at(hour), "note": note}


def version(until: int | None, email: str = "e", *, deleted: bool = False) -> dict[str, Any]:
    row = {"customer": "u1", "since": at(1), "until": at(until), "email": email}
    return {**row, "deleted": deleted}


def call(customer: str, hour: int, note: str = "n") -> dict[str, Any]:
    return {"id": "k1", "customer": customer, "ts": at(hour), "note": note}


def firm(name: str, other: str | None = None, number: str = "f1") -> dict[str, Any]:
    return {"id": number, "name": name, "other": other}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, interpreted: SparkSession) -> Lab:
    """Give a row or two of each kind, and jobs of all kinds of joins after their first run."""
    lab = Lab(Path(tmp_path_factory.mktemp("partners")) / "project", interpreted)
    lab.table("clicks", "id", {"id": TEXT, "customer": TEXT, "ts": TIME, "note": TEXT}, [click("u1", 5)])
    kinds = {"customer": TEXT, "since": TIME, "until": TIME, "email": TEXT, "deleted": pa.bool_()}
    lab.table("versions", "customer", kinds, [version(None)])
    lab.table("firms", "id", {"id": TEXT, "name": TEXT, "other": TEXT}, [firm("one"), firm("two", None, "f2")])
    lab.table("calls", "id", {"id": TEXT, "customer": TEXT, "ts": TIME, "note": TEXT}, [call("u1", 6)])
    basket = {"id": "b1", "firms": ["f1", "f9"], "note": "n"}
    lab.table("baskets", "id", {"id": TEXT, "firms": pa.list_(TEXT), "note": TEXT}, [basket])
    lab.table("notes", "id", {"id": TEXT, "note": TEXT, "other": TEXT}, [{"id": "f1", "note": "n", "other": None}])
    for job in JOBS:
        lab.job(job)
    assert lab.run_all().exit_code == 0
    return lab


DECISIVE = (
    ("versions", version(4), "seen", {"versions": (1, 0, 0)}),  # ends before the click
    ("versions", version(None), "seen", {"versions": (1, 1, 0)}),
    ("versions", version(None, deleted=True), "seen", {"versions": (1, 0, 0)}),
    ("versions", version(9), "seen", {"versions": (1, 1, 0)}),
    ("calls", call("u1", 9), "near", {"calls": (1, 0, 0)}),
    ("calls", call("u1", 6), "near", {"calls": (1, 1, 0)}),
    ("calls", call("u9", 6), "near", {"calls": (1, 0, 0)}),
    ("clicks", click(None, 5), "seen", {"versions": (1, 0, 1)}),
    ("clicks", click("u9", 5), "near", {"calls": (1, 1, 0)}),
    ("baskets", {"id": "b1", "firms": ["f1", None, "f2"], "note": "n"}, "baskets", {"firms": (3, 2, 1)}),
    ("notes", {"id": "f1", "note": "n", "other": "f2"}, "pairs", {"notes": (2, 1, 0), "ends": (2, 1, 1)}),
    ("firms", firm("two", "f9", "f2"), "pairs", {"notes": (2, 1, 0), "ends": (2, 1, 0)}),
)
"""Table, its new row -> job, and of each of its joins the rows, those with a partner, and those with a null."""

INDIFFERENT = (
    ("versions", version(9, "new")),
    ("clicks", click("u9", 5, "new")),
    ("calls", call("u9", 6, "new")),
    ("baskets", {"id": "b1", "firms": ["f1", None, "f2"], "note": "new"}),
    ("notes", {"id": "f1", "note": "new", "other": "f2"}),
    ("firms", firm("new")),
)


def test_a_change_that_decides_about_partners_is_counted(lab: Lab) -> None:
    found, wanted = [], []
    for table, row, job, lookups in DECISIVE:
        lab.put(table, row)
        done = lab.run(job)
        assert done.state is not None, done.error
        told = {alias: (each.rows, each.matched, each.null_references) for alias, each in done.state.lookups.items()}
        found.append((table, job, told))
        wanted.append((table, job, lookups))
    assert found == wanted


def test_other_columns_leave_the_partners_as_they_were(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody counts them: what cannot differ is not computed."""
    for table, row, *_ in DECISIVE:  # which have been put already where the test above was played, too
        lab.put(table, row)
    before = [each.state and each.state.lookups for each in lab.run_all().jobs]
    counted: list[str] = []
    original = chain._count_partners

    def note(*args: Any) -> Lookups:
        counted.append("once more")
        return original(*args)

    monkeypatch.setattr(chain, "_count_partners", note)
    for table, row in INDIFFERENT:
        lab.put(table, row)
    done = lab.run_all().jobs
    assert [each.status for each in done] == ["updated"] * len(JOBS)
    assert [each.state and each.state.lookups for each in done] == before
    assert counted == []
