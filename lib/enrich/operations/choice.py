"""Which jobs a run takes, and which of their rules it accepts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from enrich.base.errors import ConfigError, suggest
from enrich.config import graph
from enrich.config.project import Project


def choose_jobs(project: Project, jobs: Sequence[str] | None, exclude: Iterable[str]) -> list[str]:
    """Return the jobs to run, in order; unknown names are errors."""
    out = set(exclude)
    wanted = list(project.jobs) if jobs is None else list(jobs)
    for name in [*wanted, *out]:
        if name not in project.jobs:
            raise ConfigError(
                f"there is no job {name!r}", hint=suggest(name, project.jobs, "`enrich ls` lists the jobs")
            )
    return graph.sort_jobs([name for name in wanted if name not in out], project)


def choose_accepted(project: Project, names: Sequence[str], accept: Iterable[str]) -> frozenset[str]:
    """Return the rules to accept; one that none of the jobs can break is an error, it would accept nothing."""
    blocking = {rule.rule for name in names for rule in project.jobs[name].rules if rule.blocks}
    for rule in accept:
        if rule not in blocking:
            hint = f"it can be {', '.join(sorted(blocking))}" if blocking else "leave out --accept"
            raise ConfigError(f"no job of this run has a rule {rule!r} that can block it", hint=hint)
    return frozenset(accept)
