"""Convert texts, plain values and columns of Parquet into columns of one Arrow type; null where a value does not fit.

What counts as a value of a type is written down here and in docs/load.md. White space around it is no part of it,
except in texts. Nothing is rounded, cut or wrapped: a number that does not fit does not convert. Columns of Parquet:

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

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from enrich.dumps.layout import BYTES, LISTS, LONGEST_DECIMAL, TEXTS, find_name, is_one, spell_fields

_TRUE, _FALSE = ["true", "t", "yes", "y", "1"], ["false", "f", "no", "n", "0"]
_WHOLE = r"^[+-]?[0-9]+$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
_FRACTION = rf"(?i){_NUMBER}|^[+-]?(nan|inf|infinity)$"
_HEX = r"^(\\x|0[xX])([0-9a-fA-F]{2})*$"
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
_ZONE = r" ?(Z|UTC|[+-][0-9]{2}(:?[0-9]{2})?)"
_LOCAL_TIME = rf"^{_DAY}([ T]{_CLOCK})?$"
_TIME = rf"^{_DAY}([ T]{_CLOCK}({_ZONE})?)?$"


def convert_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    r"""Return texts as values of a type, null where a text is not one.

    Bytes are what the digits of ``\x0a1b`` (PostgreSQL) and ``0x0A1B`` (SQL Server) say, else the bytes of the text.
    """
    if pa.types.is_string(kind):
        return texts
    if pa.types.is_binary(kind):
        digits = pc.match_substring_regex(texts, _HEX)
        if not pc.any(digits).as_py():
            return texts.cast(pa.binary())
        pairs = zip(texts.to_pylist(), digits.to_pylist(), strict=True)
        found = [bytes.fromhex(text[2:]) if ok else None if text is None else text.encode() for text, ok in pairs]
        return pa.array(found, pa.binary())
    forms = _prepare(pc.utf8_trim_whitespace(texts), kind)
    if forms is None:
        return pa.nulls(len(texts), kind)
    found = cast_values(forms, kind)
    if pa.types.is_floating(kind):  # 1e999 is no infinity
        beyond = pc.and_(pc.is_inf(found), pc.match_substring_regex(forms, "[0-9]"))
        found = pc.if_else(beyond, None, found)
    return found


def convert_values(values: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, list[bool]]:
    """Return what JSON holds as a column, and for each value whether it did not convert.

    Args:
        values: None, text (numbers too, as they stand in the file), bool, list or dict.
        kind: The column's type.
    """
    texts = pa.array([_spell(each, kind) for each in values], _find_text_type(kind))
    found = convert_column(texts, kind)
    return found, [each is not None and not ok for each, ok in zip(values, found.is_valid().to_pylist(), strict=True)]


def _find_text_type(kind: pa.DataType) -> pa.DataType:
    """Return a type with texts in place of all that is not nested."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _find_text_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), _find_text_type(kind.item_type))
    return pa.list_(_find_text_type(kind.value_type)) if pa.types.is_list(kind) else pa.string()


def _spell(value: Any, kind: pa.DataType) -> Any:
    """Return a value of JSON with texts for what is not nested; None where it, or a part of it, has another shape."""
    if isinstance(value, bool) and not pa.types.is_nested(kind):
        return "true" if value else "false"
    if isinstance(value, str):
        return value if is_whole(value) and not pa.types.is_nested(kind) else None
    if isinstance(value, list) and pa.types.is_list(kind):
        items = [_spell(each, kind.value_type) for each in value]
        return None if _lose(value, items) else items
    if not isinstance(value, dict) or not (pa.types.is_struct(kind) or pa.types.is_map(kind)):
        return None
    if pa.types.is_map(kind):
        items = [_spell(each, kind.item_type) for each in value.values()]
        if _lose(value.values(), items) or not all(map(is_whole, value)):
            return None
        return list(zip(value, items, strict=True))
    types = {field.name: field.type for field in kind}
    if not value.keys() <= types.keys():
        value = spell_fields(value, {name.lower(): name for name in types})
    if not value.keys() <= types.keys():
        return None
    fields = {name: _spell(each, types[name]) for name, each in value.items()}
    return None if _lose(value.values(), fields.values()) else fields


def _lose(before: Iterable[Any], after: Iterable[Any]) -> bool:
    return any(new is None and old is not None for old, new in zip(before, after, strict=True))


def is_whole(text: str) -> bool:
    r"""Tell whether a text can be written: in JSON, ``"\ud800"`` is half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def cast_values(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast, and find the values that do not convert by halves: they are few, or the file is not what it should be."""
    try:
        return column.cast(kind)
    except pa.ArrowNotImplementedError:
        return pa.nulls(len(column), kind)
    except pa.ArrowInvalid:
        half = len(column) // 2
        if half == 0:
            return pa.nulls(len(column), kind)
        return pa.concat_arrays([cast_values(column[:half], kind), cast_values(column[half:], kind)])


def _prepare(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return texts in the form that Arrow reads for a type, null where they are no value; None where no text is one."""
    types = pa.types
    for check, form in ((types.is_integer, _WHOLE), (types.is_decimal, _NUMBER), (types.is_floating, _FRACTION)):
        if check(kind):
            return pc.replace_substring_regex(_keep(texts, form), r"^\+", "")
    if types.is_boolean(kind):
        lower = pc.utf8_lower(texts)
        yes, no = (pc.is_in(lower, pa.array(words)) for words in (_TRUE, _FALSE))
        return pc.if_else(yes, True, pc.if_else(no, False, None))
    if types.is_date(kind):
        return _keep(texts, rf"^{_DAY}$")
    if not types.is_timestamp(kind):
        return None
    times = _keep(texts, _LOCAL_TIME if kind.tz is None else _TIME)
    # Nanoseconds go where they are none; others do not convert.
    times = pc.replace_substring_regex(times, r"(\.[0-9]{6})0{1,3}(Z|[ +-]|$)", r"\1\2")
    if kind.tz is None:
        return times
    # Moments have their offset; one without is UTC.
    times = pc.replace_substring_regex(times, " ?(UTC|Z)$", "Z")
    times = pc.replace_substring_regex(times, r"(:[0-9]{2}(\.[0-9]+)?) ([+-])", r"\1\3")
    times = pc.replace_substring_regex(times, rf"^({_DAY})$", r"\1 00:00:00Z")
    lacks = pc.invert(pc.match_substring_regex(times, r":[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9:]+)$"))
    # A time of hours and minutes with an offset ends like one of hours, minutes and seconds; the regex takes both.
    return pc.if_else(lacks, pc.binary_join_element_wise(times, "Z", ""), times)


def _keep(texts: pa.Array, form: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, form), texts, None)


# --- columns of Parquet ----------------------------------------------------------------------------------------------


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
        before = column.flatten()
        items = convert_column(before, kind.value_type)
        offsets = _add_up(pc.fill_null(pc.list_value_length(column), 0)).cast(pa.int32())
        mask = pc.or_(column.is_null(), _find_touched(offsets, find_lost(before, items)))
        return pa.ListArray.from_arrays(offsets, items, type=kind, mask=mask)
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
    pairs = (
        ((types.is_integer,), (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)),
        ((types.is_floating,), (types.is_integer, types.is_boolean)),
        ((types.is_decimal,), (types.is_decimal,)),
        ((types.is_date, types.is_timestamp), (types.is_date,)),
        ((types.is_binary,), (types.is_binary,)),
    )
    keeps = any(is_one(kind, to) and is_one(old, of) for to, of in pairs)
    if types.is_timestamp(kind) and types.is_timestamp(old):
        keeps = kind.tz is not None or old.tz is None
    if keeps:  # Arrow's cast keeps a value or refuses it, and never changes it
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


def find_lost(before: pa.Array, after: pa.Array) -> pa.Array:
    """Tell where a value was and none is any more."""
    return pc.and_(before.is_valid(), after.is_null())
