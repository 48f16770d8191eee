"""Play histories against an engine and compare every target after every run."""

from __future__ import annotations

import copy
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from differential import acts, oracle, reader
from differential.alterations import Alteration
from differential.clocks import read_times, skew_times
from differential.columns import SHARED, history_of, without_number
from differential.compare import difference
from differential.comparison import Failure, Tally, Target, Wanted
from differential.generator import History, Window
from differential.model import count_partners, identity, judged, keyless, null_counts, truth
from differential.pasts import tell_past
from differential.project import write_job, write_project
from differential.spec import Row, Shape, World, target_types
from differential.texts import Text, write_text
from differential.writer import SourceWriter, render_row

Engine = Callable[..., Mapping[str, Any]]
"""Runs the named jobs of the project in a directory, with options, and returns the result JSON."""


@dataclass(frozen=True)
class Script:
    """What is played in one trial.

    Attributes:
        histories: Independent of each other, each with keys of its own.
        shared: The history of the tables that all of them share.
        alterations: What becomes of the tables' columns, and what else administrators do.
    """

    histories: Sequence[History]
    shared: History | None = None
    alterations: Sequence[Alteration] = ()

    @property
    def windows(self) -> int:
        """How many runs there are."""
        shared = [self.shared] if self.shared is not None else []
        return max((len(history.windows) for history in (*self.histories, *shared)), default=0)


class Trial:
    """One world with its histories in one project directory.

    ``seen`` keeps (job, window) -> the target's rows; ``world`` is as its tables are now, ``first_world`` as they were;
    ``texts`` has the jobs whose files are queries now.

    Args:
        base: An empty directory.
        script: What is played.
        engine: What is under test.
        seed: Decides the styles of commit and the order of rows.
        style: One style for every commit instead of random ones.
    """

    def __init__(
        self,
        base: Path,
        world: World,
        script: Script | Sequence[History],
        engine: Engine,
        *,
        seed: int = 0,
        style: str | None = None,
    ) -> None:
        self.base, self.first_world, self.world, self.engine = base, world, world, engine
        self.script = script if isinstance(script, Script) else Script(script)
        self.histories = list(self.script.histories)
        self.rng, self.style = random.Random(seed), style
        self.seen: dict[tuple[str, int], list[Row]] = {}
        self.texts: dict[str, Text] = {}
        self.tally, self.refusals = Tally(histories=len(self.histories)), Counter[str]()
        write_project(base, world, self.rng)
        self.writers = {t.name: SourceWriter(base / "lake" / t.name, t, self.rng) for t in world.tables}
        self.targets = {shape.name: Target.of(world, shape, base / "lake") for shape in world.shapes}

    @property
    def failures(self) -> list[Failure]:
        """All failures, job after job."""
        return [failure for target in self.targets.values() for failure in target.failures]

    def shape(self, name: str) -> Shape:
        """Return the job called ``name``."""
        return next(shape for shape in self.world.shapes if shape.name == name)

    def fork(self, base: Path) -> Trial:
        """Return a copy of this trial, files and all, in the new directory ``base``."""
        shutil.copytree(self.base, base)
        other = copy.copy(self)
        other.base, other.rng = base, copy.deepcopy(self.rng)
        other.targets = {
            name: replace(target, path=base / "lake" / name, broken=set(target.broken), failures=[])
            for name, target in self.targets.items()
        }
        other.writers = {name: writer.fork(base / "lake" / name) for name, writer in self.writers.items()}
        other.tally, other.seen, other.texts = Tally(histories=len(self.histories)), {}, dict(self.texts)
        return other

    def play(self) -> list[Failure]:
        """Write, run and compare window after window; return all failures, at most one per history and job."""
        for window in range(self.script.windows):
            changed = self.write(window)
            self.run(window, changed)
        return self.failures

    def write_queries(self, seed: int, turn: int) -> None:
        """Write each job that is a query as one, in other words each turn.

        Not those that show all columns of tables whose columns change: the query would name those of now.
        """
        for shape in self.world.shapes:
            text = write_text(self.world, shape, f"{seed}/{shape.name}", turn)
            if text is not None and not (self.script.alterations and shape.select is None):
                self.texts[shape.name] = text
                write_job(self.base, self.world, shape, text)

    def write_in_other_words(self) -> None:
        """Write each job that is a query in the words that are no query, where these have the same definition."""
        for shape in self.world.shapes:
            if shape.name in self.texts and self.texts[shape.name].is_same:
                write_job(self.base, self.world, shape)

    def write(self, window: int) -> set[int]:
        """Commit one window of every history; return the histories that changed something."""
        slots: dict[int, dict[str, dict[str, Row | None]]] = defaultdict(lambda: defaultdict(dict))
        changed = set()
        for number, slot, commit in self._commits(window):
            for name, rid, row in commit:
                cells = None if row is None else render_row(self._origin[name], number, rid, row)
                slots[slot][name][f"h{number:05d}|{rid}"] = cells
                changed.add(number)
        places = {*self.writers, *self.targets}
        alterations = [each for each in self.script.alterations if each.window == window and each.table in places]
        last = max(slots, default=-1) + 1
        for slot in range(last + 1):
            for each in alterations:
                if min(each.slot, last) == slot:
                    self._alter(each) if each.table in self.writers else acts.play_on_job(self, each)
            names = list(slots[slot])
            self.rng.shuffle(names)
            for name in names:
                self.writers[name].write(slots[slot][name].items(), self.style)
        for writer in self.writers.values():
            writer.settle()
        if self.rng.random() < 0.2:
            self.rng.choice(list(self.writers.values())).optimize()
        self._skew_clocks()
        self.tally.source_commits = sum(writer.commits for writer in self.writers.values())
        self.tally.alterations += len(alterations)
        return changed - {SHARED}

    def _skew_clocks(self) -> None:
        """Let the clocks of the writers disagree where a history takes their times."""
        for name in {shape.source for shape in self.world.shapes if shape.past is not None}:
            writer = self.writers[name]
            skew_times(Path(writer.path), writer.skewed)
            writer.skewed = reader.version(Path(writer.path)) + 1

    @property
    def _origin(self) -> Mapping[str, Any]:
        """The tables as histories know them."""
        return {name: writer.origin for name, writer in self.writers.items()}

    def _commits(self, window: int) -> Iterable[tuple[int, int, Any]]:
        """Yield (number of the history, slot, commit): commits of one slot become one commit a table."""
        present: dict[int, Window] = {
            n: h.windows[window] for n, h in enumerate(self.histories) if window < len(h.windows)
        }
        shared = self.script.shared
        if shared is not None and window < len(shared.windows):
            present[SHARED] = shared.windows[window]
        longest = max(map(len, present.values()), default=0)
        for number, commits in present.items():
            # Half of the histories begin with the window, the others end with it: both ends of the window matter.
            for slot, commit in enumerate(commits, (longest - len(commits)) * (number % 2)):
                yield number, slot, commit

    def _alter(self, alteration: Alteration) -> None:
        """Change a table's columns, and what they become in targets that show them all."""
        writer = self.writers[alteration.table]
        writer.alter(alteration)
        self.world = self.world.having(writer.table)
        for target in self.targets.values():
            target.types = target_types(self.world, target.shape)
            lists = (join.table for join in target.shape.joins.values() if join.kind == "list")
            target.is_reshaped |= alteration.table in lists or alteration.action in acts.RESHAPING

    def run(self, window: int, changed: set[int]) -> Mapping[str, Any]:
        """Run all jobs once and compare with the sources as they were when the run started."""
        tables: dict[str, list[Row]] = {name: w.view() for name, w in self.writers.items()}
        sources = {name: writer.read() for name, writer in self.writers.items()}
        jobs = [shape.name for shape in self.world.shapes]
        self.rng.shuffle(jobs)  # like the order of their files, it does not matter
        since = acts.choose_since(self, window)
        result = acts.follow_advice(self, self.engine(self.base, jobs, **({"since": since} if since else {})))
        self.tally.engine_runs += 1
        for writer in self.writers.values():
            writer.runs.append(writer.version)
        reports = {job["job"]: job for job in result["jobs"]}
        for shape in self.world.shapes:
            self._compare(shape, window, reports.get(shape.name), (tables, sources))
            self.tally.job_runs += 1
            self.tally.history_runs += len(self.histories)
            self.tally.history_runs_with_changes += len(changed)
        return result

    def _compute(
        self, shape: Shape, tables: dict[str, list[Row]], sources: dict[str, pa.Table]
    ) -> tuple[list[Row], pa.Table]:
        """Return a job's rows by both references."""
        if shape.past is None:
            return truth(self.world, shape, tables), oracle.answer(self.world, shape, _used(sources, shape))
        writer = self.writers[shape.source]
        times = read_times(Path(writer.path))
        told = tell_past(self.world, shape, writer.list_past(times))
        return told, oracle.answer_past(self.world, shape, writer.read_past(times))

    def _compare(
        self, shape: Shape, window: int, report: Any, state: tuple[dict[str, list[Row]], dict[str, pa.Table]]
    ) -> None:
        """Compute a job's truth twice, add it to ``state`` for jobs that read it, compare what was published."""
        target, (tables, sources) = self.targets[shape.name], state
        whole, answer = self._compute(shape, tables, sources)
        reference = Counter(target.canonical(row) for row in answer.to_pylist())
        missing, surplus = difference(Counter(target.canonical(row) for row in whole), reference)
        assert missing == surplus == [], f"{shape.name}: model and DuckDB differ: {missing[:3]} {surplus[:3]}"
        self.tally.oracle_comparisons += len(whole)
        tables[shape.name], bad = judged(shape, whole)
        sources[shape.name] = pa.Table.from_pylist(tables[shape.name], schema=answer.schema) if bad else answer
        rows = {identity(shape, row): row for row in tables[shape.name]}
        held = {identity(shape, row): row for row in bad}
        assert len(rows) + len(held) == len(whole), f"{shape.name}: the model gives two rows with one key"
        wanted = Wanted(rows, held, keyless(self.world, shape, tables))
        self.seen[shape.name, window] = target.compare(window, wanted, report, self.tally)
        if report is not None and "state" in report and not target.broken:  # the stand-in keeps none
            target.compare_state(window, wanted, count_partners(self.world, shape, tables), report["state"])
        if window == 0 and None not in target.broken:
            nulls = null_counts(self.world, shape, tables)
            target.compare_value(window, "null counts", nulls, {name: report.get(name) for name in nulls})


def _used(sources: Mapping[str, pa.Table], shape: Shape) -> dict[str, pa.Table]:
    return {name: sources[name] for name in set(shape.aliases().values())}


def play(
    base: Path,
    world: World,
    script: Script | Sequence[History],
    engine: Engine,
    *,
    seed: int = 0,
    style: str | None = None,
) -> tuple[Tally, list[Failure]]:
    """Play a script, or histories alone, in a new project below ``base``."""
    trial = Trial(base, world, script, engine, seed=seed, style=style)
    failures = trial.play()
    return trial.tally, failures


def rows_of_history(trial: Trial, shape: str, window: int, history: int) -> list[Row]:
    """Return the rows that one history had in a target after a window, without the history's number in the keys."""
    keys = next((*s.key, *s.right_key) for s in trial.world.shapes if s.name == shape)
    found = []
    for row in trial.seen.get((shape, window), []):
        numbers = [n for n in (history_of(row[key]) for key in keys) if n is not None]
        if numbers[:1] == [history]:
            found.append({name: without_number(cell) for name, cell in row.items()})
    return found
