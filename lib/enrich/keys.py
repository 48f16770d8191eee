"""Net changes of all sources -> the target keys whose rows may differ.

A target row is a chain of source rows. If it differs between two versions, take the first link that differs: all
links before it are the same at both versions, so the *new* versions of the earlier links still lead to it. Hence the
changed keys of the driving source, plus for every changed lookup the rows that refer to a changed key *now*, cover
every difference; old images are needed only for rows of a lookup that lost their last left row.

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
from typing import TYPE_CHECKING

from enrich.spec import JoinSpec, Step, left_names, reference_names, right_names, without_nulls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

References = Callable[[Step], "DataFrame"]
"""A step -> ``__enrich_k*``, ``__enrich_r*``, ``__enrich_j*``: which rows refer to which key of the step's lookup."""


def affected_left(
    spec: JoinSpec, changed: Mapping[str, DataFrame], references: References, others: Sequence[DataFrame] = ()
) -> DataFrame:
    """Return the left keys whose rows may differ.

    Args:
        spec: The job.
        changed: Alias -> ``__enrich_j*``, its changed keys; unchanged sources are left out.
        references: The references at the window's end.
        others: ``__enrich_k*``, keys that shall be computed though nothing of theirs changed.

    Returns:
        ``__enrich_k*``, distinct and without nulls.
    """
    names = left_names(len(spec.key_columns))
    parts = [*others, *[_named(changed[alias], names) for alias in _sharing_the_key(spec) if alias in changed]]
    for step in spec.steps:
        if step.kind != "table" and step.alias in changed:
            found = _referring(references(step), changed[step.alias])
            parts.append(without_nulls(found.select(*names)))
    return _union(parts).distinct()


def affected_right(
    spec: JoinSpec, changed: Mapping[str, DataFrame], references: References, moved: Sequence[DataFrame]
) -> DataFrame:
    """Return the keys of the right or full foreign-key lookup whose own rows may appear, differ or go.

    Args:
        spec: The job.
        changed: As for ``affected_left``.
        references: The references at the window's end.
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
    names = right_names(len(right.on))
    parts = [_named(frame, names) for frame in moved]
    if right.alias in changed:
        parts.append(_named(changed[right.alias], names))
    later = spec.steps[spec.steps.index(right) + 1 :]
    for step in later:
        if step.kind != "table" and step.alias in changed and right.alias in step.decided_by:
            found = _referring(references(step), changed[step.alias])
            parts.append(without_nulls(found.select(*names)))
    return _union(parts).distinct()


def _sharing_the_key(spec: JoinSpec) -> list[str]:
    """Return the aliases whose own key is the left key: the driving source and the table joins."""
    return [spec.driving, *[step.alias for step in spec.steps if step.kind == "table"]]


def _referring(references: DataFrame, changed: DataFrame) -> DataFrame:
    """Keep the rows that refer to a changed key."""
    return references.join(changed, on=reference_names(len(changed.columns)), how="left_semi")


def _named(keys: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return the key parts of ``keys`` under ``names``."""
    return keys.toDF(*names)


def _union(parts: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda a, b: a.unionByName(b), parts)
