"""Fixtures of the command line's tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.shop import ACCOUNTS, CONF, CONSENTS, JOB, write_table
from kit import command
from kit.command import Call, Start
from kit.project import write_project


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide this machine's settings, and take back what the command line sets up."""
    for name in [name for name in os.environ if name.startswith("ENRICH_")]:
        monkeypatch.delenv(name)
    with command.restored():
        yield


@pytest.fixture
def call() -> Call:
    """Run a command in this process."""
    return command.call


@pytest.fixture
def start() -> Start:
    """Run a command as a process of its own."""
    return command.start


@pytest.fixture
def bare_project(tmp_path: Path) -> Path:
    """A project of one job, without tables."""
    return write_project(tmp_path / "shop", {"conf/dev.yml": CONF, "jobs/customers.yml": JOB})


@pytest.fixture
def project(bare_project: Path) -> Path:
    """The project with its tables: three consents, two accounts."""
    lake = bare_project / "lake"
    write_table(lake / "consents", [{"id": key, "consent": True} for key in ("a", "b", "c")], CONSENTS)
    write_table(lake / "accounts", [{"id": key, "email": f"{key}@example.com"} for key in ("a", "b")], ACCOUNTS)
    return bare_project
