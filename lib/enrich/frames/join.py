"""Join the sources at pinned versions for affected keys: enriched rows.

Every verb here is ``DataFrame -> DataFrame`` over the frames that ``enrich.base.spec`` describes. A row that a join or
the condition removes stays in the frame as *dead* (``ALIVE`` is false) until the end, so that null foreign keys are
counted where SQL would have dropped the row already. Partners are tracked by the alias's struct being null or not,
never by a column being null: a looked-up row whose columns are all null is a row.

=====  ==============  =====================  ==========================
how    both sides      left side alone        lookup alone
=====  ==============  =====================  ==========================
inner  (l, r)          dead                   -
left   (l, r)          (l, null)              -
right  (l, r)          dead                   (null, r)
full   (l, r)          (l, null)              (null, r)
=====  ==============  =====================  ==========================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.result import Lookups, LookupState
from enrich.base.spec import LIVE, Affected, JoinSpec, Step, name_left_key, name_partners, name_reference, quote
from enrich.frames import normalise
from enrich.frames.columns import (
    Ranges,
    call,
    drop_nulls,
    evaluate_where,
    has_null,
    keep_in_ranges,
    pack_rows,
    take_column,
)

# --- Which joins of a job come before another one, and which of them decide what it sees ----------------------------


def leave_own_rows_out(steps: Sequence[Step]) -> list[Step]:
    """Return joins that add no rows of their lookups."""
    hows = {"right": "inner", "full": "left"}
    return [replace(each, how=hows.get(each.how, each.how)) for each in steps]


def list_earlier_steps(spec: JoinSpec, step: Step) -> list[Step]:
    """Return the joins that come before ``step``."""
    return list(spec.steps[: [each.alias for each in spec.steps].index(step.alias)])


def list_deciding_steps(spec: JoinSpec, step: Step, *, exact: bool = False) -> list[Step]:
    """Return the earlier joins without which it cannot be told which rows refer to what.

    A left join that nothing reads changes no reference. An inner one only removes some: it is left out, too, when the
    references cannot fail on the rows that it removes, and when no later join brings these back as rows of its own.
    With ``exact`` it is kept: the references of removed rows would be surplus.
    """
    kept: list[Step] = []
    for each in reversed(list_earlier_steps(spec, step)):
        later = (step, *kept)
        is_surplus = not exact and all(other.is_plain for other in later) and not any(e.keeps_right for e in kept)
        removable = each.how == "left" or (each.how == "inner" and is_surplus)
        if not removable or any(each.alias in other.reads for other in later):
            kept.insert(0, each)
    return kept


# --- What a kind of join does, and the snapshots that it reads ------------------------------------------------------


class StepKind:
    """One kind of join: what it makes of rows, and which rows refer to what.

    ``enrich.joins`` has a module for each, with an instance as ``KIND``.
    """

    carries = False  # whether a row refers to one key at most, so that what refers and the driving row are read at once

    def join(self, sources: Sources, rows: DataFrame, affected: Affected | None, step: Step) -> DataFrame:
        """Join a lookup to the rows so far.

        In: ``__enrich_k*``, ``__enrich_r*`` behind a join that keeps rows of its lookup, ``ALIVE`` and one struct, or
        list, an alias. Out: the same, with the lookup's, its ``name_partners``, and ``ALIVE`` where the join keeps a
        row.
        """
        raise NotImplementedError

    def refer(self, rows: DataFrame, spec: JoinSpec, step: Step) -> tuple[DataFrame, list[Column]]:
        """Return the parts of the key that live rows refer to, and the rows in which these are columns."""
        raise NotImplementedError

    def find_dependent(self, sources: Sources, step: Step, keys: DataFrame, images: Iterable[DataFrame]) -> DataFrame:
        """Return the rows before ``step`` that a change of its lookup may reach, as they are at the window's end.

        In: ``keys``, ``__enrich_j*``, those of the lookup that have changed; ``images``, its rows that came or went.
        Out: as ``find_references`` with ``carry``, without ``__enrich_j*``.
        """
        found = find_references(sources, step, carry=True)
        return found.join(keys, on=keys.columns, how="left_semi").drop(*keys.columns)

    def find_partners(self, sources: Sources, step: Step, left: DataFrame, moved: DataFrame | None) -> DataFrame | None:
        """Return the lookup's keys, in ``__enrich_j*`` or ``__enrich_r*``, that affected rows have or ask for.

        In: ``left``, ``__enrich_k*`` of the affected rows; ``moved``, those whose own row has changed, None for none.
        """
        return find_references(sources, step, Affected(left)).select(*name_reference(len(step.references)))

    def ask(
        self, sources: Sources, step: Step, rows: DataFrame, others: Callable[[], Mapping[str, DataFrame]]
    ) -> tuple[tuple[str, ...], DataFrame]:
        """Return what rows refer to, for ``why``; as long as nothing else is said, by the lookup's key alone.

        In: ``rows``, as ``join`` gets them; ``others`` gives reason -> rows of the lookup, in its columns, that a
        partner may be among for that reason. Out: the lookup's columns that are compared, and ``__enrich_k*``,
        ``__enrich_r*`` and ``__enrich_j*`` with their values, one row a reference, nulls included. Where a row of the
        lookup with these values is not yet a partner, ``VERDICT``, too: why such a reference has one, or why not.
        """
        return sources.spec.sources[step.alias].key, refer(sources, rows, step)


@dataclass(frozen=True)
class Sources:
    """The pinned snapshots of a job."""

    spec: JoinSpec
    snapshots: Mapping[str, DataFrame]  # alias -> rows with the used columns and no null in the key
    kind_of: Callable[[Step], StepKind]  # a join -> what its kind does
    # Foreign-key and list lookups of which the affected rows refer to a small part; without them all of a lookup is
    # sorted for the join.
    large: frozenset[str] = frozenset()
    # Makes a frame that is used twice compute once, where that is no whole table.
    keep: Callable[[DataFrame], DataFrame] = lambda frame: frame
    # Alias -> the rows that affected rows may refer to, of lookups where they are at hand or have been looked for.
    narrowed: dict[str, DataFrame] = field(default_factory=dict)
    # Alias -> the rows of the table that a snapshot is derived from, of sources whose rows depend on others.
    tables: Mapping[str, DataFrame] = field(default_factory=dict)

    def frame(self, alias: str, names: Sequence[str]) -> DataFrame:
        """Return the rows of ``alias`` as its key parts, named ``names``, and one struct column."""
        return pack_rows(self.snapshots[alias], self.spec.sources[alias], names)

    def frame_of(self, alias: str, names: Sequence[str], keys: DataFrame, ranges: Ranges) -> DataFrame:
        """Return ``frame`` for keys, which are named as the first of ``names``, and whose parts have ``ranges``."""
        source = self.spec.sources[alias]
        width = len(source.columns)
        if alias not in self.tables:
            return keep_in_ranges(self.frame(alias, names), ranges, width).join(keys, on=keys.columns, how="left_semi")
        # Here and not behind: Spark moves no join below what makes one row of several.
        parts = dict(zip(names, map(take_column, source.key), strict=True))
        rows = keep_in_ranges(self.tables[alias].withColumns(parts), ranges, width)
        rows = rows.join(keys, on=keys.columns, how="left_semi").drop(*names)
        return pack_rows(normalise.derive_rows(rows, source), source, names)

    def affected_rows(self, alias: str, names: Sequence[str], affected: Affected | None) -> DataFrame:
        """Return ``frame`` for the affected rows of a source that has the driving source's key; None: for all."""
        if affected is None:
            return self.frame(alias, names)
        known = affected.known.get(alias)
        found = known.rows.toDF(*names, alias) if known is not None else None
        wanted = known.others if known is not None else affected.left
        if wanted is None:
            assert found is not None  # noqa: S101 - all rows are known
            return found
        keys = zip(name_left_key(len(names)), names, strict=True)
        ranges = {name: affected.ranges[key] for key, name in keys if key in affected.ranges}
        rows = self.frame_of(alias, names, wanted.toDF(*names), ranges)
        return rows if found is None else found.unionByName(rows)


ALIVE = "__enrich_alive"
WENT = "__enrich_went"
"""Whether a row is one that went: it is joined beside those that are there, and tells what they were before."""
VERDICT = "__enrich_verdict"  # why a reference whose values the lookup has has a partner, or why not: a reason
SALT, _ZERO = "__enrich_salt", "__enrich_zero"
"""Of a row: 0 when it may have a partner; anything else spreads rows that cannot."""
_SALTS = 64


def join_all(sources: Sources, affected: Affected | None) -> DataFrame:
    """Join the affected rows anew; None: all.

    Out: ``__enrich_k*``, ``__enrich_r*`` (when the job has a right or full foreign-key join, or an interval join),
    ``LIVE``, one ``name_partners`` a join, and the target's columns; ``WENT`` where rows that went come along.
    """
    spec = sources.spec
    rows = add_key(spec, apply_steps(sources, affected, spec.steps))
    identity = list_identity(rows)
    if WENT in rows.columns:
        identity = [*identity, WENT]
    # A row that the condition keeps out must not fail in an expression that the condition guards.
    outputs = [F.when(F.col(LIVE), F.expr(output.expression)).alias(output.name) for output in spec.outputs]
    rows = rows.withColumn(LIVE, meet_condition(spec))
    return rows.select(*identity, LIVE, *[name_partners(step.alias) for step in spec.steps], *outputs)


def meet_condition(spec: JoinSpec) -> Column:
    """Tell whether the joins and the condition keep a row."""
    if spec.where is None:
        return F.col(ALIVE)
    # What cannot fail may go below the joins, to where it leaves rows out before they are read.
    is_free = spec.where_is_plain or not spec.steps
    is_met = F.expr(spec.where) if is_free else evaluate_where(F.col(ALIVE), spec.where)
    return F.col(ALIVE) & F.coalesce(is_met, F.lit(False))


def apply_steps(sources: Sources, affected: Affected | None, steps: Sequence[Step]) -> DataFrame:
    """Apply ``steps`` left to right to the driving rows, or to the affected ones of them, and to those that went."""
    rows = sources.affected_rows(sources.spec.driving, name_left_key(len(sources.spec.key_columns)), affected)
    if affected is not None and affected.went is not None:
        rows = rows.withColumn(WENT, F.lit(False)).unionByName(affected.went.withColumn(WENT, F.lit(True)))
    return join_steps(sources, rows, affected, steps)


def join_steps(sources: Sources, rows: DataFrame, affected: Affected | None, steps: Sequence[Step]) -> DataFrame:
    """Apply ``steps`` left to right to driving rows."""
    rows = rows.withColumn(ALIVE, F.lit(True))
    for step in steps:
        rows = sources.kind_of(step).join(sources, rows, affected, step)
    return rows


def list_identity(rows: DataFrame) -> list[str]:
    """Return the columns that tell joined rows apart: ``__enrich_k*`` and ``__enrich_r*``."""
    return [name for name in rows.columns if name.startswith(("__enrich_k", "__enrich_r"))]


def count_partners(rows: Column, matched: Column, nulls: Column) -> Column:
    """Return how a join went for a row, as ``name_partners`` tells it."""
    parts = zip(_PARTS, (rows, matched, nulls), strict=True)
    return F.struct(*[F.coalesce(part.cast("int"), F.lit(0)).alias(name) for name, part in parts])


def find_references(sources: Sources, step: Step, affected: Affected | None = None, carry: bool = False) -> DataFrame:
    """Return which keys of a lookup the rows before ``step`` refer to.

    If a row differs after ``step`` and not before it, what it refers to is the same at both ends of the window. So the
    references over the rows that the join really sees, at the window's end, lead to every such row.

    In: ``affected``, the rows to look at, None for all; ``carry``, whether the driving source's struct shall come along
    where references stand in its rows as they are. Out: ``__enrich_k*``, ``__enrich_r*`` (when an earlier step is a
    right or full foreign-key join) and ``__enrich_j*``, the referenced key without nulls; one row a reference.
    """
    spec, before = sources.spec, list_deciding_steps(sources.spec, step)
    carry = carry and sources.kind_of(step).carries and not before and not spec.sources[spec.driving].trusted
    found = refer(sources, apply_steps(sources, affected, before), step, [spec.driving] if carry else [])
    return drop_nulls(found, [name for name in found.columns if name.startswith("__enrich_j")])


def refer(sources: Sources, rows: DataFrame, step: Step, carried: Sequence[str] = ()) -> DataFrame:
    """Return what the live rows before a join refer to, as ``find_references`` does, and null references with them.

    A list that is null refers to null once; an empty one refers to nothing.
    """
    rows = add_key(sources.spec, rows).where(F.col(ALIVE))
    identity = list_identity(rows)
    rows, parts = sources.kind_of(step).refer(rows, sources.spec, step)
    names = name_reference(len(parts))
    return rows.select(*identity, *[part.alias(name) for part, name in zip(parts, names, strict=True)], *carried)


def guard(step: Step, expression: str) -> Column:
    """Evaluate what a join refers by on live rows alone: it must not fail on one that an earlier join has removed."""
    return evaluate_where(F.col(ALIVE), expression, is_plain=step.is_plain)


def add_key(spec: JoinSpec, rows: DataFrame) -> DataFrame:
    """Add ``key``, the coalesced key: a scalar, or a struct under the driving source's names."""
    if not spec.has_key:
        return rows
    names = name_left_key(len(spec.key_columns))
    parts = [F.col(name).alias(column) for name, column in zip(names, spec.key_columns, strict=True)]
    return rows.withColumn("key", F.col(names[0]) if len(names) == 1 else F.struct(*parts))


def bury(rows: DataFrame) -> DataFrame:
    """Empty the aliases of dead rows: what follows must not see a side that SQL has dropped."""
    aliases = [name for name in rows.columns if not name.startswith("__enrich_")]
    return rows.withColumns({name: F.when(F.col(ALIVE), F.col(name)) for name in aliases})


def look_up(sources: Sources, step: Step, affected: Affected | None, parts: int) -> DataFrame:
    """Return the rows of a lookup that affected rows may refer to, by the first ``parts`` of its key; None: all of it.

    What they refer to is found by the joins that decide it alone. So no plan holds what all joins before have made of
    the rows twice, and no join waits until these are computed.
    """
    lookup = sources.frame(step.alias, name_reference(len(sources.spec.sources[step.alias].key)))
    if affected is None or step.alias not in {*sources.large, *sources.narrowed}:
        return lookup
    if step.alias not in sources.narrowed:
        keys = F.broadcast(find_references(sources, step, affected).select(*name_reference(parts)).distinct())
        found = sources.frame_of(step.alias, [n for n in lookup.columns if n != step.alias], keys, {})
        sources.narrowed[step.alias] = sources.keep(found)
    return sources.narrowed[step.alias]


def spread_nulls(keys: Sequence[str], names: Sequence[str]) -> Column:
    """Return 0 where all of the columns ``names`` have a value, and elsewhere a number that depends on ``keys``."""
    return F.when(has_null(names), F.pmod(F.hash(*keys), F.lit(_SALTS)) + 1).otherwise(0)


def join_spread(rows: DataFrame, lookup: DataFrame, same: Column) -> DataFrame:
    """Join at most one partner to each row; rows whose ``SALT`` is not 0 have none, and no task gets all of these."""
    lookup = lookup.withColumn(_ZERO, F.lit(0))
    return rows.join(lookup, on=same & (F.col(SALT) == F.col(_ZERO)), how="left").drop(_ZERO)


# --- How joins went: the partners that rows have found, added up; and rows without one ------------------------------

_PARTS = ("rows", "matched", "nulls")


class Partners(NamedTuple):
    """How joins went: for so many rows, without pairs; alias -> how, for these and for rows that went."""

    rows: int
    now: dict[str, LookupState]
    went: Lookups | None


def list_sums(rows: DataFrame, steps: Sequence[Step]) -> list[Column | str]:
    """Return what is summed over rows, with one ``name_partners`` a step, to tell how each join went for them."""
    moments = [quote(WENT) + " = false", quote(WENT)] if WENT in rows.columns else ["true"]
    told = [quote(name_partners(step.alias), part) for step in steps for part in _PARTS]
    sums = [call("coalesce", call("sum", call("if", at, part, "0")), "0") for at in moments for part in told]
    # Each row on the left of the pairs of an interval join is there by itself, too.
    has_pairs = any(step.interval is not None for step in steps)
    return [F.count_if(has_null(list_identity(rows))) if has_pairs else call("count_if", moments[0]), *sums]


def read_sums(found: Sequence[int], steps: Sequence[Step]) -> Partners:
    """Return how joins went, by the values of ``list_sums``."""
    size = len(_PARTS)
    counted = iter([LookupState(*found[i : i + size]) for i in range(1, len(found), size)])
    moments = range(1, len(found), size * len(steps) or 1)
    now, *went = [{step.alias: next(counted) for step in steps} for _ in moments] or [{}]
    return Partners(found[0], now, went[0] if went else None)


def count_referring(alias: str) -> Column:
    """Return how many references of a row are not null; null in a row without left side."""
    partners = F.col(name_partners(alias))
    return partners.getField("rows") - partners.getField("nulls")


def is_orphan(alias: str) -> Column:
    """Tell whether a row refers to a lookup without finding a partner; for lists one element is enough."""
    return count_referring(alias) > F.col(name_partners(alias)).getField("matched")
