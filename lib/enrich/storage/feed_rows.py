"""The rows that the commits of a table removed and added: from its change feed, or from the two snapshots."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import StructField

from enrich.base import hints
from enrich.base.errors import EnvironmentFault
from enrich.base.spec import COMMIT, WEIGHT, name_inside, quote
from enrich.storage import tables

_GONE = ("delete", "update_preimage")
_CHANGE, _VERSION = "_change_type", "_commit_version"


def read_change_feed(spark: SparkSession, uri: str, window: tuple[int, int], columns: Sequence[str]) -> DataFrame:
    """Return what the commits after ``window[0]`` up to ``window[1]`` removed and added.

    Both ends are pinned: Delta clamps an open end silently and resolves it anew at each action.

    Returns:
        ``columns``, ``WEIGHT`` (-1 for a removed row, +1 for an added one) and ``COMMIT``.
    """
    feed = _open_feed(spark, uri, (window[0] + 1, window[1]), [*columns, _CHANGE, _VERSION])
    weight = F.when(F.col(_CHANGE).isin(*_GONE), F.lit(-1)).otherwise(F.lit(1))
    commit = F.col(_VERSION).alias(COMMIT)
    return feed.select(*[F.col(quote(name)).alias(name_inside(name)) for name in columns], weight.alias(WEIGHT), commit)


def _open_feed(spark: SparkSession, uri: str, ends: tuple[int, int], columns: Sequence[str]) -> DataFrame:
    """Return columns of the change feed of the commits between two ends with the values that the snapshots have.

    Delta's reader hands each row of a feed through objects of Java, which changes some of them: the entries of a map
    with more than four come in the order of their hashes, the days that the calendar skipped in October 1582 become the
    15th, and bytes in a text that are no UTF-8 become U+FFFD. So the reader only checks the range and chooses the
    schema; the rows are read by what it reads them with itself.

    Raises:
        EnvironmentFault: This is another Delta than those that are known.
    """
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    feed = reader.option("startingVersion", ends[0]).option("endingVersion", ends[1]).load(uri)
    if os.environ.get("DATABRICKS_RUNTIME_VERSION"):  # Delta has other classes there: docs/limits.md
        if tables.find_partitions(uri, ends[1]) != tables.find_partitions(uri):
            raise PySparkException(f"{uri} has other partition columns since version {ends[1]}")
        return feed
    with _know_delta(uri):
        read: Any = feed._jdf
        relation = read.queryExecution().analyzed().collectLeaves().head().relation()
        if relation.startingVersion().isEmpty():
            return feed  # there are no such commits: nothing is in it
        jvm: Any = spark._jvm
        latest = relation.snapshotForBatchSchema()
        then = _find_snapshot(relation, latest, ends[1])
        found = jvm.org.apache.spark.sql.delta.commands.cdc.CDCReader.changesToBatchDF(
            relation.deltaLog(),
            relation.startingVersion().get(),
            relation.endingVersion().get(),
            spark._jsparkSession,
            relation.catalogTableOpt(),
            jvm.scala.Some(then),
            False,  # only what the commits recorded
            jvm.scala.Option.empty(),
        )
        is_latest = then.version() == latest.version()
    rows = ClassicDataFrame(found, spark)
    wanted = feed.select(*[F.col(quote(name)) for name in columns])
    if not is_latest:
        return _fit(rows, wanted)
    return rows.select(*[_take_as(rows, field) for field in wanted.schema.fields])


def _find_snapshot(relation: Any, latest: Any, last: int) -> Any:
    """Return the snapshot by which a feed is read that ends with the commit ``last``.

    The files of the feed have their values where the partition columns of that time say. Delta takes the table's latest
    ones, and gives null where these are others.
    """
    if latest.version() == last:
        return latest
    log: Any = relation.deltaLog()
    nothing = getattr(log, "getSnapshotAt$default$2")()
    then = log.getSnapshotAt(last, nothing, relation.catalogTableOpt(), False)
    same = then.metadata().partitionColumns().toSet().equals(latest.metadata().partitionColumns().toSet())
    return latest if same else then


@contextmanager
def _know_delta(uri: str) -> Iterator[None]:
    """Refuse a Delta whose classes have not the methods that are called in the block; pass on what these raise."""
    try:
        yield
    except (Py4JJavaError, Py4JNetworkError):
        raise
    except (Py4JError, TypeError) as error:  # TypeError: what is called as a class of Java is none
        raise EnvironmentFault(
            f"this release of Delta reads the change feed of {uri} in a way that enrich does not know",
            hint=f"`{hints.doctor()}` shows the versions; docs/install.md says which ones work together",
        ) from error


def _take_as(rows: DataFrame, field: StructField) -> Column:
    """Return a column without what Delta notes about it in its own tables: a target must not inherit that."""
    column = F.col(quote(field.name))
    if rows.select(column).schema[0].dataType != field.dataType:  # notes about fields in it; the cast copies no value
        column = column.cast(field.dataType)
    return column.alias(field.name, metadata=field.metadata)


def read_snapshot_difference(
    spark: SparkSession, uri: str, window: tuple[int, int], columns: Sequence[str], latest: int | None = None
) -> DataFrame:
    """Return the same as ``read_change_feed`` from the two snapshots, for ranges whose feed cannot be read.

    Unchanged rows stand in it twice, with weights that cancel. What a version does not have yet, of what ``latest``
    has, is null in its rows, a field of a struct too; None: the end of the window.
    """
    like = tables.read_snapshot(spark, uri, window[1] if latest is None else latest, columns)
    before, after = (
        tables.read_snapshot(spark, uri, version, columns, like=like).withColumn(WEIGHT, F.lit(weight))
        for version, weight in zip(window, (-1, 1), strict=True)
    )
    return before.unionByName(after).withColumn(COMMIT, F.lit(window[1]).cast("long"))


def _fit(rows: DataFrame, like: DataFrame) -> DataFrame:
    """Return rows of another version in the schema of ``like``; what that version does not have is null."""
    known = {field.name.lower(): field for field in rows.schema.fields}
    fitted = []
    for field in like.schema.fields:
        there, value = known.get(field.name.lower()), F.lit(None)
        if there is not None:
            value = tables.give_fields(F.col(quote(there.name)), there.dataType, field.dataType)
        fitted.append(value.cast(field.dataType).alias(field.name, metadata=field.metadata))
    return rows.select(*fitted)
