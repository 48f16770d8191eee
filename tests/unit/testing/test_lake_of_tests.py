"""The lake of tests: delta-rs writes it, so that no JVM is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from enrich.base.errors import ConfigError
from enrich.storage.tables import read_state
from enrich.testing import Lake
from enrich.testing.lake import CommitRefused

ROWS = """
    Id | n: bigint | tags: array<string>
    a  | 1         | [x, y]
    b  | null      | null
"""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.create("t", "Id", ROWS)
    return lake


def test_a_table_from_text_has_types_and_a_change_feed(lake: Lake) -> None:
    assert read_state(lake.path("t")).has_change_feed
    assert list((lake.columns("t") or {}).items())[:2] == [("Id", "string"), ("n", "long")]
    lake.assert_rows("t", ["Id"], ROWS.replace(": bigint", "").replace(": array<string>", ""))


def test_other_systems_commit(lake: Lake) -> None:
    lake.upsert("t", "Id | n\n a | 2\n c | 3")
    lake.update("t", "Id | n\n b | 4")
    lake.insert("t", "Id | n\n c | 5")
    lake.delete("t", ["a"])
    lake.assert_rows("t", [], "Id | n | tags\n b | 4 | null\n c | 3 | null\n c | 5 | null")
    assert read_state(lake.path("t")).version == 4


def test_an_update_leaves_the_other_columns(lake: Lake) -> None:
    lake.update("t", "Id | n\n a | 7")
    assert {"Id": "a", "n": 7, "tags": ["x", "y"]} in lake.rows("t")


def test_keys_of_several_columns(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.create("t", ["a", "b"], "a | b: int | c\n x | 1 | p\n x | 2 | q")
    lake.upsert("t", "a | b | c\n x | 2 | r")
    lake.delete("t", [{"a": "x", "b": 1}])
    assert lake.rows("t") == [{"a": "x", "b": 2, "c": "r"}]


@pytest.mark.parametrize(
    ("verb", "text", "message"),
    [
        ("update", "Id | n\n zz | 1", "1 of 1 keys are not in the table"),
        ("upsert", "Id | n\n a | 1\n a | 2", "two rows of one upsert have the same key"),
    ],
)
def test_a_commit_that_means_nothing_is_refused(lake: Lake, verb: str, text: str, message: str) -> None:
    with pytest.raises(CommitRefused, match=message):
        getattr(lake, verb)("t", text)
    with pytest.raises(CommitRefused, match="1 of 2 keys"):
        lake.delete("t", ["a", "zz"])


def test_wrong_texts_name_the_line(lake: Lake) -> None:
    with pytest.raises(ConfigError, match="t:3: column 'n': 'x' is not a whole number"):
        lake.upsert("t", "\nId | n\na | x")
    with pytest.raises(ConfigError, match="has no column 'm'"):
        lake.upsert("t", "Id | m\na | x")
    with pytest.raises(ConfigError, match="create it first"):
        lake.upsert("u", "Id | m\na | x")


def test_a_differing_table_fails_with_both_sides(lake: Lake) -> None:
    with pytest.raises(AssertionError, match=r"!= Id=a n=>2< \| Id=a n=>1<"):
        lake.assert_rows("t", ["Id"], "Id | n | tags\n a | 2 | [x, y]\n b | null | null")
    with pytest.raises(AssertionError, match="not in both the table and the text: tags"):
        lake.assert_rows("t", ["Id"], "Id | n\n a | 2")
    with pytest.raises(AssertionError, match="there is no table 'u'"):
        lake.assert_rows("u", ["Id"], "Id\na")


def test_a_table_that_does_not_exist_has_no_rows(lake: Lake) -> None:
    assert lake.rows("u") == []
    assert lake.columns("u") is None
