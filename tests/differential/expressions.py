"""Expressions and joins that the worlds share, each in Spark SQL, in Python and in DuckDB."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from differential.spec import Expr, Join, Scope, col

TEXT, INT = pa.string(), pa.int32()


def fk(table: str, how: str, *on: Expr) -> Join:
    return Join(table, "foreign_key", how, on)


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


def coalesce(path: str, other: str, type_: pa.DataType) -> Expr:
    first, second = col(path), col(other)
    return Expr(f"coalesce({path}, {other})", lambda s: second.fn(s) if first.fn(s) is None else first.fn(s), type_)


def above(path: str, bound: int) -> Expr:
    inner = col(path)
    return Expr(f"{path} > {bound}", lambda s: None if inner.fn(s) is None else inner.fn(s) > bound)
