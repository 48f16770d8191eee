"""Which jobs a run takes, which of their rules it accepts, and which part of their sources' past it is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from enrich.base import hints
from enrich.base.errors import ConfigError, refuse_text, suggest
from enrich.config.project import Project, sort_jobs
from enrich.progress.since import Bounds, Said, read_asked


def choose_jobs(project: Project, jobs: Sequence[str] | None, exclude: Iterable[str]) -> list[str]:
    """Return the jobs to run, in order; unknown names are errors."""
    refuse_text("jobs", jobs)
    refuse_text("exclude", exclude)
    out = set(exclude)
    wanted = list(project.jobs) if jobs is None else list(jobs)
    for name in [*wanted, *out]:
        if name not in project.jobs:
            raise ConfigError(
                f"there is no job {name!r}", hint=suggest(name, project.jobs, f"`{hints.list_jobs()}` lists the jobs")
            )
    return sort_jobs([name for name in wanted if name not in out], project)


def choose_accepted(project: Project, names: Sequence[str], accept: Iterable[str]) -> frozenset[str]:
    """Return the rules to accept; one that none of the jobs can break is an error, it would accept nothing."""
    refuse_text("accept", accept)
    blocking = {rule.rule for name in names for rule in project.jobs[name].rules if rule.blocks}
    for rule in accept:
        if rule not in blocking:
            hint = f"it can be {', '.join(sorted(blocking))}" if blocking else "leave out --accept"
            raise ConfigError(f"no job of this run has a rule {rule!r} that can block it", hint=hint)
    return frozenset(accept)


def read_window(
    project: Project, names: Sequence[str], ends: tuple[Said, Said], *, allow_gap: bool, full_refresh: bool
) -> Bounds:
    """Read ``since`` and ``until`` of a run of these jobs that begins now.

    Raises:
        ConfigError: As ``read_asked``.
    """
    aliases = {name: project.jobs[name].sources for name in names}
    histories = any(project.jobs[name].remembers for name in names)
    return read_asked(aliases, ends, allow_gap=allow_gap, full_refresh=full_refresh, histories=histories)
