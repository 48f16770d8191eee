"""Make the class-data archive: Spark's and Delta's classes as the JVM keeps them, so that it need not read them.

``python -m enrich.spark`` makes it, once for a Java and its jars. The JVM itself refuses one of others, and starts
without it: docs/adr/0014-jvm-fit.md.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enrich.spark.jars import PATIENCE, find_cache_directory, find_delta_jars, find_spark_home, require_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

# How a finished archive begins; the JVM writes it last (CDS_DYNAMIC_ARCHIVE_MAGIC, little-endian).
_MAGIC = bytes.fromhex("a8ab0bf0")


def find_archive(jars: Sequence[Path]) -> Path | None:
    """Return the archive for these jars and the Java that will be started; None when there is none to be trusted.

    What is in it is executed: it must be ours, and nobody else may write it.
    """
    try:
        file = _name_archive(jars)
        found = file.stat()
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return None
        with file.open("rb") as opened:
            return file if opened.read(len(_MAGIC)) == _MAGIC else None
    except OSError:
        return None


def _name_archive(jars: Sequence[Path]) -> Path:
    """Return where the archive is kept: its name says of which Java, Spark and jars it is."""
    java = Path(os.path.realpath(require_java()))
    # Times in whole seconds: the layers of an image keep no fractions.
    parts = [java, int(java.stat().st_mtime), find_spark_home(), *jars, *[int(jar.stat().st_mtime) for jar in jars]]
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()
    return find_cache_directory() / "classes" / f"{digest[:16]}.jsa"


def build_archive() -> Path | None:
    """Make the archive if there is none yet; return it, or None when it cannot be made, which costs only time.

    A small Spark session in a process of its own does what a run does, and the JVM writes down what it has loaded.
    """
    jars = find_delta_jars()
    if found := find_archive(jars):
        return found
    file = _name_archive(jars)
    log.info("writing the classes of Spark and Delta into %s (once; it makes short runs a quarter cheaper)", file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=file.parent) as workspace:
            fresh = Path(workspace) / file.name
            command = [sys.executable, "-m", "enrich.spark.archive", str(fresh)]
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=True)  # noqa: S603 - ourselves
            fresh.rename(file)
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("the classes of Spark and Delta could not be written down (%s); runs work without", error)
    return find_archive(jars)


def main(file: str) -> int:
    """Do what a small run does, in a JVM that writes its classes to ``file`` when it ends, and wait for that.

    Tables are created and changed; changes and snapshots read, joined, and merged.
    """
    from pyspark import SparkContext
    from pyspark.sql import functions as F

    from enrich.spark.session import build_session

    spark = build_session("local[2]", {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={file}"}, None, 0)

    def sql(name: str, text: str) -> DataFrame:
        return spark.sql(text.format(f"delta.`{lake}/{name}`"))

    with tempfile.TemporaryDirectory() as lake:
        properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
        for name in ("left", "right"):
            rows = spark.range(9).select("id", F.col("id").cast("string").alias("text"), F.array("id").alias("list"))
            rows.write.format("delta").options(**properties).save(f"{lake}/{name}")
            sql(name, "UPDATE {} SET text = 'new' WHERE id < 3")
            sql(name, "DELETE FROM {} WHERE id = 3")
        feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
        changed = feed.load(f"{lake}/left").groupBy("id").agg(F.max(F.struct("_commit_version", "text")).alias("last"))
        changed = changed.persist()
        changed.count()
        pinned = spark.read.format("delta").option("versionAsOf", 1)
        left = pinned.load(f"{lake}/left").withColumn("item", F.explode("list"))
        right = pinned.load(f"{lake}/right").select(F.col("id").alias("item"), F.col("text").alias("other"))
        joined = left.join(F.broadcast(changed.select("id")), "id").join(right, "item", "full")
        lists = joined.groupBy("id").agg(F.collect_list(F.struct("item")).alias("items"))
        lists.localCheckpoint().createOrReplaceTempView("joined")
        create = """CREATE TABLE {} USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')
            AS SELECT * FROM joined"""
        sql("target", create)
        merge = """MERGE INTO {} t USING (SELECT * FROM joined LIMIT 4) s ON t.id <=> s.id
            WHEN MATCHED AND s.id = 1 THEN DELETE WHEN MATCHED AND s.id = 2 THEN UPDATE SET items = s.items
            WHEN NOT MATCHED THEN INSERT *"""
        sql("target", merge)
        sql("target", "SELECT * FROM {} ORDER BY id").collect()
    gateway: Any = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
