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

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import Affected, JoinSpec, Step, name_left_key, name_partners, name_reference
from enrich.frames.columns import are_equal
from enrich.frames.join import ALIVE, Sources, StepKind, bury, count_partners


class Table(StepKind):
    """A join by the key that both sides share."""

    def refer(self, rows: DataFrame, spec: JoinSpec, step: Step) -> tuple[DataFrame, list[Column]]:
        """Return the row's own key."""
        return rows, [F.col(name) for name in name_left_key(len(spec.key_columns))]

    def join(self, sources: Sources, rows: DataFrame, affected: Affected | None, step: Step) -> DataFrame:
        """Join a lookup that shares the key; right and full add the lookup's own keys."""
        count = len(sources.spec.key_columns)
        keys, names = name_left_key(count), name_reference(count)
        lookup = sources.affected_rows(step.alias, names, affected)
        if step.keeps_right:
            rows = bury(rows)
        rows = rows.join(lookup, on=are_equal(keys, names), how="full" if step.keeps_right else "left")
        matched = F.col(step.alias).isNotNull()
        was_alive = F.coalesce(F.col(ALIVE), F.lit(False))
        judged = was_alive & F.col(sources.spec.driving).isNotNull()
        alive = {"inner": was_alive & matched, "left": was_alive, "right": matched, "full": was_alive | matched}
        coalesced = {k: F.coalesce(F.col(k), F.col(n)) for k, n in zip(keys, names, strict=True)}
        partners = {name_partners(step.alias): count_partners(judged, judged & matched, F.lit(0))}
        return rows.withColumns({**coalesced, **partners, ALIVE: alive[step.how]}).drop(*names)


KIND = Table()
