"""Net the change feed of one source in a window to the change of each key.

The feed is read as a multiset of row images with weights, +1 for what a commit added and -1 for what it removed, and
summed per image. What is left is the difference of the two snapshots, whatever the order of the commits: RESTORE and
overwrite list unchanged rows (they cancel), A -> B -> A cancels, and an update that touches unused columns alone
cancels because only used columns are part of the image. No commit order and no timestamp is needed.

====================================  =======================
feed of K1                            net
====================================  =======================
insert a, update a -> b               +b
update a -> b, update b -> a          nothing
delete a, insert a (RESTORE)          nothing
update whose key moves K1 -> K2       -a of K1, +a of K2
====================================  =======================
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType

from enrich.base.spec import COMMIT, WEIGHT, SourceSpec, name_inside, name_reference, quote
from enrich.frames import columns, normalise
from enrich.frames.columns import Keep, Ranges, add_up, drop_nulls, has_null, keep_in_ranges, name_parts

ROWS, KEYS = "__enrich_rows", "__enrich_keys"
_BIT, _COME, _IMAGES = "__enrich_bit", "__enrich_come", "__enrich_images"
_BASE, _AT, _UNTIL = -1, "__enrich_at", "__enrich_until"


@dataclass(frozen=True)
class NetChanges:
    """The net changes of one source in a window."""

    images: DataFrame  # the used columns and ``WEIGHT`` (never 0): rows gone (< 0) and rows come (> 0)
    # ``__enrich_j*`` of the changed keys, distinct, without nulls, and ``WEIGHT``, by how many rows each grew.
    keys: DataFrame
    count: int  # number of ``keys``
    null_keys: int  # rows come whose key has a null
    null_images: int  # images, come or gone, whose key has a null
    rows: int  # rows come
    grown: int  # number of keys that have more rows than before: only these can have become ambiguous
    shrunk: int  # number of keys that have fewer rows than before
    crowded: int  # number of keys of which more than one row came, or that had more than one row, where that was asked
    ranges: Ranges  # parts of ``keys`` -> their ranges, as ``count_with_ranges`` finds them
    # The ranges whose rows at both ends were compared, because the feed does not tell all.
    compared: tuple[tuple[int, int], ...] = ()
    # Of a source whose rows depend on others of their key: what ``normalise.count_derived`` counts of changed keys.
    looked_at: int = 0
    marked: int = 0

    def select_changed(self) -> DataFrame:
        """Return ``__enrich_j*`` alone."""
        return self.keys.drop(WEIGHT)


def compute_net_changes(feed: DataFrame, source: SourceSpec, keep: Keep) -> NetChanges:
    """Net a feed, the used columns of ``source`` and ``WEIGHT`` (+1 or -1) in any order, in one pass."""
    images = keep(sum_images(feed, source))
    names = name_reference(len(source.key))
    rows_come = F.when(F.col(WEIGHT) > 0, F.col(WEIGHT)).otherwise(0)
    sums = F.sum(WEIGHT).alias(WEIGHT), F.sum(rows_come).alias(_COME), F.count("*").alias(_IMAGES)
    every = keep(images.select(*name_parts(source.key, names), WEIGHT).groupBy(*names).agg(*sums))
    is_null = has_null(names)
    counts = (
        F.count_if(~is_null),
        add_up(F.when(is_null, F.col(_COME))),
        add_up(F.when(is_null, F.col(_IMAGES))),
        add_up(F.col(_COME)),
        F.count_if(~is_null & (F.col(WEIGHT) > 0)),
        F.count_if(~is_null & (F.col(WEIGHT) < 0)),
        F.count_if(~is_null & (F.col(_COME) > 1)),
    )
    found, ranges = columns.count_with_ranges(every, names, *counts)
    _, count, nulls, null_images, come, grown, shrunk, crowded = found
    keys = every.where(~is_null).select(*names, WEIGHT)
    return NetChanges(images, keys, count, nulls, null_images, come, grown, shrunk, crowded, ranges)


@dataclass(frozen=True)
class Touched:
    """The keys of one source that some commit of some ranges changed, even if a later one took it back."""

    images: tuple[DataFrame, ...]  # frames of the used columns, ``WEIGHT`` and ``COMMIT``, one a range; not persisted
    keys: DataFrame  # ``__enrich_j*`` of the keys, distinct, without nulls
    count: int  # number of ``keys``
    null_keys: int  # number of keys with a null
    # The ranges whose rows at both ends were compared, because the feed does not tell all.
    compared: tuple[tuple[int, int], ...] = ()


def find_touched_keys(feed: DataFrame, source: SourceSpec, keep: Keep) -> Touched:
    """Find the keys that the commits of a feed changed; rows that a commit lists without changing them do not count.

    In: the used columns of ``source``, ``WEIGHT`` (+1 or -1) and ``COMMIT``.
    """
    images = sum_images(feed, source, COMMIT)
    every = keep(take_keys(images, source).distinct())
    keys = drop_nulls(every)
    count = keys.count()
    return Touched((images,), keys, count, every.count() - count)


def follow_rows(images: DataFrame, now: DataFrame, source: SourceSpec) -> DataFrame:
    """Return what commits did to the rows of a source whose rows depend on the others of their key.

    What the table had before is what it has now, without what has come, and with what has gone: no older version is
    read. ``n`` is the order of a log, and the commits 5 and 6 bring the events that they are written beside:

    ======================  ===========  ==================  ==================
    before                  now          commit 5            commit 6
    ======================  ===========  ==================  ==================
    (n 1, a)                all three    5: (n 3, c): -a +c  6: (n 2, b): -
    (n 1, a), (n 3, c)      (n 1, a)     5 removes c: -c +a  -
    ======================  ===========  ==================  ==================

    In: ``images``, as ``sum_images`` gives them with ``COMMIT``; ``now``, the table's rows of all keys in them after
    the last commit. Out: the same images of the source's rows, those with a null in their key unchanged.
    """
    key = [name_inside(name) for name in source.key]
    keyed = images.where(~columns.lacks_value(source.key))
    base = now.withColumn(WEIGHT, F.lit(1)).unionByName(keyed.drop(COMMIT).withColumn(WEIGHT, -F.col(WEIGHT)))
    seen = sum_images(base.withColumn(COMMIT, F.lit(_BASE).cast("long")).unionByName(keyed), source, COMMIT)
    # The states of a key: before the first commit that touches it, and after each.
    at = keyed.select(*map(quote, key), F.explode(F.array(F.lit(_BASE).cast("long"), COMMIT)).alias(_AT)).distinct()
    until = F.lead(_AT).over(Window.partitionBy(*map(quote, key)).orderBy(_AT)).alias(_UNTIL)
    rows = seen.join(at.select("*", until), on=key, how="inner").where(F.col(COMMIT) <= F.col(_AT))
    rows = normalise.derive_rows(sum_images(rows, source, _AT, _UNTIL), source, _AT, _UNTIL)
    # Each comes with its state and goes with the next one: the plan of a union would have its rows twice.
    moves = (1, F.when(F.col(_AT) != _BASE, F.col(_AT))), (-1, F.col(_UNTIL))
    each = F.inline(F.array(*[F.struct(F.lit(weight).alias(WEIGHT), at.alias(COMMIT)) for weight, at in moves]))
    found = sum_images(rows.select("*", each).where(F.col(COMMIT).isNotNull()), source, COMMIT)
    return found.unionByName(images.where(columns.lacks_value(source.key)))


def count_keys_that_differ(net: NetChanges, source: SourceSpec, names: Collection[str]) -> int:
    """Count the keys whose rows have other values in used columns, or are more or fewer, than before the window."""
    kinds = {name: kind for name, kind in source.columns.items() if name in (*source.key, *names)}
    images = net.images.select(*[quote(name_inside(name)) for name in kinds], WEIGHT)
    return take_keys(sum_images(images, replace(source, columns=kinds)), source).distinct().count()


def sum_images(feed: DataFrame, source: SourceSpec, *also: str) -> DataFrame:
    """Sum the weights of identical images (and of equal columns ``also``); what sums to nothing has not changed.

    Images that are equal and written in two forms, such as 0.0 and -0.0, are two: an output that is computed from them
    may differ. Whether the target's row does is found when it is compared.

    Returns:
        The used columns of ``source``, ``WEIGHT`` (never 0) and the columns ``also``.
    """
    names = [name_inside(name) for name in source.columns]
    kinds = {name: feed.schema[name].dataType for name in names}
    # Only what is grouped in another form is kept beside it: Spark sorts all rows where that is a text.
    forms = {name: f"__enrich_image{i}" for i, name in enumerate(names) if columns.has_forms(kinds[name])}
    images = {name: columns.make_exact(F.col(quote(name)), kind) for name, kind in kinds.items()}
    grouped = [image.alias(forms.get(name, name), metadata={}) for name, image in images.items()]
    kept = [F.any_value(quote(name)).alias(name) for name in forms]
    summed = feed.groupBy(*grouped, *also).agg(F.sum(WEIGHT).cast("int").alias(WEIGHT), *kept)
    return summed.where(F.col(WEIGHT) != 0).select(*map(quote, names), WEIGHT, *also)


class RowCounts(NamedTuple):
    """How many rows a source has: with a whole key, among them beyond the first of their key, with a null in it."""

    rows: int
    surplus: int
    null_keys: int


def count_rows(*sources: tuple[DataFrame, SourceSpec, bool]) -> list[RowCounts]:
    """Count the rows of sources, and with true the surplus ones, else 0: each source in one pass, all in one query."""
    counted = []
    for place, (rows, source, search) in enumerate(sources):
        keys = take_keys(rows, source)
        groups = count_by_key(keys) if search else keys.withColumns({ROWS: F.lit(1), KEYS: F.lit(1)})
        is_null, surplus = has_null(keys.columns), F.col(ROWS) - F.col(KEYS)
        sums = (F.when(~is_null, F.col(ROWS)), F.when(~is_null, surplus), F.when(is_null, F.col(ROWS)))
        counted.append(groups.agg(*map(add_up, sums)).toDF(*RowCounts._fields).withColumn("place", F.lit(place)))
    return [RowCounts(*each[:3]) for each in sorted(columns.unite(counted).collect(), key=lambda row: row["place"])]


def count_surplus_rows(rows: DataFrame, source: SourceSpec, net: NetChanges) -> int:
    """Count the rows beyond the first of their key, by the source's rows with a key, of keys that have grown."""
    grown = net.keys.where(F.col(WEIGHT) > 0).drop(WEIGHT)
    keys = keep_in_ranges(take_keys(rows, source), net.ranges).join(grown, on=grown.columns, how="left_semi")
    return count_rows((keys.toDF(*map(name_inside, source.key)), source, True))[0].surplus


def count_crowded_before(rows: DataFrame, source: SourceSpec, net: NetChanges) -> int:
    """Count the changed keys that had more than one row before the window, by the rows at its end."""
    names = name_reference(len(source.key))
    grown = net.keys.select(*names, (-F.col(WEIGHT)).alias(ROWS))
    there = keep_in_ranges(take_keys(rows, source), net.ranges).join(grown, on=names, how="left_semi")
    had = there.withColumn(ROWS, F.lit(1)).unionByName(grown).groupBy(*names).agg(F.sum(ROWS).alias(ROWS))
    return had.where(F.col(ROWS) > 1).count()


def count_by_key(keys: DataFrame) -> DataFrame:
    """Group rows, the key's parts alone, by their keys; null is a key like any other.

    Returns:
        One row a group: the parts, ``ROWS``, how many rows it has, and ``KEYS``, how many keys these have.
    """
    whole = [name for name in keys.columns if isinstance(keys.schema[name].dataType, IntegralType)]
    if not whole:
        return keys.groupBy(*keys.columns).agg(F.count("*").alias(ROWS), F.lit(1).alias(KEYS))
    # 64 neighbours are one group, with a bit for each of them: ten million consecutive numbers are 160,000 groups.
    number = F.col(whole[-1]).cast("long")
    bit = F.call_function("shiftleft", F.lit(1).cast("long"), number.bitwiseAND(F.lit(63)).cast("int"))
    groups = keys.withColumns({whole[-1]: F.shiftright(number, 6), _BIT: bit})
    found = F.coalesce(F.bit_count(F.bit_or(_BIT)), F.lit(1))  # null is one key, too
    return groups.groupBy(*keys.columns).agg(F.count("*").alias(ROWS), found.alias(KEYS))


def take_keys(rows: DataFrame, source: SourceSpec) -> DataFrame:
    """Return the keys of rows of a source as ``__enrich_j*``."""
    return rows.select(*name_parts(source.key, name_reference(len(source.key))))
