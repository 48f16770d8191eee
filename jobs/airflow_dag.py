"""An Airflow DAG that keeps the targets current: every ten minutes, one task, no provider beyond Airflow's own.

Put this file into Airflow's DAG folder and set the two Airflow variables.

- Exit 99 (nothing to do) marks the task skipped; every other code but 0 fails it. A retry helps after 1, 4, 7 and 143
  and does no harm after the others: a refused run writes nothing (``docs/operations.md``).
- There is no ``--since`` and no data interval: the cursor in the target knows what is consumed. A late or repeated task
  takes what is new, once.
- The last line of output, the run's JSON, goes to XCom.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    dag_id="enrich",
    schedule="*/10 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1), "execution_timeout": timedelta(hours=1)},
) as dag:
    BashOperator(
        task_id="enrich_run",
        bash_command=(
            "enrich --project-dir '{{ var.value.enrich_project_dir }}' --target '{{ var.value.enrich_target }}'"
            " run --output json --skip-code 99"
        ),
        skip_on_exit_code=99,
    )
