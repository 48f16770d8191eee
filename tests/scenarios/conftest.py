"""Fixtures of the scenarios."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import Result

from kit import command
from kit.command import Call
from kit.lab import Lab, Prepared
from kit.project import CUSTOMERS
from scenarios.references import open_references


def open_consents(lab: Lab) -> None:
    """Write the consents and accounts of three customers, the third without account, and their job."""
    lab.table("consents", "id", {"id": pa.string(), "ok": pa.bool_()}, [{"id": f"u{i}", "ok": True} for i in (1, 2, 3)])
    lab.table(
        "accounts",
        "id",
        {"id": pa.string(), "email": pa.string(), "note": pa.string()},
        [{"id": f"u{i}", "email": f"{i}@example.com", "note": "n"} for i in (1, 2)],
    )
    lab.job(CUSTOMERS)


def run_consents(lab: Lab) -> None:
    """Do the same, and run the job."""
    open_consents(lab)
    assert lab.run().status == "created"


@pytest.fixture
def consents(prepared: Prepared) -> Lab:
    """Give consents, accounts and their job, which has not run yet."""
    return prepared("consents", open_consents)


@pytest.fixture
def joined(prepared: Prepared) -> Lab:
    """Give consents, accounts and their job after its first run."""
    return prepared("joined", run_consents)


@pytest.fixture
def lake(prepared: Prepared) -> Lab:
    """Give a lake with one row for each reason of `enrich why`; none of its jobs has run yet."""
    return prepared("references", open_references)


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Call]:
    """The command line in the test's project, in the tests' session."""

    def call(*args: object, **environment: str) -> Result:
        with contextlib.chdir(tmp_path / "project"):
            return command.call(*args, **environment)

    with command.restored():
        yield call
