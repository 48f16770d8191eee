"""What a source said of each key, commit by commit -> versions, each with the time from which and to which it holds.

Unlike the net changes of a window, nothing cancels between two commits: A -> B -> A is three versions, however the
commits are cut into runs. Commits are ordered by their versions; their times only say from when a version holds.

======  ==================  =====================================
commit  what it did to K1   versions of K1 afterwards
======  ==================  =====================================
4       insert a            a [t4, null)
5       update a -> b       a [t4, t5), b [t5, null)
6       same columns        a [t4, t5), b [t5, null)
7       delete              a [t4, t5), b [t5, t7)
9       insert b            a [t4, t5), b [t5, t7), b [t9, null)
======  ==================  =====================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from enrich.base.spec import COMMIT, LIVE, WEIGHT, HistorySpec, name_left_key, quote
from enrich.frames.columns import aggregate, drop_nulls, lacks_value, make_comparable, name_parts, pack_columns, unite

FROM, TO, IMAGE = "__enrich_from", "__enrich_to", "__enrich_image"
"""Since when a version holds, when it ends (null: it does not), and the source's used columns (null: no row)."""
COME = "__enrich_come"
_STATE, _WAS, _TOTAL, _SURPLUS = "__enrich_state", "__enrich_was", "__enrich_total", "__enrich_surplus"
_BASE = -1
"""The commit of what was there before all commits that are read."""
BEGINNING = "0001-01-01T00:00:00Z"


def find_events(spec: HistorySpec, images: DataFrame, times: DataFrame) -> DataFrame:
    """Return what each commit left of each key that it changed.

    Args:
        spec: The job.
        images: The used columns, ``WEIGHT`` and ``COMMIT``, as ``changes.sum_images`` gives them.
        times: ``COMMIT`` and ``FROM``, its time.

    Returns:
        ``__enrich_k*`` (the source's key, never null), ``COMMIT``, ``FROM``, ``IMAGE`` (null: the row is gone),
        ``WEIGHT`` (by how many rows the key grew) and ``COME`` (how many rows came).
    """
    names = name_left_key(len(spec.key))
    parts = name_parts(spec.key, names)
    rows = drop_nulls(images.select(*parts, COMMIT, WEIGHT, pack_image(spec).alias(IMAGE)), names)
    has_come = F.col(WEIGHT) > 0
    found = rows.groupBy(*names, COMMIT).agg(
        F.any_value(F.when(has_come, F.col(IMAGE)), True).alias(IMAGE),
        F.sum(WEIGHT).alias(WEIGHT),
        F.sum(F.when(has_come, F.col(WEIGHT)).otherwise(0)).alias(COME),
    )
    return found.join(F.broadcast(times), on=COMMIT, how="inner")


def pack_image(spec: HistorySpec) -> Column:
    """Return the used columns of a source's row as one struct."""
    return pack_columns(spec.source.columns)


def take_rows(spec: HistorySpec, rows: DataFrame, since: Column) -> DataFrame:
    """Return the rows of a snapshot, without null keys, as open versions.

    Returns:
        ``__enrich_k*`` (the source's key), ``FROM``, ``TO`` (null) and ``IMAGE``.
    """
    names = name_left_key(len(spec.key))
    parts = name_parts(spec.key, names)
    ends = F.lit(None).cast("timestamp").alias(TO)
    return rows.select(*parts, since.alias(FROM), ends, pack_image(spec).alias(IMAGE))


def take_versions(spec: HistorySpec, rows: DataFrame, kinds: Mapping[str, Any]) -> DataFrame:
    """Return the rows of a target or quarantine as versions; a version that both have is there once.

    Args:
        spec: The job.
        rows: The target's columns; it may lack tracked columns that are new, which are null then.
        kinds: Column of the source -> its type as Spark has it.

    Returns:
        As ``take_rows``.
    """
    names = name_left_key(len(spec.key))
    known = {name.lower() for name in rows.columns}
    parts = name_parts(spec.key, names)
    fields = [
        (F.col(quote(name)) if name.lower() in known else F.lit(None).cast(kinds[name])).alias(name)
        for name in spec.source.columns
    ]
    ends = [F.col(quote(spec.valid_from)).alias(FROM), F.col(quote(spec.valid_to)).alias(TO)]
    found = rows.select(*parts, *ends, F.struct(*fields).alias(IMAGE))
    return drop_nulls(found, [*names, FROM]).dropDuplicates([*names, FROM])


def roll_back(versions: DataFrame, bound: Column) -> DataFrame:
    """Return versions as they were before the commits from the time ``bound`` on: later ones gone, ended ones open."""
    earlier = versions.where(F.col(FROM) < bound)
    return earlier.withColumn(TO, F.when(F.col(TO) < bound, F.col(TO)))


def list_images(spec: HistorySpec, versions: DataFrame) -> DataFrame:
    """Return the source's used columns of the open versions: the source's rows, as far as they are used."""
    fields = [F.col(IMAGE).getField(name).alias(name) for name in spec.source.columns]
    return versions.where(F.col(TO).isNull()).select(*fields)


def derive_versions(spec: HistorySpec, base: DataFrame, events: DataFrame) -> DataFrame:
    """Compute the versions of all keys in ``base`` and ``events``.

    Args:
        spec: The job.
        base: The versions before the events, as ``take_rows`` gives them; those that have ended stay as they are.
        events: What the commits did after that, as ``find_events`` gives it.

    Returns:
        ``__enrich_k*`` (key and time), ``LIVE`` (always true) and the target's columns.
    """
    names = name_left_key(len(spec.key))
    opened = base.where(F.col(TO).isNull()).withColumn(COMMIT, F.lit(_BASE).cast("long"))
    columns = [*names, COMMIT, FROM, IMAGE]
    steps = opened.select(*columns).unionByName(events.select(*columns))
    kinds = {field.name: field.dataType for field in steps.schema[IMAGE].dataType.fields}  # type: ignore[attr-defined]
    values = [make_comparable(F.col(IMAGE).getField(n), kinds[n]).alias(f"c{i}") for i, n in enumerate(spec.tracked)]
    state = F.when(F.col(IMAGE).isNotNull(), F.struct(F.lit(True).alias("there"), *values))
    order = Window.partitionBy(*names).orderBy(COMMIT)
    steps = steps.withColumn(_STATE, state).withColumn(_WAS, F.lag(_STATE).over(order))
    moved = steps.where(~F.col(_STATE).eqNullSafe(F.col(_WAS)))
    ended = moved.withColumn(TO, F.lead(FROM).over(order)).where(F.col(IMAGE).isNotNull())
    found = ended.select(*names, FROM, TO, IMAGE).unionByName(base.where(F.col(TO).isNotNull()))
    shown = {spec.valid_from: F.col(FROM), spec.valid_to: F.col(TO)}
    shown |= {name: F.col(IMAGE).getField(name) for name in spec.source.columns}
    *_, moment = name_left_key(len(spec.identity))
    return found.select(
        *names,
        F.col(FROM).alias(moment),
        F.lit(True).alias(LIVE),
        *[shown[name].alias(name) for name in spec.columns],
    )


def list_identities(spec: HistorySpec, *versions: DataFrame) -> DataFrame:
    """Return ``__enrich_k*`` (key and time), distinct, of frames that have ``FROM``."""
    names, (*_, moment) = name_left_key(len(spec.key)), name_left_key(len(spec.identity))
    parts = [each.select(*names, F.col(FROM).alias(moment)) for each in versions]
    return unite(parts).distinct()


def count_surplus(spec: HistorySpec, base: DataFrame, events: DataFrame) -> int:
    """Count the rows beyond the first of their key, in the snapshot of ``base`` or after any commit of ``events``.

    Where a key stands twice in several of these snapshots, the fullest counts.
    """
    names = name_left_key(len(spec.key))
    weights = [F.lit(_BASE).cast("long").alias(COMMIT), F.lit(1).alias(WEIGHT), F.lit(1).alias(COME)]
    opened = base.where(F.col(TO).isNull()).select(*names, *weights)
    summed = opened.unionByName(events.select(*names, COMMIT, WEIGHT, COME)).groupBy(*names, COMMIT)
    rows = summed.agg(F.sum(WEIGHT).alias(WEIGHT), F.sum(COME).alias(COME))
    order = Window.partitionBy(*names).orderBy(COMMIT)
    rows = rows.withColumn(_TOTAL, F.sum(WEIGHT).over(order))
    surplus = F.greatest(F.col(_TOTAL), F.col(COME)) - 1
    worst = rows.groupBy(*names).agg(F.max(surplus).alias(_SURPLUS)).where(F.col(_SURPLUS) > 0)
    found = aggregate(worst, F.coalesce(F.sum(_SURPLUS), F.lit(0)))
    return int(found[0])


def is_keyless(spec: HistorySpec) -> Column:
    """Tell the source's rows without a whole key apart."""
    return lacks_value(spec.key)


def quarantine_keyless(spec: HistorySpec, rows: DataFrame) -> DataFrame:
    """Return the source's rows without a whole key as the quarantine shows them: nobody can say since when they hold.

    Returns:
        The target's columns.
    """
    nothing = F.lit(None).cast("timestamp")
    shown = {name: F.col(quote(name)) for name in spec.source.columns} | {spec.valid_from: nothing}
    shown[spec.valid_to] = nothing
    return rows.select(*[shown[name].alias(name) for name in spec.columns])
