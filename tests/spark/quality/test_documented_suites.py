"""Suites as Great Expectations' documentation shows them, built and written by its own classes, run unchanged.

They follow its pages "Try GX", on schema, missingness and distribution, and on row conditions.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from enrich.project.suitefiles import load_suite
from enrich.quality.judge import judge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRANSFERS = (
    "type string, sender_account_number string, recipient_account_number string, recipient_fullname string, "
    "transfer_amount double, transfer_date string, errors string"
)
TRANSFER_ROWS = [
    ("domestic", "244084670977", "542374893505", "Jaxson Duke", 9143.40, "2024-05-01 01:12", None),
    ("domestic", "954005011218", "528764894552", "Nelson O'Connell", 3285.21, "2024-05-01 05:08", None),
    ("international", "842374923847", None, "Aoife Ní Bhriain", None, "2024-05-01 08:10", "timeout"),
    (None, "954005011218", "528764894552", "Nelson O'Connell", -12.5, None, None),
]
PURCHASES = "product_id int, purchase_amount double, product_rating int, quantity int"
PURCHASE_ROWS = [(n, float(20 * n * n % 4000), n % 7, n % 3) for n in range(40)]
TAXI = "vendor_id int, passenger_count int, fare_amount double, tip_amount double, pickup_datetime timestamp"
TAXI_ROWS = [(1 + n % 2, n % 8 or None, 2.5 * n - 5, 0.2 * n, f"2019-01-{n + 1:02} 10:00:00") for n in range(20)]


def try_gx(gxe: Any) -> list[Any]:
    return [
        gxe.ExpectColumnValuesToBeBetween(column="passenger_count", min_value=1, max_value=6),
        gxe.ExpectColumnValuesToBeBetween(column="fare_amount", min_value=0),
        gxe.ExpectColumnValuesToNotBeNull(column="pickup_datetime"),
        gxe.ExpectColumnMaxToBeBetween(column="passenger_count", min_value=1, max_value=6),
    ]


def schema(gxe: Any) -> list[Any]:
    columns = ["sender_account_number", "recipient_account_number", "transfer_amount", "transfer_date"]
    return [
        gxe.ExpectColumnToExist(column="sender_account_number"),
        gxe.ExpectColumnValuesToBeOfType(column="transfer_amount", type_="DoubleType"),
        gxe.ExpectColumnValuesToBeInTypeList(column="type", type_list=["IntegerType", "StringType"]),
        gxe.ExpectTableColumnCountToEqual(value=5),
        gxe.ExpectTableColumnCountToBeBetween(min_value=6, max_value=8),
        gxe.ExpectTableColumnsToMatchOrderedList(column_list=columns),
        gxe.ExpectTableColumnsToMatchSet(column_set=columns, exact_match=False),
        gxe.ExpectTableColumnsToMatchSet(column_set=columns),
    ]


def missingness(gxe: Any) -> list[Any]:
    return [
        gxe.ExpectColumnValuesToBeNull(column="errors"),
        gxe.ExpectColumnValuesToNotBeNull(column="transfer_amount"),
        gxe.ExpectColumnValuesToNotBeNull(column="transfer_date", mostly=0.999),
        gxe.ExpectColumnValuesToNotBeNull(column="type", mostly=0.75),
        gxe.ExpectColumnProportionOfNonNullValuesToBeBetween(column="recipient_account_number", min_value=0.8),
    ]


def distribution(gxe: Any) -> list[Any]:
    amount = "purchase_amount"
    bins = {"bins": [0, 100, 500, 1000, 5000, 10000], "weights": [0.05, 0.25, 0.35, 0.25, 0.1]}
    quantiles = {"quantiles": [0.5, 0.9], "value_ranges": [[50, 200], [500, 4000]]}
    return [
        gxe.ExpectColumnMeanToBeBetween(column=amount, min_value=50, max_value=1000),
        gxe.ExpectColumnMedianToBeBetween(column=amount, min_value=50, max_value=4000),
        gxe.ExpectColumnQuantileValuesToBeBetween(column=amount, quantile_ranges=quantiles),
        gxe.ExpectColumnStdevToBeBetween(column=amount, min_value=500, max_value=2000),
        gxe.ExpectColumnValuesToBeBetween(column="product_rating", min_value=1, max_value=5),
        gxe.ExpectColumnValueZScoresToBeLessThan(column=amount, threshold=1.5, double_sided=True),
        gxe.ExpectColumnKLDivergenceToBeLessThan(column=amount, partition_object=bins, threshold=0.1),
        gxe.ExpectTableRowCountToBeBetween(min_value=30, max_value=50),
    ]


def conditions(gxe: Any) -> list[Any]:
    from great_expectations.expectations.row_conditions import Column

    return [
        gxe.ExpectColumnValuesToBeBetween(
            column="tip_amount", min_value=1, row_condition=Column("passenger_count").is_in([1, 2])
        ),
        gxe.ExpectColumnValuesToNotBeNull(
            column="passenger_count", row_condition=(Column("vendor_id") == 2) & (Column("fare_amount") > 0)
        ),
        gxe.ExpectColumnValuesToBeInSet(
            column="vendor_id", value_set=[1], mostly=0.5, row_condition=Column("passenger_count").is_not_null()
        ),
        gxe.ExpectColumnMeanToBeBetween(
            column="fare_amount",
            max_value=20,
            row_condition='col("vendor_id")==1',
            condition_parser="great_expectations",
        ),
    ]


PAGES: dict[str, tuple[Callable[[Any], list[Any]], str, list[tuple[Any, ...]]]] = {
    "Try GX": (try_gx, TAXI, TAXI_ROWS),
    "Schema": (schema, TRANSFERS, TRANSFER_ROWS),
    "Missingness": (missingness, TRANSFERS, TRANSFER_ROWS),
    "Distribution": (distribution, PURCHASES, PURCHASE_ROWS),
    "Row conditions": (conditions, TAXI, TAXI_ROWS),
}


def frame_of(spark: SparkSession, schema: str, rows: list[tuple[Any, ...]]) -> DataFrame:
    from pyspark.sql import functions as F

    plain = spark.createDataFrame(rows, schema.replace("timestamp", "string"))
    return plain.withColumn("pickup_datetime", F.to_timestamp("pickup_datetime")) if "timestamp" in schema else plain


@pytest.mark.parametrize("page", PAGES)
def test_a_documented_suite_runs_unchanged(spark: SparkSession, ask_gx: Any, tmp_path: Path, page: str) -> None:
    """What GX writes is what we read: the file comes from ``suite.to_json_dict()``."""
    build, columns, rows = PAGES[page]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx
        import great_expectations.expectations as gxe

        # Given to the constructor: `add_expectation` replaces an expectation of the same type on the same column.
        written: dict[str, Any] = gx.ExpectationSuite(name=page, expectations=build(gxe)).to_json_dict()
    path = tmp_path / "suite.json"
    path.write_text(json.dumps(written), encoding="utf-8")
    frame = frame_of(spark, columns, rows).localCheckpoint()
    suite = load_suite(path, "expectations/suite.json")
    ours = judge(frame, suite, lambda _: frame).findings
    theirs = ask_gx(frame, [(each["type"], each["kwargs"]) for each in written["expectations"]])
    assert len(ours) == len(theirs) == len(written["expectations"])
    for finding, reference in zip(ours, theirs, strict=True):
        told = (page, finding, reference)
        assert (finding.error is not None) == reference.raised, told
        assert finding.success == (None if reference.raised else reference.success), told
        if not reference.raised and "unexpected_count" in reference.result:
            assert finding.failed == reference.result["unexpected_count"], told
            assert finding.checked == reference.checked, told
    assert {finding.success for finding in ours} >= {True, False}
