"""Conditions and forms of columns that several verbs need."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.types import DataType as SparkType

from enrich.base.spec import quote


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
