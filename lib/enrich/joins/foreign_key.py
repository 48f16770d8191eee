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

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import (
    Affected,
    JoinSpec,
    Step,
    name_left_key,
    name_partners,
    name_reference,
    name_right_key,
)
from enrich.frames import normalise
from enrich.frames.columns import drop_nulls, has_null
from enrich.frames.join import (
    ALIVE,
    SALT,
    Sources,
    add_key,
    apply_steps,
    bury,
    count_partners,
    guard,
    list_deciding_steps,
    look_up,
    spread_nulls,
)
from enrich.frames.join import refer as list_references

CARRIES = True

Search = Callable[[Sources, Step, DataFrame, Sequence[str]], tuple[DataFrame, DataFrame, Sequence[str]]]
"""Rows and the columns of what they refer to -> rows, those of the lookup, and the columns that equal its whole key."""


def refer(rows: DataFrame, spec: JoinSpec, step: Step) -> tuple[DataFrame, list[Column]]:
    """Return what ``on`` gives, in the form of the lookup's key."""
    parts = [guard(step, part) for part in step.references]
    return rows, normalise.normalise_references(parts, spec.sources[step.alias])


def narrow(_sources: Sources, found: DataFrame, _step: Step, _changed: DataFrame) -> DataFrame:
    """Return the references as they are."""
    return found


def ask(
    sources: Sources, step: Step, rows: DataFrame, _others: Callable[[], Mapping[str, DataFrame]]
) -> tuple[tuple[str, ...], DataFrame]:
    """Return the references as they are: a row of the lookup with this key is the partner."""
    return sources.spec.sources[step.alias].key, list_references(sources, rows, step)


def join(sources: Sources, rows: DataFrame, affected: Affected | None, step: Step) -> DataFrame:
    """Join the lookup; with right and full, add its rows that no row refers to."""
    joined = join_referenced(sources, rows, step, search_key)
    if not step.keeps_right:
        return joined
    # Rows of the lookup that no left row refers to.
    names, rights = name_reference(len(step.on)), name_right_key(len(step.on))
    lookup = sources.frame(step.alias, rights)
    if affected is not None and affected.right is not None:
        lookup = lookup.join(affected.right, on=rights, how="left_semi")
    before = list_deciding_steps(sources.spec, step, exact=True)
    used = list_references(sources, apply_steps(sources, None, before), step).select(*names)
    condition = reduce(and_, [F.col(r) == F.col(n) for r, n in zip(rights, names, strict=True)])
    alone = lookup.join(drop_nulls(used).distinct(), on=condition, how="left_anti").withColumn(ALIVE, F.lit(True))
    return bury(joined).unionByName(alone, allowMissingColumns=True)


def search_key(
    sources: Sources, step: Step, rows: DataFrame, wanted: Sequence[str]
) -> tuple[DataFrame, DataFrame, Sequence[str]]:
    """Search the rows of a lookup whose key is what rows refer to; see ``Search``."""
    return *look_up(sources, step, rows, wanted), wanted


def join_referenced(
    sources: Sources, rows: DataFrame, step: Step, search: Search, keep: Callable[[Column], Column] | None = None
) -> DataFrame:
    """Join the rows of a lookup that rows refer to.

    Rows with a null reference are spread over ``SALTS`` values of a second join column: an outer join would send them
    all to one task.

    Args:
        sources: The job's sources.
        rows: The rows so far.
        step: The join.
        search: Finds the whole key of the lookup's row that a row refers to.
        keep: The last part of a row's reference -> the lookup's struct where it counts as a partner; None: it always
            does.
    """
    spec = sources.spec
    names, keys = name_reference(len(step.references)), name_left_key(len(spec.key_columns))
    wanted = [f"__enrich_f{i}" for i in range(len(names))]
    rows, parts = refer(add_key(spec, rows), spec, step)
    rows = rows.withColumns(dict(zip(wanted, parts, strict=True)))
    rows = rows.drop("key") if spec.has_key else rows
    rows = rows.withColumn(SALT, spread_nulls(keys, wanted))
    is_null = has_null(wanted)
    rows, lookup, found = search(sources, step, rows, wanted)
    lookup = lookup.withColumn("__enrich_zero", F.lit(0))
    condition = reduce(and_, [F.col(w) == F.col(n) for w, n in zip(found, names, strict=True)])
    condition = condition & (F.col(SALT) == F.col("__enrich_zero"))
    joined = rows.join(lookup, on=condition, how="left")
    if keep is not None:
        joined = joined.withColumn(step.alias, keep(F.col(wanted[-1])))
    matched = F.col(step.alias).isNotNull()
    judged = F.col(ALIVE) & F.col(spec.driving).isNotNull()
    added = {name_partners(step.alias): count_partners(judged, judged & matched, judged & is_null)}
    if step.how in ("inner", "right"):
        added[ALIVE] = F.col(ALIVE) & matched
    return joined.withColumns(added).drop(*names, *wanted, *found, SALT, "__enrich_zero")
