"""Read rows of tables with Spark: those of a pinned version, and those that commits removed and added."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from delta.tables import DeltaTable
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from enrich.base import hints
from enrich.base.errors import ConfigError, EnvironmentFault
from enrich.base.failures import find_condition, find_lack
from enrich.base.schemas import find
from enrich.base.spec import COMMIT, FILE, PLACE, ROW, WEIGHT, name_inside, quote
from enrich.delta import stores, tables


def find_catalog_location(spark: SparkSession, name: Sequence[str]) -> str | None:
    """Return where a catalog table lies; None when the catalog does not know it, a ConfigError for what is no table."""
    try:
        row = DeltaTable.forName(spark, quote(*name)).detail().select("location").collect()[0]
    except AnalysisException:
        try:
            is_there = spark.catalog.tableExists(quote(*name))
        except AnalysisException as error:
            is_there = find_condition(error) == "DELTA_PATH_DOES_NOT_EXIST"
        if not is_there:
            return None
        raise ConfigError(
            f"what the catalog has under {'.'.join(name)!r} is a view, a table of another format, or has no files",
            hint="name another table; where its files are gone, drop it",
        ) from None
    except Py4JJavaError as error:
        raise find_lack(error) or error from None
    return re.sub(r"^file:(//(?=/))?", "", str(row["location"]))  # a path, in which Delta escapes nothing


def read_snapshot(
    spark: SparkSession,
    uri: str,
    version: int,
    columns: Sequence[str],
    *,
    like: DataFrame | None = None,
    places: bool = False,
) -> DataFrame:
    """Return the rows of ``columns`` at ``version``, under their names in frames.

    A column that this version does not have yet is null, in the type that it has in ``like``, which has them all. With
    ``places``, a row says where it stands, in ``PLACE``; only where a column has the name of what Spark knows of files,
    there is no such column.
    """
    rows = spark.read.format("delta").option("versionAsOf", version).load(uri)
    place = []
    if places and not any(name.lower() == "_metadata" for name in rows.columns):
        metadata = F.col("_metadata")
        place = [F.struct(metadata.file_path.alias(FILE), metadata.row_index.alias(ROW)).alias(PLACE)]
    return _take_columns(rows, columns, like, *place)


def read_files(
    spark: SparkSession,
    uri: str,
    version: int,
    columns: Sequence[str],
    *,
    like: DataFrame | None = None,
    most: int | None = None,
) -> DataFrame:
    """Return what ``read_snapshot`` does, and list the table's files once; with ``most``, if they are known to be few.

    Else Delta asks by a Spark job, at each place of a plan where the table is read, which files a condition leaves out.
    """
    jvm: Any = spark._jvm
    if most is not None and stores.read_commit_file(uri, version, 0, "crc") is None:  # a look at the log may cost a job
        return read_snapshot(spark, uri, version, columns, like=like)
    try:
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, uri)
        nothing = jvm.scala.Option.empty()
        then = log.update(False, nothing, nothing)  # what lies there may be another table than Delta remembers
        if then.version() != version:
            then = log.getSnapshotAt(version, nothing, nothing, False)
        files = _list_noted(then, uri)
        if most is not None and (files is None or files.size() > most):
            return read_snapshot(spark, uri, version, columns, like=like)
        if files is None:
            files = jvm.org.apache.spark.api.python.PythonUtils.toSeq(then.allFiles().collectAsList())
        return _take_columns(ClassicDataFrame(log.createDataFrame(then, files, False, nothing), spark), columns, like)
    except (Py4JJavaError, Py4JNetworkError):
        raise
    except (Py4JError, TypeError):  # another Delta
        return read_snapshot(spark, uri, version, columns, like=like)


def _list_noted(then: Any, uri: str) -> Any:
    """Return the files of a snapshot as the writer of its commit has noted them beside it; None where it has not.

    Reading them takes no Spark job. A note that another commit of this number has left behind has another id.
    """
    note = then.checksumOpt()
    if note.isEmpty() or note.get().allFiles().isEmpty() or note.get().txnId().isEmpty():
        return None
    head = stores.read_commit_file(uri, then.version(), tables.HEAD)
    return note.get().allFiles().get() if head is not None and note.get().txnId().get().encode() in head else None


def _take_columns(rows: DataFrame, columns: Sequence[str], like: DataFrame | None, *more: Column) -> DataFrame:
    known = set() if like is None else {name.lower() for name in rows.columns}

    def read(name: str) -> Column:
        if like is not None and name.lower() not in known:
            return F.lit(None).cast(like.schema[name_inside(name)].dataType)
        return F.col(quote(name))

    found = rows.select(*[read(name).alias(name_inside(name)) for name in columns], *more)
    return found if like is None else fit_rows(found, {each.name: each.dataType for each in like.schema.fields})


def fit_rows(rows: DataFrame, kinds: Mapping[str, T.DataType]) -> DataFrame:
    """Return rows whose structs have the fields of other types, by their names; those that they lack are null."""
    wanted = [T.StructField(name, kinds[name]) for name in rows.columns if name in kinds]
    fitted = fit_columns(rows.schema.fields, wanted, "")
    return rows.withColumns(fitted) if fitted else rows


def fit_columns(stored: Iterable[T.StructField], wanted: Iterable[T.StructField], prefix: str) -> dict[str, Column]:
    """Return the columns that are not ``stored``, or whose structs have other fields, in the wanted types."""
    have = {each.name.lower(): each.dataType for each in stored}
    found = {}
    for each in wanted:
        old, new = have.get(each.name.lower()), each.dataType
        if old is None:
            found[each.name] = F.lit(None).cast(new)
        elif isinstance(old, T.StructType | T.ArrayType | T.MapType) and old.simpleString() != new.simpleString():
            found[each.name] = give_fields(F.col(prefix + quote(each.name)), old, new)
    return found


def give_fields(value: Column, have: T.DataType, want: T.DataType) -> Column:
    """Return a value whose structs have the fields that they have later, by their names; Spark casts by position."""
    if have == want:
        return value
    if isinstance(have, T.StructType) and isinstance(want, T.StructType):
        there = {field.name.lower(): field for field in have.fields}
        fields = []
        for field in want.fields:
            old, kind = there.get(field.name.lower()), field.dataType
            inner = F.lit(None).cast(kind) if old is None else give_fields(value.getField(old.name), old.dataType, kind)
            fields.append(inner.alias(field.name))
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(have, T.ArrayType) and isinstance(want, T.ArrayType):
        return F.transform(value, lambda each: give_fields(each, have.elementType, want.elementType))
    if isinstance(have, T.MapType) and isinstance(want, T.MapType):
        return F.transform_values(value, lambda _, each: give_fields(each, have.valueType, want.valueType))
    return value


_GONE = ("delete", "update_preimage")
_CHANGE, _VERSION = "_change_type", "_commit_version"


def read_change_feed(
    spark: SparkSession,
    uri: str,
    window: tuple[int, int],
    columns: Sequence[str],
    *,
    like: DataFrame | None = None,
    net: bool = False,
) -> DataFrame:
    """Return what the commits after ``window[0]`` up to ``window[1]`` removed and added, as the snapshots have it.

    Out: ``columns``, ``WEIGHT`` (-1: removed, +1: added) and ``COMMIT``. What the end lacks, and ``like`` has, is null.
    ``net``: a row that several commits moved may be there for the last one, or not, if it is where it was.

    Delta's reader hands each row through objects of Java, which changes some (docs/adr/0029-rows-of-feeds.md). So it
    only checks the range and chooses the schema; the rows are read by what it reads them with itself.

    ``EnvironmentFault``: this is another Delta than those that are known.
    """
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    feed = reader.option("startingVersion", window[0] + 1).option("endingVersion", window[1]).load(uri)
    if os.environ.get("DATABRICKS_RUNTIME_VERSION"):  # Delta has other classes there: docs/limits.md
        state = tables.state_at(uri, window[1])
        if state is None or set(state.partitions) != set(tables.read_state(uri).partitions):
            raise PySparkException(f"{uri} has other partition columns since version {window[1]}")
    else:
        try:
            there = columns if like is None else [name for name in columns if find(name, feed.columns)]
            netted = tables.net_vectors(uri, window) if net else []
            feed = _read_behind(spark, feed, [*there, _CHANGE, _VERSION], netted, exact=like is not None)
        except (Py4JJavaError, Py4JNetworkError):
            raise
        except (Py4JError, TypeError) as error:  # TypeError: what is called as a class of Java is none
            raise EnvironmentFault(
                f"this release of Delta reads the change feed of {uri} in a way that enrich does not know",
                hint=f"`{hints.doctor()}` shows the versions; docs/install.md says which ones work together",
            ) from error
    weight = F.when(F.col(_CHANGE).isin(*_GONE), F.lit(-1)).otherwise(F.lit(1))
    return _take_columns(feed, columns, like, weight.alias(WEIGHT), F.col(_VERSION).alias(COMMIT))


def forget_past(frame: DataFrame) -> DataFrame:
    """Return a persisted frame with no other plan: Spark goes through a frame's whole plan for each one made of it."""
    read, jvm = cast("Any", frame._jdf), cast("Any", frame.sparkSession._jvm)
    try:
        plan = read.queryExecution().withCachedData()
        found = jvm.org.apache.spark.sql.classic.Dataset.ofRows(read.sparkSession(), plan)
    except (Py4JError, TypeError):  # another Spark: the frame as it is says the same
        return frame
    return ClassicDataFrame(found, frame.sparkSession)


def make_sequence(jvm: Any, *values: Any) -> Any:
    """Return values as a sequence of Scala's."""
    return jvm.org.apache.spark.api.python.PythonUtils.toSeq([*values])


def _read_behind(
    spark: SparkSession, feed: DataFrame, columns: Sequence[str], netted: Sequence[Sequence[str]], *, exact: bool
) -> DataFrame:
    """Return columns of a feed, by the classes of Delta behind its reader; ``exact``: as for ``_find_snapshot``.

    ``netted``: the actions of its commits, where these are not as the log has them.
    """
    read: Any = feed._jdf
    relation = read.queryExecution().analyzed().collectLeaves().head().relation()
    if relation.startingVersion().isEmpty():
        return feed  # there are no such commits: nothing is in it
    jvm: Any = spark._jvm
    latest, ends = relation.snapshotForBatchSchema(), (relation.startingVersion().get(), relation.endingVersion().get())
    then, delta = _find_snapshot(relation, latest, ends[1], exact=exact), jvm.org.apache.spark.sql.delta
    if netted:
        longs = jvm.java.util.stream.LongStream.rangeClosed(*ends).boxed().toList()  # on the way from here: integers
        commits = [make_sequence(jvm, *map(delta.actions.Action.fromJson, each)) for each in netted]
        changes = jvm.org.apache.spark.api.python.PythonUtils.toSeq(longs).zip(make_sequence(jvm, *commits)).iterator()
    else:
        changes = relation.deltaLog().getChanges(*ends, relation.catalogTableOpt(), False)
    # As a batch, and only what the commits recorded.
    ways = spark._jsparkSession, relation.catalogTableOpt(), False, False, jvm.scala.Option.empty()
    found = delta.commands.cdc.CDCReader.changesToDF(then, *ends, changes, *ways).fileChangeDf()
    if netted and (plan := found.queryExecution().analyzed()).nodeName() == "Union":
        parts = [plan.children().apply(place) for place in range(plan.children().size())]
        kept = make_sequence(jvm, *[each for each in parts if not _adds_nothing(each.collectLeaves().head())])
        found = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan.copy(kept, False, False))
    rows, is_latest = ClassicDataFrame(found, spark), then.version() == latest.version()
    wanted = feed.select(*[F.col(quote(name)) for name in columns])
    return rows.select(*[_take_as(rows, each, is_latest=is_latest) for each in wanted.schema.fields])


def _adds_nothing(leaf: Any) -> bool:
    """Tell whether a part of a feed reads files for rows that came back, and none did: each had a vector before."""
    index = leaf.relation().location() if leaf.nodeName() == "LogicalRelation" else leaf
    if index.getClass().getSimpleName() != "CdcAddFileIndex" or index.rowIndexFilters().isEmpty():
        return False
    files = index.addFiles()
    return all(files.apply(place).deletionVector().cardinality() == 0 for place in range(files.size()))


def _find_snapshot(relation: Any, latest: Any, last: int, *, exact: bool) -> Any:
    """Return the snapshot by which a feed is read that ends with the commit ``last``; ``exact``: never a later one.

    Its files have their values where the partition columns of that time say; Delta takes the table's latest ones.
    """
    if latest.version() == last:
        return latest
    log: Any = relation.deltaLog()
    nothing = getattr(log, "getSnapshotAt$default$2")()
    then = log.getSnapshotAt(last, nothing, relation.catalogTableOpt(), False)
    same = then.metadata().partitionColumns().toSet().equals(latest.metadata().partitionColumns().toSet())
    return latest if same and not exact else then


def _take_as(rows: DataFrame, wanted: T.StructField, *, is_latest: bool) -> Column:
    """Return a column as the table's latest schema has it, without what Delta notes about it in its own tables."""
    there = next((each for each in rows.schema.fields if each.name.lower() == wanted.name.lower()), None)
    if there is None:
        return F.lit(None).cast(wanted.dataType).alias(wanted.name, metadata=wanted.metadata)
    column = F.col(quote(there.name))
    if not is_latest:
        column = give_fields(column, there.dataType, wanted.dataType)
    if not is_latest or there.dataType != wanted.dataType:
        column = column.cast(wanted.dataType)
    return column.alias(wanted.name, metadata=wanted.metadata)


def read_snapshot_difference(
    spark: SparkSession, uri: str, window: tuple[int, int], columns: Sequence[str], latest: int | None = None
) -> DataFrame:
    """Return the same as ``read_change_feed`` from two snapshots; unchanged rows are there twice, with both weights.

    What a version does not have yet, of what ``latest`` (None: the end of the window) has, is null in its rows.
    """
    like = read_snapshot(spark, uri, window[1] if latest is None else latest, columns)
    before, after = (
        read_snapshot(spark, uri, version, columns, like=like).withColumn(WEIGHT, F.lit(weight))
        for version, weight in zip(window, (-1, 1), strict=True)
    )
    return before.unionByName(after).withColumn(COMMIT, F.lit(window[1]).cast("long"))
