"""The functions that expressions may call: deterministic, scalar, without side effects, part of Spark 4.1.

Left out on purpose: aggregates, generators and windows (no scalars); everything that depends on the moment, the user,
the session, the file or the task; everything random, ``aes_encrypt`` with its random start among it; what runs code
or reads files (``reflect``, ``java_method``, ``from_avro``, ``from_protobuf``, XML); what fails on purpose, as its
message would hold values (``raise_error``, ``assert_true``).
"""

from __future__ import annotations


def split_words(text: str) -> frozenset[str]:
    """Return the words of ``text``, for lists that are read more easily without quotes and commas."""
    return frozenset(text.split())


GROUPS: dict[str, str] = {
    "Conditions": """
        coalesce equal_null greatest if ifnull isnan isnotnull isnull least nanvl nullif nullifzero nvl nvl2
        zeroifnull""",
    "Casts": """
        bigint binary boolean cast date decimal double float int smallint string timestamp tinyint try_cast
        typeof""",
    "Text": """
        ascii base64 bit_length btrim char char_length character_length chr concat concat_ws contains decode
        elt encode endswith find_in_set format_number format_string initcap instr is_valid_utf8 lcase left
        len length levenshtein locate lower lpad ltrim luhn_check make_valid_utf8 mask octet_length overlay
        parse_url position printf quote regexp_count regexp_extract regexp_extract_all regexp_instr
        regexp_like regexp_replace regexp_substr repeat replace right rpad rtrim soundex space split
        split_part startswith substr substring substring_index to_binary to_char to_number to_varchar
        translate trim try_parse_url try_to_binary try_to_number try_url_decode try_validate_utf8 ucase
        unbase64 upper url_decode url_encode validate_utf8""",
    "Numbers": """
        abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc
        degrees e exp expm1 factorial floor hex hypot ln log log10 log1p log2 mod negative pi pmod positive
        pow power radians rint round sec sign signum sin sinh sqrt tan tanh try_add try_divide try_mod
        try_multiply try_subtract unhex width_bucket""",
    "Bits and hashes": """
        bit_count bit_get crc32 getbit hash md5 sha sha1 sha2 shiftleft shiftright shiftrightunsigned
        xxhash64""",
    "Dates and times": """
        add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part date_sub
        date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear extract
        from_unixtime from_utc_timestamp hour last_day make_date make_dt_interval make_interval
        make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval minute month monthname
        months_between next_day quarter second timestamp_micros timestamp_millis timestamp_seconds
        timestampadd timestampdiff to_date to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp
        to_utc_timestamp trunc try_make_interval try_make_timestamp try_make_timestamp_ltz
        try_make_timestamp_ntz try_to_date try_to_timestamp unix_date unix_micros unix_millis unix_seconds
        unix_timestamp weekday weekofyear year""",
    "Arrays": """
        array array_append array_compact array_contains array_distinct array_except array_insert
        array_intersect array_join array_max array_min array_position array_prepend array_remove
        array_repeat array_size array_sort array_union arrays_overlap arrays_zip cardinality element_at
        flatten get reverse sequence size slice sort_array try_element_at""",
    "Maps and structs": """
        map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys map_values
        named_struct str_to_map struct""",
    "Functions of functions": """
        aggregate exists filter forall map_filter map_zip_with reduce transform transform_keys
        transform_values zip_with""",
    "JSON and variants": """
        from_csv from_json get_json_object is_variant_null json_array_length json_object_keys parse_json
        schema_of_variant to_csv to_json to_variant_object try_parse_json try_variant_get variant_get""",
}
"""The allowed functions by the heading they have in the documentation."""

FUNCTIONS: frozenset[str] = frozenset(name for names in GROUPS.values() for name in names.split())
"""Every function that an expression may call, in lower case."""

LAMBDAS: frozenset[str] = split_words("array_sort " + GROUPS["Functions of functions"])
"""The functions that take ``x -> …``."""

SEPARATORS: dict[str, frozenset[str]] = {
    "extract": split_words("from"),
    "trim": split_words("from"),
    "substr": split_words("from for"),
    "substring": split_words("from for"),
    "overlay": split_words("placing from for"),
}
"""Words that may stand between arguments where other functions have a comma."""

UNITS: frozenset[str] = split_words(
    """
    year years quarter quarters month months week weeks day days dayofyear hour hours minute minutes second
    seconds millisecond milliseconds microsecond microseconds
    """
)
"""Units of intervals and of the functions in `WITH_UNIT`."""

WITH_UNIT: frozenset[str] = split_words("timestampadd timestampdiff dateadd datediff date_add date_diff")
"""Functions whose first argument may be a bare unit."""

FIELDS: frozenset[str] = split_words(
    """
    year yearofweek quarter month week day dayofweek dow dayofweek_iso dow_iso doy hour minute second years
    quarters months weeks days hours minutes seconds y yr yrs years mon mons qtr w d h hr hrs m min mins s sec
    secs
    """
)
"""What ``extract(… from …)`` takes out of a date."""

TYPES: frozenset[str] = split_words(
    """
    bigint binary boolean byte date dec decimal double float int integer long numeric real short smallint string
    timestamp timestamp_ltz timestamp_ntz tinyint variant
    """
)
"""Types that a cast may name; ``array<…>``, ``map<…>`` and ``struct<…>`` of them as well."""

_ELSEWHERE = "compute it in a table of its own, which the job reads"

_NOT_ALLOWED: tuple[tuple[str, str, str], ...] = (
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
    name: (why, instead) for names, why, instead in _NOT_ALLOWED for name in split_words(names)
}


def explain_function(name: str) -> tuple[str, str] | None:
    """Return what a function is that no expression may call, and what helps; None for a name that is not known."""
    return _WHY.get(name.lower())
