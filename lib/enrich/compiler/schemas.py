"""Delta's types as its log writes them: fields, elements, names for messages, and what may be a key."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from enrich.spec import DataType

_NO_KEYS = frozenset({"map", "array", "struct", "variant", "void"})


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


def shape(kind: DataType) -> DataType:
    """Return a type without nullability and metadata: two types are one when their shapes are equal."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "array":
        return {"type": "array", "elementType": shape(kind["elementType"])}
    if kind["type"] == "map":
        return {"type": "map", "keyType": shape(kind["keyType"]), "valueType": shape(kind["valueType"])}
    fields = [{"name": field["name"], "type": shape(field["type"])} for field in kind["fields"]]
    return {"type": "struct", "fields": fields}


def may_be_key(kind: DataType) -> bool:
    """Return whether values of the type can be keys."""
    return kind_of(kind) not in _NO_KEYS


def find(name: str, names: dict[str, Any]) -> str | None:
    """Return the name among ``names`` that Spark would resolve ``name`` to: exact, else equal but for case."""
    if name in names:
        return name
    same = [each for each in names if each.lower() == name.lower()]
    return same[0] if len(same) == 1 else None


def meant(name: str, names: dict[str, Any]) -> str:
    """Return a "did you mean" for an unknown name."""
    close = get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    known = ", ".join(sorted(names)[:12])
    return f"it has: {known}{', …' if len(names) > 12 else ''}"
