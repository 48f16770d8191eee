"""The lake of tests: delta-rs writes it, so that no JVM is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enrich.base.errors import ConfigError
from enrich.delta.tables import read_state
from enrich.testing import Lake
from enrich.testing.lake import CommitRefused

ROWS: list[dict[str, Any]] = [{"Id": "a", "n": 1, "tags": ["x", "y"]}, {"Id": "b", "n": None, "tags": None}]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.create("t", "Id", {"Id": "string", "n": "bigint", "tags": "array<string>"}, ROWS)
    return lake


def test_a_table_has_types_and_a_change_feed(lake: Lake) -> None:
    assert read_state(lake.path("t")).has_change_feed
    assert list((lake.columns("t") or {}).items())[:2] == [("Id", "string"), ("n", "long")]
    lake.assert_rows("t", ["Id"], ROWS)


def test_other_systems_commit(lake: Lake) -> None:
    lake.upsert("t", [{"Id": "a", "n": 2}, {"Id": "c", "n": 3}])
    lake.update("t", [{"Id": "b", "n": 4}])
    lake.insert("t", [{"Id": "c", "n": 5}])
    lake.delete("t", ["a"])
    lake.assert_rows("t", [], [{"Id": each, "n": n, "tags": None} for each, n in (("b", 4), ("c", 3), ("c", 5))])
    assert read_state(lake.path("t")).version == 4


def test_an_update_leaves_the_other_columns(lake: Lake) -> None:
    lake.update("t", [{"Id": "a", "n": 7}])
    assert {"Id": "a", "n": 7, "tags": ["x", "y"]} in lake.rows("t")


def test_keys_of_several_columns(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    columns = {"a": "string", "b": "int", "c": "string"}
    lake.create("t", ["a", "b"], columns, [{"a": "x", "b": 1, "c": "p"}, {"a": "x", "b": 2, "c": "q"}])
    lake.upsert("t", [{"a": "x", "b": 2, "c": "r"}])
    lake.delete("t", [{"a": "x", "b": 1}])
    assert lake.rows("t") == [{"a": "x", "b": 2, "c": "r"}]


@pytest.mark.parametrize(
    ("verb", "rows", "message"),
    [
        ("update", [{"Id": "zz", "n": 1}], "1 of 1 keys are not in the table"),
        ("upsert", [{"Id": "a"}, {"Id": "a", "n": 2}], "two rows of one upsert have the same key"),
    ],
)
def test_a_commit_that_means_nothing_is_refused(
    lake: Lake, verb: str, rows: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(CommitRefused, match=message):
        getattr(lake, verb)("t", rows)
    with pytest.raises(CommitRefused, match="1 of 2 keys"):
        lake.delete("t", ["a", "zz"])


def test_wrong_rows_are_named(lake: Lake) -> None:
    with pytest.raises(ConfigError, match="t, row 1: column 'n': 'x' is not a whole number"):
        lake.upsert("t", [{"Id": "a", "n": "x"}])
    with pytest.raises(ConfigError, match="has no column 'm'"):
        lake.upsert("t", [{"Id": "a", "m": "x"}])
    with pytest.raises(ConfigError, match="create it first"):
        lake.upsert("u", [{"Id": "a"}])


def test_a_differing_table_fails_with_both_sides(lake: Lake) -> None:
    with pytest.raises(AssertionError, match=r"!= Id=a n=>2< \| Id=a n=>1<"):
        lake.assert_rows("t", ["Id"], [{**ROWS[0], "n": 2}, ROWS[1]])
    with pytest.raises(AssertionError, match="there is no table 'u'"):
        lake.assert_rows("u", ["Id"], [{"Id": "a"}])


def test_a_table_that_does_not_exist_has_no_rows(lake: Lake) -> None:
    assert lake.rows("u") == []
    assert lake.columns("u") is None
