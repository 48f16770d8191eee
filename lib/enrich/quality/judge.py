"""The gate: the staged rows against a suite, before anything is written.

    rows      suite                                     findings                       reasons
    1, a@b    not null (email): quarantine       ->     checked 2, failed 1, false     1: []
    2, null                                                                            2: [..._not_be_null:email]

All row rules are labelled in one projection and counted in one aggregate; the quarantine is split off by the same
labels. The labels are GX's own conditions, so a verdict is GX's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from enrich.quality.gx import (
    Labels,
    Outcome,
    RuleError,
    error_class,
    filter_rows,
    judge_whole,
    measured_labels,
    quiet,
    row_labels,
)
from enrich.quality.suites import CHANGED, FAIL, QUARANTINE, TARGET, Rule, Suite
from enrich.result import Finding

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    Published = Callable[[Column | None], DataFrame]


@dataclass(frozen=True)
class Verdict:
    """What a suite says about the staged rows.

    Attributes:
        findings: One per expectation, in the order of the suite.
        blocked: True when nothing may be written.
        reasons: Over the staged rows, ``array<string>``: the quarantine rules that a row breaks, as
            ``<type>:<column>``; empty for a good row. None when the suite has no quarantine rule.
    """

    findings: tuple[Finding, ...]
    blocked: bool
    reasons: Column | None


def judge(rows: DataFrame, suite: Suite, published: Published) -> Verdict:
    """Judge staged rows.

    Args:
        rows: Live staged rows with the target's columns; read more than once, so persisted by the caller.
        suite: The job's suite.
        published: Gives the whole target as it would be after this run, less the staged rows for which the given
            column of reasons is not empty (None: with all staged rows).

    Returns:
        The verdict. A rule that raises is a finding with ``error`` and closes the gate; nothing is raised.
    """
    if not suite.rules:
        return Verdict((), False, None)
    counted = [rule for rule in suite.rules if rule.spec.is_row and not rule.spec.verdict_only]
    whole = [rule for rule in suite.rules if rule not in counted]
    outcomes: dict[int, Outcome] = {}
    labels: dict[int, Labels | RuleError] = {}
    for scope in (CHANGED, TARGET):
        chosen = [rule for rule in counted if rule.scope == scope]
        if chosen:
            frame = rows if scope == CHANGED else published(None)
            found = row_labels(frame, [rule for rule in chosen if not rule.spec.measured])
            labels.update(found)
            outcomes.update(count_rows(frame, chosen, found))
    reasons = quarantine_reasons(suite, labels, outcomes)
    for scope in (CHANGED, TARGET):
        chosen = [rule for rule in whole if rule.scope == scope]
        if chosen:
            outcomes.update(judge_whole(rows if scope == CHANGED else published(reasons), chosen))
    findings = tuple(_finding(rule, outcomes[rule.index]) for rule in suite.rules)
    blocked = any(closes_gate(rule, outcomes[rule.index]) for rule in suite.rules)
    return Verdict(findings, blocked, reasons)


def closes_gate(rule: Rule, outcome: Outcome) -> bool:
    """Tell whether one rule's outcome blocks the run: an error always, a failure of ``fail`` beyond ``tolerate``."""
    if outcome.error is not None:
        return True
    return rule.action == FAIL and outcome.success is False and not is_tolerated(rule, outcome)


def is_tolerated(rule: Rule, outcome: Outcome) -> bool:
    """Tell whether the failed rows are within ``tolerate``: rows when whole, else a share of the checked ones."""
    if rule.tolerate is None:
        return False
    if isinstance(rule.tolerate, float):
        return outcome.failed <= rule.tolerate * outcome.checked
    return outcome.failed <= rule.tolerate


def quarantine_reasons(
    suite: Suite, labels: Mapping[int, Labels | RuleError], outcomes: Mapping[int, Outcome]
) -> Column | None:
    """Return the column of broken quarantine rules, or None when the suite has none.

    A rule whose ``mostly`` is met holds no row; nor does one that raised, since the gate is closed anyway.
    """
    from pyspark.sql import functions as F

    rules = [rule for rule in suite.rules if rule.action == QUARANTINE]
    if not rules:
        return None
    marks = []
    for rule in rules:
        label = labels[rule.index]
        if isinstance(label, Labels) and outcomes[rule.index].success is not True:
            marks.append(F.when(label.failing(), F.lit(rule.label)))
    if not marks:
        return F.array().cast("array<string>")
    return F.array_distinct(F.array_compact(F.array(*marks)))


def count_rows(frame: DataFrame, rules: Sequence[Rule], labels: Mapping[int, Labels | RuleError]) -> dict[int, Outcome]:
    """Count checked and failing rows of row rules, by index: one projection and one aggregate for those that share it.

    A rule that looks at other rows, or that runs Python on a value, must not see what its row condition keeps out, so
    with a row condition it has a pass of its own.
    """
    outcomes = {
        index: Outcome(0, 0, None, label.cause) for index, label in labels.items() if isinstance(label, RuleError)
    }
    good = [rule for rule in rules if rule.index not in outcomes]
    shared = [rule for rule in good if not _needs_own_rows(rule)]
    with quiet():
        if shared:
            outcomes.update(_count(frame, shared, labels))
        for rule in good:
            if rule.spec.measured:
                outcomes[rule.index] = _count_measured(frame, rule)
            elif _needs_own_rows(rule):
                outcomes.update(_count(filter_rows(frame, rule), [rule], labels))
    return outcomes


def _count_measured(frame: DataFrame, rule: Rule) -> Outcome:
    """Count one rule that measures the rows before it judges them."""
    try:
        rows, label = measured_labels(frame, rule)
    except RuleError as error:
        return Outcome(0, 0, None, error_class(error))
    return _count(rows, [rule], {rule.index: label})[rule.index]


_PYTHON = (
    "expect_column_values_to_be_json_parseable",
    "expect_column_values_to_match_json_schema",
    "expect_column_values_to_match_strftime_format",
)


def _needs_own_rows(rule: Rule) -> bool:
    return rule.spec.measured or (rule.row_condition is not None and (rule.spec.windowed or rule.type in _PYTHON))


def _count(frame: DataFrame, rules: Sequence[Rule], labels: Mapping[int, Labels | RuleError]) -> dict[int, Outcome]:
    """Count one pass; when it raises, each rule alone, so that one broken rule does not take the others with it."""
    try:
        return _count_together(frame, {rule.index: labels[rule.index] for rule in rules})
    except Exception as error:  # noqa: BLE001 - the rule that raised is found below
        if len(rules) == 1:
            return {rules[0].index: Outcome(0, 0, None, error_class(error))}
    return {index: outcome for rule in rules for index, outcome in _count(frame, [rule], labels).items()}


def _count_together(frame: DataFrame, labels: Mapping[int, Labels | RuleError]) -> dict[int, Outcome]:
    """Run the projection and the aggregate, and turn counts into GX's verdicts."""
    from pyspark.sql import functions as F

    marks: dict[str, Column] = {}
    names: dict[int, tuple[str, str, str]] = {}

    def mark(condition: Column) -> str:
        """Return the name of the label of ``condition``; rules with the same one share it."""
        text = str(condition)
        name = next((known for known, column in marks.items() if str(column) == text), f"l{len(marks)}")
        marks[name] = condition
        return name

    for index, label in labels.items():
        if isinstance(label, Labels):
            total = F.lit(True) if label.domain is None else F.coalesce(label.domain, F.lit(False))
            checked = total if label.ignored is None else total & ~label.ignored
            names[index] = (mark(total), mark(checked), mark(label.failing()))
    projected = frame.select(*(F.when(condition, F.lit(1)).alias(name) for name, condition in marks.items()))
    counts = projected.agg(*(F.count(F.col(name)).alias(name) for name in marks)).first()
    found: dict[int, Outcome] = {}
    for index, (total_name, checked_name, failed_name) in names.items():
        label = labels[index]
        if counts is None or not isinstance(label, Labels):
            continue
        checked, failed = counts[checked_name], counts[failed_name]
        success = label.succeeds(counts[total_name], checked, failed) if checked else None
        found[index] = Outcome(checked, failed, success)
    return found


def _finding(rule: Rule, outcome: Outcome) -> Finding:
    return Finding(
        index=rule.index,
        expectation=rule.type,
        column=rule.column,
        action=rule.action,
        checked=outcome.checked,
        failed=outcome.failed,
        success=outcome.success,
        error=outcome.error,
        column_list=rule.column_list,
    )
