"""The hook for those who watch a run from outside; where ``conf/`` names nobody, nothing is imported for it."""

from __future__ import annotations

from typing import Protocol

from enrich.base.result import JobResult
from enrich.config.project import Project
from enrich.progress.task import Task


class Watch(Protocol):
    """Who is told what a run does; nothing that happens there reaches the run."""

    def start(self, job: str) -> None:
        """Take note that a job begins."""

    def plan(self, task: Task) -> None:
        """Take note of what a job has to do, once that is known."""

    def end(self, result: JobResult) -> None:
        """Take note of how a job ended."""

    def abort(self, job: str, done: JobResult | None) -> None:
        """Take note that the run was interrupted; ``done`` is the job's result where it has committed all the same."""

    def finish(self, *, interrupted: bool) -> None:
        """Take note that the run is over; ``interrupted``: the process has to end soon."""


class _Nobody:
    """Nobody watches."""

    def start(self, job: str) -> None: ...
    def plan(self, task: Task) -> None: ...
    def end(self, result: JobResult) -> None: ...
    def abort(self, job: str, done: JobResult | None) -> None: ...
    def finish(self, *, interrupted: bool) -> None: ...


def open_watch(project: Project, run_id: str, *, dry_run: bool) -> Watch:
    """Return who watches a run: those whom ``conf/`` names, nobody in a dry run.

    Raises:
        ConfigError: A secret is not where ``conf/`` says that it is.
        EnvironmentFault: A package is missing.
    """
    settings = project.settings
    if dry_run or not (settings.lineage or settings.metrics or settings.notify):
        return _Nobody()
    from enrich.observe import Observer

    return Observer(project, run_id)
