"""Scenario files against their project: what is read, and what is refused at which line."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

import enrich
from enrich.base.errors import ConfigError, Fault
from enrich.project.project import Project
from enrich.project.yamlfile import read_tree
from enrich.testing.lake import redirect
from enrich.testing.outcome import choose_scenarios
from enrich.testing.reader import read_scenario
from enrich.testing.scenario import Scenario
from kit.project import CONF, CUSTOMERS, ROOT, write_project

ACTIVE = """\
job: active
sources: {customers: {table: customers, key: id}}
from: customers
where: customers.ok
target: {table: active}
"""
FAR = """\
job: far
sources:
  names: {table: main.crm.names, key: id}
  extra: {table: ./names, key: id}
  held: {table: customers__quarantine, key: id}
from: names
join:
  extra: {kind: table}
  held: {kind: table}
select: {id: key}
target: {table: s3a://bucket/names}
"""
SCENARIO = """\
tables:
  consents: {key: id, columns: {id: string, ok: boolean}}
  accounts:
    key: id
    columns: {id: string, email: string}
    rows:
    - {id: u1, email: a@example.com}
rounds:
- title: one
  upsert:
    consents:
    - {id: u1, ok: true}
  status: created
  expect:
    customers:
    - {id: u1, email: a@example.com, ok: true}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    files = {"conf/dev.yml": CONF, "jobs/customers.yml": CUSTOMERS, "jobs/active.yml": ACTIVE, "jobs/far.yml": FAR}
    return enrich.load_project(write_project(tmp_path / "project", files))


def read(project: Project, text: str) -> Scenario:
    write_project(project.dir, {"tests/x.yml": text})
    return read_scenario(project, project.dir / "tests" / "x.yml")


def edited(*pairs: tuple[str, str]) -> str:
    text = SCENARIO
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def test_the_jobs_that_the_tables_are_enough_for_run(project: Project) -> None:
    scenario = read(project, SCENARIO)
    assert (scenario.file, scenario.title) == ("tests/x.yml", "x")
    assert scenario.jobs == ("customers", "active")
    assert scenario.tables["accounts"].rows == ({"id": "u1", "email": "a@example.com"},)
    (first,) = scenario.rounds
    assert [(write.verb, write.rows, write.line) for commit in first.commits for write in commit] == [
        ("upsert", ({"id": "u1", "ok": True},), 11)
    ]
    assert {job: result.status for job, result in first.results.items()} == {
        "customers": "created",
        "active": "created",
    }
    assert (first.exit_code, first.jobs) == (0, ("customers", "active"))


def test_a_dump_is_loaded_before_other_commits_and_stands_as_it_is(project: Project) -> None:
    text = edited(("  upsert:\n", '  load: {accounts: {text: "id;email\\r\\nu2;b@example.com\\r\\n"}}\n  upsert:\n'))
    (commit,) = read(project, text).rounds[0].commits
    assert [(write.verb, write.table) for write in commit] == [("load", "accounts"), ("upsert", "consents")]
    dump = commit[0].dump
    assert dump is not None
    assert (dump.text, dump.header, dump.complete) == ("id;email\r\nu2;b@example.com\r\n", True, False)


def test_a_job_whose_target_is_given_does_not_run(project: Project) -> None:
    text = "tables: {customers: {key: id, columns: {id: string, ok: boolean}}}\nrounds: [{title: one}]\n"
    assert read(project, text).jobs == ("active",)


def test_catalog_tables_and_paths_have_names_in_the_lake(project: Project, tmp_path: Path) -> None:
    """Two tables whose names would be the same are two; a quarantine stays beside its target."""
    table = "{key: id, columns: {id: string}}"
    names = ("main.crm.names", "./names", "customers__quarantine")
    text = f"jobs: far\ntables: {{{', '.join(f'{name}: {table}' for name in names)}}}\nrounds: [{{title: one}}]\n"
    scenario = read(project, text)
    assert [each.name for each in scenario.tables.values()] == ["main_crm_names", "names", "customers__quarantine"]
    moved = redirect(project, tmp_path / "lake").jobs["far"]
    assert [source.table for source in moved.sources.values()] == [each.name for each in scenario.tables.values()]
    assert moved.target.table == "s3a_bucket_names"
    assert project.jobs["far"].target.table == "s3a://bucket/names"
    write_project(project.dir, {"tables.yml": "people: {table: main.crm.names, key: id}\n"})
    scenario = read(enrich.load_project(project.dir), text.replace("main.crm.names", "people"))
    assert scenario.tables["people"].name == "main_crm_names"


def test_nobody_is_told_of_the_runs_of_a_test(tmp_path: Path) -> None:
    """Its tables are called as those of the deployment: a receiver would take them for these."""
    told = "lineage: {file: events.json}\nmetrics: {file: m.prom}\nnotify: {ops: {url: {env: NO_SUCH_URL}}}\n"
    files = {"conf/dev.yml": f"{CONF}{told}", "jobs/customers.yml": CUSTOMERS}
    project = enrich.load_project(write_project(tmp_path / "project", files))
    moved = redirect(project, tmp_path / "lake").settings
    assert (moved.lineage, moved.metrics, moved.notify) == (None, None, {})
    assert project.settings.metrics is not None


WRONG = [
    (edited(("tables:", "tabels:")), "1: unknown key 'tabels'; did you mean 'tables'?"),
    (edited(("status: created", "stauts: created")), "13: unknown key 'stauts'; did you mean 'status'?"),
    (edited(("status: created", "columns: {}")), "13: unknown key 'columns'; it belongs in 'tables.<table>'"),
    (
        edited(("  status: created", "  load: {acounts: {text: x}}")),
        "13: there is no given table 'acounts'; did you mean",
    ),
    (edited(("  status: created", "  load: {accounts: {txt: x}}")), "13: unknown key 'txt'; did you mean 'text'?"),
    (edited(("status: created", "status: craeted")), "13: 'status' is 'craeted', but must be one of created"),
    (edited(("status: created", "status: {custmers: created}")), "13: there is no job 'custmers' here; did you mean"),
    (edited(("status: created", "run: far")), "13: there is no job 'far' here"),
    (edited(("status: created", "run: []\n  exit_code: 3")), "14: the round runs no job, so that 'exit_code' means"),
    (edited(("status: created", "run: 7")), "13: "),
    (edited(("status: created", "exit_code: high")), "13: 'rounds.exit_code' must be a whole number, not text"),
    (edited(("status: created", "title: two")), "13: duplicate key 'title'"),
    (edited(("- title: one\n", "- commits: []\n")), "9: 'title' is missing"),
    (edited(("    customers:\n    -", "    custmers:\n    -")), "15: 'custmers' is not the target of a job that runs"),
    (edited(("  consents: {key", "  consent: {key")), "2: no job reads a table 'consent'; did you mean 'consents'?"),
    (
        edited(("ok: boolean", "ok: booleen")),
        "2: 'booleen' is not a type that a test can have; did you mean 'boolean'?",
    ),
    (edited(("{key: id, columns", "{key: ib, columns")), "2: the key 'ib' is not a column; it can be id, ok"),
    (edited(("u1, email:", "u1, emial:")), "7: the table has no column 'emial'; did you mean 'email'?"),
    (edited(("    rows:\n    - {id", "    rows: |\n      {id")), "6: rows are a list of mappings, not text"),
    (edited(("ok: true}\n  status", "ok: 1}\n  status")), "12: column 'ok': 1 is not true or false"),
    (edited(("    consents:\n    -", "    consent:\n    -")), "11: there is no given table 'consent'; did you mean"),
    (edited(("    - {id: u1, ok: true}", "    - u1")), "12: a row is a mapping of columns and values, not text"),
    (edited(("upsert:", "update:"), ("{id: u1, ok: true}\n  s", "{ok: true}\n  s")), "12: the row does not name 'id'"),
    (edited(("  status: created", "  delete: {consents: u1}")), "13: keys are a list, not text"),
    (edited(("  status: created", "  delete: {consents: [{ok: true}]}")), "13: a key is a mapping of id"),
    (edited(("  status: created", "  commits: [{delete: {consents: [u1]}}]")), "13: give either 'commits' or"),
    (edited(("  status: created", "  changed: {customers: []}")), "15: give either 'expect', or 'changed'"),
    (
        edited(("  status: created", "  why: {customers: [{id: u1, accounts: macthed}]}")),
        "13: 'macthed' is not a reason",
    ),
    (edited(("  status: created", "  why: {customers: [{id: u1}]}")), "13: the rows name none of the aliases"),
    (edited(("  status: created", "  findings: {customers: [{colunm: x}]}")), "did you mean 'column'"),
    (edited(("  status: created", "  counts: {customers: {insertd: 1}}")), "13: unknown key 'insertd'; did you mean"),
    (
        edited(("{key: id, columns", "{key: ib, columns"), ("  status: created", "  delete: {consents: [u1]}")),
        "2: the key",
    ),
    (edited(("rounds:", "jobs: [active]\nrounds:")), "8: job 'active' reads 'customers', which is neither given nor"),
    (edited(("rounds:", "jobs: [customer]\nrounds:")), "8: there is no job 'customer' here; did you mean 'customers'?"),
    (
        "tables: {accounts: {key: id, columns: {id: string}}}\nrounds: [{title: one}]\n",
        "1: the given tables are not enough",
    ),
    ("tables: {accounts: {key: id, columns: {id: string}}}\nrounds: []\n", "2: there are no rounds"),
    (edited(("tables:", "tables: &x")), "1: anchor &x: anchors are not allowed"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_wrong_file_is_refused_at_its_line(project: Project, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(project, text)
    assert caught.value.exit_code == 2
    found = [str(fault) for fault in caught.value.faults]
    assert any((f"tests/x.yml:{message}" if message[0].isdigit() else message) in each for each in found), found
    assert all(each.startswith("tests/x.yml:") for each in found)


def test_all_faults_of_all_files_are_told(project: Project) -> None:
    wrong = edited(("status: created", "status: craeted"), ("ok: boolean", "ok: booleen"))
    write_project(project.dir, {"tests/a.yml": wrong, "tests/b.yml": "tables: {}\n", "tests/.hidden.yml": "x"})
    with pytest.raises(ConfigError) as caught:
        choose_scenarios(project, (), ())
    assert [str(fault).split(":")[0] for fault in caught.value.faults] == ["tests/a.yml"] * 3 + ["tests/b.yml"]


def test_scenarios_are_chosen_by_file_and_title(project: Project) -> None:
    write_project(project.dir, {"tests/a.yml": f"title: Late accounts\n{SCENARIO}", "tests/b.yml": SCENARIO})
    assert [each.file for each in choose_scenarios(project, (), ("LATE",))] == ["tests/a.yml"]
    assert [each.file for each in choose_scenarios(project, (), ("b.yml", "late"))] == ["tests/a.yml", "tests/b.yml"]
    assert len(choose_scenarios(project, [project.dir / "tests/b.yml"], ())) == 1
    with pytest.raises(ConfigError, match="contains 'nothing'"):
        choose_scenarios(project, (), ("nothing",))
    with pytest.raises(ConfigError, match="no such file"):
        choose_scenarios(project, [Path("nowhere.yml")], ())


def test_a_project_without_scenarios_says_what_to_write(project: Project) -> None:
    with pytest.raises(ConfigError, match=r"write tests/<name>.yml"):
        choose_scenarios(project, (), ())


# --- what editors know -----------------------------------------------------------------------------------------------


@pytest.fixture
def validator() -> Draft7Validator:
    schema = json.loads((ROOT / "conf" / "schema" / "test.schema.json").read_text(encoding="utf-8"))
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)


def test_the_schema_takes_every_scenario_that_there_is(validator: Draft7Validator) -> None:
    files = [*(ROOT / "tests").glob("*.yml"), *(ROOT / "lib" / "enrich" / "demo" / "story").glob("*.yml")]
    for path in files:
        assert not list(validator.iter_errors(read_tree(path, path.name).value)), path.name


@pytest.mark.parametrize("line", ["stauts: x", "run: 7", "gone: []", "status: [x]", "full_refresh: maybe"])
def test_the_schema_refuses_what_the_reader_refuses(project: Project, validator: Draft7Validator, line: str) -> None:
    text = edited(("status: created", line))
    with pytest.raises(ConfigError):
        read(project, text)
    assert list(validator.iter_errors(read_tree(project.dir / "tests" / "x.yml", "x.yml").value))


def test_the_example_of_the_page_is_one_of_the_samples() -> None:
    """Which are played by tests/scenarios/test_scenario_files.py."""
    text = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    example = text.split("```yaml\n")[1].split("```")[0]
    assert example == (ROOT / "tests" / "products.yml").read_text(encoding="utf-8")
    lines = example.splitlines()
    line = lines.index("    products_with_merchant:", lines.index("  changed:")) + 1
    assert f"tests/products.yml:{line}: products_with_merchant" in text


# --- pytest ----------------------------------------------------------------------------------------------------------


def collect(home: Path, *args: str) -> str:
    """Return what pytest collects in a project."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment |= {"PYTHONPATH": str(ROOT / "lib"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "enrich.testing.plugin", "--collect-only", "-q"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", *args],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_pytest_collects_scenarios_when_it_is_asked_to(project: Project) -> None:
    other = {"tests/conf/x.yml": "a: b", "other/tests/y.yml": "a: b", "pytest.ini": "[pytest]\n"}
    write_project(project.dir, {"tests/x.yml": SCENARIO, "tests/test_it.py": "def test_it(): pass\n", **other})
    assert "1 test collected" in collect(project.dir)
    assert "tests/x.yml::x\n" in (asked := collect(project.dir, "--enrich"))
    assert "2 tests collected" in asked
    assert "1 test collected" in collect(project.dir, "tests/x.yml")
    write_project(project.dir, {"pytest.ini": "[pytest]\nenrich_scenarios = true\n"})
    assert "2 tests collected" in collect(project.dir)


def test_importing_it_imports_neither_spark_nor_delta() -> None:
    code = "import enrich.testing, enrich.testing.plugin, enrich.testing.outcome, sys; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "lib")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert not {"pyspark", "delta", "deltalake", "pandas", "great_expectations"} & set(done.stdout.split())


# --- anything else ---------------------------------------------------------------------------------------------------

RICH = {
    "title": "all keys",
    "jobs": ["customers"],
    "partial": True,
    "tables": {
        "consents": {"key": "id", "columns": {"id": "string", "ok": "boolean"}, "rows": [{"id": "u1", "ok": True}]},
        "accounts": {"key": ["id"], "columns": {"id": "string", "email": "string"}, "rows": [{"id": "u1"}]},
    },
    "rounds": [
        {
            "title": "one",
            "commits": [{"insert": {"consents": [{"id": "u2"}]}, "delete": {"accounts": ["u1"]}}],
            "doctor": "customers",
            "run": ["customers"],
            "full_refresh": True,
            "accept": ["mass_change"],
            "exit_code": 0,
            "status": {"customers": "created"},
            "changed": {"customers": [{"id": "u1"}]},
            "gone": {"customers": [{"id": "u2"}]},
            "quarantine": {"customers": 0},
            "findings": {"customers": [{"expectation": "x", "failed": 1}]},
            "counts": {"customers": {"inserted": 1}},
            "why": {"customers": [{"id": "u1", "accounts": "matched"}]},
        }
    ],
}
VALUES: list[Any] = [
    None,
    7,
    -1.5,
    True,
    "x",
    "",
    [],
    {},
    [None],
    [[]],
    {"a": None},
    {"id": ["u1"]},
    [{"id": None}],
]


def nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for step, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from nodes(item, (*path, step))


def replaced(path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    root = copy.deepcopy(RICH)
    place: Any = root
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return root


def test_any_value_anywhere_is_read_or_refused_at_a_line(project: Project, seed: int) -> None:
    assert read(project, json.dumps(RICH)).rounds[0].options["accept"] == ("mass_change",)
    told: list[Fault] = []
    for path, value in random.Random(seed).sample(list(product(nodes(RICH), VALUES)), 200):
        try:
            read(project, json.dumps(replaced(path, value), indent=1))
        except ConfigError as error:
            told += error.faults
    assert len(told) > 100
    assert {str(fault) for fault in told if not (fault.where or "").startswith("tests/x.yml:")} == set()
