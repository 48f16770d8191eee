"""What a run would do to its target, and how much it would read for that at most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

from enrich.base.result import COMPARE, CREATE, CURSOR, MERGE, NOTHING, REWRITE, Extent
from enrich.joins import find_kind
from enrich.storage import extents, shape

if TYPE_CHECKING:
    from enrich.base.spec import Affected
    from enrich.progress.task import Task
    from enrich.steps.source_changes import Changes
    from enrich.steps.work import Work


@dataclass(frozen=True)
class Forecast:
    """What a run would do to one target.

    Attributes:
        strategy: ``create rewrite compare merge cursor nothing``; a merge that turns out to bring new rows alone is an
            append.
        why: The reason.
        reads: What the run would read at most: the files in which the sources' commits tell what changed, and the
            tables that it needs beside them. Statistics of the files may rule some of them out.
        writes: What it would write, about: the files of a small target or of one that is written anew; else the
            affected rows, each as large as the target's rows are on average, in one file more than they are spread
            over. None where nobody knows: for a new target, and where a run writes what differs of all rows.
        optimize: Why it would run OPTIMIZE on the target after its commit; None when nothing calls for it yet.
        refresh: What a full refresh would read, where that is no more than the run reads for at least half of the
            target's rows; None elsewhere. The run does not turn into one: its rules would judge other rows (ADR 16).
    """

    strategy: str
    why: str
    reads: Extent
    writes: Extent | None = None
    optimize: str | None = None
    refresh: Extent | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast's part of the JSON."""
        writes = vars(self.writes) if self.writes is not None else None
        refresh = vars(self.refresh) if self.refresh is not None else None
        found = {"strategy": self.strategy, "why": self.why, "reads": vars(self.reads), "writes": writes}
        return {**found, "optimize": self.optimize, "refresh": refresh}


IDLE = Forecast(NOTHING, "no source has changed", Extent(), Extent())
SWITCH = replace(IDLE, why="no source has changed; the target's change feed is switched on for its first reader")


def foresee_count(task: Task) -> Forecast:
    """Tell what a run would do that only counts what the record of its target lacks."""
    return Forecast(CURSOR, "the record lacks counts of the whole target", _measure_tables(task), Extent())


def foresee(work: Work, changed: Changes, affected: Affected | None) -> Forecast:
    """Tell what a run would do.

    Args:
        work: The job's run.
        changed: What the window brought.
        affected: The keys to compute; None for none, and for all in a run that computes everything.
    """
    task, target = work.task, work.task.target.table
    if not task.everything and (affected is None or not affected.count):
        if task.lacks_state:
            found = foresee_count(task)
            return replace(found, reads=found.reads + _measure_feeds(work, changed))
        return Forecast(CURSOR, "no change reaches the target", _measure_feeds(work, changed), Extent())
    there = extents.measure_table(target.uri) if target is not None else Extent()
    sizes = {alias: extents.measure_table(each.uri) for alias, each in task.tables.items()}
    whole = sum(sizes.values(), there)
    if affected is None or task.everything:
        if target is None:
            return Forecast(CREATE, "there is no target yet", whole)
        if task.rewrites:
            why = (
                "the target's table cannot hold the rows as they are" if task.outgrown else "the definition has changed"
            )
            return Forecast(REWRITE, why, whole, there)
        return Forecast(
            COMPARE, "every row is computed and compared with the target", whole, None, _foresee_upkeep(task)
        )
    read = sorted(_list_tables_read(work, changed, affected))
    beside = task.target.quarantine
    held = extents.measure_table(beside.table.uri) if beside is not None else Extent()
    reads = sum((sizes[alias] for alias in read), _measure_feeds(work, changed) + there + held)
    why = f"{', '.join(read)} must be read, too" if read else "the feeds hold all rows that are needed"
    writes = _estimate_rows(task, there, affected)
    found = Forecast(MERGE, f"{why}; deletion vectors mark the rows that go", reads, writes, _foresee_upkeep(task))
    if there.bytes <= shape.SMALL_TABLE:
        why = f"{why}; the target is small: files with changed rows are written anew"
        found = replace(found, why=why, writes=there)
    is_worth = _changes_half(task, affected) and whole.bytes <= reads.bytes
    return replace(found, refresh=whole if is_worth else None)


def _estimate_rows(task: Task, there: Extent, affected: Affected) -> Extent | None:
    """Estimate what affected rows take when they are written; None where the target has no rows to go by."""
    state = task.recorded_state
    if state is None or not state.rows:
        return None
    return Extent(min(there.files, affected.count) + 1, ceil(affected.count * there.bytes / state.rows))


def _changes_half(task: Task, affected: Affected) -> bool:
    """Say whether a run computes at least half of the target's rows, and a full refresh would lose nothing."""
    state = task.recorded_state
    if state is None or task.spec.remembers:
        return False
    return 2 * affected.count >= state.rows


def _foresee_upkeep(task: Task) -> str | None:
    """Return why a run that writes rows would run OPTIMIZE, going by the files and rows that the target has now."""
    table, state = task.target.table, task.recorded_state
    if table is None or task.optimize is None or not task.optimize.after_commit:
        return None
    return shape.find_need(shape.measure_shape(table.uri), state.rows if state is not None else None, task.optimize)


def _list_tables_read(work: Work, changed: Changes, affected: Affected) -> set[str]:
    """Return the sources whose tables a run reads beside their feeds."""
    task, spec = work.task, work.task.spec
    left_out = {alias for alias, window in task.window.items() if window.gap is not None} | task.unsearched
    # A quarantine has rows without a key, which no feed names: they are looked for in the driving source.
    read = left_out | ({spec.driving} if task.target.quarantine is not None else set())
    return read | find_kind(spec).list_tables_read(work, changed, affected)


def _measure_tables(task: Task) -> Extent:
    """Measure the target and all sources."""
    places = [*task.tables.values(), *([task.target.table] if task.target.table is not None else [])]
    return sum((extents.measure_table(each.uri) for each in places), Extent())


def _measure_feeds(work: Work, changed: Changes) -> Extent:
    """Measure the files in which the commits that a run reads, once more or for the first time, tell what changed.

    Where a feed does not tell all, it is the source's table at both ends of the range, each about as large as it is
    now.
    """
    task, found = work.task, Extent()
    for alias, window in task.window.items():
        read = []
        if window.start is not None:
            read.append((window.start, window.to))
        read += task.again.get(alias, ())
        compared = changed.compared.get(alias, frozenset())
        versions = {version for start, end in {*read} - compared for version in range(start + 1, end + 1)}
        versions -= {end for _, end in compared - {*read}}  # single commits of a history's window
        if compared:
            there = extents.measure_table(task.tables[alias].uri)
            found += sum((there + there for _ in compared), Extent())
        for version in sorted(versions):
            found += extents.measure_feed(task.tables[alias].uri, version)
    return found
