"""What a run has left behind, compared with what it had to leave: rows, quarantine, counts, commits, change feed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from differential import reader
from differential.columns import history_of
from differential.compare import canonical_row, difference
from differential.model import identity, net_change
from differential.spec import Row, Rule, Shape, World, list_watches, target_types
from enrich.testing.differ import side_by_side
from kit.rowforms import prove


@dataclass
class Tally:
    """What really happened, counted where it happens."""

    histories: int = 0
    source_commits: int = 0
    alterations: int = 0
    engine_runs: int = 0
    job_runs: int = 0
    history_runs: int = 0
    history_runs_with_changes: int = 0
    rows_compared: int = 0
    oracle_comparisons: int = 0
    change_feed_rows: int = 0
    quarantine_rows: int = 0
    query_runs: int = 0

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
        expected: What there should be, ``found`` what there is: rows when there is a ``key`` to align them by.
    """

    shape: str
    window: int
    history: int | None
    what: str
    expected: Any
    found: Any
    key: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = f"{self.shape}, window {self.window}, history {self.history}: {self.what}"
        picture = side_by_side(self.expected, self.found, self.key) if self.key else ""
        return f"{head}\n" + (picture or f"  expected {self.expected}\n  got      {self.found}")


@dataclass(frozen=True)
class Wanted:
    """What a run must leave: target and keyed quarantine rows by identity, quarantined rows without key."""

    rows: Mapping[Any, Row]
    held: Mapping[Any, Row]
    keyless: list[Row]


@dataclass
class Target:
    """What is known of one job's target between two runs; finds failures.

    Attributes:
        types: Column -> Arrow type, as the sources' columns are now.
        left: What the last run left.
        version: The target's version after it.
        watches: The rules of the suite about the whole target.
        broken: Histories that differed once: they are not told of again.
        is_reshaped: The elements of a list have other fields than after the last run; old and new ones cannot be
            compared, and a run counts what it rewrites.
    """

    shape: Shape
    path: Path
    types: dict[str, pa.DataType]
    watches: tuple[Rule, ...] = ()
    left: Wanted = field(default_factory=lambda: Wanted({}, {}, []))
    version: int = -1
    broken: set[int | None] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)
    is_reshaped: bool = False

    @classmethod
    def of(cls, world: World, shape: Shape, lake: Path) -> Target:
        """Return what is known of a target before its first run."""
        return cls(shape, lake / shape.name, target_types(world, shape), list_watches(world, shape))

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row."""
        return (*self.shape.key, *self.shape.right_key)

    def canonical(self, row: Row, *more: str) -> Any:
        """Return a row of the target, and with ``_failed`` of the quarantine, in the form that is compared."""
        maps = frozenset(name for name, type_ in self.types.items() if pa.types.is_map(type_))
        return canonical_row(row, [*self.types, *more], maps)

    def compare(self, window: int, wanted: Wanted, report: Mapping[str, Any] | None, tally: Tally) -> list[Row]:
        """Compare everything with what ``wanted`` says; return the target's rows."""
        if (
            report is None
            or report["status"] not in ("created", "updated", "unchanged")
            or not reader.exists(self.path)
        ):
            self._fail(window, {None}, "the job did not succeed", "success", report and report.get("error"))
            return []
        types, delta_types = reader.types(self.path), reader.delta_types(self.types)
        types = {name: type_ for name, type_ in types.items() if name in delta_types or not name.startswith("gained")}
        if types != delta_types:
            self._fail(window, {None}, "columns or types", delta_types, types)
            return []
        found = reader.rows(self.path)
        tally.rows_compared += len(found)
        self._compare_rows(window, "rows", list(wanted.rows.values()), found)
        held_path = self.path.with_name(f"{self.shape.name}__quarantine")
        held = reader.rows(held_path) if reader.exists(held_path) else []  # it need not exist before it has had a row
        tally.quarantine_rows += len(held)
        self._compare_rows(window, "quarantine", [*wanted.held.values(), *wanted.keyless], held, "_failed")
        self._compare_report(window, wanted, report, tally)
        if recorded := reader.record(self.path):  # the stand-in records nothing
            for path, name, rows in ((self.path, "target", found), (held_path, "quarantine", held)):
                names = {*recorded["columns"], *(["_failed"] if name == "quarantine" else [])}
                kinds = {each: kind for each, kind in reader.kinds(path).items() if each in names} if rows else {}
                self.compare_value(window, f"proof of the {name}", list(prove(rows, kinds)), recorded["sums"][name])
        self.left = wanted
        return found

    def compare_state(
        self, window: int, wanted: Wanted, lookups: Mapping[str, Any], found: Mapping[str, Any] | None
    ) -> None:
        """Compare what the result says of the whole target with what it has to hold."""
        rows = wanted.rows.values()
        nulls = {name: sum(row[name] is None for row in rows) for name in self.types}
        watched = [
            {"index": i, "checked": sum(map(rule.judges, rows)), "failed": sum(map(rule.fails, rows)), "error": None}
            for i, rule in enumerate((*self.shape.rules, *self.watches))
        ]
        expected = {"rows": len(rows), "rules": watched, "lookups": lookups, "nulls": nulls}
        self.compare_value(window, "state", expected, found)

    def compare_value(self, window: int, what: str, expected: Any, found: Any) -> None:
        """Compare what concerns the whole run."""
        if expected != found:
            self._fail(window, {None}, what, expected, found)

    def _compare_rows(self, window: int, what: str, expected: list[Row], found: list[Row], *more: str) -> None:
        """Compare two multisets of rows; a failure for each history that differs."""
        columns = (*self.types, *more)
        ours = {self.canonical(row, *more): row for row in expected}
        theirs = {self.canonical(row, *more): row for row in found}
        missing, surplus = difference(
            Counter(self.canonical(row, *more) for row in expected),
            Counter(self.canonical(row, *more) for row in found),
        )
        by_history: dict[int | None, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
        for side, (rows, of) in enumerate(((missing, ours), (surplus, theirs))):
            for row in (of[each] for each in rows):
                by_history[self._history_of(row)][side].append({name: row.get(name) for name in columns})
        for number, (lacking, extra) in by_history.items():
            self._fail(window, {number}, what, lacking, extra, self.key)

    def _history_of(self, row: Row) -> int | None:
        numbers = (history_of(row[name]) for name in self.key)
        return next((number for number in numbers if number is not None), None)

    def _compare_report(self, window: int, wanted: Wanted, report: Mapping[str, Any], tally: Tally) -> None:
        """Compare counts, status, commits and change feed with what had to change."""
        first, last = self.version + 1, reader.version(self.path)
        self.version, is_reshaped, self.is_reshaped = last, self.is_reshaped, False
        if self.broken or is_reshaped:
            return
        before, after = self._canonical(self.left.rows), self._canonical(wanted.rows)
        change = net_change(before, after)
        lone = [Counter(self.canonical(row, "_failed") for row in each.keyless) for each in (self.left, wanted)]
        come = len(wanted.held.keys() - self.left.held.keys()) + (lone[1] - lone[0]).total()
        counts = {name: report[name] for name in (*change, "quarantined")}
        self.compare_value(window, "counts", {**change, "quarantined": come}, counts)
        if "quarantine" in report:  # the stand-in tells no more than the binding page asks for
            held = (report["quarantine"] or {"rows": 0})["rows"]
            self.compare_value(window, "rows held", len(wanted.held) + len(wanted.keyless), held)
        if window == 0:
            return
        still = lone[0] == lone[1] and self._canonical(wanted.held, "_failed") == self._canonical(
            self.left.held, "_failed"
        )
        status = "unchanged" if still and not change.total() else "updated"
        self.compare_value(window, "status", status, report["status"])
        if not change.total() and (data := reader.data_commits(self.path, first, last)):
            self._fail(window, {None}, "commits with data although nothing changed", 0, data)
        if self.shape.change_feed:
            feed = reader.changes(self.path, first, last)
            tally.change_feed_rows += len(feed)
            self._compare_feed(window, before, after, feed)

    def _canonical(self, rows: Mapping[Any, Row], *more: str) -> dict[Any, Any]:
        return {key: self.canonical(row, *more) for key, row in rows.items()}

    def _compare_feed(self, window: int, before: dict[Any, Any], after: dict[Any, Any], feed: list[Row]) -> None:
        """Compare the target's change feed with the net change: one change a key, and none that changes nothing."""
        seen: dict[Any, dict[str, list[Any]]] = defaultdict(lambda: {"old": [], "new": []})
        for row in feed:
            side = "old" if row["_change_type"] in ("delete", "update_preimage") else "new"
            seen[identity(self.shape, row)][side].append(self.canonical(row))
        wanted: dict[Any, dict[str, list[Any]]] = {}
        for key in before.keys() | after.keys():
            old, new = before.get(key), after.get(key)
            if old != new:
                wanted[key] = {"old": [] if old is None else [old], "new": [] if new is None else [new]}
        wrong = [key for key in seen.keys() | wanted.keys() if seen.get(key) != wanted.get(key)]
        for key in wrong[:3]:
            numbers = {next((n for n in map(history_of, key[1:]) if n is not None), None)}
            self._fail(window, numbers, f"change feed of {key}", wanted.get(key), seen.get(key))

    def _fail(
        self,
        window: int,
        numbers: Iterable[int | None],
        what: str,
        expected: Any,
        found: Any,
        key: tuple[str, ...] = (),
    ) -> None:
        for number in set(numbers) - self.broken:
            self.failures.append(Failure(self.shape.name, window, number, what, expected, found, key))
        self.broken |= set(numbers)
