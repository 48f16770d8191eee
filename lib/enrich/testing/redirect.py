"""A project whose tables are all in one local directory, whatever its job files and its conf say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from enrich.base.names import find_quarantine, identify
from enrich.config.models import Job
from enrich.config.project import Project

_BARE = re.compile(r"\w[\w-]*")


def name_tables(project: Project) -> dict[str, str]:
    """Return what each table of a project is called in a lake of a test.

    A bare name stays as it is. A catalog name or a path becomes a bare name: ``main.crm.accounts`` is
    ``main_crm_accounts``. The quarantine of a target keeps its place beside it.

    Returns:
        Identity of the place (``enrich.base.names.identify``) -> name.
    """
    names: dict[str, str] = {}
    for is_bare in (True, False):
        for job in project.jobs.values():
            for reference in _list_references(job):
                if bool(_BARE.fullmatch(reference)) is is_bare:
                    _name_table(project, reference, names)
    return names


def _name_table(project: Project, reference: str, names: dict[str, str]) -> None:
    place = project.location(reference)
    if identify(place) in names:
        return
    base = re.sub(r"\W+", "_", reference).strip("_") or "table"
    taken, name, number = set(names.values()), base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    names[identify(place)] = name
    names.setdefault(identify(find_quarantine(place)), name_quarantine(name))


def name_quarantine(name: str) -> str:
    """Return the name of the quarantine of a target."""
    return str(find_quarantine(name))


def _list_references(job: Job) -> Iterator[str]:
    yield job.target.table
    for source in job.sources.values():
        yield source.table


def redirect(project: Project, directory: Path) -> Project:
    """Return the project with all of its tables and its state in a directory, and nobody who is told of its runs.

    Whoever ``conf/`` names for lineage, figures and notifications hears of the deployment's own tables alone.

    Args:
        project: What ``load_project`` gave; its files stay as they are.
        directory: The lake, a local directory.
    """
    names = name_tables(project)

    def rename(reference: str) -> str:
        return names[identify(project.location(reference))]

    def move(job: Job) -> Job:
        sources = {
            alias: source.model_copy(update={"table": rename(source.table)}) for alias, source in job.sources.items()
        }
        target = job.target.model_copy(update={"table": rename(job.target.table)})
        return job.model_copy(update={"sources": sources, "target": target})

    here = {"lake": str(directory.absolute()), "catalog": None, "state": None}
    settings = project.settings.model_copy(update={**here, "lineage": None, "metrics": None, "notify": {}})
    jobs = {name: move(job) for name, job in project.jobs.items()}
    return Project(project.dir, project.deployment, settings, jobs, project.suites, project.deployments)
