"""``enrich report``: the text or JSON on stdout, the page and the JSON in files, the keys on a terminal."""

from __future__ import annotations

import json
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from enrich.base.errors import ConfigError
from enrich.base.files import WholeFile
from enrich.cli.options import refuse_stored_keys
from enrich.cli.process import put, say_result
from enrich.cli.results import say_found
from enrich.cli.selection import build_graph, choose
from enrich.config import Project
from enrich.report import read_report
from enrich.report.keys import format_quarantined_keys
from enrich.report.latest import find_latest
from enrich.report.page import render_page
from enrich.report.text import format_report


@dataclass(frozen=True)
class Wanted:
    """What ``enrich report`` was asked for; the fields are its arguments."""

    jobs: Sequence[str]
    html: Path | None
    json: Path | None
    runs: int
    open: bool
    show_keys: bool
    output: str


def make_report(project: Project, wanted: Wanted) -> int:
    """Make the report and put it where it was asked for; always 0, whatever the verdict.

    Raises:
        EnrichError: An unknown job, a file that cannot be written, a runs table that cannot be read.
    """
    refuse_stored_keys(wanted.output, show_keys=wanted.show_keys)
    chosen = choose(build_graph(project), wanted.jobs, (), ())
    with ExitStack() as cleanup:
        page_file = _prepare_page_file(project, wanted.html, cleanup) if wanted.html or wanted.open else None
        data_file = cleanup.enter_context(WholeFile(wanted.json, "--json")) if wanted.json else None
        report = read_report(project, chosen, wanted.runs)
        if data_file is not None:
            data_file.write(json.dumps(report.to_dict(), indent=2))
        if page_file is not None:
            page_file.write(render_page(report))
    say_found(wanted.output, report.to_dict(), format_report(report))
    if wanted.show_keys:
        say_result("\n" + "\n\n".join(format_quarantined_keys(project, project.jobs[name]) for name in chosen))
    if wanted.open and page_file is not None:
        _open(page_file.path)
    return 0


def _prepare_page_file(project: Project, html: Path | None, cleanup: ExitStack) -> WholeFile:
    """Return the page's file: the one asked for, or for ``--open`` alone the one that runs leave."""
    path = html or find_latest(project)
    if path is None:
        raise ConfigError(
            "--open needs a local file: the state directory is in an object store", hint="name it with --html F"
        )
    if html is None:
        path.parent.mkdir(parents=True, exist_ok=True)
    return cleanup.enter_context(WholeFile(path, "--html"))


def _open(path: Path) -> None:
    if not webbrowser.open(path.resolve().as_uri()):
        put(f"no browser was found; open {path} yourself", sys.stderr)
