"""What is said of functions that no expression may call: what they are, why not, and what helps instead."""

from __future__ import annotations

from enrich.expressions.functions import split_words
from enrich.expressions.lexer import ExpressionError

_ELSEWHERE = "compute it in a table of its own, which the job reads"

_KINDS: tuple[tuple[str, str, str], ...] = (
    (
        """
        any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine
        array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or
        collect_list collect_set corr count count_if count_min_sketch covar_pop covar_samp every first first_value
        grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double
        kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value
        listagg max max_by mean median min min_by mode percentile percentile_approx percentile_cont percentile_disc
        product regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
        schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg sum theta_intersection_agg
        theta_sketch_agg theta_union_agg try_avg try_sum var_pop var_samp variance
        """,
        "is an aggregate of many rows, and an expression sees one row",
        f"{_ELSEWHERE}; of a list there are array_max, array_min, size, aggregate, of columns greatest, least",
    ),
    (
        "cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number",
        "is a window function, which looks at other rows, and an expression sees one row",
        f"{_ELSEWHERE}; the version of a moment is found by an as-of join",
    ),
    (
        """
        collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer sql_keywords stack
        variant_explode variant_explode_outer
        """,
        "makes several rows of one, and a job gives one row for a key",
        "keep the list in a column, or write a row for each element to a table of its own, which the job reads",
    ),
    (
        """
        curdate current_date current_time current_timestamp current_timezone getdate localtime localtimestamp now
        sysdate systimestamp
        """,
        "gives the time of the run: the row would have another value tomorrow, although no source has changed",
        "take the time from a column; compare with today where the table is read",
    ),
    (
        "rand randn random randstr shuffle uniform uuid",
        "is random: the row would have another value after each run",
        "make numbers and ids of columns, for instance with hash, xxhash64 or sha2",
    ),
    (
        """
        current_catalog current_database current_schema current_user input_file_block_length input_file_block_start
        input_file_name monotonically_increasing_id session_user spark_partition_id user version
        """,
        "depends on who runs the job, where, or from which files it reads: the row would change without its sources",
        "take the value from a column",
    ),
)

_WHY: dict[str, tuple[str, str]] = {
    name: (why, instead) for names, why, instead in _KINDS for name in split_words(names)
}


def explain_function(name: str) -> tuple[str, str] | None:
    """Return what a function is that no expression may call, and what helps; None for a name that is not known."""
    return _WHY.get(name.lower())


def refuse_function(name: str, where: str, known: tuple[str, str]) -> ExpressionError:
    """Return the error of a function that is known and not allowed.

    Args:
        name: As it is written.
        where: Where it is.
        known: What ``explain_function`` said.
    """
    return ExpressionError(f"{name} is not allowed {where} of the expression: it {known[0]}", hint=known[1])
