"""Find the types that expressions surely have, and what Spark surely refuses in them, without Spark.

``enrich validate`` starts no JVM, and types are known from the logs of the tables. So this types the tree that the
expression was checked as. The tables hold what Spark 4.1 said when it was asked which types its operators and functions
take, in ANSI mode, each type as a letter; ``tests/spark/test_types_of_expressions.py`` asks again. A type or a function
that is not here goes with everything, and what cannot be typed is ``None``: the run, in which Spark types, finds the
rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enrich.base.console import format_count
from enrich.base.errors import ConfigError
from enrich.base.schemas import fields_of, find, kind_of, name_of
from enrich.base.spec import DataType
from enrich.project.ddl import read_ddl_type
from enrich.project.expressions import ExpressionError
from enrich.project.expressions.functions import WITH_UNIT, split_words
from enrich.project.expressions.lexer import locate, tokenize
from enrich.project.expressions.reading import (
    COMPARISONS,
    MATCHES,
    TYPED,
    AnyName,
    Reading,
    list_nodes,
    name_operand,
    place_of,
)

if TYPE_CHECKING:
    from sqlglot import exp

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

Known = DataType | None
"""A type; None when it is not known for sure."""

_SYMBOLS = {
    "EQ": "= ==", "NEQ": "!= <>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "NullSafeEQ": "<=> distinct",
    "NullSafeNEQ": "distinct", "Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "IntDiv": "div",
    "DPipe": "||", "BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^", "BitwiseLeftShift": "<<",
    "BitwiseRightShift": ">>", "Like": "like", "ILike": "ilike", "RegexpLike": "rlike regexp", "In": "in",
    "Between": "between", "And": "and", "Or": "or", "Not": "! not", "Is": "is", "Neg": "- +", "BitwiseNot": "~",
    "Case": "case", "If": "when",
}  # fmt: skip
"""Nodes -> what they are written with."""
_JOINING = split_words("DPipe BitwiseLeftShift BitwiseRightShift")
"""Operators of one level for sqlglot, and of several for Spark."""
_WHOLE = ("byte", "short", "integer", "long")
_SUFFIXES = {"l": "long", "s": "short", "y": "byte", "d": "double", "f": "float"}
_MONTHS = split_words("year years quarter quarters month months")
_ELEMENTS = split_words("transform filter exists forall any_match array_sort")
_ENTRIES = split_words("map_filter transform_keys transform_values")
_CONDITIONS = split_words("filter exists forall map_filter")
_PREDICATES = split_words("exists forall")
_SAME = split_words("filter map_filter array_sort array_distinct array_compact slice sort_array")
_ONE_OF = {"coalesce": 0, "ifnull": 0, "nvl": 0, "greatest": 0, "least": 0, "array": 0, "if": 1, "nvl2": 1}
"""Functions of which all arguments, from this one on, must have one type, which Spark finds."""
_TAKING = split_words("element_at get try_element_at")
_KEEPING = split_words("abs negative positive")
_CUTTING = split_words("left lpad rpad substr substring")
_JOINABLE = "bhilcdsDtn"
_COMPARING = split_words("nullif equal_null")


def check_types(columns: Mapping[str, DataType], expression: str) -> DataType | None:
    """Return the type of an accepted expression over a frame of the given columns; None when only Spark can tell.

    Raises:
        ConfigError: Spark refuses the expression, as its parts have types that do not go together.
    """
    reading = Reading(tokenize(expression), AnyName())
    types = _Types(reading, columns)
    try:
        for node in list_nodes(reading.tree):
            types.add(node)
    except ExpressionError as error:
        raise ConfigError(str(error)) from None
    found = types.get(reading.tree)
    # Decimals and intervals are looked at without their precision.
    names = [] if found is None else _simple_names(found)
    return None if any(name == "decimal" or name.startswith("interval") for name in names) else found


def _simple_names(kind: DataType) -> list[str]:
    """Return the names of the simple types in a type."""
    match kind:
        case str():
            return [kind]
        case {"type": "array", "elementType": element}:
            return _simple_names(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            return _simple_names(key) + _simple_names(value)
    return [name for each in kind["fields"] for name in _simple_names(each["type"])]


def _build_array(element: Known) -> Known:
    return None if element is None else {"type": "array", "elementType": element, "containsNull": True}


class _Types:
    """The types of the nodes of one expression, each after those of its parts."""

    def __init__(self, reading: Reading, columns: Mapping[str, DataType]) -> None:
        self._reading = reading
        self._columns = columns
        self._kinds: dict[int, Known] = {}

    def get(self, node: exp.Expr | None) -> Known:
        """Return the type of a node that was added."""
        return self._kinds.get(id(node))

    def add(self, node: exp.Expr) -> None:
        """Find the type of a node whose parts were added."""
        name, found = type(node).__name__, None
        if name in ("Paren", "Lambda", "Escape"):
            found = self.get(node.this)
        elif name in ("And", "Or", "Not", "Is"):
            self._check_conditions(node)
            found = "boolean"
        elif (wanted := self._reading.cast_to(node)) is not None:
            given, found = self.get(node.this if name == "Bracket" else node.expressions[0]), read_ddl_type(wanted)
            a, b = letter_of(given), letter_of(found)
            if a is not None and b is not None and b not in OPERATORS["cast"].get(a, ""):
                self._refuse(node, f"{self._name(given)} cannot be cast to {self._name(found)}")
        elif name == "Dot":
            found = self._descend(node, self.get(node.this), self._reading.token(node.args["expression"]).name)
        elif name in ("Between", "In"):
            values = [node.args["low"], node.args["high"]] if name == "Between" else node.expressions
            for each in values:
                self._check_pair(name.lower(), node, self.get(node.this), self.get(each))
            if name == "In":
                self._unite("in", node, [self.get(node.this), *map(self.get, values)])
            found = "boolean"
        elif name != "If":
            types: dict[str, Any] = {
                "Column": self._type_name, "Identifier": self._type_name, "Literal": self._type_literal,
                "Neg": self._type_sign, "BitwiseNot": self._type_sign, "Case": self._type_case,
                "Bracket": self._type_step, "Anonymous": self._type_call,
            }  # fmt: skip
            found = types.get(name, self._type_operator)(node)
        self._kinds[id(node)] = found

    @staticmethod
    def _name(kind: Known) -> str:
        return "?" if kind is None else name_of(kind)

    def _refuse(self, at: exp.Expr, message: str, hint: str | None = None) -> None:
        """Refuse a node at what it is written with."""
        tokens, words = self._reading.tokens, _SYMBOLS.get(type(at).__name__, "").split()
        last = at.args.get("low") or at.args.get("expression") or next(iter(at.expressions), None) or at.this
        start = self._reading.start(at if type(at).__name__ in ("Anonymous", "Case", "Identifier") else last)
        place = next((place for place in range(start, -1, -1) if tokens[place].lower in words), start)
        raise ExpressionError(f"{message} {locate(tokens[place].start)} of the expression", hint=hint)

    # --- names and literals

    def _type_name(self, node: exp.Expr) -> Known:
        """Return the type of a column, a list, the key or a variable; what columns lack has been told already."""
        first, *rest = self._reading.paths.get(place_of(node), ("",))
        function = self._reading.find_lambda(node, first)
        kind = self._columns.get(first)
        if function is not None:
            call: Any = function.parent
            name, given = self._reading.function(call), self.get(call.expressions[0])
            kinds: tuple[Known, ...] = ()
            if isinstance(given, dict) and name in _ELEMENTS and given["type"] == "array":
                kinds = (given["elementType"], given["elementType"] if name == "array_sort" else "integer")
            elif isinstance(given, dict) and name in _ENTRIES and given["type"] == "map":
                kinds = (given["keyType"], given["valueType"])
            kind = dict(zip(self._reading.list_variables(function), kinds, strict=False)).get(first)
        try:
            for name in rest:
                kind = self._descend(node, kind, name)
        except ExpressionError:
            if function is not None:
                raise
            return None
        return kind

    def _type_literal(self, node: exp.Expr) -> Known:
        token = self._reading.token(node)
        if token.type == "number":
            return _read_number(token.text.lower())
        if token.type == "string":
            return "binary" if token.text[0] in "xX" else "string"
        if token.lower == "interval":
            months = {unit in _MONTHS for unit in self._reading.intervals.get(place_of(node), ())}
            if len(months) != 1:
                return None
            return "interval year to month" if months == {True} else "interval day to second"
        if token.lower in TYPED and place_of(node) not in self._reading.types:
            return {"date": "date", "timestamp_ntz": "timestamp_ntz"}.get(token.lower, "timestamp")
        return {"null": "void", "true": "boolean", "false": "boolean"}.get(token.lower)

    # --- operators

    def _type_operator(self, node: exp.Expr) -> Known:
        """Check and type an operator between two operands."""
        name, left, right = type(node).__name__, node.this, node.args["expression"]
        symbol = _SYMBOLS[name].split()[0]
        symbol = "like" if name in MATCHES else "is distinct from" if symbol == "distinct" else symbol
        beside = {name_operand(left), name_operand(right)}
        is_boolean = name in COMPARISONS | MATCHES
        # Of these, Spark's precedence is another one.
        if is_boolean and beside & COMPARISONS:
            return "boolean"
        if name in _JOINING and (
            beside & (_JOINING - {name}) or (name == "DPipe" and name_operand(right) in ("Add", "Sub"))
        ):
            return None
        several = name in MATCHES and type(right).__name__ == "Anonymous" and self._reading.function(right) == "("
        for each in right.expressions if several else [right]:
            self._check_pair(symbol, node, self.get(left), self.get(each))
        return "boolean" if is_boolean else _derive(symbol, self.get(left), self.get(right))

    def _check_conditions(self, node: exp.Expr) -> None:
        name = type(node).__name__
        word = {"And": "'and'", "Or": "'or'", "Not": "'not'", "Is": "'is'"}[name]
        if name == "Is" and self._reading.token(node.expression).lower not in ("true", "false"):
            return
        for kind in (self.get(node.this), self.get(node.args.get("expression"))):
            if letter_of(kind) not in (None, "b", "s", "v"):
                self._refuse(node, f"{word} is about conditions, and this is {self._name(kind)}:")

    def _check_pair(self, operator: str, at: exp.Expr, left: Known, right: Known) -> None:
        """Refuse two operands that an operator cannot take together."""
        a, b = letter_of(left), letter_of(right)
        if a is None or b is None or "v" in (a, b):
            return
        if b in OPERATORS[operator].get(a, "") and (operator in PREDICATES or not _differ(left, right)):
            return
        names = f"{self._name(left)} and {self._name(right)}"
        if operator in JOINED:
            self._refuse(at, f"{operator!r} cannot take {names}", "cast one of them")
        self._refuse(at, f"{operator!r} cannot compare {names}", "cast one of them, so that both have one type")

    def _type_sign(self, node: exp.Expr) -> Known:
        kind, is_bits = self.get(node.this), type(node).__name__ == "BitwiseNot"
        letter = letter_of(kind)
        if letter is not None and letter not in ("hilv" if is_bits else "hilcdsTYv"):
            self._refuse(node, f"{'~' if is_bits else '-'!r} cannot take {self._name(kind)}", "cast it")
        return "double" if letter == "s" else kind

    def _type_case(self, node: exp.Expr) -> Known:
        subject, results = node.this, []
        for branch in node.args["ifs"]:
            found = self.get(branch.this)
            if subject:
                self._check_pair("=", branch, self.get(subject), found)
            elif letter_of(found) not in (None, "b", "v"):
                self._refuse(branch, f"'when' is about conditions, and this is {self._name(found)}:")
            results.append(self.get(branch.args["true"]))
        if (default := node.args.get("default")) is not None:
            results.append(self.get(default))
        return self._unite("case", node, results)

    def _unite(self, name: str, at: exp.Expr, kinds: Sequence[Known]) -> Known:
        """Return the type that several values have together, one of which the expression gives."""
        found: Known = "void"
        for kind in kinds:
            a, b = letter_of(found), letter_of(kind)
            if a is not None and b is not None and "v" not in (a, b) and b not in COMMON.get(a, ""):
                names = f"{self._name(found)} and {self._name(kind)}"
                self._refuse(at, f"{name!r} gives {names}, which have no type in common,", "cast one of them")
            found = _widen(found, kind)
        return found

    # --- steps

    def _type_step(self, node: exp.Expr) -> Known:
        """Return the type of an element of a list, of a map's value, or of a struct's field."""
        kind, index = self.get(node.this), node.expressions[0]
        letter, place = letter_of(kind), letter_of(self.get(index))
        if letter is None or kind is None:
            return None
        if letter == "R":
            is_text = type(index).__name__ == "Literal" and self._reading.token(index).type == "string"
            return (fields_of(kind) or {}).get(self._reading.token(index).text[1:-1]) if is_text else None
        if letter not in "AM" or isinstance(kind, str):
            self._refuse(node, f"{self._name(kind)} has no elements", "only lists, maps and structs have")
            return None
        if place is not None and place in ("AMR" if letter == "M" else "bcdsyDtnAMRVTY"):
            what = "the place in a list is a whole number" if letter == "A" else "the key of a map is a simple value"
            self._refuse(node, f"{what}, not {self._name(self.get(index))}:")
        found: DataType = kind["elementType" if letter == "A" else "valueType"]
        return found

    def _descend(self, at: exp.Expr, kind: Known, name: str) -> Known:
        """Return the type of a field of a struct, of the structs in a list, or of a map's value."""
        if kind is None or kind_of(kind) == "void" or letter_of(kind) is None:
            return None
        if letter_of(kind) == "M" and not isinstance(kind, str):
            value: DataType = kind["valueType"]
            return value
        fields = fields_of(kind)
        if fields and isinstance(kind, dict) and kind_of(kind.get("elementType", "")) == "array":  # a list of lists
            return None
        found = find(name, fields) if fields is not None else None
        if fields is None or found is None:
            known = f"; it has {', '.join(fields)}" if fields else ""
            self._refuse(at, f"{self._name(kind)} has no field {name!r}{known}")
            return None
        return _build_array(fields[found]) if letter_of(kind) == "A" else fields[found]

    # --- functions

    def _type_call(self, node: exp.Expr) -> Known:
        """Check the arguments of a function, and return its type."""
        name, arguments = self._reading.function(node), [self.get(each) for each in node.expressions]
        if name == "(":
            return arguments[0] if len(arguments) == 1 else None
        if name in (*_CONDITIONS, "if"):
            what, tested = ("'if'", 0) if name == "if" else (f"the lambda of {name}", -1)
            if letter_of(arguments[tested]) not in (None, "b", "s", "v"):
                self._refuse(node, f"{what} is about a condition, and this is {self._name(arguments[tested])}:")
        if place_of(node) in self._reading.worded:
            return None if name in WITH_UNIT else _find_result(name, [None])
        if name in _ONE_OF and arguments:
            united = self._unite(name, node, arguments[_ONE_OF[name] :])
            return _build_array(united) if name == "array" else united
        if name in _COMPARING and len(arguments) == 2:
            self._check_pair("=", node, *arguments)
            return arguments[0] if name == "nullif" else "boolean"
        signature = SIGNATURES.get(name)
        if signature is not None and not signature.takes(len(arguments)):
            self._refuse(node, f"{name} cannot take {format_count(len(arguments), 'argument')}")
        for number, kind in enumerate(arguments):
            if signature is not None and not signature.accepts(number, letter_of(kind)):
                self._refuse(node, f"argument {number + 1} of {name} cannot be {self._name(kind)}", "cast it")
        return _find_result(name, arguments or [None])


def _find_result(name: str, arguments: Sequence[Known]) -> Known:
    """Return the type of what a function gives; None when that is not sure."""
    first, found = arguments[0], SIGNATURES[name].result if name in SIGNATURES else None
    if name in _SAME:
        found = None if first == "void" else first
    elif name == "reverse":
        found = first if letter_of(first) == "A" else None
    elif name in _PREDICATES:
        found = "boolean"
    elif name == "transform" and len(arguments) == 2:
        found = _build_array(arguments[1])
    elif name in _TAKING and isinstance(first, dict):
        found = first["elementType" if kind_of(first) == "array" else "valueType"]
    elif name in _KEEPING:
        found = "double" if letter_of(first) == "s" else first
    elif name in _CUTTING:
        found = {"y": "binary", None: None}.get(letter_of(first), "string")
    elif name == "concat" and {letter_of(each) for each in arguments} <= set(_JOINABLE):
        found = "string"
    return _build_array("string") if found == "texts" else found


def _read_number(text: str) -> Known:
    """Return the type of a number as it is written."""
    if text[-1] in _SUFFIXES:
        return _SUFFIXES[text[-1]]
    if text.endswith("bd") or "." in text:
        return "double" if "e" in text else "decimal"
    if "e" in text:
        return "double"
    return "integer" if int(text) < 2**31 else "long" if int(text) < 2**63 else "decimal"


def _differ(left: Known, right: Known) -> bool:
    """Return whether the elements of two lists can surely not be compared."""
    if not isinstance(left, dict) or not isinstance(right, dict) or {kind_of(left), kind_of(right)} != {"array"}:
        return False
    a, b = letter_of(left["elementType"]), letter_of(right["elementType"])
    if a is None or b is None or "v" in (a, b):
        return False
    return b not in OPERATORS["="].get(a, "") or (a == "s") != (b == "s")


def _derive(operator: str, left: Known, right: Known) -> Known:
    """Return the type of what an operator gives; None when it depends on more than is looked at here."""
    if operator == "||":
        letters = {letter_of(left), letter_of(right)}
        return "string" if letters <= set(_JOINABLE) else None
    if operator in ("+", "-", "*", "%", "&", "|", "^") and left in _WHOLE and right in _WHOLE:
        return max(left, right, key=lambda each: _WHOLE.index(str(each)))
    if operator == "div" and left in _WHOLE and right in _WHOLE:
        return "long"
    letters = {letter_of(left), letter_of(right)}
    if operator in ("+", "-", "*", "/", "%") and letters <= set("hilcd") and operator != "div":
        return "double" if "d" in letters or (operator == "/" and "c" not in letters) else "decimal"
    return None


def _widen(found: Known, kind: Known) -> Known:
    """Return the type that two values have together, when it is sure."""
    if kind in (found, "void"):
        return found
    if found == "void":
        return kind
    if found in _WHOLE and kind in _WHOLE:
        return max(found, kind, key=lambda each: _WHOLE.index(str(each)))
    a, b = letter_of(found), letter_of(kind)
    if "s" in (a, b):  # the text is read as the other type
        other, letter = (kind, b) if a == "s" else (found, a)
        return other if letter in set("bDtn") else None
    return "decimal" if {a, b} <= set("hilcd") else None
