"""Which rows a source lacks because a job holds them: the one that writes the source, or one further upstream.

    people  ->  clean_people  ->  clean, and clean__quarantine with person b
    clean   ->  copy_people   ->  copies: no b, for clean has none
    copies  ->  orders_named: order 2 refers to b: ``quarantined_upstream``, job clean_people

A job that keeps its driving source's key passes it on, so the quarantine before it is looked into for the same keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base.errors import EnrichError
from enrich.base.names import find_quarantine, identify
from enrich.config.models import Job
from enrich.diagnosis.sides import build_left_side
from enrich.frames import normalise
from enrich.frames.columns import drop_nulls, unite
from enrich.operations.workplace import Workplace
from enrich.steps.run import Run
from enrich.storage import reads, tables

HELD = "__enrich_held"
"""The place of the job that holds a row among the jobs of the project."""


@dataclass
class Inquiry(Run):
    """A job that is asked about, with the tables of its project."""

    workplace: Workplace | None = None

    def name_job(self, place: int) -> str:
        """Return the job that a number in ``HELD`` stands for."""
        return list(self.require_workplace().project.jobs)[place]

    def require_workplace(self) -> Workplace:
        """Return the workplace, which every inquiry is given."""
        assert self.workplace is not None  # noqa: S101 - optional only because what it extends has optional fields
        return self.workplace


@dataclass(frozen=True)
class Holder:
    """A job whose quarantine may hold what a source lacks.

    Attributes:
        columns: Columns of its target, in the order of the columns that were asked for.
    """

    job: Job
    columns: tuple[str, ...]


def find_held(run: Inquiry, alias: str, columns: Sequence[str], keys: DataFrame) -> DataFrame | None:
    """Find keys that jobs upstream hold: those that are held, with ``HELD``; None where no job can hold any.

    Args:
        run: The job that is asked about.
        alias: The source that lacks them.
        columns: The source's columns.
        keys: Their values, in this order, in the form that the job gives them.
    """
    source, jobs = run.plan.spec.sources[alias], list(run.require_workplace().project.jobs)
    found = []
    for holder in list_holders(run.require_workplace(), run.plan.job.sources[alias].table, tuple(columns)):
        rows = _read_quarantine(run, holder.job, holder.columns)
        if rows is not None:
            rows = drop_nulls(normalise.normalise_keys(rows.toDF(*columns), source)).toDF(*keys.columns)
            held = rows.join(keys, on=keys.columns, how="left_semi")
            found.append(held.withColumn(HELD, F.lit(jobs.index(holder.job.job))))
    return unite(found).groupBy(*keys.columns).agg(F.min(HELD).alias(HELD)) if found else None


def add_held(run: Inquiry, alias: str, rows: DataFrame) -> tuple[DataFrame, int] | None:
    """Return rows of a source and those that its writer holds, with the writer's number; None where it holds none."""
    workplace = run.require_workplace()
    writer = find_writer(workplace, run.plan.job.sources[alias].table)
    held = None if writer is None else _read_quarantine(run, writer, tuple(rows.columns))
    if writer is None or held is None:
        return None
    held = normalise.normalise_keys(held, run.plan.spec.sources[alias])
    return rows.unionByName(held), list(workplace.project.jobs).index(writer.job)


def list_holders(workplace: Workplace, reference: str, columns: tuple[str, ...]) -> Iterator[Holder]:
    """Yield the jobs that may hold rows of a table, the one that writes it first; none where other systems write it."""
    writer = find_writer(workplace, reference)
    if writer is None:
        return
    yield Holder(writer, columns)
    try:
        spec = workplace.open_job(writer).spec
    except EnrichError:  # it fits its tables no more: what it reads cannot be told
        return
    side = build_left_side(spec)
    names = dict(zip(side.identity, side.columns, strict=True))
    if not set(columns) <= set(names):
        return
    places = {spec.driving: tuple(names[column] for column in columns)}
    for step in spec.steps:
        if step.shares_key and step.how in ("inner", "right", "full"):  # it has the same key
            theirs = dict(zip(side.identity, spec.sources[step.alias].key, strict=True))
            places[step.alias] = tuple(theirs[column] for column in columns)
    for alias, before in places.items():
        yield from list_holders(workplace, writer.sources[alias].table, before)


def find_writer(workplace: Workplace, reference: str) -> Job | None:
    """Return the job of the project that writes a table."""
    project = workplace.project
    place = identify(project.location(reference))
    jobs = project.jobs.values()
    return next((job for job in jobs if identify(project.location(job.target.table)) == place), None)


def _read_quarantine(run: Inquiry, job: Job, columns: Sequence[str]) -> DataFrame | None:
    """Return what a job's quarantine has in some columns; None where there is none, or not with these columns."""
    workplace = run.require_workplace()
    uri = workplace.locate(find_quarantine(workplace.project.location(job.target.table)))
    if uri is None or not tables.exists(uri):
        return None
    state = tables.read_state(uri)
    if not set(columns) <= set(state.columns):
        return None
    return reads.read_snapshot(run.session, uri, state.version, columns)
