"""Define the commands that look after targets, and the questions about their rows and keys."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

import enrich
from enrich.answers.reasons import format_answer, format_failing, format_keys
from enrich.answers.verification import VerifyResult
from enrich.base import hints
from enrich.base.console import clean, format_count, format_extent, format_table, format_window
from enrich.base.rowforms import DUCKDB, SPARK
from enrich.cli import options
from enrich.cli.options import Answer, Call, add_flag, add_option, with_call
from enrich.cli.process import stop_if_interrupted
from enrich.operations.maintenance import MaintainResult
from enrich.operations.planning import PlanResult
from enrich.report.models import JobDiff


@click.command(epilog="Example: enrich plan --since 3d")
@options.add_job_options
@options.add_window_options
@options.add_log_options
@with_call
def plan(call: Call, /, **asked: Any) -> Answer:
    """Show what a run would do, and which jobs it would refuse.

    For each job and source: versions, commits, changed keys and affected keys. Writes nothing, takes no lock, and
    starts Spark only when a source has changed. The exit code is that of the run, as far as it is known before rows
    are computed.
    """
    project, jobs = call.choose_jobs(asked)
    found = enrich.plan(project, jobs=jobs, **asked)
    call.done += found.jobs
    stop_if_interrupted()
    for job in found.jobs:
        if job.exit_code:
            call.say_failure(f"{job.job}: refused: {job.refused}", job.job)
    return Answer(found.to_dict(), format_plan(found), found.exit_code)


def format_plan(found: PlanResult) -> str:
    """Return the table of a plan, a line a source, and why jobs would be refused."""
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []

    def show(affected: int | None) -> str:
        return "all" if affected is None else str(affected)

    for job in found.jobs:
        told = (clean(job.job), job.mode or "-")
        said = []
        for alias, source in job.sources.items():
            window = format_window(alias, source).removeprefix(f"{alias} ")
            rows.append((*told, clean(alias), window, str(source.commits), show(source.affected_keys)))
            told = ("", "")
            if (gap := source.gap) is not None:
                said.append(f"versions {gap[0] + 1} to {gap[1]} of {alias} would be left out")
            if source.compared:
                said.append(f"the change feed of {alias} does not tell all: its rows at both ends are compared")
        if len(job.sources) != 1:
            rows.append((*told, "all sources" if job.sources else "-", "-", "-", show(job.affected_keys)))
        if (cost := job.forecast) is not None and job.has_work:
            sizes = {"reads about": cost.reads, "writes about": cost.writes}
            sizes["a full refresh would read"] = cost.refresh
            parts = [f"{what} {format_extent(each)}" for what, each in sizes.items() if each is not None]
            due = [f"then OPTIMIZE of the target: {cost.optimize}"] if cost.optimize is not None else []
            said.append("; ".join([f"{cost.strategy}: {cost.why}", *parts, *due]))
        if job.after:
            said.append(f"runs after {', '.join(job.after)}; what these jobs would change is not counted here")
        if job.refused is not None:
            said.append(f"refused, exit {job.exit_code}: {job.refused}" if job.exit_code else job.refused)
        notes += [clean(f"{job.job}: {each}") for each in said]
    header = ("job", "mode", "source", "versions (changes)", "commits", "affected keys")
    return "\n".join([format_table(header, rows, right=(4, 5)), *notes])


@click.command(epilog="Example: enrich verify customers || enrich verify customers --repair")
@options.add_job_options
@add_flag("--repair", help="Write the difference; this also removes other writers' rows and closes gaps.")
@add_flag("--quick", help="Read no source: hold the rows against the sums that their commits record.")
@add_option(
    "--against", metavar="TABLE", help="Read no source: hold the target against a table that was made elsewhere."
)
@options.add_log_options
@with_call
def verify(call: Call, /, **asked: Any) -> Answer:
    """Compare every row of the targets with what their jobs give.

    The jobs are computed at the versions that the targets record; quarantines are compared as well. Exit 0: all are
    equal or repaired. 6: one differs. 5: a recorded version cannot be read any more, or with --quick no proof is
    recorded. With --against, rows are compared only if the table does not prove the same; quarantines are not.
    """
    project, jobs = call.choose_jobs(asked)
    found = enrich.verify(project, jobs=jobs, on_result=call.keep, **asked)
    return Answer(found.to_dict(), format_verification(found, asked["against"]), found.exit_code)


def format_verification(found: VerifyResult, against: str | None = None) -> str:
    """Return the table of a comparison, a line a table."""
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    for job in found.jobs:
        counted = {"target": job.target, "quarantine": job.quarantine} if job.versions else {}
        if any(vars(job.target).values()):
            counted["target"] = job.target
        told = [(name, str(each.missing), str(each.surplus), str(each.differing)) for name, each in counted.items()]
        # Compared by sums, not row by row; or not at all.
        told = told or [(name, "-", "-", "-") for name in job.proof] or [("-", "-", "-", "-")]
        heads = [(clean(job.job), job.status), *[("", "")] * len(told)]
        rows += [(*head, *each) for head, each in zip(heads, told, strict=False)]
        said = []
        if job.ahead and job.status != "repaired":
            versions = ", ".join(f"{alias} {version}" for alias, version in job.ahead.items())
            said.append(
                f"the quarantine contains other versions than the target ({versions}), so its rows do not count:"
                f" a run is at work, or has ended between its two commits; run `{hints.run(job.job)}`"
            )
        if job.others and job.status != "repaired":
            made = f"version{'s' * (len(job.others) > 1)} {', '.join(map(str, sorted(job.others)))}"
            said.append(f"another writer made {made} of the target")
        for alias, gaps in job.gaps.items():
            closed = "were left out" + ", and their changes are in the target now" * (job.status == "repaired")
            for gap in gaps:
                words = "are not in this history" if gap in job.lasting.get(alias, []) else closed
                said.append(f"versions {gap[0] + 1} to {gap[1]} of {alias} {words}")
        if job.status == "equal":
            elsewhere = f"what {against} holds" if against else "what its commits say"
            what = "what the sources give" if job.versions else elsewhere
            said.append(f"proven at version {job.target_version}: the target is {what}")
        said += [] if job.error is None else [job.error]
        notes += [clean(f"{job.job}: {each}") for each in said]
    header = ("job", "status", "rows of", "missing", "surplus", "differing")
    return "\n".join([format_table(header, rows, right=(3, 4, 5)), *notes])


@click.command(epilog="Example: enrich diff customers; enrich diff customers --with prod")
@options.add_job_argument
@add_option(
    "--with",
    "other",
    metavar="NAME",
    shell_complete=options.complete_deployments,
    callback=options.require_name,
    help="Compare this deployment's target with that of conf/NAME.yml, both as they stand.",
)
@add_option(
    "--show-keys",
    type=click.IntRange(min=1),
    metavar="N",
    help="Print N keys of rows that come, go and change, of each; only to a terminal, never to a file.",
)
@options.add_output_option
@with_call
def diff(call: Call, /, *, job: str, other: str | None, show_keys: int | None) -> Answer:
    """Show what a changed job would change.

    The job as its file is now, computed at the versions that the target contains, is compared with the target as it
    stands: columns that come, go or change their type; rows that come, go or change; for each column how many rows.
    Writes nothing. Exit 0: equal. 6: something differs.
    """
    found = enrich.diff(call.load_project(), job, other=other, show_keys=show_keys or 0)
    return Answer(found.to_dict(), format_diff(found), found.exit_code)


def format_diff(found: JobDiff) -> str:
    """Return the table of a comparison, a line a column that differs, and the rows below."""
    words = {None: "-", "added": "comes", "gone": "goes", "type": "type"}
    rows = []
    for each in found.columns:
        if each.change is not None or each.rows:
            kinds = " -> ".join(dict.fromkeys(filter(None, (each.before, each.after))))
            shown = "-" if each.rows is None else str(each.rows)
            rows.append((clean(each.name), words[each.change], clean(kinds), shown))
    lines = [format_table(("column", "change", "type", "rows changed"), rows, right=(3,)), ""] if rows else []
    base = f"the target of {found.with_deployment!r}" if found.with_deployment else "the target"
    counts = f"{format_count(found.added, 'row')} added, {found.gone} gone, {found.changed} changed"
    lines.append(f"{clean(found.job)}: {counts}" if found.exit_code else f"{clean(found.job)}: equal to {base}")
    if not found.compared:
        lines.append("the key has other columns or types than in the target, so no row is compared")
    if found.definition_changed and found.with_deployment is None:
        lines.append(f"the definition has changed: `{hints.refresh(found.job)}` writes what the job gives now")
    for side, key in found.keys:
        lines.append(f"  {side}: {clean(', '.join(f'{name}={text}' for name, text in key.items()))}")
    return "\n".join(lines)


@click.command(epilog="Example: enrich maintain --sources")
@options.add_job_options
@add_flag("--sources", help="Also remove files of the sources, as far as no job of the project may need them.")
@options.add_log_options
@with_call
def maintain(call: Call, /, **asked: Any) -> Answer:
    """Put small files together, and remove files that nobody needs.

    OPTIMIZE and VACUUM of targets and quarantines. No row changes. Nothing is removed (exit 5) while a job of the
    project has yet to read changes that are almost as old as what the table keeps. A job that another run works on is
    left out (exit 4).
    """
    project, jobs = call.choose_jobs(asked)
    found = enrich.maintain(project, jobs=jobs, on_result=lambda each: call.keep(each, each.table), **asked)
    return Answer(found.to_dict(), format_maintenance(found), found.exit_code)


def format_maintenance(found: MaintainResult) -> str:
    """Return the table of what was done, a line a table."""
    rows = []
    for each in found.tables:
        extents = (each.rewritten, each.became, each.removed)
        sizes = [format_extent(part) if part is not None and part.files else "-" for part in extents]
        rows.append((clean(each.table.rpartition("/")[2]), each.role, each.status, *sizes))
    notes = [clean(f"{each.table}: {each.error}") for each in found.tables if each.error is not None]
    return "\n".join([format_table(("table", "kind", "status", "written anew", "became", "removed"), rows), *notes])


# --- questions about rows and keys: why, failing and doctor -----------------------------------------------------------

_TAKES_KEYS = {"ignore_unknown_options": True}  # a key may be a negative number, which looks like an option
_NEAR_MISSES = "the keys of near misses"
_add_key_option = add_option(
    "--key",
    "parts",
    multiple=True,
    metavar="NAME=VALUE",
    help="One column of a composite key, or of the key of a lookup-only row; repeat it for each column.",
)


@click.command(context_settings=_TAKES_KEYS, epilog="Example: enrich why consents_with_email user_4 email")
@options.add_job_argument
@click.argument("key", required=False, metavar="KEY")
@click.argument("column", required=False, metavar="[COLUMN]")
@_add_key_option
@options.add_output_option
@options.add_show_keys_option(_NEAR_MISSES)
@with_call
def why(
    call: Call, /, *, job: str, key: str | None, column: str | None, parts: tuple[str, ...], show_keys: bool
) -> Answer:
    """Say why a row or a cell is as it is.

    KEY is the key of a target row, as text. A composite key is k1=v1,k2=v2; if its values contain commas or equal
    signs, use --key k1=v1 --key k2=v2. The answer is one word for the row, for each source and for each column;
    docs/diagnosis.md lists the words. No value is printed.
    """
    if parts and column is not None:
        raise click.UsageError("give the key either as KEY or with --key, not both")
    if not parts and key is None:
        raise click.UsageError("the key is missing: enrich why JOB KEY [COLUMN]")
    asked, cell = (list(parts), key) if parts else (key, column)
    found = enrich.why(call.load_project(), job, asked, cell, show_keys=show_keys)
    return Answer(found.to_dict(), format_answer(found, cell))


@click.command(context_settings=_TAKES_KEYS, epilog="Example: enrich trace consents_with_email user_4")
@options.add_job_argument
@click.argument("key", required=False, metavar="KEY")
@_add_key_option
@options.add_output_option
@with_call
def trace(call: Call, /, *, job: str, key: str | None, parts: tuple[str, ...]) -> Answer:
    """Say where a key still stands, until when, and what ends it.

    KEY as for `enrich why`. Looks through sources, target, quarantine and the tables that other jobs of the project
    make of them: rows, files behind deletion vectors, of change feeds and old versions, logs and checkpoints. Reads the
    key's columns in all files. No value is printed. Exit 0: nowhere. 3: somewhere.
    """
    if (key is None) == (not parts):
        raise click.UsageError("give the key either as KEY or with --key: enrich trace JOB KEY")
    found = enrich.trace(call.load_project(), job, list(parts) or key)
    rows = [
        (clean(each.table), each.role, each.what, str(len(each.files)), each.until or "-", clean(each.ends))
        for each in found.places
    ]
    table = format_table(("table", "kind", "what", "files", "until", "what ends it"), rows, right=(3,))
    return Answer(found.to_dict(), table if rows else f"{clean(job)}: the key stands nowhere", found.exit_code)


@click.command(epilog="Example: enrich failing consents_with_email 0")
@options.add_job_argument
@click.argument("rule", required=False, metavar="[RULE]")
@options.add_output_option
@options.add_show_keys_option("the keys of failing rows, at most 100 for each rule")
@with_call
def failing(call: Call, /, *, job: str, rule: str | None, show_keys: bool) -> Answer:
    """Say how many rows fail the rules, and why.

    Reads the whole target. RULE is the position of an expectation in the suite, from 0; without it, all expectations
    that judge each row by itself are shown. The reasons are those of `enrich why`. No value is printed.
    """
    found = enrich.failing(call.load_project(), job, rule, show_keys=show_keys)
    return Answer(found.to_dict(), format_failing(found))


@click.command(epilog="Example: enrich sql products_with_merchant")
@options.add_job_argument
@options.add_output_option
@with_call
def sql(call: Call, /, *, job: str) -> Answer:
    """Print a job of joins as one SQL query.

    Run in Spark over the job's sources, each named by its alias, it gives the target's rows, less the quarantined ones.
    Written as the job's `query` it is the same job. What `normalise`, `latest` and `doubled_keys` do to a source, a run
    does before the query. List, as-of and interval joins, mirrors and histories have no words in SQL.
    """
    text = enrich.sql(call.load_project(), job)
    return Answer({"job": job, "query": text}, text)


@click.command(epilog="Example: enrich proof products_with_merchant --dialect duckdb")
@options.add_job_argument
@add_option("--version", type=click.IntRange(min=0), metavar="N", help="A version of the target; default: the latest.")
@add_option("--dialect", type=click.Choice([SPARK, DUCKDB]), default=SPARK, help="Whose SQL the query is.")
@options.add_output_option
@with_call
def proof(call: Call, /, *, job: str, version: int | None, dialect: str) -> Answer:
    """Print what proves a target, and SQL that computes it elsewhere.

    The number of rows, and two sums over hashes of all rows, as the commits of the target record them, and the same of
    its quarantine. Another engine, a replica or an auditor computes the same numbers, or the rows are others. Reads
    only logs; starts no JVM.
    """
    found = enrich.prove(call.load_project(), job, version, dialect)
    lines = [f"{clean(job)}, version {found['target_version']}"]
    for table in ("target", "quarantine"):
        told = found[table]
        shown = told and f"{format_count(told['rows'], 'row')}, sums {' '.join(told['sums'])}"
        lines.append(f"{table}: {shown or 'no proof is recorded'}")
    return Answer(found, "\n\n".join(filter(None, ["\n".join(lines), found["query"], found["quarantine_query"]])))


@click.group(invoke_without_command=True, subcommand_metavar="[COMMAND]", epilog="Example: enrich --target prod doctor")
@options.add_output_option
@with_call
def doctor(call: Call, /) -> Answer | int:
    """Check machine, directories and tables, and say what repairs them.

    Java, Delta jars, permissions; and of the tables: change feeds, how long sources keep their past, and
    which values the logs of targets show. Starts no JVM and writes nothing. Exit 0: no fault; 7: something is wrong
    with the machine; 2: with a table; 5: changes may be lost; 1: storage that cannot be read.
    """
    ctx = click.get_current_context()
    if (command := ctx.invoked_subcommand) is not None:
        if ctx.get_parameter_source("output") is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--output stands after the command: enrich doctor {command} --output ...")
        return 0
    found = enrich.diagnose(call.load_project())
    for each in found.found:
        if each.exit_code:
            call.say_failure("; ".join(filter(None, (f"{each.about}: {each.message}", each.repair))))
    rows = [(each.check, each.level, clean(each.about), clean(each.message)) for each in found.found]
    lines = [format_table(("check", "result", "about", "what was found"), rows)]
    if repairs := dict.fromkeys(each.repair for each in found.found if each.repair is not None):
        lines += ["", "What repairs it:", *(f"  {clean(repair)}" for repair in repairs)]
    return Answer(found.to_dict(), "\n".join(lines), found.exit_code)


@doctor.command(epilog="Example: enrich doctor keys consents_with_email --join accounts")
@options.add_job_argument
@add_option("--join", metavar="ALIAS", help="Look at this lookup only.")
@options.add_output_option
@options.add_show_keys_option(_NEAR_MISSES)
@with_call
def keys(call: Call, /, *, job: str, join: str | None, show_keys: bool) -> Answer:
    """Count references that match no key, but nearly do.

    For each join: how many references have no partner; how many of them differ from a key only by case, white space,
    accents, invisible characters or leading zeros; and the lines for the job file that make most of them match.
    """
    found = enrich.doctor_keys(call.load_project(), job, join=join, show_keys=show_keys)
    return Answer(found.to_dict(), format_keys(found))
