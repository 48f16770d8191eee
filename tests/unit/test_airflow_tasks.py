"""The tasks and the assets of a project, from its files alone. Airflow itself: tests/world."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import enrich.airflow
from enrich.airflow import name_asset, plan_tasks, read_project
from enrich.base.errors import ConfigError
from enrich.base.names import CatalogName
from kit.command import environment
from kit.project import ROOT, write_project


def job(name: str, *tables: str) -> str:
    sources = "".join(f"  s{number}: {{table: {table}, key: id}}\n" for number, table in enumerate(tables))
    joins = "".join(f"  s{number}: {{kind: table}}\n" for number in range(1, len(tables)))
    head = f"job: {name}\nsources:\n{sources}from: s0\n"
    return f"{head}{f'join:{chr(10)}{joins}' if joins else ''}target: {{table: {name}}}\n"


FILES = {
    "conf/dev.yml": "lake: ${LAKE:-./lake}\n",
    "jobs/a.yml": job("a", "raw"),
    "jobs/b.yml": job("b", "a", "raw"),
    "jobs/c.yml": job("c", "b", "other"),
    "jobs/d.yml": job("d", "other"),
    "jobs/e.yml": job("e", "c__quarantine", "d"),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_project(tmp_path, FILES)


def test_each_job_waits_for_those_that_it_reads(home):
    planned = plan_tasks(read_project(home, "dev", None))
    assert planned == {"a": (), "b": ("a",), "c": ("b",), "d": (), "e": ("c", "d")}
    assert [*planned].index("a") < [*planned].index("b") < [*planned].index("c") < [*planned].index("e")


def test_a_choice_of_jobs_waits_through_those_that_are_left_out(home):
    project = read_project(home, "dev", None)
    assert plan_tasks(project, ["a", "c"]) == {"a": (), "c": ("a",)}
    assert plan_tasks(project, ["a", "e"]) == {"a": (), "e": ("a",)}
    assert plan_tasks(project, ["d"]) == {"d": ()}


def test_jobs_that_are_not_there_are_refused(home):
    project = read_project(home, "dev", None)
    with pytest.raises(ConfigError, match="there is no job 'x'; `enrich ls` lists the jobs"):
        plan_tasks(project, ["a", "x"])
    with pytest.raises(ConfigError, match="jobs is empty; leave it out"):
        plan_tasks(project, [])


def test_what_is_wrong_in_a_file_is_said_with_its_line(home):
    (home / "jobs" / "a.yml").write_text(FILES["jobs/a.yml"] + "form: s0\n")
    with pytest.raises(ConfigError, match=r"jobs/a\.yml:6: unknown key 'form'"):
        read_project(home, "dev", None)


@pytest.mark.parametrize(
    ("env", "asset"),
    [({"LAKE": "s3a://bucket/lake"}, "s3a://bucket/lake/a"), ({"LAKE": "/my lake"}, "file:///my%20lake/a")],
)
def test_the_tasks_variables_say_where_the_tables_are(home: Path, env: Mapping[str, str], asset: str) -> None:
    project = read_project(home, "dev", env)
    assert name_asset(project.location("a")) == asset
    assert name_asset(read_project(home, "dev", None).location("a")) == f"file://{home}/lake/a"


@pytest.mark.parametrize(
    ("location", "asset"),
    [
        ("/lake/Grüße", "file:///lake/Gr%C3%BC%C3%9Fe"),
        ("abfss://box@account.example/x", "abfss://box%40account.example/x"),
        ("file:///lake/a", "file:///lake/a"),
        ("hdfs://name:9000/a", "hdfs://name:9000/a"),
        (CatalogName(("main", "silver", "a")), "main.silver.a"),
    ],
)
def test_assets_are_named_after_tables(location, asset):
    assert name_asset(location) == asset


def test_parsing_imports_neither_airflow_nor_spark_nor_what_reads_tables():
    """In a Python of its own: a scheduler pays for every import, in every file and every minute."""
    code = (
        "import sys\nfrom enrich.airflow import build_dag\nfrom enrich.airflow import plan_tasks, read_project\n"
        f"plan_tasks(read_project({str(ROOT)!r}, 'dev', None))\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    heavy = {"airflow", "pyspark", "deltalake", "great_expectations", "pandas", "pyarrow", "sqlglot", "jinja2"}
    assert (heavy | {"enrich.operations", "enrich.delta"}) & set(done.stdout.split()) == set()


@pytest.mark.parametrize("call", ["build_dag('.')", "build_task_group('.')", "EnrichRunOperator"])
def test_without_airflow_the_error_names_what_is_missing(call):
    code = f"import sys\nsys.modules['airflow'] = None\nimport enrich.airflow\nenrich.airflow.{call}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment(), cwd=ROOT
    )
    assert done.returncode == 1
    assert "airflow" in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("ModuleNotFoundError")


def test_unknown_names_are_unknown():
    with pytest.raises(AttributeError, match="no attribute 'build_dags'"):
        enrich.airflow.build_dags  # noqa: B018
