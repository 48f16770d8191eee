# ruff: noqa: E501 - a table reads better with one case a line
"""The table of expectation types against the installed Great Expectations."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from enrich.base.errors import ConfigError
from enrich.base.suites import AGGREGATE, COLUMN, MULTI, PAIR
from enrich.project.catalogue import COMMON, CONDITION, REFUSED, TYPES
from enrich.project.suitefiles import check_kwargs, read_condition

SAMPLES: list[Any] = [
    0, 1, -1, 2.5, 0.5, 1.0, True, False, "text", "5", "0.5", "yes", "2026-01-01", "2026-01-01 10:00:00",
    "2026-02-30", "any", "all", "never", "neither", "iqr", [], [1], ["a"], ["a", "b"], [1, "a"], [[1, 2]], [[1, 2], [3, 4]],
    [[1, 2, 3]], ["a", 1], [None], float("inf"),
]  # fmt: skip

GOOD: dict[str, Any] = {
    "column": "c",
    "column_A": "a",
    "column_B": "b",
    "column_list": ["a", "b"],
    "value_set": [1],
    "value_pairs_set": [[1, 2]],
    "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[1, 2]]},
    "type_": "IntegerType",
    "value": 1,
    "threshold": 1,
    "double_sided": True,
    "json_schema": {},
    "regex": "a",
    "regex_list": ["a"],
    "strftime_format": "%Y",
    "sum_total": 1,
}


@pytest.fixture(scope="module")
def gx() -> dict[str, Any]:
    """GX's own classes, by type."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations.expectations.core  # noqa: F401 - registers the types
        from great_expectations.expectations import registry

        names = registry.list_registered_expectation_implementations()
        return {name: registry.get_expectation_impl(name) for name in names}


def test_the_table_holds_every_core_type_and_no_other(gx: dict[str, Any]) -> None:
    assert {*TYPES, *REFUSED} == set(gx)
    assert not TYPES.keys() & REFUSED.keys()


@pytest.mark.parametrize("name", sorted(TYPES))
def test_kind_and_arguments_are_gx_s(gx: dict[str, Any], name: str) -> None:
    from great_expectations.expectations import expectation as base

    spec, impl = TYPES[name], gx[name]
    kinds = {
        COLUMN: base.ColumnMapExpectation,
        PAIR: base.ColumnPairMapExpectation,
        MULTI: base.MulticolumnMapExpectation,
    }
    assert [kind for kind, known in kinds.items() if issubclass(impl, known)] == (
        [] if spec.judges == AGGREGATE else [spec.judges]
    )
    own = {field for field in impl.__fields__ if field not in base.Expectation.__fields__}
    required = {field for field in own if impl.__fields__[field].required}
    assert set(spec.arguments()) == own - COMMON - CONDITION
    assert set(spec.required) == required
    assert {"batch_id", "result_format", "catch_exceptions", "windows"} <= COMMON


@pytest.mark.parametrize("name", sorted(TYPES))
def test_arguments_are_refused_where_gx_refuses_them(gx: dict[str, Any], name: str) -> None:
    """Every argument with every sample value: our table and GX's pydantic model must say the same."""
    from great_expectations.compatibility.pydantic import ValidationError

    spec = TYPES[name]
    good = {argument: GOOD[argument] for argument in spec.required}
    if spec.either:
        good["min_value"] = 1
    assert list(check_kwargs(name, spec, good)) == []
    gx[name](**good)
    differ = []
    for argument in spec.arguments():
        for sample in SAMPLES:
            kwargs = {**good, argument: sample}
            if argument == "max_value":
                kwargs.pop("min_value", None)  # GX's models look at each bound alone, and its metric at both
            ours = not list(check_kwargs(name, spec, kwargs))
            try:
                gx[name](**kwargs)
                theirs = True
            except (ValidationError, ValueError, TypeError, OverflowError):
                theirs = False
            if ours != theirs and not _is_meant(name, sample, ours):
                differ.append((argument, sample, "we accept" if ours else "we refuse"))
    assert differ == []


def _is_meant(name: str, sample: Any, ours: bool) -> bool:
    """Tell whether we refuse on purpose what GX's model takes and its metric chokes on, or takes for something else.

    Pydantic makes an empty mapping of ``[]`` and a mapping of ``[[1, 2]]``. A number of rows may be a timestamp, and
    ``ignore_row_if`` of one type any text.
    """
    odd = ("expect_table_row_count_to_be_between", "expect_select_column_values_to_be_unique_within_record")
    return not ours and (isinstance(sample, list) or name in odd)


def test_row_types_have_a_spark_metric_or_are_refused(gx: dict[str, Any]) -> None:
    """quality.md: 24 of the 26 row types give a column, two give one verdict, the others have no Spark provider."""
    from great_expectations.exceptions.exceptions import MetricProviderError
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
    from great_expectations.expectations import registry

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations.expectations.metrics  # noqa: F401 - registers the metrics

    found = {}
    for name in {*TYPES, *(name for name in REFUSED if name.startswith("expect_column_values"))}:
        try:
            registry.get_metric_provider(
                f"{gx[name].map_metric}.condition", SparkDFExecutionEngine(spark=object(), persist=False)
            )
            found[name] = True
        except (AttributeError, MetricProviderError):
            found[name] = False
    order = {"expect_column_values_to_be_increasing", "expect_column_values_to_be_decreasing"}
    assert order <= REFUSED.keys()
    for name in found.keys() - order:
        spec = TYPES.get(name)
        assert found[name] == (spec is not None and spec.is_row and not spec.verdict_only), name
        if spec is not None and found[name]:
            assert spec.unconditional == ("row_condition" not in _domain_keys(registry, gx[name].map_metric)), name


def _domain_keys(registry: Any, metric: str) -> tuple[str, ...]:
    """Return what decides the rows of a metric in GX."""
    return tuple(registry.get_metric_kwargs(f"{metric}.condition")["metric_domain_keys"])


GX_TEXTS = [
    'col("a") > 3', 'col("a")>=-3.5e2', 'col("a") == "x y"', "col(\"a\") != 'x'", 'col("a.b").notnull()', 'col("a").NOTNULL()',
    'col("a") == date("2020-01-01")', ' col("a") < 1 ', 'col("a") <= +5', 'col("a") == "5"', 'col("ä b") == "x"',
    'col("a")', "a > 3", 'col(a) > 3', 'col("a") = 3', 'col("a") > x', 'col("a") == "it\'s"', "", 'col("a") in (1)',
]  # fmt: skip


@pytest.mark.parametrize("text", [text for text in GX_TEXTS if text])
def test_conditions_as_text_are_read_as_gx_reads_them(gx: dict[str, Any], text: str) -> None:
    def theirs() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = gx["expect_column_values_to_not_be_null"](
                column="c", row_condition=text, condition_parser="great_expectations"
            )
        return made.row_condition.dict()

    try:
        expected = theirs()
    except Exception:  # noqa: BLE001 - GX raises what its parser raises
        with pytest.raises(ConfigError):
            read_condition(text, "great_expectations")
        return
    ours = read_condition(text, "great_expectations")
    assert ours == {key: getattr(value, "value", value) for key, value in expected.items()}
