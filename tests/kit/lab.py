"""A small lake: sources written by delta-rs, a project beside them, targets read by delta-rs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

import enrich
from enrich.base.result import JobResult
from kit.commits import note_files
from kit.project import CONF, suite, write_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEED = {"delta.enableChangeDataFeed": "true"}
Row = dict[str, Any]
Rows = list[Row]
Prepared = Callable[[str, Callable[["Lab"], object]], "Lab"]
"""Gives a copy of a lake of some name, which the function makes the first time."""


@dataclass
class Lab:
    """A project directory and its lake.

    Attributes:
        home: The project directory.
        spark: The session that runs are given.
    """

    home: Path
    spark: SparkSession
    keys: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.home.exists():
            write_project(self.home, {"conf/dev.yml": CONF})

    def copy_to(self, home: Path) -> Lab:
        """Copy the project and its lake, and return the copy."""
        shutil.copytree(self.home, home)
        return Lab(home, self.spark, dict(self.keys))

    def job(self, text: str) -> str:
        """Write a job file, named after its ``job``; return the name."""
        name = text.removeprefix("job:").split(maxsplit=1)[0]
        (self.home / "jobs" / f"{name}.yml").write_text(text)
        return name

    def suite(self, name: str, *expectations: dict[str, Any]) -> None:
        """Write a suite."""
        write_project(self.home, {f"expectations/{name}.json": suite(name, *expectations)})

    def path(self, table: str) -> str:
        """Return where a table is."""
        return str(self.home / "lake" / table)

    def table(self, name: str, key: str, columns: dict[str, pa.DataType], rows: Iterable[Row] = ()) -> None:
        """Create a source with its change feed on."""
        self.keys[name] = key
        DeltaTable.create(self.path(name), pa.schema(list(columns.items())), configuration=FEED)
        self._note(name)
        if found := list(rows):
            self.put(name, *found)

    def schema(self, name: str) -> pa.Schema:
        """Return a table's schema."""
        return pa.schema(DeltaTable(self.path(name)).schema().to_arrow())

    def put(self, name: str, *rows: Row) -> None:
        """Upsert rows by key, in one commit of another system."""
        data, key = pa.Table.from_pylist(list(rows), schema=self.schema(name)), self.keys[name]
        merge = DeltaTable(self.path(name)).merge(data, f"t.{key} = s.{key}", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        self._note(name)

    def append(self, name: str, *rows: Row) -> None:
        """Append rows, whatever their key."""
        from deltalake import write_deltalake

        write_deltalake(self.path(name), pa.Table.from_pylist(list(rows), schema=self.schema(name)), mode="append")
        self._note(name)

    def change(self, name: str, predicate: str, **values: str) -> None:
        """Give rows the values of SQL expressions."""
        DeltaTable(self.path(name)).update(values, predicate=predicate)
        self._note(name)

    def drop(self, name: str, predicate: str) -> None:
        """Delete rows."""
        DeltaTable(self.path(name)).delete(predicate)
        self._note(name)

    def _note(self, name: str) -> None:
        note_files(Path(self.path(name)))

    def rows(self, name: str, version: int | None = None) -> Rows:
        """Return a table's rows, now or at a version, sorted as text."""
        query = QueryBuilder().register("t", DeltaTable(self.path(name), version=version))
        found: Rows = pa.table(query.execute("SELECT * FROM t").read_all()).to_pylist()
        return sorted(found, key=lambda row: json.dumps(row, default=str, sort_keys=True))

    def log(self, name: str) -> list[dict[str, Any]]:
        """Return a table's commits, latest first; delta-rs numbers them wrongly while others write."""
        files = sorted(Path(self.path(name), "_delta_log").glob("*[0-9].json"), reverse=True)
        commits = [(int(file.stem), map(json.loads, file.read_text("utf-8").splitlines())) for file in files]
        return [
            {**next(each["commitInfo"] for each in actions if "commitInfo" in each), "version": version}
            for version, actions in commits
        ]

    def exists(self, name: str) -> bool:
        """Return whether a table exists."""
        return DeltaTable.is_deltatable(self.path(name))

    def run(self, *jobs: str, **how: Any) -> JobResult:
        """Run the only job, or the named ones, and return the last result."""
        return self.run_all(*jobs, **how).jobs[-1]

    def run_all(self, *jobs: str, **how: Any) -> enrich.RunResult:
        """Run jobs and return the whole result."""
        project = enrich.load_project(self.home)
        return enrich.run(project, list(jobs) or None, spark=self.spark, **how)
