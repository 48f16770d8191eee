"""The rows of one table that have one key -> one row: what is counted, summed and chosen of them.

A change of a row reaches the group that it was in and the group that it is in, and no other. Only these are computed
anew, from all their rows at the window's end: so no answer depends on what an earlier run has made of the group, and
what came and went need not be told apart for each aggregate.

==============================  ==================  ====================  =======================
rows                            ``count(*)``        ``max(x)``            ``count(DISTINCT x)``
==============================  ==================  ====================  =======================
a: 1, 7; b: 7                   a 2, b 1            a 7, b 7              a 2, b 1
the 7 of a goes                 a 1, b 1            a 1, b 7              a 1, b 1
b: 7 moves to a                 a 2                 a 7                   a 2
null: 5 comes                   the same: a null is no key, and is left out and counted (``group_not_null``)
==============================  ==================  ====================  =======================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base.result import Counts
from enrich.base.spec import HOLDERS, LIVE, WEIGHT, Affected, Read, name_left_key, quote
from enrich.frames.columns import (
    add_up,
    aggregate,
    drop_nulls,
    has_null,
    keep_in_ranges,
    lacks_value,
    pack_columns,
    unite,
)
from enrich.progress.plan import Plan
from enrich.steps.rows import Rows, count_left, keep_rows
from enrich.steps.run import Run, build_finding
from enrich.steps.source_changes import Changes
from enrich.steps.source_changes import read_windows as read_changes  # noqa: F401 - a part of the kind

if TYPE_CHECKING:
    from enrich.project.kinds.group import GroupSpec

_ROW = "__enrich_number"


def get_spec(run: Run) -> GroupSpec:
    """Return the job of a run as the groups that it is."""
    return cast("GroupSpec", run.plan.spec)


def find_affected(run: Run, changed: Changes) -> Affected:
    """Return the groups that a changed row was in or is in."""
    spec = get_spec(run)
    found = [find_groups(spec, images) for images in changed.images(spec.driving)]
    return count_left(run, Affected(run.keep(unite(found).distinct())))


def compute_rows(run: Run, changed: Changes, affected: Affected | None) -> Rows:
    """Compute the affected groups from all their rows; rows that come with a null in their group are a finding."""
    spec, names = get_spec(run), name_left_key(len(get_spec(run).by))
    if affected is not None and run.are_few(affected.count):
        affected = replace(affected, left=F.broadcast(affected.left))
    frame = derive_groups(spec, run.snapshot(spec.driving), affected, with_nulls=affected is None)
    counts = (F.count_if(LIVE), add_up(F.col(HOLDERS)), add_up(F.when(~F.col(LIVE), F.col(HOLDERS))))
    frame, (count, come, nulls), tally = keep_rows(run, frame, *counts)
    if affected is not None:  # the rows of the groups are not those that have come
        come = nulls = 0
        if spec.driving in changed.net:
            images = changed.net[spec.driving].images.where(F.col(WEIGHT) > 0)
            rows = take_keys(spec, images.where(~lacks_value(spec.key)))
            come, nulls = map(int, aggregate(rows, F.count("*"), F.count_if(has_null(names))))
    findings = (build_finding("group_not_null", "warn", (come, nulls), spec.driving),) if nulls else ()
    counted = Counts(affected_keys=count if affected is None else affected.count)
    return Rows(frame.drop(HOLDERS), counted, findings, tally=tally)


def derive_rows(run: Run, affected: Affected | None) -> DataFrame:
    """Return the groups, with ``HOLDERS``, how many rows each has."""
    spec = get_spec(run)
    return derive_groups(spec, run.snapshot(spec.driving), affected)


def show_keyless(run: Run, rows: DataFrame) -> DataFrame:
    """Return rows of the source without a whole key as groups of their own; nulls for those that ``where`` removes."""
    spec = get_spec(run)
    numbered = rows.withColumn(_ROW, F.monotonically_increasing_id()).localCheckpoint()
    made = make_groups(spec, take_keys(spec, numbered, _ROW), _ROW)
    return numbered.select(_ROW).join(made, on=_ROW, how="left").select(*map(quote, spec.columns))


def list_reads(plan: Plan, _moved: Mapping[str, bool]) -> list[Read]:
    """Return the source: it has the other rows of the groups."""
    return [(plan.spec.driving, None)]


def list_keys(run: Run) -> DataFrame:
    """Return the groups that the source's rows make, whether ``where`` keeps them or not: ``__enrich_k*``, distinct."""
    spec = replace(get_spec(run), where=None)
    return find_groups(spec, run.snapshot(spec.driving))


def find_groups(spec: GroupSpec, rows: DataFrame) -> DataFrame:
    """Return the groups of rows of the source: ``__enrich_k*``, distinct and without nulls."""
    names = name_left_key(len(spec.by))
    return drop_nulls(take_keys(spec, rows.where(~lacks_value(spec.key))).select(*names), names).distinct()


def take_keys(spec: GroupSpec, rows: DataFrame, *also: str) -> DataFrame:
    """Return the rows of the source that ``where`` keeps: its struct, ``__enrich_k*`` and the columns ``also``."""
    rows = rows.select(pack_columns(spec.source.columns).alias(spec.driving), *also)
    kept = rows if spec.where is None else rows.where(F.expr(spec.where))
    return kept.withColumns({name: F.expr(by) for name, by in zip(name_left_key(len(spec.by)), spec.by, strict=True)})


def derive_groups(
    spec: GroupSpec, rows: DataFrame, affected: Affected | None, *, with_nulls: bool = False
) -> DataFrame:
    """Compute the affected groups from the source's rows at the window's end; None: all.

    Returns:
        ``__enrich_k*``, ``LIVE`` (false with a null among them, where such groups are asked for), ``HOLDERS`` (how many
        rows the group has) and the target's columns.
    """
    names = name_left_key(len(spec.by))
    kept = take_keys(spec, rows)
    kept = kept if with_nulls else drop_nulls(kept, names)
    if affected is not None:
        kept = keep_in_ranges(kept, affected.ranges).join(affected.left, on=names, how="left_semi")
    return make_groups(spec, kept).withColumn(LIVE, ~has_null(names))


def make_groups(spec: GroupSpec, rows: DataFrame, *also: str) -> DataFrame:
    """Group rows by ``__enrich_k*`` and ``also``: these, ``HOLDERS``, and the target's columns."""
    names = [*also, *name_left_key(len(spec.by))]
    made = [F.expr(text).alias(name) for name, text in spec.aggregates.items()]
    cells = [F.expr(cell.expression).alias(cell.name) for cell in spec.cells]
    return rows.groupBy(*names).agg(F.count("*").alias(HOLDERS), *made).select(*names, HOLDERS, *cells)
