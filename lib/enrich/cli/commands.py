"""The commands of ``enrich``. Each takes its arguments, calls one function and returns an exit code."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import click

from enrich.cli.checks import plan, verify
from enrich.cli.options import (
    DEFAULT_TARGET,
    jobs_options,
    option,
    output_option,
    place,
    project_of,
    show_keys_option,
    window_options,
)
from enrich.cli.process import CommandLine, Interrupted, ended_by, interruption, log_to_stderr, say_result, tell
from enrich.cli.results import Delivery, json_line
from enrich.errors import ConfigError
from enrich.files import WholeFile
from enrich.result import JobResult, RunResult

log = logging.getLogger(__name__)


def say_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    """Print the installed version and leave."""
    if asked and not ctx.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version

        try:
            say_result(f"enrich {version('enrich')}")
        except PackageNotFoundError:
            say_result("enrich, from a source tree that is not installed")
        ctx.exit()


@click.group(
    cls=CommandLine,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "ENRICH", "max_content_width": 110},
)
@option(
    "--project-dir",
    type=click.Path(path_type=Path),
    help="The project; left out: the nearest directory upwards that has jobs/ and conf/.",
)
@option("--target", help=f"The deployment target: conf/<target>.yml.  [default: {DEFAULT_TARGET}]")
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
    """Keep joins of Delta tables current, incrementally and exactly.

    --project-dir and --target may also stand after the command. Every option can come from the environment as
    ENRICH_<OPTION>, for instance ENRICH_TARGET=prod.
    """
    ctx.obj = {"project_dir": project_dir, "target": target}


@cli.command(epilog="Example: enrich run consents_with_email --output json")
@jobs_options
@window_options
@option("--retry-quarantined", is_flag=True, help="Compute the rows in quarantine again, even if no source moved.")
@option("--accept", "accept", multiple=True, metavar="RULE", help="Let RULE (mass_change ...) warn instead of block.")
@option("--dry-run", is_flag=True, help="Do everything except writing.")
@option("--fail-fast", is_flag=True, help="Skip the other jobs after the first one that does not succeed.")
@output_option
@option("--result-file", type=click.Path(path_type=Path), metavar="F", help="Write the result's JSON to F as well.")
@option("--skip-code", type=click.IntRange(1, 255), metavar="N", help="Exit with N when there was nothing to do.")
@option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of stderr.")
@option("--quiet", is_flag=True, help="No progress on stderr, no last line on stdout.")
@place
@click.pass_context
def run(ctx: click.Context, /, *, output: str, log_format: str, quiet: bool, **asked: Any) -> int:
    """Bring targets up to date: all, or those of the jobs named."""
    log_to_stderr(log_format, quiet=quiet)
    target, path, skip_code = ctx.obj["target"], asked.pop("result_file"), asked.pop("skip_code")
    delivery, done = Delivery(output, None, skip_code, quiet), list[JobResult]()
    try:
        file = WholeFile(path, "--result-file", "nothing was run") if path else None
        delivery = Delivery(output, file, skip_code, quiet)
        result = run_jobs(ctx, done, **asked)
    except (Exception, KeyboardInterrupt, Interrupted) as error:  # noqa: BLE001 - even a bug leaves one JSON line
        known, exit_code = ended_by(error)
        delivery.refuse(target, known, exit_code, done)
        return tell(known, exit_code)
    else:
        return delivery.hand_over(result)
    finally:
        if delivery.file is not None:
            delivery.file.drop()


def run_jobs(
    ctx: click.Context,
    done: list[JobResult],
    *,
    jobs: tuple[str, ...],
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    **how: Any,
) -> RunResult:
    """Load the project, choose its jobs and run them; ``done`` gets each job's result as it ends.

    Raises:
        EnrichError: The project or the selection is at fault. A failed job raises nothing: it is part of the result.
    """
    from enrich.cli.selection import choose, graph_of

    project = project_of(ctx)
    chosen = choose(graph_of(project), jobs, select, exclude)

    from enrich import run as run_project

    def note(job: JobResult) -> None:
        code = interruption()
        if code and job.exit_code:
            raise Interrupted(code)  # the job "failed" because its JVM was taken away
        done.append(job)
        log.info("%s: %s", job.job, job.status)
        if code:
            raise Interrupted(code)

    return run_project(project, jobs=chosen, on_result=note, **how)


@cli.command(epilog="Example: enrich ls --output json")
@output_option
@place
@click.pass_context
def ls(ctx: click.Context, /, *, output: str) -> int:
    """List the jobs in the order in which they run.

    Reads the project's files only.
    """
    from enrich.cli.listing import listed, listing_text

    jobs = listed(project_of(ctx))
    say_result(json_line({"target": ctx.obj["target"], "jobs": jobs}) if output == "json" else listing_text(jobs))
    return 0


@cli.command(epilog="Example: enrich --target prod status")
@output_option
@place
@click.pass_context
def status(ctx: click.Context, /, *, output: str) -> int:
    """Show what each target contains, its lag, its last outcome, and what an operator has to see to.

    Reads the tables' logs; starts no JVM.
    """
    from enrich.cli.listing import status_rows, status_text

    jobs = status_rows(project_of(ctx))
    say_result(json_line({"target": ctx.obj["target"], "jobs": jobs}) if output == "json" else status_text(jobs))
    return 0


@cli.command(epilog="Example: enrich report customers --html customers.html --runs 60")
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@option("--html", type=click.Path(path_type=Path), metavar="F", help="Write the report as one HTML page to F.")
@option("--json", type=click.Path(path_type=Path), metavar="F", help="Write the report's JSON to F.")
@option("--runs", type=click.IntRange(1, 1000), default=30, show_default=True, help="How many runs to go back.")
@option("--open", is_flag=True, help="Open the page in a browser.")
@show_keys_option("the keys in quarantine, too")
@output_option
@place
@click.pass_context
def report(ctx: click.Context, /, **asked: Any) -> int:
    """Report what the runs so far did and found: verdict first.

    Reads the runs table; starts no JVM. Names and numbers only, no cell values.
    """
    from enrich.cli.reports import Wanted, deliver

    return deliver(project_of(ctx), Wanted(**asked))


@cli.command(epilog="Example: enrich validate || exit 1")
@output_option
@place
@click.pass_context
def validate(ctx: click.Context, /, *, output: str) -> int:
    """Check files, suites and the sources' schemas.

    Starts no JVM and writes nothing. Exit 2 when there is a fault; each is one line on stderr.
    """
    from enrich.cli.listing import find_faults, validated_text

    project, faults = find_faults(lambda: project_of(ctx, all_suites=True))
    if output == "json":
        found = [{"where": fault.where, "message": fault.message} for fault in faults]
        say_result(json_line({"target": ctx.obj["target"], "exit_code": 2 if faults else 0, "faults": found}))
    elif project is not None and not faults:
        say_result(validated_text(project))
    return tell(ConfigError.of(faults)) if faults else 0


@cli.command(epilog="Example: enrich schema job > job.schema.json")
@click.argument("kind", type=click.Choice(["job", "conf", "report"]), default="job")
def schema(kind: str) -> int:
    """Print a JSON Schema, for editors and other tools."""
    from enrich.cli.listing import schema_text

    say_result(schema_text(kind))
    return 0


@cli.command(epilog="Example: enrich init shop, then: enrich --project-dir shop validate")
@click.argument("directory", type=click.Path(path_type=Path), default=Path(), metavar="[DIR]")
def init(directory: Path) -> int:
    """Write a small project to start from.

    DIR (default: here) gets conf/, jobs/ and expectations/ with one job.
    """
    from enrich.demo.directory import copy_example

    say_result("\n".join(copy_example(directory)))
    return 0


@cli.command(epilog="Example: enrich demo, then: enrich --project-dir enrich-demo run")
@click.argument("directory", type=click.Path(path_type=Path), default=Path("enrich-demo"), metavar="[DIR]")
@option("--section", "sections", multiple=True, metavar="NAME", help="Play only this part.")
@option("--quiet", is_flag=True, help="No progress on stderr.")
def demo(directory: Path, sections: tuple[str, ...], quiet: bool) -> int:
    """Play the story on real Delta tables, and check it.

    DIR (default ./enrich-demo) becomes a project with made-up tables; rounds of changes and runs show what changes and
    why cells are null. A DIR that holds anything but an earlier demo is refused.
    """
    log_to_stderr("text", quiet=True)
    for chatty in () if quiet else ("demo", "session", "jars"):  # what takes long; the rounds speak for themselves
        logging.getLogger(f"enrich.{chatty}").setLevel(logging.INFO)
    from enrich.demo import play

    return play(directory, sections, say_result)


cli.add_command(plan)
cli.add_command(verify)
