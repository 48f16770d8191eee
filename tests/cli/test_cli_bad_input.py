"""Bad input: one line that names file, line and the next step, the documented exit code, and nothing written.

Everything here is found in files and logs: ``java`` is out of reach.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cli.shop import ACCOUNTS, CONSENTS, write_table
from kit.command import Call, Start
from kit.project import files_below

JOB = "jobs/customers.yml"
CONF = "conf/dev.yml"


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)


def edited(name: str, old: str, new: str) -> Callable[[Path], None]:
    """Return what replaces a text in a file of the project."""

    def _edit(project: Path) -> None:
        path = project / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return _edit


def written_since(before: set[str], project: Path) -> set[str]:
    """Return the files that are new, outside the state directory."""
    return {name for name in files_below(project) - before if not name.startswith("lake/_enrich/")}


def refused(call: Call, project: Path, *args: object) -> tuple[int, dict[str, Any], str]:
    """Run, expect that nothing outside the state directory is written, return exit code, JSON and stderr."""
    before = files_below(project)
    result = call("--project-dir", project, "run", *args, "--output", "json")
    assert written_since(before, project) == set()
    assert result.stdout.count("\n") == 1
    return result.exit_code, json.loads(result.stdout), result.stderr


IN_FILES = {
    "unknown key": (edited(JOB, "from: consents", "form: consents"), f"{JOB}:5", "did you mean 'from'"),
    "unknown key of a join": (edited(JOB, "how: full", "hwo: full"), f"{JOB}:7", "did you mean 'how'"),
    "unknown key of conf": (edited(CONF, "  master", "  mastre"), f"{CONF}:3", "did you mean 'master'"),
    "wrong word": (edited(JOB, "how: full", "how: outer"), f"{JOB}:7", "outer"),
    "broken YAML": (edited(JOB, "from: consents", "from: [consents"), JOB, ""),
    "YAML with an anchor": (edited(JOB, "from: consents", "from: &x consents"), f"{JOB}:5", "anchor"),
    "a suite that is not there": (edited(JOB, "target:", "expectations: nope\ntarget:"), f"{JOB}:12", "nope"),
    "another name than the file's": (edited(JOB, "job: customers", "job: customer"), f"{JOB}:1", "customer"),
    "variable that is not set": (edited(CONF, "./lake", "${NO_SUCH_LAKE}"), f"{CONF}:1", "NO_SUCH_LAKE"),
}


IN_EXPRESSIONS = {
    "unknown alias": (edited(JOB, "accounts.email", "acounts.email"), f"{JOB}:10", "did you mean 'accounts'"),
    "function off the list": (edited(JOB, "accounts.email", "reflect('a', 'b')"), f"{JOB}:10", "reflect"),
    "a key that is not selected": (edited(JOB, "  id: key\n", ""), JOB, "key"),
}


@pytest.mark.parametrize("name", IN_EXPRESSIONS)
def test_a_wrong_expression_is_refused_with_its_line(call: Call, project: Path, name: str) -> None:
    edit, where, said = IN_EXPRESSIONS[name]
    edit(project)
    code, answer, stderr = refused(call, project)
    told = stderr + "".join(str(job["error"]) for job in answer["jobs"])
    line = next(line for line in told.splitlines() if where in line)
    assert (code, answer["exit_code"]) == (2, 2)
    assert said in line


@pytest.mark.parametrize("name", IN_FILES)
def test_a_wrong_file_makes_the_project_unreadable(call: Call, project: Path, name: str) -> None:
    edit, where, said = IN_FILES[name]
    edit(project)
    code, answer, stderr = refused(call, project)
    assert (code, answer["exit_code"], answer["jobs"]) == (2, 2, [])
    line = next(line for line in stderr.splitlines() if where in line)
    assert said in line
    assert str(answer["error"]) in stderr.replace("error: ", "")


def test_an_unknown_target_names_the_known_ones(call: Call, project: Path) -> None:
    code, answer, stderr = refused(call, project, "--target", "prd")
    assert (code, answer["jobs"]) == (2, [])
    assert "there is no deployment 'prd'; known: dev" in stderr


def test_an_unknown_job_gets_a_suggestion(call: Call, project: Path) -> None:
    code, answer, stderr = refused(call, project, "custmers")
    assert (code, answer["jobs"]) == (2, [])
    assert "did you mean 'customers'?" in stderr


def no_feed(project: Path) -> None:
    path = project / "lake" / "accounts"
    DeltaTable(str(path)).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})


def no_table(project: Path) -> None:
    path = project / "lake" / "accounts"
    path.rename(path.with_name("elsewhere"))


def no_delta_table(project: Path) -> None:
    no_table(project)
    path = project / "lake" / "accounts"
    path.mkdir()
    (path / "part-0.parquet").write_bytes(b"PAR1")


def other_key_type(project: Path) -> None:
    no_table(project)
    schema = pa.schema([("id", pa.int64()), ("email", pa.string())])
    write_table(project / "lake" / "accounts", [{"id": 1, "email": "x@example.com"}], schema)


def a_variant(project: Path) -> None:
    """Make a variant of a column, in the log alone: neither delta-rs nor pyarrow writes one."""
    log = project / "lake" / "accounts" / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            next(field for field in schema["fields"] if field["name"] == "email")["type"] = "variant"
            action["metaData"]["schemaString"] = json.dumps(schema)
        if "protocol" in action:
            features = {"readerFeatures": ["variantType"], "writerFeatures": ["variantType", "changeDataFeed"]}
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    log.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")


def something_at_the_target(project: Path) -> None:
    path = project / "lake" / "customers"
    path.mkdir()
    (path / "notes.txt").write_text("mine")


def another_table_at_the_quarantine(project: Path) -> None:
    write_table(project / "lake" / "customers__quarantine", [], ACCOUNTS)


IN_TABLES = {
    "missing table": (no_table, [f"{JOB}:4", "accounts", "there is no table"]),
    "not a Delta table": (no_delta_table, [f"{JOB}:4", "not a Delta table"]),
    "no change feed": (no_feed, [f"{JOB}:4", "ALTER TABLE delta.`", "delta.enableChangeDataFeed"]),
    "key column missing": (
        edited(JOB, "consents, key: id", "consents, key: ids"),
        [f"{JOB}:3", "'ids'", "did you mean 'id'"],
    ),
    "misspelt column": (edited(JOB, "accounts.email", "accounts.emial"), [f"{JOB}:10", "emial", "did you mean"]),
    "key types that differ": (other_key_type, [JOB, "string", "bigint"]),
    "a type that cannot be compared": (a_variant, [f"{JOB}:10", "'email' of 'accounts' is variant"]),
    "another table at the quarantine's place": (
        another_table_at_the_quarantine,
        ["customers__quarantine", "was not written by job 'customers'", "move it away"],
    ),
    "something at the target": (something_at_the_target, [f"{JOB}:12", "not a Delta table"]),
}


@pytest.mark.parametrize("name", IN_TABLES)
def test_what_the_tables_show_fails_the_job(call: Call, project: Path, name: str) -> None:
    edit, said = IN_TABLES[name]
    edit(project)
    code, answer, _ = refused(call, project)
    (job,) = answer["jobs"]
    assert (code, answer["exit_code"], job["status"]) == (2, 2, "failed")
    assert "\n" not in job["error"]
    for part in said:
        assert part in job["error"]
    assert "@example.com" not in job["error"]


@pytest.mark.parametrize("name", [name for name in IN_TABLES if name != "something at the target"])
def test_validate_finds_the_same_without_a_run(call: Call, project: Path, name: str) -> None:
    edit, said = IN_TABLES[name]
    edit(project)
    before = files_below(project)
    result = call("--project-dir", project, "validate")
    assert (result.exit_code, result.stdout) == (2, "")
    line = next(line for line in result.stderr.splitlines() if said[0] in line)
    assert all(part in line for part in said)
    assert files_below(project) == before


def test_validate_shows_all_faults_at_once(call: Call, project: Path) -> None:
    edited(JOB, "how: full", "hwo: full")(project)
    edited(CONF, "  master", "  mastre")(project)
    result = call("--project-dir", project, "validate", "--output", "json")
    assert result.exit_code == 2
    answer = json.loads(result.stdout)
    assert [fault["where"] for fault in answer["faults"]] == [f"{CONF}:3", f"{JOB}:7"]
    assert len(result.stderr.splitlines()) == 2


def test_validate_says_that_all_is_well(call: Call, project: Path) -> None:
    result = call("--project-dir", project, "validate")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "1 job, 0 suites, deployment dev: no faults\n"


def test_work_without_java_is_an_environment_error(start: Start, project: Path) -> None:
    """In a process of its own: this one may have a session of another test."""
    before = files_below(project)
    done = start("--project-dir", project, "run", "--output", "json")
    (job,) = json.loads(done.stdout)["jobs"]
    assert (done.returncode, job["status"]) == (7, "failed"), done.stderr
    assert "Java" in job["error"]
    assert "JAVA_HOME" in job["error"]
    assert written_since(before, project) == set()


def test_the_fixture_is_what_the_tests_believe(project: Path) -> None:
    for name, schema in (("consents", CONSENTS), ("accounts", ACCOUNTS)):
        table = DeltaTable(str(project / "lake" / name))
        assert pa.schema(table.schema().to_arrow()).names == schema.names
        assert table.metadata().configuration["delta.enableChangeDataFeed"] == "true"
