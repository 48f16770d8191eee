"""A project with a join of every kind and a mirror, its tables written by delta-rs, and its tasks without a JVM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import enrich
from enrich.base.result import Counts, Extent, Finding, JobResult, Lookup, LookupState, Quarantine, SourceWindow, State
from enrich.operations.workplace import Workplace
from enrich.progress.decision import decide_plan
from enrich.progress.plan import Plan
from kit.lab import FEED
from kit.project import write_project

WIDE = """\
job: wide
sources:
  orders: {table: orders, key: id}
  notes: {table: notes, key: id, normalise: trim}
  sellers: {table: sellers, key: id}
  articles: {table: articles, key: id}
  again: {table: sellers, key: id}
from: orders
join:
  notes: {kind: table, how: full}
  sellers: {kind: foreign_key, on: orders.seller}
  articles: {kind: list, elements: orders.items}
  again: {kind: foreign_key, on: "coalesce(sellers.boss.id, orders.seller)"}
select:
  id: key
  seller: sellers.ID
  boss: again.country
  note: upper(notes.note)
  items: articles
  both: "concat(orders.seller, size(articles))"
where: sellers.country <> 'xx'
target: {table: wide}
"""
MIRROR = """\
job: inverse
kind: mirror
sources:
  sellers: {table: sellers, key: id}
from: sellers
mirror: {value: country, conflict: last, order: since}
target: {table: inverse}
"""
BOSS = pa.struct([("id", pa.string())])
TABLES = {
    "orders": {"id": pa.string(), "seller": pa.string(), "items": pa.list_(pa.string())},
    "notes": {"id": pa.string(), "note": pa.string()},
    "sellers": {"id": pa.string(), "country": pa.string(), "since": pa.int64(), "boss": BOSS},
    "articles": {"id": pa.string(), "title": pa.string()},
}

GetTask = Callable[..., Plan]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    home = tmp_path / "shop"
    write_project(home, {"conf/dev.yml": "lake: ./lake\n", "jobs/wide.yml": WIDE, "jobs/inverse.yml": MIRROR})
    for name, columns in TABLES.items():
        DeltaTable.create(str(home / "lake" / name), pa.schema(list(columns.items())), configuration=FEED)
    return home


@pytest.fixture
def get_task(shop: Path) -> GetTask:
    """Give what a job has to do in its first run."""

    def _get(name: str) -> Plan:
        project = enrich.load_project(shop)
        return decide_plan(Workplace(project, [name], run_id="0" * 32).open_job(project.jobs[name]))

    return _get


@pytest.fixture
def created() -> JobResult:
    """What the first run of ``wide`` might give."""
    result = JobResult(
        "wide",
        "created",
        "bootstrap",
        {alias: SourceWindow(None, 0, 1) for alias in ("orders", "notes", "sellers", "articles", "again")},
        Counts(affected_keys=3, inserted=3, quarantined=1),
        0,
        findings=(
            Finding(0, "expect_column_values_to_not_be_null", "seller", "quarantine", 3, 1, success=False),
            Finding(None, "key_not_null", None, "warn", 4, 1, success=False, source="orders"),
            Finding(None, "key_unique", "id", "fail", 4, 0, success=True, source="orders"),
            Finding(None, "match_rate", None, "warn", 0, 0, success=None, source="sellers", rule=0),
        ),
        lookups={"sellers": Lookup(3, 2, 0, "foreign_key")},
        quarantine=Quarantine(1, {"x": 1}),
        strategy="create",
        written=Extent(1, 2048),
        state=State(3, (), {"sellers": LookupState(3, 2, 0)}, {"seller": 1}),
    )
    return replace(result, seconds=1.5)
