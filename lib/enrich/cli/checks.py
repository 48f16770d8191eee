"""``enrich plan`` and ``enrich verify``: what a run would do, and whether a target is what it should be."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import click

from enrich.cli.options import jobs_options, log_options, option, output_option, place, project_of, window_options
from enrich.cli.process import Interrupted, ended_by, interruption, log_to_stderr, say_result, tell
from enrich.cli.results import json_line
from enrich.console import clean, table, window_text

if TYPE_CHECKING:
    from enrich.config import Project
    from enrich.planning import JobPlan, PlanResult
    from enrich.verification import Check, Discrepancy, VerifyResult

log = logging.getLogger(__name__)


class Found(Protocol):
    """What a command found: its JSON and its exit code."""

    @property
    def exit_code(self) -> int:
        """The process's exit code."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON."""


@click.command(epilog="Example: enrich plan --since 3d")
@jobs_options
@window_options
@output_option
@log_options
@place
@click.pass_context
def plan(ctx: click.Context, /, *, output: str, log_format: str, quiet: bool, **asked: Any) -> int:
    """Say what a run would take, compute and refuse.

    Per job and source: versions, commits, changed and affected keys. Writes nothing, takes no lock, and starts Spark
    only when a source has moved. Exits with what the run would exit with, as far as is known before rows are computed.
    """
    log_to_stderr(log_format, quiet=quiet)

    def look(done: list[JobPlan]) -> PlanResult:
        project, jobs = _chosen(ctx, asked)
        from enrich import plan as plan_project

        found = plan_project(project, jobs=jobs, **asked)
        done += found.jobs
        return found

    return _deliver(ctx, output, look, plan_text)


@click.command(epilog="Example: enrich verify customers || enrich verify customers --repair")
@jobs_options
@option("--repair", is_flag=True, help="Write the difference: foreign rows go, gaps close, the cursor stays.")
@output_option
@log_options
@place
@click.pass_context
def verify(ctx: click.Context, /, *, output: str, log_format: str, quiet: bool, **asked: Any) -> int:
    """Compare targets with what their jobs give at the recorded versions.

    Exact, by key and by row, quarantines included. Exit 0 when all are equal or repaired, 6 when one differs, 5 when a
    recorded version cannot be read any more.
    """
    log_to_stderr(log_format, quiet=quiet)

    def look(done: list[Check]) -> VerifyResult:
        project, jobs = _chosen(ctx, asked)
        from enrich import verify as verify_project

        def note(check: Check) -> None:
            if code := interruption():
                raise Interrupted(code)  # the job "failed" because its JVM was taken away
            done.append(check)
            log.info("%s: %s", check.job, check.status)

        return verify_project(project, jobs=jobs, on_result=note, **asked)

    return _deliver(ctx, output, look, verify_text)


def _chosen(ctx: click.Context, asked: dict[str, Any]) -> tuple[Project, list[str]]:
    """Load the project and take the choice of jobs out of ``asked``."""
    from enrich.cli.selection import choose, graph_of

    project = project_of(ctx)
    return project, choose(graph_of(project), asked.pop("jobs"), asked.pop("select"), asked.pop("exclude"))


def _deliver(ctx: click.Context, output: str, look: Callable[[list[Any]], Any], text: Callable[[Any], str]) -> int:
    """Print what ``look`` found, or why it ended, and return the exit code."""
    done: list[Any] = []
    try:
        found: Found = look(done)
        if code := interruption():
            raise Interrupted(code)
    except (Exception, KeyboardInterrupt, Interrupted) as error:  # noqa: BLE001 - even a bug leaves one JSON line
        known, exit_code = ended_by(error)
        if output == "json":
            jobs = [each.to_dict() for each in done]
            head = {"target": ctx.obj["target"], "exit_code": exit_code}
            say_result(json_line({**head, "jobs": jobs, "error": str(known)}))
        return tell(known, exit_code)
    say_result(json_line(found.to_dict()) if output == "json" else text(found))
    return found.exit_code


def plan_text(found: PlanResult) -> str:
    """Return the table of a plan, a line a source, and why jobs would be refused.

    ```
    job        mode         source    versions      commits  affected keys
    customers  incremental  consents  7->7 (0)            0              0
                            accounts  3->5 (12)           2             12
    ```
    """
    rows: list[tuple[str, ...]] = []
    for job in found.jobs:
        told = (clean(job.job), job.mode or "-")
        for alias, source in job.sources.items():
            window = window_text(alias, source.window).removeprefix(f"{alias} ")
            commits = str(source.to_dict()["commits"])
            rows.append((*told, clean(alias), window, commits, _keys(source.affected)))
            told = ("", "")
        if len(job.sources) != 1:
            rows.append((*told, "in all" if job.sources else "-", "-", "-", _keys(job.affected)))
    header = ("job", "mode", "source", "versions (changes)", "commits", "affected keys")
    notes = [clean(f"{job.job}: {note}") for job in found.jobs for note in _plan_notes(job)]
    return "\n".join([table(header, rows, right=(4, 5)), *notes])


def _keys(affected: int | None) -> str:
    return "all" if affected is None else str(affected)


def _plan_notes(job: JobPlan) -> list[str]:
    notes = [
        f"versions {source.window.gap[0] + 1} to {source.window.gap[1]} of {alias} would be skipped"
        for alias, source in job.sources.items()
        if source.window.gap is not None
    ]
    if job.after:
        notes.append(f"runs after {', '.join(job.after)}, whose changes are not counted here")
    return [*notes, *([f"refused, exit {job.exit_code}: {job.refused}"] if job.refused is not None else [])]


def verify_text(found: VerifyResult) -> str:
    """Return the table of a comparison, a line a table.

    ```
    job        status     rows of     missing  surplus  differing
    customers  different  target            1        4          1
                          quarantine        0        0          0
    ```
    """
    rows: list[tuple[str, ...]] = []
    for job in found.jobs:
        if not job.versions:  # it could not be compared
            rows.append((clean(job.job), job.status, "-", "-", "-", "-"))
            continue
        rows.append((clean(job.job), job.status, "target", *_counts(job.target)))
        rows.append(("", "", "quarantine", *_counts(job.quarantine)))
    shown = table(("job", "status", "rows of", "missing", "surplus", "differing"), rows, right=(3, 4, 5))
    notes = [clean(f"{job.job}: {note}") for job in found.jobs for note in _check_notes(job)]
    return "\n".join([shown, *notes])


def _counts(found: Discrepancy) -> tuple[str, ...]:
    return (str(found.missing), str(found.surplus), str(found.differing))


def _check_notes(job: Check) -> list[str]:
    notes = []
    if job.foreign and job.status != "repaired":
        notes.append(f"versions {', '.join(map(str, sorted(job.foreign)))} of the target are another writer's")
    for alias, gaps in job.gaps.items():
        ranges = ", ".join(f"{start + 1} to {end}" for start, end in gaps)
        closed = " until now" if job.status == "repaired" else ""
        notes.append(f"versions {ranges} of {alias} were skipped{closed}")
    return [*notes, *([job.error] if job.error is not None else [])]
