"""Constraints of tables: a line of a dump that one refuses is bad, and a job's rows are refused before any commit."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

import enrich
from enrich import DumpOptions, LoadResult
from enrich.base.failures import describe_error
from kit.lab import Lab
from kit.project import hold_nulls

TABLE = """
    id BIGINT NOT NULL, name STRING NOT NULL, code VARCHAR(3), place STRUCT<town: STRING NOT NULL, zip: STRING>,
    twice INT GENERATED ALWAYS AS (CAST(id * 2 AS INT)), note STRING"""
JOB = """job: j
sources: {p: {table: people, key: id}}
from: p
expectations: people
target: {table: t}
"""


def _alter(lab: Lab, table: str, change: str) -> None:
    lab.spark.sql(f"ALTER TABLE delta.`{lab.path(table)}` {change}")


def _load(lab: Lab, *lines: dict[str, object], **how: Any) -> LoadResult:
    path = lab.home / "people.json"
    path.write_text("\n".join(map(json.dumps, lines)))
    project = enrich.load_project(lab.home, needs_jobs=False)
    options = DumpOptions(**how)
    return enrich.load(project, "people", [str(path)], key=["id"], options=options, spark=lab.spark)


def test_a_line_that_a_constraint_refuses_is_bad(lab: Lab) -> None:
    lab.spark.sql(f"CREATE TABLE delta.`{lab.path('people')}` ({TABLE}) USING delta")
    _alter(lab, "people", "ADD CONSTRAINT `short name` CHECK (length(name) < 6 OR note = 'long')")
    good = {"id": 1, "name": "one", "code": "abc", "place": {"town": "Bern"}, "note": "x"}
    assert _load(lab, good).inserted == 1
    bad: list[dict[str, object]] = [
        {"id": 2, "name": None},
        {"id": 3, "name": "a-secret"},
        {"id": 4, "name": "four", "code": "a-secret", "place": {"town": "Thun"}},
        {"id": 5, "name": "five", "place": {"zip": "a-secret"}},
        {"id": 6, "name": "six", "place": {"town": "Thun"}, "twice": 13},
        {"id": 1, "name": "changed", "place": {"town": "Thun"}},
    ]
    for each in bad[:2]:
        each["place"] = {"town": "Thun"}
    refused = _load(lab, *bad, {"id": 7, "name": "seven", "place": {"town": "Thun"}, "twice": 14})
    assert (refused.status, refused.exit_code, len(lab.log("people"))) == ("refused", 3, 3)
    path = lab.home / "people.json"
    told = {each.cause: each.first for each in refused.faults}
    assert told == {
        "null in column 'name', which is NOT NULL": (f"{path}:1",),
        "CHECK constraint 'short name' does not hold": (f"{path}:1", f"{path}:2", f"{path}:6"),
        "column 'code' has more than 3 characters": (f"{path}:3",),
        "null in column 'place.town', which is NOT NULL": (f"{path}:4",),
        "generated column 'twice' has another value than its expression gives": (
            f"{path}:5",
        ),
    }  # fmt: skip
    assert "a-secret" not in json.dumps(refused.to_dict())
    changed = {"id": 1, "name": "new", "place": {"town": "Thun", "zip": "3600"}}
    found = _load(lab, changed, {"id": 3, "name": "a-secret", "place": {"town": "Thun"}}, bad_rows="skip")
    assert (found.status, found.updated, found.inserted, found.skipped) == ("updated", 1, 0, 1)
    # What the table has besides counts, too: the note of the first row stays, and lets a long name pass.
    assert _load(lab, {"id": 1, "note": "long"}, columns=["id", "note"]).updated == 1
    assert _load(lab, {"id": 1, "name": "very long"}, columns=["id", "name"]).updated == 1
    row = {"id": 1, "name": "very long", "code": None, "place": {"town": "Thun", "zip": "3600"}}
    assert lab.rows("people") == [{**row, "twice": 2, "note": "long"}]


def test_a_target_that_refuses_rows_is_told_before_anything_is_written(lab: Lab) -> None:
    lab.job(JOB)
    lab.suite("people", hold_nulls("mail"))
    lab.table("people", "id", {"id": pa.int64(), "mail": pa.string(), "name": pa.string()})
    lab.put("people", {"id": 1, "mail": "a@b", "name": "a"}, {"id": 2, "mail": "c@d", "name": "b"})
    lab.run()
    _alter(lab, "t", "ADD CONSTRAINT named CHECK (name <> 'a-secret')")
    lab.put("people", {"id": 2, "mail": "c@d", "name": "a-secret"}, {"id": 3, "mail": None, "name": "c"})
    _alter(lab, "t", "ADD CONSTRAINT computed CHECK (IF(name = 'a-secret', CAST(name AS INT), 1) > 0)")
    found = lab.run()
    assert (found.exit_code, "a constraint or a generated column of the target" in str(found.error)) == (3, True)
    _alter(lab, "t", "DROP CONSTRAINT computed")
    for dry_run in (True, False):
        found = lab.run(dry_run=dry_run)
        assert (found.status, found.exit_code) == ("blocked", 3)
        # What was judged by then is told like that of any other blocked run, and the target as it is.
        assert [(each.checked, each.failed) for each in found.findings] == [(2, 1)]
        assert (found.sources["p"].changes, found.mode, found.counts.inserted) == (2, "incremental", 0)
        assert found.state is not None
        assert (found.state.rows, found.state.nulls["mail"]) == (2, 0)
        assert "CHECK constraint 'named' does not hold (1 row)" in str(found.error)
        assert "a-secret" not in json.dumps(found.to_dict())
    assert (len(lab.log("t")), lab.exists("t__quarantine")) == (4, False)
    lab.put("people", {"id": 2, "mail": "c@d", "name": "b"})
    assert (lab.run().status, lab.exists("t__quarantine")) == ("updated", True)
    # The quarantine is a table like any other.
    _alter(lab, "t__quarantine", "ADD CONSTRAINT q CHECK (name <> 'a-secret')")
    lab.put("people", {"id": 1, "mail": None, "name": "a-secret"})
    found = lab.run()
    assert (found.exit_code, "the quarantine refuses rows of 'j'" in str(found.error)) == (3, True)
    assert [each.failed for each in found.findings] == [1]
    assert (found.quarantine and found.quarantine.rows, found.state and found.state.rows) == (1, 2)
    assert [row["id"] for row in lab.rows("t")] == [1, 2]


def test_a_constraint_that_only_the_commit_meets_is_named_and_not_its_row() -> None:
    """It may have been added meanwhile; Delta quotes the row."""
    said = "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint named (name <> 'x') violated by row with values:\n"
    error = describe_error(Exception(f"...DeltaInvariantViolationException: {said} - name : a-secret"), "j")
    assert (error.exit_code, "CHECK constraint 'named'" in str(error), "a-secret" in str(error)) == (3, True, False)
