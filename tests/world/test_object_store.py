"""Sources, targets, state and reports in a real S3 server, which the tests start on the loopback interface."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import obstore
import pytest
import yaml

from enrich.spark.logstore import CONDITIONAL
from kit.bucket import CREDENTIALS, S3, build_settings, find_s3a_jars, serve
from kit.cluster import SETTINGS, serve_cluster
from kit.project import ROOT
from kit.world import Done, clean_environment, must_run, run

LOCAL = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
LOG_STORE = {"spark.delta.logStore.s3a.impl": CONDITIONAL}
JOBS = ("customers_with_email", "orders_with_customer")

MEETING = """\
import os, sys, time
from pathlib import Path

import enrich
from enrich.base import failpoints

me, other = Path(sys.argv[2]), Path(sys.argv[3])


def wait_for_the_other(point):
    if point == "merge.before":
        me.touch()
        end = time.monotonic() + 200
        while not other.exists() and time.monotonic() < end:
            time.sleep(0.05)


failpoints.hook = wait_for_the_other
result = enrich.run(enrich.load_project(".", target=sys.argv[1]), jobs=["customers_with_email"])
print("exit", result.exit_code, "status", result.jobs[0].status, "met", other.exists())
"""

DYING = """\
import os, signal, sys, threading, time

import enrich
from enrich.base import failpoints
from enrich.delta import stores


def die():
    os.killpg(os.getpgid(0), signal.SIGKILL)


def die_when_there_are_rows():
    while not any(name.endswith(".parquet") for name in stores.list_objects("s3a://bucket/lake/fresh")):
        time.sleep(0.002)
    die()


def meet(point):
    if point == sys.argv[2]:
        die() if point == "merge.before" else threading.Thread(target=die_when_there_are_rows, daemon=True).start()


failpoints.hook = meet
enrich.run(enrich.load_project(".", target="s3"), jobs=[sys.argv[1]])
"""


@dataclass(frozen=True)
class Shop:
    """The project of ``enrich init`` with its tables in the bucket, and the deployment that is used."""

    home: Path
    server: S3
    jars: list[Path]
    deployment: str = "s3"

    def deploy(self, name: str, settings: dict[str, str], master: str = "local[2]") -> Shop:
        spark = {"master": master, "conf": LOCAL | build_settings(self.server, self.jars) | settings}
        conf = {"lake": "s3a://bucket/lake", "state": "s3a://bucket/lake/_enrich", "spark": spark}
        (self.home / "conf" / f"{name}.yml").write_text(yaml.safe_dump(conf))
        return replace(self, deployment=name)

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT / "lib"), **CREDENTIALS}

    def call(self, *words: object) -> Done:
        command = [sys.executable, "-m", "enrich", "--target", self.deployment, *words]
        return run(command, cwd=self.home, timeout=600, **self.environment)

    def enrich(self, *words: object, code: int = 0) -> str:
        done = self.call(*words)
        assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
        assert not any(secret in done.stdout + done.stderr for secret in CREDENTIALS.values())
        return done.stdout

    def start(self, code: str, *words: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code, *map(str, words)],
            cwd=self.home,
            env=clean_environment(**self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run_jobs(self, *words: object, code: int = 0) -> dict[str, dict[str, Any]]:
        told = json.loads(self.enrich("run", *JOBS, "--output", "json", *words, code=code))
        return {job["job"]: job for job in told["jobs"]}

    def rename(self, customer: str, name: str) -> None:
        self.server.table("lake/customers").update(predicate=f"customer_id = '{customer}'", new_values={"name": name})

    def names(self) -> dict[str, str]:
        return {row["customer_id"]: row["name"] for row in self.server.rows("lake/customers_with_email")}

    def orders(self) -> dict[str, tuple[str | None, str | None]]:
        rows = self.server.rows("lake/orders_with_customer")
        return {row["order_id"]: (row["customer"], row["email"]) for row in rows}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A project whose two jobs have run once."""
    directory = tmp_path_factory.mktemp("object-store")
    jars = find_s3a_jars(directory)
    home = directory / "project"
    must_run([sys.executable, "-m", "enrich", "init", home], cwd=directory, PYTHONPATH=str(ROOT / "lib"))
    for file in (home / "jobs").iterdir():
        if file.stem not in JOBS:
            file.unlink()
    with serve(directory) as server:
        server.fill(home, "lake")
        found = Shop(home, server, jars).deploy("s3", LOG_STORE)
        done = found.run_jobs()
        assert {name: job["status"] for name, job in done.items()} == dict.fromkeys(JOBS, "created")
        yield found


def test_changes_of_either_side_arrive_and_every_command_works(shop: Shop) -> None:
    before = shop.orders()
    assert before["o1"] == ("Ada", "ada@example.com")
    assert [row["order_id"] for row in shop.server.rows("lake/orders_with_customer__quarantine")] == ["o6"]
    shop.rename("c1", "Ada King")
    shop.server.table("lake/accounts").delete("customer_id = 'c2'")
    shop.server.table("lake/orders").delete("order_id = 'o2'")
    plan = {job["job"]: job for job in json.loads(shop.enrich("plan", "--output", "json"))["jobs"]}
    assert plan["customers_with_email"]["affected_keys"] == 2
    late = shop.enrich("status", "--output", "json")
    assert '"versions_behind":1' in late
    done = shop.run_jobs()
    assert {name: job["status"] for name, job in done.items()} == dict.fromkeys(JOBS, "updated")
    after = shop.orders()
    assert after["o1"] == ("Ada King", "ada@example.com")
    assert before.keys() - after.keys() == {"o2"}
    assert '"versions_behind":1' not in shop.enrich("status", "--output", "json")
    shop.enrich("verify")
    assert "deleted_at" in shop.enrich("why", "customers_with_email", "c2", "email")
    assert "1 of 2 rules fails" in shop.enrich("report")
    shop.enrich("failing", "customers_with_email")
    assert "fault" not in shop.enrich("doctor")
    assert {name: job["status"] for name, job in shop.run_jobs().items()} == dict.fromkeys(JOBS, "unchanged")


def test_the_report_is_in_the_bucket(shop: Shop) -> None:
    state = shop.server.store("lake/_enrich")
    page = bytes(obstore.get(state, "reports/latest.html").bytes()).decode()
    assert "orders_with_customer" in page
    assert json.loads(bytes(obstore.get(state, "reports/latest.json").bytes()))["jobs"]


def test_a_target_in_s3_without_a_log_store_for_several_drivers_is_refused(shop: Shop) -> None:
    shop.rename("c3", "Refused")
    version = shop.server.table("lake/customers_with_email").version()
    alone = shop.deploy("alone", {})
    done = alone.call("run", JOBS[0])
    assert done.returncode == 7
    line = f"spark.delta.logStore.s3a.impl: {CONDITIONAL}"
    assert line in done.stdout + done.stderr
    assert line in alone.enrich("doctor", code=7)
    assert shop.server.table("lake/customers_with_email").version() == version
    assert shop.run_jobs()[JOBS[0]]["status"] == "updated"


def test_of_two_runs_at_once_one_commits(shop: Shop) -> None:
    """Nothing but the log store decides: both commit to one version."""
    shop.rename("c1", "Lovelace")
    version = shop.server.table("lake/customers_with_email").version()
    marks = [shop.home / "left.mark", shop.home / "right.mark"]
    both = [shop.start(MEETING, "s3", *each) for each in (marks, reversed(marks))]
    told = sorted(each.communicate(timeout=400)[0].strip().splitlines()[-1] for each in both)
    assert told == ["exit 0 status updated met True", "exit 4 status locked met True"]
    assert shop.server.table("lake/customers_with_email").version() == version + 1
    assert shop.names()["c1"] == "Lovelace"
    shop.enrich("verify", JOBS[0])


def test_a_cluster_reads_and_writes_the_bucket(shop: Shop, tmp_path: Path) -> None:
    """The workers know no credentials; a dump reaches them through the state directory."""
    (tmp_path / "dump.csv").write_text("customer_id,name\nc1,Noel\nc5,Annabella\n")
    with serve_cluster(tmp_path) as master:
        jars = {"spark.executor.extraClassPath": os.pathsep.join(map(str, shop.jars))}
        cluster = shop.deploy("cluster", SETTINGS | LOG_STORE | jars, master=master)
        cluster.enrich("load", "customers", tmp_path / "dump.csv", "--key", "customer_id")
        assert cluster.run_jobs()[JOBS[0]]["inserted"] == 1
    assert (shop.names()["c1"], shop.names()["c5"]) == ("Noel", "Annabella")
    assert [each["path"] for each in obstore.list(shop.server.store("lake/_enrich/load")).collect()] == []
    assert "done" in shop.enrich("maintain")


def test_what_a_killed_run_left_does_not_hold_the_next_one_up(shop: Shop) -> None:
    shop.rename("c1", "Byron")
    dying = shop.start(DYING, JOBS[0], "merge.before")
    dying.communicate(timeout=300)
    assert dying.returncode == -signal.SIGKILL
    assert shop.run_jobs()[JOBS[0]]["status"] == "updated"
    assert shop.names()["c1"] == "Byron"
    shop.enrich("verify")


def test_a_first_run_that_was_killed_before_its_commit_is_begun_anew(shop: Shop) -> None:
    job = (shop.home / "jobs" / f"{JOBS[0]}.yml").read_text().replace(f"job: {JOBS[0]}", "job: fresh")
    (shop.home / "jobs" / "fresh.yml").write_text(
        job.replace(f"target: {{table: {JOBS[0]}}}", "target: {table: fresh}")
    )
    dying = shop.start(DYING, "fresh", "create.before")
    dying.communicate(timeout=300)
    assert dying.returncode == -signal.SIGKILL
    target = shop.server.store("lake/fresh")
    left = [each["path"] for each in obstore.list(target).collect()]
    assert any(name.endswith(".parquet") for name in left)
    for name in left:  # should the commit have been faster than the kill
        if name.startswith("_delta_log/0"):
            obstore.delete(target, name)
    shop.enrich("run", "fresh")
    # As many as the tests before this one have left.
    assert len(shop.server.rows("lake/fresh")) == len(shop.server.rows("lake/customers"))
    names = [each["path"] for each in obstore.list(target).collect()]
    obstore.delete(target, names)
    obstore.put(target, "of-somebody.txt", b"not a table")
    refused = shop.call("run", "fresh")
    assert refused.returncode == 2
    assert "s3a://bucket/lake/fresh is not a Delta table" in refused.stdout + refused.stderr
    (shop.home / "jobs" / "fresh.yml").unlink()
