"""What a table's schema says of its values beside their types: their names in the files, and CHAR.

The names (column mapping) suffice, ids need no comparison: Delta gives a column that is dropped and added again a new
physical name. A CHAR(5) is a string in the log; Spark fills its values with blanks when it reads them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from enrich.base.spec import DataType, quote

_PHYSICAL = "delta.columnMapping.physicalName"
_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
_CHAR = re.compile(r"(?i)\bchar\s*\(")


def find_physical_names(fields: Sequence[dict[str, Any]], path: str = "") -> dict[str, str]:
    """Return the names of fields in the files, where these are others than their own; fields inside them, too."""
    found = {}
    for field in fields:
        inside = f"{path}.{quote(field['name'])}"
        physical = (field.get("metadata") or {}).get(_PHYSICAL, field["name"])
        if physical != field["name"]:
            found[inside] = physical
        found |= find_physical_names(_fields_inside(field["type"]), inside)
    return found


def find_char_types(field: dict[str, Any]) -> list[str]:
    """Return the types with a CHAR in them that a column, and the fields inside it, were declared with.

    A VARCHAR is left out: its length decides what may be written, and not what is read.
    """
    declared = str((field.get("metadata") or {}).get(_DECLARED, ""))
    inside = [each for part in _fields_inside(field["type"]) for each in find_char_types(part)]
    return [declared, *inside] if _CHAR.search(declared) else inside


def keeps_values(before: DataType, after: DataType) -> bool:
    """Return whether a column that gets another type keeps its values.

    Structs in it may gain fields, which are null in what is old. What was always null, and so had no type, may get any.
    """
    if before == "void":
        return True
    if isinstance(before, str) or isinstance(after, str):
        return before == after
    if before["type"] != after["type"]:
        return False
    if before["type"] == "struct":
        there = {field["name"].lower(): field["type"] for field in after["fields"]}
        fields = [(field["type"], there.get(field["name"].lower())) for field in before["fields"]]
        return all(now is not None and keeps_values(was, now) for was, now in fields)
    parts = [part for part in ("elementType", "keyType", "valueType") if part in before]
    return all(keeps_values(before[part], after[part]) for part in parts)


def _fields_inside(kind: DataType) -> list[dict[str, Any]]:
    """Return the fields of a struct, and those of the structs in arrays and maps."""
    if isinstance(kind, str):
        return []
    kinds = [kind[name] for name in ("elementType", "keyType", "valueType") if name in kind]
    return [*kind.get("fields", []), *[field for each in kinds for field in _fields_inside(each)]]
