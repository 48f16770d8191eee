"""Many cells in one pair of tables: a cell is a history of a trial, and each run of each job plays all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from differential.columns import history_of, without_number
from differential.trial import Trial
from enrich.testing.differ import assert_same_rows

Row = dict[str, Any]


def assert_cells(
    trial: Trial,
    shape: str,
    expected: Mapping[str, Sequence[Row]],
    *,
    view: Callable[[Row], Row] = dict,
    others: Sequence[str] = (),
) -> None:
    """Compare a target after the third run with rows written out, and list what the trial itself has found wrong.

    Args:
        expected: The cell's name -> its rows, in the order of the trial's histories.
        view: What is compared of a row.
        others: The names of the trial's further histories, which are compared with the references alone.
    """
    names, found = [*expected, *others], rows_by_history(trial, shape, 2)
    ours = [{"cell": name, **row} for name, rows in expected.items() for row in rows]
    theirs = [{"cell": name, **view(row)} for number, name in enumerate(expected) for row in found[number]]
    assert_same_rows(ours, theirs, ["cell"], limit=40)
    wrong = [failure for failure in trial.failures if failure.shape == shape]
    cells = ["all" if failure.history is None else names[failure.history] for failure in wrong]
    assert not wrong, "\n".join(f"{cell}: {failure}" for cell, failure in zip(cells, wrong, strict=True))


def rows_by_history(trial: Trial, shape: str, window: int) -> dict[int, list[Row]]:
    """Return history -> the rows that it had in a target after a run, without the history's number in the keys."""
    keys = next((*each.key, *each.right_key) for each in trial.world.shapes if each.name == shape)
    found: dict[int, list[Row]] = defaultdict(list)
    for row in trial.seen[shape, window]:
        number = next(n for n in (history_of(row[key]) for key in keys) if n is not None)
        found[number].append({name: without_number(cell) for name, cell in row.items()})
    return found
