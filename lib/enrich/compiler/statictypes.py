"""The types that expressions surely have, and what Spark surely refuses in them, without Spark.

``enrich validate`` starts no JVM, and types are known from the logs of the tables. So this reads the tokens once more,
with Spark's precedence, and types what it reads: each type is one letter of ``signatures``, which holds what Spark said
when it was asked. What it cannot type is ``None``, and that goes with everything: the run, in which Spark types, finds
the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from enrich.base.console import format_count
from enrich.base.errors import ConfigError
from enrich.base.schemas import fields_of, find, kind_of, name_of
from enrich.base.spec import DataType
from enrich.compiler.ddl import read_ddl_type
from enrich.compiler.signatures import COMMON, JOINED, OPERATORS, PREDICATES, SIGNATURES, Signature, letter_of
from enrich.expressions import ExpressionError
from enrich.expressions.functions import LAMBDAS, SEPARATORS, UNITS, WITH_UNIT, split_words
from enrich.expressions.lexer import Token, locate, tokenize
from enrich.expressions.types import TypeGrammar

Known = DataType | None
"""A type; None when it is not known for sure."""

_LEVELS = dict.fromkeys(("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"), 1) | {
    "|": 2, "^": 3, "&": 4, "<<": 5, ">>": 5, "+": 6, "-": 6, "||": 6, "*": 7, "/": 7, "%": 7, "div": 7,
}  # fmt: skip
"""How tight operators bind, as in Spark's grammar (``valueExpression``)."""
_WHOLE = ("byte", "short", "integer", "long")
_SUFFIXES = {"l": "long", "s": "short", "y": "byte", "d": "double", "f": "float"}
_MONTHS = split_words("year years quarter quarters month months")
_ELEMENTS = split_words("transform filter exists forall any_match array_sort")
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
    reader = _Types(tokenize(expression), columns)
    try:
        found = reader.read()
    except ExpressionError as error:
        raise ConfigError(str(error)) from None
    except _UnknownForm:
        return None
    # Decimals and intervals are looked at without their precision.
    names = [] if found is None else _simple_names(found)
    return None if any(name == "decimal" or name.startswith("interval") for name in names) else found


class _UnknownForm(Exception):
    """The expression has a form that this reader does not know."""


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


class _Types(TypeGrammar):
    """One reading of one expression."""

    def __init__(self, tokens: tuple[Token, ...], columns: Mapping[str, DataType]) -> None:
        super().__init__(tokens)
        self._columns = columns
        self._variables: dict[str, Known] = {}

    def read(self) -> Known:
        """Return the type of the whole expression."""
        found = self._read_or()
        self._require(self._token.type == "end")
        return found

    @staticmethod
    def _require(is_known: object) -> None:
        if not is_known:
            raise _UnknownForm

    def _refuse(self, at: Token, message: str, hint: str | None = None) -> None:
        raise ExpressionError(f"{message} {locate(at.start)} of the expression", hint=hint)

    # --- conditions

    def _read_or(self) -> Known:
        return self._read_junction("or", self._read_and)

    def _read_and(self) -> Known:
        return self._read_junction("and", self._read_not)

    def _read_junction(self, word: str, read: Callable[[], Known]) -> Known:
        found = read()
        while self._token.lower == word:
            at = self._token
            self._take(word)
            self._check_condition(at, found)
            self._check_condition(at, read())
            found = "boolean"
        return found

    def _read_not(self) -> Known:
        at = self._token
        if at.lower == "!" or (at.lower == "not" and self._next.lower != "."):
            self._take("!", "not")
            with self._nest():
                self._check_condition(at, self._read_not())
            return "boolean"
        return self._read_predicate()

    def _check_condition(self, at: Token, kind: Known) -> None:
        if letter_of(kind) not in (None, "b", "s", "v"):
            self._refuse(at, f"{at.text.lower()!r} is about conditions, and this is {self._name(kind)}:")

    def _read_predicate(self) -> Known:
        left = self._read_value(1)
        at = self._token
        if self._take("is"):
            return self._read_is(at, left)
        if at.lower == "not":
            self._at += 1
            at = self._token
        if self._take("in"):
            values = self._read_list(self._read_or)
            for each in values:
                self._check_pair("in", at, left, each)
            self._unite(at, [left, *values])
            return "boolean"
        if self._take("between"):
            self._check_pair("between", at, left, self._read_value(1))
            self._require(self._take("and"))
            self._check_pair("between", at, left, self._read_value(1))
            return "boolean"
        if self._take("like", "ilike", "rlike", "regexp"):
            several = self._token.lower in ("any", "some", "all") and self._next.lower == "("
            self._at += several
            patterns = self._read_list(self._read_or) if several else [self._read_value(1)]
            for each in patterns:
                self._check_pair("like", at, left, each)
            if self._take("escape"):
                self._at += 1
            return "boolean"
        return left

    def _read_is(self, at: Token, left: Known) -> Known:
        self._take("not")
        if self._take("distinct"):
            self._take("from")
            self._check_pair("is distinct from", at, left, self._read_value(1))
        elif self._take("true", "false"):
            self._check_condition(at, left)
        else:
            self._require(self._take("null", "unknown"))
        return "boolean"

    # --- values

    def _read_value(self, level: int) -> Known:
        with self._nest():
            left = self._read_unary()
            while _LEVELS.get(self._token.lower, 0) >= level:
                at = self._token
                self._at += 1
                right = self._read_value(_LEVELS[at.lower] + 1)
                self._check_pair(at.lower, at, left, right)
                left = _derive(at.lower, left, right)
            return left

    def _check_pair(self, operator: str, at: Token, left: Known, right: Known) -> None:
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

    @staticmethod
    def _name(kind: Known) -> str:
        return "?" if kind is None else name_of(kind)

    def _read_unary(self) -> Known:
        at = self._token
        if not self._take("+", "-", "~"):
            return self._read_postfix(self._read_primary())
        with self._nest():
            kind = self._read_unary()
        wanted = "hilsv" if at.lower == "~" else "hilcdsTYv"
        letter = letter_of(kind)
        if letter is not None and (letter not in wanted or (at.lower == "~" and letter == "s")):
            self._refuse(at, f"{at.text!r} cannot take {self._name(kind)}", "cast it")
        return "double" if letter == "s" else kind

    def _read_primary(self) -> Known:
        token = self._token
        if token.type in ("string", "number"):
            self._at += 1
            if token.type == "number":
                return _read_number(token.text.lower())
            return "binary" if token.text[0] in "xX" else "string"
        if token.lower == "(":
            return self._read_group()
        if token.type == "quoted" or self._next.lower == ".":
            return self._read_name()
        return self._read_word(token)

    def _read_word(self, token: Token) -> Known:
        """Read what begins with a word that is no name with a dot."""
        if token.lower in ("null", "true", "false"):
            self._at += 1
            return "void" if token.lower == "null" else "boolean"
        forms = {"case": self._read_case, "interval": self._read_interval}
        if token.lower in forms:
            return forms[token.lower]()
        if self._next.lower == "(":
            return self._read_call()
        if self._next.type == "string":
            self._at += 2
            return {"date": "date", "timestamp_ntz": "timestamp_ntz"}.get(token.lower, "timestamp")
        return self._read_name()

    def _read_group(self) -> Known:
        found = self._read_list(self._read_or)
        return found[0] if len(found) == 1 else None

    def _read_list(self, read: Callable[[], Known]) -> list[Known]:
        self._require(self._take("("))
        with self._nest():
            found = [read()]
            while self._take(","):
                found.append(read())
        self._require(self._take(")"))
        return found

    def _read_postfix(self, kind: Known) -> Known:
        while True:
            at = self._token
            if self._take("::"):
                kind = self._read_cast(at, kind)
            elif self._take("["):
                is_text = self._token.type == "string"
                name = self._token.text[1:-1]
                kind = self._step_into(at, kind, self._read_or(), name if is_text else None)
                self._require(self._take("]"))
            elif self._take("."):
                kind = self._descend(at, kind, self._token.name)
                self._at += 1
            else:
                return kind

    def _step_into(self, at: Token, kind: Known, index: Known, name: str | None) -> Known:
        """Return the type of an element of a list, of a map's value, or of a struct's field."""
        letter, place = letter_of(kind), letter_of(index)
        if letter is None or kind is None:
            return None
        if letter == "R":
            return (fields_of(kind) or {}).get(name or "")
        if letter not in "AM" or isinstance(kind, str):
            self._refuse(at, f"{self._name(kind)} has no elements", "only lists, maps and structs have")
            return None
        if place is not None and place in ("AMR" if letter == "M" else "bcdsyDtnAMRVTY"):
            what = "the place in a list is a whole number" if letter == "A" else "the key of a map is a simple value"
            self._refuse(at, f"{what}, not {self._name(index)}:")
        found: DataType = kind["elementType" if letter == "A" else "valueType"]
        return found

    def _descend(self, at: Token, kind: Known, name: str) -> Known:
        """Return the type of a field of a struct, of the structs in a list, or of a map's value."""
        if kind is None or kind_of(kind) == "void" or letter_of(kind) is None:
            return None
        if letter_of(kind) == "M" and not isinstance(kind, str):
            value: DataType = kind["valueType"]
            return value
        fields = fields_of(kind)
        if fields is not None and not _is_flat(kind):
            return None
        found = find(name, fields) if fields is not None else None
        if fields is None or found is None:
            known = f"; it has {', '.join(fields)}" if fields else ""
            self._refuse(at, f"{self._name(kind)} has no field {name!r}{known}")
            return None
        return _build_array(fields[found]) if letter_of(kind) == "A" else fields[found]

    def _read_name(self) -> Known:
        """Return the type of a column, a list, the key or a variable; what they lack has been told already."""
        parts = [self._token.name]
        self._at += 1
        while self._take("."):
            parts.append(self._token.name)
            self._at += 1
        first, *rest = parts
        kind = self._variables[first] if first in self._variables else self._columns.get(first)
        if first in self._variables:
            for name in rest:
                kind = self._descend(self._tokens[self._at - 1], kind, name)
            return kind
        try:
            for name in rest:
                kind = self._descend(self._token, kind, name)
        except ExpressionError:
            return None
        return kind

    # --- forms of their own

    def _read_case(self) -> Known:
        start = self._token
        self._at += 1
        with self._nest():
            has_subject = self._token.lower != "when"
            subject = self._read_or() if has_subject else None
            results = []
            while self._token.lower == "when":
                at = self._token
                self._at += 1
                found = self._read_or()
                if has_subject:
                    self._check_pair("=", at, subject, found)
                elif letter_of(found) not in (None, "b", "v"):
                    self._refuse(at, f"'when' is about conditions, and this is {self._name(found)}:")
                self._require(self._take("then"))
                results.append(self._read_or())
            if self._take("else"):
                results.append(self._read_or())
            self._require(self._take("end"))
        return self._unite(start, results)

    def _unite(self, at: Token, kinds: Sequence[Known]) -> Known:
        """Return the type that several values have together, one of which the expression gives."""
        found: Known = "void"
        for kind in kinds:
            a, b = letter_of(found), letter_of(kind)
            if a is not None and b is not None and "v" not in (a, b) and b not in COMMON.get(a, ""):
                names = f"{self._name(found)} and {self._name(kind)}"
                self._refuse(
                    at, f"{at.text.lower()!r} gives {names}, which have no type in common,", "cast one of them"
                )
            found = _widen(found, kind)
        return found

    def _read_interval(self) -> Known:
        self._at += 1
        self._take("+", "-")
        first = self._token
        units = set()
        while self._token.type in ("number", "string"):
            self._at += 1
            if self._token.lower in UNITS:
                units.add(self._token.lower in _MONTHS)
                self._at += 1
        if self._take("to"):
            self._at += 1
        self._require(self._token is not first)
        if len(units) != 1:
            return None
        return "interval year to month" if units == {True} else "interval day to second"

    def _read_cast(self, at: Token, kind: Known) -> Known:
        """Read the type that something is cast to."""
        start = self._at
        self._read_type()
        text = "".join(f" {each.text}" for each in self._tokens[start : self._at])
        wanted = read_ddl_type(text)
        a, b = letter_of(kind), letter_of(wanted)
        if a is not None and b is not None and b not in OPERATORS["cast"].get(a, ""):
            self._refuse(at, f"{self._name(kind)} cannot be cast to {self._name(wanted)}")
        return wanted

    # --- functions

    def _read_call(self) -> Known:
        at, name = self._token, self._token.lower
        self._at += 2
        with self._nest():
            if name in ("cast", "try_cast"):
                operand = self._read_or()
                self._require(self._take("as"))
                found = self._read_cast(at, operand)
                self._require(self._take(")"))
                return found
            arguments = self._read_arguments(name)
        self._require(self._take(")"))
        return self._call(at, name, arguments)

    def _read_arguments(self, name: str) -> list[Known] | None:
        """Return the types of the arguments; None where they are not just separated by commas."""
        found: list[Known] = []
        if self._token.lower == ")":
            return found
        is_plain = not (name == "extract" or (name in WITH_UNIT and self._token.lower in UNITS))
        if not is_plain:
            self._at += 1
            self._take("from", ",")
        elif name == "trim" and self._token.lower in ("both", "leading", "trailing", "from"):
            is_plain = False
            self._take("both", "leading", "trailing")
            self._take("from")
        while True:
            is_lambda = bool(found) and name in LAMBDAS and self._has_lambda()
            found.append(self._read_lambda(name, found) if is_lambda else self._read_or())
            if name in ("struct",) and self._take("as"):
                self._at += 1
            if self._token.lower == ")":
                return found if is_plain else None
            is_plain = is_plain and self._token.lower == ","
            self._require(self._take(",", *SEPARATORS.get(name, ())))

    def _has_lambda(self) -> bool:
        if self._token.lower != "(":
            return self._next.lower == "->"
        at = self._at
        while self._tokens[at].lower not in (")", ""):
            at += 1
        while at < len(self._tokens) and self._tokens[at].lower != ")":
            if self._tokens[at].type not in ("word", "quoted"):
                return False
            at += 1
        return self._tokens[min(at + 1, len(self._tokens) - 1)].lower == "->"

    def _read_lambda(self, name: str, before: Sequence[Known]) -> Known:
        names = []
        while not self._take("->"):
            if self._token.type in ("word", "quoted"):
                names.append(self._token.name)
            self._at += 1
        kinds = _bind(name, before[0])
        outer = self._variables
        self._variables = {**outer, **dict(zip(names, (*kinds, *[None] * len(names)), strict=False))}
        at = self._token
        found = self._read_or()
        self._variables = outer
        if name in _CONDITIONS and letter_of(found) not in (None, "b", "s", "v"):
            self._refuse(at, f"the lambda of {name} is a condition, and this is {self._name(found)}:")
        return found

    def _call(self, at: Token, name: str, arguments: list[Known] | None) -> Known:
        """Check the arguments of a function, and return its type."""
        if name in _ONE_OF and arguments:
            if name == "if" and letter_of(arguments[0]) not in (None, "b", "s", "v"):
                self._refuse(at, f"'if' is about a condition, and this is {self._name(arguments[0])}:")
            united = self._unite(at, arguments[_ONE_OF[name] :])
            return _build_array(united) if name == "array" else united
        if name in _COMPARING and arguments is not None and len(arguments) == 2:
            self._check_pair("=", at, *arguments)
            return arguments[0] if name == "nullif" else "boolean"
        if (signature := SIGNATURES.get(name)) is not None and arguments is not None:
            self._check_arguments(at, name, signature, arguments)
        return None if arguments is None and name in WITH_UNIT else _find_result(name, arguments or [None])

    def _check_arguments(self, at: Token, name: str, signature: Signature, arguments: list[Known]) -> None:
        if not signature.takes(len(arguments)):
            self._refuse(at, f"{name} cannot take {format_count(len(arguments), 'argument')}")
        for number, kind in enumerate(arguments):
            if not signature.accepts(number, letter_of(kind)):
                self._refuse(at, f"argument {number + 1} of {name} cannot be {self._name(kind)}", "cast it")


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


def _is_flat(kind: DataType) -> bool:
    """Return whether a type is a struct, or a list of structs, and no list of lists."""
    if isinstance(kind, str):
        return False
    return kind["type"] == "struct" or (kind["type"] == "array" and kind_of(kind["elementType"]) == "struct")


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
    if _LEVELS[operator] == 1:
        return "boolean"
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


def _bind(name: str, first: Known) -> tuple[Known, ...]:
    """Return the types of a lambda's variables."""
    if not isinstance(first, dict):
        return ()
    if name in _ELEMENTS and first["type"] == "array":
        element: DataType = first["elementType"]
        return (element, element if name == "array_sort" else "integer")
    if name in ("map_filter", "transform_keys", "transform_values") and first["type"] == "map":
        return (first["keyType"], first["valueType"])
    return ()
