# ruff: noqa: E501 - a table reads better with one case a line
"""The gate's decisions: actions, tolerance, scopes, errors, nothing checked, odd column names, nulls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from enrich.base.failures import is_gone
from enrich.base.result import RuleState
from enrich.quality.judge import judge, judge_state
from kit.session import live_in_zone

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from enrich.base.suites import Suite
    from enrich.quality.judge import SuiteVerdict

NOT_NULL = "expect_column_values_to_not_be_null"
UNIQUE = "expect_column_values_to_be_unique"
BETWEEN = "expect_column_values_to_be_between"
REGEX = "expect_column_values_to_match_regex"
ROWS = "expect_table_row_count_to_be_between"
Build = Callable[[list[Any]], "Suite"]


def with_(**settings: Any) -> dict[str, Any]:
    return {"meta": {"enrich": settings}}


def run(frame: DataFrame, suite: Suite, target: DataFrame | None = None) -> SuiteVerdict:
    return judge(frame, suite, lambda _: target if target is not None else frame)


def reasons_of(frame: DataFrame, verdict: SuiteVerdict) -> dict[Any, list[str]]:
    assert verdict.reasons is not None
    return {row[0]: row[1] for row in frame.select(frame.columns[0], verdict.reasons).collect()}


# --- actions and tolerance -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "severity", "blocked", "action"),
    [
        ({}, None, True, "fail"),
        ({}, "critical", True, "fail"),
        ({}, "warning", False, "warn"),
        ({}, "info", False, "warn"),
        ({"action": "warn"}, "critical", False, "warn"),
        ({"action": "fail"}, "info", True, "fail"),
        ({"action": "quarantine"}, "critical", False, "quarantine"),
        ({"tolerate": 2}, None, False, "fail"),
        ({"tolerate": 1}, None, True, "fail"),
        ({"tolerate": 0}, None, True, "fail"),
        ({"tolerate": 0.2}, None, False, "fail"),
        ({"tolerate": 0.199}, None, True, "fail"),
        ({"tolerate": 1.0}, None, False, "fail"),
        ({"tolerate": 0.2}, "warning", False, "warn"),
    ],
)
def test_action_and_tolerance(
    people: DataFrame, suite_of: Build, settings: dict[str, Any], severity: str | None, blocked: bool, action: str
) -> None:
    extra = {**with_(**settings), **({"severity": severity} if severity else {})}
    verdict = run(people, suite_of([(NOT_NULL, {"column": "n"}, extra)]))
    (finding,) = verdict.findings
    assert (finding.checked, finding.failed, finding.success) == (10, 2, False)
    assert (bool(verdict.closing), finding.action) == (blocked, action)
    assert finding.tolerated == ("tolerate" in settings and not blocked)
    assert finding.is_failing != finding.tolerated
    assert (verdict.reasons is not None) == (action == "quarantine")


def test_tolerate_counts_the_rows_checked_not_all_rows(people: DataFrame, suite_of: Build) -> None:
    only_named = {"row_condition": 'col("n") > 4', "condition_parser": "great_expectations"}
    rule = (BETWEEN, {"column": "n", "max_value": 7, **only_named})
    verdict = run(people, suite_of([(*rule, with_(tolerate=0.33)), (*rule, with_(tolerate=0.34))]))
    first, second = verdict.findings
    assert (first.checked, first.failed) == (second.checked, second.failed) == (3, 1)
    assert verdict.closing
    assert not run(people, suite_of([(*rule, with_(tolerate=0.34))])).closing


def test_mostly_that_is_met_is_a_pass_without_action(people: DataFrame, suite_of: Build) -> None:
    verdict = run(people, suite_of([(NOT_NULL, {"column": "n", "mostly": 0.8})]))
    assert (verdict.findings[0].success, verdict.findings[0].failed, bool(verdict.closing)) == (True, 2, False)


def test_a_passing_suite_has_a_finding_for_every_expectation(people: DataFrame, suite_of: Build) -> None:
    verdict = run(
        people, suite_of([(NOT_NULL, {"column": "id"}), (ROWS, {"max_value": 10}), (UNIQUE, {"column": "id"})])
    )
    assert [(f.index, f.expectation, f.success) for f in verdict.findings] == [
        (0, NOT_NULL, True),
        (1, ROWS, True),
        (2, UNIQUE, True),
    ]
    assert not verdict.closing


def test_a_suite_without_rules_gives_an_empty_verdict(people: DataFrame, suite_of: Build) -> None:
    verdict = run(people, suite_of([]))
    assert (verdict.findings, bool(verdict.closing), verdict.reasons) == ((), False, None)


# --- quarantine ------------------------------------------------------------------------------------------------------


def test_reasons_name_each_broken_rule_by_type_and_columns(people: DataFrame, suite_of: Build) -> None:
    hold = with_(action="quarantine")
    pair = {"column_A": "n", "column_B": "m", "ignore_row_if": "either_value_is_missing"}
    verdict = run(
        people,
        suite_of(
            [
                (NOT_NULL, {"column": "email"}, hold),
                (NOT_NULL, {"column": "name"}, with_(action="warn")),
                (REGEX, {"column": "email", "regex": "@"}, hold),
                ("expect_column_pair_values_to_be_equal", pair, hold),
                (BETWEEN, {"column": "n", "min_value": -100}, hold),
            ]
        ),
    )
    assert not verdict.closing
    pair_rule = "expect_column_pair_values_to_be_equal:n,m"
    nothing: dict[int, list[str]] = {number: [] for number in range(1, 11)}
    expected = nothing | {
        2: [pair_rule],
        3: [f"{NOT_NULL}:email"],
        4: [f"{REGEX}:email"],
        5: [pair_rule],
        8: [pair_rule],
    }
    assert reasons_of(people, verdict) == expected


def test_two_rules_of_one_type_on_one_column_are_one_reason(people: DataFrame, suite_of: Build) -> None:
    hold = with_(action="quarantine")
    suite = suite_of([(REGEX, {"column": "email", "regex": pattern}, hold) for pattern in ("^a", "org$")])
    assert reasons_of(people, run(people, suite))[4] == [f"{REGEX}:email"]


def test_reasons_are_an_array_of_text_never_null(people: DataFrame, suite_of: Build) -> None:
    verdict = run(people, suite_of([(NOT_NULL, {"column": "id"}, with_(action="quarantine"))]))
    assert verdict.reasons is not None
    field = people.select(verdict.reasons.alias("r")).schema["r"]
    assert field.dataType.simpleString() == "array<string>"
    assert set(map(tuple, reasons_of(people, verdict).values())) == {()}


def test_rows_outside_the_row_condition_are_never_held(people: DataFrame, suite_of: Build) -> None:
    only = {"row_condition": 'col("name") == "Ann"', "condition_parser": "great_expectations"}
    verdict = run(people, suite_of([(NOT_NULL, {"column": "n", **only}, with_(action="quarantine"))]))
    assert verdict.findings[0].checked == 2
    assert {key for key, reasons in reasons_of(people, verdict).items() if reasons} == {7}


@pytest.mark.parametrize(("mostly", "success"), [(0.81, False), (0.8, True), (0, True)])
def test_mostly_decides_the_verdict_and_not_which_rows_are_held(
    people: DataFrame, suite_of: Build, mostly: float, success: bool
) -> None:
    verdict = run(people, suite_of([(NOT_NULL, {"column": "n", "mostly": mostly}, with_(action="quarantine"))]))
    (finding,) = verdict.findings
    assert (finding.checked, finding.failed, finding.success, bool(verdict.closing)) == (10, 2, success, False)
    assert {key for key, reasons in reasons_of(people, verdict).items() if reasons} == {4, 7}


def test_a_failing_fail_rule_blocks_though_the_row_would_be_held(people: DataFrame, suite_of: Build) -> None:
    rule = (NOT_NULL, {"column": "email"})
    verdict = run(people, suite_of([(*rule, with_(action="quarantine")), (*rule, with_(action="fail"))]))
    assert verdict.closing
    assert [finding.failed for finding in verdict.findings] == [1, 1]


# --- scopes ----------------------------------------------------------------------------------------------------------


def test_uniqueness_is_judged_over_the_target_and_row_rules_over_the_changed_rows(
    people: DataFrame, suite_of: Build
) -> None:
    changed = people.filter("id in (1, 2)")
    rules = [
        (UNIQUE, {"column": "email"}),
        (UNIQUE, {"column": "email"}, with_(scope="changed")),
        (NOT_NULL, {"column": "email"}),
        (NOT_NULL, {"column": "email"}, with_(scope="target")),
        (ROWS, {"min_value": 5}),
        (ROWS, {"min_value": 5}, with_(scope="changed")),
        ("expect_compound_columns_to_be_unique", {"column_list": ["email", "n"]}),
    ]
    suite = suite_of(rules)
    verdict = run(changed, suite, people)
    assert [rule.index for rule in verdict.open_rules] == [3]
    # The rule about all rows is judged by the state, without the rows.
    findings, closing = judge_state(suite, verdict, {3: RuleState(3, 10, 1)}, set())
    assert [f.index for f in closing] == [0, 3, 5]
    assert [(f.checked, f.failed, f.success) for f in findings] == [
        (9, 2, False),
        (2, 0, True),
        (2, 0, True),
        (10, 1, False),
        (10, 0, True),
        (2, 1, False),
        (10, 0, True),
    ]


def test_aggregates_see_the_target_as_published_and_row_rules_all_staged_rows(
    people: DataFrame, suite_of: Build
) -> None:
    asked: list[bool] = []

    def published(reasons: Any) -> DataFrame:
        from pyspark.sql import functions as F

        asked.append(reasons is not None)
        return people if reasons is None else people.filter(F.size(reasons) == 0)

    rules = [
        (NOT_NULL, {"column": "email"}, with_(action="quarantine")),
        (UNIQUE, {"column": "id"}),
        (ROWS, {"max_value": 9}),
    ]
    verdict = judge(people, suite_of(rules), published)
    assert [f.checked for f in verdict.findings] == [10, 10, 9]
    assert not verdict.closing
    assert asked == [False, True]


def test_the_target_is_not_asked_for_when_no_rule_needs_it(people: DataFrame, suite_of: Build) -> None:
    def published(_: Any) -> DataFrame:
        raise AssertionError("no rule has the target in scope")

    rules = [(NOT_NULL, {"column": "id"}), (ROWS, {"max_value": 10}, with_(scope="changed"))]
    assert not judge(people, suite_of(rules), published).closing


# --- nothing checked, errors -----------------------------------------------------------------------------------------

ALL_KINDS = [
    (NOT_NULL, {"column": "email"}),
    (UNIQUE, {"column": "email"}),
    (REGEX, {"column": "email", "regex": "x"}),
    ("expect_column_values_to_match_json_schema", {"column": "doc", "json_schema": {}}),
    ("expect_column_value_z_scores_to_be_less_than", {"column": "d", "threshold": 1, "double_sided": True}),
    ("expect_column_values_to_not_be_outliers", {"column": "d"}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["n", "m"]}),
    ("expect_column_pair_values_to_be_equal", {"column_A": "n", "column_B": "m"}),
    ("expect_multicolumn_sum_to_equal", {"column_list": ["n", "m"], "sum_total": 1}),
    ("expect_column_values_to_be_of_type", {"column": "n", "type_": "StringType"}),
    ("expect_column_mean_to_be_between", {"column": "n", "min_value": 1000}),
    ("expect_column_quantile_values_to_be_between", {"column": "n", "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[9, 9]]}}),
    ("expect_column_most_common_value_to_be_in_set", {"column": "name", "value_set": ["x"]}),
    ("expect_column_unique_value_count_to_be_between", {"column": "n", "min_value": 9}),
    (ROWS, {"min_value": 1}),
    ("expect_column_to_exist", {"column": "gone"}),
]  # fmt: skip


def test_no_rows_is_no_verdict_and_never_blocks(people: DataFrame, suite_of: Build) -> None:
    verdict = run(people.limit(0), suite_of([*ALL_KINDS, (NOT_NULL, {"column": "n"}, with_(action="quarantine"))]))
    assert [(f.checked, f.failed, f.success, f.error) for f in verdict.findings] == [(0, 0, None, None)] * 17
    assert not verdict.closing


def test_only_nulls_is_no_verdict_where_gx_ignores_nulls(people: DataFrame, suite_of: Build) -> None:
    verdict = run(
        people.filter("email is null"),
        suite_of([(REGEX, {"column": "email", "regex": "x"}), (NOT_NULL, {"column": "email"})]),
    )
    first, second = verdict.findings
    assert (first.checked, first.success) == (0, None)
    assert (second.checked, second.failed, second.success) == (1, 1, False)


@pytest.mark.parametrize("action", ["warn", "fail"])
@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ((BETWEEN, {"column": "name", "min_value": 1}), "InvalidColumnTypeError"),
        ((BETWEEN, {"column": "n", "min_value": 5, "max_value": 1}), "ValueError"),
        (("expect_column_values_to_be_in_set", {"column": "n", "value_set": ["secret-value"]}), "NumberFormatException[CAST_INVALID_INPUT]"),
        (("expect_column_values_to_match_json_schema", {"column": "name", "json_schema": {}}), "PythonException"),
        (("expect_column_mean_to_be_between", {"column": "name", "min_value": 1}), None),
        ((NOT_NULL, {"column": "nobody"}), None),
        (("expect_column_max_to_be_between", {"column": "nobody", "max_value": 1}), None),
    ],
)  # fmt: skip
def test_a_rule_that_raises_closes_the_gate_and_leaves_the_others_their_verdict(
    people: DataFrame, suite_of: Build, rule: Any, error: str | None, action: str
) -> None:
    verdict = run(
        people, suite_of([(NOT_NULL, {"column": "id"}), (*rule, with_(action=action)), (ROWS, {"max_value": 10})])
    )
    first, broken, last = verdict.findings
    assert verdict.closing
    assert (first.success, last.success) == (True, True)
    assert (broken.success, broken.failed) == (None, 0)
    assert broken.error is not None
    assert " " not in broken.error
    if error is not None:
        has_condition = error == "PythonException" and people.sparkSession.version >= "4.2"
        assert broken.error == (f"{error}[PYTHON_EXCEPTION]" if has_condition else error)


@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        ((NOT_NULL, {"column": "n"}), {}),
        ((UNIQUE, {"column": "n"}), {}),
        ((ROWS, {"min_value": 1}), {}),
        (("expect_column_mean_to_be_between", {"column": "n", "max_value": 9}), {}),
        (("expect_column_values_to_be_json_parseable", {"column": "doc", "row_condition": "n > 0", "condition_parser": "spark"}), with_(action="quarantine")),
    ],
)  # fmt: skip
def test_files_that_are_gone_are_no_finding_of_a_rule(
    people: DataFrame, suite_of: Build, tmp_path: Path, rule: Any, settings: dict[str, Any]
) -> None:
    people.select("id", "n", "doc").write.parquet(str(tmp_path / "rows"))
    frame = people.sparkSession.read.parquet(str(tmp_path / "rows"))
    for file in (tmp_path / "rows").glob("*.parquet"):
        file.unlink()
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of which kind it is, is asked below
        run(frame, suite_of([(*rule, settings)]))
    assert is_gone(raised.value)


def test_a_quarantine_rule_that_raises_closes_the_gate(people: DataFrame, suite_of: Build) -> None:
    verdict = run(people, suite_of([(BETWEEN, {"column": "name", "min_value": 1}, with_(action="quarantine"))]))
    assert verdict.closing
    assert set(map(tuple, reasons_of(people, verdict).values())) == {()}


def test_spark_reads_the_clock_in_values_too(spark: SparkSession, suite_of: Build) -> None:
    """Why rules that quarantine may not name the present day: which rows are held would depend on it."""
    frame = spark.sql("SELECT current_date() AS day UNION ALL SELECT date'2020-01-01'").coalesce(1)
    is_today = {"row_condition": 'col("day") == "today"', "condition_parser": "great_expectations"}
    rules = [
        ("expect_column_values_to_be_in_set", {"column": "day", "value_set": ["today"]}),
        (NOT_NULL, {"column": "day", **is_today}),
    ]
    assert [(f.checked, f.failed) for f in run(frame, suite_of(rules)).findings] == [(2, 1), (1, 0)]


# --- names of columns ------------------------------------------------------------------------------------------------

ODD_NAMES = [
    "a.b",
    "a.b.c",
    "x-y",
    "x:y",
    "select",
    "Größe",
    "a'b",
    'a"b',
    "1st",
    "a$b",
    "a/b",
    "<b>",
    ".",
    "a..b",
    "%s",
    "\\d",
]


def rules_on(name: str) -> list[tuple[str, dict[str, Any]]]:
    only = {"row_condition": {"type": "nullity", "column": {"name": name}, "is_null": False}}
    return [
        (NOT_NULL, {"column": name}),
        (NOT_NULL, {"column": "q", **only}),
        (BETWEEN, {"column": name, "max_value": 1}),
        ("expect_column_values_to_be_in_set", {"column": name, "value_set": [1]}),
        (UNIQUE, {"column": name}),
        ("expect_column_pair_values_to_be_equal", {"column_A": name, "column_B": "q"}),
        ("expect_multicolumn_values_to_be_equal", {"column_list": [name, "q"]}),
        ("expect_select_column_values_to_be_unique_within_record", {"column_list": [name, "q"]}),
        ("expect_compound_columns_to_be_unique", {"column_list": [name, "q"]}),
        ("expect_multicolumn_sum_to_equal", {"column_list": [name, "q"], "sum_total": 2}),
        ("expect_column_mean_to_be_between", {"column": name, "min_value": 2}),
        ("expect_column_values_to_be_of_type", {"column": name, "type_": "IntegerType"}),
        ("expect_column_to_exist", {"column": name}),
    ]


def rules_that_read_once_more(name: str) -> list[tuple[str, dict[str, Any]]]:
    only = {"row_condition": {"type": "nullity", "column": {"name": name}, "is_null": False}}
    return [
        (UNIQUE, {"column": name, **only}),
        (
            "expect_column_value_z_scores_to_be_less_than",
            {"column": name, "threshold": 1, "double_sided": True, **only},
        ),
        ("expect_column_values_to_not_be_outliers", {"column": name}),
        ("expect_column_max_to_be_between", {"column": name, "max_value": 1, **only}),
        ("expect_column_median_to_be_between", {"column": name, "min_value": 1}),
        ("expect_column_unique_value_count_to_be_between", {"column": name, "max_value": 2}),
        ("expect_column_most_common_value_to_be_in_set", {"column": name, "value_set": [2]}),
        ("expect_column_distinct_values_to_be_in_set", {"column": name, "value_set": [1, 2]}),
    ]


@pytest.mark.parametrize(("rules", "odd_names"), [(rules_on, ODD_NAMES), (rules_that_read_once_more, ["a.b", "x-y"])])
def test_odd_column_names_give_what_plain_names_give(
    spark: SparkSession, suite_of: Build, rules: Any, odd_names: list[str]
) -> None:
    from pyspark.sql import functions as F

    plain = spark.createDataFrame([(1, 1), (2, None), (2, 5), (None, None)], "p int, q int").coalesce(1)
    frame = plain.select("*", *(F.col("p").alias(odd) for odd in odd_names)).persist()
    names = ["p", *odd_names]
    findings = run(frame, suite_of([rule for name in names for rule in rules(name)])).findings
    size = len(rules("p"))
    found = {
        name: [(f.expectation, f.checked, f.failed, f.success, f.error) for f in findings[at * size : (at + 1) * size]]
        for at, name in enumerate(names)
    }
    assert not any(figures[4] for figures in found["p"]), found["p"]
    for name in odd_names:
        assert found[name] == found["p"], name


def test_rules_on_the_schema_know_names_with_dots(spark: SparkSession, suite_of: Build) -> None:
    frame = spark.createDataFrame([(1, 2)], "x int, q int").toDF("a.b", "q")
    rules = [
        ("expect_table_columns_to_match_set", {"column_set": ["a.b", "q"]}),
        ("expect_table_columns_to_match_ordered_list", {"column_list": ["a.b", "q"]}),
        ("expect_table_columns_to_match_set", {"column_set": ["a.c", "q"]}),
        ("expect_column_to_exist", {"column": "a.b", "column_index": 0}),
        ("expect_column_type_to_be", {"column": "a.b", "type_": "IntegerType"}),
    ]
    assert [f.success for f in run(frame, suite_of(rules)).findings] == [True, True, False, True, True]


@pytest.mark.parametrize("odd", ["a.b", "select", "Größe", "x-y"])
def test_odd_column_names_in_the_quarantine(spark: SparkSession, suite_of: Build, odd: str) -> None:
    frame = spark.createDataFrame([(1, 1, None), (2, 5, 2)], "k int, p int, q int").toDF("k", odd, "q")
    hold = with_(action="quarantine")
    rules = [
        (BETWEEN, {"column": odd, "max_value": 1}, hold),
        ("expect_multicolumn_values_to_be_equal", {"column_list": [odd, "q"], "ignore_row_if": "never"}, hold),
        ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": odd, "column_B": "q"}, hold),
    ]
    multi = f"expect_multicolumn_values_to_be_equal:{odd},q"
    assert reasons_of(frame, run(frame, suite_of(rules))) == {1: [multi], 2: [f"{BETWEEN}:{odd}", multi]}


def test_a_name_with_a_dot_as_gx_writes_it(spark: SparkSession, suite_of: Build) -> None:
    frame = spark.createDataFrame([(1,), (None,)], "x int").toDF("a.b")
    (finding,) = run(frame, suite_of([(NOT_NULL, {"column": "`a.b`"})])).findings
    assert (finding.checked, finding.failed, finding.error) == (2, 1, None)


# --- spark conditions ------------------------------------------------------------------------------------------------


def test_spark_text_as_row_condition_is_evaluated_by_spark(people: DataFrame, suite_of: Build) -> None:
    forms: list[dict[str, Any]] = [
        {"row_condition": "length(name) = 3 and n is not null", "condition_parser": "spark"},
        {"row_condition": "length(name) = 3 and n is not null"},
        {"row_condition": {"type": "pass_through", "pass_through_filter": "length(name) = 3 and n is not null"}},
        {
            "row_condition": {
                "type": "and",
                "conditions": [
                    {"type": "pass_through", "pass_through_filter": "length(name) = 3"},
                    {"type": "nullity", "column": {"name": "n"}, "is_null": False},
                ],
            }
        },
    ]
    rules: list[Any] = [(BETWEEN, {"column": "n", "max_value": 2, **form}) for form in forms]
    rules += [("expect_column_max_to_be_between", {"column": "n", "max_value": 2, **form}) for form in forms]
    found = [(f.checked, f.failed, f.error) for f in run(people, suite_of(rules)).findings]
    assert found == [(3, 1, None)] * 8


def test_python_rules_see_only_the_rows_of_their_condition_or_close_the_gate(
    spark: SparkSession, suite_of: Build
) -> None:
    frame = spark.createDataFrame([(1, "{}"), (2, "no json"), (3, "[]")], "id int, doc string").coalesce(1)
    schema = {"column": "doc", "json_schema": {"type": "object"}, "row_condition": "id <> 2"}
    rule = ("expect_column_values_to_match_json_schema", schema)
    warned = run(frame, suite_of([(*rule, with_(action="warn"))]))
    assert [(f.checked, f.failed, f.error) for f in warned.findings] == [(2, 1, None)]
    held = run(frame, suite_of([(*rule, with_(action="quarantine"))]))
    assert held.closing
    assert held.findings[0].error is not None
    good = frame.filter("id <> 2")
    assert reasons_of(good, run(good, suite_of([(*rule, with_(action="quarantine"))])))[3] != []


def test_rules_that_print_alike_are_counted_apart(people: DataFrame, suite_of: Build) -> None:
    sets: list[list[Any]] = [
        ["Ann", "Bob"],
        ["Ann, Bob"],
        ["Ann"],
        [*map(str, range(200)), "Ann"],
        [*map(str, range(200)), "Bob"],
    ]
    rules = [("expect_column_values_to_be_in_set", {"column": "name", "value_set": values}) for values in sets]
    assert [f.failed for f in run(people, suite_of(rules)).findings] == [6, 9, 7, 7, 8]


# --- time zones ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_bound_without_a_time_zone_is_in_utc_wherever_the_machine_is(
    spark: SparkSession, suite_of: Build, kind: str
) -> None:
    from pyspark.sql import functions as F

    moments = ["2024-06-01 11:00:00", "2024-06-01 13:00:00", "2024-11-03 05:30:00", "2024-11-03 06:30:00", None]
    rows = spark.createDataFrame(list(enumerate(moments)), "id int, text string")
    at = F.col("text").cast(kind)
    frame = rows.select("id", at.alias("at"), F.struct(at.alias("at")).alias("home"), F.to_date("text").alias("day"))
    newest, distinct = "2024-11-03 06:30:00", "expect_column_distinct_values_to_equal_set"
    cases: list[tuple[str, dict[str, Any], bool]] = [
        (BETWEEN, {"column": "at", "min_value": "2024-06-01T11:00:00"}, True),
        (BETWEEN, {"column": "at", "min_value": "2024-06-01T11:00:00", "strict_min": True}, False),
        (BETWEEN, {"column": "at", "min_value": "2024-06-01T07:00:00-04:00", "max_value": newest}, True),
        (BETWEEN, {"column": "at", "max_value": newest, "strict_max": True}, False),
        (BETWEEN, {"column": "at", "min_value": "2024-06-01", "max_value": "2024-11-04"}, True),
        (BETWEEN, {"column": "day", "min_value": "2024-06-01T00:00:00"}, True),
        (BETWEEN, {"column": "day", "min_value": "2024-06-01T00:00:01"}, False),
        ("expect_column_max_to_be_between", {"column": "at", "min_value": newest, "max_value": newest}, True),
        ("expect_column_max_to_be_between", {"column": "home.at", "min_value": newest, "max_value": newest}, True),
        ("expect_column_min_to_be_between", {"column": "at", "min_value": moments[0], "max_value": moments[0]}, True),
        (
            "expect_column_max_to_be_between",
            {"column": "day", "min_value": "2024-11-03", "max_value": "2024-11-03"},
            True,
        ),
        (distinct, {"column": "at", "value_set": moments[:4]}, True),
        ("expect_column_type_to_be", {"column": "at", "type_": type(frame.schema["at"].dataType).__name__}, True),
    ]
    with live_in_zone("America/New_York"):
        verdict = run(frame, suite_of([(case[0], case[1]) for case in cases]))
    assert [(f.success, f.error) for f in verdict.findings] == [(expected, None) for _, _, expected in cases]
