"""Sources whose columns change while they are played: what an administrator does between two commits.

=========  ============================================================================================
gain       a column is added; the rows that are there have null in it
rename     a column gets another name, and a new one takes its place: null in every row
drop       a column, or a field of a struct, is dropped and added again: null in every row
forget     a column that no job uses is dropped
widen      a column that no job uses becomes long; delta-rs can do nothing with the table from then on
=========  ============================================================================================
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from differential import log
from differential.columns import Column
from differential.spec import Row, Shape, Table, World

IDLE = "idle"


@dataclass(frozen=True)
class Alteration:
    """One change of a table's columns.

    Attributes:
        window: In which window it happens.
        slot: Before which of the window's commits; behind the last one where there are fewer.
        column: A column, or a field of a struct (``ref.id``).
    """

    window: int
    slot: int
    table: str
    action: str
    column: str


def plan_alterations(world: World, windows: int, seed: int) -> list[Alteration]:
    """Return one or two changes of columns a window, but the first: there is nothing to follow in a first run."""
    rng = random.Random(f"alterations/{seed}/{world.name}")
    tables = [table for table in world.tables if table.is_mapped]
    found: list[Alteration] = []
    for window in range(1, windows if tables else 0):
        table = rng.choice(tables)
        column = rng.choice(_renewable(table))
        action = "drop" if "." in column else rng.choice(("rename", "drop"))
        found.append(Alteration(window, rng.choice((0, 0, 1, 2)), table.name, action, column))
        other = rng.choice(tables)
        actions = ["gain"]
        gone = {each.table for each in found if each.action in ("forget", "widen")}
        has_idle = any(column.name == IDLE for column in other.columns)
        if has_idle and other.name not in gone and not any(_uses_all(shape, other.name) for shape in world.shapes):
            is_flat = not any(column.kind in ("ref", "items", "struct") for column in other.columns)
            actions += ["forget", "widen"] if is_flat else ["forget"]
        action = rng.choice(actions)
        column = f"gained{window}" if action == "gain" else IDLE
        found.append(Alteration(window, rng.choice((0, 1, 2)), other.name, action, column))
    return found


def _renewable(table: Table) -> list[str]:
    names = [column.name for column in table.columns if column.name not in (*table.key, IDLE)]
    return [*names, *[f"{column.name}.id" for column in table.columns if column.kind == "ref"]]


def _uses_all(shape: Shape, table: str) -> bool:
    """Tell whether a job takes all columns of a table, also the idle one: by its name, or without naming any."""
    if any(join.kind == "list" and join.table == table for join in shape.joins.values()):
        return True
    aliases = [alias for alias, name in shape.aliases().items() if name == table]
    if shape.select is None:
        return bool(aliases)
    return any(expr.text == f"{alias}.{IDLE}" for expr in shape.select.values() for alias in aliases)


def altered(table: Table, alteration: Alteration) -> Table:
    """Return the table as it is after the change."""
    name, columns = alteration.column, table.columns
    match alteration.action:
        case "gain":
            return _gaining(table, Column(name, "text"))
        case "rename":
            old = table.column(name)
            # Behind the new one, as in the log: the elements of lists have the lookup's columns in the table's order.
            return _gaining(
                table, replace(old, name=f"{name}_was{alteration.window}", pool=None, nulls=1.0), behind=name
            )
        case "forget":
            return replace(table, columns=tuple(column for column in columns if column.name != name))
        case "widen":
            return replace(table, columns=tuple(replace(c, kind="long") if c.name == name else c for c in columns))
    return table


def _gaining(table: Table, column: Column, *, behind: str | None = None) -> Table:
    names = [each.name for each in table.columns]
    place = names.index(behind) + 1 if behind is not None else len(names)
    columns = (*table.columns[:place], column, *table.columns[place:])
    return replace(table, columns=columns, gained=table.gained | {column.name})


def after(table: Table, alteration: Alteration, row: Row) -> Row:
    """Return what a row that is there has become."""
    name = alteration.column
    match alteration.action:
        case "gain":
            return {**row, name: None}
        case "rename":
            return {**row, name: None, f"{name}_was{alteration.window}": row[name]}
        case "forget":
            return {each: cell for each, cell in row.items() if each != name}
        case "drop":
            return _emptied(row, name)
    return row


def _emptied(row: Row, column: str) -> Row:
    name, *fields = column.split(".")
    if not fields:
        return {**row, name: None}
    struct: dict[str, Any] | None = row[name]
    return row if struct is None else {**row, name: {**struct, fields[0]: None}}


def commit(path: Path, alteration: Alteration) -> None:
    """Commit the change: one or two commits that hold no rows."""
    name = alteration.column
    match alteration.action:
        case "gain":
            log.add(path, name, "string")
        case "rename":
            place, type_ = log.field_at(path, name)
            log.rename(path, name, f"{name}_was{alteration.window}")
            log.add(path, name, type_, place)
        case "drop":
            place, type_ = log.field_at(path, name)
            log.drop(path, name)
            log.add(path, name, type_, place)
        case "forget":
            log.drop(path, name)
        case "widen":
            log.widen(path, name)
