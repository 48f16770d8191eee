"""Rows and versions -> for each row the latest version that begins not after its moment.

    rows           versions        in pieces                        latest
    u1, 10:05      u1, 09:00       u1: [09:00, 12:00]               u1, 10:05 -> 10:00
    u1, 08:00      u1, 10:00       u1, 1: [09:00, 10:00]            u1, 08:00 -> null
    u2, 10:00      u1, 12:00       u1, 2: [12:00]                   u2, 10:00 -> null

No row meets every version of its key, and the rows of a key are not sorted: the sorted times of a key are cut into
about as many pieces as a piece has times, a row finds its piece by the beginnings of the pieces, and the time within
the piece, both by halving. Both are joins by equality with at most one partner, which Spark can broadcast, and which it
can split where one key has most of the rows. The times of one key are sorted by one task, without their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add, and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from enrich.base.spec import Step
from enrich.frames.columns import has_null

SALT = "__enrich_salt"
"""Of a row: 0 when it may have a partner; anything else spreads rows that cannot."""
LATEST = "__enrich_latest"
"""The time from which the version that was found holds; null when there is none."""
SALTS = 64
"""Over how many values rows are spread that cannot have a partner."""
_PIECE, _BEGINNINGS, _TIMES, _ZERO = "__enrich_piece", "__enrich_beginnings", "__enrich_times", "__enrich_zero"
_FEW = 4
_STEPS = tuple(2**power for power in range(15, -1, -1))


def find_latest(rows: DataFrame, versions: DataFrame, wanted: Sequence[str]) -> DataFrame:
    """Find for each row the latest version of its key that begins not after its moment.

    Args:
        rows: Among others the columns ``wanted`` and ``SALT``, 0 in rows without a null in these.
        versions: The key's parts and, last, the time from which a version holds, under any names; without nulls.
        wanted: The parts of the key that a row refers to and, last, its moment, in the types of ``versions``.

    Returns:
        ``rows`` with ``LATEST``; for less than ``2 ** 32`` versions of one key.
    """
    *ours, moment = wanted
    parts = [f"__enrich_v{i}" for i in range(len(ours))]
    pieces = cut_into_pieces(versions.toDF(*parts, "__enrich_time"), parts, "__enrich_time")
    beginnings = pieces.groupBy(*parts).agg(F.sort_array(F.collect_list(F.get(_TIMES, F.lit(0)))).alias(_BEGINNINGS))
    same = reduce(and_, [F.col(our) == F.col(part) for our, part in zip(ours, parts, strict=True)])

    def meet(left: DataFrame, right: DataFrame, condition: Column) -> DataFrame:
        joined = left.join(right.withColumn(_ZERO, F.lit(0)), on=condition & (F.col(SALT) == F.col(_ZERO)), how="left")
        return joined.drop(*parts, _ZERO)

    rows = meet(rows, beginnings, same)
    rows = rows.withColumn("__enrich_wanted_piece", _count_until(_BEGINNINGS, moment)).drop(_BEGINNINGS)
    rows = meet(rows, pieces, same & (F.col("__enrich_wanted_piece") == F.col(_PIECE)))
    rows = rows.withColumn(LATEST, F.get(_TIMES, _count_until(_TIMES, moment) - 1))
    return rows.drop("__enrich_wanted_piece", _PIECE, _TIMES)


def cut_into_pieces(versions: DataFrame, parts: Sequence[str], time: str) -> DataFrame:
    """Cut the timeline of each key into pieces.

    Args:
        versions: The parts of the key and ``time``, the time from which a version holds.
        parts: The names of the key's parts.
        time: The name of the time.

    Returns:
        The key's parts, the number of the piece, from 1 on, and its times, sorted.
    """
    number, size, of_key = "__enrich_number", "__enrich_size", Window.partitionBy(*parts)
    times = versions.withColumns(
        {
            number: F.row_number().over(of_key.orderBy(time)) - 1,
            size: F.greatest(F.lit(_FEW), F.ceil(F.sqrt(F.count("*").over(of_key))).cast("int")),
        }
    )
    piece = (F.floor(F.col(number) / F.col(size)) + 1).cast("int")
    return times.groupBy(*parts, piece.alias(_PIECE)).agg(F.sort_array(F.collect_list(time)).alias(_TIMES))


def find_touched(rows: DataFrame, versions: DataFrame, changed: DataFrame) -> DataFrame:
    """Find the rows that may have another partner than before because versions came, changed or went.

    A row has another partner only if the last of all versions until its moment, those that have gone among them, is one
    that has changed. So the rows between a changed version and the next one refer to a changed version, and no others.

    Args:
        rows: Among others the columns of ``changed``, without nulls; the last one holds the row's moment.
        versions: The same columns: the versions that are there now.
        changed: The same columns: those that came, changed or went.

    Returns:
        The rows that have any version until their moment; the last column holds the time from which the last one holds.
    """
    names = changed.columns
    keys = changed.select(*names[:-1]).distinct()
    versions = versions.unionByName(changed).distinct().join(keys, on=names[:-1], how="left_semi")
    rows = rows.join(keys, on=names[:-1], how="left_semi").withColumn(SALT, F.lit(0))
    found = find_latest(rows, versions, names).drop(SALT, names[-1]).withColumnRenamed(LATEST, names[-1])
    return found.where(F.col(names[-1]).isNotNull())


def spread_nulls(keys: Sequence[str], names: Sequence[str]) -> Column:
    """Return 0 where all of the columns ``names`` have a value, and elsewhere a number that depends on ``keys``."""
    is_null = has_null(names)
    return F.when(is_null, F.pmod(F.hash(*keys), F.lit(SALTS)) + 1).otherwise(0)


def _count_until(times: str, moment: str) -> Column:
    """Return how many of a row's sorted times are not after its moment, by halving; 0 where one of them is null.

    Few times, which most keys have, are compared one by one: that is compiled, and halving is not.
    """
    few = [F.when(F.get(F.col(times), F.lit(place)) <= F.col(moment), 1).otherwise(0) for place in range(_FEW)]

    def take(count: Column, step: Column) -> Column:
        return F.when(F.get(F.col(times), count + step - 1) <= F.col(moment), count + step).otherwise(count)

    halved = F.aggregate(F.array(*[F.lit(step) for step in _STEPS]), F.lit(0), take)
    return F.when(F.coalesce(F.size(times), F.lit(0)) <= _FEW, reduce(add, few)).otherwise(halved)


def keep_valid(step: Step, moment: Column) -> Column:
    """Return a lookup's struct where its version holds at the moment: it has not ended, and the thing is not gone."""
    version = F.col(step.alias)
    return F.when(version.isNotNull() & ~has_ended(step, moment) & ~is_gone(step), version)


def has_ended(step: Step, moment: Column) -> Column:
    """Return whether the version of a lookup's struct has ended at the moment; one without an end has not."""
    if step.valid_to is None:
        return F.lit(False)
    return F.coalesce(F.col(step.alias).getField(step.valid_to) <= moment, F.lit(False))


def is_gone(step: Step) -> Column:
    """Return whether the version of a lookup's struct says that the thing does not exist; null is not true."""
    if step.gone is None:
        return F.lit(False)
    return F.coalesce(F.when(F.col(step.alias).isNotNull(), F.expr(step.gone)), F.lit(False))


def judge_moments(step: Step, rows: DataFrame, lookup: DataFrame, wanted: Sequence[str], verdict: str) -> DataFrame:
    """Tell for each row how the search for its version goes.

    Args:
        step: The join.
        rows: Among others the columns ``wanted``.
        lookup: The parts of the lookup's key under other names, and its struct.
        wanted: The parts of the key that a row refers to and, last, its moment.
        verdict: The name of the column that is added.

    Returns:
        ``rows`` with a struct of ``found``, whether any version begins not after the row's moment, ``ended`` and
        ``gone``, of the last of these.
    """
    *names, _ = lookup.columns
    rows = rows.withColumn(SALT, spread_nulls(wanted, wanted))
    rows = find_latest(rows, lookup.select(*names), wanted)
    pairs = zip([*wanted[:-1], LATEST], names, strict=True)
    joined = rows.join(lookup, on=reduce(and_, [F.col(our) == F.col(their) for our, their in pairs]), how="left")
    found = F.col(step.alias).isNotNull().alias("found")
    told = F.struct(found, has_ended(step, F.col(wanted[-1])).alias("ended"), is_gone(step).alias("gone"))
    return joined.withColumn(verdict, told).drop(SALT, LATEST, *lookup.columns)
