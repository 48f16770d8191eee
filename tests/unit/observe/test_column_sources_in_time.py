"""From which columns the columns of a target come: as-of and interval joins, and histories."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from enrich.project.kinds import JOBS
from kit.lab import FEED
from kit.project import write_project
from unit.observe.conftest import GetTask

CLICKS = """\
job: clicks_with_plan
sources:
  clicks: {table: clicks, key: id}
  plans: {table: plans, key: [customer, since]}
from: clicks
join:
  plans:
    kind: as_of
    on: lower(clicks.customer)
    at: clicks.ts
    valid_from: since
    valid_to: until
    gone: plans.deleted
select: {id: clicks.id, plan: plans.plan, from_then_on: plans.since, label: "concat(plans.plan, clicks.customer)"}
target: {table: clicks_with_plan}
"""
PAID = """\
job: paid
sources:
  clicks: {table: clicks, key: id}
  payments: {table: payments, key: number}
from: clicks
join:
  payments:
    kind: interval
    on: upper(clicks.customer)
    match: payer
    at: coalesce(clicks.ts, clicks.seen)
    time: paid_at
    between: [-1h, 24h]
    how: full
select: {id: clicks.id, number: payments.number, cents: payments.amount * 100}
target: {table: paid}
"""
HISTORY = """\
job: plans_history
kind: history
sources: {customers: {table: customers, key: id}}
from: customers
history: {columns: [plan], valid_to: ended}
target: {table: plans_history}
"""
TIME = pa.timestamp("us", "UTC")
TABLES = {
    "clicks": {"id": pa.string(), "customer": pa.string(), "ts": TIME, "seen": TIME},
    "plans": {"customer": pa.string(), "since": TIME, "until": TIME, "deleted": pa.bool_(), "plan": pa.string()},
    "payments": {"number": pa.string(), "payer": pa.string(), "paid_at": TIME, "amount": pa.int32()},
    "customers": {"id": pa.string(), "plan": pa.string(), "note": pa.string()},
}


@pytest.fixture
def in_time(shop: Path) -> Path:
    jobs = {"clicks_with_plan": CLICKS, "paid": PAID, "plans_history": HISTORY}
    write_project(shop, {f"jobs/{name}.yml": text for name, text in jobs.items()})
    for name, columns in TABLES.items():
        DeltaTable.create(str(shop / "lake" / name), pa.schema(list(columns.items())), configuration=FEED)
    return shop


@pytest.mark.usefixtures("in_time")
def test_an_as_of_join(get_task: GetTask) -> None:
    traced = JOBS[get_task("clicks_with_plan").spec.kind].find_origins(get_task("clicks_with_plan").spec)
    assert {column: dict(sources) for column, sources in traced.items()} == {
        "id": {("clicks", "id"): "IDENTITY"},
        "plan": {("plans", "plan"): "IDENTITY"},
        "from_then_on": {("plans", "since"): "IDENTITY"},
        "label": {("plans", "plan"): "TRANSFORMATION", ("clicks", "customer"): "TRANSFORMATION"},
    }


@pytest.mark.usefixtures("in_time")
def test_an_interval_join(get_task: GetTask) -> None:
    traced = JOBS[get_task("paid").spec.kind].find_origins(get_task("paid").spec)
    assert {column: dict(sources) for column, sources in traced.items()} == {
        "id": {("clicks", "id"): "IDENTITY"},
        "number": {("payments", "number"): "IDENTITY"},
        "cents": {("payments", "amount"): "TRANSFORMATION"},
    }


@pytest.mark.usefixtures("in_time")
def test_the_times_of_a_history_come_from_no_column(get_task: GetTask) -> None:
    traced = JOBS[get_task("plans_history").spec.kind].find_origins(get_task("plans_history").spec)
    assert {column: dict(sources) for column, sources in traced.items()} == {
        "id": {("customers", "id"): "IDENTITY"},
        "valid_from": {},
        "ended": {},
        "plan": {("customers", "plan"): "IDENTITY"},
    }
