"""Make the lake of a test: a local directory, its sources written by delta-rs as other systems would write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from enrich.base.errors import ConfigError
from enrich.base.names import find_quarantine, identify
from enrich.base.spec import DataType
from enrich.delta import tables
from enrich.delta.tables import CHANGE_FEED, make_arrow_schema, open_log, quote_name
from enrich.project.project import Project
from enrich.testing.cells import CellError, read_type, type_cell
from enrich.testing.differ import assert_same_rows

Row = Mapping[str, Any]
_BARE = re.compile(r"\w[\w-]*")


class CommitRefused(Exception):
    """What a test lets another system commit is not possible; the text says why."""


@dataclass
class Lake:
    """A directory of tables."""

    root: Path
    # Name of a table -> its key columns, for those that were created here.
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)

    # --- what tests write --------------------------------------------------------------------------------------------

    def create(self, name: str, key: str | Sequence[str], columns: Mapping[str, str], rows: Sequence[Row] = ()) -> None:
        """Write a table with a change feed.

        Args:
            name: Its bare name.
            key: Its key column, or the list of them.
            columns: Its columns, each with its type as in a scenario: ``{"id": "string", "price": "double"}``.
            rows: Its rows, with plain values as a scenario has them; a column that one does not name is null.

        Raises:
            ConfigError: A type is none, or a cell is not of its column's type.
        """
        kinds = {column: read_type(kind) for column, kind in columns.items()}
        typed = [dict.fromkeys(kinds) | row for row in _type_rows(rows, kinds, name)]
        self.define(name, (key,) if isinstance(key, str) else tuple(key), kinds, typed)

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        """Append rows, whatever their keys."""
        self._commit_plain(name, "insert", rows)

    def upsert(self, name: str, rows: Sequence[Row]) -> None:
        """Replace the rows with the same key, or add them; columns that are not named are null."""
        self._commit_plain(name, "upsert", rows)

    def update(self, name: str, rows: Sequence[Row]) -> None:
        """Change the columns named beside the key."""
        self._commit_plain(name, "update", rows)

    def delete(self, name: str, keys: Iterable[Any]) -> None:
        """Delete rows by their keys: single values, or mappings of key columns and values."""
        columns = self.keys[name]
        self.commit(name, "delete", [key if isinstance(key, Mapping) else {columns[0]: key} for key in keys])

    def assert_rows(self, name: str, key: Sequence[str], rows: Sequence[Row]) -> None:
        """Compare all rows of a table with those that are expected; fail with the rows that differ side by side."""
        columns = self.columns(name)
        if columns is None:
            raise AssertionError(f"there is no table {name!r}")
        assert_same_rows(_type_rows(rows, columns, name), self.rows(name), key)

    def redirect(self, project: Project) -> Project:
        """Return a project with all of its tables in this lake."""
        return redirect(project, self.root)

    def _commit_plain(self, name: str, verb: str, rows: Sequence[Row]) -> None:
        columns = self.columns(name)
        if columns is None:
            raise ConfigError(f"there is no table {name!r}", hint="create it first: Lake.create")
        typed = _type_rows(rows, columns, name)
        self.commit(name, verb, typed if verb == "update" else [dict.fromkeys(columns) | row for row in typed])

    # --- tables ------------------------------------------------------------------------------------------------------

    def path(self, name: str) -> str:
        """Return where a table is."""
        return str(self.root / name)

    def exists(self, name: str) -> bool:
        """Return whether there is a table."""
        return tables.exists(self.path(name))

    def define(
        self, name: str, key: tuple[str, ...], columns: Mapping[str, DataType], rows: Sequence[Row] = ()
    ) -> None:
        """Make sure that there is a table that has these rows.

        A new one is created with a change feed, and its first version has the rows. In one that is there already the
        rows are replaced or added by their keys.
        """
        import pyarrow as pa
        from deltalake import write_deltalake

        self.keys[name] = key
        if self.exists(name):
            self.commit(name, "upsert", rows)
            return
        data = pa.Table.from_pylist([dict(row) for row in rows], make_arrow_schema(columns))
        write_deltalake(self.path(name), data, configuration={CHANGE_FEED: "true"})

    def columns(self, name: str) -> dict[str, DataType] | None:
        """Return a table's columns and their types; None when there is no table."""
        return dict(tables.read_state(self.path(name)).columns) if self.exists(name) else None

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return all rows of a table, in no order; none where there is no table."""
        return tables.query_rows("SELECT * FROM this", this=open_log(self.path(name))) if self.exists(name) else []

    def commit(self, name: str, verb: str, rows: Sequence[Row]) -> None:
        """Write rows of the table's types as another system would: one Delta commit.

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
        key = self.keys[name]
        if len({repr([row[each] for each in key]) for row in rows}) < len(rows):
            raise CommitRefused(f"two rows of one {verb} have the same key")
        both = " AND ".join(f"t.{quote_name(each)} = s.{quote_name(each)}" for each in key)
        merge = log.merge(data, both, source_alias="s", target_alias="t")
        if verb == "delete":
            found = merge.when_matched_delete().execute()["num_target_rows_deleted"]
        else:
            values = {quote_name(each): f"s.{quote_name(each)}" for each in data.column_names}
            merge = merge.when_matched_update(updates=values)
            if verb == "upsert":
                merge = merge.when_not_matched_insert(updates=values)
            found = merge.execute()["num_target_rows_updated"]
        if verb != "upsert" and found < len(rows):
            raise CommitRefused(f"{len(rows) - found} of {len(rows)} keys are not in the table")


def _type_rows(rows: Sequence[Row], columns: Mapping[str, DataType], name: str) -> list[dict[str, Any]]:
    """Return rows with plain values as rows with the types of a table's columns."""
    found = []
    for number, row in enumerate(rows, 1):
        if wrong := [column for column in row if column not in columns]:
            raise ConfigError(f"table {name!r} has no column {wrong[0]!r}", hint=f"it has {', '.join(columns)}")
        try:
            found.append({column: type_cell(cell, column, columns[column]) for column, cell in row.items()})
        except CellError as error:
            raise ConfigError(str(error), where=f"{name}, row {number}") from None
    return found


# --- a project in the lake -------------------------------------------------------------------------------------------


def name_tables(project: Project) -> dict[str, str]:
    """Return the identity of each table's place (``names.identify``) -> what it is called in a lake of a test.

    A bare name stays as it is. A catalog name or a path becomes a bare name: ``main.crm.accounts`` is
    ``main_crm_accounts``. The quarantine of a target keeps its place beside it.
    """
    given = [
        name
        for job in project.jobs.values()
        for name in (job.target.table, *(source.table for source in job.sources.values()))
    ]
    names: dict[str, str] = {}
    for reference in sorted(given, key=lambda each: _BARE.fullmatch(each) is None):
        place = project.location(reference)
        if identify(place) in names:
            continue
        base = re.sub(r"\W+", "_", reference).strip("_") or "table"
        taken, name, number = set(names.values()), base, 2
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        names[identify(place)] = name
        names.setdefault(identify(find_quarantine(place)), str(find_quarantine(name)))
    return names


def redirect(project: Project, directory: Path) -> Project:
    """Return the project with all of its tables and its state in a directory, and nobody who is told of its runs.

    Whoever ``conf/`` names for lineage, figures and notifications hears of the deployment's own tables alone.

    Args:
        project: What ``load_project`` gave; its files stay as they are.
        directory: The lake, a local directory.
    """
    names = name_tables(project)

    def move(entry: Any) -> Any:
        return entry.model_copy(update={"table": names[identify(project.location(entry.table))]})

    here = {"lake": str(directory.absolute()), "catalog": None, "sources": None, "state": None}
    settings = project.settings.model_copy(update={**here, "lineage": None, "metrics": None, "notify": {}})
    jobs = {
        name: job.model_copy(
            update={
                "sources": {alias: move(source) for alias, source in job.sources.items()},
                "target": move(job.target),
            }
        )
        for name, job in project.jobs.items()
    }
    return Project(project.dir, project.deployment, settings, jobs, project.suites, project.deployments)
