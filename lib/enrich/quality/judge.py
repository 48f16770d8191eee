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
from enrich.quality.counting import Labels, RuleCounts, count_rules, label_rows, needs_own_rows
from enrich.quality.gx import RuleError, judge_whole, name_error, silence_gx
from enrich.quality.suites import CHANGED, FAIL, QUARANTINE, TARGET, Suite, SuiteRule

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
    counts: Mapping[int, RuleCounts] = field(default_factory=dict)


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
    counts: dict[int, RuleCounts] = {}
    labels: dict[int, Labels | RuleError] = label_rows(rows, [rule for rule in counted if not rule.spec.measured])
    for scope in (CHANGED, TARGET):
        chosen = [rule for rule in counted if (CHANGED if whole else rule.judged_scope) == scope]
        chosen = [rule for rule in chosen if rule.index not in found]
        if chosen:
            frame = rows if scope == CHANGED else published(None)
            said, _ = count_rules([(frame, 1)], chosen, labels)
            found.update({rule.index: _judge_counts(rule, said[rule.index]) for rule in chosen})
            counts.update(said if whole else {})
    found.update(_try_labels(rows, suite, labels))
    reasons = collect_reasons(suite, labels, found)
    for scope in (CHANGED, TARGET):
        chosen = [rule for rule in others if rule.scope == scope]
        if chosen:
            found.update(judge_whole(rows if scope == CHANGED else published(reasons), chosen))
    scanned = {rule.index for rule in suite.rules if rule.judged_scope == TARGET and rule not in open_rules}
    findings = tuple(
        replace(tolerate(rule, found[rule.index]), scanned=scans and rule.index in scanned) for rule in suite.rules
    )
    return SuiteVerdict(findings, list_closing(suite, findings), reasons, labels, open_rules, counts)


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
    found = {each.index: each for each in verdict.findings}
    for rule in verdict.open_rules:
        entry, label = entries[rule.index], verdict.labels.get(rule.index)
        if entry.checked is None or entry.failed is None or not isinstance(label, Labels):
            found[rule.index] = replace(rule.unjudged, error=entry.error)
        else:
            counts = RuleCounts(entry.checked, entry.checked, entry.failed, label)
            found[rule.index] = _judge_counts(rule, counts)
        found[rule.index] = replace(found[rule.index], scanned=rule.index in scanned)
    findings = tuple(tolerate(rule, found[rule.index]) for rule in suite.rules)
    return replace(verdict, findings=findings, closing=list_closing(suite, findings))


def _judge_counts(rule: SuiteRule, counts: RuleCounts) -> Finding:
    """Turn counts into GX's verdict."""
    if counts.label is None:
        return replace(rule.unjudged, error=counts.error)
    success = counts.label.succeeds(counts.total, counts.checked, counts.failed) if counts.checked else None
    return replace(rule.unjudged, checked=counts.checked, failed=counts.failed, success=success)


def list_closing(suite: Suite, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings of a suite that close the gate."""
    return tuple(each for rule, each in zip(suite.rules, findings, strict=True) if closes_gate(rule, each))


def tolerate(rule: SuiteRule, finding: Finding) -> Finding:
    """Return a finding with whether the rule tolerates it, which is asked when GX says that the rule has failed.

    ``tolerate`` is rows when whole, else a share of the checked ones.
    """
    if rule.tolerate is None or finding.success is not False or finding.error is not None:
        return finding
    return replace(finding, tolerated=finding.failed <= resolve_threshold(rule.tolerate, finding.checked))


def closes_gate(rule: SuiteRule, finding: Finding) -> bool:
    """Tell whether one rule's finding blocks the run: an error always, a failure of ``fail`` that is not tolerated."""
    is_failed = rule.action == FAIL and finding.success is False
    return finding.error is not None or (is_failed and not finding.tolerated)


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
