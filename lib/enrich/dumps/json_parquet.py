"""Read JSON with one object a line, and Parquet, in batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from enrich.base.errors import Blocked, ConfigError
from enrich.dumps.convert import convert_column, convert_values, find_lost, is_whole
from enrich.dumps.files import DumpFile, open_lines
from enrich.dumps.layout import spell_fields
from enrich.dumps.reading import ROWS, Batch, Reading, gather
from enrich.dumps.result import SYNTAX, UNKNOWN

_SAMPLE = 10_000
"""Lines of JSON in which the names of a new table's columns are looked for."""


def find_json_fields(file: DumpFile, encoding: str) -> list[str]:
    """Return the names of the fields in a file's first lines, in the order and spelling in which they come up."""
    found: dict[str, str] = {}
    with open_lines(file, encoding) as lines:
        for number, line in enumerate(lines):
            if number == _SAMPLE:
                break
            for name in filter(is_whole, _parse(line) or {}):
                found.setdefault(name.lower(), name)
    return list(found.values())


def _parse(line: str) -> dict[str, Any] | None:
    """Return an object, its numbers as they stand in the line; None for anything else."""
    try:
        found = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_json(file: DumpFile, encoding: str, names: Sequence[str], reading: Reading) -> Iterator[Batch]:
    """Return the rows of a file with one object a line; a field that an object lacks is null.

    Args:
        file: The file.
        encoding: Its codec.
        names: What the columns are called in the objects; case counts only where it decides.
        reading: Counts lines that give no row.
    """
    for each in gather(_read_objects(file, encoding, names, reading)):
        found = [
            convert_values([row.get(name) for row in each.rows], field.type)
            for name, field in zip(names, reading.schema, strict=True)
        ]
        wrong = [pa.array(marks, pa.bool_()) for _, marks in found]
        yield Batch([column for column, _ in found], wrong, each.lines, each.bad)


def _read_objects(
    file: DumpFile, encoding: str, names: Sequence[str], reading: Reading
) -> Iterator[tuple[dict[str, Any], int, bool, int]]:
    known, lower, key = set(names), {name.lower(): name for name in names}, {names[at].lower() for at in reading.key}
    with open_lines(file, encoding) as found:
        for number, line in enumerate(found, 1):
            if not line.strip():
                continue
            each = _parse(line)
            if each is None:
                reading.refuse(SYNTAX, file.name, number)
                continue
            further: set[str] = set()
            if not each.keys() <= known:
                each = spell_fields(each, lower)
                further = each.keys() - known
            if not key.isdisjoint(name.lower() for name in further):  # which of the two is the key?
                reading.refuse(UNKNOWN, file.name, number)
                continue
            if further:
                reading.faults.add(UNKNOWN, file.name, [number])
            yield each, number, bool(further), len(line)


def read_parquet_schema(file: DumpFile) -> pa.Schema:
    """Return the columns of a Parquet file.

    Raises:
        Blocked: It is none, or cut off.
    """
    from pyarrow import parquet

    try:
        return parquet.read_schema(file.path)
    except (pa.ArrowInvalid, OSError) as error:
        raise _describe(file, error) from None


def read_parquet(file: DumpFile, names: Sequence[str], reading: Reading) -> Iterator[Batch]:
    """Return the rows of a Parquet file; lines are the numbers of its rows."""
    from pyarrow import parquet

    try:
        # Spark and Hive write INT96, in which nanoseconds would reach from 1677 to 2262 only.
        with parquet.ParquetFile(file.path, coerce_int96_timestamp_unit="us") as found:
            first = 1
            for each in found.iter_batches(ROWS, columns=list(names)):
                before = [each.column(name) for name in names]
                columns = [convert_column(old, field.type) for old, field in zip(before, reading.schema, strict=True)]
                wrong = [find_lost(old, new) for old, new in zip(before, columns, strict=True)]
                yield Batch(columns, wrong, list(range(first, first + len(each))), [False] * len(each))
                first += len(each)
    except (pa.ArrowInvalid, OSError) as error:
        raise _describe(file, error) from None


def _describe(file: DumpFile, error: Exception) -> Blocked | ConfigError:
    if isinstance(error, PermissionError):
        return ConfigError(f"{file.name} cannot be read: {error.strerror}", hint="check its permissions")
    return Blocked(
        f"{file.name} is not a whole Parquet file; nothing was written", hint="check --format, or make the dump again"
    )
