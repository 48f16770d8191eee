"""The keys of quarantined rows for ``enrich report --show-keys``: printed, and never written to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enrich.base.console import clean, format_table
from enrich.base.errors import RunFailed
from enrich.base.spec import quote
from enrich.config.graph import QUARANTINE_SUFFIX
from enrich.config.places import CatalogName, append_suffix
from enrich.storage import tables

if TYPE_CHECKING:
    from enrich.config.models import Job
    from enrich.config.project import Project

LIMIT = 100
"""How many keys of one job are shown."""

_LONGEST = 80


def format_quarantined_keys(project: Project, job: Job) -> str:
    """Return a table of the keys that the job's quarantine holds, each with its rules; at most ``LIMIT``.

    Raises:
        EnrichError: A table cannot be read, or the job does not compile against its sources.
    """
    held = append_suffix(project.location(job.target.table), QUARANTINE_SUFFIX)
    if isinstance(held, CatalogName):
        return f"{job.job}: the quarantine is a catalog table; read it with Spark"
    if not tables.exists(held):
        return f"{job.job}: there is no quarantine"
    names = _find_identity(project, job)
    rows, more = _read_rows(held, names)
    shown = format_table((*names, "rules"), [[*map(_format_value, row[:-1]), _format_rules(row[-1])] for row in rows])
    return "\n".join([f"{job.job}: quarantined keys", *([shown] if rows else []), *(["and more"] if more else [])])


def _find_identity(project: Project, job: Job) -> tuple[str, ...]:
    """Return the target's key columns."""
    from enrich.compiler import compile_job

    columns = {}
    for alias, source in job.sources.items():
        place = project.location(source.table)
        if isinstance(place, CatalogName):
            raise RunFailed(f"{source.table!r} is a catalog table", hint="read the quarantine with Spark")
        columns[alias] = tables.read_state(place).columns
    spec = compile_job(job, columns).spec
    return (*spec.identity, *spec.right_identity)


def _read_rows(uri: str, names: tuple[str, ...]) -> tuple[list[list[Any]], bool]:
    """Return the first rows, in the order of their keys, and whether there are more."""
    from deltalake import QueryBuilder

    # DataFusion quotes identifiers with double quotes; the names come from the job's file.
    listed = ", ".join('"' + name.replace('"', '""') + '"' for name in (*names, "_failed"))
    query = f"SELECT {listed} FROM held ORDER BY {listed} LIMIT {LIMIT + 1}"  # noqa: S608 - quoted above
    try:
        found = QueryBuilder().register("held", tables.open_log(uri)).execute(query).read_all()
    except Exception as error:
        raise RunFailed(
            f"the quarantine at {uri} cannot be read ({type(error).__name__})",
            hint=f"read it with Spark: SELECT {quote(names[0])}, _failed",
        ) from error
    columns = [found.column(place).to_pylist() for place in range(len(found.column_names))]
    rows = [list(values) for values in zip(*columns, strict=True)]
    return rows[:LIMIT], len(rows) > LIMIT


def _format_value(value: Any) -> str:
    text = "null" if value is None else clean(str(value)).replace("\n", "\\n")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _format_rules(value: Any) -> str:
    return clean(", ".join(map(str, value))) if isinstance(value, list) else "-"
