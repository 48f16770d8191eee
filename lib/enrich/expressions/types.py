"""Names of types, as casts have them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from enrich.base.errors import suggest
from enrich.expressions.functions import TYPES
from enrich.expressions.lexer import ExpressionError, Token, locate

MAX_DEPTH = 32
"""How deep parentheses, calls, subscripts, cases and types may be nested; Spark runs out of stack at some hundreds."""

MAX_OPERATORS = 500
"""Operators and steps in one expression: each is a level of Spark's tree, and its stack ends near a thousand."""


class TokenReader:
    """A place among the tokens of one expression, and limits on what is read.

    Args:
        tokens: Of the whole text, ended by a token of kind ``end``.

    Attributes:
        identifiers: Indices of the tokens that are names of columns, fields or variables.
    """

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._operators = 0
        self.identifiers: set[int] = set()

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    @property
    def _next(self) -> Token:
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def _take(self, *wanted: str) -> bool:
        """Step over the token when it is one of the ``wanted`` words or operators."""
        found = self._token.lower in wanted
        self._at += found
        return found

    def _expect(self, wanted: str) -> None:
        if not self._take(wanted):
            self._fail(f"expected {wanted!r}, found {self._show_token()}")

    def _expect_type(self, wanted: str, what: str) -> Token:
        token = self._token
        if token.type != wanted:
            self._fail(f"expected {what}, found {self._show_token()}")
        self._at += 1
        return token

    def _show_token(self) -> str:
        """Name the token without showing literals, which may be somebody's data."""
        token = self._token
        return {"end": "the end", "string": "a text literal", "number": "a number"}.get(token.type) or repr(token.text)

    def _fail(self, message: str, hint: str | None = None) -> NoReturn:
        raise ExpressionError(f"{message} {locate(self._token.start)} of the expression", hint=hint)

    def _count(self) -> None:
        self._operators += 1
        if self._operators > MAX_OPERATORS:
            self._fail(f"more than {MAX_OPERATORS} operators")

    @contextmanager
    def _nest(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"nested deeper than {MAX_DEPTH} levels")
        yield
        self._depth -= 1

    def _read_part(self) -> str:
        token = self._token
        if token.lower == "*":
            self._fail("a star is not allowed", hint="name the columns")
        if token.type not in ("word", "quoted"):
            self._fail(f"expected a name after the dot, found {self._show_token()}")
        if self._next.lower == "(":
            self._fail(f"{token.text!r} cannot be called after a dot")
        self.identifiers.add(self._at)
        self._at += 1
        return token.name


class TypeGrammar(TokenReader):
    """Reads types: the simple ones of ``TYPES``, and arrays, maps and structs of them."""

    _halved = False
    """True when the first half of ``>>`` was read."""

    def _read_type(self) -> None:
        """Read the name of a type."""
        with self._nest():
            token = self._expect_type("word", "a type")
            name = token.lower
            if name in ("array", "map", "struct"):
                self._read_angle("<")
                self._read_inner_types(name)
                self._read_angle(">")
            elif name not in TYPES:
                self._at -= 1
                self._fail(f"type {token.text!r} is not allowed", hint=suggest(name, TYPES))
            elif name in ("decimal", "dec", "numeric") and self._take("("):
                self._expect_type("number", "the precision")
                if self._take(","):
                    self._expect_type("number", "the scale")
                self._expect(")")

    def _read_inner_types(self, name: str) -> None:
        if name == "struct":
            self._read_field()
            while self._take(","):
                self._read_field()
            return
        self._read_type()
        if name == "map":
            self._expect(",")
            self._read_type()

    def _read_field(self) -> None:
        self._read_part()
        self._expect(":")
        self._read_type()

    def _read_angle(self, wanted: str) -> None:
        """Step over ``<`` or ``>``; two closing ones are cut as one operator, which is left after its first half."""
        if wanted == ">" and self._token.lower == ">>":
            self._at += self._halved
            self._halved = not self._halved
            return
        self._expect(wanted)
