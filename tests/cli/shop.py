"""The project that the command line's tests work on: consents and accounts, written by delta-rs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from kit.lab import FEED
from kit.project import CUSTOMERS

CONF = "lake: ./lake\nspark:\n  master: local[2]\n  conf: {spark.sql.shuffle.partitions: 2}\n"
JOB = CUSTOMERS.replace("ok: consents.ok", "consent: consents.consent")

CONSENTS = pa.schema([("id", pa.string()), ("consent", pa.bool_())])
ACCOUNTS = pa.schema([("id", pa.string()), ("email", pa.string())])


def write_table(path: Path, rows: list[dict[str, object]], schema: pa.Schema, *, feed: bool = True) -> None:
    """Append rows to a table that another system keeps; the first time creates it."""
    if not DeltaTable.is_deltatable(str(path)):
        DeltaTable.create(str(path), schema, configuration=FEED if feed else {})
    if rows:
        write_deltalake(str(path), pa.Table.from_pylist(rows, schema=schema), mode="append")
