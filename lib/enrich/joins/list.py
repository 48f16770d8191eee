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
from enrich.frames import join, normalise
from enrich.frames.columns import are_equal
from enrich.frames.join import ALIVE, SALT, Sources, StepKind, guard, list_identity

COUNTED = ("__enrich_elements", "__enrich_matched", "__enrich_nulls")
"""Columns of ``collect_elements``: elements, those with a partner, those whose id is null."""
_LIST, _ITEMS, _ITEM, _AT, _ID = "__enrich_list", "__enrich_items", "__enrich_item", "__enrich_at", "__enrich_id"


class List(StepKind):
    """A join by the ids in an array."""

    def refer(self, rows: DataFrame, spec: JoinSpec, step: Step) -> tuple[DataFrame, list[Column]]:
        """Return a row for each element, and its id. A list that is null has one without id; an empty one has none."""
        identity, items = list_identity(rows), F.col(_ITEMS)
        # As a column of its own: where the exploded expression reads fields of structs, Spark's optimiser may lose
        # other columns below it (INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND in Spark 4.1).
        rows = rows.withColumn(_ITEMS, guard(step, step.elements or ""))
        rows = rows.where(items.isNull() | (F.size(items) > 0)).select(*identity, F.explode_outer(items).alias(_ITEM))
        return rows, [_take_id(spec, step)]

    def join(self, sources: Sources, rows: DataFrame, affected: Affected | None, step: Step) -> DataFrame:
        """Join each element of an array in place; order, duplicates and null elements follow the row's own list."""
        spec = sources.spec
        rows = join.add_key(spec, rows).withColumn(_ITEMS, guard(step, step.elements or ""))
        rows = sources.keep(rows.drop("key") if spec.has_key else rows)
        identity = list_identity(rows)
        exploded = rows.where(F.col(ALIVE)).select(*identity, F.posexplode(_ITEMS).alias(_AT, _ITEM))
        exploded = exploded.withColumn(_ID, _take_id(spec, step))
        if step.drop_duplicates:
            # The first element of each id of a row; null ids are no duplicates of each other.
            alone = F.when(F.col(_ID).isNull(), F.col(_AT))
            window = Window.partitionBy(*identity, _ID, alone).orderBy(_AT)
            ranked = exploded.withColumn("__enrich_rank", F.row_number().over(window))
            exploded = ranked.where(F.col("__enrich_rank") == 1).drop("__enrich_rank")
        exploded = exploded.withColumn(SALT, join.spread_nulls([*identity, _AT], [_ID]))
        lookup = join.look_up(sources, step, affected, 1)
        found = join.join_spread(exploded, lookup, are_equal([_ID], name_reference(1)))
        lists = collect_elements(found, identity, spec.sources[step.alias], step)
        result = F.coalesce(F.col(_LIST), F.array().cast(lists.schema[_LIST].dataType))
        renamed = {name: name.replace("__enrich_", "__enrich_of_") for name in identity}
        # A row without left side has nulls in its identity, hence null-safe.
        nullable = any(name.startswith("__enrich_r") for name in identity)
        same = reduce(and_, [F.col(name).eqNullSafe(F.col(of)) for name, of in renamed.items()])
        same = same if nullable else are_equal([*renamed], [*renamed.values()])
        rows = rows.join(lists.withColumnsRenamed(renamed), on=same, how="left").drop(*renamed.values())
        has_driving = F.col(spec.driving).isNotNull()
        partners = join.count_partners(*[F.when(has_driving, F.col(name)) for name in COUNTED])
        added = {step.alias: F.when(F.col(_ITEMS).isNotNull(), result), name_partners(step.alias): partners}
        return rows.withColumns(added).drop(_ITEMS, _LIST, *COUNTED)


KIND = List()


def _take_id(spec: JoinSpec, step: Step) -> Column:
    """Return the id of an element, in the form of the lookup's key."""
    item = F.col(_ITEM)
    part = item if step.element_key is None else item.getField(step.element_key)
    return normalise.normalise_references([part], spec.sources[step.alias])[0]


def collect_elements(elements: DataFrame, identity: Sequence[str], lookup: SourceSpec, step: Step) -> DataFrame:
    """Gather the elements of each row again, ordered by their position alone (a payload may hold a map), and count.

    In: ``identity``, which tells rows apart, ``__enrich_at`` (the position), ``__enrich_item``, ``__enrich_id``, the
    lookup's struct. Out: ``identity``, ``__enrich_list`` and ``COUNTED``; rows without elements are left out.
    """
    is_matched, is_null = F.col(step.alias).isNotNull(), F.col(_ID).isNull()
    # The id is named as the lookup's key; the struct's other fields and the lookup's columns follow.
    own = [F.col(_ITEM).getField(field).alias(field) for field in step.element_fields]
    others = [column for column in lookup.columns if column not in lookup.key]
    looked_up = [F.col(step.alias).getField(column).alias(column) for column in others]
    item = F.struct(F.col(_ID).alias(lookup.key[0]), *own, *looked_up)
    pair = F.struct(F.col(_AT).alias("at"), item.alias("item"))
    pair = F.when(is_matched, pair) if step.drop_unmatched else pair  # collect_list leaves nulls out
    ordered = F.array_sort(F.collect_list(pair), lambda a, b: F.when(a["at"] < b["at"], F.lit(-1)).otherwise(F.lit(1)))
    counts = (F.count("*"), F.count_if(is_matched), F.count_if(is_null))
    return elements.groupBy(*identity).agg(
        F.transform(ordered, lambda each: each.getField("item")).alias(_LIST),
        *[count.alias(name) for count, name in zip(counts, COUNTED, strict=True)],
    )
