"""Turn a lookup round: what the master says now -> one row per value.

The mirror is a function of the master's current rows, never of the order in which they came: when a winner leaves,
the other holder of its value takes over.

===========================  ===============  ===============  ==========================
master                       ``first``        ``last``         ``collect``
===========================  ===============  ===============  ==========================
K1=V (order 1), K2=V (2)     V -> K1          V -> K2          V -> [K1, K2]
K2 deleted                   V -> K1          V -> K1          V -> [K1]
K1=W, K2=V                   W->K1, V->K2     W->K1, V->K2     W -> [K1], V -> [K2]
K1=null                      -                -                -
===========================  ===============  ===============  ==========================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base.result import Counts
from enrich.base.spec import HOLDERS, LIVE, WEIGHT, Affected, Read, name_left_key
from enrich.frames import columns
from enrich.frames.columns import drop_nulls, lacks_value, name_parts, pack_columns, take_column
from enrich.progress.plan import Plan
from enrich.steps.rows import Rows, count_left, keep_rows
from enrich.steps.run import Run, build_finding
from enrich.steps.source_changes import Changes
from enrich.steps.source_changes import read_windows as read_changes  # noqa: F401 - a part of the kind

if TYPE_CHECKING:
    from enrich.project.kinds.mirror import MirrorSpec


def get_spec(run: Run) -> MirrorSpec:
    """Return the job of a run as the mirror that it is."""
    return cast("MirrorSpec", run.plan.spec)


def find_affected(run: Run, changed: Changes) -> Affected:
    """Return the values that a changed row of the master held or holds, and those that are tried again."""
    spec = get_spec(run)
    values = [find_affected_values(spec, images) for alias in spec.sources for images in changed.images(alias)]
    return count_left(run, Affected(run.keep(columns.unite(values).distinct())))


def compute_rows(run: Run, changed: Changes, affected: Affected | None) -> Rows:
    """Compute the mirror's rows for the affected values; several holders of one are a finding where that is refused."""
    spec = get_spec(run)
    frame = derive_mirror(spec, run.snapshot(spec.driving), affected)
    frame, (count, shared), tally = keep_rows(run, frame, F.count("*"), F.count_if(F.col(HOLDERS) > 1))
    come = run.snapshot(spec.driving) if run.plan.everything else None
    if come is None and spec.driving in changed.net:
        come = changed.net[spec.driving].images.where(F.col(WEIGHT) > 0)
    nulls = 0 if come is None else come.where(lacks_value(spec.value) & ~lacks_value(spec.key)).count()
    counts = Counts(affected_keys=affected.count if affected else count, null_values=nulls)
    conflict = spec.conflict == "fail" and shared
    findings = (build_finding("value_unique", "fail", (count, shared), spec.driving),) if conflict else ()
    return Rows(frame.drop(HOLDERS), counts, findings, values=(count, shared), tally=tally)


def derive_rows(run: Run, affected: Affected | None) -> DataFrame:
    """Return the mirror's rows."""
    return derive_mirror(get_spec(run), run.snapshot(run.plan.spec.driving), affected)


def show_keyless(run: Run, rows: DataFrame) -> DataFrame:
    """Return rows of the master without a whole key as rows of the mirror that nobody else's key shares."""
    spec = get_spec(run)
    keys = [take_column(name) for name in spec.key]
    whole = F.array(keys[0] if len(keys) == 1 else pack_columns(spec.key)).alias(spec.columns[len(spec.value)])
    shown = [whole] if spec.conflict == "collect" else keys
    return rows.select(*map(take_column, spec.value), *shown, *map(take_column, spec.extra))


def list_reads(plan: Plan, _moved: Mapping[str, bool]) -> list[Read]:
    """Return the master: it tells who else holds a value."""
    return [(plan.spec.driving, None)]


def find_affected_values(spec: MirrorSpec, images: DataFrame) -> DataFrame:
    """Return the values that a changed master row held or holds: ``__enrich_k*``, distinct and without nulls."""
    names = name_left_key(len(spec.value))
    return drop_nulls(images.select(*name_parts(spec.value, names)), names).distinct()


def derive_mirror(spec: MirrorSpec, master: DataFrame, affected: Affected | None) -> DataFrame:
    """Compute the mirror's rows for the affected values; None: for all.

    In: the used columns of the master at the window's end, no null in the key. Out: ``__enrich_k*`` (the value),
    ``LIVE`` (always true), ``HOLDERS`` (how many keys hold the value) and the target's columns.
    """
    names = name_left_key(len(spec.value))
    parts = {name: take_column(column) for name, column in zip(names, spec.value, strict=True)}
    rows = drop_nulls(master.withColumns(parts), names)
    if affected is not None:
        rows = columns.keep_in_ranges(rows, affected.ranges).join(affected.left, on=names, how="left_semi")
    winner = pack_columns(dict.fromkeys((*spec.value, *spec.key, *spec.extra)))
    # A null order loses in both directions, the key breaks ties.
    is_last = spec.conflict == "last"
    keys = [take_column(name) for name in spec.key]
    order = [] if spec.order is None else [take_column(spec.order)]
    loses = [each.isNotNull() if is_last else each.isNull() for each in order]
    chosen = (F.max_by if is_last else F.min_by)(winner, F.struct(*loses, *order, *keys)).alias("__enrich_winner")
    whole = keys[0] if len(keys) == 1 else pack_columns(spec.key)
    collected = F.array_sort(F.collect_list(whole)).alias("__enrich_keys")
    grouped = rows.groupBy(*names).agg(F.count("*").alias(HOLDERS), chosen, collected)
    shown = {name: F.col("__enrich_winner").getField(name) for name in (*spec.value, *spec.key, *spec.extra)}
    if spec.conflict == "collect":
        shown[spec.columns[len(spec.value)]] = F.col("__enrich_keys")
    return grouped.select(*names, F.lit(True).alias(LIVE), HOLDERS, *[shown[each].alias(each) for each in spec.columns])
