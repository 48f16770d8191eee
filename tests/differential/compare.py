"""Compare two sets of rows, all columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from differential.spec import Row
from enrich.testing.differ import canonical


def canonical_row(row: Row, columns: Sequence[str], maps: frozenset[str] = frozenset()) -> tuple[Any, ...]:
    """Return ``row`` as a hashable tuple in the order of ``columns``; ``maps`` names the columns that hold maps.

    A row lacks the columns that its table gained after it was read: they are null in it.
    """
    cells = []
    for name in columns:
        cell = row.get(name)
        if name in maps and cell is not None:
            cell = list(cell.items()) if isinstance(cell, dict) else cell
            cells.append(("map", frozenset((canonical(k), canonical(v)) for k, v in cell)))
        else:
            cells.append(canonical(cell))
    return tuple(cells)


def difference(expected: Counter[Any], found: Counter[Any]) -> tuple[list[Any], list[Any]]:
    """Return (missing, surplus) rows, with multiplicity."""
    return list((expected - found).elements()), list((found - expected).elements())
