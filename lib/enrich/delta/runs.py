"""Keep the intents and outcomes of every run of every job, in one Delta table in the state directory, by delta-rs.

It is the history for reports, and the second copy of each cursor, whose first copy lies in the target's commit.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from enrich.base.errors import EnrichError, EnvironmentFault, HistoryError, RunFailed
from enrich.base.failpoints import pass_point
from enrich.base.failures import UPGRADE, deny, is_denied
from enrich.base.stores import find_options
from enrich.delta.tables import query, query_rows

if TYPE_CHECKING:
    from deltalake import DeltaTable

log = logging.getLogger(__name__)

INTENT, OUTCOME, PROVEN = "intent", "outcome", "proven"
FORMAT = 1
"""The format of records in commits and of documents here, as ``enrich``; it grows when older releases would misread."""

_PAUSES = (0.1, 0.3, 1.0, 3.0)  # seconds before another attempt, where another run's tidying came between
_DAMAGED = (
    "if the table itself is damaged, restore it, or move it away: the targets keep what they have consumed, only the"
    " record of the runs is lost"
)

_CHECKPOINT_EVERY, _TIDY_EVERY = 20, 100
_SMALL = 500_000  # bytes below which a file is put together with its neighbours: 5,000 to 20,000 rows
_PROPERTIES = {"delta.logRetentionDuration": "interval 2 days", "delta.deletedFileRetentionDuration": "interval 1 days"}
"""Nobody travels back in this table; who has begun to read it gets a day to end."""


@dataclass(frozen=True)
class RunRow:
    """One row: a cursor as intent before the target is touched, or a result as outcome; number: the transaction's."""

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


def require_known(found: Mapping[str, Any], what: str) -> None:
    """Raise ``HistoryError`` for a record or a document in a place ``what`` that a newer release has written."""
    number = found.get("enrich")
    if isinstance(number, int) and number > FORMAT:
        raise HistoryError(
            f"{what} was written by a newer release of enrich: it has format {number}, and this release reads {FORMAT}",
            hint=f"run `{UPGRADE}`, and run again",
        )


class RunsTable:
    """``<state>/runs``, to which others may add columns."""

    def __init__(self, state: str, keep_days: int = 400) -> None:
        """Name the table of a state directory; the last commit and outcome of each target stay beyond ``keep_days``."""
        self.uri = f"{state.rstrip('/')}/runs"
        self.keep_days = keep_days

    def append(self, row: RunRow) -> None:
        """Write one row in one commit, and tidy up when it is time; tidying that fails is left to a later run."""
        try:
            pass_point("runs.before")
            table = self._append(row)
            pass_point("runs.appended")
            version = table.version()
            try:  # only one run comes by each hundredth version
                if version and version % _CHECKPOINT_EVERY == 0:
                    self._tidy(table, files=version % _TIDY_EVERY == 0)
            except Exception as error:  # noqa: BLE001 - most likely another run tidies at this moment
                log.info("the runs table was not tidied (%s)", type(error).__name__)
            pass_point("runs.tidied")
        except Exception as error:
            raise EnvironmentFault(
                f"cannot write the runs table at {self.uri} ({type(error).__name__})",
                hint=f"check permissions and free space of the state directory; {_DAMAGED}",
            ) from error

    def _append(self, row: RunRow) -> DeltaTable:
        from arro3.core import Array, DataType, Table  # importing pyarrow takes half of a run that finds nothing to do
        from deltalake import DeltaTable, PostCommitHookProperties, write_deltalake
        from deltalake.exceptions import CommitFailedError

        text, options = DataType.string(), find_options(self.uri)
        kinds = {
            **dict.fromkeys(("run_id", "job", "target", "event"), text),
            "number": DataType.int64(),
            "at": DataType.timestamp("us", tz="UTC"),
            **dict.fromkeys(("status", "mode"), text),
            "exit_code": DataType.int32(),
            "seconds": DataType.float64(),
            "document": text,
        }
        now = (datetime.now(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        values = {**vars(row), "document": json.dumps(row.document, sort_keys=True), "at": now}
        read = {**kinds, "at": DataType.int64()}
        rows = Table.from_pydict({name: Array([values[name]], read[name]).cast(kind) for name, kind in kinds.items()})
        # Checkpoints and cleanup come with tidying: an error of theirs must not look like one of the commit.
        plain = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
        for pause in (*_PAUSES, None):  # others create, tidy or alter the table meanwhile
            try:
                table = self._open()
                write_deltalake(
                    self.uri if table is None else table,
                    rows,
                    mode="append",
                    schema_mode="merge" if table and {*kinds} < {f.name for f in table.schema().fields} else None,
                    configuration=_PROPERTIES if table is None else None,
                    post_commithook_properties=plain,
                    storage_options=options,
                )
                return DeltaTable(self.uri, storage_options=options) if table is None else table
            except CommitFailedError:
                if pause is None:
                    raise
                time.sleep(pause)
        raise AssertionError

    def _open(self) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return DeltaTable(self.uri, storage_options=find_options(self.uri))
        except TableNotFoundError:
            return None

    def _tidy(self, table: DeltaTable, *, files: bool) -> None:
        """Shorten what a reader has to list and, with ``files``, what there is to read."""
        from deltalake import WriterProperties, write_deltalake

        if files:
            # Two compactions of delta-rs (1.6.6) at a time both succeed, and every row is there twice. Overwrites of a
            # range of rows conflict.
            parts = table.get_add_actions(flatten=True)
            ends, starts, sizes = (parts.column(name).to_pylist() for name in ("max.at", "min.at", "size_bytes"))
            latest = sorted(zip(ends, starts, sizes, strict=True), reverse=True)
            small = list(takewhile(lambda file: file[2] < _SMALL, latest))
            if len(small) > 1:
                among = f"at >= {_literal(min(file[1] for file in small))} AND at <= {_literal(small[0][0])}"
                rows = query(f"SELECT * FROM this WHERE {among} ORDER BY at", this=table)  # noqa: S608 - two instants
                dense = WriterProperties(compression="ZSTD")
                write_deltalake(table, rows, mode="overwrite", predicate=among, writer_properties=dense)
            # What is too old goes, but not what each target's last commit has consumed.
            before = _literal(datetime.now(UTC) - timedelta(days=self.keep_days))
            kept = query_rows(
                "WITH last AS (SELECT target, max(number) AS number, max(at) AS at FROM this WHERE event = 'outcome'"  # noqa: S608
                " GROUP BY target) SELECT this.at FROM this JOIN last ON this.target = last.target"
                f" WHERE this.at < {before} AND (this.at = last.at OR this.number >= last.number)",
                this=table,
            )
            among = f" AND at NOT IN ({', '.join(_literal(row['at']) for row in kept)})" if kept else ""
            table.delete(f"at < {before}{among}")
            table.vacuum(dry_run=False, full=True)
        table.create_checkpoint()
        table.cleanup_metadata()

    def read_committed(self, target: str, number: int) -> tuple[dict[str, Any], int | None] | None:
        """Return the cursor that the run with ``number`` recorded, and the target's version that it made.

        Runs that did not commit leave intents with the same number; an outcome with it tells which one became true.
        """
        found = self._select(f"SELECT * FROM this WHERE number = {int(number)} ORDER BY at")  # noqa: S608 - a number
        rows = [row for row in found if row["target"] == target]
        for row in rows:
            row["document"] = json.loads(row["document"])
            require_known(row["document"], "the runs table")
        outcomes = {row["run_id"]: row["document"] for row in rows if row["event"] == OUTCOME}
        intents = [row for row in rows if row["event"] == INTENT and row["run_id"] in outcomes]
        if not intents:
            return None
        return intents[-1]["document"], outcomes[intents[-1]["run_id"]].get("target_version")

    def last_number(self, target: str, *, committed: bool = False) -> int:
        """Return the highest number that an intent for ``target`` has used, or that was committed; 0 without any."""
        event = OUTCOME if committed else INTENT
        rows = self._select(f"SELECT target, max(number) AS number FROM this WHERE event = '{event}' GROUP BY target")  # noqa: S608 - a constant
        return next((row["number"] or 0 for row in rows if row["target"] == target), 0)

    def read_latest(self, *, judged: bool = False) -> dict[tuple[str, str], dict[str, Any]]:
        """Return status and end of the last outcome of each job and target, or of the last that came to a verdict."""
        runs = "event = 'outcome'"
        if judged:
            runs += " AND status NOT IN ('skipped', 'locked') AND (mode IS NULL OR mode <> 'repair')"
        last = "max(at) AS at, last_value(status ORDER BY at) AS status"
        rows = self._select(f"SELECT job, target, {last} FROM this WHERE {runs} GROUP BY job, target")  # noqa: S608 - constants
        return {(row["job"], row["target"]): row for row in rows}

    def read_proven(self) -> dict[str, dict[str, Any]]:
        """Return of each target which version was last proven to be what its sources give, and when."""
        last = "max(at) AS at, last_value(document ORDER BY at) AS document"
        rows = self._select(f"SELECT target, {last} FROM this WHERE event = 'proven' GROUP BY target")  # noqa: S608
        return {row["target"]: {**json.loads(row["document"]), "at": row["at"]} for row in rows}

    def read_recent(self, limit: int) -> list[dict[str, Any]]:
        """Return the last ``limit`` outcomes of each job, target and status, oldest first."""
        place = "row_number() OVER (PARTITION BY job, target, status ORDER BY at DESC) AS place"
        ranked = f"SELECT at, {place} FROM this WHERE event = 'outcome'"  # noqa: S608 - constants
        wanted = f"SELECT at FROM ({ranked}) WHERE place <= {int(limit)}"  # noqa: S608 - a number
        return self._select(f"SELECT * FROM this WHERE event = 'outcome' AND at IN ({wanted}) ORDER BY at")  # noqa: S608

    def _select(self, statement: str) -> list[dict[str, Any]]:
        """Return the rows of a statement, which holds constants, numbers and instants; none where there is no table."""
        try:
            table = self._open()
            return [] if table is None else query_rows(statement, this=table)
        except EnrichError:
            raise
        except Exception as error:
            if is_denied(error):
                raise deny(self.uri) from error
            raise RunFailed(
                f"the runs table at {self.uri} cannot be read ({type(error).__name__})",
                hint=f"check the storage and run again; {_DAMAGED}",
            ) from error


def _literal(at: datetime) -> str:
    return f"'{at.isoformat()}'"
