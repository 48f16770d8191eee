"""Talk to Great Expectations: its conditions as Spark columns, its verdicts on rules about all rows.

GX is used without a data context: no telemetry, no files, no progress bars, nothing persisted. Its importing takes more
than two seconds, so it happens inside the functions, once a suite is really judged.
"""

from __future__ import annotations

import copy
import logging
import operator
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeVar, cast

from enrich.base.failures import find_condition, is_no_verdict
from enrich.base.result import Finding
from enrich.base.spec import quote
from enrich.base.suites import Condition, SuiteRule, resolve_column

if TYPE_CHECKING:
    from great_expectations.expectations.row_conditions import Condition as GxCondition
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

T = TypeVar("T")
BOOLEAN_ONLY = {"result_format": {"result_format": "BOOLEAN_ONLY"}}
_NAMES = ("column", "column_A", "column_B", "column_list", "column_set")
_LOGGERS = ("great_expectations", "DataFrameQueryContextLogger", "SQLQueryContextLogger", "py4j")
UNRESOLVED = "MetricResolutionError"
_RAISED = re.compile(r"^(?:[a-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Warning))\b", re.MULTILINE)


class RuleError(Exception):
    """A rule could not be judged; holds the class of the cause alone, never its text."""


@contextmanager
def silence_gx() -> Iterator[None]:
    """Import GX, and silence its and pyspark's warnings and log lines: they hold values of rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # GX tries Spark Connect, whose import ends a process without a main file, such as `python -c`, in Spark 4.2.
        if not hasattr(sys.modules["__main__"], "__file__"):
            sys.modules.setdefault("pyspark.sql.connect", cast("Any", None))  # None: not there
        import great_expectations.expectations.core
        import great_expectations.expectations.metrics  # noqa: F401

        children = [name for name in list(logging.Logger.manager.loggerDict) if name.startswith("great_expectations.")]
        before = {name: logging.getLogger(name).disabled for name in (*_LOGGERS, *children)}
        for name in before:
            logging.getLogger(name).disabled = True
        try:
            yield
        finally:
            for name, disabled in before.items():
                logging.getLogger(name).disabled = disabled


def name_error(error: BaseException) -> str:
    """Return the class of what went wrong, with Spark's error class where there is one, and no values."""
    if isinstance(error, RuleError):
        return str(error)
    code = find_condition(error)
    return f"{type(error).__name__}[{code}]" if code else type(error).__name__


def build_expectation(rule: SuiteRule, kwargs: Mapping[str, Any]) -> Any:
    """Return GX's own object of a rule. The row condition is applied outside, as a filter, and left out here."""
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    return ExpectationConfiguration(type=rule.type, kwargs=copy.deepcopy(dict(kwargs))).to_domain_obj()


def _drop_zone(kind: DataType) -> DataType:
    """Return the type of a column without time zones; fields of structs are columns, too, for GX."""
    from pyspark.sql import types as T

    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(each.name, _drop_zone(each.dataType), each.nullable) for each in kind])
    return T.TimestampNTZType() if isinstance(kind, T.TimestampType) else kind


def filter_rows(frame: DataFrame, rule: SuiteRule) -> DataFrame:
    """Return the rows that the rule's row condition lets in."""
    domain = build_condition(rule.row_condition, frame.columns)
    return frame if domain is None else frame.filter(domain)


def build_condition(condition: Condition | None, names: Sequence[str]) -> Column | None:
    """Return a row condition as a column: GX's own SQL for its own forms, checked Spark SQL for the others."""
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
    from great_expectations.expectations.row_conditions import deserialize_row_condition
    from pyspark.sql import functions as F

    if condition is None:
        return None
    if condition["type"] in ("and", "or"):
        parts = [build_condition(part, names) for part in condition["conditions"]]
        return reduce(operator.and_ if condition["type"] == "and" else operator.or_, parts)
    if condition["type"] == "pass_through":
        return F.expr(condition["pass_through_filter"])
    name = condition["column"]["name"]
    leaf = {**condition, "column": {"name": resolve_column(name, names) or name}}
    engine = SparkDFExecutionEngine.__new__(SparkDFExecutionEngine)
    return F.expr(engine.condition_to_filter_clause(cast("GxCondition", deserialize_row_condition(leaf))))


class Bench:
    """One frame inside GX's own engine."""

    def __init__(self, frame: DataFrame) -> None:
        from great_expectations.validator.metrics_calculator import MetricsCalculator

        self.engine: Any = _build_engine_class()(spark=frame.sparkSession, persist=False)
        self.engine.load_batch_data("rows", frame)
        self.calculator = MetricsCalculator(self.engine, show_progress_bars=False)

    def dependencies(self, expectation: Any) -> dict[str, Any]:
        """Return GX's metrics for one expectation, by name."""
        needed = expectation.get_validation_dependencies(
            execution_engine=self.engine, runtime_configuration=copy.deepcopy(BOOLEAN_ONLY)
        )
        return dict(needed.metric_configurations)

    def compute(self, metrics: Sequence[Any]) -> tuple[dict[Any, Any], dict[Any, str]]:
        """Return the values of metrics by GX's id, and for those that raised the class of the cause.

        What is no verdict on the rows is raised again here.
        """
        values, aborted = self.calculator.compute_metrics(list(metrics), copy.deepcopy(BOOLEAN_ONLY))
        if self.engine.failure is not None:
            raise self.engine.failure
        causes = {}
        for key, info in aborted.items():
            # GX keeps the text of each trace, in an object or in one or several mappings; all of it is in this one.
            infos: Any = info["exception_info"]
            has_many = isinstance(infos, dict) and "exception_traceback" not in infos
            items = infos.values() if has_many else [infos]
            texts = [vars(each) if not isinstance(each, dict) else each for each in items]
            raised = [name for text in texts for name in _RAISED.findall(text["exception_traceback"] or "")]
            causes[key] = next((name for name in raised if name != UNRESOLVED), UNRESOLVED)
        return values, causes


def _build_engine_class() -> type[Any]:
    """Return GX's engine, taught two things.

    It hands lists of columns over under the names they were asked for by, and remembers what says nothing of the rows.
    """
    from great_expectations.core.metric_domain_types import MetricDomainTypes
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine

    class Engine(SparkDFExecutionEngine):
        keeps_names = False
        failure: Exception | None = None

        def resolve_metrics(self, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().resolve_metrics(*args, **kwargs)
            except Exception as error:
                cause = error.__cause__
                if isinstance(cause, Exception) and is_no_verdict(cause):
                    self.failure = cause
                raise

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


def simplify_names(frame: DataFrame) -> tuple[DataFrame, Callable[[str], str]]:
    """Rename columns with a dot, which GX reads as a path into a struct; also return what gives a name its new one."""
    safe = {name: f"__dotted{number}" if "." in name else name for number, name in enumerate(frame.columns)}
    return frame.toDF(*safe.values()), lambda name: safe.get(name) or safe.get(name.strip("`")) or name


def rename_columns(kwargs: Mapping[str, Any], rename: Callable[[str], str]) -> dict[str, Any]:
    """Return the arguments with every column under the name that ``rename`` gives it."""

    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [named(item) for item in value]
        return rename(value) if isinstance(value, str) else value

    return {key: named(value) if key in _NAMES else value for key, value in kwargs.items()}


def judge_whole(frame: DataFrame, rules: Sequence[SuiteRule]) -> dict[int, Finding]:
    """Return GX's verdict on ``frame`` for rules that have one verdict for all rows, by the rule's index.

    The frame is read as often as GX needs: once for all simple aggregates, once more for each quantile or value count.
    Expectations about types see the columns as they are, so they are judged apart.
    """
    groups: dict[tuple[str, bool], list[SuiteRule]] = {}
    for rule in rules:
        groups.setdefault((repr(rule.row_condition), _asks_types(rule)), []).append(rule)
    found: dict[int, Finding] = {}
    with silence_gx():
        for group in groups.values():
            judge = partial(_judge_together, frame)
            found |= try_or_split(group, judge, lambda rule, error: replace(rule.unjudged, error=error))
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
            return {rules[0].index: note_error(rules[0], name_error(error))}
    return {index: found for rule in rules for index, found in try_or_split([rule], judge, note_error).items()}


def _asks_types(rule: SuiteRule) -> bool:
    return bool(rule.spec.arguments().keys() & {"type_", "type_list"})


def _judge_together(frame: DataFrame, rules: Sequence[SuiteRule]) -> dict[int, Finding]:
    """Compute the metrics of rules with one row condition, then ask each expectation for its verdict."""
    from great_expectations.validator.metric_configuration import MetricConfiguration
    from pyspark.sql import functions as F

    rows = filter_rows(frame, rules[0])
    if not _asks_types(rules[0]):
        # GX compares collected timestamps with bounds that have no time zone. pyspark gives those of type ``timestamp``
        # in the machine's time zone, those of ``timestamp_ntz`` as they are. The session's time zone is UTC.
        kinds = {field.name: (field.dataType, _drop_zone(field.dataType)) for field in rows.schema.fields}
        casts = {name: F.col(quote(name)).cast(plain) for name, (kind, plain) in kinds.items() if plain != kind}
        rows = rows.withColumns(casts) if casts else rows
    rows, rename = simplify_names(rows)
    bench = Bench(rows)
    size = MetricConfiguration("table.row_count", metric_domain_kwargs={}, metric_value_kwargs=None)
    expectations = {rule.index: build_expectation(rule, rename_columns(rule.kwargs, rename)) for rule in rules}
    needed = {index: bench.dependencies(expectation) for index, expectation in expectations.items()}
    values, causes = bench.compute([size, *(metric for needs in needed.values() for metric in needs.values())])
    if size.id not in values:
        raise RuleError(causes.get(size.id, UNRESOLVED))
    checked = int(values[size.id])
    found: dict[int, Finding] = {}
    for rule in rules:
        missing = [metric.id for metric in needed[rule.index].values() if metric.id not in values]
        judged = replace(rule.unjudged, checked=checked)
        if checked and missing:
            judged = replace(judged, error=causes.get(missing[0], UNRESOLVED))
        elif checked:
            try:
                said = expectations[rule.index].metrics_validate(
                    values, runtime_configuration=copy.deepcopy(BOOLEAN_ONLY), execution_engine=bench.engine
                )
                judged = replace(judged, failed=0 if said.success else 1, success=bool(said.success))
            except Exception as error:  # noqa: BLE001 - one rule's error is that rule's finding
                judged = replace(judged, error=name_error(error))
        found[rule.index] = judged
    return found
