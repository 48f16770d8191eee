"""What an expression compares with what, where comparing is all that it does.

    o.n > 5 and (o.kind in ('a', 'b') or o.day is null)    ->    {o.n, number}, {o.kind, text}, {o.day}
    cast(o.text as int) > 5                                ->    None: it does something else

Values of one type are compared without a cast, and so such an expression cannot fail on any row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from enrich.expressions.functions import split_words
from enrich.expressions.lexer import Token

Operand = tuple[str, ...] | str
"""A path, or what a literal is: ``number``, ``string``, ``boolean``, ``date`` or another type as Spark writes it."""

_OPERATORS = split_words("= == != <> < <= > >= <=> in ( ) , between is distinct from not ! null unknown")
_ENDS = split_words("and or")
_TYPED = split_words("date timestamp timestamp_ntz timestamp_ltz")
_SHORT_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def list_comparisons(tokens: Sequence[Token], identifiers: Collection[int]) -> tuple[frozenset[Operand], ...] | None:
    """Return the operands of each comparison, as far as casts among them are concerned; None for other expressions.

    Args:
        tokens: The tokens of an expression that the grammar has accepted, without the end.
        identifiers: The places of those that are parts of names.
    """
    found: list[set[Operand]] = [set()]
    betweens, at = 0, 0
    while at < len(tokens):
        token, word = tokens[at], tokens[at].lower
        if at in identifiers:
            path = [token.name]
            while at + 2 < len(tokens) and tokens[at + 1].lower == "." and at + 2 in identifiers:
                at += 2
                path.append(tokens[at].name)
            found[-1].add(tuple(path))
        elif literal := _read_literal(tokens, at):
            found[-1].add(literal)
            at += word in _TYPED
        elif word == "between":
            betweens += 1
        elif word in _ENDS and not (word == "and" and betweens):
            found.append(set())
        elif word == "and":
            betweens -= 1
        elif word not in _OPERATORS:
            return None
        at += 1
    return tuple(frozenset(each) for each in found)


def _read_literal(tokens: Sequence[Token], at: int) -> Operand | None:
    """Return what the literal at a place is; None where there is none, or one of which only Spark knows the type."""
    token = tokens[at]
    if token.type == "number":
        return "number" if _SHORT_NUMBER.fullmatch(token.text) else None
    if token.type == "string":
        return None if token.text[0] in "xX" else "string"
    if token.lower in ("true", "false"):
        return "boolean"
    is_typed = token.lower in _TYPED and at + 1 < len(tokens) and tokens[at + 1].type == "string"
    return token.lower.replace("_ltz", "") if is_typed else None
