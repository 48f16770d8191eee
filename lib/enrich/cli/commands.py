"""The commands of ``enrich``. Each takes its arguments, calls one function and returns an exit code."""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

import enrich
from enrich.base import hints
from enrich.base.console import format_run
from enrich.base.errors import ConfigError
from enrich.base.result import UNCHANGED, JobResult, RunResult, name_deployment
from enrich.cli import listing
from enrich.cli.checks import maintain, plan, verify
from enrich.cli.dumps import load
from enrich.cli.options import (
    DEFAULT_TARGET,
    add_job_options,
    add_option,
    add_place_options,
    add_show_keys_option,
    add_window_options,
    ask_for_frames,
    choose_jobs,
    complete_deployments,
    complete_jobs,
    complete_rules,
    load_chosen_project,
    log_format_option,
    output_option,
    require_name,
)
from enrich.cli.process import (
    CommandLine,
    answer,
    deliver,
    format_json_line,
    keep_results,
    log_to_stderr,
    put,
    report_error,
    say_error,
    say_found,
    say_result,
)
from enrich.cli.projects import init
from enrich.progress.since import read_duration

log = logging.getLogger(__name__)

LATE = 3
"""What ``status --max-lag`` ends with when a target is late; like ``report --fail-on``, a check that did not pass."""


def say_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    """Print the installed version and leave."""
    if asked and not ctx.resilient_parsing:
        say_result(f"enrich {enrich.__version__}")
        ctx.exit()


@click.group(
    cls=CommandLine,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@add_option(
    "--project-dir",
    type=click.Path(path_type=Path),
    help="The project's directory; default: the nearest one, from here upwards, that has jobs/ and conf/.",
)
@add_option(
    "--target",
    shell_complete=complete_deployments,
    callback=require_name,
    help=f"The deployment: conf/<target>.yml.  [default: {DEFAULT_TARGET}]",
)
@add_option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=ask_for_frames,
    help="Show on stderr from which lines of code an error comes; no messages of other programs, no values.",
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=say_version,
    help="Show the version and exit.",
)
@click.pass_context
def cli(ctx: click.Context, project_dir: Path | None, target: str | None) -> None:
    """Keep the results of joins of Delta tables up to date.

    --project-dir, --target and --debug may also stand after the command. Every option but --version and --help can be
    set by an environment variable ENRICH_<OPTION>, for instance ENRICH_TARGET=prod.
    """
    ctx.obj = {"project_dir": project_dir, "target": target}


@cli.command(epilog="Example: enrich run consents_with_email --output json")
@add_job_options
@add_window_options
@add_option("--retry-quarantined", is_flag=True, help="Compute the quarantined rows again, even if no source changed.")
@add_option(
    "--accept",
    "accept",
    multiple=True,
    metavar="RULE",
    shell_complete=complete_rules,
    help="Let the job rule RULE only warn, not block.",
)
@add_option("--dry-run", is_flag=True, help="Do everything except writing.")
@add_option("--fail-fast", is_flag=True, help="After the first job that does not succeed, skip the others.")
@output_option
@add_option(
    "--result-file", type=click.Path(path_type=Path), metavar="F", help="Also write the result as JSON to the file F."
)
@add_option("--skip-code", type=click.IntRange(1, 255), metavar="N", help="Exit with N when there was nothing to do.")
@log_format_option
@add_option(
    "--quiet", is_flag=True, help="Print no progress on stderr, and no last line on stdout that sums up the run."
)
@add_place_options
def run(ctx: click.Context, /, *, output: str, log_format: str, quiet: bool, **asked: Any) -> int:
    """Bring the targets of all jobs, or of the jobs named, up to date."""
    log_to_stderr(log_format, quiet=quiet)
    path, skip_code, done = asked.pop("result_file"), asked.pop("skip_code"), list[JobResult]()
    head, show = {"run_id": None, "dry_run": asked["dry_run"]}, partial(format_run, quiet=quiet)

    def work() -> RunResult:
        project, jobs = choose_jobs(ctx, asked)
        return enrich.run(project, jobs=jobs, on_result=keep_results(done, log, output), **asked)

    code = deliver(ctx, output, done, work, show, path=path, **head)
    is_idle = code == 0 and all(job.status == UNCHANGED for job in done)
    return skip_code if is_idle and skip_code is not None else code


@cli.command(epilog="Example: enrich ls --select '+consents_with_email' --output json")
@add_job_options
@output_option
@add_place_options
def ls(ctx: click.Context, /, *, output: str, **asked: Any) -> int:
    """List the jobs in the order in which they run.

    Reads only the project's files.
    """

    def work() -> int:
        project, names = choose_jobs(ctx, asked)
        jobs = [job for job in listing.list_jobs(project) if job["job"] in names]
        return say_found(output, {**name_deployment(ctx.obj["target"]), "jobs": jobs}, listing.format_jobs(jobs))

    return answer(ctx, output, work)


@cli.command(epilog="Example: enrich --target prod status --max-lag 30m")
@add_option(
    "--max-lag",
    metavar="D",
    help="Exit with 3 when a change of a source has been waiting for longer than D (30m, 12h, 2d), or when that is not"
    " known.",
)
@output_option
@add_place_options
def status(ctx: click.Context, /, *, output: str, max_lag: str | None) -> int:
    """Show what each target contains and how far it is behind.

    Also shows how many rules have failing rows in the target, how the last run ended, and what has to be done before
    the next run. Reads only logs; starts no JVM.
    """
    limit = None if max_lag is None else read_duration("--max-lag", max_lag).total_seconds()

    def work() -> int:
        jobs = listing.collect_status(load_chosen_project(ctx))
        found: dict[str, Any] = {**name_deployment(ctx.obj["target"]), "jobs": jobs}
        late = {} if limit is None else listing.find_late(jobs, limit)
        code = LATE if late else 0
        if limit is not None:
            found |= {"max_lag_seconds": limit, "late": list(late), "exit_code": code}
        say_found(output, found, listing.format_status(jobs))
        refused = {job["job"]: job["refused"] for job in jobs}
        for job, why in late.items():
            say_error(f"{job} is late: {why}; {refused[job] or f'run `{hints.run(job)}`'}", job)
        return code

    return answer(ctx, output, work)


@cli.command(epilog="Example: enrich report customers --html customers.html --fail-on warn")
@click.argument("jobs", nargs=-1, metavar="[JOB]...", shell_complete=complete_jobs)
@add_option("--html", type=click.Path(path_type=Path), metavar="F", help="Write the report to F, as one HTML page.")
@add_option("--json", type=click.Path(path_type=Path), metavar="F", help="Write the report to F, as JSON.")
@add_option(
    "--runs", type=click.IntRange(1, 1000), default=30, show_default=True, help="How many runs of each job to show."
)
@add_option("--open", is_flag=True, help="Open the page in a browser.")
@add_option(
    "--reasons",
    is_flag=True,
    help="Also say why rows fail, as `enrich failing` does; starts Spark, and reads targets and sources.",
)
@add_show_keys_option("the keys of quarantined rows as well")
@add_option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "html", "markdown", "junit"]),
    help="Format of the report on stdout; markdown is for a comment on a pull request, junit for CI.  [default: text]",
)
@add_option(
    "--fail-on",
    type=click.Choice(["warn", "fail"]),
    help="Exit with 3 when a job is failed, blocked or skipped (fail), or also when it is warned (warn).",
)
@add_option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    help="An older name of --format, for text and json.",
)
@add_place_options
def report(ctx: click.Context, /, *, output: str, form: str | None, **asked: Any) -> int:
    """Show what the targets hold, and what the runs did and found.

    Reads the runs table and the suites; starts no JVM, unless rows fail and --reasons asks why. Shows names and numbers
    only, no cell values. Without --fail-on the exit code is 0, whatever the verdict is.
    """
    from enrich.cli.reports import Wanted, choose_format, make_report

    wanted = Wanted(**asked, format=choose_format(ctx, output, form))
    return answer(ctx, wanted.format, lambda: make_report(load_chosen_project(ctx), wanted))


@cli.command(epilog="Example: enrich validate || exit 1")
@add_option("--offline", is_flag=True, help="Check the files alone and open no table, for pre-commit and CI.")
@output_option
@add_place_options
def validate(ctx: click.Context, /, *, offline: bool, output: str) -> int:
    """Check files, suites and the schemas of the sources.

    Starts no JVM and writes nothing. Prints each fault as one line on stderr, and then exits with 2.
    """
    project, faults = listing.find_faults(lambda: load_chosen_project(ctx, all_suites=True), offline=offline)
    if output == "json":
        found = [{"where": fault.where, "message": fault.message} for fault in faults]
        head = name_deployment(ctx.obj["target"])
        say_result(format_json_line({**head, "exit_code": 2 if faults else 0, "faults": found}))
    elif project is not None and not faults:
        good, note = listing.format_validation(project, offline=offline)
        say_result(good)
        if note is not None:
            put(note, sys.stderr)
    return report_error(ConfigError.of(faults)) if faults else 0


@cli.command(epilog="Example: enrich schema job > job.schema.json")
@click.argument(
    "kind",
    type=click.Choice(["job", "conf", "test", "report", "result"]),
    default="job",
    metavar="[job|conf|test|report|result]",
)
def schema(kind: str) -> int:
    """Print a JSON Schema for editors and other tools."""
    say_result(listing.format_schema(kind))
    return 0


@cli.command(epilog="Example: enrich demo, then: enrich --project-dir enrich-demo run")
@click.argument("directory", type=click.Path(path_type=Path), default=Path("enrich-demo"), metavar="[DIR]")
@add_option(
    "--section",
    "sections",
    multiple=True,
    metavar="NAME",
    help="Play this part instead of the first: consents, reachable, products, persons, mirror, moments or history. Can"
    " be repeated.",
)
@add_option("--all", "everything", is_flag=True, help="Play all parts.")
@add_option("--quiet", is_flag=True, help="Print no progress on stderr.")
def demo(directory: Path, sections: tuple[str, ...], everything: bool, quiet: bool) -> int:
    """Play a story on real Delta tables, and check the results.

    DIR (default: ./enrich-demo) becomes a project with made-up tables. Rounds of changes and runs show what changes
    and why cells are null. The story has several parts; the first one is about consents and accounts. A DIR that has
    other content than an earlier demo is refused.
    """
    if everything and sections:
        raise ConfigError("--all plays every part, --section only those that it names", hint="leave one of them out")
    log_to_stderr("text", quiet=True)
    for chatty in () if quiet else ("demo", "session", "jars"):  # what takes long; the rounds speak for themselves
        logging.getLogger(f"enrich.{chatty}").setLevel(logging.INFO)
    from enrich.demo import FIRST, play

    return play(directory, () if everything else sections or (FIRST,), say_result)


cli.add_command(init)
cli.add_command(plan)
cli.add_command(verify)
cli.add_command(maintain)
cli.add_command(load)
