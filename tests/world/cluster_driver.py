"""What test_cluster.py lets a driver of its own do on the cluster; pytest does not import this file.

python cluster_driver.py demo|histories|catalog MASTER DIRECTORY
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import enrich
from differential.engines import enrich_engine
from differential.generator import make_histories, make_shared
from differential.trial import Script, Trial
from differential.worlds import WORLDS
from enrich.demo import play as play_story
from enrich.spark.session import build_session
from enrich.testing.play import play_round, set_stage
from enrich.testing.reader import read_scenario
from kit.cluster import SETTINGS
from kit.payments import write_payments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES, WINDOWS = 300, 2

TABLES = (
    "CREATE SCHEMA shop",
    # Column mapping, and a name that only it allows.
    "CREATE TABLE shop.customers (id STRING, `full name` STRING) USING delta TBLPROPERTIES ({feed}, {mapped})",
    "CREATE TABLE shop.orders (id STRING, customer STRING, country STRING) USING delta PARTITIONED BY (country)",
    "ALTER TABLE shop.orders SET TBLPROPERTIES ({feed})",
    "CREATE TABLE shop.notes (id STRING, note STRING) USING delta CLUSTER BY (id) TBLPROPERTIES ({feed})",
    "INSERT INTO shop.customers VALUES ('c1', 'Ada'), ('c2', 'Grace')",
    "INSERT INTO shop.orders VALUES ('o1', 'c1', 'uk'), ('o2', 'c2', 'us'), ('o3', 'c9', 'uk')",
    "INSERT INTO shop.notes VALUES ('o1', 'fragile'), ('o3', 'late')",
)
CHANGES = (
    "UPDATE shop.customers SET `full name` = 'Ada King' WHERE id = 'c1'",
    "DELETE FROM shop.orders WHERE id = 'o2'",
    "UPDATE shop.orders SET country = 'fr' WHERE id = 'o3'",
    "DELETE FROM shop.notes WHERE id = 'o3'",
    "OPTIMIZE shop.notes",
)
JOB = """\
job: orders_with_names
sources:
  orders: {table: orders, key: id}
  notes: {table: shop.notes, key: id}
  customers: {table: spark_catalog.shop.customers, key: id}
from: orders
join:
  notes: {kind: table, how: left}
  customers: {kind: foreign_key, on: orders.customer, how: left}
select:
  id: key
  country: orders.country
  note: notes.note
  name: customers.`full name`
target: {table: orders_with_names, cluster_by: [country]}
"""
FIRST = {("o1", "uk", "fragile", "Ada"), ("o2", "us", None, "Grace"), ("o3", "uk", "late", None)}
SECOND = {("o1", "uk", "fragile", "Ada King"), ("o3", "fr", None, None)}


def play_demo(spark: SparkSession, home: Path) -> None:
    """Play the parts of the demo about a table join and as-of joins, and a scenario of an interval join."""
    assert play_story(home / "demo", ("consents", "moments"), tell) == 0
    project = enrich.load_project(write_payments(home / "payments"))
    scenario = read_scenario(project, home / "payments" / "tests" / "payments.yml")
    stage = set_stage(project, scenario, home / "lake", spark)
    for each in scenario.rounds:
        played = play_round(stage, scenario, each)
        assert not played.differences, played.differences
        assert played.result is not None
        tell(f"payments {played.round.number}: {played.result.jobs[0].status}")


def play_histories(spark: SparkSession, home: Path) -> None:
    """Play a short part of the differential suite: joins of every kind in one job, and a job that reads its target."""
    seed = random.randrange(10**6)
    world = WORLDS["mixed"].only("mixed", "on_mixed")
    histories = make_histories(world, HISTORIES, WINDOWS, seed)
    script = Script(list(histories), make_shared(world, WINDOWS, seed))
    trial = Trial(home / "project", world, script, enrich_engine(spark), seed=seed)
    failures = trial.play()
    assert not failures, f"seed {seed}: {failures[:3]}"
    tell(f"seed {seed}: {trial.tally}")


def play_catalog(spark: SparkSession, home: Path) -> None:
    """Run a job whose tables are tables of the session's catalog, named with one, two and three parts."""
    feed = "'delta.enableChangeDataFeed' = 'true'"
    for statement in TABLES:
        spark.sql(statement.format(feed=feed, mapped="'delta.columnMapping.mode' = 'name'"))
    for name, text in {"conf/dev.yml": "catalog: shop\nstate: ./state\n", "jobs/orders_with_names.yml": JOB}.items():
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(text)
    project = enrich.load_project(home)
    found = []
    for statements in ((), CHANGES, ()):
        for statement in statements:
            spark.sql(statement)
        (done,) = enrich.run(project, spark=spark).jobs
        assert done.exit_code == 0, done.error
        rows = {tuple(row) for row in spark.table("spark_catalog.shop.orders_with_names").collect()}
        found.append((done.status, rows))
    assert found == [("created", FIRST), ("updated", SECOND), ("unchanged", SECOND)], found
    checked = enrich.verify(project, spark=spark)
    assert checked.exit_code == 0, checked
    tell("created, updated, unchanged, equal")


def tell(text: str) -> None:
    """Print what the test looks for."""
    sys.stdout.write(f"{text}\n")


def main() -> None:
    """Build a session on the cluster, and do there what the command line says."""
    what, master, home = sys.argv[1:]
    conf = SETTINGS | {"spark.sql.warehouse.dir": f"{home}/warehouse"}
    spark = build_session(master, conf, None, None)
    try:
        {"demo": play_demo, "histories": play_histories, "catalog": play_catalog}[what](spark, Path(home))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
