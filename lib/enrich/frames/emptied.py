"""Whether a value has lost something: it, or a part of it, is null where it was not.

===================  ==============================================================
value                has lost something when
===================  ==============================================================
any                  it is null now
a struct             one of its fields has
a list               more elements than before are null, or have a null in them
a map                the same of its values
===================  ==============================================================

Old and new value may have other types: what only one of them has is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T


def tell_emptied(before: Column, was: T.DataType, now: Column, kind: T.DataType) -> Column:
    """Tell whether a value, or a part of it, is null in the new row and was not in the old one; never null.

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
