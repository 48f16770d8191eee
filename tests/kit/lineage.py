"""Hold OpenLineage events against the standard: its JSON schemas, and the classes that the client generates from them.

The schemas are in ``openlineage/`` beside this file, or where ``ENRICH_OPENLINEAGE_SPEC`` says: they allow keys that
they do not know. The client's classes do not, and they say which family of facets may stand where.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import types
import typing
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import attr
from jsonschema import Draft202012Validator, FormatChecker
from openlineage.client import generated
from openlineage.client.generated import base
from referencing import Registry, Resource

SPEC = Path(os.environ.get("ENRICH_OPENLINEAGE_SPEC") or Path(__file__).with_name("openlineage"))
_ROOT = "https://openlineage.io/spec/"
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
    check_schema(event, event["schemaURL"])
    for facet in list_facets(event):
        check_schema(facet, facet["_schemaURL"])
    _check(event, base.RunEvent, "event")


@cache
def read_schemas() -> dict[str, Any]:
    """Return the standard's schemas by their identifiers."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(SPEC.rglob("*.json"))]
    return {each["$id"]: each for each in found if "$id" in each}


def _retrieve(address: str) -> Resource[Any]:
    """Return a schema, or the one of the same facet and of the same major version: a checkout has one of each."""
    known = read_schemas()
    if address not in known:
        major, name = address.removeprefix(_ROOT).removeprefix("facets/").split("-")[0], address.rpartition("/")[2]
        (address,) = [key for key in known if key.endswith(f"/{name}") and f"/{major}-" in key]
    return Resource.from_contents(known[address])


@cache
def _make_validator(address: str) -> Draft202012Validator:
    registry: Registry[Any] = Registry(retrieve=_retrieve)  # type: ignore[call-arg]  # attrs by a decorator of its own
    return Draft202012Validator({"$ref": address}, registry=registry, format_checker=FormatChecker())


def check_schema(instance: Any, address: str) -> None:
    """Fail unless an event or a facet is as the standard's schema says."""
    faults = [f"{error.json_path}: {error.message}" for error in _make_validator(address).iter_errors(instance)]
    assert faults == [], f"{address}: {faults}"


def list_facets(node: Any) -> list[dict[str, Any]]:
    """Return all facets of an event."""
    if isinstance(node, list):
        return [each for item in node for each in list_facets(item)]
    if not isinstance(node, dict):
        return []
    here = [node] if "_schemaURL" in node else []
    return here + [each for item in node.values() for each in list_facets(item)]


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
