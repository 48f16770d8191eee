"""Hold OpenLineage events against the classes that the client's release generates from the standard's JSON schemas.

The client ships no schemas. Its classes have their fields, types, required fields and identifiers, and validators for
times, ids and addresses; `tests/world` checks against the schemas themselves.
"""

from __future__ import annotations

import importlib
import pkgutil
import types
import typing
from enum import Enum
from functools import cache
from typing import Any

import attr
from openlineage.client import generated
from openlineage.client.generated import base

_OF_EVERY_FACET = ("_producer", "_schemaURL", "_deleted")


@cache
def find_facets() -> dict[str, type]:
    """Return the classes of the standard by the address of their schema."""
    modules = [
        importlib.import_module(f"{generated.__name__}.{each.name}")
        for each in pkgutil.iter_modules(generated.__path__)
    ]
    found = {}
    for module in modules:
        for each in vars(module).values():
            if isinstance(each, type) and attr.has(each) and hasattr(each, "_get_schema"):
                found[each._get_schema()] = each
    return found


def check_event(event: dict[str, Any]) -> None:
    """Fail unless an event is one of the standard, with all its facets."""
    assert event["schemaURL"] == base.RunEvent._get_schema()
    _check(event, base.RunEvent, "event")


def _check(value: Any, wanted: Any, place: str) -> None:
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        (wanted,) = [each for each in inner if each is not type(None)]
        _check(value, wanted, place)
    elif origin is list:
        assert isinstance(value, list), place
        for index, each in enumerate(value):
            _check(each, inner[0], f"{place}[{index}]")
    elif origin is dict:
        assert isinstance(value, dict), place
        for name, each in value.items():
            _check(each, inner[1], f"{place}.{name}")
    elif wanted is Any:
        return
    elif isinstance(wanted, type) and issubclass(wanted, Enum):
        wanted(value)
    elif attr.has(wanted):
        _check_object(value, wanted, place)
    else:
        assert isinstance(value, (int, float) if wanted is float else wanted), f"{place}: {value!r} is no {wanted}"


def _check_object(value: Any, wanted: type, place: str) -> None:
    assert isinstance(value, dict), place
    if "_schemaURL" in value:  # a facet: its own class, which has to be of the family that may stand here
        assert value["_producer"], place
        facet = find_facets()[value["_schemaURL"]]
        assert issubclass(facet, wanted), f"{place}: {facet.__name__} is no {wanted.__name__}"
        wanted = facet
    hints = typing.get_type_hints(wanted)
    fields = {each.name: each for each in attr.fields(wanted)}
    assert set(value) <= set(fields), f"{place} has {set(value) - set(fields)}"
    missing = {name for name, each in fields.items() if each.default is attr.NOTHING} - set(value)
    assert missing == set(), f"{place} lacks {missing}"
    for name, each in value.items():
        if name not in _OF_EVERY_FACET:
            _check(each, hints[name], f"{place}.{name}")
            if (validator := fields[name].validator) is not None:
                validator(None, fields[name], each)
