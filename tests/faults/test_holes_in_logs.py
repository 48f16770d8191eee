"""What a log does not hold, or holds in a form that nobody knows, is never passed over in silence.

A commit that is missing, or whose file is empty, hides behind a checkpoint; ranges whose feed is lost are compared each
at its own ends; errors say whether files are gone or damaged. Planted bugs show that the comparisons would tell.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from enrich import load_project, plan
from enrich.delta import tables
from enrich.delta.tables import Told
from enrich.frames import changes
from enrich.steps import source_changes
from faults.stops import Crash, Place, crash_at
from kit.commits import find_commit
from kit.lab import Lab, Prepared
from kit.project import hold_nulls

Row = tuple[Any, ...]
JOBS = ("kept", "mirrored", "told")


def write_notes(lab: Lab) -> None:
    """Write five notes, and run a plain job, a mirror and a history of them."""
    columns = {"id": pa.string(), "note": pa.string()}
    lab.table("notes", "id", columns, [{"id": f"k{i}", "note": f"n{i}"} for i in range(5)])  # 0, 1
    lab.job("job: kept\nsources: {o: {table: notes, key: id}}\nfrom: o\ntarget: {table: kept}\n")
    lab.job(
        "job: mirrored\nkind: mirror\nsources: {o: {table: notes, key: id}}\nfrom: o\nmirror: {value: note}\n"
        "target: {table: mirrored}\n"
    )
    lab.job("job: told\nkind: history\nsources: {o: {table: notes, key: id}}\nfrom: o\ntarget: {table: told}\n")
    assert {each.status for each in lab.run_all().jobs} == {"created"}


@pytest.fixture
def notes(prepared: Prepared) -> Lab:
    """Give the notes and the three targets, and four commits that these have not consumed."""
    lab = prepared("notes", write_notes)
    table = DeltaTable(lab.path("notes"))
    table.update(predicate="id = 'k1'", updates={"note": "'u1'"})  # 2
    table.delete("id = 'k2'")  # 3
    lab.append("notes", {"id": "k9", "note": "n9"})  # 4
    DeltaTable(lab.path("notes")).update(predicate="id = 'k3'", updates={"note": "'u3'"})  # 5
    return lab


def find(lab: Lab, version: int) -> Path:
    return find_commit(Path(lab.path("notes")), version)


def hide(lab: Lab) -> None:
    """Let a checkpoint hide what becomes of the commits."""
    DeltaTable(lab.path("notes")).create_checkpoint()


def damage(lab: Lab, version: int, content: bytes | None) -> None:
    """Let a commit's file hold something else; None: nothing is there any more."""
    if content is None:
        find(lab, version).unlink()
    else:
        find(lab, version).write_bytes(content)


def list_differing(lab: Lab) -> list[str]:
    """Return the jobs whose targets do not hold the notes that a reader of the table sees."""
    right = {(row["id"], row["note"]) for row in lab.rows("notes")}
    found = {job: {(row["id"], row["note"]) for row in lab.rows(job) if row.get("valid_to") is None} for job in JOBS}
    return [job for job in JOBS if found[job] != right]


@pytest.mark.parametrize("content", [None, pytest.param(b"", marks=pytest.mark.soak)], ids=["missing", "empty"])
def test_a_commit_of_a_source_is_missing_or_empty(notes: Lab, content: bytes | None) -> None:
    hide(notes)
    damage(notes, 3, content)
    kept, mirrored, told = notes.run_all().jobs
    assert (kept.error, mirrored.error) == (None, None)
    assert all(each.sources["o"].compared for each in (kept, mirrored))
    assert told.exit_code == 5
    assert "enrich run told --allow-gap" in str(told.error)
    assert notes.run("told", allow_gap=True).exit_code == 0
    assert list_differing(notes) == []


def test_an_empty_commit_that_no_checkpoint_hides(notes: Lab) -> None:
    """Readers pass it over: neither the changes of a window nor a first run may do the same."""
    damage(notes, 4, b"")
    notes.job("job: fresh\nsources: {o: {table: notes, key: id}}\nfrom: o\ntarget: {table: fresh}\n")
    before = {job: DeltaTable(notes.path(job)).version() for job in JOBS}
    done = {each.job: each for each in notes.run_all().jobs}
    assert {each.exit_code for each in done.values()} == {5}
    assert all("commit 4 in the log of source 'o'" in str(done[job].error) for job in ("kept", "mirrored", "fresh"))
    assert "run `enrich run kept --full-refresh` to go on without it" in str(done["kept"].error)
    assert not notes.exists("fresh")
    assert {job: DeltaTable(notes.path(job)).version() for job in JOBS} == before
    (planned,) = plan(load_project(notes.home), ["kept"], spark=notes.spark).jobs
    assert (planned.exit_code, "commit 4" in str(planned.refused)) == (5, True)
    assert notes.run("kept", full_refresh=True).exit_code == 0
    assert "kept" not in list_differing(notes)


def test_what_keeps_several_commits_is_no_hole(notes: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of log compaction, parts of checkpoints, checksums and staged commits beside the commits."""
    log = find(notes, 0).parent
    (log / f"{2:020d}.{3:020d}.compacted.json").write_bytes(find(notes, 2).read_bytes() + find(notes, 3).read_bytes())
    (log / "_staged_commits").mkdir()
    (log / "_staged_commits" / f"{6:020d}.c0ffee00-0000-0000-0000-000000000000.json").write_text("{}")
    (log / f"{4:020d}.checkpoint.{1:010d}.{2:010d}.parquet").write_bytes(b"one of two")
    assert tables.list_log(notes.path("notes")) == (set(range(6)), [])
    with monkeypatch.context() as patched:  # as an object store is listed; delta-rs ends a table's URI with a slash
        patched.setattr(tables, "find_local_path", lambda _: None)
        assert tables.list_log(f"file://{notes.path('notes')}/") == (set(range(6)), [])
    told = tables.read_range(notes.path("notes"), (1, 5))
    assert (told._replace(size=0), 0 < told.size < 10_000) == (Told(), True)
    assert tables.find_damage(notes.path("notes"), 5) is None
    (log / f"{4:020d}.checkpoint.{1:010d}.{2:010d}.parquet").unlink()
    assert [each.error for each in notes.run_all().jobs] == [None] * 3
    assert list_differing(notes) == []


def pass_over_holes(patch: pytest.MonkeyPatch) -> None:
    """Plant the bug: nobody looks whether all commits of a window are there."""
    patch.setattr(source_changes, "read_range", lambda *_: Told())


def test_a_planted_bug_that_passes_over_holes_is_caught(notes: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(notes)
    damage(notes, 3, None)
    pass_over_holes(monkeypatch)
    notes.run_all()
    assert {"kept", "mirrored"} <= set(list_differing(notes))


# --- what is not known -----------------------------------------------------------------------------------------------


def add_action(line: dict[str, Any]) -> dict[str, Any]:
    return {**line, "remodel": {"path": "x"}} if "commitInfo" in line else line


def add_vector(line: dict[str, Any]) -> dict[str, Any]:
    vector = {"storageType": "r", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 36, "cardinality": 1}
    return {kind: told | {"deletionVector": vector} if kind == "add" else told for kind, told in line.items()}


@pytest.mark.parametrize("change", [add_action, add_vector], ids=lambda each: each.__name__)
def test_a_source_has_what_this_release_does_not_know(
    notes: Lab, monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    lines = map(json.loads, find(notes, 2).read_text().splitlines())
    hide(notes)
    find(notes, 2).write_text("\n".join(json.dumps(change(line)) for line in lines))
    done = notes.run_all().jobs
    assert [each.exit_code for each in done] == [5] * 3
    assert all("version 2 of " in str(each.error) and "does not know" in str(each.error) for each in done)
    assert {each.exit_code for each in plan(load_project(notes.home), spark=notes.spark).jobs} == {5}
    if change is add_vector:
        monkeypatch.setattr(tables, "_require_known", lambda *_: None)
        assert notes.run("kept").exit_code == 0, "the check that is left out here decides"


# --- ranges, each by itself ------------------------------------------------------------------------------------------


def write_marked(lab: Lab) -> None:
    """Write a source whose feed cannot be read across version 4, and run a job that quarantines rows of it."""
    name = f"delta.`{lab.path('marked')}`"
    listed = "'delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name'"
    lab.spark.sql(f"CREATE TABLE {name} (id INT, x INT, idle INT) USING delta TBLPROPERTIES ({listed})")  # 0
    for statement in (
        "INSERT INTO {} VALUES (1, 1, 1), (2, NULL, 2)",  # 1
        "UPDATE {} SET x = NULL WHERE id = 1",  # 2
        "UPDATE {} SET idle = 5 WHERE id = 2",  # 3
        "ALTER TABLE {} RENAME COLUMN idle TO idler",  # 4
        "UPDATE {} SET x = 1 WHERE id = 1",  # 5
    ):
        mark(lab, statement)
    lab.suite("whole", hold_nulls("x"))
    lab.job(
        "job: held\nsources: {o: {table: marked, key: id}}\nfrom: o\nselect: {id: o.id, x: o.x}\nexpectations: whole\n"
        "target: {table: held}\n"
    )
    assert lab.run("held").status == "created"


def mark(lab: Lab, statement: str) -> None:
    lab.spark.sql(statement.replace("{}", f"delta.`{lab.path('marked')}`"))


@pytest.fixture
def marked(prepared: Prepared) -> Lab:
    """Give that job after a run that died with a bad row in the quarantine; the row is good again since."""
    lab = prepared("marked", write_marked)
    mark(lab, "UPDATE {} SET x = NULL WHERE id = 1")  # 6
    with pytest.raises(Crash), crash_at(Place("target.before")):
        lab.run("held")
    assert {row["id"] for row in lab.rows("held__quarantine")} == {1, 2}
    mark(lab, "UPDATE {} SET x = 1 WHERE id = 1")  # 7
    return lab


def list_held(lab: Lab) -> tuple[list[Any], list[Any]]:
    return [row["id"] for row in lab.rows("held")], [row["id"] for row in lab.rows("held__quarantine")]


def test_since_does_not_hide_what_a_dead_run_left(marked: Lab) -> None:
    result = marked.run("held", since="v2")
    assert (result.exit_code, result.sources["o"].compared) == (0, True), result.error
    assert list_held(marked) == ([1], [2])


def test_a_planted_bug_that_merges_the_ranges_is_caught(marked: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_merged(run: Any, alias: str) -> Any:
        ranges = run.plan.again[alias]
        merged = (min(start for start, _ in ranges), max(end for _, end in ranges))
        return source_changes._read(run, alias, merged, changes.find_touched_keys)

    monkeypatch.setattr(source_changes, "_read_again", read_merged)
    assert marked.run("held", since="v2").exit_code == 0
    assert list_held(marked) != ([1], [2])


# --- gone, damaged, silent -------------------------------------------------------------------------------------------


def test_files_of_a_source_are_damaged(notes: Lab) -> None:
    """And it is not what a scheduler may try again; a full refresh reads the same file."""
    path = next(each["add"]["path"] for each in tables.actions(notes.path("notes"), 5) or [] if "add" in each)
    file = Path(notes.path("notes"), path)
    kept = file.read_bytes()
    for content, code, word in ((b"garbage" * 9, 5, "files of it are damaged"), (None, 1, "commits of it are gone")):
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        result = notes.run("kept")
        assert (result.exit_code, word in str(result.error)) == (code, True), result.error
        assert "restore the source" in str(result.error)
    file.write_bytes(kept)
    assert notes.run("kept").exit_code == 0
