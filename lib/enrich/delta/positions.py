"""Write a difference by position: mark the old rows by file and place, write the new ones, in one Delta transaction.

A MERGE with deletion vectors reads the files of its target three times to find rows that a run has already read. Here
their places come from that read (``PLACE``), so nothing of the target is read again (docs/adr/0034).

Three names of Delta that are not public are called: where they, or tables that they can serve, are not there, the sink
uses MERGE. ``open_table`` decides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from enrich.base.errors import Conflict
from enrich.base.failpoints import pass_point
from enrich.base.names import FEED_COLUMNS, MERGE_COLUMNS, POSITIONAL, VECTOR_COLUMNS
from enrich.base.schemas import walk_parts
from enrich.base.spec import FILE, OPERATION, ROW, WAS, quote
from enrich.delta.reads import make_sequence
from enrich.delta.tables import CHANGE_FEED, VECTORS

if TYPE_CHECKING:
    from enrich.delta.sink import Changed

FEW = 100_000  # rows that are sent to every task, and that one task writes
_KIND = "_change_type"  # what has become of a row of a feed
_KNOWN = frozenset(
    {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns"}
    | {"deletionVectors", "columnMapping", "timestampNtz", "clustering", "domainMetadata", "v2Checkpoint"}
    | {"vacuumProtocolCheck", "inCommitTimestamp", "allowColumnDefaults"}
)
"""Features of tables that ask nothing more of a writer of rows than Delta's own transaction does."""
_HARMLESS = ("comment", "delta.columnMapping.", "delta.typeChanges", "__COLLATIONS")
"""What may be noted of a column: anything else may be a rule by which Delta fills or cuts its values."""


@dataclass(frozen=True)
class OpenTable:
    """A table at the version in which the places are valid."""

    jvm: Any
    log: Any
    snapshot: Any
    columns: tuple[str, ...]  # its columns, in its order
    has_feed: bool  # whether a commit has to tell what it changes
    old: DataFrame  # the rows that go or are replaced


def open_table(session: SparkSession, uri: str, version: int | None, changed: Changed) -> OpenTable | str:
    """Open a table for a commit by position; where there can be none, return why: then it is a MERGE."""
    old = changed.old
    if old is None or version is None:
        return "nobody knows where its rows are"
    jvm: Any = session._jvm
    delta = jvm.org.apache.spark.sql.delta
    if not all(isinstance(getattr(delta.commands, each), JavaClass) for each in POSITIONAL):
        return "this release of Delta has other classes"
    try:
        log = delta.DeltaLog.forTable(session._jsparkSession, uri)
        nothing = jvm.scala.Option.empty()
        snapshot = log.update(False, nothing, nothing)
        if snapshot.version() != version:
            return "it has another version than the rows that were compared"
        features = {*(json.loads(snapshot.protocol().json())["protocol"].get("writerFeatures") or [])}
        told = json.loads(snapshot.metadata().json())["metaData"]
    except (Py4JJavaError, Py4JNetworkError):
        raise
    except (Py4JError, TypeError, AttributeError):
        return "this release of Delta has other classes"
    if unknown := features - _KNOWN:
        return f"it has the feature {min(unknown)}"
    if "deletionVectors" not in features or not _is_on(told, VECTORS):
        return "it has no deletion vectors"
    schema, has_feed = T.StructType.fromJson(json.loads(told["schemaString"])), _is_on(told, CHANGE_FEED)
    reason = _find_other_columns(schema, changed.rows, {*changed.columns})
    if reason is None and has_feed:
        was = old.select(f"{WAS}.*") if WAS in old.columns else old.select(FILE)
        if _find_other_columns(schema, was, {*was.columns}):
            reason = "its feed needs all columns of the old rows"
    return reason or OpenTable(jvm, log, snapshot, tuple(schema.names), has_feed, old)


def _is_on(metadata: Mapping[str, Any], name: str) -> bool:
    return str(metadata["configuration"].get(name, "false")).lower() == "true"


def _find_other_columns(schema: T.StructType, rows: DataFrame, names: set[str]) -> str | None:
    """Return what keeps rows from being written as they are into a table; None for nothing."""
    ours = {each.name.lower(): each.dataType.simpleString() for each in rows.schema.fields if each.name in names}
    theirs = {each.name.lower(): each.dataType.simpleString() for each in schema.fields}
    if ours != theirs:
        return "it has other columns than its rows"
    if theirs.keys() & {*MERGE_COLUMNS, *FEED_COLUMNS, *VECTOR_COLUMNS}:
        return "it has a column that Delta has itself"
    parts = [part for column in schema.jsonValue()["fields"] for _, part in walk_parts(column)]
    rules = {rule for each in parts for rule in each.get("metadata", ()) if not rule.startswith(_HARMLESS)}
    return f"it has columns with {min(rules)}" if rules else None


class OtherClasses(Exception):
    """This release of Delta has other methods than those that are known; nothing is committed."""


def write_by_position(session: SparkSession, label: str, table: OpenTable, changed: Changed) -> None:
    """Mark the old rows, write the new ones, and commit; the record is in the settings of the session, the active one.

    Raises:
        Conflict: Other rows would go than those that were compared.
        OtherClasses: MERGE has to do it.
    """
    try:
        _write(session, label, table, changed)
    except (Py4JJavaError, Py4JNetworkError):
        raise
    except (Py4JError, TypeError, AttributeError) as error:
        raise OtherClasses from error


def _write(session: SparkSession, label: str, table: OpenTable, changed: Changed) -> None:
    old, jvm, log, snapshot, spark = table.old, table.jvm, table.log, table.snapshot, session._jsparkSession
    delta, nothing, some = jvm.org.apache.spark.sql.delta, jvm.scala.Option.empty(), jvm.scala.Some
    helper = getattr(getattr(delta.commands, "DMLWithDeletionVectorsHelper$"), "MODULE$")
    transaction = log.startTransaction(nothing, some(snapshot))
    if helper.hasBeenExecuted(transaction, spark, nothing):
        return
    everything = jvm.org.apache.spark.sql.catalyst.expressions.Literal.TrueLiteral()
    # As for a MERGE without bounds: Delta refuses the commit when another one has added or removed any file. The files
    # come with the number of their rows, so that one that loses all of them is removed.
    files = transaction.filterFiles(make_sequence(jvm, everything), True)
    vectors = snapshot.numDeletionVectorsOpt()
    sets = delta.commands.DeletionVectorBitmapGenerator.buildRowIndexSetsForFilesMatchingCondition(
        spark,
        transaction,
        vectors.isEmpty() or vectors.get() > 0,  # those that are there are read and merged
        gather_few(old.select(FILE, ROW), changed.replaced)._jdf,
        files,
        everything,
        some(F.col(FILE)._jc),
        some(F.col(ROW)._jc),
    )
    touched = helper.findFilesWithMatchingRows(
        transaction, helper.generateCandidateFileMap(log.dataPath(), files), sets
    )
    length = delta.stats.StatsCollectionUtils.getDataSkippingStringPrefixLength(spark, transaction.metadata())
    marked = helper.processUnmodifiedData(spark, touched, snapshot, length)
    pass_point("positions.marked")
    actions, count = marked._1(), int(marked._2().apply("numModifiedRows"))
    if count != changed.replaced:
        raise Conflict(f"{count} rows of {label} would go, and {changed.replaced} were compared", hint="run again")
    if (rows := list_written_rows(table, changed)) is not None:
        actions = actions.concat(transaction.writeFiles(rows._jdf))
    pass_point("positions.written")
    actions = actions.concat(helper.createSetTransaction(spark, log, nothing))
    transaction.registerSQLMetrics(spark, _count_rows(session, changed))
    empty = make_sequence(jvm)
    transaction.commit(actions, delta.DeltaOperations.Merge(nothing, nothing, nothing, nothing, empty, empty, empty))


def list_written_rows(table: OpenTable, changed: Changed) -> DataFrame | None:
    """Return the rows that are written: those for the table, and those that the feed tells; None for none.

    Delta puts a row into the feed where it has a kind of change, else into the table.
    """
    operation, ours = F.col(OPERATION), {name.lower(): name for name in changed.columns}
    count = sum(changed.operations.get(letter, 0) for letter in "IU")
    new = gather_few(changed.rows, count).where(operation.isin("I", "U"))
    columns = [F.col(quote(ours[name.lower()])).alias(name) for name in table.columns]
    if not table.has_feed:
        return new.select(*columns) if count else None
    told = F.when(operation == "I", "insert").otherwise("update_postimage")
    new = new.select(*columns, F.explode(F.array(F.lit(None).cast("string"), told)).alias(_KIND))
    theirs = {name.lower(): name for name in table.old.select(f"{WAS}.*").columns}
    gone = gather_few(table.old, changed.replaced).select(
        *[F.col(WAS).getField(theirs[name.lower()]).alias(name) for name in table.columns],
        F.when(operation == "U", "update_preimage").otherwise("delete").alias(_KIND),
    )
    return new.unionByName(gone) if count else gone


def gather_few(rows: DataFrame, count: int) -> DataFrame:
    """Return rows, few in one partition: one task writes them into one file."""
    return rows.coalesce(1) if count <= FEW else rows


def _count_rows(session: SparkSession, changed: Changed) -> Any:
    """Return what the history tells of the commit, under the names that it has for a MERGE."""
    jvm: Any = session._jvm
    inserted, updated = (changed.operations.get(letter, 0) for letter in "IU")
    counts = {
        "operationNumSourceRows": sum(changed.operations.values()),
        "numTargetRowsInserted": inserted,
        "numTargetRowsUpdated": updated,
        "numTargetRowsDeleted": changed.replaced - updated,
        "numTargetRowsCopied": 0,
    }
    context: Any = session._jsparkSession.sparkContext()
    create = jvm.org.apache.spark.sql.execution.metric.SQLMetrics.createMetric
    metrics = {name: create(context, name) for name in counts}
    for name, metric in metrics.items():
        metric.set(counts[name])
    return jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(metrics)
