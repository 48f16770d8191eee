"""The report that every run leaves behind: ``<state>/reports/latest.html`` and ``latest.json``."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from enrich.base.files import WholeFile
from enrich.config.project import Project
from enrich.report.document import read_report
from enrich.report.page import render_page
from enrich.storage.stores import find_local_path, write_object

log = logging.getLogger("enrich")


def find_latest(project: Project) -> Path | None:
    """Return where the page of the last run is; None when the state is in an object store."""
    state = find_local_path(project.state)
    return None if state is None else state / "reports" / "latest.html"


def write_latest(project: Project) -> Path | None:
    """Write page and JSON over those of the run before; a report that fails is a warning, never a failed run.

    Returns:
        The page's file; None when it is in an object store, or was not written.
    """
    path = find_latest(project)
    place = f"{project.state}/reports" if path is None else path.parent
    try:
        report = read_report(project)
        for name, text in (("latest.html", render_page(report)), ("latest.json", json.dumps(report.to_dict()))):
            if path is None:
                write_object(project.state, f"reports/{name}", text + "\n")
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with WholeFile(path.with_name(name), "the report") as whole:
                whole.write(text)
    except Exception as error:  # noqa: BLE001 - the run is done and recorded; `enrich report` can be called again
        log.warning("the report of this run was not written to %s (%s)", place, type(error).__name__)
        return None
    return path
