"""Refuse expressions whose value Spark could take from the clock.

Where a text that Spark can compute beforehand is cast to a date or a timestamp, openly or because it stands beside
one, and is ``now``, ``today``, ``tomorrow`` or ``yesterday``, Spark puts the time of the run there (its optimizer's
rule ``SpecialDatetimeValues``). It never does so with a column's value. The lexer refuses such literals; this finds
texts that no literal shows, where Spark might cast them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NoReturn

from enrich.project.expressions.functions import GROUPS, split_words
from enrich.project.expressions.lexer import ExpressionError, locate
from enrich.project.expressions.reading import COMPARISONS, MATCHES, Reading, list_nodes

if TYPE_CHECKING:
    from sqlglot import exp


class Kind(IntEnum):
    """What a part of an expression is; of several parts together, the greatest."""

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
_COMPARED = COMPARISONS | split_words("Add Sub In Between")
"""Nodes that compare or join their operands, with casts where these differ."""
_CONDITIONS = COMPARISONS | MATCHES | split_words("In Between Is Escape And Or Not")


def check_clock(reading: Reading) -> None:
    """Check every part of an expression.

    Raises:
        ExpressionError: A text that is put together without a column stands where it may be read as a moment.
    """
    kinds: dict[int, Kind] = {}
    for node in list_nodes(reading.tree):
        parts = [kinds[id(each)] for each in node.iter_expressions()]
        kinds[id(node)] = _find_kind(reading, node, parts)


def _find_kind(reading: Reading, node: exp.Expr, parts: list[Kind]) -> Kind:
    """Return what a node is, given what its parts are."""
    name, kind = type(node).__name__, max(parts, default=Kind.FIXED)
    if name in ("Column", "Identifier"):
        return Kind.OPEN
    if name == "Literal":
        token = reading.token(node)
        return Kind.BYTES if token.type == "string" and token.text[0] in "xX" else Kind.FIXED
    if (wanted := reading.cast_to(node)) is not None:
        return _cast(reading, node, wanted, parts[0])
    if name == "Anonymous":
        return _find_call(reading, node, parts)
    if name == "Dot":
        return parts[0]
    checked = {"Bracket": parts[1:], "Case": parts, "If": parts}.get(name, parts if name in _COMPARED else [])
    if Kind.BUILT in checked:
        _refuse(reading, node)
    if name == "DPipe":
        return _find_pipe(reading, node, parts)
    if name in _CONDITIONS:
        return Kind.OPEN if kind is Kind.OPEN else Kind.FIXED
    return kind


def _find_pipe(reading: Reading, node: exp.Expr, parts: list[Kind]) -> Kind:
    """Return what ``a || b`` is. In ``a || b - c`` Spark joins a and b first, sqlglot b and c."""
    together = max(*parts, Kind.BUILT)
    if together is Kind.BUILT or type(node.expression).__name__ not in ("Add", "Sub"):
        return together
    first = node.expression
    while type(first).__name__ in ("Add", "Sub"):
        first = first.this
    if parts[0] is not Kind.OPEN and not any(type(each).__name__ == "Column" for each in first.walk()):
        _refuse(reading, node)
    return together


def _find_call(reading: Reading, node: exp.Expr, parts: list[Kind]) -> Kind:
    """Return what the call of a function is, given its arguments."""
    function, kind = reading.function(node), max(parts, default=Kind.FIXED)
    if Kind.BUILT in parts and function in _CASTING:
        _refuse(reading, node)
    if function == "typeof":  # a type's name, known without a row
        return Kind.FIXED
    if function == "unhex":  # as a binary literal is
        return max(kind, Kind.BYTES)
    if function == "string" and kind is Kind.BYTES:
        return Kind.BUILT
    return max(kind, Kind.BUILT) if function in _BUILDERS else kind


def _cast(reading: Reading, node: exp.Expr, wanted: str, operand: Kind) -> Kind:
    """Return what a cast to the type ``wanted`` is."""
    wanted = wanted.split(maxsplit=1)[0].lower()
    if operand is Kind.OPEN:
        return operand
    if wanted in _MOMENTS:
        if operand is Kind.BUILT:
            _refuse(reading, node)
        return Kind.FIXED
    if wanted not in _CARRIERS:
        return Kind.FIXED
    # An array, a struct or a map may have texts in it, whose bytes are read here.
    return Kind.BUILT if operand is Kind.BYTES and wanted != "binary" else operand


def _refuse(reading: Reading, node: exp.Expr) -> NoReturn:
    where = locate(reading.tokens[reading.start(node)].start)
    raise ExpressionError(
        f"a text {where} of the expression is put together without a column; beside a date Spark might read it as the"
        " time of the run",
        hint="write the whole text in quotes",
    )
