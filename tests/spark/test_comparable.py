"""Values that are equal look equal: what changes, differences and fingerprints stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from enrich.frames.columns import make_comparable, make_exact
from enrich.frames.difference import hash_content

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EQUAL = {
    "zeros": ("double", "0.0D", "-0.0D"),
    "zeros of floats": ("float", "0.0F", "-0.0F"),
    "not a number": ("double", "double('NaN')", "sqrt(-1.0D)"),
    "nested zeros": ("struct<a: array<double>>", "named_struct('a', array(0.0D))", "named_struct('a', array(-0.0D))"),
    "maps in another order": ("map<string,int>", "map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)"),
    "maps in a list": ("array<map<string,double>>", "array(map('a', 0.0D))", "array(map('a', -0.0D))"),
    "nulls": ("map<string,int>", "null", "null"),
}
DIFFERENT = {
    "microseconds": ("timestamp", "timestamp'2026-03-29 01:30:00.000001Z'", "timestamp'2026-03-29 01:30:00.000002Z'"),
    "local microseconds": (
        "timestamp_ntz",
        "timestamp_ntz'2026-03-29 01:30:00.000001'",
        "timestamp_ntz'2026-03-29 01:30:00'",
    ),
    "numbers": ("double", "0.0D", "1e-300D"),
    "null and empty map": ("map<string,int>", "null", "map()"),
    "null and struct of nulls": ("struct<a: double>", "null", "named_struct('a', null)"),
    "null and missing entry": ("map<string,double>", "map('a', cast(null as double))", "map()"),
    "lists in another order": ("array<double>", "array(1.0D, 2.0D)", "array(2.0D, 1.0D)"),
}


def forms(spark: SparkSession, case: tuple[str, str, str]) -> tuple[bool, bool]:
    """Return whether the two values of a case compare equal, and whether their fingerprints do."""
    kind, *values = case
    rows = [spark.range(1).select(F.expr(value).cast(kind).alias("v")) for value in values]
    column = make_comparable(F.col("v"), rows[0].schema["v"].dataType)
    one, two = (
        row.select(column.alias(name), hash_content([row.schema["v"]], [F.col("v")]).alias(f"{name}_c"))
        for row, name in zip(rows, "ab", strict=True)
    )
    found = one.crossJoin(two).select(F.col("a").eqNullSafe(F.col("b")), F.col("a_c") == F.col("b_c")).first()
    assert found is not None
    return found[0], found[1]


IN_TWO_FORMS = {"zeros", "zeros of floats", "nested zeros", "maps in another order", "maps in a list"}


@pytest.mark.parametrize("name", [*EQUAL, *DIFFERENT])
def test_images_of_a_feed_cancel_only_in_one_form(spark: SparkSession, name: str) -> None:
    kind, *values = (EQUAL | DIFFERENT)[name]
    rows = [spark.range(1).select(F.expr(value).cast(kind).alias("v")) for value in values]
    column = make_exact(F.col("v"), rows[0].schema["v"].dataType)
    forms = rows[0].unionByName(rows[1]).groupBy(column.alias("form")).count().count()
    assert forms == (2 if name in IN_TWO_FORMS or name in DIFFERENT else 1)


@pytest.mark.parametrize("name", EQUAL)
def test_equal_values_look_equal(spark: SparkSession, name: str) -> None:
    assert forms(spark, EQUAL[name]) == (True, True)


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_values_look_different(spark: SparkSession, name: str) -> None:
    assert forms(spark, DIFFERENT[name]) == (False, False)
