"""How joins went: the partners that rows have found, added up."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import Step, name_partners
from enrich.base.state import LookupState

_PARTS = ("rows", "matched", "nulls")


def sum_partners(rows: DataFrame, steps: Sequence[Step]) -> tuple[int, dict[str, LookupState]]:
    """Count rows, and add up how each join went for them.

    Args:
        rows: One ``name_partners`` a step.
        steps: The joins.
    """
    sums = [
        F.coalesce(F.sum(F.col(name_partners(step.alias)).getField(part)), F.lit(0))
        for step in steps
        for part in _PARTS
    ]
    found = rows.agg(F.count("*"), *sums).first()
    assert found is not None  # noqa: S101 - an aggregate without groups has one row
    counted = (found[i : i + len(_PARTS)] for i in range(1, len(found), len(_PARTS)))
    return found[0], {step.alias: LookupState(*each) for step, each in zip(steps, counted, strict=True)}
