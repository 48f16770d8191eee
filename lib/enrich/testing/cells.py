"""Give the cells of a scenario the types of their columns: plain values of YAML -> the values that Arrow holds.

bigint          7             -> 7
date            2026-01-31    -> datetime.date(2026, 1, 31)
map<string,int> {a: 1}        -> [("a", 1)]

What a text means in a type is said where dumps are read (``enrich.dumps.convert``): a scenario's dates and numbers mean
what they mean there. Beyond that, YAML has told numbers from texts, and a scenario is held to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enrich.base.errors import ConfigError
from enrich.base.schemas import WHOLE_NUMBERS, name_of
from enrich.base.spec import DataType
from enrich.base.words import did_you_mean
from enrich.dumps.layout import make_schema
from enrich.project.statictypes import read_ddl_type

SHORT = {"strings": "array<string>", "flags": "map<string,boolean>"}  # short names of types

_WORDS = (
    *("string", "boolean", "tinyint", "smallint", "int", "bigint", "long", "float", "double", "decimal(10,2)", "date"),
    *("timestamp", "timestamp_ntz", "binary", "array<string>", "map<string,boolean>", "struct<a: string>", *SHORT),
)
_SHOWN = 40
_FORMS: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "text; put it in quotes"),
    "boolean": ((bool,), "true or false"),
    **dict.fromkeys(WHOLE_NUMBERS, ((int,), "a whole number of type {}")),
    **dict.fromkeys(("float", "double"), ((int, float), "a number of type {}")),
    "decimal": ((int, float, str), "a number of type {}"),
    "date": ((str,), "a date, such as 2026-01-31"),
    "timestamp": ((str,), "a timestamp, such as 2026-01-31T12:00:00Z"),
    "timestamp_ntz": ((str,), "a timestamp without offset"),
    "binary": ((str,), "pairs of hexadecimal digits in quotes"),
}
"""Type, without what stands in brackets -> what YAML has for it, and what it is called."""


class CellError(ValueError):
    """A cell that is not of its column's type; the text says what it must be."""


def read_type(text: str) -> DataType:
    """Return Delta's name for a type of Spark SQL; a ConfigError where a table of a test can have no such type."""
    found = read_ddl_type(SHORT.get(text.strip(), text))
    if found is None:
        known = did_you_mean(text, _WORDS) if "<" not in text else ""
        raise ConfigError(f"{text!r} is not a type that a test can have{known}")
    return found


def type_cell(cell: Any, column: str, kind: DataType) -> Any:
    """Return a cell as the value that Arrow holds; a CellError, which names the column, where it is of another type."""
    try:
        return convert_cell(cell, kind)
    except CellError as error:
        raise CellError(f"column {column!r}: {error}") from None


def convert_cell(cell: Any, kind: DataType) -> Any:
    """Return a plain value of YAML as the value that Arrow holds in a column of this type, as Delta's log writes it."""
    if cell is None:
        return None
    if isinstance(kind, Mapping):
        return _convert_nested(cell, kind)
    takes, wanted = _FORMS.get(kind.split("(")[0].split(" ")[0], ((), ""))
    if not takes:
        raise CellError(
            f"a cell of type {kind} cannot be written in a scenario; leave the column out, with partial: true"
        )
    if not isinstance(cell, takes) or (isinstance(cell, bool) and bool not in takes):
        raise _fail(cell, wanted.format(name_of(kind)))
    found = _read_text(str(cell).lower() if isinstance(cell, bool) else str(cell), kind)
    if found is None:
        raise _fail(cell, wanted.format(name_of(kind)))
    return found


def _convert_nested(cell: Any, kind: Mapping[str, Any]) -> Any:
    if kind["type"] == "array":
        if not isinstance(cell, list):
            raise _fail(cell, "a list")
        return [convert_cell(each, kind["elementType"]) for each in cell]
    if not isinstance(cell, dict):
        raise _fail(cell, f"a mapping of {'keys' if kind['type'] == 'map' else 'fields'} and values")
    if kind["type"] == "map":
        keys = [_read_text(key, kind["keyType"]) for key in cell]  # YAML's keys are texts
        if None in keys:
            raise _fail(cell, f"a mapping with keys of type {name_of(kind['keyType'])}")
        return [(key, convert_cell(each, kind["valueType"])) for key, each in zip(keys, cell.values(), strict=True)]
    fields = {field["name"]: field["type"] for field in kind["fields"]}
    for name in cell:
        if name not in fields:
            raise CellError(f"there is no field {name!r}{did_you_mean(name, fields)}")
    return {name: convert_cell(cell.get(name), each) for name, each in fields.items()}


def _read_text(text: str, kind: DataType) -> Any:
    """Return what a text means in a type; None where it is no value of it."""
    import pyarrow as pa

    from enrich.dumps.convert import convert_texts

    if not isinstance(kind, str):
        return None
    if kind == "binary":  # here without the mark before hexadecimal digits, which dumps have
        try:
            return bytes.fromhex(text)
        except ValueError:
            return None
    return convert_texts(pa.array([text]), make_schema({"cell": kind}).field(0).type)[0].as_py()


def _fail(cell: Any, wanted: str) -> CellError:
    shown = repr(cell) if len(repr(cell)) <= _SHOWN else f"{repr(cell)[:_SHOWN]}..."
    return CellError(f"{shown} is not {wanted}")
