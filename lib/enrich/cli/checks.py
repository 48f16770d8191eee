"""Look after targets: what a run would do, whether a target is what it should be, its files, its rows and keys."""

from __future__ import annotations

import logging
import re
from itertools import takewhile
from typing import Any

import click
from click.core import ParameterSource

import enrich
from enrich.answers.doctor import format_checkup
from enrich.answers.reasons import format_answer, format_failing, format_keys
from enrich.answers.verification import Check, Discrepancy, VerifyResult
from enrich.base import hints
from enrich.base.console import clean, format_count, format_extent, format_table, format_window
from enrich.cli.options import (
    add_job_options,
    add_log_options,
    add_option,
    add_place_options,
    add_show_keys_option,
    add_window_options,
    choose_jobs,
    complete_jobs,
    load_chosen_project,
    output_option,
    refuse_stored_keys,
)
from enrich.cli.process import answer, deliver, keep_results, log_to_stderr, say_failure, say_found, stop_if_interrupted
from enrich.operations.maintenance import MaintainResult, Upkeep
from enrich.operations.planning import JobPlan, PlanResult

log = logging.getLogger(__name__)


@click.command(epilog="Example: enrich plan --since 3d")
@add_job_options
@add_window_options
@output_option
@add_log_options
@add_place_options
def plan(ctx: click.Context, /, *, output: str, log_format: str, quiet: bool, **asked: Any) -> int:
    """Show what a run would do, and which jobs it would refuse.

    For each job and source: versions, commits, changed keys and affected keys. Writes nothing, takes no lock, and
    starts Spark only when a source has changed. The exit code is that of the run, as far as it is known before rows
    are computed.
    """
    log_to_stderr(log_format, quiet=quiet)
    done: list[JobPlan] = []

    def work() -> PlanResult:
        project, jobs = choose_jobs(ctx, asked)
        found = enrich.plan(project, jobs=jobs, **asked)
        done.extend(found.jobs)
        stop_if_interrupted()
        for job in found.jobs:
            if job.exit_code:
                say_failure(f"{job.job}: refused: {job.refused}", job.job, output=output)
        return found

    return deliver(ctx, output, done, work, format_plan)


@click.command(epilog="Example: enrich verify customers || enrich verify customers --repair")
@add_job_options
@add_option(
    "--repair", is_flag=True, help="Write the difference; this also removes other writers' rows and closes gaps."
)
@output_option
@add_log_options
@add_place_options
def verify(ctx: click.Context, /, *, output: str, log_format: str, quiet: bool, **asked: Any) -> int:
    """Compare every row of the targets with what their jobs give.

    The jobs are computed at the versions that the targets record; quarantines are compared as well. Exit 0: all are
    equal or repaired. 6: one differs. 5: a recorded version cannot be read any more.
    """
    log_to_stderr(log_format, quiet=quiet)
    done: list[Check] = []

    def work() -> VerifyResult:
        project, jobs = choose_jobs(ctx, asked)
        return enrich.verify(project, jobs=jobs, on_result=keep_results(done, log, output), **asked)

    return deliver(ctx, output, done, work, format_verification)


def format_plan(found: PlanResult) -> str:
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
            window = format_window(alias, source).removeprefix(f"{alias} ")
            rows.append((*told, clean(alias), window, str(source.commits), _format_keys(source.affected_keys)))
            told = ("", "")
        if len(job.sources) != 1:
            rows.append((*told, "all sources" if job.sources else "-", "-", "-", _format_keys(job.affected_keys)))
    header = ("job", "mode", "source", "versions (changes)", "commits", "affected keys")
    notes = [clean(f"{job.job}: {note}") for job in found.jobs for note in _list_plan_notes(job)]
    return "\n".join([format_table(header, rows, right=(4, 5)), *notes])


def _format_keys(affected: int | None) -> str:
    return "all" if affected is None else str(affected)


def _list_plan_notes(job: JobPlan) -> list[str]:
    notes = [
        f"versions {source.gap[0] + 1} to {source.gap[1]} of {alias} would be left out"
        for alias, source in job.sources.items()
        if source.gap is not None
    ]
    notes += [
        f"the change feed of {alias} does not tell all: its rows at both ends are compared"
        for alias, source in job.sources.items()
        if source.compared
    ]
    if (found := job.forecast) is not None and job.has_work:
        sizes = (("reads", found.reads), ("writes anew", found.writes))
        told = [f"{what} at most {format_extent(each)}" for what, each in sizes if each is not None]
        cheap = [f"a full refresh would read {format_extent(found.refresh)}"] if found.refresh is not None else []
        due = [f"then OPTIMIZE of the target: {found.optimize}"] if found.optimize is not None else []
        notes.append("; ".join([f"{found.strategy}: {found.why}", *told, *cheap, *due]))
    if job.after:
        notes.append(f"runs after {', '.join(job.after)}; what these jobs would change is not counted here")
    if job.refused is not None:
        notes.append(f"refused, exit {job.exit_code}: {job.refused}" if job.exit_code else job.refused)
    return notes


def format_verification(found: VerifyResult) -> str:
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
        rows.append((clean(job.job), job.status, "target", *_format_counts(job.target)))
        rows.append(("", "", "quarantine", *_format_counts(job.quarantine)))
    shown = format_table(("job", "status", "rows of", "missing", "surplus", "differing"), rows, right=(3, 4, 5))
    notes = [clean(f"{job.job}: {note}") for job in found.jobs for note in _list_check_notes(job)]
    return "\n".join([shown, *notes])


def _format_counts(found: Discrepancy) -> tuple[str, ...]:
    return (str(found.missing), str(found.surplus), str(found.differing))


def _list_check_notes(job: Check) -> list[str]:
    notes = []
    if job.ahead and job.status != "repaired":
        notes.append(
            "the quarantine contains other versions than the target"
            f" ({', '.join(f'{alias} {version}' for alias, version in job.ahead.items())}), so its rows do not count:"
            f" a run is at work, or has ended between its two commits; run `{hints.run(job.job)}`"
        )
    if job.others and job.status != "repaired":
        notes.append(f"another writer made versions {', '.join(map(str, sorted(job.others)))} of the target")
    for alias, gaps in job.gaps.items():
        ranges = ", ".join(f"{start + 1} to {end}" for start, end in gaps)
        closed = ", and their changes are in the target now" if job.status == "repaired" else ""
        notes.append(f"versions {ranges} of {alias} were left out{closed}")
    return [*notes, *([job.error] if job.error is not None else [])]


@click.command(epilog="Example: enrich maintain --sources")
@add_job_options
@add_option(
    "--sources", is_flag=True, help="Also remove files of the sources, as far as no job of the project may need them."
)
@output_option
@add_log_options
@add_place_options
def maintain(ctx: click.Context, /, *, output: str, log_format: str, quiet: bool, **asked: Any) -> int:
    """Put small files together, and remove files that nobody needs.

    OPTIMIZE and VACUUM of targets and quarantines. No row changes. Nothing is removed (exit 5) while a job of the
    project has yet to read changes that are almost as old as what the table keeps. A job that another run works on is
    left out (exit 4).
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

    return deliver(ctx, output, done, work, format_maintenance, run_id=None)


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
            "-"
            if each.kept is None
            else format_count(each.kept, "hour")
            if each.kept < 48
            else f"{each.kept / 24:.3g} days",
        )
        for each in found.tables
    ]
    header = ("table", "kind", "status", "written anew", "became", "removed", "past kept")
    notes = [clean(f"{each.table}: {each.error}") for each in found.tables if each.error is not None]
    return "\n".join([format_table(header, rows), *notes])


# --- questions about rows and keys: why, failing and doctor -----------------------------------------------------------

_NEAR_MISSES = "the keys of near misses"
_NEGATIVE = re.compile(r"-[.]?[0-9][0-9.eE+:T -]*")


class _TakesKey(click.Command):
    """A command with a key among its arguments, which may be a negative number: that is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; a word that begins like an option and is none is refused, as everywhere."""
        known = {name for param in self.get_params(ctx) for name in param.opts}
        given = [each for each in takewhile(lambda each: each != "--", args) if each.startswith("-")]
        ctx.ignore_unknown_options = all(_NEGATIVE.fullmatch(each) or each.partition("=")[0] in known for each in given)
        return super().parse_args(ctx, args)


@click.command(cls=_TakesKey, epilog="Example: enrich why consents_with_email user_4 email")
@click.argument("job", shell_complete=complete_jobs)
@click.argument("key", required=False, metavar="KEY")
@click.argument("column", required=False, metavar="[COLUMN]")
@add_option(
    "--key",
    "parts",
    multiple=True,
    metavar="NAME=VALUE",
    help="One column of a composite key, or of the key of a lookup-only row; repeat it for each column.",
)
@output_option
@add_show_keys_option(_NEAR_MISSES)
@add_place_options
def why(ctx: click.Context, /, *, job: str, output: str, show_keys: bool, **asked: Any) -> int:
    """Say why a row or a cell is as it is.

    KEY is the key of a target row, as text. A composite key is k1=v1,k2=v2; if its values contain commas or equal
    signs, use --key k1=v1 --key k2=v2. The answer is one word for the row, for each source and for each column;
    docs/diagnosis.md lists the words. No value is printed.
    """
    refuse_stored_keys(output, show_keys=show_keys)
    log_to_stderr("text", quiet=True)
    parts, key, column = asked["parts"], asked["key"], asked["column"]
    if parts and column is not None:
        raise click.UsageError("give the key either as KEY or with --key, not both")
    if not parts and key is None:
        raise click.UsageError("the key is missing: enrich why JOB KEY [COLUMN]")
    key, column = (list(parts), key) if parts else (key, column)

    def work() -> int:
        found = enrich.why(load_chosen_project(ctx), job, key, column, show_keys=show_keys)
        return say_found(output, found.to_dict(), format_answer(found, column))

    return answer(ctx, output, work)


@click.command(epilog="Example: enrich failing consents_with_email 0")
@click.argument("job", shell_complete=complete_jobs)
@click.argument("rule", type=click.IntRange(min=0), required=False, metavar="[RULE]")
@output_option
@add_show_keys_option("the keys of failing rows, at most 100 for each rule")
@add_place_options
def failing(ctx: click.Context, /, *, job: str, rule: int | None, output: str, show_keys: bool) -> int:
    """Say how many rows fail the rules, and why.

    Reads the whole target. RULE is the position of an expectation in the suite, from 0; without it, all expectations
    that judge each row by itself are shown. The reasons are those of `enrich why`. No value is printed.
    """
    refuse_stored_keys(output, show_keys=show_keys)
    log_to_stderr("text", quiet=True)

    def work() -> int:
        found = enrich.failing(load_chosen_project(ctx), job, rule, show_keys=show_keys)
        return say_found(output, found.to_dict(), format_failing(found))

    return answer(ctx, output, work)


@click.group(invoke_without_command=True, subcommand_metavar="[COMMAND]", epilog="Example: enrich --target prod doctor")
@output_option
@add_place_options
def doctor(ctx: click.Context, /, *, output: str) -> int:
    """Check machine, directories and tables, and say what repairs them.

    Java, Delta jars, permissions; and of the tables: change feeds, how long sources keep their past, and
    which values the logs of targets show. Starts no JVM and writes nothing. Exit 0: no fault; 7: something is wrong
    with the machine; 2: with a table; 5: changes may be lost; 1: storage that cannot be read.
    """
    if ctx.invoked_subcommand is not None:
        if ctx.get_parameter_source("output") is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"--output stands after the command: enrich doctor {ctx.invoked_subcommand} --output ..."
            )
        return 0
    log_to_stderr("text", quiet=True)

    def work() -> int:
        found = enrich.diagnose(load_chosen_project(ctx))
        say_found(output, found.to_dict(), format_checkup(found))
        for each in found.found:
            if each.exit_code:
                say_failure("; ".join(filter(None, (f"{each.about}: {each.message}", each.repair))), output=output)
        return found.exit_code

    return answer(ctx, output, work)


@doctor.command(epilog="Example: enrich doctor keys consents_with_email --join accounts")
@click.argument("job", shell_complete=complete_jobs)
@add_option("--join", metavar="ALIAS", help="Look at this lookup only.")
@output_option
@add_show_keys_option(_NEAR_MISSES)
@add_place_options
def keys(ctx: click.Context, /, *, job: str, join: str | None, output: str, show_keys: bool) -> int:
    """Count references that match no key, but nearly do.

    For each join: how many references have no partner; how many of them differ from a key only by case, white space,
    accents, invisible characters or leading zeros; and the lines for the job file that make most of them match.
    """
    refuse_stored_keys(output, show_keys=show_keys)
    log_to_stderr("text", quiet=True)

    def work() -> int:
        found = enrich.doctor_keys(load_chosen_project(ctx), job, join=join, show_keys=show_keys)
        return say_found(output, found.to_dict(), format_keys(found))

    return answer(ctx, output, work)
