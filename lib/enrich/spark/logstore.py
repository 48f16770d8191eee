"""Whether two drivers that commit to one table of a bucket exclude each other: which log store Delta has there.

Delta's own log store for S3 keeps two commits apart within one JVM only; of two drivers one would overwrite the
other's commit without a trace. Source: Delta's documentation, "Storage configuration", Amazon S3.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from enrich.base.errors import EnvironmentFault

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = ("spark.delta.logStore.s3a.impl", "spark.delta.logStore.class")
"""Where a log store is named, the one that Delta asks first in front."""

SINGLE_DRIVER = "S3SingleDriverLogStore"
DYNAMODB = "io.delta.storage.S3DynamoDBLogStore"


def may_lose_commits(uri: str, setting: Callable[[str], str | None]) -> bool:
    """Tell whether another driver could overwrite a commit to the table at ``uri``.

    Args:
        uri: Where the table is.
        setting: Returns the value of a Spark setting.
    """
    if not uri.startswith("s3a://"):
        return False
    store = next(filter(None, map(setting, SETTINGS)), None)
    return store is None or SINGLE_DRIVER in store


def require_exclusive_commits(uri: str, session: SparkSession) -> None:
    """Refuse to write to a table where another driver could overwrite the commit.

    Databricks has a commit service of its own.

    Raises:
        EnvironmentFault: The session has no log store for several drivers.
    """
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return
    if may_lose_commits(uri, lambda name: session.conf.get(name, None)):
        raise EnvironmentFault(
            f"{uri} is in S3, and Delta's own log store ({SINGLE_DRIVER}) lets two drivers overwrite each other's"
            " commits",
            hint=f"set {SETTINGS[0]} to a log store for several drivers, such as {DYNAMODB}, in conf/*.yml"
            " under `spark: {conf: ...}`; `enrich doctor` has the line",
        )
