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
from pyspark.sql import types as T
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import DataType, StructField

from enrich.base.errors import EnvironmentFault
from enrich.base.spec import COMMIT, WEIGHT, quote
from enrich.storage import tables

_GONE = ("delete", "update_preimage")


def read_change_feed(spark: SparkSession, uri: str, window: tuple[int, int], columns: Sequence[str]) -> DataFrame:
    """Return what the commits after ``window[0]`` up to ``window[1]`` removed and added.

    Both ends are pinned: Delta clamps an open end silently and resolves it anew at each action.

    Returns:
        ``columns``, ``WEIGHT`` (-1 for a removed row, +1 for an added one) and ``COMMIT``.
    """
    feed = _open_feed(spark, uri, window[0] + 1, window[1])
    weight = F.when(F.col("_change_type").isin(*_GONE), F.lit(-1)).otherwise(F.lit(1))
    commit = F.col("_commit_version").alias(COMMIT)
    return feed.select(*[F.col(quote(name)) for name in columns], weight.alias(WEIGHT), commit)


def _open_feed(spark: SparkSession, uri: str, first: int, last: int) -> DataFrame:
    """Return the change feed of the commits ``first`` to ``last`` with the values that the snapshots have.

    Delta's reader hands each row of a feed through objects of Java, which changes some of them: the entries of a map
    with more than four come in the order of their hashes, the days that the calendar skipped in October 1582 become the
    15th, and bytes in a text that are no UTF-8 become U+FFFD. So the reader only checks the range and chooses the
    schema; the rows are read by what it reads them with itself.

    Raises:
        EnvironmentFault: This is another Delta than those that are known.
    """
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    feed = reader.option("startingVersion", first).option("endingVersion", last).load(uri)
    if os.environ.get("DATABRICKS_RUNTIME_VERSION"):  # Delta has other classes there: docs/limits.md
        if tables.find_partitions(uri, last) != tables.find_partitions(uri):
            raise PySparkException(f"{uri} has other partition columns since version {last}")
        return feed
    with _know_delta(uri):
        read: Any = feed._jdf
        relation = read.queryExecution().analyzed().collectLeaves().head().relation()
        if relation.startingVersion().isEmpty():
            return feed  # there are no such commits: nothing is in it
        jvm: Any = spark._jvm
        latest = relation.snapshotForBatchSchema()
        then = _find_snapshot(relation, latest, last)
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
    if not is_latest:
        return _fit(rows, feed)
    return rows.select(*[_take_as(rows, field) for field in feed.schema.fields])


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
            hint="`enrich doctor` shows the versions; docs/install.md says which ones work together",
        ) from error


def _take_as(rows: DataFrame, field: StructField) -> Column:
    """Return a column without what Delta notes about it in its own tables: a target must not inherit that."""
    column = F.col(quote(field.name))
    if rows.schema[field.name].dataType != field.dataType:  # notes about fields in it; the cast copies no value
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
        _fit(tables.read_snapshot(spark, uri, version, columns, like=like), like).withColumn(WEIGHT, F.lit(weight))
        for version, weight in zip(window, (-1, 1), strict=True)
    )
    return before.unionByName(after).withColumn(COMMIT, F.lit(window[1]).cast("long"))


def _fit(rows: DataFrame, like: DataFrame) -> DataFrame:
    """Return rows of another version in the schema of ``like``; what that version does not have is null."""
    known = {field.name.lower(): field for field in rows.schema.fields}
    fitted = []
    for field in like.schema.fields:
        there = known.get(field.name.lower())
        value = F.lit(None).cast(field.dataType)
        if there is not None:
            value = _give_fields(F.col(quote(there.name)), there.dataType, field.dataType)
        fitted.append(value.alias(field.name, metadata=field.metadata))
    return rows.select(*fitted)


def _give_fields(value: Column, have: DataType, want: DataType) -> Column:
    """Return a value whose structs have the fields that they have later, by their names; Spark casts by position."""
    if have == want:
        return value
    if isinstance(have, T.StructType) and isinstance(want, T.StructType):
        there = {field.name.lower(): field for field in have.fields}
        fields = []
        for field in want.fields:
            old = there.get(field.name.lower())
            inner = F.lit(None).cast(field.dataType)
            if old is not None:
                inner = _give_fields(value.getField(old.name), old.dataType, field.dataType)
            fields.append(inner.alias(field.name))
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(have, T.ArrayType) and isinstance(want, T.ArrayType):
        return F.transform(value, lambda each: _give_fields(each, have.elementType, want.elementType))
    if isinstance(have, T.MapType) and isinstance(want, T.MapType):
        return F.transform_values(value, lambda _, each: _give_fields(each, have.valueType, want.valueType))
    return value
