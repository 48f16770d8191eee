"""Expressions in job files and conditions in suites: read, checked and referred to their columns, without a JVM.

Spark gets the original text, so the text itself is what is checked: cut by `lexer`, read by `grammar` against the
allow-list in `functions`, and read once more by sqlglot (`second`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from enrich.base.errors import suggest
from enrich.expressions.comparisons import Operand, list_comparisons
from enrich.expressions.functions import FUNCTIONS
from enrich.expressions.grammar import Grammar, NameResolver
from enrich.expressions.lexer import ExpressionError, Token, tokenize
from enrich.expressions.refusals import explain_function
from enrich.expressions.second import check_again

__all__ = ["FUNCTIONS", "Expression", "ExpressionError", "Scope", "check_condition", "parse_expression"]


_WITHOUT_PARENTHESES = frozenset(
    {"current_date", "current_time", "current_timestamp", "current_user", "localtimestamp", "session_user", "user"}
)


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
    tokens = tokenize(text)
    grammar = Grammar(tokens, scope)
    grammar.read()
    check_again(_with_backticks(text, tokens, grammar.identifiers), grammar.paths)
    # A path is nothing but names and the dots between them; constants such as null are no names.
    is_path = 0 in grammar.identifiers and all(
        at in grammar.identifiers or token.lower == "." for at, token in enumerate(tokens[:-1])
    )
    # Joined by single blanks: own work, as a definition must not change with another release of a parser.
    canonical = " ".join(_write_token(token, at in grammar.identifiers) for at, token in enumerate(tokens[:-1]))
    comparisons = list_comparisons(tokens[:-1], grammar.identifiers)
    return Expression(text, canonical, frozenset(grammar.paths), is_path, comparisons)


def check_condition(text: str, columns: Collection[str]) -> Expression:
    """Check a ``row_condition`` of kind ``spark`` over bare columns of the target, as `parse_expression` does."""
    return parse_expression(text, _Columns(frozenset(columns)))


def _with_backticks(text: str, tokens: tuple[Token, ...], identifiers: Collection[int]) -> str:
    """Return ``text`` with every name in backticks, since sqlglot takes more words for keywords than Spark does."""
    pieces, end = [], 0
    for at in sorted(identifiers):
        token = tokens[at]
        pieces += [text[end : token.start], _quote(token.name)]
        end = token.start + len(token.text)
    return "".join([*pieces, text[end:]])


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _write_token(token: Token, identifier: bool) -> str:
    if identifier:
        return _quote(token.name)
    if token.type == "string":
        return token.text
    return {"==": "=", "<>": "!="}.get(token.text, token.text.lower())
