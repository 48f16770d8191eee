"""Find the keys of the target whose rows may differ, and those that the quarantine holds."""

from __future__ import annotations

from dataclasses import replace

from enrich.base.spec import FAILED_COLUMN, Affected, name_left_key, name_right_key
from enrich.frames import quarantine
from enrich.frames.columns import Ranges, count_with_ranges, drop_nulls, has_null
from enrich.joins import find_kind
from enrich.steps.source_changes import Changes
from enrich.steps.work import Work, identify_rows, measure
from enrich.storage import tables


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


def find_quarantined_keys(work: Work) -> list[Affected]:
    """Return the keys that the quarantine holds when they shall be tried again, else nothing."""
    task, uri = work.task, work.task.place.quarantine_uri
    if not task.retry or uri is None:
        return []
    identity = identify_rows(task)
    names = [*identity.left, *identity.right, FAILED_COLUMN]
    found = tables.read_snapshot(work.session, uri, tables.read_state(uri).version, names)
    found = found.where(~quarantine.is_keyless()).select(*[part.alias(name) for name, part in identity.of().items()])
    lefts, rights = name_left_key(len(identity.left)), name_right_key(len(identity.right))
    left = found.where(~has_null(lefts)).select(*lefts)
    return [Affected(left, drop_nulls(found.where(has_null(lefts)).select(*rights)) if rights else None)]
