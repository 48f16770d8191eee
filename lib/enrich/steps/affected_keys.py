"""Which keys of the target have rows that may differ."""

from __future__ import annotations

from dataclasses import replace

from enrich.base.spec import Affected
from enrich.frames.columns import Ranges, count_with_ranges
from enrich.joins import find_kind
from enrich.steps.source_changes import Changes
from enrich.steps.work import Work, measure


@measure("keys")
def find_affected_keys(work: Work, changed: Changes) -> Affected | None:
    """Return the target keys whose rows may differ, counted; None for all."""
    return None if work.task.everything else find_kind(work.task.spec).find_affected(work, changed)


def count_left(work: Work, found: Affected, known: tuple[int, Ranges] | None = None) -> Affected:
    """Count affected keys and find the ranges of the left ones, unless these are ``known`` already."""
    if known is None:
        (left,), ranges = count_with_ranges(found.left, found.left.columns)
    else:
        left, ranges = known
    count = left + (found.right.count() if found.right is not None else 0)
    work.expect_rows(count)
    return replace(found, count=count, ranges=ranges)
