"""Delta tables: names, versions, identities, schemas, time travel and change feeds.

Everything that the log alone can answer is read with delta-rs, which needs no JVM (``docs/adr``); rows are read with
Spark, always at a pinned version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from enrich.errors import ConfigError, HistoryError, RunFailed
from enrich.faults import point
from enrich.spec import COMMIT, WEIGHT, DataType, quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

CHANGE_FEED = "delta.enableChangeDataFeed"
_KEEPS_FILES, _KEEPS_LOG = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
_INTERVAL = re.compile(r"(?:interval\s+)?((?:[0-9]+\s+(?:week|day|hour|minute|second)s?\s*)+)", re.IGNORECASE)
_PART = re.compile(r"([0-9]+)\s+(week|day|hour|minute|second)", re.IGNORECASE)
_SECONDS = {"week": 604800, "day": 86400, "hour": 3600, "minute": 60, "second": 1}
_IN_COMMIT = "delta.enableInCommitTimestamps"
_IN_COMMIT_SINCE = "delta.inCommitTimestampEnablementVersion"
_GONE = ("delete", "update_preimage")


@dataclass(frozen=True)
class TableState:
    """One table at one version, as its log says.

    Attributes:
        uri: Absolute path or object-store URI.
        table_id: Delta's ``metaData.id``; another id is another table.
        version: The version that was read.
        columns: Name -> Delta type, in the table's order.
        properties: Table properties.
    """

    uri: str
    table_id: str
    version: int
    columns: dict[str, DataType]
    properties: dict[str, str]

    @property
    def has_change_feed(self) -> bool:
        """True when commits from here on record their changes."""
        return self.properties.get(CHANGE_FEED, "false").lower() == "true"


def open_log(uri: str) -> DeltaTable:
    """Open a table's log at its latest version.

    Raises:
        ConfigError: There is no table, or what is there is not Delta.
        RunFailed: The storage did not answer, or the log cannot be read.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        point("log.before")
        log = DeltaTable(uri)
        point("log.after")
    except TableNotFoundError:
        if is_occupied(uri):
            raise ConfigError(f"{uri} is not a Delta table", hint="convert it with CONVERT TO DELTA first") from None
        raise ConfigError(f"there is no table at {uri}", hint="create it, or correct the table's name") from None
    except Exception as error:
        raise RunFailed(f"cannot read the log of {uri} ({type(error).__name__})", hint="check the storage") from error
    return log


def is_occupied(uri: str) -> bool:
    """Return whether a local path without a Delta table holds something else: a file, or a directory with content."""
    local = local_path(uri)
    return local is not None and local.exists() and (not local.is_dir() or any(local.iterdir()))


def exists(uri: str) -> bool:
    """Return whether a Delta table is at ``uri``."""
    from deltalake import DeltaTable

    local = local_path(uri)
    if local is not None and not (local / "_delta_log").is_dir():
        return False
    return bool(DeltaTable.is_deltatable(uri))


def labelled_rows(uri: str, column: str) -> list[tuple[tuple[str, ...], int]]:
    """Count a table's rows by the texts in an array column, without Spark.

    Args:
        uri: The table, read at its latest version.
        column: An ``array<string>`` whose texts hold no control characters.

    Returns:
        The texts of a row, and how many rows have them.
    """
    from deltalake import DeltaTable, QueryBuilder

    name = column.replace('"', '""')
    query = f'SELECT array_to_string("{name}", chr(31)) AS texts, count(*) AS rows FROM held GROUP BY 1'  # noqa: S608
    found = QueryBuilder().register("held", DeltaTable(uri)).execute(query).read_all()
    texts, rows = found.column("texts").to_pylist(), found.column("rows").to_pylist()
    return [(tuple(text.split("\x1f")), count) for text, count in zip(texts, rows, strict=True)]


def local_path(uri: str) -> Path | None:
    """Return the local path of ``uri``; None for object stores."""
    parsed = urlparse(uri)
    if parsed.scheme == "file":
        return Path(parsed.path)
    return Path(uri) if parsed.scheme == "" else None


def state_of(log: DeltaTable) -> TableState:
    """Read identity, version, schema and properties from an open log."""
    metadata = log.metadata()
    schema = json.loads(log.schema().to_json())
    columns = {field["name"]: field["type"] for field in schema["fields"]}
    return TableState(log.table_uri, str(metadata.id), log.version(), columns, dict(metadata.configuration))


def read_state(uri: str) -> TableState:
    """Read a table's state at its latest version; errors as ``open_log``."""
    return state_of(open_log(uri))


def past_state(uri: str, version: int, what: str, *, hint: str) -> TableState:
    """Read a table's state at a version that its log may have forgotten.

    Args:
        uri: The table.
        version: Below or at its latest.
        what: The table, for the message.
        hint: The command that repairs it.

    Raises:
        HistoryError: The log does not reach back so far.
    """
    from deltalake.exceptions import DeltaError

    log = open_log(uri)
    try:
        if log.version() != version:
            log.load_as_version(version)
    except DeltaError as error:
        raise HistoryError(f"the log of {what} does not know version {version} any more", hint=hint) from error
    return state_of(log)


def catalog_location(spark: SparkSession, name: Sequence[str]) -> str | None:
    """Return where a catalog table lies; None when the catalog does not know it."""
    from delta.tables import DeltaTable
    from pyspark.errors import AnalysisException

    try:
        row = DeltaTable.forName(spark, quoted(*name)).detail().select("location").first()
    except AnalysisException:
        return None
    return None if row is None else _plain(str(row["location"]))


def _plain(uri: str) -> str:
    """Return local URIs as paths, so that one table has one name."""
    parsed = urlparse(uri)
    return parsed.path if parsed.scheme == "file" else uri


def snapshot(
    spark: SparkSession, uri: str, version: int, columns: Sequence[str], *, like: DataFrame | None = None
) -> DataFrame:
    """Return the rows of ``columns`` at ``version``.

    Args:
        spark: The session.
        uri: The table.
        version: The version.
        columns: What to read.
        like: Rows with all the columns; one that this version does not have yet is null, in the type that it has here.
    """
    from pyspark.sql import functions as F

    rows = spark.read.format("delta").option("versionAsOf", version).load(uri)
    if like is not None:
        known = {name.lower() for name in rows.columns}
        later = {name: like.schema[name].dataType for name in columns if name.lower() not in known}
        rows = rows.withColumns({name: F.lit(None).cast(kind) for name, kind in later.items()}) if later else rows
    return rows.select(*[F.col(quoted(name)) for name in columns])


def change_feed(spark: SparkSession, uri: str, window: tuple[int, int], columns: Sequence[str]) -> DataFrame:
    """Return what the commits after ``window[0]`` up to ``window[1]`` removed and added.

    Both ends are pinned: Delta clamps an open end silently and resolves it anew at each action.

    Returns:
        ``columns``, ``WEIGHT`` (-1 for a removed row, +1 for an added one) and ``COMMIT``.
    """
    from pyspark.sql import functions as F

    reader = spark.read.format("delta").option("readChangeFeed", "true")
    feed = reader.option("startingVersion", window[0] + 1).option("endingVersion", window[1]).load(uri)
    weight = F.when(F.col("_change_type").isin(*_GONE), F.lit(-1)).otherwise(F.lit(1))
    commit = F.col("_commit_version").alias(COMMIT)
    return feed.select(*[F.col(quoted(name)) for name in columns], weight.alias(WEIGHT), commit)


def snapshot_difference(spark: SparkSession, uri: str, window: tuple[int, int], columns: Sequence[str]) -> DataFrame:
    """Return the same as ``change_feed`` from the two snapshots, for ranges whose feed cannot be read.

    Unchanged rows stand in it twice, with weights that cancel.
    """
    from pyspark.sql import functions as F

    now = snapshot(spark, uri, window[1], columns)
    before = snapshot(spark, uri, window[0], columns, like=now).withColumn(WEIGHT, F.lit(-1))
    after = now.withColumn(WEIGHT, F.lit(1))
    return before.unionByName(after).withColumn(COMMIT, F.lit(window[1]).cast("long"))


def restored_version(uri: str, version: int) -> int | None:
    """Find the version whose files, with their deletion vectors, a RESTORE has brought back.

    A RESTORE by timestamp records the time as it was typed, without its zone. So the commits before it are compared:
    a version is the restored one when every file that came or went since is back where it was.

    Args:
        uri: The table; on a local path, for the commits themselves are read.
        version: The RESTORE's own version.

    Returns:
        The latest such version; None when there is none, or when the commits cannot be read.
    """
    first: dict[tuple[str, str], bool] = {}
    last: dict[tuple[str, str], bool] = {}
    local = local_path(uri)
    for candidate in range(version, 0, -1):
        try:
            commit = None if local is None else (local / "_delta_log" / f"{candidate:020d}.json").read_text()
        except OSError:
            commit = None
        if commit is None:
            return None
        for file, is_added in _moved_files(commit).items():
            first[file] = not is_added  # what a commit adds was not there before it
            last.setdefault(file, is_added)
        if first == last:
            return candidate - 1
    return None


def _moved_files(commit: str) -> dict[tuple[str, str], bool]:
    """Return (path, deletion vector) -> True when a commit added it, False when it removed it."""
    moved = {}
    for line in commit.splitlines():
        for kind, action in json.loads(line).items():
            if kind in ("add", "remove"):
                vector = action.get("deletionVector") or {}
                found = {name: vector.get(name) for name in ("storageType", "pathOrInlineDv", "offset")}
                moved[action["path"], json.dumps(found)] = kind == "add"
    return moved


def history(log: DeltaTable, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the commits that the log still holds, latest first."""
    return [dict(entry) for entry in log.history(limit)]


@dataclass(frozen=True)
class Commits:
    """The commits that a table's log still holds, and when they were made.

    Attributes:
        times: Version -> milliseconds since 1970, ascending as Delta orders them.
    """

    times: dict[int, int]

    @property
    def first(self) -> int:
        """The oldest version whose commit is still there."""
        return next(iter(self.times), 0)

    @property
    def last(self) -> int:
        """The latest version."""
        return next(reversed(self.times), 0)

    def at_or_before(self, milliseconds: int) -> int | None:
        """Return the last version committed at or before an instant; None when there is none."""
        return max((version for version, at in self.times.items() if at <= milliseconds), default=None)


def commits(log: DeltaTable) -> Commits:
    """Read when each commit was made.

    Writers' clocks disagree: like Delta, a commit that seems no later than the one before it counts a millisecond
    later. Where a table keeps in-commit timestamps, these ascend by themselves and are taken as they are.
    """
    properties = log.metadata().configuration
    own = str(properties.get(_IN_COMMIT, "false")).lower() == "true"
    since = int(properties.get(_IN_COMMIT_SINCE) or 0)
    times: dict[int, int] = {}
    last: int | None = None
    for entry in reversed(history(log)):
        version, at = int(entry["version"]), entry.get("inCommitTimestamp")
        if not own or version < since or at is None:
            at = int(entry.get("timestamp") or 0)
            at = at if last is None else max(at, last + 1)
        last = times[version] = int(at)
    return Commits(times)


def history_kept(properties: Mapping[str, str]) -> int | None:
    """Return for how many seconds a table's past stays readable; None where its properties cannot be understood.

    Removed files stay for a week and the log for thirty days unless the table says otherwise; the shorter one counts.
    """
    found = []
    for name, default in ((_KEEPS_FILES, "interval 1 week"), (_KEEPS_LOG, "interval 30 days")):
        text = _INTERVAL.fullmatch(str(properties.get(name, default)).strip())
        if text is None:
            return None
        found.append(sum(int(number) * _SECONDS[unit.lower()] for number, unit in _PART.findall(text[1])))
    return min(found)
