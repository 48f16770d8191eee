"""A lake of a test: a local directory whose sources are written by delta-rs, as other systems would write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enrich.base.errors import ConfigError
from enrich.base.schemas import build_struct
from enrich.base.spec import DataType
from enrich.config.project import Project
from enrich.storage.tables import CHANGE_FEED, quote_name
from enrich.testing.differ import assert_same_rows
from enrich.testing.redirect import redirect
from enrich.testing.texttable import TextTable, read_text_table
from enrich.testing.types import CellError, read_type, type_cell

if TYPE_CHECKING:
    import pyarrow as pa

Row = Mapping[str, Any]


class CommitRefused(Exception):
    """What a test lets another system commit is not possible; the text says why."""


@dataclass
class Lake:
    """A directory of tables.

    Attributes:
        root: The directory.
        keys: Name of a table -> its key columns, for those that were created here.
    """

    root: Path
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)

    # --- tables from text --------------------------------------------------------------------------------------------

    def create(self, name: str, key: str | Sequence[str], text: str) -> None:
        """Write a table with a change feed.

        Args:
            name: Its bare name.
            key: Its key column, or the list of them.
            text: Its rows as a text table; a column of the first line may have a type, as in ``price: double``,
                otherwise it is a string.

        Raises:
            ConfigError: The text is no table, or a cell is not of its column's type.
        """
        table = read_text_table(text, name)
        heads = [column.partition(":") for column in table.columns]
        columns = {head.strip(): read_type(kind) if colon else "string" for head, colon, kind in heads}
        names = tuple(columns)
        rows = _type_rows(TextTable(names, table.rows, table.lines), columns, name)
        self.define(name, (key,) if isinstance(key, str) else tuple(key), columns, rows)

    def insert(self, name: str, text: str) -> None:
        """Append rows, whatever their keys."""
        self._commit_text(name, "insert", text)

    def upsert(self, name: str, text: str) -> None:
        """Replace the rows with the same key, or add them; columns that are not named are null."""
        self._commit_text(name, "upsert", text)

    def update(self, name: str, text: str) -> None:
        """Change the columns named beside the key."""
        self._commit_text(name, "update", text)

    def delete(self, name: str, keys: Iterable[Any]) -> None:
        """Delete rows by their keys: single values, or mappings of key columns and values."""
        columns = self.key_of(name)
        rows = [key if isinstance(key, Mapping) else {columns[0]: key} for key in keys]
        self.commit(name, "delete", rows)

    def assert_rows(self, name: str, key: Sequence[str], text: str) -> None:
        """Compare all rows of a table with a text table; fail with the rows that differ side by side."""
        columns = self.columns(name)
        if columns is None:
            raise AssertionError(f"there is no table {name!r}")
        table = read_text_table(text, name)
        if wrong := sorted(columns.keys() ^ set(table.columns)):
            raise AssertionError(f"not in both the table and the text: {', '.join(wrong)}")
        assert_same_rows(_type_rows(table, columns, name), self.rows(name), key)

    def redirect(self, project: Project) -> Project:
        """Return a project with all of its tables in this lake."""
        return redirect(project, self.root)

    def _commit_text(self, name: str, verb: str, text: str) -> None:
        columns = self.columns(name)
        if columns is None:
            raise ConfigError(f"there is no table {name!r}", hint="create it first: Lake.create(name, key, text)")
        table = read_text_table(text, name)
        rows = _type_rows(table, columns, name)
        if verb != "update":
            rows = [{column: row.get(column) for column in columns} for row in rows]
        self.commit(name, verb, rows)

    # --- tables ------------------------------------------------------------------------------------------------------

    def path(self, name: str) -> str:
        """Return where a table is."""
        return str(self.root / name)

    def exists(self, name: str) -> bool:
        """Return whether there is a table."""
        from deltalake import DeltaTable

        return (self.root / name / "_delta_log").is_dir() and DeltaTable.is_deltatable(self.path(name))

    def key_of(self, name: str) -> tuple[str, ...]:
        """Return the key of a table that was created here."""
        return self.keys[name]

    def define(
        self, name: str, key: tuple[str, ...], columns: Mapping[str, DataType], rows: Sequence[Row] = ()
    ) -> None:
        """Make sure that there is a table that has these rows.

        A new one is created with a change feed, and its first version has the rows. In one that is there already the
        rows are replaced or added by their keys.
        """
        import pyarrow as pa
        from deltalake import Schema, write_deltalake

        self.keys[name] = key
        if self.exists(name):
            self.commit(name, "upsert", rows)
            return
        schema = pa.schema(Schema.from_json(json.dumps(build_struct(columns))).to_arrow())
        data = pa.Table.from_pylist([dict(row) for row in rows], schema)
        write_deltalake(self.path(name), data, configuration={CHANGE_FEED: "true"})

    def columns(self, name: str) -> dict[str, DataType] | None:
        """Return a table's columns and their types; None when there is no table."""
        from deltalake import DeltaTable

        if not self.exists(name):
            return None
        schema = json.loads(DeltaTable(self.path(name)).schema().to_json())
        return {each["name"]: each["type"] for each in schema["fields"]}

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return all rows of a table, in no order; none where there is no table."""
        from deltalake import DeltaTable, QueryBuilder

        if not self.exists(name):
            return []
        found = QueryBuilder().register("t", DeltaTable(self.path(name))).execute("SELECT * FROM t").read_all()
        return list(found.to_struct_array().to_pylist())

    def commit(self, name: str, verb: str, rows: Sequence[Row]) -> None:
        """Write rows of the table's types as another system would: one Delta commit.

        Args:
            name: The table.
            verb: ``insert``, ``upsert``, ``update``, or ``delete`` with the keys as rows.
            rows: The rows; nothing is written when there are none.

        Raises:
            CommitRefused: A row to change or delete is not there, or two rows of the commit have one key.
        """
        import pyarrow as pa
        from deltalake import DeltaTable, write_deltalake

        if not rows:
            return
        log = DeltaTable(self.path(name))
        schema = pa.schema(log.schema().to_arrow())
        data = pa.Table.from_pylist([dict(row) for row in rows], pa.schema([schema.field(each) for each in rows[0]]))
        if verb == "insert":
            write_deltalake(log, data, mode="append")
            return
        key = self.key_of(name)
        if len({repr([row[each] for each in key]) for row in rows}) < len(rows):
            raise CommitRefused(f"two rows of one {verb} have the same key")
        found = self._merge(log, data, verb, key)
        if verb != "upsert" and found < len(rows):
            raise CommitRefused(f"{len(rows) - found} of {len(rows)} keys are not in the table")

    @staticmethod
    def _merge(log: Any, data: pa.Table, verb: str, key: Sequence[str]) -> int:
        """Merge rows by key and return how many were updated or deleted."""
        both = " AND ".join(f"t.{quote_name(each)} = s.{quote_name(each)}" for each in key)
        merge = log.merge(data, both, source_alias="s", target_alias="t")
        if verb == "delete":
            done = merge.when_matched_delete().execute()
            return int(done["num_target_rows_deleted"])
        values = {quote_name(each): f"s.{quote_name(each)}" for each in data.column_names}
        merge = merge.when_matched_update(updates=values)
        if verb == "upsert":
            merge = merge.when_not_matched_insert(updates=values)
        return int(merge.execute()["num_target_rows_updated"])


def _type_rows(table: TextTable, columns: Mapping[str, DataType], name: str) -> list[dict[str, Any]]:
    """Return the rows of a text table with the types of its columns."""
    if wrong := [column for column in table.columns if column not in columns]:
        raise ConfigError(f"table {name!r} has no column {wrong[0]!r}", hint=f"it has {', '.join(columns)}")
    found = []
    for cells, line in zip(table.rows, table.lines, strict=True):
        row = {}
        for column, cell in zip(table.columns, cells, strict=True):
            try:
                row[column] = type_cell(cell, column, columns[column])
            except CellError as error:
                raise ConfigError(str(error), where=f"{name}:{line + 1}") from None
        found.append(row)
    return found
