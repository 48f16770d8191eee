"""What Spark 4.1 said when it was asked which types its operators and functions take, in ANSI mode.

Each type is a letter. What is said here is what Spark refuses for sure; a type or a function that is not here goes with
everything. ``tests/spark/test_types_of_expressions.py`` asks Spark again.
"""

from __future__ import annotations

from dataclasses import dataclass

from enrich.base.spec import DataType
from enrich.expressions.functions import split_words

_LETTERS = {
    "boolean": "b", "byte": "h", "short": "h", "integer": "i", "long": "l", "float": "d", "double": "d",
    "binary": "y", "date": "D", "timestamp": "t", "timestamp_ntz": "n", "array": "A", "map": "M", "struct": "R",
    "variant": "V", "void": "v", "interval day to second": "T", "interval year to month": "Y",
}  # fmt: skip


def letter_of(kind: DataType | None) -> str | None:
    """Return the letter of a type: of decimals ``c``, of texts ``s``; None when there is none for it."""
    name = "" if kind is None else kind if isinstance(kind, str) else str(kind["type"])
    if name.startswith("decimal"):
        return "c"
    return "s" if name == "string" or name.startswith("string collate") else _LETTERS.get(name)


def _read_pairs(text: str) -> dict[str, str]:
    """Read ``b:bsv Dtn:sDtnv``: for each letter on the left, the letters that it goes with."""
    pairs = (each.split(":") for each in text.split())
    return {letter: right for letters, right in pairs for letter in letters}


_COMPARED = _read_pairs("b:bsv hilcd:hilcdsv s:bhilcdsyDtnv y:syv Dtn:sDtnv A:Av R:Rv T:Tv Y:Yv v:bhilcdsyDtnARTYv")
COMMON = _read_pairs(
    "b:bsv hilcd:hilcdsv s:bhilcdsyDtnVv y:syv Dtn:sDtnv A:Av M:Mv R:Rv V:sVv T:Tv Y:Yv v:bhilcdsyDtnAMRVTYv"
)
"""Which types have one in common, in which both fit."""
_BITS = _read_pairs("hil:hilsv s:hil v:hilv")
_TEXTS = _read_pairs("bhilcdsyDtnVTYv:bhilcdsyDtnVTYv")

PREDICATES = split_words("in like")
"""Operators that do not look into lists."""
JOINED = {
    "+": _read_pairs("hi:hilcdsDv lcd:hilcdsv s:hilcdsT D:hiTYv tn:TYv T:sDtnTv Y:DtnYv v:hilcdDtnTYv"),
    "-": _read_pairs("hilcd:hilcdsv s:hilcdsDtnT D:hisDtnTYv tn:sDtnTYv T:Tv Y:Yv v:hilcdDtnTYv"),
    "*": _read_pairs("hilcd:hilcdsTYv s:hilcdsTY TY:hilcdsv v:hilcdTYv"),
    "/": _read_pairs("hilcdTY:hilcdsv s:hilcds v:hilcdv"),
    "%": _read_pairs("hilcd:hilcdsv s:hilcds v:hilcdv"),
    "div": _read_pairs("hil:hilcsv c:hilcsv s:hilcs T:Tv Y:Yv v:hilcTYv"),
    "||": {**_TEXTS, "A": "A"},
    "&": _BITS, "|": _BITS, "^": _BITS,
    "<<": _read_pairs("hilcdsv:hilcdsv"), ">>": _read_pairs("hilcdsv:hilcdsv"),
    "like": _TEXTS,
}  # fmt: skip
"""Operators that make something new of their operands: what may stand on their right, for each type on the left."""
_CASTS = _read_pairs(
    "b:bhilcdsV hilc:bhilcdstVTY d:bhilcdstV s:bhilcdsyDtnVTY y:syV Dn:sDtnV t:hilcdsDtnV A:sAV M:sM R:sR"
    " V:bhilcdsyDtnAMRV T:hilcsT Y:hilcsY v:bhilcdsyDtnAMRVTYv"
)
OPERATORS = {
    **JOINED,
    **dict.fromkeys(
        ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", "is distinct from", "in", "between"), _COMPARED
    ),
    "cast": _CASTS,
}

_ARGUMENTS = {
    "number": "ilsd", "whole": "il", "amount": "ild", "count": "is", "bits": "bil", "truth": "bilsd", "flag": "bs",
    "simple": "bilsdyDt", "simples": "bilsdyDtA", "hashed": "bilsdyDtAR", "castable": "bilsdt", "moment": "ilsdDt",
    "time": "sDt", "text": "s", "bytes": "sy", "list": "A", "map": "M", "many": "AM", "summand": "ilsdDt",
    "date": "D", "timestamp": "t",
}  # fmt: skip
"""Kinds of arguments -> the letters that they take; the letters that are never here (``vVTY``) are taken by all."""
_ALIKE = {"h": "i", "c": "ild", "n": "tD"}
"""Letters that are taken wherever one of others is."""

_TABLE = """
    - | 0 | double | e pi
    - | 1 | - | flatten map_from_entries
    - | 1 | boolean | isnotnull isnull
    - | 1 | string | string
    - | 1- | timestamp | make_timestamp try_make_timestamp
    - | 1-2 | - | ceil ceiling floor
    - | 1-2 | binary | to_binary try_to_binary
    - | 2 | - | date_part datepart to_number try_to_number
    - | 2 | string | to_char to_varchar
    - | 2- | timestamp | make_timestamp_ltz try_make_timestamp_ltz
    - | 2- | timestamp_ntz | make_timestamp_ntz try_make_timestamp_ntz
    - | 4 | long | width_bucket
    amount | 1 | timestamp | timestamp_seconds
    amount count | 2 | string | format_number
    any | 0-5 | - | mask
    any | 1 | boolean | is_variant_null
    any | 3-4 | string | overlay
    bits | 1 | integer | bit_count
    bytes | 1 | binary | binary
    bytes | 1 | long | crc32
    bytes | 1 | string | base64 md5 sha sha1
    bytes number | 2 | string | sha2
    castable | 1 | byte | tinyint
    castable | 1 | decimal | decimal
    castable | 1 | double | double
    castable | 1 | float | float
    castable | 1 | integer | int
    castable | 1 | long | bigint
    castable | 1 | short | smallint
    date | 1 | integer | unix_date
    hashed hashed hashed | 1- | integer | hash
    hashed hashed hashed | 1- | long | xxhash64
    list | 1 | - | array_compact array_distinct array_max array_min
    list | 1 | integer | array_size
    list | 2 | - | array_append array_except array_intersect array_prepend array_remove array_union get
    list | 2 | - | map_from_arrays
    list | 2 | boolean | array_contains arrays_overlap
    list | 2 | long | array_position
    list | 2-3 | string | array_join
    list | 3 | - | array_insert slice
    many | 1 | integer | cardinality size
    many | 2 | - | element_at try_element_at
    map | 0- | - | map_concat
    map | 1 | - | map_entries map_keys map_values
    map | 2 | boolean | map_contains_key
    moment | 1 | timestamp | timestamp
    number | 1 | - | abs negative nullifzero positive zeroifnull
    number | 1 | boolean | isnan
    number | 1 | date | date_from_unix_date
    number | 1 | double | acos acosh asin asinh atan atanh cbrt cos cosh cot csc degrees exp expm1 ln log10 log1p
    number | 1 | double | log2 radians rint sec sign signum sin sinh sqrt tan tanh
    number | 1 | long | factorial
    number | 1 | string | bin char chr space
    number number | 0-2 | - | make_ym_interval
    number number | 1-2 | - | bround round
    number number | 1-2 | double | log
    number number | 2 | - | mod pmod shiftleft shiftright shiftrightunsigned try_mod try_multiply
    number number | 2 | double | atan2 hypot nanvl pow power try_divide
    number number number | 0- | - | make_interval
    number number number | 0-4 | - | make_dt_interval
    number number number | 1- | - | try_make_interval
    number number number | 3 | date | make_date
    number simple | 1-2 | string | from_unixtime
    simple | 1 | binary | unbase64 unhex
    simple | 1 | boolean | is_valid_utf8 luhn_check
    simple | 1 | integer | ascii bit_length char_length character_length len length octet_length
    simple | 1 | string | hex initcap lcase lower make_valid_utf8 quote try_url_decode try_validate_utf8 ucase upper
    simple | 1 | string | url_decode url_encode validate_utf8
    simple | 1- | string | format_string printf
    simple number | 2 | - | left
    simple number | 2 | string | repeat right
    simple number number | 2-3 | - | substr substring
    simple number number | 3 | string | conv
    simple number simple | 2-3 | - | lpad rpad
    simple simple | 1-2 | date | to_date try_to_date
    simple simple | 1-2 | string | btrim ltrim rtrim trim
    simple simple | 1-2 | timestamp | to_timestamp to_timestamp_ltz try_to_timestamp
    simple simple | 1-2 | timestamp_ntz | to_timestamp_ntz
    simple simple | 2 | binary | encode
    simple simple | 2 | boolean | contains endswith regexp_like startswith
    simple simple | 2 | integer | find_in_set instr regexp_count
    simple simple | 2 | string | regexp_substr
    simple simple number | 2-3 | integer | levenshtein locate position regexp_instr
    simple simple number | 2-3 | string | regexp_extract
    simple simple number | 2-3 | texts | regexp_extract_all split
    simple simple number | 3 | string | split_part substring_index
    simple simple simple | 2-3 | string | replace
    simple simple simple | 3 | string | translate
    simple simple simple | 3-4 | string | regexp_replace
    simple simple time | 2-3 | timestamp_ntz | convert_timezone
    simple simples simples | 1- | string | concat_ws
    simple time | 2 | timestamp | date_trunc
    simples | 1 | - | reverse
    text | 1 | integer | json_array_length
    text | 1 | string | soundex
    text | 1 | texts | json_object_keys
    text | 1 | variant | parse_json try_parse_json
    text | 1-3 | - | str_to_map
    text text | 2 | string | get_json_object
    text text text | 2-3 | string | parse_url try_parse_url
    time | 1 | date | date last_day
    time | 1 | integer | day dayofmonth dayofweek dayofyear month quarter weekday weekofyear year
    time | 1 | string | dayname monthname
    time | 1- | integer | hour minute second
    time count | 2 | date | date_add date_sub dateadd
    time number | 2 | date | add_months
    time simple | 2 | date | next_day trunc
    time simple | 2 | string | date_format
    time simple | 2 | timestamp | from_utc_timestamp to_utc_timestamp
    time text | 0-2 | long | unix_timestamp
    time text | 1-2 | long | to_unix_timestamp
    time time | 2 | integer | date_diff datediff
    time time flag | 2-3 | double | months_between
    timestamp | 1 | long | unix_micros unix_millis unix_seconds
    truth | 1 | boolean | boolean
    whole | 1 | timestamp | timestamp_micros timestamp_millis
    whole number | 2 | byte | bit_get getbit
    list | 2 | - | exists filter forall transform
    list | 3-4 | - | aggregate reduce
    list list | 3 | - | zip_with
    map | 2 | - | map_filter transform_keys transform_values
    map map | 3 | - | map_zip_with
    list | 1-2 | - | array_sort sort_array
"""
"""Kinds of the first arguments | how many there may be | type of the result, where that is sure | functions."""


@dataclass(frozen=True)
class Signature:
    """What a function takes and gives.

    Attributes:
        kinds: The letters of its first arguments.
        least: How many arguments it needs.
        most: How many it takes; None when there is no end.
        result: The type of what it gives; None when that depends on the arguments.
    """

    kinds: tuple[str, ...]
    least: int
    most: int | None
    result: DataType | None

    def takes(self, count: int) -> bool:
        """Return whether the function takes so many arguments."""
        return self.least <= count and (self.most is None or count <= self.most)

    def accepts(self, place: int, letter: str | None) -> bool:
        """Return whether the argument at a place, from 0, may be of a type."""
        if place >= len(self.kinds) or letter is None or letter in "vVTY":
            return True
        return any(each in self.kinds[place] for each in _ALIKE.get(letter, letter))


def _read_table() -> dict[str, Signature]:
    found: dict[str, Signature] = {}
    for line in _TABLE.strip().splitlines():
        kinds, count, result, functions = (part.strip() for part in line.split("|"))
        least, _, most = count.partition("-")
        signature = Signature(
            tuple(_ARGUMENTS.get(kind, "bilsdyDtAMR") for kind in kinds.split() if kind != "-"),
            int(least),
            int(most) if most else None if "-" in count else int(least),
            None if result == "-" else result,
        )
        found |= dict.fromkeys(functions.split(), signature)
    return found


SIGNATURES = _read_table()
