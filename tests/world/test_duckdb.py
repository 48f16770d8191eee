"""DuckDB's own reader of Delta reads what was committed by position."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kit.world import must_run, run
from spark.test_positions import compare, make_table, write

PINS = Path(__file__).with_name("duckdb.txt")
READING = """\
import json, sys
from pathlib import Path

import duckdb

(extension,) = Path(duckdb.__file__).parents[1].rglob("delta.duckdb_extension")
connection = duckdb.connect()
connection.execute(f"LOAD '{extension}'")
query = 'SELECT id, name, "at".x, "at".y FROM delta_scan(?)'
rows = connection.execute(query, [sys.argv[1]]).fetchall()
first = connection.execute("SELECT count(*) FROM delta_scan(?, version => 0)", [sys.argv[1]]).fetchall()
print(json.dumps([rows, first]))
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a release of DuckDB whose extension for Delta is a package; ours would have to download it."""
    folder = tmp_path_factory.mktemp("duckdb")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, "-r", PINS]
    done = run(command, cwd=folder)
    if done.returncode:
        pytest.skip(f"DuckDB with its extension for Delta cannot be installed here: {done.stderr.strip()[-200:]}")
    return folder


def test_duckdb_reads_a_commit_by_position(interpreted: SparkSession, tmp_path: Path, packages: Path) -> None:
    """Two commits, the second one into files that have deletion vectors: updates, deletes and new rows.

    And an older version, as the query of ``enrich proof`` names it.
    """
    table = make_table(interpreted, tmp_path / "table", {})
    for number in (1, 2):
        old = interpreted.read.format("delta").load(table)
        kept = old.where((F.col("id").isNull()) | (F.col("id") % 5 != number))
        changed = kept.withColumn(
            "name", F.when(F.col("id") % 3 == 0, F.lit(f"changed {number}")).otherwise(F.col("name"))
        )
        new = old.limit(1).select(F.lit(100 + number).cast("long").alias("id"), F.lit("new").alias("name"), "at")
        wanted = interpreted.createDataFrame(changed.union(new).collect(), old.schema)
        write(interpreted, table, compare(interpreted, table, wanted))
    done = must_run([sys.executable, "-c", READING, table], cwd=tmp_path, PYTHONPATH=str(packages))
    theirs, first = json.loads(done)
    begun = interpreted.read.format("delta").option("versionAsOf", 0).load(table)
    assert first == [[begun.count()]] != [[len(theirs)]]
    rows = interpreted.read.format("delta").load(table).select("id", "name", "at.x", "at.y").collect()
    assert Counter(map(str, theirs)) == Counter(str(list(row)) for row in rows)
    assert len(rows) > 8
