"""``enrich init``: a new project that runs, or a first job for tables that exist."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import click

from enrich.base.console import clean
from enrich.cli.options import add_option, add_place_options
from enrich.cli.process import put, say_result


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
        return _init_from(words, given, ctx.obj["target"])
    if len(words) > 1:
        raise click.UsageError("init takes one directory; for a job from tables write enrich init --from TABLE...")
    if words and given is not None:
        raise click.UsageError("give the directory either as DIR or with --project-dir, not both")
    from enrich.init.start import NEXT, write_project

    directory = Path(words[0]) if words else given or Path()
    written = write_project(directory)
    change = "" if directory == Path() else f"  cd {quote(str(directory))}\n"
    say_result(clean("\n".join([*written, "", "Next:\n" + change + NEXT])))
    return 0


def _init_from(references: tuple[str, ...], directory: Path | None, target: str) -> int:
    """Write a first job, say which files were written, and on stderr what has to be done before the first run."""
    import sys

    from enrich.init.firstjob import write_first_job

    written = write_first_job(references, directory, target)
    say_result(clean("\n".join(str(written.home / name) for name in written.files)))
    for note in written.notes:
        put(clean(f"note: {note}"), sys.stderr)
    return 0
