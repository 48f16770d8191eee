"""Put tables in shape, by OPTIMIZE and VACUUM of Spark: delta-rs (1.6.6) removes deletion vectors that are in use."""

from __future__ import annotations

import json
from collections.abc import Iterable
from urllib.parse import unquote

from pyspark.sql import SparkSession

from enrich.base.failpoints import pass_point
from enrich.base.result import Compaction, Extent
from enrich.base.spec import quote
from enrich.delta.extents import SMALL_FILE
from enrich.delta.sink import hold_settings
from enrich.delta.stores import find_local_path, open_files
from enrich.delta.tables import open_log

_OPTIMIZE = "spark.databricks.delta.optimize."

_LARGE_FILE = 256 * 2**20  # bytes: several tasks can read a table of a few of them, and a MERGE rewrites one
_CUBE = 2**30  # bytes of clustered files that are not clustered again; Delta's 100 GB would write most tables anew


def optimize_table(session: SparkSession, uri: str, author: tuple[str, str], why: str) -> Compaction | None:
    """Put small files together, write those anew of which many rows are gone, and cluster; None: nothing was to do.

    The commit names the ``author``, run and job. It has no transaction number: the cursor stays where it is.
    """
    settings = {
        f"{_OPTIMIZE}minFileSize": str(SMALL_FILE),
        f"{_OPTIMIZE}maxFileSize": str(_LARGE_FILE),
        f"{_OPTIMIZE}clustering.mergeStrategy.minCubeSize.threshold": str(_CUBE),
        f"{_OPTIMIZE}clustering.mergeStrategy.minCubeSize.targetCubeSize": str(_CUBE + _CUBE // 2),
        "spark.databricks.delta.commitInfo.userMetadata": json.dumps(
            {"enrich_upkeep": 1, "run_id": author[0], "job": author[1]}, sort_keys=True, separators=(",", ":")
        ),
    }
    with hold_settings(session, settings):
        pass_point("optimize.before")
        metrics = session.sql(f"OPTIMIZE {quote('delta', uri)}").select("metrics.*").collect()[0]
        pass_point("optimize.after")
    removed, added = (
        Extent(metrics[f"numFiles{what}"], metrics[f"files{what}"]["totalSize"] or 0) for what in ("Removed", "Added")
    )
    return Compaction(open_log(uri).version(), removed, added, why) if removed.files or added.files else None


def measure_files(uri: str, paths: Iterable[str]) -> Extent:
    """Count the files among paths, relative to a table or whole, as Delta or delta-rs list them, and their bytes."""
    from pyarrow.fs import FileType, PyFileSystem

    place = str(find_local_path(uri) or uri.partition("://")[2])
    named = {name for path in paths for name in (path, unquote(path))}  # Delta escapes some letters, and some not
    inside = {name.partition(place)[2].lstrip("/") if place in name else name for name in named}
    infos = PyFileSystem(open_files(uri)).get_file_info(sorted(inside)) if inside else []
    sizes = [info.size or 0 for info in infos if info.type == FileType.File]
    return Extent(len(sizes), sum(sizes))


def vacuum_table(session: SparkSession, uri: str) -> Extent:
    """Remove the files that went longer ago than the table promises, and return how much that is."""
    settings = {
        # A version that changes nothing would still make every job that reads the table start Spark.
        "spark.databricks.delta.vacuum.logging.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(4 * session.sparkContext.defaultParallelism),
    }
    command = f"VACUUM {quote('delta', uri)}"
    with hold_settings(session, settings):
        found = measure_files(uri, [row["path"] for row in session.sql(f"{command} DRY RUN").collect()])
        if found.files:
            session.sql(command)
    return found
