"""What delta-rs cannot do to a table, written by hand into its log: columns renamed, dropped, added and widened.

An administrator's ``ALTER TABLE`` is one commit with new metadata. Tables must have column mapping (by name): a column
has a physical name in the files, which its logical name can leave behind.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Field = dict[str, Any]
_PHYSICAL = "delta.columnMapping.physicalName"
_LAST_ID = "delta.columnMapping.maxColumnId"


def rename(path: Path, column: str, new: str) -> None:
    """Give a column, or a field of a struct (``ref.id``), another name."""
    *parents, name = column.split(".")

    def change(meta: Field) -> None:
        _find(_fields(meta, parents), name)["name"] = new

    _alter(path, "RENAME COLUMN", change)


def drop(path: Path, column: str) -> None:
    """Take a column out of the schema; its values stay in the files."""
    *parents, name = column.split(".")

    def change(meta: Field) -> None:
        fields = _fields(meta, parents)
        fields.remove(_find(fields, name))

    _alter(path, "DROP COLUMNS", change)


def add(path: Path, column: str, type_: Any, place: int | None = None) -> None:
    """Add a column of a Delta type, as the last one or at a place: null in every row."""
    *parents, name = column.split(".")

    def change(meta: Field) -> None:
        metadata = {"delta.columnMapping.id": _next_id(meta), _PHYSICAL: f"col-{uuid.uuid4()}"}
        field = {"name": name, "type": _mapped(meta, type_), "nullable": True, "metadata": metadata}
        fields = _fields(meta, parents)
        fields.insert(len(fields) if place is None else place, field)

    _alter(path, "ADD COLUMNS", change)


def field_at(path: Path, column: str) -> tuple[int, Any]:
    """Return a column's place among its siblings, and its Delta type."""
    *parents, name = column.split(".")
    fields = _fields(_last(path, "metaData"), parents)
    field = _find(fields, name)
    return fields.index(field), field["type"]


def widen(path: Path, column: str) -> None:
    """Make an integer column a long one. delta-rs neither reads nor writes such a table."""

    def change(meta: Field) -> None:
        field = _find(_fields(meta, []), column)
        field["metadata"]["delta.typeChanges"] = [{"fromType": field["type"], "toType": "long"}]
        field["type"] = "long"
        meta["configuration"]["delta.enableTypeWidening"] = "true"

    features = ["columnMapping", "typeWidening"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": [*features, "changeDataFeed", "appendOnly", "invariants"],
    }
    _alter(path, "CHANGE COLUMN", change, {"protocol": protocol})


def is_widened(path: Path) -> bool:
    """Tell whether delta-rs can no longer be asked."""
    return "delta.enableTypeWidening" in _last(path, "metaData")["configuration"]


def set_feed(path: Path, *, on: bool) -> None:
    """Switch the change feed of such a table."""

    def change(meta: Field) -> None:
        meta["configuration"]["delta.enableChangeDataFeed"] = str(on).lower()

    _alter(path, "SET TBLPROPERTIES", change)


def overwrite(path: Path, rows: pa.Table) -> None:
    """Replace all rows of a table without structs in one commit: the feed has them go and come."""
    name = f"part-{uuid.uuid4()}.parquet"
    physical = {field["name"]: field["metadata"][_PHYSICAL] for field in _fields(_last(path, "metaData"), [])}
    pq.write_table(rows.rename_columns([physical[each] for each in rows.column_names]), path / name)
    now = int(time.time() * 1000)
    gone = [{"remove": {"path": each, "deletionTimestamp": now, "dataChange": True}} for each in _live_files(path)]
    come = {"path": name, "partitionValues": {}, "size": (path / name).stat().st_size, "modificationTime": now}
    _commit(path, "WRITE", [*gone, {"add": {**come, "dataChange": True}}])


def read(path: Path, schema: pa.Schema) -> pa.Table:
    """Return all rows of a table without structs and deletion vectors."""
    physical = {field["name"]: field["metadata"][_PHYSICAL] for field in _fields(_last(path, "metaData"), [])}
    parts = [schema.empty_table()]
    for name in _live_files(path):
        found = pq.read_table(path / name)
        columns = [
            found.column(physical[field.name]).cast(field.type)
            if physical[field.name] in found.column_names
            else pa.nulls(len(found), field.type)
            for field in schema
        ]
        parts.append(pa.Table.from_arrays(columns, schema=schema))
    return pa.concat_tables(parts)


def _versions(path: Path) -> list[Path]:
    return sorted(each for each in (path / "_delta_log").glob("*.json") if each.stem.isdigit())


def _actions(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for each in _versions(path) for line in each.read_text("utf-8").splitlines()]


def _last(path: Path, kind: str) -> Field:
    found: Field = [action[kind] for action in _actions(path) if kind in action][-1]
    return found


def _live_files(path: Path) -> list[str]:
    live: dict[str, None] = {}
    for action in _actions(path):
        if "add" in action:
            live[action["add"]["path"]] = None
        elif "remove" in action:
            live.pop(action["remove"]["path"], None)
    return list(live)


def _commit(path: Path, operation: str, actions: list[dict[str, Any]]) -> None:
    info = {"timestamp": int(time.time() * 1000), "operation": operation, "operationParameters": {}}
    lines = [json.dumps(action) for action in ({"commitInfo": info}, *actions)]
    version = int(_versions(path)[-1].stem) + 1
    (path / "_delta_log" / f"{version:020d}.json").write_text("\n".join(lines) + "\n", "utf-8")


def _alter(path: Path, operation: str, change: Callable[[Field], None], *others: dict[str, Any]) -> None:
    meta = _last(path, "metaData")
    schema = json.loads(meta["schemaString"])
    parsed = {**meta, "schemaString": schema, "configuration": dict(meta["configuration"])}
    change(parsed)
    _commit(path, operation, [*others, {"metaData": {**parsed, "schemaString": json.dumps(schema)}}])


def _fields(meta: Field, parents: list[str]) -> list[Field]:
    schema = meta["schemaString"]
    fields: list[Field] = (json.loads(schema) if isinstance(schema, str) else schema)["fields"]
    for parent in parents:
        fields = _find(fields, parent)["type"]["fields"]
    return fields


def _find(fields: list[Field], name: str) -> Field:
    return next(field for field in fields if field["name"] == name)


def _next_id(meta: Field) -> int:
    number = int(meta["configuration"][_LAST_ID]) + 1
    meta["configuration"][_LAST_ID] = str(number)
    return number


def _mapped(meta: Field, type_: Any) -> Any:
    """Give the fields of a struct physical names and ids as well."""
    if not isinstance(type_, dict) or type_["type"] != "struct":
        return type_
    fields = [
        {**field, "metadata": {"delta.columnMapping.id": _next_id(meta), _PHYSICAL: f"col-{uuid.uuid4()}"}}
        for field in type_["fields"]
    ]
    return {**type_, "fields": fields}
