"""Hold the staged rows against a suite, before anything is written.

    rows      suite                                     findings                       reasons
    1, a@b    not null (email): quarantine       ->     checked 2, failed 1, false     1: []
    2, null                                                                            2: [..._not_be_null:email]

All row rules are labelled in one projection and counted in one aggregate; the quarantine is split off by the same
labels. The labels are GX's own conditions, so a verdict is GX's. Rows count as often as the weight of their frame says:
the state of a target grows by the new images of changed rows, weight 1, and shrinks by the old ones, weight -1.
"""

from __future__ import annotations

import copy
import json
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.failures import is_no_verdict
from enrich.base.result import Finding, RuleState, resolve_threshold
from enrich.base.suites import CHANGED, COLUMN, FAIL, QUARANTINE, TARGET, Suite, SuiteRule, resolve_column
from enrich.frames.columns import add_up, unite
from enrich.quality import gx

Published = Callable[[Column | None], DataFrame]
Weighted = Sequence[tuple[DataFrame, int]]  # frames with the same columns, each with how often its rows count

_NULL_TYPES = ("expect_column_values_to_be_null", "expect_column_values_to_not_be_null")
_PYTHON = (
    "expect_column_values_to_be_json_parseable",
    "expect_column_values_to_match_json_schema",
    "expect_column_values_to_match_strftime_format",
)


@dataclass(frozen=True)
class Labels:
    """What one row rule says about a row, as columns over the frame it was built for."""

    domain: Column | None  # True for rows that the row condition lets in; None: all
    ignored: Column | None  # True for rows that GX leaves out of ``checked`` for their nulls; None: none
    unexpected: Column  # GX's condition: true for rows that fail
    spares_ignored: bool  # True when GX leaves those rows out of the failed ones, too, apart from the condition
    keys: tuple[str, str]  # texts that are equal exactly when two rules have the same rows checked and failed
    expectation: Any  # GX's object, which turns counts into a verdict

    def failing(self) -> Column:
        """Return a boolean column, never null: the rule judges the row, and finds it wanting."""
        spared = self.ignored if self.spares_ignored else None
        failing = F.coalesce(self.unexpected if spared is None else ~spared & self.unexpected, F.lit(False))
        return failing if self.domain is None else F.when(self.domain, failing).otherwise(F.lit(False))


def label_rows(frame: DataFrame, rules: Sequence[SuiteRule]) -> dict[int, Labels | gx.RuleError]:
    """Return what each row rule says about the rows of ``frame``, by the rule's index; reads the schema alone."""
    with gx.silence_gx():
        return _ask_labels(frame.columns, gx.Bench(frame.limit(0)), rules)


def _ask_labels(names: Sequence[str], bench: gx.Bench, rules: Sequence[SuiteRule]) -> dict[int, Labels | gx.RuleError]:
    """Ask GX for the conditions of row rules, all at once."""
    from great_expectations.validator.metric_configuration import MetricConfiguration

    found: dict[int, Labels | gx.RuleError] = {}
    asked: dict[bool, dict[int, tuple[SuiteRule, Any, MetricConfiguration]]] = {}
    for rule in rules:
        try:
            kwargs = gx.rename_columns(rule.kwargs, lambda name: resolve_column(name, names) or name)
            expectation = gx.build_expectation(rule, kwargs)
            count = bench.dependencies(expectation)[f"{expectation.map_metric}.unexpected_count"]
            metric = MetricConfiguration(
                f"{expectation.map_metric}.condition",
                metric_domain_kwargs=dict(count.metric_domain_kwargs),
                metric_value_kwargs={  # of a moment without a time zone, pyspark would think that it is the machine's
                    name: value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value
                    for name, value in count.metric_value_kwargs.items()
                },
            )
        except Exception as error:  # noqa: BLE001 - one rule's error is that rule's finding
            found[rule.index] = gx.RuleError(gx.name_error(error))
            continue
        has_dots = any("." in name for name in kwargs.get("column_list", ()))
        keeps_names = has_dots and rule.type != "expect_multicolumn_sum_to_equal"
        asked.setdefault(keeps_names, {})[rule.index] = (rule, expectation, metric)
    for keeps_names, group in asked.items():
        bench.engine.keeps_names = keeps_names
        values, causes = bench.compute([metric for _, _, metric in group.values()])
        for index, (rule, expectation, metric) in group.items():
            if metric.id not in values:
                found[index] = gx.RuleError(causes.get(metric.id, gx.UNRESOLVED))
                continue
            unexpected, rows, _ = values[metric.id]
            spares = "ignore_row_if" in rows or "filter_conditions" in rows
            judged = [rule.type if rule.type in _NULL_TYPES else None, rule.column, rule.column_list]
            judged += [rule.kwargs.get("ignore_row_if"), rule.spec.judges]
            kwargs = {name: value for name, value in rule.kwargs.items() if name != "mostly"}
            same_checked = json.dumps([rule.row_condition, judged], sort_keys=True)
            keys = same_checked, json.dumps([rule.row_condition, rule.type, kwargs], sort_keys=True)
            try:
                domain, ignored = gx.build_condition(rule.row_condition, names), _find_ignored(rule, names, expectation)
                found[index] = Labels(domain, ignored, unexpected, spares, keys, expectation)
            except Exception as error:  # noqa: BLE001 - one rule's error is that rule's finding
                found[index] = gx.RuleError(gx.name_error(error))
    return found


def _find_ignored(rule: SuiteRule, names: Sequence[str], expectation: Any) -> Column | None:
    """Return the rows that GX leaves out for their nulls."""
    nulls = [F.col(resolve_column(name, names) or name).isNull() for name in rule.columns]
    if rule.spec.judges == COLUMN:
        return None if rule.type in _NULL_TYPES else nulls[0]
    match expectation.ignore_row_if:
        case "both_values_are_missing" | "all_values_are_missing":
            return reduce(operator.and_, nulls)
        case "either_value_is_missing" | "any_value_is_missing":
            return reduce(operator.or_, nulls)
    return None


def count_rules(
    rows: Weighted,
    rules: Sequence[SuiteRule],
    labels: dict[int, Labels | gx.RuleError],
    marks: Mapping[str, Column] | None = None,
) -> tuple[dict[int, RuleState], dict[str, int]]:
    """Count what row rules say of rows, by the rule's index; a rule that raises has its error alone.

    ``rows`` are frames with the columns for which ``labels`` were made; a rule that measures the rows first has no
    label, and gets it here. ``marks`` are further conditions to be counted in the same pass: for how many rows each is
    true is returned by its name.
    """
    good = {index: label for index, label in labels.items() if isinstance(label, Labels)}
    shared = [rule for rule in rules if rule.index in good and not needs_own_rows(rule)]
    found: dict[int, RuleState] = {}
    counts: dict[str, int] | None = None
    with gx.silence_gx() if rules else nullcontext():
        try:
            if shared:
                found, counts = _count(rows, shared, good, marks)
        except Exception as error:  # then the marks, and each rule, in passes of their own
            if is_no_verdict(error):
                raise
            found = gx.try_or_split(shared, lambda part: _count(rows, part, good)[0], _note_error)
        for rule in rules:
            if rule.index not in found:
                found |= gx.try_or_split([rule], lambda part: _count_alone(rows, part[0], labels), _note_error)
    if counts is None:
        counts = count_marks(rows, marks) if marks else {}
    return found, counts


def needs_own_rows(rule: SuiteRule) -> bool:
    """Tell whether a rule, as it looks at other rows or runs Python, must not see what its row condition keeps out."""
    return rule.row_condition is not None and (rule.spec.windowed or rule.type in _PYTHON)


def _note_error(rule: SuiteRule, error: str) -> RuleState:
    return RuleState(rule.index, error=error, rule=rule.fingerprint)


def _count_alone(rows: Weighted, rule: SuiteRule, labels: dict[int, Labels | gx.RuleError]) -> dict[int, RuleState]:
    """Count one rule over the rows that it judges; a rule without label measures them first."""
    label = labels.get(rule.index)
    if isinstance(label, gx.RuleError):
        raise label
    if label is None:
        ((frame, weight),) = rows
        # Its label holds figures computed from these rows, whose columns are renamed: it belongs to them alone.
        measured, rename = gx.simplify_names(gx.filter_rows(frame, rule))
        plain = replace(rule, kwargs=gx.rename_columns(rule.kwargs, rename), row_condition=None)
        label = _ask_labels(measured.columns, gx.Bench(measured), [plain])[rule.index]
        if isinstance(label, gx.RuleError):
            raise label
        labels[rule.index] = label
        return _count([(measured, weight)], [rule], {rule.index: label})[0]
    return _count([(gx.filter_rows(frame, rule), weight) for frame, weight in rows], [rule], {rule.index: label})[0]


def _count(
    rows: Weighted, rules: Sequence[SuiteRule], labels: Mapping[int, Labels], more: Mapping[str, Column] | None = None
) -> tuple[dict[int, RuleState], dict[str, int]]:
    marks: dict[str, Column] = {}
    for rule in rules:
        label = labels[rule.index]
        checked = F.lit(True) if label.domain is None else F.coalesce(label.domain, F.lit(False))
        checked = checked if label.ignored is None else checked & ~label.ignored
        marks.update(zip(label.keys, (checked, label.failing()), strict=True))
    names = {key: f"l{number}" for number, key in enumerate(marks)}
    more = more or {}
    counts = count_marks(rows, {**more, **{names[key]: condition for key, condition in marks.items()}})
    found: dict[int, RuleState] = {}
    for rule in rules:
        checked_rows, failed = (counts[names[key]] for key in labels[rule.index].keys)
        found[rule.index] = RuleState(rule.index, checked_rows, failed, rule=rule.fingerprint)
    return found, {name: counts[name] for name in more}


def count_marks(rows: Weighted, marks: Mapping[str, Column]) -> dict[str, int]:
    """Count for how many rows each condition is true, and add up numbers, by their names."""
    projected = [
        frame.select(*[(mark.cast("long") * weight).alias(name) for name, mark in marks.items()])
        for frame, weight in rows
    ]
    counts = unite(projected).agg(*[add_up(F.col(name)).alias(name) for name in marks]).collect()[0]
    return {name: int(counts[name]) for name in marks}


@dataclass(frozen=True)
class SuiteVerdict:
    """What a suite says about the staged rows."""

    # One per expectation, in the order of the suite; without verdict for those of ``open_rules``.
    findings: tuple[Finding, ...] = ()
    closing: tuple[Finding, ...] = ()  # the findings that close the gate; empty when the rows may be written
    # ``array<string>``: the quarantine rules that a staged row breaks, as ``<type>:<column>``; empty for a good row.
    # None when the suite has no quarantine rule.
    reasons: Column | None = None
    # What each row rule says about a row, by index, where it does not measure the rows first.
    labels: Mapping[int, Labels | gx.RuleError] = field(default_factory=dict)
    # Rules of scope ``target`` whose counts come from the state of the target: ``judge_state``.
    open_rules: tuple[SuiteRule, ...] = ()
    # What the row rules say of the staged rows, by index, where these are the whole target.
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
        return SuiteVerdict()
    kept = set() if whole else {rule.index for rule in suite.row_rules}
    open_rules = tuple(rule for rule in suite.rules if rule.judged_scope == TARGET and rule.index in kept)
    counted = [rule for rule in suite.rules if rule.spec.is_row and not rule.spec.verdict_only]
    others = [rule for rule in suite.rules if rule not in counted]
    found: dict[int, Finding] = {rule.index: rule.unjudged for rule in open_rules}
    counts: dict[int, RuleState] = {}
    labels: dict[int, Labels | gx.RuleError] = label_rows(rows, [rule for rule in counted if not rule.spec.measured])
    for scope in (CHANGED, TARGET):
        chosen = [rule for rule in counted if (CHANGED if whole else rule.judged_scope) == scope]
        if chosen := [rule for rule in chosen if rule.index not in found]:
            frame = rows if scope == CHANGED else published(None)
            own = dict(labels)  # what measures the rows first is labelled for this frame alone
            said, _ = count_rules([(frame, 1)], chosen, own)
            found.update({rule.index: _judge_counts(rule, said[rule.index], own) for rule in chosen})
            counts.update(said if whole else {})
    # Spark runs Python functions on every row, also those that a row condition keeps out, and GX's may raise on them.
    quarantining = [rule for rule in suite.rules if rule.action == QUARANTINE]
    for rule in quarantining:
        label = labels.get(rule.index)
        if needs_own_rows(rule) and isinstance(label, Labels):
            try:
                with gx.silence_gx():
                    rows.agg(F.count(F.when(label.failing(), F.lit(1)))).collect()
            except Exception as error:
                if is_no_verdict(error):
                    raise
                found[rule.index] = replace(rule.unjudged, error=gx.name_error(error))
    # Whether GX's verdict is a pass does not matter: with ``mostly`` it depends on the other rows of the run, and the
    # target must not. A rule that raised holds no row, since the gate is closed anyway.
    labelled = [(rule, labels[rule.index]) for rule in quarantining if found[rule.index].error is None]
    marks = [F.when(each.failing(), F.lit(rule.label)) for rule, each in labelled if isinstance(each, Labels)]
    reasons = F.array_distinct(F.array_compact(F.array(*marks).cast("array<string>"))) if quarantining else None
    for scope in (CHANGED, TARGET):
        if chosen := [rule for rule in others if rule.scope == scope]:
            found.update(gx.judge_whole(rows if scope == CHANGED else published(reasons), chosen))
    scanned = {rule.index for rule in suite.rules if rule.judged_scope == TARGET and rule not in open_rules}
    said_of = {index: replace(each, scanned=scans and index in scanned) for index, each in found.items()}
    return SuiteVerdict(*_conclude(suite, said_of), reasons, labels, open_rules, counts)


def judge_state(
    suite: Suite, verdict: SuiteVerdict, entries: Mapping[int, RuleState], scanned: Collection[int]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return a verdict's findings, with what ``open_rules`` say of the whole target, and those that close the gate.

    ``entries`` are the state's entries as they would be, ``scanned`` the rules for which the target was read, by index.
    """
    found = {rule.index: each for rule, each in zip(suite.rules, verdict.findings, strict=True)}
    for rule in verdict.open_rules:
        judged = _judge_counts(rule, entries[rule.index], verdict.labels)
        found[rule.index] = replace(judged, scanned=rule.index in scanned)
    return _conclude(suite, found)


def _judge_counts(rule: SuiteRule, counts: RuleState, labels: Mapping[int, Labels | gx.RuleError]) -> Finding:
    """Turn counts into GX's verdict, ``mostly`` included; without counts the rule has raised."""
    label, checked, failed = labels.get(rule.index), counts.checked, counts.failed
    if checked is None or failed is None or not isinstance(label, Labels):
        return replace(rule.unjudged, error=counts.error)
    success = None
    if checked:
        metric = label.expectation.map_metric
        metrics = {
            "table.row_count": checked,
            "column_values.nonnull.unexpected_count": 0,
            f"{metric}.filtered_row_count": checked,
            f"{metric}.unexpected_count": failed,
        }
        said = label.expectation._validate(metrics=metrics, runtime_configuration=copy.deepcopy(gx.BOOLEAN_ONLY))
        success = bool(said["success"])
    return replace(rule.unjudged, checked=checked, failed=failed, success=success)


def _conclude(suite: Suite, found: Mapping[int, Finding]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return the findings in the suite's order, and those that close the gate.

    The gate closes at an error always, at a failure of ``fail`` when that is not tolerated.
    """
    findings, closing = [], []
    for rule in suite.rules:
        finding = found[rule.index]
        has_failed = finding.success is False and finding.error is None
        if has_failed and rule.tolerate is not None:
            finding = replace(finding, tolerated=finding.failed <= resolve_threshold(rule.tolerate, finding.checked))
        findings.append(finding)
        if finding.error is not None or (has_failed and rule.action == FAIL and not finding.tolerated):
            closing.append(finding)
    return tuple(findings), tuple(closing)
