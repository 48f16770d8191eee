"""Which jobs a command means: names, ``--select`` and ``--exclude`` patterns over the job graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from enrich.errors import ConfigError

if TYPE_CHECKING:
    from enrich.config import Project

Graph = Mapping[str, frozenset[str]]
"""For each job, in the order in which they run, the jobs whose targets it reads."""


def graph_of(project: Project) -> Graph:
    """Return a project's jobs in the order in which they run.

    Raises:
        ConfigError: Jobs read each other in a circle.
    """
    from enrich.config.graph import ordered, upstream

    return {name: frozenset(upstream(project, name)) for name in ordered(project.jobs, project)}


def choose(graph: Graph, names: Iterable[str], select: Iterable[str], exclude: Iterable[str]) -> list[str]:
    """Return the jobs meant, in the order of ``graph``: those named and those selected, less those excluded.

    Nothing named and nothing selected means all. ``select`` and ``exclude`` take shell patterns over job names;
    ``+job`` adds what the job reads, directly or not, ``job+`` what reads it.

    Raises:
        ConfigError: A name or pattern that fits no job, or nothing is left.
    """
    names, select = list(names), list(select)
    wanted = set(graph) if not names and not select else set()
    for name in names:
        if name not in graph:
            raise _unknown(f"no job {name!r}", name, graph)
        wanted.add(name)
    for pattern in select:
        wanted |= matching(graph, pattern, "--select")
    for pattern in exclude:
        wanted -= matching(graph, pattern, "--exclude")
    if not wanted:
        raise ConfigError("the selection leaves no job", hint="see the jobs with: enrich ls")
    return [name for name in graph if name in wanted]


def matching(graph: Graph, pattern: str, option: str) -> set[str]:
    """Return the jobs that a pattern means, with those before (``+x``) and behind (``x+``) them.

    Raises:
        ConfigError: No job's name fits.
    """
    core = pattern.removeprefix("+").removesuffix("+")
    found = {name for name in graph if fnmatchcase(name, core)}
    if not found:
        raise _unknown(f"{option} {pattern!r} fits no job", core, graph)
    reached = set(found)
    if pattern.startswith("+"):
        reached |= closure(found, lambda name: graph[name])
    if pattern.endswith("+"):
        reached |= closure(found, lambda name: {reader for reader, reads in graph.items() if name in reads})
    return reached


def closure(start: set[str], step: Callable[[str], Iterable[str]]) -> set[str]:
    """Return everything that can be reached from ``start``; ``start`` included."""
    reached, waiting = set(start), list(start)
    while waiting:
        fresh = set(step(waiting.pop())) - reached
        reached |= fresh
        waiting += fresh
    return reached


def _unknown(message: str, name: str, graph: Graph) -> ConfigError:
    close = get_close_matches(name, graph, n=1)
    return ConfigError(message, hint=f"did you mean {close[0]!r}?" if close else "see the jobs with: enrich ls")
