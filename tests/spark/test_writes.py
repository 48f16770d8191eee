"""A difference in one commit: which operation it is, and what stands in the table afterwards."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from enrich.base.spec import OPERATION
from enrich.delta.sink import Changed, write_difference
from kit.commits import make_commit

SCHEMA = f"k long, {OPERATION} string, id long, name string"
BEFORE: dict[Any, Any] = {1: "a", 2: "b", 3: "c", None: "n"}
Rows = list[tuple[Any, ...]]
ROWS: dict[str, Rows] = {"I": [(7, "I", 7, "new")], "U": [(2, "U", 2, "other")], "D": [(3, "D", None, None)]}
AFTER: dict[str, dict[Any, Any]] = {"I": {7: "new"}, "U": {2: "other"}, "D": {}}


@pytest.fixture(scope="module")
def written(interpreted: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with three rows, and one without key."""
    place = tmp_path_factory.mktemp("written") / "t"
    interpreted.createDataFrame(list(BEFORE.items()), "id long, name string").write.format("delta").save(str(place))
    return place


@pytest.fixture
def table(written: Path, tmp_path: Path) -> str:
    """A copy of the table."""
    return str(shutil.copytree(written, tmp_path / "t"))


def write(
    spark: SparkSession, place: str, rows: list[tuple[Any, ...]], *, schema: str = SCHEMA, nulls: bool = False
) -> str:
    """Write rows and return the commit's operation."""
    operations = {letter: count for letter in "IUD" if (count := sum(row[1] == letter for row in rows))}
    frame = spark.createDataFrame(rows, schema)
    version = DeltaTable(place).version()
    write_difference(
        spark, place, Changed(frame, {"k": F.col("t.id")}, nulls, operations), make_commit("a", version + 1, "m")
    )
    log = DeltaTable(place)
    assert log.version() == version + 1, "one commit"
    assert log.transaction_version("a") == version + 1
    (entry,) = log.history(1)
    assert entry["userMetadata"] == "m"
    return str(entry["operation"])


def read(place: str) -> dict[Any, Any]:
    """Return the table's names by key."""
    rows = DeltaTable(place).to_pyarrow_table().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["name"] for row in rows}


@pytest.mark.parametrize("letters", ["".join(each) for each in product(["", "I"], ["", "U"], ["", "D"])])
def test_each_combination_of_operations(interpreted: SparkSession, table: str, letters: str) -> None:
    operation = write(interpreted, table, [row for letter in letters for row in ROWS[letter]])
    assert operation == ("MERGE" if set(letters) & {"U", "D"} else "WRITE")
    wanted = {key: name for key, name in BEFORE.items() if not (key == 3 and "D" in letters)}
    for letter in letters:
        wanted |= AFTER[letter]
    assert read(table) == wanted


@pytest.mark.parametrize("letters", ["U", "D", "UD", "UDI"])
def test_rows_that_somebody_else_removed_do_not_come_back(interpreted: SparkSession, table: str, letters: str) -> None:
    """Such a run ends with exit code 6, but it must not put a row of nulls into the table."""
    DeltaTable(table).delete("id in (2, 3)")
    write(interpreted, table, [row for letter in letters for row in ROWS[letter]])
    left = {1: "a", None: "n"} | (AFTER["I"] if "I" in letters else {})
    assert read(table) == left


def test_a_null_in_the_identity_equals_null_where_it_may_be(interpreted: SparkSession, table: str) -> None:
    change = [(None, "U", None, "other")]
    write(interpreted, table, change)
    assert read(table) == BEFORE
    write(interpreted, table, change, nulls=True)
    assert read(table) == {**BEFORE, None: "other"}


@pytest.mark.parametrize("letters", ["I", "U", "IU"])
def test_a_new_column_comes_in_the_same_commit(interpreted: SparkSession, table: str, letters: str) -> None:
    rows = [(*row, "more") for letter in letters for row in ROWS[letter]]
    write(interpreted, table, rows, schema=SCHEMA + ", extra string")
    found = {row["id"]: row["extra"] for row in DeltaTable(table).to_pyarrow_table().to_pylist()}
    changed = {row[0] for row in rows}
    assert found == {key: "more" if key in changed else None for key in [*BEFORE, *changed]}
