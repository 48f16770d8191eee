"""The demo's output: what a run changed in a table, and why its cells are null."""

from __future__ import annotations

from typing import Any

from enrich.base.console import clean, format_count, format_table
from enrich.demo.story import Commit, Row, Section

LEGEND = (
    "why: matched, or the reason of `enrich why` why there is no partner: no_such_key (not there yet), deleted_at (it "
    "was deleted), foreign_key_null, near_miss (there is a key that differs only by invisible characters)"
)


def format_cell(value: Any) -> str:
    r"""Return a cell for people: ``null``, ``true``, ``[a1 First Street, a2 null]``; hidden characters as escapes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(' '.join(format_cell(part) for part in element) for element in value)}]"
    return clean(str(value))


def format_commit(commit: Commit) -> str:
    """Return what another system committed: ``customer_accounts: 2 upserted``."""
    told = []
    for name in commit.tables:
        counts = {"upserted": len(commit.upsert.get(name, [])), "deleted": len(commit.delete.get(name, []))}
        told.append(f"{name}: {', '.join(f'{number} {verb}' for verb, number in counts.items() if number)}")
    return "; ".join(told)


def list_titles(section: Section) -> list[str]:
    """Return the titles of a target's columns."""
    return ["", *section.columns, *(["why"] if section.why else [])]


def split_numbers(key: Any) -> tuple[Any, ...]:
    """Order ``user_2`` before ``user_10``."""
    stem = str(key).rstrip("0123456789")
    return stem, int(str(key).removeprefix(stem) or 0)


def draw_table(section: Section, rows: dict[Any, Row]) -> str:
    """Return a target as it is."""
    lines = [[" ", *map(format_cell, rows[key])] for key in sorted(rows, key=split_numbers)]
    return format_table(list_titles(section), lines)


def draw_changes(section: Section, before: dict[Any, Row], after: dict[Any, Row]) -> str:
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
            lines.append(["~", *(_format_step(*pair) for pair in zip(old, new, strict=True))])
    as_before = f"{format_count(same, 'row')} as before"
    if not lines:
        return as_before
    return "\n".join([format_table(list_titles(section), lines), *([as_before] if same else [])])


def _format_step(old: Any, new: Any) -> str:
    return format_cell(new) if old == new else f"{format_cell(old)} => {format_cell(new)}"


def draw_difference(section: Section, found: dict[Any, Row], expected: dict[Any, Row]) -> str:
    """Return the rows that are not as expected, in two lines each."""
    lines = []
    for key in sorted({*found, *expected}, key=split_numbers):
        if found.get(key) != expected.get(key):
            for label, row in (("found", found.get(key)), ("expected", expected.get(key))):
                cells = map(format_cell, row) if row else ["(no row)", *[""] * len(list_titles(section)[2:])]
                lines.append([label, *cells])
    return format_table(list_titles(section), lines)
