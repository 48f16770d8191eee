"""The project that the command line's tests work on: consents and accounts, written by delta-rs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

ROOT = Path(__file__).parents[2]
FEED = {"delta.enableChangeDataFeed": "true"}

CONF = "lake: ./lake\nspark:\n  master: local[2]\n  conf: {spark.sql.shuffle.partitions: 2}\n"
JOB = """\
job: customers
sources:
  consents: {table: consents, key: id}
  accounts: {table: accounts, key: id}
from: consents
join:
  accounts: {kind: table, how: full}
select:
  id: key
  email: accounts.email
  consent: consents.consent
target: {table: customers}
"""

CONSENTS = pa.schema([("id", pa.string()), ("consent", pa.bool_())])
ACCOUNTS = pa.schema([("id", pa.string()), ("email", pa.string())])


def write_table(path: Path, rows: list[dict[str, object]], schema: pa.Schema, *, feed: bool = True) -> None:
    """Append rows to a table that another system keeps; the first time creates it."""
    if not DeltaTable.is_deltatable(str(path)):
        DeltaTable.create(str(path), schema, configuration=FEED if feed else {})
    if rows:
        write_deltalake(str(path), pa.Table.from_pylist(rows, schema=schema), mode="append")


def files_below(directory: Path) -> set[str]:
    """Return all files, as paths relative to ``directory``."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
