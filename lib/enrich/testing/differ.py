"""A failing comparison as a picture: expected and found beside each other, rows aligned by key, differing cells marked.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from enrich.config.yamlfile import resolve_scalar

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
    pairs = _pair_rows(list(expected), list(found), key)
    differing = [pair for pair in pairs if _differ(*pair)]
    if not differing:
        return ""
    shown = differing[:limit]
    names = _columns(shown, key)
    lines = [(_mark(*pair), *_texts(*pair, names)) for pair in shown]
    width = max(len("expected"), *(len(left) for _, left, _ in lines))
    by = f", aligned by {', '.join(key)}" if key else ""
    picture = [f"{len(differing)} of {len(pairs)} rows differ{by}; cells between > and < differ"]
    picture.append(f"     {'expected':<{width}} | found")
    picture += [f"  {mark} {left:<{width}} | {right}".rstrip() for mark, left, right in lines]
    if len(differing) > limit:
        picture.append(f"  ... and {len(differing) - limit} more")
    return "\n".join(picture)


def _pair_rows(expected: list[Row], found: list[Row], key: Sequence[str]) -> list[tuple[Row | None, Row | None]]:
    """Align the rows by their key; rows that are the same come first among those with one key."""
    ours, theirs = _by_key(expected, key), _by_key(found, key)
    pairs: list[tuple[Row | None, Row | None]] = []
    for each in sorted(ours.keys() | theirs.keys(), key=repr):
        lefts, rights = ours.get(each, []), theirs.get(each, [])
        alone = []
        for left in lefts:
            place = next((place for place, right in enumerate(rights) if not _differ(left, right)), None)
            if place is None:
                alone.append(left)
            else:
                pairs.append((left, rights.pop(place)))
        pairs += zip_longest(alone, rights)
    return pairs


def _by_key(rows: list[Row], key: Sequence[str]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(canonical(row.get(name)) for name in key)].append(row)
    return found


def _differ(left: Row | None, right: Row | None) -> bool:
    return left is None or right is None or any(_cell_differs(left, right, name) for name in {**left, **right})


def _cell_differs(left: Row, right: Row, name: str) -> bool:
    ours, theirs = left.get(name, _ABSENT), right.get(name, _ABSENT)
    if ours is _ABSENT or theirs is _ABSENT:
        return ours is not theirs
    return bool(canonical(ours) != canonical(theirs))


def _columns(pairs: list[tuple[Row | None, Row | None]], key: Sequence[str]) -> list[str]:
    """Return the key's columns, then those that are not the same on both sides in all pairs."""
    names = dict.fromkeys(key)
    lonely = [row for pair in pairs for row in pair if row is not None and None in pair]
    for left, right in pairs:
        if left is not None and right is not None:
            names |= {name: None for name in {**left, **right} if _cell_differs(left, right, name)}
    if len(lonely) == len(pairs):  # no pair tells what is worth seeing: show all
        names |= {name: None for row in lonely for name in row}
    return list(names)


def _mark(left: Row | None, right: Row | None) -> str:
    return "++" if left is None else "--" if right is None else "!="


def _texts(left: Row | None, right: Row | None, names: Sequence[str]) -> tuple[str, str]:
    if left is None or right is None:
        texts = [_line(row, names, lambda _: False) if row is not None else "(no such row)" for row in (left, right)]
        return texts[0], texts[1]

    def differs(name: str) -> bool:
        return _cell_differs(left, right, name)

    return _line(left, names, differs), _line(right, names, differs)


def _line(row: Row, names: Sequence[str], differs: Callable[[str], bool]) -> str:
    cells = []
    for name in names:
        text = show_cell(row.get(name, _ABSENT))
        cells.append(f"{name}=>{text}<" if differs(name) else f"{name}={text}")
    return " ".join(cells)


def show_cell(cell: Any) -> str:
    """Return a cell as YAML would have it, cut after 60 characters."""
    if cell is _ABSENT:
        return "(no such column)"
    text = _write_cell(cell)
    return text if len(text) <= _SHOWN_CELL else f"{text[:_SHOWN_CELL]}... ({len(text)} characters)"


def _write_cell(cell: Any) -> str:
    """Return a cell as YAML would have it: ``null``, ``[a, {b: true}]``; a text that would not be one, in quotes."""
    if cell is None:
        return "null"
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, Mapping):
        return f"{{{', '.join(f'{name}: {_write_cell(value)}' for name, value in cell.items())}}}"
    if isinstance(cell, list | tuple):
        if cell and all(isinstance(item, tuple) for item in cell):  # a map, as Arrow gives it
            return f"{{{', '.join(f'{_write_cell(key)}: {_write_cell(value)}' for key, value in cell)}}}"
        return f"[{', '.join(map(_write_cell, cell))}]"
    if isinstance(cell, str):
        is_plain = cell.isprintable() and cell.strip() == cell and isinstance(resolve_scalar(cell), str)
        return cell if is_plain else repr(cell)
    return str(cell)
