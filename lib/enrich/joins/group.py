"""Make one row of the rows of a table that have one key: what is counted, summed and chosen of them.

A change of a row reaches the group that it was in and the group that it is in, and no other. Where the target's row and
what came and went tell what the group is now, it is moved by these (``move_groups``); the others are computed anew,
from all their rows at the window's end (``derive_groups``).

==============================  ==================  ====================  =======================
rows                            ``count(*)``        ``max(x)``            ``count(DISTINCT x)``
==============================  ==================  ====================  =======================
a: 1, 7; b: 7                   a 2, b 1            a 7, b 7              a 2, b 1
the 7 of a goes                 a 1, b 1            a 1, b 7 (anew)       a 1, b 1 (anew)
b: 7 moves to a                 a 2                 a 7                   a 2 (anew)
null: 5 comes                   the same: a null is no key, and is left out and counted (``group_not_null``)
==============================  ==================  ====================  =======================
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from enrich.base.result import Counts
from enrich.base.schemas import NOT_NULL, is_wide
from enrich.base.spec import HOLDERS, LIVE, WEIGHT, Affected, Read, name_left_key, quote
from enrich.delta import reads
from enrich.frames.columns import (
    add_up,
    aggregate,
    count_with_ranges,
    drop_nulls,
    has_null,
    keep_in_ranges,
    lacks_value,
    make_comparable,
    pack_columns,
    unite,
)
from enrich.progress.plan import INCREMENTAL, Plan
from enrich.steps.rows import Rows, count_left, keep_rows
from enrich.steps.run import Run, build_finding, read_target
from enrich.steps.source_changes import Changes
from enrich.steps.source_changes import read_windows as read_changes  # noqa: F401 - a part of the kind

if TYPE_CHECKING:
    from enrich.project.kinds.group import GroupSpec, Part

log = logging.getLogger("enrich")

_ADDED, _LEAST, _GREATEST = ("count", "sum", "avg"), ("min", "bool_and"), ("max", "bool_or")
_ROW = "__enrich_number"
_COME, _GONE, _CROWDED = "__enrich_come", "__enrich_gone", "__enrich_crowded"
_THERE, _HELD, _SURE = "__enrich_there", "__enrich_held", "__enrich_sure"


def get_spec(run: Run) -> GroupSpec:
    """Return the job of a run as the groups that it is."""
    return cast("GroupSpec", run.plan.spec)


def find_affected(run: Run, changed: Changes) -> Affected:
    """Return the groups that a changed row was in or is in."""
    spec = get_spec(run)
    found = [find_groups(spec, images) for images in changed.images(spec.driving)]
    return count_left(run, Affected(run.keep(unite(found).distinct())))


def compute_rows(run: Run, changed: Changes, affected: Affected | None) -> Rows:
    """Move or compute the affected groups; rows that come with a null in their group are a finding."""
    spec, names = get_spec(run), name_left_key(len(get_spec(run).by))
    if affected is None:
        frame = derive_groups(spec, run.snapshot(spec.driving), affected, with_nulls=True)
        counts = (F.count_if(LIVE), add_up(F.col(HOLDERS)), add_up(F.when(~F.col(LIVE), F.col(HOLDERS))))
        frame, (count, come, nulls), tally = keep_rows(run, frame, *counts)
    else:
        frame, _, tally = keep_rows(run, _compute_affected(run, changed, affected))
        count, come, nulls = affected.count, 0, 0  # the rows of the groups are not those that have come
        if spec.driving in changed.net:
            images = changed.net[spec.driving].images.where(F.col(WEIGHT) > 0)
            rows = take_keys(spec, images.where(~lacks_value(spec.key)))
            come, nulls = map(int, aggregate(rows, F.count("*"), F.count_if(has_null(names))))
    findings = (build_finding("group_not_null", "warn", (come, nulls), spec.driving),) if nulls else ()
    return Rows(frame.drop(HOLDERS), Counts(affected_keys=count), findings, tally=tally)


def _compute_affected(run: Run, changed: Changes, affected: Affected) -> DataFrame:
    """Move those affected groups that the target and the changes tell, and compute the others from all their rows."""
    spec, names = get_spec(run), name_left_key(len(get_spec(run).by))
    if run.are_few(affected.count):
        affected = replace(affected, left=F.broadcast(affected.left))
    moves = can_move(run.plan) and not changed.again and not changed.compared[spec.driving]
    moved = move_groups(run, changed, affected) if moves else None
    if moved is None:
        return derive_groups(spec, run.snapshot(spec.driving), affected)
    moved = run.keep(moved)
    others = moved.where(~F.col(_SURE)).select(*names)
    (count,), ranges = count_with_ranges(others, names)
    log.info("%s: groups that move by the changes: %d; computed anew: %d", spec.job, affected.count - count, count)
    cells = [F.expr(cell.expression).alias(cell.name) for cell in spec.cells]
    frame = moved.where(F.col(_SURE) & F.col(LIVE)).select(*names, LIVE, *cells)
    if not count:
        return frame
    others = F.broadcast(others) if run.are_few(count) else others
    anew = derive_groups(spec, run.snapshot(spec.driving), replace(affected, left=others, count=count, ranges=ranges))
    return frame.unionByName(anew.drop(HOLDERS))


def derive_rows(run: Run, affected: Affected | None) -> DataFrame:
    """Return the groups, with ``HOLDERS``, how many rows each has."""
    return derive_groups(get_spec(run), run.snapshot(run.plan.spec.driving), affected)


def show_keyless(run: Run, rows: DataFrame) -> DataFrame:
    """Return rows of the source without a whole key as groups of their own; nulls for those that ``where`` removes."""
    spec = get_spec(run)
    numbered = rows.withColumn(_ROW, F.monotonically_increasing_id()).localCheckpoint()
    made = make_groups(spec, take_keys(spec, numbered, _ROW), F.lit(True), _ROW)
    return numbered.select(_ROW).join(made, on=_ROW, how="left").select(*map(quote, spec.columns))


def list_reads(plan: Plan, _moved: Mapping[str, bool]) -> list[Read]:
    """Return the source where it has to tell the other rows of groups."""
    return [(plan.spec.driving, None)] if explain_reads(plan) else []


def explain_reads(plan: Plan) -> str | None:
    """Return why a run may have to read the source, beside its feed; None where it has not."""
    if not can_move(plan):
        return "the groups are computed from all their rows"
    shown = Shown.of(plan, plan.spec.columns)
    if lacking := shown.list_lacking():
        return f"more groups would move by the changes alone with {' and '.join(lacking)} among the columns"
    chosen = [p.spell() for p in shown.spec.parts.values() if p.function not in _ADDED or p.is_distinct or p.is_wide]
    if chosen:
        return f"only groups in which {' or '.join(chosen)} may have changed are computed from all their rows"
    return None


def list_keys(run: Run) -> DataFrame:
    """Return the groups that the source's rows make, whether ``where`` keeps them or not: ``__enrich_k*``, distinct."""
    spec = replace(get_spec(run), where=None)
    return find_groups(spec, run.snapshot(spec.driving))


def find_groups(spec: GroupSpec, rows: DataFrame) -> DataFrame:
    """Return the groups of rows of the source: ``__enrich_k*``, distinct and without nulls."""
    names = name_left_key(len(spec.by))
    return drop_nulls(take_keys(spec, rows.where(~lacks_value(spec.key))).select(*names), names).distinct()


def take_keys(spec: GroupSpec, rows: DataFrame, *also: str) -> DataFrame:
    """Return the rows of the source that ``where`` keeps: its struct, ``__enrich_k*`` and the columns ``also``."""
    rows = rows.select(pack_columns(spec.source.columns).alias(spec.driving), *also)
    kept = rows if spec.where is None else rows.where(F.expr(spec.where))
    return kept.withColumns({name: F.expr(by) for name, by in zip(name_left_key(len(spec.by)), spec.by, strict=True)})


def derive_groups(
    spec: GroupSpec, rows: DataFrame, affected: Affected | None, *, with_nulls: bool = False
) -> DataFrame:
    """Compute the affected groups from the source's rows at the window's end; None: all.

    Returns:
        ``__enrich_k*``, ``LIVE`` (false with a null among them, where such groups are asked for), ``HOLDERS`` (how many
        rows the group has) and the target's columns.
    """
    names = name_left_key(len(spec.by))
    kept = take_keys(spec, rows)
    is_whole = ~has_null(names)  # the others are only counted: no value of theirs may fail
    kept = kept.withColumn(spec.driving, F.when(is_whole, F.col(spec.driving))) if with_nulls else kept.where(is_whole)
    if affected is not None:
        kept = keep_in_ranges(kept, affected.ranges).join(affected.left, on=names, how="left_semi")
    return make_groups(spec, kept, is_whole).withColumn(LIVE, is_whole)


def make_groups(spec: GroupSpec, rows: DataFrame, guard: Column, *also: str) -> DataFrame:
    """Group rows by ``__enrich_k*``, ``also``: these, ``HOLDERS``, and the target's columns, where ``guard`` holds."""
    names = [*also, *name_left_key(len(spec.by))]
    made = [F.expr(text).alias(name) for name, text in spec.aggregates.items()]
    cells = [F.when(guard, F.expr(cell.expression)).alias(cell.name) for cell in spec.cells]
    return rows.groupBy(*names).agg(F.count("*").alias(HOLDERS), *made).select(*names, HOLDERS, *cells)


# --- groups that move by what came and went ---------------------------------------------------------------------------


def can_move(plan: Plan) -> bool:
    """Tell whether the target has the groups as they were where the window begins, and the window all that came since.

    Its rows are what its record says: those of others end a run before. What a run takes again is in the target
    already, and where a gap was left out, only all rows of a group make its row right.
    """
    alias = plan.spec.driving
    at, mark = plan.window[alias], plan.target.marks.get(alias)
    is_next = mark is not None and at.start == mark.to and at.gap is None and not mark.gaps
    if plan.spec.sources[alias].is_derived:  # its table is read for the other rows of changed keys in any case
        return False
    return is_next and plan.mode == INCREMENTAL and not (plan.everything or plan.again or plan.until or plan.unsearched)


@dataclass(frozen=True)
class Shown:
    """What a target's columns tell of aggregates."""

    spec: GroupSpec
    columns: Mapping[str, str]  # aggregate -> the target's column that shows it as it is
    full: frozenset[str]  # the source's columns without a null

    @staticmethod
    def of(plan: Plan, columns: Collection[str]) -> Shown:
        """Return what those of some columns tell that are the target's."""
        spec = cast("GroupSpec", plan.spec)
        cells = {"".join(cell.expression.split()): cell.name for cell in spec.cells if cell.name in columns}
        texts = {n: "".join(("array_sort(", n, ")")) if p.function == "array_agg" else n for n, p in spec.parts.items()}
        demanded = plan.tables[spec.driving].demands.constraints
        full = {each.path[0] for each in demanded if each.type == NOT_NULL and len(each.path) == 1}
        shown = {n: cells[text] for n, text in texts.items() if text in cells}
        return Shown(spec, shown, frozenset({*full, *spec.key}))

    def find(self, function: str, of: tuple[str, str]) -> str | None:
        """Return the aggregate that a column shows and that is this function of the same values."""
        wanted = function, function == "array_agg", of
        parts = ((name, self.spec.parts[name]) for name in self.columns)
        return next((name for name, part in parts if (part.function, part.is_distinct, part.of) == wanted), None)

    def find_count(self, part: Part) -> str | None:
        """Return the one that counts the values of an aggregate: these, or all rows where none is null."""
        found = self.find("count", part.of)
        return self.find("count", ("*", part.of[1])) if found is None and part.column in self.full else found

    def find_rows(self) -> str | None:
        """Return the one that counts all rows."""
        full = [n for n in self.columns if (part := self.spec.parts[n]).column in self.full and not part.of[1]]
        counts = [n for n in full if self.spec.parts[n].function == "count" and not self.spec.parts[n].is_distinct]
        return self.find("count", ("*", "")) or next(iter(counts), None)

    def list_lacking(self) -> list[str]:
        """Return the aggregates that the target would have to show for no count or sum to be computed anew."""
        found = [] if self.find_rows() else ["count(*)"]
        for name, part in self.spec.parts.items():
            if part.function in ("sum", "avg") and not part.is_distinct:
                wanted = {"sum": self.find("sum", part.of), "count": self.find_count(part)}
                found += [part.spell(function) for function, there in wanted.items() if there is None]
            elif name not in self.columns:
                found.append(part.spell())
        return [*dict.fromkeys(found)]

    @property
    def is_enough(self) -> bool:
        """True when groups that are there already can be moved at all."""
        parts = self.spec.parts.items()
        return all(self.find("sum", p.of) if p.function == "avg" else n in self.columns for n, p in parts)


def move_groups(run: Run, changed: Changes, affected: Affected) -> DataFrame | None:
    """Tell the affected groups from the target's rows and what came and went; None where its columns tell too little.

    Returns:
        ``__enrich_k*`` and the aggregates ``__enrich_a*`` of all affected groups; ``_SURE``, whether these are what the
        group's rows would give; ``LIVE``, whether it has any row.
    """
    spec, names, old = get_spec(run), name_left_key(len(get_spec(run).by)), read_target(run)
    shown = Shown.of(run.plan, () if old is None else old.columns)
    if old is None or not shown.is_enough or not {*spec.keys} <= {*old.columns}:
        return None
    images = changed.net[spec.driving].images.where(~lacks_value(spec.key))
    rows = drop_nulls(take_keys(spec, images, WEIGHT), names)
    made = rows.agg(*[F.expr(text).alias(name) for name, text in spec.aggregates.items()])
    arguments = {name: part.argument for name, part in spec.parts.items() if part.argument is not None}
    made_of = rows.select(*[F.expr(text).alias(name) for name, text in arguments.items()])
    kinds, values = ({each.name: each.dataType for each in frame.schema} for frame in (made, made_of))
    come, gone = F.col(WEIGHT) > 0, F.col(WEIGHT) < 0
    told = [F.count_if(come).alias(_COME), F.count_if(gone).alias(_GONE), (F.max(F.abs(WEIGHT)) > 1).alias(_CROWDED)]
    told += [each for name, part in spec.parts.items() for each in _tell_changes(name, part, values.get(name))]
    frame = rows.groupBy(*names).agg(*told)
    keys = [F.col(quote(column)).alias(name) for column, name in zip(spec.keys, names, strict=True)]
    were = [F.col(quote(column)).alias(f"{name}_was") for name, column in shown.columns.items()]
    old = keep_in_ranges(old.select(*keys, *were, F.lit(True).alias(_THERE)), affected.ranges)
    frame = frame.join(old.join(affected.left, on=names, how="left_semi"), on=names, how="left")
    held: Column = F.lit(False)
    if run.plan.target.quarantine is not None:
        table = run.plan.target.quarantine.table
        waiting = reads.read_snapshot(run.session, table.uri, table.version, spec.keys).select(*keys).distinct()
        frame = frame.join(waiting.withColumn(_HELD, F.lit(True)), on=names, how="left")
        held = F.coalesce(_HELD, F.lit(False))
    # A group that is not in the target had no row, unless it waits in the quarantine.
    frame = frame.withColumn(_THERE, F.coalesce(_THERE, F.lit(False)))
    mover = _Mover(shown, kinds, values)
    moved = {name: mover.move(name) for name in spec.parts}
    counts = [mover.count(name, name) for name in shown.columns if _counts(spec.parts[name])]
    lives = reduce(or_, [each > 0 for each in counts], F.col(_COME) > 0)
    knows_life = lives | (F.lit(False) if shown.find_rows() is None else F.col(_THERE))
    begins_known = F.col(_THERE) | ((F.col(_GONE) == 0) & ~held)
    are_sure = reduce(and_, [each for _, each in moved.values()], F.lit(True))
    sure = ~F.col(_CROWDED) & begins_known & knows_life & (~lives | are_sure)
    cells = [value.alias(name) for name, (value, _) in moved.items()]
    return frame.select(*names, *cells, F.coalesce(sure, F.lit(False)).alias(_SURE), lives.alias(LIVE))


def _counts(part: Part) -> bool:
    return part.function == "count" and not part.is_distinct


def _tell_changes(name: str, part: Part, kind: T.DataType | None) -> list[Column]:
    """Return how many values of an aggregate came and went in a group (``_come``, ``_gone``), and what these make."""
    found = []
    value = F.lit(1) if part.argument is None else F.expr(part.argument)
    for sign, many, made in ((1, "come", "came"), (-1, "gone", "went")):
        is_meant = F.col(WEIGHT) * sign > 0
        is_meant = is_meant if part.condition is None else is_meant & F.expr(part.condition)
        mine = F.when(is_meant, value)
        found.append(F.count(mine).alias(f"{name}_{many}"))
        if part.is_distinct and kind is not None:
            made_of = F.collect_set(make_comparable(mine, kind))
        elif part.function in ("sum", "avg"):
            made_of = F.try_sum(mine if isinstance(kind, T.DecimalType) else mine.cast("decimal(20,0)"))
        elif part.function in _LEAST:
            made_of = F.min(mine)
        elif part.function in _GREATEST:
            made_of = F.max(mine)
        else:
            continue
        found.append(made_of.alias(f"{name}_{made}"))
    return found


@dataclass(frozen=True)
class _Mover:
    """Moves the aggregates of groups, in a frame that has what was (``_was``), came and went."""

    shown: Shown
    kinds: Mapping[str, T.DataType]  # of the aggregates
    values: Mapping[str, T.DataType]  # of what they are made of

    def was(self, name: str | None) -> Column:
        """Return an aggregate as it was; null in a new group, and where no column shows it."""
        return F.col(f"{name}_was") if name in self.shown.columns else F.lit(None)

    def is_known(self, name: str | None) -> Column:
        return F.lit(True) if name in self.shown.columns else ~F.col(_THERE)

    def count(self, name: str, told: str | None) -> Column:
        """Return how many values an aggregate is made of; ``told``: the one that says how many they were."""
        return F.coalesce(self.was(told).cast("long"), F.lit(0)) + F.col(f"{name}_come") - F.col(f"{name}_gone")

    def move(self, name: str) -> tuple[Column, Column]:
        """Return what an aggregate is now, and whether that is sure."""
        part = self.shown.spec.parts[name]
        came, went, was, known = F.col(f"{name}_came"), F.col(f"{name}_went"), self.was(name), self.is_known(name)
        if _counts(part):
            count = self.count(name, name)
            return count, known & (count >= 0)
        if part.function in ("sum", "avg"):
            return self._add_up(name, part)
        if part.function == "array_agg":
            # What went and also came is there still; what went alone may stand in another row.
            before = F.coalesce(was, F.array().cast(self.kinds[name]))
            return F.array_sort(F.array_union(before, came)), known & (F.size(F.array_except(went, came)) == 0)
        if part.is_distinct:
            is_same = (F.size(F.array_except(went, came)) == 0) & (F.size(F.array_except(came, went)) == 0)
            count = F.when(F.col(_THERE), was).otherwise(F.size(came).cast("long"))
            return count, known & (~F.col(_THERE) | is_same)
        was = was.cast(self.kinds[name])
        if part.function in _GREATEST:
            value, stays = F.greatest(was, came), (went < was) | (came >= was)
        else:
            value, stays = F.least(was, came), (went > was) | (came <= was)
        is_moved = (F.col(f"{name}_gone") == 0) | stays
        if isinstance(self.kinds[name], T.DoubleType | T.FloatType):  # 0.0 is -0.0, and a text of it shows which it is
            is_moved &= value.isNull() | (value != 0)
        return value, known & F.coalesce(is_moved, F.lit(False))

    def _add_up(self, name: str, part: Part) -> tuple[Column, Column]:
        """Return a sum or an average: of a decimal as Spark divides it, while that rounds once."""
        total = name if part.function == "sum" else self.shown.find("sum", part.of)
        counted, kind = self.shown.find_count(part), self.values[name]
        come, gone, known = F.col(f"{name}_come"), F.col(f"{name}_gone"), self.is_known(counted)
        count, most = self.count(name, counted), 2**53
        precision, scale = (kind.precision, kind.scale) if isinstance(kind, T.DecimalType) else (20, 0)
        wide = T.DecimalType(min(38, precision + 10), scale)
        was, nothing = self.was(total).cast(wide), F.lit(0).cast(wide)
        came = F.coalesce(f"{name}_came", F.when(come == 0, nothing))
        went = F.coalesce(f"{name}_went", F.when(gone == 0, nothing))
        value = F.try_subtract(F.try_add(F.coalesce(was, nothing), came), went)
        is_filled = (come > 0) | F.when(gone == 0, was.isNotNull()).otherwise(count > 0)
        is_sure = self.is_known(total) & ((come > 0) | (gone == 0) | known) & ((gone == 0) | was.isNotNull())
        if part.function == "avg":
            if isinstance(kind, T.DecimalType):
                most = 10 ** max(0, min(17, 24 - precision))
                mean = value.try_cast(wide) / count.cast("decimal(20,0)")
            else:
                mean = value.cast("double") / count
            in_bounds = (count > 0) & (count < most)
            value, is_sure = F.when(in_bounds, mean), is_sure & known
        value = value.try_cast(self.kinds[name])
        is_sure = is_sure & F.lit(not is_wide(kind.simpleString())) & (~is_filled | value.isNotNull())
        return F.when(is_filled, value), is_sure
