"""An Airflow DAG that keeps the targets up to date: one task, every ten minutes, with Airflow's own providers only.

Put this file into Airflow's DAG folder and set the two Airflow variables.

- Exit code 99 (nothing to do) marks the task as skipped. Every other code except 0 fails it. A retry helps after 1, 4,
  7 and 143. It does no harm after the others, because a refused run writes nothing (``docs/operations.md``).
- ``--since`` and the data interval are not needed: the cursor in the target knows what has been consumed. A late or
  repeated task takes all new changes, once.
- The last line of the output, the JSON of the run, goes to XCom.
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
