"""The runs table: intents and outcomes of every run of every job, one Delta table in the state directory.

Written and read with delta-rs, without a JVM. It is the history for reports and the second copy of each cursor, whose
first copy lies in the target's commit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from enrich.errors import EnvironmentFault

INTENT, OUTCOME = "intent", "outcome"
_COMPACT_EVERY = 100


@dataclass(frozen=True)
class RunRow:
    """One row of the runs table.

    Attributes:
        event: ``intent``, written before the target is touched, or ``outcome``.
        number: The run's transaction number; null for outcomes that wrote nothing.
        document: The cursor of an intent, the job's result of an outcome, as JSON.
    """

    run_id: str
    job: str
    target: str
    event: str
    document: dict[str, Any]
    number: int | None = None
    status: str | None = None
    mode: str | None = None
    exit_code: int | None = None
    seconds: float | None = None


class RunsTable:
    """``<state>/runs``.

    Args:
        uri: The state directory, absolute path or URI.
    """

    def __init__(self, uri: str) -> None:
        self.uri = f"{uri.rstrip('/')}/runs"

    def append(self, row: RunRow) -> None:
        """Write one row in one commit.

        Raises:
            EnvironmentFault: The state directory cannot be written.
        """
        import pyarrow as pa
        from deltalake import write_deltalake

        fields = [*_SCHEMA]
        values = {**vars(row), "document": json.dumps(row.document, sort_keys=True), "at": datetime.now(UTC)}
        table = pa.Table.from_pylist([{name: values[name] for name, _ in fields}], schema=_arrow_schema())
        try:
            write_deltalake(self.uri, table, mode="append")
            self._tidy()
        except Exception as error:
            raise EnvironmentFault(
                f"cannot write the runs table at {self.uri} ({type(error).__name__})",
                hint="check permissions and free space of the state directory",
            ) from error

    def _tidy(self) -> None:
        """Compact now and then: a file a run would make reading it slower every day."""
        from deltalake import DeltaTable

        log = DeltaTable(self.uri)
        if log.version() and log.version() % _COMPACT_EVERY == 0:
            log.optimize.compact()

    def intent(self, target: str, number: int) -> dict[str, Any] | None:
        """Return the cursor that the intent with ``number`` recorded for ``target``; None if there is none."""
        rows = self._select(f"event = '{INTENT}' AND number = {int(number)}", target)
        return json.loads(rows[-1]["document"]) if rows else None

    def last_number(self, target: str) -> int:
        """Return the highest number that an intent for ``target`` has used; 0 when there is none."""
        rows = self._select(f"event = '{INTENT}'", target)
        return max((row["number"] for row in rows), default=0)

    def outcomes(self, target: str | None = None) -> list[dict[str, Any]]:
        """Return the outcomes, oldest first, of one target or of all."""
        return self._select(f"event = '{OUTCOME}'", target)

    def _select(self, condition: str, target: str | None) -> list[dict[str, Any]]:
        import pyarrow as pa
        from deltalake import DeltaTable, QueryBuilder
        from deltalake.exceptions import TableNotFoundError

        try:
            log = DeltaTable(self.uri)
        except TableNotFoundError:
            return []
        # The condition holds constants and integers of this module only; the target is compared outside SQL.
        query = QueryBuilder().register("runs", log).execute(f"SELECT * FROM runs WHERE {condition} ORDER BY at")  # noqa: S608
        rows: list[dict[str, Any]] = pa.table(query.read_all()).to_pylist()
        return [row for row in rows if target is None or row["target"] == target]


_SCHEMA = (
    ("run_id", "string"),
    ("job", "string"),
    ("target", "string"),
    ("event", "string"),
    ("number", "int64"),
    ("at", "timestamp"),
    ("status", "string"),
    ("mode", "string"),
    ("exit_code", "int32"),
    ("seconds", "double"),
    ("document", "string"),
)


def _arrow_schema() -> Any:
    import pyarrow as pa

    kinds = {
        "string": pa.string(),
        "int64": pa.int64(),
        "int32": pa.int32(),
        "double": pa.float64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in _SCHEMA])
