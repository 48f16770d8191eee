"""Schema evolution: what sources' columns have become since the target was written."""

from __future__ import annotations

from collections.abc import Mapping

from enrich.base import hints
from enrich.base.errors import RefreshNeeded
from enrich.base.schemas import strip_type
from enrich.base.spec import DataType, JobSpec
from enrich.progress.cursor import Cursor
from enrich.storage.layout import keeps_values
from enrich.storage.tables import TableState, state_at


def check(job: str, schemas: Mapping[str, Mapping[str, DataType]], cursor: Cursor) -> None:
    """Refuse sources whose used columns went or changed their type.

    Raises:
        RefreshNeeded: Naming the first of them.
    """
    for alias, mark in cursor.sources.items():
        if alias not in schemas:
            continue
        now = schemas[alias]
        gone = [name for name in mark.columns if name not in now]
        # What a struct has gained is null in all rows of before.
        retyped = [n for n in find_retyped(cursor, alias, now) if not _gains_fields(mark.columns[n], now[n])]
        for name in (*gone, *retyped):
            what = "is gone" if name in gone else "has another type"
            raise RefreshNeeded(
                f"column {name!r} of source {alias!r} {what} since the target was written",
                hint=f"correct the job file if it names the column, then run `{hints.refresh(job)}`",
            )


def _gains_fields(before: DataType, after: DataType) -> bool:
    return not isinstance(before, str) and keeps_values(before, after)


def find_retyped(cursor: Cursor, alias: str, columns: Mapping[str, DataType]) -> list[str]:
    """Return the columns of a source that have another type than when the target was written."""
    mark = cursor.sources.get(alias)
    before = mark.columns if mark is not None else {}
    return [name for name, kind in before.items() if name in columns and strip_type(columns[name]) != strip_type(kind)]


def find_recast(cursor: Cursor, tables: Mapping[str, TableState]) -> list[str]:
    """Return the sources whose values Spark reads otherwise than when the target was written: as CHAR, or no more.

    Where neither record nor log tells what a column was declared with, it may have been anything.
    """
    found = []
    for alias, mark in cursor.sources.items():
        before, table = mark.chars, tables[alias]
        if before is None and mark.to != table.version:
            state = state_at(table.uri, mark.to)
            before = None if state is None else state.chars
        elif before is None:
            before = table.chars
        if before is None or any(before.get(name) != table.chars.get(name) for name in mark.columns):
            found.append(alias)
    return found


def fits(cursor: Cursor, spec: JobSpec) -> bool:
    """Return whether a table that was written under ``cursor`` can hold the job's rows as they are now.

    Elements of lists are structs of all columns of the lookup; MERGE compares and writes structs of one shape alone.
    """
    if any(name not in spec.columns for name in cursor.columns):
        return False
    shown = {path for output in spec.outputs for path in output.paths}
    if any((alias,) in shown for alias in find_reshaped(cursor, spec)):
        return False
    if spec.remembers:  # its rows are fitted to fields that have come
        before, now = cursor.sources[spec.driving].columns, spec.sources[spec.driving].columns
        return all(keeps_values(kind, now[name]) for name, kind in before.items() if name in now)
    return not any(find_retyped(cursor, alias, source.columns) for alias, source in spec.sources.items())


def find_reshaped(cursor: Cursor, spec: JobSpec) -> list[str]:
    """Return the lists that are read as a whole and whose lookup has other columns than when the target was written.

    A new column changes each of them, also those that no change of a row leads to: the text of a list, for instance.
    """
    return [
        alias
        for alias in sorted(spec.read_whole)
        if alias in cursor.sources and set(cursor.sources[alias].columns) != set(spec.sources[alias].columns)
    ]
