"""Texts and plain values -> columns of one Arrow type; null where a value does not convert.

What counts as a value of a type is written down here and in docs/load.md. White space around it is no part of it,
except in texts. Nothing is rounded, cut or wrapped: a number that does not fit does not convert.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from enrich.dumps.layout import spell_fields

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
    """Return texts as values of a type, null where a text is not one."""
    if pa.types.is_string(kind):
        return texts
    if pa.types.is_binary(kind):
        return _convert_bytes(texts)
    prepare = _find_form(kind)
    if prepare is None:
        return pa.nulls(len(texts), kind)
    forms = prepare(pc.utf8_trim_whitespace(texts))
    found = cast_values(forms, kind)
    if pa.types.is_floating(kind):  # 1e999 is no infinity
        beyond = pc.and_(pc.is_inf(found), pc.match_substring_regex(forms, "[0-9]"))
        found = pc.if_else(beyond, None, found)
    return found


def _convert_bytes(texts: pa.Array) -> pa.Array:
    r"""Return what the digits of ``\x0a1b`` (PostgreSQL) and ``0x0A1B`` (SQL Server) say, else the bytes of a text."""
    digits = pc.match_substring_regex(texts, _HEX)
    if not pc.any(digits).as_py():
        return texts.cast(pa.binary())
    pairs = zip(texts.to_pylist(), digits.to_pylist(), strict=True)
    found = [bytes.fromhex(text[2:]) if ok else None if text is None else text.encode() for text, ok in pairs]
    return pa.array(found, pa.binary())


def convert_values(values: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, list[bool]]:
    """Return what JSON holds as a column, and for each value whether it did not convert.

    Args:
        values: None, text (numbers too, as they stand in the file), bool, list or dict.
        kind: The column's type.
    """
    if pa.types.is_struct(kind):
        return _convert_structs(values, kind)
    if pa.types.is_map(kind):
        return _convert_maps(values, kind)
    if pa.types.is_list(kind):
        return _convert_lists(values, kind)
    told = {True: "true", False: "false"}
    leaves = [told[each] if isinstance(each, bool) else each if isinstance(each, str) else None for each in values]
    try:
        texts = pa.array(leaves, pa.string())
    except UnicodeEncodeError:
        texts = pa.array([each if each is None or is_whole(each) else None for each in leaves], pa.string())
    found = convert_texts(texts, kind)
    there = found.is_valid().to_pylist()
    return found, [each is not None and not ok for each, ok in zip(values, there, strict=True)]


def is_whole(text: str) -> bool:
    r"""Tell whether a text can be written: in JSON, ``"\ud800"`` is half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _convert_structs(values: Sequence[Any], kind: pa.StructType) -> tuple[pa.Array, list[bool]]:
    fields = list(kind)
    names, lower = {field.name for field in fields}, {field.name.lower(): field.name for field in fields}
    values = [
        spell_fields(each, lower) if isinstance(each, dict) and not each.keys() <= names else each for each in values
    ]
    bad = [each is not None and not (isinstance(each, dict) and each.keys() <= names) for each in values]
    children = []
    for each in fields:
        inside = [value.get(each.name) if isinstance(value, dict) else None for value in values]
        child, wrong = convert_values(inside, each.type)
        children.append(child)
        bad = [first or second for first, second in zip(bad, wrong, strict=True)]
    mask = pa.array([not isinstance(each, dict) for each in values], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask), bad


def _convert_lists(values: Sequence[Any], kind: pa.ListType) -> tuple[pa.Array, list[bool]]:
    flat = [item for each in values if isinstance(each, list) for item in each]
    items, wrong = convert_values(flat, kind.value_type)
    offsets, bad = _lay_out(values, list, wrong)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, type=kind), bad


def _convert_maps(values: Sequence[Any], kind: pa.MapType) -> tuple[pa.Array, list[bool]]:
    inside = [each for each in values if isinstance(each, dict)]
    keys, wrong_keys = convert_values([key for each in inside for key in each], kind.key_type)
    items, wrong = convert_values([item for each in inside for item in each.values()], kind.item_type)
    offsets, bad = _lay_out(values, dict, [first or second for first, second in zip(wrong, wrong_keys, strict=True)])
    if any(wrong_keys):  # a map's key is never null, not even in a map that is left out
        good = [None if is_bad else each for each, is_bad in zip(values, bad, strict=True)]
        return _convert_maps(good, kind)[0], bad
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=kind), bad


def _lay_out(values: Sequence[Any], shape: type, wrong: Sequence[bool]) -> tuple[list[int | None], list[bool]]:
    """Return where the items of each value begin, null for those without, and which values are bad."""
    offsets: list[int | None] = []
    bad, end = [], 0
    for each in values:
        if not isinstance(each, shape):
            offsets.append(None)
            bad.append(each is not None)
            continue
        offsets.append(end)
        bad.append(any(wrong[end : end + len(each)]))  # type: ignore[arg-type]
        end += len(each)  # type: ignore[arg-type]
    return [*offsets, end], bad


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


def _find_form(kind: pa.DataType) -> Callable[[pa.Array], pa.Array] | None:
    """Return what brings texts into the form that Arrow reads for a type; None for a type that no text has."""
    if pa.types.is_integer(kind):
        return lambda texts: _drop_plus(_keep(texts, _WHOLE))
    if pa.types.is_decimal(kind):
        return lambda texts: _drop_plus(_keep(texts, _NUMBER))
    if pa.types.is_floating(kind):
        return lambda texts: _drop_plus(_keep(texts, _FRACTION))
    if pa.types.is_boolean(kind):
        return _prepare_flags
    if pa.types.is_date(kind):
        return lambda texts: _keep(texts, rf"^{_DAY}$")
    if pa.types.is_timestamp(kind):
        return _prepare_times if kind.tz is not None else lambda texts: _drop_zeros(_keep(texts, _LOCAL_TIME))
    return None


def _keep(texts: pa.Array, form: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, form), texts, None)


def _drop_plus(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, r"^\+", "")


def _drop_zeros(texts: pa.Array) -> pa.Array:
    """Take nanoseconds away where they are none; others do not convert."""
    return pc.replace_substring_regex(texts, r"(\.[0-9]{6})0{1,3}(Z|[ +-]|$)", r"\1\2")


def _prepare_flags(texts: pa.Array) -> pa.Array:
    lower = pc.utf8_lower(texts)
    yes, no = (pc.is_in(lower, pa.array(words)) for words in (_TRUE, _FALSE))
    return pc.if_else(yes, True, pc.if_else(no, False, None))


def _prepare_times(texts: pa.Array) -> pa.Array:
    """Return moments with their offset; a time without one is UTC."""
    times = _drop_zeros(_keep(texts, _TIME))
    times = pc.replace_substring_regex(times, " ?(UTC|Z)$", "Z")
    times = pc.replace_substring_regex(times, r"(:[0-9]{2}(\.[0-9]+)?) ([+-])", r"\1\3")
    times = pc.replace_substring_regex(times, rf"^({_DAY})$", r"\1 00:00:00Z")
    lacks = pc.invert(pc.match_substring_regex(times, r":[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9:]+)$"))
    # A time of hours and minutes with an offset ends like one of hours, minutes and seconds; the regex takes both.
    return pc.if_else(lacks, pc.binary_join_element_wise(times, "Z", ""), times)
