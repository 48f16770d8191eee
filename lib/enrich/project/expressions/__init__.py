"""Read and check expressions in job files and conditions in suites, and find their columns, without a JVM.

Spark gets the original text, so the text itself is what is checked: cut by ``lexer``, read by sqlglot against the
allow-lists in ``reading`` and ``functions``, and guarded against the time of the run by ``clock``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from enrich.base.errors import suggest
from enrich.project.expressions.clock import check_clock
from enrich.project.expressions.functions import FUNCTIONS, explain_function, split_words
from enrich.project.expressions.lexer import ExpressionError, tokenize
from enrich.project.expressions.reading import COMPARISONS, TYPED, NameResolver, Reading, place_of

__all__ = ["FUNCTIONS", "Expression", "ExpressionError", "Operand", "Scope", "check_condition", "parse_expression"]


_WITHOUT_PARENTHESES = frozenset(
    {"current_date", "current_time", "current_timestamp", "current_user", "localtimestamp", "session_user", "user"}
)
Operand = tuple[str, ...] | str
"""A path, or what a literal is: ``number``, ``string``, ``boolean``, ``date`` or another type as Spark writes it."""

_COMPARING = COMPARISONS | split_words("And Or Not Paren In Between Is Paren Column Identifier Literal")
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
            raise ExpressionError(
                f"unknown name {first!r} {where} of the expression", hint=_explain_constant(parts) or self._hint(parts)
            )
        if len(parts) == 1 and first not in self.lists:
            raise ExpressionError(
                f"{first!r} {where} of the expression is a whole source", hint=f"name a column of it: {first}.column"
            )
        return parts

    def _hint(self, parts: tuple[str, ...]) -> str:
        name, length = parts[0], len(parts)
        otherwise = f"known here: {', '.join(sorted(self.reserved))}"
        if name.lower() == "key" and length == 1:
            otherwise = "key exists only with table joins"
        elif length == 1:
            otherwise = f"write alias.column; {otherwise}"
        return suggest(name, self.reserved, otherwise)


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
    check_clock(reading)
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
