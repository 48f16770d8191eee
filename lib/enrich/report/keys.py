"""The keys of quarantined rows for ``enrich report --show-keys``: printed, and never written to a file."""

from __future__ import annotations

from typing import Any

from enrich.base.console import clean, format_table
from enrich.base.errors import RunFailed
from enrich.base.names import CatalogName, find_quarantine
from enrich.base.spec import FAILED_COLUMN, quote
from enrich.delta import tables
from enrich.project.compile import compile_job
from enrich.project.models import Job
from enrich.project.project import Project

LIMIT = 100
"""How many keys of one job are shown."""

_LONGEST = 80


def format_quarantined_keys(project: Project, job: Job) -> str:
    """Return a table of the keys that the job's quarantine holds, each with its rules; at most ``LIMIT``.

    Raises:
        EnrichError: A table cannot be read, or the job does not compile against its sources.
    """
    quarantine = find_quarantine(project.location(job.target.table))
    if isinstance(quarantine, CatalogName):
        return f"{job.job}: the quarantine is a catalog table; read it with Spark"
    if not tables.exists(quarantine):
        return f"{job.job}: there is no quarantine"
    names = _find_identity(project, job)
    try:
        rows = tables.read_first_rows(quarantine, (*names, FAILED_COLUMN), LIMIT + 1)
    except Exception as error:
        raise RunFailed(
            f"the quarantine at {quarantine} cannot be read ({type(error).__name__})",
            hint=f"read it with Spark: SELECT {quote(names[0])}, {FAILED_COLUMN}",
        ) from error
    lines = [[*(_format_value(row[name]) for name in names), _format_rules(row[FAILED_COLUMN])] for row in rows[:LIMIT]]
    shown = [format_table((*names, "rules"), lines)] if lines else []
    return "\n".join([f"{job.job}: quarantined keys", *shown, *(["and more"] if len(rows) > LIMIT else [])])


def _find_identity(project: Project, job: Job) -> tuple[str, ...]:
    """Return the target's key columns."""
    columns = {}
    for alias, source in job.sources.items():
        place = project.location(source.table)
        if isinstance(place, CatalogName):
            raise RunFailed(f"{source.table!r} is a catalog table", hint="read the quarantine with Spark")
        columns[alias] = tables.read_state(place).columns
    spec = compile_job(job, columns).spec
    return (*spec.identity, *spec.right_identity)


def _format_value(value: Any) -> str:
    text = "null" if value is None else clean(str(value)).replace("\n", "\\n")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _format_rules(value: Any) -> str:
    return clean(", ".join(map(str, value))) if isinstance(value, list) else "-"
