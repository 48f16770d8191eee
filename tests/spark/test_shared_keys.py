"""Two rows with one key are counted: 64 whole numbers that follow one another share a group, and nothing else does."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from enrich.frames.changes import KEYS, ROWS, count_by_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST, MOST = -(2**63), 2**63 - 1
CASES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "neighbours": ("k long", [(each,) for each in range(-130, 130)]),
    "one twice": ("k long", [*[(each,) for each in range(64)], (63,)]),
    "the same bit of two groups": ("k long", [(0,), (64,), (-64,)]),
    "ends of the type": ("k long", [(LEAST,), (LEAST,), (MOST,), (-1,), (0,), (0,), (0,)]),
    "nulls": ("k int", [(None,), (None,), (None,), (0,)]),
    "small numbers": ("k tinyint", [(-128,), (127,), (127,), (-1,), (63,), (64,)]),
    "a part of two": ("a string, k short", [("x", 1), ("x", 1), ("x", 2), ("y", 1), (None, 1), (None, 1), ("y", None)]),
    "numbers alone": ("a int, k int", [(1, 2), (2, 1), (1, 2), (65, 2), (1, 66), (None, 2), (None, 2), (1, None)]),
    "texts": ("k string", [("a",), ("a",), ("b",), (None,), (None,)]),
}


@pytest.mark.parametrize("name", CASES)
def test_as_many_rows_and_keys_as_there_are(spark: SparkSession, name: str) -> None:
    schema, rows = CASES[name]
    counted = count_by_key(spark.createDataFrame(rows, schema))
    found = counted.agg(F.sum(ROWS), F.sum(F.col(ROWS) - F.col(KEYS)), F.count_if(F.col(ROWS) > F.col(KEYS))).first()
    assert found is not None
    shared = [count for count in Counter(rows).values() if count > 1]
    assert (found[0] or 0, found[1] or 0, bool(found[2])) == (len(rows), sum(shared) - len(shared), bool(shared))
