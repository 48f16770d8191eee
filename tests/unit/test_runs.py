"""The runs table: one row a commit, whatever others do meanwhile, and short to read after a year."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, QueryBuilder, write_deltalake
from deltalake.schema import PrimitiveType

from enrich.base.errors import HistoryError
from enrich.delta import runs
from enrich.delta.runs import FORMAT, INTENT, OUTCOME, RunRow, RunsTable

NOW = datetime.now(UTC)
COLUMNS = {
    **dict.fromkeys(("run_id", "job", "target", "event"), pa.string()),
    "number": pa.int64(),
    "at": pa.timestamp("us", "UTC"),
    **dict.fromkeys(("status", "mode"), pa.string()),
    "exit_code": pa.int32(),
    "seconds": pa.float64(),
    "document": pa.string(),
}


def outcome(run_id: str, target: str = "t", **more: Any) -> RunRow:
    """Return the outcome of a run."""
    return RunRow(run_id, "customers", target, OUTCOME, {"run": run_id}, **{"status": "unchanged", **more})


def past_row(run_id: str, days: float, event: str = OUTCOME, number: int | None = None, target: str = "t") -> Any:
    """Return a row that was written some days ago."""
    row = {"run_id": run_id, "job": "customers", "target": target, "event": event, "number": number}
    return {
        **row,
        "at": NOW - timedelta(days=days),
        "status": "unchanged",
        "document": f'{{"target_version": {number}}}',
    }


def write_past(state: Path, *rows: Any) -> None:
    """Write rows of days past, a commit and a file each."""
    for row in rows:
        write_deltalake(state / "runs", pa.Table.from_pylist([row], pa.schema(COLUMNS)), mode="append")


def ids(state: Path) -> list[str]:
    """Return the ids of all rows, oldest first."""
    table = DeltaTable(state / "runs")
    found = QueryBuilder().register("runs", table).execute("SELECT run_id FROM runs ORDER BY at, run_id").read_all()
    return list(found.column("run_id").to_pylist())


def append_all(state: Path, rows: Sequence[RunRow]) -> None:
    """Append rows one by one."""
    for row in rows:
        RunsTable(str(state)).append(row)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every fifth commit tidy up."""
    monkeypatch.setattr(runs, "_TIDY_EVERY", 5)
    monkeypatch.setattr(runs, "_CHECKPOINT_EVERY", 5)


@pytest.mark.usefixtures("often")
def test_runs_at_the_same_time_lose_no_row_and_write_none_twice(tmp_path: Path) -> None:
    """They create the table together, and one tidies while others append; none of them fails."""
    start, failed = threading.Barrier(4), []

    def work(name: int) -> None:
        start.wait()
        try:
            append_all(tmp_path, [outcome(f"{name}-{number:02}") for number in range(12)])
        except Exception as error:  # noqa: BLE001 - told below
            failed.append(repr(error.__cause__))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(ids(tmp_path)) == sorted(f"{name}-{number:02}" for name in range(4) for number in range(12))


@pytest.mark.usefixtures("often")
def test_a_column_that_others_add_stops_no_run(tmp_path: Path) -> None:
    append_all(tmp_path, [outcome("0")])
    DeltaTable(tmp_path / "runs").alter.add_columns([Field("note", PrimitiveType("string"))])
    DeltaTable(tmp_path / "runs").update({"note": "'seen'"})
    append_all(tmp_path, [outcome(str(number)) for number in range(1, 12)])
    assert ids(tmp_path) == [str(number) for number in range(12)]
    notes = QueryBuilder().register("runs", DeltaTable(tmp_path / "runs")).execute("SELECT note FROM runs ORDER BY at")
    assert notes.read_all().column("note").to_pylist() == ["seen", *[None] * 11]


@pytest.mark.usefixtures("often")
def test_tidying_leaves_few_files_and_forgets_old_rows_but_no_cursor(tmp_path: Path) -> None:
    write_past(
        tmp_path,
        past_row("idle", 500),
        past_row("committed", 490, INTENT, 7),
        past_row("committed", 489, OUTCOME, 7),
        past_row("failed", 480, INTENT, 8),
        past_row("failed", 479),
        past_row("other job's", 470, target="u"),
        past_row("older commit", 450, INTENT, 1, "v"),
        past_row("older commit", 449, OUTCOME, 1, "v"),
        past_row("late", 300),
        past_row("later", 299),
        past_row("commit", 20, INTENT, 2, "v"),
        past_row("commit", 19, OUTCOME, 2, "v"),
    )
    append_all(tmp_path, [outcome(f"new{number}", "w") for number in range(5)])
    table = RunsTable(str(tmp_path))
    kept = ["committed", "committed", "failed", "other job's", "late", "later", "commit", "commit"]
    assert ids(tmp_path) == [*kept, *(f"new{number}" for number in range(5))]
    assert table.read_committed("t", 7) == ({"target_version": 7}, 7)
    assert (table.last_number("t"), table.last_number("v"), table.last_number("elsewhere")) == (8, 2, 0)
    log = DeltaTable(tmp_path / "runs")
    assert log.get_add_actions().num_rows <= 4
    assert list((tmp_path / "runs" / "_delta_log").glob("*.checkpoint.parquet"))
    for number in range(5):
        RunsTable(str(tmp_path), keep_days=100).append(outcome(f"newer{number}", "w"))
    assert {"late", "later"} & set(ids(tmp_path)) == {"later"}


@pytest.mark.usefixtures("often")
def test_files_that_nobody_needs_are_removed_after_a_day(tmp_path: Path) -> None:
    append_all(tmp_path, [outcome("run0")])
    folder, past = tmp_path / "runs", (NOW - timedelta(days=3)).timestamp()
    dead, at_work = folder / "part-00000-of-a-run-that-died.parquet", folder / "part-00000-of-a-run-at-work.parquet"
    for path in (dead, at_work):
        path.write_bytes(b"rows")
    os.utime(dead, (past, past))
    append_all(tmp_path, [outcome(f"run{number}") for number in range(1, 6)])
    merged = {folder / Path(name).name for name in DeltaTable(folder).file_uris()}
    left = set(folder.glob("*.parquet"))
    assert (dead in left, at_work in left, merged < left, len(left)) == (False, True, True, 8)
    DeltaTable(folder).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 days"})
    append_all(tmp_path, [outcome(f"run{number}") for number in range(6, 10)])
    assert len(set(folder.glob("*.parquet"))) <= 5
    assert len(ids(tmp_path)) == 10


def test_the_latest_and_the_recent_outcomes(tmp_path: Path) -> None:
    assert (RunsTable(str(tmp_path)).read_latest(), RunsTable(str(tmp_path)).read_recent(3)) == ({}, [])
    append_all(tmp_path, [outcome(f"t{number}") for number in range(5)])
    append_all(tmp_path, [outcome("blocked", status="blocked"), outcome("u0", "u", status="created"), outcome("t5")])
    table = RunsTable(str(tmp_path))
    recent = table.read_recent(2)
    table.append(replace(outcome("r0", status="failed"), job="renamed"))
    latest = {"/".join(place): row for place, row in table.read_latest().items()}
    assert {place: row["status"] for place, row in latest.items()} == {
        "customers/t": "unchanged",
        "customers/u": "created",
        "renamed/t": "failed",
    }
    assert [row["run_id"] for row in recent] == ["t4", "blocked", "u0", "t5"]
    assert recent[-1]["document"] == '{"run": "t5"}'
    assert latest["customers/t"]["at"] == recent[-1]["at"]


@pytest.mark.parametrize("event", [INTENT, OUTCOME])
def test_a_document_of_a_newer_release_is_refused(tmp_path: Path, event: str) -> None:
    """Rows without a number, and with this release's, are read."""
    table = RunsTable(str(tmp_path))
    known = RunRow("r0", "customers", "t", event, {"enrich": FORMAT}, 1)
    append_all(tmp_path, [outcome("r0", number=1), known])
    assert len(table.read_recent(9)) == (2 if event == OUTCOME else 1)
    append_all(tmp_path, [RunRow("r1", "customers", "t", event, {"enrich": FORMAT + 1}, 1)])
    with pytest.raises(HistoryError, match="it has format 2, and this release reads 1") as refused:
        table.read_committed("t", 1)
    assert refused.value.exit_code == 5
    assert "pip install --upgrade" in str(refused.value.hint)


def test_settled_are_runs_that_came_to_a_verdict(tmp_path: Path) -> None:
    """Neither a run that found the job locked nor a repair is one."""
    table = RunsTable(str(tmp_path))
    assert table.read_latest(judged=True) == {}
    statuses = [
        ("failed", None),
        ("blocked", "incremental"),
        ("locked", None),
        ("skipped", None),
        ("updated", "repair"),
    ]
    append_all(tmp_path, [outcome(f"r{at}", status=each, mode=mode) for at, (each, mode) in enumerate(statuses)])
    append_all(tmp_path, [outcome("u0", "u", status="locked"), outcome("v0", "v", mode="incremental")])
    found = {target: row["status"] for (_, target), row in table.read_latest(judged=True).items()}
    assert found == {"t": "blocked", "v": "unchanged"}


def test_a_new_runs_table_forgets_its_log_and_removed_files_early(tmp_path: Path) -> None:
    append_all(tmp_path, [outcome("r1")])
    configuration = DeltaTable(str(tmp_path / "runs")).metadata().configuration
    assert configuration["delta.logRetentionDuration"] == "interval 2 days"
    assert configuration["delta.deletedFileRetentionDuration"] == "interval 1 days"
