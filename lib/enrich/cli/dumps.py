"""``enrich load``: a source table from the files of a dump."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import click

import enrich
from enrich.base.console import clean, format_count
from enrich.cli.options import (
    add_log_options,
    add_option,
    add_place_options,
    load_chosen_project,
    output_option,
)
from enrich.cli.process import deliver, log_to_stderr, say_error, stop_if_interrupted
from enrich.dumps.result import CSV_DIALECT, DIALECTS, MAX_DELETE, REFUSED, DumpOptions, LoadResult

log = logging.getLogger("enrich")


def _split(_ctx: click.Context, _option: click.Parameter, text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]


@click.command(epilog="Example: enrich load accounts accounts.csv.gz --key customer_id --complete")
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
        log.warning("%s: %s", table, each)
    version = "" if found.version is None else f", version {found.version}"
    counts = f"{format_count(found.inserted, 'row')} inserted, {found.updated} updated, {found.deleted} deleted"
    lines = [f"{table}: {found.status}{version}: {counts}, {found.unchanged} unchanged"]
    if found.skipped:
        lines += [f"{format_count(found.skipped, 'line')} left out", *[f"  {each}" for each in found.faults]]
    if found.dry_run:
        lines.append("dry run: nothing was written")
    return clean("\n".join(lines))
