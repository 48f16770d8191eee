"""Pair rows with the rows of a lookup that are near them in time.

Both bounds are inclusive. With ``between: [-1h, 24h]``:

=====  ======  =====================  ====================
row    at      lookup, same match     pairs
=====  ======  =====================  ====================
o1     10:00   p1 at 09:00            (o1, p1)
o1     10:00   p2 at 10:00, next day  (o1, p2)
o1     10:00   p3 at 08:59:59         none
o2     null    p1, p2, p3             none
=====  ======  =====================  ====================

Nobody compares every row with every row of the same match: time is cut into buckets as long as the interval. A row of
the lookup is in one bucket; a row on the left asks in each bucket that its interval touches, which are two or three.
What is equal in match and bucket is then compared exactly. Buckets need only be right in their order: where a value is
beyond what they count exactly, more rows are compared, and none is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from enrich.base import spec as specs
from enrich.base.spec import (
    MATCHED,
    OUT_OF_INTERVAL,
    Affected,
    JoinSpec,
    Step,
    name_left_key,
    name_partners,
    name_reference,
    name_right_key,
    quote,
)
from enrich.frames import normalise
from enrich.frames.columns import are_equal, drop_nulls, has_null, take_column, unite
from enrich.frames.join import ALIVE, VERDICT, Sources, StepKind, count_partners, guard, list_identity

AT, TIME = "__enrich_at", "__enrich_time"
_ASKED, _BUCKET, _FOUND = "__enrich_asked", "__enrich_bucket", "__enrich_found"
_MOST = 2**63 - 1  # the greatest whole number
_LAST = 2**52  # the last bucket of fractions
_DAY = 86_400_000_000
_DIGITS = 38  # the most that a decimal has


name_wanted = partial(specs.name_parts_of, "f")  # what a row matches by
name_matched = partial(specs.name_parts_of, "m")  # what a lookup's row is matched by


@dataclass(frozen=True)
class Scale:
    """How times of one type are compared, by the least and the greatest difference, and cut into buckets."""

    kind: T.DataType
    lower: Decimal
    upper: Decimal

    @property
    def is_whole(self) -> bool:
        """True where times are whole numbers of some unit."""
        return not isinstance(self.kind, T.FractionalType)

    def count(self, time: Column) -> Column:
        """Return a time as a number: whole units, or as it is."""
        if isinstance(self.kind, T.DateType):
            return F.unix_date(time).cast("long")
        if isinstance(self.kind, T.TimestampType):
            return F.unix_micros(time)
        if isinstance(self.kind, T.TimestampNTZType):  # by its parts: a cast would go by the session's time zone
            minutes = F.hour(time) * 60 + F.minute(time)
            micros = (F.extract(F.lit("SECOND"), time) * 1_000_000).cast("long")
            day = F.unix_date(time.cast("date")).cast("long")
            back = (day < 0).cast("long")  # the first day there is begins before the least number
            return (day + back) * _DAY + (minutes.cast("long") * 60_000_000 + micros - back * _DAY)
        if isinstance(self.kind, T.FloatType):
            return time.cast("double")
        return time.cast("long") if self.is_whole else time

    def is_near(self, at: Column, time: Column) -> Column:
        """Tell whether ``time - at`` is within the bounds; what cannot be subtracted is not."""
        apart = F.try_subtract(time, at)
        if isinstance(self.kind, T.DecimalType):
            bounds = F.lit(self.lower), F.lit(self.upper)
            if self.kind.precision < _DIGITS:
                return apart.between(*bounds)
            # Of so many digits Spark would round the last one away, unless the numbers need fewer.
            fewer = T.DecimalType(_DIGITS - 1, min(self.kind.scale, _DIGITS - 1))
            exact = F.try_subtract(time.try_cast(fewer), at.try_cast(fewer))
            return F.coalesce(exact.between(*bounds), apart.between(*bounds))
        if not self.is_whole:
            return apart.between(F.lit(float(self.lower)), F.lit(float(self.upper)))
        return apart.between(*[F.lit(bound).cast("long") for bound in self._whole_bounds])

    def touch(self, at: Column) -> Column:
        """Return the buckets, as an array, in which a row's partners are."""
        if not self.is_whole:
            # One more on either side: a sum of fractions is not exact.
            first, last = (self.bucket(at.cast("double") + float(bound)) for bound in (self.lower, self.upper))
            return F.sequence(first - 1, last + 1)
        first, last = (self.bucket(_add(at, bound)) for bound in self._whole_bounds)
        return F.sequence(first, F.greatest(first, last))

    def bucket(self, time: Column) -> Column:
        """Return the bucket of a time. The one at zero is twice as long, because division cuts towards it."""
        if self.is_whole:
            lower, upper = self._whole_bounds
            return F.call_function("div", time, F.lit(max(upper - lower, 1)).cast("long"))
        width = float(self.upper - self.lower) or 1.0
        place = F.greatest(F.least(time.cast("double") / width, F.lit(float(_LAST))), F.lit(float(-_LAST)))
        return F.floor(place)

    @property
    def _whole_bounds(self) -> tuple[int, int]:
        bounds = self.lower.to_integral_value(ROUND_CEILING), self.upper.to_integral_value(ROUND_FLOOR)
        return int(bounds[0]), int(bounds[1])


def _add(number: Column, bound: int) -> Column:
    """Add to a whole number; what is beyond all of them becomes the last one."""
    end = F.lit(_MOST if bound > 0 else -_MOST - 1)
    return F.coalesce(F.try_add(number, F.lit(bound).cast("long")), F.when(number.isNotNull(), end))


class Interval(StepKind):
    """A join of the rows that match and are near in time."""

    def refer(self, rows: DataFrame, spec: JoinSpec, step: Step) -> tuple[DataFrame, list[Column]]:
        """Return what ``match`` equals; it is no key, which alone is normalised."""
        return rows, [guard(step, part) for part in step.references]

    def join(self, sources: Sources, rows: DataFrame, affected: Affected | None, step: Step) -> DataFrame:
        """Join driving rows with the rows of a lookup near them; ``right`` and ``full`` add its unpaired ones."""
        is_large, near, matched = step.alias in sources.large, get_interval(step), name_matched(len(step.on))
        rows = _mark_rows(sources, step, rows)
        rows = sources.keep(rows) if is_large else rows
        lookup = sources.frame(step.alias, name_right_key(len(sources.spec.sources[step.alias].key)))
        compared = zip([*matched, TIME], [*near.match, near.time], strict=True)
        lookup = lookup.withColumns({name: F.col(quote(step.alias)).getField(column) for name, column in compared})
        joined = join_pairs(rows, lookup, step, large=is_large)
        if not step.keeps_right:
            return joined
        if affected is not None and affected.right is not None:
            lookup = lookup.join(affected.right, on=affected.right.columns, how="left_semi")
        # Rows of the lookup that no row is near.
        keys = list_identity(lookup)
        asking = _read_rows(sources, step, None).select(*name_wanted(len(step.on)), AT)
        used = find_pairs(asking, lookup.select(*keys, *matched, TIME), step).distinct()
        alone = lookup.drop(*matched, TIME).join(used, on=keys, how="left_anti").withColumn(ALIVE, F.lit(True))
        return joined.unionByName(alone, allowMissingColumns=True)

    def ask(
        self, sources: Sources, step: Step, rows: DataFrame, others: Callable[[], Mapping[str, DataFrame]]
    ) -> tuple[tuple[str, ...], DataFrame]:
        """Return what rows match by, null where their time is, and whose rows are near: the lookup's, or ``others``."""
        near, keys = get_interval(step), list_identity(rows)
        wanted = name_wanted(len(near.match))
        rows = _mark_rows(sources, step, rows).select(*keys, *wanted, AT)
        reason = F.when(F.lit(False), MATCHED)
        for word, theirs in {MATCHED: sources.snapshots[step.alias], **others()}.items():
            pairs, found = find_pairs(rows, _take_times(sources, step, theirs), step), f"{_FOUND}_{word}"
            rows = rows.join(pairs.select(*keys).distinct().withColumn(found, F.lit(True)), on=keys, how="left")
            reason = reason.when(F.col(found), word)
        names = zip(wanted, name_reference(len(wanted)), strict=True)
        parts = [F.when(F.col(AT).isNotNull(), F.col(name)).alias(part) for name, part in names]
        return near.match, rows.select(*keys, *parts, reason.otherwise(OUT_OF_INTERVAL).alias(VERDICT))

    def find_dependent(self, sources: Sources, step: Step, keys: DataFrame, images: Iterable[DataFrame]) -> DataFrame:
        """Return the driving rows that are near a changed row of the lookup, as it is or as it was.

        A row that has other partners than before without having changed itself is near a row that did change: near its
        image that came, or near the one that went. Out: ``__enrich_k*``.
        """
        names = name_left_key(len(sources.spec.key_columns))
        return unite([list_neighbours(sources, step, None, each).select(*names) for each in images]).distinct()

    def find_partners(self, sources: Sources, step: Step, left: DataFrame, moved: DataFrame | None) -> DataFrame | None:
        """Return the rows of the lookup that changed driving rows are near; None when none has changed.

        Such a row may have got its first partner or lost the last one without having changed itself.
        """
        spec = sources.spec
        if moved is None:
            return None
        keys = moved.toDF(*name_left_key(len(spec.key_columns)))
        return list_neighbours(sources, step, keys).select(*name_right_key(len(spec.sources[step.alias].key)))


KIND = Interval()


def get_interval(step: Step) -> specs.Interval:
    """Return what an interval join has beside ``on``."""
    assert step.interval is not None  # noqa: S101 - its kind has compiled it
    return step.interval


def list_neighbours(sources: Sources, step: Step, keys: DataFrame | None, images: DataFrame | None = None) -> DataFrame:
    """Return which driving rows are near which rows of a lookup: ``__enrich_k*`` and ``__enrich_r*``.

    In: ``__enrich_k*`` of the driving rows to look at, None for all; the lookup's rows to look at, in its own columns,
    None for its snapshot.
    """
    theirs = sources.snapshots[step.alias] if images is None else images
    rows = _read_rows(sources, step, None if keys is None else Affected(keys)).drop(sources.spec.driving)
    return find_pairs(rows, _take_times(sources, step, theirs), step)


def _take_times(sources: Sources, step: Step, theirs: DataFrame) -> DataFrame:
    """Return of rows of the lookup, in its own columns, ``__enrich_r*`` and what is compared, without null keys."""
    near, source = get_interval(step), sources.spec.sources[step.alias]
    rights = name_right_key(len(source.key))
    names = zip([*rights, *name_matched(len(near.match)), TIME], [*source.key, *near.match, near.time], strict=True)
    return drop_nulls(theirs.select(*[take_column(column).alias(name) for name, column in names]), rights)


def _read_rows(sources: Sources, step: Step, affected: Affected | None) -> DataFrame:
    keys = name_left_key(len(sources.spec.key_columns))
    return _mark_rows(sources, step, sources.affected_rows(sources.spec.driving, keys, affected))


def _mark_rows(sources: Sources, step: Step, rows: DataFrame) -> DataFrame:
    """Add to driving rows what the join compares: ``name_wanted`` and ``AT``."""
    near, source = get_interval(step), sources.spec.sources[step.alias]
    parts = {}
    for name, text, column in zip(name_wanted(len(step.on)), step.on, near.match, strict=True):
        # What meets a part of the lookup's key has its form.
        is_text_key = column in source.key and source.columns[column] == specs.TEXT_TYPE
        parts[name] = normalise.normalise(F.expr(text), source.normalise if is_text_key else ())
    return rows.withColumns({**parts, AT: F.expr(near.at)})


def find_pairs(rows: DataFrame, lookup: DataFrame, step: Step, *, large: bool = False) -> DataFrame:
    """Return every row with every row of the lookup that is near it.

    In: ``name_wanted`` and ``AT`` of rows, ``name_matched`` and ``TIME`` of the lookup, where a null has no partner,
    and what else they have, which is kept. ``large``: of the lookup, rows in whose buckets nobody asks are left out.
    """
    near = get_interval(step)
    wanted, matched = name_wanted(len(near.match)), name_matched(len(near.match))
    candidates = find_candidates(rows, lookup, step, large=large)
    scale = Scale(lookup.schema[TIME].dataType, near.lower, near.upper)
    is_near = scale.is_near(scale.count(F.col(AT)), scale.count(F.col(TIME)))
    return candidates.where(is_near).drop(*wanted, *matched, AT, TIME)


def find_candidates(rows: DataFrame, lookup: DataFrame, step: Step, *, large: bool = False) -> DataFrame:
    """Return rows with the rows of the lookup in the buckets that their intervals touch: all pairs, and some more."""
    near = get_interval(step)
    wanted, matched = name_wanted(len(near.match)), name_matched(len(near.match))
    scale = Scale(lookup.schema[TIME].dataType, near.lower, near.upper)
    rows, lookup = drop_nulls(rows, [*wanted, AT]), drop_nulls(lookup, [*matched, TIME])
    rows = rows.withColumn(_ASKED, F.explode(scale.touch(scale.count(F.col(AT)))))
    lookup = lookup.withColumn(_BUCKET, scale.bucket(scale.count(F.col(TIME))))
    if large:
        asked = F.broadcast(rows.select(*wanted, _ASKED).toDF(*matched, _BUCKET).distinct())
        lookup = lookup.join(asked, on=[*matched, _BUCKET], how="left_semi")
    return rows.join(lookup, on=are_equal([*wanted, _ASKED], [*matched, _BUCKET]), how="inner").drop(_ASKED, _BUCKET)


def join_pairs(rows: DataFrame, lookup: DataFrame, step: Step, *, large: bool = False) -> DataFrame:
    """Join the rows of the left side: a row a pair, and each of them once more without partner.

    That one is alive if the join keeps it and there is no pair. It alone tells how the join went, so a row counts once.

    In: as for ``find_pairs``, the rows with ``__enrich_k*`` and ``ALIVE``, the lookup with ``__enrich_r*``.
    """
    keys = [name for name in rows.columns if name.startswith("__enrich_k")]
    wanted = name_wanted(len(step.on))
    pairs = find_pairs(rows, lookup, step, large=large)
    found = pairs.select(*keys).distinct().withColumn(_FOUND, F.lit(True))
    has_pair = F.coalesce(F.col(_FOUND), F.lit(False))
    partners = count_partners(F.lit(1), has_pair, has_null(wanted))
    is_alive = ~has_pair if step.how in ("left", "full") else F.lit(False)
    own = rows.join(found, on=keys, how="left").withColumns({name_partners(step.alias): partners, ALIVE: is_alive})
    return own.drop(*wanted, AT, _FOUND).unionByName(pairs, allowMissingColumns=True)
