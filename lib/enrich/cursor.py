"""What a target has consumed, what to consume now, and the record that travels in the commit.

A run's number, ``txnVersion`` of the job's ``txnAppId``, and the same JSON as the intent stand in the commit that
carries the rows: rows and cursor become visible together or not at all. The latest commit of ours in the target's
history is the cursor. A RESTORE of the target leads back to what the restored version had consumed (Delta does not
roll the number back); a data change by anyone else is drift.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enrich.errors import ConfigError, HistoryError
from enrich.spec import DataType
from enrich.tables import TableState, history, open_log, state_of

if TYPE_CHECKING:
    from enrich.runs import RunsTable

_FORMAT = 1
_RECENT = 20
_NO_DATA = frozenset(
    {
        "OPTIMIZE",
        "VACUUM START",
        "VACUUM END",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "ADD COLUMNS",
        "CHANGE COLUMN",
        "CHANGE COLUMNS",
        "CLUSTER BY",
        "REORG",
        "ADD FEATURE",
        "UPGRADE PROTOCOL",
        "SET TABLE COMMENT",
        "COMPUTE STATS",
        "ADD CONSTRAINT",
        "DROP CONSTRAINT",
    }
)


@dataclass(frozen=True)
class Mark:
    """How far one source is consumed, and what it looked like.

    Attributes:
        table_id: The source's identity.
        start: The version before the window; None at the first run.
        to: The last consumed version.
        columns: The used columns and their types.
        gaps: Ranges, ends like ``start`` and ``to``, that a run was told to skip; until every row is compared again,
            the target may hold what was there before them.
    """

    table_id: str
    start: int | None
    to: int
    columns: dict[str, DataType]
    gaps: tuple[tuple[int, int], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the source's part of the record; ``gaps`` only where there are any."""
        found = {"table_id": self.table_id, "from": self.start, "to": self.to, "columns": self.columns}
        return {**found, "gaps": [list(gap) for gap in self.gaps]} if self.gaps else found

    @staticmethod
    def from_dict(found: dict[str, Any]) -> Mark:
        """Read a source's part back."""
        gaps = tuple((start, to) for start, to in found.get("gaps", ()))
        return Mark(found["table_id"], found["from"], found["to"], found["columns"], gaps)


@dataclass(frozen=True)
class Cursor:
    """The state of one target: the record of the run that made it.

    Attributes:
        number: The run's number, unique and growing for the target.
        definition: Hash of the job's meaning; another one asks for a full refresh.
        sources: Alias -> mark.
        columns: The target's columns as this job wrote them.
    """

    run_id: str
    job: str
    number: int
    definition: str
    sources: dict[str, Mark]
    columns: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the record as it stands in the commit's ``userMetadata`` and in the runs table."""
        return {
            "enrich": _FORMAT,
            "run_id": self.run_id,
            "job": self.job,
            "number": self.number,
            "definition": self.definition,
            "sources": {alias: mark.to_dict() for alias, mark in self.sources.items()},
            "columns": list(self.columns),
        }

    def to_json(self) -> str:
        """Return the record as one line of JSON."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_dict(found: dict[str, Any]) -> Cursor:
        """Read a record back."""
        sources = {alias: Mark.from_dict(mark) for alias, mark in found["sources"].items()}
        return Cursor(
            found["run_id"], found["job"], found["number"], found["definition"], sources, tuple(found["columns"])
        )


@dataclass(frozen=True)
class TargetState:
    """What is at a job's target now.

    Attributes:
        table: The table; None when it does not exist.
        cursor: What its rows contain; None when it does not exist, or when neither log nor runs table says it.
        number: The highest number ever used for it.
        foreign: Versions of data changes by others since the cursor, latest first.
    """

    table: TableState | None
    cursor: Cursor | None
    number: int
    foreign: tuple[int, ...] = ()

    @property
    def consumed(self) -> dict[str, tuple[str, int]]:
        """Alias -> its table's identity and the last version that the rows contain."""
        sources = self.cursor.sources.items() if self.cursor is not None else ()
        return {alias: (mark.table_id, mark.to) for alias, mark in sources}


def application(job: str) -> str:
    """Return the ``txnAppId`` of a job; the target is the table that holds it."""
    return f"enrich/{job}"


def read(uri: str, job: str, runs: RunsTable, label: str) -> TargetState:
    """Read the state of an existing target.

    Args:
        uri: Where the target is.
        job: The job's name.
        runs: Holds the second copy of the cursor.
        label: The target's name in the runs table.

    Raises:
        ConfigError: The table was never written by this job.
    """
    log = open_log(uri)
    table = state_of(log)
    number = log.transaction_version(application(job))
    if number is None:
        raise ConfigError(
            f"{uri} exists and was not written by job {job!r}", hint="move it away, or choose another target table"
        )
    found, foreign = _walk(history(log, _RECENT), job)
    if found is None:
        found, foreign = _walk(history(log), job)
    if found is None:
        found = runs.intent(label, number)
    return TargetState(table, None if found is None else Cursor.from_dict(found), number, foreign)


@dataclass(frozen=True)
class Ahead:
    """A quarantine that contains more than its target: a run ended between the two commits, or the target was restored.

    Attributes:
        settled: The quarantine's version that goes with the target's cursor; None: there was no quarantine yet.
    """

    settled: int | None


def ahead(uri: str, job: str, number: int) -> Ahead | None:
    """Compare a quarantine's last commit with its target's cursor.

    Args:
        uri: Where the quarantine is.
        job: The job's name.
        number: The number of the run that made the target's rows.

    Raises:
        HistoryError: It is ahead, and its log does not reach back to the cursor.
    """
    log = open_log(uri)
    for limit in (_RECENT, None):
        entries = history(log, limit)
        found = [(int(entry["version"]), record) for entry in entries if (record := _record(entry, job)) is not None]
        settled = next((version for version, record in found if record["number"] <= number), None)
        if settled is not None:
            return Ahead(settled) if found[0][0] != settled else None
    if not found:
        return None
    if int(entries[-1]["version"]) > 0:
        raise HistoryError(
            f"the quarantine of {job!r} contains more than its target, and its log does not say since when",
            hint=f"run `enrich run {job} --full-refresh`",
        )
    return Ahead(None)


def _walk(entries: list[dict[str, Any]], job: str) -> tuple[dict[str, Any] | None, tuple[int, ...]]:
    """Find the latest record of ``job`` that the table's present rows come from, and foreign changes after it."""
    foreign: list[int] = []
    below: int | None = None
    for entry in entries:
        version, operation = int(entry["version"]), str(entry.get("operation", ""))
        if below is not None and version > below:
            continue
        record = _record(entry, job)
        if record is not None:
            return record, tuple(foreign)
        if operation == "RESTORE":
            restored = (entry.get("operationParameters") or {}).get("version")
            if restored is None or not str(restored).isdigit():
                foreign.append(version)
            else:
                below, foreign = int(restored), []
        elif operation not in _NO_DATA:
            foreign.append(version)
    return None, tuple(foreign)


def _record(entry: dict[str, Any], job: str) -> dict[str, Any] | None:
    try:
        found = json.loads(entry.get("userMetadata") or "null")
    except ValueError:
        return None
    ours = isinstance(found, dict) and found.get("enrich") == _FORMAT and found.get("job") == job
    return found if ours else None


def digest(meaning: Any) -> str:
    """Return a short hash of a JSON value."""
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
