"""The inverse lookup: what the master says now -> one row per value.

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

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import HOLDERS, LIVE, Affected, MirrorSpec, name_left_key
from enrich.frames.columns import drop_nulls, keep_in_ranges, name_parts, pack_columns, take_column


def find_affected_values(spec: MirrorSpec, images: DataFrame) -> DataFrame:
    """Return the values that a changed master row held or holds.

    Args:
        spec: The job.
        images: The used columns of changed rows, gone and come.

    Returns:
        ``__enrich_k*``, distinct and without nulls.
    """
    return _take_values(spec, images).distinct()


def derive_mirror(spec: MirrorSpec, master: DataFrame, affected: Affected | None) -> DataFrame:
    """Compute the mirror's rows for the affected values.

    Args:
        spec: The job.
        master: The used columns of the master at the window's end, no null in the key.
        affected: The affected values; None for all.

    Returns:
        ``__enrich_k*`` (the value), ``LIVE`` (always true), ``HOLDERS`` (how many keys hold the value) and the target's
        columns.
    """
    names = name_left_key(len(spec.value))
    parts = {name: take_column(column) for name, column in zip(names, spec.value, strict=True)}
    rows = drop_nulls(master.withColumns(parts), names)
    if affected is not None:
        rows = keep_in_ranges(rows, affected.ranges).join(affected.left, on=names, how="left_semi")
    winner = pack_columns(dict.fromkeys((*spec.value, *spec.key, *spec.extra)))
    chosen = {
        "fail": F.min_by(winner, _rank_holders(spec, first=True)),
        "first": F.min_by(winner, _rank_holders(spec, first=True)),
        "last": F.max_by(winner, _rank_holders(spec, first=False)),
        "collect": F.min_by(winner, _rank_holders(spec, first=True)),
    }[spec.conflict].alias("__enrich_winner")
    whole = take_column(spec.key[0]) if len(spec.key) == 1 else pack_columns(spec.key)
    collected = F.array_sort(F.collect_list(whole)).alias("__enrich_keys")
    grouped = rows.groupBy(*names).agg(F.count("*").alias(HOLDERS), chosen, collected)
    winning = F.col("__enrich_winner")
    columns = [winning.getField(name).alias(name) for name in spec.value]
    if spec.conflict == "collect":
        columns.append(F.col("__enrich_keys").alias(spec.columns[len(spec.value)]))
    else:
        columns += [winning.getField(name).alias(name) for name in (*spec.key, *spec.extra)]
    return grouped.select(*names, F.lit(True).alias(LIVE), HOLDERS, *columns)


def _rank_holders(spec: MirrorSpec, *, first: bool) -> Column:
    """Return what orders the holders of one value; a null order loses in both directions, the key breaks ties."""
    keys = [take_column(name) for name in spec.key]
    if spec.order is None:
        return F.struct(*keys)
    order = take_column(spec.order)
    loses = order.isNull() if first else order.isNotNull()
    return F.struct(loses, order, *keys)


def _take_values(spec: MirrorSpec, rows: DataFrame) -> DataFrame:
    names = name_left_key(len(spec.value))
    parts = name_parts(spec.value, names)
    return drop_nulls(rows.select(*parts))
