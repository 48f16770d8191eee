"""Shrink a failing history: its sub-histories run side by side, as up to 500 histories of one trial a step."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

from differential.generator import History, Window, is_valid
from differential.spec import World
from differential.trial import Engine, play

CASES = Path(__file__).parent / "cases"
LIMIT = 500


def needed(world: World, shape: str) -> World:
    """Return ``world`` with the job ``shape`` and the jobs that it reads."""
    names, todo = set(), [shape]
    by_name = {s.name: s for s in world.shapes}
    while todo:
        name = todo.pop()
        if name in by_name and name not in names:
            names.add(name)
            todo.extend(by_name[name].aliases().values())
    return world.only(*names)


def shrink(world: World, shape: str, history: History, engine: Engine, *, steps: int = 12) -> History | None:
    """Return the smallest failing history that was found; None when ``history`` alone does not fail."""
    small = needed(world, shape)
    best: History | None = None
    style: str | None = None
    for style in ("merge", "overwrite", "delete_append", None):
        if _failing(small, shape, [history], engine, style):
            best = history
            break
    for _ in range(steps if best is not None else 0):
        assert best is not None
        candidates = _candidates(world, best)
        failing = _failing(small, shape, candidates, engine, style)
        smaller = [candidates[number] for number in failing if _weight(candidates[number]) < _weight(best)]
        if not smaller:
            break
        best = min(smaller, key=_weight)
    return best


def _failing(world: World, shape: str, candidates: list[History], engine: Engine, style: str | None) -> list[int]:
    with tempfile.TemporaryDirectory(prefix="shrink-") as base:
        _, failures = play(Path(base) / "project", world, candidates, engine, style=style)
    return [f.history for f in failures if f.history is not None and f.shape == shape]


def _weight(history: History) -> tuple[int, ...]:
    windows = sum(bool(window) for window in history.windows)
    commits = sum(len(window) for window in history.windows)
    text = json.dumps(history.windows)
    return (history.size(), windows, commits, len(history.windows), -text.count("null"), len(text))


def _candidates(world: World, history: History) -> list[History]:
    found: dict[str, History] = {}
    for windows in _smaller(world, history.windows):
        cleaned = tuple([commit for commit in window if commit] for window in windows)
        while len(cleaned) > 1 and not cleaned[-1]:
            cleaned = cleaned[:-1]
        candidate = History(cleaned)
        text = json.dumps(candidate.windows)
        if text not in found and is_valid(world, candidate):
            found[text] = candidate
        if len(found) >= LIMIT:
            break
    return list(found.values())


def _smaller(world: World, windows: tuple[Window, ...]) -> Iterator[list[Window]]:
    places = [
        (w, c, o) for w, window in enumerate(windows) for c, commit in enumerate(window) for o in range(len(commit))
    ]
    for size in sorted({len(places) // 2, len(places) // 4, 3, 1}, reverse=True):
        if size > 1:
            for start in range(0, len(places), size):
                yield _without(windows, set(places[start : start + size]))
                yield _without(windows, set(places) - set(places[start : start + size]))
    for place in places:
        yield _without(windows, {place})
    for first in range(len(windows) - 1):
        yield [*windows[:first], [*windows[first], *windows[first + 1]], *windows[first + 2 :]]
    for pair in list(combinations(places, 2))[:300]:
        yield _without(windows, set(pair))
    for w, c, o in places:
        yield from _simpler_rows(world, windows, (w, c, o))


def _without(windows: tuple[Window, ...], gone: set[tuple[int, int, int]]) -> list[Window]:
    return [
        [[op for o, op in enumerate(commit) if (w, c, o) not in gone] for c, commit in enumerate(window)]
        for w, window in enumerate(windows)
    ]


def _simpler_rows(world: World, windows: tuple[Window, ...], place: tuple[int, int, int]) -> Iterator[list[Window]]:
    w, c, o = place
    table, _, row = windows[w][c][o]
    for number, cell in enumerate(row or []):
        simpler: list[Any] = [] if cell is None else [None]
        if isinstance(cell, list) and len(cell) > 1:
            simpler += [cell[:index] + cell[index + 1 :] for index in range(len(cell))]
        for value in simpler:
            if value is None and world.table(table).columns[number].name in world.table(table).key:
                continue
            changed = copy.deepcopy(list(windows))
            changed[w][c][o][2][number] = value
            yield changed


def save_case(world: World, shape: str, history: History, note: str, directory: Path = CASES) -> Path:
    """Keep a history as a permanent case that ``test_cases`` replays; return its file."""
    case = {"world": world.name, "shape": shape, "note": note, "windows": history.windows}
    digest = sha256(json.dumps(case["windows"]).encode()).hexdigest()[:8]
    directory.mkdir(exist_ok=True)
    path = directory / f"{world.name}-{shape}-{digest}.json"
    path.write_text(json.dumps(case, indent=1) + "\n", encoding="utf-8")
    return path


def load_cases(directory: Path = CASES) -> list[dict[str, Any]]:
    """Return the kept cases; each with its file's name as ``file``."""
    return [{**json.loads(p.read_text(encoding="utf-8")), "file": p.name} for p in sorted(directory.glob("*.json"))]
