"""List the functions that expressions may call: deterministic, scalar, without side effects, part of Spark 4.1.

Left out on purpose: what sees or makes several rows; what depends on the moment, the user, the session, the file, the
task or chance; what runs code or reads files (``from_avro``); what fails with values in its message (``raise_error``).
"""

from __future__ import annotations


def split_words(text: str) -> frozenset[str]:
    """Return the words of ``text``, for lists that are read more easily without quotes and commas."""
    return frozenset(text.split())


_TABLE = """
    Conditions | boolean | equal_null isnan isnotnull isnull
    Conditions | common | coalesce greatest ifnull least nvl
    Conditions | first | nullif
    Conditions | rest | if nvl2
    Conditions | ? | nanvl nullifzero zeroifnull
    Casts | name | bigint binary boolean date double float int smallint string timestamp tinyint
    Casts | string | typeof
    Casts | ? | cast decimal try_cast
    Text | array<string> | regexp_extract_all split
    Text | binary | encode to_binary try_to_binary unbase64
    Text | boolean | contains endswith is_valid_utf8 luhn_check regexp_like startswith
    Text | int | ascii bit_length char_length character_length find_in_set instr len length levenshtein locate
    Text | int | octet_length position regexp_count regexp_instr
    Text | string | base64 btrim char chr concat_ws format_number format_string initcap lcase lower ltrim
    Text | string | make_valid_utf8 parse_url printf quote regexp_extract regexp_replace regexp_substr repeat
    Text | string | replace right rtrim soundex space split_part substring_index to_char to_varchar translate trim
    Text | string | try_parse_url try_url_decode try_validate_utf8 ucase upper url_decode url_encode validate_utf8
    Text | text | concat left lpad overlay rpad substr substring
    Text | ? | decode elt mask to_number try_to_number
    Numbers | bigint | factorial width_bucket
    Numbers | binary | unhex
    Numbers | double | acos acosh asin asinh atan atan2 atanh cbrt cos cosh cot csc degrees e exp expm1 hypot ln log
    Numbers | double | log10 log1p log2 pi pow power radians rint sec sign signum sin sinh sqrt tan tanh
    Numbers | string | bin conv hex
    Numbers | ? | abs bround ceil ceiling floor mod negative pmod positive round try_add try_mod try_multiply
    Numbers | ? | try_divide try_subtract
    Bits and hashes | bigint | crc32 xxhash64
    Bits and hashes | int | bit_count hash
    Bits and hashes | string | md5 sha sha1 sha2
    Bits and hashes | tinyint | bit_get getbit
    Bits and hashes | ? | shiftleft shiftright shiftrightunsigned
    Dates and times | bigint | to_unix_timestamp unix_micros unix_millis unix_seconds unix_timestamp
    Dates and times | date | add_months date_add date_from_unix_date date_sub dateadd last_day make_date next_day
    Dates and times | date | to_date trunc try_to_date
    Dates and times | double | months_between
    Dates and times | int | date_diff datediff day dayofmonth dayofweek dayofyear hour minute month quarter second
    Dates and times | int | unix_date weekday weekofyear year
    Dates and times | string | date_format dayname from_unixtime monthname
    Dates and times | timestamp | date_trunc from_utc_timestamp make_timestamp make_timestamp_ltz timestamp_micros
    Dates and times | timestamp | timestamp_millis timestamp_seconds to_timestamp to_timestamp_ltz to_utc_timestamp
    Dates and times | timestamp | try_make_timestamp try_make_timestamp_ltz try_to_timestamp
    Dates and times | timestamp_ntz | convert_timezone make_timestamp_ntz to_timestamp_ntz try_make_timestamp_ntz
    Dates and times | ? | date_part datepart extract make_dt_interval make_interval make_ym_interval timestampadd
    Dates and times | ? | timestampdiff try_make_interval
    Arrays | bigint | array_position
    Arrays | boolean | array_contains arrays_overlap
    Arrays | first | array_compact array_distinct array_sort slice sort_array
    Arrays | int | array_size cardinality size
    Arrays | string | array_join
    Arrays | text | reverse
    Arrays | ? | array array_append array_except array_insert array_intersect array_max array_min array_prepend
    Arrays | ? | array_remove array_repeat array_union arrays_zip element_at flatten get sequence try_element_at
    Maps and structs | boolean | map_contains_key
    Maps and structs | ? | map map_concat map_entries map_from_arrays map_from_entries map_keys map_values named_struct
    Maps and structs | ? | str_to_map struct
    Functions of functions | boolean | exists forall
    Functions of functions | first | filter map_filter
    Functions of functions | ? | aggregate map_zip_with reduce transform transform_keys transform_values zip_with
    JSON and variants | array<string> | json_object_keys
    JSON and variants | boolean | is_variant_null
    JSON and variants | int | json_array_length
    JSON and variants | string | get_json_object schema_of_variant to_csv to_json
    JSON and variants | ? | from_csv from_json parse_json to_variant_object try_parse_json try_variant_get variant_get
"""
"""Heading in the documentation | type of the result, or how it follows from the arguments | functions.

common: the type that all arguments have; rest: all but the first. first: the first one's. name: the function's name.
text: string, unless an argument is a list or binary. ?: only Spark knows it.
"""

GROUPS: dict[str, str] = {}  # heading -> functions
RESULTS: dict[str, str] = {}  # function -> result

for _line in _TABLE.strip().splitlines():
    _heading, _result, _names = _line.strip().split(" | ")
    GROUPS[_heading] = f"{GROUPS.get(_heading, '')} {_names}"
    RESULTS |= dict.fromkeys(_names.split(), _result)

FUNCTIONS = frozenset(RESULTS)
LAMBDAS = split_words("array_sort " + GROUPS["Functions of functions"])  # take x -> …

# Functions whose first argument may be a bare unit, and the units, which intervals have, too.
WITH_UNIT = split_words("timestampadd timestampdiff dateadd datediff date_add date_diff")
UNITS = split_words(
    "year quarter month week day hour minute second millisecond microsecond"
    " years quarters months weeks days hours minutes seconds milliseconds microseconds dayofyear"
)

# Words that may stand between arguments where other functions have a comma.
SEPARATORS = {
    "extract": split_words("from"),
    "trim": split_words("from"),
    "substr": split_words("from for"),
    "substring": split_words("from for"),
    "overlay": split_words("placing from for"),
    "position": split_words("in"),
}

# A cast may name these, and array<…>, map<…> and struct<…> of them.
TYPES = split_words(
    "bigint binary boolean byte date dec decimal double float int integer long numeric real short smallint string"
    " timestamp timestamp_ltz timestamp_ntz tinyint variant"
)

_ELSEWHERE = "compute it in a table of its own, which the job reads"
_NOT_ALLOWED = (
    (
        """
        any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
        approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg
        bool_and bool_or collect_list collect_set corr count count_if count_min_sketch covar_pop covar_samp every
        first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
        kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float
        kurtosis last last_value listagg max max_by mean measure median min min_by mode percentile percentile_approx
        percentile_cont percentile_disc product regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
        regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg
        sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum tuple_intersection_agg_double
        tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double
        tuple_union_agg_integer var_pop var_samp variance
        """,
        "is an aggregate of many rows, and an expression sees one row",
        "write GROUP BY, or read a target of a job with it; lists have array_max, size and aggregate, columns greatest",
    ),
    (
        "cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number",
        "is a window function, which looks at other rows, and an expression sees one row",
        f"{_ELSEWHERE}; the version of a moment is found by an as-of join",
    ),
    (
        """
        collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer sql_keywords
        stack variant_explode variant_explode_outer
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
    ("collate", "is of collations, and text is compared by its bytes", "compare what lower(...) makes of both sides"),
)
_WHY = {name: (why, instead) for names, why, instead in _NOT_ALLOWED for name in names.split()}


def explain_function(name: str) -> tuple[str, str] | None:
    """Return what a function is that no expression may call, and what helps; None for a name that is not known."""
    return _WHY.get(name.lower())
