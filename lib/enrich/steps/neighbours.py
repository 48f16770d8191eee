"""Which rows an interval join brings together otherwise than before, without having changed themselves."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from enrich.base.spec import Step, name_left_key, name_right_key
from enrich.frames import interval
from enrich.frames.columns import unite
from enrich.frames.sources import Sources


def find_near_changes(now: Sources, step: Step, images: Sequence[DataFrame]) -> DataFrame:
    """Return the driving rows that are near a changed row of an interval join's lookup, as it is or as it was.

    A row that has other partners than before without having changed itself is near a row that did change: near its
    image that came, or near the one that went.

    Args:
        now: The sources at the window's end.
        step: The interval join.
        images: The rows of the lookup that came or went, in its columns.

    Returns:
        ``__enrich_k*``.
    """
    names = name_left_key(len(now.spec.key_columns))
    found = [interval.list_neighbours(now, step, None, each).select(*names) for each in images]
    return unite(found).distinct()


def find_near_rows(moments: Sequence[Sources], step: Step, changed: DataFrame | None) -> list[DataFrame]:
    """Return the rows of an interval join's lookup that changed driving rows are near, at each of some moments.

    Such a row may have got its first partner or lost the last one without having changed itself.

    Args:
        moments: The sources at the window's end, at its start, and wherever else rows were computed.
        step: The interval join.
        changed: The changed keys of the driving source; None when it has not changed.

    Returns:
        ``__enrich_r*``, a frame for each moment.
    """
    if changed is None:
        return []
    spec = moments[0].spec
    rights = name_right_key(len(spec.sources[step.alias].key))
    keys = changed.toDF(*name_left_key(len(spec.key_columns)))
    return [interval.list_neighbours(each, step, keys).select(*rights) for each in moments]
