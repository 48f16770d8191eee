"""The ranges of keys by which tables are read: Spark's days, and not Python's or those of Java's old calendar."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from enrich.base.spec import Range
from enrich.frames.columns import count_with_ranges, keep_in_ranges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = {
    "the first": ["0001-01-01"],
    "before the year 1000": ["0999-12-31", "0001-01-02"],
    "days that the old calendar lacks": ["1582-10-05", "1582-10-10"],
    "beyond what Python has": ["9999-12-31", "+10000-01-01"],
}


@pytest.mark.parametrize("name", DAYS)
def test_days_are_in_their_own_range(spark: SparkSession, name: str) -> None:
    rows = spark.createDataFrame([(day,) for day in DAYS[name]], "text string").select(
        F.col("text").cast("date").alias("k")
    )
    (count,), ranges = count_with_ranges(rows, ["k"])
    beyond = [ranges["k"].least - 1, ranges["k"].most + 1]
    around = rows.unionByName(
        rows.sparkSession.createDataFrame([(each,) for each in beyond], "k int").select(
            F.date_from_unix_date("k").alias("k")
        )
    )
    kept = keep_in_ranges(around, ranges)
    assert (count, around.count(), kept.count()) == (len(DAYS[name]), len(DAYS[name]) + 2, len(DAYS[name]))
    assert kept.exceptAll(rows).isEmpty()
    plan = kept._jdf.queryExecution().optimizedPlan().toString()
    assert "date_from_unix_date" not in plan, "the ends are literals, by which files are skipped"


def test_ranges_are_of_kinds_by_which_files_are_skipped(interpreted: SparkSession) -> None:
    kinds = "a int, b decimal(9,2), c date, d string, e double, f timestamp, g long, h decimal(16,0)"
    rows = interpreted.sql(
        "SELECT * FROM VALUES (1, 1.5BD, DATE'2026-01-01', 'x', 1D, TIMESTAMP'2026-01-01', null, 1BD),"
        " (5, -2BD, DATE'2026-03-01', 'y', double('NaN'), TIMESTAMP'2026-02-01', null, 2BD)"
        " AS t(a, b, c, d, e, f, g, h)"
    ).to(interpreted.createDataFrame([], kinds).schema)
    (count, nulls), ranges = count_with_ranges(rows, rows.columns, F.count_if(F.col("g").isNull()))
    assert (count, nulls) == (2, 2)
    first = date(2026, 1, 1).toordinal() - date(1970, 1, 1).toordinal()
    assert ranges == {
        "a": Range(1, 5),
        "b": Range(Decimal("-2.00"), Decimal("1.50")),
        "c": Range(first, first + 59, is_day=True),
    }
    assert keep_in_ranges(rows, ranges).count() == 2
    assert keep_in_ranges(rows, {"a": Range(2, 9)}).count() == 1
    assert keep_in_ranges(rows, {"a": Range(1, 5, values=(2, 5))}).count() == 1


@pytest.mark.parametrize(
    ("kind", "least", "most", "ends"),
    [
        ("bigint", 303, 9_999_303, (0, 10_223_616)),
        ("bigint", 304, 9_999_304, (0, 10_223_616)),  # the next run's keys: the code that Spark makes is the same
        ("bigint", -70, -5, (-70, -4)),
        ("bigint", 17, 17, (17, 17)),
        ("bigint", -(2**63), 2**63 - 1, (-(2**63), 2**63 - 1)),
        ("int", -(2**31) + 1, 2**31 - 1, (-(2**31), 2**31 - 1)),
        ("tinyint", -127, 127, (-128, 127)),
        ("date", 2, 20_000, (0, 20_480)),
    ],
)
def test_ends_of_a_range_are_round_numbers(
    interpreted: SparkSession, kind: str, least: int, most: int, ends: tuple[int, int]
) -> None:
    numbers = interpreted.createDataFrame([(least,), (most,)], "k bigint")
    rows = numbers.select(
        F.expr("date_from_unix_date(CAST(k AS INT))" if kind == "date" else f"CAST(k AS {kind})").alias("k")
    )
    (_, ranges) = count_with_ranges(rows, ["k"])
    assert (ranges["k"].least, ranges["k"].most) == ends
    assert keep_in_ranges(rows, ranges).count() == 2
