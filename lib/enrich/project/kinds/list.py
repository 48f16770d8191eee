"""Read a list join: each element of an array of the row is an id of the lookup, or a struct with one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enrich.base.console import format_count
from enrich.base.schemas import build_struct, fields_of, find, incomparable, kind_of, name_of
from enrich.base.spec import DataType, Step
from enrich.project.kinds.syntax import Draft, JoinSyntax

if TYPE_CHECKING:
    from enrich.project.compile import Compiler
    from enrich.project.models import Join


class List(JoinSyntax):
    """``addresses: {kind: list, elements: persons.address_ids}``."""

    name = "list"
    says = "an array of ids"
    needs = ("elements",)
    takes = ("element_key", "duplicates", "unmatched")
    hows = ("left",)
    gives_list = True

    def check(self, draft: Draft, alias: str, join: dict[str, Any]) -> None:  # noqa: ARG002
        """An element has one id."""
        key = draft.key(alias)
        if len(key) > 1:
            has = f"the key of {alias!r} has {format_count(len(key), 'column')}"
            draft.fault(f"a list join uses one id, but {has}", "join", alias)

    def compile(self, compiler: Compiler, alias: str, join: Join) -> Step:
        """Find the element's type; what later expressions see under the alias is the list of its lookup's rows."""
        place = ("join", alias, "elements")
        expression = compiler.expression(join.elements or "", *place)
        kind = compiler.type_of(expression, *place) if expression is not None else None
        compiler.referring[alias] = [expression] if expression is not None else []
        key, own = _find_id(compiler, alias, join, kind) if kind is not None else (join.element_key, {})
        lookup = {name: kind for name, kind in compiler.tables[alias].items() if kind != "void"}
        taken = {name.lower() for name in (*lookup, *compiler.keys[alias])}
        for name in own:
            if name.lower() in taken:
                compiler.fault(f"the element's field {name!r} has the name of a column of {alias!r}", *place)
        id_columns = {name: lookup[name] for name in compiler.keys[alias] if name in lookup}
        shown = {name: k for name, k in lookup.items() if name not in id_columns and not incomparable(k)}
        element = build_struct(id_columns | own | shown)
        compiler.frame[alias] = {"type": "array", "containsNull": True, "elementType": element}
        for name in lookup:
            compiler.named(alias, name, "join", alias)
        drops = (join.duplicates == "drop", join.unmatched == "drop")
        return Step(alias, self.name, "left", (), join.elements, key, tuple(own), *drops)


def _find_id(compiler: Compiler, alias: str, join: Join, kind: DataType) -> tuple[str | None, dict[str, DataType]]:
    """Check the type of ``elements``; return the struct's field with the id, and its other fields."""
    place, at_key = ("join", alias, "elements"), ("join", alias, "element_key")
    wanted, key, fault = join.element_key, compiler.keys[alias][0], compiler.fault
    if kind_of(kind) != "array" or isinstance(kind, str):
        fault(f"{join.elements} is {name_of(kind)}; a list join needs an array", *place)
        return wanted, {}
    element: DataType = kind["elementType"]
    if kind_of(element) != "struct":
        if wanted is not None:
            fault(f"element_key is for arrays of structs; {join.elements} is {name_of(kind)}", *at_key)
        compiler.check_types(alias, (f"an element of {join.elements}", element), key, place)
        return wanted, {}
    if wanted is None:
        fault(f"the elements of {join.elements} are structs; name the field with the id as element_key", *place)
        return None, {}
    fields = fields_of(element)
    found = find(wanted, fields)
    if found is None:
        names = ", ".join(sorted(fields))
        fault(f"the elements of {join.elements} have no field {wanted!r}; they have: {names}", *at_key)
        return wanted, {}
    compiler.check_types(alias, (f"{join.elements}.{found}", fields[found]), key, at_key)
    return found, {name: each for name, each in fields.items() if name != found}
