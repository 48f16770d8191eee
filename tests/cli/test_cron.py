"""The cron lines of the pages, tried as they stand and as cron runs them: its shell, few variables, no terminal."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cli.shop import ACCOUNTS, CONSENTS, write_table
from kit.project import ROOT

_LINE = re.compile(r"^(?:\S+ +){5}(cd /srv/shop && .*)$", re.MULTILINE)


def read_lines(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "LAKE=s3a://bucket/lake" in text
    return _LINE.findall(text)


LINES = [*read_lines("README.md"), *read_lines("docs/operations.md")]


@pytest.fixture
def shop(bare_project: Path) -> Path:
    """The project of the crontabs, and the command where they look for it."""
    (bare_project / "conf" / "prod.yml").write_text("lake: ${LAKE}\n")
    script = bare_project / "venv" / "enrich"
    script.parent.mkdir()
    call = shlex.join(["exec", "env", f"PYTHONPATH={ROOT / 'lib'}", sys.executable, "-m", "enrich"])
    script.write_text(f'#!/bin/sh\n{call} "$@"\n')
    script.chmod(0o755)
    return bare_project


def run_by_cron(line: str, shop: Path) -> subprocess.CompletedProcess[str]:
    """Run a line as cron does; only the places that differ on this machine are put in."""
    for there, here in (
        ("/srv/shop", shop),
        ("/srv/venv/bin/enrich", shop / "venv" / "enrich"),
        ("/var/log/enrich.jsonl", shop / "enrich.jsonl"),
    ):
        line = line.replace(there, str(here))
    known = {"PATH": "/usr/bin:/bin", "HOME": str(shop), "SHELL": "/bin/sh", "LAKE": str(shop / "lake")}
    return subprocess.run(
        ["/bin/sh", "-c", line],
        cwd="/",
        env=known,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        start_new_session=True,
    )


def test_the_pages_have_the_lines() -> None:
    told = [re.search(r"enrich --target prod (\w+)", line) for line in LINES]
    readme, page = ["run", "run", "verify", "maintain"], ["run", "run", "report", "status", "maintain"]
    assert [each[1] for each in told if each is not None] == [*readme, *page]


@pytest.mark.parametrize("line", [line for line in LINES if " run " in line or " verify " in line])
def test_a_line_that_fails_says_which_job_and_why(line: str, shop: Path) -> None:
    done = run_by_cron(line, shop)
    assert (done.returncode, done.stdout) == (2, "")
    assert "customers: failed: jobs/customers.yml:3: there is no table at " in done.stderr
    assert "create it, or correct the table's name" in done.stderr


def test_a_line_that_fails_says_what_to_run(shop: Path) -> None:
    write_table(shop / "lake" / "consents", [], CONSENTS)
    write_table(shop / "lake" / "accounts", [], ACCOUNTS)
    (line,) = [line for line in LINES if "verify" in line]
    done = run_by_cron(line, shop)
    assert (done.returncode, done.stdout) == (5, "")
    assert "job 'customers' has no target yet; run `enrich --target prod run customers` to create it" in done.stderr


def test_a_line_that_succeeds_says_nothing(shop: Path) -> None:
    line = next(line for line in LINES if "maintain" in line)
    done = run_by_cron(line, shop)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_line_that_looks_says_nothing_until_there_is_something_to_see_to(shop: Path) -> None:
    report, status = (next(line for line in LINES if f" {name} " in line) for name in ("report", "status"))
    write_table(shop / "lake" / "consents", [], CONSENTS)
    write_table(shop / "lake" / "accounts", [], ACCOUNTS)
    sound = [run_by_cron(line, shop) for line in (report, status)]
    assert [(done.returncode, done.stdout, done.stderr) for done in sound] == [(0, "", "")] * 2
    (shop / "lake" / "accounts").rename(shop / "lake" / "gone")
    assert run_by_cron(next(line for line in LINES if " run " in line), shop).returncode == 2
    for line, says in ((report, "error: customers: failed: "), (status, "error: customers is late: ")):
        done = run_by_cron(line, shop)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith(says)
        assert "create it, or correct the table's name" in done.stderr
