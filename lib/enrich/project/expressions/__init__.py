"""Read and check expressions in job files and conditions in suites, and find their columns, without a JVM.

Spark gets the original text, so that is what is checked: cut by ``lexer``, read by sqlglot against the allow-lists in
``reading`` and ``functions``, and guarded against the time of the run here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from enrich.base.words import suggest
from enrich.project.expressions.functions import FUNCTIONS as FUNCTIONS
from enrich.project.expressions.functions import GROUPS, RESULTS, explain_function, split_words
from enrich.project.expressions.lexer import ExpressionError as ExpressionError
from enrich.project.expressions.lexer import Token, locate, tokenize
from enrich.project.expressions.reading import COMPARISONS, PREDICATES, NameResolver, Reading, list_nodes

if TYPE_CHECKING:
    from sqlglot import exp

# Functions that Spark calls without parentheses.
_CONSTANTS = split_words("current_date current_time current_timestamp current_user localtimestamp session_user user")


@dataclass(frozen=True)
class Expression:
    """A checked expression."""

    text: str  # as written; the only form that is ever run
    # The same with white space, case of keywords and functions, and backticks made equal; for comparing definitions.
    canonical: str
    # Every reference: (alias, column, field…), ("key",), ("key", column), or (alias,) for a list.
    paths: frozenset[tuple[str, ...]]
    is_path: bool  # one dotted reference without function, operator or subscript


@dataclass(frozen=True)
class Scope:
    """What an expression of a job may refer to."""

    aliases: frozenset[str]  # a reference names a column of one
    lists: frozenset[str] = frozenset()  # may stand alone
    key: bool = False  # the coalesced one of table joins

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
            hint = explain_constant(parts) or suggest(first, self.reserved, otherwise)
            raise ExpressionError(f"unknown name {first!r} {where} of the expression", hint=hint)
        if len(parts) == 1 and first not in self.lists:
            hint = f"name a column of it: {first}.column"
            raise ExpressionError(f"{first!r} {where} of the expression is a whole source", hint=hint)
        return parts


@dataclass(frozen=True)
class _Columns:
    """The columns of one table, as bare names."""

    reserved: frozenset[str]
    is_open: bool = False  # nobody knows the columns yet

    def resolve(self, parts: tuple[str, ...], where: str) -> tuple[str, ...]:
        if parts[0] not in self.reserved and not (self.is_open and explain_constant(parts) is None):
            hint = explain_constant(parts) or suggest(parts[0], self.reserved, "")
            raise ExpressionError(f"unknown column {parts[0]!r} {where} of the condition", hint=hint)
        return parts


def fold_path(path: Sequence[str]) -> tuple[str, ...]:
    """Return a path as Spark compares it: names of columns and fields without case."""
    return path[0], *(part.lower() for part in path[1:])


def explain_constant(parts: tuple[str, ...]) -> str | None:
    """Return what a function is that Spark calls without parentheses (``current_date``); None for other names."""
    known = explain_function(parts[0]) if len(parts) == 1 and parts[0].lower() in _CONSTANTS else None
    return None if known is None else f"as a function of Spark, it {known[0]}; {known[1]}"


def parse_expression(text: str, scope: NameResolver) -> Expression:
    """Check a Spark SQL scalar expression over the names in ``scope``.

    One that is not provably a single harmless one is an ExpressionError, which says where, and what to write instead.
    """
    reading = read_tokens(tokenize(text), scope)
    tokens = reading.tokens[:-1]
    # Joined by single blanks: own work, as a definition must not change with another release of a parser.
    alike = {"==": "=", "<>": "!="}
    words = [token.text if token.type == "string" else alike.get(token.text, token.text.lower()) for token in tokens]
    for at in reading.names:
        words[at] = "`" + tokens[at].name.replace("`", "``") + "`"
    is_path = type(reading.tree).__name__ == "Column"
    return Expression(text, " ".join(words), frozenset(reading.columns.values()), is_path)


def read_tokens(tokens: tuple[Token, ...], scope: NameResolver) -> Reading:
    """Read tokens as one expression, or raise, as `parse_expression` does."""
    reading = Reading(tokens, scope)
    _check_clock(reading)
    return reading


def check_condition(text: str, columns: Collection[str] | None) -> Expression:
    """Check a condition over the bare columns of a table, None where nobody knows them, as `parse_expression` does."""
    return parse_expression(text, _Columns(frozenset(columns or ()), is_open=columns is None))


# What a part of an expression is; of several parts together, the greatest.
_FIXED = 0  # no column, and no text but literals, which the lexer has checked
_BYTES = 1  # the same with a binary literal, which becomes a text when it is cast
_BUILT = 2  # a text, or something that holds one, which is put together although no column is read
_OPEN = 3  # reads a column or a lambda variable: never the clock

_TEXTS = f"{GROUPS['Text']} {GROUPS['JSON and variants']} array_join conv date_format from_unixtime reverse str_to_map"
# Functions that may put a word together.
_BUILDERS = frozenset(name for name in _TEXTS.split() if RESULTS[name] not in ("int", "boolean")) - split_words(
    "char chr soundex space to_number try_to_number"
)
_MOMENTS = split_words("date timestamp timestamp_ltz timestamp_ntz")
# What may cast an operand to a date or a timestamp, or compare it with one.
_CASTING = COMPARISONS | split_words("Add Sub In Between Case If")
_CASTING_CALLS = split_words(
    f"{GROUPS['Conditions']} {GROUPS['Dates and times']} array date decode map sequence timestamp try_add try_subtract"
)
# Bytes become readable in these, or in a part of them, when they are cast.
_CARRIERS = split_words("string variant array map struct")


def _check_clock(reading: Reading) -> None:
    """Refuse a text that Spark can compute before it sees a row where it might be cast to a moment.

    Where such a text is cast to a date or a timestamp, openly or because it stands beside one, and is ``now``,
    ``today``, ``tomorrow`` or ``yesterday``, Spark puts the time of the run there (its optimizer's rule
    ``SpecialDatetimeValues``). It never does so with a column's value. The lexer refuses such literals.
    """
    kinds: dict[int, int] = {}
    for node in list_nodes(reading.tree):
        parts = [kinds[id(each)] for each in node.iter_expressions()]
        if _BUILT in _list_cast(reading, node, parts):
            where = locate(reading.tokens[reading.start(node)].start)
            raise ExpressionError(
                f"a text {where} of the expression is put together without a column; beside a date Spark might read it"
                " as the time of the run",
                hint="write the whole text in quotes",
            )
        kinds[id(node)] = _find_kind(reading, node, parts)


def _list_cast(reading: Reading, node: exp.Expr, parts: list[int]) -> list[int]:
    """Return which parts of a node Spark might cast to a moment."""
    name = type(node).__name__
    if (wanted := reading.cast_to(node)) is not None:
        return parts[:1] if wanted.split()[0].lower() in _MOMENTS else []
    if name == "Anonymous":
        return parts if reading.function(node) in _CASTING_CALLS else []
    if name == "DPipe" and parts[0] != _OPEN and type(after := node.expression).__name__ in ("Add", "Sub"):
        while type(after).__name__ in ("Add", "Sub"):  # Spark joins first in a || b - c
            after = after.this
        return [] if any(type(each).__name__ == "Column" for each in after.walk()) else [_BUILT]
    return parts[1:] if name == "Bracket" else parts if name in _CASTING else []


def _find_kind(reading: Reading, node: exp.Expr, parts: list[int]) -> int:
    name, kind = type(node).__name__, max(parts, default=_FIXED)
    if (wanted := reading.cast_to(node)) is not None:
        if parts[0] == _BYTES and wanted.split()[0].lower() in _CARRIERS:
            return _BUILT
        keeps = parts[0] == _OPEN or wanted.split()[0].lower() in (*_CARRIERS, "binary")
        return parts[0] if keeps else _FIXED
    if name in ("Column", "Identifier"):
        kind = _OPEN
    elif name == "Literal":
        kind = _BYTES if reading.token(node).text[:2].lower() in ("x'", 'x"') else _FIXED
    elif name == "Dot":
        kind = parts[0]
    elif name == "DPipe":
        kind = max(kind, _BUILT)
    elif name == "Anonymous":
        function = reading.function(node)
        builds = function in _BUILDERS or (function == "string" and kind == _BYTES)
        # A type's name is known without a row; unhex gives what a binary literal is.
        least = _BUILT if builds else _BYTES if function == "unhex" else _FIXED
        kind = _FIXED if function == "typeof" else max(kind, least)
    elif name in COMPARISONS | PREDICATES and kind != _OPEN:
        kind = _FIXED
    return kind
