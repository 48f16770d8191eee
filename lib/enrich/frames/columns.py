"""Conditions and forms of columns that several verbs need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.types import DataType as SparkType

from enrich.base.spec import SourceSpec, quote

Ranges = Mapping[str, tuple[Any, Any]]
"""Column -> the least and the greatest value."""


def count_with_ranges(rows: DataFrame, names: Sequence[str], *more: Column) -> tuple[Row, Ranges]:
    """Count rows, and find the ranges of those columns ``names`` that are whole numbers, decimals or dates.

    Timestamps are left out because Python's have another meaning where clocks are put back; fractions because of NaN;
    texts because Delta keeps but their beginnings.

    Returns:
        The number of rows and the values of the aggregates ``more``; the ranges.
    """
    kinds = (T.IntegralType, T.DecimalType, T.DateType)
    known = [name for name in names if isinstance(rows.schema[name].dataType, kinds)]
    found = aggregate(rows, F.count("*"), *more, *[end(name) for name in known for end in (F.min, F.max)])
    first = 1 + len(more)
    ends = zip(known, found[first::2], found[first + 1 :: 2], strict=True)
    return found[:first], {name: (least, most) for name, least, most in ends if least is not None}


def aggregate(frame: DataFrame, *columns: Column) -> Row:
    """Compute aggregates over all rows of a frame."""
    found = frame.agg(*columns).first()
    assert found is not None  # noqa: S101 - an aggregate without groups has one row
    return found


def unite(frames: Iterable[DataFrame]) -> DataFrame:
    """Return the rows of all frames, of which there is at least one; their columns have the same names."""
    return reduce(lambda a, b: a.unionByName(b), frames)


def name_parts(columns: Sequence[str], names: Sequence[str]) -> list[Column]:
    """Return columns under other names, in order: the parts of a key under the names that the verbs give them."""
    return [F.col(quote(column)).alias(name) for column, name in zip(columns, names, strict=True)]


def mark_rows(names: Sequence[str]) -> dict[str, Column]:
    """Return what is counted of all rows: ``rows``, which is always true, and ``n0 ..``, that a column is null."""
    return {"rows": F.lit(True), **{f"n{i}": F.col(quote(name)).isNull() for i, name in enumerate(names)}}


def keep_in_ranges(rows: DataFrame, ranges: Ranges) -> DataFrame:
    """Leave out rows whose keys are outside the ranges: literals, by which Delta skips files and Parquet row groups."""
    for name, ends in ranges.items():
        rows = rows.where(F.col(name).between(*map(F.lit, ends)))
    return rows


def pack_rows(rows: DataFrame, source: SourceSpec, names: Sequence[str]) -> DataFrame:
    """Return the rows of a source as its key parts, named ``names``, and one struct column under its alias."""
    keys = name_parts(source.key, names)
    return rows.select(*keys, F.struct(*[F.col(quote(column)) for column in source.columns]).alias(source.alias))


def has_null(names: Sequence[str]) -> Column:
    """Return whether any of some columns is null. NaN is no null."""
    return reduce(or_, [F.col(quote(name)).isNull() for name in names])


def drop_nulls(frame: DataFrame, names: Sequence[str] | None = None) -> DataFrame:
    """Return the rows that have no null in some columns (None: in any). ``dropna`` would take NaN for null, too."""
    return frame.where(reduce(and_, [F.col(quote(name)).isNotNull() for name in names or frame.columns]))


def make_comparable(column: Column, kind: SparkType) -> Column:
    """Return ``column`` in a form in which equal values look equal, so that it can be grouped, compared and hashed.

    ``<=>`` is not defined on maps, and two maps with the same entries in another order are the same value: a map
    becomes its entries in the order of their keys. -0.0 equals 0.0, but is not written like it: it becomes 0.0.
    """
    if not _has_forms(kind):
        return column
    if isinstance(kind, T.FloatType | T.DoubleType):
        return column + F.lit(0.0).cast(kind)
    if isinstance(kind, T.MapType):
        keys, values = kind.keyType, kind.valueType
        entries = F.transform(
            F.map_entries(column),
            lambda entry: F.struct(
                make_comparable(entry.getField("key"), keys).alias("key"),
                make_comparable(entry.getField("value"), values).alias("value"),
            ),
        )
        return F.array_sort(entries)
    if isinstance(kind, T.ArrayType):
        element = kind.elementType
        return F.transform(column, lambda item: make_comparable(item, element))
    fields = [make_comparable(column.getField(f.name), f.dataType).alias(f.name) for f in kind.fields]  # type: ignore[attr-defined]
    return F.when(column.isNotNull(), F.struct(*fields))


def _has_forms(kind: SparkType) -> bool:
    """Tell whether a type has values that are equal and yet written in several forms."""
    if isinstance(kind, T.MapType | T.FloatType | T.DoubleType):
        return True
    if isinstance(kind, T.ArrayType):
        return _has_forms(kind.elementType)
    return isinstance(kind, T.StructType) and any(_has_forms(field.dataType) for field in kind.fields)
