"""What a run makes of the state of its target: recorded, less what the old rows say, and what the new rows say added.

    recorded                      changed rows                         the next record
    rows 100, email null in 12    2 come, one without e-mail; 1 goes   rows 101, email null in 13

What no record tells is counted over all rows once: at first runs, when everything is computed anew, and for a rule that
the suite has gained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import Affected, quote
from enrich.base.state import Lookups, LookupState, RuleState, State
from enrich.frames.columns import mark_rows
from enrich.frames.difference import Difference
from enrich.joins import find_kind
from enrich.progress.task import Task
from enrich.quality.counting import Labels, RuleCounts, Weighted, count_marks, count_rules, label_rows
from enrich.quality.gx import RuleError
from enrich.quality.judge import SuiteVerdict
from enrich.quality.suites import list_needed_columns, list_uncounted
from enrich.steps.gate import JudgedRows, build_published
from enrich.steps.rows import Rows, make_no_rows
from enrich.steps.source_changes import Changes
from enrich.steps.work import Work, measure, read_target


@dataclass(frozen=True)
class CountedState:
    """A state that was counted.

    Attributes:
        state: What the target will hold.
        scanned: Rules for which the whole target was read, by index.
    """

    state: State
    scanned: frozenset[int] = frozenset()


def list_remembered(task: Task) -> frozenset[str] | None:
    """Return the columns whose old values the state needs; None when it is counted over all rows."""
    if task.everything or task.recorded_state is None:
        return None
    return list_needed_columns(task.suite, task.spec.columns)


@measure("state")
def count_lookups(work: Work, changed: Changes, affected: Affected | None, rows: Rows) -> Lookups:
    """Return how each join goes over all driving rows, as it will after the run."""
    kind, recorded = find_kind(work.task.spec), work.task.recorded_state
    if not work.task.spec.steps:
        return {}
    now = {alias: LookupState(each.rows, each.matched, each.null_references) for alias, each in rows.lookups.items()}
    if affected is None:
        return now
    if recorded is None:
        return kind.recount_lookups(work)
    return kind.count_lookups(work, changed, affected, recorded.lookups, now)


@measure("state")
def count_target(
    work: Work, target: Difference, judged: JudgedRows, affected: Affected | None, lookups: Lookups
) -> CountedState:
    """Return the target's state as it will be after the run.

    Args:
        work: The job's run.
        target: The difference to the target, with images of the changed rows unless all rows are counted.
        judged: The rows for the target, and what the suite says of a row.
        affected: The affected keys.
        lookups: How each join goes over all driving rows.
    """
    task, columns = work.task, [F.col(quote(name)) for name in work.task.spec.columns]
    good, recorded = judged.good.select(*columns), task.recorded_state
    if task.everything:
        return CountedState(_take_counts(task, judged, lookups) or _count_rows(task, good, lookups))
    if recorded is None:
        scanned = _count_rows(task, build_published(work, judged.good, affected, None), lookups)
        return CountedState(scanned, frozenset(each.index for each in scanned.rules))
    known = [each for each in recorded.rules if each.is_counted]
    images = () if target.is_empty else target.images
    added = {each.index: each for each in _count_entries(images, task, known, judged.verdict)}
    kept = [_add(each, added[each.index]) if each.index in added else each for each in recorded.rules]
    before = {name: recorded.nulls.get(name, recorded.rows) for name in task.spec.columns}
    nulls = {name: count + target.nulls[name] for name, count in before.items()}
    state = State(recorded.rows + target.inserted - target.deleted, tuple(kept), lookups, nulls)
    return _complete(work, state, lambda: build_published(work, judged.good, affected, None))


def _take_counts(task: Task, judged: JudgedRows, lookups: Lookups) -> State | None:
    """Return the state when all of it was counted while the rows were computed and judged."""
    entries, said = list_uncounted(task.suite), judged.verdict.counts if judged.verdict is not None else {}
    if not judged.tally or any(each.index not in said for each in entries):
        return None
    nulls = {name: judged.tally[f"n{i}"] for i, name in enumerate(task.spec.columns)}
    return State(judged.tally["rows"], tuple(_note(each, said[each.index]) for each in entries), lookups, nulls)


def _add(recorded: RuleState, change: RuleState) -> RuleState:
    """Return a rule's counts with what has changed; none when it raised on a changed row."""
    if recorded.checked is None or recorded.failed is None or change.checked is None or change.failed is None:
        return replace(recorded, checked=None, failed=None, error=change.error)
    return replace(recorded, checked=recorded.checked + change.checked, failed=recorded.failed + change.failed)


@measure("state")
def carry_state(work: Work) -> State:
    """Return the state of a target of which no row changes, with the counts that its record lacks."""
    task, table = work.task, read_target(work)
    assert table is not None  # noqa: S101 - an incremental run has a target
    if any(name not in table.columns for name in task.spec.columns):  # the commit adds columns that a source gained
        nothing = make_no_rows(work).select(*[F.col(quote(name)) for name in task.spec.columns])
        table = nothing.unionByName(table, allowMissingColumns=True)
    recorded = task.recorded_state
    if recorded is None:
        lookups = find_kind(task.spec).recount_lookups(work) if task.spec.steps else {}
        return _count_rows(task, table, lookups)
    nulls = {name: recorded.nulls.get(name, recorded.rows) for name in task.spec.columns}
    return _complete(work, replace(recorded, nulls=nulls), lambda: table).state


def count_present(work: Work, lookups: Lookups) -> State:
    """Return the state of the target as it is, whatever its record says."""
    table = read_target(work)
    assert table is not None  # noqa: S101 - what is verified has a target
    return _count_rows(work.task, table, lookups)


def _complete(work: Work, state: State, published: Callable[[], DataFrame]) -> CountedState:
    """Count the rules that have no counts yet, and those that raised, over the whole target."""
    lacking = [each for each in state.rules if not each.is_counted]
    if not lacking:
        return CountedState(state)
    counted = {each.index: each for each in _count_entries([(published(), 1)], work.task, lacking)}
    rules = tuple(counted.get(each.index, each) for each in state.rules)
    return CountedState(replace(state, rules=rules), frozenset(counted))


def _count_rows(task: Task, rows: DataFrame, lookups: Lookups) -> State:
    """Count all rows of a target: those of its columns that are null, and what the rules say."""
    names = [name for name in task.spec.columns if name in rows.columns]
    entries, marks = list_uncounted(task.suite), mark_rows(names)
    if entries:
        said, counts = _count([(rows, 1)], task, entries, marks)
    else:  # and so no need for Great Expectations, which takes seconds to import
        said, counts = {}, count_marks([(rows, 1)], marks)
    nulls = {**dict.fromkeys(task.spec.columns, counts["rows"]), **{n: counts[f"n{i}"] for i, n in enumerate(names)}}
    return State(counts["rows"], tuple(_note(each, said[each.index]) for each in entries), lookups, nulls)


def _count_entries(
    rows: Weighted, task: Task, entries: Sequence[RuleState], verdict: SuiteVerdict | None = None
) -> list[RuleState]:
    """Count what the rules of some entries say of rows, by the labels of a verdict if there is one."""
    if not rows or not entries:
        return []
    labels = verdict.labels if verdict is not None else None
    said, _ = _count(rows, task, entries, labels=labels)
    return [_note(each, said[each.index]) for each in entries]


def _count(
    rows: Weighted,
    task: Task,
    entries: Sequence[RuleState],
    marks: Mapping[str, Column] | None = None,
    labels: Mapping[int, Labels | RuleError] | None = None,
) -> tuple[dict[int, RuleCounts], dict[str, int]]:
    assert task.suite is not None  # noqa: S101 - entries are of its rules
    chosen = {each.index for each in entries}
    rules = [rule for rule in task.suite.row_rules if rule.index in chosen]
    if labels is None or any(rule.index not in labels for rule in rules):
        labels = label_rows(rows[0][0], rules)
    return count_rules(rows, rules, labels, marks)


def _note(entry: RuleState, counts: RuleCounts) -> RuleState:
    if counts.error is not None:
        return replace(entry, checked=None, failed=None, error=counts.error)
    return replace(entry, checked=counts.checked, failed=counts.failed, error=None)
