"""Whether a target can be continued over what its sources are now; the tables are written by delta-rs."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from enrich.base.errors import HistoryError
from enrich.delta import tables
from enrich.joins.history import find_quarantine_version
from enrich.progress import continuity
from enrich.progress.cursor import Cursor, Mark, QuarantineState, TargetState, name_application
from enrich.progress.target import read_quarantine_state


def read_quarantine(uri: Path) -> QuarantineState | None:
    return read_quarantine_state(str(uri), "kept")


def put(uri: Path, *values: int) -> None:
    """Append rows, a commit each."""
    for value in values:
        write_deltalake(uri, pa.table({"id": [value]}), mode="append")


@pytest.fixture
def items(tmp_path: Path) -> Path:
    """Give a source of three versions, and a backup of its first two."""
    put(tmp_path / "items", 0, 1)
    shutil.copytree(tmp_path / "items", tmp_path / "backup")
    put(tmp_path / "items", 2)
    return tmp_path / "items"


def restore(items: Path) -> None:
    shutil.rmtree(items)
    shutil.copytree(items.parent / "backup", items)


def consumed(items: Path) -> Cursor:
    """Return the record of a run that has taken all of the source."""
    state = tables.read_state(str(items))
    mark = Mark(state.table_id, None, state.version, {"id": "long"}, commit=state.commit)
    return Cursor.from_dict(Cursor("run", "kept", 1, "d", {"items": mark}, ("id",)).to_dict())


def check(cursor: Cursor, items: Path) -> None:
    continuity.check(cursor, "d", {"items": tables.read_state(str(items))})


@pytest.mark.parametrize("behind", [0, 1, 30])
def test_a_source_that_goes_on_is_the_same(items: Path, behind: int) -> None:
    cursor = consumed(items)
    put(items, *range(behind))
    check(cursor, items)


@pytest.mark.parametrize("further", [0, 1, 2])
def test_a_backup_that_is_written_to_is_another_table(items: Path, further: int) -> None:
    cursor = consumed(items)
    restore(items)
    put(items, *[7] * further)
    with pytest.raises(HistoryError, match="a backup of it") as refused:
        check(cursor, items)
    assert refused.value.exit_code == 5
    assert "--full-refresh" in str(refused.value)


def test_a_backup_from_after_the_cursor_is_the_same_table(items: Path) -> None:
    restore(items)
    cursor = consumed(items)
    put(items, 2, 3)
    shutil.rmtree(items.parent / "backup")
    shutil.copytree(items, items.parent / "backup")
    restore(items)
    put(items, 7)
    check(cursor, items)


def test_a_commit_that_neither_record_nor_log_describes_is_trusted(items: Path) -> None:
    cursor = consumed(items)
    put(items, 3)
    of_old = {alias: replace(mark, commit=None) for alias, mark in cursor.sources.items()}
    DeltaTable(items).create_checkpoint()
    for version in range(3):
        (items / "_delta_log" / f"{version:020d}.json").unlink()
    check(cursor, items)
    restore(items)
    put(items, 7)
    check(replace(cursor, sources=of_old), items)


def test_a_commit_is_told_apart_on_an_object_store_too(items: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = [tables.fingerprint(str(items), version) for version in range(4)]
    actions = [tables.actions(str(items), version) for version in range(4)]
    assert local[3] is None
    assert actions[3] is None
    assert len(set(local)) == 4
    monkeypatch.setattr(tables, "find_local_path", lambda _: None)
    assert [tables.fingerprint(str(items), version) for version in range(4)] == local
    assert [tables.actions(str(items), version) for version in range(4)] == actions


def contained(beside: Path, base: int | None, number: int = 4) -> bool | None:
    """Tell whether a quarantine contains what a target does that names a number and saw a version; None: not known."""
    cursor = Cursor("run", "kept", 9, "d", {}, (), 7, number, base)
    found = TargetState(None, cursor, 9, quarantine=read_quarantine(beside))
    return None if continuity.find_apart(found, cursor, {}) is None else not found.is_apart


def test_a_quarantine_is_trusted_while_all_that_came_after_the_targets_commit_is_known(tmp_path: Path) -> None:
    uri = tmp_path / "q"
    assert [contained(uri, None, number) for number in (0, 4)] == [True, None], "never needed, and dropped"
    for number in (3, 4):
        own = Cursor("run", "kept", number, "d", {}, (), None, number)
        record = CommitProperties(
            {"userMetadata": own.to_json()}, app_transactions=[Transaction(name_application("kept"), number)]
        )
        write_deltalake(uri, pa.table({"id": [number]}), mode="append", commit_properties=record)
    assert [contained(uri, 0, number) for number in (3, 4)] == [False, True]
    for name in ("a", "b", "c"):  # versions 2 to 4
        DeltaTable(uri).alter.set_table_properties({"team": name}, raise_if_not_exists=False)
    DeltaTable(uri).create_checkpoint()
    for version in range(3):
        (uri / "_delta_log" / f"{version:020d}.json").unlink()
    assert [contained(uri, base) for base in (None, 1, 2, 4)] == [None, None, True, True]
    assert contained(uri, 2, 3) is None


@pytest.mark.parametrize(("names", "known"), [("run", True), (None, True), ("another run", False)])
def test_a_quarantine_is_known_by_its_number_and_by_the_run_that_wrote_it(
    tmp_path: Path, names: str | None, known: bool
) -> None:
    """One that was dropped and created again, or put back from a backup, comes to the same number once more."""
    own = Cursor("run", "kept", 1, "d", {}, (), None, 1, quarantine_run="run")
    record = CommitProperties(
        {"userMetadata": own.to_json()}, app_transactions=[Transaction(name_application("kept"), 1)]
    )
    write_deltalake(tmp_path / "q", pa.table({"id": [1]}), commit_properties=record)
    of_target = Cursor.from_dict(replace(own, run_id="later", quarantine_run=names).to_dict())
    state = TargetState(None, of_target, 1, quarantine=read_quarantine(tmp_path / "q"))
    assert state.is_apart != known


def commit_quarantine(uri: Path, number: int) -> Cursor:
    """Commit a row as a run does; return the record of a target that names it."""
    own = Cursor(f"run{number}", "kept", number, "d", {}, (), None, number, quarantine_run=f"run{number}")
    record = CommitProperties(
        {"userMetadata": own.to_json()}, app_transactions=[Transaction(name_application("kept"), number)]
    )
    write_deltalake(uri, pa.table({"id": [number]}), mode="append", commit_properties=record)
    return own


def test_the_rows_that_a_target_names_are_read_where_upkeep_has_put_them_last(tmp_path: Path) -> None:
    """VACUUM removes the files that OPTIMIZE has put together, but not those that the next run's commit has removed."""
    uri = tmp_path / "q"
    first, second = commit_quarantine(uri, 1), commit_quarantine(uri, 2)
    assert find_quarantine_version(str(uri), second) == 1
    DeltaTable(uri).optimize.compact()  # 2
    DeltaTable(uri).alter.set_table_properties({"team": "a"}, raise_if_not_exists=False)  # 3
    third = commit_quarantine(uri, 3)  # 4
    put(uri, 9)  # 5, another writer's
    DeltaTable(uri).optimize.compact()  # 6
    commit_quarantine(uri, 4)  # 7
    found = [find_quarantine_version(str(uri), each) for each in (first, second, third)]
    assert found == [0, 3, 4]
    assert find_quarantine_version(str(uri), replace(first, quarantine_run="another")) is None


def test_what_two_records_do_not_share_is_named_where_they_are_alike(items: Path) -> None:
    """Where they are not, all rows are computed: a gap that only one of them has may lie anywhere.

    A history compares all that its target records: it is enough to know that the two are not alike.
    """
    latest = {"items": tables.read_state(str(items))}

    def record(
        run: str, to: int, *gaps: tuple[int, int], of: str = latest["items"].table_id, first: int | None = None
    ) -> Cursor:
        mark = Mark(of, None, to, {"id": "long"}, gaps, first=first)
        return Cursor(run, "kept", 1, "d", {"items": mark}, ("id",), None, 1, quarantine_run=run)

    def find(ours: Cursor, theirs: Cursor) -> dict[str, tuple[int, int]] | None:
        there = QuarantineState(latest["items"], 1, 1, theirs, 0)
        return continuity.find_apart(TargetState(None, ours, 1, quarantine=there), ours, latest)

    first, second = record("first", 0), record("second", 2)
    assert find(first, second) == find(second, first) == {"items": (0, 2)}
    assert find(first, record("second", 0)) == find(first, first) == {}
    assert find(first, record("second", 2, (0, 1))) is None
    assert find(record("first", 0, first=0), record("second", 2, (0, 1), first=0)) == {"items": (0, 2)}
    assert find(record("first", 2, (0, 1), first=0), record("second", 2, first=0)) == {"items": (2, 2)}
    assert find(record("first", 0, (0, 0)), record("second", 2, (0, 0))) == {"items": (0, 2)}
    assert find(first, replace(second, columns=("id", "name"))) is None
    assert find(first, replace(second, definition="e")) is None
    assert find(first, record("second", 2, of="another")) is None
    assert find(first, record("second", 3)) is None, "the source has gone back"


def test_a_record_of_old_does_not_know_the_partition_columns() -> None:
    told = Mark("t", 1, 2, {"id": "long"}, partitions=("day",))
    assert Mark.from_dict(told.to_dict()) == told
    old = {name: each for name, each in told.to_dict().items() if name != "partitions"}
    assert Mark.from_dict(old).partitions is None


def test_a_column_of_which_only_the_case_is_another_is_not_called_gone(items: Path) -> None:
    with pytest.raises(HistoryError) as refused:
        continuity.check_columns("kept", {"items": {"ID": "long"}}, consumed(items))
    assert str(refused.value) == (
        "column 'id' of source 'items' has been called 'ID' since the target was written;"
        " run `enrich run kept --full-refresh`"
    )
    with pytest.raises(HistoryError, match="column 'id' of source 'items' is gone since"):
        continuity.check_columns("kept", {"items": {"key": "long"}}, consumed(items))
