"""Fixtures of the scenarios."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kit.lab import Lab, Prepared
from kit.project import CUSTOMERS


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
