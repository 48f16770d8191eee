"""Find the difference between the rows of a dump and those of a table.

====  =======  ======  ==========  ==============
key   table    dump    operation   with complete
====  =======  ======  ==========  ==============
K1    (a)      (b)     ``U``       ``U``
K2    (c)      (c)     none        none
K3    -        (d)     ``I``       ``I``
K4    (e)      -       none        ``D``
K5    (f)      bad     none        none
====  =======  ======  ==========  ==============
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from enrich.base.spec import Affected, quote
from enrich.frames.columns import add_up, aggregate, drop_nulls
from enrich.frames.difference import Difference, Identity, compute_difference

_COUNT = "__enrich_count"


@dataclass(frozen=True)
class DumpRows:
    """A dump's rows."""

    rows: DataFrame  # the columns, and beside them those that ``number`` names
    key: Sequence[str]
    columns: Sequence[str]
    bad: str  # the column that says that a row is left out
    number: Sequence[str]  # the columns that say where a row stands in the dump

    @property
    def good(self) -> DataFrame:
        """The rows that are to be loaded."""
        return self.rows.where(~F.col(self.bad))


def let_be_null(kind: T.DataType) -> T.DataType:
    """Return a table's type in which each field of a struct may be null: only what is written is held to that."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(each.name, let_be_null(each.dataType)) for each in kind.fields])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(let_be_null(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(let_be_null(kind.keyType), let_be_null(kind.valueType))
    return kind


def fill_chars(value: Column, kind: T.DataType) -> Column:
    """Return a value with the blanks with which Spark fills the CHARs of its type when it reads them."""
    if isinstance(kind, T.CharType):
        return F.when(F.length(value) < kind.length, F.rpad(value, kind.length, " ")).otherwise(value)
    if isinstance(kind, T.ArrayType):
        return F.transform(value, lambda item: fill_chars(item, kind.elementType))
    for each in kind.fields if isinstance(kind, T.StructType) else ():
        value = value.withField(quote(each.name), fill_chars(value[each.name], each.dataType))
    return value


def _select_key(key: Sequence[str]) -> list[Column]:
    return [part.alias(name) for name, part in Identity(tuple(key)).of().items()]


def find_repeated(rows: DataFrame, key: Sequence[str]) -> tuple[DataFrame, int, int]:
    """Return the keys that several rows have, how many keys these are, and how many rows; nulls are no keys."""
    names = Identity(tuple(key)).names
    keys = drop_nulls(rows.select(*_select_key(key)))
    twice = keys.groupBy(*names).agg(F.count("*").alias(_COUNT)).where(F.col(_COUNT) > 1)
    found = aggregate(twice, F.count("*"), add_up(F.col(_COUNT)))
    return twice.drop(_COUNT), found[0], found[1]


def _match(rows: DataFrame, key: Sequence[str], others: DataFrame, how: str) -> DataFrame:
    """Keep the rows whose key is among others (``left_semi``), or is not (``left_anti``); or join these (``left``)."""
    identity = Identity(tuple(key))
    renamed = others.withColumnsRenamed({name: f"{name}_of" for name in identity.names})
    condition = [theirs == F.col(f"{name}_of") for name, theirs in identity.of().items()]
    return rows.join(renamed, on=condition, how=how)


def find_places(dump: DumpRows, keys: DataFrame, limit: int) -> list[tuple[int, ...]]:
    """Return where the first rows with some keys stand, in the order of the dump."""
    found = _match(dump.good, dump.key, keys, "left_semi").select(*dump.number).orderBy(*dump.number).limit(limit)
    return [tuple(row) for row in found.collect()]


def leave_out(dump: DumpRows, keys: DataFrame) -> DumpRows:
    """Return a dump in which the rows with some keys are left out."""
    joined = _match(dump.rows, dump.key, keys.withColumn(_COUNT, F.lit(True)), "left")
    bad = (F.col(dump.bad) | F.coalesce(F.col(_COUNT), F.lit(False))).alias(dump.bad)
    kept = [F.col(quote(name)) for name in dump.rows.columns if name != dump.bad]
    return DumpRows(joined.select(*kept, bad), dump.key, dump.columns, dump.bad, dump.number)


def compare_dump(
    dump: DumpRows, table: DataFrame | None, *, complete: bool, has_bad: bool, has_nulls: bool, keep_old: bool = False
) -> Difference:
    """Return what leads from a table to the dump.

    Args:
        dump: The dump; each key once among the rows that are not left out.
        table: The table's rows, at least the dump's columns; None when there is no table.
        complete: Whether the rows that the dump lacks are deleted.
        has_bad: Whether rows are left out; the table's rows with their keys stay as they are.
        has_nulls: Whether the table has rows with a null in their key; a complete dump lacks them.
        keep_old: Whether the old rows of the difference have their values.
    """
    identity = Identity(tuple(dump.key))
    new = dump.good.select(*_select_key(dump.key), *[F.col(quote(name)) for name in dump.columns])
    if table is None:
        return compute_difference(new, None, identity)
    if has_bad:
        left_out = dump.rows.where(F.col(dump.bad)).select(*_select_key(dump.key))
        only_bad = left_out.join(new.select(*identity.names), on=identity.names, how="left_anti").distinct()
        table = _match(table, dump.key, only_bad, "left_anti")
    affected = None if complete else Affected(new.select(*identity.names))
    return compute_difference(new, table, identity, affected, has_copies=has_nulls, keep_old=keep_old)
