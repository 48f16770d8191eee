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

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_, or_

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from enrich.base.schemas import CHECK, GENERATED, LENGTH, NOT_NULL, Constraint, Demands
from enrich.base.spec import (
    COPIES,
    FAILED_COLUMN,
    KEY_NOT_NULL,
    OPERATION,
    Affected,
    name_left_key,
    name_right_key,
    quote,
)
from enrich.frames.columns import Ranges, aggregate, count_with_ranges, has_null, keep_in_ranges, make_comparable

# --- How the rows of a table are told apart: by the left key, where there is none by the lookup's; pairs by both -----


@dataclass(frozen=True)
class Identity:
    """How a table's rows are told apart.

    Attributes:
        left: Columns that hold the left key.
        right: Columns that hold the lookup's key; they count only where the left key has a null.
        has_pairs: Whether they always count, as in an interval join: a left key has a row for each partner.
    """

    left: tuple[str, ...]
    right: tuple[str, ...] = ()
    has_pairs: bool = False

    @property
    def keys(self) -> list[str]:
        """The columns of both keys in staged frames."""
        return [*name_left_key(len(self.left)), *name_right_key(len(self.right))]

    @property
    def names(self) -> list[str]:
        """The identity's columns in staged frames."""
        return self.keys

    def of(self, prefix: str = "") -> dict[str, Column]:
        """Return staged name -> expression over the table's columns (below ``prefix``)."""

        def column(name: str) -> Column:
            return F.col(prefix + quote(name))

        lefts = {name: column(of) for name, of in zip(name_left_key(len(self.left)), self.left, strict=True)}
        rights = {name: column(of) for name, of in zip(name_right_key(len(self.right)), self.right, strict=True)}
        if not self.has_pairs:
            lookup_only = reduce(or_, [part.isNull() for part in lefts.values()])
            rights = {name: F.when(lookup_only, part) for name, part in rights.items()}
        return {**lefts, **rights}

    def same(self, ours: Column, theirs: Column) -> Column:
        """Compare one part; with right keys a part may be null on both sides."""
        return ours.eqNullSafe(theirs) if self.right else ours == theirs


def drop_affected(rows: DataFrame, affected: Affected, identity: Identity) -> DataFrame:
    """Return the rows that have no affected key: a left one for all its rows, a right one for that without left."""
    left, right = _split_keys(affected, identity)
    kept = _join_keys(rows, left, identity, "left_anti")
    if right is None:
        return kept
    return _join_keys(kept, right, identity, "left_anti", has_null(name_left_key(len(identity.left))))


def _split_keys(affected: Affected, identity: Identity) -> tuple[DataFrame, DataFrame | None]:
    """Return the keys that are compared first, and those of rows without left side where these are compared apart.

    But for pairs, the keys of both sides are compared at once, null on the side that they do not have.
    """
    if affected.right is None or identity.has_pairs:
        return affected.left, affected.right
    return affected.left.unionByName(affected.right, allowMissingColumns=True), None


def _join_keys(rows: DataFrame, keys: DataFrame, identity: Identity, how: str, only: Column | None = None) -> DataFrame:
    names = [name for name in identity.names if name in keys.columns]
    renamed = keys.withColumnsRenamed({name: f"{name}_of" for name in names})
    condition = reduce(and_, [identity.same(F.col(name), F.col(f"{name}_of")) for name in names])
    return rows.join(renamed, on=condition if only is None else condition & only, how=how)


# --- What has to be written -----------------------------------------------------------------------------------------

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
        # There is nothing to compare them with, so they need not be computed beforehand.
        rows = new.select(*names, F.lit("I").alias(OPERATION), *[F.col(quote(name)) for name in columns])
        count = new.count() if counted is None else counted
        return Difference(rows, count, operations={"I": count} if count else {})
    wanted = F.col(COPIES) if COPIES in new.columns else F.lit(1)
    fresh = new.select(*names, F.struct(*[F.col(quote(name)) for name in columns]).alias(_NEW), wanted.alias(_WANTED))
    if table is None:
        found = fresh.withColumns({_THERE: F.lit(0), _EQUAL: F.lit(0), _EMPTIED: F.lit(False)})
    else:
        missing = [name for name in columns if name not in table.columns]
        row = F.struct(
            *[F.col(quote(name)) for name in columns if name not in missing],
            *[F.lit(None).cast(new.schema[name].dataType).alias(name) for name in missing],
        )
        stale = table.select(*[part.alias(name) for name, part in identity.of().items()], row.alias(_OLD))
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


def _keep_affected(old: DataFrame, affected: Affected, identity: Identity) -> DataFrame:
    """Keep the old rows of affected keys, and those of another identity.

    Keys are sent to every task while they are not large: otherwise all rows of the table would be shuffled. Keys that
    nobody has counted may be any number.
    """
    # Behind a right or full join the left key may be null.
    near = old if identity.right else keep_in_ranges(old, affected.ranges)
    kinds = (T.NumericType, T.DateType, T.TimestampType, T.TimestampNTZType)
    is_small = 0 < affected.count <= _SENT and all(isinstance(each.dataType, kinds) for each in affected.left.schema)
    if is_small and affected.right is None:
        affected = replace(affected, left=F.broadcast(affected.left))
    left, right = _split_keys(affected, identity)
    kept = _join_keys(near, left, identity, "left_semi")
    if right is not None:  # a left key stands for all its rows, a right one for that without left
        lookup_only = has_null(name_left_key(len(identity.left)))
        kept = kept.unionByName(_join_keys(near.where(lookup_only), right, identity, "left_semi"))
    for name in [name for name in identity.names if name not in identity.keys]:
        kept = kept.unionByName(old.where(F.col(name).isNotNull()))
    return kept


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


# --- What a value has lost ------------------------------------------------------------------------------------------


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
    for old, new in _pair_fields(was, kind):
        parts.append(tell_emptied(before.getField(old.name), old.dataType, now.getField(new.name), new.dataType))
    if _pair_elements(was, kind) is not None:
        parts.append(_count_holes(now, kind, was) > _count_holes(before, was, kind))
    return F.coalesce(reduce(or_, parts), F.lit(False))


def _pair_fields(one: T.DataType, other: T.DataType) -> list[tuple[T.StructField, T.StructField]]:
    """Return the fields that two structs share, whatever the case of their names; none for other types."""
    if not isinstance(one, T.StructType) or not isinstance(other, T.StructType):
        return []
    there = {each.name.lower(): each for each in one.fields}
    return [(there[each.name.lower()], each) for each in other.fields if each.name.lower() in there]


def _pair_elements(one: T.DataType, other: T.DataType) -> tuple[T.DataType, T.DataType] | None:
    """Return the types of the elements of two lists, or of the values of two maps; None for other types."""
    if isinstance(one, T.ArrayType) and isinstance(other, T.ArrayType):
        return one.elementType, other.elementType
    if isinstance(one, T.MapType) and isinstance(other, T.MapType):
        return one.valueType, other.valueType
    return None


def _count_holes(value: Column, kind: T.DataType, other: T.DataType) -> Column:
    """Count the elements or values that are null or have a null in them, in the parts that ``other`` has, too."""
    pair = _pair_elements(kind, other)
    assert pair is not None  # noqa: S101 - callers have looked

    elements = F.map_values(value) if isinstance(kind, T.MapType) else value
    return F.when(value.isNotNull(), F.size(F.filter(elements, lambda each: _has_hole(each, *pair)))).otherwise(0)


def _has_hole(value: Column, kind: T.DataType, other: T.DataType) -> Column:
    parts = [value.isNull()]
    parts += [
        _has_hole(value.getField(ours.name), ours.dataType, theirs.dataType)
        for ours, theirs in _pair_fields(kind, other)
    ]
    if _pair_elements(kind, other) is not None:
        parts.append(_count_holes(value, kind, other) > 0)
    return F.coalesce(reduce(or_, parts), F.lit(False))


# --- What a table's constraints demand of rows that are about to be written -----------------------------------------

_VIOLATED = "__enrich_violated_"


def complete_rows(rows: DataFrame, table: DataFrame | None, identity: Identity, demands: Demands) -> DataFrame:
    """Return the rows that a difference writes as the table will hold them.

    Args:
        rows: The identity's columns, ``OPERATION`` and the columns that are written.
        table: The table's rows with all its columns; None where none of them stay.
        identity: How rows are told apart.
        demands: What the table fills in by itself.

    Returns:
        The identity's columns and those of ``rows`` and of ``table``.
    """
    written = {name.lower() for name in rows.columns}
    rows = rows.where(F.col(OPERATION).isin("I", "U")) if OPERATION in rows.columns else rows
    lacking = [name for name in table.columns if name.lower() not in written] if table is not None else []
    stored = [name for name in lacking if name not in demands.generated]
    if table is not None and stored:
        known = table.select(
            *[part.alias(f"{name}_of") for name, part in identity.of().items()],
            *[F.col(quote(name)).alias(f"{name}_was") for name in stored],
        )
        names = identity.names
        same = [F.col(name).eqNullSafe(F.col(f"{name}_of")) for name in names]
        kinds = {name: table.schema[name].dataType for name in stored}
        filled = [
            F.when(F.col(OPERATION) == "U", F.col(quote(f"{name}_was")))
            .otherwise(F.expr(demands.defaults.get(name) or "null").cast(kinds[name]))
            .alias(name)
            for name in stored
        ]
        rows = rows.join(known, on=same, how="left").select(*[F.col(quote(name)) for name in rows.columns], *filled)
    computed = {name: F.expr(demands.generated[name]) for name in lacking if name in demands.generated}
    return rows.withColumns(computed) if computed else rows


def fill_generated(rows: DataFrame, generated: Mapping[str, str]) -> DataFrame:
    """Return rows in which generated columns that they have are computed where they are null, if they can be."""
    for name, expression in generated.items():
        value = F.coalesce(F.col(quote(name)), F.expr(expression))
        if name in rows.columns and _can_compute(rows, value):
            rows = rows.withColumn(name, value.cast(rows.schema[name].dataType))
    return rows


def mark_violations(
    rows: DataFrame, constraints: Sequence[Constraint]
) -> tuple[DataFrame, dict[Constraint, tuple[Column, int]]]:
    """Return rows with a column for each constraint, and of each that does not hold this column and its rows' number.

    A constraint that cannot be computed here, for instance with a function that only another program has, is left to
    Delta.
    """
    marks = {}
    for at, each in enumerate(constraints):
        column = F.col(quote(*each.path)) if each.path else F.lit(None)
        violated = {  # as Delta sees it: a CHECK that is null does not hold
            NOT_NULL: column.isNull(),
            LENGTH: F.coalesce(F.length(column) > each.limit, F.lit(False)) if each.type == LENGTH else column,
            CHECK: ~F.coalesce(F.expr(each.expression or "true"), F.lit(False)),
            GENERATED: ~column.eqNullSafe(F.expr(each.expression or "true")),
        }[each.type]
        if _can_compute(rows, violated):
            marks[f"{_VIOLATED}{at}"] = (each, violated)
    if not marks:
        return rows, {}
    marked = rows.withColumns({name: violated for name, (_, violated) in marks.items()})
    counts = aggregate(marked, *[F.count_if(F.col(name)) for name in marks])
    return marked, {
        each: (F.col(name), count) for (name, (each, _)), count in zip(marks.items(), counts, strict=True) if count
    }


def _can_compute(rows: DataFrame, condition: Column) -> bool:
    try:
        rows.select(condition)
    except AnalysisException:
        return False
    return True


# --- Rows that are kept out of the target, as the quarantine table holds them ---------------------------------------
#
# The quarantine is the function of the pinned sources that the target is, for the rows that the target may not have: a
# row that passes again leaves it, a row that is deleted at its source disappears from it, nothing is appended twice.
# Rows with a whole key are told apart by the target's key. Rows of the driving source that have a null in their key
# have nothing to be told apart by but their content: as a multiset, they are exactly those of the pinned snapshot.

_CONTENT = "__enrich_content"
_EXACT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}
"""How JSON tells all values apart: by default it cuts timestamps to milliseconds and leaves out nulls."""


@dataclass(frozen=True)
class QuarantineIdentity(Identity):
    """How the rows of a quarantine are told apart: by the target's key, or by their content when they have none.

    Attributes:
        columns: The target's columns.
        stored: Those that the table does not have in their type yet -> what takes their place, over its columns.
    """

    columns: tuple[T.StructField, ...] = ()
    stored: Mapping[str, Column] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The identity's columns in staged frames."""
        return [*self.keys, _CONTENT]

    def of(self, prefix: str = "") -> dict[str, Column]:
        """Return staged name -> expression over the table's columns (below ``prefix``)."""
        lacks_key = is_keyless(prefix)
        keyed = {name: F.when(~lacks_key, part) for name, part in super().of(prefix).items()}
        return {**keyed, _CONTENT: F.when(lacks_key, hash_content(self.columns, prefix, self.stored))}

    def same(self, ours: Column, theirs: Column) -> Column:
        """Compare one part, which may be null on both sides."""
        return ours.eqNullSafe(theirs)


def stage_quarantined_rows(bad: DataFrame, keyless: DataFrame | None, columns: Sequence[T.StructField]) -> DataFrame:
    """Put the rows that the quarantine gets into one frame.

    Args:
        bad: The columns of the target's identity, the target's columns and ``_failed``; one row per identity.
        keyless: The target's columns and ``_failed`` of the rows without key; None for none.
        columns: The target's columns.

    Returns:
        The same with the quarantine's identity and ``COPIES``, one row for all rows without key of one content.
    """
    failing = bad.withColumns({_CONTENT: F.lit(None).cast("string"), COPIES: F.lit(1).cast("long")})
    if keyless is None:
        return failing
    values = [F.any_value(quote(name)).alias(name) for name in keyless.columns]
    counted = keyless.groupBy(hash_content(columns).alias(_CONTENT)).agg(F.count("*").alias(COPIES), *values)
    return failing.unionByName(counted, allowMissingColumns=True)


def hash_content(
    columns: Sequence[T.StructField], prefix: str = "", stored: Mapping[str, Column] | None = None
) -> Column:
    """Return a fingerprint of a row's values in some columns, which are below the prefix unless they are ``stored``.

    Texts go in as bytes: JSON has the same character for all bytes that are no UTF-8.
    """
    stored, parts = stored or {}, []
    for i, each in enumerate(columns):
        kind = _read_as_bytes(each.dataType)
        column = stored.get(each.name, F.col(prefix + quote(each.name)))
        parts.append(make_comparable(column.cast(kind), kind).alias(f"c{i}"))
    return F.sha2(F.to_json(F.struct(*parts), _EXACT), 256)


def _read_as_bytes(kind: T.DataType) -> T.DataType:
    """Return a type with binaries in place of its texts."""
    if isinstance(kind, T.StructType):
        fields = [T.StructField(each.name, _read_as_bytes(each.dataType)) for each in kind.fields]
        return T.StructType(fields)
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_read_as_bytes(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(_read_as_bytes(kind.keyType), _read_as_bytes(kind.valueType))
    return T.BinaryType() if isinstance(kind, T.StringType) else kind


def is_keyless(prefix: str = "") -> Column:
    """Tell the rows without key apart in the quarantine table."""
    return F.coalesce(F.array_contains(F.col(prefix + FAILED_COLUMN), KEY_NOT_NULL), F.lit(False))
