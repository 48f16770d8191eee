"""Define the commands of ``enrich``. Each takes its options and returns an ``Answer``, or an exit code."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

import click

import enrich
from enrich.answers import inspection
from enrich.base import hints
from enrich.base.console import clean, format_count, format_run, format_table
from enrich.base.errors import ConfigError
from enrich.base.files import WholeFile
from enrich.base.names import CatalogName
from enrich.base.result import UNCHANGED, RunResult, name_deployment
from enrich.base.words import parse_duration
from enrich.cli import checks, options, process
from enrich.cli.options import Answer, Call, add_flag, add_option, with_call
from enrich.dumps.result import CSV_DIALECT, DIALECTS, MAX_DELETE, REFUSED, DumpOptions, format_load

log = logging.getLogger("enrich")

_BAD = ("failed", "blocked", "skipped")  # the verdicts that `--fail-on fail` is about


def _say_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        process.say_result(f"enrich {enrich.__version__}")
        ctx.exit()


@click.group(
    cls=process.CommandLine, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@add_option(
    "--project-dir",
    type=options.PATH,
    help="The project's directory; default: the nearest one, from here upwards, that has jobs/ and conf/.",
)
@add_option(
    "--target",
    shell_complete=options.complete_deployments,
    callback=options.require_name,
    help=f"The deployment: conf/<target>.yml.  [default: {options.DEFAULT_TARGET}]",
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Show the version and exit.",
)
@click.pass_context
def cli(ctx: click.Context, project_dir: Path | None, target: str | None) -> None:
    """Keep the results of joins of Delta tables up to date.

    --project-dir and --target may also stand after the command. Every option but --version and --help can be
    set by an environment variable ENRICH_<OPTION>, for instance ENRICH_TARGET=prod.
    """
    ctx.obj = Call(project_dir, target or options.DEFAULT_TARGET)


@cli.command(epilog="Example: enrich run consents_with_email --output json")
@options.add_job_options
@options.add_window_options
@add_option("--accept", multiple=True, metavar="RULE", help="Let the job rule RULE only warn, not block.")
@add_option(
    "--max-bytes",
    metavar="SIZE",
    help="Refuse each job that would read more than SIZE (20GB, 500MB), with exit code 3 and before it reads anything.",
)
@add_flag("--dry-run", help="Do everything except writing.")
@add_flag("--fail-fast", help="After the first job that does not succeed, skip the others.")
@options.add_output_option
@add_option("--result-file", type=options.PATH, metavar="F", help="Also write the result as JSON to the file F.")
@add_option("--skip-code", type=click.IntRange(1, 255), metavar="N", help="Exit with N when there was nothing to do.")
@options.add_log_format_option
@add_flag("--quiet", help="Print no progress on stderr, and no last line on stdout that sums up the run.")
@add_option(
    "--every",
    metavar="D",
    help="Run again every D (30s, 1m, 12h), in one process with one warm session, until SIGTERM or SIGINT ends it."
    " Without a change no Spark starts. conf/, jobs/ and expectations/ are read once.",
)
@with_call
def run(call: Call, /, *, skip_code: int | None, every: str | None, **asked: Any) -> Answer | int:
    """Bring the targets of all jobs, or of the jobs named, up to date."""
    seconds = None if every is None else parse_duration(every)
    if every is not None:
        if not seconds:
            raise ConfigError(f"--every {every!r} is not a duration", hint="valid forms are 30s, 1m, 12h")
        once = ("since", "until", "full_refresh", "dry_run")
        if given := [name for name in once if asked[name]] or ["skip_code"] * (skip_code is not None):
            told = "--" + given[0].replace("_", "-")
            raise ConfigError(f"{told} is about one run, --every about many", hint=f"run once with {told} before")
    project, jobs = call.choose_jobs(asked)

    def run_once() -> RunResult:
        call.done.clear()
        return enrich.run(project, jobs=jobs, on_result=call.keep, **asked)

    def is_idle(found: RunResult) -> bool:
        return found.exit_code == 0 and all(job.status == UNCHANGED for job in found.jobs)

    def say(found: RunResult) -> None:
        call.say(found.to_dict(), None if is_idle(found) else format_run(found, quiet=call.quiet))

    if seconds:
        return process.repeat(seconds, run_once, say)
    found = run_once()
    code = skip_code if skip_code is not None and is_idle(found) else found.exit_code
    return Answer(found.to_dict(), format_run(found, quiet=call.quiet), code)


@cli.command(epilog="Example: enrich ls --select '+consents_with_email' --output json")
@options.add_job_options
@options.add_output_option
@with_call
def ls(call: Call, /, **asked: Any) -> Answer:
    """List the jobs in the order in which they run.

    Reads only the project's files.
    """
    project, names = call.choose_jobs(asked)
    graph = options.build_graph(project)
    jobs: list[dict[str, Any]] = [
        {
            "job": job.job,
            "kind": job.kind,
            "sources": {alias: source.table for alias, source in job.sources.items()},
            "target": job.target.table,
            "expectations": job.expectations,
            **{each: getattr(job, each) for each in ("description", "owner", "tags")},
            "after": sorted(graph[job.job]),
        }
        for job in map(project.jobs.__getitem__, names)
    ]
    rows = []
    for job in jobs:
        sources = ", ".join(name if name == table else f"{name}={table}" for name, table in job["sources"].items())
        rows.append([*map(clean, (job["job"], job["kind"], sources, job["target"], ", ".join(job["after"]) or "-"))])
    shown = format_table(("job", "kind", "sources", "target", "after"), rows)
    return Answer({**name_deployment(call.target), "jobs": jobs}, shown)


@cli.command(epilog="Example: enrich --target prod status --max-lag 30m")
@add_option(
    "--max-lag",
    metavar="D",
    help="Exit with 3 when a change of a source has been waiting for longer than D (30m, 12h, 2d), or when that is not"
    " known.",
)
@options.add_output_option
@with_call
def status(call: Call, /, *, max_lag: str | None) -> Answer:
    """Show what each target contains and how far it is behind.

    Also shows how many rules have failing rows in the target, how the last run ended, and what has to be done before
    the next run. Reads only logs; starts no JVM.
    """
    limit = None if max_lag is None else parse_duration(max_lag)
    if max_lag is not None and limit is None:
        raise ConfigError(f"--max-lag {max_lag!r} is not a duration", hint="valid forms are 90s, 30m, 12h, 3d, 2w")
    jobs = [each.to_dict() for each in inspection.read_status(call.load_project())]
    data: dict[str, Any] = {**name_deployment(call.target), "jobs": jobs}
    if limit is None:
        return Answer(data, format_status(jobs))
    late = []
    for job in jobs:
        told = [
            f"changes of {lag['alias']} have been waiting for {format_waiting(lag['seconds'])}"
            if lag["seconds"] is not None
            else f"how long changes of {lag['alias']} have been waiting is not known"
            for lag in job["sources"].values()
            if lag["seconds"] is None or lag["seconds"] > limit
        ]
        if told:
            late.append(name := job["job"])
            step = job["refused"] or f"run `{hints.run(name)}`"
            process.say_error(f"{name} is late: {'; '.join(told)}; {step}", name)
    code = options.NOT_PASSED if late else 0
    data |= {"max_lag_seconds": float(limit), "late": late, "exit_code": code}
    return Answer(data, format_status(jobs), code)


@cli.command(epilog="Example: enrich report customers --html customers.html --fail-on warn")
@options.add_jobs_argument
@add_option("--html", type=options.PATH, metavar="F", help="Write the report to F, as one HTML page.")
@add_option("--json", "json_file", type=options.PATH, metavar="F", help="Write the report to F, as JSON.")
@add_option("--runs", type=click.IntRange(1, 1000), default=30, help="How many runs of each job to show.")
@add_option(
    "--format",
    "--output",
    "output",
    type=click.Choice(["text", "json", "html", "markdown", "junit"]),
    default="text",
    help="Format of the report on stdout; markdown is for a comment on a pull request, junit for CI.",
)
@add_option(
    "--fail-on",
    type=click.Choice(["warn", "fail"]),
    help="Exit with 3 when a job is failed, blocked or skipped (fail), or also when it is warned (warn).",
)
@with_call
def report(
    call: Call, /, *, jobs: tuple[str, ...], html: Path | None, json_file: Path | None, runs: int, fail_on: str | None
) -> int:
    """Show what the targets hold, and what the runs did and found.

    Reads the runs table and the suites; starts no JVM. Shows names and numbers only, no cell values. Without --fail-on
    the exit code is 0, whatever the verdict is.
    """
    from enrich import report as reports
    from enrich.report import page, text

    formats: dict[str, Callable[[reports.Report], str]] = {
        "text": text.format_report,
        "json": lambda found: process.format_json_line(found.to_dict()),
        # The page says that it is UTF-8, and stdout may be anything: as ASCII it is both.
        "html": lambda found: page.render_page(found).encode("ascii", "xmlcharrefreplace").decode("ascii"),
        "markdown": page.format_markdown,
        "junit": page.format_junit,
    }
    bad = {None: (), "fail": _BAD, "warn": (*_BAD, "warned")}[fail_on]
    project = call.load_project()
    chosen = options.choose(options.build_graph(project), jobs, (), ())
    with ExitStack() as cleanup:
        page_file = cleanup.enter_context(WholeFile(html, "--html")) if html else None
        data_file = cleanup.enter_context(WholeFile(json_file, "--json")) if json_file else None
        found = reports.read_report(project, chosen, runs)
        if data_file is not None:
            data_file.write(json.dumps(found.to_dict(), indent=2))
        if page_file is not None:
            page_file.write(page.render_page(found))
    process.say_result(formats[call.output](found))
    for job in (each for each in found.jobs if each.verdict in bad):
        why = job.last.error if job.last is not None and job.verdict != "warned" else None
        if why is None:
            rules = [rule for rule in (job.now.rules if job.now is not None else ()) if rule.verdict == "warned"]
            told = (f"{text.describe_rule(rule)}, {text.format_rule(rule)}" for rule in rules)
            failing = "; ".join(dict.fromkeys(told))
            ask = hints.failing(job.job) if failing else hints.report(job.job)
            why = f"{job.headline}{f' ({failing})' if failing else ''}; `{ask}` says more"
        call.say_failure(f"{job.job}: {job.verdict}: {why}", job.job)
    return options.NOT_PASSED if found.verdict in bad else 0


@cli.command(epilog="Example: enrich graph --format svg > project.svg")
@options.add_job_options
@add_option(
    "--format",
    "output",
    type=click.Choice(["mermaid", "svg"]),
    default="mermaid",
    help="mermaid is for Markdown on GitHub or GitLab, svg for a browser.",
)
@with_call
def graph(call: Call, /, **asked: Any) -> int:
    """Draw how tables and jobs feed each other.

    Each job has the colour and the word of what became of its last run. Reads the project's files and the runs table;
    starts no JVM. The page of `enrich report` has the same picture, with links.
    """
    from enrich.report import page, read_report
    from enrich.report.graph import format_mermaid

    found = read_report(*call.choose_jobs(asked), runs=1)
    process.say_result(page.format_svg(found) if call.output == "svg" else format_mermaid(found))
    return 0


@cli.command(epilog="Example: enrich validate || exit 1")
@add_flag("--offline", help="Check the files alone and open no table, for pre-commit and CI.")
@options.add_output_option
@with_call
def validate(call: Call, /, *, offline: bool) -> int:
    """Check files, suites and the schemas of the sources.

    Starts no JVM and writes nothing. Prints each fault as one line on stderr, and then exits with 2.
    """
    text = None
    try:
        project = call.load_project(all_suites=True)
        faults = tuple(inspection.validate(project, offline=offline))
    except ConfigError as error:
        faults = error.faults
    else:
        places = (project.location(each.table) for job in project.jobs.values() for each in job.sources.values())
        has_catalog = any(isinstance(place, CatalogName) for place in places)
        closed = f" (no table of a catalog was opened: `{hints.plan()}` opens them)" if has_catalog else ""
        seen = " (offline: files alone, no table was opened)" if offline else closed
        jobs, suites = format_count(len(project.jobs), "job"), format_count(len(project.suites), "suite")
        text = f"{jobs}, {suites}, deployment {project.deployment}: no faults{seen}"
    code = 2 if faults else 0
    told = [{"where": fault.where, "message": fault.message} for fault in faults]
    call.say({**name_deployment(call.target), "exit_code": code, "faults": told}, None if faults else text)
    return process.report_error(ConfigError.of(faults)) if faults else 0


@cli.command(epilog="Example: enrich schema job > job.schema.json")
@click.argument(
    "kind",
    type=click.Choice(_SCHEMAS := ["job", "conf", "tables", "test", "report", "result", "diff", "trace"]),
    default="job",
    metavar=f"[{'|'.join(_SCHEMAS)}]",
)
def schema(kind: str) -> int:
    """Print a JSON Schema for editors and other tools."""
    from enrich.init import build_schemas
    from enrich.report.models import SCHEMAS, build_result_schema, build_schema

    found = build_schema(kind) if kind in SCHEMAS else build_result_schema() if kind == "result" else None
    process.say_result(json.dumps(found or build_schemas()[kind], indent=2))
    return 0


# --- what status shows ------------------------------------------------------------------------------------------------


_STATUS = (
    "job", "version", "rows", "rules failing", "source", "contains", "latest", "behind", "lag", "waiting", "days left",
    "last run",
)  # fmt: skip


def format_status(jobs: list[dict[str, Any]]) -> str:
    """Return the table of ``enrich status``: a line a job and source.

    ``rules failing`` are those with failing rows in the target, of those that are counted, whatever they tolerate.
    ``lag`` is the time between the newest commit contained and the newest there, ``waiting`` the age of the oldest one
    that is not contained, ``days left`` the time until the source forgets it.
    """
    rows: list[tuple[str, ...]] = []

    def show(value: int | None) -> str:
        return "-" if value is None else str(value)

    for job in jobs:
        last = f"{job['last_status']} {job['last_run']}" if job["last_status"] else "never"
        held, failing = "-", "-"
        if (state := job["state"]) is not None:
            counted = [rule["failed"] for rule in state["rules"] if rule["failed"] is not None]
            held = str(state["rows"])
            failing = f"{sum(failed > 0 for failed in counted)} of {len(counted)}" if counted else "-"
        told = (clean(job["job"]), show(job["target_version"]), held, failing, last)
        for lag in job["sources"].values():
            *head, outcome = told
            lags = (lag["consumed"], lag["latest"], lag["versions_behind"])
            times = (format_waiting(lag["lag_seconds"]), format_waiting(lag["seconds"]))
            left = "-" if lag["days_left"] is None else f"{lag['days_left']:.1f}"
            rows.append((*head, clean(lag["alias"]), *map(show, lags), *times, left, outcome))
            told = ("", "", "", "", "")
    shown = format_table(_STATUS, rows, right=(1, 2, 5, 6, 7, 8, 9, 10))
    notes = []
    for job in jobs:
        if (proven := job["proven"]) is not None:
            age = format_waiting((datetime.now(UTC) - datetime.fromisoformat(proven["at"])).total_seconds())
            notes.append(clean(f"{job['job']}: proven at version {proven['version']} ({age} ago)"))
        notes += [clean(f"{job['job']}: {job['note']}")] if job["note"] else []
    return "\n".join([shown, *notes])


def format_waiting(seconds: float | None) -> str:
    """Return how long the oldest change has been waiting: ``40 s``, ``3 min``, ``5 h``; ``-`` when there is none."""
    if not seconds:
        return "-"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


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
@add_flag("--header", help="The first line names the columns; those of --columns take their place.")
@add_flag("--no-header", help="The first line is a row already; it does not name the columns.")
@add_option(
    "--types",
    metavar="T",
    help='Types of columns that the table does not have yet: "id string, at timestamp"; text when not given.',
)
@add_option("--encoding", default="utf-8", metavar="E", help="The encoding of the text.")
@add_flag("--complete", help="Also delete the rows that the dump lacks.")
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
    help="fail: refuse a dump with bad lines; skip: leave these lines out and say how many.",
)
@add_flag("--dry-run", help="Read, check and compare, and write nothing.")
@options.add_log_options
@with_call
def load(call: Call, /, *, table: str, paths: tuple[str, ...], key: list[str], dry_run: bool, **asked: Any) -> Answer:
    """Load the files of a dump into a source table, in one commit.

    Rows that differ are updated, new ones are inserted, equal ones are not touched, so the change feed tells what
    really changed. TABLE is made if it is not there. A directory stands for all its files; gzip is unpacked. One bad
    line is enough to refuse the whole dump (exit 3), unless --bad-rows is skip. The message has the numbers of the
    first ten lines and no values.
    """
    named, unnamed = asked.pop("header"), asked.pop("no_header")
    if named and unnamed:
        raise click.UsageError("--header and --no-header say the opposite; give one of them")
    asked["header"] = named if named or unnamed else None
    asked["null"] = asked["null"] or None
    if asked["delimiter"] == r"\t":
        asked["delimiter"] = "\t"
    if asked["max_delete"] is None:
        asked["max_delete"] = MAX_DELETE
    elif not asked["complete"]:
        raise click.UsageError("--max-delete goes with --complete: without it nothing is deleted")
    project, how = call.load_project(needs_jobs=False), DumpOptions(**asked)
    found = enrich.load(project, table, paths, key=key, options=how, dry_run=dry_run, check=process.stop_if_interrupted)
    if found.status == REFUSED:
        process.say_error(f"{table}: {found.error}")
    for each in found.warnings if found.status != REFUSED else ():
        log.warning("%s: %s", table, each)
    return Answer(found.to_dict(), format_load(table, found), found.exit_code)


# --- make projects and try them ---------------------------------------------------------------------------------------


@cli.command(epilog="Example: enrich init shop && cd shop && enrich run")
@click.argument("words", nargs=-1, metavar="[DIR | TABLE...]")
@add_flag(
    "--from",
    "from_tables",
    help="Write a first job for the Delta tables TABLE... instead; paths, or names in the project's lake.",
)
@with_call
def init(call: Call, /, *, words: tuple[str, ...], from_tables: bool) -> int:
    """Write a project that runs, or a first job for tables that exist.

    DIR (default: the current directory) gets seven different jobs, suites, a workflow for CI, and small tables.

    With --from, the project here, or a new one, gets a job that joins the tables. Keys are guessed from uniqueness, and
    joins from names of columns and from matches; comments in the file say so. Only some rows are read, without Spark.

    Existing files are never overwritten.
    """
    given = call.project_dir
    if from_tables:
        if not words:
            raise click.UsageError("--from needs the tables: enrich init --from TABLE...")
        from enrich.init.firstjob import write_first_job

        first = write_first_job(words, given, call.target)
        for note in first.notes:  # what has to be done before the first run
            process.put(clean(f"note: {note}"), sys.stderr)
        process.say_result(clean("\n".join([*(str(first.home / name) for name in first.files), "", first.next])))
        return 0
    if len(words) > 1:
        raise click.UsageError("init takes one directory; for a job from tables write enrich init --from TABLE...")
    if words and given is not None:
        raise click.UsageError("give the directory either as DIR or with --project-dir, not both")
    from enrich.init import NEXT, write_project

    directory = Path(words[0]) if words else given or Path()
    written = write_project(directory)
    change = "" if directory == Path() else f"  cd {quote(str(directory))}\n"
    process.say_result(clean("\n".join([*written, "", "Next:\n" + change + NEXT])))
    return 0


@cli.command(name="test", epilog="Example: enrich test -k merchant, or: enrich test --format junit > junit.xml")
@click.argument("files", nargs=-1, type=options.PATH, metavar="[FILE]...")
@add_option(
    "-k", "--keyword", multiple=True, metavar="TEXT", help="Only scenarios whose file name or title contains TEXT."
)
@add_option(
    "--format",
    "output",
    type=click.Choice(["text", "junit"]),
    default="text",
    help="Format of the report on stdout; junit is for CI.",
)
@options.add_quiet_option
@with_call
def play_tests(call: Call, /, *, files: tuple[Path, ...], keyword: tuple[str, ...], quiet: bool) -> int:
    """Play scenarios, which test the jobs on a few rows.

    A scenario has tables with a few rows, commits, runs, and what must then be there. A FILE is a scenario; without
    any, those of tests/*.yml are played. The jobs and suites are the project's own; their tables are in a temporary
    directory, whatever conf/ says. Values are shown: they are those of the files. Exit 0: all is as expected. 6:
    something differs. 2: a file is wrong.
    """
    logging.getLogger("enrich.testing").setLevel(logging.WARNING if quiet else logging.INFO)
    from enrich.testing import outcome

    project = call.load_project()
    chosen = outcome.choose_scenarios(project, files, keyword)
    found = []
    for each in outcome.play_scenarios(project, chosen):
        process.stop_if_interrupted()
        found.append(each)
        if call.output == "text":
            process.say_result(outcome.format_outcome(each))
        if not each.has_passed:
            (first, *others), file = each.list_differences(), each.scenario.file
            path = file if Path(file).exists() else str(project.dir / file)
            more = f" and {format_count(len(others), 'other difference')}" if others else ""
            call.say_failure(f"{file}:{first.line}: {first.what}: not as expected{more}; `{hints.test(path)}`")
    process.say_result(outcome.format_end(found) if call.output == "text" else outcome.format_junit(found))
    return 0 if all(each.has_passed for each in found) else 6


@cli.command(epilog="Example: enrich demo, then: enrich --project-dir enrich-demo run")
@click.argument("directory", type=options.PATH, default=Path("enrich-demo"), metavar="[DIR]")
@add_option(
    "--section",
    "sections",
    multiple=True,
    metavar="NAME",
    help="Play this part instead of the first: consents, reachable, erasure, products, groups, persons, mirror, moments"
    " or history. Can be repeated.",
)
@add_flag("--all", "everything", help="Play all parts.")
@options.add_quiet_option
def demo(directory: Path, sections: tuple[str, ...], everything: bool, quiet: bool) -> int:
    """Play a story on real Delta tables, and check the results.

    DIR (default: ./enrich-demo) becomes a project with made-up tables. Rounds of changes and runs show what changes
    and why cells are null. The story has several parts; the first one is about consents and accounts. A DIR that has
    other content than an earlier demo is refused.
    """
    process.log_to_stderr("text", quiet=True)
    for chatty in () if quiet else ("demo", "spark"):  # what takes long; the rounds speak for themselves
        logging.getLogger(f"enrich.{chatty}").setLevel(logging.INFO)
    from enrich.demo import FIRST, play

    return play(directory, () if everything else sections or (FIRST,), process.say_result)


for name in ("plan", "verify", "diff", "maintain", "failing", "why", "sql", "proof", "trace", "doctor"):
    cli.add_command(getattr(checks, name))
