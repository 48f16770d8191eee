"""A project as an Airflow DAG: one task a job, in the order of the job graph. For Airflow 2.11 and 3.

    project files -> one task a job -> a process `enrich run JOB` -> success, skipped, failed or tried again

>>> from enrich.airflow import build_dag
>>> dag = build_dag("/srv/shop", target="prod", schedule="*/10 * * * *")    # doctest: +SKIP

Parsing reads the project's files, and neither tables nor Spark. This package imports Airflow when it is used first, so
that the rest of ``enrich`` does without. ``docs/airflow.md`` is the manual.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from enrich.airflow.tasks import name_asset, plan_tasks, read_project
from enrich.config.project import Project

if TYPE_CHECKING:
    from enrich.airflow.operators import EnrichRunOperator
    from enrich.airflow.versions import DAG, Asset, TaskGroup

__all__ = ["EnrichRunOperator", "build_assets", "build_dag", "build_task_group"]

_DAG_DEFAULTS: dict[str, Any] = {
    "schedule": None,
    "start_date": datetime(2020, 1, 1, tzinfo=UTC),  # any day that has passed: `catchup` is off
    "catchup": False,
    "max_active_runs": 1,  # a second run would only find the locks of the first
}

_AFTER_SKIPPED = "none_failed"
"""A job with nothing to do is skipped; those that read its target have other sources, too."""


def build_dag(
    project_dir: str | os.PathLike[str],
    *,
    dag_id: str = "enrich",
    target: str = "dev",
    jobs: Collection[str] | None = None,
    operator_args: Mapping[str, Any] | None = None,
    **dag_args: Any,
) -> DAG:
    """Return a DAG with one task for each job.

    A task runs when those that it waits for have succeeded or had nothing to do. No task has a timeout: a first run
    takes as long as it takes.

    Args:
        project_dir: The project directory. The scheduler and the workers must have it at the same place.
        dag_id: The DAG's name.
        target: The deployment, ``conf/<target>.yml``.
        jobs: The names of the jobs to run; None: all.
        operator_args: What each task gets: arguments of ``EnrichRunOperator`` and of every operator, such as
            ``retries`` or ``pool``.
        dag_args: What the DAG gets, such as ``schedule``. Unless given: no schedule, no catch-up, one run at a time.

    Raises:
        ConfigError: The project's files are wrong. Airflow shows the text as the DAG's import error.
    """
    from enrich.airflow.versions import DAG

    tasks = _Tasks(project_dir, target, dict(operator_args or {}))
    with DAG(dag_id=dag_id, **{**_DAG_DEFAULTS, **dag_args}) as dag:
        tasks.add(jobs)
    return dag


def build_task_group(
    project_dir: str | os.PathLike[str],
    *,
    group_id: str = "enrich",
    target: str = "dev",
    jobs: Collection[str] | None = None,
    operator_args: Mapping[str, Any] | None = None,
    **group_args: Any,
) -> TaskGroup:
    """Return a group of tasks, one for each job, inside the DAG that is being built.

    Args:
        project_dir: As for ``build_dag``, like ``target``, ``jobs`` and ``operator_args``.
        group_id: The group's name; the tasks are ``<group_id>.<job>``.
        target: The deployment.
        jobs: The jobs to run; None: all.
        operator_args: What each task gets.
        group_args: What the group gets, such as ``tooltip``.

    Raises:
        ConfigError: The project's files are wrong.
    """
    from enrich.airflow.versions import TaskGroup

    tasks = _Tasks(project_dir, target, dict(operator_args or {}))
    with TaskGroup(group_id=group_id, **group_args) as group:
        tasks.add(jobs)
    return group


def build_assets(
    project_dir: str | os.PathLike[str], *, target: str = "dev", env: Mapping[str, str] | None = None
) -> dict[str, Asset]:
    """Return for each job the asset of its target, for the ``schedule`` of other DAGs (Airflow 2: the dataset).

    Args:
        project_dir: The project directory.
        target: The deployment.
        env: Variables for ``conf/`` that the parsing process does not have.

    Raises:
        ConfigError: The project's files are wrong.
    """
    project = read_project(project_dir, target, env)
    return {name: _make_asset(project, name) for name in project.jobs}


def _make_asset(project: Project, job: str) -> Asset:
    from enrich.airflow.versions import Asset

    return Asset(uri=name_asset(project.location(project.jobs[job].target.table)))


class _Tasks:
    """Adds the tasks of a project to whatever DAG or group is open."""

    def __init__(self, project_dir: str | os.PathLike[str], target: str, operator_args: dict[str, Any]) -> None:
        self._project = read_project(project_dir, target, operator_args.get("env"))
        self._operator_args = operator_args

    def add(self, jobs: Collection[str] | None) -> None:
        from enrich.airflow.operators import EnrichRunOperator

        made: dict[str, Any] = {}
        for job, before in plan_tasks(self._project, jobs).items():
            made[job] = EnrichRunOperator(
                task_id=job,
                project_dir=self._project.dir,
                job=job,
                target=self._project.deployment,
                outlets=[_make_asset(self._project, job)],
                **{"trigger_rule": _AFTER_SKIPPED, **self._operator_args},
            )
            made[job].set_upstream([made[other] for other in before])


def __getattr__(name: str) -> Any:
    """Import the operator, and Airflow with it, when it is asked for."""
    if name == "EnrichRunOperator":
        from enrich.airflow.operators import EnrichRunOperator

        return EnrichRunOperator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
