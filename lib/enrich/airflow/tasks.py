"""Which tasks a project has, which of them wait for which, and the assets that they update. Needs no Airflow."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from enrich.base import hints
from enrich.base.errors import ConfigError, did_you_mean
from enrich.base.names import CatalogName, Location
from enrich.config.project import Project, find_edges, load_project, sort_jobs


def read_project(project_dir: str | os.PathLike[str], target: str, env: Mapping[str, str] | None) -> Project:
    """Read the files of a project, with ``env`` added to this process's environment.

    Raises:
        ConfigError: The files are wrong; Airflow shows the text as the import error of the DAG.
    """
    return load_project(project_dir, target, environ={**os.environ, **(env or {})})


def plan_tasks(project: Project, jobs: Iterable[str] | None = None) -> dict[str, tuple[str, ...]]:
    """Return for each job, in the order in which they run, those of the others for which it waits.

    A job waits for those whose target it reads, also through jobs that are not among ``jobs``.

    Args:
        project: The project.
        jobs: Their names; None: all.

    Raises:
        ConfigError: There is no job of that name, there is no job at all, or jobs wait for each other.
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
