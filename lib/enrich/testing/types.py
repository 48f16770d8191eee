"""Types as a scenario writes them, and cells of these types: from YAML or text to the values that Arrow takes.

bigint          7             -> 7
date            2026-01-31    -> datetime.date(2026, 1, 31)
map<string,int> {a: 1}        -> [("a", 1)]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from enrich.base.errors import ConfigError, did_you_mean
from enrich.base.schemas import kind_of, name_of
from enrich.base.spec import DataType
from enrich.compiler.ddl import read_ddl_type
from enrich.config.yamlfile import load_tree, resolve_scalar

SHORT = {"strings": "array<string>", "flags": "map<string,boolean>"}
"""Short names of types."""

_WORDS = (
    *("string", "boolean", "tinyint", "smallint", "int", "bigint", "long", "float", "double", "decimal(10,2)", "date"),
    *("timestamp", "timestamp_ntz", "binary", "array<string>", "map<string,boolean>", "struct<a: string>", *SHORT),
)
_BITS = {"byte": 7, "short": 15, "integer": 31, "long": 63}
_SHOWN = 40


class CellError(ValueError):
    """A cell that is not of its column's type; the text says what it must be."""


class CellText(str):
    """A cell of a text table, as it stands between two bars."""

    __slots__ = ()


def read_type(text: str) -> DataType:
    """Return Delta's name for a type of Spark SQL.

    Raises:
        ConfigError: It is none, or none that a table of a test can have.
    """
    found = read_ddl_type(SHORT.get(text.strip(), text))
    if found is None:
        known = did_you_mean(text, _WORDS) if "<" not in text else ""
        raise ConfigError(f"{text!r} is not a type that a test can have{known}")
    return found


def convert_cell(cell: Any, kind: DataType) -> Any:
    """Return a cell as the value that Arrow takes for a column of this type.

    Args:
        cell: A plain value of YAML, or a `CellText`.
        kind: The type, as Delta's log writes it.

    Raises:
        CellError: It is no value of this type.
    """
    if isinstance(cell, CellText):
        cell = _read_text(cell, kind)
    if cell is None:
        return None
    name = kind_of(kind)
    if not isinstance(kind, str):
        return _NESTED[name](cell, kind)
    if name.startswith("decimal"):
        return _convert_decimal(cell, name)
    return _SIMPLE.get(name.split(" ")[0], _refuse)(cell, name)


def type_cell(cell: Any, column: str, kind: DataType) -> Any:
    """Return a cell as the value that Arrow takes.

    Raises:
        CellError: It is not of the column's type; the text names the column.
    """
    try:
        return convert_cell(cell, kind)
    except CellError as error:
        raise CellError(f"column {column!r}: {error}") from None


def _read_text(cell: CellText, kind: DataType) -> Any:
    """Return the plain value of a cell of a text table: in a column of text, the text as it stands."""
    text = str(cell)
    is_quoted = text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1
    if text == "null":
        return None
    if not is_quoted and isinstance(kind, str):
        return text if kind.startswith(("string", "date", "timestamp", "binary")) else resolve_scalar(text)
    try:
        return load_tree(text, "cell").value
    except ConfigError as error:
        raise CellError(f"cannot be read: {error.faults[0].message}") from None


def _fail(cell: Any, wanted: str) -> CellError:
    shown = repr(cell) if len(repr(cell)) <= _SHOWN else f"{repr(cell)[:_SHOWN]}..."
    return CellError(f"{shown} is not {wanted}")


def _refuse(_cell: Any, name: str) -> Any:
    raise CellError(f"a cell of type {name} cannot be written in a scenario; leave the column out, with partial: true")


def _convert_string(cell: Any, _name: str) -> str:
    if not isinstance(cell, str):
        raise _fail(cell, "text; put it in quotes")
    return cell


def _convert_boolean(cell: Any, _name: str) -> bool:
    if not isinstance(cell, bool):
        raise _fail(cell, "true or false")
    return cell


def _convert_integer(cell: Any, name: str) -> int:
    if isinstance(cell, bool) or not isinstance(cell, int):
        raise _fail(cell, "a whole number")
    if not -(2 ** _BITS[name]) <= cell < 2 ** _BITS[name]:
        raise _fail(cell, f"within the range of {name_of(name)}")
    return cell


def _convert_float(cell: Any, name: str) -> float:
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        raise _fail(cell, "a number")
    if name == "double" or not math.isfinite(cell):
        return float(cell)
    import struct

    return float(struct.unpack("f", struct.pack("f", cell))[0])  # as the table will hold it


def _convert_decimal(cell: Any, name: str) -> Decimal:
    precision, scale = map(int, name.removeprefix("decimal(").removesuffix(")").split(","))
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        raise _fail(cell, "a number")
    try:
        found = Decimal(str(cell))
        fitting = found.quantize(Decimal(1).scaleb(-scale))
    except InvalidOperation:
        raise _fail(cell, f"a {name}") from None
    if found != fitting or len(fitting.as_tuple().digits) > precision:
        raise _fail(cell, f"a {name}")
    return fitting


def _convert_date(cell: Any, _name: str) -> date:
    try:
        return date.fromisoformat(cell)
    except (TypeError, ValueError):
        raise _fail(cell, "a date, such as 2026-01-31") from None


def _convert_timestamp(cell: Any, name: str) -> datetime:
    try:
        found = datetime.fromisoformat(cell)
    except (TypeError, ValueError):
        raise _fail(cell, "a timestamp, such as 2026-01-31T12:00:00Z") from None
    if name == "timestamp":
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    if found.tzinfo:
        raise _fail(cell, "a timestamp without offset")
    return found


def _convert_binary(cell: Any, _name: str) -> bytes:
    try:
        return bytes.fromhex(cell)
    except (TypeError, ValueError):
        raise _fail(cell, "pairs of hexadecimal digits in quotes") from None


def _convert_array(cell: Any, kind: Mapping[str, Any]) -> list[Any]:
    if not isinstance(cell, list):
        raise _fail(cell, "a list")
    return [convert_cell(each, kind["elementType"]) for each in cell]


def _convert_map(cell: Any, kind: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    if not isinstance(cell, dict):
        raise _fail(cell, "a mapping of keys and values")
    key_type = kind["keyType"]  # YAML's keys are texts
    keys = [key if key_type == "string" else convert_cell(CellText(key), key_type) for key in cell]
    return [(key, convert_cell(value, kind["valueType"])) for key, value in zip(keys, cell.values(), strict=True)]


def _convert_struct(cell: Any, kind: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(cell, dict):
        raise _fail(cell, "a mapping of fields and values")
    fields = {field["name"]: field["type"] for field in kind["fields"]}
    for name in cell:
        if name not in fields:
            raise CellError(f"there is no field {name!r}{did_you_mean(name, fields)}")
    return {name: convert_cell(cell.get(name), each) for name, each in fields.items()}


_SIMPLE: dict[str, Callable[[Any, str], Any]] = {
    "string": _convert_string,
    "boolean": _convert_boolean,
    **dict.fromkeys(_BITS, _convert_integer),
    "float": _convert_float,
    "double": _convert_float,
    "date": _convert_date,
    "timestamp": _convert_timestamp,
    "timestamp_ntz": _convert_timestamp,
    "binary": _convert_binary,
}
_NESTED: dict[str, Callable[[Any, Any], Any]] = {
    "array": _convert_array,
    "map": _convert_map,
    "struct": _convert_struct,
}
