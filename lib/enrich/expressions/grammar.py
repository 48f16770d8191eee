"""Read the tokens of an expression by a small grammar, and find what the expression refers to and calls.

The grammar is the part of Spark's that has nothing but scalars in it. It keeps no tree and knows no precedence, for
Spark does the real parsing: what counts is that each word is known to be a name, a function or a keyword, and that
nothing stands side by side that no operator joins. So no query, window, hint, alias or named argument gets through:
each needs two neighbours like that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import IntEnum
from typing import NoReturn, Protocol

from enrich.base.errors import suggest
from enrich.expressions.functions import FIELDS, FUNCTIONS, GROUPS, LAMBDAS, SEPARATORS, UNITS, WITH_UNIT, split_words
from enrich.expressions.lexer import ExpressionError, Token, locate
from enrich.expressions.refusals import explain_function, refuse_function
from enrich.expressions.types import TypeGrammar

_BINARY = split_words("+ - * / % || & | ^ << >> = == != <> < <= > >= <=> and or div")
_SIGNS = split_words("- + ~")
_NEGATIONS = split_words("! not")
_MATCHES = split_words("like ilike rlike regexp")
_CONDITIONS = _MATCHES | split_words("! not and or is in between")
_CONSTANTS = split_words("null true false")
_TYPED_STRINGS = split_words("date timestamp timestamp_ntz timestamp_ltz")
_KEYWORDS = _CONSTANTS | split_words(
    """
    all and any as between both case distinct div else end escape for from ilike in interval is leading like not or
    placing regexp rlike select some then to trailing when
    """
)
"""Words that are no bare names here, though Spark takes most of them for names: backticks make a name of each."""


class NameResolver(Protocol):
    """What a column reference may be."""

    @property
    def reserved(self) -> Collection[str]:
        """Names that no lambda variable may hide."""

    def resolve(self, parts: tuple[str, ...], where: str) -> tuple[str, ...]:
        """Return the reference as a path, or raise `ExpressionError` with a suggestion."""


class Grammar(TypeGrammar):
    """One reading of one expression, which may refer to what ``names`` resolves.

    Attributes:
        paths: The column references found.
    """

    def __init__(self, tokens: tuple[Token, ...], names: NameResolver) -> None:
        super().__init__(tokens)
        self._names = names
        self._variables: list[str] = []
        self.paths: set[tuple[str, ...]] = set()

    def read(self) -> None:
        """Read the whole text as one expression."""
        self._read_expression()
        if self._token.type != "end":
            self._fail(f"did not expect {self._show_token()}")

    def _read_expression(self) -> Kind:
        """Read operands joined by operators, and the predicates that follow an operand."""
        with self._nest():
            is_condition, betweens = True, 0
            chain = Chain(self._read_operand(is_condition), self._refuse_built)
            while joint := self._read_joint(chain):
                betweens += joint == "between"
                if joint == "and" and betweens:
                    joint, betweens = "between", betweens - 1
                is_condition = joint in ("and", "or")
                chain.join(joint, self._read_operand(is_condition))
            return chain.end()

    def _wanted(self) -> Kind:
        """Read an expression whose value may be compared with a date, or be one of several of one type."""
        kind = self._read_expression()
        if kind is Kind.BUILT:
            self._refuse_built()
        return kind

    def _refuse_built(self) -> NoReturn:
        last = self._tokens[self._at - 1]
        raise ExpressionError(
            f"the text that ends {locate(last.start + len(last.text) - 1)} of the expression is put together without a"
            " column; beside a date Spark might read it as the time of the run",
            hint="write the whole text in quotes",
        )

    def _read_joint(self, chain: Chain) -> str:
        """Step over operators and closed predicates (``is null``, ``in (…)``).

        Returns:
            The operator that an operand must follow, or nothing at the end.
        """
        if self._take(*_BINARY):
            is_open = True
        elif self._take("is"):
            is_open = self._is_open()
        elif self._take("escape"):
            self._expect_type("string", "a text literal")
            is_open = False
        elif self._token.lower in ("not", "in", "between", *_MATCHES):
            is_open = self._predicate_is_open(chain)
        else:
            return ""
        self._count()
        # Behind a closed predicate Spark wants and, or or the end; else like any ('x') || 'y' calls a function any.
        is_open = is_open or self._take("and", "or")
        return self._tokens[self._at - 1].lower if is_open else ""

    def _is_open(self) -> bool:
        self._take("not")
        if self._take("distinct"):
            self._expect("from")
            return True
        if not self._take("unknown", *_CONSTANTS):
            self._fail(f"expected null, true, false or distinct from, found {self._show_token()}")
        return False

    def _predicate_is_open(self, chain: Chain) -> bool:
        self._take("not")
        if self._take("in"):
            chain.close(compared=True)
            self._read_list(self._wanted)
            return False
        if self._take(*_MATCHES):
            if self._token.lower in ("any", "some", "all") and self._next.lower == "(":
                self._at += 1
                self._read_list(self._read_expression)
                return False
        else:
            self._expect("between")
        return True

    def _read_operand(self, is_condition: bool) -> Kind:
        self._read_unary(is_condition)
        token = self._token
        if token.type in ("string", "number"):
            self._at += 1
            return self._read_postfix(Kind.BYTES if token.text[0] in "xX" else Kind.FIXED, steps=False)
        if token.type == "quoted":
            if self._next.lower == "(":
                self._fail(f"{token.text} cannot be called: functions are written without backticks")
            return self._read_postfix(self._read_chain())
        if token.type == "word":
            return self._word()
        if token.lower == "*":
            self._fail("a star is not allowed", hint="name the columns")
        if token.lower != "(":
            self._fail(f"expected a value, found {self._show_token()}")
        return self._read_postfix(self._read_list(self._read_expression))

    def _read_unary(self, is_condition: bool) -> None:
        """Read signs, and ``not`` where a condition may start: elsewhere Spark reads it as a name."""
        while self._take(*(_SIGNS | _NEGATIONS if is_condition else _SIGNS)):
            before = self._tokens[self._at - 1].lower
            is_condition = before in _NEGATIONS
            if before == "not" and self._token.lower in ("+", "-"):
                self._fail("before a sign Spark reads not as a name", hint="use parentheses")
            self._count()

    def _word(self) -> Kind:
        """Read what starts with a bare word, and the fields, subscripts and casts behind it."""
        word, after = self._token.lower, self._next
        if word in _CONSTANTS:  # Spark reads true.x as a field of true, whatever is called so
            self._at += 1
            return self._read_postfix(Kind.FIXED, steps=False)
        if after.lower == "." and word != "case":
            return self._read_postfix(self._read_chain())
        if word == "case":
            return self._read_postfix(self._read_case())
        if word == "interval":
            self._read_interval()
            return self._read_postfix(Kind.FIXED, steps=False)
        if after.lower == "(":
            return self._read_postfix(self._read_call())
        if word in _TYPED_STRINGS and after.type == "string":
            self._at += 2
            return self._read_postfix(Kind.FIXED, steps=False)
        if word in _KEYWORDS:
            self._fail(
                f"the word {self._token.text!r} is not allowed here", hint="if it is a name, put it into backticks"
            )
        return self._read_postfix(self._read_chain())

    def _read_postfix(self, kind: Kind, *, steps: bool = True) -> Kind:
        """Read casts, and subscripts and fields where ``steps``."""
        while True:
            if self._take("::"):
                kind = self._cast(kind)
            elif steps and self._take("["):
                kind = max(kind, self._wanted())
                self._expect("]")
            elif steps and self._take("."):
                self._read_part()
            else:
                return kind
            self._count()

    def _cast(self, operand: Kind) -> Kind:
        """Read the type that an operand is cast to."""
        wanted = self._token.lower
        self._read_type()
        kind = kind_of_cast(wanted, operand)
        return self._refuse_built() if kind is None else kind

    def _read_chain(self) -> Kind:
        """Read ``alias.column.field``, or a lambda variable and its fields."""
        start = self._token.start
        parts = [self._read_part()]
        while self._take("."):
            parts.append(self._read_part())
        if self._token.lower == "->":
            self._fail("a lambda may only be the second or a later argument of a function such as transform")
        if parts[0] not in self._variables:
            self.paths.add(self._names.resolve(tuple(parts), locate(start)))
        return Kind.OPEN

    def _read_list(self, read: Callable[[], Kind]) -> Kind:
        self._expect("(")
        kind = read()
        while self._take(","):
            kind = max(kind, read())
        self._expect(")")
        return kind

    def _read_case(self) -> Kind:
        self._expect("case")
        kind = Kind.FIXED
        with self._nest():
            if self._token.lower != "when":
                kind = self._wanted()
            self._expect("when")
            kind = max(kind, self._read_when())
            while self._take("when"):
                kind = max(kind, self._read_when())
            if self._take("else"):
                kind = max(kind, self._wanted())
            self._expect("end")
        return kind

    def _read_when(self) -> Kind:
        self._count()
        kind = self._wanted()
        self._expect("then")
        return max(kind, self._wanted())

    def _read_interval(self) -> None:
        """Read ``interval '…'``, ``interval 1 day 2 hours`` or ``interval '1-2' year to month``."""
        self._expect("interval")
        signed = self._take("+", "-")  # Spark reads interval - '1 day' as a column less a text
        if not signed and self._token.type == "string" and self._next.lower not in UNITS:
            self._at += 1
            return
        if self._token.type not in ("number", "string"):
            self._fail(f"expected a number or text after interval, found {self._show_token()}")
        while self._token.type in ("number", "string"):
            self._at += 1
            self._read_unit()
        if self._take("to"):
            self._read_unit()

    def _read_unit(self) -> None:
        if not self._take(*UNITS):
            self._fail(f"expected a unit such as day, found {self._show_token()}")

    def _read_call(self) -> Kind:
        token = self._token
        name = token.lower
        if name not in FUNCTIONS:
            if known := explain_function(name):
                raise refuse_function(token.text, locate(token.start), known)
            hint = suggest(name, FUNCTIONS, "docs/expressions.md lists those that are")
            self._fail(f"function {token.text!r} is not allowed", hint=hint)
        self._at += 2
        if name in ("cast", "try_cast"):
            operand = self._read_expression()
            self._expect("as")
            kind = self._cast(operand)
        else:
            kind = kind_of_call(name, self._read_arguments(name))
        self._expect(")")
        return kind

    def _read_arguments(self, name: str) -> Kind:
        if self._token.lower == ")":
            if name == "unix_timestamp":
                self._fail("unix_timestamp without an argument is the time of the run and is not allowed")
            return Kind.FIXED
        count, lambdas, start = 1, 0, self._at
        unit = self._opening(name)
        kind = Kind.FIXED if unit else self._read_argument(name)
        while self._take(",", *SEPARATORS.get(name, ())):
            count += 1
            if name in LAMBDAS and self._lambda_ahead():
                lambdas += 1
                kind = max(kind, self._read_lambda())
            else:
                kind = max(kind, self._read_argument(name))
        if unit:
            self._check_plain(start)
        if name in LAMBDAS and not lambdas and (name, count) != ("array_sort", 1):
            self._fail(f"{name} needs a lambda such as x -> x > 0")
        return kind

    def _check_plain(self, start: int) -> None:
        """Refuse bare conditions since ``start``: beside one, Spark reads the unit as a column."""
        depth = 0
        for token in self._tokens[start : self._at]:
            depth += (token.lower in ("(", "[")) - (token.lower in (")", "]"))
            if not depth and token.lower in _CONDITIONS:
                self._fail("a condition is not allowed beside a unit", hint="put it into parentheses")

    def _opening(self, name: str) -> bool:
        """Read the words that may open the arguments; true when they stand for the first argument."""
        after = self._next
        if name == "extract":
            if not (self._take(*FIELDS) and self._take("from")):
                self._fail("extract is written extract(year from alias.column)")
        elif name == "trim":
            if self._token.lower in ("both", "leading", "trailing") and after.lower != ".":
                self._at += 1
                self._check_no_operator()
            if self._take("from"):
                self._check_no_operator()
        elif name in WITH_UNIT and self._token.lower in UNITS and after.lower == ",":
            self._at += 1
            return True
        return False

    def _check_no_operator(self) -> None:
        """Refuse an operator where it would make a name of the keyword before it."""
        if self._token.type not in ("string", "word", "quoted"):
            self._fail(f"expected a text or a name, found {self._show_token()}")

    def _read_argument(self, name: str) -> Kind:
        kind = self._read_expression()
        if casts_argument(name, kind):
            self._refuse_built()
        if name == "struct" and self._take("as"):
            self._read_part()
        return kind

    def _lambda_ahead(self) -> bool:
        if self._token.lower != "(":
            return self._next.lower == "->"
        at = self._at
        while self._tokens[at].lower not in (")", "") or self._tokens[at].type == "quoted":
            at += 1
            if self._tokens[at].type not in ("word", "quoted", "op") or self._tokens[at].lower == "(":
                return False
        return self._tokens[min(at + 1, len(self._tokens) - 1)].lower == "->"

    def _read_lambda(self) -> Kind:
        before = len(self._variables)
        if self._take("("):
            self._read_variable()
            self._expect(",")  # Spark takes one variable only without parentheses
            self._read_variable()
            while self._take(","):
                self._read_variable()
            self._expect(")")
        else:
            self._read_variable()
        self._expect("->")
        kind = self._read_expression()
        del self._variables[before:]
        return kind

    def _read_variable(self) -> None:
        token = self._token
        if token.type not in ("word", "quoted"):
            self._fail(f"expected the name of a lambda variable, found {self._show_token()}")
        name = token.name.lower()
        if name in _KEYWORDS or name in FUNCTIONS:
            self._fail(f"a lambda variable cannot be called {token.text!r}")
        if name in {taken.lower() for taken in (*self._names.reserved, *self._variables)}:
            self._fail(f"the lambda variable {token.text!r} hides another name")
        self._read_part()
        self._variables.append(token.name)


class Kind(IntEnum):
    """What a part of an expression is; of several parts together, the greatest. It guards against the clock.

    Where a text that Spark can compute beforehand is cast to a date or a timestamp, openly or because it stands beside
    one, and is ``now``, ``today``, ``tomorrow`` or ``yesterday``, Spark puts the time of the run there (its optimizer's
    rule ``SpecialDatetimeValues``). It never does so with a column's value. The lexer refuses such literals; this tells
    which parts are texts that no literal shows, and where Spark might cast them.
    """

    FIXED = 0
    """No column and no text but literals, which the lexer has checked."""
    BYTES = 1
    """The same with a binary literal, which becomes a text when it is cast."""
    BUILT = 2
    """A text, or something that holds one, which is put together although no column is read."""
    OPEN = 3
    """Something that reads a column or a lambda variable: never the clock."""


_NO_TEXT = split_words(
    """
    ascii bit_length char char_length character_length chr contains endswith find_in_set instr is_valid_utf8 len length
    levenshtein locate luhn_check octet_length position regexp_count regexp_instr regexp_like soundex space startswith
    to_number try_to_number is_variant_null json_array_length
    """
)
"""Functions of the groups below whose values are never words."""

_BUILDERS = (
    split_words(f"{GROUPS['Text']} {GROUPS['JSON and variants']}")
    | split_words("array_join conv date_format from_unixtime reverse str_to_map")
) - _NO_TEXT

_CASTING = split_words(
    f"{GROUPS['Conditions']} {GROUPS['Dates and times']} array date decode map sequence timestamp try_add try_subtract"
)
"""Functions that may cast an argument to a date or a timestamp, or compare it with one."""

_MOMENTS = split_words("date timestamp timestamp_ltz timestamp_ntz")
_CARRIERS = split_words("string binary variant array map struct")
_COMPARISONS = split_words("= == != <> < <= > >= <=> between from")  # "from" ends `is distinct from`
_SUMS = split_words("+ -")
_LINKS = split_words("* / % div & | ^ << >>") | _SUMS | {"||"}


def casts_argument(function: str, argument: Kind) -> bool:
    """Tell whether a function may take an argument for the time of the run."""
    return argument is Kind.BUILT and function in _CASTING


def kind_of_call(function: str, arguments: Kind) -> Kind:
    """Return what the call of a function is, given its arguments together."""
    if function == "typeof":  # a type's name, known without a row
        return Kind.FIXED
    if function == "unhex":  # as a binary literal is
        return max(arguments, Kind.BYTES)
    if function == "string" and arguments is Kind.BYTES:
        return Kind.BUILT
    return max(arguments, Kind.BUILT) if function in _BUILDERS else arguments


def kind_of_cast(wanted: str, operand: Kind) -> Kind | None:
    """Return what a cast to the type ``wanted`` is, or None when it may give the time of the run."""
    if operand is Kind.OPEN:
        return operand
    if wanted in _MOMENTS:
        return None if operand is Kind.BUILT else Kind.FIXED
    if wanted not in _CARRIERS:
        return Kind.FIXED
    # An array, a struct or a map may have texts in it, whose bytes are read here.
    return Kind.BUILT if operand is Kind.BYTES and wanted != "binary" else operand


class Chain:
    """Operands joined by operators, as they are read from left to right.

    Args:
        first: The first operand.
        refuse: Called where a built text is compared with something, or added to it.
    """

    def __init__(self, first: Kind, refuse: Callable[[], NoReturn]) -> None:
        self._refuse = refuse
        self._last = first
        self._before = Kind.FIXED
        self._compared = False
        self._is_condition = False

    def join(self, operator: str, operand: Kind) -> None:
        """Add an operand; ``between`` stands before both of its bounds."""
        if operator in _LINKS:
            if operator in _SUMS:
                self._check(self._last, operand)
            together = max(self._last, operand)
            self._last = max(together, Kind.BUILT) if operator == "||" else together
            return
        self.close(compared=operator in _COMPARISONS)
        self._last = operand
        self._compared = operator in _COMPARISONS

    def close(self, *, compared: bool = False) -> None:
        """End a side of a comparison or of a condition; ``compared`` when the next one is compared with it."""
        if compared or self._compared:
            self._check(self._last)
        self._before = max(self._before, self._last)
        self._last, self._compared, self._is_condition = Kind.FIXED, False, True

    def end(self) -> Kind:
        """Return what the whole is."""
        if not self._is_condition:
            return self._last
        self.close()
        return Kind.OPEN if self._before is Kind.OPEN else Kind.FIXED

    def _check(self, *kinds: Kind) -> None:
        if Kind.BUILT in kinds:
            self._refuse()
