"""``enrich test`` before any scenario is played: no JVM starts for what the files show to be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.command import Call
from kit.project import CONF, CUSTOMERS, write_project

SCENARIO = """\
tables:
  consents: {key: id, columns: {id: string, ok: boolean}}
  accounts: {key: id, columns: {id: string, email: strin}}
rounds:
- title: one
  stauts: created
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_project(tmp_path / "shop", {"conf/dev.yml": CONF, "jobs/customers.yml": CUSTOMERS})


def test_wrong_files_are_refused_with_a_line_a_fault(home: Path, call: Call) -> None:
    write_project(home, {"tests/a.yml": SCENARIO, "tests/b.yml": SCENARIO.replace("stauts", "status")})
    done = call("--project-dir", home, "test", PATH="", JAVA_HOME="")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "error: tests/a.yml:6: unknown key 'stauts'; did you mean 'status'?",
        "error: tests/b.yml:3: 'strin' is not a type that a test can have; did you mean 'string'?",
    ]


def test_a_project_without_scenarios_is_told_what_to_write(home: Path, call: Call) -> None:
    done = call("--project-dir", home, "test")
    assert done.exit_code == 2
    assert "write tests/<name>.yml" in done.stderr


def test_a_filter_that_matches_nothing_is_refused(home: Path, call: Call) -> None:
    write_project(home, {"tests/a.yml": SCENARIO.replace("stauts", "status").replace("strin}", "string}")})
    done = call("--project-dir", home, "test", "-k", "nothing")
    assert done.exit_code == 2
    assert "no scenario's file name or title contains 'nothing'" in done.stderr


def test_editors_get_the_schema(call: Call) -> None:
    assert json.loads(call("schema", "test").stdout)["title"] == "A scenario of enrich"
