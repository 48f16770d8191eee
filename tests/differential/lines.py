"""Lines of docs/semantics.md as histories with their expected rows written out, all played side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from differential.generator import Commit, History, Window
from differential.spec import World
from differential.trial import Engine, Trial, rows_of_history

Puts = dict[str, list[Any] | None]


@dataclass(frozen=True)
class Line:
    """One line of a table of docs/semantics.md.

    Attributes:
        windows: Per window its commits.
        expected: Job -> per window, the rows as tuples of cells in the target's column order.
        columns: The columns that are written out, where a line is about some of them.
    """

    name: str
    windows: tuple[Window, ...]
    expected: dict[str, tuple[list[tuple[Any, ...]], ...]]
    columns: tuple[str, ...] = ()


def put(table: str, rows: Puts) -> Commit:
    """Return one commit: name of the row -> the new row, or None for a delete. A name is a physical row."""
    return [[table, name, row] for name, row in rows.items()]


def play_lines(base: Path, world: World, lines: Sequence[Line], engine: Engine) -> Trial:
    """Play all lines as histories of one trial; the references are compared as everywhere."""
    trial = Trial(base, world, [History(line.windows) for line in lines], engine, style="merge")
    trial.play()
    return trial


def problems(trial: Trial, lines: Sequence[Line], line: Line) -> list[str]:
    """Return what is wrong with one line: differences from the references, and from the rows written out."""
    number = lines.index(line)
    found = [str(failure) for failure in trial.failures if failure.history in (number, None)]
    for shape, windows in line.expected.items():
        for window, rows in enumerate(windows):
            rows_seen = rows_of_history(trial, shape, window, number)
            seen = [tuple(row[name] for name in line.columns or row) for row in rows_seen]
            if sorted(map(repr, seen)) != sorted(map(repr, rows)):
                found.append(f"{shape}, window {window}: expected {rows}, found {seen}")
    return found
