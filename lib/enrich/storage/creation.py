"""Tables that are made once from files on this machine, without Spark: the sample data of a new project."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enrich.base.errors import ConfigError, RunFailed
from enrich.base.spec import DataType
from enrich.storage.shape import list_statistics
from enrich.storage.tables import CHANGE_FEED, exists

if TYPE_CHECKING:
    import pyarrow as pa


def create_table(place: Path, columns: Mapping[str, DataType], file: Path, name: str) -> int | None:
    """Make a table, its change feed on, from a file of rows.

    The table is written beside its place and then moved there in one step, which fails when something is there. Two
    writers of an empty place would both succeed: delta-rs takes two first commits for two appends.

    Args:
        place: Where to, on this machine; nothing must be there, or an empty directory.
        columns: Name -> Delta type.
        file: Comma-separated values with a header, or one JSON object in each line (``.jsonl``).
        name: What messages call the file.

    Returns:
        How many rows it has; None when somebody else has made the table at the same time.

    Raises:
        ConfigError: The file has not these columns, or values that are not of their types. No value is quoted.
        RunFailed: The storage did not take the table.
    """
    from deltalake import Schema, write_deltalake
    from deltalake.exceptions import DeltaError

    fields = [{"name": each, "type": kind, "nullable": True, "metadata": {}} for each, kind in columns.items()]
    schema = Schema.from_json(json.dumps({"type": "struct", "fields": fields}))
    rows = _read_json_lines(file, name, schema) if file.suffix == ".jsonl" else _read_csv(file, name, schema)
    scratch = place.with_name(f".{place.name[:100]}.{uuid.uuid4().hex[:12]}")
    try:
        properties: dict[str, str | None] = {CHANGE_FEED: "true", **list_statistics([])}
        write_deltalake(str(scratch), rows, mode="error", configuration=properties)
        scratch.rename(place)
    except (DeltaError, OSError) as error:
        if exists(str(place)):
            return None
        raise RunFailed(f"{place} cannot be created ({type(error).__name__})", hint="check the storage") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return int(rows.num_rows)


def _read_csv(file: Path, name: str, schema: Any) -> pa.Table:
    """Read comma-separated values; an empty cell is null, ``""`` is an empty text."""
    import pyarrow as pa
    from pyarrow import csv

    wanted = pa.schema(schema.to_arrow())
    texts = dict.fromkeys(wanted.names, pa.string())
    how = csv.ConvertOptions(
        column_types=texts, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    try:
        found = csv.read_csv(file, parse_options=csv.ParseOptions(newlines_in_values=True), convert_options=how)
    except (pa.ArrowInvalid, OSError) as error:
        raise ConfigError(f"{name} cannot be read as comma-separated values ({type(error).__name__})") from None
    if found.column_names != wanted.names:
        told = f"{', '.join(found.column_names)}; tables.yml has {', '.join(wanted.names)}"
        raise ConfigError(f"the header of {name} is {told}", hint="name the same columns in both, in one order")
    columns = [_cast(found.column(each.name), each, name) for each in wanted]
    return pa.Table.from_arrays(columns, schema=wanted)


def _cast(values: Any, field: Any, name: str) -> Any:
    """Return a column of texts in its type, or say in which row the first text is that has another one."""
    import pyarrow as pa

    try:
        return values.cast(field.type)
    except pa.ArrowInvalid:
        for row, value in enumerate(values, 1):
            try:
                value.cast(field.type)
            except pa.ArrowInvalid:
                message = f"{name}: row {row} does not have the type of column {field.name!r} in tables.yml"
                hint = "correct the value or the type; dates are written 2026-01-31, times 2026-01-31T09:30:00Z"
                raise ConfigError(message, hint=hint) from None
        raise


def _read_json_lines(file: Path, name: str, schema: Any) -> pa.Table:
    import pyarrow as pa
    from pyarrow import json as lines

    wanted = pa.schema(schema.to_arrow())
    if not file.read_text(encoding="utf-8").strip():
        return wanted.empty_table()
    how = lines.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="error")
    try:
        return lines.read_json(file, parse_options=how).select(wanted.names).cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
        message = f"{name}: a row does not have the columns and types of tables.yml"
        raise ConfigError(
            message, hint="write one JSON object in each line; a column that is left out is null"
        ) from None
