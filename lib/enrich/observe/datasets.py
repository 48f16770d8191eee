"""Tables as OpenLineage names and describes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from openlineage.client.facet_v2 import schema_dataset, symlinks_dataset

from enrich.base.schemas import kind_of, name_of
from enrich.base.spec import DataType
from enrich.config.places import CatalogName, Location

_URI = re.compile(r"([a-z][a-z0-9]*)://([^/]+)(/.*)?")
_SCHEMES = {"s3a": "s3"}
"""What OpenLineage writes for the same store."""
_ROOTED = ("hdfs",)
"""Stores whose names begin with a slash."""


@dataclass(frozen=True)
class Name:
    """What identifies a dataset."""

    namespace: str
    name: str


def name_dataset(location: Location, uri: str | None, namespace: str) -> Name:
    """Return a table's name by the naming rules of OpenLineage: that of its directory, as its Spark agent does.

    Args:
        location: What the job file names.
        uri: Where a catalog table is; None where that is not known.
        namespace: Where a catalog table of unknown place belongs.
    """
    place = uri if isinstance(location, CatalogName) else location
    if place is None:
        return Name(namespace, str(location))
    match = _URI.fullmatch(place)
    if match is None:
        return Name("file", place)
    scheme, authority, path = match[1], match[2], match[3] or "/"
    return Name(f"{_SCHEMES.get(scheme, scheme)}://{authority}", path if scheme in _ROOTED else path.lstrip("/") or "/")


def describe_alias(location: Location, namespace: str) -> dict[str, Any]:
    """Return the facet that says how a catalog calls a table; empty for tables that are named by their path."""
    if not isinstance(location, CatalogName):
        return {}
    identifier = symlinks_dataset.Identifier(namespace, str(location), "TABLE")
    return {"symlinks": symlinks_dataset.SymlinksDatasetFacet([identifier])}


def describe_schema(columns: dict[str, DataType]) -> dict[str, Any]:
    """Return the facet of a table's columns and their types."""
    return {"schema": schema_dataset.SchemaDatasetFacet(_describe_fields(columns))}


def _describe_fields(columns: dict[str, DataType]) -> list[schema_dataset.SchemaDatasetFacetFields]:
    return [
        schema_dataset.SchemaDatasetFacetFields(name, name_of(kind), fields=_describe_nested(kind))
        for name, kind in columns.items()
    ]


def _describe_nested(kind: DataType) -> list[schema_dataset.SchemaDatasetFacetFields] | None:
    """Return the fields of a struct; arrays and maps are told by their type alone."""
    if isinstance(kind, str) or kind_of(kind) != "struct":
        return None
    return _describe_fields({each["name"]: each["type"] for each in kind["fields"]})
