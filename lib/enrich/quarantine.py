"""Rows that are kept out of the target -> the difference to the quarantine table.

The quarantine is the function of the pinned sources that the target is, for the rows that the target may not have: a
healed row leaves it, a row that is deleted at its source disappears from it, nothing is appended twice.

Rows with a whole key are told apart by the target's key. Rows of the driving source that have a null in their key have
nothing to be told apart by but their content: as a multiset, they are exactly those of the pinned snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from enrich.spec import OPERATION, comparable, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FAILED, RUN_ID = "_failed", "_run_id"
KEY_NOT_NULL = "key_not_null"
CONTENT = "__enrich_content"
_NEW = "new"
_EXACT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}
"""How JSON tells all values apart: by default it cuts timestamps to milliseconds and leaves out nulls."""


@dataclass(frozen=True)
class KeylessDifference:
    """What differs among the rows without key.

    Attributes:
        rows: ``CONTENT``, ``OPERATION``, and the table's columns.
        come: How many rows are new.
        gone: How many rows the snapshot no longer has.
        changed: Whether anything differs.
        held: What ``rows`` comes from; persisted.
    """

    rows: DataFrame
    held: DataFrame
    come: int
    gone: int
    changed: bool


def keyless(new: DataFrame, held: DataFrame, columns: Sequence[str]) -> KeylessDifference:
    """Compare the rows without key as multisets.

    Args:
        new: Columns of the quarantine, of the pinned snapshot.
        held: The same columns, as the quarantine table has them.
        columns: The target's columns.

    Returns:
        For every content whose number differs: one ``D`` that takes all copies out and an ``I`` for each copy.
    """
    from pyspark.sql import functions as F

    now = new.withColumn(CONTENT, content(new, columns))
    before = held.select(content(held, columns).alias(CONTENT))
    ours = now.groupBy(CONTENT).agg(F.count("*").alias("__enrich_now"))
    theirs = before.groupBy(CONTENT).agg(F.count("*").alias("__enrich_before"))
    counts = ours.join(theirs, on=CONTENT, how="full").na.fill(0, ["__enrich_now", "__enrich_before"])
    differing = counts.where(F.col("__enrich_now") != F.col("__enrich_before")).persist()
    growth = F.greatest(F.col("__enrich_now") - F.col("__enrich_before"), F.lit(0))
    shrinkage = F.greatest(F.col("__enrich_before") - F.col("__enrich_now"), F.lit(0))
    found = differing.agg(
        F.count("*").alias("contents"), F.sum(growth).alias("come"), F.sum(shrinkage).alias("gone")
    ).first()
    assert found is not None  # noqa: S101 - an aggregate without groups has one row
    gone = differing.where(F.col("__enrich_before") > 0).select(CONTENT, F.lit("D").alias(OPERATION))
    come = now.join(differing, on=CONTENT, how="left_semi").withColumns({CONTENT: F.lit(_NEW), OPERATION: F.lit("I")})
    rows = come.unionByName(gone, allowMissingColumns=True)
    return KeylessDifference(rows, differing, found["come"] or 0, found["gone"] or 0, bool(found["contents"]))


def content(
    rows: DataFrame, columns: Sequence[str], prefix: str = "", lacking: Collection[str] = frozenset()
) -> Column:
    """Return a fingerprint of a row's target columns; those that are ``lacking`` below the prefix are null."""
    from pyspark.sql import functions as F

    kinds = {name: rows.schema[name].dataType for name in columns}
    values = {
        name: F.lit(None).cast(kinds[name]) if name in lacking else F.col(prefix + quoted(name)) for name in columns
    }
    parts = [comparable(values[name], kinds[name]).alias(f"c{i}") for i, name in enumerate(columns)]
    return F.sha2(F.to_json(F.struct(*parts), _EXACT), 256)


def is_keyless(prefix: str = "") -> Column:
    """Tell the rows without key apart in the quarantine table."""
    from pyspark.sql import functions as F

    return F.coalesce(F.array_contains(F.col(prefix + FAILED), KEY_NOT_NULL), F.lit(False))


def identity(
    keyed: Mapping[str, Column], rows: DataFrame, columns: Sequence[str], lacking: Collection[str]
) -> dict[str, Column]:
    """Return what a staged quarantine row matches in the table: its key, or its content when it has none.

    Args:
        keyed: Staged identity column -> expression over the table below ``t``.
        rows: Staged rows, for their types.
        columns: The target's columns.
        lacking: Those that the table does not have yet.
    """
    from pyspark.sql import functions as F

    parts = {name: F.when(~is_keyless("t."), part) for name, part in keyed.items()}
    return {**parts, CONTENT: F.when(is_keyless("t."), content(rows, columns, "t.", lacking))}
