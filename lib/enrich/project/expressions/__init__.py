"""Read and check expressions in job files and conditions in suites, and find their columns, without a JVM.

Spark gets the original text, so that is what is checked: cut by ``lexer``, read by sqlglot against the allow-lists in
``reading`` and ``functions``, and guarded against the time of the run here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from enrich.base.errors import suggest
from enrich.project.expressions.functions import FUNCTIONS, GROUPS, RESULTS, explain_function, split_words
from enrich.project.expressions.lexer import ExpressionError, locate, tokenize
from enrich.project.expressions.reading import NameResolver, Reading, list_nodes

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["FUNCTIONS", "Expression", "ExpressionError", "Scope", "check_condition", "parse_expression"]

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
        if parts[0] not in self.reserved:
            hint = _explain_constant(parts) or suggest(parts[0], self.reserved, "")
            raise ExpressionError(f"unknown column {parts[0]!r} {where} of the condition", hint=hint)
        return parts


def _explain_constant(parts: tuple[str, ...]) -> str | None:
    """Return what a function is that Spark calls without parentheses (``current_date``); None for other names."""
    known = explain_function(parts[0]) if len(parts) == 1 and parts[0].lower() in _CONSTANTS else None
    return None if known is None else f"as a function of Spark, it {known[0]}; {known[1]}"


def parse_expression(text: str, scope: NameResolver) -> Expression:
    """Check a Spark SQL scalar expression over the names in ``scope``.

    Raises:
        ExpressionError: When it is not provably a single harmless one; says where, and what to write instead.
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
    return Expression(text, " ".join(words), frozenset(reading.columns.values()), is_path)


def check_condition(text: str, columns: Collection[str]) -> Expression:
    """Check a ``row_condition`` of kind ``spark`` over bare columns of the target, as `parse_expression` does."""
    return parse_expression(text, _Columns(frozenset(columns)))


_TEXTS = f"{GROUPS['Text']} {GROUPS['JSON and variants']} array_join conv date_format from_unixtime reverse str_to_map"
# Functions that may put a word together, and those of them that cast no argument to a date.
_BUILDERS = frozenset(name for name in _TEXTS.split() if RESULTS[name] not in ("int", "boolean")) - split_words(
    "char chr soundex space to_number try_to_number"
)
_KEEPERS = _BUILDERS - split_words("date_format decode from_unixtime")
# Bytes become readable in these, or in a part of them, when they are cast.
_CARRIERS = split_words("string variant array map struct")


def _check_clock(reading: Reading) -> None:
    """Refuse a text that Spark can compute before it sees a row, unless another text is made of it.

    Where such a text is cast to a date or a timestamp, openly or because it stands beside one, and is ``now``,
    ``today``, ``tomorrow`` or ``yesterday``, Spark puts the time of the run there (its optimizer's rule
    ``SpecialDatetimeValues``). It never does so with a column's value. The lexer refuses such literals.
    """
    for node in list_nodes(reading.tree):
        parts = [node]
        if type(node).__name__ == "DPipe" and type(after := node.expression).__name__ in ("Add", "Sub"):
            # Spark joins first in a || b - c.
            while type(after).__name__ in ("Add", "Sub"):
                after = after.this
            parts = [node.this, after]
        elif not _builds_text(reading, node) or _keeps_text(reading, node.parent):
            continue
        if not any(_reads_row(reading, part) for part in parts):
            where = locate(reading.tokens[reading.start(node)].start)
            raise ExpressionError(
                f"a text {where} of the expression is put together without a column; beside a date Spark might read it"
                " as the time of the run",
                hint="write the whole text in quotes",
            )


def _keeps_text(reading: Reading, node: exp.Expr | None) -> bool:
    """Return whether a node makes another text of its parts, which is judged itself."""
    if node is None or type(node).__name__ != "Anonymous":
        return type(node).__name__ == "DPipe"
    return reading.function(node) in _KEEPERS


def _builds_text(reading: Reading, node: exp.Expr) -> bool:
    wanted, name = reading.cast_to(node), type(node).__name__
    function = reading.function(node) if name == "Anonymous" else ""
    if function == "string" or (wanted is not None and wanted.split()[0].lower() in _CARRIERS):
        return any(_holds_bytes(reading, each) for each in node.walk())
    return name == "DPipe" or function in _BUILDERS


def _holds_bytes(reading: Reading, node: exp.Expr) -> bool:
    if type(node).__name__ == "Anonymous":
        return reading.function(node) == "unhex"
    return type(node).__name__ == "Literal" and reading.token(node).text[:2].lower() in ("x'", 'x"')


def _reads_row(reading: Reading, node: exp.Expr) -> bool:
    """Return whether a node reads a column or a lambda variable; a type's name is known without a row."""
    found = node.walk(prune=lambda each: type(each).__name__ == "Anonymous" and reading.function(each) == "typeof")
    return any(
        type(each).__name__ == "Identifier" and (type(each.parent).__name__ != "Dot" or each.arg_key != "expression")
        for each in found
    )
