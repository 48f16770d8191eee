"""Draw what a run changed in a table, and why its cells are null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from enrich.base.console import clean, format_count, format_table
from enrich.testing.scenario import Write

Row = tuple[Any, ...]
"""A target row as it is shown: one value a column, then the reason in sections that tell one."""

LEGEND = (
    "why: matched, or the reason of `enrich why` why there is no partner: no_such_key (not there yet), deleted_at (it "
    "was deleted), foreign_key_null, near_miss (there is a key that differs only by invisible characters), too_early "
    "(its first version begins later), gone (its version says that it does not exist)"
)
_DONE = {"insert": "inserted", "upsert": "upserted", "update": "updated", "delete": "deleted"}


def format_cell(value: Any) -> str:
    r"""Return a cell for people: ``null``, ``true``, ``[a1 First Street, a2 null]``; hidden characters as escapes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return " ".join(map(format_cell, value.values()))
    if isinstance(value, list):
        return f"[{', '.join(map(format_cell, value))}]"
    return clean(str(value))


def format_commit(commit: Sequence[Write]) -> str:
    """Return what another system committed: ``customer_accounts: 2 upserted``."""
    counts: dict[str, list[str]] = {}
    for write in commit:
        told = f"{len(write.rows)} {_DONE.get(write.verb)}"
        if write.dump is not None:
            what = "complete dump" if write.dump.complete else "dump"
            told = f"{what} of {format_count(len(write.dump.text.splitlines()), 'line')} loaded"
        counts.setdefault(write.table, []).append(told)
    return "; ".join(f"{name}: {', '.join(told)}" for name, told in counts.items())


def split_numbers(key: Any) -> tuple[Any, ...]:
    """Order ``user_2`` before ``user_10``."""
    stem = str(key).rstrip("0123456789")
    return stem, int(str(key).removeprefix(stem) or 0)


def draw_table(titles: Sequence[str], rows: Mapping[Any, Row]) -> str:
    """Return a target as it is."""
    lines = [[" ", *map(format_cell, rows[key])] for key in sorted(rows, key=split_numbers)]
    return format_table(["", *titles], lines)


def draw_changes(titles: Sequence[str], before: Mapping[Any, Row], after: Mapping[Any, Row]) -> str:
    """Return the rows that changed, and how many did not: ``+`` new, ``-`` gone, ``~`` changed, as ``old => new``.

    ```
       customer_id  email                     why
    ~  user_4       null => four@example.com  no_such_key => matched
    9 rows as before
    ```
    """
    lines, same = [], 0
    for key in sorted({*before, *after}, key=split_numbers):
        old, new = before.get(key), after.get(key)
        if old == new:
            same += 1
        elif old is None or new is None:
            lines.append(["+" if old is None else "-", *map(format_cell, new or old or ())])
        else:
            steps = zip(map(format_cell, old), map(format_cell, new), strict=True)
            lines.append(["~", *(now if was == now else f"{was} => {now}" for was, now in steps)])
    as_before = f"{format_count(same, 'row')} as before"
    if not lines:
        return as_before
    return "\n".join([format_table(["", *titles], lines), *([as_before] if same else [])])
