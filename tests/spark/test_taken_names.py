"""Delta is asked for the names that its commands give to columns of their own, and each is tried on a table."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from enrich.base.names import FEED_COLUMNS, MERGE_COLUMNS, VECTOR_COLUMNS
from enrich.base.spec import OPERATION
from enrich.delta import extents, sink
from enrich.delta.reads import read_change_feed
from enrich.delta.sink import Changed, write_difference
from enrich.delta.tables import CHANGE_FEED
from kit.commits import make_commit

COMMANDS = re.compile(
    r"/delta/(commands/(merge/|Merge|DML|DeletionVector|cdc/|Delete)|deletionvectors/|DeltaParquetFileFormat)[\w$]*\.class"
)
"""The classes of the commands that enrich uses, and of what these write."""
NAME = re.compile(r"_[a-z_]+|[a-z]\w*(path|id|col|index|present|row)", re.IGNORECASE)
"""How columns are called; most constants of these classes are metrics, settings and messages."""
PROPERTIES = {"delta.enableDeletionVectors": "true", CHANGE_FEED: "true"}


def read_constants(data: bytes) -> Iterator[str]:
    """Yield the texts that a class of Java has as constants (its specification, 4.4)."""
    (count,) = struct.unpack_from(">H", data, 8)
    place, number, texts, wanted = 10, 1, {}, []
    while number < count:
        tag = data[place]
        (value,) = struct.unpack_from(">H", data, place + 1)
        if tag == 1:
            texts[number] = data[place + 3 : place + 3 + value].decode(errors="replace")
        elif tag == 8:
            wanted.append(value)
        place += (
            3 + value if tag == 1 else 9 if tag in (5, 6) else 4 if tag == 15 else 3 if tag in (7, 8, 16, 19, 20) else 5
        )
        number += 2 if tag in (5, 6) else 1
    yield from (texts[each] for each in wanted)


def list_names(spark: SparkSession) -> set[str]:
    """Return what Delta's commands may call columns, in small letters."""
    jvm: Any = spark._jvm
    merge = jvm.java.lang.Class.forName("org.apache.spark.sql.delta.commands.MergeIntoCommand")
    jar = zipfile.ZipFile(merge.getProtectionDomain().getCodeSource().getLocation().getPath())
    classes = [name for name in jar.namelist() if COMMANDS.search(name)]
    found = {text.lower() for name in classes for text in read_constants(jar.read(name)) if NAME.fullmatch(text)}
    assert len(found) > 20
    return found | {jvm.org.apache.spark.sql.execution.datasources.FileFormat.METADATA_NAME()}


def play(spark: SparkSession, place: Path, names: Collection[str]) -> str:
    """Create a table with such columns, update, delete and insert in it, read its feed; return the log of the MERGE."""
    values = [F.col("v").alias(name) for name in names]
    rows = spark.createDataFrame([(i, "a") for i in range(4)], "id long, v string").select("id", *values)
    sink.create_table(
        spark, sink.NewTable(f"delta.`{place}`", str(place), PROPERTIES), rows.coalesce(1), make_commit("a", 1, "{}")
    )
    staged = spark.createDataFrame(
        [(1, "U", "b"), (2, "D", None), (9, "I", "n")], f"k long, {OPERATION} string, v string"
    )
    changed = staged.select("k", OPERATION, F.col("k").alias("id"), *values)
    counts = {"U": 1, "D": 1, "I": 1}
    write_difference(
        spark, str(place), Changed(changed, {"k": F.col("t.id")}, False, counts), make_commit("a", 2, "{}")
    )
    feed = read_change_feed(spark, str(place), (0, 1), ["id", *names])
    kept = [(row[0], set(row[1:-2]), row[-2]) for row in feed.collect()]
    assert sorted(kept, key=repr) == sorted([(1, {"a"}, -1), (1, {"b"}, 1), (2, {"a"}, -1), (9, {"n"}, 1)], key=repr)
    return (place / "_delta_log" / f"{1:020d}.json").read_text()


def test_no_other_name_is_taken(interpreted: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = list_names(interpreted)
    assert set(VECTOR_COLUMNS) | {*MERGE_COLUMNS, "__is_cdc", "_change_type"} <= names, "they come from Delta"
    monkeypatch.setattr(extents, "SMALL_TABLE", -1)
    others = sorted(names - {*FEED_COLUMNS, *MERGE_COLUMNS, *VECTOR_COLUMNS})
    assert '"deletionVector"' in play(interpreted, tmp_path / "others", others)
    # Where vectors would need the names, the MERGE does without.
    assert '"deletionVector"' not in play(interpreted, tmp_path / "vectors", VECTOR_COLUMNS)


@pytest.mark.parametrize("name", [*MERGE_COLUMNS, *FEED_COLUMNS, *VECTOR_COLUMNS])
def test_each_name_is_taken(
    interpreted: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    names = ("VECTOR_COLUMNS",) if name in VECTOR_COLUMNS else ("MERGE_COLUMNS", "FEED_COLUMNS")
    for each in names:
        monkeypatch.setattr(sink, each, ())
    monkeypatch.setattr(extents, "SMALL_TABLE", -1 if name in VECTOR_COLUMNS else extents.SMALL_TABLE)
    with pytest.raises((Py4JJavaError, PySparkException)):
        play(interpreted, tmp_path / "t", [name])
