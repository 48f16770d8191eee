"""What a log says about a target and its quarantine; the logs are written by delta-rs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from enrich.base.errors import ConfigError, Conflict, HistoryError, Locked, RunFailed
from enrich.base.failures import UPGRADE, describe_error, is_conflict
from enrich.delta.runs import INTENT, OUTCOME, RunRow, RunsTable
from enrich.delta.tables import read_history
from enrich.progress import cursor, target
from enrich.progress.cursor import Cursor, Mark, name_application
from kit.commits import edit_commit, find_commit, rewrite_commit

JOB = "kept"


def record(number: int, base: int | None, quarantine: int = 0) -> Cursor:
    """Return what a run notes."""
    marks = {"items": Mark("t", None, number, {"id": "long"})}
    return Cursor(f"run{number}", JOB, number, "d", marks, ("id",), base, quarantine)


def put(uri: Path, number: int, metadata: str | None, mode: Literal["append", "overwrite"] = "append") -> None:
    """Commit a row, as the engine does or as somebody else."""
    own = None
    if metadata is not None:
        own = CommitProperties(
            custom_metadata={"userMetadata": metadata}, app_transactions=[Transaction(name_application(JOB), number)]
        )
    write_deltalake(uri, pa.table({"id": [number]}), mode=mode, commit_properties=own)


def commit(uri: Path, number: int, base: int | None) -> None:
    put(uri, number, record(number, base).to_json())


def read(uri: Path) -> cursor.TargetState:
    return target.read_target(str(uri), JOB, RunsTable(str(uri.parent / "state")), str(uri))


def test_a_record_survives_its_json() -> None:
    found = record(3, 7, 2)
    mark = found.sources["items"]
    told = replace(mark, gaps=((1, 2),), commit="abc", chars={"id": ["char(2)"]})
    told = replace(told, trusted=False)
    for each in (found, replace(found, sources={"items": told})):
        assert Cursor.from_dict(json.loads(each.to_json())) == each


def test_what_a_newer_release_has_recorded_is_refused(tmp_path: Path) -> None:
    """Its rows are no drift, and nobody undoes them; the intents of the runs table are its own, too."""
    newer = {**record(1, None).to_dict(), "enrich": 2, "what": "is new"}
    put(tmp_path / "t", 1, json.dumps(newer))
    said = r"'kept' was written by a newer release of enrich: it has format 2, and this release reads 1"
    for reading in (lambda: read(tmp_path / "t"), lambda: Cursor.from_dict(newer)):
        with pytest.raises(HistoryError, match=said) as caught:
            reading()
        assert (caught.value.exit_code, caught.value.hint) == (5, f"run `{UPGRADE}`, and run again")
    commit(tmp_path / "other", 1, None)
    assert read(tmp_path / "other").number == 1


def test_foreign_rows_after_the_cursor_are_drift(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    commit(uri, 1, None)
    commit(uri, 2, 0)
    assert read(uri).others == ()
    put(uri, 9, None)
    found = read(uri)
    assert (found.cursor, found.others) == (record(2, 0), (2,))


def test_foreign_rows_between_a_plan_and_its_commit_are_drift_too(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    commit(uri, 1, None)
    put(uri, 9, None)
    commit(uri, 2, 0)
    found = read(uri)
    assert (found.cursor, found.number, found.others) == (record(2, 0), 2, (1,))


def test_what_a_log_has_forgotten_between_a_plan_and_its_commit_may_have_been_drift(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    for number in range(1, 4):
        commit(uri, number, None)
    entries = read_history(DeltaTable(uri), 1)
    assert cursor.list_others_between(entries, (0, 2)) == (1,)
    assert cursor.list_others_between(entries, (1, 2)) == ()


def test_an_empty_file_of_the_latest_commit_is_named_and_undone_without_it(tmp_path: Path) -> None:
    """As a power cut leaves it; Delta reads on without its rows, and without its record."""
    uri = tmp_path / "t"
    commit(uri, 1, None)
    commit(uri, 2, 0)
    find_commit(uri, 1).write_bytes(b"")
    for reading in (read, lambda _: target.read_quarantine_state(str(uri), JOB)):
        with pytest.raises(RunFailed, match=f"{uri}/_delta_log/0{{19}}1[.]json, .* is empty") as caught:
            reading(uri)
        assert "remove all files of this number there" in str(caught.value.hint)
    find_commit(uri, 1).unlink()
    assert (read(uri).cursor, read(uri).number) == (record(1, None), 1)


def test_a_record_of_a_run_that_was_planned_on_a_table_that_was_dropped_is_none(tmp_path: Path) -> None:
    """Delta creates a table where an append finds none."""
    uri = tmp_path / "t"
    for number, base in ((2, 0), (3, 7)):
        commit(uri, number, base)
        assert (read(uri).cursor, read(uri).number) == (None, number)
    commit(uri, 4, 1)
    assert read(uri).cursor == record(4, 1)


def test_a_quarantine_that_was_dropped_before_its_rows_were_appended_holds_nobody_knows_what(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    for number, base, known in ((1, 3, None), (2, None, 2), (3, 1, 3), (4, 3, None)):
        found = replace(record(number, 9, number), quarantine_base=base)
        put(uri, number, found.to_json())
        beside = target.read_quarantine_state(str(uri), JOB)
        assert beside is not None
        assert (beside.number, beside.present) == (number, known)
        assert beside.cursor == (found if known else None)


def test_a_quarantine_that_was_restored_before_its_rows_were_appended_holds_nobody_knows_what(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    for number in (1, 2):
        put(uri, number, record(number, 9, number).to_json())
    DeltaTable(uri).restore(0)
    for number, base, known in ((3, 1, None), (4, 3, 4)):
        put(uri, number, replace(record(number, 9, number), quarantine_base=base).to_json())
        beside = target.read_quarantine_state(str(uri), JOB)
        assert beside is not None
        assert (beside.number, beside.present) == (number, known)


@pytest.mark.parametrize(
    ("how", "read_at", "left"), [("append", 1, (1,)), ("overwrite", 1, ()), ("overwrite", 0, (1,))]
)
def test_foreign_rows_that_a_commit_overwrote_are_gone_but_for_those_it_has_not_read(
    tmp_path: Path, how: Literal["append", "overwrite"], read_at: int, left: tuple[int, ...]
) -> None:
    uri = tmp_path / "t"
    commit(uri, 1, None)
    put(uri, 9, None)
    put(uri, 2, record(2, 0).to_json(), how)
    edit_commit(uri, 2, "commitInfo", readVersion=read_at)
    assert (read(uri).cursor, read(uri).others) == (record(2, 0), left)


@pytest.mark.parametrize("version", [0, 1])
def test_a_restore_leads_back_to_what_that_version_had_consumed(tmp_path: Path, version: int) -> None:
    uri = tmp_path / "t"
    for number in (1, 2, 3):
        commit(uri, number, number - 2 if number > 1 else None)
    DeltaTable(uri).restore(version)
    found = read(uri)
    assert found.cursor is not None
    assert (found.cursor.number, found.number, found.others) == (version + 1, 3, ())


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


@pytest.mark.parametrize(
    ("noted", "kept_from", "known"),
    [(False, 0, "log"), (True, 2, "runs"), (True, 3, "refresh"), (False, 2, None), (None, 3, None)],
    ids=["in the log", "in the runs table", "only whose it is", "nowhere", "of another table"],
)
def test_a_number_that_delta_has_forgotten_is_looked_for(
    tmp_path: Path, noted: bool | None, kept_from: int, known: str | None
) -> None:
    uri = tmp_path / "t"
    commit(uri, 1, None)
    commit(uri, 2, 0)
    own = replace(record(2, 0), table_id=str(DeltaTable(uri).metadata().id) if noted else "another")
    runs = RunsTable(str(tmp_path / "state"))
    if noted is not False:
        runs.append(RunRow("run2", JOB, str(uri), INTENT, own.to_dict(), 2))
        runs.append(RunRow("run2", JOB, str(uri), OUTCOME, {"target_version": 1}, 2))
        runs.append(RunRow("run3", JOB, str(uri), INTENT, record(3, 1).to_dict(), 3))
    for version in range(2):
        rewrite_commit(uri, version, lambda action: None if "txn" in action else action)
    DeltaTable(uri).alter.set_table_properties({"team": "a"}, raise_if_not_exists=False)
    DeltaTable(uri).alter.set_table_properties({"team": "b"}, raise_if_not_exists=False)
    expire(uri, kept_from)
    if known is None:
        with pytest.raises(ConfigError, match="was not written by job 'kept'"):
            read(uri)
        return
    found = read(uri)
    assert found.number == 2
    assert found.cursor == {"log": record(2, 0), "runs": own, "refresh": None}[known]


def test_drift_that_the_log_has_forgotten_leaves_no_cursor(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    commit(uri, 1, None)
    put(uri, 9, None)
    commit(uri, 2, 0)
    for number in range(25):  # more than a first look takes
        DeltaTable(uri).alter.set_table_properties({"team": str(number)}, raise_if_not_exists=False)
    assert (read(uri).cursor, read(uri).others) == (record(2, 0), (1,))
    expire(uri, 2)
    assert read(uri).cursor is None


def test_foreign_rows_are_drift_when_they_came_after_a_restore_and_are_gone_when_before_it(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    commit(uri, 1, None)
    put(uri, 8, None)
    DeltaTable(uri).restore(0)  # 2
    assert (read(uri).cursor, read(uri).others) == (record(1, None), ())
    put(uri, 9, None)
    assert (read(uri).cursor, read(uri).others) == (record(1, None), (3,))
    DeltaTable(uri).restore(2)  # 4
    assert (read(uri).cursor, read(uri).others) == (record(1, None), ())
    DeltaTable(uri).restore(3)  # 5
    assert (read(uri).cursor, read(uri).others) == (record(1, None), (3,))


def call_it(operation: str, *, changes: bool) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a change that gives a commit a name, and marks its files."""

    def change(action: dict[str, Any]) -> dict[str, Any]:
        new = {"commitInfo": {"operation": operation}, "add": {"dataChange": changes}}
        return {kind: found | new.get(kind, {}) for kind, found in action.items()}

    return change


@pytest.mark.parametrize("operation", ["ROW TRACKING BACKFILL", "REORG", "UPDATE SCHEMA", "of next year"])
@pytest.mark.parametrize("changes", [False, True])
def test_a_commit_is_foreign_for_what_it_does_and_not_for_its_name(
    tmp_path: Path, operation: str, changes: bool
) -> None:
    uri = tmp_path / "t"
    commit(uri, 1, None)
    put(uri, 9, None)
    rewrite_commit(uri, 1, call_it(operation, changes=changes))
    assert read(uri).others == ((1,) if changes else ())
    commit(uri, 2, 0)
    assert read(uri).others == ((1,) if changes else ()), "between a plan and its commit, too"


def test_foreign_rows_of_a_writer_that_says_nothing_of_itself_are_drift(tmp_path: Path) -> None:
    """Nobody has to write ``commitInfo``; delta-rs leaves such commits out, and miscounts the others."""
    uri = tmp_path / "t"
    commit(uri, 1, None)
    put(uri, 9, None)
    rewrite_commit(uri, 1, lambda action: None if "commitInfo" in action else action)
    assert (read(uri).cursor, read(uri).others) == (record(1, None), (1,))
    for _ in range(30):
        DeltaTable(uri).optimize.compact()
        put(uri, 9, None)
    assert (read(uri).cursor, len(read(uri).others)) == (record(1, None), 31)
    assert [entry["version"] for entry in read_history(DeltaTable(uri))] == [*range(DeltaTable(uri).version(), -1, -1)]


@pytest.mark.parametrize("limit", [None, 1, 2, 9])
@pytest.mark.parametrize("says_nothing", [False, True])
def test_commits_keep_their_versions_while_others_write(tmp_path: Path, limit: int | None, says_nothing: bool) -> None:
    """delta-rs lists commits that came after the log was opened, too, and numbers all from the opened version down."""
    uri = tmp_path / "t"
    for number in range(3):
        put(uri, number, None)
    log = DeltaTable(uri)
    known = read_history(log, limit)
    assert [entry["version"] for entry in known] == [2, 1, 0][:limit]
    put(uri, 7, None)
    if says_nothing:
        rewrite_commit(uri, 3, lambda action: None if "commitInfo" in action else action)
    assert read_history(log, limit) == known


def test_a_table_that_was_converted_has_commits(tmp_path: Path) -> None:
    """CONVERT and CLONE name -1 as the version that they have read; delta-rs takes that for no version."""
    uri = tmp_path / "t"
    for number in range(3):
        put(uri, number, None)
    known = read_history(DeltaTable(uri))
    edit_commit(uri, 0, "commitInfo", readVersion=-1)
    assert read_history(DeltaTable(uri)) == [*known[:2], {**known[2], "readVersion": -1}]


def test_commits_keep_their_versions_however_fast_others_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = tmp_path / "t"
    for number in range(3):
        put(uri, number, None)
    known = read_history(DeltaTable(uri))
    commits = DeltaTable.history

    def overtake(log: DeltaTable, limit: int | None = None) -> list[dict[str, Any]]:
        put(uri, 7, None)
        return commits(log, limit)

    monkeypatch.setattr(DeltaTable, "history", overtake)
    assert read_history(DeltaTable(uri, version=2)) == known


def schema(**physical: str | None) -> str:
    """Return a schema of text columns, each with the name that its values have in the files; None: its own."""
    fields = [
        {
            "name": name,
            "type": "string",
            "nullable": True,
            "metadata": {} if other is None else {"delta.columnMapping.physicalName": other},
        }
        for name, other in physical.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


@pytest.mark.parametrize(
    ("before", "after", "foreign"),
    [
        ({"id": None, "name": None}, {"id": "id", "name": "name", "more": "c1"}, False),
        ({"id": None, "name": None}, {"id": "id", "title": "name"}, True),
        ({"id": None, "name": None}, {"id": "id", "name": "c2"}, True),
        ({"id": "c1", "name": "c2", "seen": "c3"}, {"id": "c1", "name": "c2"}, False),
        ({"id": "c1", "name": "c2"}, {"id": "c2", "name": "c1"}, True),
    ],
    ids=["mapped and gained", "renamed", "dropped and added", "another's dropped", "exchanged"],
)
def test_a_change_of_schema_is_foreign_when_it_takes_values_away(
    tmp_path: Path, before: dict[str, str | None], after: dict[str, str | None], foreign: bool
) -> None:
    uri = tmp_path / "t"
    found = replace(record(1, None), columns=("id", "name"))
    own = CommitProperties(
        custom_metadata={"userMetadata": found.to_json()}, app_transactions=[Transaction(name_application(JOB), 1)]
    )
    write_deltalake(uri, pa.table({"id": ["1"], "name": ["one"]}), commit_properties=own)
    metadata: dict[str, Any] = {}

    def keep(action: dict[str, Any]) -> dict[str, Any]:
        if "metaData" in action:
            metadata.update(action["metaData"])
            return {"metaData": metadata | {"schemaString": schema(**before)}}
        return action

    rewrite_commit(uri, 0, keep)
    change = [{"commitInfo": {"operation": "X"}}, {"metaData": metadata | {"schemaString": schema(**after)}}]
    (uri / "_delta_log" / f"{1:020d}.json").write_text("\n".join(map(json.dumps, change)))
    assert read(uri).others == ((1,) if foreign else ())


def restore_to_time(uri: Path, version: int) -> None:
    """Restore a table to the time of one of its versions."""
    at = DeltaTable(uri).history()[-1 - version]["timestamp"]
    DeltaTable(uri).restore(datetime.fromtimestamp(at / 1000, UTC))


def test_a_restore_to_a_time_is_drift_and_leaves_the_cursor_where_it_was(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    commit(uri, 1, None)
    commit(uri, 2, 0)
    restore_to_time(uri, 0)
    assert (read(uri).cursor, read(uri).others) == (record(2, 0), (2,))
    DeltaTable(uri).restore(1)
    assert (read(uri).cursor, read(uri).others) == (record(2, 0), ())


def test_a_quarantine_tells_by_itself_what_it_contains(tmp_path: Path) -> None:
    uri = tmp_path / "q"
    assert target.read_quarantine_state(str(uri), JOB) is None
    bases = {1: None, 2: 7, 3: 0}  # versions of the target, which say nothing about this table
    for number, base in bases.items():
        put(uri, number, record(number, base, number).to_json())

    def contains() -> tuple[int | None, int | None, int]:
        found = target.read_quarantine_state(str(uri), JOB)
        assert found is not None
        return found.present, None if found.cursor is None else found.cursor.sources["items"].to, found.number

    assert contains() == (3, 3, 3)
    put(uri, 9, None)
    DeltaTable(uri).optimize.compact()
    assert contains() == (3, 3, 3)
    DeltaTable(uri).restore(1)
    assert contains() == (2, 2, 3)
    DeltaTable(uri).restore(4)
    assert contains() == (3, 3, 3)
    restore_to_time(uri, 2)
    assert contains() == (None, None, 3), "nobody knows whose rows a RESTORE to a time has brought back"
    DeltaTable(uri).restore(6)
    assert contains() == (3, 3, 3)
    DeltaTable(uri).alter.set_table_properties({"team": "a"}, raise_if_not_exists=False)
    expire(uri, DeltaTable(uri).version())
    assert contains() == (3, None, 3), "the log keeps the number"
    put(uri, 9, None)
    DeltaTable(uri).restore(DeltaTable(uri).version() - 1)
    assert contains() == (None, None, 3), "the restored rows may be those of any number"


def test_a_table_of_somebody_else_is_no_quarantine(tmp_path: Path) -> None:
    put(tmp_path / "q", 1, None)
    with pytest.raises(ConfigError, match="was not written by job 'kept'"):
        target.read_quarantine_state(str(tmp_path / "q"), JOB)


def test_the_table_of_a_job_that_was_renamed_names_the_job(tmp_path: Path) -> None:
    commit(tmp_path / "t", 1, None)
    put(tmp_path / "t", 9, None)
    runs = RunsTable(str(tmp_path / "state"))
    with pytest.raises(ConfigError) as refused:
        target.read_target(str(tmp_path / "t"), "new", runs, "t")
    assert "exists and was not written by job 'new'; move it away, choose another target table, or give a job" in str(
        refused.value
    )


def test_an_intent_counts_only_when_an_outcome_carries_its_number(tmp_path: Path) -> None:
    runs = RunsTable(str(tmp_path))
    for run in ("crashed", "done", "late"):
        runs.append(RunRow(run, JOB, "t", INTENT, {"of": run}, 4))
        runs.append(RunRow(run, JOB, "t", OUTCOME, {"target_version": 7}, 4 if run == "done" else None))
    assert runs.read_committed("t", 4) == ({"of": "done"}, 7)
    assert runs.read_committed("t", 5) is None
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
        told = describe_error(error, JOB)
        assert told.exit_code == code
        assert "secret" not in str(told)


def test_what_a_commit_records_says_whose_it_is() -> None:
    own = record(2, 0).to_dict()
    assert cursor.is_of_run(own)
    assert cursor.is_of_run(own, "run2")
    assert not cursor.is_of_run(own, "run1")
    assert not cursor.is_of_run({"enrich_upkeep": 1, "run_id": "run2"}, "run2")
    assert not cursor.is_of_run({})
