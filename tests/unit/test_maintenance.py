"""``enrich maintain`` where there is nothing for Spark to do, how it is told, and when a target is out of shape."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from enrich.base.errors import ConfigError, HistoryError
from enrich.base.result import Compaction, Extent, JobResult
from enrich.cli.checks import format_maintenance
from enrich.delta.extents import find_need
from enrich.delta.tables import read_state
from enrich.delta.upkeep import measure_files
from enrich.operations.maintenance import MaintainResult, Upkeep, _Keeper
from enrich.operations.workplace import Workplace
from enrich.project.models import Optimize
from enrich.project.project import load_project
from kit.command import call, restored
from kit.commits import age_commit, find_commit
from kit.project import CONF, SHOP, write_project


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", {"conf/dev.yml": CONF, "jobs/shop.yml": SHOP})


def test_a_job_that_never_ran_has_nothing_to_keep(home: Path) -> None:
    with restored():
        found = call("--project-dir", home, "maintain", "--output", "json")
    told = json.loads(found.stdout)
    assert (found.exit_code, told["tables"]) == (0, [])
    assert not (home / "lake").exists()


def test_the_table_says_what_was_done() -> None:
    done = Upkeep("shop", "/lake/shop", "target", "done", rewritten=Extent(120, 1_500_000), became=Extent(1, 1_400_000))
    failed = Upkeep("shop", "/lake/s__quarantine", "quarantine", "failed", error="no space", exit_code=7, kept=200)
    found = MaintainResult("r", "dev", (done, failed))
    assert found.exit_code == 7
    lines = format_maintenance(found).splitlines()
    assert lines[1].split("  ")[-1].strip() == "-"
    assert "120 files, 1.5 MB  1 file, 1.4 MB" in lines[1]
    assert lines[3:] == ["/lake/s__quarantine: no space"]


@pytest.mark.parametrize(("limit", "why"), [(3, None), (2, "2 small files (small_files is 2)")])
def test_when_a_target_is_out_of_shape(tmp_path: Path, limit: int, why: str | None) -> None:
    for _ in range(2):
        write_deltalake(tmp_path / "t", pa.table({"id": [1]}), mode="append")
    assert find_need(str(tmp_path / "t"), Optimize(after_commit=True, small_files=limit)) == why


def test_files_are_measured_however_they_are_listed(tmp_path: Path) -> None:
    (tmp_path / "p=a%20b").mkdir()
    (tmp_path / "p=a%20b" / "one file").write_text("12345")
    (tmp_path / "two").write_text("1")
    listed = [f"file:{tmp_path}/two", "two", "p=a%20b/one%20file", "p=a%20b/one file", f"{tmp_path}/p=a%20b", "gone"]
    assert measure_files(str(tmp_path), listed) == Extent(1, 1) + Extent(1, 5)


def test_a_result_says_what_optimize_did() -> None:
    done = Compaction(9, Extent(3, 300), Extent(1, 250), "3 small files (small_files is 2)")
    assert JobResult("shop", "updated").to_dict()["optimized"] is None
    assert JobResult("shop", "updated", optimized=done).to_dict()["optimized"] == {
        "version": 9,
        "removed": {"files": 3, "bytes": 300},
        "added": {"files": 1, "bytes": 250},
        "why": "3 small files (small_files is 2)",
    }


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Give a table with the versions 0 to 4, which are 40, 30, 20, 10 and 1 days old."""
    for version, days in enumerate((40, 30, 20, 10, 1)):
        write_deltalake(tmp_path / "items", pa.table({"id": [version]}), mode="overwrite")
        age_commit(tmp_path / "items", version, days)
    return tmp_path / "items"


def _check(home: Path, uri: Path, monkeypatch: pytest.MonkeyPatch, *versions: int, of: str | None = None) -> int:
    table_id = of or read_state(str(uri)).table_id
    needs = [("kept", table_id, version) for version in versions]
    monkeypatch.setattr(_Keeper, "_list_needs", lambda *_: needs)
    keeper = _Keeper(Workplace(load_project(home), []))
    return keeper._check_readers("items", str(uri))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_nothing_is_removed_while_a_job_has_yet_to_read_what_is_old(
    home: Path, table: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """What came after version 2 is ten days old, and the table keeps removed files for a week."""
    assert _check(home, table, monkeypatch, 4, 3) == 168
    assert _check(home, table, monkeypatch, version, of="another") == 168
    with pytest.raises(
        HistoryError, match=rf"'kept' has yet to read what came after version {version}, and that is so old"
    ):
        _check(home, table, monkeypatch, 4, version)
    DeltaTable(table).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 60 days"})
    assert _check(home, table, monkeypatch, 3) == 60 * 24
    with pytest.raises(HistoryError, match="so old"):  # the last checkpoint may have been written while it was less
        _check(home, table, monkeypatch, version)


def test_nothing_is_removed_where_the_log_has_lost_what_a_job_may_need(
    home: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DeltaTable(table).create_checkpoint()
    for version in range(3):
        find_commit(table, version).unlink()
    with pytest.raises(HistoryError, match=r"'kept' has yet to read .* version 1,"):
        _check(home, table, monkeypatch, 1)


def test_a_quarantine_keeps_what_the_next_run_of_its_history_reads() -> None:
    project = SimpleNamespace(jobs={"versions": SimpleNamespace(job="versions", remembers=True)})
    workplace = SimpleNamespace(project=project, target=lambda _: (SimpleNamespace(is_apart=True),))
    keeper = _Keeper(workplace)  # type: ignore[arg-type]
    with pytest.raises(HistoryError, match="'versions' has ended between its two commits"):
        keeper._vacuum(Upkeep("versions", "versions__quarantine", "quarantine"), "")


def test_what_a_table_promises_has_to_be_understood(home: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DeltaTable(table).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 1 month"})
    with pytest.raises(ConfigError, match="cannot be understood"):
        _check(home, table, monkeypatch, 4)
