"""Every cell of: old foreign key x new foreign key x change of the looked-up row x how x one or two windows.

``x`` is the row that changes, ``y`` is always there, ``z`` never. All cells of all hows are histories of one project:
three runs of four jobs. Each cell is compared with two references after every run, the target's change feed as well
(one change per key, none that changes nothing); after one window ``x`` changes once more, which must not touch rows
that left it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from differential.columns import Column
from differential.engines import enrich_engine
from differential.generator import History, Op
from differential.spec import Join, Shape, Table, World, col
from differential.trial import Trial
from scenarios.matrix import assert_cells

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = ("no_row", "null", "x", "y", "z")
CHANGES = ("unchanged", "inserted", "updated", "updated_unused", "deleted")
WINDOWS = ("one_window", "left_then_lookup", "lookup_then_left")
HOWS = ("inner", "left", "right", "full")

PRODUCTS = Table("products", ("p",), (Column("p", "key", "p"), Column("title", "text"), Column("m", "key", "m")))
MERCHANTS = Table("merchants", ("m",), (Column("m", "key", "m"), Column("name", "text"), Column("idle", "int")))


def _shape(how: str) -> Shape:
    return Shape(
        f"fk_{how}",
        "products",
        ("p",),
        ("m_id",) if how in ("right", "full") else (),
        joins={"merchants": Join("merchants", "foreign_key", how, (col("products.m"),))},
        select={
            name: col(path)
            for name, path in {
                "p": "products.p",
                "title": "products.title",
                "m": "products.m",
                "m_id": "merchants.m",
                "name": "merchants.name",
            }.items()
        },
        change_feed=True,
    )


WORLD = World("matrix", (PRODUCTS, MERCHANTS), tuple(map(_shape, HOWS)), {"p": (1, 1), "m": (3, 3)})


@dataclass(frozen=True)
class Cell:
    old: str
    new: str
    change: str
    windows: str

    def __str__(self) -> str:
        return f"{self.old}_to_{self.new}-lookup_{self.change}-{self.windows}"

    def history(self) -> History:
        first = [*_left(None, self.old), ["merchants", 2, ["y", 2, 0]]]
        if self.change != "inserted":
            first.append(["merchants", 1, ["x", 1, 0]])
        left, lookup = _left(self.old, self.new), self._lookup()
        again: list[Op] = [] if self.change == "deleted" else [["merchants", 1, ["x", 4, 1]]]
        later = [[[op] for op in (*left, *lookup)], [again]]
        if self.windows == "left_then_lookup":
            later = [[left], [lookup]]
        elif self.windows == "lookup_then_left":
            later = [[lookup], [left]]
        return History(tuple([c for c in window if c] for window in ([first], *later)))

    def _lookup(self) -> list[Op]:
        rows: dict[str, Any] = {"inserted": ["x", 1, 0], "updated": ["x", 3, 0], "updated_unused": ["x", 1, 1]}
        if self.change == "unchanged":
            return []
        return [["merchants", 1, rows.get(self.change)]]


def _left(old: str | None, new: str) -> list[Op]:
    """The left row with the foreign key ``new``; a new fk alone changes, so that an unchanged one is no operation."""
    if old == new or (old is None and new == "no_row"):
        return []
    return [["products", 1, None if new == "no_row" else ["p", 1, None if new == "null" else new]]]


CELLS = [Cell(*parts) for parts in product(KEYS, KEYS, CHANGES, WINDOWS)]


@pytest.fixture(scope="module")
def trial(interpreted: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    base = tmp_path_factory.mktemp("matrix") / "p"
    played = Trial(base, WORLD, [cell.history() for cell in CELLS], enrich_engine(interpreted), style="merge")
    played.play()
    return played


def test_every_cell_was_played(trial: Trial) -> None:
    assert len(CELLS) == 5 * 5 * 5 * 3
    assert trial.tally.history_runs == len(CELLS) * len(HOWS) * 3
    assert trial.tally.change_feed_rows > len(CELLS)


@pytest.mark.parametrize("how", HOWS)
def test_every_cell_is_right(how: str, trial: Trial) -> None:
    assert_cells(trial, f"fk_{how}", {str(cell): expected(how, cell) for cell in CELLS})


def expected(how: str, cell: Cell) -> list[dict[str, Any]]:
    """The rows of a cell after the last change, read off the table of docs/semantics.md."""
    changed_last = "caf\u00e9" if cell.windows == "one_window" else {"updated": "null"}.get(cell.change, "x")
    names = {"y": "y", "x": changed_last}
    lookups = {"y"} if cell.change == "deleted" else {"x", "y"}
    rows = []
    fk = None if cell.new in ("no_row", "null") else cell.new
    if cell.new != "no_row" and (fk in lookups or how in ("left", "full")):
        match = fk if fk in lookups else None
        rows.append({"p": "p", "title": "x", "m": fk, "m_id": match, "name": match and names[match]})
    if how in ("right", "full"):
        alone = {"p": None, "title": None, "m": None}
        rows += [{**alone, "m_id": key, "name": names[key]} for key in sorted(lookups) if key != fk]
    return rows
