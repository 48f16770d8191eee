"""``enrich load``: a table is brought up to a dump in one commit, which touches no row that is equal."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow import parquet

import enrich
from enrich import DumpOptions, LoadResult
from enrich.base import context
from enrich.base.errors import RunFailed
from enrich.delta import sink
from enrich.dumps import load
from faults.stops import Crash, crash_on, hooked
from kit.lab import Lab, Prepared
from kit.project import SHOP

FIRST = "id;email;amount;at\n1;one@example.com;1.5;2026-01-31T09:30:00Z\n2;;NaN;0001-01-01\n3;three;-0.0;\n"
TYPES = "id bigint, amount double, at timestamp"


def _load(lab: Lab, text: str, *, dry_run: bool = False, key: str = "id", **how: Any) -> LoadResult:
    path = lab.home / "dump.csv"
    path.write_text(text, newline="")
    project = enrich.load_project(lab.home)
    options = DumpOptions(**how)
    return enrich.load(project, "accounts", [str(path)], key=[key], options=options, dry_run=dry_run, spark=lab.spark)


def _build(lab: Lab) -> None:
    lab.job(SHOP)
    created = _load(lab, FIRST, types=TYPES)
    assert (created.status, created.version, created.inserted, created.read) == ("created", 0, 3, 3)


@pytest.fixture
def loaded(prepared: Prepared) -> Lab:
    """Give a lake with the table of the first dump."""
    return prepared("loaded dump", _build)


def _version(lab: Lab) -> int:
    return DeltaTable(lab.path("accounts")).version()


def _rows(lab: Lab) -> list[dict[str, Any]]:
    return sorted(lab.rows("accounts"), key=lambda row: int(row["id"]))


def _counts(found: LoadResult) -> tuple[int, int, int, int, int]:
    return found.inserted, found.updated, found.deleted, found.unchanged, found.skipped


def test_a_new_table_has_the_dumps_rows_types_and_features(loaded: Lab) -> None:
    rows = _rows(loaded)
    assert rows[0] == {
        "id": 1,
        "email": "one@example.com",
        "amount": 1.5,
        "at": datetime(2026, 1, 31, 9, 30, tzinfo=UTC),
    }
    # By delta-rs, which misreads such a time in the INT96 that is Spark's default.
    assert rows[1]["at"] == datetime(1, 1, 1, tzinfo=UTC)
    assert math.isnan(rows[1]["amount"])
    assert rows[1]["email"] is None
    properties = DeltaTable(loaded.path("accounts")).metadata().configuration
    assert properties["delta.enableChangeDataFeed"] == properties["delta.enableDeletionVectors"] == "true"
    files = DeltaTable(loaded.path("accounts")).get_add_actions(flatten=True)
    ends = [name for name in files.schema.names if name.startswith(("min.", "max."))]
    told = {name for name in ends if files.column(name).null_count < files.num_rows}
    assert told == {"min.id", "max.id"}, "no value but keys is in the log"


def test_only_rows_that_differ_are_in_the_commit(loaded: Lab) -> None:
    same = _load(loaded, FIRST.replace("-0.0", "0.0"), complete=True)
    assert (same.status, same.version, _counts(same)) == ("unchanged", 0, (0, 0, 0, 3, 0))
    assert _version(loaded) == 0
    text = "email;ID;amount;at\nnew;1;1.5;2026-01-31T09:30:00Z\n;2;NaN;0001-01-01\nfour;4;;\n"
    tried = _load(loaded, text, dry_run=True)
    assert (_version(loaded), tried.dry_run, tried.version) == (0, True, 0)
    found = _load(loaded, text)
    assert _counts(found) == _counts(tried) == (1, 1, 0, 1, 0)
    assert (found.status, found.version, _version(loaded)) == ("updated", 1, 1)
    feed = DeltaTable(loaded.path("accounts")).load_cdf(starting_version=1, ending_version=1)
    changes = pa.table(feed.read_all()).to_pylist()
    assert sorted((row["id"], row["_change_type"]) for row in changes) == [
        (1, "update_postimage"), (1, "update_preimage"), (4, "insert"),
    ]  # fmt: skip


def test_a_complete_dump_deletes_what_it_lacks_up_to_a_share(loaded: Lab) -> None:
    one = "\n".join(FIRST.splitlines()[:2])
    cut = _load(loaded, one, complete=True)
    assert (cut.status, cut.exit_code, _version(loaded)) == ("refused", 3, 0)
    assert "would delete 2 of the 3 rows" in str(cut.error)
    assert "--max-delete" in str(cut.error)
    row = {"id": None, "email": "lone", "amount": None, "at": None}
    loaded.append("accounts", row, row)  # rows without a key go, too
    found = _load(loaded, one, complete=True, max_delete=0.9)
    assert (found.status, _counts(found)) == ("updated", (0, 0, 4, 1, 0))
    assert [row["id"] for row in loaded.rows("accounts")] == [1]


def test_bad_lines_refuse_the_dump_or_are_left_out_and_their_rows_stay(loaded: Lab) -> None:
    text = FIRST.replace("three;-0.0", "changed;x") + "4;four;1;\n4;five;1;\n5;five;5;\n"
    refused = _load(loaded, text)
    assert (refused.status, refused.exit_code, _version(loaded)) == ("refused", 3, 0)
    told = {each.cause: each.first for each in refused.faults}
    path = str(loaded.home / "dump.csv")
    assert told == {
        "column 'amount' is not of type double": (f"{path}:4",),
        "key that stands twice": (f"{path}:5", f"{path}:6"),
    }
    twice = _load(loaded, FIRST + "1;again;1;\n")
    assert [(each.cause, each.lines, each.first) for each in twice.faults] == [
        ("key that stands twice", 2, (f"{path}:2", f"{path}:5"))
    ]
    skipped = _load(loaded, text, bad_rows="skip", complete=True)
    assert (skipped.status, _counts(skipped)) == ("updated", (1, 0, 0, 2, 3))
    assert [(row["id"], row["email"]) for row in _rows(loaded)][2:] == [(3, "three"), (5, "five")]
    assert not any(value in json.dumps(skipped.to_dict()) for value in ("three", "four", "five"))


def test_a_complete_dump_with_a_line_of_no_known_key_is_refused(loaded: Lab) -> None:
    found = _load(loaded, FIRST + "x;six;1;\n", bad_rows="skip", complete=True)
    assert (found.status, found.exit_code, _version(loaded)) == ("refused", 3, 0)
    assert "have no readable key" in str(found.error)


def test_a_column_is_added_when_types_names_it_and_a_lacking_one_stays(loaded: Lab) -> None:
    with pytest.raises(enrich.ConfigError, match=r"field 2 of the first line of .* is no column of the table"):
        _load(loaded, "id;note\n1;a\n")
    found = _load(loaded, "id;note\n1;a\n7;b\n", types="note string")
    assert _counts(found) == (1, 1, 0, 0, 0)
    rows = {row["id"]: (row["email"], row["note"]) for row in loaded.rows("accounts")}
    assert rows == {1: ("one@example.com", "a"), 2: (None, None), 3: ("three", None), 7: (None, "b")}


def test_a_column_is_added_also_when_it_is_null_everywhere(loaded: Lab) -> None:
    text = "id;note\n1;\n2;\n"
    tried = _load(loaded, text, types="note string", dry_run=True)
    assert (tried.status, tried.version, _version(loaded)) == ("updated", 0, 0)
    found = _load(loaded, text, types="note string")
    assert (found.status, found.version, _counts(found)) == ("updated", 1, (0, 0, 0, 2, 0))
    assert {row["id"]: (row["amount"] == 1.5, row["note"]) for row in _rows(loaded)} == {
        1: (True, None), 2: (False, None), 3: (False, None),
    }  # fmt: skip


def test_a_key_that_is_none_of_the_table_is_refused(loaded: Lab) -> None:
    loaded.keys["accounts"] = "id"
    loaded.append("accounts", {"id": 9, "email": "three", "amount": None, "at": None})
    with pytest.raises(enrich.ConfigError, match="email is not the key of accounts: 1 of its values"):
        _load(loaded, "id;email\n9;three\n", key="email")


def test_what_is_there_right_before_the_commit_is_compared_again(loaded: Lab) -> None:
    theirs = [{"id": 4, "email": "theirs", "amount": None, "at": None}]

    def meanwhile(name: str) -> None:
        if name == "merge.before" and theirs:
            loaded.append("accounts", theirs.pop())

    with hooked(meanwhile):
        assert _counts(_load(loaded, "id;email\n4;ours\n")) == (0, 1, 0, 0, 0)
    assert [each["email"] for each in loaded.rows("accounts") if each["id"] == 4] == ["ours"]


def test_another_program_inserts_the_same_key_meanwhile(loaded: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commits that only insert do not exclude each other: the load finds what has come of it."""
    theirs, look = [{"id": 4, "email": "theirs", "amount": None, "at": None}], sink.touches_rows

    def meanwhile(operations: Mapping[str, int]) -> bool:
        if theirs:
            loaded.append("accounts", theirs.pop())
        return look(operations)

    monkeypatch.setattr(sink, "touches_rows", meanwhile)
    with pytest.raises(RunFailed, match="1 keys stand in several rows"):
        _load(loaded, "id;email\n4;ours\n")
    assert sorted(each["email"] for each in loaded.rows("accounts") if each["id"] == 4) == ["ours", "theirs"]


def test_an_end_after_the_commit_tells_the_version(loaded: Lab) -> None:
    """A signal may come at any time, and cleaning up may fail: what is committed is told."""
    with hooked(crash_on("merge.after")), pytest.raises(Crash):
        _load(loaded, "id;email\n4;new\n")
    assert context.written.get() == "version 1 of accounts is committed"
    with hooked(crash_on("merge.before")), pytest.raises(Crash):
        _load(loaded, "id;email\n5;new\n")
    assert context.written.get() == "accounts is unchanged"
    assert _version(loaded) == 1


def test_a_load_that_fails_after_its_commit_is_done(
    loaded: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    share = load.share_file

    @contextmanager
    def fail_in_the_end(*args: Any, **how: Any) -> Iterator[str]:
        with share(*args, **how) as path:
            yield path
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(load, "share_file", fail_in_the_end)
    found = _load(loaded, "id;email\n4;new\n")
    assert (found.status, found.version, _counts(found)) == ("updated", 1, (1, 0, 0, 0, 0))
    assert "committed, but then failed with OSError" in caplog.text


def test_a_text_where_a_list_is_expected_is_refused(loaded: Lab) -> None:
    project = enrich.load_project(loaded.home)
    with pytest.raises(enrich.ConfigError, match=r"key is one text; give a list: key=\[...\]"):
        enrich.load(project, "accounts", [], key="id")
    with pytest.raises(enrich.ConfigError, match="paths is one text"):
        enrich.load(project, "accounts", "dump.csv", key=["id"])
    for name in ("jobs", "exclude", "accept"):
        with pytest.raises(enrich.ConfigError, match=f"{name} is one text"):
            enrich.run(project, **{name: "products"}, spark=loaded.spark)  # type: ignore[arg-type]


def test_a_dump_is_compared_with_what_the_table_can_hold(lab: Lab) -> None:
    """CHAR is filled with blanks, an empty text of a partition is null, and nothing is said of other columns."""
    lab.job(SHOP)
    kinds = "id CHAR(3), p STRUCT<c: CHAR(2), d: STRING>, l ARRAY<CHAR(2)>, part STRING, w VARIANT, v VOID, x CHAR(2)"
    feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    table = f"delta.`{lab.path('accounts')}`"
    lab.spark.sql(f"CREATE TABLE {table} ({kinds}) USING delta PARTITIONED BY (part, x) {feed}")
    first = {"id": "a", "p": {"c": "b", "d": "e"}, "l": ["f", None], "part": "", "x": ""}
    text = "\n".join(map(json.dumps, (first, {"id": "abc", "p": None, "part": "x"})))
    found = [_load(lab, text, form="json", complete=True) for _ in range(2)]
    assert [(each.status, *_counts(each)) for each in found] == [
        ("updated", 2, 0, 0, 0, 0),
        ("unchanged", 0, 0, 0, 2, 0),
    ]
    ends = lab.spark.table(table).select("part", "x").where("id = 'a  '").collect()
    assert [tuple(each) for each in ends] == [(None, "  ")]
    lab.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES (delta.appendOnly = true)")
    more = text + '\n{"id": "new"}'
    assert _counts(_load(lab, more, form="json")) == (1, 0, 0, 2, 0)
    for text, is_complete in (("id,part\na,x\n", False), ("id\na\nabc\n", True)):
        with pytest.raises(enrich.ConfigError, match=r"new rows alone \(delta\.appendOnly\).* UNSET TBLPROPERTIES"):
            _load(lab, text, complete=is_complete)


def test_a_parquet_file_of_pandas_makes_a_table_and_is_then_in_it(lab: Lab) -> None:
    lab.job(SHOP)
    path, moment = lab.home / "dump.parquet", datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
    columns = {
        "id": pa.array([1, 2], pa.uint64()),
        "at": pa.array([moment, None], pa.timestamp("ns", "Europe/Berlin")),
        "local": pa.array([moment.replace(tzinfo=None), None], pa.timestamp("ns")),
        "half": pa.array([np.float16(0.5), None], pa.float16()),
        "text": pa.array(["a", None], pa.large_string()),
        "parts": pa.array([{"times": [moment], "none": None}, None],
            pa.struct([("times", pa.large_list(pa.timestamp("ns", "UTC"))), ("none", pa.null())])),
    }  # fmt: skip
    parquet.write_table(pa.table(columns), path)
    project = enrich.load_project(lab.home)
    found = [enrich.load(project, "accounts", [str(path)], key=["id"], spark=lab.spark) for _ in range(2)]
    assert [(each.status, each.version, each.unchanged) for each in found] == [("created", 0, 0), ("unchanged", 0, 2)]
    assert _rows(lab)[0] == {
        "id": 1,
        "at": moment,
        "local": moment.replace(tzinfo=None),
        "half": 0.5,
        "text": "a",
        "parts": {"times": [moment], "none": None},
    }


def test_what_enrich_writes_is_no_table_to_load(tmp_path: Path, lab: Lab) -> None:
    lab.job(SHOP)
    path = tmp_path / "d.csv"
    path.write_text("id\n1\n")
    project = enrich.load_project(lab.home)
    for name, told in (
        ("shop", "written by job"),
        ("shop__quarantine", "written by job"),
        ("./lake/_enrich/runs", "state"),
    ):
        with pytest.raises(enrich.ConfigError, match=told):
            enrich.load(project, name, [str(path)], key=["id"])
