"""Rows and keys of a scenario file: read where they stand, and given the types of their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from enrich.base.errors import ConfigError, Fault, did_you_mean
from enrich.base.spec import DataType
from enrich.config.shape import describe
from enrich.config.yamlfile import PathStep, Tree
from enrich.testing.scenario import Given, TypedRow, WrittenRow, WrittenRows
from enrich.testing.texttable import read_text_table
from enrich.testing.types import CellError, type_cell


@dataclass
class RowReader:
    """Reads the rows of one file and gathers what is wrong with them."""

    tree: Tree
    faults: list[Fault] = field(default_factory=list)

    def fault(self, message: str, line: int) -> None:
        """Note a fault."""
        self.faults.append(Fault(message, f"{self.tree.name}:{line}"))

    def read(self, value: Any, *path: PathStep) -> WrittenRows:
        """Return the rows at a path: a text table, or a list of mappings."""
        line = self.tree.line(*path)
        if isinstance(value, str):
            try:
                table = read_text_table(value, self.tree.name, line + 1)
            except ConfigError as error:
                self.faults += error.faults
                return WrittenRows((), line, ())
            rows = tuple(
                WrittenRow(dict(zip(table.columns, cells, strict=True)), line + 1 + number)
                for cells, number in zip(table.rows, table.lines, strict=True)
            )
            return WrittenRows(rows, line, table.columns)
        if not isinstance(value, list | tuple):
            self.fault(f"rows are a list of mappings or a text table, not {describe(value)}", line)
            return WrittenRows((), line, ())
        found = []
        for index, row in enumerate(value):
            at = self.tree.line(*path, index)
            if isinstance(row, dict):
                found.append(WrittenRow(row, at))
            else:
                self.fault(f"a row is a mapping of columns and values, not {describe(row)}", at)
        return WrittenRows(tuple(found), line, tuple(dict.fromkeys(name for row in found for name in row.cells)))

    def read_typed(self, table: Given, value: Any, *path: PathStep) -> tuple[TypedRow, ...]:
        """Return rows of a given table; columns that a row does not name are null."""
        return tuple(self._type(table, self.read(value, *path)))

    def read_updates(self, table: Given, value: Any, *path: PathStep) -> tuple[TypedRow, ...]:
        """Return rows of a given table with the columns that they name; all name the key and the same columns."""
        written = self.read(value, *path)
        for row in written.rows:
            if missing := [name for name in (*table.key, *written.columns) if name not in row.cells]:
                self.fault(f"the row does not name {missing[0]!r}; rows of one update name the same columns", row.line)
        return tuple({name: row[name] for name in written.columns if name in row} for row in self._type(table, written))

    def _type(self, table: Given, written: WrittenRows) -> list[TypedRow]:
        for name in written.columns:
            if name not in table.columns:
                line = next((row.line for row in written.rows if name in row.cells), written.line)
                self.fault(f"the table has no column {name!r}{did_you_mean(name, table.columns)}", line)
        return [self._type_row(table, row) for row in written.rows]

    def _type_row(self, table: Given, row: WrittenRow) -> TypedRow:
        try:
            return {name: type_cell(row.cells.get(name), name, kind) for name, kind in table.columns.items()}
        except CellError as error:
            self.fault(str(error), row.line)
            return {}

    def read_keys(self, table: Given, value: Any, *path: PathStep) -> tuple[TypedRow, ...]:
        """Return the keys of rows to delete: key column -> value."""
        found = []
        for index, key in enumerate(self.read_list(value, *path)):
            line = self.tree.line(*path, index)
            named = key if isinstance(key, dict) else {table.key[0]: key} if len(table.key) == 1 else {}
            if sorted(named) != sorted(table.key):
                self.fault(f"a key is a mapping of {', '.join(table.key)}", line)
                continue
            try:
                found.append({name: type_cell(named[name], name, table.columns[name]) for name in table.key})
            except CellError as error:
                self.fault(str(error), line)
        return tuple(found)

    def read_list(self, value: Any, *path: PathStep) -> list[Any]:
        """Return a list of keys."""
        if isinstance(value, list):
            return value
        self.fault(f"keys are a list, not {describe(value)}", self.tree.line(*path))
        return []


def type_rows(written: WrittenRows, columns: Mapping[str, DataType]) -> list[TypedRow]:
    """Return rows with the types of a table that was found; columns that it has not are left out.

    Raises:
        CellError: A cell is not of its column's type.
    """
    return [
        {name: type_cell(cell, name, columns[name]) for name, cell in row.cells.items() if name in columns}
        for row in written.rows
    ]
