"""Write the files of a table before it is known whether there may be one: then commit them, or take them away.

    rows -> files without a log, counted while they are written -> rules, which read the files -> commit, or delete

So a first run computes its rows once and keeps none of them (docs/adr/0037). Where Delta's classes are others, there
are no drafts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from enrich.base.errors import Conflict
from enrich.base.failpoints import pass_point
from enrich.base.spec import quote
from enrich.delta import tables
from enrich.delta.reads import make_sequence
from enrich.delta.stores import find_local_path

if TYPE_CHECKING:
    from enrich.delta.sink import NewTable

_PATIENCE = 60_000
"""Milliseconds until what Spark's tasks have counted is there."""


@dataclass
class Draft:
    """Files that belong to no table yet."""

    rows: DataFrame  # what the files hold
    counts: Sequence[int]  # what was counted while they were written
    files: Sequence[Any]  # their paths
    cluster_by: Sequence[str]
    # Delta's: the command that wrote them, its transaction, and what this shall commit.
    writer: Any
    transaction: Any
    found: Any
    is_tried: bool = False  # whether a table may have them

    def commit(self, session: SparkSession) -> None:
        """Make the table of the files; the record is in the settings of the session, the active one."""
        jvm: Any = session._jvm
        nothing, spark, log = jvm.scala.Option.empty(), session._jsparkSession, self.writer.deltaLog()
        if self.writer.hasBeenExecuted(self.transaction, spark, nothing):
            return
        store = log.dataPath().getFileSystem(log.newDeltaHadoopConf())
        if store.getScheme() == "file" and not all(store.exists(each) for each in self.files):  # see ``write_draft``
            raise Conflict("files of the new table have gone", hint="run again")
        clusters = jvm.scala.Some(make_sequence(jvm, *self.cluster_by)) if self.cluster_by else nothing
        operation = jvm.org.apache.spark.sql.delta.DeltaOperations.CreateTable(
            self.transaction.metadata(), False, True, clusters
        )
        actions = self.found.actions().concat(self.writer.createSetTransaction(spark, log, nothing))
        self.is_tried = True
        self.transaction.commit(actions, operation, self.found.stringTags())

    def discard(self) -> None:
        """Delete the files, unless a table may have them."""
        if not self.is_tried:
            _delete(self.writer.deltaLog(), self.files)


def write_draft(
    session: SparkSession, table: NewTable, rows: DataFrame, observed: Sequence[Observation]
) -> Draft | None:
    """Write rows, of which counts are observed, into the files of a new table.

    None where that cannot be done, and nothing is left of it.
    """
    jvm: Any = session._jvm
    delta, uri = jvm.org.apache.spark.sql.delta, table.uri
    is_other = os.environ.get("DATABRICKS_RUNTIME_VERSION") or not isinstance(delta.commands.WriteIntoDelta, JavaClass)
    if is_other or uri is None:
        return None
    log, before = delta.DeltaLog.forTable(session._jsparkSession, uri), _list_parts(uri)
    try:
        draft = _write(session, log, table, rows)
        pass_point("draft.written")
        session._jsparkSession.sparkContext().listenerBus().waitUntilEmpty(_PATIENCE)
        told = [each._jo.getRowOrEmpty() for each in observed]  # type: ignore[union-attr]
        if any(each.isEmpty() for each in told):
            raise TypeError("Spark has had too much to tell")
        return replace(draft, counts=[int(each.get().get(at)) for each in told for at in range(each.get().size())])
    except BaseException as error:
        # Nobody but Spark knows which files it has written before it failed. Another run can be here on another machine
        # alone, and looks for its files when it commits.
        if tables.has_remains(uri):
            _delete(log, [jvm.org.apache.hadoop.fs.Path(str(each)) for each in _list_parts(uri) - before])
        is_known = not isinstance(error, Py4JError | TypeError | AttributeError)
        if is_known or isinstance(error, Py4JJavaError | Py4JNetworkError):
            raise
    return None


def _write(session: SparkSession, log: Any, table: NewTable, rows: DataFrame) -> Draft:
    jvm: Any = session._jvm
    spark, nothing, some = session._jsparkSession, jvm.scala.Option.empty(), jvm.scala.Some
    delta, make_map = jvm.org.apache.spark.sql.delta, jvm.org.apache.spark.api.python.PythonUtils.toScalaMap
    properties, clusters = {**table.properties}, nothing
    if "" in table.comments:
        properties["comment"] = table.comments[""]
    if table.cluster_by:
        names = make_sequence(jvm, *map(quote, table.cluster_by))
        clusters = some(delta.skipping.clustering.temp.ClusterBySpec.fromColumnNames(names))
        properties["delta.feature.clustering"] = "supported"
    options = delta.DeltaOptions(make_map({}), spark.sessionState().conf())
    transaction, mode = log.startTransaction(nothing, nothing), jvm.org.apache.spark.sql.SaveMode.ErrorIfExists
    writer = delta.commands.WriteIntoDelta(
        log, mode, options, make_sequence(jvm), make_map(properties), rows._jdf, nothing, nothing, False
    )
    found = writer.writeAndReturnCommitData(transaction, spark, clusters, False)
    actions = [found.actions().apply(place) for place in range(found.actions().size())]
    adds = [each for each in actions if each.getClass().getSimpleName() == "AddFile"]
    new = delta.DummySnapshot(log.logPath(), log, transaction.metadata(), nothing, some(transaction.protocol()))
    written = ClassicDataFrame(log.createDataFrame(new, make_sequence(jvm, *adds), False, nothing), session)
    return Draft(written, (), [each.absolutePath(log) for each in adds], table.cluster_by, writer, transaction, found)


def _list_parts(uri: str) -> set[Path]:
    local = find_local_path(uri)
    return set(local.glob("part-*")) if local is not None else set()


def _delete(log: Any, files: Iterable[Any]) -> None:
    """Delete files of a table that was not made, and its directories, if nothing else is in them."""
    store = log.dataPath().getFileSystem(log.newDeltaHadoopConf())
    for each in files:
        store.delete(each, False)
    with suppress(Py4JJavaError, PySparkException):  # not empty, or not there
        if len(store.listStatus(log.dataPath())) == 1:  # else it must stay what ``tables.has_remains`` knows
            for each in (log.logPath().suffix("/_staged_commits"), log.logPath(), log.dataPath()):
                store.delete(each, False)
