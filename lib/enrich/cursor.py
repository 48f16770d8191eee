"""What a target has consumed, what to consume now, and the record that travels in the commit.

A run's number, ``txnVersion`` of the job's ``txnAppId``, and the same JSON as the intent stand in the commit that
carries the rows: rows and cursor become visible together or not at all. The latest commit of ours in the target's
history is the cursor. A RESTORE of the target leads back to what the restored version had consumed (Delta does not
roll the number back); a data change by anyone else is drift.

The record also names the version of the quarantine that belongs to the rows. What a run that never reached the target
has put above it in the quarantine's log is undone before the next run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enrich.errors import ConfigError, DriftError
from enrich.spec import DataType
from enrich.tables import TableState, exists, history, open_log, restored_version, state_of

if TYPE_CHECKING:
    from enrich.runs import RunsTable

UNKNOWN = -1
"""The quarantine's version in a record whose run had not written it yet."""

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
        "ADD COLUMN",  # as delta-rs calls these three
        "UPDATE TABLE METADATA",
        "UPDATE FIELD METADATA",
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
        base: The target's version that the run was planned on; None when it created the target.
        held: The quarantine's version that belongs to the rows; None when there is no quarantine.
    """

    run_id: str
    job: str
    number: int
    definition: str
    sources: dict[str, Mark]
    columns: tuple[str, ...]
    base: int | None = None
    held: int | None = None

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
            "base": self.base,
            "quarantine": self.held,
        }

    def to_json(self) -> str:
        """Return the record as one line of JSON."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_dict(found: dict[str, Any]) -> Cursor:
        """Read a record back."""
        sources = {alias: Mark.from_dict(mark) for alias, mark in found["sources"].items()}
        return Cursor(
            found["run_id"],
            found["job"],
            found["number"],
            found["definition"],
            sources,
            tuple(found["columns"]),
            found.get("base"),
            found.get("quarantine", UNKNOWN),
        )


@dataclass(frozen=True)
class QuarantineState:
    """What is at a job's quarantine now.

    Attributes:
        version: The table's latest version.
        number: The highest number ever used for it; it counts the quarantine's own commits.
        follows: True when its rows are those that belong to the target's.
    """

    version: int
    number: int
    follows: bool


@dataclass(frozen=True)
class TargetState:
    """What is at a job's target now.

    Attributes:
        table: The table; None when it does not exist.
        cursor: What its rows contain; None when it does not exist, or when neither log nor runs table says it.
        number: The highest number ever used for it.
        foreign: Versions of data changes by others since the cursor, latest first.
        quarantine: The quarantine table beside it; None when there is none, and when nobody asked.
    """

    table: TableState | None
    cursor: Cursor | None
    number: int
    foreign: tuple[int, ...] = ()
    quarantine: QuarantineState | None = None

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
    entries = history(log, _RECENT)
    walked = _walk(uri, entries, job)
    if walked.record is None:
        entries = history(log)
        walked = _walk(uri, entries, job)
    found = walked.record
    if found is None and not walked.restored:
        found = _expired(runs.committed(label, number), entries)
    return TargetState(table, None if found is None else Cursor.from_dict(found), number, walked.foreign)


def _expired(
    committed: tuple[dict[str, Any], int | None] | None, entries: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """Return the record of a commit that the log has forgotten, if it still knows all that came after it.

    What is forgotten may have been a RESTORE, which leaves the number as it was, or somebody else's rows.
    """
    if committed is None or committed[1] is None:
        return None
    return committed[0] if committed[1] + 1 == int(entries[-1]["version"]) else None


def quarantine_state(uri: str, job: str, cursor: Cursor | None) -> QuarantineState | None:
    """Read the state of a job's quarantine; None when there is none.

    Args:
        uri: Where the quarantine is.
        job: The job's name.
        cursor: What the target's rows contain; None when there is no target.
    """
    if not exists(uri):
        return None
    log = open_log(uri)
    number = log.transaction_version(application(job)) or 0
    wanted = None if cursor is None else cursor.held
    follows = _follows(history(log, _RECENT), wanted) or _follows(history(log), wanted)
    return QuarantineState(log.version(), number, follows)


def undo_record(wanted: int | None) -> str:
    """Return the ``userMetadata`` of the commit that leads a quarantine back to ``wanted``; None: to no rows."""
    return json.dumps({"enrich": _FORMAT, "undo": wanted}, separators=(",", ":"))


def _follows(entries: list[dict[str, Any]], wanted: int | None) -> bool:
    """Tell whether the latest rows of a quarantine are those of the version ``wanted``; None: no rows.

    Rows that others wrote by hand do not count: only a comparison of all rows, `enrich verify`, tells them.
    """
    below: int | None = None
    for entry in entries:
        version, found = int(entry["version"]), _metadata(entry)
        if below is not None and version > below:
            continue
        if version == wanted:
            return True
        if "undo" in found:
            return bool(found["undo"] == wanted)
        if str(entry.get("operation", "")) == "RESTORE":
            below = _named_version(entry)
            if below is None:
                return False
        elif found:
            return False
    return False


@dataclass(frozen=True)
class _Walked:
    """What a target's history says about its present rows.

    Attributes:
        record: The run that they come from.
        foreign: Versions of data changes by others.
        restored: True when a RESTORE has led back to older rows.
    """

    record: dict[str, Any] | None
    foreign: tuple[int, ...]
    restored: bool


def _walk(uri: str, entries: list[dict[str, Any]], job: str) -> _Walked:
    """Find the latest record of ``job`` that the table's present rows come from, and foreign changes after it."""
    foreign: list[int] = []
    below: int | None = None
    for entry in entries:
        version, operation = int(entry["version"]), str(entry.get("operation", ""))
        if below is not None and version > below:
            continue
        record = _record(entry, job)
        if record is not None:
            base = record.get("base")
            if base is not None and base + 1 < version and base + 1 < int(entries[-1]["version"]):
                break  # what came between its plan and its commit is not among these entries
            inside = [] if base is None else foreign_between(entries, (base, version), job)
            return _Walked(record, (*foreign, *inside), below is not None)
        if operation == "RESTORE":
            restored = _named_version(entry)
            if restored is None:  # by a timestamp, in the time zone of whoever typed it: compare the files
                restored = restored_version(uri, version)
            if restored is None:
                foreign.append(version)
            else:
                below = restored
        elif operation not in _NO_DATA:
            foreign.append(version)
    return _Walked(None, tuple(foreign), below is not None)


def foreign_between(entries: list[dict[str, Any]], bounds: tuple[int, int], job: str) -> list[int]:
    """Return the versions of data changes by others between two versions, both excluded, latest first."""
    inside = [entry for entry in entries if bounds[0] < int(entry["version"]) < bounds[1]]
    return [int(e["version"]) for e in inside if str(e.get("operation", "")) not in _NO_DATA and not _record(e, job)]


def drift(job: str, foreign: Iterable[int]) -> DriftError:
    """Return the error of a target that others have changed in the versions ``foreign``."""
    versions = ", ".join(str(version) for version in sorted(foreign)[:5])
    return DriftError(
        f"the target of {job!r} was changed by another writer (version {versions})",
        hint=f"run `enrich verify {job} --repair`, which undoes it, or `enrich run {job} --full-refresh`",
    )


def _named_version(entry: dict[str, Any]) -> int | None:
    """Return the version that a RESTORE names; None when it names a time."""
    named = str((entry.get("operationParameters") or {}).get("version"))
    return int(named) if named.isdigit() else None


def _metadata(entry: dict[str, Any]) -> dict[str, Any]:
    """Return what enrich has put into a commit; empty for commits of others."""
    try:
        found = json.loads(entry.get("userMetadata") or "null")
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.get("enrich") == _FORMAT else {}


def commits_of(entries: list[dict[str, Any]], run_id: str, base: int | None) -> list[int]:
    """Return the versions after ``base`` that a run has committed, latest first."""
    after = [entry for entry in entries if base is None or int(entry["version"]) > base]
    return [int(entry["version"]) for entry in after if _metadata(entry).get("run_id") == run_id]


def writer_of(entries: list[dict[str, Any]]) -> str:
    """Return the id of the run that wrote last."""
    return next((found["run_id"] for found in map(_metadata, entries) if "run_id" in found), "another run")


def _record(entry: dict[str, Any], job: str) -> dict[str, Any] | None:
    found = _metadata(entry)
    return found if found.get("job") == job else None


def digest(meaning: Any) -> str:
    """Return a short hash of a JSON value."""
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
