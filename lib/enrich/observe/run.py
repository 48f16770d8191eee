"""Run jobs for those who ask, and tell those whom ``conf/`` names what happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from enrich.base.result import JobResult, RunResult
from enrich.config.project import Project
from enrich.operations.loading import choose_accepted, choose_jobs, read_window
from enrich.operations.runner import Watch, run_jobs
from enrich.operations.workplace import Options, Workplace
from enrich.progress.since import Said

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(  # noqa: PLR0913 - the public interface: every keyword is an option of `enrich run`
    project: Project,
    jobs: Sequence[str] | None = None,
    *,
    exclude: Iterable[str] = (),
    spark: SparkSession | None = None,
    since: Said = None,
    until: Said = None,
    allow_gap: bool = False,
    full_refresh: bool = False,
    dry_run: bool = False,
    retry_quarantined: bool = False,
    accept: Iterable[str] = (),
    fail_fast: bool = False,
    on_result: Callable[[JobResult], None] | None = None,
) -> RunResult:
    """Run jobs in the order of their dependencies.

    Args:
        project: What ``load_project`` gave.
        jobs: Names; None for all.
        exclude: Names to leave out.
        spark: A Delta-capable session, left as it was found; None: the active one, or one is built when there is work.
        since: Widen each window back to here, in a form of ``enrich.progress.since``; several as a sequence or
            comma-separated.
        until: End each window here; the same forms. With both, replay that window.
        allow_gap: Let ``since`` skip changes that are not in the target yet, and histories those that no feed tells
            any more; the cursor records the gap.
        full_refresh: Compute every row anew and write the difference.
        dry_run: Compute and count, write nothing.
        retry_quarantined: Compute the rows that a quarantine holds again, even if no source has moved.
        accept: Rules of the jobs (``mass_change`` ...) that shall warn in this run where they would block it.
        fail_fast: Skip the remaining jobs after the first that does not succeed.
        on_result: Called with each job's result as it ends.

    Returns:
        One result per job; a failed job is a result, not an exception.

    Raises:
        ConfigError: An unknown job, or an option that cannot be honoured.
    """
    names = choose_jobs(project, jobs, exclude)
    accepted = choose_accepted(project, names, accept)
    bounds = read_window(project, names, (since, until), allow_gap=allow_gap, full_refresh=full_refresh)
    options = Options(full_refresh, dry_run, retry_quarantined, accepted, bounds)
    workplace = Workplace(project, names, options, given=spark)
    watch = _open_watch(project, workplace.run_id, dry_run=dry_run)
    return run_jobs(workplace, watch, fail_fast=fail_fast, on_result=on_result)


def _open_watch(project: Project, run_id: str, *, dry_run: bool) -> Watch:
    """Return who watches a run: those whom ``conf/`` names, nobody in a dry run.

    Raises:
        ConfigError: A secret is not where ``conf/`` says that it is.
        EnvironmentFault: A package is missing.
    """
    settings = project.settings
    if dry_run or not (settings.lineage or settings.metrics or settings.notify):
        return Watch()
    from enrich.observe.observer import Observer

    return Observer(project, run_id)
