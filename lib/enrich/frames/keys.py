"""Net changes of all sources -> the target keys whose rows may differ.

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
from functools import reduce

from pyspark.sql import DataFrame

from enrich.base.spec import JoinSpec, Step, name_left_key, name_reference, name_right_key
from enrich.frames.columns import drop_nulls

References = Callable[[Step], "DataFrame"]
"""A step -> ``__enrich_k*``, ``__enrich_r*``, ``__enrich_j*``: which rows refer to which key of the step's lookup."""


def find_dependents(spec: JoinSpec, changed: Mapping[str, DataFrame], references: References) -> list[DataFrame]:
    """Return the rows that refer to a changed key, a frame for each changed lookup that is referred to.

    Args:
        spec: The job.
        changed: Alias -> ``__enrich_j*``, its changed keys; unchanged sources are left out.
        references: The references at the window's end.

    Returns:
        ``__enrich_k*`` and, behind a right or full foreign-key join, ``__enrich_r*``, one of the two null.
    """
    found = []
    for step in spec.steps:
        if step.kind != "table" and step.alias in changed:
            keys = changed[step.alias]
            names = name_reference(len(keys.columns))
            found.append(references(step).join(keys, on=names, how="left_semi").drop(*names))
    return found


def find_affected_left(
    spec: JoinSpec, changed: Mapping[str, DataFrame], dependent: Sequence[DataFrame], others: Sequence[DataFrame] = ()
) -> DataFrame:
    """Return the left keys whose rows may differ.

    Args:
        spec: The job.
        changed: As for ``find_dependents``.
        dependent: What ``find_dependents`` gave.
        others: ``__enrich_k*``, keys that shall be computed though nothing of theirs changed.

    Returns:
        ``__enrich_k*``, distinct and without nulls.
    """
    names = name_left_key(len(spec.key_columns))
    sharing = [spec.driving, *[step.alias for step in spec.steps if step.kind == "table"]]
    parts = [*others, *[changed[alias].toDF(*names) for alias in sharing if alias in changed]]
    parts += [drop_nulls(frame.select(*names)) for frame in dependent]
    return _unite(parts).distinct()


def find_affected_right(
    spec: JoinSpec, changed: Mapping[str, DataFrame], dependent: Sequence[DataFrame], moved: Sequence[DataFrame]
) -> DataFrame:
    """Return the keys of the right or full foreign-key lookup whose own rows may appear, differ or go.

    Args:
        spec: The job.
        changed: As for ``find_dependents``.
        dependent: What ``find_dependents`` gave.
        moved: ``__enrich_j*`` that the affected left rows refer to, at the window's start and at its end; and other
            keys that shall be computed.

    Returns:
        ``__enrich_r*``, distinct and without nulls.

    Raises:
        ValueError: The job has no such join.
    """
    right = spec.right_step()
    if right is None:
        raise ValueError(f"job {spec.job!r} has no right or full foreign-key join")
    names = name_right_key(len(right.on))
    parts = [frame.toDF(*names) for frame in moved]
    if right.alias in changed:
        parts.append(changed[right.alias].toDF(*names))
    parts += [drop_nulls(frame.select(*names)) for frame in dependent if names[0] in frame.columns]
    return _unite(parts).distinct()


def _unite(parts: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda a, b: a.unionByName(b), parts)
