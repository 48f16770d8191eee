"""Find the target keys whose rows may differ, by the net changes of all sources.

A target row comes about in steps, one a join. If it differs between two versions, take the first step after which it
does: the row before that step is the same at both versions, so what it refers to at the *new* version leads to it.
Hence the changed keys of the driving source and of table joins, plus for every other changed lookup the rows that refer
to a changed key *now*, cover every difference; old images are needed only for rows of a lookup that lost their last
left row.

========================  ==========================================
changed                   affected
========================  ==========================================
left row ``P1``           ``P1``
merchant ``M1``           every product that names ``M1``
address ``a2``            every person whose list holds ``a2``
``P1`` left ``M1`` (full)  ``P1``, and ``M1`` as a row of its own
========================  ==========================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame

from enrich.base.spec import JoinSpec, KnownRows, Step, name_left_key, name_reference, name_right_key
from enrich.frames.columns import drop_nulls, has_null, pack_rows, unite

References = Callable[[Step, "DataFrame"], "DataFrame"]
"""A step, and the changed keys of its lookup -> ``__enrich_k*``, ``__enrich_r*``, ``__enrich_j*``: which rows refer to
which key of the lookup; in an as-of join, to which of the versions that are there or have changed."""


def find_dependents(spec: JoinSpec, changed: Mapping[str, DataFrame], references: References) -> list[DataFrame]:
    """Return the rows that refer to a changed key, a frame for each changed lookup that is referred to.

    Not those near a changed row of an interval join: they are found by its images, see ``enrich.joins.interval``.
    ``changed``: alias -> ``__enrich_j*``, its changed keys; unchanged sources are left out. The references are those at
    the window's end.

    Returns:
        ``__enrich_k*`` and, behind a right or full foreign-key join, ``__enrich_r*``, one of the two null; behind an
        interval join both, in a pair; what else the references carry.
    """
    found = []
    for step in spec.steps:
        if not step.shares_key and step.interval is None and step.alias in changed:
            keys = changed[step.alias]
            names = name_reference(len(keys.columns))
            found.append(references(step, keys).join(keys, on=names, how="left_semi").drop(*names))
    return found


def list_sharing(spec: JoinSpec) -> list[str]:
    """Return the sources that have the driving source's key: itself, and the lookups of table joins."""
    return [spec.driving, *[step.alias for step in spec.steps if step.shares_key]]


def find_affected_left(
    spec: JoinSpec, changed: Mapping[str, DataFrame], dependent: Sequence[DataFrame], others: Sequence[DataFrame] = ()
) -> DataFrame:
    """Return the left keys whose rows may differ: ``__enrich_k*``, distinct and without nulls.

    By the changed keys and what ``find_dependents`` gave for them, and ``others``: ``__enrich_k*``, keys that shall be
    computed though nothing of theirs changed.
    """
    return unite(_list_left_parts(spec, changed, dependent, others)).distinct()


def _list_left_parts(
    spec: JoinSpec, changed: Mapping[str, DataFrame], dependent: Sequence[DataFrame], others: Sequence[DataFrame]
) -> list[DataFrame]:
    names = name_left_key(len(spec.key_columns))
    parts = [*others, *[changed[alias].toDF(*names) for alias in list_sharing(spec) if alias in changed]]
    return parts + [drop_nulls(frame.select(*names)) for frame in dependent]


def find_known_rows(
    spec: JoinSpec,
    alias: str,
    come: DataFrame | None,
    changed: Mapping[str, DataFrame],
    dependent: Sequence[DataFrame],
    others: Sequence[DataFrame] = (),
) -> KnownRows | None:
    """Return the affected rows of a source that need not be read again, and which ones are left to read.

    A row that came in the window is what its table has at the window's end, if no two rows share a key. A driving row
    that was read because it refers to a changed key is at hand, too.

    The source is the driving one, or the lookup of a table join; ``come``: its rows that came in the window, key
    columns and all; None when it has not changed. The others are those of ``find_affected_left``.
    """
    names = name_left_key(len(spec.key_columns))
    carrying = [frame for frame in dependent if alias == spec.driving and alias in frame.columns]
    parts = [drop_nulls(frame.select(*names, alias), names) for frame in carrying]
    read = [frame.select(*names) for frame in parts]
    if len(parts) > 1:
        parts = [unite(parts).dropDuplicates(names)]
    if come is not None:
        read.append(changed[alias].toDF(*names))
        parts = [frame.join(read[-1], on=names, how="left_anti") for frame in parts]
        parts.append(drop_nulls(pack_rows(come, spec.sources[alias], names), names))
    if not parts:
        return None
    elsewhere = {name: keys for name, keys in changed.items() if come is None or name != alias}
    others = _list_left_parts(spec, elsewhere, [frame for frame in dependent if frame not in carrying], others)
    if not others:
        return KnownRows(unite(parts))
    unread = unite(others).distinct()
    for frame in read:
        unread = unread.join(frame, on=names, how="left_anti")
    return KnownRows(unite(parts), unread)


def find_affected_right(
    spec: JoinSpec, changed: Mapping[str, DataFrame], dependent: Sequence[DataFrame], moved: Sequence[DataFrame]
) -> DataFrame:
    """Return the keys of the right or full foreign-key or interval lookup whose own rows may appear, differ or go.

    ``moved``: ``__enrich_j*`` that the affected left rows refer to, or ``__enrich_r*`` that they are near, at the
    window's start and at its end; and other keys that shall be computed.

    Returns:
        ``__enrich_r*``, distinct and without nulls.
    """
    right = spec.right_step()
    assert right is not None  # noqa: S101 - callers have looked
    names = name_right_key(len(spec.sources[right.alias].key))
    parts = [frame.toDF(*names) for frame in moved]
    if right.alias in changed:
        parts.append(changed[right.alias].toDF(*names))
    lefts = name_left_key(len(spec.key_columns))
    parts += [
        drop_nulls(frame.where(has_null(lefts)).select(*names)) for frame in dependent if names[0] in frame.columns
    ]
    return unite(parts).distinct()
