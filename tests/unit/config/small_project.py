"""A small project that is right, and ways to make it wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from enrich.base.errors import ConfigError
from enrich.project.project import load_project

JOIN = """\
job: orders
sources:
  orders: {table: orders_raw, key: order_id}
  customers: {table: customers, key: customer_id}
from: orders
join:
  customers: {kind: foreign_key, on: orders.customer_id}
select:
  order_id: orders.order_id
  customer: customers.name
target: {table: orders_wide, cluster_by: [order_id]}
"""

MIRROR = """\
job: mails
kind: mirror
sources:
  people: {table: people, key: person_id}
from: people
mirror:
  value: mail
  conflict: last
  order: seen_at
  columns: [note]
target: {table: mails}
"""

HISTORY = """\
job: names
kind: history
sources:
  people: {table: people, key: person_id}
from: people
history:
  valid_from: since
  valid_to: until
  columns: [name, mail]
target: {table: names, cluster_by: [since]}
"""

CONF = """\
lake: ./lake
spark:
  master: local[2]
  conf: {spark.sql.shuffle.partitions: 2, spark.ui.enabled: false}
"""

FILES = {"conf/dev.yml": CONF, "jobs/orders.yml": JOIN, "jobs/mails.yml": MIRROR}

Edits = Mapping[int, str | None]


def edited(text: str, edits: Edits) -> str:
    """Return ``text`` with lines (from 1) replaced, or removed for None."""
    lines = [edits.get(number, line) for number, line in enumerate(text.splitlines(), 1)]
    return "".join(f"{line}\n" for line in lines if line is not None)


def faults_of(base: Path, target: str = "dev") -> list[tuple[str | None, str]]:
    """Return (where, message) of every fault of a project."""
    with pytest.raises(ConfigError) as caught:
        load_project(base, target)
    assert caught.value.exit_code == 2
    return [(fault.where, fault.message) for fault in caught.value.faults]
