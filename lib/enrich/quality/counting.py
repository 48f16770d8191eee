"""Count what row rules say of rows, by Great Expectations' own conditions: one projection and one aggregate.

    rows                 rule                          marks                 counts
    1, a@b; 2, null      not null (email)              (1, 0), (1, 1)        checked 2, failed 1

Rows count as often as the weight of their frame says: the state of a target grows by the new images of changed rows,
weight 1, and shrinks by the old ones, weight -1.
"""

from __future__ import annotations

import copy
import json
import operator
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.failures import is_no_verdict
from enrich.base.result import RuleState
from enrich.base.suites import COLUMN, PAIR, SuiteRule
from enrich.frames.columns import unite
from enrich.quality.gx import (
    BOOLEAN_ONLY,
    Bench,
    RuleError,
    build_condition,
    build_expectation,
    filter_rows,
    name_error,
    quote_column,
    rename_columns,
    silence_gx,
    simplify_names,
    try_or_split,
)

Weighted = Sequence[tuple[DataFrame, int]]
"""Frames with the same columns, each with how often its rows count."""

RULE = "__enrich_rule"
"""The index of a rule that a row fails."""

_NULL_TYPES = ("expect_column_values_to_be_null", "expect_column_values_to_not_be_null")
_PYTHON = (
    "expect_column_values_to_be_json_parseable",
    "expect_column_values_to_match_json_schema",
    "expect_column_values_to_match_strftime_format",
)


@dataclass(frozen=True)
class Labels:
    """What one row rule says about a row, as columns over the frame it was built for.

    Attributes:
        domain: True for rows that the row condition lets in; None: all.
        ignored: True for rows that GX leaves out of ``checked`` for their nulls; None: none.
        unexpected: GX's condition: true for rows that fail.
        spares_ignored: True when GX leaves those rows out of the failed ones, too, apart from the condition.
        keys: Texts that are equal exactly when two rules have the same rows checked and failed.
        expectation: GX's object, which turns counts into a verdict.
    """

    domain: Column | None
    ignored: Column | None
    unexpected: Column
    spares_ignored: bool
    keys: tuple[str, str]
    expectation: Any

    def failing(self) -> Column:
        """Return a boolean column, never null: the rule judges the row, and finds it wanting."""
        spared = self.ignored if self.spares_ignored else None
        failing = F.coalesce(self.unexpected if spared is None else ~spared & self.unexpected, F.lit(False))
        return failing if self.domain is None else F.when(self.domain, failing).otherwise(F.lit(False))

    def succeeds(self, checked: int, failed: int) -> bool:
        """Return GX's verdict on these counts, ``mostly`` included."""
        metric = self.expectation.map_metric
        metrics = {
            "table.row_count": checked,
            "column_values.nonnull.unexpected_count": 0,
            f"{metric}.filtered_row_count": checked,
            f"{metric}.unexpected_count": failed,
        }
        result = self.expectation._validate(metrics=metrics, runtime_configuration=copy.deepcopy(BOOLEAN_ONLY))
        return bool(result["success"])


def label_rows(frame: DataFrame, rules: Sequence[SuiteRule]) -> dict[int, Labels | RuleError]:
    """Return what each row rule says about the rows of ``frame``, by the rule's index; reads the schema alone."""
    with silence_gx():
        return _ask_labels(frame.columns, Bench(frame.limit(0)), rules)


def _ask_labels(names: Sequence[str], bench: Bench, rules: Sequence[SuiteRule]) -> dict[int, Labels | RuleError]:
    """Ask GX for the conditions of row rules, all at once."""
    from great_expectations.validator.metric_configuration import MetricConfiguration

    found: dict[int, Labels | RuleError] = {}
    asked: dict[bool, dict[int, tuple[SuiteRule, Any, MetricConfiguration]]] = {}
    for rule in rules:
        try:
            kwargs = rename_columns(rule.kwargs, lambda name: quote_column(name, names))
            expectation = build_expectation(rule, kwargs)
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
            found[rule.index] = RuleError(name_error(error))
            continue
        listed = [str(name) for name in kwargs.get("column_list", [])]
        keeps_names = any("." in name for name in listed) and rule.type != "expect_multicolumn_sum_to_equal"
        asked.setdefault(keeps_names, {})[rule.index] = (rule, expectation, metric)
    for keeps_names, group in asked.items():
        bench.engine.keeps_names = keeps_names
        values, causes = bench.compute([metric for _, _, metric in group.values()])
        for index, (rule, expectation, metric) in group.items():
            if metric.id in values:
                found[index] = _build_label(rule, names, values[metric.id], expectation)
            else:
                found[index] = RuleError(causes.get(metric.id, "MetricResolutionError"))
    return found


def _build_label(rule: SuiteRule, names: Sequence[str], metric: Any, expectation: Any) -> Labels | RuleError:
    """Put a rule's condition together with the rows it judges."""
    unexpected, rows, _ = metric
    spares = "ignore_row_if" in rows or "filter_conditions" in rows
    judged = [rule.type if rule.type in _NULL_TYPES else None, rule.column, rule.column_list]
    kwargs = {name: value for name, value in rule.kwargs.items() if name != "mostly"}
    keys = (
        json.dumps([rule.row_condition, judged, rule.kwargs.get("ignore_row_if"), rule.spec.judges], sort_keys=True),
        json.dumps([rule.row_condition, rule.type, kwargs], sort_keys=True),
    )
    try:
        domain, ignored = build_condition(rule.row_condition, names), _find_ignored(rule, names, expectation)
        return Labels(domain, ignored, unexpected, spares, keys, expectation)
    except Exception as error:  # noqa: BLE001 - one rule's error is that rule's finding
        return RuleError(name_error(error))


def _find_ignored(rule: SuiteRule, names: Sequence[str], expectation: Any) -> Column | None:
    """Return the rows that GX leaves out for their nulls."""
    if rule.spec.judges == COLUMN:
        if rule.type in _NULL_TYPES:
            return None
        return F.col(quote_column(rule.kwargs["column"], names)).isNull()
    nulls = [F.col(quote_column(name, names)).isNull() for name in rule.column_list or ()]
    how = expectation.ignore_row_if
    every, some = ("both_values_are_missing", "either_value_is_missing")
    if rule.spec.judges != PAIR:
        every, some = ("all_values_are_missing", "any_value_is_missing")
    if how == every:
        return reduce(operator.and_, nulls)
    return reduce(operator.or_, nulls) if how == some else None


def count_rules(
    rows: Weighted,
    rules: Sequence[SuiteRule],
    labels: dict[int, Labels | RuleError],
    marks: Mapping[str, Column] | None = None,
) -> tuple[dict[int, RuleState], dict[str, int]]:
    """Count what row rules say of rows, by the rule's index; a rule that raises has its error alone.

    A rule that looks at other rows, or that runs Python on a value, must not see what its row condition keeps out, so
    with a row condition it has a pass of its own.

    Args:
        rows: Frames with the columns for which ``labels`` were made.
        rules: Row rules.
        labels: What they say of a row, by index; rules that measure the rows first have none, and get it here.
        marks: Further conditions to be counted in the same pass, by name.

    Returns:
        What the rules say, by index, without counts where one raised; and for how many rows each mark is true.
    """
    good = {index: label for index, label in labels.items() if isinstance(label, Labels)}
    shared = [rule for rule in rules if rule.index in good and not needs_own_rows(rule)]
    found: dict[int, RuleState] = {}
    counts: dict[str, int] | None = None
    with silence_gx() if rules else nullcontext():
        try:
            if shared:
                found, counts = _count(rows, shared, good, marks)
        except Exception as error:  # then the marks, and each rule, in passes of their own
            if is_no_verdict(error):
                raise
            found = try_or_split(shared, lambda part: _count(rows, part, good)[0], _note_error)
        for rule in rules:
            if rule.index not in found:
                found |= try_or_split([rule], lambda part: _count_alone(rows, part[0], labels), _note_error)
    if counts is None:
        counts = count_marks(rows, marks) if marks else {}
    return found, counts


def needs_own_rows(rule: SuiteRule) -> bool:
    """Tell whether a rule must not be evaluated on rows that its row condition keeps out."""
    return rule.row_condition is not None and (rule.spec.windowed or rule.type in _PYTHON)


def _note_error(rule: SuiteRule, error: str) -> RuleState:
    return RuleState(rule.index, error=error, rule=rule.fingerprint)


def find_failing(
    frame: DataFrame, rules: Sequence[SuiteRule], labels: Mapping[int, Labels], kept: Sequence[str]
) -> DataFrame:
    """Return every row that fails a rule, once for each rule that it fails.

    ```
    rows         rules                          failing, kept: id
    1, a@b       0: email not null        ->    2, rule 0
    2, null      1: email matches @             3, rule 1
    3, none
    ```

    Args:
        frame: Rows with the target's columns.
        rules: Row rules that ``count_rules`` has counted without an error.
        labels: What ``label_rows`` gave for them.
        kept: The columns to keep.

    Returns:
        ``kept`` and ``RULE``, the rule's index. Read the rows within ``silence_gx``.
    """
    alone = [rule for rule in rules if needs_own_rows(rule)]
    shared = [rule for rule in rules if rule not in alone]
    parts = [(frame, shared)] if shared else []
    parts += [(filter_rows(frame, rule), [rule]) for rule in alone]
    found = []
    for rows, chosen in parts:
        marks = [F.when(labels[rule.index].failing(), F.lit(rule.index)) for rule in chosen]
        found.append(rows.select(*kept, F.explode(F.array_compact(F.array(*marks))).alias(RULE)))
    return unite(found)


def _count_alone(rows: Weighted, rule: SuiteRule, labels: dict[int, Labels | RuleError]) -> dict[int, RuleState]:
    """Count one rule over the rows that it judges; a rule without label measures them first."""
    label = labels.get(rule.index)
    if isinstance(label, RuleError):
        raise label
    if label is None:
        ((frame, weight),) = rows
        # Its label holds figures computed from these rows, whose columns are renamed: it belongs to them alone.
        measured, rename = simplify_names(filter_rows(frame, rule))
        plain = replace(rule, kwargs=rename_columns(rule.kwargs, rename), row_condition=None)
        label = _ask_labels(measured.columns, Bench(measured), [plain])[rule.index]
        if isinstance(label, RuleError):
            raise label
        labels[rule.index] = label
        return _count([(measured, weight)], [rule], {rule.index: label})[0]
    return _count([(filter_rows(frame, rule), weight) for frame, weight in rows], [rule], {rule.index: label})[0]


_PARTS = ("checked", "failed")


def _count(
    rows: Weighted, rules: Sequence[SuiteRule], labels: Mapping[int, Labels], more: Mapping[str, Column] | None = None
) -> tuple[dict[int, RuleState], dict[str, int]]:
    marks: dict[tuple[str, str], Column] = {}
    for rule in rules:
        label = labels[rule.index]
        checked = F.lit(True) if label.domain is None else F.coalesce(label.domain, F.lit(False))
        checked = checked if label.ignored is None else checked & ~label.ignored
        marks.update(zip(zip(_PARTS, label.keys, strict=True), (checked, label.failing()), strict=True))
    names = {key: f"l{number}" for number, key in enumerate(marks)}
    more = more or {}
    counts = count_marks(rows, {**more, **{names[key]: condition for key, condition in marks.items()}})
    found: dict[int, RuleState] = {}
    for rule in rules:
        checked_rows, failed = (counts[names[key]] for key in zip(_PARTS, labels[rule.index].keys, strict=True))
        found[rule.index] = RuleState(rule.index, checked_rows, failed, rule=rule.fingerprint)
    return found, {name: counts[name] for name in more}


def count_marks(rows: Weighted, marks: Mapping[str, Column]) -> dict[str, int]:
    """Count for how many rows each condition is true, by its name."""
    projected = [
        frame.select(*[F.when(condition, F.lit(weight)).alias(name) for name, condition in marks.items()])
        for frame, weight in rows
    ]
    united = unite(projected)
    counts = united.agg(*[F.coalesce(F.sum(F.col(name)), F.lit(0)).alias(name) for name in marks]).collect()[0]
    return {name: int(counts[name]) for name in marks}
