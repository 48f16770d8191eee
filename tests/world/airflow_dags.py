"""The DAGs that the tests give to a real Airflow. Airflow imports this file, and pytest does not."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from enrich.airflow import build_assets, build_dag, build_task_group

try:
    from airflow.sdk import DAG, task
except ImportError:  # Airflow 2
    from airflow.decorators import task
    from airflow.models.dag import DAG

HOME = Path(os.environ["TEST_HOME"])
SHOP = HOME / "shop"
ENRICH = [os.environ["TEST_PYTHON"], "-m", "enrich"]
THERE = {"PYTHONPATH": os.environ["TEST_LIB"]}  # for the runs alone: Airflow itself has the wheel
SOON = {"executable": ENRICH, "env": THERE, "retry_delay": timedelta(seconds=1)}
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@task
def tell(result: dict[str, Any], **context: object) -> None:
    """Write what a task has left for others, so that the test sees that it is a dict."""
    counts = {name: result["jobs"][0][name] for name in ("job", "status", "inserted")}
    (HOME / f"told-{context['run_id']}.json").write_text(json.dumps(counts))


# As often as it takes the test to see that a try has failed, and to let go of the lock.
PATIENT = {**SOON, "retries": 50, "retry_delay": timedelta(seconds=3)}
with build_dag(SHOP, dag_id="shop", jobs=["customers", "reachable"], operator_args=PATIENT) as shop:
    tell(shop.get_task("customers").output)

# An option that only this DAG has, and templates: the interval's end, and a variable of the process.
bounded = build_dag(
    SHOP,
    dag_id="bounded",
    jobs=["customers"],
    operator_args={**SOON, "until_interval_end": True, "env": {**THERE, "ENRICH_LOG_FORMAT": "{{ 'js' ~ 'on' }}"}},
)

with DAG("blocked", schedule=None, start_date=BEGIN) as blocked:
    build_task_group(SHOP, group_id="rules", jobs=["checked"], operator_args=SOON)

hold = {**SOON, "executable": [os.environ["TEST_PYTHON"], str(HOME / "hold.py")]}
held = build_dag(SHOP, dag_id="held", jobs=["held"], operator_args={**hold, "retries": 0})

with DAG("mail", schedule=[build_assets(SHOP)["customers"]], start_date=BEGIN, catchup=False) as mail:

    @task
    def send() -> None:
        """Stand for whatever waits for a target."""

    send()
