# ruff: noqa: E501 - a table reads better with one case a line
"""Every verdict and count against Great Expectations run by itself on the same rows."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from enrich.project.catalogue import TYPES
from enrich.quality.judge import judge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from enrich.base.result import Finding
    from enrich.base.suites import Suite

COL = "expect_column_values_to_"
N_OVER_2 = {"row_condition": 'col("n") > 2', "condition_parser": "great_expectations"}
NAMED = {"row_condition": 'col("name").notnull()', "condition_parser": "great_expectations"}
IS_ANN = {"row_condition": 'col("name") == "Ann"', "condition_parser": "great_expectations"}
FLAGGED = {"row_condition": {"type": "comparison", "column": {"name": "flag"}, "operator": "==", "parameter": True}}
O_NEIL = {"row_condition": {"type": "comparison", "column": {"name": "name"}, "operator": "==", "parameter": "O'Neil"}}
BOTH = {
    "row_condition": {
        "type": "and",
        "conditions": [
            {"type": "nullity", "column": {"name": "n"}, "is_null": False},
            {
                "type": "comparison",
                "column": {"name": "name"},
                "operator": "IN",
                "parameter": ["Ann", "Bob", 'say "hi"'],
            },
        ],
    }
}
EITHER = {
    "row_condition": {
        "type": "or",
        "conditions": [
            {"type": "nullity", "column": {"name": "n"}, "is_null": True},
            {"type": "comparison", "column": {"name": "n"}, "operator": ">=", "parameter": 5},
        ],
    }
}
NOBODY = {"row_condition": 'col("id") > 1000', "condition_parser": "great_expectations"}

ROW_CASES: list[tuple[str, dict[str, Any]]] = [
    (COL + "not_be_null", {"column": "email"}),
    (COL + "not_be_null", {"column": "email", "mostly": 0.9}),
    (COL + "not_be_null", {"column": "email", "mostly": 0.95}),
    (COL + "not_be_null", {"column": "n", **NAMED}),
    (COL + "not_be_null", {"column": "n", **NOBODY}),
    (COL + "not_be_null", {"column": "home"}),
    (COL + "not_be_null", {"column": "home.city"}),
    (COL + "be_null", {"column": "email", "mostly": 0.1}),
    (COL + "be_null", {"column": "flag", **FLAGGED}),
    (COL + "be_unique", {"column": "email"}),
    (COL + "be_unique", {"column": "id"}),
    (COL + "be_unique", {"column": "n", "mostly": 0.7}),
    (COL + "be_unique", {"column": "email", **N_OVER_2}),
    (COL + "be_in_set", {"column": "name", "value_set": ["Ann", "Bob"]}),
    (COL + "be_in_set", {"column": "n", "value_set": [1, 2, 3, 5, 8], "mostly": 0.75}),
    (COL + "be_in_set", {"column": "n", "value_set": [1, 2, 3, 5, 8], "mostly": 0.76}),
    (COL + "be_in_set", {"column": "name", "value_set": []}),
    (COL + "be_in_set", {"column": "d", "value_set": [0.5, 1.5]}),
    (COL + "not_be_in_set", {"column": "name", "value_set": ["Ann"]}),
    (COL + "not_be_in_set", {"column": "n", "value_set": [-9], **EITHER}),
    (COL + "be_between", {"column": "n", "min_value": 0, "max_value": 5}),
    (COL + "be_between", {"column": "n", "min_value": 0, "strict_min": True}),
    (COL + "be_between", {"column": "d", "max_value": 100, "strict_max": True, **N_OVER_2}),
    (COL + "be_between", {"column": "price", "min_value": 0, "max_value": 10, "mostly": 0.7}),
    (COL + "be_between", {"column": "day", "min_value": "2026-01-01", "max_value": "2026-01-31"}),
    (COL + "be_between", {"column": "at", "min_value": "2026-01-01 00:00:00"}),
    (COL + "be_between", {"column": "name", "min_value": 1}),
    (COL + "be_between", {"column": "n", "min_value": 5, "max_value": 1}),
    (COL + "match_regex", {"column": "email", "regex": "^[^@ ]+@[^@ ]+\\.[a-z]+$"}),
    (COL + "match_regex", {"column": "email", "regex": "^[^@ ]+@[^@ ]+\\.[a-z]+$", "mostly": 0.5}),
    (COL + "match_regex", {"column": "email", "regex": "(?i)org$", **NAMED}),
    (COL + "match_regex", {"column": "n", "regex": "^[0-9]$"}),
    (COL + "match_regex", {"column": "name"}),
    (COL + "not_match_regex", {"column": "email", "regex": "^ "}),
    (COL + "not_match_regex", {"column": "email", "regex": "[<>]", **BOTH}),
    (COL + "match_regex_list", {"column": "email", "regex_list": ["org$", "^a"]}),
    (COL + "match_regex_list", {"column": "email", "regex_list": ["org$", "^a"], "match_on": "all"}),
    (COL + "not_match_regex_list", {"column": "email", "regex_list": ["^ ", "<"]}),
    (COL + "match_strftime_format", {"column": "born", "strftime_format": "%Y-%m-%d"}),
    (COL + "match_strftime_format", {"column": "born", "strftime_format": "%Y-%m-%d", **IS_ANN}),
    (COL + "match_strftime_format", {"column": "n", "strftime_format": "%Y"}),
    (COL + "be_json_parseable", {"column": "doc"}),
    (COL + "be_json_parseable", {"column": "name", **N_OVER_2}),
    (COL + "match_json_schema", {"column": "doc", "json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}),
    (COL + "match_json_schema", {"column": "name", "json_schema": {"type": "object"}}),
    (COL + "match_json_schema", {"column": "name", "json_schema": {"type": "object"}, **NOBODY}),
    (COL + "not_be_outliers", {"column": "d"}),
    (COL + "not_be_outliers", {"column": "d", "method": "std", "multiplier": 2}),
    (COL + "not_be_outliers", {"column": "k", **FLAGGED}),
    ("expect_column_value_z_scores_to_be_less_than", {"column": "d", "threshold": 2, "double_sided": True}),
    ("expect_column_value_z_scores_to_be_less_than", {"column": "d", "threshold": 1, "double_sided": False, **N_OVER_2}),
    ("expect_column_value_lengths_to_be_between", {"column": "name", "min_value": 1, "max_value": 4}),
    ("expect_column_value_lengths_to_be_between", {"column": "name", "min_value": 3, "strict_min": True, "mostly": 0.5}),
    ("expect_column_value_lengths_to_equal", {"column": "name", "value": 3}),
    ("expect_column_pair_values_to_be_equal", {"column_A": "n", "column_B": "m"}),
    ("expect_column_pair_values_to_be_equal", {"column_A": "n", "column_B": "m", "ignore_row_if": "either_value_is_missing"}),
    ("expect_column_pair_values_to_be_equal", {"column_A": "n", "column_B": "m", "ignore_row_if": "neither", "mostly": 0.5}),
    ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "n", "column_B": "m"}),
    ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "n", "column_B": "m", "or_equal": True, "ignore_row_if": "either_value_is_missing"}),
    ("expect_column_pair_values_to_be_in_set", {"column_A": "n", "column_B": "m", "value_pairs_set": [[1, 1], [5, 4]], **NAMED}),
    ("expect_multicolumn_sum_to_equal", {"column_list": ["n", "m"], "sum_total": 2}),
    ("expect_multicolumn_sum_to_equal", {"column_list": ["n", "m", "id"], "sum_total": 9, "ignore_row_if": "any_value_is_missing"}),
    ("expect_multicolumn_values_to_be_equal", {"column_list": ["n", "m"]}),
    ("expect_multicolumn_values_to_be_equal", {"column_list": ["n", "m"], "ignore_row_if": "never", **O_NEIL}),
    ("expect_select_column_values_to_be_unique_within_record", {"column_list": ["n", "m", "id"]}),
    ("expect_select_column_values_to_be_unique_within_record", {"column_list": ["n", "m"], "ignore_row_if": "any_value_is_missing"}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["name", "n"]}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["day", "flag"], "ignore_row_if": "any_value_is_missing"}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["day", "flag"], "ignore_row_if": "never", "mostly": 0.5, **N_OVER_2}),
]  # fmt: skip

WHOLE_CASES: list[tuple[str, dict[str, Any]]] = [
    (COL + "be_of_type", {"column": "n", "type_": "IntegerType"}),
    (COL + "be_of_type", {"column": "n", "type_": "StringType"}),
    (COL + "be_in_type_list", {"column": "d", "type_list": ["FloatType", "DoubleType"]}),
    ("expect_column_to_exist", {"column": "n"}),
    ("expect_column_to_exist", {"column": "gone"}),
    ("expect_column_to_exist", {"column": "n", "column_index": 3}),
    ("expect_column_type_to_be", {"column": "n", "type_": "IntegerType"}),
    ("expect_column_distinct_values_to_be_in_set", {"column": "flag", "value_set": [True, False]}),
    ("expect_column_distinct_values_to_contain_set", {"column": "name", "value_set": ["Ann", "Zoe"]}),
    ("expect_column_distinct_values_to_equal_set", {"column": "flag", "value_set": [True, False]}),
    ("expect_column_max_to_be_between", {"column": "n", "min_value": 8, "max_value": 8}),
    ("expect_column_max_to_be_between", {"column": "day", "max_value": "2026-02-01"}),
    ("expect_column_min_to_be_between", {"column": "n", "min_value": 0}),
    ("expect_column_mean_to_be_between", {"column": "n", "min_value": 1, "max_value": 2}),
    ("expect_column_mean_to_be_between", {"column": "n", "min_value": 4, **N_OVER_2}),
    ("expect_column_mean_to_be_between", {"column": "name", "min_value": 1}),
    ("expect_column_median_to_be_between", {"column": "n", "min_value": 2, "max_value": 3}),
    ("expect_column_sum_to_be_between", {"column": "k", "min_value": 200, "strict_min": True}),
    ("expect_column_stdev_to_be_between", {"column": "n", "min_value": 1, "max_value": 4}),
    ("expect_column_quantile_values_to_be_between", {"column": "id", "quantile_ranges": {"quantiles": [0.0, 0.5], "value_ranges": [[1, 1], [None, 6]]}}),
    ("expect_column_unique_value_count_to_be_between", {"column": "name", "min_value": 8}),
    ("expect_column_proportion_of_unique_values_to_be_between", {"column": "email", "min_value": 0.9}),
    ("expect_column_proportion_of_non_null_values_to_be_between", {"column": "email", "min_value": 0.9}),
    ("expect_column_most_common_value_to_be_in_set", {"column": "name", "value_set": ["Ann"]}),
    ("expect_column_most_common_value_to_be_in_set", {"column": "flag", "value_set": [False], "ties_okay": True}),
    ("expect_column_kl_divergence_to_be_less_than", {"column": "flag", "partition_object": {"values": [True, False], "weights": [0.5, 0.5]}, "threshold": 0.1}),
    ("expect_table_row_count_to_be_between", {"min_value": 5, "max_value": 10}),
    ("expect_table_row_count_to_be_between", {"min_value": 5, **NOBODY}),
    ("expect_table_row_count_to_equal", {"value": 9}),
    ("expect_table_row_count_to_equal", {"value": 3, **FLAGGED}),
    ("expect_table_column_count_to_be_between", {"min_value": 1, "max_value": 14}),
    ("expect_table_column_count_to_equal", {"value": 13}),
    ("expect_table_columns_to_match_set", {"column_set": ["id", "n"], "exact_match": False}),
    ("expect_table_columns_to_match_set", {"column_set": ["id", "n"]}),
    ("expect_table_columns_to_match_ordered_list", {"column_list": ["id", "n"]}),
]  # fmt: skip

Cases = Sequence[tuple[str, dict[str, Any]]]
Builder = Callable[[Cases], "Suite"]


def findings_of(frame: DataFrame, suite: Suite) -> tuple[Finding, ...]:
    return judge(frame, suite, lambda _: frame).findings


def names_of(cases: Cases) -> list[str]:
    return [f"{number}-{case[0].removeprefix('expect_')}" for number, case in enumerate(cases)]


def test_every_type_that_is_run_is_compared() -> None:
    compared = {case[0] for case in (*ROW_CASES, *WHOLE_CASES)}
    assert compared == set(TYPES)
    rows = {name for name in compared if TYPES[name].is_row}
    assert (len(rows), len(compared - rows)) == (26, 23)


def test_the_page_lists_what_is_compared() -> None:
    """``ENRICH_WRITE_DOCS=1`` writes it anew."""
    cases = Counter(case[0] for case in (*ROW_CASES, *WHOLE_CASES))
    counted = {case[0] for case in ROW_CASES}
    lines = ["| type | cases | compared |", "|---|---|---|"]
    for name in sorted(cases, key=lambda name: (not TYPES[name].is_row, name)):
        what = "verdict, rows checked, rows failed" if name in counted else "verdict"
        lines.append(f"| `{name}` | {cases[name]} | {what} |")
    path = Path(__file__).parents[3] / "docs" / "quality.md"
    text = path.read_text(encoding="utf-8")
    block = re.compile(r"<!-- compared -->\n.*?<!-- end -->", re.DOTALL)
    assert block.search(text)
    fresh = block.sub("<!-- compared -->\n" + "\n".join(lines) + "\n<!-- end -->", text)
    if os.environ.get("ENRICH_WRITE_DOCS") == "1":
        path.write_text(fresh, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == fresh


@pytest.fixture(scope="module")
def compared(people: DataFrame, ask_gx: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    import json

    from enrich.project.suitefiles import load_suite

    cases = [*ROW_CASES, *WHOLE_CASES]
    path = tmp_path_factory.mktemp("suite") / "all.json"
    path.write_text(json.dumps({"name": "all", "expectations": [{"type": t, "kwargs": k} for t, k in cases]}))
    suite = load_suite(path, "expectations/all.json")
    ours = findings_of(people, suite)
    theirs = ask_gx(people, cases)
    for number, case in enumerate(cases):
        if theirs[number].raised:  # in GX, an expectation that raises can take others with it: ask for it alone
            theirs[number] = ask_gx(people, [case])[0]
    return {"ours": ours, "theirs": theirs}


@pytest.mark.parametrize("number", range(len(ROW_CASES)), ids=names_of(ROW_CASES))
def test_row_expectation_agrees_with_gx(compared: dict[str, Any], number: int) -> None:
    ours, theirs = compared["ours"][number], compared["theirs"][number]
    assert (ours.error is not None) == theirs.raised, (ours, theirs)
    if theirs.raised:
        assert ours.success is None
        return
    assert ours.failed == (theirs.result["unexpected_count"] or 0)
    assert ours.checked == theirs.checked
    assert ours.success == (theirs.success if ours.checked else None)


@pytest.mark.parametrize("number", range(len(WHOLE_CASES)), ids=names_of(WHOLE_CASES))
def test_aggregate_agrees_with_gx(compared: dict[str, Any], number: int) -> None:
    ours, theirs = compared["ours"][len(ROW_CASES) + number], compared["theirs"][len(ROW_CASES) + number]
    assert (ours.error is not None) == theirs.raised, (ours, theirs)
    if theirs.raised:
        assert ours.success is None
    elif ours.checked:
        assert (ours.success, ours.failed) == (theirs.success, 0 if theirs.success else 1)
    else:
        assert (ours.success, ours.failed) == (None, 0)


def test_both_verdicts_and_errors_occur(compared: dict[str, Any]) -> None:
    """A comparison in which all pass, or all fail, would show little."""
    for part in (compared["ours"][: len(ROW_CASES)], compared["ours"][len(ROW_CASES) :]):
        assert {finding.success for finding in part} == {True, False, None}
        assert any(finding.error for finding in part)
