"""Every line of the table-join table to every other, x how, in one batch and in several, for every type of key.

Lines: ``l_r`` both sides, ``l_only``, ``r_only``, ``neither``. Text keys play under every ``how``; the other types
under ``full``, whose target tells all four lines apart: together, as columns of a composite key that begins with a
text, and in the soak each alone, too, a text as well. All cells, and beside them keys that look like something else and
keys that are null, are histories of one project: three runs of four jobs.
The last part has source columns with dots, blanks and unicode in their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from differential.columns import TAGS, Column
from differential.engines import enrich_engine
from differential.generator import Commit, History, Op
from differential.spec import Join, Shape, Table, World, col
from differential.trial import Trial, play
from faults.shop import SOAK
from scenarios.matrix import assert_cells

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES = ("l_r", "l_only", "r_only", "neither")
BATCHES = (
    "one_batch",
    "one_batch_two_commits",
    "left_then_right",
    "right_then_left",
    "through_neither",
    "through_both",
)
HOWS = ("inner", "left", "right", "full")
SINGLE = ("int", "long", "decimal", "date", "ts", "binary")
TYPES = ("text", *(SINGLE if SOAK else ()), "composite")
PARTS = (
    Column("j", "code", "k"),
    *(Column(f"k_{type_}", "ikey" if type_ == "long" else f"key_{type_}", "k") for type_ in SINGLE),
)
"""What a composite key has beside a text: a code, and a column of every other type."""
ONES = [1 for _ in PARTS]
KINDS = {"text": "key", "long": "ikey", "composite": "key"}


def _tables(type_: str) -> tuple[Table, Table]:
    kind = KINDS.get(type_, f"key_{type_}")
    key = (Column("k", kind, "k"), *(PARTS if type_ == "composite" else ()))
    names = tuple(column.name for column in key)
    left = Table(f"l_{type_}", names, (*key, Column("a", "text"), Column("idle", "int")))
    right = Table(f"r_{type_}", names, (*key, Column("b", "text")))
    return left, right


def _shape(type_: str, how: str) -> Shape:
    left, right = f"l_{type_}", f"r_{type_}"
    keys = ("k", *(part.name for part in PARTS)) if type_ == "composite" else ("k",)
    paths = {"k": "key"} if len(keys) == 1 else {name: f"key.{name}" for name in keys}
    paths |= {"l_id": f"{left}.k", "r_id": f"{right}.k", "a": f"{left}.a", "b": f"{right}.b"}
    joins = {right: Join(right, "table", how)}
    select = {name: col(path) for name, path in paths.items()}
    return Shape(f"{type_}_{how}", left, keys, joins=joins, select=select, change_feed=type_ in ("text", "composite"))


SHAPES = (
    *(_shape("text", how) for how in HOWS if SOAK or how != "full"),
    *(_shape(type_, "full") for type_ in TYPES[1:]),
)
WORLD = World("table_matrix", tuple(table for type_ in TYPES for table in _tables(type_)), SHAPES, {"k": (1, 1)})


@dataclass(frozen=True)
class Cell:
    old: str
    new: str
    batches: str

    def __str__(self) -> str:
        return f"{self.old}_to_{self.new}-{self.batches}"

    def history(self) -> History:
        first = [op for type_ in TYPES for op in _sides(type_, None, self.old)]
        windows: list[list[Commit]] = [[], []]
        for type_ in TYPES:
            for window, commits in zip(windows, self._later(type_), strict=True):
                window.extend(commits)
        return History(([first], *windows))

    def _later(self, type_: str) -> tuple[list[Commit], list[Commit]]:
        changes = _sides(type_, self.old, self.new)
        left = [op for op in changes if op[0].startswith("l_")]
        right = [op for op in changes if op[0].startswith("r_")]
        if self.batches.startswith("through_"):
            middle = "neither" if self.batches == "through_neither" else "l_r"
            return [_sides(type_, self.old, middle)], [_sides(type_, middle, self.new)]
        return {
            "one_batch": ([changes], []),
            "one_batch_two_commits": ([right, left], []),
            "left_then_right": ([left], [right]),
            "right_then_left": ([right], [left]),
        }[self.batches]


def _sides(type_: str, old: str | None, new: str) -> list[Op]:
    """The operations from one line to another; a side that stays takes a new value."""
    ops: list[Op] = []
    key: list[Any] = ["k", *ONES] if type_ == "composite" else ["k" if type_ == "text" else 1]
    value = 1 if old is None else 2
    for side, there in (("l", ("l_r", "l_only")), ("r", ("l_r", "r_only"))):
        if new in there:
            ops.append([f"{side}_{type_}", 1, [*key, value, 0] if side == "l" else [*key, value]])
        elif old in there:
            ops.append([f"{side}_{type_}", 1, None])
    return ops


CELLS = [Cell(*parts) for parts in product(LINES, LINES, BATCHES)]


def _odd_keys() -> list[History]:
    """Every tag alone through both -> left -> right; and all at once, where half have a partner, then the others."""
    alone = [
        History(
            (
                [[["l_text", 1, [tag, 1, 0]], ["r_text", 1, [tag, 1]]]],
                [[["r_text", 1, None]]],
                [[["r_text", 1, [tag, 2]], ["l_text", 1, None]]],
            )
        )
        for tag in TAGS
    ]
    lefts: Commit = [["l_text", rid, [tag, 1, 0]] for rid, tag in enumerate(TAGS)]
    even: Commit = [["r_text", rid, [tag, 1]] for rid, tag in enumerate(TAGS) if rid % 2 == 0]
    odd: Commit = [["r_text", rid, [tag, 2]] for rid, tag in enumerate(TAGS) if rid % 2]
    gone: Commit = [["r_text", rid, None] for rid, _ in enumerate(TAGS) if rid % 2 == 0]
    return [*alone, History(([lefts, even], [odd, gone], [[["l_text", rid, None] for rid, _ in enumerate(TAGS)]]))]


def _null_keys() -> list[History]:
    """Several rows with a null key, or a null in a part of it, on both sides, beside rows with that other part."""
    nulls: Commit = [
        *([side, rid, [None, 1, *rest]] for side, rest in (("l_text", [0]), ("r_text", [])) for rid in (1, 2)),
        *(
            [side, rid, [None, *ONES, 1, *rest]]
            for side, rest in (("l_composite", [0]), ("r_composite", []))
            for rid in (1, 2)
        ),
        *([side, 3, ["k", None, *ONES[1:], 1, *rest]] for side, rest in (("l_composite", [0]), ("r_composite", []))),
    ]
    keyed: Commit = [
        *([side, 4, ["k", 1, *rest]] for side, rest in (("l_text", [0]), ("r_text", []))),
        *([side, 4, ["k", *ONES, 1, *rest]] for side, rest in (("l_composite", [0]), ("r_composite", []))),
    ]
    healed: Commit = [["l_text", 1, ["n", 1, 0]], ["r_text", 1, ["n", 1]]]
    healed.append(["l_composite", 3, ["k", 2, *ONES[1:], 1, 0]])
    lost: Commit = [["l_text", 4, [None, 1, 0]], ["r_composite", 4, [None, None, *ONES[1:], 1]]]
    return [
        History(([nulls], [keyed], [healed])),
        History(([nulls, keyed], [lost], [healed])),
        History(([keyed], [nulls], [lost])),
    ]


MORE = {"keys that look like something else": _odd_keys(), "null keys": _null_keys()}
"""Histories that are played beside the cells, and compared with the references alone."""


@pytest.fixture(scope="module")
def trial(interpreted: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    base = tmp_path_factory.mktemp("matrix") / "p"
    histories = [*(cell.history() for cell in CELLS), *(each for more in MORE.values() for each in more)]
    played = Trial(base, WORLD, histories, enrich_engine(interpreted), style="merge")
    played.play()
    return played


def test_every_cell_was_played(trial: Trial) -> None:
    assert trial.tally.history_runs == len(trial.histories) * len(SHAPES) * 3
    assert len(trial.histories) > len(LINES) ** 2 * len(BATCHES) + len(TAGS)


@pytest.mark.parametrize("shape", [shape.name for shape in SHAPES])
def test_every_cell_is_right(shape: str, trial: Trial) -> None:
    _, how = shape.rsplit("_", 1)
    wanted = {
        str(cell): [{"left": left, "right": right, "key is its": True} for left, right in expected(how, cell.new)]
        for cell in CELLS
    }
    assert_cells(trial, shape, wanted, view=_sides_of, others=[name for name, more in MORE.items() for _ in more])


def _sides_of(row: dict[str, Any]) -> dict[str, Any]:
    """Which sides a target row has, and whether its key is theirs."""
    left, right = row["l_id"] is not None, row["r_id"] is not None
    return {"left": left, "right": right, "key is its": row["k"] == row["l_id" if left else "r_id"]}


def expected(how: str, line: str) -> list[tuple[bool, bool]]:
    """Which sides the target row has, read off the table of docs/semantics.md."""
    sides = {"l_r": (True, True), "l_only": (True, False), "r_only": (False, True)}
    kept = {"inner": ("l_r",), "left": ("l_r", "l_only"), "right": ("l_r", "r_only"), "full": LINES}[how]
    return [sides[line]] if line in kept and line in sides else []


ODD_LEFT = Table(
    "odd_left",
    ("kunden nr.",),
    (
        *(Column("kunden nr.", "key", "k"), Column("e-mail.addr", "text"), Column("größe", "int")),
        *(Column("a.b", "text"), Column("select", "text"), Column("it's", "text")),
    ),
)
ODD_RIGHT = Table(
    "odd_right", ("ключ",), (Column("ключ", "key", "k"), Column("e\u0301", "text"), Column("100%", "int"))
)


def _odd_shape() -> Shape:
    paths = {
        "id.nr": "key",
        "größe": "l.`größe`",
        "mail.x": "l.`e-mail.addr`",
        "a.b": "l.`a.b`",
        "select": "l.`select`",
        "its": "l.`it's`",
        "é": "r.`e\u0301`",
        "100%": "r.`100%`",
    }
    select = {name: col(path) for name, path in paths.items()}
    joins = {"r": Join(ODD_RIGHT.name, "table", "full")}
    return Shape("odd_full", ODD_LEFT.name, ("id.nr",), joins=joins, select=select, alias="l", change_feed=True)


ODD = World("odd", (ODD_LEFT, ODD_RIGHT), (_odd_shape(),), {"k": (1, 1)})


def test_source_columns_with_dots_blanks_and_unicode_in_their_names(interpreted: SparkSession, tmp_path: Path) -> None:
    left, right = ["k", 1, 1, 2, 3, 4], ["k", 1, 2]
    moves = product((None, left), (None, right), (None, left, ["k", 2, 1, 2, 3, 5]), (None, right, ["k", 3, 1]))
    histories = [
        History(
            ([_present("odd_left", 1, a), _present("odd_right", 1, b)], [[["odd_left", 1, c], ["odd_right", 1, d]]])
        )
        for a, b, c, d in moves
    ]
    tally, failures = play(tmp_path / "p", ODD, histories, enrich_engine(interpreted))
    assert not failures, failures[0]
    assert tally.rows_compared > len(histories)


def _present(table: str, rid: int, row: list[Any] | None) -> Commit:
    return [] if row is None else [[table, rid, row]]
