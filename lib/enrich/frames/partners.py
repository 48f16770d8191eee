"""How joins went: the partners that rows have found, added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import Step, name_partners
from enrich.base.state import LookupState
from enrich.frames.columns import aggregate

_PARTS = ("rows", "matched", "nulls")


def sum_partners(
    rows: DataFrame, steps: Sequence[Step], marks: Mapping[str, Column] | None = None
) -> tuple[int, dict[str, LookupState], dict[str, int]]:
    """Count rows, and add up how each join went for them.

    Args:
        rows: One ``name_partners`` a step.
        steps: The joins.
        marks: Conditions that are counted in the same pass, by name.

    Returns:
        The number of rows, without pairs; alias -> how the join went; for how many rows each of ``marks`` is true.
    """
    marks = marks or {}
    sums = [
        F.coalesce(F.sum(F.col(name_partners(step.alias)).getField(part)), F.lit(0))
        for step in steps
        for part in _PARTS
    ]
    # Each row on the left of the pairs of an interval join is there by itself, too.
    parts = [F.col(name).isNull() for name in rows.columns if name.startswith(("__enrich_k", "__enrich_r"))]
    has_pairs = any(step.interval is not None for step in steps)
    counted_rows = F.count_if(reduce(or_, parts)) if has_pairs else F.count("*")
    found = aggregate(rows, counted_rows, *sums, *[F.count_if(mark) for mark in marks.values()])
    end = 1 + len(sums)
    counted = (found[i : i + len(_PARTS)] for i in range(1, end, len(_PARTS)))
    partners = {step.alias: LookupState(*each) for step, each in zip(steps, counted, strict=True)}
    return found[0], partners, dict(zip(marks, found[end:], strict=True))
