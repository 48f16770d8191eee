"""Compare two sets of rows, all columns, and say which histories differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from differential.columns import history_of
from differential.spec import Row


def canonical(cell: Any) -> Any:
    """Return a hashable form of a cell in which equal cells are equal: NaN is NaN, -0.0 is 0.0, maps have no order."""
    if cell is None or isinstance(cell, str | bool | int | bytes):
        return (type(cell).__name__, cell)
    if isinstance(cell, float):
        return ("float", "nan") if math.isnan(cell) else ("float", cell + 0.0)
    if isinstance(cell, datetime):
        return ("datetime", (cell if cell.tzinfo else cell.replace(tzinfo=UTC)).astimezone(UTC))
    if isinstance(cell, dict):
        return ("struct", tuple((name, canonical(value)) for name, value in cell.items()))
    if isinstance(cell, list):
        if cell and all(isinstance(item, tuple) for item in cell):
            return ("map", frozenset((canonical(k), canonical(v)) for k, v in cell))
        return ("list", tuple(canonical(item) for item in cell))
    return (type(cell).__name__, cell)


def canonical_row(row: Row, columns: Sequence[str], maps: frozenset[str] = frozenset()) -> tuple[Any, ...]:
    """Return ``row`` as a hashable tuple in the order of ``columns``; ``maps`` names the columns that hold maps."""
    cells = []
    for name in columns:
        cell = row[name]
        if name in maps and cell is not None:
            cell = list(cell.items()) if isinstance(cell, dict) else cell
            cells.append(("map", frozenset((canonical(k), canonical(v)) for k, v in cell)))
        else:
            cells.append(canonical(cell))
    return tuple(cells)


def difference(expected: Counter[Any], found: Counter[Any]) -> tuple[list[Any], list[Any]]:
    """Return (missing, surplus) rows, with multiplicity."""
    return list((expected - found).elements()), list((found - expected).elements())


def histories_in(rows: Iterable[tuple[Any, ...]], places: Sequence[int]) -> set[int | None]:
    """Return the numbers of the histories that canonical ``rows`` belong to, by their key cells at ``places``."""
    found: set[int | None] = set()
    for row in rows:
        numbers = [history_of(row[place][1]) for place in places]
        found.add(next((number for number in numbers if number is not None), None))
    return found
