"""A project with an interval join and a scenario of it, for places where only few things are tried."""

from __future__ import annotations

from pathlib import Path

from kit.project import CONF, write_project

JOB = """\
job: orders_with_payments
sources:
  orders: {table: orders, key: order_event_id}
  payments: {table: payments, key: payment_event_id}
from: orders
join:
  payments:
    kind: interval
    on: orders.order_id
    match: order_id
    at: orders.ts
    time: ts
    between: [-1h, 24h]
    how: full
select: {order_event_id: orders.order_event_id, payment_event_id: payments.payment_event_id, amount: payments.amount}
target: {table: orders_with_payments}
"""

SCENARIO = """\
title: Orders and the payments of the day after
tables:
  orders:
    key: order_event_id
    columns: {order_event_id: string, order_id: string, ts: timestamp}
    rows:
    - {order_event_id: e1, order_id: o1, ts: 2026-03-01T10:00:00Z}
    - {order_event_id: e2, order_id: o2, ts: 2026-03-01T10:00:00Z}
  payments:
    key: payment_event_id
    columns: {payment_event_id: string, order_id: string, ts: timestamp, amount: int}
    rows:
    - {payment_event_id: p1, order_id: o1, ts: 2026-03-01T09:00:00Z, amount: 5}
    - {payment_event_id: p2, order_id: o1, ts: 2026-03-02T10:00:00Z, amount: 6}
    - {payment_event_id: p3, order_id: o2, ts: 2026-03-02T10:00:01Z, amount: 7}
rounds:
- title: both ends belong to the interval, and who finds nobody stands alone
  status: created
  expect:
    orders_with_payments:
    - {order_event_id: e1, payment_event_id: p1, amount: 5}
    - {order_event_id: e1, payment_event_id: p2, amount: 6}
    - {order_event_id: e2, payment_event_id: null, amount: null}
    - {order_event_id: null, payment_event_id: p3, amount: 7}
- title: a payment was a second earlier; both lone rows become one
  update:
    payments:
    - {payment_event_id: p3, ts: 2026-03-02T10:00:00Z}
  status: updated
  expect:
    orders_with_payments:
    - {order_event_id: e1, payment_event_id: p1, amount: 5}
    - {order_event_id: e1, payment_event_id: p2, amount: 6}
    - {order_event_id: e2, payment_event_id: p3, amount: 7}
- title: a payment is taken back, and the other one of its order stays
  delete:
    payments: [p1]
  expect:
    orders_with_payments:
    - {order_event_id: e1, payment_event_id: p2, amount: 6}
    - {order_event_id: e2, payment_event_id: p3, amount: 7}
"""


def write_payments(home: Path) -> Path:
    """Write the project, and return its directory."""
    files = {"conf/dev.yml": CONF, "jobs/orders_with_payments.yml": JOB, "tests/payments.yml": SCENARIO}
    return write_project(home, files)
