"""Constraints of tables: Delta refuses the commit, and what is told names the constraint and no row."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import enrich
from enrich import DumpOptions, LoadResult
from enrich.base.failures import describe_error
from kit.lab import Lab
from kit.project import hold_nulls

TABLE = "id BIGINT NOT NULL, name STRING NOT NULL, code VARCHAR(3), twice INT GENERATED ALWAYS AS (CAST(id * 2 AS INT))"
JOB = """job: j
sources: {p: {table: people, key: id}}
from: p
expectations: people
target: {table: t}
"""


def _alter(lab: Lab, table: str, change: str) -> None:
    lab.spark.sql(f"ALTER TABLE delta.`{lab.path(table)}` {change}")


def _load(lab: Lab, *lines: dict[str, object]) -> LoadResult:
    path = lab.home / "people.json"
    path.write_text("\n".join(map(json.dumps, lines)))
    project = enrich.load_project(lab.home, needs_jobs=False)
    return enrich.load(project, "people", [str(path)], key=["id"], options=DumpOptions(), spark=lab.spark)


def test_a_dump_with_a_line_that_a_constraint_refuses(lab: Lab) -> None:
    lab.spark.sql(f"CREATE TABLE delta.`{lab.path('people')}` ({TABLE}) USING delta")
    _alter(lab, "people", "ADD CONSTRAINT short CHECK (length(name) < 6)")
    good: dict[str, object] = {"id": 1, "name": "one", "code": "abc"}
    assert _load(lab, good).inserted == 1
    version = len(lab.log("people"))
    refused: list[dict[str, object]] = [
        {"id": 2, "name": None},
        {"id": 3, "name": "a-secret"},
        {"id": 4, "name": "four", "code": "a-secret"},
        {"id": 1, "name": "a-secret"},
    ]
    for bad in refused:
        found = _load(lab, {"id": 7, "name": "seven"}, bad)
        assert (found.exit_code, "refuses a row" in str(found.error)) == (3, True), found
        assert "a-secret" not in json.dumps(found.to_dict())
    assert len(lab.log("people")) == version
    assert lab.rows("people") == [{**good, "twice": 2}]


def test_a_target_that_refuses_rows(lab: Lab) -> None:
    lab.job(JOB)
    lab.suite("people", hold_nulls("mail"))
    lab.table("people", "id", {"id": pa.int64(), "mail": pa.string(), "name": pa.string()})
    lab.put("people", {"id": 1, "mail": "a@b", "name": "a"}, {"id": 2, "mail": "c@d", "name": "b"})
    lab.run()
    _alter(lab, "t", "ADD CONSTRAINT named CHECK (name <> 'a-secret')")
    lab.put("people", {"id": 2, "mail": "c@d", "name": "a-secret"}, {"id": 3, "mail": None, "name": "c"})
    found = lab.run()
    assert (found.exit_code, "CHECK constraint 'named'" in str(found.error)) == (3, True)
    assert "a-secret" not in json.dumps(found.to_dict())
    assert len(lab.log("t")) == 2
    lab.put("people", {"id": 2, "mail": "c@d", "name": "b"})
    assert (lab.run().exit_code, lab.exists("t__quarantine")) == (0, True)
    assert [row["id"] for row in lab.rows("t")] == [1, 2]
    assert [row["id"] for row in lab.rows("t__quarantine")] == [3]


def test_a_struct_whose_field_is_required(lab: Lab) -> None:
    lab.spark.sql(
        f"CREATE TABLE delta.`{lab.path('people')}` (id BIGINT, place STRUCT<town: STRING NOT NULL>) USING delta"
    )
    assert _load(lab, {"id": 1, "place": {"town": "Bern"}}).inserted == 1
    with pytest.raises(enrich.ConfigError, match="NOT NULL on the field 'town'"):
        _load(lab, {"id": 1, "place": {"town": "Thun"}})


def test_a_constraint_is_named_and_not_its_row() -> None:
    """Delta quotes the row."""
    said = "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint named (name <> 'x') violated by row with values:\n"
    error = describe_error(Exception(f"...DeltaInvariantViolationException: {said} - name : a-secret"), "j")
    assert (error.exit_code, "CHECK constraint 'named'" in str(error), "a-secret" in str(error)) == (3, True, False)
