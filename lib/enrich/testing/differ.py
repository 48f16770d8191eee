"""Draw a failing comparison: expected and found beside each other, rows aligned by key, differing cells marked.

    >>> print(side_by_side([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], [{"id": 1, "name": "x"}], key=["id"]))
    2 of 2 rows differ, aligned by id; cells between > and < differ
         expected       | found
      != id=1 name=>a<  | id=1 name=>x<
      -- id=2 name=b    | (no such row)

``!=`` marks rows that differ, ``--`` rows that are missing, ``++`` rows that are surplus. Columns that are the same in
all these rows are left out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from enrich.project.yamlfile import resolve_scalar

Row = Mapping[str, Any]
_ABSENT = object()
_SHOWN_CELL = 60


def canonical(cell: Any) -> Any:
    """Return a hashable form of a cell in which equal cells are equal: NaN is NaN, -0.0 is 0.0, maps have no order."""
    if cell is None or isinstance(cell, str | bool | int | bytes):
        return (type(cell).__name__, cell)
    if isinstance(cell, float):
        return ("float", "nan") if math.isnan(cell) else ("float", cell + 0.0)
    if isinstance(cell, datetime):
        return ("datetime", (cell if cell.tzinfo else cell.replace(tzinfo=UTC)).astimezone(UTC))
    if isinstance(cell, Mapping):
        return ("struct", tuple((name, canonical(value)) for name, value in cell.items()))
    if isinstance(cell, list | tuple):
        if cell and all(isinstance(item, tuple) for item in cell):
            return ("map", frozenset((canonical(k), canonical(v)) for k, v in cell))
        return ("list", tuple(canonical(item) for item in cell))
    return (type(cell).__name__, cell)


def assert_same_rows(expected: Iterable[Row], found: Iterable[Row], key: Sequence[str], *, limit: int = 20) -> None:
    """Compare two tables as multisets of rows; where they differ, fail with the picture."""
    picture = side_by_side(expected, found, key, limit=limit)
    if picture:
        raise AssertionError(picture)


def side_by_side(expected: Iterable[Row], found: Iterable[Row], key: Sequence[str], *, limit: int = 20) -> str:
    """Return a picture of the rows that differ; an empty text when none does.

    Args:
        expected: The rows that there should be, column -> cell.
        found: The rows that there are.
        key: The columns by which rows are aligned. Rows with one key are aligned in the order in which they come.
        limit: How many differing rows are shown.
    """
    pairs = [(left, right, _find_differing(left, right)) for left, right in _pair_rows(expected, found, key)]
    differing = [pair for pair in pairs if pair[2] != []]
    if not differing:
        return ""
    shown = differing[:limit]
    marked = [name for *_, cells in shown for name in cells or ()]
    if not marked:  # no pair tells what is worth seeing: show all
        marked = [name for left, right, _ in shown for name in (left if left is not None else right or ())]
    names = list(dict.fromkeys([*key, *marked]))
    lines = [
        (
            "!=" if cells is not None else "++" if left is None else "--",
            *(_write_row(row, names, cells or ()) for row in (left, right)),
        )
        for left, right, cells in shown
    ]
    width = max(len("expected"), *(len(left) for _, left, _ in lines))
    by = f", aligned by {', '.join(key)}" if key else ""
    picture = [f"{len(differing)} of {len(pairs)} rows differ{by}; cells between > and < differ"]
    picture.append(f"     {'expected':<{width}} | found")
    picture += [f"  {mark} {left:<{width}} | {right}".rstrip() for mark, left, right in lines]
    if len(differing) > limit:
        picture.append(f"  ... and {len(differing) - limit} more")
    return "\n".join(picture)


def _pair_rows(
    expected: Iterable[Row], found: Iterable[Row], key: Sequence[str]
) -> Iterator[tuple[Row | None, Row | None]]:
    """Yield the rows aligned by their key; rows that are the same come first among those with one key."""
    by_key: dict[Any, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((expected, found)):
        for row in rows:
            by_key[tuple(canonical(row.get(name)) for name in key)][side].append(row)
    for _, (lefts, rights) in sorted(by_key.items(), key=lambda each: repr(each[0])):
        alone = []
        for left in lefts:
            place = next((at for at, right in enumerate(rights) if _find_differing(left, right) == []), None)
            if place is None:
                alone.append(left)
            else:
                yield left, rights.pop(place)
        yield from zip_longest(alone, rights)


def _find_differing(left: Row | None, right: Row | None) -> list[str] | None:
    """Return the columns in which two rows differ; None where one of them is not there."""
    if left is None or right is None:
        return None
    both = {**left, **right}
    return [name for name in both if canonical(left.get(name, _ABSENT)) != canonical(right.get(name, _ABSENT))]


def _write_row(row: Row | None, names: Sequence[str], differing: Sequence[str]) -> str:
    if row is None:
        return "(no such row)"
    cells = [(name, show_cell(row.get(name, _ABSENT))) for name in names]
    return " ".join(f"{name}=>{text}<" if name in differing else f"{name}={text}" for name, text in cells)


def show_cell(cell: Any) -> str:
    """Return a cell as YAML would have it, cut after 60 characters."""
    if cell is _ABSENT:
        return "(no such column)"
    text = write_cell(cell)
    return text if len(text) <= _SHOWN_CELL else f"{text[:_SHOWN_CELL]}... ({len(text)} characters)"


def write_cell(cell: Any) -> str:
    """Return a cell as YAML would have it: ``null``, ``[a, {b: true}]``; a text that would not be one, in quotes."""
    if cell is None:
        return "null"
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, Mapping):
        return f"{{{', '.join(f'{name}: {write_cell(value)}' for name, value in cell.items())}}}"
    if isinstance(cell, list | tuple):
        if cell and all(isinstance(item, tuple) for item in cell):  # a map, as Arrow gives it
            return f"{{{', '.join(f'{write_cell(key)}: {write_cell(value)}' for key, value in cell)}}}"
        return f"[{', '.join(map(write_cell, cell))}]"
    if isinstance(cell, str):
        is_plain = cell.isprintable() and cell.strip() == cell and isinstance(resolve_scalar(cell), str)
        return cell if is_plain else repr(cell)
    return str(cell)
