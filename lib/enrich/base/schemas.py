"""Delta's types as its log writes them: fields, elements, names for messages, and what may be a key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from enrich.base.spec import DataType

_NO_KEYS = frozenset({"map", "array", "struct", "void"})
_COMPARABLE = frozenset(
    {"boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date", "timestamp"}
    | {"timestamp_ntz", "void"}
)

_TIMES = frozenset({"date", "timestamp", "timestamp_ntz", "byte", "short", "integer", "long", "float", "double"})


def kind_of(kind: DataType) -> str:
    """Return the outermost name of a type: ``struct``, ``array``, ``map``, or the primitive's."""
    return kind if isinstance(kind, str) else str(kind["type"])


def fields_of(kind: DataType) -> dict[str, DataType] | None:
    """Return the fields of a struct, or of the structs in an array (Spark reads ``array.field`` as an array)."""
    if isinstance(kind, str):
        return None
    if kind["type"] == "array":
        return fields_of(kind["elementType"])
    if kind["type"] != "struct":
        return None
    return {field["name"]: field["type"] for field in kind["fields"]}


def build_struct(fields: Mapping[str, DataType]) -> dict[str, Any]:
    """Return the type of a struct with these fields."""
    listed = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    return {"type": "struct", "fields": listed}


def name_of(kind: DataType) -> str:
    """Return a type as Spark writes it in DDL: ``array<struct<id:string>>``."""
    if isinstance(kind, str):
        return {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}.get(kind, kind)
    found: dict[str, Any] = kind
    if found["type"] == "array":
        return f"array<{name_of(found['elementType'])}>"
    if found["type"] == "map":
        return f"map<{name_of(found['keyType'])},{name_of(found['valueType'])}>"
    return "struct<" + ",".join(f"{f['name']}:{name_of(f['type'])}" for f in found["fields"]) + ">"


def strip_type(kind: DataType) -> DataType:
    """Return a type without nullability and metadata: two types are one when their shapes are equal."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "array":
        return {"type": "array", "elementType": strip_type(kind["elementType"])}
    if kind["type"] == "map":
        return {"type": "map", "keyType": strip_type(kind["keyType"]), "valueType": strip_type(kind["valueType"])}
    fields = [{"name": field["name"], "type": strip_type(field["type"])} for field in kind["fields"]]
    return {"type": "struct", "fields": fields}


def incomparable(kind: DataType) -> list[str]:
    """Return the simple types within a type, such as variants and intervals, that a target cannot hold and compare."""
    return sorted(name for name in _simple(kind) if name not in _COMPARABLE and not name.startswith("decimal"))


def holds_void(kind: DataType) -> bool:
    """Return whether a type has a part that is always null, as in ``array()``."""
    return "void" in _simple(kind)


def _simple(kind: DataType) -> set[str]:
    match kind:
        case str():
            return {kind}
        case {"type": "array", "elementType": element}:
            return _simple(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            return _simple(key) | _simple(value)
    return set().union(*(_simple(field["type"]) for field in kind["fields"]))


def may_be_key(kind: DataType) -> bool:
    """Return whether values of the type can be keys."""
    return kind_of(kind) not in _NO_KEYS


def is_time(kind: DataType) -> bool:
    """Return whether a type can be a time: a date, a timestamp or a number."""
    return isinstance(kind, str) and (kind in _TIMES or kind.startswith("decimal"))


def find(name: str, names: Collection[str]) -> str | None:
    """Return the name among ``names`` that Spark would resolve ``name`` to: exact, else equal but for case."""
    if name in names:
        return name
    same = [each for each in names if each.lower() == name.lower()]
    return same[0] if len(same) == 1 else None
