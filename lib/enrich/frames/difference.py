"""New rows of the affected keys and a table's rows -> the difference that leads from the one to the other.

====  ==================  =================  ===================
key   table               new rows           operations
====  ==================  =================  ===================
P1    (a)                 (b)                ``U``
P2    -                   (c)                ``I``
P3    (d)                 -                  ``D``
P4    (e)                 (e)                none
P5    (f), (f)            (f)                ``D``, ``I``
====  ==================  =================  ===================

The comparison is null-safe on every column, maps and nested ones too, so a row that stays the same is not written. A
``D`` takes all rows of its key, so the ``I`` beside it must match none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from enrich.base.spec import COPIES, OPERATION, Affected, quote
from enrich.frames.columns import Ranges, count_with_ranges, keep_in_ranges, make_comparable
from enrich.frames.identity import Identity, keep_affected

_NEW, _OLD, _STEPS, _EMPTIED = "__enrich_new", "__enrich_old", "__enrich_steps", "__enrich_emptied"
_WANTED, _THERE, _EQUAL = "__enrich_wanted", "__enrich_there", "__enrich_equal"
_WAS = "__enrich_was"

_SENT = 1_000_000
"""Keys of numbers and times that are sent to every task that reads the table: some 30 MB."""


@dataclass(frozen=True)
class Difference:
    """What has to be written.

    Attributes:
        rows: The identity's columns, ``OPERATION`` and the table's columns (null for deletes); computed already where
            the table had to be read for it.
        inserted: Rows that the table lacks.
        updated: Rows that it has with other values.
        deleted: Rows that it should not have, further copies of a row among them.
        emptied: Updated rows in which a value becomes null, when that was asked.
        has_copies: Whether several rows of the table may have one identity.
        operations: Operation -> number of its rows in ``rows``, where there are any.
        nulls: When images were asked for, column -> by how many rows it is null in more of the table than before.
        images: When they were asked for, the changed rows as they are now, weight 1, and as they were, weight -1.
        ranges: Parts of the identity -> the least and the greatest value in ``rows``, as ``count_with_ranges`` finds
            them; empty where nothing was compared.
    """

    rows: DataFrame
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    emptied: int = 0
    has_copies: bool = False
    operations: Mapping[str, int] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)
    images: tuple[tuple[DataFrame, int], ...] = ()
    ranges: Ranges = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True when the table is already as it should be."""
        return not (self.inserted or self.updated or self.deleted)


def compute_difference(  # noqa: PLR0913 - what is compared, and what beside the rows is wanted
    new: DataFrame,
    table: DataFrame | None,
    identity: Identity,
    affected: Affected | None = None,
    *,
    has_copies: bool = False,
    emptied_in: Collection[str] = (),
    remember: Collection[str] | None = None,
    counted: int | None = None,
) -> Difference:
    """Compare the new rows of the affected keys with what the table holds for them.

    Args:
        new: The identity's columns and the table's columns, one row per identity; ``COPIES`` says how often a row
            shall stand in the table, once where there is no such column.
        table: The table's rows at its pinned version; None when it does not exist. A column that is no part of the
            identity may have another type than in ``new``: then the rows differ.
        identity: How rows are told apart.
        affected: The affected identities; None for all. Rows that have a part of the identity that is not among these
            are always compared.
        has_copies: Whether rows of the table may share an identity.
        emptied_in: Count the rows in which a value of these columns becomes null; not with ``has_copies``.
        remember: Give the changed rows' images, these columns with their values and the others with true where there
            is one; None: no images. Not with ``has_copies``.
        counted: How many new rows there are, where that is known.
    """
    names = identity.names
    columns = [name for name in new.columns if name not in (*names, COPIES)]
    if table is None and COPIES not in new.columns:
        return _take_all(new, names, columns, new.count() if counted is None else counted)
    wanted = F.col(COPIES) if COPIES in new.columns else F.lit(1)
    fresh = new.select(*names, F.struct(*[F.col(quote(name)) for name in columns]).alias(_NEW), wanted.alias(_WANTED))
    if table is None:
        found = fresh.withColumns({_THERE: F.lit(0), _EQUAL: F.lit(0), _EMPTIED: F.lit(False)})
    else:
        stale = _take_old_rows(table, new, identity, columns)
        stale = stale if affected is None else _keep_affected(stale, affected, identity)
        was = None if remember is None else _take_image(_OLD, columns, remember)
        found = _pair(fresh, stale, identity, emptied_in=emptied_in, was=was)
        found = _count_copies(found, names) if has_copies else found
    # A checkpoint and not a cache: MERGE would stage a cached source once more, and refuses one that it may not stage.
    found = found.withColumn(_STEPS, _list_steps()).where(F.col(_STEPS).isNotNull()).localCheckpoint(eager=False)
    is_updated = (F.col(_WANTED) > 0) & (F.col(_THERE) > 0) & (F.col(_EQUAL) == 0)
    growth = F.col(_WANTED) - F.col(_THERE)
    (_, *counts), ranges = count_with_ranges(
        found,
        names,
        F.coalesce(F.sum(F.greatest(growth, F.lit(0))), F.lit(0)),
        F.count_if(is_updated),
        F.coalesce(F.sum(F.greatest(-growth, F.lit(0))), F.lit(0)),
        F.count_if(is_updated & F.col(_EMPTIED)),
        *[F.coalesce(F.sum(_count_steps(letter)), F.lit(0)) for letter in "IUD"],
        *(map(_count_new_nulls, columns) if remember is not None and table is not None else ()),
    )
    rows = found.withColumn(OPERATION, F.explode(_STEPS))
    rows = rows.select(*names, OPERATION, *[F.col(_NEW).getField(name).alias(name) for name in columns])
    inserted, updated, deleted, emptied = counts[:4]
    operations = {letter: count for letter, count in zip("IUD", counts[4:7], strict=True) if count}
    images: tuple[tuple[DataFrame, int], ...] = ()
    if remember is not None and table is not None:
        now = found.where(F.col(_NEW).isNotNull()).select(_take_image(_NEW, columns, remember).alias(_WAS))
        were = found.where(F.col(_THERE) > 0)
        images = (now.select(f"{_WAS}.*"), 1), (were.select(f"{_WAS}.*"), -1)
    nulls = dict(zip(columns, counts[7:], strict=True)) if images else {}
    return Difference(rows, inserted, updated, deleted, emptied, has_copies, operations, nulls, images, ranges)


def _count_new_nulls(column: str) -> Column:
    """Count the changed rows that have a null in a column now, less those that had one."""
    has_now = F.col(_NEW).isNotNull() & F.col(_NEW).getField(column).isNull()
    had = (F.col(_THERE) > 0) & F.col(_WAS).getField(column).isNull()
    return F.coalesce(F.sum(has_now.cast("int") - had.cast("int")), F.lit(0))


def _take_image(row: str, columns: Sequence[str], remember: Collection[str]) -> Column:
    """Return what is remembered of a row: some values, and of the others whether there is one."""
    values = {name: F.col(row).getField(name) for name in columns}
    kept = [
        (value if name in remember else F.when(value.isNotNull(), F.lit(True))).alias(name)
        for name, value in values.items()
    ]
    return F.struct(*kept)


def _take_all(new: DataFrame, names: Sequence[str], columns: Sequence[str], count: int) -> Difference:
    """Return all rows as new ones: there is nothing to compare them with, so they need not be computed beforehand."""
    rows = new.select(*names, F.lit("I").alias(OPERATION), *[F.col(quote(name)) for name in columns])
    return Difference(rows, count, operations={"I": count} if count else {})


def _count_steps(letter: str) -> Column:
    return F.size(F.filter(_STEPS, lambda each: each == letter))


def _list_steps() -> Column:
    """Return the operations that lead from the rows of an identity to those that it shall have; null for none."""
    wanted, there = F.col(_WANTED).cast("int"), F.col(_THERE)
    inserts = F.array_repeat(F.lit("I"), wanted)
    return (
        F.when((wanted == there) & (F.col(_EQUAL) == there), None)
        .when(there == 0, inserts)
        .when(wanted == 0, F.array(F.lit("D")))
        .when((wanted == 1) & (there == 1), F.array(F.lit("U")))
        .otherwise(F.concat(F.array(F.lit("D")), inserts))
    )


def _take_old_rows(table: DataFrame, new: DataFrame, identity: Identity, columns: Sequence[str]) -> DataFrame:
    """Return a table's rows under their identity, as a struct; columns that it lacks are null."""
    missing = [F.lit(None).cast(new.schema[name].dataType).alias(name) for name in columns if name not in table.columns]
    kept = [F.col(quote(name)) for name in columns if name in table.columns]
    row = F.struct(*kept, *missing).alias(_OLD)
    return table.select(*[part.alias(name) for name, part in identity.of().items()], row)


def _keep_affected(old: DataFrame, affected: Affected, identity: Identity) -> DataFrame:
    # Behind a right or full join the left key may be null.
    near = old if identity.right else keep_in_ranges(old, affected.ranges)
    kept = keep_affected(near, _send_few_keys(affected), identity)
    for name in [name for name in identity.names if name not in identity.keys]:
        kept = kept.unionByName(old.where(F.col(name).isNotNull()))
    return kept


def _send_few_keys(affected: Affected) -> Affected:
    """Let keys be sent to every task while they are not large: otherwise all rows of the table would be shuffled.

    Keys that nobody has counted may be any number.
    """
    kinds = (T.NumericType, T.DateType, T.TimestampType, T.TimestampNTZType)
    is_small = 0 < affected.count <= _SENT and all(isinstance(each.dataType, kinds) for each in affected.left.schema)
    return replace(affected, left=F.broadcast(affected.left)) if is_small and affected.right is None else affected


def _pair(
    fresh: DataFrame, stale: DataFrame, identity: Identity, *, emptied_in: Collection[str], was: Column | None
) -> DataFrame:
    """Join new and old rows on their identity.

    Returns:
        The identity's columns, ``_NEW`` and ``_WANTED`` of the new rows, ``_THERE`` (1 when there is an old row),
        ``_EQUAL`` (1 when it is the same), whether a value has become null, and ``was`` as ``_WAS``.
    """
    names = identity.names
    stale = stale.withColumnsRenamed({name: f"{name}_old" for name in names})
    condition = reduce(and_, [identity.same(F.col(name), F.col(f"{name}_old")) for name in names])
    now, before = F.col(_NEW), F.col(_OLD)
    fields, kinds = _take_fields(fresh, _NEW), {each.name: each.dataType for each in _take_fields(stale, _OLD)}
    same = reduce(and_, [_compare(each.name, each.dataType, kinds[each.name]) for each in fields])
    lost = [(each.name, each.dataType) for each in fields if each.name in emptied_in]
    emptied = reduce(
        or_, [tell_emptied(before.getField(n), kinds[n], now.getField(n), k) for n, k in lost], F.lit(False)
    )
    return fresh.join(stale, on=condition, how="full").select(
        *[F.when(now.isNull(), F.col(f"{name}_old")).otherwise(F.col(name)).alias(name) for name in names],
        now,
        F.coalesce(F.col(_WANTED), F.lit(0)).alias(_WANTED),
        before.isNotNull().cast("int").alias(_THERE),
        (now.isNotNull() & before.isNotNull() & same).cast("int").alias(_EQUAL),
        emptied.alias(_EMPTIED),
        *([was.alias(_WAS)] if was is not None else []),
    )


def _count_copies(pairs: DataFrame, names: Sequence[str]) -> DataFrame:
    """Bring the pairs of an identity into one row."""
    return pairs.groupBy(*names).agg(
        F.first(_NEW, ignorenulls=True).alias(_NEW),
        F.max(_WANTED).alias(_WANTED),
        F.sum(_THERE).alias(_THERE),
        F.sum(_EQUAL).alias(_EQUAL),
        F.lit(False).alias(_EMPTIED),
    )


def _take_fields(rows: DataFrame, column: str) -> Sequence[T.StructField]:
    """Return the fields of a struct column."""
    fields: Sequence[T.StructField] = rows.schema[column].dataType.fields  # type: ignore[attr-defined]
    return fields


def _compare(name: str, kind: T.DataType, was: T.DataType) -> Column:
    """Tell whether a column of the new row says the same as in the old one. Whether a part may be null is no matter."""
    if kind.simpleString().lower() != was.simpleString().lower():
        return F.lit(False)
    now, before = (make_comparable(F.col(row).getField(name), kind) for row in (_NEW, _OLD))
    return now.eqNullSafe(before)


def tell_emptied(before: Column, was: T.DataType, now: Column, kind: T.DataType) -> Column:
    """Tell whether a value, or a part of it, is null in the new row and was not in the old one; never null.

    A struct has lost something when one of its fields has; a list or a map, when more of its elements or values than
    before are null or have a null in them. What only one of the two types has is not looked at.

    Args:
        before: The old value.
        was: Its type.
        now: The new value.
        kind: Its type.
    """
    parts = [before.isNotNull() & now.isNull()]
    if isinstance(was, T.StructType) and isinstance(kind, T.StructType):
        pairs = _pair_fields(was, kind)
        parts += [tell_emptied(before.getField(a.name), a.dataType, now.getField(b.name), b.dataType) for a, b in pairs]
    elif not isinstance(was, T.StructType) and not isinstance(kind, T.StructType):
        lost = _count_lost(before, was, now, kind)
        parts += [lost] if lost is not None else []
    return F.coalesce(reduce(or_, parts), F.lit(False))


def _count_lost(before: Column, was: T.DataType, now: Column, kind: T.DataType) -> Column | None:
    """Tell whether more elements of a list, or values of a map, have a null than before; None for other types."""
    pair = _pair_elements(was, kind)
    if pair is None:
        return None
    old, new = _find_hole(*pair), _find_hole(*reversed(pair))
    return _count_elements(now, kind, new) > _count_elements(before, was, old)


def _pair_elements(was: T.DataType, kind: T.DataType) -> tuple[T.DataType, T.DataType] | None:
    if isinstance(was, T.ArrayType) and isinstance(kind, T.ArrayType):
        return was.elementType, kind.elementType
    if isinstance(was, T.MapType) and isinstance(kind, T.MapType):
        return was.valueType, kind.valueType
    return None


def _pair_fields(was: T.StructType, kind: T.StructType) -> list[tuple[T.StructField, T.StructField]]:
    """Return the fields that two structs share, whatever the case of their names."""
    there = {field.name.lower(): field for field in was.fields}
    return [(there[field.name.lower()], field) for field in kind.fields if field.name.lower() in there]


def _count_elements(value: Column, kind: T.DataType, holds: Callable[[Column], Column]) -> Column:
    """Count the elements or values of which a condition is true; none where there is no list."""
    elements = F.map_values(value) if isinstance(kind, T.MapType) else value
    return F.when(value.isNotNull(), F.size(F.filter(elements, holds))).otherwise(0)


def _find_hole(kind: T.DataType, other: T.DataType) -> Callable[[Column], Column]:
    """Return what tells whether a value is null or has a null in it, in the parts that ``other`` has, too."""
    pair = _pair_elements(kind, other)

    def holds(value: Column) -> Column:
        parts = [value.isNull()]
        if isinstance(kind, T.StructType) and isinstance(other, T.StructType):
            shared = _pair_fields(kind, other)
            parts += [_find_hole(ours.dataType, theirs.dataType)(value.getField(ours.name)) for ours, theirs in shared]
        elif pair is not None:
            parts.append(_count_elements(value, kind, _find_hole(*pair)) > 0)
        return F.coalesce(reduce(or_, parts), F.lit(False))

    return holds
