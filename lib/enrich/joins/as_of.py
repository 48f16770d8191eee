"""Find for each row the latest version that begins not after its moment.

    rows           versions        in pieces                        latest
    u1, 10:05      u1, 09:00       u1: [09:00, 12:00]               u1, 10:05 -> 10:00
    u1, 08:00      u1, 10:00       u1, 09:00: [09:00, 10:00]        u1, 08:00 -> null
    u2, 10:00      u1, 12:00       u1, 12:00: [12:00]               u2, 10:00 -> null

No row meets every version of its key, and no task sorts all rows or all times of a key. The times of a key are cut into
about as many pieces as a piece has times. A row finds its piece by the beginnings of the pieces, and the time within
the piece, both by halving. Both are joins by equality with at most one partner, which Spark can broadcast, and which it
can split where one key has most of the rows. A key with very many times is first cut at some of them, chosen by their
hash: these are the same however often Spark computes them, and they follow the times, however unevenly these lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import add

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import ENDED, GONE, MATCHED, TOO_EARLY, Step, name_reference
from enrich.frames import join
from enrich.frames.columns import Keep, are_equal, evaluate_where, pack_rows
from enrich.frames.join import SALT, VERDICT, Sources, spread_nulls
from enrich.joins.foreign_key import ForeignKey

LATEST = "__enrich_latest"  # the time from which the version that was found holds; null when there is none
_PIECE, _BEGINNINGS, _TIMES = "__enrich_piece", "__enrich_beginnings", "__enrich_times"
_FEW = 4
_TOGETHER = 8192  # of so many times of a key, one is a cut on average: a task sorts about so many of one key at once
_STEPS = tuple(2**power for power in range(15, -1, -1))


class AsOf(ForeignKey):
    """A join of the version that is valid at the row's moment.

    The last part of the lookup's key is found first: the time from which that version holds.
    """

    def search(self, rows: DataFrame, lookup: DataFrame, wanted: Sequence[str]) -> tuple[DataFrame, Sequence[str]]:
        """Find the time from which the version of the row's moment holds."""
        rows = find_latest(rows, lookup.select(*name_reference(len(wanted))), wanted)
        found = [*wanted[:-1], LATEST]
        return rows.withColumn(SALT, spread_nulls(join.list_identity(rows), found)), found

    def accept(self, step: Step, last: Column) -> Column:
        """Return the version where it holds at the moment ``last``: it has not ended, and the thing is not gone."""
        version = F.col(step.alias)
        return F.when(version.isNotNull() & ~_has_ended(step, last) & ~_is_gone(step), version)

    def find_dependent(self, sources: Sources, step: Step, keys: DataFrame, images: Iterable[DataFrame]) -> DataFrame:
        """Return the rows of whose moment the last version, of those that are there or have changed, has changed."""
        found, names = join.find_references(sources, step, carry=True), keys.columns
        found = find_touched(found, sources.frame(step.alias, names).select(*names), keys, sources.keep)
        return found.join(keys, on=names, how="left_semi").drop(*names)

    def ask(
        self, sources: Sources, step: Step, rows: DataFrame, others: Callable[[], Mapping[str, DataFrame]]
    ) -> tuple[tuple[str, ...], DataFrame]:
        """Return what rows refer to but for their moment, and how the search for the version of that moment goes.

        =================================================  ==================
        version of the moment                              reason
        =================================================  ==================
        there, valid                                       ``matched``
        valid only with the rows of one of ``others``      that of these rows
        the first one begins later                         ``too_early``
        there, ended by then                               ``ended``
        there, and says that the thing is gone             ``gone``
        =================================================  ==================

        A row without a moment has no reference at all.
        """
        rows, source = join.refer(sources, rows, step), sources.spec.sources[step.alias]
        wanted = name_reference(len(source.key))
        names = [f"__enrich_w{i}" for i in range(len(wanted))]

        def judge(rows: DataFrame, versions: DataFrame, verdict: str) -> DataFrame:
            """Add whether any version begins not after the row's moment, and whether the last of these is valid."""
            lookup = pack_rows(versions, source, names)
            found = find_latest(rows.withColumn(SALT, spread_nulls(wanted, wanted)), lookup.select(*names), wanted)
            joined = found.join(lookup, on=are_equal([*wanted[:-1], LATEST], names), how="left")
            ended, gone = _has_ended(step, F.col(wanted[-1])), _is_gone(step)
            told = F.struct(F.col(step.alias).isNotNull().alias("found"), ended.alias("ended"), gone.alias("gone"))
            return joined.withColumn(verdict, told).drop(SALT, LATEST, *lookup.columns)

        def is_matched(verdict: str) -> Column:
            told = F.col(verdict)
            return told.getField("found") & ~told.getField("ended") & ~told.getField("gone")

        rows = judge(rows, sources.snapshots[step.alias], VERDICT)
        reason = F.when(is_matched(VERDICT), MATCHED)
        for word, versions in others().items():
            rows = judge(rows, versions, f"__enrich_{word}")
            reason = reason.when(is_matched(f"__enrich_{word}"), word)
        reason = reason.when(~F.col(VERDICT).getField("found"), TOO_EARLY)
        reason = reason.when(F.col(VERDICT).getField("ended"), ENDED).otherwise(GONE)
        *parts, moment = wanted
        known = [F.when(F.col(moment).isNotNull(), F.col(part)).alias(part) for part in parts]
        return source.key[:-1], rows.select(*join.list_identity(rows), *known, reason.alias(VERDICT))


KIND = AsOf()


def find_latest(rows: DataFrame, versions: DataFrame, wanted: Sequence[str]) -> DataFrame:
    """Find for each row the latest version of its key that begins not after its moment.

    In: ``rows`` with ``SALT``, 0 in rows without a null in ``wanted``: the parts of the key that a row refers to and,
    last, its moment; ``versions``, of the same types, the key's parts and, last, the time from which a version holds,
    without nulls, no two of them equal. Out: ``rows`` with ``LATEST``; for less than ``2 ** 32`` versions of one key.
    """
    *ours, moment = wanted
    parts = [f"__enrich_v{i}" for i in range(len(ours))]
    pieces = cut_into_pieces(versions.toDF(*parts, "__enrich_time"), parts, "__enrich_time")
    beginnings = pieces.groupBy(*parts).agg(F.sort_array(F.collect_list(_PIECE)).alias(_BEGINNINGS))
    same = are_equal(ours, parts)
    rows = join.join_spread(rows, beginnings, same).drop(*parts)
    wanted_piece = F.get(_BEGINNINGS, _count_until(_BEGINNINGS, moment) - 1)
    rows = rows.withColumn("__enrich_wanted_piece", wanted_piece).drop(_BEGINNINGS)
    rows = join.join_spread(rows, pieces, same & (F.col("__enrich_wanted_piece") == F.col(_PIECE))).drop(*parts)
    rows = rows.withColumn(LATEST, F.get(_TIMES, _count_until(_TIMES, moment) - 1))
    return rows.drop("__enrich_wanted_piece", _PIECE, _TIMES)


def cut_into_pieces(versions: DataFrame, parts: Sequence[str], time: str) -> DataFrame:
    """Cut the timeline of each key into pieces.

    In: the key's ``parts`` and ``time``, from which a version holds. Out: the key's parts, the first time of a piece,
    and the piece's times, sorted.
    """
    cuts, times = "__enrich_cuts", F.col(_TIMES)
    is_cut = F.pmod(F.xxhash64(time), F.lit(_TOGETHER)) == 0
    cut = versions.where(is_cut).groupBy(*parts).agg(F.sort_array(F.collect_list(time)).alias(cuts))
    found = versions.join(F.broadcast(cut), on=list(parts), how="left")
    place, ranges = _count_until(cuts, time), F.coalesce(F.size(cuts), F.lit(0)) + 1
    found = found.select(*parts, time, place.alias("__enrich_range"), ranges.alias("__enrich_ranges"))
    in_ranges = found.groupBy(*parts, "__enrich_range", "__enrich_ranges")
    ranged = in_ranges.agg(F.sort_array(F.collect_set(time)).alias(_TIMES))
    of_key = F.when(F.col("__enrich_ranges") == 1, F.size(times)).otherwise(F.col("__enrich_ranges") * _TOGETHER)
    size = F.greatest(F.lit(_FEW), F.ceil(F.sqrt(of_key)).cast("int"))
    starts = F.sequence(F.lit(1), F.size(times), size)
    pieces = F.explode(F.transform(starts, lambda start: F.slice(times, start, size)))
    return ranged.select(*parts, pieces.alias(_TIMES)).select(*parts, F.get(_TIMES, F.lit(0)).alias(_PIECE), _TIMES)


def find_touched(rows: DataFrame, versions: DataFrame, changed: DataFrame, keep: Keep) -> DataFrame:
    """Find the rows that may have another partner than before because versions came, changed or went.

    A row has another partner only if the last of all versions until its moment, those that have gone among them, is one
    that has changed. So the rows between a changed version and the next one refer to a changed version, and no others.

    In: ``rows`` with the columns of ``changed``, without nulls, the last one the row's moment; ``versions`` that are
    there now; those that came, ``changed`` or went. Out: the rows that have any version until their moment, the last
    column the time from which the last one holds.
    """
    names = changed.columns
    keys = changed.select(*names[:-1]).distinct()
    versions = keep(versions.unionByName(changed).distinct().join(keys, on=names[:-1], how="left_semi"))
    rows = rows.join(keys, on=names[:-1], how="left_semi").withColumn(SALT, F.lit(0))
    found = find_latest(rows, versions, names).drop(SALT, names[-1]).withColumnRenamed(LATEST, names[-1])
    return found.where(F.col(names[-1]).isNotNull())


def _count_until(times: str, moment: str) -> Column:
    """Return how many of a row's sorted times are not after its moment, by halving; 0 where one of them is null."""
    # Few times, which most keys have, are compared one by one: that is compiled, and halving is not.
    few = [F.when(F.get(F.col(times), F.lit(place)) <= F.col(moment), 1).otherwise(0) for place in range(_FEW)]

    def take(count: Column, step: Column) -> Column:
        return F.when(F.get(F.col(times), count + step - 1) <= F.col(moment), count + step).otherwise(count)

    halved = F.aggregate(F.array(*[F.lit(step) for step in _STEPS]), F.lit(0), take)
    return F.when(F.coalesce(F.size(times), F.lit(0)) <= _FEW, reduce(add, few)).otherwise(halved)


def _has_ended(step: Step, moment: Column) -> Column:
    """Return whether the version of a lookup's struct has ended at the moment; one without an end has not."""
    if step.valid_to is None:
        return F.lit(False)
    end = F.col(step.alias).getField(step.valid_to)
    return F.coalesce(end < moment if step.is_inclusive else end <= moment, F.lit(False))


def _is_gone(step: Step) -> Column:
    """Return whether the version of a lookup's struct says that the thing does not exist; null is not true."""
    if step.gone is None:
        return F.lit(False)
    return F.coalesce(evaluate_where(F.col(step.alias).isNotNull(), step.gone, is_plain=step.is_plain), F.lit(False))
