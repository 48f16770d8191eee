"""Fixtures of the scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from scenarios.lab import Lab

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lab(tmp_path: Path, interpreted: SparkSession) -> Lab:
    """Give an empty project."""
    return Lab(tmp_path / "project", interpreted)


@pytest.fixture
def consents(lab: Lab) -> Lab:
    """Give the consents and accounts of three customers, the third without account, and their job."""
    lab.table("consents", "id", {"id": pa.string(), "ok": pa.bool_()}, [{"id": f"u{i}", "ok": True} for i in (1, 2, 3)])
    lab.table(
        "accounts",
        "id",
        {"id": pa.string(), "email": pa.string(), "note": pa.string()},
        [{"id": f"u{i}", "email": f"{i}@example.com", "note": "n"} for i in (1, 2)],
    )
    lab.job(
        """\
job: customers
sources:
  consents: {table: consents, key: id}
  accounts: {table: accounts, key: id}
from: consents
join:
  accounts: {kind: table, how: full}
select:
  id: key
  email: accounts.email
  ok: consents.ok
target: {table: customers}
"""
    )
    return lab
