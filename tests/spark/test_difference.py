"""Which keys are sent to every task that reads a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from enrich.base.spec import Affected
from enrich.delta.sink import hold_settings
from enrich.frames import difference
from enrich.frames.difference import Identity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def is_sent(spark: SparkSession, key: str, count: int) -> bool:
    """Tell whether the plan of a comparison with a table sends the affected keys to every task."""
    rows: DataFrame = spark.range(10).selectExpr(f"{key} AS __enrich_k0", f"{key} AS id", "1 AS value")
    affected = Affected(rows.select("__enrich_k0"), count=count)
    kept: Any = difference._keep_affected(rows.select("__enrich_k0", "value"), affected, Identity(("id",)), 2)
    with hold_settings(spark, {"spark.sql.maxPlanStringLength": "100000"}):
        return "strategy=broadcast" in kept._jdf.queryExecution().optimizedPlan().toString()


@pytest.mark.parametrize("key", ["id", "CAST(id AS decimal(20,0))", "DATE '2026-01-01' + CAST(id AS int)"])
def test_counted_keys_of_few_bytes_are_sent(spark: SparkSession, key: str) -> None:
    assert is_sent(spark, key, difference._SENT)
    assert not is_sent(spark, key, difference._SENT + 1)


def test_keys_that_nobody_has_counted_are_not_sent(spark: SparkSession) -> None:
    """The keys of a dump: they may be any number, and would pass through the driver."""
    assert not is_sent(spark, "id", Affected(spark.range(1).toDF("__enrich_k0")).count)


def test_texts_are_not_sent(spark: SparkSession) -> None:
    assert not is_sent(spark, "CAST(id AS string)", 10)
