"""Load a project as ``enrich.load_project`` gives it, and find everything that its files alone show to be wrong."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from enrich.base import hints
from enrich.base.errors import ConfigError, refuse_text, show_text
from enrich.base.words import parse_size, suggest
from enrich.progress.plan import Options
from enrich.progress.since import Said, read_options
from enrich.project import project as project_files
from enrich.project.compile import check_file, list_target_columns
from enrich.project.project import Project, sort_jobs
from enrich.project.suitefiles import check_columns


def load_project(
    path: str | os.PathLike[str] | None = None,
    target: str = "dev",
    *,
    all_suites: bool = False,
    needs_jobs: bool = True,
) -> Project:
    """Read a project's files; no table is touched and no JVM starts.

    ``path``: its directory, else the nearest parent of the current one that has jobs/ and conf/. ``target``: a file of
    conf/. ``all_suites``: also those that no job names. ``needs_jobs``: tables can be loaded before there is a job. The
    ConfigError has one fault for each thing that is wrong.
    """
    project = project_files.load_project(path, target, all_suites=all_suites, needs_jobs=needs_jobs)
    faults = [fault for job in project.jobs.values() for fault in check_file(job)]
    for job in project.jobs.values():
        suite, names = project.suite(job), list_target_columns(job)
        if suite is not None and names is not None:
            # Where nothing is selected, the source's table decides the case of a name.
            known = {name.lower() for name in names} if job.select is None else set()
            judged = [column for rule in suite.rules for column in rule.list_judged_columns()]
            faults += check_columns(suite, (*names, *[column for column in judged if column.lower() in known]))
    if faults:
        raise ConfigError.of(dict.fromkeys(faults))
    return project


def choose_jobs(project: Project, jobs: Sequence[str] | None, exclude: Iterable[str]) -> list[str]:
    """Return the jobs to run, in order; unknown names are errors."""
    refuse_text("jobs", jobs)
    refuse_text("exclude", exclude)
    out = set(exclude)
    wanted = list(project.jobs) if jobs is None else list(jobs)
    for name in [*wanted, *out]:
        if name not in project.jobs:
            hint = suggest(name, project.jobs, f"`{hints.list_jobs()}` lists the jobs")
            raise ConfigError(f"there is no job {name!r}", hint=hint)
    return sort_jobs([name for name in wanted if name not in out], project)


def read_run_options(
    project: Project,
    names: Sequence[str],
    since: Said,
    until: Said,
    *,
    accept: Iterable[str] = (),
    max_bytes: int | str | None = None,
    **how: Any,
) -> Options:
    """Read what a run of these jobs that begins now is asked for; ``how``: the other fields of ``Options``.

    It is refused as in ``read_options``, where none of the jobs can break a rule to accept, and for a cap of nothing.
    """
    cap = None if max_bytes is None else parse_size(str(max_bytes))
    if max_bytes is not None and cap is None:
        hint = "valid forms are 20GB, 1.5TB, 500MB, 64MiB, 1000000"
        raise ConfigError(f"--max-bytes {show_text(str(max_bytes))!r} is not a size", hint=hint)
    refuse_text("accept", accept)
    jobs = [project.jobs[name] for name in names]
    blocking = {rule.rule for job in jobs for rule in job.rules if rule.blocks}
    accepted = frozenset(accept)
    for rule in sorted(accepted - blocking):
        hint = f"it can be {', '.join(sorted(blocking))}" if blocking else "leave out --accept"
        raise ConfigError(f"no job of this run has a rule {rule!r} that can block it", hint=hint)
    aliases = {job.job: job.sources for job in jobs}
    histories = any(job.remembers for job in jobs)
    return read_options(aliases, since, until, histories=histories, accepted=accepted, max_bytes=cap, **how)
