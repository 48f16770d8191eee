"""Jobs as tasks of a real Airflow, 2.11 and 3: `airflow dags test`, and a scheduler with SQLite.

One story for each version, told by what Airflow's database and the tables hold afterwards.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cli.shop import ACCOUNTS, CONF, CONSENTS, JOB, write_table
from kit import command
from kit.airflow import Site, install_airflow
from kit.processes import alive, descendants, needs_proc
from kit.project import ROOT, write_project
from kit.world import must_run, wait_until

REACHABLE = """\
job: reachable
sources:
  customers: {table: customers, key: id}
from: customers
where: customers.email is not null
target: {table: reachable}
"""

HOLD = """\
import os, pathlib, time
from enrich.base import failpoints
from enrich.cli import main

def hold(name):
    if name == "create.before":
        pathlib.Path(__file__).with_name("holding").write_text(str(os.getpid()))
        time.sleep(600)

failpoints.hook = hold
main()
"""

EMPTY_DAG = """\
import time
from datetime import datetime
try:
    from airflow.sdk import DAG, Asset, BaseOperator
except ImportError:
    from airflow.datasets import Dataset as Asset
    from airflow.models.baseoperator import BaseOperator
    from airflow.models.dag import DAG
with DAG("empty", schedule=None, start_date=datetime(2026, 1, 1)):
    BaseOperator(task_id="nothing", outlets=[Asset(uri="file:///nothing")])
"""

FILES = {
    "conf/dev.yml": CONF,
    "jobs/customers.yml": JOB,
    "jobs/reachable.yml": REACHABLE,
    "jobs/checked.yml": JOB.replace("customers", "checked")
    + "rules:\n  - {rule: match_rate, join: accounts, at_least: 1.0, action: fail}\n",
    "jobs/held.yml": JOB.replace("customers", "held"),
}


def count_rows(site: Site) -> dict[str, int | None]:
    """Return how many rows each target has, as its last commit records it."""
    done = command.start("--project-dir", site.home / "shop", "status", "--output", "json")
    return {job["job"]: job["state"] and job["state"]["rows"] for job in json.loads(done.stdout)["jobs"]}


def read_told(site: Site, run: str) -> object:
    """Return what the task behind ``customers`` was given."""
    return json.loads((site.home / f"told-{run}.json").read_text())


@pytest.fixture(scope="module", params=["3", "2"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Site:
    """An Airflow with the DAGs of these tests, and a project with its sources: four consents, two accounts."""
    major = request.param
    if major == "2" and sys.version_info >= (3, 13):
        pytest.skip("Airflow 2.11 cannot be installed: it ends at Python 3.12")
    directory = tmp_path_factory.mktemp(f"airflow{major}")
    site = Site(major, install_airflow(major, directory / "environments", wheel), directory / "home")
    site.begin()
    home = write_project(site.home / "shop", FILES)
    write_table(home / "lake" / "consents", [{"id": key, "consent": True} for key in "abcd"], CONSENTS)
    write_table(home / "lake" / "accounts", [{"id": key, "email": f"{key}@example.com"} for key in "ab"], ACCOUNTS)
    (site.home / "hold.py").write_text(HOLD)
    shutil.copy(Path(__file__).with_name("airflow_dags.py"), site.home / "dags")
    return site


@pytest.fixture(scope="module")
def tested(site: Site) -> str:
    """The run that ``airflow dags test`` makes: the targets' first one."""
    site.airflow("dags", "test", "shop")
    (run,) = (run for run, *_ in site.runs("shop"))
    return run


@contextmanager
def locked(site: Site, job: str) -> Iterator[None]:
    """Have the lock of a job, as another run would."""
    with (site.home / "shop" / "lake" / "_enrich" / "locks" / f"{job}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass
class Story:
    """What the tests below need to know about the time in which the scheduler ran."""

    killed: set[int] = field(default_factory=set)


@pytest.fixture(scope="module")
def story(site: Site, tested: str) -> Story:
    """What a scheduler does with runs that must wait, update, have nothing to do, are refused, and are killed."""
    seen = Story()
    write_table(site.home / "shop" / "lake" / "accounts", [{"id": "c", "email": "c@example.com"}], ACCOUNTS)
    with site.scheduling():
        with locked(site, "customers"):
            site.trigger("shop", "updates")
            wait_until(lambda: site.tasks("shop", "updates").get("customers", ("", 0))[1] >= 2, "a second try", 300)
        site.trigger("blocked", "refused")
        site.wait_for_run("shop", "updates")
        site.wait_for_run("blocked", "refused")
        wait_until(lambda: ("updates", "success") in [each[::2] for each in site.started("mail")], "what waits", 120)
        site.trigger("shop", "idles")
        site.trigger("bounded", "open")
        site.wait_for_run("shop", "idles")
        site.wait_for_run("bounded", "open")
        seen.killed = kill_task(site)
    return seen


def kill_task(site: Site) -> set[int]:
    """Fail a task from outside while its run is about to commit; return the processes that it had."""
    site.trigger("held", "killed")
    marker = site.home / "holding"
    wait_until(marker.exists, "the run that is to be killed", 300)
    pid = int(marker.read_text())
    processes = {pid, *descendants(pid)}
    site.change("update task_instance set state = 'failed' where dag_id = 'held'")
    wait_until(lambda: not any(map(alive, processes)), "the end of the processes", 120)
    return processes


def test_airflow_and_enrich_agree_on_what_they_require(site: Site) -> None:
    """The package is the wheel's, and pip finds no requirement that is not met."""
    must_run([site.environment.python, "-m", "pip", "check"], cwd=site.home, timeout=200)
    code = "import airflow, enrich.airflow; print(airflow.__version__, enrich.airflow.__file__)"
    said = must_run([site.environment.python, "-c", code], cwd=site.home, timeout=200, **site.settings)
    version, file = said.splitlines()[-1].split()
    assert f"apache-airflow=={version}" in (ROOT / "tests" / "world" / f"airflow-{site.major}.txt").read_text()
    assert Path(file).is_relative_to(site.environment.home)


def test_dags_test_runs_each_job_after_those_that_it_reads(site: Site, tested: str) -> None:
    """Before ``customers`` is there, ``reachable`` is refused."""
    assert site.tasks("shop", tested) == {
        "customers": ("success", 1),
        "reachable": ("success", 1),
        "tell": ("success", 1),
    }


def test_the_targets_have_their_rows_and_refused_and_ended_runs_wrote_none(site: Site, story: Story) -> None:
    assert count_rows(site) == {"checked": None, "customers": 4, "held": None, "reachable": 3}


def test_the_result_is_a_dict_for_the_tasks_behind_it(site: Site, tested: str) -> None:
    assert read_told(site, tested) == {"job": "customers", "status": "created", "inserted": 4}


def test_a_run_that_must_wait_is_tried_again(site: Site, story: Story) -> None:
    tasks = site.tasks("shop", "updates")
    assert {task: state for task, (state, _) in tasks.items()} == dict.fromkeys(tasks, "success")
    assert (tasks["customers"][1] >= 2, tasks["reachable"][1], tasks["tell"][1]) == (True, 1, 1)
    assert "enrich run customers ended with exit code 4" in site.read_log("shop", "updates", "customers")
    assert read_told(site, "updates") == {"job": "customers", "status": "updated", "inserted": 0}


def test_a_run_with_nothing_to_do_is_skipped(site: Site, story: Story) -> None:
    """What follows on a skipped job is asked all the same: its other sources may have changes."""
    assert site.tasks("shop", "idles") == {
        "customers": ("skipped", 1),
        "reachable": ("skipped", 1),
        "tell": ("skipped", 0),
    }
    assert {run: state for run, _, state in site.runs("shop")}["idles"] == "success"


def test_a_refused_run_is_not_tried_again(site: Site, story: Story) -> None:
    assert site.tasks("blocked", "refused") == {"rules.checked": ("failed", 1)}
    log = site.read_log("blocked", "refused", "rules.checked")
    assert "enrich run checked ended with exit code 3" in log


def test_a_dag_that_waits_for_a_target_starts_when_it_was_updated(site: Site, tested: str, story: Story) -> None:
    """Skipped, refused and killed runs tell nobody."""
    updates = [(task, run) for task, run in site.updates() if run != tested]
    assert updates == [("customers", "updates"), ("reachable", "updates")]
    kind = "asset_triggered" if site.major == "3" else "dataset_triggered"
    assert [each for each in site.started("mail") if each[0] != tested] == [("updates", kind, "success")]


def test_the_interval_and_the_variables_reach_the_command(site: Site, tested: str) -> None:
    """The variable asks for messages as JSON, the interval ends when the DAG run begins, after all commits."""
    said = site.airflow("dags", "test", "bounded")
    (run,) = (run for run, *_ in site.runs("bounded") if run != "open")
    assert site.tasks("bounded", run) == {"customers": ("skipped", 1)}
    ((end,),) = site.ask("select data_interval_end from dag_run where run_id = ?", run)
    told = end[:19].replace(" ", "T")
    assert f"--skip-code 99 --until {told}" in said
    assert f'"message":"--until is {told}' in said


def test_without_an_interval_all_changes_are_taken(site: Site, tested: str, story: Story) -> None:
    """A person starts a DAG of Airflow 3: there is no interval. Airflow 2 always makes one."""
    assert site.tasks("bounded", "open") == {"customers": ("skipped", 1)}
    log = site.read_log("bounded", "open", "customers")
    assert ("this DAG run has no data interval" in log, "--until" in log) == (site.major == "3", site.major == "2")


@needs_proc
def test_a_task_that_is_ended_takes_its_processes_with_it(site: Site, story: Story) -> None:
    assert len(story.killed) >= 2  # Python and its JVM
    assert site.tasks("held", "killed")["held"][0] == "failed"


def test_the_sample_has_a_task_for_each_job(site: Site, tmp_path: Path) -> None:
    code = (
        f"import runpy\ndag = runpy.run_path({str(ROOT / 'jobs' / 'airflow_dag.py')!r})['dag']\n"
        "print('found', dag.task_ids, dag.get_task('reachable_customers').upstream_task_ids)"
    )
    said = must_run(
        [site.environment.python, "-c", code], cwd=tmp_path, timeout=200, **site.settings, LAKE="s3a://bucket/lake"
    )
    tasks, before = said.split("found ")[1].split("] ")
    assert all(f"'{path.stem}'" in tasks for path in (ROOT / "jobs").glob("*.yml"))
    assert before.strip() == "{'consents_with_email'}"


def test_parsing_ten_jobs_takes_a_small_part_of_what_airflow_takes(site: Site, tmp_path: Path) -> None:
    """Processor time, because other programs may keep the machine busy: 0.1 s here, and 0.8 to 1.3 s for Airflow."""
    jobs = 10
    files = {f"jobs/j{number}.yml": JOB.replace("customers", f"j{number}") for number in range(jobs)}
    home = write_project(tmp_path / "ten", {"conf/dev.yml": CONF, **files})
    code = EMPTY_DAG + (
        "airflow = time.process_time()\nfrom enrich.airflow import build_dag\n"
        f"dag = build_dag({str(home)!r})\nprint('took', time.process_time() - airflow, airflow, len(dag.tasks))"
    )
    said = must_run([site.environment.python, "-c", code], cwd=tmp_path, timeout=200, **site.settings)
    ours, airflows, tasks = map(float, said.split("took ")[1].split())
    assert tasks == jobs
    assert ours <= 0.3, f"{ours:.2f} s, and {airflows:.2f} s for Airflow itself"
