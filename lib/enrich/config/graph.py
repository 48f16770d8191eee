"""Which job of a project reads which other job's target, and the order that follows from it.

Before: jobs ``reachable`` (reads ``consents_with_email``), ``consents_with_email`` (reads two source tables)
After:  ``["consents_with_email", "reachable"]``

Tables are compared by where they are, not by how a file spells them. Who reads a target's quarantine waits for it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from enrich.base.errors import ConfigError, Fault
from enrich.config import places
from enrich.config.places import Location

if TYPE_CHECKING:
    from enrich.config.project import Project


def sort_jobs(jobs: Iterable[str], project: Project) -> list[str]:
    """Return ``jobs`` so that each comes after those that it reads from, directly or through others; else by name.

    Raises:
        ConfigError: Jobs read each other in a circle, which is printed.
    """
    wanted = set(jobs)
    edges = find_edges(project)
    if cycle := find_cycle(edges):
        raise ConfigError.of([Fault(describe_cycle(cycle), project.jobs[cycle[0]].at("sources"))])
    sorter = TopologicalSorter(edges)
    sorter.prepare()
    result: list[str] = []
    waiting: list[str] = []
    while sorter.is_active():
        waiting = sorted([*waiting, *sorter.get_ready()])
        result.append(waiting.pop(0))
        sorter.done(result[-1])
    return [job for job in result if job in wanted]


def find_edges(project: Project) -> dict[str, tuple[str, ...]]:
    """Return for each job of the project those whose target it reads."""
    targets = {name: project.location(job.target.table) for name, job in project.jobs.items()}
    sources = {
        name: [project.location(source.table) for source in job.sources.values()] for name, job in project.jobs.items()
    }
    return connect(targets, sources)


def find_upstream(project: Project, job: str) -> tuple[str, ...]:
    """Return the jobs whose target ``job`` reads directly, by name."""
    return find_edges(project)[job]


def find_downstream(project: Project, job: str) -> tuple[str, ...]:
    """Return the jobs that read the target of ``job`` directly, by name."""
    return tuple(sorted(other for other, read in find_edges(project).items() if job in read))


def connect(targets: Mapping[str, Location], sources: Mapping[str, Iterable[Location]]) -> dict[str, tuple[str, ...]]:
    """Return for each job the others that it reads from, by name."""
    makers = {places.identify(places.find_quarantine(place)): job for job, place in targets.items()}
    makers |= {places.identify(place): job for job, place in targets.items()}
    edges = {}
    for job, read in sources.items():
        found = {makers.get(places.identify(place)) for place in read}
        edges[job] = tuple(sorted(name for name in found if name is not None and name != job))
    return edges


def find_cycle(edges: Mapping[str, tuple[str, ...]]) -> list[str] | None:
    """Return a circle, as data flows: each job feeds the next, and the last is the first again."""
    try:
        TopologicalSorter(dict(sorted(edges.items()))).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1][1:]  # the first is the last again
        first = circle.index(min(circle))
        return [*circle[first:], *circle[:first], circle[first]]
    return None


def describe_cycle(cycle: list[str]) -> str:
    """Return the message for jobs that wait for each other."""
    return f"jobs read each other in a circle: {' -> '.join(cycle)}; let one of them read a source table instead"
