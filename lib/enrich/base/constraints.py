"""What a Delta table demands of its rows, as its schema and its properties say.

====================================  ==========================  ===========================================
in the log                            a row violates it           Delta calls it
====================================  ==========================  ===========================================
a field that is not nullable          null, also in a null struct  NOT NULL
``delta.constraints.NAME``            false or null               CHECK constraint NAME
``delta.invariants`` of a field       false or null               the older form of a CHECK
``delta.generationExpression``        another value               generated column
``varchar(n)``, ``char(n)``           more characters             length
====================================  ==========================  ===========================================
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NOT_NULL, CHECK, GENERATED, LENGTH = "NOT NULL", "CHECK", "GENERATED", "LENGTH"

_CHECKS = "delta.constraints."
_LIMITED = re.compile(r"((?:var)?char)\((\d+)\)")


@dataclass(frozen=True)
class Constraint:
    """One thing that must hold for each row.

    Attributes:
        type: ``NOT NULL CHECK GENERATED LENGTH``.
        name: The name of the constraint, else of the column; fields of structs behind a dot.
        path: The column and the fields in it; empty for a constraint of the table.
        expression: What Spark computes, where there is something to compute.
        limit: Characters, of ``LENGTH``.
    """

    type: str
    name: str
    path: tuple[str, ...] = ()
    expression: str = ""
    limit: int = 0

    def __str__(self) -> str:
        return {
            NOT_NULL: f"null in column {self.name!r}, which is NOT NULL",
            CHECK: f"CHECK constraint {self.name!r} does not hold",
            GENERATED: f"generated column {self.name!r} has another value than its expression gives",
            LENGTH: f"column {self.name!r} has more than {self.limit} characters",
        }[self.type]


@dataclass(frozen=True)
class Demands:
    """What a table demands of its rows, and what it fills in by itself.

    Attributes:
        constraints: What must hold.
        generated: Column -> the expression that it is computed with whenever it is not written.
        defaults: Column -> the expression for new rows that lack it; empty for numbers that Delta counts up.
    """

    constraints: tuple[Constraint, ...] = ()
    generated: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)


def read_demands(fields: Sequence[Mapping[str, Any]], properties: Mapping[str, str]) -> Demands:
    """Return what the fields of a Delta schema and the properties of its table say."""
    told = {each["name"]: each.get("metadata") or {} for each in fields}
    named = {name: text for name, text in properties.items() if name.lower().startswith(_CHECKS)}
    checks = [Constraint(CHECK, name[len(_CHECKS) :], (), text) for name, text in named.items()]
    generated = {name: known[_GENERATION] for name, known in told.items() if _GENERATION in known}
    defaults = {name: known[_DEFAULT] for name, known in told.items() if _DEFAULT in known}
    counted = {name: "" for name, known in told.items() if any(each.startswith(_IDENTITY) for each in known)}
    return Demands((*_list_fields(fields, ()), *checks), generated, {**defaults, **counted})


_GENERATION, _DEFAULT, _IDENTITY = "delta.generationExpression", "CURRENT_DEFAULT", "delta.identity."


def _list_fields(fields: Sequence[Mapping[str, Any]], above: tuple[str, ...]) -> Iterator[Constraint]:
    """List what fields demand, those inside of structs too; Delta does not look into arrays and maps."""
    for each in fields:
        path, metadata = (*above, each["name"]), each.get("metadata") or {}
        name, kind = ".".join(path), each["type"]
        if not each.get("nullable", True):
            yield Constraint(NOT_NULL, name, path)
        if "delta.invariants" in metadata:
            yield Constraint(CHECK, name, path, json.loads(metadata["delta.invariants"])["expression"]["expression"])
        if _GENERATION in metadata:
            yield Constraint(GENERATED, name, path, metadata[_GENERATION])
        if limited := _LIMITED.fullmatch(str(metadata.get("__CHAR_VARCHAR_TYPE_STRING", ""))):
            yield Constraint(LENGTH, name, path, limit=int(limited[2]))
        if isinstance(kind, Mapping) and kind["type"] == "struct":
            yield from _list_fields(kind["fields"], path)
