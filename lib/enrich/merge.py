"""New rows of the affected keys -> the difference to the table -> one commit that also carries the cursor.

====  ==================  =================  ===========
key   table               new row            operation
====  ==================  =================  ===========
P1    (a)                 (b)                ``U``
P2    -                   (c)                ``I``
P3    (d)                 -                  ``D``
P4    (e)                 (e)                none
====  ==================  =================  ===========

The comparison is null-safe on every column, maps and nested ones too, so a row that stays the same is not written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from enrich.faults import point
from enrich.spec import OPERATION, Affected, comparable, left_names, quoted, right_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

_EMPTIED = "__enrich_emptied"
_TXN_APP = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"


@dataclass(frozen=True)
class Identity:
    """How a table's rows are told apart.

    Attributes:
        left: Columns that hold the left key.
        right: Columns that hold the lookup's key; they count only where the left key has a null.
    """

    left: tuple[str, ...]
    right: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The identity's columns in staged frames."""
        return [*left_names(len(self.left)), *right_names(len(self.right))]

    def of(self, prefix: str = "") -> dict[str, Column]:
        """Return staged name -> expression over the table's columns (below ``prefix``)."""
        from pyspark.sql import functions as F

        def column(name: str) -> Column:
            return F.col(prefix + quoted(name))

        lefts = {name: column(of) for name, of in zip(left_names(len(self.left)), self.left, strict=True)}
        lone = reduce(or_, [part.isNull() for part in lefts.values()])
        rights = zip(right_names(len(self.right)), self.right, strict=True)
        return {**lefts, **{name: F.when(lone, column(of)) for name, of in rights}}

    def same(self, ours: Column, theirs: Column) -> Column:
        """Compare one part; with right keys a part may be null on both sides."""
        return ours.eqNullSafe(theirs) if self.right else ours == theirs


@dataclass(frozen=True)
class Difference:
    """What has to be written.

    Attributes:
        rows: The identity's columns, ``OPERATION`` and the table's columns (null for deletes); computed once.
        emptied: Updated rows in which a value becomes null, when that was asked.
    """

    rows: DataFrame
    inserted: int
    updated: int
    deleted: int
    emptied: int = 0

    @property
    def is_empty(self) -> bool:
        """True when the table is already as it should be."""
        return not (self.inserted or self.updated or self.deleted)


def identities(affected: Affected, identity: Identity) -> DataFrame:
    """Return the affected keys under the identity's names, null on the side that they do not have."""
    left = affected.left
    if affected.right is None:
        return left
    return left.unionByName(affected.right, allowMissingColumns=True).select(*identity.names)


def difference(
    new: DataFrame,
    table: DataFrame | None,
    identity: Identity,
    keys: DataFrame | None,
    *,
    count_emptied: bool = False,
) -> Difference:
    """Compare the new rows of the affected keys with what the table holds for them.

    Args:
        new: The identity's columns and the table's columns; one row per identity.
        table: The table's rows at its pinned version; None when it does not exist.
        identity: How rows are told apart.
        keys: The affected identities; None for all.
        count_emptied: Count the rows in which a value becomes null.
    """
    from pyspark.sql import functions as F

    names = identity.names
    emptied = F.lit(False)
    columns = [name for name in new.columns if name not in names]
    if table is None:
        rows = new.withColumn(OPERATION, F.lit("I"))
    else:
        old = _stale(table, new, identity)
        if keys is not None:
            old = _among(old, keys, identity)
        rows = _compared(new, old, identity, columns)
        emptied = _emptied(new, columns) if count_emptied else emptied
    rows = rows.select(*names, OPERATION, *[F.col(quoted(name)) for name in columns], emptied.alias(_EMPTIED))
    # A checkpoint and not a cache: MERGE would stage a cached source once more, and refuses one that it may not stage.
    rows = rows.localCheckpoint()
    found = rows.groupBy(OPERATION).agg(F.count("*").alias("rows"), F.count_if(_EMPTIED).alias("emptied")).collect()
    counted = {row[OPERATION]: row["rows"] for row in found}
    lost = sum(row["emptied"] for row in found if row[OPERATION] == "U")
    return Difference(rows.drop(_EMPTIED), counted.get("I", 0), counted.get("U", 0), counted.get("D", 0), lost)


def discrepancy(new: DataFrame, table: DataFrame | None, identity: Identity) -> Difference:
    """Compare all rows with a table that anybody may have written to: a key may be null there, or stand twice.

    Args:
        new: The identity's columns and the table's columns; one row per identity.
        table: The table's rows at its pinned version; None when it does not exist.
        identity: How rows are told apart.

    Returns:
        The difference; ``inserted`` counts rows that the table lacks, ``updated`` those that differ, ``deleted`` its
        surplus rows. A key with several rows has a ``D``, which takes them all, and an ``I``, which must match none.
    """
    from pyspark.sql import functions as F

    if table is None:
        return difference(new, None, identity, None)
    names = identity.names
    columns = [name for name in new.columns if name not in names]
    both, same = _paired(new, _stale(table, new, identity), identity, columns)
    now, before = F.col("__enrich_new"), F.col("__enrich_old")
    counted = both.withColumn("__enrich_same", same).groupBy(*names)
    found = counted.agg(
        F.count(before).alias("__enrich_copies"),
        F.count_if("__enrich_same").alias("__enrich_equal"),
        F.first(now, ignorenulls=True).alias("__enrich_new"),
    )
    copies, equal = F.col("__enrich_copies"), F.col("__enrich_equal")
    steps = (
        F.when(now.isNull(), F.array(F.lit("D")))
        .when(copies == 0, F.array(F.lit("I")))
        .when(copies > 1, F.array(F.lit("D"), F.lit("I")))
        .when(equal == 0, F.array(F.lit("U")))
    )
    # Computed once: the rows below and their counts come from here.
    found = found.withColumn("__enrich_steps", steps).where(F.col("__enrich_steps").isNotNull()).localCheckpoint()
    surplus = F.when(now.isNull(), copies).otherwise(F.greatest(copies - 1, F.lit(0)))
    counts = found.agg(
        F.count_if(copies == 0).alias("missing"),
        F.count_if(now.isNotNull() & (copies > 0) & (equal == 0)).alias("differing"),
        F.coalesce(F.sum(surplus), F.lit(0)).alias("surplus"),
    ).first()
    assert counts is not None  # noqa: S101 - an aggregate without groups has one row
    rows = found.withColumn(OPERATION, F.explode("__enrich_steps"))
    rows = rows.select(*names, OPERATION, *[now.getField(name).alias(name) for name in columns])
    return Difference(rows.localCheckpoint(), counts["missing"], counts["differing"], counts["surplus"])


def _stale(table: DataFrame, new: DataFrame, identity: Identity) -> DataFrame:
    """Return a table's rows under their identity, as a struct; columns that it lacks are null."""
    from pyspark.sql import functions as F

    columns = [name for name in new.columns if name not in identity.names]
    missing = [F.lit(None).cast(new.schema[name].dataType).alias(name) for name in columns if name not in table.columns]
    old = table.select(*[F.col(quoted(name)) for name in columns if name in table.columns], *missing)
    return old.select(*[part.alias(name) for name, part in identity.of().items()], F.struct("*").alias("__enrich_old"))


def _among(old: DataFrame, keys: DataFrame, identity: Identity) -> DataFrame:
    from pyspark.sql import functions as F

    renamed = keys.withColumnsRenamed({name: f"{name}_of" for name in identity.names})
    condition = reduce(and_, [identity.same(F.col(name), F.col(f"{name}_of")) for name in identity.names])
    return old.join(renamed, on=condition, how="left_semi")


def _compared(new: DataFrame, old: DataFrame, identity: Identity, columns: Sequence[str]) -> DataFrame:
    """Join new and old rows on their identity and name the operation that leads from old to new."""
    from pyspark.sql import functions as F

    both, same = _paired(new, old, identity, columns)
    now, before = F.col("__enrich_new"), F.col("__enrich_old")
    operation = F.when(before.isNull(), "I").when(now.isNull(), "D").when(~same, "U")
    values = {name: now.getField(name) for name in columns}
    return both.withColumn(OPERATION, operation).where(F.col(OPERATION).isNotNull()).withColumns(values)


def _paired(new: DataFrame, old: DataFrame, identity: Identity, columns: Sequence[str]) -> tuple[DataFrame, Column]:
    """Join new and old rows on their identity.

    Returns:
        The identity's columns, ``__enrich_new`` and ``__enrich_old`` (null where there is none), and whether they are
        the same.
    """
    from pyspark.sql import functions as F

    names = identity.names
    fresh = new.select(*names, F.struct(*[F.col(quoted(name)) for name in columns]).alias("__enrich_new"))
    stale = old.withColumnsRenamed({name: f"{name}_old" for name in names})
    condition = reduce(and_, [identity.same(F.col(name), F.col(f"{name}_old")) for name in names])
    both = fresh.join(stale, on=condition, how="full")
    now, before = F.col("__enrich_new"), F.col("__enrich_old")
    kinds = {name: new.schema[name].dataType for name in columns}
    same = reduce(
        and_,
        [
            comparable(now.getField(name), kind).eqNullSafe(comparable(before.getField(name), kind))
            for name, kind in kinds.items()
        ],
    )
    whose = {name: F.when(now.isNull(), F.col(f"{name}_old")).otherwise(F.col(name)) for name in names}
    return both.withColumns(whose), same


def _emptied(new: DataFrame, columns: Sequence[str]) -> Column:
    """Tell whether a value of the old row is null in the new one; in lists of structs, whether nulls become more."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    now, before = F.col("__enrich_new"), F.col("__enrich_old")
    parts = []
    for name in columns:
        kind = new.schema[name].dataType
        parts.append(before.getField(name).isNotNull() & now.getField(name).isNull())
        if isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.StructType):
            fields = kind.elementType.names
            parts.append(_holes(now.getField(name), fields) > _holes(before.getField(name), fields))
    return F.coalesce(reduce(or_, parts), F.lit(False))


def _holes(items: Column, fields: Sequence[str]) -> Column:
    """Count the elements of a list of structs that have a null in one of their fields."""
    from pyspark.sql import functions as F

    return F.size(F.filter(items, lambda each: reduce(or_, [each.getField(field).isNull() for field in fields])))


@dataclass(frozen=True)
class Commit:
    """What the commit records beside its rows.

    Attributes:
        application: ``txnAppId``; None for tables without a cursor of their own.
        number: ``txnVersion``.
        metadata: ``userMetadata``, the cursor as JSON.
    """

    application: str | None
    number: int
    metadata: str


@contextmanager
def _recorded(session: SparkSession, commit: Commit) -> Iterator[None]:
    """Let the next write of this session carry the record; the settings hold for the whole session, hence undone."""
    settings = {_USER_METADATA: commit.metadata, _MATERIALIZE: "none"}
    if commit.application is not None:
        settings |= {_TXN_APP: commit.application, _TXN_VERSION: str(commit.number)}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            session.conf.unset(name)


def merge(session: SparkSession, uri: str, changed: DataFrame, identity: Mapping[str, Column], commit: Commit) -> None:
    """Apply a difference to an existing table in one commit; an empty one still records the cursor.

    Columns that the table lacks are added in the same commit.

    Args:
        session: The job's own session.
        uri: The table.
        changed: The identity's columns, ``OPERATION`` and the table's columns.
        identity: Column of ``changed`` -> what it equals (null-safe) over the table's columns below ``t``.
        commit: What to record.
    """
    from delta.tables import DeltaTable
    from pyspark.sql import functions as F

    columns = [name for name in changed.columns if name not in identity and name != OPERATION]
    condition = reduce(and_, [theirs.eqNullSafe(F.col(f"s.{name}")) for name, theirs in identity.items()])
    values: Mapping[str, Column] = {quoted(name): F.col("s." + quoted(name)) for name in columns}
    is_op = {letter: F.col(f"s.{OPERATION}") == letter for letter in "DUI"}
    target = DeltaTable.forPath(session, uri)
    known = {name.lower() for name in target.toDF().columns}
    builder = target.alias("t").merge(changed.alias("s"), condition)
    if any(name.lower() not in known for name in columns):
        builder = builder.withSchemaEvolution()
    builder = builder.whenMatchedDelete(is_op["D"]).whenMatchedUpdate(is_op["U"], set=dict(values))
    with _recorded(session, commit):
        point("merge.before")
        builder.whenNotMatchedInsert(is_op["I"], values=dict(values)).execute()
        point("merge.after")


def create(
    session: SparkSession,
    name: str,
    rows: DataFrame,
    *,
    cluster_by: Sequence[str],
    properties: Mapping[str, str],
    commit: Commit,
) -> None:
    """Create a table with its rows, properties, clustering and cursor in one commit.

    ``DataFrameWriter.clusterBy`` is ignored by ``save(path)``, so this is a CREATE TABLE AS SELECT put together from
    quoted identifiers and literals; the rows come in through a view of this session.

    Args:
        session: The job's own session.
        name: The quoted table name, ```delta`.`/path``` or a catalog name.
        rows: Exactly the table's columns.
        cluster_by: Up to four columns.
        properties: Table properties.
        commit: What to record.
    """
    view = "__enrich_staged"
    rows.createOrReplaceTempView(view)
    parts = ["CREATE TABLE", name, "USING delta"]
    if cluster_by:
        parts.append("CLUSTER BY (" + ", ".join(quoted(column) for column in cluster_by) + ")")
    options = ", ".join(" = ".join((_literal(key), _literal(value))) for key, value in properties.items())
    parts.append("TBLPROPERTIES (" + options + ")")
    parts += ["AS SELECT * FROM", quoted(view)]
    try:
        with _recorded(session, commit):
            point("create.before")
            session.sql(" ".join(parts))
            point("create.after")
    finally:
        session.catalog.dropTempView(view)


def _literal(text: str) -> str:
    """Return a SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def overwrite(session: SparkSession, uri: str, rows: DataFrame, commit: Commit) -> None:
    """Put other rows and another schema into an existing table in one commit (full refresh of a changed definition)."""
    with _recorded(session, commit):
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        point("overwrite.before")
        writer.save(uri)
        point("overwrite.after")


def restore(session: SparkSession, uri: str, version: int | None, metadata: str) -> None:
    """Lead a table back to a version in one commit with ``userMetadata``; None: to no rows."""
    from delta.tables import DeltaTable

    table = DeltaTable.forPath(session, uri)
    with _recorded(session, Commit(None, 0, metadata)):
        if version is None:
            table.delete()
        else:
            table.restoreToVersion(version)
