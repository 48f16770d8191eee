"""What a log says about a target and its quarantine; the logs are written by delta-rs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from enrich import cursor
from enrich.cursor import UNKNOWN, Cursor, Mark, application
from enrich.errors import Conflict, Locked
from enrich.failures import is_conflict, named
from enrich.runs import INTENT, OUTCOME, RunRow, RunsTable
from enrich.tables import restored_version

JOB = "kept"


def record(number: int, base: int | None, held: int | None = None) -> Cursor:
    """Return what a run notes."""
    marks = {"items": Mark("t", None, number, {"id": "long"})}
    return Cursor(f"run{number}", JOB, number, "d", marks, ("id",), base, held)


def put(uri: Path, number: int, metadata: str | None) -> None:
    """Commit a row, as the engine does or as somebody else."""
    own = None
    if metadata is not None:
        own = CommitProperties(
            custom_metadata={"userMetadata": metadata}, app_transactions=[Transaction(application(JOB), number)]
        )
    write_deltalake(uri, pa.table({"id": [number]}), mode="append", commit_properties=own)


def commit(uri: Path, number: int, base: int | None, held: int | None = None) -> None:
    put(uri, number, record(number, base, held).to_json())


def read(uri: Path) -> cursor.TargetState:
    return cursor.read(str(uri), JOB, RunsTable(str(uri.parent / "state")), str(uri))


def test_a_record_survives_its_json() -> None:
    found = record(3, 7, 2)
    assert Cursor.from_dict(json.loads(found.to_json())) == found
    old = {name: value for name, value in found.to_dict().items() if name not in ("base", "quarantine")}
    assert (Cursor.from_dict(old).base, Cursor.from_dict(old).held) == (None, UNKNOWN)


def test_foreign_rows_after_the_cursor_are_drift(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    commit(uri, 1, None)
    commit(uri, 2, 0)
    assert read(uri).foreign == ()
    put(uri, 9, None)
    found = read(uri)
    assert (found.cursor, found.foreign) == (record(2, 0), (2,))


def test_foreign_rows_between_a_plan_and_its_commit_are_drift_too(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    commit(uri, 1, None)
    put(uri, 9, None)
    commit(uri, 2, 0)
    found = read(uri)
    assert (found.cursor, found.number, found.foreign) == (record(2, 0), 2, (1,))


@pytest.mark.parametrize("version", [0, 1])
def test_a_restore_leads_back_to_what_that_version_had_consumed(tmp_path: Path, version: int) -> None:
    uri = tmp_path / "t"
    for number in (1, 2, 3):
        commit(uri, number, number - 2 if number > 1 else None)
    DeltaTable(uri).restore(version)
    found = read(uri)
    assert found.cursor is not None
    assert (found.cursor.number, found.number, found.foreign) == (version + 1, 3, ())


def expire(uri: Path, version: int) -> None:
    """Forget the commits before a version, as a log's cleanup does."""
    DeltaTable(uri).create_checkpoint()
    for entry in (uri / "_delta_log").glob("*.json"):
        if int(entry.stem) < version:
            entry.unlink()


@pytest.mark.parametrize(("forgotten", "restored", "known"), [(2, False, True), (3, False, False), (3, True, False)])
def test_a_forgotten_commit_counts_only_while_all_that_came_after_it_is_known(
    tmp_path: Path, forgotten: int, restored: bool, known: bool
) -> None:
    uri = tmp_path / "t"
    commit(uri, 1, None)
    commit(uri, 2, 0)
    runs = RunsTable(str(tmp_path / "state"))
    runs.append(RunRow("run2", JOB, str(uri), INTENT, record(2, 0).to_dict(), 2))
    runs.append(RunRow("run2", JOB, str(uri), OUTCOME, {"target_version": 1}, 2))
    for name in ("a", "b"):  # versions 2 and 3
        if restored and name == "a":
            DeltaTable(uri).restore(0)
        else:
            DeltaTable(uri).alter.set_table_properties({"team": name}, raise_if_not_exists=False)
    expire(uri, forgotten)
    assert [entry["version"] for entry in DeltaTable(uri).history()][-1] == forgotten
    assert read(uri).cursor == (record(2, 0) if known else None)


def test_drift_that_the_log_has_forgotten_leaves_no_cursor(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    commit(uri, 1, None)
    put(uri, 9, None)
    commit(uri, 2, 0)
    for number in range(25):  # more than a first look takes
        DeltaTable(uri).alter.set_table_properties({"team": str(number)}, raise_if_not_exists=False)
    assert (read(uri).cursor, read(uri).foreign) == (record(2, 0), (1,))
    expire(uri, 2)
    assert read(uri).cursor is None


def test_foreign_rows_are_drift_when_they_came_after_a_restore_and_are_gone_when_before_it(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    commit(uri, 1, None)
    put(uri, 8, None)
    DeltaTable(uri).restore(0)  # 2
    assert (read(uri).cursor, read(uri).foreign) == (record(1, None), ())
    put(uri, 9, None)
    assert (read(uri).cursor, read(uri).foreign) == (record(1, None), (3,))
    DeltaTable(uri).restore(2)  # 4
    assert (read(uri).cursor, read(uri).foreign) == (record(1, None), ())
    DeltaTable(uri).restore(3)  # 5
    assert (read(uri).cursor, read(uri).foreign) == (record(1, None), (3,))


def test_the_restored_version_is_found_by_its_files(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    for number in range(4):
        put(uri, number, None)
    DeltaTable(uri).delete("id = 1")  # 4
    DeltaTable(uri).optimize.compact()  # 5
    for wanted in (2, 4, 5, 0):
        DeltaTable(uri).restore(wanted)
        assert restored_version(str(uri), DeltaTable(uri).version()) == wanted
        put(uri, 9, None)
    assert restored_version("s3://bucket/t", 3) is None


def test_a_quarantine_follows_only_the_version_that_the_target_names(tmp_path: Path) -> None:
    uri = tmp_path / "q"
    assert cursor.quarantine_state(str(uri), JOB, None) is None
    for number in (1, 2, 3):
        put(uri, number, record(number, None, UNKNOWN).to_json())

    def follows(held: int | None) -> bool:
        found = cursor.quarantine_state(str(uri), JOB, record(5, None, held))
        assert found is not None
        assert found.number == 3
        return found.follows

    assert [follows(held) for held in (0, 1, 2, None, UNKNOWN)] == [False, False, True, False, False]
    DeltaTable(uri).optimize.compact()
    assert [follows(held) for held in (1, 2, 3)] == [False, True, True]
    DeltaTable(uri).restore(1)
    assert [follows(held) for held in (1, 2)] == [True, False]
    undo = CommitProperties(custom_metadata={"userMetadata": cursor.undo_record(2)})
    write_deltalake(uri, pa.table({"id": [5]}), commit_properties=undo, mode="append")
    assert [follows(held) for held in (1, 2, None)] == [False, True, False]


def test_an_intent_counts_only_when_an_outcome_carries_its_number(tmp_path: Path) -> None:
    runs = RunsTable(str(tmp_path))
    for run in ("crashed", "done", "late"):
        runs.append(RunRow(run, JOB, "t", INTENT, {"of": run}, 4))
        runs.append(RunRow(run, JOB, "t", OUTCOME, {"target_version": 7}, 4 if run == "done" else None))
    assert runs.committed("t", 4) == ({"of": "done"}, 7)
    assert runs.committed("t", 5) is None
    assert runs.last_number("t") == 4


def test_only_conflicts_are_planned_anew() -> None:
    class ConcurrentAppendException(Exception):
        pass

    cases: list[tuple[Exception, bool, int]] = [
        (Conflict("c"), True, 1),
        (ConcurrentAppendException("rows: secret"), True, 1),
        (Locked("l"), False, 4),
        (OSError("secret"), False, 1),
    ]
    for error, again, code in cases:
        assert is_conflict(error) is again
        told = named(error, JOB)
        assert told.exit_code == code
        assert "secret" not in str(told)


def test_the_run_that_wrote_last_is_named() -> None:
    entries: list[dict[str, Any]] = [{"version": 3}, {"version": 2, "userMetadata": record(2, 0).to_json()}]
    assert cursor.writer_of(entries) == "run2"
    assert cursor.writer_of(entries[:1]) == "another run"
    assert cursor.commits_of(entries, "run2", 1) == [2]
    assert cursor.commits_of(entries, "run2", 2) == []
