"""Great Expectations' core expectation types as plain data, so that a suite is checked without importing GX.

GX takes more than two seconds to import and drops what it does not understand with a log line; a job file must fail
in milliseconds, with a line. ``tests/unit/quality/test_catalogue.py`` compares every entry with the installed GX.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from typing import Any

from enrich.base.suites import AGGREGATE, COLUMN, MULTI, PAIR, Kind, Type

COMMON = frozenset({"batch_id", "result_format", "catch_exceptions", "windows", "library_metadata"})
"""Arguments that GX writes into ``kwargs`` and that decide nothing about a verdict; accepted and dropped."""

CONDITION = frozenset({"row_condition", "condition_parser"})
"""Arguments that say which rows a rule looks at."""

_BOOLEAN_TEXTS = frozenset({"0", "1", "off", "on", "f", "t", "false", "true", "n", "y", "no", "yes"})
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}")
_CLOCK = re.compile(r"[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}(:?\d{2})?)?", re.IGNORECASE)

Check = Callable[[Any], bool]


def _can_read(text: str, read: Callable[[str], Any]) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _is_number(value: Any) -> bool:
    return _can_read(value, float) if isinstance(value, str) else isinstance(value, (int, float))


def _is_bound(value: Any) -> bool:
    if _is_number(value):
        return True
    if not isinstance(value, str) or not (day := _DATE.match(value)):
        return False
    rest = value[day.end() :]
    is_moment = not rest or _CLOCK.fullmatch(rest) is not None
    return is_moment and _can_read(day.group(), lambda text: date(*map(int, text.split("-"))))


def _is_boolean(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() in _BOOLEAN_TEXTS
    return isinstance(value, (bool, int, float)) and value in (0, 1)


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, int, float))


def _is_list(value: Any, accepts: Check, least: int = 0) -> bool:
    return isinstance(value, list) and len(value) >= least and all(map(accepts, value))


def _is_quantile_ranges(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {"quantiles", "value_ranges"}:
        return False
    quantiles, ranges = value["quantiles"], value["value_ranges"]
    return _is_list(quantiles, _is_number) and _is_list(ranges, _is_range) and len(quantiles) == len(ranges)


def _is_range(value: Any) -> bool:
    if not _is_list(value, lambda item: item is None or _is_number(item)):
        return False
    bounds = [float(item) for item in value if item is not None]
    return len(value) == 2 and bounds == sorted(bounds)


_BROKEN = re.compile(
    r"missing \)|unbalanced parenthesis|unterminated character set|nothing to repeat|multiple repeat"
    r"|bad character range|min repeat greater|bad escape \(end of pattern\)"
    r"|redefinition of group name|unknown group name"
)
"""What Python says of a pattern that is broken in Java's dialect, too."""


def _is_regex(value: Any) -> bool:
    r"""Tell whether a pattern may compile; Python's ``re`` stands in for Java's, which Spark uses.

    What Java's have and Python's lack is rewritten (``\p{..}``, ``\z``, ``\h``, ``(?<name>``). What Python alone lacks
    is let through: ``(?<=a|bc)``, flags in the middle, ``\x{41}``, ``\cA``.
    """
    try:
        pattern = re.sub(r"\\[pP]\{[^}]*\}|\\[hHRX]", "x", str(value))
        pattern = re.sub(r"\\[zG]", r"\\Z", pattern)
        pattern = re.sub(r"\\Q(.*?)(?:\\E|$)", lambda found: re.escape(found.group(1)), pattern, flags=re.DOTALL)
        pattern = re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", pattern)
        pattern = re.sub(r"\\k<([A-Za-z]\w*)>", r"(?P=\1)", pattern)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern.replace("&&[", "["))
    except re.error as error:
        return _is_text(value) and _BROKEN.match(error.msg) is None
    except (OverflowError, RecursionError):
        return False
    return _is_text(value)


NUMBER = Kind("a number", _is_number)
POSITIVE = Kind("a number not below 0", lambda value: _is_number(value) and float(value) >= 0)
INTEGER = Kind(
    "a whole number",
    lambda value: (
        _can_read(value, int)
        if isinstance(value, str)
        else isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    ),
)
BOUND = Kind("a number, a date or a timestamp", _is_bound)
BOOLEAN = Kind("true or false", _is_boolean)
TEXT = Kind("a text", _is_text)
TEXTS = Kind("a list of texts", lambda value: _is_list(value, _is_text))
SHARE = Kind("a share from 0 to 1", lambda value: _is_number(value) and 0 <= float(value) <= 1)
PAIRS = Kind(
    "a list of pairs, each a list of two values",
    lambda value: _is_list(value, lambda item: isinstance(item, list) and len(item) == 2, 1),
)
VALUES = Kind("a list of values", lambda value: isinstance(value, list))
FULL_VALUES = Kind("a list of at least one value", lambda value: isinstance(value, list) and bool(value))
MAPPING = Kind("a mapping", lambda value: isinstance(value, dict))
NAME = Kind("a column's name", lambda value: isinstance(value, str) and bool(value))
NAMES = Kind(
    "a list of at least two columns' names", lambda value: _is_list(value, lambda item: isinstance(item, str), 2)
)
NAME_LIST = Kind("a list of columns' names", TEXTS.accepts)
REGEX = Kind("a regular expression that compiles", _is_regex)
REGEXES = Kind("a list of at least one regular expression that compiles", lambda value: _is_list(value, _is_regex, 1))
QUANTILES = Kind(
    "a mapping of `quantiles` and `value_ranges`, lists of one length, every range [low, high]", _is_quantile_ranges
)
RELATIVE_ERROR = Kind("true, false or a text", lambda value: _is_boolean(value) or _is_text(value))


def _build_choice(*words: str) -> Kind:
    return Kind(" or ".join(words), lambda value: value in words)


PAIR_NULLS = _build_choice("both_values_are_missing", "either_value_is_missing", "neither")
MULTI_NULLS = _build_choice("all_values_are_missing", "any_value_is_missing", "never")


_NONE: Mapping[str, Kind] = {}


def _build_row_type(
    judges: str,
    columns: Mapping[str, Kind],
    common: Mapping[str, Kind],
    optional: Mapping[str, Kind] = _NONE,
    **more: Any,
) -> Type:
    """Build a row type: what names its columns, what all types that judge the same may have, what it alone has."""
    return Type(judges, {**columns, **more.pop("required", {})}, {"mostly": SHARE, **common, **optional}, **more)


def _build_table_type(optional: Mapping[str, Kind] = _NONE, **required: Kind) -> Type:
    """Build an aggregate type on the whole table."""
    return Type(AGGREGATE, required, optional)


_build_column_type = partial(_build_row_type, COLUMN, {"column": NAME}, _NONE)
_build_pair_type = partial(_build_row_type, PAIR, {"column_A": NAME, "column_B": NAME}, {"ignore_row_if": PAIR_NULLS})
_build_multi_type = partial(_build_row_type, MULTI, {"column_list": NAMES}, {"ignore_row_if": MULTI_NULLS})
_build_aggregate_type = partial(_build_table_type, column=NAME)


_STRICT = {"strict_min": BOOLEAN, "strict_max": BOOLEAN}
_BOUNDS = {"min_value": BOUND, "max_value": BOUND, **_STRICT}
_NUMBERS = {"min_value": NUMBER, "max_value": NUMBER, **_STRICT}
_INTEGERS = {"min_value": INTEGER, "max_value": INTEGER, **_STRICT}
_EITHER = ("min_value", "max_value")

_ORDER = "it judges the order of rows, and the rows of a table have none"
_LIKE = "Great Expectations cannot run LIKE patterns on Spark; use expect_column_values_to_match_regex"
_SPARKLESS = "Great Expectations cannot run it on Spark"
_OTHER = "it reads another table, at a version that no run records; join the table in the job instead"
_SQL = "it runs SQL that the user wrote; use row expectations, or `where` in the job"

_LIKES = {"like_pattern": TEXT}
_ESCAPE = {"escape": Kind("a single character", lambda value: isinstance(value, str) and len(value) == 1)}
_MATCH_ON = {"match_on": _build_choice("any", "all")}

TYPES: dict[str, Type] = {
    "expect_column_distinct_values_to_be_in_set": _build_aggregate_type(value_set=FULL_VALUES),
    "expect_column_distinct_values_to_contain_set": _build_aggregate_type(value_set=VALUES),
    "expect_column_distinct_values_to_equal_set": _build_aggregate_type(value_set=VALUES),
    "expect_column_kl_divergence_to_be_less_than": _build_aggregate_type(
        {
            "partition_object": MAPPING,
            "threshold": NUMBER,
            "internal_weight_holdout": SHARE,
            "tail_weight_holdout": SHARE,
            "bucketize_data": BOOLEAN,
            "min_value": BOUND,
            "max_value": BOUND,
        }
    ),
    "expect_column_max_to_be_between": _build_aggregate_type(_BOUNDS),
    "expect_column_mean_to_be_between": _build_aggregate_type(_BOUNDS),
    "expect_column_median_to_be_between": _build_aggregate_type(_BOUNDS),
    "expect_column_min_to_be_between": _build_aggregate_type(_BOUNDS),
    "expect_column_most_common_value_to_be_in_set": _build_aggregate_type({"ties_okay": BOOLEAN}, value_set=VALUES),
    "expect_column_pair_values_a_to_be_greater_than_b": _build_pair_type({"or_equal": BOOLEAN}),
    "expect_column_pair_values_to_be_equal": _build_pair_type(),
    "expect_column_pair_values_to_be_in_set": _build_pair_type(required={"value_pairs_set": PAIRS}, unconditional=True),
    "expect_column_proportion_of_non_null_values_to_be_between": _build_aggregate_type(_NUMBERS),
    "expect_column_proportion_of_unique_values_to_be_between": _build_aggregate_type(_NUMBERS),
    "expect_column_quantile_values_to_be_between": _build_aggregate_type(
        {"allow_relative_error": RELATIVE_ERROR}, quantile_ranges=QUANTILES
    ),
    "expect_column_stdev_to_be_between": _build_aggregate_type(_NUMBERS),
    "expect_column_sum_to_be_between": _build_aggregate_type(_BOUNDS),
    "expect_column_to_exist": _build_aggregate_type({"column_index": INTEGER}),
    "expect_column_type_to_be": _build_aggregate_type(type_=TEXT),
    "expect_column_unique_value_count_to_be_between": _build_aggregate_type(_INTEGERS),
    "expect_column_value_lengths_to_be_between": _build_column_type(_INTEGERS, either=_EITHER),
    "expect_column_value_lengths_to_equal": _build_column_type(required={"value": NUMBER}),
    "expect_column_value_z_scores_to_be_less_than": _build_column_type(
        required={"threshold": NUMBER, "double_sided": BOOLEAN}, measured=True
    ),
    "expect_column_values_to_be_between": _build_column_type(_BOUNDS, either=_EITHER),
    "expect_column_values_to_be_dateutil_parseable": _build_column_type(refused=_SPARKLESS),
    "expect_column_values_to_be_decreasing": _build_column_type({"strictly": BOOLEAN}, refused=_ORDER),
    "expect_column_values_to_be_in_set": _build_column_type(required={"value_set": VALUES}),
    "expect_column_values_to_be_in_type_list": _build_column_type({"type_list": TEXTS}, verdict_only=True),
    "expect_column_values_to_be_increasing": _build_column_type({"strictly": BOOLEAN}, refused=_ORDER),
    "expect_column_values_to_be_json_parseable": _build_column_type(),
    "expect_column_values_to_be_null": _build_column_type(),
    "expect_column_values_to_be_of_type": _build_column_type(required={"type_": TEXT}, verdict_only=True),
    "expect_column_values_to_be_unique": _build_column_type(windowed=True),
    "expect_column_values_to_match_json_schema": _build_column_type(required={"json_schema": MAPPING}),
    "expect_column_values_to_match_like_pattern": _build_column_type(_ESCAPE, required=_LIKES, refused=_LIKE),
    "expect_column_values_to_match_like_pattern_list": _build_column_type(
        _ESCAPE | _MATCH_ON, required={"like_pattern_list": TEXTS}, refused=_LIKE
    ),
    "expect_column_values_to_match_regex": _build_column_type({"regex": REGEX}),
    "expect_column_values_to_match_regex_list": _build_column_type(_MATCH_ON, required={"regex_list": REGEXES}),
    "expect_column_values_to_match_strftime_format": _build_column_type(required={"strftime_format": TEXT}),
    "expect_column_values_to_not_be_in_set": _build_column_type(required={"value_set": VALUES}),
    "expect_column_values_to_not_be_null": _build_column_type(),
    "expect_column_values_to_not_be_outliers": _build_column_type(
        {"method": _build_choice("iqr", "std"), "multiplier": POSITIVE}, measured=True
    ),
    "expect_column_values_to_not_match_like_pattern": _build_column_type(_ESCAPE, required=_LIKES, refused=_LIKE),
    "expect_column_values_to_not_match_like_pattern_list": _build_column_type(
        _ESCAPE, required={"like_pattern_list": TEXTS}, refused=_LIKE
    ),
    "expect_column_values_to_not_match_regex": _build_column_type(required={"regex": REGEX}),
    "expect_column_values_to_not_match_regex_list": _build_column_type(required={"regex_list": REGEXES}),
    "expect_compound_columns_to_be_unique": _build_multi_type(windowed=True),
    "expect_multicolumn_sum_to_equal": _build_multi_type(required={"sum_total": NUMBER}),
    "expect_multicolumn_values_to_be_equal": _build_multi_type(),
    "expect_query_results_to_match_comparison": Type(
        AGGREGATE,
        {"base_query": TEXT, "comparison_data_source_name": TEXT, "comparison_query": TEXT},
        {"mostly": SHARE},
        refused=_OTHER,
    ),
    "expect_select_column_values_to_be_unique_within_record": _build_multi_type(),
    "expect_table_column_count_to_be_between": _build_table_type({"min_value": BOUND, "max_value": BOUND}),
    "expect_table_column_count_to_equal": _build_table_type(value=INTEGER),
    "expect_table_columns_to_match_ordered_list": _build_table_type({"column_list": NAME_LIST}),
    "expect_table_columns_to_match_set": _build_table_type({"column_set": NAME_LIST, "exact_match": BOOLEAN}),
    "expect_table_row_count_to_be_between": _build_table_type(_INTEGERS),
    "expect_table_row_count_to_equal": _build_table_type(value=INTEGER),
    "expect_table_row_count_to_equal_other_table": Type(AGGREGATE, {"other_table_name": TEXT}, refused=_OTHER),
    "unexpected_rows_expectation": Type(AGGREGATE, {"unexpected_rows_query": TEXT}, refused=_SQL),
}
