"""Names of types, as casts have them."""

from __future__ import annotations

from difflib import get_close_matches

from enrich.expressions.cursor import Cursor
from enrich.expressions.functions import TYPES
from enrich.expressions.lexer import Token


class TypeGrammar(Cursor):
    """Reads types: the simple ones of ``TYPES``, and arrays, maps and structs of them."""

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        super().__init__(tokens)
        self._halved = False

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
