"""The Spark session that all tests and the soak share: small, and quick rather than well compiled."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Half the CPU seconds, for JVMs that run a few jobs. Without tiers the code cache is 48 MB by default, which thousands
# of small queries overflow.
_QUICKLY = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=400m -XX:+UseSerialGC"
# Room for what hundreds of queries throw away: in a small heap that grows, every eighth second went into collecting it.
_HEAP = "-Xms2g -Xmn1g -XX:MetaspaceSize=512m"

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    # A plan's description is its compiled code, of which there is none here. Every other kind writes each kept frame
    # wherever the plan reads it, and adaptive execution writes it anew with each stage, the first plan beside the last:
    # for a join of two logs that took minutes.
    "spark.sql.ui.explainMode": "codegen",
}
"""Plans interpreted by one task each instead of compiled for two: a third less CPU on tables of ten rows."""

COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "CODEGEN_ONLY"}
"""As Spark runs by itself: cheaper for many rows."""

VACUUM_AT_ONCE = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}
"""What VACUUM needs to take everything, and not to start ten thousand tasks for it."""


def compile_quickly() -> None:
    """Let every JVM that this process and its children start compile quickly."""
    os.environ["JAVA_TOOL_OPTIONS"] = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {_QUICKLY}".strip()


def small_session(*, for_long: bool = False) -> SparkSession:
    """Start a session with two cores, two shuffle partitions, and room for hundreds of jobs in one JVM.

    Adaptive execution makes a Spark job of every stage, which on tiny tables doubles the number of jobs. The command
    line's tests run with it, as users do.

    Args:
        for_long: The session will run more than fifty jobs.
    """
    from enrich.project.models import Spark
    from enrich.spark.fit import COMPILED_LATE
    from enrich.spark.session import get_session

    _remember_java_names()
    # A JVM that runs more than fifty jobs wins back what compiling better costs, for code that it runs very often.
    options = (_HEAP, "-XX:TieredStopAtLevel=4", *COMPILED_LATE) if for_long else (_HEAP,)
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "4g",
        "spark.driver.extraJavaOptions": " ".join(options),
        # As `enrich` does it for small tables; pages of 64 MB made the collector work for a tenth of all CPU seconds.
        "spark.buffer.pageSize": "1m",
        # The same for what is sent to tasks, 4 MB each time; and nothing of it leaves the process, nor does a shuffle.
        "spark.broadcast.blockSize": "128k",
        "spark.broadcast.compress": "false",
        "spark.shuffle.checksum.enabled": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
        # A description of every plan, for a page that nobody opens.
        "spark.sql.maxPlanStringLength": "0",
    }
    session = get_session(Spark(master="local[2]", conf=conf))
    _forget_origins(session)
    _name_no_callers(session)
    return session


def _forget_origins(session: SparkSession) -> None:
    """Let Hadoop forget which file each of its thousand settings is from.

    Every scan sends the settings to its tasks, each of those names compressed by itself: 3 % of all CPU seconds.
    """
    jvm: Any = session._jvm
    jvm.org.apache.hadoop.mapred.JobConf()  # reads the last of the files, with which all settings are read anew
    settings: Any = session.sparkContext._jsc.hadoopConfiguration()
    settings.size()
    origins = jvm.java.lang.Class.forName("org.apache.hadoop.conf.Configuration").getDeclaredField("updatingResource")
    origins.setAccessible(True)
    origins.get(settings).clear()


def _name_no_callers(session: SparkSession) -> None:
    """Let everything have one caller: Spark and pyspark walk the stack to name each one's, for pages nobody opens."""
    from pyspark.traceback_utils import SCCallSiteSync

    def name(self: Any, *_: object) -> None:
        self._context._jsc.setCallSite("tests")

    named: Any = SCCallSiteSync
    named.__init__ = lambda self, context: setattr(self, "_context", context)
    named.__enter__ = named.__exit__ = name
    for form in ("short", "long"):
        session.sparkContext.setLocalProperty(f"callSite.{form}", "tests")


def forget_tables(spark: SparkSession) -> None:
    """Empty Delta's cache of logs: for an hour it keeps a session and a snapshot for every table that a test made."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@contextmanager
def live_in_zone(name: str) -> Iterator[None]:
    """Let the machine have another time zone, for Python; the JVM keeps the one that it started with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", name)
        time.tzset()
        yield
    time.tzset()


def _remember_java_names() -> None:
    """Let py4j look for a package, a class or its function once: the JVM looks for a name anew, at each use.

    For packages it searches all of Spark's jars; every second call of a run asks whether there is a function such as
    ``col``.
    """
    from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView

    def remembering(find: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def found(place: Any, name: str) -> Any:
            answer = find(place, name)
            if isinstance(answer, JavaClass | JavaMember) or (isinstance(answer, JavaPackage) and name.islower()):
                place.__dict__[name] = answer
            return answer

        return found

    for kind in (JVMView, JavaPackage, JavaClass):
        kind.__getattr__ = remembering(kind.__getattr__)
