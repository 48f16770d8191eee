"""One looked-up row that very many rows refer to: its change reaches them all, and none of them the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kit.lab import FEED, Lab
from kit.project import SHOP

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PRODUCTS = 80_000
LIMIT = "24m"
"""Above Spark's limit for broadcasts (10 MB), far below the rows (48 MB)."""


@contextmanager
def results_limited(spark: SparkSession, size: str) -> Iterator[None]:
    """Let Spark itself fail every job that sends more than ``size`` to the driver."""
    conf = spark.sparkContext._jsc.sc().conf()  # each job reads the limit anew
    conf.set("spark.driver.maxResultSize", size)
    try:
        yield
    finally:
        conf.remove("spark.driver.maxResultSize")


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Lab:
    """Give products of a single merchant, with long titles, and their job; plans are compiled, for several tasks."""
    lab = Lab(tmp_path / "project", spark)
    lab.table("merchants", "id", {"id": pa.int64(), "name": pa.string()}, [{"id": 1, "name": "old"}])
    numbers = pa.array(range(PRODUCTS), pa.int64())
    random = Random(1)  # results are compressed on their way: the titles must not be compressible
    titles = pa.array([random.randbytes(300).hex() for _ in range(PRODUCTS)])
    merchants = pa.array([1] * PRODUCTS, pa.int64())
    products = pa.table({"id": numbers, "title": titles, "merchant_id": merchants})
    write_deltalake(lab.path("products"), products, configuration=FEED)
    lab.job(SHOP)
    return lab


def test_a_change_reaches_every_row_without_passing_through_the_driver(shop: Lab) -> None:
    with results_limited(shop.spark, LIMIT):
        assert shop.run().counts.inserted == PRODUCTS
        shop.put("merchants", {"id": 1, "name": "new"})
        result = shop.run()
    assert (result.status, result.counts.updated, result.counts.affected_keys) == ("updated", PRODUCTS, PRODUCTS)
    counted = QueryBuilder().register("t", DeltaTable(shop.path("shop")))
    found = pa.table(counted.execute("SELECT merchant, count(*) AS n FROM t GROUP BY merchant").read_all())
    assert found.to_pylist() == [{"merchant": "new", "n": PRODUCTS}]


def test_the_limit_would_have_caught_a_collect(shop: Lab) -> None:
    rows = shop.spark.read.format("delta").load(shop.path("products"))
    with results_limited(shop.spark, LIMIT), pytest.raises((PySparkException, Py4JJavaError)):
        rows.collect()
