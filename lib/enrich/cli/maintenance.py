"""``enrich maintain``: the files of the tables that enrich writes, and on request of its sources."""

from __future__ import annotations

import logging
from typing import Any

import click

import enrich
from enrich.base.console import clean, format_count, format_extent, format_table
from enrich.cli.options import (
    add_job_options,
    add_log_options,
    add_option,
    add_place_options,
    choose_jobs,
    output_option,
)
from enrich.cli.process import log_to_stderr, say_failure, stop_if_interrupted
from enrich.cli.results import deliver
from enrich.operations.maintenance import MaintainResult, Upkeep

log = logging.getLogger(__name__)


@click.command(epilog="Example: enrich maintain --dry-run")
@add_job_options
@add_option(
    "--sources", is_flag=True, help="Also remove files of the sources, as far as no job of the project may need them."
)
@add_option(
    "--dry-run", is_flag=True, help="Say how many files and bytes would be written anew or removed, and write nothing."
)
@output_option
@add_log_options
@add_place_options
def maintain(ctx: click.Context, /, *, output: str, log_format: str, quiet: bool, **asked: Any) -> int:
    """Put small files together, and remove files that nobody needs.

    OPTIMIZE and VACUUM of targets and quarantines, and the same for the runs table. No row changes. Nothing is removed
    (exit 5) while a job of the project has yet to read changes that are almost as old as what the table keeps. A job
    that another run works on is left out (exit 4).
    """
    log_to_stderr(log_format, quiet=quiet)
    done: list[Upkeep] = []

    def keep(each: Upkeep) -> None:
        done.append(each)
        log.info("%s: %s", clean(each.table), each.status)
        if each.exit_code:
            say_failure(f"{each.table}: {each.status}: {each.error}", each.job, output=output)
        stop_if_interrupted()

    def work() -> MaintainResult:
        project, jobs = choose_jobs(ctx, asked)
        return enrich.maintain(project, jobs=jobs, on_result=keep, **asked)

    return deliver(ctx, output, done, work, format_maintenance, run_id=None, dry_run=asked["dry_run"])


def format_maintenance(found: MaintainResult) -> str:
    """Return the table of what was done, a line a table.

    ```
    table       of      status   written anew       became          removed            kept
    customers   target  done     12 files, 1.5 MB   1 file, 1.4 MB  30 files, 4.1 MB   7 days
    ```
    """
    rows = [
        (
            clean(each.table.rpartition("/")[2]),
            each.role,
            each.status,
            *[
                format_extent(part) if part is not None and part.files else "-"
                for part in (each.rewritten, each.became, each.removed)
            ],
            "-" if each.kept is None else _format_hours(each.kept),
        )
        for each in found.tables
    ]
    header = ("table", "kind", "status", "written anew", "became", "removed", "past kept")
    notes = [clean(f"{each.table}: {each.error}") for each in found.tables if each.error is not None]
    if found.dry_run:
        notes.append("dry run: nothing was written; the numbers are those of a run without --dry-run, at most")
    return "\n".join([format_table(header, rows), *notes])


def _format_hours(hours: int) -> str:
    return format_count(hours, "hour") if hours < 48 else f"{hours / 24:.3g} days"
