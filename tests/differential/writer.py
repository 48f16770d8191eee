"""Write the sources as another system would: with delta-rs, in several styles of commit."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from differential import acts, alterations, log, reader
from differential.alterations import Alteration
from differential.columns import DOMAINS, render, render_key
from differential.spec import Row, Table
from kit.commits import note_files

STYLES = ("merge", "merge", "merge", "overwrite", "delete_append", "rewrite_rows")
Change = tuple[str, Row | None]


def render_row(table: Table, history: int, rid: int, row: list[Any]) -> Row:
    """Return the typed row that the abstract ``row`` stands for."""
    cells = {c.name: render(c.kind, value, history) for c, value in zip(table.columns, row, strict=True)}
    return {**cells, "rid": render_key(rid, history)}


def assignments(names: Iterable[str]) -> dict[str, str]:
    """Return the columns of a delta-rs MERGE, each taken from the source ``s``; dots and blanks need quotes."""
    return {name if name.isidentifier() else f'"{name}"': f's."{name}"' for name in names}


class SourceWriter:
    """One source table, and the rows that it must hold.

    Attributes:
        origin: The table as histories know it.
        table: As its columns are now.
        rows: rid -> row, what a reader must find.
        commits: Commits written so far.
        past: Version -> the rows after it; a version that is not there has those of the one before.
        snapshots: Version -> the rows as a reader has found them.
        skewed: The first version whose time the writer still tells as it is.
        runs: The versions that the runs have read.
        floor: The earliest version that the table can be restored to.
        begin: The version from which on its log is whole.
        believed: The rows as histories know them, where the table was restored to others; else None.
        layout: The partition columns that the next write gives the table; None: those that it has.
        widened: Structs that have gained a field.
        is_unfed: Whether the change feed is off.
    """

    def __init__(self, path: Path, table: Table, rng: random.Random) -> None:
        self.path, self.origin, self.table, self.rng = str(path), table, table, rng
        self.rows: dict[str, Row] = {}
        self.commits, self.is_widened = 0, False
        self.past: dict[int, list[Row]] = {0: []}
        self.snapshots: dict[int, pa.Table] = {}
        self.skewed = 0
        self.floor, self.begin, self.is_unfed = 0, 0, False
        self.runs: list[int] = []
        self.believed: dict[str, Row] | None = None
        self.layout: list[str] | None = None
        self.widened: set[str] = set()
        conf = {"delta.enableChangeDataFeed": "true"}
        if table.is_mapped:
            conf["delta.columnMapping.mode"] = "name"
        DeltaTable.create(self.path, table.schema, configuration=conf)

    def fork(self, path: Path) -> SourceWriter:
        """Return the writer of a copy of the table at ``path``."""
        other = copy.copy(self)
        other.path, other.rows, other.rng = str(path), dict(self.rows), copy.deepcopy(self.rng)
        other.past, other.snapshots = dict(self.past), dict(self.snapshots)
        other.widened, other.runs = set(self.widened), list(self.runs)
        return other

    @property
    def version(self) -> int:
        """The table's latest version."""
        return reader.version(Path(self.path))

    def write(self, changes: Iterable[Change], style: str | None = None) -> None:
        """Commit ``changes`` (rid -> new row, or None for a delete) in one commit, or two with ``delete_append``."""
        changed = {rid: None if row is None else self._fitted(rid, row) for rid, row in changes}
        if self.believed is not None:
            changed = {**self._leading_back(self.believed), **changed}
            self.believed = None
        for rid, row in changed.items():
            if row is None:
                self.rows.pop(rid, None)
            else:
                self.rows[rid] = row
        if changed and self.is_widened:
            log.overwrite(Path(self.path), self._arrow(self.rows.values()))
            self.commits += 1
        elif changed:
            style = style or self.rng.choice(STYLES)
            getattr(self, "_" + (style if self.layout is None else "overwrite"))(changed)
        self.remember()

    def _leading_back(self, believed: dict[str, Row]) -> dict[str, Row | None]:
        """Return what makes of the rows that are there those that histories know."""
        rids = dict.fromkeys([*self.rows, *believed])
        return {rid: believed.get(rid) for rid in rids if believed.get(rid) is not self.rows.get(rid)}

    def remember(self) -> None:
        """Note what the latest version holds; of every second one also in its log, as Spark does."""
        self.past[self.version] = list(self.rows.values())
        if self.version % 2:
            note_files(Path(self.path))

    def lay_out(self) -> None:
        """Write all rows with other partition columns, if that is due."""
        if self.layout is not None:
            self._overwrite({})
            self.remember()

    def feed(self, *, on: bool) -> None:
        """Switch the change feed."""
        self.is_unfed = not on
        if self.is_widened:
            log.set_feed(Path(self.path), on=on)
            return
        DeltaTable(self.path).alter.set_table_properties({"delta.enableChangeDataFeed": str(on).lower()})

    def settle(self) -> None:
        """Do what the window's commits have left undone."""
        self.lay_out()
        if self.is_unfed:
            self.feed(on=True)

    def reshape(self, table: Table, change: Callable[[Row], Row]) -> None:
        """Give the table other columns, and the rows that are there, or will be again, other cells."""
        self.rows = {rid: change(row) for rid, row in self.rows.items()}
        if self.believed is not None:
            self.believed = {rid: change(row) for rid, row in self.believed.items()}
        self.table, self.floor = table, self.version + 1

    def view(self) -> list[Row]:
        """Return the rows as Spark finds them: CHAR columns are filled with blanks."""
        rows = list(self.rows.values())
        for name, length in self.table.chars:
            rows = [{**row, name: None if row[name] is None else row[name].ljust(length)} for row in rows]
        return rows

    def alter(self, alteration: Alteration) -> None:
        """Change the columns, and with them the rows that are there."""
        if acts.play_on_source(self, alteration):
            return
        alterations.commit(Path(self.path), alteration)
        table = self.table
        self.reshape(alterations.altered(table, alteration), lambda row: alterations.after(table, alteration, row))
        self.is_widened |= alteration.action == "widen"

    def optimize(self) -> None:
        """Compact the files: commits that change no data. delta-rs cannot where columns are mapped."""
        if not self.table.is_mapped:
            DeltaTable(self.path).optimize.compact()

    def read(self) -> pa.Table:
        """Return the rows as a reader finds them."""
        if self.is_widened:
            return log.read(Path(self.path), self.table.schema)
        found = reader.read(Path(self.path))
        for name, length in self.table.chars:
            place = found.column_names.index(name)
            found = found.set_column(place, name, pc.utf8_rpad(found.column(name).cast(pa.string()), length))
        return found

    def list_past(self, times: Sequence[int]) -> list[tuple[int, list[Row]]]:
        """Return the rows after each version, as they were written, with the version's time."""
        found: list[tuple[int, list[Row]]] = []
        for version, at in enumerate(times):
            found.append((at, self.past[version] if version in self.past else found[-1][1]))
        return found

    def read_past(self, times: Sequence[int]) -> list[tuple[int, pa.Table]]:
        """Return the rows after each version, as a reader finds them, with the version's time."""
        for version in range(len(times)):
            if version not in self.snapshots:
                self.snapshots[version] = reader.read(Path(self.path), version)
        return [(at, self.snapshots[version]) for version, at in enumerate(times)]

    def _fitted(self, rid: str, row: Row) -> Row:
        """Return a row of a history with the columns that the table has now."""
        more = {
            column.name: None if column.nulls == 1.0 else DOMAINS[column.kind][len(rid) % len(DOMAINS[column.kind])]
            for column in self.table.columns
            if column.name in self.table.gained
        }
        names = {column.name for column in self.table.all_columns}
        found = {name: cell for name, cell in {**row, **more}.items() if name in names}
        for name in self.widened & found.keys():
            if found[name] is not None:
                found[name] = {**found[name], "more": (None, "x", "")[len(rid) % 3]}
        return found

    def _arrow(self, rows: Iterable[Row]) -> pa.Table:
        return pa.Table.from_pylist(list(rows), schema=self.table.schema)

    def _merge(self, changed: dict[str, Row | None]) -> None:
        names = [column.name for column in self.table.all_columns]
        empty = dict.fromkeys(names)
        rows = [{**empty, **(row or {}), "rid": rid, "gone_": row is None} for rid, row in changed.items()]
        schema = self.table.schema.append(pa.field("gone_", pa.bool_()))
        values = assignments(names)
        merge = DeltaTable(self.path).merge(
            pa.Table.from_pylist(rows, schema=schema), "t.rid = s.rid", source_alias="s", target_alias="t"
        )
        merge = merge.when_matched_delete(predicate="s.gone_").when_matched_update(updates=values)
        merge.when_not_matched_insert(updates=values, predicate="NOT s.gone_").execute()
        self.commits += 1

    def _overwrite(self, _changed: dict[str, Row | None]) -> None:
        rows = list(self.rows.values())
        self.rng.shuffle(rows)
        layout: dict[str, Any] = {}
        if self.layout is not None:
            layout = {"partition_by": self.layout, "schema_mode": "overwrite"}
            self.layout = None
        write_deltalake(self.path, self._arrow(rows), mode="overwrite", **layout)
        self.commits += 1

    def _delete_append(self, changed: dict[str, Row | None]) -> None:
        self._delete(changed)
        between = [row for rid, row in self.rows.items() if rid not in changed]
        self.past[reader.version(Path(self.path))] = between
        rows = [row for row in changed.values() if row is not None]
        if rows:
            write_deltalake(self.path, self._arrow(rows), mode="append")
            self.commits += 1

    def _delete(self, changed: dict[str, Row | None]) -> None:
        rids = ", ".join(f"'{rid}'" for rid in changed)
        DeltaTable(self.path).delete(f"rid IN ({rids})")
        self.commits += 1

    def _rewrite_rows(self, changed: dict[str, Row | None]) -> None:
        """Overwrite a part of the table: the changed rows and others, which come back as they were."""
        others = self.rng.sample(list(self.rows), min(20, len(self.rows)))
        touched = dict.fromkeys([*changed, *others])
        rids = ", ".join(f"'{rid}'" for rid in touched)
        rows = [self.rows[rid] for rid in touched if rid in self.rows]
        if not rows:
            self._delete(changed)
            return
        write_deltalake(self.path, self._arrow(rows), mode="overwrite", predicate=f"rid IN ({rids})")
        self.commits += 1
