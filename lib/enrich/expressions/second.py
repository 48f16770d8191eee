"""A second reader, sqlglot: it must find no query and no column that the grammar has not found."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from enrich.expressions.lexer import ExpressionError

if TYPE_CHECKING:
    from sqlglot import exp


def check_again(text: str, paths: Collection[tuple[str, ...]]) -> None:
    """Parse what the grammar has accepted with sqlglot, and compare with the references that the grammar has found.

    Raises:
        ExpressionError: When the two readers disagree: better a harmless expression refused than a harmful one run.
    """
    import sqlglot  # 0.2 s
    from sqlglot import errors, exp

    try:
        tree = sqlglot.parse_one(text, dialect="spark", into=exp.Condition)
    except (errors.SqlglotError, RecursionError, LookupError, ValueError, TypeError, AttributeError) as error:
        # The last four are slips of sqlglot over calls with too few arguments, such as map(1).
        raise ExpressionError("the expression cannot be read as Spark SQL") from error
    forbidden = (exp.Query, exp.Window, exp.Star, exp.UDTF, exp.Command, exp.Placeholder, exp.Parameter, exp.Hint)
    known = {tuple(part.lower() for part in path) for path in paths}
    for node in tree.walk():
        if isinstance(node, forbidden) or node.comments:
            raise ExpressionError("the expression has a part that is not a scalar expression")
        if isinstance(node, exp.Column) and _split_parts(node) not in known:
            raise ExpressionError("the expression can be read in two ways", hint="put names into backticks")


def _split_parts(column: exp.Column) -> tuple[str, ...]:
    from sqlglot import exp

    parts = [part.name for part in column.parts]
    node: exp.Expression = column
    while isinstance(node.parent, exp.Dot) and node.parent.this is node:
        node = node.parent
        parts.append(node.expression.name)
    return tuple(part.lower() for part in parts)
