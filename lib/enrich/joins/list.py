"""Join each element of a list, in its place.

=====================  =======================================================
element                result
=====================  =======================================================
``a1``, there          the element with the lookup's columns
``a1``, not there      the element with nulls, or none with ``unmatched: drop``
null                   the element with nulls, counted
list null, list empty  as they are
=====================  =======================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from enrich.base.spec import Affected, JoinSpec, SourceSpec, Step, name_partners, name_reference
from enrich.frames import normalise
from enrich.frames.join import ALIVE, SALTS, Sources, add_key, count_partners, guard, list_identity, look_up
from enrich.joins.foreign_key import ask as ask  # noqa: PLC0414 - a part of this kind, too

CARRIES = False

COUNTED = ("__enrich_elements", "__enrich_matched", "__enrich_nulls")
"""Columns of ``collect_elements``: elements, those with a partner, those whose id is null."""


def refer(rows: DataFrame, spec: JoinSpec, step: Step) -> tuple[DataFrame, list[Column]]:
    """Return a row for each element, and its id. A list that is null has one without id; an empty one has none."""
    item, items = F.col("__enrich_item"), F.col("__enrich_items")
    identity = list_identity(rows)
    # As a column of its own: where the exploded expression reads fields of structs, Spark's optimiser may lose
    # other columns below it (INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND in Spark 4.1).
    rows = rows.withColumn("__enrich_items", guard(step, step.elements or ""))
    rows = rows.where(items.isNull() | (F.size(items) > 0))
    rows = rows.select(*identity, F.explode_outer(items).alias("__enrich_item"))
    part = item if step.element_key is None else item.getField(step.element_key)
    return rows, normalise.normalise_references([part], spec.sources[step.alias])


def narrow(_sources: Sources, found: DataFrame, _step: Step, _changed: DataFrame) -> DataFrame:
    """Return the references as they are."""
    return found


def join(sources: Sources, rows: DataFrame, _affected: Affected | None, step: Step) -> DataFrame:
    """Join each element of an array in place; order, duplicates and null elements follow the row's own list."""
    spec = sources.spec
    (name,) = name_reference(1)
    rows = add_key(spec, rows)
    rows = rows.withColumn("__enrich_items", guard(step, step.elements or ""))
    rows = sources.keep(rows.drop("key") if spec.has_key else rows)
    identity = list_identity(rows)
    item = F.col("__enrich_item")
    part = item if step.element_key is None else item.getField(step.element_key)
    exploded = rows.where(F.col(ALIVE)).select(
        *identity, F.posexplode("__enrich_items").alias("__enrich_at", "__enrich_item")
    )
    (wanted,) = normalise.normalise_references([part], spec.sources[step.alias])
    exploded = exploded.withColumn("__enrich_id", wanted)
    if step.drop_duplicates:
        # The first element of each id of a row; null ids are no duplicates of each other.
        alone = F.when(F.col("__enrich_id").isNull(), F.col("__enrich_at"))
        window = Window.partitionBy(*identity, "__enrich_id", alone).orderBy("__enrich_at")
        ranked = exploded.withColumn("__enrich_rank", F.row_number().over(window))
        exploded = ranked.where(F.col("__enrich_rank") == 1).drop("__enrich_rank")
    spread = F.when(F.col("__enrich_id").isNull(), F.pmod(F.hash(*identity, "__enrich_at"), F.lit(SALTS)) + 1)
    exploded = exploded.withColumn("__enrich_salt", F.coalesce(spread, F.lit(0)))
    exploded, lookup = look_up(sources, step, exploded, ["__enrich_id"])
    lookup = lookup.withColumn("__enrich_zero", F.lit(0))
    condition = (F.col("__enrich_id") == F.col(name)) & (F.col("__enrich_salt") == F.col("__enrich_zero"))
    lists = collect_elements(exploded.join(lookup, on=condition, how="left"), identity, spec.sources[step.alias], step)
    kind = lists.schema["__enrich_list"].dataType
    result = F.coalesce(F.col("__enrich_list"), F.array().cast(kind))
    renamed = {name: name.replace("__enrich_", "__enrich_of_") for name in identity}
    pairs = [(F.col(name), F.col(theirs)) for name, theirs in renamed.items()]
    # A row without left side has nulls in its identity, hence null-safe.
    nullable = any(name.startswith("__enrich_r") for name in identity)
    same = [ours.eqNullSafe(theirs) if nullable else ours == theirs for ours, theirs in pairs]
    rows = rows.join(lists.withColumnsRenamed(renamed), on=reduce(and_, same), how="left").drop(*renamed.values())
    has_driving = F.col(spec.driving).isNotNull()
    rows = rows.withColumns(
        {
            step.alias: F.when(F.col("__enrich_items").isNotNull(), result),
            name_partners(step.alias): count_partners(*[F.when(has_driving, F.col(name)) for name in COUNTED]),
        }
    )
    return rows.drop("__enrich_items", "__enrich_list", *COUNTED)


def collect_elements(elements: DataFrame, identity: Sequence[str], lookup: SourceSpec, step: Step) -> DataFrame:
    """Gather the elements of each row again, ordered by their position alone (a payload may hold a map), and count.

    Args:
        elements: ``identity``, ``__enrich_at`` (the position), ``__enrich_item``, ``__enrich_id``, the lookup's struct.
        identity: The columns that tell rows apart.
        lookup: The source that is looked up.
        step: The list join.

    Returns:
        ``identity``, ``__enrich_list`` and ``COUNTED``; rows without elements are left out.
    """
    is_matched, is_null = F.col(step.alias).isNotNull(), F.col("__enrich_id").isNull()
    # The id is named as the lookup's key; the struct's other fields and the lookup's columns follow.
    own = [F.col("__enrich_item").getField(field).alias(field) for field in step.element_fields]
    others = [column for column in lookup.columns if column not in lookup.key]
    looked_up = [F.col(step.alias).getField(column).alias(column) for column in others]
    item = F.struct(F.col("__enrich_id").alias(lookup.key[0]), *own, *looked_up)
    pair = F.struct(F.col("__enrich_at").alias("at"), item.alias("item"))
    pair = F.when(is_matched, pair) if step.drop_unmatched else pair  # collect_list leaves nulls out
    ordered = F.array_sort(
        F.collect_list(pair),
        lambda a, b: F.when(a.getField("at") < b.getField("at"), F.lit(-1)).otherwise(F.lit(1)),
    )
    counts = (F.count("*"), F.count(F.when(is_matched, 1)), F.count(F.when(is_null, 1)))
    return elements.groupBy(*identity).agg(
        F.transform(ordered, lambda each: each.getField("item")).alias("__enrich_list"),
        *[count.alias(name) for count, name in zip(counts, COUNTED, strict=True)],
    )
