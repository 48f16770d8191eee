"""The demo's output: what a run changed in a table, and why its cells are null."""

from __future__ import annotations

from typing import Any

from enrich.console import clean, count_of, table
from enrich.demo.story import Commit, Row, Section

LEGEND = (
    "why: matched, or in one word why there is no partner, as `enrich why` tells it: no_such_key (not there yet), "
    "deleted_at (was there), foreign_key_null, near_miss (a key that differs by characters nobody sees)"
)


def cell_text(value: Any) -> str:
    r"""Return a cell for people: ``null``, ``true``, ``[a1 First Street, a2 null]``; hidden characters as escapes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(' '.join(cell_text(part) for part in element) for element in value)}]"
    return clean(str(value))


def commit_text(commit: Commit) -> str:
    """Return what another system committed: ``customer_accounts: 2 upserted``."""
    told = []
    for name in commit.tables:
        counts = {"upserted": len(commit.upsert.get(name, [])), "deleted": len(commit.delete.get(name, []))}
        told.append(f"{name}: {', '.join(f'{number} {verb}' for verb, number in counts.items() if number)}")
    return "; ".join(told)


def header_of(section: Section) -> list[str]:
    """Return the titles of a target's columns."""
    return ["", *section.columns, *(["why"] if section.why else [])]


def natural(key: Any) -> tuple[Any, ...]:
    """Order ``user_2`` before ``user_10``."""
    text = str(key)
    digits = len(text) - len(text.rstrip("0123456789"))
    return (text[: len(text) - digits], int(text[len(text) - digits :] or 0))


def whole_table(section: Section, rows: dict[Any, Row]) -> str:
    """Return a target as it stands."""
    lines = [[" ", *map(cell_text, rows[key])] for key in sorted(rows, key=natural)]
    return table(header_of(section), lines)


def changes_table(section: Section, before: dict[Any, Row], after: dict[Any, Row]) -> str:
    """Return the rows that changed, and how many did not: ``+`` new, ``-`` gone, ``~`` changed, as ``old => new``.

    ```
       customer_id  email                     why
    ~  user_4       null => four@example.com  no_such_key => matched
    9 rows as before
    ```
    """
    lines, same = [], 0
    for key in sorted({*before, *after}, key=natural):
        old, new = before.get(key), after.get(key)
        if old == new:
            same += 1
        elif old is None or new is None:
            row = new if new is not None else old
            lines.append(["+" if old is None else "-", *map(cell_text, row or ())])
        else:
            lines.append(["~", *(_step(*pair) for pair in zip(old, new, strict=True))])
    as_before = f"{count_of(same, 'row')} as before"
    if not lines:
        return as_before
    return "\n".join([table(header_of(section), lines), *([as_before] if same else [])])


def _step(old: Any, new: Any) -> str:
    return cell_text(new) if old == new else f"{cell_text(old)} => {cell_text(new)}"


def difference(section: Section, found: dict[Any, Row], expected: dict[Any, Row]) -> str:
    """Return the rows in which the target is not what the story says, two lines a row."""
    lines = []
    for key in sorted({*found, *expected}, key=natural):
        if found.get(key) != expected.get(key):
            for label, rows in (("found", found), ("expected", expected)):
                row = rows.get(key)
                lines.append(
                    [label, *(map(cell_text, row) if row else ["(no row)", *[""] * len(header_of(section)[2:])])]
                )
    return table(header_of(section), lines)
