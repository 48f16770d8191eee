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

from enrich.expressions.cursor import Cursor
from enrich.expressions.functions import FIELDS, FUNCTIONS, LAMBDAS, SEPARATORS, TYPES, UNITS, WITH_UNIT, words
from enrich.expressions.lexer import Token, place

_BINARY = words("+ - * / % || & | ^ << >> = == != <> < <= > >= <=> and or div")
_UNARY = words("- + ~ ! not")
_MATCHES = words("like ilike rlike regexp")
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


class Grammar(Cursor):
    """One reading of one expression.

    Args:
        tokens: Of the whole text, ended by a token of kind ``end``.
        names: What may be referred to.

    Attributes:
        paths: The column references found.
        identifiers: Indices of the tokens that are names of columns, fields or variables.
    """

    def __init__(self, tokens: tuple[Token, ...], names: Names) -> None:
        super().__init__(tokens)
        self._names = names
        self._variables: list[str] = []
        self._halved = False
        self.paths: set[tuple[str, ...]] = set()
        self.identifiers: set[int] = set()

    def read(self) -> None:
        """Read the whole text as one expression."""
        self._expression()
        if self._token.kind != "end":
            self._fail(f"did not expect {self._shown()}")

    def _expression(self) -> None:
        """Read operands joined by operators, and the predicates that follow an operand."""
        with self._nested():
            self._operand()
            while self._continues():
                self._operand()

    def _continues(self) -> bool:
        """Step over operators and closed predicates (``is null``, ``in (…)``); true when an operand must follow."""
        while True:
            if self._take(*_BINARY):
                self._count()
                return True
            if self._take("is"):
                if self._is_open():
                    return True
            elif self._take("escape"):
                self._expect_kind("string", "a text literal")
            elif self._token.lower in ("not", "in", "between", *_MATCHES):
                if self._predicate_is_open():
                    return True
            else:
                return False
            self._count()

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
        self._count()
        return True

    def _operand(self) -> None:
        while self._take(*_UNARY):
            self._count()
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

    def _part(self) -> str:
        token = self._token
        if token.lower == "*":
            self._fail("a star is not allowed", hint="name the columns")
        if token.kind not in ("word", "quoted"):
            self._fail(f"expected a name after the dot, found {self._shown()}")
        self.identifiers.add(self._at)
        self._at += 1
        if self._token.lower == "(":
            self._at -= 1
            self._fail(f"{token.text!r} cannot be called after a dot")
        return token.name

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
        self._take("+", "-")
        if self._token.kind == "string" and self._next.lower not in UNITS:
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
        count, lambdas = 1, 0
        if not self._opening(name):
            self._argument(name)
        while self._take(",", *SEPARATORS.get(name, ())):
            count += 1
            if name in LAMBDAS and self._lambda_ahead():
                lambdas += 1
                self._lambda()
            else:
                self._argument(name)
        if name in LAMBDAS and not lambdas and (name, count) != ("array_sort", 1):
            self._fail(f"{name} needs a lambda such as x -> x > 0")

    def _opening(self, name: str) -> bool:
        """Read the words that may open the arguments; true when they stand for the first argument."""
        after = self._next
        if name == "extract":
            if not (self._take(*FIELDS) and self._take("from")):
                self._fail("extract is written extract(year from alias.column)")
        elif name == "trim":
            if self._token.lower in ("both", "leading", "trailing") and after.lower != ".":
                self._at += 1
            self._take("from")
        elif name in WITH_UNIT and self._token.lower in UNITS and after.lower == ",":
            self._at += 1
            return True
        return False

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

    def _type(self) -> None:
        """Read the name of a type."""
        with self._nested():
            token = self._expect_kind("word", "a type")
            name = token.lower
            if name in ("array", "map", "struct"):
                self._angle("<")
                self._inner_types(name)
                self._angle(">")
            elif name not in TYPES:
                self._at -= 1
                known = get_close_matches(name, sorted(TYPES), n=1, cutoff=0.75)
                self._fail(f"type {token.text!r} is not allowed", hint=f"did you mean {known[0]!r}?" if known else None)
            elif name in ("decimal", "dec", "numeric") and self._take("("):
                self._expect_kind("number", "the precision")
                if self._take(","):
                    self._expect_kind("number", "the scale")
                self._expect(")")

    def _inner_types(self, name: str) -> None:
        if name == "struct":
            self._field()
            while self._take(","):
                self._field()
            return
        self._type()
        if name == "map":
            self._expect(",")
            self._type()

    def _field(self) -> None:
        self._part()
        self._expect(":")
        self._type()

    def _angle(self, wanted: str) -> None:
        """Step over ``<`` or ``>``; two closing ones are cut as one operator, which is left after its first half."""
        if wanted == ">" and self._token.lower == ">>":
            self._at += self._halved
            self._halved = not self._halved
            return
        self._expect(wanted)
