"""This project as an Airflow DAG, one task for each job. docs/airflow.md says what can be changed."""

from pathlib import Path

from enrich.airflow import build_dag

# Outside of jobs/, write the project's path. conf/prod.yml wants LAKE in the environment of scheduler and workers.
dag = build_dag(Path(__file__).parents[1], target="prod", schedule="*/10 * * * *")
