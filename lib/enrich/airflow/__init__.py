"""Make an Airflow DAG of a project: one task a job, in the order of the job graph. For Airflow 2.11 and 3.

    project files -> one task a job -> a process `enrich run JOB` -> success, skipped, failed or tried again

>>> from enrich.airflow import build_dag
>>> dag = build_dag("/srv/shop", target="prod", schedule="*/10 * * * *")    # doctest: +SKIP

Parsing reads the project's files, and neither tables nor Spark. This package imports Airflow when it is used first, so
that the rest of ``enrich`` does without. ``docs/airflow.md`` is the manual.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from enrich.base import hints
from enrich.base.errors import ConfigError
from enrich.base.names import CatalogName, Location
from enrich.base.words import did_you_mean
from enrich.project.project import Project, find_edges, load_project, sort_jobs

if TYPE_CHECKING:
    from enrich.airflow.operators import DAG, Asset, EnrichRunOperator, TaskGroup

__all__ = ["EnrichRunOperator", "build_assets", "build_dag", "build_task_group"]

_DAG_DEFAULTS: dict[str, Any] = {
    "schedule": None,
    "start_date": datetime(2020, 1, 1, tzinfo=UTC),  # any day that has passed: `catchup` is off
    "catchup": False,
    "max_active_runs": 1,  # a second run would only find the locks of the first
}


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
    from enrich.airflow.operators import DAG

    project = read_project(project_dir, target, (operator_args or {}).get("env"))
    with DAG(dag_id=dag_id, **{**_DAG_DEFAULTS, **dag_args}) as dag:
        _add_tasks(project, jobs, operator_args or {})
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
    from enrich.airflow.operators import TaskGroup

    project = read_project(project_dir, target, (operator_args or {}).get("env"))
    with TaskGroup(group_id=group_id, **group_args) as group:
        _add_tasks(project, jobs, operator_args or {})
    return group


def build_assets(
    project_dir: str | os.PathLike[str], *, target: str = "dev", env: Mapping[str, str] | None = None
) -> dict[str, Asset]:
    """Return for each job the asset of its target, for the ``schedule`` of other DAGs (Airflow 2: the dataset).

    ``env`` has variables for ``conf/`` that the parsing process does not have.

    Raises:
        ConfigError: The project's files are wrong.
    """
    project = read_project(project_dir, target, env)
    return {name: _make_asset(project, name) for name in project.jobs}


def _make_asset(project: Project, job: str) -> Asset:
    from enrich.airflow.operators import Asset

    return Asset(uri=name_asset(project.location(project.jobs[job].target.table)))


def _add_tasks(project: Project, jobs: Collection[str] | None, operator_args: Mapping[str, Any]) -> None:
    """Add the tasks of a project to whatever DAG or group is open."""
    from enrich.airflow.operators import EnrichRunOperator

    made: dict[str, Any] = {}
    for job, before in plan_tasks(project, jobs).items():
        made[job] = EnrichRunOperator(
            task_id=job,
            project_dir=project.dir,
            job=job,
            target=project.deployment,
            outlets=[_make_asset(project, job)],
            # A job with nothing to do is skipped; those that read its target have other sources, too.
            **{"trigger_rule": "none_failed", **operator_args},
        )
        made[job].set_upstream([made[other] for other in before])


# --- what needs no Airflow -------------------------------------------------------------------------------------------


def read_project(project_dir: str | os.PathLike[str], target: str, env: Mapping[str, str] | None) -> Project:
    """Read a project's files, with ``env`` added to the environment; Airflow shows a ConfigError as import error."""
    return load_project(project_dir, target, environ={**os.environ, **(env or {})})


def plan_tasks(project: Project, jobs: Iterable[str] | None = None) -> dict[str, tuple[str, ...]]:
    """Return for each job, in the order in which they run, those of the others for which it waits.

    A job waits for those whose target it reads, also through jobs that are not among ``jobs``. ``ConfigError``:
    there is no job of that name, there is no job at all, or jobs wait for each other.
    """
    wanted = set(project.jobs if jobs is None else jobs)
    for name in sorted(wanted - project.jobs.keys()):
        hint = f"`{hints.list_jobs()}` lists the jobs"
        raise ConfigError(f"there is no job {name!r}{did_you_mean(name, project.jobs, hint)}")
    if not wanted:
        raise ConfigError("jobs is empty", hint="leave it out for all jobs of the project")
    edges = find_edges(project)
    before: dict[str, frozenset[str]] = {}
    for name in sort_jobs(project.jobs, project):
        read = (frozenset({other}) if other in wanted else before[other] for other in edges[name])
        before[name] = frozenset().union(*read)
    return {name: tuple(sorted(before[name])) for name in before if name in wanted}


def name_asset(location: Location) -> str:
    """Return the URI of a table's asset; of a catalog table its name, which Airflow takes as it is.

    ``/lake/orders``      ``file:///lake/orders``
    ``s3a://b/orders``    ``s3a://b/orders``
    ``main.crm.orders``   ``main.crm.orders``
    """
    if isinstance(location, CatalogName):
        return quote(str(location))
    scheme, _, path = location.rpartition("://")
    return f"{scheme or 'file'}://{quote(path, safe='/:')}"


def __getattr__(name: str) -> Any:
    """Import the operator, and Airflow with it, when it is asked for."""
    if name == "EnrichRunOperator":
        from enrich.airflow.operators import EnrichRunOperator

        return EnrichRunOperator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
