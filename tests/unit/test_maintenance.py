"""``enrich maintain`` where there is nothing for Spark to do, how it is told, and when a target is out of shape."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from enrich.base.errors import HistoryError
from enrich.base.result import Compaction, Extent, JobResult
from enrich.cli.maintenance import format_maintenance
from enrich.config.models import Optimize
from enrich.config.project import load_project
from enrich.operations import maintenance
from enrich.operations.maintenance import Kept, MaintainResult, Upkeep
from enrich.operations.workplace import Options, Workplace
from enrich.progress.cursor import name_application
from enrich.progress.needs import Need
from enrich.storage import upkeep
from enrich.storage.extents import measure_files
from enrich.storage.shape import Shape, find_need
from enrich.storage.tables import read_state
from kit.command import call, restored
from kit.commits import age_commit, find_commit
from kit.project import CONF, SHOP, write_project

LIMITS = Optimize(after_commit=True, small_files=100, deleted_rows=0.1)
MANY, LARGE = Extent(500, 10**9), Extent(3, 10**9)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", {"conf/dev.yml": CONF, "jobs/shop.yml": SHOP})


def test_a_job_that_never_ran_has_nothing_to_keep(home: Path) -> None:
    with restored():
        found = call("--project-dir", home, "maintain", "--output", "json")
        text = call("--project-dir", home, "maintain", "--dry-run", "--quiet")
    told = json.loads(found.stdout)
    assert (found.exit_code, told["dry_run"], [each["role"] for each in told["tables"]]) == (0, False, ["runs"])
    assert (told["tables"][0]["status"], told["tables"][0]["engine"]) == ("nothing", "delta-rs")
    assert "dry run: nothing was written" in text.stdout
    assert not (home / "lake").exists()


@pytest.mark.parametrize("retention", ["", "7", "-1d", "30s", "v4"])
def test_a_retention_is_a_duration(home: Path, retention: str) -> None:
    with restored():
        found = call("--project-dir", home, "maintain", f"--retention={retention}")
    assert (found.exit_code, "valid forms are 30m, 12h, 3d, 2w" in found.stderr) == (2, True)


def test_a_retention_that_is_too_short_is_refused_before_files_are_rewritten(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each line of the log names the run and the job."""
    rows = pa.table({"id": ["a"], "title": ["b"], "merchant": ["c"]})
    commit = CommitProperties(app_transactions=[Transaction(name_application("shop"), 1)])
    for _ in range(2):
        write_deltalake(home / "lake" / "shop", rows, mode="append", commit_properties=commit)
    asked: list[object] = []
    monkeypatch.setattr(Workplace, "work_inside", lambda _, work: asked.append(work))
    with restored():
        words = ("--retention", "1h", "--output", "json", "--log-format", "json")
        found = call("--project-dir", home, "maintain", *words)
    told = json.loads(found.stdout)
    assert (found.exit_code, asked) == (2, [])
    assert told["tables"][0]["error"].startswith("--retention 1h is less than the 168 hours")
    line = next(each for each in map(json.loads, found.stderr.splitlines()) if "shop: failed" in each["message"])
    assert (line["run_id"], line["job"]) == (told["run_id"], "shop")


def test_the_table_says_what_was_done_and_why_more_stays() -> None:
    done = Upkeep("shop", "/lake/shop", "target", "done", rewritten=Extent(120, 1_500_000), became=Extent(1, 1_400_000))
    kept = Kept(200, ("job 'titles' may need version 5 and what came after it",), (4, 6))
    failed = Upkeep("shop", "/lake/s__quarantine", "quarantine", "failed", error="no space", exit_code=7, kept=kept)
    found = MaintainResult("r", "dev", False, (done, failed))
    assert found.exit_code == 7
    lines = format_maintenance(found).splitlines()
    assert lines[1].split("  ")[-1].strip() == "-"
    assert "120 files, 1.5 MB  1 file, 1.4 MB" in lines[1]
    assert lines[3:] == [
        "/lake/s__quarantine: kept for longer: job 'titles' may need version 5 and what came after it",
        "/lake/s__quarantine: no space",
    ]


@pytest.mark.parametrize(
    ("shape", "rows", "why"),
    [
        (Shape(), 0, None),
        (Shape(LARGE, Extent(99, 10**6), 1000), 901, None),
        (Shape(MANY, Extent(100, 10**6), 1000), 1000, "100 small files (small_files is 100)"),
        (Shape(LARGE, Extent(), 1000), 900, "10% of the rows in its files are gone (deleted_rows is 0.1)"),
        (Shape(LARGE, Extent(), 1000), None, None),
        (Shape(LARGE, Extent(), None), 10, None),
        (Shape(Extent(3, 10**6), Extent(3, 10**6), 1000), 10, None),
    ],
)
def test_when_a_target_is_out_of_shape(shape: Shape, rows: int | None, why: str | None) -> None:
    assert find_need(shape, rows, LIMITS) == why


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


def _choose(home: Path, uri: Path, asked: int | None, monkeypatch: pytest.MonkeyPatch, *versions: int) -> Kept:
    table_id = read_state(str(uri)).table_id
    needs = [Need("kept", table_id, version) for version in versions]
    monkeypatch.setattr(maintenance._Keeper, "_list_readers", lambda *_: needs)
    keeper = maintenance._Keeper(Workplace(load_project(home), [], Options(), "run", None), asked)
    return keeper._choose_hours("items", str(uri))


def test_all_versions_stay_from_the_one_on_that_is_needed(
    home: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _choose(home, table, None, monkeypatch).window == (3, 4)
    assert _choose(home, table, 24 * 25, monkeypatch).window == (1, 4)
    assert _choose(home, table, 24 * 99, monkeypatch).window == (-1, 4)
    kept = _choose(home, table, 24 * 15, monkeypatch, 3, 2)
    assert (kept.hours, kept.window) == (20 * 24 + 1 + maintenance.MARGIN, (1, 4))
    assert kept.why == ("job 'kept' may need version 2 and what came after it",)


def test_nothing_is_removed_where_the_log_has_lost_what_a_job_may_need(
    home: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DeltaTable(table).create_checkpoint()
    for version in range(3):
        find_commit(table, version).unlink()
    assert _choose(home, table, 24 * 99, monkeypatch, 2).window == (2, 4)
    with pytest.raises(HistoryError, match=r"'kept' has yet to read .* version 1, and the table's log no longer holds"):
        _choose(home, table, None, monkeypatch, 1)


def test_what_the_log_has_lost_is_no_reason_to_keep_or_to_refuse(
    home: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A RESTORE or a gap may ask for it for ever, and no file could bring it back."""
    DeltaTable(table).create_checkpoint()
    for version in range(3):
        find_commit(table, version).unlink()
    need = Need("kept", read_state(str(table)).table_id, 3, (0, 1, 2))
    monkeypatch.setattr(maintenance._Keeper, "_list_readers", lambda *_: [need])
    keeper = maintenance._Keeper(Workplace(load_project(home), [], Options(), "run", None), None)
    kept = keeper._choose_hours("items", str(table))
    assert kept.why == ("job 'kept' may need version 2 and what came after it",)
    assert kept.window == (2, 4)


def test_what_a_commit_removed_is_found_however_it_is_written(tmp_path: Path) -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1, "sizeInBytes": 1}
    whole = {"storageType": "p", "pathOrInlineDv": "s3a://bucket/t/deletion%20vector.bin"}
    removed = [
        {"path": "p=a%2520b/one%2520file.parquet", "deletionVector": vector},
        {"path": "two.parquet", "deletionVector": whole},
        {"path": "three.parquet", "deletionVector": {"storageType": "i", "pathOrInlineDv": "x"}},
    ]
    find_commit(tmp_path, 3).parent.mkdir()
    lines = [*({"remove": each} for each in removed), {"cdc": {"path": "_change_data/cdc.parquet"}}]
    find_commit(tmp_path, 3).write_text("\n".join(map(json.dumps, lines)))
    listed = [
        *("file:/t/p=a%20b/one%20file.parquet", "file:/t/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        *(
            "/t/two.parquet",
            "s3a://bucket/t/deletion vector.bin",
            "file:/t/three.parquet",
            "/t/_change_data/cdc.parquet",
        ),
        "file:/t/unused.parquet",
    ]
    assert upkeep._leave_needed(str(tmp_path), listed, (2, 3)) == ["file:/t/unused.parquet"]
    assert upkeep._leave_needed(str(tmp_path), listed, (3, 3)) == listed
    with pytest.raises(HistoryError, match="no longer holds version 2"):
        upkeep._leave_needed(str(tmp_path), listed, (1, 3))
