# ruff: noqa: E501 - a table reads better with one case a line
"""Suite files: what is read, and one line with file and line for each thing that is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from enrich.base.errors import ConfigError
from enrich.base.suites import Suite, fingerprint_quarantine
from enrich.project.suitefiles import check_columns, load_suite

NOT_NULL = "expect_column_values_to_not_be_null"
BETWEEN = "expect_column_values_to_be_between"
REGEX = "expect_column_values_to_match_regex"
UNIQUE = "expect_column_values_to_be_unique"
ROWS = "expect_table_row_count_to_be_between"
PAIR = "expect_column_pair_values_to_be_equal"
MULTI = "expect_compound_columns_to_be_unique"
IN_SET = "expect_column_values_to_be_in_set"


def load(tmp_path: Path, content: Any, name: str = "s.json") -> Suite:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8")
    return load_suite(path, f"expectations/{name}")


def one(kind: Any = NOT_NULL, kwargs: Any = None, **more: Any) -> dict[str, Any]:
    """A suite with one rule; in the file ``type`` stands on line 5."""
    return {
        "name": "s",
        "expectations": [{"type": kind, "kwargs": {"column": "c"} if kwargs is None else kwargs, **more}],
    }


def enrich(**settings: Any) -> dict[str, Any]:
    return {"meta": {"enrich": settings}}


def condition(value: Any, parser: Any = None) -> dict[str, Any]:
    kwargs = {"column": "c", "row_condition": value}
    return one(kwargs=kwargs if parser is None else {**kwargs, "condition_parser": parser})


def faults_of(tmp_path: Path, content: Any, name: str = "s.json") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, content, name)
    assert caught.value.exit_code == 2
    return [str(fault) for fault in caught.value.faults]


COMPARISON = {"type": "comparison", "column": {"name": "c"}, "operator": "==", "parameter": 1}
GX = "great_expectations"

# What the file holds, the line of the fault, and words of its message.
BAD: dict[str, tuple[Any, int, str]] = {
    # files
    "empty file": ("", 1, ""),
    "not JSON": ('{"name": "s",\n "expectations": [}', 2, "not valid JSON"),
    "trailing comma": ('{"name": "s",\n "expectations": [],\n}', 3, "not valid JSON"),
    "duplicate key": ('{"name": "s",\n "name": "t", "expectations": []}', 2, "duplicate key 'name'"),
    "comment": ('// suite\n{"name": "s", "expectations": []}', 1, "not valid JSON"),
    "NaN": ('{"name": "s", "expectations": [\n {"type": "x", "kwargs": {"a": NaN}}]}', 2, "not valid JSON"),
    "a list": ([], 1, "must be a mapping of keys and values, not a list"),
    "a text": ('"x"', 1, "not text"),
    "too deep": ('{"name": "s", "expectations": ' + "[" * 30 + "]" * 30 + "}", 1, "nested deeper"),
    "time format": (one("expect_column_values_to_match_strftime_format", {"column": "c", "strftime_format": "%D"}), 8, "a format of dates and times"),
    # the suite
    "no name": ({"expectations": []}, 1, "'name' must be text"),
    "name is null": ({"name": None, "expectations": []}, 2, "'name' must be text"),
    "name is empty": ({"name": "", "expectations": []}, 2, "'name' must be text"),
    "name is a number": ({"name": 1, "expectations": []}, 2, "'name' must be text"),
    "no expectations": ({"name": "s"}, 1, "'expectations' is missing"),
    "expectations is a mapping": ({"name": "s", "expectations": {}}, 3, "must be a list of expectations, not a mapping"),
    "misspelt expectations": ({"name": "s", "expectation": []}, 3, "did you mean 'expectations'?"),
    "unknown key": ({"name": "s", "expectations": [], "owner": 1}, 4, "unknown key 'owner'"),
    "old suite": ({"expectation_suite_name": "s", "expectations": []}, 2, "unknown key 'expectation_suite_name'"),
    "old asset": ({"name": "s", "expectations": [], "data_asset_type": None}, 4, "'data_asset_type' has no value"),
    "meta is a text": ({"name": "s", "expectations": [], "meta": "x"}, 4, "'meta' must be a mapping"),
    # the rule
    "rule is a text": ({"name": "s", "expectations": [NOT_NULL]}, 4, "not text"),
    "rule is null": ({"name": "s", "expectations": [None]}, 4, "'expectations' (item 1) has no value"),
    "no type": ({"name": "s", "expectations": [{"kwargs": {}}]}, 4, "'type' is missing"),
    "type is a number": (one(3), 5, "'expectations.type' must be text, not a number"),
    "old type": ({"name": "s", "expectations": [{"expectation_type": NOT_NULL, "kwargs": {}}]}, 5, "unknown key 'expectation_type'"),
    "misspelt type": (one("expect_column_values_to_not_be_nul"), 5, f"did you mean '{NOT_NULL}'?"),
    "class name": (one("ExpectColumnValuesToNotBeNull"), 5, "unknown expectation type"),
    "custom type": (one("expect_world_peace"), 5, "unknown expectation type 'expect_world_peace'"),
    "misspelt kwargs": ({"name": "s", "expectations": [{"type": ROWS, "kwarg": {}}]}, 6, "did you mean 'kwargs'?"),
    "kwargs is a list": (one(NOT_NULL, []), 6, "'expectations.kwargs' must be a mapping of keys and values, not a list"),
    "unknown severity": (one(severity="fatal"), 9, "must be one of critical, warning, info"),
    "severity misspelt": (one(severity="criticle"), 9, "did you mean 'critical'?"),
    "rule meta is a list": (one(meta=[]), 9, "'expectations.meta' must be a mapping of keys and values, not a list"),
    # refused types
    "row order": (one("expect_column_values_to_be_increasing"), 5, "order of rows"),
    "row order down": (one("expect_column_values_to_be_decreasing"), 5, "order of rows"),
    "LIKE": (one("expect_column_values_to_match_like_pattern", {"column": "c", "like_pattern": "%"}), 5, "cannot run"),
    "NOT LIKE list": (one("expect_column_values_to_not_match_like_pattern_list"), 5, "cannot run"),
    "dateutil": (one("expect_column_values_to_be_dateutil_parseable"), 5, "cannot run"),
    "user SQL": (one("unexpected_rows_expectation", {"unexpected_rows_query": "select 1"}), 5, "runs SQL that the user wrote"),
    "other table": (one("expect_table_row_count_to_equal_other_table", {"other_table_name": "t"}), 5, "reads another table"),
    "query comparison": (one("expect_query_results_to_match_comparison", {}), 5, "reads another table"),
    # arguments
    "no column": (one(NOT_NULL, {}), 6, "needs the argument 'column'"),
    "column is null": (one(NOT_NULL, {"column": None}), 7, "needs the argument 'column'"),
    "column is a number": (one(NOT_NULL, {"column": 1}), 7, "'column' must be a column's name"),
    "column is empty": (one(NOT_NULL, {"column": ""}), 7, "'column' must be a column's name"),
    "misspelt column": (one(NOT_NULL, {"colum": "c"}), 7, "has no argument 'colum'; did you mean 'column'?"),
    "misspelt mostly": (one(NOT_NULL, {"column": "c", "mostyl": 0.5}), 8, "did you mean 'mostly'?"),
    "misspelt row_condition": (one(NOT_NULL, {"column": "c", "row_conditon": "x"}), 8, "did you mean 'row_condition'?"),
    "argument of another type": (one(NOT_NULL, {"column": "c", "regex": "x"}), 8, "has no argument 'regex'"),
    "mostly above 1": (one(NOT_NULL, {"column": "c", "mostly": 1.1}), 8, "'mostly' must be a share from 0 to 1"),
    "mostly negative": (one(NOT_NULL, {"column": "c", "mostly": -0.1}), 8, "'mostly' must be a share"),
    "mostly is a list": (one(NOT_NULL, {"column": "c", "mostly": [1]}), 8, "'mostly' must be a share"),
    "no bounds": (one(BETWEEN), 6, "needs 'min_value' or 'max_value'"),
    "bound is a word": (one(BETWEEN, {"column": "c", "min_value": "low"}), 8, "a number, a date or a timestamp"),
    "bound is no date": (one(BETWEEN, {"column": "c", "min_value": "2026-02-30"}), 8, "a number, a date"),
    "bounds of two kinds": (one(BETWEEN, {"column": "c", "min_value": "2026-01-01", "max_value": 5}), 9, "must be two numbers"),
    "a date and a time": (one(BETWEEN, {"column": "c", "min_value": "2026-01-01", "max_value": "2026-06-01 12:00:00"}), 9, "two dates or two timestamps"),
    "strict is a word": (one(BETWEEN, {"column": "c", "min_value": 1, "strict_min": "maybe"}), 9, "true or false"),
    "value_set is a text": (one(IN_SET, {"column": "c", "value_set": "ab"}), 8, "'value_set' must be a list of values"),
    "no value_set": (one(IN_SET), 6, "needs the argument 'value_set'"),
    "empty distinct set": (one("expect_column_distinct_values_to_be_in_set", {"column": "c", "value_set": []}), 8, "at least one value"),
    "broken regex": (one(REGEX, {"column": "c", "regex": "a(b"}), 8, "a regular expression that compiles"),
    "regex that ends in a backslash": (one(REGEX, {"column": "c", "regex": "a\\"}), 8, "that compiles"),
    "regex that repeats nothing": (one(REGEX, {"column": "c", "regex": "*a"}), 8, "that compiles"),
    "broken regex in a list": (one(REGEX + "_list", {"column": "c", "regex_list": ["a", "[z-a]"]}), 8, "that compiles"),
    "empty regex list": (one(REGEX + "_list", {"column": "c", "regex_list": []}), 8, "at least one regular expression"),
    "match_on": (one(REGEX + "_list", {"column": "c", "regex_list": ["a"], "match_on": "some"}), 11, "any or all"),
    "lengths are words": (one("expect_column_value_lengths_to_equal", {"column": "c", "value": "long"}), 8, "a number"),
    "one column in a list": (one(MULTI, {"column_list": ["a"]}), 7, "at least two columns' names"),
    "column_list is a text": (one(MULTI, {"column_list": "ab"}), 7, "at least two columns' names"),
    "a number in a column_list": (one(MULTI, {"column_list": ["a", 1]}), 7, "at least two columns' names"),
    "half a pair": (one(PAIR, {"column_A": "a"}), 6, "needs the argument 'column_B'"),
    "ignore_row_if of lists": (one(PAIR, {"column_A": "a", "column_B": "b", "ignore_row_if": "never"}), 9, "neither"),
    "pairs of three": (one("expect_column_pair_values_to_be_in_set", {"column_A": "a", "column_B": "b", "value_pairs_set": [[1, 2, 3]]}), 9, "list of pairs"),
    "quantiles without ranges": (one("expect_column_quantile_values_to_be_between", {"column": "c", "quantile_ranges": {"quantiles": [0.5]}}), 8, "quantiles"),
    "quantile range upside down": (one("expect_column_quantile_values_to_be_between", {"column": "c", "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[2, 1]]}}), 8, "quantiles"),
    "schema is a text": (one("expect_column_values_to_match_json_schema", {"column": "c", "json_schema": "{}"}), 8, "must be a mapping"),
    "suite parameter": (one(ROWS, {"min_value": {"$PARAMETER": "low"}}), 7, "write the value"),
    "rows is a word": (one(ROWS, {"min_value": "many"}), 7, "a whole number"),
    "outlier method": (one("expect_column_values_to_not_be_outliers", {"column": "c", "method": "mad"}), 8, "iqr or std"),
    # row conditions
    "pandas condition": (condition("c > 1", "pandas"), 9, "condition_parser 'pandas' is not run by Spark"),
    "unknown parser": (condition("c > 1", "sql"), 9, "unknown condition_parser"),
    "parser misspelt": (condition("c > 1", "sparc"), 9, "did you mean 'spark'?"),
    "not GX's form": (condition("c > 1", GX), 8, "not in GX's form"),
    "GX's form goes on": (condition('col("c") > 1 and col("d") > 1', GX), 8, "nothing behind it, which Great Expectations would ignore"),
    "isnull in GX's form": (condition('col("c").isnull()', GX), 8, "not in GX's form"),
    "condition is a list": (condition([COMPARISON]), 8, "row_condition: none of GX's forms: {type: comparison"),
    "condition is a number": (condition(1), 8, "row_condition: none of GX's forms: {type: comparison"),
    "condition without type": (condition({"column": {"name": "c"}}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "unknown condition type": (condition({**COMPARISON, "type": "compare"}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "unknown operator": (condition({**COMPARISON, "operator": "LIKE"}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "operator is a list": (condition({**COMPARISON, "operator": ["=="]}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "unknown key in a condition": (condition({**COMPARISON, "negate": True}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "column is a text in a condition": (condition({**COMPARISON, "column": "c"}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "null parameter": (condition({**COMPARISON, "parameter": None}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "mapping as parameter": (condition({**COMPARISON, "parameter": {"a": 1}}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "IN without list": (condition({**COMPARISON, "operator": "IN"}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "IN with booleans": (condition({**COMPARISON, "operator": "IN", "parameter": [True]}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "IN with texts and numbers": (condition({**COMPARISON, "operator": "NOT_IN", "parameter": ["a", 1]}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "IN with an empty list": (condition({**COMPARISON, "operator": "IN", "parameter": []}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "parameter is missing": (condition({k: v for k, v in COMPARISON.items() if k != "parameter"}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "or within and": (condition({"type": "and", "conditions": [{"type": "or", "conditions": [COMPARISON]}]}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "or within or": (condition({"type": "or", "conditions": [{"type": "or", "conditions": [COMPARISON]}]}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "empty and": (condition({"type": "and", "conditions": []}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "101 parts": (condition({"type": "and", "conditions": [COMPARISON] * 101}), 8, "more than 100 parts"),
    "nullity without is_null": (condition({"type": "nullity", "column": {"name": "c"}}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "is_null is a text": (condition({"type": "nullity", "column": {"name": "c"}, "is_null": "no"}), 8, "row_condition: none of GX's forms: {type: comparison"),
    "Java in Spark text": (condition("reflect('java.lang.System', 'exit', 0)", "spark"), 8, "row_condition: "),
    "Java without a parser": (condition("java_method('a', 'b') = 'c'"), 8, "row_condition: "),
    "Java in pass_through": (condition({"type": "pass_through", "pass_through_filter": "reflect('a', 'b') = 'c'"}), 8, "row_condition: "),
    "Java deep inside": (condition({"type": "and", "conditions": [COMPARISON, {"type": "pass_through", "pass_through_filter": "reflect('a','b')='c'"}]}), 8, "row_condition: "),
    "subquery in Spark text": (condition("c in (select 1)", "spark"), 8, "row_condition: "),
    "a file as a table": (condition("exists (select * from text.`/etc/passwd`)", "spark"), 8, "row_condition: "),
    "broken Spark text": (condition("c >", "spark"), 8, "row_condition: "),
    # meta.enrich
    "enrich is a text": (one(meta={"enrich": "fail"}), 10, "'expectations.meta.enrich' must be a mapping of keys and values, not text"),
    "unknown setting": (one(**enrich(tolerance=1)), 11, "did you mean 'tolerate'?"),
    "unknown action": (one(**enrich(action="block")), 11, "'expectations.meta.enrich.action' is 'block', but must be one of"),
    "misspelt action": (one(**enrich(action="quarantin")), 11, "did you mean 'quarantine'?"),
    "action is null": (one(**enrich(action=None)), 11, "'expectations.meta.enrich.action' has no value"),
    "unknown scope": (one(**enrich(scope="table")), 11, "'expectations.meta.enrich.scope' is 'table'"),
    "tolerate is a boolean": (one(**enrich(tolerate=True)), 11, "not true or false"),
    "tolerate is a text": (one(**enrich(tolerate="20%")), 11, "not text"),
    "tolerate is null": (one(**enrich(tolerate=None)), 11, "'expectations.meta.enrich.tolerate' has no value"),
    "tolerate is negative": (one(**enrich(tolerate=-1)), 11, "cannot be negative"),
    "tolerate is a negative share": (one(**enrich(tolerate=-0.1)), 11, "a share from 0.0 to 1.0"),
    "tolerate above 1": (one(**enrich(tolerate=1.5)), 11, "a share from 0.0 to 1.0"),
    "tolerate with quarantine": (one(**enrich(tolerate=1, action="quarantine")), 11, "warn and fail"),
    "the clock in a set": (one(IN_SET, {"column": "c", "value_set": ["x", " Today "]}, **enrich(action="quarantine")), 6, "' Today ' does not go with quarantine"),
    "the clock in a pair": (one("expect_column_pair_values_to_be_in_set", {"column_A": "a", "column_B": "b", "value_pairs_set": [["now", 1]]}, **enrich(action="quarantine")), 6, "'now' does not go"),
    "the clock in a condition": (one(NOT_NULL, {"column": "c", "row_condition": 'col("d") < "tomorrow UTC"', "condition_parser": GX}, **enrich(action="quarantine")), 6, "'tomorrow UTC' does not go"),
    "tolerate with an aggregate": (one(ROWS, {"min_value": 1}, **enrich(tolerate=1)), 11, "one verdict for all rows"),
    "quarantine by uniqueness": (one(UNIQUE, **enrich(action="quarantine")), 11, "judge a row by itself"),
    "quarantine by several columns' uniqueness": (one(MULTI, {"column_list": ["a", "b"]}, **enrich(action="quarantine")), 14, "judge a row by itself"),
    "quarantine by z-score": (one("expect_column_value_z_scores_to_be_less_than", {"column": "c", "threshold": 1, "double_sided": True}, **enrich(action="quarantine")), 13, "judge a row by itself"),
    "quarantine by outliers": (one("expect_column_values_to_not_be_outliers", **enrich(action="quarantine")), 11, "judge a row by itself"),
    "quarantine by type": (one("expect_column_values_to_be_of_type", {"column": "c", "type_": "IntegerType"}, **enrich(action="quarantine")), 12, "judge a row by itself"),
    "quarantine by an aggregate": (one(ROWS, {"min_value": 1}, **enrich(action="quarantine")), 11, "judge a row by itself"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_suite_is_refused_with_file_and_line(tmp_path: Path, case: str) -> None:
    content, line, words = BAD[case]
    faults = faults_of(tmp_path, content)
    place = f"expectations/s.json:{line}: "
    assert any(fault.startswith(place) and words in fault for fault in faults), faults
    assert all(fault.startswith("expectations/s.json") and "\n" not in fault for fault in faults)


def test_the_table_of_bad_suites_is_long() -> None:
    assert len(BAD) >= 60


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    rules = [
        {"type": "expect_nothing", "kwargs": {}},
        {"type": NOT_NULL, "kwargs": {"colum": "a"}, "severity": "bad"},
        {"type": ROWS, "kwargs": {"min_value": "x"}, "meta": {"enrich": {"action": "no", "tolerate": True}}},
    ]
    assert len(faults_of(tmp_path, {"name": 1, "expectations": rules, "x": 1})) >= 9


def test_faults_hold_no_arguments_but_names(tmp_path: Path) -> None:
    rule = one(IN_SET, {"column": "c", "value_set": "hunter2", "regexp": "hunter2"})
    assert "hunter2" not in "".join(faults_of(tmp_path, rule))


YAML = """\
name: people
expectations:
  - type: expect_column_values_to_not_be_null
    kwargs: {column: email}
    severity: warning
    meta: {enrich: {tolerate: 0.2}}
  - type: expect_column_values_to_match_regex
    kwargs: {column: email, regex: '^a('}
"""


def test_yaml_suite_has_the_same_keys_and_lines(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, YAML, "s.yml")
    assert fault == "expectations/s.yml:8: 'regex' must be a regular expression that compiles"
    suite = load(tmp_path, YAML.replace("^a(", "^a"), "s.yml")
    assert [(rule.action, rule.tolerate, rule.where) for rule in suite.rules] == [
        ("warn", 0.2, "expectations/s.yml:3"),
        ("fail", None, "expectations/s.yml:7"),
    ]


@pytest.mark.parametrize("regex", [r"^[\w-.]+@", r"[\s-_]", r"[\w-+]", r"[\.-/]", r"[\p{L}-']", r"[\t-9]"])
def test_a_class_of_characters_may_stand_beside_a_hyphen_as_java_has_it(tmp_path: Path, regex: str) -> None:
    (rule,) = load(tmp_path, one(REGEX, {"column": "c", "regex": regex})).rules
    assert rule.kwargs["regex"] == regex


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_suite(tmp_path / "none.json", "expectations/none.json")
    assert "expectations/none.json" in str(caught.value)


def test_what_gx_writes_is_read(tmp_path: Path) -> None:
    """Keys as ``suite.to_json_dict()`` of GX 1.24.1 gives them, with every one that it may give."""
    suite = load(
        tmp_path,
        {
            "name": "any <b>text</b> \u202e",
            "id": "94c09699-7af4-4618-bd1b-6a1716097f7b",
            "expectations": [
                {
                    "type": BETWEEN,
                    "kwargs": {
                        "batch_id": None,
                        "result_format": "COMPLETE",
                        "catch_exceptions": True,
                        "windows": None,
                        "column": "a",
                        "mostly": 0.5,
                        "row_condition": {
                            "column": {"name": "b"},
                            "operator": ">",
                            "parameter": 3,
                            "type": "comparison",
                        },
                        "condition_parser": None,
                        "min_value": 1.0,
                        "max_value": None,
                    },
                    "meta": {"anything": {"a": [1]}, "enrich": {"action": "warn"}},
                    "notes": ["x", "<script>"],
                    "id": "e5dc7973-51db-455b-a157-b766899049b7",
                    "description": "d",
                    "severity": "critical",
                    "rendered_content": [{"name": "x"}],
                    "expectation_context": {"description": None},
                    "success_on_last_run": True,
                }
            ],
            "suite_parameters": {"lo": 1},
            "meta": {"great_expectations_version": "1.24.1"},
            "notes": None,
        },
    )
    (rule,) = suite.rules
    assert (rule.action, rule.scope) == ("warn", "changed")
    assert dict(rule.kwargs) == {"column": "a", "mostly": 0.5, "min_value": 1.0}
    assert rule.list_judged_columns() == ("a", "b")


@pytest.mark.parametrize(
    ("kind", "kwargs", "severity", "action", "scope"),
    [
        (NOT_NULL, {"column": "c"}, None, "fail", "changed"),
        (NOT_NULL, {"column": "c"}, "critical", "fail", "changed"),
        (NOT_NULL, {"column": "c"}, "warning", "warn", "changed"),
        (NOT_NULL, {"column": "c"}, "info", "warn", "changed"),
        (UNIQUE, {"column": "c"}, None, "fail", "target"),
        (MULTI, {"column_list": ["a", "b"]}, None, "fail", "target"),
        (ROWS, {"min_value": 1}, "info", "warn", "target"),
        ("expect_column_values_to_be_of_type", {"column": "c", "type_": "X"}, None, "fail", "changed"),
    ],
)
def test_defaults_of_action_and_scope(
    tmp_path: Path, kind: str, kwargs: dict[str, Any], severity: str | None, action: str, scope: str
) -> None:
    (rule,) = load(tmp_path, one(kind, kwargs, **({"severity": severity} if severity else {}))).rules
    assert (rule.action, rule.scope) == (action, scope)


@pytest.mark.parametrize("tolerate", [0, 3, 0.0, 0.2, 1.0])
def test_tolerate_keeps_rows_and_shares_apart(tmp_path: Path, tolerate: float) -> None:
    (rule,) = load(tmp_path, one(**enrich(tolerate=tolerate))).rules
    assert (rule.tolerate, type(rule.tolerate)) == (tolerate, type(tolerate))


@pytest.mark.parametrize(
    "regex",
    [
        "^\\p{L}+$",
        "(?<word>a)\\k<word>",
        "\\Qa(b\\E",
        "a\\z",
        "[a-z&&[aeiou]]",
        "(?i)x",
        "a*+",
        "(?>a)",
        "^.+@.+$",
        "\\h",
        "(?<=a|bc)d",
        "(?<=\\d{1,3})a",
        "x(?i)y",
        "(?U)\\w",
        "(?idm)x",
        "^\\x{41}$",
        "\\e\\cA\\V",
    ],
)
def test_patterns_of_java_are_let_through(tmp_path: Path, regex: str) -> None:
    assert load(tmp_path, one(REGEX, {"column": "c", "regex": regex})).rules[0].kwargs["regex"] == regex


@pytest.mark.parametrize("value", ["2026-01-01", "2026-01-01T10:00:00", "2026-01-01 10:00:00+01:00", "5", 5, 5.5, -1])
def test_bounds_are_numbers_dates_and_timestamps(tmp_path: Path, value: Any) -> None:
    load(tmp_path, one(BETWEEN, {"column": "c", "min_value": value}))
    load(tmp_path, one(BETWEEN, {"column": "c", "min_value": value, "max_value": value}))


@pytest.mark.parametrize(
    ("low", "high"), [("2026-01-01 11:00:00", "2026-01-01T12:00:00Z"), (1, 1), ("5", 6), (1, "inf")]
)
def test_bounds_of_one_kind_go_together(tmp_path: Path, low: Any, high: Any) -> None:
    load(tmp_path, one(BETWEEN, {"column": "c", "min_value": low, "max_value": high}))
    load(tmp_path, one(ROWS, {"min_value": 1, "max_value": 10**400}))


TARGET = ("customer_id", "email", "a.b", "home")


@pytest.mark.parametrize(
    ("kwargs", "fault"),
    [
        ({"column": "email"}, None),
        ({"column": "a.b"}, None),
        ({"column": "`a.b`"}, None),
        ({"column": "home.city"}, None),
        ({"column": "mail"}, "selects no column 'mail'; did you mean 'email'?"),
        ({"column": "Email"}, "did you mean 'email'?"),
        ({"column": "zip.city"}, "selects no column 'zip.city'"),
        ({"column": "email", "row_condition": 'col("emial") > 1', "condition_parser": GX}, "did you mean 'email'?"),
        ({"column": "email", "row_condition": "`a.b` > 1 and home.city = 'Ulm'"}, None),
        ({"column": "email", "row_condition": "costumer_id > 1"}, "did you mean 'customer_id'?"),
    ],
)
def test_columns_that_the_job_does_not_select(tmp_path: Path, kwargs: dict[str, Any], fault: str | None) -> None:
    found = [str(item) for item in check_columns(load(tmp_path, one(NOT_NULL, kwargs)), TARGET)]
    if fault is None:
        assert found == []
    else:
        line = 8 if "row_condition" in kwargs else 7
        assert len(found) == 1
        assert found[0].startswith(f"expectations/s.json:{line}: ")
        assert fault in found[0]


def test_columns_of_pairs_and_lists_are_looked_for(tmp_path: Path) -> None:
    rules = [
        {"type": PAIR, "kwargs": {"column_A": "x1", "column_B": "email"}},
        {"type": MULTI, "kwargs": {"column_list": ["email", "x2"]}},
        {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "x3"}},
        {"type": "expect_column_to_exist", "kwargs": {"column": "x4"}},
        {"type": "expect_table_columns_to_match_set", "kwargs": {"column_set": ["x5"]}},
    ]
    suite = load(tmp_path, {"name": "s", "expectations": rules})
    assert [rule.list_judged_columns() for rule in suite.rules] == [("x1", "email"), ("email", "x2"), ("x3",), (), ()]
    assert [fault.message.split("'")[1] for fault in check_columns(suite, TARGET)] == ["x1", "x2", "x3"]


def test_a_lambda_variable_is_no_column(tmp_path: Path) -> None:
    suite = load(tmp_path, one(NOT_NULL, {"column": "email", "row_condition": "exists(home, x -> x > 1)"}))
    assert suite.rules[0].list_judged_columns() == ("email", "home")
    assert check_columns(suite, TARGET) == []


def test_fingerprint_holds_what_decides_the_quarantine_and_nothing_else(tmp_path: Path) -> None:
    hold = enrich(action="quarantine")
    rule = one(NOT_NULL, {"column": "c"}, **hold)["expectations"][0]
    other = one(ROWS, {"min_value": 1})["expectations"][0]

    def fingerprint(*rules: Any, **suite: Any) -> str:
        return fingerprint_quarantine(load(tmp_path, {"name": "s", "expectations": list(rules), **suite}))

    base = fingerprint(rule)
    assert base
    assert fingerprint(other) == ""
    assert fingerprint(other, rule, notes="n") == base
    assert fingerprint({**rule, "severity": "info", "notes": "x", "id": "1"}) == base
    assert fingerprint({**rule, "kwargs": {"column": "c", "result_format": "BASIC", "condition_parser": None}}) == base
    assert fingerprint({**rule, "kwargs": {"column": "c", "mostly": 0.5}}) == base
    changed = [
        {**rule, "kwargs": {"column": "d"}},
        {**rule, "kwargs": {"column": "c", "row_condition": 'col("d") > 1', "condition_parser": GX}},
        {**rule, "type": "expect_column_values_to_be_null"},
    ]
    assert len({base, *map(fingerprint, changed)}) == 4


def test_rules_that_only_report_or_block_may_name_the_present_day(tmp_path: Path) -> None:
    for action in ("warn", "fail"):
        assert load(tmp_path, one(IN_SET, {"column": "c", "value_set": ["today"]}, **enrich(action=action))).rules


def test_labels_of_the_quarantine(tmp_path: Path) -> None:
    rules = [
        {"type": NOT_NULL, "kwargs": {"column": "c"}},
        {"type": PAIR, "kwargs": {"column_A": "a", "column_B": "b"}},
        {"type": MULTI, "kwargs": {"column_list": ["a", "b"]}},
        {"type": ROWS, "kwargs": {"min_value": 1}},
    ]
    suite = load(tmp_path, {"name": "s", "expectations": rules})
    assert [rule.label for rule in suite.rules] == [f"{NOT_NULL}:c", f"{PAIR}:a,b", f"{MULTI}:a,b", ROWS]


def test_reading_suites_imports_neither_spark_nor_gx(tmp_path: Path) -> None:
    load(tmp_path, one())
    code = (
        "import sys; from pathlib import Path; from enrich.project.suitefiles import load_suite, check_columns;"
        "load_suite(Path(sys.argv[1]), 's.json');"
        "print([m for m in ('pyspark', 'great_expectations', 'pandas', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "s.json")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


SAMPLES = sorted((Path(__file__).parents[3] / "expectations").glob("*.json"))


@pytest.mark.parametrize("file", SAMPLES, ids=lambda file: file.name)
def test_sample_suites_are_right(file: Path) -> None:
    assert load_suite(file, f"expectations/{file.name}").rules
