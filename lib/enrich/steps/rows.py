"""Compute the affected rows anew, whatever kind of job it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base.failpoints import pass_point
from enrich.base.result import Counts, Finding, Lookup
from enrich.base.spec import LIVE, OPERATION, Affected, quote
from enrich.joins import find_kind
from enrich.steps.source_changes import Changes
from enrich.steps.work import Work, identify_rows, measure


@dataclass(frozen=True)
class Rows:
    """The affected rows, computed anew.

    Attributes:
        frame: The identity's columns, ``LIVE``, one ``name_partners`` a join, and the target's columns; kept, unless
            it is cheaper to compute them again.
        counts: Affected keys and nulls in references.
        findings: Conflicting mirror values.
        lookups: Alias -> how its join went; empty for mirrors.
        values: A mirror's values, and those with several holders.
        tally: What ``mark_rows`` counts, over the live rows; empty where they are not the whole target.
    """

    frame: DataFrame
    counts: Counts
    findings: tuple[Finding, ...] = ()
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    values: tuple[int, int] = (0, 0)
    tally: Mapping[str, int] = field(default_factory=dict)


@measure("join")
def compute_rows(work: Work, changed: Changes, affected: Affected | None) -> Rows:
    """Compute the affected rows from the pinned snapshots."""
    pass_point("join.before")
    return find_kind(work.task.spec).compute_rows(work, changed, affected)


def select_live_rows(work: Work, rows: Rows) -> DataFrame:
    """Return the rows that belong to the target, with the identity's columns."""
    names = identify_rows(work.task).names
    columns = [F.col(quote(name)) for name in work.task.spec.columns]
    return rows.frame.where(F.col(LIVE)).select(*names, *columns)


def make_no_rows(work: Work) -> DataFrame:
    """Return an empty difference: the identity's columns, the operation, the target's columns as new rows would be."""
    columns = [F.col(quote(name)) for name in work.task.spec.columns]
    operation = F.lit("U").alias(OPERATION)
    frame = find_kind(work.task.spec).derive_rows(work, None)
    return frame.limit(0).select(*identify_rows(work.task).names, operation, *columns)
