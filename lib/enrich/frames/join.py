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
from enrich.frames.columns import drop_nulls, evaluate_where, has_null
from enrich.frames.order import leave_own_rows_out, list_deciding_steps, list_earlier_steps
from enrich.frames.sources import Sources as Sources  # noqa: PLC0414 - its users know it as a part of this module

ALIVE = "__enrich_alive"
SALT = "__enrich_salt"
"""Of a row: 0 when it may have a partner; anything else spreads rows that cannot."""
SALTS = 64
"""Over how many values rows are spread that cannot have a partner."""


def join_all(sources: Sources, affected: Affected | None) -> DataFrame:
    """Join the affected rows anew.

    Returns:
        ``__enrich_k*``, ``__enrich_r*`` (when the job has a right or full foreign-key join, or an interval join),
        ``LIVE``, one ``name_partners`` a join, and the target's columns. ``affected=None`` means all keys.
    """
    spec = sources.spec
    rows = add_key(spec, apply_steps(sources, affected, spec.steps))
    identity = list_identity(rows)
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
        kind = sources.frame(alias, name_right_key(len(spec.sources[alias].key))).schema[alias].dataType
        start, steps = start.withColumn(alias, F.lit(None).cast(kind)), [each for each in steps if each.alias != alias]
    joined = add_key(spec, _apply_each(sources, start.withColumns(mark_alive()), None, steps))
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
    return _apply_each(sources, rows.withColumns(mark_alive()), affected, steps)


def list_identity(rows: DataFrame) -> list[str]:
    """Return the columns that tell joined rows apart: ``__enrich_k*`` and ``__enrich_r*``."""
    return [name for name in rows.columns if name.startswith(("__enrich_k", "__enrich_r"))]


def mark_alive() -> dict[str, Column]:
    """Return the column by which a row is there."""
    return {ALIVE: F.lit(True)}


def count_partners(rows: Column, matched: Column, nulls: Column) -> Column:
    """Return how a join went for a row, as ``name_partners`` tells it."""
    parts = {"rows": rows, "matched": matched, "nulls": nulls}
    return F.struct(*[F.coalesce(part.cast("int"), F.lit(0)).alias(name) for name, part in parts.items()])


def _apply_each(sources: Sources, rows: DataFrame, affected: Affected | None, steps: Sequence[Step]) -> DataFrame:
    for step in steps:
        rows = sources.kind_of(step).join(sources, rows, affected, step)
    return rows


def find_partners(sources: Sources, step: Step, affected: Affected) -> DataFrame:
    """Return how one join goes for affected driving rows, as it does on the way to the target.

    Returns:
        ``__enrich_k*``, with an interval join ``__enrich_r*``, and the step's ``name_partners``.
    """
    steps = leave_own_rows_out((*list_earlier_steps(sources.spec, step), step))
    rows = apply_steps(sources, affected, steps)
    return rows.select(*list_identity(rows), name_partners(step.alias))


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
    carried = [spec.driving] if carry and sources.kind_of(step).CARRIES and not before else []
    found = refer(sources, apply_steps(sources, affected, before), step, carried)
    names = [name for name in found.columns if name.startswith("__enrich_j")]
    found = drop_nulls(found, names)
    return found if changed is None else sources.kind_of(step).narrow(sources, found, step, changed)


def refer(sources: Sources, rows: DataFrame, step: Step, carried: Sequence[str] = ()) -> DataFrame:
    """Return what the live rows before a join refer to, as ``references`` does, references that are null included.

    A list that is null refers to null once; an empty one refers to nothing. In an interval join, what ``match`` equals
    is the reference.
    """
    spec = sources.spec
    rows = add_key(spec, rows).where(F.col(ALIVE))
    identity = list_identity(rows)
    rows, parts = sources.kind_of(step).refer(rows, spec, step)
    names = name_reference(len(parts))
    return rows.select(*identity, *[part.alias(name) for part, name in zip(parts, names, strict=True)], *carried)


def guard(step: Step, expression: str) -> Column:
    """Evaluate what a join refers by on live rows alone: it must not fail on one that an earlier join has removed."""
    return evaluate_where(F.col(ALIVE), expression, is_plain=step.is_plain)


def add_key(spec: JoinSpec, rows: DataFrame) -> DataFrame:
    """Add ``key``, the coalesced key: a scalar, or a struct under the driving source's names."""
    if not spec.has_key:
        return rows
    names = name_left_key(len(spec.key_columns))
    parts = [F.col(name).alias(column) for name, column in zip(names, spec.key_columns, strict=True)]
    return rows.withColumn("key", F.col(names[0]) if len(names) == 1 else F.struct(*parts))


def bury(rows: DataFrame) -> DataFrame:
    """Empty the aliases of dead rows: what follows must not see a side that SQL has dropped."""
    aliases = [name for name in rows.columns if not name.startswith("__enrich_")]
    return rows.withColumns({name: F.when(F.col(ALIVE), F.col(name)) for name in aliases})


def look_up(sources: Sources, step: Step, rows: DataFrame, wanted: Sequence[str]) -> tuple[DataFrame, DataFrame]:
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


def spread_nulls(keys: Sequence[str], names: Sequence[str]) -> Column:
    """Return 0 where all of the columns ``names`` have a value, and elsewhere a number that depends on ``keys``."""
    is_null = has_null(names)
    return F.when(is_null, F.pmod(F.hash(*keys), F.lit(SALTS)) + 1).otherwise(0)
