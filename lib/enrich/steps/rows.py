"""Compute the affected rows anew, whatever kind of job it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from enrich.base.failpoints import pass_point
from enrich.base.result import Counts, Finding, Lookup, Lookups
from enrich.base.schemas import strip_type
from enrich.base.spec import LISTED, LIVE, OPERATION, Affected, DataType, quote
from enrich.base.suites import select_quarantine_rules
from enrich.delta import sink
from enrich.delta.tables import CHANGE_FEED, VECTORS, TableState
from enrich.frames.columns import PARTS, Ranges, add_up, aggregate, count_with_ranges, hash_rows, mark_rows
from enrich.joins import find_kind
from enrich.progress.plan import Plan
from enrich.steps.run import Run, identify_rows, measure
from enrich.steps.source_changes import Changes

PAGE_ROWS = "parquet.page.row.count.limit"
PAGES_WORTH = 0.125  # share of the target's rows that the pages of these keys may have: ADR 43


@dataclass(frozen=True)
class Rows:
    """The affected rows, computed anew."""

    frame: DataFrame  # the identity's columns, ``LIVE``, one ``name_partners`` a join, and the target's columns
    counts: Counts  # affected keys and nulls in references
    findings: tuple[Finding, ...] = ()
    lookups: Mapping[str, Lookup] = field(default_factory=dict)  # alias -> how its join went
    # Alias -> how its join went for these rows before, where nothing else can have gone otherwise; else None.
    went: Lookups | None = None
    before: DataFrame | None = None  # as ``frame``, what the target has, and what it quarantined; None: nobody knows
    values: tuple[int, int] = (0, 0)  # a mirror's values, and those with several holders
    # What ``mark_rows`` counts, over the live rows; empty where they are not the whole target.
    tally: Mapping[str, int] = field(default_factory=dict)


@measure("join")
def compute_rows(run: Run, changed: Changes, affected: Affected | None) -> Rows:
    """Compute the affected rows from the pinned snapshots."""
    pass_point("join.before")
    return find_kind(run.plan.spec).compute_rows(run, changed, affected)


def keep_rows(
    run: Run, frame: DataFrame, *counts: Column | str, drafts: bool = True
) -> tuple[DataFrame, Sequence[int], Mapping[str, int]]:
    """Compute rows once and count them: a first run writes them into the files of its target, others keep them.

    Args:
        run: The run.
        frame: The rows, as ``Rows`` has them.
        counts: What is counted of them.
        drafts: Whether the live rows, the identity's and the target's columns are all that is needed afterwards.

    Returns:
        The rows, the counts, and what ``mark_rows`` counts where these are all that the target will have.
    """
    plan, names = run.plan, list(run.plan.spec.columns)
    every = [F.expr(each) if isinstance(each, str) else each for each in counts]
    quarantines = plan.suite is not None and select_quarantine_rules(plan.suite) is not None
    marks = mark_rows(names, proves=plan.write_row is not None) if plan.everything and not quarantines else {}
    every = [*every, *[add_up(F.when(F.col(LIVE), mark.cast("long"))) for mark in marks.values()]]
    write_row = plan.write_row if marks else None
    if drafts and marks and run.publishes and plan.target.table is None and not plan.options.dry_run:
        watched = [each.alias(f"__enrich_c{place}") for place, each in enumerate(every)]
        seen, hashed = [Observation()], len(every) - (len(PARTS) if write_row else 0)
        rows = frame.observe(seen[0], *watched[:hashed])
        if write_row is not None:  # apart: Spark compiles no stage as long as the joins with the texts that are hashed
            seen.append(Observation())
            rows = hash_rows(rows, write_row, names).observe(seen[1], *watched[hashed:])
        rows = rows.where(F.col(LIVE)).select(*map(quote, names))
        run.draft = sink.draft_table(run.session, describe_table(plan, rows, None), rows, seen)
    if run.draft is not None:
        run.cleanup.callback(run.draft.discard)
        frame = run.draft.rows.withColumns({**identify_rows(plan).of(), LIVE: F.lit(True)})
        found = run.draft.counts
    else:
        frame = run.keep(frame)
        found = aggregate(hash_rows(frame, write_row, names), *every) if every else ()
    return frame, found[: len(counts)], dict(zip(marks, found[len(counts) :], strict=True))


def describe_table(plan: Plan, rows: DataFrame, table: TableState | None, *, beside: bool = False) -> sink.NewTable:
    """Return how a table, the quarantine ``beside`` the target or this, is made: vectors, statistics of its keys."""
    place, target = plan.place, plan.job.target
    properties = {VECTORS: "true", "delta.checkpointInterval": "50", PAGE_ROWS: "1000"}
    properties |= sink.choose_statistics(rows, [*plan.spec.identity, *plan.spec.right_identity, *target.cluster_by])
    if beside:
        return sink.NewTable(place.quarantine_name, place.quarantine_uri if table is None else table.uri, properties)
    if place.change_feed:
        properties[CHANGE_FEED] = "true"
    uri = place.uri if table is None else table.uri
    return sink.NewTable(place.name, uri, properties, target.cluster_by, plan.comments)


def select_live_rows(run: Run, rows: DataFrame) -> DataFrame:
    """Return the rows that belong to the target, with the identity's columns."""
    return rows.where(F.col(LIVE)).select(*identify_rows(run.plan).names, *map(quote, run.plan.spec.columns))


def find_types(plan: Plan, session: SparkSession) -> dict[str, DataType]:
    """Return the types of the job's columns, without a look at rows."""
    with ExitStack() as cleanup:
        rows = make_no_rows(Run(plan, session, cleanup))
    return {field.name: strip_type(field.dataType.jsonValue()) for field in rows.schema.fields}


def make_no_rows(run: Run) -> DataFrame:
    """Return an empty difference: the identity's columns, the operation, the target's columns as new rows would be."""
    nothing = find_kind(run.plan.spec).derive_rows(run, None).limit(0)
    operation = F.lit("U").alias(OPERATION)
    return nothing.select(*identify_rows(run.plan).names, operation, *map(quote, run.plan.spec.columns))


@measure("keys")
def find_affected_keys(run: Run, changed: Changes) -> Affected | None:
    """Return the target keys whose rows may differ, counted; None for all."""
    return None if run.plan.everything else find_kind(run.plan.spec).find_affected(run, changed)


def count_left(run: Run, found: Affected, known: tuple[int, Ranges] | None = None) -> Affected:
    """Count affected keys and find the ranges of the left ones, unless these are ``known`` already."""
    if known is None:
        (left,), ranges = count_with_ranges(found.left, found.left.columns)
    else:
        left, ranges = known
    count = left + (found.right.count() if found.right is not None else 0)
    run.expect_rows(count)
    return replace(found, count=count, ranges=_list_values(run, found.left, left, ranges))


def _list_values(run: Run, keys: DataFrame, count: int, ranges: Ranges) -> Ranges:
    """Return ranges with all values of whole numbers, where these leave out most pages of a large target's files."""
    table, recorded = run.plan.target.table, run.plan.recorded_state
    whole = [name for name, each in ranges.items() if isinstance(each.least, int) and not each.is_day]
    if table is None or recorded is None or not whole or not 1 < count <= LISTED:
        return ranges
    most = PAGES_WORTH * recorded.rows / int(table.properties.get(PAGE_ROWS, 20_000))  # 20,000: Parquet's own
    if (count if len(keys.columns) == 1 else 1) > most:  # a key of one column has as many values as there are keys
        return ranges
    columns = zip(whole, zip(*keys.select(*whole).collect(), strict=True), strict=True)
    found = {name: tuple({*values}) for name, values in columns}
    return {**ranges, **{n: replace(ranges[n], values=each) for n, each in found.items() if len(each) <= most}}
