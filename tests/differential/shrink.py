"""Shrink a failing history: its sub-histories run side by side, as up to 500 histories of one trial a step."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from differential.alterations import Alteration
from differential.generator import History, Window, is_valid
from differential.spec import World
from differential.trial import Engine, Script, play
from differential.worlds import needed

CASES = Path(__file__).parent / "cases"
LIMIT = 500


def shrink(world: World, shape: str, script: Script, number: int, engine: Engine, *, steps: int = 12) -> Script | None:
    """Return the smallest failing script of one history that was found; None when the history alone does not fail."""
    small = needed(world, shape)
    best: History | None = None
    style: str | None = None
    for style in ("merge", "overwrite", "delete_append", None):
        if _failing(small, shape, replace(script, histories=[script.histories[number]]), engine, style):
            best = script.histories[number]
            break
    for _ in range(steps if best is not None else 0):
        assert best is not None
        candidates = _candidates(world, best)
        failing = _failing(small, shape, replace(script, histories=candidates), engine, style)
        smaller = [candidates[number] for number in failing if _weight(candidates[number]) < _weight(best)]
        if not smaller:
            break
        best = min(smaller, key=_weight)
    if best is None:
        return None
    return _without_others(small, shape, replace(script, histories=[best]), engine, style)


def _without_others(world: World, shape: str, script: Script, engine: Engine, style: str | None) -> Script:
    """Leave out what is no history's own, as far as it fails still: a step for each try."""
    ways: list[Callable[[Script], Script]] = [
        lambda each: replace(each, alterations=()),
        lambda each: replace(each, shared=None),
        lambda each: replace(each, shared=_with_few_keys(world, each.shared)),
        *[partial(_without_alteration, number=number) for number in reversed(range(len(script.alterations)))],
    ]
    for smaller in ways:
        candidate = smaller(script)
        if candidate != script and _failing(world, shape, candidate, engine, style):
            script = candidate
    return script


def _with_few_keys(world: World, shared: History | None) -> History | None:
    """Keep the rows whose keys jobs may name as constants, and those that change in several windows."""
    if shared is None:
        return None
    named = {tag for tags in world.shared.values() for tag in tags[:2]}
    rids = {
        (op[0], op[1]) for window in shared.windows for commit in window for op in commit if op[2] and op[2][0] in named
    }
    return History(tuple([[op for op in c if (op[0], op[1]) in rids] for c in window] for window in shared.windows))


def _without_alteration(script: Script, number: int) -> Script:
    return replace(script, alterations=tuple(each for place, each in enumerate(script.alterations) if place != number))


def _failing(world: World, shape: str, script: Script, engine: Engine, style: str | None) -> list[int]:
    """Play the script's histories side by side; return the numbers of those that fail: one that is alone at least."""
    with tempfile.TemporaryDirectory(prefix="shrink-") as base:
        _, failures = play(Path(base) / "project", world, script, engine, style=style)
    mine = [failure for failure in failures if failure.shape == shape]
    if len(script.histories) == 1 and mine:
        return [0]
    return [failure.history for failure in mine if failure.history is not None]


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
        if world.table(table).columns[number].kind in ("keys", "ikeys", "items") and len(cell or ()) > 1:
            simpler += [cell[:index] + cell[index + 1 :] for index in range(len(cell))]
        for value in simpler:
            if value is None and world.table(table).columns[number].name in world.table(table).key:
                continue
            changed = copy.deepcopy(list(windows))
            changed[w][c][o][2][number] = value
            yield changed


def save_case(world: World, shape: str, script: Script, note: str, directory: Path = CASES) -> Path:
    """Keep a script of one history as a permanent case that is replayed from then on; return its file."""
    (history,) = script.histories
    case: dict[str, Any] = {"world": world.name, "shape": shape, "note": note}
    (made,) = (each for each in world.shapes if each.name == shape)
    digest = sha256(json.dumps(history.windows).encode()).hexdigest()[:8]
    if made.tree is not None and made.name.startswith("random_"):
        case |= {"shape": f"kept_{digest}", "job": {**made.tree, "name": f"kept_{digest}"}}
    case["windows"] = history.windows
    if script.shared is not None:
        case["shared"] = script.shared.windows
    if script.alterations:
        case["alterations"] = [asdict(each) for each in script.alterations]
    directory.mkdir(exist_ok=True)
    path = directory / f"{world.name}-{case['shape']}-{digest}.json"
    path.write_text(_written(case), encoding="utf-8")
    return path


def _written(case: Mapping[str, Any]) -> str:
    """Return a case as JSON with a line for every operation."""
    lines = []
    for name, value in case.items():
        if name not in ("windows", "shared"):
            lines.append(f" {json.dumps(name)}: {json.dumps(value)}")
            continue
        windows = []
        for window in value:
            commits = [",\n".join("   " + json.dumps(op) for op in commit) for commit in window]
            windows.append("  [" + ", ".join(f"[\n{commit}\n  ]" for commit in commits) + "]")
        lines.append(f" {json.dumps(name)}: [\n" + ",\n".join(windows) + "\n ]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load_cases(directory: Path = CASES) -> list[dict[str, Any]]:
    """Return the kept cases; each with its file's name as ``file``."""
    return [{**json.loads(p.read_text(encoding="utf-8")), "file": p.name} for p in sorted(directory.glob("*.json"))]


def kept_histories(world: str) -> list[History]:
    """Return the histories that once failed in a world, of the cases that are nothing but a history."""
    return [History(tuple(case["windows"])) for case in load_cases() if case["world"] == world and is_plain(case)]


def is_plain(case: Mapping[str, Any]) -> bool:
    """Tell whether a case is nothing but a history of a job that the world names."""
    return not case.keys() & {"shared", "alterations", "job"}


def halves(history: History) -> list[History]:
    """Return a history with each of its windows as the second one: what was before is in the first."""
    commits = [commit for window in history.windows for commit in window]
    cuts = [sum(len(window) for window in history.windows[:number]) for number in range(len(history.windows) + 1)]
    return [History((commits[:start], commits[start:end])) for start, end in pairwise(cuts[1:])]


def script_of(case: Mapping[str, Any]) -> Script:
    """Return what a kept case plays."""
    shared = History(tuple(case["shared"])) if "shared" in case else None
    alterations = tuple(Alteration(**each) for each in case.get("alterations", ()))
    return Script([History(tuple(case["windows"]))], shared, alterations)
