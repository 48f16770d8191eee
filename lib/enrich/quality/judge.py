"""The gate: the staged rows against a suite, before anything is written.

    rows      suite                                     findings                       reasons
    1, a@b    not null (email): quarantine       ->     checked 2, failed 1, false     1: []
    2, null                                                                            2: [..._not_be_null:email]

All row rules are labelled in one projection and counted in one aggregate; the quarantine is split off by the same
labels. The labels are GX's own conditions, so a verdict is GX's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.failures import is_no_verdict
from enrich.base.result import Finding, RuleState, resolve_threshold
from enrich.base.suites import CHANGED, FAIL, QUARANTINE, TARGET, Suite, SuiteRule
from enrich.quality.counting import Labels, count_rules, label_rows, needs_own_rows
from enrich.quality.gx import RuleError, judge_whole, name_error, silence_gx

Published = Callable[[Column | None], DataFrame]


@dataclass(frozen=True)
class SuiteVerdict:
    """What a suite says about the staged rows.

    Attributes:
        findings: One per expectation, in the order of the suite; without verdict for those of ``open_rules``.
        closing: The findings that close the gate; empty when the rows may be written.
        reasons: Over the staged rows, ``array<string>``: the quarantine rules that a row breaks, as
            ``<type>:<column>``; empty for a good row. None when the suite has no quarantine rule.
        labels: What each row rule says about a row, by index, where it does not measure the rows first.
        open_rules: Rules of scope ``target`` whose counts come from the state of the target: ``judge_state``.
        counts: What the row rules say of the staged rows, by index, where these are the whole target.
    """

    findings: tuple[Finding, ...]
    closing: tuple[Finding, ...]
    reasons: Column | None
    labels: Mapping[int, Labels | RuleError] = field(default_factory=dict)
    open_rules: tuple[SuiteRule, ...] = ()
    counts: Mapping[int, RuleState] = field(default_factory=dict)


def judge(
    rows: DataFrame, suite: Suite, published: Published, *, scans: bool = False, whole: bool = False
) -> SuiteVerdict:
    """Judge staged rows.

    Args:
        rows: Live staged rows with the target's columns; read more than once, so persisted by the caller.
        suite: The job's suite.
        published: Gives the whole target as it would be after this run, less the staged rows for which the given
            column of reasons is not empty (None: with all staged rows).
        scans: Whether ``published`` reads rows of the target, for the findings.
        whole: Whether the staged rows are all rows that the target will have.

    Returns:
        The verdict. A rule that raises is a finding with ``error`` and closes the gate.

    Raises:
        Exception: What ``is_no_verdict`` says of: a full disk is no finding of a rule.
    """
    if not suite.rules:
        return SuiteVerdict((), (), None)
    kept = set() if whole else {rule.index for rule in suite.row_rules}
    open_rules = tuple(rule for rule in suite.rules if rule.judged_scope == TARGET and rule.index in kept)
    counted = [rule for rule in suite.rules if rule.spec.is_row and not rule.spec.verdict_only]
    others = [rule for rule in suite.rules if rule not in counted]
    found: dict[int, Finding] = {rule.index: rule.unjudged for rule in open_rules}
    counts: dict[int, RuleState] = {}
    labels: dict[int, Labels | RuleError] = label_rows(rows, [rule for rule in counted if not rule.spec.measured])
    for scope in (CHANGED, TARGET):
        chosen = [rule for rule in counted if (CHANGED if whole else rule.judged_scope) == scope]
        chosen = [rule for rule in chosen if rule.index not in found]
        if chosen:
            frame = rows if scope == CHANGED else published(None)
            own = dict(labels)  # what measures the rows first is labelled for this frame alone
            said, _ = count_rules([(frame, 1)], chosen, own)
            found.update({rule.index: _judge_counts(rule, said[rule.index], own) for rule in chosen})
            counts.update(said if whole else {})
    found.update(_try_labels(rows, suite, labels))
    reasons = _collect_reasons(suite, labels, found)
    for scope in (CHANGED, TARGET):
        chosen = [rule for rule in others if rule.scope == scope]
        if chosen:
            found.update(judge_whole(rows if scope == CHANGED else published(reasons), chosen))
    scanned = {rule.index for rule in suite.rules if rule.judged_scope == TARGET and rule not in open_rules}
    said_of = {index: replace(each, scanned=scans and index in scanned) for index, each in found.items()}
    return SuiteVerdict(*_conclude(suite, said_of), reasons, labels, open_rules, counts)


def judge_state(
    suite: Suite, verdict: SuiteVerdict, entries: Mapping[int, RuleState], scanned: Collection[int]
) -> SuiteVerdict:
    """Return a verdict that holds what ``open_rules`` say of the whole target as it would be published.

    Args:
        suite: The job's suite.
        verdict: What ``judge`` gave.
        entries: The state's entries as they would be, by index; they have counts, or what the rule raised.
        scanned: Rules for which the whole target was read, by index.
    """
    found = {rule.index: each for rule, each in zip(suite.rules, verdict.findings, strict=True)}
    for rule in verdict.open_rules:
        judged = _judge_counts(rule, entries[rule.index], verdict.labels)
        found[rule.index] = replace(judged, scanned=rule.index in scanned)
    findings, closing = _conclude(suite, found)
    return replace(verdict, findings=findings, closing=closing)


def _judge_counts(rule: SuiteRule, counts: RuleState, labels: Mapping[int, Labels | RuleError]) -> Finding:
    """Turn counts into GX's verdict; without counts the rule has raised."""
    label, checked, failed = labels.get(rule.index), counts.checked, counts.failed
    if checked is None or failed is None or not isinstance(label, Labels):
        return replace(rule.unjudged, error=counts.error)
    success = label.succeeds(checked, failed) if checked else None
    return replace(rule.unjudged, checked=checked, failed=failed, success=success)


def _conclude(suite: Suite, found: Mapping[int, Finding]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return the findings in the suite's order, and those that close the gate.

    Whether a rule tolerates its failures (rows when whole, else a share of the checked ones) is asked when GX says that
    it has failed. The gate closes at an error always, at a failure of ``fail`` when that is not tolerated.
    """
    findings, closing = [], []
    for rule in suite.rules:
        finding = found[rule.index]
        has_failed = finding.success is False and finding.error is None
        if has_failed and rule.tolerate is not None:
            limit = resolve_threshold(rule.tolerate, finding.checked)
            finding = replace(finding, tolerated=finding.failed <= limit)
        findings.append(finding)
        if finding.error is not None or (has_failed and rule.action == FAIL and not finding.tolerated):
            closing.append(finding)
    return tuple(findings), tuple(closing)


def _collect_reasons(
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


def _try_labels(rows: DataFrame, suite: Suite, labels: Mapping[int, Labels | RuleError]) -> dict[int, Finding]:
    """Return the quarantine rules whose labels raise over all staged rows.

    Spark runs Python functions on every row, also those that a row condition keeps out, and GX's may raise on them.
    """
    failed: dict[int, Finding] = {}
    for rule in suite.rules:
        label = labels.get(rule.index)
        if rule.action == QUARANTINE and needs_own_rows(rule) and isinstance(label, Labels):
            try:
                with silence_gx():
                    rows.agg(F.count(F.when(label.failing(), F.lit(1)))).collect()
            except Exception as error:
                if is_no_verdict(error):
                    raise
                failed[rule.index] = replace(rule.unjudged, error=name_error(error))
    return failed
