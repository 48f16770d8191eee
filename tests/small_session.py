"""The Spark session that all tests and the soak share: small, and quick rather than well compiled."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Half the CPU seconds, for no JVM of the tests runs for long. Without tiers the code cache is 48 MB by default, which
# thousands of small queries overflow.
_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=400m -XX:+UseSerialGC"

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
"""Plans interpreted by one task each instead of compiled for two: a third less CPU on tables of ten rows."""


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Let a session have other settings inside the block."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def compile_quickly() -> None:
    """Let every JVM that this process and its children start compile quickly."""
    os.environ["JAVA_TOOL_OPTIONS"] = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {_JVM}".strip()


def small_session() -> SparkSession:
    """Start a session with two cores, two shuffle partitions, and room for hundreds of jobs in one JVM.

    Adaptive execution makes a Spark job of every stage, which on tiny tables doubles the number of jobs. The command
    line's tests run with it, as users do.
    """
    from enrich.config.models import Spark
    from enrich.session import get_session

    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "4g",
        "spark.sql.adaptive.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    return get_session(Spark(master="local[2]", conf=conf))
