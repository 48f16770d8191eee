"""The affected rows, computed anew."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base.failpoints import pass_point
from enrich.base.spec import LIVE, OPERATION, Affected, quote
from enrich.joins import find_kind
from enrich.steps.rows import Rows
from enrich.steps.source_changes import Changes
from enrich.steps.work import Work, identify_rows, measure


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
