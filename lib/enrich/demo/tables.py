"""The demo's other systems: they write the sources with delta-rs, and read the targets with it, as strangers would."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enrich.demo.story import Commit, Section, Table

if TYPE_CHECKING:
    import pyarrow as pa


class Lake:
    """The directory of the demo's tables."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self, section: Section) -> None:
        """Create the section's sources that do not exist yet, empty, with their change feed on."""
        from deltalake import DeltaTable

        for name, table in section.tables.items():
            if not DeltaTable.is_deltatable(str(self.root / name)):
                feed = {"delta.enableChangeDataFeed": "true"}
                DeltaTable.create(str(self.root / name), build_schema(table), configuration=feed)

    def write(self, section: Section, commit: Commit) -> None:
        """Commit upserts and deletes: one Delta commit a table."""
        import pyarrow as pa
        from deltalake import DeltaTable

        for name in commit.tables:
            table = section.tables[name]
            rows = mark_deletes(commit.upsert.get(name, []), gone=False)
            rows += mark_deletes([{table.key: key} for key in commit.delete.get(name, [])], gone=True)
            data = pa.Table.from_pylist(rows, schema=build_schema(table).append(pa.field("_gone", pa.bool_())))
            values = {column: f"s.{column}" for column in table.columns}
            DeltaTable(str(self.root / name)).merge(
                data, f"t.{table.key} = s.{table.key}", source_alias="s", target_alias="t"
            ).when_matched_delete(predicate="s._gone").when_matched_update(updates=values).when_not_matched_insert(
                updates=values, predicate="NOT s._gone"
            ).execute()

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return all rows of a table, in no order; none where there is no table."""
        import pyarrow as pa
        from deltalake import DeltaTable, QueryBuilder

        path = str(self.root / name)
        if not DeltaTable.is_deltatable(path):
            return []
        found = QueryBuilder().register("t", DeltaTable(path)).execute("SELECT * FROM t").read_all()
        return list(pa.table(found).to_pylist())

    def target(self, section: Section, reasons: Mapping[Any, str]) -> dict[Any, tuple[Any, ...]]:
        """Return the section's target by key: its columns and, in sections that tell one, the reason of its key."""
        found = {}
        for row in self.rows(section.job):
            values = tuple(simplify(row[column]) for column in section.columns)
            found[values[0]] = (*values, reasons.get(values[0], "matched")) if section.why else values
        return found


def mark_deletes(rows: list[dict[str, Any]], *, gone: bool) -> list[dict[str, Any]]:
    """Return rows for a merge, each saying whether it deletes; maps as pairs, as Arrow takes them."""
    return [
        {name: list(value.items()) if isinstance(value, dict) else value for name, value in row.items()}
        | {"_gone": gone}
        for row in rows
    ]


def build_schema(table: Table) -> pa.Schema:
    """Return a source's Arrow schema."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "double": pa.float64(),
        "array<string>": pa.list_(pa.string()),
        "map<string,boolean>": pa.map_(pa.string(), pa.bool_()),
    }
    return pa.schema([(name, types[kind]) for name, kind in table.columns.items()])


def simplify(value: Any) -> Any:
    """Return a value as the story writes it: structs as lists of their fields."""
    if isinstance(value, dict):
        return [simplify(field) for field in value.values()]
    return [simplify(element) for element in value] if isinstance(value, list) else value
