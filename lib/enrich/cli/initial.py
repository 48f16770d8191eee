"""``enrich init``: a new project that runs, or a first job for tables that exist."""

from __future__ import annotations

from pathlib import Path

import click

from enrich.base.console import clean
from enrich.cli.process import say_result


@click.command(epilog="Example: enrich init shop, then: cd shop && enrich run")
@click.argument("directory", type=click.Path(path_type=Path), default=Path(), metavar="[DIR]")
def init(directory: Path) -> int:
    """Write a project that runs.

    DIR (default: the current directory) gets one job of each kind, suites, sample data and a workflow for CI. The first
    `enrich run` makes source tables from the sample data. Existing files are never overwritten.
    """
    from enrich.scaffold import NEXT, write_project

    written = write_project(directory)
    said = [*written, "", NEXT if directory == Path() else NEXT.replace("in this directory", f"in {directory}")]
    say_result(clean("\n".join(said)))
    return 0
