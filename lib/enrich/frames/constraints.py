"""Rows that are about to be written -> which of them a table's constraints refuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.constraints import CHECK, GENERATED, LENGTH, NOT_NULL, Constraint, Demands
from enrich.base.spec import OPERATION, quote
from enrich.frames.columns import aggregate
from enrich.frames.identity import Identity

_VIOLATED = "__enrich_violated_"


def complete_rows(rows: DataFrame, table: DataFrame | None, identity: Identity, demands: Demands) -> DataFrame:
    """Return the rows that a difference writes as the table will hold them.

    Args:
        rows: The identity's columns, ``OPERATION`` and the columns that are written.
        table: The table's rows with all its columns; None where none of them stay.
        identity: How rows are told apart.
        demands: What the table fills in by itself.

    Returns:
        The identity's columns and those of ``rows`` and of ``table``.
    """
    written = {name.lower() for name in rows.columns}
    rows = rows.where(F.col(OPERATION).isin("I", "U")) if OPERATION in rows.columns else rows
    lacking = [name for name in table.columns if name.lower() not in written] if table is not None else []
    stored = [name for name in lacking if name not in demands.generated]
    if table is not None and stored:
        known = table.select(
            *[part.alias(f"{name}_of") for name, part in identity.of().items()],
            *[F.col(quote(name)).alias(f"{name}_was") for name in stored],
        )
        names = identity.names
        same = [F.col(name).eqNullSafe(F.col(f"{name}_of")) for name in names]
        kinds = {name: table.schema[name].dataType for name in stored}
        filled = [
            F.when(F.col(OPERATION) == "U", F.col(quote(f"{name}_was")))
            .otherwise(F.expr(demands.defaults.get(name) or "null").cast(kinds[name]))
            .alias(name)
            for name in stored
        ]
        rows = rows.join(known, on=same, how="left").select(*[F.col(quote(name)) for name in rows.columns], *filled)
    computed = {name: F.expr(demands.generated[name]) for name in lacking if name in demands.generated}
    return rows.withColumns(computed) if computed else rows


def fill_generated(rows: DataFrame, generated: Mapping[str, str]) -> DataFrame:
    """Return rows in which generated columns that they have are computed where they are null, if they can be."""
    for name, expression in generated.items():
        value = F.coalesce(F.col(quote(name)), F.expr(expression))
        if name in rows.columns and _can_compute(rows, value):
            rows = rows.withColumn(name, value.cast(rows.schema[name].dataType))
    return rows


def mark_violations(
    rows: DataFrame, constraints: Sequence[Constraint]
) -> tuple[DataFrame, dict[Constraint, tuple[Column, int]]]:
    """Return rows with a column for each constraint, and of each that does not hold this column and its rows' number.

    A constraint that cannot be computed here, for instance with a function that only another program has, is left to
    Delta.
    """
    marks = {f"{_VIOLATED}{at}": (each, _tell_violated(each)) for at, each in enumerate(constraints)}
    marks = {name: found for name, found in marks.items() if _can_compute(rows, found[1])}
    if not marks:
        return rows, {}
    marked = rows.withColumns({name: violated for name, (_, violated) in marks.items()})
    counts = aggregate(marked, *[F.count_if(F.col(name)) for name in marks])
    return marked, {
        each: (F.col(name), count) for (name, (each, _)), count in zip(marks.items(), counts, strict=True) if count
    }


def _tell_violated(constraint: Constraint) -> Column:
    """Return whether a row violates a constraint, as Delta sees it: a CHECK that is null does not hold."""
    column = F.col(quote(*constraint.path)) if constraint.path else F.lit(None)
    return {
        NOT_NULL: column.isNull(),
        LENGTH: F.coalesce(F.length(column) > constraint.limit, F.lit(False)) if constraint.type == LENGTH else column,
        CHECK: ~F.coalesce(F.expr(constraint.expression or "true"), F.lit(False)),
        GENERATED: ~column.eqNullSafe(F.expr(constraint.expression or "true")),
    }[constraint.type]


def _can_compute(rows: DataFrame, condition: Column) -> bool:
    try:
        rows.select(condition)
    except AnalysisException:
        return False
    return True
