"""Names of types, as casts have them."""

from __future__ import annotations

from enrich.base.errors import suggest
from enrich.expressions.functions import TYPES
from enrich.expressions.reader import TokenReader


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
