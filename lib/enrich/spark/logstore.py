"""Tell whether two drivers that commit to one table of a bucket exclude each other, by its log store in Delta.

Delta's own log store for S3 keeps two commits apart within one JVM only; of two drivers one would overwrite the
other's commit without a trace (Delta's documentation, "Storage configuration", Amazon S3). Ours, a class of Java in a
jar beside this module (its source: ``packaging/logstore``), commits by writes that S3 refuses if the file is there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enrich.base.errors import EnvironmentFault

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = ("spark.delta.logStore.s3a.impl", "spark.delta.logStore.class")
"""Where a log store is named, the one that Delta asks first in front."""

SINGLE_DRIVER = "S3SingleDriverLogStore"
CONDITIONAL = "enrich.delta.S3ConditionalLogStore"

JAR = Path(__file__).with_name("enrich-logstore.jar")
"""What holds ``CONDITIONAL``; a session that enrich builds has it where a setting names the class."""


def find_log_store_jars(conf: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the jar that a session with these settings needs for our log store; none where it is not asked for."""
    return (JAR,) if any(conf.get(name) == CONDITIONAL for name in SETTINGS) else ()


def require_exclusive_commits(uri: str, session: SparkSession) -> bool:
    """Refuse to write to a table where another driver could overwrite the commit, by an EnvironmentFault.

    So it is where the session has no log store for several drivers, or lacks what ours needs: its class, and an S3A
    with conditional writes. Returns whether the commit is safe only if the server knows conditional writes.
    """
    if "DATABRICKS_RUNTIME_VERSION" in os.environ or not uri.startswith("s3a://"):
        return False  # Databricks has a commit service of its own
    store = next(filter(None, (session.conf.get(name, None) for name in SETTINGS)), SINGLE_DRIVER)
    if SINGLE_DRIVER in store:
        raise EnvironmentFault(
            f"{uri} is in S3, and Delta's own log store ({SINGLE_DRIVER}) lets two drivers overwrite each other's"
            " commits",
            hint=f"write `{SETTINGS[0]}: {CONDITIONAL}` in conf/*.yml under `spark: {{conf: ...}}`",
        )
    if store != CONDITIONAL:
        return False
    jvm: Any = session._jvm
    try:
        jvm.org.apache.spark.util.Utils.classForName(CONDITIONAL, True, False)
    except Exception as error:
        hint = f"start it with spark-submit --jars {JAR}"
        raise EnvironmentFault(f"the JVM of the active Spark session does not have {CONDITIONAL}", hint=hint) from error
    path = jvm.org.apache.hadoop.fs.Path(uri)
    hadoop = session._jsparkSession.sessionState().newHadoopConf()
    try:
        has_writes = path.getFileSystem(hadoop).hasPathCapability(path, "fs.option.create.conditional.overwrite")
    except Exception as error:
        message = f"Spark cannot reach {uri}: Hadoop's S3A is missing, or it has no address or no credentials"
        raise EnvironmentFault(message, hint="docs/clusters.md says what it needs") from error
    if not has_writes:
        version = jvm.org.apache.hadoop.util.VersionInfo.getVersion()
        hint = "use hadoop-aws 3.4.2 or newer, which comes with Spark 4.1"
        raise EnvironmentFault(f"hadoop-aws {version} has no conditional writes, which {CONDITIONAL} needs", hint=hint)
    return True
