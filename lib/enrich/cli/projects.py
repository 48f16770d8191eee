"""Make projects and try them: ``enrich init`` and ``enrich test``."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from shlex import quote

import click

from enrich.base import hints
from enrich.base.console import clean, format_count
from enrich.cli.options import add_option, add_place_options, load_chosen_project
from enrich.cli.process import log_to_stderr, put, say_failure, say_result, stop_if_interrupted


@click.command(epilog="Example: enrich init shop && cd shop && enrich run")
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


@click.command(name="test", epilog="Example: enrich test -k merchant, or: enrich test --format junit > junit.xml")
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
