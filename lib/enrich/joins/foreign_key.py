"""Join a lookup by what the row says its key is.

========================  =============================================
reference                 partner
========================  =============================================
``M1``, and ``M1`` there  ``M1``
``M1``, not there         none
null                      none (KIP-962), and counted
========================  =============================================

With ``right`` and ``full``, a row of the lookup that no row refers to makes a row of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import Affected, JoinSpec, Step, name_left_key, name_partners, name_reference, name_right_key
from enrich.frames import join, normalise
from enrich.frames.columns import are_equal, drop_nulls, has_null
from enrich.frames.join import ALIVE, SALT, Sources, StepKind


class ForeignKey(StepKind):
    """A join by an expression for each part of the lookup's key."""

    carries = True

    def refer(self, rows: DataFrame, spec: JoinSpec, step: Step) -> tuple[DataFrame, list[Column]]:
        """Return what ``on`` gives, in the form of the lookup's key."""
        parts = [join.guard(step, part) for part in step.references]
        return rows, normalise.normalise_references(parts, spec.sources[step.alias])

    def join(self, sources: Sources, rows: DataFrame, affected: Affected | None, step: Step) -> DataFrame:
        """Join the lookup; with right and full, add its rows that no row refers to."""
        joined = self.join_referenced(sources, rows, step, affected)
        if not step.keeps_right:
            return joined
        names, rights = name_reference(len(step.on)), name_right_key(len(step.on))
        lookup = sources.frame(step.alias, rights)
        if affected is not None and affected.right is not None:
            lookup = lookup.join(affected.right, on=rights, how="left_semi")
        before = join.list_deciding_steps(sources.spec, step, exact=True)
        used = join.refer(sources, join.apply_steps(sources, None, before), step).select(*names)
        alone = lookup.join(drop_nulls(used).distinct(), on=are_equal(rights, names), how="left_anti")
        return join.bury(joined).unionByName(alone.withColumn(ALIVE, F.lit(True)), allowMissingColumns=True)

    def join_referenced(
        self, sources: Sources, rows: DataFrame, step: Step, affected: Affected | None = None
    ) -> DataFrame:
        """Join the rows of a lookup that rows refer to; an outer join would send all null references to one task."""
        spec = sources.spec
        names, keys = name_reference(len(step.references)), name_left_key(len(spec.key_columns))
        wanted = [f"__enrich_f{i}" for i in range(len(names))]
        rows, parts = self.refer(join.add_key(spec, rows), spec, step)
        rows = rows.withColumns(dict(zip(wanted, parts, strict=True)))
        rows = rows.drop("key") if spec.has_key else rows
        rows = rows.withColumn(SALT, join.spread_nulls(keys, wanted))
        lookup = join.look_up(sources, step, affected, len(step.on))
        rows, found = self.search(rows, lookup, wanted)
        joined = join.join_spread(rows, lookup, are_equal(found, names))
        joined = joined.withColumn(step.alias, self.accept(step, F.col(wanted[-1])))
        matched = F.col(step.alias).isNotNull()
        judged = F.col(ALIVE) & F.col(spec.driving).isNotNull()
        added = {name_partners(step.alias): join.count_partners(judged, judged & matched, judged & has_null(wanted))}
        if step.how in ("inner", "right"):
            added[ALIVE] = F.col(ALIVE) & matched
        return joined.withColumns(added).drop(*names, *wanted, *found, SALT)

    def search(self, rows: DataFrame, lookup: DataFrame, wanted: Sequence[str]) -> tuple[DataFrame, Sequence[str]]:
        """Return rows that refer to ``wanted``, and the columns that equal the whole key of a lookup."""
        return rows, wanted

    def accept(self, step: Step, last: Column) -> Column:
        """Return the lookup's struct where it counts as a partner, given the last part of the reference."""
        return F.col(step.alias)


KIND = ForeignKey()
