"""Row rules as columns: Great Expectations' own condition of each rule, and the rows it is counted over."""

from __future__ import annotations

import copy
import json
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.quality import gx
from enrich.quality.catalogue import COLUMN, PAIR
from enrich.quality.suites import SuiteRule

_NULL_TYPES = ("expect_column_values_to_be_null", "expect_column_values_to_not_be_null")


@dataclass(frozen=True)
class Labels:
    """What one row rule says about a row, as columns over the frame it was built for.

    Attributes:
        domain: True for rows that the row condition lets in; None: all.
        ignored: True for rows that GX leaves out of ``checked`` for their nulls; None: none.
        unexpected: GX's condition: true for rows that fail.
        spares_ignored: True when GX leaves those rows out of the failed ones, too, apart from the condition.
        keys: Texts that are equal exactly when two rules have the same rows let in, checked and failed.
        expectation: GX's object, which turns counts into a verdict.
    """

    domain: Column | None
    ignored: Column | None
    unexpected: Column
    spares_ignored: bool
    keys: tuple[str, str, str]
    expectation: Any

    def failing(self) -> Column:
        """Return a boolean column, never null: the rule judges the row, and finds it wanting."""
        spared = self.ignored if self.spares_ignored else None
        failing = F.coalesce(self.unexpected if spared is None else ~spared & self.unexpected, F.lit(False))
        return failing if self.domain is None else F.when(self.domain, failing).otherwise(F.lit(False))

    def succeeds(self, total: int, checked: int, failed: int) -> bool:
        """Return GX's verdict on these counts, ``mostly`` included."""
        metric = self.expectation.map_metric
        metrics = {
            "table.row_count": total,
            "column_values.nonnull.unexpected_count": total - checked,
            f"{metric}.filtered_row_count": checked,
            f"{metric}.unexpected_count": failed,
        }
        result = self.expectation._validate(metrics=metrics, runtime_configuration=copy.deepcopy(gx.BOOLEAN_ONLY))
        return bool(result["success"])


def label_rows(frame: DataFrame, rules: Sequence[SuiteRule]) -> dict[int, Labels | gx.RuleError]:
    """Return what each row rule says about the rows of ``frame``, by the rule's index; reads the schema alone."""
    with gx.silence_gx():
        return _ask_labels(frame.columns, gx.Bench(frame.limit(0)), rules)


def label_measured(frame: DataFrame, rule: SuiteRule) -> tuple[DataFrame, Labels]:
    """Return the rows that a rule judges and what it says about them, for rules that measure the rows first.

    The labels belong to the returned frame alone: they hold figures computed from it, and its columns are renamed.

    Raises:
        RuleError: GX cannot measure the rows.
    """
    with gx.silence_gx():
        rows, rename = gx.simplify_names(gx.filter_rows(frame, rule))
        plain = replace(rule, kwargs=gx.rename_columns(rule.kwargs, rename), row_condition=None)
        label = _ask_labels(rows.columns, gx.Bench(rows), [plain])[rule.index]
    if isinstance(label, gx.RuleError):
        raise label
    return rows, label


def _ask_labels(names: Sequence[str], bench: gx.Bench, rules: Sequence[SuiteRule]) -> dict[int, Labels | gx.RuleError]:
    """Ask GX for the conditions of row rules, all at once."""
    from great_expectations.validator.metric_configuration import MetricConfiguration

    found: dict[int, Labels | gx.RuleError] = {}
    asked: dict[bool, dict[int, tuple[SuiteRule, Any, MetricConfiguration]]] = {}
    for rule in rules:
        try:
            kwargs = gx.rename_columns(rule.kwargs, lambda name: gx.quote_column(name, names))
            expectation = gx.build_expectation(rule, kwargs)
            count = bench.dependencies(expectation)[f"{expectation.map_metric}.unexpected_count"]
            metric = MetricConfiguration(
                f"{expectation.map_metric}.condition",
                metric_domain_kwargs=dict(count.metric_domain_kwargs),
                metric_value_kwargs=gx.put_in_utc(count.metric_value_kwargs),
            )
        except Exception as error:  # noqa: BLE001 - one rule's error is that rule's finding
            found[rule.index] = gx.RuleError(gx.name_error(error))
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
                found[index] = gx.RuleError(causes.get(metric.id, "MetricResolutionError"))
    return found


def _build_label(rule: SuiteRule, names: Sequence[str], metric: Any, expectation: Any) -> Labels | gx.RuleError:
    """Put a rule's condition together with the rows it judges."""
    unexpected, rows, _ = metric
    spares = "ignore_row_if" in rows or "filter_conditions" in rows
    try:
        domain, ignored = gx.build_condition(rule.row_condition, names), _find_ignored(rule, names, expectation)
        return Labels(domain, ignored, unexpected, spares, _name_keys(rule), expectation)
    except Exception as error:  # noqa: BLE001 - one rule's error is that rule's finding
        return gx.RuleError(gx.name_error(error))


def _name_keys(rule: SuiteRule) -> tuple[str, str, str]:
    """Return what tells the rows let in, checked and failed of one rule from those of others."""
    judged = [rule.type if rule.type in _NULL_TYPES else None, rule.column, rule.column_list]
    kwargs = {name: value for name, value in rule.kwargs.items() if name != "mostly"}
    return (
        json.dumps(rule.row_condition, sort_keys=True),
        json.dumps([rule.row_condition, judged, rule.kwargs.get("ignore_row_if"), rule.spec.judges], sort_keys=True),
        json.dumps([rule.row_condition, rule.type, kwargs], sort_keys=True),
    )


def _find_ignored(rule: SuiteRule, names: Sequence[str], expectation: Any) -> Column | None:
    """Return the rows that GX leaves out for their nulls."""
    if rule.spec.judges == COLUMN:
        if rule.type in _NULL_TYPES:
            return None
        return F.col(gx.quote_column(rule.kwargs["column"], names)).isNull()
    nulls = [F.col(gx.quote_column(name, names)).isNull() for name in rule.column_list or ()]
    how = expectation.ignore_row_if
    every, some = ("both_values_are_missing", "either_value_is_missing")
    if rule.spec.judges != PAIR:
        every, some = ("all_values_are_missing", "any_value_is_missing")
    if how == every:
        return reduce(operator.and_, nulls)
    return reduce(operator.or_, nulls) if how == some else None
