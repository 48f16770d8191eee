"""Read and check expressions in job files and conditions in suites, and find their columns, without a JVM.

Spark gets the original text, so the text itself is what is checked: cut by ``lexer``, read by sqlglot against the
allow-lists in ``reading`` and ``functions``, and guarded against the time of the run here.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NoReturn

from enrich.base.errors import suggest
from enrich.project.expressions.functions import FUNCTIONS, GROUPS, explain_function, split_words
from enrich.project.expressions.lexer import ExpressionError, locate, tokenize
from enrich.project.expressions.reading import COMPARISONS, MATCHES, TYPED, NameResolver, Reading, list_nodes, place_of

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["FUNCTIONS", "Expression", "ExpressionError", "Operand", "Scope", "check_condition", "parse_expression"]


_WITHOUT_PARENTHESES = frozenset(
    {"current_date", "current_time", "current_timestamp", "current_user", "localtimestamp", "session_user", "user"}
)
Operand = tuple[str, ...] | str
"""A path, or what a literal is: ``number``, ``string``, ``boolean``, ``date`` or another type as Spark writes it."""

_COMPARING = COMPARISONS | split_words("And Or Not In Between Is Paren Column Identifier Literal")
_SHORT_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


@dataclass(frozen=True)
class Expression:
    """A checked expression.

    Attributes:
        text: As written; the only form that is ever run.
        canonical: The same with white space, case of keywords and functions, and backticks made equal; for comparing
            definitions.
        paths: Every column reference: ``(alias, column, field…)``, ``("key",)``, ``("key", column)``, or ``(alias,)``
            for a list.
        is_path: Whether the whole expression is one dotted reference without function, operator or subscript.
        comparisons: What is compared with what, where comparing is all that it does; None otherwise.
    """

    text: str
    canonical: str
    paths: frozenset[tuple[str, ...]]
    is_path: bool
    comparisons: tuple[frozenset[Operand], ...] | None = None


@dataclass(frozen=True)
class Scope:
    """What an expression of a job may refer to.

    Attributes:
        aliases: Aliases of the sources in scope; a reference names a column of one.
        lists: Those that are lists, which may stand alone.
        key: Whether the coalesced ``key`` of table joins exists.
    """

    aliases: frozenset[str]
    lists: frozenset[str] = frozenset()
    key: bool = False

    @property
    def reserved(self) -> Collection[str]:
        """Names that no lambda variable may hide."""
        return self.aliases | self.lists | ({"key"} if self.key else set())

    def resolve(self, parts: tuple[str, ...], where: str) -> tuple[str, ...]:
        """Return ``parts`` when it refers to something in scope."""
        first = parts[0]
        if first == "key" and self.key:
            return parts
        if first not in self.reserved:
            otherwise = f"known here: {', '.join(sorted(self.reserved))}"
            if first.lower() == "key" and len(parts) == 1:
                otherwise = "key exists only with table joins"
            elif len(parts) == 1:
                otherwise = f"write alias.column; {otherwise}"
            hint = _explain_constant(parts) or suggest(first, self.reserved, otherwise)
            raise ExpressionError(f"unknown name {first!r} {where} of the expression", hint=hint)
        if len(parts) == 1 and first not in self.lists:
            raise ExpressionError(
                f"{first!r} {where} of the expression is a whole source", hint=f"name a column of it: {first}.column"
            )
        return parts


@dataclass(frozen=True)
class _Columns:
    """The columns of one table, as bare names."""

    reserved: frozenset[str]

    def resolve(self, parts: tuple[str, ...], where: str) -> tuple[str, ...]:
        if parts[0] in self.reserved:
            return parts
        raise ExpressionError(
            f"unknown column {parts[0]!r} {where} of the condition",
            hint=_explain_constant(parts) or suggest(parts[0], self.reserved, ""),
        )


def _explain_constant(parts: tuple[str, ...]) -> str | None:
    """Return what a function is that Spark calls without parentheses (``current_date``); None for other names."""
    known = explain_function(parts[0]) if len(parts) == 1 and parts[0].lower() in _WITHOUT_PARENTHESES else None
    return None if known is None else f"as a function of Spark, it {known[0]}; {known[1]}"


def parse_expression(text: str, scope: NameResolver) -> Expression:
    """Check an expression of a job's ``on``, ``elements``, ``select`` or ``where``.

    Args:
        text: A Spark SQL scalar expression over ``alias.column``, at most 10 kB.
        scope: What it may refer to.

    Raises:
        ExpressionError: When it is not provably a single harmless scalar expression over names in scope; says
            where, and what to write instead.
    """
    reading = Reading(tokenize(text), scope)
    _check_clock(reading)
    tokens = reading.tokens[:-1]
    # Joined by single blanks: own work, as a definition must not change with another release of a parser.
    alike = {"==": "=", "<>": "!="}
    words = [token.text if token.type == "string" else alike.get(token.text, token.text.lower()) for token in tokens]
    for at in reading.names:
        words[at] = "`" + tokens[at].name.replace("`", "``") + "`"
    is_path = type(reading.tree).__name__ == "Column"
    return Expression(text, " ".join(words), frozenset(reading.columns.values()), is_path, _list_comparisons(reading))


def check_condition(text: str, columns: Collection[str]) -> Expression:
    """Check a ``row_condition`` of kind ``spark`` over bare columns of the target, as `parse_expression` does."""
    return parse_expression(text, _Columns(frozenset(columns)))


def _list_comparisons(reading: Reading) -> tuple[frozenset[Operand], ...] | None:
    """Return the operands of each comparison, as far as casts among them are concerned; None for other expressions.

        o.n > 5 and (o.kind in ('a', 'b') or o.day is null)    ->    {o.n, number}, {o.kind, text}, {o.day}
        cast(o.text as int) > 5                                ->    None: it does something else

    Values of one type are compared without a cast, and so such an expression cannot fail on any row.
    """
    for node in reading.tree.walk():
        is_group = type(node).__name__ == "Anonymous" and reading.function(node) == "("
        if not is_group and type(node).__name__ not in _COMPARING:
            return None
    found = []
    waiting = [reading.tree]
    while waiting:
        node = waiting.pop()
        if type(node).__name__ in ("And", "Or", "Not", "Paren", "Anonymous") and len(node.expressions) < 2:
            waiting += node.iter_expressions()
            continue
        operands = set[Operand | None]()
        for leaf in node.walk():
            if type(leaf).__name__ == "Column":
                operands.add(reading.columns[place_of(leaf)])
            elif type(leaf).__name__ == "Literal" and reading.token(leaf).lower not in ("null", "unknown"):
                operands.add(_name_literal(reading, place_of(leaf)))
        if None in operands:
            return None
        found.append(frozenset(each for each in operands if each is not None))
    return tuple(found)


def _name_literal(reading: Reading, place: int) -> Operand | None:
    """Return what a literal is; None for one of which only Spark knows the type."""
    token = reading.tokens[place]
    if token.type == "number":
        return "number" if _SHORT_NUMBER.fullmatch(token.text) else None
    if token.type == "string":
        return None if token.text[0] in "xX" else "string"
    known = {"true": "boolean", "false": "boolean", **{each: each.replace("_ltz", "") for each in TYPED}}
    return known.get(token.lower)


# --- the clock


class _Kind(IntEnum):
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


def _check_clock(reading: Reading) -> None:
    """Refuse an expression whose value Spark could take from the clock.

    Where a text that Spark can compute beforehand is cast to a date or a timestamp, openly or because it stands beside
    one, and is ``now``, ``today``, ``tomorrow`` or ``yesterday``, Spark puts the time of the run there (its optimizer's
    rule ``SpecialDatetimeValues``). It never does so with a column's value. The lexer refuses such literals; this finds
    texts that no literal shows, where Spark might cast them.

    Raises:
        ExpressionError: A text that is put together without a column stands where it may be read as a moment.
    """
    kinds: dict[int, _Kind] = {}
    for node in list_nodes(reading.tree):
        parts = [kinds[id(each)] for each in node.iter_expressions()]
        kinds[id(node)] = _find_kind(reading, node, parts)


def _find_kind(reading: Reading, node: exp.Expr, parts: list[_Kind]) -> _Kind:
    """Return what a node is, given what its parts are."""
    name, kind = type(node).__name__, max(parts, default=_Kind.FIXED)
    if name in ("Column", "Identifier"):
        return _Kind.OPEN
    if name == "Literal":
        token = reading.token(node)
        return _Kind.BYTES if token.type == "string" and token.text[0] in "xX" else _Kind.FIXED
    if (wanted := reading.cast_to(node)) is not None:
        return _cast(reading, node, wanted, parts[0])
    if name == "Anonymous":
        return _find_call(reading, node, parts)
    if name == "Dot":
        return parts[0]
    checked = {"Bracket": parts[1:], "Case": parts, "If": parts}.get(name, parts if name in _COMPARED else [])
    if _Kind.BUILT in checked:
        _refuse(reading, node)
    if name == "DPipe":
        return _find_pipe(reading, node, parts)
    if name in _CONDITIONS:
        return _Kind.OPEN if kind is _Kind.OPEN else _Kind.FIXED
    return kind


def _find_pipe(reading: Reading, node: exp.Expr, parts: list[_Kind]) -> _Kind:
    """Return what ``a || b`` is. In ``a || b - c`` Spark joins a and b first, sqlglot b and c."""
    together = max(*parts, _Kind.BUILT)
    if together is _Kind.BUILT or type(node.expression).__name__ not in ("Add", "Sub"):
        return together
    first = node.expression
    while type(first).__name__ in ("Add", "Sub"):
        first = first.this
    if parts[0] is not _Kind.OPEN and not any(type(each).__name__ == "Column" for each in first.walk()):
        _refuse(reading, node)
    return together


def _find_call(reading: Reading, node: exp.Expr, parts: list[_Kind]) -> _Kind:
    """Return what the call of a function is, given its arguments."""
    function, kind = reading.function(node), max(parts, default=_Kind.FIXED)
    if _Kind.BUILT in parts and function in _CASTING:
        _refuse(reading, node)
    if function == "typeof":  # a type's name, known without a row
        return _Kind.FIXED
    if function == "unhex":  # as a binary literal is
        return max(kind, _Kind.BYTES)
    if function == "string" and kind is _Kind.BYTES:
        return _Kind.BUILT
    return max(kind, _Kind.BUILT) if function in _BUILDERS else kind


def _cast(reading: Reading, node: exp.Expr, wanted: str, operand: _Kind) -> _Kind:
    """Return what a cast to the type ``wanted`` is."""
    wanted = wanted.split(maxsplit=1)[0].lower()
    if operand is _Kind.OPEN:
        return operand
    if wanted in _MOMENTS:
        if operand is _Kind.BUILT:
            _refuse(reading, node)
        return _Kind.FIXED
    if wanted not in _CARRIERS:
        return _Kind.FIXED
    # An array, a struct or a map may have texts in it, whose bytes are read here.
    return _Kind.BUILT if operand is _Kind.BYTES and wanted != "binary" else operand


def _refuse(reading: Reading, node: exp.Expr) -> NoReturn:
    where = locate(reading.tokens[reading.start(node)].start)
    raise ExpressionError(
        f"a text {where} of the expression is put together without a column; beside a date Spark might read it as the"
        " time of the run",
        hint="write the whole text in quotes",
    )
