"""Affected keys and sources at pinned versions -> enriched rows.

Every verb here is ``DataFrame -> DataFrame`` over the frames that ``enrich.spec`` describes. A row that a join or the
condition removes stays in the frame as *dead* (``ALIVE`` is false) until the end, so that null foreign keys are counted
where SQL would have dropped the row already. Partners are tracked by the alias's struct being null or not, never by a
column being null: a looked-up row whose columns are all null is a row.

=====  ==============  =====================  ==========================
how    both sides      left side alone        lookup alone
=====  ==============  =====================  ==========================
inner  (l, r)          dead                   -
left   (l, r)          (l, null)              -
right  (l, r)          dead                   (null, r)
full   (l, r)          (l, null)              (null, r)
=====  ==============  =====================  ==========================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from enrich import normalise
from enrich.spec import (
    LIVE,
    Affected,
    JoinSpec,
    SourceSpec,
    Step,
    left_names,
    partners_name,
    quoted,
    reference_names,
    right_names,
    without_nulls,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ALIVE = "__enrich_alive"
_SALTS = 64
_COUNTED = ("__enrich_elements", "__enrich_matched", "__enrich_nulls")


@dataclass(frozen=True)
class Sources:
    """The pinned snapshots of a job: alias -> rows with the used columns and no null in the key."""

    spec: JoinSpec
    snapshots: Mapping[str, DataFrame]

    def frame(self, alias: str, names: Sequence[str]) -> DataFrame:
        """Return the rows of ``alias`` as its key parts, named ``names``, and one struct column."""
        from pyspark.sql import functions as F

        source: SourceSpec = self.spec.sources[alias]
        keys = [F.col(quoted(column)).alias(name) for column, name in zip(source.key, names, strict=True)]
        row = F.struct(*[F.col(quoted(column)) for column in source.columns]).alias(alias)
        return self.snapshots[alias].select(*keys, row)


def enriched(sources: Sources, affected: Affected | None) -> DataFrame:
    """Join the affected rows anew.

    Returns:
        ``__enrich_k*``, ``__enrich_r*`` (when the job has a right or full foreign-key join), ``LIVE``, one
        ``partners_name`` a join, and the target's columns. ``affected=None`` means all keys.
    """
    from pyspark.sql import functions as F

    spec = sources.spec
    rows = _with_key(spec, walked(sources, affected, spec.steps))
    condition = F.coalesce(F.expr(spec.where), F.lit(False)) if spec.where is not None else F.lit(True)
    identity = [name for name in rows.columns if name.startswith(("__enrich_k", "__enrich_r"))]
    # A row that the condition keeps out must not fail in an expression that the condition guards.
    outputs = [F.when(F.col(LIVE), F.expr(output.expression)).alias(output.name) for output in spec.outputs]
    rows = rows.withColumn(LIVE, F.col(ALIVE) & condition)
    return rows.select(*identity, LIVE, *[partners_name(step.alias) for step in spec.steps], *outputs)


def keyless(sources: Sources, rows: DataFrame) -> DataFrame:
    """Join driving rows that have a null in their key, each for itself, for the quarantine.

    Args:
        sources: The job's sources.
        rows: The used columns of the driving source, rows with a null key part only.

    Returns:
        The target's columns, one row per row: nothing is filtered and no lookup adds rows.
    """
    from pyspark.sql import functions as F

    spec = sources.spec
    alone = replace(sources, snapshots={**sources.snapshots, spec.driving: rows})
    keys = left_names(len(spec.key_columns))
    start = (
        alone.frame(spec.driving, keys).withColumn("__enrich_row", F.monotonically_increasing_id()).localCheckpoint()
    )
    steps = [replace(step, how="left") for step in spec.steps]
    joined = _with_key(spec, _applied(sources, start.withColumns(_fresh()), None, steps))
    return joined.select(*[F.expr(output.expression).alias(output.name) for output in spec.outputs])


def walked(sources: Sources, affected: Affected | None, steps: Sequence[Step]) -> DataFrame:
    """Apply ``steps`` left to right to the driving rows, or to the affected ones of them."""
    spec = sources.spec
    keys = left_names(len(spec.key_columns))
    rows = sources.frame(spec.driving, keys)
    if affected is not None:
        rows = rows.join(affected.left, on=keys, how="left_semi")
    return _applied(sources, rows.withColumns(_fresh()), affected, steps)


def _fresh() -> dict[str, Column]:
    from pyspark.sql import functions as F

    return {ALIVE: F.lit(True)}


def _partners(rows: Column, matched: Column, nulls: Column) -> Column:
    """Return how a join went for a row, as ``partners_name`` tells it."""
    from pyspark.sql import functions as F

    parts = {"rows": rows, "matched": matched, "nulls": nulls}
    return F.struct(*[F.coalesce(part.cast("int"), F.lit(0)).alias(name) for name, part in parts.items()])


def _applied(sources: Sources, rows: DataFrame, affected: Affected | None, steps: Sequence[Step]) -> DataFrame:
    apply = {"table": _join_table, "foreign_key": _join_foreign_key, "list": _join_list}
    for step in steps:
        rows = apply[step.kind](sources, rows, affected, step)
    return rows


def partners(sources: Sources, step: Step, affected: Affected) -> DataFrame:
    """Return how one join goes for affected driving rows, as it does on the way to the target.

    Returns:
        ``__enrich_k*`` and the step's ``partners_name``.
    """
    spec = sources.spec
    lone = {"right": "inner", "full": "left"}  # rows without left side have no reference
    steps = [replace(each, how=lone.get(each.how, each.how)) for each in (*earlier_steps(spec, step), step)]
    return walked(sources, affected, steps).select(*left_names(len(spec.key_columns)), partners_name(step.alias))


def references(sources: Sources, step: Step, affected: Affected | None = None, *, nulls: bool = False) -> DataFrame:
    """Return which keys of a lookup the rows before ``step`` refer to.

    Only the earlier joins that decide it are made, and none of them removes a left row: surplus pairs are harmless to a
    recompute by key.

    Args:
        sources: The job's sources.
        step: The join.
        affected: The rows to look at; None for all.
        nulls: Keep references that are null, a list that is null among them.

    Returns:
        ``__enrich_k*``, ``__enrich_r*`` (when an earlier step is a right or full foreign-key join) and
        ``__enrich_j*``, the referenced key; one row per referenced element.
    """
    from pyspark.sql import functions as F

    spec = sources.spec
    earlier = [_generous(each) for each in earlier_steps(spec, step) if each.alias in step.decided_by]
    rows = _with_key(spec, walked(sources, affected, earlier)).where(F.col(ALIVE))
    identity = [name for name in rows.columns if name.startswith(("__enrich_k", "__enrich_r"))]
    if step.kind == "list":
        item, items = F.col("__enrich_item"), F.expr(step.elements or "")
        parts = [item if step.element_key is None else item.getField(step.element_key)]
        exploded = F.explode_outer(items) if nulls else F.explode(items)
        rows = rows.where(items.isNull() | (F.size(items) > 0)).select(*identity, exploded.alias("__enrich_item"))
    else:
        parts = [F.col(name) for name in left_names(len(spec.key_columns))]
        parts = parts if step.kind == "table" else [F.expr(part) for part in step.on]
    if step.kind != "table":
        parts = normalise.references(parts, spec.sources[step.alias])
    names = reference_names(len(parts))
    found = rows.select(*identity, *[part.alias(name) for part, name in zip(parts, names, strict=True)])
    return found if nulls else without_nulls(found, names)


def earlier_steps(spec: JoinSpec, step: Step) -> list[Step]:
    """Return the joins that come before ``step``."""
    aliases = [each.alias for each in spec.steps]
    return list(spec.steps[: aliases.index(step.alias)])


def _generous(step: Step) -> Step:
    """Return ``step`` keeping every left row; what it adds on the right stays."""
    how = {"inner": "left", "right": "full"}.get(step.how, step.how)
    return replace(step, how=how)


def _with_key(spec: JoinSpec, rows: DataFrame) -> DataFrame:
    """Add ``key``, the coalesced key: a scalar, or a struct under the driving source's names."""
    from pyspark.sql import functions as F

    if not spec.has_key:
        return rows
    names = left_names(len(spec.key_columns))
    parts = [F.col(name).alias(column) for name, column in zip(names, spec.key_columns, strict=True)]
    return rows.withColumn("key", F.col(names[0]) if len(names) == 1 else F.struct(*parts))


def _bury(rows: DataFrame) -> DataFrame:
    """Empty the aliases of dead rows: what follows must not see a side that SQL has dropped."""
    from pyspark.sql import functions as F

    aliases = [name for name in rows.columns if not name.startswith("__enrich_")]
    return rows.withColumns({name: F.when(F.col(ALIVE), F.col(name)) for name in aliases})


def _join_table(sources: Sources, rows: DataFrame, affected: Affected | None, step: Step) -> DataFrame:
    """Join a lookup that shares the key; right and full add the lookup's own keys."""
    from pyspark.sql import functions as F

    count = len(sources.spec.key_columns)
    keys, names = left_names(count), reference_names(count)
    lookup = sources.frame(step.alias, names)
    if affected is not None:
        renamed = affected.left.select(*[F.col(k).alias(n) for k, n in zip(keys, names, strict=True)])
        lookup = lookup.join(renamed, on=names, how="left_semi")
    if step.keeps_right:
        rows = _bury(rows)
    condition = reduce(and_, [F.col(k) == F.col(n) for k, n in zip(keys, names, strict=True)])
    rows = rows.join(lookup, on=condition, how="full" if step.keeps_right else "left")
    matched = F.col(step.alias).isNotNull()
    was_alive = F.coalesce(F.col(ALIVE), F.lit(False))
    judged = was_alive & F.col(sources.spec.driving).isNotNull()
    alive = {"inner": was_alive & matched, "left": was_alive, "right": matched, "full": was_alive | matched}[step.how]
    coalesced = {k: F.coalesce(F.col(k), F.col(n)) for k, n in zip(keys, names, strict=True)}
    partners = {partners_name(step.alias): _partners(judged, judged & matched, F.lit(0))}
    return rows.withColumns({**coalesced, **partners, ALIVE: alive}).drop(*names)


def _join_foreign_key(sources: Sources, rows: DataFrame, affected: Affected | None, step: Step) -> DataFrame:
    """Join a lookup by what the row says its key is; a null in the foreign key matches nothing (KIP-962).

    Rows with a null foreign key are spread over ``_SALTS`` values of a second join column: an outer join would send
    them all to one task.
    """
    from pyspark.sql import functions as F

    spec = sources.spec
    names = reference_names(len(step.on))
    wanted = [f"__enrich_f{i}" for i in range(len(step.on))]
    rows = _with_key(spec, rows)
    parts = normalise.references([F.expr(part) for part in step.on], spec.sources[step.alias])
    rows = rows.withColumns(dict(zip(wanted, parts, strict=True)))
    rows = rows.drop("key") if spec.has_key else rows
    is_null = reduce(or_, [F.col(name).isNull() for name in wanted])
    spread = F.when(is_null, F.pmod(F.hash(*left_names(len(spec.key_columns))), F.lit(_SALTS)) + 1).otherwise(0)
    rows = rows.withColumn("__enrich_salt", spread)
    lookup = sources.frame(step.alias, names).withColumn("__enrich_zero", F.lit(0))
    condition = reduce(and_, [F.col(w) == F.col(n) for w, n in zip(wanted, names, strict=True)])
    condition = condition & (F.col("__enrich_salt") == F.col("__enrich_zero"))
    matched = F.col(step.alias).isNotNull()
    judged = F.col(ALIVE) & F.col(spec.driving).isNotNull()
    added = {partners_name(step.alias): _partners(judged, judged & matched, judged & is_null)}
    if step.how in ("inner", "right"):
        added[ALIVE] = F.col(ALIVE) & matched
    joined = rows.join(lookup, on=condition, how="left").withColumns(added)
    joined = joined.drop(*names, *wanted, "__enrich_salt", "__enrich_zero")
    if not step.keeps_right:
        return joined
    return _bury(joined).unionByName(_unreferenced(sources, affected, step), allowMissingColumns=True)


def _unreferenced(sources: Sources, affected: Affected | None, step: Step) -> DataFrame:
    """Return the rows of a right or full foreign-key lookup that no left row refers to."""
    from pyspark.sql import functions as F

    spec = sources.spec
    names, rights = reference_names(len(step.on)), right_names(len(step.on))
    lookup = sources.frame(step.alias, rights)
    if affected is not None and affected.right is not None:
        lookup = lookup.join(affected.right, on=rights, how="left_semi")
    before = _with_key(spec, walked(sources, None, earlier_steps(spec, step))).where(F.col(ALIVE))
    parts = normalise.references([F.expr(part) for part in step.on], spec.sources[step.alias])
    used = before.select(*[part.alias(name) for part, name in zip(parts, names, strict=True)])
    condition = reduce(and_, [F.col(r) == F.col(n) for r, n in zip(rights, names, strict=True)])
    alone = lookup.join(without_nulls(used).distinct(), on=condition, how="left_anti")
    return alone.withColumns(_fresh())


def _join_list(sources: Sources, rows: DataFrame, _affected: Affected | None, step: Step) -> DataFrame:
    """Join each element of an array in place; order, duplicates and null elements follow the row's own list."""
    from pyspark.sql import functions as F

    spec = sources.spec
    (name,) = reference_names(1)
    rows = _with_key(spec, rows).withColumn("__enrich_items", F.expr(step.elements or ""))
    rows = rows.drop("key") if spec.has_key else rows
    identity = [each for each in rows.columns if each.startswith(("__enrich_k", "__enrich_r"))]

    def id_of(item: Column) -> Column:
        return item if step.element_key is None else item.getField(step.element_key)

    item = F.col("__enrich_item")
    exploded = rows.where(F.col(ALIVE)).select(
        *identity, F.posexplode("__enrich_items").alias("__enrich_at", "__enrich_item")
    )
    (wanted,) = normalise.references([id_of(item)], spec.sources[step.alias])
    exploded = exploded.withColumn("__enrich_id", wanted)
    if step.drop_duplicates:
        exploded = _first_of_each_id(exploded, identity)
    spread = F.when(F.col("__enrich_id").isNull(), F.pmod(F.hash(*identity, "__enrich_at"), F.lit(_SALTS)) + 1)
    exploded = exploded.withColumn("__enrich_salt", F.coalesce(spread, F.lit(0)))
    lookup = sources.frame(step.alias, [name]).withColumn("__enrich_zero", F.lit(0))
    condition = (F.col("__enrich_id") == F.col(name)) & (F.col("__enrich_salt") == F.col("__enrich_zero"))
    lists = _collected(exploded.join(lookup, on=condition, how="left"), identity, spec.sources[step.alias], step)
    kind = lists.schema["__enrich_list"].dataType
    result = F.coalesce(F.col("__enrich_list"), F.array().cast(kind))
    rows = _join_back(rows, lists, identity)
    rows = rows.withColumns(
        {
            step.alias: F.when(F.col("__enrich_items").isNotNull(), result),
            partners_name(step.alias): _partners(*[F.col(name) for name in _COUNTED]),
        }
    )
    return rows.drop("__enrich_items", "__enrich_list", *_COUNTED)


def _payload(lookup: SourceSpec, step: Step) -> Column:
    """Return the joined element: the id named as the lookup's key, the struct's other fields, the lookup's columns."""
    from pyspark.sql import functions as F

    own = [F.col("__enrich_item").getField(field).alias(field) for field in step.element_fields]
    others = [column for column in lookup.columns if column not in lookup.key]
    looked_up = [F.col(step.alias).getField(column).alias(column) for column in others]
    return F.struct(F.col("__enrich_id").alias(lookup.key[0]), *own, *looked_up)


def _first_of_each_id(exploded: DataFrame, identity: Sequence[str]) -> DataFrame:
    """Keep the first element of each id of a row; null ids are no duplicates of each other."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    alone = F.when(F.col("__enrich_id").isNull(), F.col("__enrich_at"))
    same = Window.partitionBy(*identity, "__enrich_id", alone).orderBy("__enrich_at")
    ranked = exploded.withColumn("__enrich_rank", F.row_number().over(same))
    return ranked.where(F.col("__enrich_rank") == 1).drop("__enrich_rank")


def _collected(elements: DataFrame, identity: Sequence[str], lookup: SourceSpec, step: Step) -> DataFrame:
    """Gather the elements of each row again, ordered by their position alone (a payload may hold a map), and count."""
    from pyspark.sql import functions as F

    def by_position(a: Column, b: Column) -> Column:
        return F.when(a.getField("at") < b.getField("at"), F.lit(-1)).otherwise(F.lit(1))

    is_matched, is_null = F.col(step.alias).isNotNull(), F.col("__enrich_id").isNull()
    pair = F.struct(F.col("__enrich_at").alias("at"), _payload(lookup, step).alias("item"))
    pair = F.when(is_matched, pair) if step.drop_unmatched else pair  # collect_list leaves nulls out
    ordered = F.array_sort(F.collect_list(pair), by_position)
    counts = (F.count("*"), F.count(F.when(is_matched, 1)), F.count(F.when(is_null, 1)))
    return elements.groupBy(*identity).agg(
        F.transform(ordered, lambda each: each.getField("item")).alias("__enrich_list"),
        *[count.alias(name) for count, name in zip(counts, _COUNTED, strict=True)],
    )


def _join_back(rows: DataFrame, lists: DataFrame, identity: Sequence[str]) -> DataFrame:
    """Attach the lists to their rows; a row without left side has nulls in its identity, hence null-safe."""
    from pyspark.sql import functions as F

    renamed = {name: name.replace("__enrich_", "__enrich_of_") for name in identity}
    lists = lists.withColumnsRenamed(renamed)
    nullable = any(name.startswith("__enrich_r") for name in identity)

    def same(name: str) -> Column:
        ours, theirs = F.col(name), F.col(renamed[name])
        return ours.eqNullSafe(theirs) if nullable else ours == theirs

    joined = rows.join(lists, on=reduce(and_, [same(name) for name in identity]), how="left")
    return joined.drop(*renamed.values())
