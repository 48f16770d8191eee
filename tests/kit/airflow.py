"""A real Airflow with a home of its own: an environment that pip fills, SQLite, and a scheduler while it is needed."""

from __future__ import annotations

import os
import secrets
import socket
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.project import ROOT
from kit.world import Environment, find_free_port, make_environment, must_run, running, wait_until

CACHE = "ENRICH_WORLD_CACHE"
"""The variable that names a directory in which environments are kept between runs of the tests."""

PINS = ROOT / "tests" / "world"


def install_airflow(major: str, directory: Path, wheel: Path) -> Environment:
    """Return an environment with Airflow as ``tests/world/airflow-<major>.txt`` pins it, and with enrich.

    Airflow is made once where environments are kept. enrich comes as Airflow's documentation says for further packages:
    in a second installation, with Airflow's version and without its constraints.
    """
    pins = PINS / f"airflow-{major}.txt"
    (version,) = (line for line in pins.read_text().splitlines() if line.startswith("apache-airflow=="))
    home = Path(os.environ.get(CACHE) or directory) / version.replace("==", "-")
    ready = home / ".ready"
    if not ready.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        make_environment(home).install(version, constraints=pins)
        ready.touch()
    environment = Environment(home)
    environment.install(version, wheel, constraints=None)
    environment.install("--force-reinstall", "--no-deps", wheel, constraints=None)  # instead of an older build
    return environment


@dataclass(frozen=True)
class Site:
    """An installed Airflow and its home.

    Attributes:
        major: ``3`` or ``2``.
        environment: Where it is installed.
        home: Its directory: configuration, database, logs, DAGs.
        port: Where Airflow 3 listens.
    """

    major: str
    environment: Environment
    home: Path
    port: int = field(default_factory=find_free_port)

    @property
    def settings(self) -> dict[str, str]:
        """The variables of all of its processes: no waiting, nothing beyond this machine."""
        common = {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.home / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "1",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
            "PATH": f"{self.environment.home / 'bin'}:{os.environ['PATH']}",  # schedulers start `airflow` by its name
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "TEST_HOME": str(self.home),
            "TEST_LIB": str(ROOT / "lib"),
            "TEST_PYTHON": sys.executable,
        }
        if self.major == "2":
            return {**common, "AIRFLOW__CORE__EXECUTOR": "SequentialExecutor"}
        return {
            **common,
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self.port}/execution/",
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
        }

    def airflow(self, *args: object) -> str:
        """Run a command of Airflow, which must succeed; return its stdout."""
        return must_run([self.environment.command("airflow"), *args], cwd=self.home, timeout=400, **self.settings)

    def begin(self) -> None:
        """Make the database. The secret that the processes of Airflow 3 share is made up for this home."""
        (self.home / "dags").mkdir(parents=True)
        secret = f"[api_auth]\njwt_secret = {secrets.token_hex(32)}\n" if self.major == "3" else ""
        (self.home / "airflow.cfg").write_text(secret)
        self.airflow("db", "migrate")

    @contextmanager
    def scheduling(self) -> Iterator[None]:
        """Keep the scheduler running, and in Airflow 3 what reads the DAGs and what the tasks talk to."""
        with ExitStack() as stack:
            if self.major == "3":
                stack.enter_context(self._running("api-server", "--host", "127.0.0.1", "--port", str(self.port)))
                wait_until(self._answers, "the API server", 200)
                stack.enter_context(self._running("dag-processor"))
            stack.enter_context(self._running("scheduler"))
            yield

    def _running(self, command: str, *args: str) -> AbstractContextManager[object]:
        line: list[object] = [self.environment.command("airflow"), command, *args]
        return running(line, cwd=self.home, log=self.home / f"{command}.log", **self.settings)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def trigger(self, dag: str, run: str) -> None:
        """Start a run of a DAG, as soon as Airflow has read the DAG."""
        query = "select 1 from serialized_dag where dag_id = ?"
        wait_until(lambda: bool(self.ask(query, dag)), f"the DAG {dag}", 200)
        self.airflow("dags", "trigger", "--run-id", run, dag)

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Read from Airflow's own database."""
        with closing(sqlite3.connect(f"file:{self.home}/airflow.db?mode=ro", uri=True, timeout=30)) as database:
            return database.execute(query, values).fetchall()

    def change(self, query: str, *values: object) -> None:
        """Write to Airflow's own database, as its web page would."""
        with closing(sqlite3.connect(self.home / "airflow.db", timeout=30)) as database, database:
            database.execute(query, values)

    def tasks(self, dag: str, run: str) -> dict[str, tuple[str, int]]:
        """Return state and number of tries of each task of a run."""
        query = "select task_id, state, try_number from task_instance where dag_id = ? and run_id = ?"
        return {task: (state, tries) for task, state, tries in self.ask(query, dag, run)}

    def runs(self, dag: str) -> list[tuple[str, str, str]]:
        """Return id, kind and state of all runs of a DAG."""
        found = self.ask("select run_id, run_type, state from dag_run where dag_id = ? order by id", dag)
        return [(run, kind, state) for run, kind, state in found]

    def updates(self) -> list[tuple[str, str]]:
        """Return which task updated an asset, and in which run, in order."""
        found = self.ask(f"select source_task_id, source_run_id from {self._asset}_event order by id")
        return [(task, run) for task, run in found]

    def started(self, dag: str) -> list[tuple[str, str, str]]:
        """Return by which runs of other DAGs a DAG was started: that run, and kind and state of its own."""
        query = (
            f"select source_run_id, run_type, state from dag_run"
            f" join dagrun_{self._asset}_event on dag_run_id = dag_run.id"
            f" join {self._asset}_event on {self._asset}_event.id = event_id where dag_run.dag_id = ?"
        )
        return [(source, kind, state) for source, kind, state in self.ask(query, dag)]

    @property
    def _asset(self) -> str:
        return "asset" if self.major == "3" else "dataset"

    def wait_for_run(self, dag: str, run: str, seconds: float = 400) -> str:
        """Wait until a run has ended, and return its state."""

        def state() -> str:
            return {each: state for each, _, state in self.runs(dag)}.get(run, "")

        wait_until(lambda: state() in ("success", "failed"), f"{dag} {run}", seconds)
        return state()

    def read_log(self, dag: str, run: str, task: str) -> str:
        """Return the log of a task's first attempt, as Airflow keeps it: in Airflow 3 a line is JSON."""
        place = self.home / "logs" / f"dag_id={dag}" / f"run_id={run}" / f"task_id={task}"
        return (place / "attempt=1.log").read_text()
