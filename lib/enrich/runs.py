"""The runs table: intents and outcomes of every run of every job, one Delta table in the state directory.

Written and read with delta-rs, without a JVM. It is the history for reports and the second copy of each cursor, whose
first copy lies in the target's commit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from enrich.errors import EnvironmentFault
from enrich.faults import point
from enrich.result import JobResult

INTENT, OUTCOME = "intent", "outcome"
_COMPACT_EVERY = 100


@dataclass(frozen=True)
class RunRow:
    """One row of the runs table.

    Attributes:
        event: ``intent``, written before the target is touched, or ``outcome``.
        number: The run's transaction number; null for outcomes that committed nothing.
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


def outcome_row(run_id: str, target: str, result: JobResult) -> RunRow:
    """Return the row that keeps what became of a job."""
    return RunRow(
        run_id,
        result.job,
        target,
        OUTCOME,
        result.to_dict(),
        result.number,
        result.status,
        result.mode,
        result.exit_code,
        result.seconds,
    )


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
        from arro3.core import Array, Table
        from deltalake import write_deltalake

        at = (datetime.now(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        values = {**vars(row), "document": json.dumps(row.document, sort_keys=True), "at": at}
        schema = _schema()
        columns = [Array([values[each.name]], _stored(each)).cast(each.type) for each in schema]
        table = Table.from_arrays(columns, schema=schema)
        try:
            point("runs.before")
            write_deltalake(self.uri, table, mode="append")
            point("runs.appended")
            self._tidy()
            point("runs.tidied")
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

    def committed(self, target: str, number: int) -> tuple[dict[str, Any], int | None] | None:
        """Return the cursor that the run with ``number`` recorded, and the target's version that it made.

        Runs that did not commit leave intents with the same number; an outcome with it tells which one became true.
        """
        rows = self._select(f"number = {int(number)}", target)
        outcomes = {row["run_id"]: json.loads(row["document"]) for row in rows if row["event"] == OUTCOME}
        intents = [row for row in rows if row["event"] == INTENT and row["run_id"] in outcomes]
        if not intents:
            return None
        return json.loads(intents[-1]["document"]), outcomes[intents[-1]["run_id"]].get("target_version")

    def last_number(self, target: str) -> int:
        """Return the highest number that an intent for ``target`` has used; 0 when there is none."""
        rows = self._select(f"event = '{INTENT}'", target)
        return max((row["number"] for row in rows), default=0)

    def outcomes(self, target: str | None = None) -> list[dict[str, Any]]:
        """Return the outcomes, oldest first, of one target or of all."""
        return self._select(f"event = '{OUTCOME}'", target)

    def recent(self, limit: int) -> list[dict[str, Any]]:
        """Return the last ``limit`` outcomes of each job, target and status, oldest first."""
        ranked = "row_number() OVER (PARTITION BY job, target, status ORDER BY at DESC)"
        outcomes = f"SELECT *, {ranked} AS place FROM runs WHERE event = '{OUTCOME}'"  # noqa: S608 - constants
        return self._query(f"SELECT * FROM ({outcomes}) WHERE place <= {int(limit)} ORDER BY at")  # noqa: S608

    def _select(self, condition: str, target: str | None) -> list[dict[str, Any]]:
        # The condition holds constants and integers of this module only; the target is compared outside SQL.
        rows = self._query(f"SELECT * FROM runs WHERE {condition} ORDER BY at")  # noqa: S608
        return [row for row in rows if target is None or row["target"] == target]

    def _query(self, statement: str) -> list[dict[str, Any]]:
        """Return a statement's rows; none where there is no table yet."""
        from deltalake import DeltaTable, QueryBuilder
        from deltalake.exceptions import TableNotFoundError

        try:
            log = DeltaTable(self.uri)
        except TableNotFoundError:
            return []
        found = QueryBuilder().register("runs", log).execute(statement).read_all()
        columns = [found.column(name).to_pylist() for name in found.column_names]
        return [dict(zip(found.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


_COLUMNS = (
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


def _schema() -> Any:
    """Return the Arrow schema, in arro3: importing pyarrow would take half of a run that finds nothing to do."""
    from arro3.core import DataType, Field, Schema

    kinds = {
        "string": DataType.string(),
        "int64": DataType.int64(),
        "int32": DataType.int32(),
        "double": DataType.float64(),
        "timestamp": DataType.timestamp("us", tz="UTC"),
    }
    return Schema([Field(name, kinds[kind], nullable=True) for name, kind in _COLUMNS])


def _stored(field: Any) -> Any:
    """Return the type from which a column's values are made: the time comes as microseconds."""
    from arro3.core import DataType

    return DataType.int64() if field.name == "at" else field.type
