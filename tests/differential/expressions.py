"""Expressions of the worlds' jobs, each in Spark SQL, in Python and in DuckDB.

``build`` makes one from JSON, so that random jobs can be kept in files: a text is a path, anything else a list that
begins with the name of one of ``_MAKERS``: ``["coalesce", "lines.c", ["text", "de"]]``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from differential.columns import NUMBER_LENGTH, TYPES
from differential.spec import Expr, Join, Scope, col

TEXT, INT = pa.string(), pa.int32()
Tree = str | list[Any]


def build(tree: Tree) -> Expr:
    """Return the expression that ``tree`` describes."""
    if isinstance(tree, str):
        return col(tree)
    name, *parts = tree
    return replace(_MAKERS[name](*parts), tree=tree)


def fk(table: str, how: str, *on: Expr) -> Join:
    return Join(table, "foreign_key", how, on)


def as_of(table: str, how: str, at: Expr, *on: Expr, **ends: Any) -> Join:
    """Join versions; ``ends``: ``valid_to``, ``inclusive`` and ``gone``."""
    return Join(table, "as_of", how, on, at=at, **ends)


def cols(*paths: str) -> dict[str, Expr]:
    """Select columns: ``name=alias.column``."""
    return {name: col(path) for name, path in (p.split("=") for p in paths)}


def upper(path: str) -> Expr:
    inner = col(path)

    def value(scope: Scope) -> Any:
        found = inner.fn(scope)
        return None if found is None else found.upper()

    return Expr(f"upper({path})", value, TEXT)


def marked(path: str) -> Expr:
    inner = col(path)
    return Expr(
        f"concat({path}, '!')", lambda s: None if inner.fn(s) is None else f"{inner.fn(s)}!", TEXT, f"{path} || '!'"
    )


def above(path: Tree, bound: int) -> Expr:
    inner = build(path)
    return _of("{} > " + str(bound), inner, fn=lambda cell: None if cell is None else cell > bound)


def coalesce(*trees: Tree) -> Expr:
    """The first that is not null; the type is that of the first one."""
    parts = [build(tree) for tree in trees]

    def value(scope: Scope) -> Any:
        return next((found for found in (part.fn(scope) for part in parts) if found is not None), None)

    texts = (", ".join(part.text for part in parts), ", ".join(part.sql for part in parts))
    return Expr(f"coalesce({texts[0]})", value, None, f"coalesce({texts[1]})", like=parts[0])


def _text(constant: str) -> Expr:
    return Expr(f"'{constant}'", lambda _: constant, TEXT)


def _number(constant: int) -> Expr:
    return Expr(str(constant), lambda _: constant, INT)


def _own(tree: Tree, tag: str) -> Expr:
    """The key ``tag`` of the history that the key ``tree`` belongs to: as near to a constant as one history gets."""
    return _of(
        f"concat(substr({{}}, 1, {NUMBER_LENGTH}), '{tag}')",
        build(tree),
        fn=lambda cell: None if cell is None else cell[:NUMBER_LENGTH] + tag,
        type_=TEXT,
        duck=f"(substr({{}}, 1, {NUMBER_LENGTH}) || '{tag}')",
    )


def _is_null(tree: Tree) -> Expr:
    return _of("{} IS NULL", build(tree), fn=lambda cell: cell is None)


def _is_not_null(tree: Tree) -> Expr:
    return _of("{} IS NOT NULL", build(tree), fn=lambda cell: cell is not None)


def _if(condition: Tree, then: Tree, otherwise: Tree) -> Expr:
    parts = [build(tree) for tree in (condition, then, otherwise)]

    def value(scope: Scope) -> Any:
        return parts[1].fn(scope) if parts[0].fn(scope) is True else parts[2].fn(scope)

    text = "CASE WHEN {} THEN {} ELSE {} END"
    spark, duck = text.format(*[part.text for part in parts]), text.format(*[part.sql for part in parts])
    return Expr(spark, value, None, duck, like=parts[1])


def _same(tree: Tree, other: Tree) -> Expr:
    """Whether two cells are the same, for which null is one."""
    first, second = build(tree), build(other)
    return Expr(
        f"{first.text} <=> {second.text}",
        lambda scope: first.fn(scope) == second.fn(scope),
        TYPES["bool"],
        f"{first.sql} IS NOT DISTINCT FROM {second.sql}",
    )


def _array(*trees: Tree) -> Expr:
    """An array of text keys."""
    parts = [build(tree) for tree in trees]
    texts = (", ".join(part.text for part in parts), ", ".join(part.sql for part in parts))
    return Expr(f"array({texts[0]})", lambda s: [part.fn(s) for part in parts], TYPES["keys"], f"[{texts[1]}]")


def _ratio(tree: Tree, divisor: Tree) -> Expr:
    """A division, which fails by zero: what no engine may evaluate for rows that a condition keeps out."""
    parts = build(tree), build(divisor)

    def value(scope: Scope) -> Any:
        cells = [part.fn(scope) for part in parts]
        return None if None in cells else cells[0] / cells[1]

    return Expr(f"{parts[0].text} / {parts[1].text}", value, pa.float64(), f"{parts[0].sql} / {parts[1].sql}")


def _both(first: Tree, second: Tree) -> Expr:
    """Two conditions, of which the second is not evaluated where the first is false."""
    parts = build(first), build(second)

    def value(scope: Scope) -> bool | None:
        guard = parts[0].fn(scope)
        if guard is False:
            return False
        other = parts[1].fn(scope)
        return False if other is False else None if None in (guard, other) else True

    return Expr(f"({parts[0].text} AND {parts[1].text})", value, None, f"({parts[0].sql} AND {parts[1].sql})")


def _only_where(condition: Tree, tree: Tree) -> Expr:
    """``tree`` where the condition holds; elsewhere evaluating it fails."""
    where, inner = build(condition), build(tree)

    def value(scope: Scope) -> Any:
        assert where.fn(scope) is True, f"evaluated where not {where.text}"
        return inner.fn(scope)

    text = "CASE WHEN 1 / (CASE WHEN {} THEN 1 ELSE 0 END) > 0 THEN {} END"
    return Expr(text.format(where.text, inner.text), value, None, text.format(where.sql, inner.sql), like=inner)


def _of(
    text: str, part: Expr, *, fn: Callable[[Any], Any], type_: pa.DataType | None = None, duck: str | None = None
) -> Expr:
    """Return an expression over one part: texts with a place for the part's, and a function over the part's cell."""
    return Expr(text.format(part.text), lambda s: fn(part.fn(s)), type_, (duck or text).format(part.sql))


_MAKERS: dict[str, Callable[..., Expr]] = {
    "text": _text,
    "number": _number,
    "own": _own,
    "coalesce": coalesce,
    "if": _if,
    "above": above,
    "both": _both,
    "is_null": _is_null,
    "is_not_null": _is_not_null,
    "same": _same,
    "array": _array,
    "ratio": _ratio,
    "only_where": _only_where,
    "upper": upper,
    "marked": marked,
}
