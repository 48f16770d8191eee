"""OPTIMIZE and VACUUM by Spark, in the shape that targets need; neither changes a row.

Not by delta-rs (1.6.6): its VACUUM removes deletion vectors that are in use, it refuses clustered tables, and two
compactions of its at a time write every row twice. ``enrich.storage.runs`` keeps the runs table.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from enrich.base import hints
from enrich.base.errors import HistoryError
from enrich.base.failpoints import pass_point
from enrich.base.result import Compaction, Extent
from enrich.base.spec import quote
from enrich.storage.extents import find_files, sum_files
from enrich.storage.feeds import list_files
from enrich.storage.settings import hold_settings
from enrich.storage.shape import GONE, SMALL_FILE, awaits_clusters
from enrich.storage.tables import actions, open_log, read_history

_OPTIMIZE = "spark.databricks.delta.optimize."
_VACUUM = "spark.databricks.delta.vacuum."
"""Delta 4.4 ignores the hours of RETAIN, but for 0, unless ``retentionWindowIgnore.enabled`` below it is false."""

_DISCOVERY = "spark.sql.sources.parallelPartitionDiscovery.parallelism"

_INVENTORY = "path string, length long, isDir boolean, modificationTime long"
"""What Delta wants to know of the files in an inventory."""

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
    table. It has no transaction number: the cursor stays where it is.

    Args:
        session: A session of the job's own.
        uri: The table.
        author: What to write into the commit.
        why: The reason, for the result.

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


def vacuum_table(session: SparkSession, uri: str, hours: int, window: tuple[int, int], *, dry_run: bool) -> Extent:
    """Remove the files that no version of the last ``hours`` needs, and return how much that is, or would be.

    Delta alone would remove more. It forgets which files were removed longer ago than the table's own
    ``delta.deletedFileRetentionDuration``, sooner still where that was shorter once, and of what it has forgotten
    RETAIN saves only young files. So Delta is asked what it would remove; what the log says was removed by the commits
    of the window is taken out, and Delta is given the rest as the only files there are (USING INVENTORY).

    Nothing is committed: a version that changes nothing would still make every job that reads the table start Spark.

    Args:
        session: A session of the job's own.
        uri: The table.
        hours: At least the table's own ``delta.deletedFileRetentionDuration``; Delta refuses less.
        window: All versions from the first one to the second one stay readable, and the changes between them.
        dry_run: Only measure.

    Raises:
        HistoryError: The log no longer holds a commit of the window.
    """
    tasks = str(4 * session.sparkContext.defaultParallelism)
    settings = {
        f"{_VACUUM}logging.enabled": "false",
        f"{_VACUUM}retentionWindowIgnore.enabled": "false",
        _DISCOVERY: tasks,
    }
    table, retain = quote("delta", uri), f"RETAIN {int(hours)} HOURS"
    with hold_settings(session, settings):
        listed = [row["path"] for row in session.sql(f"VACUUM {table} {retain} DRY RUN").collect()]
        found = find_files(uri, _leave_needed(uri, listed, window))
        if found and not dry_run:
            view = f"unused_{uuid.uuid4().hex}"
            rows = [(path, size, False, 0) for path, (_, size) in found.items()]  # age 0: they are old enough
            session.createDataFrame(rows, _INVENTORY).createTempView(view)
            try:
                session.sql(f"VACUUM {table} USING INVENTORY (SELECT * FROM {view}) {retain}")  # noqa: S608 - quoted
            finally:
                session.catalog.dropTempView(view)
    return sum_files(found)


def _leave_needed(uri: str, paths: Iterable[str], window: tuple[int, int]) -> list[str]:
    """Return the paths that the commits of a window neither removed nor tell their changes in.

    Compared are the names of the files: nobody gives one twice, and paths are written in several ways.
    """
    left = {path: _name(path) for path in paths}
    for version in range(window[0] + 1, window[1] + 1) if left else ():
        found = actions(uri, version)
        if found is None:
            raise HistoryError(
                f"nothing is removed: the log of {uri} no longer holds version {version}, so what must stay is unknown",
                hint=f"run `{hints.maintain()}` again",
            )
        needed = {_name(path) for kind in ("remove", "cdc") for path in list_files(found, kind)}
        left = {path: name for path, name in left.items() if name not in needed}
    return list(left)


def _name(path: str) -> str:
    """Return the name of a file without escapes, of which a log has more than a directory."""
    name = path.rpartition("/")[2]
    while (plain := unquote(name)) != name:
        name = plain
    return name
