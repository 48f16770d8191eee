"""The gate: the staged rows against a suite, before anything is written.

    rows      suite                                     findings                       reasons
    1, a@b    not null (email): quarantine       ->     checked 2, failed 1, false     1: []
    2, null                                                                            2: [..._not_be_null:email]

All row rules are labelled in one projection and counted in one aggregate; the quarantine is split off by the same
labels. The labels are GX's own conditions, so a verdict is GX's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.result import Finding, resolve_threshold
from enrich.quality.gx import RuleError, filter_rows, name_error, silence_gx
from enrich.quality.labels import Labels, label_measured, label_rows
from enrich.quality.suites import CHANGED, FAIL, QUARANTINE, TARGET, Suite, SuiteRule
from enrich.quality.whole import judge_or_split, judge_whole

Published = Callable[[Column | None], DataFrame]


@dataclass(frozen=True)
class SuiteVerdict:
    """What a suite says about the staged rows.

    Attributes:
        findings: One per expectation, in the order of the suite.
        closing: The findings that close the gate; empty when the rows may be written.
        reasons: Over the staged rows, ``array<string>``: the quarantine rules that a row breaks, as
            ``<type>:<column>``; empty for a good row. None when the suite has no quarantine rule.
    """

    findings: tuple[Finding, ...]
    closing: tuple[Finding, ...]
    reasons: Column | None


def judge(rows: DataFrame, suite: Suite, published: Published) -> SuiteVerdict:
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
        return SuiteVerdict((), (), None)
    counted = [rule for rule in suite.rules if rule.spec.is_row and not rule.spec.verdict_only]
    whole = [rule for rule in suite.rules if rule not in counted]
    found: dict[int, Finding] = {}
    labels: dict[int, Labels | RuleError] = {}
    for scope in (CHANGED, TARGET):
        chosen = [rule for rule in counted if rule.scope == scope]
        if chosen:
            frame = rows if scope == CHANGED else published(None)
            marked = label_rows(frame, [rule for rule in chosen if not rule.spec.measured])
            labels.update(marked)
            found.update(count_rows(frame, chosen, marked))
    found.update(_try_labels(rows, suite, labels))
    reasons = collect_reasons(suite, labels, found)
    for scope in (CHANGED, TARGET):
        chosen = [rule for rule in whole if rule.scope == scope]
        if chosen:
            found.update(judge_whole(rows if scope == CHANGED else published(reasons), chosen))
    closing = tuple(found[rule.index] for rule in suite.rules if closes_gate(rule, found[rule.index]))
    return SuiteVerdict(tuple(found[rule.index] for rule in suite.rules), closing, reasons)


def closes_gate(rule: SuiteRule, finding: Finding) -> bool:
    """Tell whether one rule's finding blocks the run: an error always, a failure of ``fail`` beyond ``tolerate``.

    ``tolerate`` is rows when whole, else a share of the checked ones.
    """
    is_failed = rule.action == FAIL and finding.success is False
    is_tolerated = rule.tolerate is not None and finding.failed <= resolve_threshold(rule.tolerate, finding.checked)
    return finding.error is not None or (is_failed and not is_tolerated)


def collect_reasons(
    suite: Suite, labels: Mapping[int, Labels | RuleError], found: Mapping[int, Finding]
) -> Column | None:
    """Return the column of broken quarantine rules, or None when the suite has none.

    Whether GX's verdict is a pass does not matter: with ``mostly`` it depends on the other rows of the run, and the
    target must not. A rule that raised holds no row, since the gate is closed anyway.
    """
    rules = [rule for rule in suite.rules if rule.action == QUARANTINE]
    if not rules:
        return None
    marks = []
    for rule in rules:
        label = labels[rule.index]
        if isinstance(label, Labels) and found[rule.index].error is None:
            marks.append(F.when(label.failing(), F.lit(rule.label)))
    if not marks:
        return F.array().cast("array<string>")
    return F.array_distinct(F.array_compact(F.array(*marks)))


def count_rows(
    frame: DataFrame, rules: Sequence[SuiteRule], labels: Mapping[int, Labels | RuleError]
) -> dict[int, Finding]:
    """Count checked and failing rows of row rules, by index: one projection and one aggregate for those that share it.

    A rule that looks at other rows, or that runs Python on a value, must not see what its row condition keeps out, so
    with a row condition it has a pass of its own.
    """
    good = {index: label for index, label in labels.items() if isinstance(label, Labels)}
    shared = [rule for rule in rules if rule.index in good and not _needs_own_rows(rule)]
    with silence_gx():
        found = judge_or_split(shared, lambda part: _count(frame, part, good)) if shared else {}
        for rule in rules:
            if rule.index not in found:
                found |= judge_or_split([rule], lambda part: _count_alone(frame, part[0], labels))
    return found


def _count_alone(frame: DataFrame, rule: SuiteRule, labels: Mapping[int, Labels | RuleError]) -> dict[int, Finding]:
    """Count one rule over the rows that it judges; a rule without label measures them first."""
    label = labels.get(rule.index)
    if isinstance(label, RuleError):
        raise label
    rows, own = label_measured(frame, rule) if label is None else (filter_rows(frame, rule), label)
    return _count(rows, [rule], {rule.index: own})


_PARTS = ("total", "checked", "failed")
_PYTHON = (
    "expect_column_values_to_be_json_parseable",
    "expect_column_values_to_match_json_schema",
    "expect_column_values_to_match_strftime_format",
)


def _try_labels(rows: DataFrame, suite: Suite, labels: Mapping[int, Labels | RuleError]) -> dict[int, Finding]:
    """Return the quarantine rules whose labels raise over all staged rows.

    Spark runs Python functions on every row, also those that a row condition keeps out, and GX's may raise on them.
    """
    failed: dict[int, Finding] = {}
    for rule in suite.rules:
        label = labels.get(rule.index)
        if rule.action == QUARANTINE and _needs_own_rows(rule) and isinstance(label, Labels):
            try:
                with silence_gx():
                    rows.agg(F.count(F.when(label.failing(), F.lit(1)))).collect()
            except Exception as error:  # noqa: BLE001 - closes the gate, like any rule that raises
                failed[rule.index] = replace(rule.unjudged, error=name_error(error))
    return failed


def _needs_own_rows(rule: SuiteRule) -> bool:
    return rule.row_condition is not None and (rule.spec.windowed or rule.type in _PYTHON)


def _count(frame: DataFrame, rules: Sequence[SuiteRule], labels: Mapping[int, Labels]) -> dict[int, Finding]:
    """Run the projection and the aggregate, and turn counts into GX's verdicts."""
    marks: dict[tuple[str, str], Column] = {}
    for rule in rules:
        label = labels[rule.index]
        total = F.lit(True) if label.domain is None else F.coalesce(label.domain, F.lit(False))
        checked = total if label.ignored is None else total & ~label.ignored
        columns = (total, checked, label.failing())
        marks.update(zip(zip(_PARTS, label.keys, strict=True), columns, strict=True))
    names = {key: f"l{number}" for number, key in enumerate(marks)}
    projected = frame.select(*(F.when(condition, F.lit(1)).alias(names[key]) for key, condition in marks.items()))
    counts = projected.agg(*(F.count(F.col(name)).alias(name) for name in names.values())).collect()[0]
    found: dict[int, Finding] = {}
    for rule in rules:
        label = labels[rule.index]
        total_rows, checked_rows, failed = (counts[names[key]] for key in zip(_PARTS, label.keys, strict=True))
        success = label.succeeds(total_rows, checked_rows, failed) if checked_rows else None
        found[rule.index] = replace(rule.unjudged, checked=checked_rows, failed=failed, success=success)
    return found
