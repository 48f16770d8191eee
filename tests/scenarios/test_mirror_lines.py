"""Every line of the mirror table of docs/semantics.md, with the expected rows written out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from differential import reader
from differential.columns import Column
from differential.engines import enrich_engine
from differential.generator import History, Window
from differential.lines import Line, play_lines, problems, put
from differential.spec import Mirror, Shape, Table, World
from differential.trial import Trial

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS = (Column("k", "key", "k"), Column("v", "key", "v"), Column("at", "order", "t"), Column("note", "text"))
MASTER = Table("master", ("k",), COLUMNS)
SINGLE = Table("single", ("k",), COLUMNS)


def _shape(name: str, conflict: str, **rules: Any) -> Shape:
    source = "single" if conflict == "fail" else "master"
    return Shape(name, source, ("v",), mirror=Mirror(("v",), conflict, **rules), change_feed=True)


FAIL, COLLECT = _shape("fail", "fail"), _shape("collect", "collect")
FIRST = _shape("first", "first", order="at", columns=("note",))
LAST = _shape("last", "last", order="at")
BY_KEY = _shape("by_key", "first")
WORLD = World("mirror_lines", (MASTER, SINGLE), (FAIL, FIRST, LAST, BY_KEY, COLLECT), {"k": (1, 1), "v": (1, 1)})


def _line(name: str, windows: list[list[dict[str, Any]]], **expected: list[Any]) -> Line:
    """Windows of commits of key -> value, (value, order), or None for a delete; without a clash ``fail`` plays too."""
    tables = ("master", "single") if "fail" in expected else ("master",)
    made: list[Window] = [
        [
            put(table, {key: _master(key, value) for key, value in commit.items()})
            for commit in window
            for table in tables
        ]
        for window in windows
    ]
    return Line(name, tuple(made), {shape: tuple(rows) for shape, rows in expected.items()})


def _master(key: str, value: Any) -> list[Any] | None:
    if value is None:
        return None
    value, order = value if isinstance(value, tuple) else (value, None)
    return [key, value, order, 1]


def _all(*windows: list[tuple[str, str]]) -> dict[str, list[Any]]:
    """The same pairs under every rule."""
    simple = list(windows)
    return {
        **dict.fromkeys(("fail", "last", "by_key"), simple),
        "first": [[(*pair, "x") for pair in rows] for rows in windows],
        "collect": [[(value, [key]) for value, key in rows] for rows in windows],
    }


NULL_VALUE = (None, 1)
LINES = [
    _line("one_pair", [[{"K1": "V1"}]], **_all([("V1", "K1")])),
    _line(
        "value_changes_and_the_old_one_is_gone",
        [[{"K1": "V1"}], [{"K1": "V2"}]],
        **_all([("V1", "K1")], [("V2", "K1")]),
    ),
    _line(
        "key_deleted",
        [[{"K1": "V1", "K2": "V2"}], [{"K1": None}]],
        **_all([("V1", "K1"), ("V2", "K2")], [("V2", "K2")]),
    ),
    _line("same_record_again", [[{"K1": "V1"}], [{"K1": "V1"}]], **_all([("V1", "K1")], [("V1", "K1")])),
    _line(
        "swap_in_one_batch",
        [[{"K1": "A", "K2": "B"}], [{"K1": "B", "K2": "A"}]],
        **_all([("A", "K1"), ("B", "K2")], [("B", "K1"), ("A", "K2")]),
    ),
    _line("there_and_back", [[{"K1": "A"}], [{"K1": "B"}, {"K1": "A"}]], **_all([("A", "K1")], [("A", "K1")])),
    _line("unknown_key_deleted", [[{"K1": "A"}], [{"K9": None}]], **_all([("A", "K1")], [("A", "K1")])),
    _line("value_null_has_no_row", [[{"K1": NULL_VALUE}], [{"K1": "A"}]], **_all([], [("A", "K1")])),
    _line("value_becomes_null", [[{"K1": "A"}], [{"K1": NULL_VALUE}]], **_all([("A", "K1")], [])),
    _line(
        "value_handed_over_in_one_batch",
        [[{"K1": "A"}], [{"K1": None, "K2": "A"}]],
        **_all([("A", "K1")], [("A", "K2")]),
    ),
    _line(
        "value_moves_along_a_chain",
        [[{"K1": "A", "K2": "B", "K3": "C"}], [{"K1": "B", "K2": "C", "K3": "D"}]],
        **_all([("A", "K1"), ("B", "K2"), ("C", "K3")], [("B", "K1"), ("C", "K2"), ("D", "K3")]),
    ),
    _line(
        "two_keys_one_value_by_order",
        [[{"K1": ("V", 5), "K2": ("V", 3), "K3": ("V", 4)}]],
        first=[[("V", "K2", "x")]],
        last=[[("V", "K1")]],
        by_key=[[("V", "K1")]],
        collect=[[("V", ["K1", "K2", "K3"])]],
    ),
    _line(
        "two_keys_one_value_tie_by_key",
        [[{"K2": ("V", 5), "K1": ("V", 5)}]],
        first=[[("V", "K1", "x")]],
        last=[[("V", "K2")]],
    ),
    _line(
        "null_order_loses_in_both",
        [[{"K1": "V", "K2": ("V", 3), "K3": "V"}], [{"K2": None}]],
        first=[[("V", "K2", "x")], [("V", "K1", "x")]],
        last=[[("V", "K2")], [("V", "K3")]],
    ),
    _line(
        "winner_leaves_and_the_other_takes_over",
        [[{"K1": ("V", 1), "K2": ("V", 2)}], [{"K2": ("W", 2), "K1": ("V", 1)}]],
        first=[[("V", "K1", "x")], [("V", "K1", "x"), ("W", "K2", "x")]],
        last=[[("V", "K2")], [("V", "K1"), ("W", "K2")]],
        collect=[[("V", ["K1", "K2"])], [("V", ["K1"]), ("W", ["K2"])]],
    ),
    _line(
        "winner_deleted_and_the_other_takes_over",
        [[{"K1": ("V", 1), "K2": ("V", 2)}], [{"K2": None}]],
        last=[[("V", "K2")], [("V", "K1")]],
        collect=[[("V", ["K1", "K2"])], [("V", ["K1"])]],
    ),
    _line(
        "all_that_have_the_value_deleted",
        [[{"K1": ("V", 1), "K2": ("V", 2)}], [{"K2": None}, {"K1": None}]],
        last=[[("V", "K2")], []],
        collect=[[("V", ["K1", "K2"])], []],
    ),
    _line(
        "only_the_order_changes_and_the_winner_with_it",
        [[{"K1": ("V", 1), "K2": ("V", 2)}], [{"K1": ("V", 3)}]],
        first=[[("V", "K1", "x")], [("V", "K2", "x")]],
        last=[[("V", "K2")], [("V", "K1")]],
        collect=[[("V", ["K1", "K2"])]] * 2,
    ),
]


@pytest.fixture(scope="module")
def trial(interpreted: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return play_lines(tmp_path_factory.mktemp("mirrors") / "p", WORLD, LINES, enrich_engine(interpreted))


def test_every_line_is_right(trial: Trial) -> None:
    wrong = {line.name: problems(trial, LINES, line) for line in LINES}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_conflict_fail_blocks_with_counts_and_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Two keys get one value: exit 3, the target stays; when one leaves, the next run publishes what has gathered."""
    world = World("fail", (SINGLE,), (FAIL,), {})
    windows: list[Window] = [
        [put("single", {"K1": ["K1", "A", 1, 1], "K2": ["K2", "B", 1, 1]})],
        [put("single", {"K3": ["K3", "A", 1, 1], "K4": ["K4", "C", 1, 1]})],
        [put("single", {"K1": None})],
    ]
    trial = Trial(tmp_path / "p", world, [History(tuple(windows))], enrich_engine(spark), style="merge")
    target = tmp_path / "p" / "lake" / "fail"
    trial.write(0)
    trial.run(0, {0})
    trial.write(1)
    version = reader.version(target)
    (report,) = trial.engine(trial.base, ["fail"])["jobs"]
    assert report["status"] == "blocked"
    assert reader.version(target) == version
    (finding,) = [f for f in report["findings"] if f["action"] == "fail"]
    assert (finding["success"], finding["failed"] > 0) == (False, True)
    assert (report["inserted"], report["updated"], report["deleted"]) == (0, 0, 0)
    trial.write(2)
    trial.run(2, {0})
    assert not trial.failures, trial.failures[0]
    assert len(reader.rows(target)) == 3
