"""Put tables in the shape that targets need, by OPTIMIZE and VACUUM of Spark; neither changes a row.

Not by delta-rs (1.6.6): its VACUUM removes deletion vectors that are in use, it refuses clustered tables, and two
compactions of its at a time write every row twice. ``enrich.delta.runs`` keeps the runs table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from enrich.base.failpoints import pass_point
from enrich.base.result import Compaction, Extent
from enrich.base.spec import quote
from enrich.delta.extents import GONE, SMALL_FILE, awaits_clusters, measure_files
from enrich.delta.sink import hold_settings
from enrich.delta.tables import open_log, read_history

_OPTIMIZE = "spark.databricks.delta.optimize."
_DISCOVERY = "spark.sql.sources.parallelPartitionDiscovery.parallelism"

_LARGE_FILE = 256 * 2**20
"""Bytes of the files that OPTIMIZE makes: several tasks can read a table of a few of them, and a MERGE rewrites one."""

_CUBE = 2**30
"""Bytes of clustered files that are not clustered again. Delta's 100 GB would write most tables anew every time."""


@dataclass(frozen=True)
class Author:
    """For whom a table's files are put in shape; it stands in the commit.

    Attributes:
        deleted_rows: The share of rows that are gone from which on that is done.
    """

    run_id: str
    job: str
    deleted_rows: float = 2 * GONE


def optimize_table(session: SparkSession, uri: str, author: Author, why: str) -> Compaction | None:
    """Put small files together, write files anew of which many rows are gone, and cluster where the table has it.

    The commit changes no row (``dataChange`` is false), so it is no drift, and no change in the feed of the
    table. It has no transaction number: the cursor stays where it is. ``why``: the reason, for the result.

    Returns:
        What was done; None when there was nothing to do and no commit.
    """
    settings = {
        f"{_OPTIMIZE}minFileSize": str(SMALL_FILE),
        f"{_OPTIMIZE}maxFileSize": str(_LARGE_FILE),
        f"{_OPTIMIZE}maxDeletedRowsRatio": str(min(GONE, author.deleted_rows / 2)),
        f"{_OPTIMIZE}clustering.mergeStrategy.minCubeSize.threshold": str(_CUBE),
        f"{_OPTIMIZE}clustering.mergeStrategy.minCubeSize.targetCubeSize": str(_CUBE + _CUBE // 2),
        "spark.databricks.delta.commitInfo.userMetadata": json.dumps(
            {"enrich_upkeep": 1, "run_id": author.run_id, "job": author.job}, sort_keys=True, separators=(",", ":")
        ),
    }
    with hold_settings(session, settings):
        pass_point("optimize.before")
        # Delta's Python API has no FULL, which also writes files anew that are clustered by other columns.
        words = ["OPTIMIZE", quote("delta", uri), *(["FULL"] if awaits_clusters(read_history(open_log(uri))) else [])]
        answer = session.sql(" ".join(words)).select("metrics.*").collect()
        pass_point("optimize.after")
    metrics: list[dict[str, Any]] = [row.asDict() for row in answer]
    removed = sum((_measure(each, "Removed") for each in metrics), Extent())
    added = sum((_measure(each, "Added") for each in metrics), Extent())
    if not removed.files and not added.files:
        return None
    return Compaction(open_log(uri).version(), removed, added, why)


def _measure(metrics: Mapping[str, Any], what: str) -> Extent:
    return Extent(int(metrics[f"numFiles{what}"]), int(metrics[f"files{what}"]["totalSize"] or 0))


def vacuum_table(session: SparkSession, uri: str, *, dry_run: bool) -> Extent:
    """Remove the files that were removed longer ago than the table promises, and return how much that is, or would be.

    Nothing is committed: a version that changes nothing would still make every job that reads the table start Spark.
    """
    settings = {
        "spark.databricks.delta.vacuum.logging.enabled": "false",
        _DISCOVERY: str(4 * session.sparkContext.defaultParallelism),
    }
    command = f"VACUUM {quote('delta', uri)}"
    with hold_settings(session, settings):
        found = measure_files(uri, [row["path"] for row in session.sql(f"{command} DRY RUN").collect()])
        if found.files and not dry_run:
            session.sql(command)
    return found
