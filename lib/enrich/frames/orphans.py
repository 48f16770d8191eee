"""Rows that refer to a lookup without finding a partner, and those that have become so."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import name_partners


def find_orphans(rows: DataFrame, alias: str) -> DataFrame:
    """Return the rows that refer to a lookup without finding a partner; for lists one element is enough.

    Args:
        rows: At least the join's ``name_partners``.
        alias: The join.
    """
    return rows.where(_is_orphan(alias))


def find_new_orphans(rows: DataFrame, alias: str, names: Sequence[str], before: DataFrame | None) -> DataFrame:
    """Tell which rows refer to a lookup, and which of them have become orphans.

    Args:
        rows: The key's parts and the join's ``name_partners``, as the run leaves them.
        alias: The join.
        names: The key's parts.
        before: The same of the window's start; None: every orphan is new.

    Returns:
        ``new``: one row per row that refers to the lookup; true when it is an orphan and was none before.
    """
    referring = rows.where(_count_referring(alias) > 0).select(*names, _is_orphan(alias).alias("is"))
    if before is None:
        return referring.select(F.col("is").alias("new"))
    was = find_orphans(before, alias).select(*names, F.lit(True).alias("was"))
    was = was.withColumnsRenamed({name: f"{name}_was" for name in names})
    # Null-safe: a pair has a part that a lookup-only row lacks.
    same = [F.col(name).eqNullSafe(F.col(f"{name}_was")) for name in names]
    both = referring.join(was, on=reduce(and_, same), how="left")
    return both.select((F.col("is") & F.col("was").isNull()).alias("new"))


def _count_referring(alias: str) -> Column:
    """Return how many references of a row are not null; null in a row without left side."""
    partners = F.col(name_partners(alias))
    return partners.getField("rows") - partners.getField("nulls")


def _is_orphan(alias: str) -> Column:
    return _count_referring(alias) > F.col(name_partners(alias)).getField("matched")
