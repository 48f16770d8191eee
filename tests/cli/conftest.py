"""Call the command line: in this process through click's runner, or as a process of its own."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.shop import ACCOUNTS, CONF, CONSENTS, JOB, ROOT, write_table

Call = Callable[..., Result]
Start = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command line is made for a process of its own: take back what it sets up, hide this machine's settings."""
    for name in [name for name in os.environ if name.startswith("ENRICH_")]:
        monkeypatch.delenv(name)
    logger = logging.getLogger("enrich")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    kept, root = (logger.handlers, logger.level, logger.propagate), logging.getLogger().handlers[:]
    yield
    logging.getLogger().handlers[:] = root
    logger.handlers, logger.level, logger.propagate = kept
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def call() -> Call:
    """Run a command in this process; the result has stdout, stderr and exit_code."""
    from enrich.cli import cli

    def _call(*args: object, **environment: str) -> Result:
        return CliRunner().invoke(cli, [str(arg) for arg in args], env=environment, prog_name="enrich")

    return _call


@pytest.fixture
def start() -> Start:
    """Run a command as a process of its own."""

    def _start(*args: object, cwd: Path | None = None, **environment: str | None) -> subprocess.CompletedProcess[str]:
        known = {name: value for name, value in os.environ.items() if not name.startswith("ENRICH_")}
        known |= {"PYTHONPATH": str(ROOT / "lib")}
        known |= {name: value for name, value in environment.items() if value is not None}
        for name in [name for name, value in environment.items() if value is None]:
            known.pop(name, None)
        command = [sys.executable, "-m", "enrich", *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=known, timeout=300, check=False)

    return _start


@pytest.fixture
def bare_project(tmp_path: Path) -> Path:
    """A project of one job, without tables."""
    project = tmp_path / "shop"
    for name, text in {"conf/dev.yml": CONF, "jobs/customers.yml": JOB}.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return project


@pytest.fixture
def project(bare_project: Path) -> Path:
    """The project with its tables: three consents, two accounts."""
    lake = bare_project / "lake"
    write_table(lake / "consents", [{"id": key, "consent": True} for key in ("a", "b", "c")], CONSENTS)
    write_table(lake / "accounts", [{"id": key, "email": f"{key}@example.com"} for key in ("a", "b")], ACCOUNTS)
    return bare_project
