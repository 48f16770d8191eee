"""Find the difference that leads from a table's rows to the new rows of the affected keys.

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

from enrich.base.result import Proof
from enrich.base.schemas import CHECK, GENERATED, LENGTH, NOT_NULL, Constraint, Demands
from enrich.base.spec import (
    COPIES,
    FAILED_COLUMN,
    KEYLESS,
    OPERATION,
    PLACE,
    WAS,
    Affected,
    name_left_key,
    name_right_key,
    quote,
)
from enrich.frames.columns import (
    PARTS,
    Keep,
    WriteRow,
    add_up,
    aggregate,
    call,
    has_null,
    hash_rows,
    keep_in_ranges,
    make_comparable,
    read_proof,
    unite,
)

# --- How the rows of a table are told apart: by the left key, where there is none by the lookup's; pairs by both -----


@dataclass(frozen=True)
class Identity:
    """How a table's rows are told apart."""

    left: tuple[str, ...]  # columns that hold the left key
    right: tuple[str, ...] = ()  # columns that hold the lookup's key; they count only where the left key has a null
    has_pairs: bool = False  # whether they always count, as in an interval join

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
        columns = [F.col(prefix + quote(name)) for name in (*self.left, *self.right)]
        found, lefts = dict(zip(self.keys, columns, strict=True)), columns[: len(self.left)]
        if self.right and not self.has_pairs:
            lookup_only = reduce(or_, [part.isNull() for part in lefts])
            found |= {name: F.when(lookup_only, found[name]) for name in name_right_key(len(self.right))}
        return found

    def same(self, ours: Column, theirs: Column) -> Column:
        """Compare one part; with right keys a part may be null on both sides."""
        return ours.eqNullSafe(theirs) if self.right else ours == theirs


def drop_affected(rows: DataFrame, affected: Affected, identity: Identity) -> DataFrame:
    """Return the rows that have no affected key: a left one for all its rows, a right one for that without left."""
    for keys, only in _list_keys(affected, identity):
        rows = _join_keys(rows, keys, identity, "left_anti", only)
    return rows


def _list_keys(affected: Affected, identity: Identity) -> list[tuple[DataFrame, Column]]:
    """Return affected keys, and which rows are compared with them."""
    left, right, all_rows = affected.left, affected.right, F.lit(True)
    if right is None:
        return [(left, all_rows)]
    if identity.has_pairs:
        return [(left, all_rows), (right, has_null(name_left_key(len(identity.left))))]
    # The keys of both sides at once, null on the side that they do not have.
    return [(left.unionByName(right, allowMissingColumns=True), all_rows)]


def _join_keys(rows: DataFrame, keys: DataFrame, identity: Identity, how: str, only: Column) -> DataFrame:
    names = [name for name in identity.names if name in keys.columns]
    renamed = keys.withColumnsRenamed({name: f"{name}_of" for name in names})
    same = [identity.same(F.col(name), F.col(f"{name}_of")) for name in names]
    return rows.join(renamed, on=reduce(and_, same) & only, how=how)


def place_rows(
    table: DataFrame, known: DataFrame, identity: Identity, affected: Affected, keep: Keep
) -> DataFrame | None:
    """Return a table's rows of the affected keys by a read of its keys alone; None where ``known`` does not tell them.

    In: ``table``, its columns and ``PLACE``; ``known``, the identity's columns and the table's, of all rows that it has
    of these keys, and of others that it has not.
    """
    both = known.drop(*identity.names), table.drop(PLACE)
    kinds = [{each.name: each.dataType.simpleString() for each in rows.schema.fields} for rows in both]
    if PLACE not in table.columns or kinds[0] != kinds[1]:
        return None
    names = identity.names
    keys = table.select(*[part.alias(name) for name, part in identity.of().items()], PLACE)
    there = _keep_affected(keys, affected, identity, len(names) + 1)
    there = keep(there.join(known.withColumn(_THERE, F.lit(1)), on=names, how="left"))
    rows, told = aggregate(there, F.count("*"), F.count(_THERE))
    return there.drop(_THERE, *names) if rows == told else None


# --- What has to be written -----------------------------------------------------------------------------------------

_NEW, _OLD, _STEPS, _EMPTIED = "__enrich_new", "__enrich_old", "__enrich_steps", "__enrich_emptied"
_WANTED, _THERE, _EQUAL = "__enrich_wanted", "__enrich_there", "__enrich_equal"
_WAS = "__enrich_image"
_GONE = [f"__enrich_gone{i}" for i in range(len(PARTS))]

_LIST_STEPS = """CASE WHEN `__enrich_wanted` = `__enrich_there` AND `__enrich_equal` = `__enrich_there` THEN NULL
WHEN `__enrich_there` = 0 THEN array_repeat('I', CAST(`__enrich_wanted` AS INT))
WHEN `__enrich_wanted` = 0 THEN array('D')
WHEN `__enrich_wanted` = 1 AND `__enrich_there` = 1 THEN array('U')
ELSE concat(array('D'), array_repeat('I', CAST(`__enrich_wanted` AS INT))) END"""
"""The operations that lead from the rows of an identity to those that it shall have; null for none."""

_UPDATED = "`__enrich_wanted` > 0 AND `__enrich_there` > 0 AND `__enrich_equal` = 0"
_COUNTS = (
    "coalesce(sum(greatest(`__enrich_wanted` - `__enrich_there`, 0)), 0)",
    call("count_if", _UPDATED),
    "coalesce(sum(greatest(`__enrich_there` - `__enrich_wanted`, 0)), 0)",
    call("count_if", _UPDATED + " AND `__enrich_emptied`"),
    "coalesce(sum(`__enrich_there`), 0)",
    *("".join(["coalesce(sum(size(filter(`__enrich_steps`, each -> each = '", each, "'))), 0)"]) for each in "IUD"),
)
"""Rows inserted, updated, deleted and emptied; rows that there were; and how many rows each operation has."""

_SENT = 1_000_000  # keys of numbers and times that are sent to every task that reads the table: some 30 MB


@dataclass(frozen=True)
class Difference:
    """What has to be written."""

    rows: DataFrame  # the identity's columns, ``OPERATION`` and the table's columns (null for deletes)
    inserted: int = 0  # rows that the table lacks
    updated: int = 0  # rows that it has with other values
    deleted: int = 0  # rows that it should not have, further copies of a row among them
    emptied: int = 0  # updated rows in which a value becomes null, when that was asked
    has_copies: bool = False  # whether several rows of the table may have one identity
    # Operation -> number of its rows in ``rows``, where there are any.
    operations: Mapping[str, int] = field(default_factory=dict)
    # When images were asked for, column -> by how many rows it is null in more of the table than before.
    nulls: Mapping[str, int] = field(default_factory=dict)
    # When they were asked for, the changed rows as they are now, weight 1, and as they were, weight -1.
    images: tuple[tuple[DataFrame, int], ...] = ()
    # Where the table's rows said where they stand, those that go or get other values: ``OPERATION``, the fields of
    # ``PLACE``, and, when that was asked, ``WAS``.
    old: DataFrame | None = None
    replaced: int = 0  # how many these are
    proof: Proof | None = None  # of the rows that come, less that of those that go; None when it was not asked

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
    keep_old: bool = False,
    write_row: WriteRow | None = None,
) -> Difference:
    """Compare the new rows of the affected keys with what the table holds for them.

    Args:
        new: The identity's columns and the table's columns, one row per identity; ``COPIES`` says how often a row
            shall stand in the table, once where there is no such column.
        table: The table's rows at its pinned version; None when it does not exist. Where a column has another type
            than in ``new``, the rows differ.
        identity: How rows are told apart.
        affected: The affected identities; None for all. Rows that have a part of the identity that is not among these
            are always compared.
        has_copies: Whether rows of the table may share an identity.
        emptied_in: Count the rows in which a value of these columns becomes null; not with ``has_copies``.
        remember: Give the changed rows' images, these columns with their values and the others with true where there
            is one; None: no images. Not with ``has_copies``.
        counted: How many new rows there are, where that is known.
        keep_old: Whether rows of ``old`` have their values.
        write_row: Gives the text of a row, for a proof; None: no proof. There is none where rows are not computed here.
    """
    names = identity.names
    columns = [name for name in new.columns if name not in (*names, COPIES)]
    if table is None and COPIES not in new.columns:
        # There is nothing to compare them with, so they need not be computed beforehand.
        rows = new.select(*names, F.lit("I").alias(OPERATION), *[F.col(quote(name)) for name in columns])
        count = new.count() if counted is None else counted
        return Difference(rows, count, operations={"I": count} if count else {})
    wanted = F.col(COPIES) if COPIES in new.columns else F.lit(1)
    leaving = _GONE if write_row else []
    fresh = new.select(*names, F.expr(call("struct", *map(quote, columns))).alias(_NEW), wanted.alias(_WANTED))
    if table is None:
        found = fresh.withColumns({**dict.fromkeys([_THERE, _EQUAL, *leaving], F.lit(0)), _EMPTIED: F.lit(False)})
    else:
        stale = _pack_old(table, identity, [new.schema[name] for name in columns], keep_old=keep_old)
        stale = stale if affected is None else _keep_affected(stale, affected, identity, len(columns))
        was = None if remember is None else _take_image(_OLD, columns, remember)
        found = _pair(fresh, stale, identity, emptied_in=emptied_in, was=was, write_row=write_row)
        found = _count_copies(found, names) if has_copies else found
    # A checkpoint and not a cache: MERGE would stage a cached source once more, and refuses one that it may not stage.
    found = found.withColumn(_STEPS, F.expr(_LIST_STEPS)).where(F.col(_STEPS).isNotNull()).localCheckpoint(eager=False)
    new_nulls = []  # by how many rows each column is null in more new rows than in old ones
    for name in columns if remember is not None and table is not None else ():
        now = " AND ".join([quote(_NEW) + " IS NOT NULL", quote(_NEW, name) + " IS NULL"])
        before = " AND ".join([quote(_THERE) + " > 0", quote(_WAS, name) + " IS NULL"])
        new_nulls.append(" - ".join([call("count_if", now), call("count_if", before)]))
    change = [add_up(F.expr(part) * F.col(_WANTED) - F.col(old)) for part, old in zip(PARTS, leaving, strict=False)]
    inserted, updated, deleted, emptied, replaced, *counts, nulls, parts = aggregate(
        hash_rows(found, write_row, columns, _NEW), *_COUNTS, call("array", *new_nulls), F.array(*change)
    )
    rows = found.withColumn(OPERATION, F.explode(_STEPS)).select(*names, OPERATION, quote(_NEW) + ".*")
    operations = {letter: count for letter, count in zip("IUD", counts, strict=True) if count}
    proof = read_proof(inserted - deleted, parts)
    result = Difference(rows, inserted, updated, deleted, emptied, has_copies, operations, proof=proof)
    if PLACE in found.columns:
        each = (F.explode(PLACE) if has_copies else F.col(PLACE)).alias(PLACE)
        gone = found.where(F.col(_THERE) > 0).select(F.element_at(_STEPS, 1).alias(OPERATION), each)
        result = replace(result, old=gone.select(OPERATION, f"{PLACE}.*"), replaced=replaced)
    if remember is None or table is None:
        return result
    came = found.where(F.col(_NEW).isNotNull()).select(_take_image(_NEW, columns, remember).alias(_WAS))
    images = (came.select(f"{_WAS}.*"), 1), (found.where(F.col(_THERE) > 0).select(f"{_WAS}.*"), -1)
    return replace(result, nulls=dict(zip(columns, nulls, strict=True)), images=images)


def _pack_old(table: DataFrame, identity: Identity, columns: Sequence[T.StructField], *, keep_old: bool) -> DataFrame:
    """Return the identity's columns of a table's rows, the rows as ``_OLD``, and ``PLACE``, if that is known."""
    # In the order of the new rows: rows are compared as wholes.
    parts = [
        F.col(quote(each.name)) if each.name in table.columns else F.lit(None).cast(each.dataType).alias(each.name)
        for each in columns
    ]
    row = F.struct(*parts)
    place = F.struct(f"{PLACE}.*", *([row.alias(WAS)] if keep_old else [])).alias(PLACE)
    keys = [part.alias(name) for name, part in identity.of().items()]
    return table.select(*keys, row.alias(_OLD), *([place] if PLACE in table.columns else []))


def _take_image(row: str, columns: Sequence[str], remember: Collection[str]) -> Column:
    """Return what is remembered of a row: some values, and of the others whether there is one."""
    values = {name: quote(row, name) for name in columns}
    seen = {
        name: each if name in remember else call("nullif", each + " IS NOT NULL", "false")
        for name, each in values.items()
    }
    return F.expr(call("struct", *[" AS ".join([each, quote(name)]) for name, each in seen.items()]))


def _keep_affected(old: DataFrame, affected: Affected, identity: Identity, width: int) -> DataFrame:
    """Keep the old rows of affected keys, and those of another identity; ``width``: how many columns are read."""
    # Behind a right or full join the left key may be null.
    near = old if identity.right else keep_in_ranges(old, affected.ranges, width)
    kinds = (T.NumericType, T.DateType, T.TimestampType, T.TimestampNTZType)
    # Few keys are sent to every task, or all rows of the table would be shuffled; uncounted ones (0) may be many.
    is_small = 0 < affected.count <= _SENT and all(isinstance(each.dataType, kinds) for each in affected.left.schema)
    if is_small and affected.right is None:
        affected = replace(affected, left=F.broadcast(affected.left))
    kept = [_join_keys(near, keys, identity, "left_semi", only) for keys, only in _list_keys(affected, identity)]
    return unite([*kept, *[old.where(F.col(n).isNotNull()) for n in identity.names if n not in identity.keys]])


def _pair(
    fresh: DataFrame,
    stale: DataFrame,
    identity: Identity,
    *,
    emptied_in: Collection[str],
    was: Column | None,
    write_row: WriteRow | None,
) -> DataFrame:
    """Join new and old rows on their identity.

    Out: the identity's columns, ``_NEW`` and ``_WANTED`` of the new rows, ``_THERE`` (1 when there is an old row),
    ``_EQUAL`` (1 when it is the same), whether a value has become null, ``was`` as ``_WAS``, and what of a proof goes
    with the old row as ``_GONE``.
    """
    names = identity.names
    stale = stale.withColumnsRenamed({name: f"{name}_old" for name in names})
    condition = reduce(and_, [identity.same(F.col(name), F.col(f"{name}_old")) for name in names])
    now, before = F.col(_NEW), F.col(_OLD)
    sides = (fresh, _NEW), (stale, _OLD)
    kinds, were = ({each.name: each.dataType for each in rows.select(f"{row}.*").schema} for rows, row in sides)
    same = _compare(kinds, were)
    nested = [name for name in emptied_in if isinstance(kinds.get(name), T.StructType | T.ArrayType | T.MapType)]
    lost = [tell_emptied(before.getField(n), were[n], now.getField(n), kinds[n]) for n in nested]
    leaves = [name for name in emptied_in if name in kinds and name not in nested]
    if leaves:  # Spark makes no deep tree of a chain in a text
        parts = [" AND ".join([quote(_NEW, n) + " IS NULL", quote(_OLD, n) + " IS NOT NULL"]) for n in leaves]
        lost.append(F.expr(" OR ".join(parts)))
    pairs = hash_rows(fresh.join(stale, on=condition, how="full"), write_row, list(were), _OLD)
    gone = zip(PARTS if write_row else (), _GONE, strict=False)
    return pairs.select(
        *[F.when(now.isNull(), F.col(f"{name}_old")).otherwise(F.col(name)).alias(name) for name in names],
        now,
        F.coalesce(F.col(_WANTED), F.lit(0)).alias(_WANTED),
        before.isNotNull().cast("int").alias(_THERE),
        (now.isNotNull() & before.isNotNull() & same).cast("int").alias(_EQUAL),
        reduce(or_, lost, F.lit(False)).alias(_EMPTIED),
        *([was.alias(_WAS)] if was is not None else []),
        *([F.col(PLACE)] if PLACE in stale.columns else []),
        *[F.when(before.isNotNull(), F.expr(part)).otherwise(0).alias(name) for part, name in gone],
    )


def _count_copies(pairs: DataFrame, names: Sequence[str]) -> DataFrame:
    """Bring the pairs of an identity into one row."""
    return pairs.groupBy(*names).agg(
        F.first(_NEW, ignorenulls=True).alias(_NEW),
        F.max(_WANTED).alias(_WANTED),
        F.sum(_THERE).alias(_THERE),
        F.sum(_EQUAL).alias(_EQUAL),
        F.lit(False).alias(_EMPTIED),
        *([F.collect_list(PLACE).alias(PLACE)] if PLACE in pairs.columns else []),
        *[F.sum(name).alias(name) for name in _GONE if name in pairs.columns],
    )


def _compare(kinds: Mapping[str, T.DataType], were: Mapping[str, T.DataType]) -> Column:
    """Tell whether the new row says the same as the old one. Whether a part may be null is no matter.

    A plan that compares a thousand columns one by one takes Spark a minute; but maps are not compared within a struct.
    """
    texts = {name: kind.simpleString().lower() for name, kind in kinds.items()}
    if any(text != were[name].simpleString().lower() for name, text in texts.items()):
        return F.lit(False)
    maps = [name for name, text in texts.items() if "map<" in text]
    rows = F.col(_NEW), F.col(_OLD)
    pairs = [[make_comparable(row.getField(name), kinds[name]) for row in rows] for name in maps]
    if len(maps) < len(kinds):
        pairs.append([row.dropFields(*map(quote, maps)) if maps else row for row in rows])
    return reduce(and_, [now.eqNullSafe(before) for now, before in pairs])


# --- What a value has lost ------------------------------------------------------------------------------------------

_ALL = 2**31 - 1  # more than any list or map has


def tell_emptied(before: Column, was: T.DataType, now: Column, kind: T.DataType) -> Column:
    """Tell whether a value, or a field in it that both types have, is null and was not before; never null.

    A list or a map has lost something when more of its elements or values than before are null or have a null in them.
    """
    pairs = zip(_count_nulls(now, kind, was), _count_nulls(before, was, kind), strict=True)
    return reduce(or_, [more > fewer for more, fewer in pairs], F.lit(False))


def _count_nulls(value: Column, kind: T.DataType, other: T.DataType) -> list[Column]:
    """Return of each leaf of a struct, in order, whether it is null, of lists and maps how many have a null in them."""
    if isinstance(kind, T.StructType) and isinstance(other, T.StructType):
        ours, theirs = ({each.name.lower(): each for each in of.fields} for of in (kind, other))
        shared = [(ours[name], theirs[name].dataType) for name in sorted(ours.keys() & theirs.keys())]
        return [leaf for each, its in shared for leaf in _count_nulls(value.getField(each.name), each.dataType, its)]
    if isinstance(kind, T.ArrayType) and isinstance(other, T.ArrayType):
        elements, inner = value, (kind.elementType, other.elementType)
    elif isinstance(kind, T.MapType) and isinstance(other, T.MapType):
        elements, inner = F.map_values(value), (kind.valueType, other.valueType)
    else:
        return [value.isNull().cast("int")]

    lacking = F.filter(elements, lambda each: reduce(or_, [n > 0 for n in _count_nulls(each, *inner)], F.lit(False)))
    return [F.when(value.isNull(), _ALL).otherwise(F.size(lacking))]


# --- What a table's constraints demand of rows that are about to be written -----------------------------------------

_VIOLATED = "__enrich_violated_"


def complete_rows(rows: DataFrame, table: DataFrame | None, identity: Identity, demands: Demands) -> DataFrame:
    """Return the rows that a difference writes as the table will hold them.

    In: ``rows``, the identity's columns, ``OPERATION`` and the columns that are written; ``table``, its rows with all
    its columns, None where none of them stay; ``demands``, what it fills in by itself. Out: the identity's columns and
    those of ``rows`` and of ``table``.
    """
    written = {name.lower() for name in rows.columns}
    rows = rows.where(F.col(OPERATION).isin("I", "U")) if OPERATION in rows.columns else rows
    lacking = [name for name in table.columns if name.lower() not in written] if table is not None else []
    stored = [name for name in lacking if name not in demands.generated]
    if table is not None and stored:
        keys = [part.alias(f"{name}_of") for name, part in identity.of().items()]
        known = table.select(*keys, *[F.col(quote(name)).alias(f"{name}_was") for name in stored])
        same = [F.col(name).eqNullSafe(F.col(f"{name}_of")) for name in identity.names]
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
        if can_compute(rows, violated):
            marks[f"{_VIOLATED}{at}"] = (each, violated)
    if not marks:
        return rows, {}
    marked = rows.withColumns({name: violated for name, (_, violated) in marks.items()})
    found = zip(marks.items(), aggregate(marked, *[F.count_if(F.col(name)) for name in marks]), strict=True)
    return marked, {each: (F.col(name), count) for (name, (each, _)), count in found if count}


def can_compute(rows: DataFrame, condition: Column) -> bool:
    """Tell whether an expression can be computed here: another program may have functions of its own."""
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
    """How the rows of a quarantine are told apart: by the target's key, or by their content when they have none."""

    columns: tuple[T.StructField, ...] = ()  # the target's columns
    # Those that the table does not have in their type yet -> what takes their place, over its columns.
    stored: Mapping[str, Column] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The identity's columns in staged frames."""
        return [*self.keys, _CONTENT]

    def of(self, prefix: str = "") -> dict[str, Column]:
        """Return staged name -> expression over the table's columns (below ``prefix``)."""
        lacks_key = is_keyless(prefix)
        keyed = {name: F.when(~lacks_key, part) for name, part in super().of(prefix).items()}
        values = [self.stored.get(each.name, F.col(prefix + quote(each.name))) for each in self.columns]
        return {**keyed, _CONTENT: F.when(lacks_key, hash_content(self.columns, values))}

    def same(self, ours: Column, theirs: Column) -> Column:
        """Compare one part, which may be null on both sides."""
        return ours.eqNullSafe(theirs)


def stage_quarantined_rows(bad: DataFrame, keyless: DataFrame | None, columns: Sequence[T.StructField]) -> DataFrame:
    """Put the rows that the quarantine gets into one frame.

    In: ``bad``, the columns of the target's identity, the target's ``columns`` and ``_failed``, one row per identity;
    ``keyless``, the target's columns and ``_failed`` of the rows without key, None for none. Out: the same with the
    quarantine's identity and ``COPIES``, one row for all rows without key of one content.
    """
    failing = bad.withColumns({_CONTENT: F.lit(None).cast("string"), COPIES: F.lit(1).cast("long")})
    if keyless is None:
        return failing
    content = hash_content(columns, [F.col(quote(each.name)) for each in columns])
    values = [F.any_value(quote(name)).alias(name) for name in keyless.columns]
    counted = keyless.groupBy(content.alias(_CONTENT)).agg(F.count("*").alias(COPIES), *values)
    return failing.unionByName(counted, allowMissingColumns=True)


def hash_content(columns: Sequence[T.StructField], values: Sequence[Column]) -> Column:
    """Return a fingerprint of a row's values. Texts go in as bytes: JSON has one character for all that is no UTF-8."""
    kinds = [_read_as_bytes(each.dataType) for each in columns]
    parts = [make_comparable(value.cast(kind), kind) for value, kind in zip(values, kinds, strict=True)]
    return F.sha2(F.to_json(F.struct(*[part.alias(f"c{i}") for i, part in enumerate(parts)]), _EXACT), 256)


def _read_as_bytes(kind: T.DataType) -> T.DataType:
    """Return a type with binaries in place of its texts."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(each.name, _read_as_bytes(each.dataType)) for each in kind.fields])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_read_as_bytes(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(_read_as_bytes(kind.keyType), _read_as_bytes(kind.valueType))
    return T.BinaryType() if isinstance(kind, T.StringType) else kind


def is_keyless(prefix: str = "") -> Column:
    """Tell the rows apart in the quarantine table that no key tells apart: they have none, or share it."""
    return F.coalesce(F.arrays_overlap(F.col(prefix + FAILED_COLUMN), F.array(*map(F.lit, KEYLESS))), F.lit(False))
