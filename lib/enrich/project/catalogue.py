"""List Great Expectations' core expectation types as plain data, to check a suite without importing GX.

GX takes more than two seconds to import and drops what it does not understand with a log line; a job file must fail
in milliseconds, with a line. ``tests/unit/quality/test_catalogue.py`` compares every entry with the installed GX.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, StrictFloat, TypeAdapter, conlist

from enrich.base.suites import AGGREGATE, COLUMN, MULTI, PAIR, Kind, Type

COMMON = frozenset({"batch_id", "result_format", "catch_exceptions", "windows", "library_metadata"})
"""Arguments that GX writes into ``kwargs`` and that decide nothing about a verdict; accepted and dropped."""

CONDITION = frozenset({"row_condition", "condition_parser"})  # arguments that say which rows a rule looks at

_JAVA = re.compile(r"\\Q.*?(?:\\E|$)|\\[pP]\{[^}]*\}|\\.", re.DOTALL)
"""What stands for one thing in a Java pattern, whatever it is: quoted text, a class of characters, an escape."""
_ANY = "\ue000"
"""What takes its place for Python; as an end of a range it may be a class, which Java takes, or any character."""
_BROKEN = re.compile(
    r"missing \)|unbalanced parenthesis|unterminated character set|nothing to repeat|multiple repeat"
    rf"|bad character range (?!{_ANY}-|.-{_ANY})|min repeat greater|bad escape \(end of pattern\)"
    r"|redefinition of group name|unknown group name"
)
"""What Python says of a pattern that is broken in Java's dialect, too; what Python alone lacks is let through."""


def _check_regex(pattern: str | int | float) -> None:
    """Compile a pattern; Python's ``re`` stands in for Java's, which Spark uses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", _JAVA.sub(_ANY, str(pattern))))
    except re.error as error:
        if _BROKEN.match(error.msg):
            raise ValueError(error.msg) from None
    except (OverflowError, RecursionError) as error:
        raise ValueError(type(error).__name__) from None


class _Quantiles(BaseModel, extra="forbid"):
    quantiles: list[float]
    value_ranges: list[tuple[float | None, float | None]]

    def model_post_init(self, _context: Any) -> None:
        is_ascending = all(low is None or high is None or low <= high for low, high in self.value_ranges)
        if not is_ascending or len(self.quantiles) != len(self.value_ranges):
            raise ValueError


def _build_kind(text: str, wanted: Any) -> Kind:
    """Build what an argument takes; pydantic tests it as GX's own model does."""
    adapter = TypeAdapter[Any](wanted)

    def accepts(value: Any) -> bool:
        try:
            adapter.validate_python(value)
        except ValueError:
            return False
        return True

    return Kind(text, accepts)


def can_compare(*bounds: Any) -> bool:
    """Tell whether two bounds that are fine each by itself are of one kind: GX compares them when it judges rows."""
    return len({(":" in str(each), type(_BOUND.validate_python(each))) for each in bounds}) == 1


def _build_choice(*words: str) -> Kind:
    return Kind(" or ".join(words), lambda value: value in words)


_Moment = Annotated[datetime, AfterValidator(lambda at: at.replace(tzinfo=at.tzinfo or UTC))]
_BOUND = TypeAdapter[Any](float | _Moment)
_Text = str | int | float
_Regex = Annotated[_Text, AfterValidator(_check_regex)]
_Whole = int | Annotated[StrictFloat, Field(allow_inf_nan=False)]

NUMBER = _build_kind("a number", float)
POSITIVE = _build_kind("a number not below 0", Annotated[float, Field(ge=0)])
INTEGER = _build_kind("a whole number", _Whole)
BOUND = _build_kind("a number, a date or a timestamp", float | datetime)
BOOLEAN = _build_kind("true or false", bool)
TEXT = _build_kind("a text", _Text)
TEXTS = _build_kind("a list of texts", list[_Text])
SHARE = _build_kind("a share from 0 to 1", Annotated[float, Field(ge=0, le=1)])
PAIRS = _build_kind(
    "a list of pairs, each a list of two values", conlist(conlist(Any, min_length=2, max_length=2), min_length=1)
)
VALUES = _build_kind("a list of values", list[Any])
FULL_VALUES = _build_kind("a list of at least one value", conlist(Any, min_length=1))
MAPPING = _build_kind("a mapping", dict[str, Any])
NAME = _build_kind("a column's name", Annotated[str, Field(min_length=1)])
NAMES = _build_kind("a list of at least two columns' names", conlist(str, min_length=2))
NAME_LIST = _build_kind("a list of columns' names", list[_Text])
REGEX = _build_kind("a regular expression that compiles", _Regex)
REGEXES = _build_kind(
    "a list of at least one regular expression that compiles", Annotated[list[_Regex], Field(min_length=1)]
)
_is_time_format = AfterValidator(
    lambda text: datetime.strptime(datetime.now(UTC).strftime(str(text)), str(text)).replace(tzinfo=UTC)
)
TIME_FORMAT = _build_kind("a format of dates and times", Annotated[_Text, _is_time_format])
QUANTILES = _build_kind(
    "a mapping of `quantiles` and `value_ranges`, lists of one length, every range [low, high]", _Quantiles
)
RELATIVE_ERROR = _build_kind("true, false or a text", bool | _Text)
PAIR_NULLS = _build_choice("both_values_are_missing", "either_value_is_missing", "neither")
MULTI_NULLS = _build_choice("all_values_are_missing", "any_value_is_missing", "never")
MATCH_ON, METHOD = _build_choice("any", "all"), _build_choice("iqr", "std")

_NONE: Mapping[str, Kind] = {}


def _build_row_type(
    judges: str,
    columns: Mapping[str, Kind],
    common: Mapping[str, Kind],
    optional: Mapping[str, Kind] = _NONE,
    *,
    required: Mapping[str, Kind] = _NONE,
    **flags: Any,
) -> Type:
    """Build a row type: what names its columns, what all types that judge the same may have, what it alone has."""
    return Type(judges, {**columns, **required}, {"mostly": SHARE, **common, **optional}, **flags)


def _build_table_type(optional: Mapping[str, Kind] = _NONE, **required: Kind) -> Type:
    return Type(AGGREGATE, required, optional)


_build_column_type = partial(_build_row_type, COLUMN, {"column": NAME}, _NONE)
_build_pair_type = partial(_build_row_type, PAIR, {"column_A": NAME, "column_B": NAME}, {"ignore_row_if": PAIR_NULLS})
_build_multi_type = partial(_build_row_type, MULTI, {"column_list": NAMES}, {"ignore_row_if": MULTI_NULLS})
_build_aggregate_type = partial(_build_table_type, column=NAME)

_STRICT = {"strict_min": BOOLEAN, "strict_max": BOOLEAN}
_RANGE = {"min_value": BOUND, "max_value": BOUND}
_BOUNDS = _RANGE | _STRICT
_NUMBERS = {"min_value": NUMBER, "max_value": NUMBER, **_STRICT}
_INTEGERS = {"min_value": INTEGER, "max_value": INTEGER, **_STRICT}
EITHER = ("min_value", "max_value")
_HOLDOUTS = {"internal_weight_holdout": SHARE, "tail_weight_holdout": SHARE}

TYPES: dict[str, Type] = {
    "expect_column_distinct_values_to_be_in_set": _build_aggregate_type(value_set=FULL_VALUES),
    "expect_column_distinct_values_to_contain_set": _build_aggregate_type(value_set=VALUES),
    "expect_column_distinct_values_to_equal_set": _build_aggregate_type(value_set=VALUES),
    "expect_column_kl_divergence_to_be_less_than": _build_aggregate_type(
        {"partition_object": MAPPING, "threshold": NUMBER, "bucketize_data": BOOLEAN, **_HOLDOUTS, **_RANGE}
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
    "expect_column_value_lengths_to_be_between": _build_column_type(_INTEGERS, either=EITHER),
    "expect_column_value_lengths_to_equal": _build_column_type(required={"value": NUMBER}),
    "expect_column_value_z_scores_to_be_less_than": _build_column_type(
        required={"threshold": NUMBER, "double_sided": BOOLEAN}, measured=True
    ),
    "expect_column_values_to_be_between": _build_column_type(_BOUNDS, either=EITHER),
    "expect_column_values_to_be_in_set": _build_column_type(required={"value_set": VALUES}),
    "expect_column_values_to_be_in_type_list": _build_column_type({"type_list": TEXTS}, verdict_only=True),
    "expect_column_values_to_be_json_parseable": _build_column_type(),
    "expect_column_values_to_be_null": _build_column_type(),
    "expect_column_values_to_be_of_type": _build_column_type(required={"type_": TEXT}, verdict_only=True),
    "expect_column_values_to_be_unique": _build_column_type(windowed=True),
    "expect_column_values_to_match_json_schema": _build_column_type(required={"json_schema": MAPPING}),
    "expect_column_values_to_match_regex": _build_column_type({"regex": REGEX}),
    "expect_column_values_to_match_regex_list": _build_column_type(
        {"match_on": MATCH_ON}, required={"regex_list": REGEXES}
    ),
    "expect_column_values_to_match_strftime_format": _build_column_type(required={"strftime_format": TIME_FORMAT}),
    "expect_column_values_to_not_be_in_set": _build_column_type(required={"value_set": VALUES}),
    "expect_column_values_to_not_be_null": _build_column_type(),
    "expect_column_values_to_not_be_outliers": _build_column_type(
        {"method": METHOD, "multiplier": POSITIVE}, measured=True
    ),
    "expect_column_values_to_not_match_regex": _build_column_type(required={"regex": REGEX}),
    "expect_column_values_to_not_match_regex_list": _build_column_type(required={"regex_list": REGEXES}),
    "expect_compound_columns_to_be_unique": _build_multi_type(windowed=True),
    "expect_multicolumn_sum_to_equal": _build_multi_type(required={"sum_total": NUMBER}),
    "expect_multicolumn_values_to_be_equal": _build_multi_type(),
    "expect_select_column_values_to_be_unique_within_record": _build_multi_type(),
    "expect_table_column_count_to_be_between": _build_table_type(_RANGE),
    "expect_table_column_count_to_equal": _build_table_type(value=INTEGER),
    "expect_table_columns_to_match_ordered_list": _build_table_type({"column_list": NAME_LIST}),
    "expect_table_columns_to_match_set": _build_table_type({"column_set": NAME_LIST, "exact_match": BOOLEAN}),
    "expect_table_row_count_to_be_between": _build_table_type(_INTEGERS),
    "expect_table_row_count_to_equal": _build_table_type(value=INTEGER),
}

_ORDER = "it judges the order of rows, and the rows of a table have none"
_LIKE = "Great Expectations cannot run LIKE patterns on Spark; use expect_column_values_to_match_regex"
_OTHER = "it reads another table, at a version that no run records; join the table in the job instead"

REFUSED = {
    "expect_column_values_to_be_dateutil_parseable": "Great Expectations cannot run it on Spark",
    "expect_column_values_to_be_decreasing": _ORDER,
    "expect_column_values_to_be_increasing": _ORDER,
    "expect_column_values_to_match_like_pattern": _LIKE,
    "expect_column_values_to_match_like_pattern_list": _LIKE,
    "expect_column_values_to_not_match_like_pattern": _LIKE,
    "expect_column_values_to_not_match_like_pattern_list": _LIKE,
    "expect_query_results_to_match_comparison": _OTHER,
    "expect_table_row_count_to_equal_other_table": _OTHER,
    "unexpected_rows_expectation": "it runs SQL that the user wrote; use row expectations, or `where` in the job",
}
"""Types of GX that enrich does not run, and why."""
