"""Which keys of the target have rows that may differ."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import (
    WEIGHT,
    Affected,
    HistorySpec,
    JoinSpec,
    KnownRows,
    MirrorSpec,
    Step,
    name_left_key,
    name_reference,
)
from enrich.compiler.schemas import strip_type
from enrich.frames import join, keys, mirror
from enrich.frames.columns import Ranges, count_with_ranges, unite
from enrich.steps import neighbours, retrying
from enrich.steps.source_changes import Changes
from enrich.steps.work import Work, measure


@measure("keys")
def find_affected_keys(work: Work, changed: Changes) -> Affected | None:
    """Return the target keys whose rows may differ, counted; None for all."""
    if work.task.everything:
        return None
    if changed.ledger is not None and changed.ledger.identities is not None:
        versions = work.keep(changed.ledger.identities)
        return Affected(versions, count=versions.count())
    found = _find_affected(work, changed)
    count, ranges = _count_left(work, changed, found.left)
    count += found.right.count() if found.right is not None else 0
    work.expect_rows(count)
    found = replace(found, count=count, ranges=ranges)
    if not work.are_few(count) or not isinstance(work.task.spec, JoinSpec):
        return found
    # Read once: the joins at both ends of the window are about them.
    names = name_left_key(len(work.task.spec.key_columns))
    rows = {alias: work.now.affected_rows(alias, names, found) for alias in keys.list_sharing(work.task.spec)}
    read = {alias for alias in rows if alias not in found.known or found.known[alias].others is not None}
    known = {alias: KnownRows(work.keep(each), read=alias in read) for alias, each in rows.items()}
    return replace(found, known=known)


def _count_left(work: Work, changed: Changes, left: DataFrame) -> tuple[int, Ranges]:
    """Count the affected left keys and find their ranges, which is done already where they changed in one source."""
    spec, differing = work.task.spec, list(changed.differing)
    if isinstance(spec, JoinSpec) and not work.task.retry and len(differing) == 1:
        (alias,) = differing
        if alias in keys.list_sharing(spec) and alias not in changed.again:
            net = changed.net[alias]
            names = zip(left.columns, name_reference(len(left.columns)), strict=True)
            return net.count, {name: net.ranges[part] for name, part in names if part in net.ranges}
    (count,), ranges = count_with_ranges(left, left.columns)
    return count, ranges


def _find_affected(work: Work, changed: Changes) -> Affected:
    spec = work.task.spec
    waiting = retrying.find_quarantined_keys(work)
    assert not isinstance(spec, HistorySpec)  # noqa: S101 - its ledger tells them
    if isinstance(spec, MirrorSpec):
        images = [each for alias in spec.sources for each in changed.images(alias)]
        values = [*[mirror.find_affected_values(spec, each) for each in images], *[each.left for each in waiting]]
        return Affected(work.keep(unite(values).distinct()))
    now, right = work.now, spec.right_step()
    carry = not spec.sources[spec.driving].trusted

    def refer(step: Step, touched: DataFrame) -> DataFrame:
        return join.find_references(now, step, changed=touched, carry=carry)

    dependent = [work.keep(frame) for frame in keys.find_dependents(spec, changed.differing, refer)]
    near = spec.interval_step
    if near is not None and near.alias in changed.differing:
        dependent.append(work.keep(neighbours.find_near_changes(work.now, near, list(changed.images(near.alias)))))
    others = [each.left for each in waiting]
    left = work.keep(keys.find_affected_left(spec, changed.differing, dependent, others))
    known = {}
    for alias in keys.list_sharing(spec):
        come = find_moved_rows(now, changed, alias, come=True)
        rows = keys.find_known_rows(spec, alias, come, changed.differing, dependent, others)
        if rows is not None:
            known[alias] = rows
    if right is None:
        return Affected(left, known=known)
    moments = [now, work.before, *([work.sources(work.task.apart)] if work.task.apart else [])]
    if right is near:
        moved = neighbours.find_near_rows(moments, right, changed.differing.get(spec.driving))
    else:
        references = [join.find_references(each, right, Affected(left)) for each in moments]
        moved = [
            frame.select(*[name for name in frame.columns if name.startswith("__enrich_j")]) for frame in references
        ]
    moved += [each.right for each in waiting if each.right is not None]
    return Affected(left, work.keep(keys.find_affected_right(spec, changed.differing, dependent, moved)), known=known)


def find_moved_rows(now: join.Sources, changed: Changes, alias: str, *, come: bool) -> DataFrame | None:
    """Return the rows of a source that came in the window, or went, when these are all rows that their keys had.

    They are not where two rows may share a key, and where the feed has another type than the snapshot: a struct that
    has gained a field since. Where older changes are taken again, more keys have changed than rows came.
    """
    net = changed.net.get(alias)
    if net is None or alias not in changed.differing or (come and alias in changed.again):
        return None
    if net.crowded or now.spec.sources[alias].trusted:
        return None
    moved = net.images.where(F.col(WEIGHT) > 0 if come else F.col(WEIGHT) < 0).drop(WEIGHT)
    same = strip_type(moved.schema.jsonValue()) == strip_type(now.snapshots[alias].schema.jsonValue())
    return moved if same else None
