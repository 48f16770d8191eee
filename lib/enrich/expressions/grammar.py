"""Read the tokens of an expression by a small grammar, and find what the expression refers to and calls.

The grammar is the part of Spark's that has nothing but scalars in it. It keeps no tree and knows no precedence, for
Spark does the real parsing: what counts is that each word is known to be a name, a function or a keyword, and that
nothing stands side by side that no operator joins. So no query, window, hint, alias or named argument gets through:
each needs two neighbours like that.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Protocol

from enrich.expressions.functions import FIELDS, FUNCTIONS, LAMBDAS, SEPARATORS, UNITS, WITH_UNIT, words
from enrich.expressions.lexer import Token, place
from enrich.expressions.types import TypeGrammar

_BINARY = words("+ - * / % || & | ^ << >> = == != <> < <= > >= <=> and or div")
_SIGNS = words("- + ~")
_NEGATIONS = words("! not")
_MATCHES = words("like ilike rlike regexp")
_CONDITIONS = _MATCHES | words("! not and or is in between")
_CONSTANTS = words("null true false")
_TYPED_STRINGS = words("date timestamp timestamp_ntz timestamp_ltz")
_KEYWORDS = _CONSTANTS | words(
    """
    all and any as between both case distinct div else end escape for from ilike in interval is leading like not or
    placing regexp rlike select some then to trailing when
    """
)
"""Words that are no bare names here, though Spark takes most of them for names: backticks make a name of each."""


class Names(Protocol):
    """What a column reference may be."""

    @property
    def reserved(self) -> Collection[str]:
        """Names that no lambda variable may hide."""

    def resolve(self, parts: tuple[str, ...], where: str) -> tuple[str, ...]:
        """Return the reference as a path, or raise `ExpressionError` with a suggestion."""


class Grammar(TypeGrammar):
    """One reading of one expression.

    Args:
        tokens: Of the whole text, ended by a token of kind ``end``.
        names: What may be referred to.

    Attributes:
        paths: The column references found.
    """

    def __init__(self, tokens: tuple[Token, ...], names: Names) -> None:
        super().__init__(tokens)
        self._names = names
        self._variables: list[str] = []
        self.paths: set[tuple[str, ...]] = set()

    def read(self) -> None:
        """Read the whole text as one expression."""
        self._expression()
        if self._token.kind != "end":
            self._fail(f"did not expect {self._shown()}")

    def _expression(self) -> None:
        """Read operands joined by operators, and the predicates that follow an operand."""
        with self._nested():
            is_condition, betweens = True, 0
            self._operand(is_condition)
            while joint := self._joint():
                betweens += joint == "between"
                is_condition = joint in ("and", "or")
                if joint == "and" and betweens:
                    is_condition, betweens = False, betweens - 1
                self._operand(is_condition)

    def _joint(self) -> str:
        """Step over operators and closed predicates (``is null``, ``in (…)``).

        Returns:
            The operator that an operand must follow, or nothing at the end.
        """
        if self._take(*_BINARY):
            is_open = True
        elif self._take("is"):
            is_open = self._is_open()
        elif self._take("escape"):
            self._expect_kind("string", "a text literal")
            is_open = False
        elif self._token.lower in ("not", "in", "between", *_MATCHES):
            is_open = self._predicate_is_open()
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
            self._fail(f"expected null, true, false or distinct from, found {self._shown()}")
        return False

    def _predicate_is_open(self) -> bool:
        self._take("not")
        if self._take("in"):
            self._list()
            return False
        if self._take(*_MATCHES):
            if self._token.lower in ("any", "some", "all") and self._next.lower == "(":
                self._at += 1
                self._list()
                return False
        else:
            self._expect("between")
        return True

    def _operand(self, is_condition: bool) -> None:
        self._unary(is_condition)
        token = self._token
        self._check_position()
        if token.kind in ("string", "number"):
            self._at += 1
            steps = False
        elif token.kind == "quoted":
            self._chain()
            steps = True
        elif token.kind == "word":
            steps = self._word()
        elif token.lower == "(":
            self._list()
            steps = True
        elif token.lower == "*":
            self._fail("a star is not allowed", hint="name the columns")
        else:
            self._fail(f"expected a value, found {self._shown()}")
        self._postfix(steps)

    def _unary(self, is_condition: bool) -> None:
        """Read signs, and ``not`` where a condition may start: elsewhere Spark reads it as a name."""
        while self._take(*(_SIGNS | _NEGATIONS if is_condition else _SIGNS)):
            before = self._tokens[self._at - 1].lower
            is_condition = before in _NEGATIONS
            if before == "not" and self._token.lower in ("+", "-"):
                self._fail("a sign after not would make a name of it", hint="use parentheses")
            self._count()

    def _check_position(self) -> None:
        if self._next.lower == "(" and self._token.kind == "quoted":
            self._fail(f"{self._token.text} cannot be called: functions are written without backticks")

    def _word(self) -> bool:
        """Read what starts with a bare word; true when a field or subscript may follow."""
        word, after = self._token.lower, self._next
        if word in _CONSTANTS:  # Spark reads true.x as a field of true, whatever is called so
            self._at += 1
            return False
        if after.lower == "." and word != "case":
            self._chain()
        elif word == "case":
            self._case()
        elif word == "interval":
            self._interval()
            return False
        elif after.lower == "(":
            self._call()
        elif word in _TYPED_STRINGS and after.kind == "string":
            self._at += 2
            return False
        elif word in _KEYWORDS:
            self._fail(
                f"the word {self._token.text!r} is not allowed here", hint="if it is a name, put it into backticks"
            )
        else:
            self._chain()
        return True

    def _postfix(self, steps: bool) -> None:
        """Read casts, and subscripts and fields where ``steps``."""
        while True:
            if self._take("::"):
                self._type()
            elif steps and self._take("["):
                self._expression()
                self._expect("]")
            elif steps and self._take("."):
                self._part()
            else:
                return
            self._count()

    def _chain(self) -> None:
        """Read ``alias.column.field``, or a lambda variable and its fields."""
        start = self._token.start
        parts = [self._part()]
        while self._take("."):
            parts.append(self._part())
        if self._token.lower == "->":
            self._fail("a lambda may only be a later argument of a function such as transform")
        if parts[0] not in self._variables:
            self.paths.add(self._names.resolve(tuple(parts), place(start)))

    def _list(self) -> None:
        self._expect("(")
        self._expression()
        while self._take(","):
            self._expression()
        self._expect(")")

    def _case(self) -> None:
        self._expect("case")
        with self._nested():
            if self._token.lower != "when":
                self._expression()
            self._expect("when")
            self._when()
            while self._take("when"):
                self._when()
            if self._take("else"):
                self._expression()
            self._expect("end")

    def _when(self) -> None:
        self._count()
        self._expression()
        self._expect("then")
        self._expression()

    def _interval(self) -> None:
        """Read ``interval '…'``, ``interval 1 day 2 hours`` or ``interval '1-2' year to month``."""
        self._expect("interval")
        signed = self._take("+", "-")  # Spark reads interval - '1 day' as a column less a text
        if not signed and self._token.kind == "string" and self._next.lower not in UNITS:
            self._at += 1
            return
        self._amount()
        while self._token.kind in ("number", "string"):
            self._amount()
        if self._take("to"):
            self._unit()

    def _amount(self) -> None:
        if self._token.kind not in ("number", "string"):
            self._fail(f"expected a number or text after interval, found {self._shown()}")
        self._at += 1
        self._unit()

    def _unit(self) -> None:
        if not self._take(*UNITS):
            self._fail(f"expected a unit such as day, found {self._shown()}")

    def _call(self) -> None:
        token = self._token
        name = token.lower
        if name not in FUNCTIONS:
            known = get_close_matches(name, sorted(FUNCTIONS), n=1, cutoff=0.75)
            hint = f"did you mean {known[0]!r}?" if known else "docs/expressions.md lists those that are"
            self._fail(f"function {token.text!r} is not allowed", hint=hint)
        self._at += 2
        if name in ("cast", "try_cast"):
            self._expression()
            self._expect("as")
            self._type()
        else:
            self._arguments(name)
        self._expect(")")

    def _arguments(self, name: str) -> None:
        if self._token.lower == ")":
            if name == "unix_timestamp":
                self._fail("unix_timestamp without an argument is the time of the run, and not allowed")
            return
        count, lambdas, start = 1, 0, self._at
        unit = self._opening(name)
        if not unit:
            self._argument(name)
        while self._take(",", *SEPARATORS.get(name, ())):
            count += 1
            if name in LAMBDAS and self._lambda_ahead():
                lambdas += 1
                self._lambda()
            else:
                self._argument(name)
        if unit:
            self._check_plain(start)
        if name in LAMBDAS and not lambdas and (name, count) != ("array_sort", 1):
            self._fail(f"{name} needs a lambda such as x -> x > 0")

    def _check_plain(self, start: int) -> None:
        """Refuse bare conditions since ``start``: beside one, Spark reads the unit as a column."""
        depth = 0
        for token in self._tokens[start : self._at]:
            depth += (token.lower in ("(", "[")) - (token.lower in (")", "]"))
            if not depth and token.lower in _CONDITIONS:
                self._fail("a condition beside a unit", hint="put it into parentheses")

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
        if self._token.kind not in ("string", "word", "quoted"):
            self._fail(f"expected a text or a name, found {self._shown()}")

    def _argument(self, name: str) -> None:
        self._expression()
        if name == "struct" and self._take("as"):
            self._part()

    def _lambda_ahead(self) -> bool:
        if self._token.lower != "(":
            return self._next.lower == "->"
        at = self._at
        while self._tokens[at].lower not in (")", "") or self._tokens[at].kind == "quoted":
            at += 1
            if self._tokens[at].kind not in ("word", "quoted", "op") or self._tokens[at].lower == "(":
                return False
        return self._tokens[min(at + 1, len(self._tokens) - 1)].lower == "->"

    def _lambda(self) -> None:
        before = len(self._variables)
        if self._take("("):
            self._variable()
            self._expect(",")  # Spark takes one variable only without parentheses
            self._variable()
            while self._take(","):
                self._variable()
            self._expect(")")
        else:
            self._variable()
        self._expect("->")
        self._expression()
        del self._variables[before:]

    def _variable(self) -> None:
        token = self._token
        if token.kind not in ("word", "quoted"):
            self._fail(f"expected the name of a lambda variable, found {self._shown()}")
        name = token.name.lower()
        if name in _KEYWORDS or name in FUNCTIONS:
            self._fail(f"a lambda variable cannot be called {token.text!r}")
        if name in {taken.lower() for taken in (*self._names.reserved, *self._variables)}:
            self._fail(f"the lambda variable {token.text!r} hides another name")
        self._part()
        self._variables.append(token.name)
