"""Which jobs a command means: names, ``--select`` and ``--exclude`` patterns over the job graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from enrich.base import hints
from enrich.base.errors import ConfigError, suggest
from enrich.config.project import Project, find_upstream, sort_jobs

Graph = Mapping[str, frozenset[str]]
"""For each job, in the order in which they run, the jobs whose targets it reads."""


def build_graph(project: Project) -> Graph:
    """Return a project's jobs in the order in which they run."""
    return {name: frozenset(find_upstream(project, name)) for name in sort_jobs(project.jobs, project)}


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
            raise _refuse_unknown(f"there is no job {name!r}", name, graph)
        wanted.add(name)
    for pattern in select:
        wanted |= match_jobs(graph, pattern, "--select")
    for pattern in exclude:
        wanted -= match_jobs(graph, pattern, "--exclude")
    if not wanted:
        raise ConfigError("the selection leaves no job to run", hint=f"`{hints.list_jobs()}` lists the jobs")
    return [name for name in graph if name in wanted]


def match_jobs(graph: Graph, pattern: str, option: str) -> set[str]:
    """Return the jobs that a pattern means, with those before (``+x``) and behind (``x+``) them."""
    core = pattern.removeprefix("+").removesuffix("+")
    found = {name for name in graph if fnmatchcase(name, core)}
    if not found:
        raise _refuse_unknown(f"{option} {pattern!r} matches no job", core, graph)
    before, behind = set(found), set(found)
    for name in reversed(list(graph)):  # a job stands after all that it reads
        if name in before:
            before |= graph[name]
    for name in graph:
        if graph[name] & behind:
            behind.add(name)
    return found | (before if pattern.startswith("+") else set()) | (behind if pattern.endswith("+") else set())


def _refuse_unknown(message: str, name: str, graph: Graph) -> ConfigError:
    return ConfigError(message, hint=suggest(name, graph, f"`{hints.list_jobs()}` lists the jobs"))
