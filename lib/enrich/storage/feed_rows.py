"""The rows that the commits of a table removed and added: from its change feed, or from the two snapshots."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
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
    if os.environ.get("DATABRICKS_RUNTIME_VERSION"):
        return feed  # Delta has other classes there: docs/limits.md
    with _know_delta(uri):
        read: Any = feed._jdf
        relation = read.queryExecution().analyzed().collectLeaves().head().relation()
        if relation.startingVersion().isEmpty():
            return feed  # there are no such commits: nothing is in it
        jvm: Any = spark._jvm
        found = jvm.org.apache.spark.sql.delta.commands.cdc.CDCReader.changesToBatchDF(
            relation.deltaLog(),
            relation.startingVersion().get(),
            relation.endingVersion().get(),
            spark._jsparkSession,
            relation.catalogTableOpt(),
            jvm.scala.Some(relation.snapshotForBatchSchema()),
            False,  # only what the commits recorded
            jvm.scala.Option.empty(),
        )
    rows = ClassicDataFrame(found, spark)
    wanted = feed.select(*[F.col(quote(name)) for name in columns])
    return rows.select(*[_take_as(rows, field) for field in wanted.schema.fields])


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
    spark: SparkSession, uri: str, window: tuple[int, int], columns: Sequence[str]
) -> DataFrame:
    """Return the same as ``read_change_feed`` from the two snapshots, for ranges whose feed cannot be read.

    Unchanged rows stand in it twice, with weights that cancel. What the older version does not have yet is null in its
    rows, a field of a struct too.
    """
    now = tables.read_snapshot(spark, uri, window[1], columns)
    before = tables.read_snapshot(spark, uri, window[0], columns, like=now)
    before = before.withColumn(WEIGHT, F.lit(-1))
    after = now.withColumn(WEIGHT, F.lit(1))
    return before.unionByName(after).withColumn(COMMIT, F.lit(window[1]).cast("long"))
