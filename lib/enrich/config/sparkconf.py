"""Which Spark settings reach the session that jobs run in: where things are and how fast, never what rows mean.

A result must not depend on who runs a job, so the session of a job takes from the user's session what is listed here.
Everything else has Spark's own default there, whatever the session, ``spark-defaults.conf`` or ``conf/*.yml`` say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from enrich.base.errors import Fault
from enrich.base.stores import PREFIX, is_secret
from enrich.config.yamlfile import Tree

FORCED = {
    # Another zone costs Delta a state reconstruction a commit, and shifts timestamps without a zone. Spark's default is
    # the zone of the machine.
    "spark.sql.session.timeZone": "UTC",
    # Delta would refuse a version that was committed more than a week ago as soon as a later one exists, although all
    # of its files are there. Where they are not, the read fails.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    # What Spark derives from a plan's conditions doubles with every join and every renamed column: a job with three
    # sources planned until its memory was full.
    "spark.sql.constraintPropagation.enabled": "false",
    # The environment variable SPARK_ANSI_SQL_MODE changes the default.
    "spark.sql.ansi.enabled": "true",
    # Spark would compute what stands twice behind an `and` or `or` before it looks at what stands in front of it, in
    # plans that it compiles: `n > 0 and total / n > 1 and total / n < 9` failed for every row with n = 0.
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
    # Spark would put environment variables into an expression's text, inside string literals too.
    "spark.sql.variable.substitute": "false",
    # Spark's default is INT96, with nanoseconds: other readers of a target see year 1 as 1754, and skip no row groups.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Spark would hand literals to Parquet as `java.sql.Date`, whose calendar has no 1582-10-05 to 14: row groups with
    # the keys that a run looks for would be skipped.
    "spark.sql.datetime.java8API.enabled": "true",
}
"""Settings of every job's session that are not Spark's default."""

_FAMILIES = ("spark.sql.", "spark.databricks.delta.")
"""All settings that Spark's SQL and Delta register. The others are of storage, credentials, resources or a platform."""

_INHERITED = {
    "where tables are, and who coordinates commits": """
        spark.sql.catalog. spark.sql.catalogImplementation spark.sql.defaultCatalog spark.sql.hive.
        spark.sql.warehouse.dir spark.databricks.delta.coordinatedCommits.""",
    "what a context is made of, how it shows and hides what it does": """
        spark.sql.artifact. spark.sql.cache.serializer spark.sql.extensions spark.sql.queryExecutionListeners
        spark.sql.redaction. spark.sql.ui.""",
    "how many tasks, and of which size": """
        spark.sql.adaptive. spark.sql.files.maxPartitionBytes spark.sql.files.maxPartitionNum
        spark.sql.files.maxRecordsPerFile spark.sql.files.minPartitionNum spark.sql.files.openCostInBytes
        spark.sql.leafNodeDefaultParallelism spark.sql.maxSinglePartitionBytes spark.sql.shuffle.partitions
        spark.sql.sources.parallelPartitionDiscovery. spark.databricks.delta.optimizeWrite.
        spark.databricks.delta.merge.repartitionBeforeWrite.enabled spark.databricks.delta.snapshotPartitions""",
    "how rows are joined, sorted and kept": """
        spark.sql.autoBroadcastJoinThreshold spark.sql.broadcastTimeout spark.sql.inMemoryColumnarStorage.
        spark.sql.join.preferSortMergeJoin spark.sql.maxBroadcastTableSize spark.sql.optimizer.dynamicPartitionPruning.
        spark.sql.optimizer.runtime. spark.sql.optimizer.runtimeFilter. spark.sql.sortMergeJoinExec.buffer.
        spark.sql.windowExec.buffer.""",
    "how code is made, how files and logs are read and packed": """
        spark.sql.codegen. spark.sql.parquet.columnarReaderBatchSize spark.sql.parquet.compression.codec
        spark.sql.parquet.enableNestedColumnVectorizedReader spark.sql.parquet.enableVectorizedReader
        spark.databricks.delta.checkpoint.partSize spark.databricks.delta.delta.log.
        spark.databricks.delta.snapshotCache.storageLevel""",
}
"""Settings of these families that a job's session takes from the user's; those with a dot at the end with all below."""

_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-)?\}")
_NAMES = frozenset(" ".join(_INHERITED.values()).split())
_BELOW = tuple(name for name in _NAMES if name.endswith("."))


def is_inherited(name: str) -> bool:
    """Tell whether a job's session takes a setting from the session, the context and the configuration."""
    return not name.startswith(_FAMILIES) or name in _NAMES or name.startswith(_BELOW)


def check_secrets(tree: Tree) -> list[Fault]:
    """Refuse credentials of object stores that stand in a file; a variable of the environment may hold them.

    Args:
        tree: The file as it is written, before variables are put in.
    """
    spark = tree.mapping().get("spark")
    conf = spark.get("conf") if isinstance(spark, dict) else None
    faults = []
    for name, value in (conf if isinstance(conf, dict) else {}).items():
        if is_secret(str(name)) and not _VARIABLE.fullmatch(str(value)):
            message = f"{name!r} must not stand in a file: write ${{NAME}} for an environment variable"
            if str(name).startswith(PREFIX):
                message += ", or leave it out, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            faults.append(Fault(message, tree.at("spark", "conf", name)))
    return faults


def check_settings(tree: Tree, settings: Iterable[tuple[str, str]]) -> list[Fault]:
    """Refuse what a file asks for in ``spark.conf`` and cannot have in the sessions of jobs."""
    faults = []
    for name, value in settings:
        if is_inherited(name) or FORCED.get(name) == value:
            continue
        said = (
            f"is always {FORCED[name]!r} for jobs" if name in FORCED else "does not reach jobs: they keep its default"
        )
        message = f"{name!r} {said}, so that rows do not depend on who runs them; leave it out"
        faults.append(Fault(message, tree.at("spark", "conf", name)))
    return faults
