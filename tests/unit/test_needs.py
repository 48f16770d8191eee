"""How much of a source's past a job may still read; the logs are written by delta-rs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from enrich.base.errors import HistoryError
from enrich.delta import tables
from enrich.delta.runs import RunsTable
from enrich.operations.maintenance import list_needs
from enrich.progress import target
from enrich.progress.cursor import Cursor, Mark, TargetState, name_application

JOB = "kept"


def record(number: int, to: int, table_id: str = "t", gaps: tuple[tuple[int, int], ...] = ()) -> Cursor:
    """Return what a run notes that has consumed its source up to ``to``."""
    mark = Mark(table_id, None, to, {"id": "long"}, gaps)
    return Cursor(f"run{number}", JOB, number, "d", {"items": mark}, ("id",), None, 0)


def commit(uri: Path, found: Cursor) -> None:
    own = CommitProperties(
        custom_metadata={"userMetadata": found.to_json()},
        app_transactions=[Transaction(name_application(JOB), found.number)],
    )
    write_deltalake(uri, pa.table({"id": [found.number]}), mode="append", commit_properties=own)


def read(uri: Path) -> TargetState:
    found = target.read_target(str(uri), JOB, RunsTable(str(uri.parent / "state")), str(uri))
    return replace(found, quarantine=target.read_quarantine_state(f"{uri}__quarantine", JOB))


def needs(uri: Path) -> dict[str, tuple[str, int]]:
    return list_needs(JOB, read(uri))


def test_a_job_that_never_ran_needs_nothing() -> None:
    assert list_needs(JOB, TargetState(None, None, 0)) == {}


def test_what_a_run_left_behind_that_ended_between_its_two_commits_counts(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    for number, to in ((1, 3), (2, 5), (3, 8)):
        commit(uri, record(number, to))
    assert needs(uri) == {"items": ("t", 8)}
    commit(tmp_path / "t__quarantine", replace(record(1, 6), quarantine_number=1))
    assert needs(uri) == {"items": ("t", 6)}


def test_a_quarantine_that_did_not_change_for_long_contains_what_its_target_does(tmp_path: Path) -> None:
    uri, quarantine = tmp_path / "t", tmp_path / "t__quarantine"
    first = replace(record(1, 1), quarantine_number=1)
    commit(quarantine, first)
    commit(uri, first)
    commit(uri, replace(record(2, 8), quarantine_number=1, quarantine_run="run1"))
    assert needs(uri) == {"items": ("t", 8)}


def test_other_tables_do_not_count(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    commit(uri, record(1, 90, "another"))
    commit(uri, record(2, 9, gaps=((4, 6),)))
    assert needs(uri) == {"items": ("t", 9)}


def test_a_target_without_record_is_not_guessed(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    commit(uri, record(1, 3))
    with pytest.raises(HistoryError, match="full-refresh"):
        list_needs(JOB, replace(read(uri), cursor=None))


@pytest.mark.parametrize(
    ("text", "seconds"), [(None, 604_800), ("interval 36 hours", 129_600), ("interval 1 month", None)]
)
def test_how_long_removed_files_stay(text: str | None, seconds: int | None) -> None:
    properties = {} if text is None else {tables.KEEPS_FILES: text}
    assert tables.read_interval(properties, tables.KEEPS_FILES) == seconds
