"""Play histories against an engine and compare every target after every run."""

from __future__ import annotations

import copy
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from differential import oracle, reader
from differential.columns import history_of, without_number
from differential.compare import canonical_row, difference, histories_in
from differential.generator import History
from differential.model import identity, judged, keyless, net_change, null_counts, truth
from differential.project import write_project
from differential.spec import Row, Shape, World, target_types
from differential.writer import SourceWriter, render_row

Engine = Callable[[Path, Sequence[str]], Mapping[str, Any]]
"""Runs the named jobs of the project in a directory and returns the result JSON."""


@dataclass
class Tally:
    """What really happened, counted where it happens."""

    histories: int = 0
    source_commits: int = 0
    engine_runs: int = 0
    job_runs: int = 0
    history_runs: int = 0
    history_runs_with_changes: int = 0
    rows_compared: int = 0
    oracle_comparisons: int = 0
    change_feed_rows: int = 0
    quarantine_rows: int = 0

    def add(self, other: Tally) -> None:
        """Add another tally to this one."""
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))

    def __str__(self) -> str:
        return ", ".join(f"{item.name.replace('_', ' ')} {getattr(self, item.name):,}" for item in fields(self))


@dataclass(frozen=True)
class Failure:
    """One difference between an engine's answer and the truth.

    Attributes:
        history: Index of the history; None when it concerns the whole run.
        expected: Rows that are missing (or what should have been), ``found``: surplus rows (or what was).
    """

    shape: str
    window: int
    history: int | None
    what: str
    expected: Any
    found: Any

    def __str__(self) -> str:
        return (
            f"{self.shape}, window {self.window}, history {self.history}: {self.what}\n"
            f"  expected {self.expected}\n  found    {self.found}"
        )


@dataclass
class Target:
    """What is known of one job's target between two runs."""

    shape: Shape
    columns: list[str]
    maps: frozenset[str]
    types: dict[str, str]
    rows: dict[Any, Any] = field(default_factory=dict)
    held: dict[Any, Any] = field(default_factory=dict)
    keyless: Counter[Any] = field(default_factory=Counter)
    version: int = -1
    broken: set[int | None] = field(default_factory=set)

    def canonical(self, row: Row) -> Any:
        """Return a target row in the form that is compared."""
        return canonical_row(row, self.columns, self.maps)

    def canonical_held(self, row: Row) -> Any:
        """Return a quarantine row in the form that is compared: the target's columns and the reasons."""
        return canonical_row(row, [*self.columns, "_failed"], self.maps)


@dataclass(frozen=True)
class Wanted:
    """What a run must leave: target and keyed quarantine rows by identity, quarantined rows without key."""

    rows: dict[Any, Any]
    held: dict[Any, Any]
    keyless: Counter[Any]


class Trial:
    """One world with its histories in one project directory; ``seen`` keeps (job, window) -> the target's rows.

    Args:
        base: An empty directory.
        engine: What is under test.
        seed: Decides the styles of commit and the order of rows.
        style: One style for every commit instead of random ones.
    """

    def __init__(
        self,
        base: Path,
        world: World,
        histories: Sequence[History],
        engine: Engine,
        *,
        seed: int = 0,
        style: str | None = None,
    ) -> None:
        self.base, self.world, self.histories, self.engine = base, world, list(histories), engine
        self.rng, self.style = random.Random(seed), style
        self.seen: dict[tuple[str, int], list[Row]] = {}
        self.tally, self.failures = Tally(histories=len(self.histories)), []  # type: ignore[var-annotated]
        write_project(base, world, self.rng)
        self.writers = {t.name: SourceWriter(base / "lake" / t.name, t, self.rng) for t in world.tables}
        self.targets = {shape.name: self._target(shape) for shape in world.shapes}

    def _target(self, shape: Shape) -> Target:
        types = target_types(self.world, shape)
        maps = frozenset(name for name, type_ in types.items() if pa.types.is_map(type_))
        return Target(shape, list(types), maps, _delta_types(types))

    def fork(self, base: Path) -> Trial:
        """Return a copy of this trial, files and all, in the new directory ``base``."""
        shutil.copytree(self.base, base)
        other = copy.copy(self)
        other.base, other.rng, other.targets = base, copy.deepcopy(self.rng), copy.deepcopy(self.targets)
        other.writers = {name: writer.fork(base / "lake" / name) for name, writer in self.writers.items()}
        other.tally, other.failures, other.seen = Tally(histories=len(self.histories)), [], {}
        return other

    def play(self) -> list[Failure]:
        """Write, run and compare window after window; return all failures, at most one per history and job."""
        for window in range(max((len(h.windows) for h in self.histories), default=0)):
            changed = self.write(window)
            self.run(window, changed)
        return self.failures

    def write(self, window: int) -> set[int]:
        """Commit one window of every history; return the histories that changed something."""
        slots: dict[int, dict[str, dict[str, Row | None]]] = defaultdict(lambda: defaultdict(dict))
        changed = set()
        present = {n: h.windows[window] for n, h in enumerate(self.histories) if window < len(h.windows)}
        longest = max(map(len, present.values()), default=0)
        for number, commits in present.items():
            # Half of the histories begin with the window, the others end with it: both ends of the window matter.
            for slot, commit in enumerate(commits, (longest - len(commits)) * (number % 2)):
                for name, rid, row in commit:
                    table = self.world.table(name)
                    cells = None if row is None else render_row(table, number, rid, row)
                    slots[slot][name][f"h{number:05d}|{rid}"] = cells
                    changed.add(number)
        for slot in sorted(slots):
            names = list(slots[slot])
            self.rng.shuffle(names)
            for name in names:
                self.writers[name].write(slots[slot][name].items(), self.style)
        if self.rng.random() < 0.2:
            self.rng.choice(list(self.writers.values())).optimize()
        self.tally.source_commits = sum(writer.commits for writer in self.writers.values())
        return changed

    def run(self, window: int, changed: set[int]) -> Mapping[str, Any]:
        """Run all jobs once and compare with the sources as they were when the run started."""
        tables: dict[str, list[Row]] = {name: list(w.rows.values()) for name, w in self.writers.items()}
        sources = {name: reader.read(self.base / "lake" / name) for name in self.writers}
        result = self.engine(self.base, [shape.name for shape in self.world.shapes])
        self.tally.engine_runs += 1
        reports = {job["job"]: job for job in result["jobs"]}
        for shape in self.world.shapes:
            self._compare(self.targets[shape.name], window, reports.get(shape.name), (tables, sources))
            self.tally.job_runs += 1
            self.tally.history_runs += len(self.histories)
            self.tally.history_runs_with_changes += len(changed)
        return result

    def _compare(
        self, target: Target, window: int, report: Any, state: tuple[dict[str, list[Row]], dict[str, pa.Table]]
    ) -> None:
        """Compute a job's truth twice, add it to ``state`` for jobs that read it, compare what was published."""
        shape, (tables, sources) = target.shape, state
        whole = truth(self.world, shape, tables)
        answer = oracle.answer(self.world, shape, _used(sources, shape))
        reference = Counter(target.canonical(row) for row in answer.to_pylist())
        missing, surplus = difference(Counter(target.canonical(row) for row in whole), reference)
        assert missing == surplus == [], f"{shape.name}: model and DuckDB differ: {missing[:3]} {surplus[:3]}"
        self.tally.oracle_comparisons += len(whole)
        tables[shape.name], bad = judged(shape, whole)
        sources[shape.name] = pa.Table.from_pylist(tables[shape.name], schema=answer.schema) if bad else answer
        expected = {identity(shape, row): target.canonical(row) for row in tables[shape.name]}
        held = {identity(shape, row): target.canonical_held(row) for row in bad}
        assert len(expected) + len(held) == len(whole), f"{shape.name}: the model gives two rows with one key"
        lone = Counter(target.canonical_held(row) for row in keyless(self.world, shape, tables))
        path = self.base / "lake" / shape.name
        if report is None or report["status"] not in ("created", "updated", "unchanged") or not reader.exists(path):
            self._fail(target, window, {None}, "the job did not succeed", "success", report and report.get("error"))
            return
        self._compare_rows(target, window, expected, path)
        self._compare_quarantine(target, window, held, lone)
        self._compare_report(target, window, report, Wanted(expected, held, lone))
        if window == 0:
            nulls = null_counts(self.world, shape, tables)
            self._compare_value(target, window, "null counts", nulls, {name: report.get(name) for name in nulls})
        target.rows, target.held, target.keyless = expected, held, lone

    def _compare_rows(self, target: Target, window: int, expected: dict[Any, Any], path: Path) -> None:
        types = reader.types(path)
        if types != target.types:
            self._fail(target, window, {None}, "columns or types", target.types, types)
            return
        read = self.seen[target.shape.name, window] = reader.rows(path)
        found = Counter(target.canonical(row) for row in read)
        self.tally.rows_compared += found.total()
        missing, surplus = difference(Counter(expected.values()), found)
        places = self._places(target.shape)
        by_history = {h: ([], []) for h in histories_in([*missing, *surplus], places)}  # type: ignore[var-annotated]
        for side, rows in enumerate((missing, surplus)):
            for row in rows:
                (number,) = histories_in([row], places)
                by_history[number][side].append(row)
        for number, (lacking, extra) in by_history.items():
            self._fail(target, window, {number}, "rows", lacking, extra)

    def _compare_quarantine(self, target: Target, window: int, held: dict[Any, Any], lone: Counter[Any]) -> None:
        """Compare the quarantine as a multiset; it need not exist before it has had a row."""
        path = self.base / "lake" / f"{target.shape.name}__quarantine"
        wanted = lone + Counter(held.values())
        rows = reader.rows(path) if reader.exists(path) else []
        self.tally.quarantine_rows += len(rows)
        missing, surplus = difference(wanted, Counter(target.canonical_held(row) for row in rows))
        if missing or surplus:
            numbers = histories_in([*missing, *surplus], self._places(target.shape))
            self._fail(target, window, numbers, "quarantine", missing[:5], surplus[:5])

    def _compare_report(self, target: Target, window: int, report: Mapping[str, Any], wanted_rows: Wanted) -> None:
        """Compare counts, status, commits and change feed with what had to change."""
        if target.broken:
            target.version = reader.version(self.base / "lake" / target.shape.name)
            return
        path = self.base / "lake" / target.shape.name
        first, last = target.version + 1, reader.version(path)
        target.version = last
        expected = wanted_rows.rows
        wanted = net_change(target.rows, expected)
        come = len(wanted_rows.held.keys() - target.held.keys()) + (wanted_rows.keyless - target.keyless).total()
        counts = {name: report[name] for name in (*wanted, "quarantined")}
        self._compare_value(target, window, "counts", {**wanted, "quarantined": come}, counts)
        if "quarantine" in report:  # the stand-in tells no more than the binding page asks for
            held = (report["quarantine"] or {"rows": 0})["rows"]
            self._compare_value(target, window, "rows held", len(wanted_rows.held) + wanted_rows.keyless.total(), held)
        if window == 0:
            return
        still = wanted_rows.held == target.held and wanted_rows.keyless == target.keyless
        status = "unchanged" if still and not wanted.total() else "updated"
        self._compare_value(target, window, "status", status, report["status"])
        if not wanted.total() and (data := reader.data_commits(path, first, last)):
            self._fail(target, window, {None}, "commits with data although nothing changed", 0, data)
        if target.shape.change_feed:
            self._compare_feed(target, window, expected, reader.changes(path, first, last))

    def _compare_value(self, target: Target, window: int, what: str, expected: Any, found: Any) -> None:
        if expected != found:
            self._fail(target, window, {None}, what, expected, found)

    def _compare_feed(self, target: Target, window: int, expected: dict[Any, Any], feed: list[Row]) -> None:
        """Compare the target's change feed with the net change: one change a key, and none that changes nothing."""
        self.tally.change_feed_rows += len(feed)
        seen: dict[Any, dict[str, list[Any]]] = defaultdict(lambda: {"old": [], "new": []})
        for row in feed:
            side = "old" if row["_change_type"] in ("delete", "update_preimage") else "new"
            seen[identity(target.shape, row)][side].append(target.canonical(row))
        wanted: dict[Any, dict[str, list[Any]]] = {}
        for key in target.rows.keys() | expected.keys():
            old, new = target.rows.get(key), expected.get(key)
            if old != new:
                wanted[key] = {"old": [] if old is None else [old], "new": [] if new is None else [new]}
        wrong = {key for key in seen.keys() | wanted.keys() if seen.get(key) != wanted.get(key)}
        for key in list(wrong)[:3]:
            rows = [row for side in (seen.get(key) or wanted[key]).values() for row in side]
            numbers = histories_in(rows, self._places(target.shape))
            self._fail(target, window, numbers, "change feed", wanted.get(key), seen.get(key))

    def _places(self, shape: Shape) -> list[int]:
        columns = self.targets[shape.name].columns
        return [columns.index(name) for name in (*shape.key, *shape.right_key)]

    def _fail(
        self, target: Target, window: int, numbers: set[int | None], what: str, expected: Any, found: Any
    ) -> None:
        for number in numbers - target.broken:
            self.failures.append(Failure(target.shape.name, window, number, what, expected, found))
        target.broken |= numbers


def _delta_types(types: Mapping[str, pa.DataType]) -> dict[str, str]:
    from deltalake import Schema

    schema = Schema.from_arrow(pa.schema(list(types.items())))
    return {item.name: reader.delta_type(item.type) for item in schema.fields}


def _used(sources: Mapping[str, pa.Table], shape: Shape) -> dict[str, pa.Table]:
    return {name: sources[name] for name in set(shape.aliases().values())}


def play(
    base: Path, world: World, histories: Sequence[History], engine: Engine, *, seed: int = 0, style: str | None = None
) -> tuple[Tally, list[Failure]]:
    """Play ``histories`` in a new project below ``base``."""
    trial = Trial(base, world, histories, engine, seed=seed, style=style)
    failures = trial.play()
    return trial.tally, failures


def rows_of_history(trial: Trial, shape: str, window: int, history: int) -> list[Row]:
    """Return the rows that one history had in a target after a window, without the history's number in the keys."""
    keys = next((*s.key, *s.right_key) for s in trial.world.shapes if s.name == shape)
    found = []
    for row in trial.seen.get((shape, window), []):
        numbers = [n for n in (history_of(row[key]) for key in keys) if n is not None]
        if numbers[0] == history:
            found.append({name: without_number(cell) for name, cell in row.items()})
    return found
