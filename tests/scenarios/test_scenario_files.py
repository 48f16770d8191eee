"""Scenario files as users play them: what passes, and what the report says of what does not."""

from __future__ import annotations

import shutil
from xml.etree import ElementTree as ET

import pytest

import enrich
from enrich.testing.outcome import choose_scenarios, format_junit, format_outcome, play_scenarios
from kit.command import Call
from kit.lab import Lab
from kit.project import CUSTOMERS, ROOT, hold_nulls

RULED = (
    CUSTOMERS.replace("how: full", "how: left")
    + "expectations: customers\nrules: [{rule: mass_change, at_most: 0.5}]\n"
)

SCENARIO = """\
title: consents and their accounts
tables:
  consents:
    key: id
    columns: {id: string, ok: boolean}
    rows:
    - {id: u1, ok: true}
    - {id: u2, ok: false}
    - {id: u3, ok: true}
  accounts:
    key: id
    columns: {id: string, email: string}
    rows:
    - {id: u1, email: one@example.com}
    - {id: u2, email: two@example.com}
rounds:
- title: the first run is right
  status: created
  expect:
    customers:
    - {id: u2, email: two@example.com, ok: false}
    - {id: u1, email: one@example.com, ok: true}
  quarantine:
    customers:
    - {id: u3, email: null, ok: true, _failed: ["expect_column_values_to_not_be_null:email"]}
  findings:
    customers:
    - {expectation: expect_column_values_to_not_be_null, column: email, failed: 1}
  counts: {customers: {inserted: 2, quarantined: 1}}
  why:
    customers:
    - {id: u1, accounts: matched}
- title: a row is wrong, and so is its reason
  update:
    accounts:
    - {id: u1, email: new@example.com}
  changed:
    customers:
    - {id: u1, email: one@example.com, ok: true}
  why:
    customers:
    - {id: u1, accounts: no_such_key}
- title: the quarantine is wrong
  upsert:
    accounts:
    - {id: u3, email: three@example.com}
  gone:
    customers: [u9]
  quarantine: {customers: 1}
  counts: {customers: {inserted: 2}}
- title: nobody expected a block
  delete:
    consents: [u1, u2, u3]
  status: updated
  findings: {customers: []}
- title: a commit that is not possible
  delete:
    accounts: [u1, u8]
"""


@pytest.fixture
def project(lab: Lab) -> Lab:
    lab.job(RULED)
    lab.suite("customers", hold_nulls("email"))
    (lab.home / "tests").mkdir()
    (lab.home / "tests" / "customers.yml").write_text(SCENARIO)
    return lab


def test_the_report_says_what_differs_and_where(project: Lab, call: Call) -> None:
    loaded = enrich.load_project(project.home)
    (outcome,) = play_scenarios(loaded, choose_scenarios(loaded, (), ("CONSENTS and",)), project.spark)
    text = format_outcome(outcome)
    lines = [line.split(" s)")[0].split(" (5 rounds")[0] for line in text.splitlines()]
    wrong = SCENARIO.splitlines()

    def at(text: str, after: str) -> str:
        return f"tests/customers.yml:{wrong.index(text, wrong.index(after)) + 1}"

    assert lines[:2] == [
        "FAIL tests/customers.yml: consents and their accounts",
        "  ok   round 1: the first run is right",
    ]
    row, quarantine = "- title: a row is wrong, and so is its reason", "- title: the quarantine is wrong"
    reason = "    - {id: u1, accounts: no_such_key}"  # the line before it names the job
    assert lines[2:14] == [
        "  FAIL round 2: a row is wrong, and so is its reason",
        f"    {at('    customers:', row)}: customers",
        "      1 of 2 rows differ, aligned by id; cells between > and < differ",
        "           expected                      | found",
        "        != id=u1 email=>one@example.com< | id=u1 email=>new@example.com<",
        f"    tests/customers.yml:{wrong.index(reason)}: why customers",
        "      1 of 1 rows differ, aligned by id; cells between > and < differ",
        "           expected                     | found",
        "        != id=u1 accounts=>no_such_key< | id=u1 accounts=>matched<",
        "  FAIL round 3: the quarantine is wrong",
        f"    {at('  counts: {customers: {inserted: 2}}', quarantine)}: counts of customers",
        "      inserted: expected 2, found 1",
    ], text
    assert f"{at('    customers: [u9]', quarantine)}: customers" in text
    assert "1 of 1 keys were not in the table before the round" in text
    assert "++ (no such row) | id=u3 email=three@example.com ok=true" in text
    assert "quarantine of customers\n      expected 1 row, found 0" in text
    block = text.split("round 4: ")[1].split("round 5")[0]
    assert "exit code\n      expected 0, found 3\n      customers: blocked\n" in block
    assert "fail mass_change: 3 of 3 rows failed" in block
    assert "expected updated, found blocked" in block
    assert "found, not expected: fail mass_change" in block
    assert "delete into accounts\n      1 of 2 keys are not in the table" in text.split("round 5: ")[1]
    suite = ET.fromstring(format_junit([outcome]))  # noqa: S314 - our own document
    assert (suite.get("tests"), suite.get("failures")) == ("5", "4")
    assert not (project.home / "lake").exists()


def test_the_samples_are_as_their_scenario_says(lab: Lab, call: Call) -> None:
    """The repository's own project, by its command."""
    home = lab.home.parent / "samples"
    for folder in ("jobs", "conf", "expectations"):
        shutil.copytree(ROOT / folder, home / folder)
    (home / "tests").mkdir()
    for path in (ROOT / "tests").glob("*.yml"):
        shutil.copy(path, home / "tests")
    done = call("--project-dir", home, "test")
    assert done.exit_code == 0, done.output
    assert "ok   tests/samples.yml: The sample project" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("2 scenarios passed in ")
    assert {path.name for path in home.iterdir()} == {"jobs", "conf", "expectations", "tests"}


PYTHON_TEST = """
import enrich
import pytest


def test_it(enrich_spark, enrich_lake):
    enrich_lake.create("consents", "id", {"id": "string", "ok": "boolean"}, [{"id": "u1", "ok": True}])
    accounts = [{"id": "u1", "email": "one@example.com"}]
    enrich_lake.create("accounts", "id", {"id": "string", "email": "string"}, accounts)
    project = enrich_lake.redirect(enrich.load_project("HOME"))
    assert enrich.run(project, ["customers"], spark=enrich_spark).exit_code == 0
    enrich_lake.assert_rows("customers", ["id"], [{"id": "u1", "email": "one@example.com", "ok": True}])
    with pytest.raises(AssertionError, match="1 of 1 rows differ"):
        enrich_lake.assert_rows("customers", ["id"], [{"id": "u1", "email": None, "ok": True}])
"""


class Reports:
    """What a run of pytest inside a test says of its tests."""

    def __init__(self) -> None:
        self.found: dict[str, pytest.TestReport] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.found[report.nodeid] = report


def test_pytest_plays_scenarios_and_has_fixtures(project: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    home = project.home
    head, _, _ = SCENARIO.partition("- title: a row is wrong")
    (home / "tests" / "customers.yml").write_text(
        head.partition("  why:")[0].replace("two@example.com, ok: f", "x, ok: f")
    )
    (home / "tests" / "test_lakes.py").write_text(PYTHON_TEST.replace("HOME", str(home)))
    (home / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    reports = Reports()
    args = ["-q", "-p", "enrich.testing.plugin", "-p", "no:cacheprovider", "--enrich", f"--rootdir={home}"]
    code = pytest.main([*args, "-c", str(home / "pytest.ini"), str(home / "tests")], plugins=[reports])
    assert code == 1
    outcomes = {name: report.outcome for name, report in reports.found.items()}
    assert outcomes == {"tests/customers.yml::customers": "failed", "tests/test_lakes.py::test_it": "passed"}
    told = str(reports.found["tests/customers.yml::customers"].longrepr)
    assert told.startswith("FAIL tests/customers.yml: consents and their accounts")
    assert "!= id=u2 email=>x< | id=u2 email=>two@example.com<" in told
