"""The commands of ``enrich``. Each takes its arguments, calls one function and returns an exit code."""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

import click

import enrich
from enrich.base import hints
from enrich.base.console import clean, format_count, format_run, format_table
from enrich.base.errors import ConfigError, parse_duration
from enrich.base.extras import EXPECTATIONS, has_extra, install
from enrich.base.result import UNCHANGED, JobResult, RunResult, name_deployment
from enrich.cli import listing
from enrich.cli.checks import doctor, failing, maintain, plan, verify, why
from enrich.cli.options import (
    DEFAULT_TARGET,
    add_job_options,
    add_log_options,
    add_option,
    add_place_options,
    add_show_keys_option,
    add_window_options,
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
    ask_for_frames,
    deliver,
    format_json_line,
    keep_results,
    log_to_stderr,
    put,
    report_error,
    say_error,
    say_failure,
    say_found,
    say_result,
    stop_if_interrupted,
)
from enrich.dumps.result import CSV_DIALECT, DIALECTS, MAX_DELETE, REFUSED, DumpOptions, LoadResult

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
        rows = [
            (
                clean(job["job"]),
                job["kind"],
                clean(
                    ", ".join(name if name == table else f"{name}={table}" for name, table in job["sources"].items())
                ),
                clean(job["target"]),
                clean(", ".join(job["after"]) or "-"),
            )
            for job in jobs
        ]
        shown = format_table(("job", "kind", "sources", "target", "after"), rows)
        return say_found(output, {**name_deployment(ctx.obj["target"]), "jobs": jobs}, shown)

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
    limit = None if max_lag is None else parse_duration(max_lag)
    if max_lag is not None and limit is None:
        raise ConfigError(f"--max-lag {max_lag!r} is not a duration", hint="valid forms are 90s, 30m, 12h, 3d, 2w")

    def work() -> int:
        jobs = listing.collect_status(load_chosen_project(ctx))
        found: dict[str, Any] = {**name_deployment(ctx.obj["target"]), "jobs": jobs}
        late = {} if limit is None else listing.find_late(jobs, limit)
        code = LATE if late else 0
        if limit is not None:
            found |= {"max_lag_seconds": float(limit), "late": list(late), "exit_code": code}
        say_found(output, found, listing.format_status(jobs))
        refused = {job["job"]: job["refused"] for job in jobs}
        for job, reason in late.items():
            say_error(f"{job} is late: {reason}; {refused[job] or f'run `{hints.run(job)}`'}", job)
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
        seen = " (offline: files alone, no table was opened)" if offline else ""
        jobs, suites = format_count(len(project.jobs), "job"), format_count(len(project.suites), "suite")
        say_result(f"{jobs}, {suites}, deployment {project.deployment}: no faults{seen}")
        if project.suites and not has_extra(EXPECTATIONS):
            unchecked = "enrich has checked the suites, Great Expectations itself has not, because it is not installed"
            put(f"note: {unchecked}; run `{install(EXPECTATIONS)}` for that", sys.stderr)
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


# --- a source table from the files of a dump --------------------------------------------------------------------------


def _split(_ctx: click.Context, _option: click.Parameter, text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]


@cli.command(epilog="Example: enrich load accounts accounts.csv.gz --key customer_id --complete")
@click.argument("table", metavar="TABLE")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@add_option("--key", required=True, metavar="K[,K]", callback=_split, help="The columns of the table's key.")
@add_option(
    "--format",
    "form",
    type=click.Choice(["csv", "json", "parquet"]),
    help="json: one object in each line. Default: as the names of the files end, else csv.",
)
@add_option(
    "--delimiter",
    metavar="C",
    help="What stands between the fields; default: the first of , ; tab | that gives the expected columns.",
)
@add_option(
    "--dialect",
    type=click.Choice(list(DIALECTS)),
    default=CSV_DIALECT,
    show_default=True,
    help="text: as COPY of PostgreSQL and INTO OUTFILE of MySQL write: tab, no quotes, backslash escapes, \\N is null.",
)
@add_option("--quote", metavar="C", help="What stands around fields; '' for nothing.  [default: \"]")
@add_option(
    "--escape", metavar="C", help="What escapes a quote within quotes, such as '\\'; without quotes, any character."
)
@add_option(
    "--null",
    multiple=True,
    metavar="TEXT",
    help="How null is written, as it stands in the file: NULL, '\"NULL\"', '\"\"'; repeatable.  [default: '', '\\N']",
)
@add_option("--columns", metavar="A,B", callback=_split, help="The names of the columns, in the order of the file.")
@add_option("--header", is_flag=True, help="The first line names the columns; those of --columns take their place.")
@add_option("--no-header", is_flag=True, help="The first line is a row already; it does not name the columns.")
@add_option(
    "--types",
    metavar="T",
    help='Types of columns that the table does not have yet: "id string, at timestamp"; text when not given.',
)
@add_option("--encoding", default="utf-8", show_default=True, metavar="E", help="The encoding of the text.")
@add_option("--complete", is_flag=True, help="Also delete the rows that the dump lacks.")
@add_option(
    "--max-delete",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help=f"With --complete: refuse to delete more than this share of the rows.  [default: {MAX_DELETE}]",
)
@add_option(
    "--bad-rows",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="fail: refuse a dump with bad lines; skip: leave these lines out and say how many.",
)
@add_option("--dry-run", is_flag=True, help="Read, check and compare, and write nothing.")
@output_option
@add_log_options
@add_place_options
def load(  # noqa: PLR0913 - the options that are no part of `DumpOptions`
    ctx: click.Context,
    /,
    *,
    table: str,
    paths: tuple[str, ...],
    key: list[str],
    output: str,
    log_format: str,
    quiet: bool,
    dry_run: bool,
    **asked: Any,
) -> int:
    """Load the files of a dump into a source table, in one commit.

    Rows that differ are updated, new ones are inserted, equal ones are not touched, so the change feed tells what
    really changed. TABLE is made if it is not there. A directory stands for all its files; gzip is unpacked. One bad
    line is enough to refuse the whole dump (exit 3), unless --bad-rows is skip. The message has the numbers of the
    first ten lines and no values.
    """
    log_to_stderr(log_format, quiet=quiet)
    named, unnamed = asked.pop("header"), asked.pop("no_header")
    if named and unnamed:
        raise click.UsageError("--header and --no-header say the opposite; give one of them")
    asked["header"] = True if named else False if unnamed else None
    asked["null"] = asked["null"] or None
    if asked["delimiter"] == r"\t":
        asked["delimiter"] = "\t"
    if asked["max_delete"] is not None and not asked["complete"]:
        raise click.UsageError("--max-delete goes with --complete: without it nothing is deleted")
    if asked["max_delete"] is None:
        asked["max_delete"] = MAX_DELETE

    def work() -> LoadResult:
        project = load_chosen_project(ctx, needs_jobs=False)
        options = DumpOptions(**asked)
        return enrich.load(project, table, paths, key=key, options=options, dry_run=dry_run, check=stop_if_interrupted)

    return deliver(ctx, output, [], work, partial(format_load, table), run_id=None, dry_run=dry_run)


def format_load(table: str, found: LoadResult) -> str:
    """Return what was done with a table, named as the user did, in a line, and what is wrong with lines of the dump.

    ```
    accounts: updated, version 7: 2 rows inserted, 1 updated, 0 deleted, 997 unchanged
    ```
    """
    if found.status == REFUSED:
        say_error(f"{table}: {found.error}")
        dry = "; dry run: a run would be refused, too" if found.dry_run else ""
        return clean(f"{table}: refused, {format_count(found.read, 'row')} read{dry}")
    for each in found.warnings:
        logging.getLogger("enrich").warning("%s: %s", table, each)
    version = "" if found.version is None else f", version {found.version}"
    counts = f"{format_count(found.inserted, 'row')} inserted, {found.updated} updated, {found.deleted} deleted"
    lines = [f"{table}: {found.status}{version}: {counts}, {found.unchanged} unchanged"]
    if found.skipped:
        lines += [f"{format_count(found.skipped, 'line')} left out", *[f"  {each}" for each in found.faults]]
    if found.dry_run:
        lines.append("dry run: nothing was written")
    return clean("\n".join(lines))


# --- make projects and try them ---------------------------------------------------------------------------------------


@cli.command(epilog="Example: enrich init shop && cd shop && enrich run")
@click.argument("words", nargs=-1, metavar="[DIR | TABLE...]")
@add_option(
    "--from",
    "from_tables",
    is_flag=True,
    help="Write a first job for the Delta tables TABLE... instead; paths, or names in the project's lake.",
)
@add_place_options
def init(ctx: click.Context, /, *, words: tuple[str, ...], from_tables: bool) -> int:
    """Write a project that runs, or a first job for tables that exist.

    DIR (default: the current directory) gets one job of each kind, suites, a workflow for CI, and small tables.

    With --from, the project here, or a new one, gets a job that joins the tables. Keys are guessed from uniqueness, and
    joins from names of columns and from matches; comments in the file say so. Only some rows are read, without Spark.

    Existing files are never overwritten.
    """
    given: Path | None = ctx.obj["project_dir"]
    if from_tables:
        if not words:
            raise click.UsageError("--from needs the tables: enrich init --from TABLE...")
        from enrich.init.firstjob import write_first_job

        first = write_first_job(words, given, ctx.obj["target"])
        say_result(clean("\n".join(str(first.home / name) for name in first.files)))
        for note in first.notes:  # what has to be done before the first run
            put(clean(f"note: {note}"), sys.stderr)
        return 0
    if len(words) > 1:
        raise click.UsageError("init takes one directory; for a job from tables write enrich init --from TABLE...")
    if words and given is not None:
        raise click.UsageError("give the directory either as DIR or with --project-dir, not both")
    from enrich.init import NEXT, write_project

    directory = Path(words[0]) if words else given or Path()
    written = write_project(directory)
    change = "" if directory == Path() else f"  cd {quote(str(directory))}\n"
    say_result(clean("\n".join([*written, "", "Next:\n" + change + NEXT])))
    return 0


NOT_AS_EXPECTED = 6
"""The exit code of a scenario that differs: that of ``enrich verify``, which compares as well."""


@cli.command(name="test", epilog="Example: enrich test -k merchant, or: enrich test --format junit > junit.xml")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@add_option(
    "-k", "--keyword", multiple=True, metavar="TEXT", help="Only scenarios whose file name or title contains TEXT."
)
@add_option(
    "--format",
    "form",
    type=click.Choice(["text", "junit"]),
    default="text",
    show_default=True,
    help="Format of the report on stdout; junit is for CI.",
)
@add_option("--quiet", is_flag=True, help="Print no progress on stderr.")
@add_place_options
def play_tests(
    ctx: click.Context, /, *, files: tuple[Path, ...], keyword: tuple[str, ...], form: str, quiet: bool
) -> int:
    """Play scenarios, which test the jobs on a few rows.

    A scenario has tables with a few rows, commits, runs, and what must then be there. A FILE is a scenario; without
    any, those of tests/*.yml are played. The jobs and suites are the project's own; their tables are in a temporary
    directory, whatever conf/ says. Values are shown: they are those of the files. Exit 0: all is as expected. 6:
    something differs. 2: a file is wrong.
    """
    log_to_stderr("text", quiet=True)
    logging.getLogger("enrich.testing").setLevel(logging.WARNING if quiet else logging.INFO)
    from enrich.testing import outcome

    project = load_chosen_project(ctx)
    chosen = outcome.choose_scenarios(project, files, keyword)
    found = []
    for each in outcome.play_scenarios(project, chosen):
        stop_if_interrupted()
        found.append(each)
        if form == "text":
            say_result(outcome.format_outcome(each))
        if not each.has_passed:
            (first, *others), file = each.list_differences(), each.scenario.file
            path = file if Path(file).exists() else str(project.dir / file)
            more = f" and {format_count(len(others), 'other difference')}" if others else ""
            say_failure(f"{file}:{first.line}: {first.what}: not as expected{more}; `{hints.test(path)}`", output=form)
    say_result(outcome.format_end(found) if form == "text" else outcome.format_junit(found))
    return 0 if all(each.has_passed for each in found) else NOT_AS_EXPECTED


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


cli.add_command(plan)
cli.add_command(verify)
cli.add_command(maintain)
cli.add_command(failing)
cli.add_command(why)
cli.add_command(doctor)
