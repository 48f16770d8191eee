"""The picture of a failing comparison."""

from __future__ import annotations

from typing import Any

import pytest

from enrich.testing.differ import assert_same_rows, side_by_side


def test_rows_are_aligned_by_key_and_differing_cells_marked() -> None:
    expected = [
        {"id": 1, "name": "a", "size": 1},
        {"id": 2, "name": "b", "size": 2},
        {"id": 3, "name": "c", "size": 3},
        {"id": 5, "name": " e", "size": None},
    ]
    found = [
        {"id": 4, "name": "d", "size": 4},
        {"id": 5, "name": "e", "size": None},
        {"id": 1, "name": "x", "size": 1},
        {"id": 2, "name": "b", "size": 2},
    ]
    assert side_by_side(expected, found, ["id"]).splitlines() == [
        "4 of 5 rows differ, aligned by id; cells between > and < differ",
        "     expected         | found",
        "  != id=1 name=>a<    | id=1 name=>x<",
        "  -- id=3 name=c      | (no such row)",
        "  ++ (no such row)    | id=4 name=d",
        "  != id=5 name=>' e'< | id=5 name=>e<",
    ]


def test_a_column_that_one_side_lacks_differs() -> None:
    picture = side_by_side([{"id": 1}], [{"id": 1, "name": None}], ["id"])
    assert picture.splitlines()[-1] == "  != id=1 name=>(no such column)< | id=1 name=>null<"


def test_equal_is_what_the_engine_calls_equal() -> None:
    rows: list[dict[str, Any]] = [{"id": None, "x": float("nan")}, {"id": 1, "x": -0.0}, {"id": 1, "x": -0.0}]
    assert side_by_side(rows, [{**row, "x": row["x"] + 0.0} for row in reversed(rows)], ["id"]) == ""
    assert_same_rows(rows, rows, ["id"])


def test_copies_of_a_row_count() -> None:
    row = {"id": 1, "x": "a"}
    with pytest.raises(AssertionError, match=r"1 of 2 rows differ(.|\n)*-- id=1 x=a"):
        assert_same_rows([row, row], [row], ["id"])


def test_a_long_picture_is_cut() -> None:
    rows = [{"id": number, "text": "x" * 200} for number in range(30)]
    picture = side_by_side(rows, [], ["id"], limit=3)
    assert picture.endswith("... and 27 more")
    assert "... (200 characters)" in picture


def test_cells_are_shown_as_yaml_has_them() -> None:
    row = {
        "id": 1,
        "a": None,
        "b": True,
        "c": "7",
        "d": 7,
        "e": ["x", None],
        "f": {"g": "y"},
        "h": [("k", False)],
        "i": "",
    }
    picture = side_by_side([], [row], ["id"])
    assert picture.splitlines()[-1].split(" | ")[1] == (
        "id=1 a=null b=true c='7' d=7 e=[x, null] f={g: y} h={k: false} i=''"
    )
