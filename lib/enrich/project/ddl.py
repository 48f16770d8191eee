"""Types and columns as Spark SQL declares them: ``decimal(10,2)``, ``id string, at timestamp``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from enrich.base.errors import ConfigError, show_text
from enrich.base.schemas import build_struct
from enrich.base.spec import DataType

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
_NO_TYPE = re.compile(r"(?i);|--|/\*|,\s*[,>)]|\scollate\s")
"""What sqlglot passes over: a second statement, comments, commas with nothing after them, and collations."""


def read_ddl_type(text: str) -> DataType | None:
    """Return Delta's name for a type of Spark SQL; None when it is none that a table can have.

    A type alone is meant: NOT NULL, COMMENT and COLLATE, which would be lost, are none.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if _NO_TYPE.search(text):
        return None
    try:
        # Of a type alone, sqlglot reads as much as it understands and leaves the rest; in a cast, it refuses the rest.
        _take_only(sqlglot.parse_one(f"CAST(NULL AS {text})", dialect="spark"), "to", "this")
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
        # A column's name, which may stand in backticks, and its type.
        if part.strip().startswith("`"):
            name, _, kind = part.strip()[1:].partition("`")
        else:
            words = part.split(None, 1)
            name, kind = (words[0].rstrip(":"), words[1]) if len(words) == 2 else (part.strip(), "")
        read = read_ddl_type(kind.strip()) if kind.strip() else None
        if not name or read is None:
            raise ConfigError(
                f"--types: {show_text(part.strip())!r} is not a column and its type",
                hint="write it as Spark SQL does: --types 'id bigint, at timestamp, amount decimal(10,2)'",
            )
        if name.lower() in map(str.lower, found):
            raise ConfigError(f"--types names the column {show_text(name)!r} twice")
        found[name] = read
    return found


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


def _take_only(node: exp.Expr, wanted: str, *known: str) -> Any:
    """Return one part of what sqlglot has read.

    Raises:
        ValueError: It has parts beside that one and the known ones.
    """
    if more := {name for name, part in node.args.items() if part} - {wanted, *known}:
        raise ValueError(more)
    return node.args[wanted]


def _convert_type(found: exp.DataType) -> DataType:
    name = _take_only(found, "this", "expressions", "nested").name
    if name in _NAMES and not found.expressions:
        return _NAMES[name]
    if name == "DECIMAL":
        numbers = [int(_take_only(each, "this").this) for each in found.expressions] or [10]
        precision, scale = (*numbers, 0)[:2]
        if len(numbers) > 2 or not 0 < precision <= 38 or scale > precision:
            raise ValueError(name)
        return f"decimal({precision},{scale})"
    if name == "ARRAY":
        (element,) = found.expressions
        return {"type": "array", "elementType": _convert_type(element), "containsNull": True}
    if name == "MAP":
        key, value = map(_convert_type, found.expressions)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if name == "STRUCT":
        fields = {each.this.name: _convert_type(_take_only(each, "kind", "this")) for each in found.expressions}
        if not fields or len({field.lower() for field in fields}) < len(found.expressions):
            raise ValueError(name)
        return build_struct(fields)
    raise ValueError(name)
