"""Affected keys and sources at pinned versions -> enriched rows.

Every verb here is ``DataFrame -> DataFrame`` over the frames that ``enrich.base.spec`` describes. A row that a join or
the condition removes stays in the frame as *dead* (``ALIVE`` is false) until the end, so that null foreign keys are
counted where SQL would have dropped the row already. Partners are tracked by the alias's struct being null or not,
never by a column being null: a looked-up row whose columns are all null is a row.

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

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import (
    LIVE,
    Affected,
    JoinSpec,
    Step,
    name_left_key,
    name_partners,
    name_reference,
    name_right_key,
)
from enrich.frames import asof, interval, normalise
from enrich.frames.columns import drop_nulls, evaluate_where, has_null
from enrich.frames.elements import COUNTED, collect_elements, join_back, keep_first_of_each_id
from enrich.frames.order import leave_own_rows_out, list_deciding_steps, list_earlier_steps
from enrich.frames.sources import Sources as Sources  # noqa: PLC0414 - its users know it as a part of this module

ALIVE = "__enrich_alive"


def join_all(sources: Sources, affected: Affected | None) -> DataFrame:
    """Join the affected rows anew.

    Returns:
        ``__enrich_k*``, ``__enrich_r*`` (when the job has a right or full foreign-key join, or an interval join),
        ``LIVE``, one ``name_partners`` a join, and the target's columns. ``affected=None`` means all keys.
    """
    spec = sources.spec
    rows = _add_key(spec, apply_steps(sources, affected, spec.steps))
    identity = _list_identity(rows)
    # A row that the condition keeps out must not fail in an expression that the condition guards.
    outputs = [F.when(F.col(LIVE), F.expr(output.expression)).alias(output.name) for output in spec.outputs]
    rows = rows.withColumn(LIVE, _meet_condition(spec))
    return rows.select(*identity, LIVE, *[name_partners(step.alias) for step in spec.steps], *outputs)


def join_keyless(sources: Sources, rows: DataFrame) -> DataFrame:
    """Join driving rows that have a null in their key, each for itself, for the quarantine.

    Args:
        sources: The job's sources.
        rows: The used columns of the driving source, rows with a null key part only.

    Returns:
        The target's columns, one row per row: nothing is filtered and no lookup adds rows. So they have no partners
        in an interval join.
    """
    spec = sources.spec
    alone = replace(sources, snapshots={**sources.snapshots, spec.driving: rows})
    keys = name_left_key(len(spec.key_columns))
    start = (
        alone.frame(spec.driving, keys).withColumn("__enrich_row", F.monotonically_increasing_id()).localCheckpoint()
    )
    steps = leave_own_rows_out(spec.steps)
    if spec.interval_step is not None:  # which would give a row for each partner
        alias = spec.interval_step.alias
        kind = interval.read_lookup(sources, spec.interval_step).schema[alias].dataType
        start, steps = start.withColumn(alias, F.lit(None).cast(kind)), [each for each in steps if each.alias != alias]
    joined = _add_key(spec, _apply_each(sources, start.withColumns(_mark_alive()), None, steps))
    condition = _meet_condition(spec)
    # As for rows with a key, joins and condition guard what can fail; columns are shown whatever they say.
    return joined.select(
        *[
            (F.expr(each.expression) if each.is_plain else F.when(condition, F.expr(each.expression))).alias(each.name)
            for each in spec.outputs
        ]
    )


def _meet_condition(spec: JoinSpec) -> Column:
    """Tell whether the joins and the condition keep a row."""
    if spec.where is None:
        return F.col(ALIVE)
    # What cannot fail may go below the joins, to where it leaves rows out before they are read.
    is_free = spec.where_is_plain or not spec.steps
    is_met = F.expr(spec.where) if is_free else evaluate_where(F.col(ALIVE), spec.where)
    return F.col(ALIVE) & F.coalesce(is_met, F.lit(False))


def apply_steps(sources: Sources, affected: Affected | None, steps: Sequence[Step]) -> DataFrame:
    """Apply ``steps`` left to right to the driving rows, or to the affected ones of them."""
    spec = sources.spec
    keys = name_left_key(len(spec.key_columns))
    rows = sources.affected_rows(spec.driving, keys, affected)
    return _apply_each(sources, rows.withColumns(_mark_alive()), affected, steps)


def _list_identity(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if name.startswith(("__enrich_k", "__enrich_r"))]


def _mark_alive() -> dict[str, Column]:
    return {ALIVE: F.lit(True)}


def _count_partners(rows: Column, matched: Column, nulls: Column) -> Column:
    """Return how a join went for a row, as ``name_partners`` tells it."""
    parts = {"rows": rows, "matched": matched, "nulls": nulls}
    return F.struct(*[F.coalesce(part.cast("int"), F.lit(0)).alias(name) for name, part in parts.items()])


def _apply_each(sources: Sources, rows: DataFrame, affected: Affected | None, steps: Sequence[Step]) -> DataFrame:
    refers = _join_foreign_key
    apply = {"table": _join_table, "foreign_key": refers, "as_of": refers, "list": _join_list}
    apply["interval"] = _join_interval
    for step in steps:
        rows = apply[step.kind](sources, rows, affected, step)
    return rows


def find_partners(sources: Sources, step: Step, affected: Affected) -> DataFrame:
    """Return how one join goes for affected driving rows, as it does on the way to the target.

    Returns:
        ``__enrich_k*``, with an interval join ``__enrich_r*``, and the step's ``name_partners``.
    """
    steps = leave_own_rows_out((*list_earlier_steps(sources.spec, step), step))
    rows = apply_steps(sources, affected, steps)
    return rows.select(*_list_identity(rows), name_partners(step.alias))


def find_references(
    sources: Sources,
    step: Step,
    affected: Affected | None = None,
    *,
    changed: DataFrame | None = None,
    carry: bool = False,
) -> DataFrame:
    """Return which keys of a lookup the rows before ``step`` refer to.

    If a row differs after ``step`` and not before it, what it refers to is the same at both ends of the window. So the
    references over the rows that the join really sees, at the window's end, lead to every such row.

    Args:
        sources: The job's sources.
        step: The join.
        affected: The rows to look at; None for all.
        changed: ``__enrich_j*``, the changed keys of the lookup: a row of an as-of join then refers to the last version
            until its moment, of those that are there and of the changed ones. Without them it refers to its moment.
        carry: Whether the driving rows shall come along, for which the source is then read once.

    Returns:
        ``__enrich_k*``, ``__enrich_r*`` (when an earlier step is a right or full foreign-key join) and
        ``__enrich_j*``, the referenced key without nulls; one row per referenced element. With ``carry``, the struct
        of the driving source, too, where the references stand in its rows as they are.
    """
    spec = sources.spec
    before = list_deciding_steps(spec, step)
    carried = [spec.driving] if carry and step.elements is None and step.interval is None and not before else []
    found = refer(apply_steps(sources, affected, before), spec, step, carried)
    names = [name for name in found.columns if name.startswith("__enrich_j")]
    found = drop_nulls(found, names)
    if step.at is None or changed is None:
        return found
    return asof.find_touched(found, sources.frame(step.alias, names).select(*names), changed)


def refer(rows: DataFrame, spec: JoinSpec, step: Step, carried: Sequence[str] = ()) -> DataFrame:
    """Return what the live rows before a join refer to, as ``references`` does, references that are null included.

    A list that is null refers to null once; an empty one refers to nothing. In an interval join, what ``match`` equals
    is the reference.
    """
    rows = _add_key(spec, rows).where(F.col(ALIVE))
    identity = _list_identity(rows)
    if step.elements is not None:
        item, items = F.col("__enrich_item"), F.col("__enrich_items")
        parts = [item if step.element_key is None else item.getField(step.element_key)]
        # As a column of its own: where the exploded expression reads fields of structs, Spark's optimiser may lose
        # other columns below it (INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND in Spark 4.1).
        rows = rows.withColumn("__enrich_items", _guard(step, step.elements or ""))
        rows = rows.where(items.isNull() | (F.size(items) > 0))
        rows = rows.select(*identity, F.explode_outer(items).alias("__enrich_item"))
    else:
        parts = [F.col(name) for name in name_left_key(len(spec.key_columns))]
        parts = parts if step.shares_key else [_guard(step, part) for part in step.references]
    if not step.shares_key and step.interval is None:  # by its key, which alone is normalised
        parts = normalise.normalise_references(parts, spec.sources[step.alias])
    names = name_reference(len(parts))
    return rows.select(*identity, *[part.alias(name) for part, name in zip(parts, names, strict=True)], *carried)


def _guard(step: Step, expression: str) -> Column:
    """Evaluate what a join refers by on live rows alone: it must not fail on one that an earlier join has removed."""
    return evaluate_where(F.col(ALIVE), expression, is_plain=step.is_plain)


def _add_key(spec: JoinSpec, rows: DataFrame) -> DataFrame:
    """Add ``key``, the coalesced key: a scalar, or a struct under the driving source's names."""
    if not spec.has_key:
        return rows
    names = name_left_key(len(spec.key_columns))
    parts = [F.col(name).alias(column) for name, column in zip(names, spec.key_columns, strict=True)]
    return rows.withColumn("key", F.col(names[0]) if len(names) == 1 else F.struct(*parts))


def _bury(rows: DataFrame) -> DataFrame:
    """Empty the aliases of dead rows: what follows must not see a side that SQL has dropped."""
    aliases = [name for name in rows.columns if not name.startswith("__enrich_")]
    return rows.withColumns({name: F.when(F.col(ALIVE), F.col(name)) for name in aliases})


def _join_table(sources: Sources, rows: DataFrame, affected: Affected | None, step: Step) -> DataFrame:
    """Join a lookup that shares the key; right and full add the lookup's own keys."""
    count = len(sources.spec.key_columns)
    keys, names = name_left_key(count), name_reference(count)
    lookup = sources.affected_rows(step.alias, names, affected)
    if step.keeps_right:
        rows = _bury(rows)
    condition = reduce(and_, [F.col(k) == F.col(n) for k, n in zip(keys, names, strict=True)])
    rows = rows.join(lookup, on=condition, how="full" if step.keeps_right else "left")
    matched = F.col(step.alias).isNotNull()
    was_alive = F.coalesce(F.col(ALIVE), F.lit(False))
    judged = was_alive & F.col(sources.spec.driving).isNotNull()
    alive = {"inner": was_alive & matched, "left": was_alive, "right": matched, "full": was_alive | matched}[step.how]
    coalesced = {k: F.coalesce(F.col(k), F.col(n)) for k, n in zip(keys, names, strict=True)}
    partners = {name_partners(step.alias): _count_partners(judged, judged & matched, F.lit(0))}
    return rows.withColumns({**coalesced, **partners, ALIVE: alive}).drop(*names)


def _join_foreign_key(sources: Sources, rows: DataFrame, affected: Affected | None, step: Step) -> DataFrame:
    """Join a lookup by what the row says its key is; a null in the foreign key matches nothing (KIP-962).

    Rows with a null foreign key are spread over ``asof.SALTS`` values of a second join column: an outer join would send
    them all to one task. In an as-of join, the last part of the foreign key is found first: the time from which the
    version of the row's moment holds.
    """
    spec = sources.spec
    names, keys = name_reference(len(step.references)), name_left_key(len(spec.key_columns))
    wanted = [f"__enrich_f{i}" for i in range(len(names))]
    rows = _add_key(spec, rows)
    parts = [_guard(step, part) for part in step.references]
    parts = normalise.normalise_references(parts, spec.sources[step.alias])
    rows = rows.withColumns(dict(zip(wanted, parts, strict=True)))
    rows = rows.drop("key") if spec.has_key else rows
    rows = rows.withColumn(asof.SALT, asof.spread_nulls(keys, wanted))
    is_null = has_null(wanted)
    moment = F.col(wanted[-1])
    if step.at is None:
        rows, lookup = _look_up(sources, step, rows, wanted)
    else:
        rows, lookup = _look_up(sources, step, rows, wanted[:-1])
        rows = asof.find_latest(rows, lookup.select(*names), wanted)
        wanted = [*wanted[:-1], asof.LATEST]
        rows = rows.withColumn(asof.SALT, asof.spread_nulls(keys, wanted))
    lookup = lookup.withColumn("__enrich_zero", F.lit(0))
    condition = reduce(and_, [F.col(w) == F.col(n) for w, n in zip(wanted, names, strict=True)])
    condition = condition & (F.col(asof.SALT) == F.col("__enrich_zero"))
    joined = rows.join(lookup, on=condition, how="left")
    if step.at is not None:
        joined = joined.withColumn(step.alias, asof.keep_valid(step, moment))
    matched = F.col(step.alias).isNotNull()
    judged = F.col(ALIVE) & F.col(spec.driving).isNotNull()
    added = {name_partners(step.alias): _count_partners(judged, judged & matched, judged & is_null)}
    if step.how in ("inner", "right"):
        added[ALIVE] = F.col(ALIVE) & matched
    used = [name for name in joined.columns if name.startswith("__enrich_f")]
    joined = joined.withColumns(added).drop(*names, *used, asof.LATEST, asof.SALT, "__enrich_zero")
    if not step.keeps_right:
        return joined
    return _bury(joined).unionByName(_find_unreferenced(sources, affected, step), allowMissingColumns=True)


def _look_up(sources: Sources, step: Step, rows: DataFrame, wanted: Sequence[str]) -> tuple[DataFrame, DataFrame]:
    """Return rows, to go on with, and those of their lookup that they may refer to, in their columns ``wanted``.

    These may be the first parts of the lookup's key alone.
    """
    names = name_reference(len(wanted))
    lookup = sources.frame(step.alias, name_reference(len(sources.spec.sources[step.alias].key)))
    if step.alias not in sources.large:
        return rows, lookup
    rows = sources.keep(rows)
    keys = F.broadcast(drop_nulls(rows.select(*wanted).toDF(*names)).distinct())
    lookup = lookup.join(keys, on=names, how="left_semi")
    return rows, sources.keep(lookup) if step.at is not None else lookup


def _find_unreferenced(sources: Sources, affected: Affected | None, step: Step) -> DataFrame:
    """Return the rows of a right or full foreign-key lookup that no left row refers to."""
    spec = sources.spec
    names, rights = name_reference(len(step.on)), name_right_key(len(step.on))
    lookup = sources.frame(step.alias, rights)
    if affected is not None and affected.right is not None:
        lookup = lookup.join(affected.right, on=rights, how="left_semi")
    used = refer(apply_steps(sources, None, list_deciding_steps(spec, step, exact=True)), spec, step).select(*names)
    condition = reduce(and_, [F.col(r) == F.col(n) for r, n in zip(rights, names, strict=True)])
    alone = lookup.join(drop_nulls(used).distinct(), on=condition, how="left_anti")
    return alone.withColumns(_mark_alive())


def _join_interval(sources: Sources, rows: DataFrame, affected: Affected | None, step: Step) -> DataFrame:
    """Join what is near in time, a row a pair; it is the first join."""
    return interval.join_near(sources, rows, affected, step, ALIVE)


def _join_list(sources: Sources, rows: DataFrame, _affected: Affected | None, step: Step) -> DataFrame:
    """Join each element of an array in place; order, duplicates and null elements follow the row's own list."""
    spec = sources.spec
    (name,) = name_reference(1)
    rows = _add_key(spec, rows)
    rows = rows.withColumn("__enrich_items", _guard(step, step.elements or ""))
    rows = sources.keep(rows.drop("key") if spec.has_key else rows)
    identity = _list_identity(rows)

    def id_of(item: Column) -> Column:
        return item if step.element_key is None else item.getField(step.element_key)

    item = F.col("__enrich_item")
    exploded = rows.where(F.col(ALIVE)).select(
        *identity, F.posexplode("__enrich_items").alias("__enrich_at", "__enrich_item")
    )
    (wanted,) = normalise.normalise_references([id_of(item)], spec.sources[step.alias])
    exploded = exploded.withColumn("__enrich_id", wanted)
    if step.drop_duplicates:
        exploded = keep_first_of_each_id(exploded, identity)
    spread = F.when(F.col("__enrich_id").isNull(), F.pmod(F.hash(*identity, "__enrich_at"), F.lit(asof.SALTS)) + 1)
    exploded = exploded.withColumn("__enrich_salt", F.coalesce(spread, F.lit(0)))
    exploded, lookup = _look_up(sources, step, exploded, ["__enrich_id"])
    lookup = lookup.withColumn("__enrich_zero", F.lit(0))
    condition = (F.col("__enrich_id") == F.col(name)) & (F.col("__enrich_salt") == F.col("__enrich_zero"))
    lists = collect_elements(exploded.join(lookup, on=condition, how="left"), identity, spec.sources[step.alias], step)
    kind = lists.schema["__enrich_list"].dataType
    result = F.coalesce(F.col("__enrich_list"), F.array().cast(kind))
    rows = join_back(rows, lists, identity)
    has_driving = F.col(spec.driving).isNotNull()
    rows = rows.withColumns(
        {
            step.alias: F.when(F.col("__enrich_items").isNotNull(), result),
            name_partners(step.alias): _count_partners(*[F.when(has_driving, F.col(name)) for name in COUNTED]),
        }
    )
    return rows.drop("__enrich_items", "__enrich_list", *COUNTED)
