"""Write a table in one commit that carries its record, and prove from the log what became of it.

All that enrich writes with Spark goes through here: targets, quarantines and the tables of ``enrich load``. How a
staged row finds the old one that it takes the place of, by MERGE, is known in this module alone.

The answer of a call proves nothing:

=====================================  ===========================================  ==========================
the call                               the log                                      the writer
=====================================  ===========================================  ==========================
returned                               holds the commit                             is done
returned                               does not: its number was taken, it was       has lost, or plans anew
                                       skipped silently
raised (answer lost, a step after      holds the commit                             is done, and says so
the commit failed, a signal)
raised                                 does not                                     failed, lost or plans anew
=====================================  ===========================================  ==========================

Lost: ``Commit.lost`` names a faster run of the job (``Locked``, exit 4). Plans anew: ``Conflict``, and what
``base.failures.is_conflict`` knows of Delta's errors; ``operations.runner.retry`` plans the whole job again, up to
three times, so that there are four attempts in all. Failed: anything else, and the fourth attempt. Exit code and
message of what failed are those of ``base.failures.describe_error``; a commit that the log holds is told beside any
later error.

Before the commit itself, a write may commit changes of the table's properties or types, without a record.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import reduce
from operator import and_
from types import MappingProxyType
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from enrich.base.errors import ConfigError, Conflict
from enrich.base.failpoints import pass_point
from enrich.base.names import FEED_COLUMNS, MERGE_COLUMNS, VECTOR_COLUMNS
from enrich.base.schemas import strip_type
from enrich.base.spec import OPERATION, quote, quote_literal
from enrich.delta import drafts, extents, positions, tables
from enrich.delta.drafts import Draft
from enrich.delta.reads import fit_columns

log = logging.getLogger("enrich")


@contextmanager
def hold_settings(session: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Let a session have other settings inside the block; what the block sets under these names is undone as well."""
    before = {name: session.conf.get(name, None) for name in values}
    for name, value in values.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            session.conf.unset(name) if old is None else session.conf.set(name, old)


_VECTORS = "spark.databricks.delta.merge.deletionVectors.persistent"
BROADCAST = "spark.sql.autoBroadcastJoinThreshold"


@dataclass(frozen=True)
class Commit:
    """One commit to be made: what it records beside its rows, and how it is found in the log."""

    label: str  # the table's name in messages
    locate: Callable[[], str | None]  # tells where the table is; a catalog knows a new one only afterwards
    base: int | None  # the version that the commit was planned on; None when it creates the table
    application: str  # ``txnAppId``
    number: int  # ``txnVersion``; Delta skips or refuses one that it knows, in the same instant as it commits
    record: str  # ``userMetadata``, as JSON
    is_ours: Callable[[Mapping[str, Any]], bool]  # whether what a commit records is this commit's
    require: Callable[[], None] = lambda: None  # called right before the table is written; raises what must stop that
    # Called when the log does not hold the commit; raises what is known of who was faster.
    lost: Callable[[], None] = lambda: None
    # Told the commit's version, also when an exception or a signal is on its way.
    landed: Callable[[int], None] = lambda _: None


def commit_and_prove(commit: Commit, write: Callable[[], None]) -> int:
    """Make a commit by one of the functions below, and return the version that it has in the log.

    Raises:
        Conflict: The commit's number was taken by another one.
    """
    try:
        write()
        version = _prove(commit)
    except BaseException as error:  # of the call, or while the log was asked
        version = _prove(commit)
        if version is None or not isinstance(error, Exception):
            raise
        log.warning("%s: version %d is committed; the call failed: %s", commit.label, version, type(error).__name__)
        return version
    if version is None:
        raise Conflict(f"another run is writing {commit.label}", hint="run again")
    return version


def _prove(commit: Commit) -> int | None:
    """Return the version of a commit after its base, None when the log does not hold it, and tell the writer."""
    pass_point("proof.before")
    uri = commit.locate()
    entries = tables.read_history(tables.open_log(uri), tables.RECENT) if uri is not None and tables.exists(uri) else []
    pass_point("proof.after")
    after = [each for each in entries if commit.base is None or int(each["version"]) > commit.base]
    version = next((int(each["version"]) for each in after if commit.is_ours(tables.read_metadata(each))), None)
    if version is None:
        commit.lost()
    else:
        commit.landed(version)
    return version


def _record_commit(session: SparkSession, commit: Commit) -> AbstractContextManager[None]:
    """Let the writes of this session inside the block carry the record."""
    settings = {
        "spark.databricks.delta.write.txnAppId": commit.application,
        "spark.databricks.delta.write.txnVersion": str(commit.number),
        "spark.databricks.delta.commitInfo.userMetadata": commit.record,
        "spark.databricks.delta.merge.materializeSource": "none",
        "spark.databricks.delta.autoCompact.enabled": "false",  # its commit would carry the record, too
        _VECTORS: "true",
        BROADCAST: str(session.conf.get(BROADCAST)),
    }
    return hold_settings(session, settings)


@dataclass(frozen=True)
class Changed:
    """Rows that a table shall get, lose, or have with other values."""

    rows: DataFrame  # the identity's columns, ``OPERATION`` and the table's columns
    # Column of ``rows`` -> what it equals over the table's columns below ``t``; inserts match no row.
    identity: Mapping[str, Column]
    has_nulls: bool  # whether a part of the identity may be null, and then equals null
    operations: Mapping[str, int]  # operation -> number of rows, where there are any
    # The table's rows that go or are replaced, with their places in the commit's base; None where these are not known:
    # ``frames.difference.Difference``.
    old: DataFrame | None = None
    replaced: int = 0  # how many these are

    @property
    def columns(self) -> list[str]:
        """The table's columns."""
        return [name for name in self.rows.columns if name not in self.identity and name != OPERATION]


def write_difference(session: SparkSession, uri: str, changed: Changed, commit: Commit) -> None:
    """Apply a difference, and columns that the table lacks, in one commit; an empty one still records the cursor.

    New rows alone are appended. All else is written by position where the rows' places are known and the table can be
    written so (docs/adr/0034-commits-by-position.md), and else by a MERGE of the clauses that have rows
    (docs/adr/0015-merge-by-need.md).
    """
    if any(field.metadata or _plain_type(field.dataType) != field.dataType for field in changed.rows.schema.fields):
        changed = replace(changed, rows=_drop_metadata(changed.rows))
    _allow_types(session, f"delta.{quote(uri)}", uri, changed.rows)
    with _record_commit(session, commit):
        pass_point("merge.before")
        commit.require()
        if touches_rows(changed.operations):
            if not _put_by_position(session, uri, changed, commit):
                _merge(session, uri, changed)
        else:
            rows = changed.rows.select(*[F.col(quote(name)) for name in changed.columns])
            rows = positions.gather_few(rows, changed.operations["I"]) if changed.operations else rows.limit(0)
            rows.write.format("delta").mode("append").option("mergeSchema", "true").save(uri)
        pass_point("merge.after")


def touches_rows(operations: Mapping[str, int]) -> bool:
    """Tell whether a difference needs a MERGE: it updates or deletes rows."""
    return bool(operations.keys() & {"U", "D"})


def wants_places(table: tables.TableState | None) -> bool:
    """Tell whether a difference from a table is cheaper by position, so that its rows should be read with ``PLACE``.

    Files of a small table are written anew by a MERGE: that takes half as many Spark jobs. Databricks has another
    Delta.
    """
    if table is None or os.environ.get("DATABRICKS_RUNTIME_VERSION"):
        return False
    return table.properties.get(tables.VECTORS, "false").lower() == "true" and not is_small(table.uri)


def is_small(uri: str) -> bool:
    """Tell whether it is cheaper to sort all of a table than to send few keys to every task, which is a Spark job."""
    return extents.measure_table(uri).bytes <= extents.SMALL_TABLE


def _put_by_position(session: SparkSession, uri: str, changed: Changed, commit: Commit) -> bool:
    """Write a difference by position; False where it has to be a MERGE, and nothing is committed."""
    table = positions.open_table(session, uri, commit.base, changed)
    if not isinstance(table, str):
        try:
            positions.write_by_position(session, commit.label, table, changed)
        except positions.OtherClasses:
            table = "this release of Delta has other methods"
        else:
            log.debug("%s is written by position", commit.label)
            return True
    log.debug("%s is written by MERGE: %s", commit.label, table)
    return False


def _merge(session: SparkSession, uri: str, changed: Changed) -> None:
    operations, rows = changed.operations, changed.rows
    target = DeltaTable.forPath(session, uri)
    known = {field.name.lower(): field for field in target.toDF().schema.fields}
    if taken := known.keys() & {*MERGE_COLUMNS, *FEED_COLUMNS}:
        raise ConfigError(
            f"{uri} has a column {sorted(taken)[0]!r}, which Delta's MERGE has itself: rows of this table cannot be"
            " updated or deleted",
            hint="rename the column or drop it (Delta needs column mapping for that), or write to another table",
        )
    small = is_small(uri)
    if small or known.keys() & set(VECTOR_COLUMNS):
        session.conf.set(_VECTORS, "false")
    same = [
        theirs.eqNullSafe(F.col(f"s.{name}")) if changed.has_nulls else theirs == F.col(f"s.{name}")
        for name, theirs in changed.identity.items()
    ]
    if small:
        session.conf.set(BROADCAST, "-1")
    elif sum(operations.values()) <= positions.FEW:
        rows = F.broadcast(rows)  # a checkpoint has the statistics of the plan that it comes from
    kinds = {name: field.dataType for name, field in known.items()}
    values: Mapping[str, Column] = {
        quote(name): _require_fields(F.col("s." + quote(name)), kinds.get(name.lower())) for name in changed.columns
    }
    grows = bool(fit_columns(known.values(), [rows.schema[name] for name in changed.columns], "t."))
    builder = target.alias("t").merge(rows.alias("s"), reduce(and_, same))
    if grows:
        builder = builder.withSchemaEvolution()
    if "D" in operations:
        builder = builder.whenMatchedDelete(F.col(f"s.{OPERATION}") == "D" if len(operations) > 1 else None)
    if "U" in operations:
        builder = builder.whenMatchedUpdate(set=dict(values))
    if "I" in operations or (grows and "U" not in operations):  # a clause that deletes adds no columns
        builder = builder.whenNotMatchedInsert(F.col(f"s.{OPERATION}") == "I", values=dict(values))
    builder.execute()


def _require_fields(value: Column, kind: T.DataType | None) -> Column:
    """Return a value whose fields are never null where the table has them so: a MERGE takes no others.

    Rows with a null there have been refused before (``frames/difference``), so what stands in for it is never written.
    """
    if not isinstance(kind, T.StructType) or not _has_required(kind):
        return value
    fields = []
    for each in kind.fields:
        found = _require_fields(value.getField(each.name), each.dataType)
        none = _make_value(each.dataType)
        fields.append((found if each.nullable or none is None else F.coalesce(found, none)).alias(each.name))
    return F.when(value.isNotNull(), F.struct(*fields))


def _has_required(kind: T.StructType) -> bool:
    return any(
        not each.nullable or (isinstance(each.dataType, T.StructType) and _has_required(each.dataType))
        for each in kind.fields
    )


def _make_value(kind: T.DataType) -> Column | None:
    """Return some value of a type that is known not to be null; None for a type without a literal."""
    if isinstance(kind, T.StructType):
        fields = [(each.name, _make_value(each.dataType)) for each in kind.fields]
        return F.struct(*[(F.lit(None) if value is None else value).alias(name) for name, value in fields])
    if isinstance(kind, T.ArrayType | T.MapType):
        return (F.array() if isinstance(kind, T.ArrayType) else F.create_map()).cast(kind)
    known: list[tuple[type, Any]] = [
        (T.BooleanType, False), (T.NumericType, 0), (T.StringType, ""), (T.BinaryType, b""),
        (T.DateType, date.min), (T.TimestampType, datetime(1, 1, 1, tzinfo=UTC)),
        (T.TimestampNTZType, datetime(1, 1, 1)),  # noqa: DTZ001 - it has no zone
    ]  # fmt: skip
    found = next((value for of, value in known if isinstance(kind, of)), None)
    return None if found is None else F.lit(found).cast(kind)


@dataclass(frozen=True)
class NewTable:
    """A table as it shall be created, or written anew; ``name`` is quoted, and only a catalog may know the ``uri``."""

    name: str
    uri: str | None
    properties: Mapping[str, str]
    cluster_by: Sequence[str] = ()
    comments: Mapping[str, str] = field(default_factory=dict)  # of columns, by name, and of the table, by no name


def draft_table(
    session: SparkSession, table: NewTable, rows: DataFrame, observed: Sequence[Observation]
) -> Draft | None:
    """Write the files of a table that does not exist; None where ``create_table`` has to do all of it."""
    return drafts.write_draft(session, table, _drop_metadata(rows, table.comments), observed)


def commit_draft(session: SparkSession, draft: Draft, commit: Commit) -> None:
    """Create the table of a draft."""
    with _record_commit(session, commit):
        pass_point("create.before")
        commit.require()
        draft.commit(session)
        pass_point("create.after")


def create_table(session: SparkSession, table: NewTable, rows: DataFrame, commit: Commit) -> None:
    """Create a table with rows of its columns, properties, clustering and cursor in one commit."""
    # ``save(path)`` ignores ``DataFrameWriter.clusterBy``, so this is SQL of quoted identifiers and literals.
    view = "__enrich_staged"
    _drop_metadata(rows, table.comments).createOrReplaceTempView(view)
    # Delta refuses a directory with the files of a creation that ended early.
    create = "CREATE OR REPLACE TABLE" if table.uri is not None and tables.has_remains(table.uri) else "CREATE TABLE"
    clusters = ["CLUSTER BY", _list_columns(table.cluster_by)] if table.cluster_by else []
    comment = ["COMMENT", quote_literal(table.comments[""])] if "" in table.comments else []
    properties = ["TBLPROPERTIES", _list_properties(table.properties)]
    parts = [create, table.name, "USING delta", *clusters, *comment, *properties, "AS SELECT * FROM", quote(view)]
    try:
        with _record_commit(session, commit):
            pass_point("create.before")
            commit.require()
            session.sql(" ".join(parts))
            pass_point("create.after")
    finally:
        session.catalog.dropTempView(view)


def overwrite_table(session: SparkSession, table: NewTable, rows: DataFrame, commit: Commit) -> None:
    """Put other rows and another schema into an existing table in one commit (full refresh of a changed definition)."""
    uri, rows = str(table.uri), _drop_metadata(rows, table.comments)
    _allow_types(session, table.name, uri, rows)
    old, kinds = tables.read_state(uri), {each.name: strip_type(each.dataType.jsonValue()) for each in rows.schema}
    _measure_other_columns(session, table, old, rows)
    # Under column mapping, Delta takes no rows with a feed in a commit that drops a column or changes its type.
    goes = tables.has_mapping(old) and any(kinds.get(name) != strip_type(kind) for name, kind in old.columns.items())
    if pauses := goes and old.has_change_feed:
        _alter(session, table.name, "SET TBLPROPERTIES", _list_properties({tables.CHANGE_FEED: "false"}))
    with _record_commit(session, commit):
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        pass_point("overwrite.before")
        commit.require()
        writer.save(uri)
        pass_point("overwrite.after")
    prepare_target(session, table.name, {}, feed=pauses)
    if table.cluster_by:  # Delta takes clustering away with the old schema
        _alter(session, table.name, "CLUSTER BY", _list_columns(table.cluster_by))


def _allow_types(session: SparkSession, name: str, uri: str, rows: DataFrame) -> None:
    """Let an existing table have timestamps without time zone, where ``rows`` do: Delta allows new tables alone."""
    wants = 'ype":"timestamp_ntz"' in rows.schema.json()  # of a column, a field, an element, a key or a value
    if wants and "timestampNtz" not in (tables.open_log(uri).protocol().writer_features or []):
        _alter(session, name, "SET TBLPROPERTIES", _list_properties({"delta.feature.timestampNtz": "supported"}))


def _measure_other_columns(session: SparkSession, table: NewTable, old: tables.TableState, rows: DataFrame) -> None:
    """Give a table other columns with statistics: Delta refuses ``rows`` that lack one of them.

    Without the setting, the log would get values of every column. So it is never away: new columns are added before,
    empty. What somebody has taken out stays out, but for columns that the table is clustered by, as Delta wants it.
    """
    if not old.properties.keys() & {extents.MEASURED, extents.MEASURED_FIRST}:
        return  # somebody wants what Delta does by itself
    lists = [each.get(extents.MEASURED, "").split(",") for each in (old.properties, table.properties)]
    there, wanted = ([name.strip().strip("`") for name in each if name.strip()] for each in lists)  # none has a comma
    known = {name.lower() for name in old.columns}
    new = [name for name in wanted if name.lower() not in known]
    measured = [name for name in wanted if name in {*there, *table.cluster_by} or (there and name in new)]
    if measured == there:
        return
    if added := [f"{quote(name)} {rows.schema[name].dataType.simpleString()}" for name in measured if name in new]:
        _alter(session, table.name, "ADD COLUMNS (", ", ".join(added), ")")
    _alter(session, table.name, "SET TBLPROPERTIES", _list_properties(extents.list_statistics(measured)))
    if not measured:
        _alter(session, table.name, "UNSET TBLPROPERTIES (", quote_literal(extents.MEASURED), ")")


def choose_statistics(rows: DataFrame, wanted: Iterable[str]) -> dict[str, str]:
    """Return the property by which the log of a table with these rows gets values of the wanted columns alone."""
    kinds = T.NumericType | T.StringType | T.DateType | T.TimestampType | T.TimestampNTZType  # as Delta has it
    known = {field.name for field in rows.schema.fields if isinstance(field.dataType, kinds)}
    return extents.list_statistics(list(dict.fromkeys(name for name in wanted if name in known)))


def _drop_metadata(rows: DataFrame, comments: Mapping[str, str] = MappingProxyType({})) -> DataFrame:
    """Return rows with a table's comments alone: by a varchar's length in a source, longer texts would be refused."""
    columns = []
    for each in rows.schema.fields:
        column, plain = F.col(quote(each.name)), _plain_type(each.dataType)
        note = {"comment": comments[each.name]} if each.name in comments else {}
        columns.append((column if plain == each.dataType else column.cast(plain)).alias(each.name, metadata=note))
    return rows.select(*columns)


def _plain_type(kind: T.DataType) -> T.DataType:
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(each.name, _plain_type(each.dataType), each.nullable) for each in kind])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_plain_type(kind.elementType), kind.containsNull)
    if isinstance(kind, T.MapType):
        return T.MapType(_plain_type(kind.keyType), _plain_type(kind.valueType), kind.valueContainsNull)
    return kind


def _alter(session: SparkSession, name: str, *words: str) -> None:
    session.sql(" ".join(["ALTER TABLE", name, *words]))


def prepare_target(session: SparkSession, name: str, comments: Mapping[str, str], *, feed: bool) -> None:
    """Switch a table's change feed on, and give it comments, in commits of their own; ``name`` is quoted."""
    if feed:
        pass_point("feed.before")
        _alter(session, name, "SET TBLPROPERTIES", _list_properties({tables.CHANGE_FEED: "true"}))
        pass_point("feed.after")
    if "" in comments:
        session.sql(" ".join(["COMMENT ON TABLE", name, "IS", quote_literal(comments[""])]))
    columns = [" ".join([quote(each), "COMMENT", quote_literal(text)]) for each, text in comments.items() if each]
    if columns:
        _alter(session, name, "ALTER COLUMN", ", ".join(columns))


def _list_properties(properties: Mapping[str, str]) -> str:
    pairs = [" = ".join((quote_literal(key), quote_literal(value))) for key, value in properties.items()]
    return "(" + ", ".join(pairs) + ")"


def _list_columns(names: Sequence[str]) -> str:
    return "(" + ", ".join(quote(name) for name in names) + ")"
