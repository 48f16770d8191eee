"""Between files on this machine and Delta: a table's columns as Arrow has them, and staged rows where executors are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enrich.base.errors import ConfigError
from enrich.base.spec import DataType
from enrich.storage.stores import delete_object, find_local_path, write_object

if TYPE_CHECKING:
    import pyarrow as pa


def make_arrow_schema(columns: Mapping[str, DataType]) -> pa.Schema:
    """Return Delta columns as Arrow columns; a collation is no part of an Arrow type, and everything may be null.

    Raises:
        ConfigError: A column has a type that no file of a dump can hold (variant).
    """
    import pyarrow as pa
    from deltalake import Schema

    fields = []
    for name, kind in columns.items():
        try:
            field = {"name": name, "type": _simplify(kind), "nullable": True, "metadata": {}}
            found = pa.schema(Schema.from_json(json.dumps({"type": "struct", "fields": [field]})).to_arrow())
        except Exception:  # noqa: BLE001 - whatever delta-rs raises for a type that it does not know
            raise ConfigError(f"column {name!r} has a type that no dump can hold") from None
        fields.append(found.field(0))
    return pa.schema(fields)


def _simplify(kind: Any) -> Any:
    if isinstance(kind, str):
        if kind == "variant":
            raise ValueError(kind)
        return kind.split(" collate ")[0]
    parts = {part: _simplify(kind[part]) for part in ("elementType", "keyType", "valueType") if part in kind}
    if "fields" in kind:
        parts["fields"] = [
            {**each, "type": _simplify(each["type"]), "nullable": True, "metadata": {}} for each in kind["fields"]
        ]
    nulls = {part: True for part in ("containsNull", "valueContainsNull") if part in kind}
    return {**kind, **parts, **nulls}


@contextmanager
def share_file(path: Path, state: str, run_id: str, *, is_local: bool) -> Iterator[str]:
    """Give a staged file a place that executors can read, and remove it from there afterwards.

    Args:
        path: The file, on this machine.
        state: The state directory, which a cluster shares.
        run_id: Names the copy.
        is_local: Whether Spark runs in this process, and reads the file where it is.
    """
    if is_local:
        yield str(path)
        return
    name = f"load/{run_id}/{path.name}"
    local = find_local_path(state)
    if local is not None:
        place = local / name
        place.parent.mkdir(parents=True, mode=0o700)
        try:
            shutil.copyfile(path, place)
            yield str(place)
        finally:
            shutil.rmtree(place.parent, ignore_errors=True)
        return
    try:
        write_object(state, name, path)
        yield f"{state.rstrip('/')}/{name}"
    finally:
        with suppress(Exception):  # what is left holds nobody up, and the error that ended the work is told
            delete_object(state, name)
