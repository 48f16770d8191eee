"""Types and columns as Spark SQL declares them: ``decimal(10,2)``, ``id string, at timestamp``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enrich.base.errors import ConfigError, shown
from enrich.base.spec import DataType
from enrich.compiler.schemas import build_struct

if TYPE_CHECKING:
    from sqlglot import exp

_NAMES = {
    "TEXT": "string",
    "BOOLEAN": "boolean",
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DATE": "date",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPLTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp_ntz",
    "BINARY": "binary",
}
"""sqlglot's name of a type -> Delta's."""


def read_ddl_type(text: str) -> DataType | None:
    """Return Delta's name for a type of Spark SQL; None when it is none that a table can have."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        return _convert_type(exp.DataType.build(text, dialect="spark"))
    except (SqlglotError, AttributeError, KeyError, ValueError):
        return None


def read_columns(text: str) -> dict[str, DataType]:
    """Return the columns that a text declares: name -> type, in order.

    Raises:
        ConfigError: A part is not a name and a type, or a name stands twice.
    """
    found: dict[str, DataType] = {}
    for part in _split(text):
        name, kind = _split_name(part.strip())
        read = read_ddl_type(kind) if kind else None
        if not name or read is None:
            raise ConfigError(
                f"--types: {shown(part.strip())!r} is not a column and its type",
                hint="write it as Spark SQL does: --types 'id bigint, at timestamp, amount decimal(10,2)'",
            )
        if name.lower() in map(str.lower, found):
            raise ConfigError(f"--types names the column {shown(name)!r} twice")
        found[name] = read
    return found


def _split_name(part: str) -> tuple[str, str]:
    """Return a column's name, which may stand in backticks, and the rest."""
    if part.startswith("`"):
        name, _, kind = part[1:].partition("`")
        return name, kind.strip()
    words = part.split(None, 1)
    return (words[0].rstrip(":"), words[1]) if len(words) == 2 else (part, "")


def _split(text: str) -> list[str]:
    """Split at the commas that are in no brackets and no backticks."""
    parts, depth, quoted = [""], 0, False
    for each in text:
        quoted ^= each == "`"
        depth += 0 if quoted else (each in "(<") - (each in ")>")
        if each == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += each
    return parts


def _convert_type(found: exp.DataType) -> DataType:
    name = found.this.name
    if name in _NAMES and not found.expressions:
        return _NAMES[name]
    if name == "DECIMAL":
        numbers = [int(each.this.this) for each in found.expressions] or [10]
        return f"decimal({numbers[0]},{numbers[1] if len(numbers) > 1 else 0})"
    if name == "ARRAY":
        (element,) = found.expressions
        return {"type": "array", "elementType": _convert_type(element), "containsNull": True}
    if name == "MAP":
        key, value = map(_convert_type, found.expressions)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if name == "STRUCT":
        return build_struct({each.this.name: _convert_type(each.args["kind"]) for each in found.expressions})
    raise ValueError(name)
