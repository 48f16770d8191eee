"""What a run makes of a call and of the log; the commits are delta-rs's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from enrich.base.errors import Conflict, DriftError, HistoryError, Locked
from enrich.delta import tables
from enrich.delta.sink import Commit, commit_and_prove
from enrich.progress.cursor import Cursor, is_of_run, name_application
from enrich.steps.publish import refuse_drift, refuse_if_beaten

JOB = "kept"


def put(uri: Path, run_id: str, number: int | None) -> None:
    """Commit a row, with a record unless there is no number."""
    own = None
    if number is not None:
        record = Cursor(run_id, JOB, number, "d", {}, ("id",)).to_json()
        transactions = [Transaction(name_application(JOB), number)]
        own = CommitProperties(custom_metadata={"userMetadata": record}, app_transactions=transactions)
    write_deltalake(uri, pa.table({"id": [1]}), mode="append", commit_properties=own)


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    """Give a target that a run has written under number 1."""
    put(tmp_path / "t", "first", 1)
    return tmp_path / "t"


def planned(uri: Path) -> Any:
    """Return as much of a task as the proof needs, planned on the table as it is now."""
    state = tables.read_state(str(uri))
    number = DeltaTable(uri).transaction_version(name_application(JOB))
    return SimpleNamespace(
        job=SimpleNamespace(job=JOB),
        run_id="me",
        place=SimpleNamespace(uri=str(uri)),
        target=SimpleNamespace(table=state, number=number),
        spec=SimpleNamespace(columns=("id",)),
        rewrites=False,
    )


def settle(task: Any, act: Callable[[], None], landed: list[int]) -> int:
    uri = task.place.uri
    commit = Commit(
        uri,
        lambda: uri,
        task.target.table.version,
        name_application(JOB),
        task.target.number + 1,
        "",
        lambda found: is_of_run(found, task.run_id),
        lost=lambda: refuse_if_beaten(task),
        landed=landed.append,
    )
    return commit_and_prove(commit, act)


def test_a_commit_that_is_in_the_log_is_done(uri: Path) -> None:
    landed: list[int] = []
    assert settle(planned(uri), lambda: put(uri, "me", 2), landed) == 1
    assert landed == [1]


def test_an_answer_that_got_lost_does_not_matter(uri: Path, caplog: pytest.LogCaptureFixture) -> None:
    def act() -> None:
        put(uri, "me", 2)
        raise OSError("secret")

    landed: list[int] = []
    assert settle(planned(uri), act, landed) == 1
    assert landed == [1]
    assert "OSError" in caplog.text
    assert "secret" not in caplog.text


def test_a_signal_takes_its_way_after_the_commit_is_told(uri: Path) -> None:
    def act() -> None:
        put(uri, "me", 2)
        raise KeyboardInterrupt

    landed: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        settle(planned(uri), act, landed)
    assert landed == [1]


@pytest.mark.parametrize("point", ["proof.before", "proof.after"])
def test_a_signal_while_the_log_is_asked_takes_its_way_after_the_commit_is_told(
    uri: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    sent: list[str] = []

    def send(name: str) -> None:
        if name == point and not sent:
            sent.append(name)
            raise KeyboardInterrupt

    monkeypatch.setattr("enrich.base.failpoints.hook", send)
    landed: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        settle(planned(uri), lambda: put(uri, "me", 2), landed)
    assert landed == [1]


def test_an_error_without_commit_stays_an_error(uri: Path) -> None:
    def act() -> None:
        raise OSError

    landed: list[int] = []
    with pytest.raises(OSError, match=r"^$"):
        settle(planned(uri), act, landed)
    assert landed == []


@pytest.mark.parametrize("fails", [False, True])
def test_who_finds_another_runs_number_has_lost(uri: Path, fails: bool) -> None:
    task = planned(uri)
    put(uri, "winner", 2)

    def act() -> None:
        if fails:
            raise OSError

    with pytest.raises(Locked, match="run winner has written"):
        settle(task, act, [])


def test_a_number_that_is_taken_beside_an_unmoved_target_is_a_conflict(uri: Path) -> None:
    with pytest.raises(Conflict):
        settle(planned(uri), lambda: None, [])


def test_an_earlier_attempt_of_the_same_run_does_not_count(uri: Path) -> None:
    put(uri, "me", 2)
    with pytest.raises(Conflict):
        settle(planned(uri), lambda: None, [])


def test_rows_of_others_between_plan_and_commit_are_drift(uri: Path) -> None:
    task = planned(uri)
    refuse_drift(task, 1)
    DeltaTable(uri).optimize.compact()
    put(uri, "me", 2)
    refuse_drift(task, DeltaTable(uri).version())
    task = planned(uri)
    put(uri, "", None)
    put(uri, "me", 3)
    with pytest.raises(DriftError, match="--repair"):
        refuse_drift(task, DeltaTable(uri).version())


@pytest.mark.parametrize("beside", [False, True])
def test_who_looks_before_its_commit_finds_what_others_have_done_meanwhile(uri: Path, beside: bool) -> None:
    put(uri, "me", 2)
    task = planned(uri)
    task.target.quarantine = task.target
    refuse_if_beaten(task, beside=beside)
    DeltaTable(uri).optimize.compact()
    refuse_if_beaten(task, beside=beside)
    DeltaTable(uri).restore(0)
    with pytest.raises(Conflict, match=f"others have changed the {'quarantine' if beside else 'target'}"):
        refuse_if_beaten(task, beside=beside)
    task.rewrites = True  # all rows go, whoever wrote them
    refuse_if_beaten(task, beside=beside)


@pytest.mark.parametrize("beside", [False, True])
def test_who_looks_before_its_commit_finds_another_table(uri: Path, beside: bool) -> None:
    """An append would create what was dropped, with few rows and a record that says that all are there."""
    task = planned(uri)
    task.target.quarantine = task.target
    refuse_if_beaten(task, beside=beside)
    for another in (False, True):
        shutil.rmtree(uri)
        if another:
            put(uri, "", None)
        with pytest.raises(Conflict, match="quarantine" if beside else "target"):
            refuse_if_beaten(task, beside=beside)
        put(uri, "", None)


@pytest.mark.parametrize("content", [None, b"", b"\n", b'{"commitInfo": {"opera', b"\0\0", b"[]"])
@pytest.mark.parametrize("limit", [None, 4, 6])
def test_a_history_is_known_up_to_a_hole(uri: Path, content: bytes | None, limit: int | None) -> None:
    """delta-rs counts down from the latest version, and would give what is older the numbers of what is missing."""
    for number in range(2, 9):
        put(uri, f"run{number}", number)
    DeltaTable(uri).create_checkpoint()
    file = uri / "_delta_log" / f"{3:020d}.json"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    found = tables.read_history(tables.open_log(str(uri)), limit)
    assert [entry["version"] for entry in found] == [7, 6, 5, 4]
    assert tables.actions(str(uri), 3) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"merge\\n": {}}', "an action 'merge\\n'"),
        ('{"add": {"path": "x", "deletionVector": {"storageType": "r"}}}', "deletion vectors of a kind 'r'"),
        ('{"remove": {"path": "x", "deletionVector": {"storageType": "q"}}}', "deletion vectors of a kind 'q'"),
    ],
)
def test_what_the_protocol_does_not_have_is_not_passed_over(uri: Path, line: str, said: str) -> None:
    (uri / "_delta_log" / f"{1:020d}.json").write_text('{"commitInfo": {}}\n' + line)
    with pytest.raises(HistoryError) as refused:
        tables.actions(str(uri), 1)
    assert f"version 1 of {uri} has {said}, which this release" in str(refused.value)
    assert "enrich doctor" in str(refused.value)


@pytest.mark.parametrize(
    ("commits", "read"),
    [
        (["-f +f1", "-f1 +f2", "-f2 +f3"], ["", "", "-f +f3"]),
        (["-f1 +f2", "+g"], ["-f1 +f2", "+g"]),
        (["+f", "-f +f1"], ["", "+f1"]),
        (["+f", "-f +f1", "-f1"], ["", "", ""]),
        (["-f1 +f2", "-f2"], ["", "-f1"]),
        (["-f +f1 -g +g1", "-g1 +g2"], ["-f +f1", "-g +g2"]),
        (["-f1 +f2", "-f2 +f1"], ["", ""]),  # RESTORE
        (["-f +f1", "-f1 +f2", "-f2 +f"], ["", "", ""]),  # RESTORE
        (["-f +f1", "~f1 ~h", "-h +f1"], ["-f +f1", "~f1 ~h", "-h +f1"]),  # OPTIMIZE, and RESTORE
        (["-f +f1", "-f1 +f2 cdc", "-f2 +f3"], ["-f +f1", "-f1 +f2 cdc", "-f2 +f3"]),
        (["-f", "+f", "-f +f1"], ["-f", "", "+f1"]),  # RESTORE brings a file back
    ],
)
def test_the_vectors_of_a_file_are_put_together(tmp_path: Path, commits: list[str], read: list[str]) -> None:
    """``-f1 +f2``: a file gets another vector, 2; ``~h`` goes without a change of data."""
    log = tmp_path / "_delta_log"
    log.mkdir()

    def parse(word: str) -> dict[str, Any]:
        if word == "cdc":
            return {"cdc": {"path": "c"}}
        vector = {"deletionVector": {"storageType": "u", "pathOrInlineDv": word[2:]}} if word[2:] else {}
        return {"add" if word[0] == "+" else "remove": {"path": word[1], "dataChange": word[0] != "~", **vector}}

    for version, words in enumerate(commits):
        lines = [{"commitInfo": {"number": version}}, *map(parse, words.split())]
        (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    found = [[*map(json.loads, each)] for each in tables.net_vectors(str(tmp_path), (-1, len(commits) - 1))]
    wanted = [[{"commitInfo": {"number": version}}, *map(parse, words.split())] for version, words in enumerate(read)]
    assert [sorted(each, key=str) for each in found] == [sorted(each, key=str) for each in wanted]


def test_a_file_without_size_counts_as_a_large_one(uri: Path) -> None:
    version = DeltaTable(uri).version()
    removed = {"path": "x", "dataChange": True, "size": None}
    (uri / "_delta_log" / f"{version + 1:020}.json").write_text(json.dumps({"remove": removed}))
    assert tables.read_range(str(uri), (version, version + 1)).size == 2**30
