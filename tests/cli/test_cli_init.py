"""`enrich init`: what it writes, what it refuses, and that the project is right as it stands; without a JVM."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake
from jsonschema import Draft7Validator

import enrich
from cli.shop import CONF, JOB
from enrich.project.yamlfile import read_tree
from kit.command import Call, Start
from kit.lab import FEED
from kit.project import ROOT, files_below, write_project

KINDS = ("table", "foreign_key", "list", "as_of", "interval", "mirror", "history")


@pytest.fixture
def shop(call: Call, tmp_path: Path) -> Path:
    home = tmp_path / "new" / "shop"
    assert call("init", home).exit_code == 0
    return home


def test_init_says_what_it_wrote_and_what_comes_next(call: Call, tmp_path: Path) -> None:
    home = tmp_path / "new" / "my shop"
    result = call("init", home)
    assert (result.exit_code, result.stderr) == (0, "")
    written, _, after = result.stdout.partition("\n\n")
    tables = {f"lake/{path.name}" for path in (home / "lake").iterdir()}
    assert set(written.split("\n")) == {name for name in files_below(home) if not name.startswith("lake/")} | tables
    assert f"cd '{home}'\n" in after
    assert "enrich run" in after


def test_a_table_that_is_there_already_stays(call: Call, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "lake" / "orders"), pa.table({"id": ["mine"]}))
    assert call("init", tmp_path).exit_code == 0
    assert DeltaTable(str(tmp_path / "lake" / "orders")).version() == 0
    assert DeltaTable(str(tmp_path / "lake" / "rates")).metadata().configuration["delta.enableChangeDataFeed"] == "true"


def test_the_project_has_a_job_of_each_kind_and_is_valid(call: Call, shop: Path) -> None:
    project = enrich.load_project(shop)
    kinds = {job.kind for job in project.jobs.values()} | {
        join.kind for job in project.jobs.values() for join in job.join.values()
    }
    assert kinds == {"join", *KINDS}
    assert all(job.expectations for job in project.jobs.values())
    for options in ([], ["--offline"]):
        result = call("--project-dir", shop, "validate", *options)
        assert (result.exit_code, result.stderr) == (0, "")


def test_rules_that_warn_or_fail_are_about_the_whole_target(shop: Path) -> None:
    seen = set()
    for path in (shop / "expectations").iterdir():
        for rule in json.loads(path.read_text())["expectations"]:
            settings = rule["meta"]["enrich"]
            seen.add(settings["action"])
            assert settings.get("scope") == (None if settings["action"] == "quarantine" else "target"), path.name
    assert seen == {"warn", "fail", "quarantine"}


def test_editors_find_the_schemas_in_the_project_and_the_files_fit(call: Call, shop: Path) -> None:
    files = [*(shop / "jobs").glob("*.yml"), *(shop / "conf").glob("*.yml")]
    for path in files:
        named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", path.read_text())
        assert named, path.name
        schema = json.loads((path.parent / named[1]).read_text())
        assert not list(Draft7Validator(schema).iter_errors(read_tree(path, path.name).value)), path.name
        assert schema == json.loads(call("schema", path.parent.name.removesuffix("s")).stdout)


def test_the_workflow_checks_the_files(shop: Path) -> None:
    flow = yaml.safe_load((shop / ".github" / "workflows" / "enrich.yml").read_text())
    steps = [step["run"] for step in flow["jobs"]["validate"]["steps"] if "run" in step]
    assert "enrich validate --offline" in steps
    assert any(step.startswith("pip install ") for step in steps)


def test_init_refuses_to_overwrite_and_names_the_files(call: Call, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "orders_with_customer.yml").write_text("mine")
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    (tmp_path / ".github" / "workflows" / "enrich.yml").symlink_to("nowhere")
    before = files_below(tmp_path)
    result = call("init", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    for name in ("tests/orders_with_customer.yml", ".github/workflows/enrich.yml"):
        assert str(tmp_path / name) in result.stderr
    assert "exist already; nothing was written" in result.stderr
    assert files_below(tmp_path) == before


def test_init_does_not_mix_into_a_project(call: Call, bare_project: Path) -> None:
    before = files_below(bare_project)
    (bare_project / "conf" / "dev.yml").rename(bare_project / "conf" / "other.yml")
    result = call("init", bare_project)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "has files of a project already" in result.stderr
    assert str(bare_project / "jobs" / "customers.yml") in result.stderr
    for number in range(20):
        (bare_project / "jobs" / f"x{number}.yml").write_text(JOB)
    assert ", and 19 more; nothing was written" in call("init", bare_project).stderr
    for number in range(20):
        (bare_project / "jobs" / f"x{number}.yml").unlink()
    assert len(files_below(bare_project)) == len(before)
    assert (bare_project / "jobs" / "customers.yml").read_text() == JOB


@pytest.mark.parametrize("name", ["shop [1]", "100%25 shop"])
def test_where_delta_rs_cannot_write_nothing_is_written(call: Call, tmp_path: Path, name: str) -> None:
    for command in ("init", "demo"):
        result = call(command, tmp_path / name)
        assert (result.exit_code, result.stdout) == (2, "")
        assert name in result.stderr
        assert not files_below(tmp_path)


@pytest.mark.parametrize("name", ["shop", "shop/conf", "shop/lake"])
def test_a_file_in_the_place_of_a_directory_is_named(call: Call, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    result = call("init", tmp_path / "shop")
    assert result.exit_code == 2
    assert f"{path} is a file, where a directory is needed" in result.stderr
    assert list(files_below(tmp_path)) == [name]


def test_other_files_stay_and_so_does_gitignore(call: Call, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.tmp\n")
    (tmp_path / "README.md").write_text("mine")
    assert call("init", "--project-dir", tmp_path).exit_code == 0
    assert (tmp_path / ".gitignore").read_text() == "*.tmp\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["a", "b"], "init takes one directory; for a job from tables write enrich init --from TABLE..."),
        (["a", "--project-dir", "b"], "either as DIR or with --project-dir, not both"),
        (["--from"], "--from needs the tables"),
    ],
)
def test_wrong_words_are_refused(call: Call, tmp_path: Path, args: list[str], said: str) -> None:
    result = call("init", *args)
    assert result.exit_code == 2
    assert said in result.stderr


def test_init_from_writes_a_job_that_is_valid(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, columns in (
        ("orders", {"order_id": ["o1"], "customer_id": ["c1"]}),
        ("customers", {"customer_id": ["c1"], "name": ["Ada"]}),
    ):
        write_deltalake(str(tmp_path / "wh" / name), pa.table(columns), configuration=FEED)
    monkeypatch.chdir(tmp_path)
    result = call("init", "--from", "wh/customers", "wh/orders")
    assert (result.exit_code, result.stderr) == (0, "")
    written, after = result.stdout.split("\n\n")
    assert str(tmp_path / "jobs" / "orders_with_customers.yml") in written.splitlines()
    assert after.splitlines() == ["Next:", "  enrich validate", "  enrich run orders_with_customers"]
    assert "no faults" in call("validate").stdout
    again = call("init", "--from", "wh/customers", "wh/orders")
    assert (again.exit_code, again.stdout) == (2, "")
    assert "orders_with_customers.yml exists already" in again.stderr


@pytest.mark.parametrize("args", [["init"], ["init", "--from", "tags"], ["validate", "--offline"], ["schema", "job"]])
def test_init_validate_and_schema_import_no_spark(start: Start, tmp_path: Path, args: list[str]) -> None:
    write_deltalake(str(tmp_path / "tags"), pa.table({"tag_id": ["t1"]}), configuration=FEED)
    if args[0] == "validate":  # without suites: Great Expectations, which looks at them, brings Spark where it is
        write_project(tmp_path, {"conf/dev.yml": CONF, "jobs/customers.yml": JOB})
    code = (
        f"import sys; from enrich.cli import cli\ntry: cli.main({args})\n"
        "finally: print(*{'pyspark', 'delta', 'py4j'} & set(sys.modules), 'loaded')"
    )
    known = {**os.environ, "PYTHONPATH": str(ROOT / "lib")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=known, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded"


def test_the_hook_for_pre_commit_runs_validate_offline() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert (hook["id"], hook["entry"], hook["pass_filenames"]) == (
        "enrich-validate",
        "enrich validate --offline",
        False,
    )
    wanted = re.compile(hook["files"])
    names = ("jobs/a.yml", "conf/dev.yml", "expectations/a.json", "sub/jobs/a.yaml")
    assert [name for name in names if not wanted.search(name)] == []
    assert not wanted.search("lib/a.py")
