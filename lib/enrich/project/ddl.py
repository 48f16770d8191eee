"""Types and columns as Spark SQL declares them: ``decimal(10,2)``, ``id string, at timestamp``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from enrich.base.schemas import build_struct
from enrich.base.spec import DataType

if TYPE_CHECKING:
    from sqlglot import exp

_NAMES = {
    "TEXT": "string", "BOOLEAN": "boolean", "BINARY": "binary", "DATE": "date",
    "TINYINT": "byte", "SMALLINT": "short", "INT": "integer", "BIGINT": "long", "FLOAT": "float", "DOUBLE": "double",
    "TIMESTAMPTZ": "timestamp", "TIMESTAMPLTZ": "timestamp", "TIMESTAMPNTZ": "timestamp_ntz",
}  # fmt: skip
"""sqlglot's name of a type -> Delta's."""
_NO_TYPE = re.compile(r"(?i);|--|/\*|,\s*[,>)]|\scollate\s")
"""What sqlglot passes over: a second statement, comments, commas with nothing after them, and collations."""


def read_ddl_type(text: str) -> DataType | None:
    """Return Delta's name for a type of Spark SQL; None when no table has it, or with more than a type (NOT NULL)."""
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


def _take_only(node: exp.Expr, wanted: str, *known: str) -> Any:
    """Return one part of what sqlglot has read; raise ValueError where it has more than that and the known ones."""
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
