"""Read Delta's types and constraints as its log writes them: fields, names for messages, and what rows must fulfil."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from enrich.base.spec import DataType, quote

WHOLE_NUMBERS = ("byte", "short", "integer", "long")  # the types of these, from the narrowest
_NUMBERS = frozenset({*WHOLE_NUMBERS, "float", "double"})
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
_INSIDE = ("elementType", "keyType", "valueType")  # what arrays and maps hold
_COMPARABLE = _NUMBERS | _TIMES | {"boolean", "string", "binary", "void"}


def kind_of(kind: DataType) -> str:
    """Return the outermost name of a type: ``struct``, ``array``, ``map``, or the primitive's."""
    return kind if isinstance(kind, str) else str(kind["type"])


def fields_of(kind: DataType) -> dict[str, DataType]:
    """Return the fields of a struct, or of the structs in an array (Spark reads ``array.field`` as an array)."""
    if isinstance(kind, str) or kind["type"] == "map":
        return {}
    if kind["type"] == "array":
        return fields_of(kind["elementType"])
    return {field["name"]: field["type"] for field in kind["fields"]}


def build_struct(fields: Mapping[str, DataType]) -> dict[str, Any]:
    """Return the type of a struct with these fields."""
    listed = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    return {"type": "struct", "fields": listed}


def name_of(kind: DataType) -> str:
    """Return a type as Spark writes it in DDL: ``array<struct<id:string>>``."""
    if isinstance(kind, str):
        return {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}.get(kind, kind)
    if kind["type"] == "array":
        return f"array<{name_of(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{name_of(kind['keyType'])},{name_of(kind['valueType'])}>"
    return "struct<" + ",".join(f"{f['name']}:{name_of(f['type'])}" for f in kind["fields"]) + ">"


def strip_type(kind: DataType) -> DataType:
    """Return a type without nullability and metadata: two types are one when their shapes are equal."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        fields = [{"name": field["name"], "type": strip_type(field["type"])} for field in kind["fields"]]
        return {"type": "struct", "fields": fields}
    return {"type": kind["type"], **{part: strip_type(kind[part]) for part in _INSIDE if part in kind}}


def incomparable(kind: DataType) -> list[str]:
    """Return the simple types within a type, such as variants and intervals, that a target cannot hold and compare."""
    simple = {part["type"] for _, part in walk_parts({"type": kind}) if isinstance(part["type"], str)}
    return sorted(name for name in simple if name not in _COMPARABLE and not name.startswith("decimal"))


def walk_parts(part: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a field and all inside it, each with its path: fields, and parts of arrays and maps, which have no name."""
    path = f"{path}.{quote(part['name'])}" if "name" in part else path
    yield path, part
    if not isinstance(kind := part["type"], str):
        for each in (*kind.get("fields", ()), *[{"type": kind[inner]} for inner in _INSIDE if inner in kind]):
            yield from walk_parts(each, path)


def may_be_key(kind: DataType) -> bool:
    """Return whether values of the type can be keys."""
    return isinstance(kind, str) and kind != "void"


def is_time(kind: DataType) -> bool:
    """Return whether a type can be a time: a date, a timestamp or a number."""
    return isinstance(kind, str) and (kind in _TIMES | _NUMBERS or kind.startswith("decimal"))


def find(name: str, names: Collection[str]) -> str | None:
    """Return the name among ``names`` that Spark would resolve ``name`` to: exact, else equal but for case."""
    if name in names:
        return name
    same = [each for each in names if each.lower() == name.lower()]
    return same[0] if len(same) == 1 else None


# --- what a table demands of its rows ---------------------------------------------------------------------------------

NOT_NULL, CHECK, GENERATED, LENGTH = "NOT NULL", "CHECK", "GENERATED", "LENGTH"

_CHECKS = "delta.constraints."
_LIMITED = re.compile(r"((?:var)?char)\((\d+)\)")
_GENERATION, _DEFAULT, _IDENTITY = "delta.generationExpression", "CURRENT_DEFAULT", "delta.identity."


@dataclass(frozen=True)
class Constraint:
    """One thing that must hold for each row."""

    type: str
    name: str  # of the constraint, else of the column; fields of structs behind a dot
    path: tuple[str, ...] = ()  # the column and the fields in it; empty for a constraint of the table
    expression: str = ""  # what Spark computes, where there is something to compute
    limit: int = 0  # characters

    def __str__(self) -> str:
        return {
            NOT_NULL: f"null in column {self.name!r}, which is NOT NULL",
            CHECK: f"CHECK constraint {self.name!r} does not hold",
            GENERATED: f"generated column {self.name!r} has another value than its expression gives",
            LENGTH: f"column {self.name!r} has more than {self.limit} characters",
        }[self.type]


@dataclass(frozen=True)
class Demands:
    """What a table demands of its rows, and what it fills in by itself: column -> expression."""

    constraints: tuple[Constraint, ...] = ()
    generated: Mapping[str, str] = field(default_factory=dict)  # whenever the column is not written
    defaults: Mapping[str, str] = field(default_factory=dict)  # for new rows; empty for numbers that Delta counts up


def read_demands(fields: Sequence[Mapping[str, Any]], properties: Mapping[str, str]) -> Demands:
    """Return what the fields of a Delta schema and the properties of its table say."""
    told = {each["name"]: each.get("metadata") or {} for each in fields}
    named = {name: text for name, text in properties.items() if name.lower().startswith(_CHECKS)}
    checks = [Constraint(CHECK, name[len(_CHECKS) :], (), text) for name, text in named.items()]
    generated = {name: known[_GENERATION] for name, known in told.items() if _GENERATION in known}
    defaults = {name: known[_DEFAULT] for name, known in told.items() if _DEFAULT in known}
    counted = {name: "" for name, known in told.items() if any(each.startswith(_IDENTITY) for each in known)}
    return Demands((*_list_fields(fields, ()), *checks), generated, {**defaults, **counted})


def _list_fields(fields: Sequence[Mapping[str, Any]], above: tuple[str, ...]) -> Iterator[Constraint]:
    """List what fields demand, those inside of structs too; Delta does not look into arrays and maps."""
    for each in fields:
        path, metadata = (*above, each["name"]), each.get("metadata") or {}
        name, kind = ".".join(path), each["type"]
        if not each.get("nullable", True):
            yield Constraint(NOT_NULL, name, path)
        if "delta.invariants" in metadata:  # the older form of a CHECK
            yield Constraint(CHECK, name, path, json.loads(metadata["delta.invariants"])["expression"]["expression"])
        if _GENERATION in metadata:
            yield Constraint(GENERATED, name, path, metadata[_GENERATION])
        if limited := _LIMITED.fullmatch(str(metadata.get("__CHAR_VARCHAR_TYPE_STRING", ""))):
            yield Constraint(LENGTH, name, path, limit=int(limited[2]))
        if isinstance(kind, Mapping) and kind["type"] == "struct":
            yield from _list_fields(kind["fields"], path)


def is_wide(kind: str) -> bool:
    """Return whether sums of such decimals may lose their last digit to Spark's types."""
    found = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", kind)
    return found is not None and int(found[1]) > 26 and int(found[2]) > 6
