"""The elements of a list: which ones count, and the list that their lookups make again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from enrich.base.spec import SourceSpec, Step

COUNTED = ("__enrich_elements", "__enrich_matched", "__enrich_nulls")
"""Columns of ``collect_elements``: elements, those with a partner, those whose id is null."""


def keep_first_of_each_id(exploded: DataFrame, identity: Sequence[str]) -> DataFrame:
    """Keep the first element of each id of a row; null ids are no duplicates of each other."""
    alone = F.when(F.col("__enrich_id").isNull(), F.col("__enrich_at"))
    same = Window.partitionBy(*identity, "__enrich_id", alone).orderBy("__enrich_at")
    ranked = exploded.withColumn("__enrich_rank", F.row_number().over(same))
    return ranked.where(F.col("__enrich_rank") == 1).drop("__enrich_rank")


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

    def by_position(a: Column, b: Column) -> Column:
        return F.when(a.getField("at") < b.getField("at"), F.lit(-1)).otherwise(F.lit(1))

    is_matched, is_null = F.col(step.alias).isNotNull(), F.col("__enrich_id").isNull()
    pair = F.struct(F.col("__enrich_at").alias("at"), _build_payload(lookup, step).alias("item"))
    pair = F.when(is_matched, pair) if step.drop_unmatched else pair  # collect_list leaves nulls out
    ordered = F.array_sort(F.collect_list(pair), by_position)
    counts = (F.count("*"), F.count(F.when(is_matched, 1)), F.count(F.when(is_null, 1)))
    return elements.groupBy(*identity).agg(
        F.transform(ordered, lambda each: each.getField("item")).alias("__enrich_list"),
        *[count.alias(name) for count, name in zip(counts, COUNTED, strict=True)],
    )


def join_back(rows: DataFrame, lists: DataFrame, identity: Sequence[str]) -> DataFrame:
    """Attach the lists to their rows; a row without left side has nulls in its identity, hence null-safe."""
    renamed = {name: name.replace("__enrich_", "__enrich_of_") for name in identity}
    lists = lists.withColumnsRenamed(renamed)
    nullable = any(name.startswith("__enrich_r") for name in identity)

    def same(name: str) -> Column:
        ours, theirs = F.col(name), F.col(renamed[name])
        return ours.eqNullSafe(theirs) if nullable else ours == theirs

    joined = rows.join(lists, on=reduce(and_, [same(name) for name in identity]), how="left")
    return joined.drop(*renamed.values())


def _build_payload(lookup: SourceSpec, step: Step) -> Column:
    """Return the joined element: the id named as the lookup's key, the struct's other fields, the lookup's columns."""
    own = [F.col("__enrich_item").getField(field).alias(field) for field in step.element_fields]
    others = [column for column in lookup.columns if column not in lookup.key]
    looked_up = [F.col(step.alias).getField(column).alias(column) for column in others]
    return F.struct(F.col("__enrich_id").alias(lookup.key[0]), *own, *looked_up)
