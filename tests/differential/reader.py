"""Read tables with delta-rs: rows, types, change feed. No JVM, nothing of enrich."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, Schema

from differential.spec import Row


def exists(path: Path) -> bool:
    """Tell whether a Delta table stands at ``path``."""
    return (path / "_delta_log").is_dir()


def read(path: Path, version: int | None = None) -> pa.Table:
    """Return all rows of the table at ``path``, now or at a version, deletion vectors applied."""
    table = DeltaTable(str(path), version=version)
    return pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())


def rows(path: Path) -> list[Row]:
    """Return all rows of the table at ``path`` as dictionaries."""
    found: list[Row] = read(path).to_pylist()
    return found


def kinds(path: Path) -> dict[str, Any]:
    """Return column -> its type as Delta's log writes it."""
    fields = json.loads(DeltaTable(str(path)).schema().to_json())["fields"]
    return {field["name"]: field["type"] for field in fields}


def record(path: Path) -> dict[str, Any]:
    """Return what the last run that wrote into the table says in its commit; empty where none did."""
    found = (json.loads(each.get("userMetadata") or "{}") for each in DeltaTable(str(path)).history())
    return next((each for each in found if "columns" in each), {})  # upkeep has a record of its own kind


def version(path: Path) -> int:
    """Return the table's latest version; -1 when there is none."""
    return int(DeltaTable(str(path)).version()) if exists(path) else -1


def types(path: Path) -> dict[str, str]:
    """Return column -> Delta type as JSON text, in order."""
    return {field.name: delta_type(field.type) for field in DeltaTable(str(path)).schema().fields}


def delta_types(columns: Mapping[str, pa.DataType]) -> dict[str, str]:
    """Return column -> Delta type as JSON text, as ``types`` does, for Arrow types."""
    schema = Schema.from_arrow(pa.schema(list(columns.items())))
    return {field.name: delta_type(field.type) for field in schema.fields}


def delta_type(type_: Any) -> str:
    """Return one spelling of a Delta type, without nullability."""
    text = type_.to_json() if hasattr(type_, "to_json") else str(type_)
    return (
        str(text)
        .replace('"nullable":false', '"nullable":true')
        .replace('"containsNull":false', '"containsNull":true')
        .replace('"valueContainsNull":false', '"valueContainsNull":true')
    )


def changes(path: Path, first: int, last: int) -> list[Row]:
    """Return the rows of the change feed of the commits ``first`` to ``last``, both included."""
    if first > last:
        return []
    feed = DeltaTable(str(path)).load_cdf(starting_version=first, ending_version=last)
    found: list[Row] = pa.table(feed.read_all()).to_pylist()
    return found


def data_commits(path: Path, first: int, last: int) -> int:
    """Return how many of the commits ``first`` to ``last`` added or removed data (dataChange), from the log itself."""
    count = 0
    for number in range(first, last + 1):
        lines = (path / "_delta_log" / f"{number:020d}.json").read_text().splitlines()
        actions = [json.loads(line) for line in lines]
        count += any(a.get(kind, {}).get("dataChange", False) for a in actions for kind in ("add", "remove"))
    return count
