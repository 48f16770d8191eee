"""Count the state of a target: as recorded, less what the old rows say, and what the new rows say added.

    recorded                      changed rows                         the next record
    rows 100, email null in 12    2 come, one without e-mail; 1 goes   rows 101, email null in 13

What no record tells is counted over all rows once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import Column, DataFrame

from enrich.base.result import Lookups, LookupState, RuleState, State, add_proofs
from enrich.base.spec import Affected, quote
from enrich.base.suites import list_uncounted
from enrich.frames.columns import PARTS, hash_rows, mark_rows, read_proof
from enrich.frames.difference import Difference
from enrich.joins import find_kind
from enrich.progress.plan import Plan
from enrich.quality.gx import RuleError
from enrich.quality.judge import Labels, Weighted, count_marks, count_rules, label_rows
from enrich.steps.gate import JudgedRows, build_published
from enrich.steps.rows import Rows, make_no_rows
from enrich.steps.run import Run, measure, read_target
from enrich.steps.source_changes import Changes

Counted = tuple[State, frozenset[int]]
"""What the target will hold, and the rules for which all of it was read, by index."""


@measure("state")
def count_lookups(run: Run, changed: Changes, affected: Affected | None, rows: Rows) -> Lookups:
    """Return how each join goes over all driving rows, as it will after the run."""
    kind, recorded = find_kind(run.plan.spec), run.plan.recorded_state
    if not run.plan.spec.steps:
        return {}
    now = {alias: LookupState(each.rows, each.matched, each.null_references) for alias, each in rows.lookups.items()}
    if affected is None:
        return now
    # What a gap leaves out is in no feed that is read, but the next record tells of all rows.
    if recorded is None or run.plan.has_gap:
        return kind.recount_lookups(run)
    if rows.went is not None:
        return {alias: recorded.lookups[alias] + each + -rows.went[alias] for alias, each in now.items()}
    return kind.count_lookups(run, changed, affected, recorded.lookups, now)


@measure("state")
def count_target(
    run: Run, target: Difference, judged: JudgedRows, affected: Affected | None, lookups: Lookups
) -> Counted:
    """Return the target's state as it will be after the run; its difference has images unless all rows are counted."""
    plan, recorded = run.plan, run.plan.recorded_state
    publish = partial(build_published, run, judged.good, affected, None)
    if plan.everything:
        return _take_counts(plan, judged, lookups) or count_rows(plan, publish(), lookups), frozenset()
    if recorded is None:
        state = count_rows(plan, publish(), lookups)
        return state, frozenset(each.index for each in state.rules)
    known = [each for each in recorded.rules if each.is_counted]
    images = () if target.is_empty else target.images
    added = _count(images, plan, known, labels=judged.verdict.labels)[0] if images and known else {}
    kept = [_add(each, added[each.index]) if each.index in added else each for each in recorded.rules]
    before = {name: recorded.nulls.get(name, recorded.rows) for name in plan.spec.columns}
    nulls = {name: count + target.nulls[name] for name, count in before.items()}
    rows = recorded.rows + target.inserted - target.deleted
    return _complete(run, State(rows, tuple(kept), lookups, nulls, add_proofs(recorded.proof, target.proof)), publish)


def _take_counts(plan: Plan, judged: JudgedRows, lookups: Lookups) -> State | None:
    """Return the state when all of it was counted while the rows were computed and judged."""
    entries, said = list_uncounted(plan.suite), judged.verdict.counts
    if not judged.tally or any(each.index not in said for each in entries):
        return None
    return _make_state(plan, judged.tally, plan.spec.columns, [said[each.index] for each in entries], lookups)


def _add(recorded: RuleState, change: RuleState) -> RuleState:
    """Return a rule's counts with what has changed; none when it raised on a changed row."""
    if recorded.checked is None or recorded.failed is None or change.checked is None or change.failed is None:
        return replace(recorded, checked=None, failed=None, error=change.error)
    return replace(recorded, checked=recorded.checked + change.checked, failed=recorded.failed + change.failed)


@measure("state")
def carry_state(run: Run) -> State:
    """Return the state of a target of which no row changes, with the counts that its record lacks."""
    plan, table = run.plan, read_target(run)
    assert table is not None  # noqa: S101 - an incremental run has a target
    if any(name not in table.columns for name in plan.spec.columns):  # the commit adds columns that a source gained
        table = make_no_rows(run).select(*map(quote, plan.spec.columns)).unionByName(table, allowMissingColumns=True)
    recorded = plan.recorded_state
    if recorded is None:
        return count_rows(plan, table, find_kind(plan.spec).recount_lookups(run) if plan.spec.steps else {})
    nulls = {name: recorded.nulls.get(name, recorded.rows) for name in plan.spec.columns}
    return _complete(run, replace(recorded, nulls=nulls), lambda: table)[0]


def _complete(run: Run, state: State, published: Callable[[], DataFrame]) -> Counted:
    """Count the rules that have no counts yet, and those that raised, over the whole target."""
    lacking = [each for each in state.rules if not each.is_counted]
    if not lacking:
        return state, frozenset()
    counted = _count([(published(), 1)], run.plan, lacking)[0]
    rules = tuple(counted.get(each.index, each) for each in state.rules)
    return replace(state, rules=rules), frozenset(counted)


def count_rows(plan: Plan, rows: DataFrame, lookups: Lookups) -> State:
    """Return the state of a target that holds these rows, whatever its record says."""
    names = [name for name in plan.spec.columns if name in rows.columns]
    entries, marks = list_uncounted(plan.suite), mark_rows(names, proves=plan.write_row is not None)
    rows = hash_rows(rows, plan.write_row, names)
    if entries:
        said, counts = _count([(rows, 1)], plan, entries, marks)
    else:  # and so no need for Great Expectations, which takes seconds to import
        said, counts = {}, count_marks([(rows, 1)], marks)
    return _make_state(plan, counts, names, [said[each.index] for each in entries], lookups)


def _make_state(
    plan: Plan, counts: Mapping[str, int], names: Sequence[str], rules: Sequence[RuleState], lookups: Lookups
) -> State:
    """Return the state of rows from what ``mark_rows`` counts of columns ``names``; others are null in all rows."""
    nulls = {**dict.fromkeys(plan.spec.columns, counts["rows"]), **{n: counts[f"n{i}"] for i, n in enumerate(names)}}
    proof = read_proof(counts["rows"], [counts[f"h{i}"] for i in range(len(PARTS)) if f"h{i}" in counts])
    return State(counts["rows"], tuple(rules), lookups, nulls, proof)


def _count(
    rows: Weighted,
    plan: Plan,
    entries: Sequence[RuleState],
    marks: Mapping[str, Column] | None = None,
    labels: Mapping[int, Labels | RuleError] | None = None,
) -> tuple[dict[int, RuleState], dict[str, int]]:
    """Count what the rules of some entries say of rows, by labels if there are any, and other marks."""
    assert plan.suite is not None  # noqa: S101 - entries are of its rules
    chosen = {each.index for each in entries}
    rules = [rule for rule in plan.suite.row_rules if rule.index in chosen]
    if labels is None or any(rule.index not in labels for rule in rules):
        labels = label_rows(rows[0][0], rules)
    return count_rules(rows, rules, dict(labels), marks)
