"""Join a lookup that has the driving source's key.

=====  ======  ========  ===========  =========
how    both    left      lookup       neither
=====  ======  ========  ===========  =========
inner  (l, r)  -         -            -
left   (l, r)  (l, -)    -            -
right  (l, r)  -         (-, r)       -
full   (l, r)  (l, -)    (-, r)       -
=====  ======  ========  ===========  =========
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import Affected, JoinSpec, Step, name_left_key, name_partners, name_reference
from enrich.frames.join import ALIVE, Sources, bury, count_partners
from enrich.joins.foreign_key import ask as ask  # noqa: PLC0414 - a part of this kind, too

CARRIES = False


def refer(rows: DataFrame, spec: JoinSpec, _step: Step) -> tuple[DataFrame, list[Column]]:
    """Return the row's own key."""
    return rows, [F.col(name) for name in name_left_key(len(spec.key_columns))]


def narrow(_sources: Sources, found: DataFrame, _step: Step, _changed: DataFrame) -> DataFrame:
    """Return the references as they are."""
    return found


def join(sources: Sources, rows: DataFrame, affected: Affected | None, step: Step) -> DataFrame:
    """Join a lookup that shares the key; right and full add the lookup's own keys."""
    count = len(sources.spec.key_columns)
    keys, names = name_left_key(count), name_reference(count)
    lookup = sources.affected_rows(step.alias, names, affected)
    if step.keeps_right:
        rows = bury(rows)
    condition = reduce(and_, [F.col(k) == F.col(n) for k, n in zip(keys, names, strict=True)])
    rows = rows.join(lookup, on=condition, how="full" if step.keeps_right else "left")
    matched = F.col(step.alias).isNotNull()
    was_alive = F.coalesce(F.col(ALIVE), F.lit(False))
    judged = was_alive & F.col(sources.spec.driving).isNotNull()
    alive = {"inner": was_alive & matched, "left": was_alive, "right": matched, "full": was_alive | matched}[step.how]
    coalesced = {k: F.coalesce(F.col(k), F.col(n)) for k, n in zip(keys, names, strict=True)}
    partners = {name_partners(step.alias): count_partners(judged, judged & matched, F.lit(0))}
    return rows.withColumns({**coalesced, **partners, ALIVE: alive}).drop(*names)
