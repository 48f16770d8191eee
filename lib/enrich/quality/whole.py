"""Rules with one verdict for all rows, aggregates and types: left to Great Expectations as a whole."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enrich.quality.gx import (
    BOOLEAN_ONLY,
    Bench,
    RuleError,
    build_expectation,
    filter_rows,
    import_gx,
    name_error,
    rename_columns,
    silence_gx,
    simplify_names,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from enrich.quality.suites import SuiteRule


@dataclass(frozen=True)
class RuleOutcome:
    """What came of one rule: counts and verdict, or the class of what went wrong."""

    checked: int
    failed: int
    success: bool | None
    error: str | None = None


def judge_whole(frame: DataFrame, rules: Sequence[SuiteRule]) -> dict[int, RuleOutcome]:
    """Return GX's verdict on ``frame`` for rules that have one verdict for all rows, by the rule's index.

    The frame is read as often as GX needs: once for all simple aggregates, once more for each quantile or value count.
    """
    import_gx()
    groups: dict[str, list[SuiteRule]] = {}
    for rule in rules:
        groups.setdefault(repr(rule.row_condition), []).append(rule)
    found: dict[int, RuleOutcome] = {}
    with silence_gx():
        for group in groups.values():
            found.update(_judge_group(frame, group))
    return found


def _judge_group(frame: DataFrame, rules: Sequence[SuiteRule]) -> dict[int, RuleOutcome]:
    """Judge rules with one row condition; when GX cannot compute all at once, one at a time."""
    try:
        rows, safe = simplify_names(filter_rows(frame, rules[0]))
        return _judge_with(Bench(rows), rules, safe)
    except Exception as error:  # noqa: BLE001 - the rule that raised is found below
        if len(rules) == 1:
            return {rules[0].index: RuleOutcome(0, 0, None, name_error(error))}
    return {index: outcome for rule in rules for index, outcome in _judge_group(frame, [rule]).items()}


def _judge_with(bench: Bench, rules: Sequence[SuiteRule], safe: Mapping[str, str]) -> dict[int, RuleOutcome]:
    """Compute the metrics of all rules together, then ask each expectation for its verdict."""
    from great_expectations.validator.metric_configuration import MetricConfiguration

    size = MetricConfiguration("table.row_count", metric_domain_kwargs={}, metric_value_kwargs=None)
    expectations = {rule.index: build_expectation(rule, rename_columns(rule.kwargs, safe)) for rule in rules}
    needed = {index: bench.dependencies(expectation) for index, expectation in expectations.items()}
    metrics = [size, *(metric for needs in needed.values() for metric in needs.values())]
    values, causes = bench.compute(metrics)
    if size.id not in values:
        raise RuleError(causes.get(size.id, "MetricResolutionError"))
    checked = int(values[size.id])
    found: dict[int, RuleOutcome] = {}
    for index, expectation in expectations.items():
        missing = [metric.id for metric in needed[index].values() if metric.id not in values]
        if checked == 0:
            found[index] = RuleOutcome(0, 0, None)
        elif missing:
            found[index] = RuleOutcome(checked, 0, None, causes.get(missing[0], "MetricResolutionError"))
        else:
            found[index] = _ask_gx(bench, expectation, values, checked)
    return found


def _ask_gx(bench: Bench, expectation: Any, values: Mapping[Any, Any], checked: int) -> RuleOutcome:
    """Return one expectation's verdict on computed metrics."""
    try:
        result = expectation.metrics_validate(
            values, runtime_configuration=copy.deepcopy(BOOLEAN_ONLY), execution_engine=bench.engine
        )
    except Exception as error:  # noqa: BLE001 - one rule's error is that rule's finding
        return RuleOutcome(checked, 0, None, name_error(error))
    success = bool(result.success)
    return RuleOutcome(checked, 0 if success else 1, success)
