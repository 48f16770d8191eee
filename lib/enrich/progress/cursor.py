"""Record what a target has consumed, in the commit that carries the rows.

A run's number, ``txnVersion`` of the job's ``txnAppId``, and the same JSON as the intent stand in that commit: rows and
cursor become visible together or not at all. The latest commit of ours in the target's history is the cursor. A RESTORE
to a version leads back to what that version had consumed (Delta does not roll the number back); a RESTORE to a time,
and a data change by anyone else, is drift. Where Delta forgets the number (``delta.setTransactionRetentionDuration``),
the records in the log tell the highest one.

The quarantine's commits carry such a record and a number of their own, which the target's record names: with another
number there, the two tables contain different versions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from enrich.base import hints
from enrich.base.errors import DriftError
from enrich.base.result import Proof, State
from enrich.base.spec import DataType
from enrich.delta.runs import FORMAT, require_known
from enrich.delta.tables import Log, TableState, changes_values, read_history, read_metadata

NUMBER, BESIDE = "number", "quarantine_number"
"""Where a record has the number of the commit that it stands in: a target's, a quarantine's."""
UPKEEP = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "REMOVE COLUMN MAPPING"})
"""What changes no value, as Delta defines it, most of it every day; others' other commits are read for what they do.

To read these, too, would cost a file of the log for each, in tables that are optimised every hour.
"""


@dataclass(frozen=True)
class Mark:
    """How far one source is consumed, and what it looked like; ``chars`` as in ``TableState``."""

    table_id: str
    start: int | None  # the version before the window; None at the first run
    to: int  # the last consumed version
    columns: dict[str, DataType]  # the used columns and their types
    # Ranges, ends like ``start`` and ``to``, that a run was told to skip; until every row is compared again, the target
    # may hold what was there before them.
    gaps: tuple[tuple[int, int], ...] = ()
    commit: str | None = None  # what tells the commit ``to`` from any other; None where the log did not hold it
    first: int | None = None  # the version with which a history begins; None for other jobs
    chars: dict[str, list[str]] = field(default_factory=dict)
    trusted: bool = False  # whether two rows may share a key, because nobody looked for such rows
    partitions: tuple[str, ...] | None = None  # the partition columns at ``to``; None where they were not looked at

    def to_dict(self) -> dict[str, Any]:
        """Return the source's part of the record; some of it only where there is something to say."""
        found: dict[str, Any] = {**vars(self), "from": self.start, "gaps": [list(gap) for gap in self.gaps] or None}
        found["partitions"] = None if self.partitions is None else list(self.partitions)
        empty = {name for name in ("first", "gaps", "partitions") if found[name] is None}
        return {name: each for name, each in found.items() if name not in {"start", *empty}}

    @staticmethod
    def from_dict(found: dict[str, Any]) -> Mark:
        """Read a source's part back."""
        known = {each.name: found[each.name] for each in fields(Mark) if each.name in found}
        known["gaps"] = tuple((start, to) for start, to in found.get("gaps", ()))
        if "partitions" in found:
            known["partitions"] = tuple(found["partitions"])
        return Mark(start=found["from"], **known)


@dataclass(frozen=True)
class Cursor:
    """The state of one target: the record of the run that made it."""

    run_id: str
    job: str
    number: int  # the run's number, unique and growing for the target
    definition: str  # hash of the job's meaning; another one asks for a full refresh
    sources: dict[str, Mark]
    columns: tuple[str, ...]  # the target's columns as this job wrote them
    # The target's version that the run was planned on, as ``quarantine_base``; None when there was none.
    base: int | None = None
    # The number of the quarantine's commit whose rows belong to these; 0 without a quarantine.
    quarantine_number: int = 0
    quarantine_base: int | None = None
    state: State | None = None
    held: Proof | None = None  # of the rows of the quarantine that belong to these; None where nobody knows it
    # The run that made that commit: one that was dropped or put back comes to a number twice.
    quarantine_run: str | None = None
    table_id: str | None = None  # the target's identity; None when the run created it

    def to_dict(self) -> dict[str, Any]:
        """Return the record as it stands in the commit's ``userMetadata`` and in the runs table."""
        sources = {alias: mark.to_dict() for alias, mark in self.sources.items()}
        found = {**vars(self), "enrich": FORMAT, "sources": sources, "columns": list(self.columns)}
        del found["state"], found["held"]
        if self.state is not None:
            found |= {"state": self.state.to_dict(), "state_rules": [each.rule for each in self.state.rules]}
            found["sums"] = {"target": self.state.proof, "quarantine": self.held}
        return found

    def to_json(self) -> str:
        """Return the record as one line of JSON."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_dict(found: dict[str, Any]) -> Cursor:
        """Read a record back; a HistoryError where a newer release has written it."""
        require_known(found, f"the target of {found['job']!r}")
        known: dict[str, Any] = {each.name: found.get(each.name) for each in fields(Cursor)}
        known["sources"] = {alias: Mark.from_dict(mark) for alias, mark in found["sources"].items()}
        known["columns"] = tuple(found["columns"])
        if "state" in found:
            proofs = {name: each and tuple(each) for name, each in found.get("sums", {}).items()}
            state = State.from_dict(found["state"], found["state_rules"])
            known |= {"state": replace(state, proof=proofs.get("target")), "held": proofs.get("quarantine")}
        return Cursor(**known)


@dataclass(frozen=True)
class QuarantineState:
    """What is at a job's quarantine now."""

    table: TableState
    number: int  # the highest number ever used for it; it counts the quarantine's own commits
    present: int | None  # the number of the commit that its rows come from; None when its log does not tell
    cursor: Cursor | None  # what its rows contain; None when the log has forgotten that
    oldest: int  # the first version that its log still holds
    is_edited: bool = False  # others have changed its rows since

    @property
    def run_id(self) -> str | None:
        """The run that its rows come from; None when the log has forgotten that."""
        return None if self.cursor is None else self.cursor.run_id

    def belongs_to(self, cursor: Cursor) -> bool:
        """Return whether its rows are those that the record of a target names; by the number alone in case of doubt."""
        same_number = self.present is not None and self.present == cursor.quarantine_number
        return same_number and (None in (self.run_id, cursor.quarantine_run) or self.run_id == cursor.quarantine_run)


@dataclass(frozen=True)
class TargetState:
    """What is at a job's target now."""

    table: TableState | None  # the table; None when it does not exist
    # What its rows contain; None when it does not exist, or when neither log nor runs table says it.
    cursor: Cursor | None
    number: int  # the highest number ever used for it
    others: tuple[int, ...] = ()  # versions of data changes by others since the cursor, latest first
    # The quarantine table beside it; None when there is none, and when nobody asked.
    quarantine: QuarantineState | None = None

    @property
    def marks(self) -> Mapping[str, Mark]:
        """Alias -> how far it is consumed; empty without a cursor."""
        return {} if self.cursor is None else self.cursor.sources

    @property
    def held(self) -> Proof | None:
        """The proof of the quarantine's rows, of none where there is no quarantine; None where nobody knows it."""
        there, cursor = self.quarantine, self.cursor
        if there is None:
            return 0, 0, 0
        if there.cursor is not None:
            return there.cursor.held if there.present is not None else None
        return cursor.held if cursor is not None and there.belongs_to(cursor) else None

    @property
    def is_apart(self) -> bool:
        """True when the rows of the quarantine are not those that the record of the target names."""
        there, cursor = self.quarantine, self.cursor
        return there is not None and cursor is not None and not there.belongs_to(cursor)


def name_application(job: str) -> str:
    """Return the ``txnAppId`` of a job; the target is the table that holds it."""
    return f"enrich/{job}"


def find_number(log: Log, job: str, name: str) -> int | None:
    """Return the highest number that the log says ``job`` has used for a table; None when it knows of none.

    Delta forgets the number after the table's ``delta.setTransactionRetentionDuration``; the records stay longer.
    ``name``: where a record has the number of its own commit, ``NUMBER``, or ``BESIDE`` in a quarantine.
    """
    number: int | None = log.transaction_version(name_application(job))
    if number is not None:
        return number
    records = (read_record(entry, job) for entry in read_history(log))
    return max((record[name] for record in records if record is not None), default=None)


def find_base(entry: dict[str, Any]) -> int | None:
    """Return the version whose rows a commit of ours goes on from; None where its record does not say.

    That is the one that its run was planned on. An overwrite has removed what came since, up to the version that Delta
    says it has read; a row that was appended later is there beside those that it wrote.
    """
    base, read = read_run(entry).get("base"), entry.get("readVersion")
    overwrites = (entry.get("operationParameters") or {}).get("mode") == "Overwrite"
    return max(base, read) if overwrites and base is not None and isinstance(read, int) else base


def list_others_between(entries: list[dict[str, Any]], bounds: tuple[int, int]) -> tuple[int, ...]:
    """Return the versions between a plan's and its commit's, latest first, but for upkeep; what is forgotten counts."""
    upkeep = {int(entry["version"]) for entry in entries if entry.get("operation") in UPKEEP}
    return tuple(version for version in range(bounds[1] - 1, bounds[0], -1) if version not in upkeep)


def list_changing(uri: str, others: Iterable[int], columns: Sequence[str], *, types: bool = False) -> tuple[int, ...]:
    """Return those of others' commits to a table that changed values in its columns, or their ``types``."""
    return tuple(version for version in others if changes_values(uri, version, columns, types=types))


def read_run(entry: dict[str, Any]) -> dict[str, Any]:
    """Return what a run of a job has put into a commit; empty for commits of others."""
    found = read_metadata(entry)
    # What compacts a table behind a commit takes its record over.
    return found if is_of_run(found) and entry.get("operation") not in UPKEEP else {}


def is_of_run(found: Mapping[str, Any], run_id: str | None = None) -> bool:
    """Return whether what a commit records is of a run of a job, or of this one; upkeep and loads write others."""
    return isinstance(found.get("enrich"), int) and run_id in (None, found.get("run_id"))


def read_record(entry: dict[str, Any], job: str) -> dict[str, Any] | None:
    """Return the record of ``job`` in a commit, else None; one of a newer release is a HistoryError."""
    found = read_run(entry)
    if found.get("job") != job:
        return None
    require_known(found, f"the target of {job!r}")
    return found


def describe_drift(job: str, others: Iterable[int]) -> DriftError:
    """Return the error of a target that others have changed in the versions ``others``."""
    versions = ", ".join(str(version) for version in sorted(others)[:5])
    hint = f"run `{hints.repair(job)}`, which undoes it"
    return DriftError(f"the target of {job!r} was changed by another writer (version {versions})", hint=hint)
