"""The one module that talks to Great Expectations: its own conditions as Spark columns, its own verdicts.

GX is used without a data context: no telemetry, no files, no progress bars, nothing persisted. Its importing takes more
than two seconds, so it happens inside the functions, once a suite is really judged.
"""

from __future__ import annotations

import copy
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

from enrich.errors import Fault
from enrich.quality.catalogue import COLUMN, PAIR
from enrich.quality.suites import Rule, Suite, resolve_column

if TYPE_CHECKING:
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
    from great_expectations.expectations.row_conditions import Condition as GxCondition
    from great_expectations.validator.metrics_calculator import MetricsCalculator
    from pyspark.sql import Column, DataFrame

    from enrich.quality.conditions import Condition

_BATCH = "rows"
_BOOLEAN_ONLY = {"result_format": {"result_format": "BOOLEAN_ONLY"}}
_NAMES = ("column", "column_A", "column_B", "column_list", "column_set")
_LOGGERS = ("great_expectations", "DataFrameQueryContextLogger", "SQLQueryContextLogger", "py4j")
_RAISED = re.compile(r"^(?:[a-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Warning))\b", re.MULTILINE)
_NULL_TYPES = ("expect_column_values_to_be_null", "expect_column_values_to_not_be_null")


class RuleError(Exception):
    """A rule could not be judged; holds the class of the cause alone, never its text."""

    def __init__(self, cause: str) -> None:
        self.cause = cause
        super().__init__(cause)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence GX's and pyspark's warnings and log lines, which hold values of the rows they stumbled over."""
    before = {name: logging.getLogger(name).disabled for name in _LOGGERS}
    children = [name for name in list(logging.Logger.manager.loggerDict) if name.startswith("great_expectations.")]
    before.update({name: logging.getLogger(name).disabled for name in children})
    for name in before:
        logging.getLogger(name).disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, disabled in before.items():
            logging.getLogger(name).disabled = disabled


def import_gx() -> None:
    """Import GX with its warnings filtered; its loggers exist from then on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations.expectations.core
        import great_expectations.expectations.metrics  # noqa: F401


def error_class(error: BaseException) -> str:
    """Return the class of what went wrong, with Spark's error class where there is one, and no values."""
    if isinstance(error, RuleError):
        return error.cause
    condition = getattr(error, "getCondition", None)
    name = type(error).__name__
    try:
        code = condition() if callable(condition) else None
    except Exception:  # noqa: BLE001 - the class alone says enough, and nothing may hide the first error
        code = None
    return f"{name}[{code}]" if code else name


def check_with_gx(suite: Suite) -> list[Fault]:
    """Return a fault for each rule that GX's own models refuse although our table let it pass."""
    import_gx()
    faults: list[Fault] = []
    with quiet():
        for rule in suite.rules:
            try:
                _expectation(rule, rule.kwargs)
            except Exception as error:  # noqa: BLE001 - whatever GX raises is its refusal
                faults.append(Fault(f"Great Expectations refuses {rule.type}: {_refusal(error)}", rule.where))
    return faults


def _refusal(error: Exception) -> str:
    """Return what GX's model refuses: arguments and kinds of error, no values."""
    listed = getattr(error, "errors", None)
    if not callable(listed):
        return type(error).__name__
    found = [f"{'.'.join(map(str, item['loc']))} ({item['type']})" for item in listed()]
    return ", ".join(dict.fromkeys(found))


def _expectation(rule: Rule, kwargs: Mapping[str, Any]) -> Any:
    """Return GX's own object of a rule. The row condition is applied outside, as a filter, and left out here."""
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    return ExpectationConfiguration(type=rule.type, kwargs=copy.deepcopy(dict(kwargs))).to_domain_obj()


@dataclass(frozen=True)
class Labels:
    """What one row rule says about a row, as columns over the frame it was built for.

    Attributes:
        domain: True for rows that the row condition lets in; None: all.
        ignored: True for rows that GX leaves out of ``checked`` for their nulls; None: none.
        unexpected: GX's condition: true for rows that fail.
        spares_ignored: True when GX leaves those rows out of the failed ones, too, apart from the condition.
        expectation: GX's object, which turns counts into a verdict.
    """

    domain: Column | None
    ignored: Column | None
    unexpected: Column
    spares_ignored: bool
    expectation: Any

    def failing(self) -> Column:
        """Return a boolean column, never null: the rule judges the row, and finds it wanting."""
        from pyspark.sql import functions as F

        parts = [self.unexpected]
        if self.spares_ignored and self.ignored is not None:
            parts.insert(0, ~self.ignored)
        failing = F.coalesce(reduce(lambda left, right: left & right, parts), F.lit(False))
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
        result = self.expectation._validate(metrics=metrics, runtime_configuration=copy.deepcopy(_BOOLEAN_ONLY))
        return bool(result["success"])


def row_labels(frame: DataFrame, rules: Sequence[Rule]) -> dict[int, Labels | RuleError]:
    """Return what each row rule says about the rows of ``frame``, by the rule's index; reads the schema alone."""
    import_gx()
    with quiet():
        return _labels(frame.columns, _Bench(frame.limit(0)), rules)


def measured_labels(frame: DataFrame, rule: Rule) -> tuple[DataFrame, Labels]:
    """Return the rows that a rule judges and what it says about them, for rules that measure the rows first.

    The labels belong to the returned frame alone: they hold figures computed from it, and its columns are renamed.

    Raises:
        RuleError: GX cannot measure the rows.
    """
    import_gx()
    with quiet():
        rows, safe = _plain_names(filter_rows(frame, rule))
        plain = replace(rule, kwargs=_rename(rule.kwargs, safe), row_condition=None)
        label = _labels(rows.columns, _Bench(rows), [plain])[rule.index]
    if isinstance(label, RuleError):
        raise label
    return rows, label


def _plain_names(frame: DataFrame) -> tuple[DataFrame, dict[str, str]]:
    """Rename columns with a dot, which GX reads as a path into a struct; also return the new names by the old."""
    safe = {name: f"__dotted{number}" if "." in name else name for number, name in enumerate(frame.columns)}
    return frame.toDF(*safe.values()), safe


def filter_rows(frame: DataFrame, rule: Rule) -> DataFrame:
    """Return the rows that the rule's row condition lets in."""
    domain = condition_column(rule.row_condition, frame.columns)
    return frame if domain is None else frame.filter(domain)


def condition_column(condition: Condition | None, names: Sequence[str]) -> Column | None:
    """Return a row condition as a column: GX's own SQL for its own forms, checked Spark SQL for the others."""
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
    from great_expectations.expectations.row_conditions import deserialize_row_condition
    from pyspark.sql import functions as F

    if condition is None:
        return None
    if condition["type"] in ("and", "or"):
        parts = [condition_column(part, names) for part in condition["conditions"]]
        join = (lambda left, right: left & right) if condition["type"] == "and" else (lambda left, right: left | right)
        return reduce(join, parts)
    if condition["type"] == "pass_through":
        return F.expr(condition["pass_through_filter"])
    name = condition["column"]["name"]
    leaf = {**condition, "column": {"name": resolve_column(name, names) or name}}
    engine = SparkDFExecutionEngine.__new__(SparkDFExecutionEngine)
    return F.expr(engine.condition_to_filter_clause(cast("GxCondition", deserialize_row_condition(leaf))))


class _Bench:
    """One frame inside GX's own engine."""

    def __init__(self, frame: DataFrame) -> None:
        from great_expectations.validator.metrics_calculator import MetricsCalculator

        self.engine: SparkDFExecutionEngine = _engine_class()(spark=frame.sparkSession, persist=False)
        self.engine.load_batch_data(_BATCH, frame)
        self.calculator: MetricsCalculator = MetricsCalculator(self.engine, show_progress_bars=False)

    def dependencies(self, expectation: Any) -> dict[str, Any]:
        """Return GX's metrics for one expectation, by name."""
        needed = expectation.get_validation_dependencies(
            execution_engine=self.engine, runtime_configuration=copy.deepcopy(_BOOLEAN_ONLY)
        )
        return dict(needed.metric_configurations)

    def compute(self, metrics: Sequence[Any]) -> tuple[dict[Any, Any], dict[Any, str]]:
        """Return the values of metrics by GX's id, and for those that raised the class of the cause."""
        values, aborted = self.calculator.compute_metrics(list(metrics), copy.deepcopy(_BOOLEAN_ONLY))
        return values, {key: _cause(info) for key, info in aborted.items()}


def _engine_class() -> type[Any]:
    """Return GX's engine, taught to hand lists of columns over under the names they were asked for by."""
    from great_expectations.core.metric_domain_types import MetricDomainTypes
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine

    class Engine(SparkDFExecutionEngine):
        keeps_names = False

        def get_compute_domain(self, domain_kwargs: Any, domain_type: Any, accessor_keys: Any = None) -> Any:
            data, compute, accessor = super().get_compute_domain(domain_kwargs, domain_type, accessor_keys)
            if self.keeps_names and domain_type == MetricDomainTypes.MULTICOLUMN:
                return _NamedColumns(), compute, accessor
            return data, compute, accessor

    return Engine


class _NamedColumns:
    """Stands in for ``frame[names]``, whose ``columns`` have lost the backticks that GX's next step needs."""

    def __init__(self, columns: Sequence[str] = ()) -> None:
        self.columns = list(columns)

    def __getitem__(self, names: Sequence[str]) -> _NamedColumns:
        return _NamedColumns(names)


def _cause(info: Any) -> str:
    """Return the class of the innermost exception of an aborted metric."""
    exceptions = info["exception_info"]
    infos = (
        exceptions.values()
        if isinstance(exceptions, dict) and "exception_traceback" not in exceptions
        else [exceptions]
    )
    for item in infos:
        text = item["exception_traceback"] if isinstance(item, dict) else item.exception_traceback
        named = [name for name in _RAISED.findall(text or "") if name != "MetricResolutionError"]
        if named:
            return str(named[0])
    return "MetricResolutionError"


def _labels(names: Sequence[str], bench: _Bench, rules: Sequence[Rule]) -> dict[int, Labels | RuleError]:
    """Ask GX for the conditions of row rules, all at once."""
    from great_expectations.validator.metric_configuration import MetricConfiguration

    found: dict[int, Labels | RuleError] = {}
    asked: dict[bool, dict[int, tuple[Rule, Any, MetricConfiguration]]] = {False: {}, True: {}}
    for rule in rules:
        try:
            kwargs = _with_names(rule.kwargs, names)
            expectation = _expectation(rule, kwargs)
            count = bench.dependencies(expectation)[f"{expectation.map_metric}.unexpected_count"]
            metric = MetricConfiguration(
                f"{expectation.map_metric}.condition",
                metric_domain_kwargs=dict(count.metric_domain_kwargs),
                metric_value_kwargs=dict(count.metric_value_kwargs),
            )
        except Exception as error:  # noqa: BLE001 - one rule's error is that rule's finding
            found[rule.index] = RuleError(error_class(error))
            continue
        listed = [str(name) for name in kwargs.get("column_list", [])]
        keeps_names = any("." in name for name in listed) and rule.type != "expect_multicolumn_sum_to_equal"
        asked[keeps_names][rule.index] = (rule, expectation, metric)
    for keeps_names, group in asked.items():
        if not group:
            continue
        bench.engine.keeps_names = keeps_names  # type: ignore[attr-defined]
        values, causes = bench.compute([metric for _, _, metric in group.values()])
        for index, (rule, expectation, metric) in group.items():
            if metric.id in values:
                found[index] = _label(rule, names, values[metric.id], expectation)
            else:
                found[index] = RuleError(causes.get(metric.id, "MetricResolutionError"))
    return found


def _label(rule: Rule, names: Sequence[str], metric: Any, expectation: Any) -> Labels | RuleError:
    """Put a rule's condition together with the rows it judges."""
    unexpected, rows, _ = metric
    spares = "ignore_row_if" in rows or "filter_conditions" in rows
    try:
        domain = condition_column(rule.row_condition, names)
        return Labels(domain, _ignored(rule, names, expectation), unexpected, spares, expectation)
    except Exception as error:  # noqa: BLE001 - one rule's error is that rule's finding
        return RuleError(error_class(error))


def _ignored(rule: Rule, names: Sequence[str], expectation: Any) -> Column | None:
    """Return the rows that GX leaves out for their nulls."""
    from pyspark.sql import functions as F

    if rule.spec.kind == COLUMN:
        if rule.type in _NULL_TYPES:
            return None
        return F.col(resolve_column(rule.kwargs["column"], names) or rule.kwargs["column"]).isNull()
    listed = rule.column_list or ()
    nulls = [F.col(resolve_column(name, names) or name).isNull() for name in listed]
    how = expectation.ignore_row_if
    every, some = ("both_values_are_missing", "either_value_is_missing")
    if rule.spec.kind != PAIR:
        every, some = ("all_values_are_missing", "any_value_is_missing")
    if how == every:
        return reduce(lambda left, right: left & right, nulls)
    return reduce(lambda left, right: left | right, nulls) if how == some else None


def _with_names(kwargs: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the arguments with columns named as GX must be given them."""

    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [named(item) for item in value]
        return resolve_column(value, names) or value if isinstance(value, str) else value

    return {key: named(value) if key in _NAMES else value for key, value in kwargs.items()}


@dataclass(frozen=True)
class Outcome:
    """What came of one rule: counts and verdict, or the class of what went wrong."""

    checked: int
    failed: int
    success: bool | None
    error: str | None = None


def judge_whole(frame: DataFrame, rules: Sequence[Rule]) -> dict[int, Outcome]:
    """Return GX's verdict on ``frame`` for rules that have one verdict for all rows, by the rule's index.

    The frame is read as often as GX needs: once for all simple aggregates, once more for each quantile or value count.
    """
    import_gx()
    groups: dict[str, list[Rule]] = {}
    for rule in rules:
        groups.setdefault(repr(rule.row_condition), []).append(rule)
    found: dict[int, Outcome] = {}
    with quiet():
        for group in groups.values():
            found.update(_judge_group(frame, group))
    return found


def _judge_group(frame: DataFrame, rules: Sequence[Rule]) -> dict[int, Outcome]:
    """Judge rules with one row condition; when GX cannot compute all at once, one at a time."""
    try:
        rows, safe = _plain_names(filter_rows(frame, rules[0]))
        return _judge_with(_Bench(rows), rules, safe)
    except Exception as error:  # noqa: BLE001 - the rule that raised is found below
        if len(rules) == 1:
            return {rules[0].index: Outcome(0, 0, None, error_class(error))}
    return {index: outcome for rule in rules for index, outcome in _judge_group(frame, [rule]).items()}


def _judge_with(bench: _Bench, rules: Sequence[Rule], safe: Mapping[str, str]) -> dict[int, Outcome]:
    """Compute the metrics of all rules together, then ask each expectation for its verdict."""
    from great_expectations.validator.metric_configuration import MetricConfiguration

    size = MetricConfiguration("table.row_count", metric_domain_kwargs={}, metric_value_kwargs=None)
    expectations = {rule.index: _expectation(rule, _rename(rule.kwargs, safe)) for rule in rules}
    needed = {index: bench.dependencies(expectation) for index, expectation in expectations.items()}
    metrics = [size, *(metric for needs in needed.values() for metric in needs.values())]
    values, causes = bench.compute(metrics)
    if size.id not in values:
        raise RuleError(causes.get(size.id, "MetricResolutionError"))
    checked = int(values[size.id])
    found: dict[int, Outcome] = {}
    for index, expectation in expectations.items():
        missing = [metric.id for metric in needed[index].values() if metric.id not in values]
        if checked == 0:
            found[index] = Outcome(0, 0, None)
        elif missing:
            found[index] = Outcome(checked, 0, None, causes.get(missing[0], "MetricResolutionError"))
        else:
            found[index] = _ask(bench, expectation, values, checked)
    return found


def _ask(bench: _Bench, expectation: Any, values: Mapping[Any, Any], checked: int) -> Outcome:
    """Return one expectation's verdict on computed metrics."""
    try:
        result = expectation.metrics_validate(
            values, runtime_configuration=copy.deepcopy(_BOOLEAN_ONLY), execution_engine=bench.engine
        )
    except Exception as error:  # noqa: BLE001 - one rule's error is that rule's finding
        return Outcome(checked, 0, None, error_class(error))
    success = bool(result.success)
    return Outcome(checked, 0 if success else 1, success)


def _rename(kwargs: Mapping[str, Any], safe: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments with columns under the names that ``safe`` gives them."""

    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [named(item) for item in value]
        if not isinstance(value, str):
            return value
        return safe.get(value) or safe.get(value.strip("`")) or value

    return {key: named(value) if key in _NAMES else value for key, value in kwargs.items()}
