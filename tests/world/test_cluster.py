"""A real standalone cluster: a master and two workers from pyspark's own distribution, without Python for executors.

Each program there starts three JVMs, so few programs run, and they compile quickly rather than well.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable

from differential import reader
from enrich.spark.jars import find_delta_jars, find_spark_home
from kit.cluster import SETTINGS, serve_cluster
from kit.project import ROOT
from kit.world import must_run, run

DRIVER = Path(__file__).with_name("cluster_driver.py")

KILLING = """\
import os, signal, sys
from pathlib import Path

from pyspark import SparkContext

import enrich
from enrich.base import failpoints
from enrich.steps import run

run.LARGE_LOOKUP = 0  # with lookups that are filtered by rows which are kept on the executors
killed = []


def kill_executors(point):
    if point != "staged.after" or killed:
        return
    application = SparkContext._active_spark_context.applicationId.encode()
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().split(bytes(1))
        except OSError:
            continue
        if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and application in words:
            killed.append(int(each.parent.name))
            os.kill(killed[-1], signal.SIGKILL)


failpoints.hook = kill_executors
result = enrich.run(enrich.load_project(".", target="cluster"), jobs=["customers_with_email"])
print("killed", len(killed), "exit", result.exit_code, "status", result.jobs[0].status)
"""


class Cluster:
    """A standalone cluster on the loopback interface."""

    def __init__(self, master: str, project: Path) -> None:
        self.master = master
        self.project = project

    def enrich(self, *words: object, code: int = 0) -> str:
        """Call the command in the project; return what it printed."""
        command = [sys.executable, "-m", "enrich", "--target", "cluster", *words]
        done = run(command, cwd=self.project, timeout=600, PYTHONPATH=str(ROOT / "lib"))
        assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def drive(self, what: str, home: Path) -> str:
        """Let a driver of its own do something on the cluster; return what it told.

        The executors have pyarrow: the step ``nfc`` needs it, which the search for near misses takes.
        """
        command = [sys.executable, DRIVER, what, self.master, home]
        paths = os.pathsep.join([str(ROOT / "lib"), str(ROOT / "tests")])
        return must_run(command, cwd=home, timeout=900, PYTHONPATH=paths, PYSPARK_PYTHON=sys.executable)

    def rename_customer(self, name: str) -> None:
        """Update a customer as another program would, which changes a row of two targets."""
        customers = DeltaTable(self.project / "lake" / "customers")
        customers.update(predicate="customer_id = 'c1'", new_values={"name": name})

    def names(self) -> set[tuple[str, str]]:
        """Return the names that the two targets have of the customer."""
        found = []
        for table, key, name in (
            ("customers_with_email", "customer_id", "name"),
            ("orders_with_customer", "order_id", "customer"),
        ):
            rows = reader.rows(self.project / "lake" / table)
            found += [(table, row[name]) for row in rows if row[key] in ("c1", "o1")]
        return set(found)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master, two workers with a core each, and a project of `enrich init` with two jobs that have run there once."""
    directory = tmp_path_factory.mktemp("cluster")
    with serve_cluster(directory) as master:
        project = directory / "project"
        must_run([sys.executable, "-m", "enrich", "init", project], cwd=directory, PYTHONPATH=str(ROOT / "lib"))
        for file in (project / "jobs").iterdir():
            if file.stem not in ("customers_with_email", "orders_with_customer"):
                file.unlink()
        settings = SETTINGS | {"spark.executorEnv.PYSPARK_PYTHON": "/there/is/no/python"}
        spark = {"master": master, "conf": settings}
        conf = {"lake": "./lake", "spark": spark}
        (project / "conf" / "cluster.yml").write_text(yaml.safe_dump(conf))
        found = Cluster(master, project)
        found.enrich("run")
        yield found


def both(name: str) -> set[tuple[str, str]]:
    return {("customers_with_email", name), ("orders_with_customer", name)}


def test_jobs_run_without_python_on_the_executors(cluster: Cluster) -> None:
    assert cluster.names() == both("Ada")
    cluster.rename_customer("Ada King")
    cluster.enrich("run")
    assert cluster.names() == both("Ada King")


def test_a_run_survives_the_death_of_all_its_executors(cluster: Cluster) -> None:
    cluster.rename_customer("Countess")
    command = [sys.executable, "-c", KILLING]
    told = must_run(command, cwd=cluster.project, PYTHONPATH=str(ROOT / "lib"))
    assert re.search(r"killed [12] exit 0 status updated", told), told
    assert ("customers_with_email", "Countess") in cluster.names()


def test_spark_submit_decides_where_the_jobs_run(cluster: Cluster) -> None:
    """The conf names no master, and executors come and go."""
    cluster.rename_customer("Lovelace")
    (cluster.project / "task.py").write_text("from enrich.cli import main\n\nmain()\n")
    conf = {
        **SETTINGS,
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        "spark.dynamicAllocation.maxExecutors": "2",
    }
    submit = [find_spark_home() / "bin" / "spark-submit", "--master", cluster.master]
    submit += ["--jars", ",".join(map(str, find_delta_jars()))]
    submit += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    must_run(
        [*submit, "task.py", "--target", "prod", "run", "--output", "json"],
        cwd=cluster.project,
        PYTHONPATH=str(ROOT / "lib"),
        PYSPARK_PYTHON=sys.executable,
        LAKE=str(cluster.project / "lake"),
    )
    assert cluster.names() == both("Lovelace")
    cluster.enrich("verify")


def test_the_story_of_the_demo_is_the_same_on_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """With joins in time: as-of joins, and an interval join."""
    told = cluster.drive("demo", tmp_path)
    assert "Every round was as expected" in told
    assert re.findall(r"payments (\d): (\w+)", told) == [("1", "created"), ("2", "updated"), ("3", "updated")]


def test_a_part_of_the_differential_suite_holds_on_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    told = cluster.drive("histories", tmp_path)
    assert re.search(r"histories 300, .* rows compared [\d,]{3,},", told), told


def test_tables_of_a_catalog_serve_on_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """Sources and target: managed, partitioned, clustered, with mapped columns, named with one, two and three parts."""
    assert cluster.drive("catalog", tmp_path) == "created, updated, unchanged, equal\n"
