"""Write the sources as another system would: with delta-rs, in several styles of commit."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from differential import alterations, log, reader
from differential.alterations import Alteration
from differential.columns import DOMAINS, render, render_key
from differential.spec import Row, Table

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
    """

    def __init__(self, path: Path, table: Table, rng: random.Random) -> None:
        self.path, self.origin, self.table, self.rng = str(path), table, table, rng
        self.rows: dict[str, Row] = {}
        self.commits, self.is_widened = 0, False
        self.past: dict[int, list[Row]] = {0: []}
        self.snapshots: dict[int, pa.Table] = {}
        self.skewed = 0
        conf = {"delta.enableChangeDataFeed": "true"}
        if table.is_mapped:
            conf["delta.columnMapping.mode"] = "name"
        DeltaTable.create(self.path, table.schema, configuration=conf)

    def fork(self, path: Path) -> SourceWriter:
        """Return the writer of a copy of the table at ``path``."""
        other = copy.copy(self)
        other.path, other.rows, other.rng = str(path), dict(self.rows), copy.deepcopy(self.rng)
        other.past, other.snapshots = dict(self.past), dict(self.snapshots)
        return other

    def write(self, changes: Iterable[Change], style: str | None = None) -> None:
        """Commit ``changes`` (rid -> new row, or None for a delete) in one commit, or two with ``delete_append``."""
        changed = {rid: None if row is None else self._fitted(rid, row) for rid, row in changes}
        for rid, row in changed.items():
            if row is None:
                self.rows.pop(rid, None)
            else:
                self.rows[rid] = row
        if changed and self.is_widened:
            log.overwrite(Path(self.path), self._arrow(self.rows.values()))
            self.commits += 1
        elif changed:
            getattr(self, "_" + (style or self.rng.choice(STYLES)))(changed)
        self.past[reader.version(Path(self.path))] = list(self.rows.values())

    def alter(self, alteration: Alteration) -> None:
        """Change the columns, and with them the rows that are there."""
        alterations.commit(Path(self.path), alteration)
        self.rows = {rid: alterations.after(self.table, alteration, row) for rid, row in self.rows.items()}
        self.table = alterations.altered(self.table, alteration)
        self.is_widened |= alteration.action == "widen"

    def optimize(self) -> None:
        """Compact the files: commits that change no data. delta-rs cannot where columns are mapped."""
        if not self.table.is_mapped:
            DeltaTable(self.path).optimize.compact()

    def read(self) -> pa.Table:
        """Return the rows as a reader finds them."""
        if self.is_widened:
            return log.read(Path(self.path), self.table.schema)
        return reader.read(Path(self.path))

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
        return {name: cell for name, cell in {**row, **more}.items() if name in names}

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
        write_deltalake(self.path, self._arrow(rows), mode="overwrite")
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
