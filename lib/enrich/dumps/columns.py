"""Columns of a Parquet file -> columns of one Arrow type; null where a value cannot be kept as it is.

=========================  ==============  ==================  ==========================================
value                      column's type   found               why
=========================  ==============  ==================  ==========================================
int64 5                    decimal(10,2)   5.00                as the text ``5``
double 1.25                decimal(10,1)   -                   as the text ``1.25``
double 0.1                 float           0.1                 the nearest one
double 1e300               float           -                   it would be infinite
int64 5                    boolean         -                   as the text ``5``
timestamp at midnight      date            the day             nothing is cut
timestamp with a zone      timestamp_ntz   -                   nobody knows which clock is meant
struct<a, b>               struct<a>       -                   b would be lost
=========================  ==============  ==================  ==========================================

Arrow's own casts, also the safe ones, change some of these values without a word. So they are called only for the pairs
of types with which they refuse what they cannot keep; the others are converted as the text that stands for them in CSV.
"""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from enrich.dumps.batches import find_lost
from enrich.dumps.convert import cast_values, convert_texts
from enrich.dumps.layout import BYTES, LISTS, LONGEST_DECIMAL, TEXTS, find_name, is_one


def convert_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an Arrow column as values of a type, null where a value, or a part of it, does not convert."""
    column = _simplify(column)
    if column.type.equals(kind):
        return column
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        return _convert_structs(column, kind)
    if pa.types.is_map(kind) and pa.types.is_map(column.type):
        return _convert_maps(column, kind)
    if pa.types.is_list(kind) and is_one(column.type, LISTS):
        return _convert_lists(column, kind)
    if pa.types.is_nested(kind) or pa.types.is_nested(column.type):
        return pa.nulls(len(column), kind)
    return _convert_leaves(column, kind)


def _simplify(column: pa.Array) -> pa.Array:
    """Return the same values in the usual one of Arrow's types for them."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if is_one(kind, TEXTS):
        return column.cast(pa.string())
    if is_one(kind, BYTES):
        return column.cast(pa.binary())
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    if pa.types.is_decimal(kind) and kind.precision <= LONGEST_DECIMAL:
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    return column


def _convert_structs(column: pa.StructArray, kind: pa.StructType) -> pa.Array:
    """Return structs with the fields of a type: null where the dump lacks one, all null where it has one more."""
    ours = [field.name for field in kind]
    meant = [find_name(field.name, ours) for field in column.type]
    if None in meant or len(set(meant)) < len(meant):
        return pa.nulls(len(column), kind)
    there = dict(zip(meant, column.flatten(), strict=True))
    children, lost = [], [column.is_null()]
    for field in kind:
        before = there.get(field.name, pa.nulls(len(column)))
        children.append(convert_column(before, field.type))
        lost.append(find_lost(before, children[-1]))
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=reduce(pc.or_, lost))


def _convert_lists(column: pa.Array, kind: pa.ListType) -> pa.Array:
    before = column.flatten()
    items = convert_column(before, kind.value_type)
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    offsets = _add_up(lengths).cast(pa.int32())
    mask = pc.or_(column.is_null(), _find_touched(offsets, find_lost(before, items)))
    return pa.ListArray.from_arrays(offsets, items, type=kind, mask=mask)


def _convert_maps(column: pa.MapArray, kind: pa.MapType) -> pa.Array:
    start, end = column.offsets[0].as_py(), column.offsets[-1].as_py()  # a slice still has the items of the whole
    old_keys, old_items = column.keys[start:end], column.items[start:end]
    keys, items = convert_column(old_keys, kind.key_type), convert_column(old_items, kind.item_type)
    offsets = pc.subtract(column.offsets, column.offsets[0])
    lost = _find_touched(offsets, pc.or_(find_lost(old_keys, keys), find_lost(old_items, items)))
    if keys.null_count:  # a map's key is never null, not even in a map that is left out
        return _convert_maps(pc.if_else(lost, pa.scalar(None, column.type), column), kind)
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=pc.or_(column.is_null(), lost))


def _find_touched(offsets: pa.Array, lost: pa.Array) -> pa.Array:
    """Tell of each list, which lies between two offsets, whether one of its items is lost."""
    before = _add_up(lost).take(offsets)
    return pc.not_equal(before[1:], before[:-1])


def _add_up(counts: pa.Array) -> pa.Array:
    """Return the sums of the first none, one, two, ... of some counts."""
    return pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(counts.cast(pa.int64()))])


def _convert_leaves(column: pa.Array, kind: pa.DataType) -> pa.Array:
    old, types = column.type, pa.types
    if _keeps_values(old, kind):
        return cast_values(column, kind)
    if types.is_floating(old) and types.is_floating(kind):
        found = cast_values(column, kind)
        return pc.if_else(pc.equal(pc.is_inf(found), pc.is_inf(column)), found, None)
    if types.is_decimal(old) and types.is_floating(kind):
        found = cast_values(column, kind)
        return pc.if_else(pc.equal(convert_texts(found.cast(pa.string()), old), column), found, None)
    if types.is_timestamp(old) and old.tz is None and types.is_date(kind):
        found = cast_values(column, kind)
        return pc.if_else(pc.equal(found.cast(old), column), found, None)
    return convert_texts(cast_values(column, pa.string()), kind)


def _keeps_values(old: pa.DataType, kind: pa.DataType) -> bool:
    """Tell whether Arrow's cast keeps a value or refuses it, and never changes it."""
    types = pa.types
    if types.is_timestamp(kind) and types.is_timestamp(old):
        return kind.tz is not None or old.tz is None
    pairs = (
        ((types.is_integer,), (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)),
        ((types.is_floating,), (types.is_integer, types.is_boolean)),
        ((types.is_decimal,), (types.is_decimal,)),
        ((types.is_date, types.is_timestamp), (types.is_date,)),
        ((types.is_binary,), (types.is_binary,)),
    )
    return any(is_one(kind, to) and is_one(old, of) for to, of in pairs)
