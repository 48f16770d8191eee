"""What a commit wrote, as its log tells: compared with the files that came."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from enrich.base.result import Extent
from enrich.delta.extents import measure_commit

MERGE = """MERGE INTO delta.`{place}` t USING (SELECT col1 AS id FROM VALUES (7), (2000)) s ON t.id = s.id
WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'n')"""


def find_files(place: Path) -> dict[Path, int]:
    """Return the table's files, without its log, and their bytes."""
    files = [each for each in place.rglob("*") if each.is_file() and not each.name.endswith(".crc")]
    return {each: each.stat().st_size for each in files if "_delta_log" not in each.parts}


def test_a_file_that_gets_a_deletion_vector_is_not_written(interpreted: SparkSession, tmp_path: Path) -> None:
    place, spark = tmp_path / "t", interpreted
    rows = spark.range(1000).selectExpr("id", "concat('name ', id) as name").repartition(2)
    writer = rows.write.format("delta").option("delta.enableDeletionVectors", "true")
    writer.option("delta.enableChangeDataFeed", "true").save(str(place))
    first = find_files(place)
    assert measure_commit(str(place), 0) == Extent(len(first), sum(first.values()))
    for version, statement in enumerate([f"DELETE FROM delta.`{place}` WHERE id = 3", MERGE.format(place=place)], 1):
        before = find_files(place)
        spark.sql(statement)
        came = {each: size for each, size in find_files(place).items() if each not in before}
        found = measure_commit(str(place), version)
        assert any(each.suffix == ".bin" for each in came), "the statement marks rows in deletion vectors"
        assert found.files == len(came), came
        assert 0 <= sum(came.values()) - found.bytes < 20  # a file of vectors has a few bytes beside them
