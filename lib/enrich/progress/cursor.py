"""What a target has consumed, what to consume now, and the record that travels in the commit.

A run's number, ``txnVersion`` of the job's ``txnAppId``, and the same JSON as the intent stand in the commit that
carries the rows: rows and cursor become visible together or not at all. The latest commit of ours in the target's
history is the cursor. A RESTORE of the target to a version leads back to what that version had consumed (Delta does
not roll the number back); a RESTORE to a time, and a data change by anyone else, is drift. Where a table has a
``delta.setTransactionRetentionDuration``, Delta forgets the number: then the records in the log tell the highest one.

The quarantine's commits carry such a record, too, and a number of their own. The target's record names the number of
the quarantine's rows that belong to its own: with another number there, the two contain different versions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from enrich.base import hints
from enrich.base.errors import ConfigError, DriftError, show_text
from enrich.base.result import State
from enrich.base.spec import DataType
from enrich.delta.runs import FORMAT, RunsTable, require_known
from enrich.delta.tables import (
    RECENT,
    Log,
    TableState,
    changes_values,
    exists,
    open_log,
    read_history,
    read_metadata,
    read_open_state,
)

NUMBER, BESIDE = "number", "quarantine_number"
"""Where a record has the number of the commit that it stands in: a target's, a quarantine's."""
UPKEEP = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES"})
"""What comes every day and changes no value, as Delta defines it; others' other commits are read for what they do.

To read these, too, would cost a file of the log for each, in tables that are optimised every hour.
"""


@dataclass(frozen=True)
class Mark:
    """How far one source is consumed, and what it looked like.

    Attributes:
        table_id: The source's identity.
        start: The version before the window; None at the first run.
        to: The last consumed version.
        columns: The used columns and their types.
        commit: What tells the commit ``to`` from any other; None in records of old, and where the log did not hold it.
        layout: The names of the used columns in the files at ``to``, as in ``TableState``.
        gaps: Ranges, ends like ``start`` and ``to``, that a run was told to skip; until every row is compared again,
            the target may hold what was there before them.
        first: The version with which a history begins; None for other jobs.
        chars: What the used columns were declared with, as in ``TableState``; None in records of old.
        trusted: Whether two rows may share a key, because nobody looked for such rows; None in records of old.
        partitions: The partition columns at ``to``; None in records of old.
    """

    table_id: str
    start: int | None
    to: int
    columns: dict[str, DataType]
    gaps: tuple[tuple[int, int], ...] = ()
    commit: str | None = None
    layout: dict[str, dict[str, str]] = field(default_factory=dict)
    first: int | None = None
    chars: dict[str, list[str]] | None = None
    trusted: bool | None = None
    partitions: tuple[str, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the source's part of the record; what need not be told only where there is something to say."""
        found = {"table_id": self.table_id, "from": self.start, "to": self.to, "columns": self.columns}
        layout = {name: there for name, there in self.layout.items() if there}
        more = {"layout": layout, "gaps": [list(gap) for gap in self.gaps]}
        partitions = None if self.partitions is None else list(self.partitions)
        known = {"first": self.first, "chars": self.chars, "trusted": self.trusted, "partitions": partitions}
        more = {name: each for name, each in more.items() if each}
        return {**found, "commit": self.commit, **more, **{n: each for n, each in known.items() if each is not None}}

    @staticmethod
    def from_dict(found: dict[str, Any]) -> Mark:
        """Read a source's part back."""
        gaps = tuple((start, to) for start, to in found.get("gaps", ()))
        columns, layout = found["columns"], found.get("layout", {})
        layout = {name: layout.get(name, {}) for name in columns}
        known = {name: found.get(name) for name in ("commit", "first", "chars", "trusted")}
        known["partitions"] = tuple(found["partitions"]) if "partitions" in found else None
        return Mark(found["table_id"], found["from"], found["to"], columns, gaps, layout=layout, **known)


@dataclass(frozen=True)
class Cursor:
    """The state of one target: the record of the run that made it.

    Attributes:
        number: The run's number, unique and growing for the target.
        definition: Hash of the job's meaning; another one asks for a full refresh.
        columns: The target's columns as this job wrote them.
        base: The target's version that the run was planned on; None when it created the target.
        quarantine: The number of the quarantine's commit whose rows belong to these; 0 when there is no quarantine.
        quarantine_base: The quarantine's version that the run was planned on; None when there was none.
        state: What the whole target holds; None in records of old.
        quarantine_run: The run that made the quarantine's commit of that number: one that was dropped or put back comes
            to a number a second time. None without a quarantine.
        table_id: The target's identity; None when the run created it, and in records of old.
    """

    run_id: str
    job: str
    number: int
    definition: str
    sources: dict[str, Mark]
    columns: tuple[str, ...]
    base: int | None = None
    quarantine: int = 0
    quarantine_base: int | None = None
    state: State | None = None
    quarantine_run: str | None = None
    table_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the record as it stands in the commit's ``userMetadata`` and in the runs table."""
        found = {
            "enrich": FORMAT,
            "run_id": self.run_id,
            "job": self.job,
            "number": self.number,
            "definition": self.definition,
            "sources": {alias: mark.to_dict() for alias, mark in self.sources.items()},
            "columns": list(self.columns),
            "base": self.base,
            "quarantine_number": self.quarantine,
            "quarantine_base": self.quarantine_base,
            "quarantine_run": self.quarantine_run,
            "table_id": self.table_id,
        }
        if self.state is None:
            return found
        return {**found, "state": self.state.to_dict(), "state_rules": [each.rule for each in self.state.rules]}

    def to_json(self) -> str:
        """Return the record as one line of JSON."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_dict(found: dict[str, Any]) -> Cursor:
        """Read a record back.

        Raises:
            HistoryError: A newer release has written it.
        """
        require_known(found, f"the target of {found['job']!r}")
        sources = {alias: Mark.from_dict(mark) for alias, mark in found["sources"].items()}
        return Cursor(
            found["run_id"],
            found["job"],
            found["number"],
            found["definition"],
            sources,
            tuple(found["columns"]),
            found["base"],
            found["quarantine_number"],
            found["quarantine_base"],
            State.from_dict(found["state"], found["state_rules"]) if "state" in found else None,
            found["quarantine_run"],
            found.get("table_id"),
        )


@dataclass(frozen=True)
class QuarantineState:
    """What is at a job's quarantine now.

    Attributes:
        number: The highest number ever used for it; it counts the quarantine's own commits.
        present: The number of the commit that its rows come from; None when its log does not tell.
        cursor: What its rows contain; None when the log has forgotten that.
        oldest: The first version that its log still holds.
    """

    table: TableState
    number: int
    present: int | None
    cursor: Cursor | None
    oldest: int

    @property
    def run_id(self) -> str | None:
        """The run that its rows come from; None when the log has forgotten that."""
        return None if self.cursor is None else self.cursor.run_id

    def belongs_to(self, cursor: Cursor) -> bool:
        """Return whether its rows are those that the record of a target names; by the number alone in case of doubt."""
        same_number = self.present is not None and self.present == cursor.quarantine
        return same_number and (None in (self.run_id, cursor.quarantine_run) or self.run_id == cursor.quarantine_run)


@dataclass(frozen=True)
class TargetState:
    """What is at a job's target now.

    Attributes:
        table: The table; None when it does not exist.
        cursor: What its rows contain; None when it does not exist, or when neither log nor runs table says it.
        number: The highest number ever used for it.
        others: Versions of data changes by others since the cursor, latest first.
        quarantine: The quarantine table beside it; None when there is none, and when nobody asked.
    """

    table: TableState | None
    cursor: Cursor | None
    number: int
    others: tuple[int, ...] = ()
    quarantine: QuarantineState | None = None

    @property
    def marks(self) -> Mapping[str, Mark]:
        """Alias -> how far it is consumed; empty without a cursor."""
        return {} if self.cursor is None else self.cursor.sources

    @property
    def consumed(self) -> dict[str, tuple[str, int]]:
        """Alias -> its table's identity and the last version that the rows contain."""
        return {alias: (mark.table_id, mark.to) for alias, mark in self.marks.items()}


def name_application(job: str) -> str:
    """Return the ``txnAppId`` of a job; the target is the table that holds it."""
    return f"enrich/{job}"


def read(uri: str, job: str, runs: RunsTable, label: str) -> TargetState:
    """Read the state of an existing target; ``label`` is its name in ``runs``, which have another copy of the cursor.

    Raises:
        ConfigError: The table was never written by this job, or nothing tells that it was.
    """
    table, number, walked = _open_history(uri, job, NUMBER, lambda walked: walked.is_explained)
    known = None
    if number is None:  # its log knows none any more
        number = runs.last_number(label, committed=True)
        known = runs.read_committed(label, number)
        if known is None or known[0].get("job") != job:
            raise _describe_foreign(table.uri, job, walked.entries)
        if _find_expired(known, walked.oldest) is None and known[0].get("table_id") != table.table_id:
            raise _describe_foreign(table.uri, job, walked.entries)
    found, others = walked.record, walked.others
    if found is not None and not walked.is_explained:
        found = None  # what came between its plan and its commit is forgotten
    elif found is not None and walked.base is not None:
        others += list_others_between(walked.entries, (walked.base, walked.version))
    elif found is None and not walked.restored:
        found = _find_expired(known or runs.read_committed(label, number), walked.oldest)
    cursor = None if found is None else Cursor.from_dict(found)
    return TargetState(table, cursor, number, list_changing(uri, others, () if cursor is None else cursor.columns))


def _find_expired(committed: tuple[dict[str, Any], int | None] | None, oldest: int) -> dict[str, Any] | None:
    """Return the record of a commit that the log has forgotten, if it still knows all that came after it.

    What is forgotten may have been a RESTORE, which leaves the number as it was, or somebody else's rows.
    """
    if committed is None or committed[1] is None:
        return None
    return committed[0] if committed[1] + 1 == oldest else None


def read_quarantine_state(uri: str, job: str) -> QuarantineState | None:
    """Read the state of a job's quarantine; None when there is none.

    Rows that others wrote by hand do not count: only a comparison of all rows, `enrich verify`, tells them.

    Raises:
        ConfigError: The table was never written by this job.
    """
    if not exists(uri):
        return None
    table, number, walked = _open_history(uri, job, BESIDE, lambda walked: walked.record is not None)
    if number is None:
        raise _describe_foreign(uri, job, walked.entries)
    # The log forgets records and keeps the latest number; but a RESTORE does not take that number back.
    found, present = None, None if walked.restored or walked.unclear else number
    if walked.record is not None and not walked.unclear:
        found = Cursor.from_dict(walked.record)
        present = found.quarantine
    return QuarantineState(table, number, present, found, walked.oldest)


@dataclass(frozen=True)
class _Walked:
    """What a table's history says about its present rows.

    Attributes:
        entries: The history, latest first.
        record: The run that they come from; None when these entries do not tell.
        version: Its commit.
        base: The version that this commit goes on from, as ``find_base`` says.
        others: Commits of others since, latest first, but for upkeep.
        restored: True when a RESTORE has led back to older rows.
        unclear: True when a RESTORE has led back to rows of which nobody can say when they were there.
    """

    entries: list[dict[str, Any]]
    record: dict[str, Any] | None
    version: int
    base: int | None
    others: tuple[int, ...]
    restored: bool
    unclear: bool

    @property
    def oldest(self) -> int:
        """The first version of these entries."""
        return int(self.entries[-1]["version"])

    @property
    def is_explained(self) -> bool:
        """True when the entries hold the record and all that came between its plan and its commit."""
        if self.record is None:
            return False
        after = (self.version if self.base is None else self.base) + 1
        return bool(after >= self.version or after >= self.oldest)


def _open_history(
    uri: str, job: str, name: str, is_enough: Callable[[_Walked], bool]
) -> tuple[TableState, int | None, _Walked]:
    """Open a table of ``job``; return its state, its highest number as ``find_number``, and what its history says.

    The latest commits are read; all of them where these are not enough.
    """
    log = open_log(uri)
    walked = _walk(read_history(log, RECENT), job)
    return (
        read_open_state(log),
        find_number(log, job, name),
        walked if is_enough(walked) else _walk(read_history(log), job),
    )


def find_number(log: Log, job: str, name: str) -> int | None:
    """Return the highest number that the log says ``job`` has used for a table; None when it knows of none.

    Delta forgets the number after the table's ``delta.setTransactionRetentionDuration``; the records stay longer.

    Args:
        log: The table's log.
        job: The job.
        name: Where a record has the number of its own commit: ``NUMBER``, or ``BESIDE`` in a quarantine.
    """
    number: int | None = log.transaction_version(name_application(job))
    if number is not None:
        return number
    records = (read_record(entry, job) for entry in read_history(log))
    return max((record[name] for record in records if record is not None), default=None)


def _describe_foreign(uri: str, job: str, entries: Iterable[dict[str, Any]]) -> ConfigError:
    """Return the error of a table that stands where a job writes, and of which nothing says that the job wrote it."""
    others = (show_text(str(found["job"])) for found in map(_read_metadata, entries) if "job" in found)
    other = next(others, None)
    hint = "move it away, or choose another target table"
    if other is None:
        return ConfigError(f"{uri} exists and was not written by job {job!r}", hint=hint)
    hint = f"give the job its old name {other!r} again, or {hint}"
    return ConfigError(f"{uri} exists and was written by job {other!r}, not by job {job!r}", hint=hint)


def _walk(entries: list[dict[str, Any]], job: str) -> _Walked:
    """Find the latest record of ``job`` that the table's present rows come from, and what others did after it."""
    others: list[int] = []
    below: int | None = None
    unclear = False
    for entry in entries:
        version, operation = int(entry["version"]), str(entry.get("operation", ""))
        if below is not None and version > below:
            continue
        record = read_record(entry, job)
        if record is not None:
            return _Walked(entries, record, version, find_base(entry), tuple(others), below is not None, unclear)
        named = str((entry.get("operationParameters") or {}).get("version"))
        if operation == "RESTORE" and named.isdigit():
            below = int(named)
        elif operation not in UPKEEP:
            unclear = unclear or operation == "RESTORE"  # to a time, in the zone of whoever typed it
            others.append(version)
    return _Walked(entries, None, 0, None, tuple(others), below is not None, unclear)


def find_base(entry: dict[str, Any]) -> int | None:
    """Return the version whose rows a commit of ours goes on from; None where its record does not say.

    That is the one that its run was planned on. An overwrite has removed what came since, up to the version that Delta
    says it has read; a row that was appended later is there beside those that it wrote.
    """
    base, read = _read_metadata(entry).get("base"), entry.get("readVersion")
    overwrites = (entry.get("operationParameters") or {}).get("mode") == "Overwrite"
    return max(base, read) if overwrites and base is not None and isinstance(read, int) else base


def list_others_between(entries: list[dict[str, Any]], bounds: tuple[int, int]) -> tuple[int, ...]:
    """Return the commits between a plan's version and its commit, both excluded, latest first, but for upkeep.

    None of them may be another run's of the same job, either: that is what the number is for.
    """
    inside = [entry for entry in entries if bounds[0] < int(entry["version"]) < bounds[1]]
    return tuple(int(entry["version"]) for entry in inside if entry.get("operation") not in UPKEEP)


def list_changing(uri: str, others: Iterable[int], columns: Sequence[str]) -> tuple[int, ...]:
    """Return those of others' commits to a target that changed values in its columns."""
    return tuple(version for version in others if changes_values(uri, version, columns))


def _read_metadata(entry: dict[str, Any]) -> dict[str, Any]:
    """Return what a run of a job has put into a commit; empty for commits of others."""
    found = read_metadata(entry)
    return found if is_of_run(found) else {}


def is_of_run(found: Mapping[str, Any], run_id: str | None = None) -> bool:
    """Return whether what a commit records is of a run of a job, or of this one; upkeep and loads write others."""
    return isinstance(found.get("enrich"), int) and run_id in (None, found.get("run_id"))


def find_writer(entries: list[dict[str, Any]]) -> str:
    """Return the id of the run that wrote last."""
    return next((found["run_id"] for found in map(_read_metadata, entries) if "run_id" in found), "another run")


def read_record(entry: dict[str, Any], job: str) -> dict[str, Any] | None:
    """Return the record of ``job`` in a commit; None in commits of others, and in those of upkeep.

    Raises:
        HistoryError: A newer release has written it.
    """
    found = _read_metadata(entry)
    if found.get("job") != job:
        return None
    require_known(found, f"the target of {job!r}")
    return found


def describe_drift(job: str, others: Iterable[int]) -> DriftError:
    """Return the error of a target that others have changed in the versions ``others``."""
    versions = ", ".join(str(version) for version in sorted(others)[:5])
    return DriftError(
        f"the target of {job!r} was changed by another writer (version {versions})",
        hint=f"run `{hints.repair(job)}`, which undoes it",
    )
