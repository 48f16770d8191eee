"""Which job of a project reads which other job's target, and the order that follows from it.

Before: jobs ``reachable`` (reads ``consents_with_email``), ``consents_with_email`` (reads two source tables)
After:  ``["consents_with_email", "reachable"]``

Tables are compared by where they are, not by how a file spells them. Who reads a target's quarantine waits for it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enrich.config import places
from enrich.errors import ConfigError, Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from enrich.config.places import Location
    from enrich.config.project import Project

QUARANTINE = "__quarantine"
"""What the name of a target's quarantine ends in."""


def ordered(jobs: Iterable[str], project: Project) -> list[str]:
    """Return ``jobs`` so that each comes after those that it reads from, directly or through others; else by name.

    Raises:
        ConfigError: Jobs read each other in a circle, which is printed.
    """
    wanted = set(jobs)
    edges = _edges(project)
    if cycle := find_cycle(edges):
        raise ConfigError.of([Fault(describe_cycle(cycle), project.jobs[cycle[0]].at("sources"))])
    result: dict[str, None] = {}
    waiting = sorted(edges)
    while waiting:
        job = next(name for name in waiting if result.keys() >= set(edges[name]))
        waiting.remove(job)
        result[job] = None
    return [job for job in result if job in wanted]


def upstream(project: Project, job: str) -> tuple[str, ...]:
    """Return the jobs whose target ``job`` reads directly, by name."""
    return _edges(project)[job]


def downstream(project: Project, job: str) -> tuple[str, ...]:
    """Return the jobs that read the target of ``job`` directly, by name."""
    return tuple(sorted(other for other, read in _edges(project).items() if job in read))


def connect(targets: Mapping[str, Location], sources: Mapping[str, Iterable[Location]]) -> dict[str, tuple[str, ...]]:
    """Return for each job the others that it reads from, by name.

    Args:
        targets: Each job's target.
        sources: What each job reads.
    """
    makers = {places.identity(places.sibling(place, QUARANTINE)): job for job, place in targets.items()}
    makers |= {places.identity(place): job for job, place in targets.items()}
    edges = {}
    for job, read in sources.items():
        found = {makers.get(places.identity(place)) for place in read}
        edges[job] = tuple(sorted(name for name in found if name is not None and name != job))
    return edges


def find_cycle(edges: Mapping[str, tuple[str, ...]]) -> list[str] | None:
    """Return the first circle by name, as data flows: each job feeds the next, and the last is the first again.

    Args:
        edges: For each job those that it reads from.
    """
    done: set[str] = set()
    for start in sorted(edges):
        path = [start] if start not in done else []
        stack = [iter(edges[name]) for name in path]
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                done.add(path.pop())
            elif following in path:
                circle = path[path.index(following) :][::-1]
                first = circle.index(min(circle))
                return [*circle[first:], *circle[:first], circle[first]]
            elif following not in done:
                path.append(following)
                stack.append(iter(edges[following]))
    return None


def describe_cycle(cycle: list[str]) -> str:
    """Return the message for jobs that wait for each other."""
    return f"jobs read each other in a circle: {' -> '.join(cycle)}; let one of them read a source table instead"


def _edges(project: Project) -> dict[str, tuple[str, ...]]:
    """Return for each job of the project those whose target it reads."""
    targets = {name: project.location(job.target.table) for name, job in project.jobs.items()}
    sources = {
        name: [project.location(source.table) for source in job.sources.values()] for name, job in project.jobs.items()
    }
    return connect(targets, sources)
