"""Rules with one verdict for all rows, aggregates and types: left to Great Expectations as a whole."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from enrich.base.failures import is_no_verdict
from enrich.base.result import Finding
from enrich.quality import gx
from enrich.quality.suites import SuiteRule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")


def judge_whole(frame: DataFrame, rules: Sequence[SuiteRule]) -> dict[int, Finding]:
    """Return GX's verdict on ``frame`` for rules that have one verdict for all rows, by the rule's index.

    The frame is read as often as GX needs: once for all simple aggregates, once more for each quantile or value count.
    Expectations about types see the columns as they are, so where there are timestamps they are judged apart.
    """
    has_zones = gx.drop_zones(frame) is not frame
    groups: dict[tuple[str, bool], list[SuiteRule]] = {}
    for rule in rules:
        groups.setdefault((repr(rule.row_condition), has_zones and _asks_types(rule)), []).append(rule)
    found: dict[int, Finding] = {}
    with gx.silence_gx():
        for group in groups.values():
            found |= try_or_split(group, lambda part: _judge_together(frame, part), note_error)
    return found


def try_or_split(
    rules: Sequence[SuiteRule],
    judge: Callable[[Sequence[SuiteRule]], dict[int, T]],
    note_error: Callable[[SuiteRule, str], T],
) -> dict[int, T]:
    """Judge rules together; when it raises, each alone, so that one broken rule does not take the others with it.

    What the machine lacks, and files or rows that are gone, is no finding of a rule: that is raised.
    """
    try:
        return judge(rules)
    except Exception as error:
        if is_no_verdict(error):
            raise
        if len(rules) == 1:
            return {rules[0].index: note_error(rules[0], gx.name_error(error))}
    return {index: found for rule in rules for index, found in try_or_split([rule], judge, note_error).items()}


def note_error(rule: SuiteRule, error: str) -> Finding:
    """Return the finding of a rule that raised; ``error`` is a class."""
    return replace(rule.unjudged, error=error)


def _asks_types(rule: SuiteRule) -> bool:
    return bool(rule.spec.arguments().keys() & {"type_", "type_list"})


def _judge_together(frame: DataFrame, rules: Sequence[SuiteRule]) -> dict[int, Finding]:
    """Compute the metrics of rules with one row condition, then ask each expectation for its verdict."""
    from great_expectations.validator.metric_configuration import MetricConfiguration

    rows = gx.filter_rows(frame, rules[0])
    rows, rename = gx.simplify_names(rows if _asks_types(rules[0]) else gx.drop_zones(rows))
    bench = gx.Bench(rows)
    size = MetricConfiguration("table.row_count", metric_domain_kwargs={}, metric_value_kwargs=None)
    expectations = {rule.index: gx.build_expectation(rule, gx.rename_columns(rule.kwargs, rename)) for rule in rules}
    needed = {index: bench.dependencies(expectation) for index, expectation in expectations.items()}
    values, causes = bench.compute([size, *(metric for needs in needed.values() for metric in needs.values())])
    if size.id not in values:
        raise gx.RuleError(causes.get(size.id, "MetricResolutionError"))
    checked = int(values[size.id])
    found: dict[int, Finding] = {}
    for rule in rules:
        missing = [metric.id for metric in needed[rule.index].values() if metric.id not in values]
        judged = replace(rule.unjudged, checked=checked)
        if checked and missing:
            judged = replace(judged, error=causes.get(missing[0], "MetricResolutionError"))
        elif checked:
            judged = _ask_gx(bench, expectations[rule.index], values, judged)
        found[rule.index] = judged
    return found


def _ask_gx(bench: gx.Bench, expectation: Any, values: Mapping[Any, Any], judged: Finding) -> Finding:
    """Return a finding with one expectation's verdict on computed metrics."""
    try:
        result = expectation.metrics_validate(
            values, runtime_configuration=copy.deepcopy(gx.BOOLEAN_ONLY), execution_engine=bench.engine
        )
    except Exception as error:  # noqa: BLE001 - one rule's error is that rule's finding
        return replace(judged, error=gx.name_error(error))
    success = bool(result.success)
    return replace(judged, failed=0 if success else 1, success=success)
