"""The jobs of the page that binds queries, run as they stand, over tables that another place keeps."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from kit.lab import FEED, Lab
from kit.project import files_below, write_project
from kit.query_page import COLUMNS, EXAMPLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = datetime(2026, 3, 1, tzinfo=UTC)


def order(number: int, merchant: str, amount: str, status: str = "paid") -> dict[str, Any]:
    of = {"order_id": f"o{number}", "merchant_id": merchant, "customer_id": "c1", "status": status}
    return {**of, "amount": Decimal(amount), "ordered_at": AT}


def product(number: int, merchant: str | None, price: str) -> dict[str, Any]:
    return {"product_id": f"p{number}", "title": "t", "merchant_id": merchant, "price": Decimal(price)}


ROWS: dict[str, list[dict[str, Any]]] = {
    "products": [
        product(1, "m1", "1.00"),
        product(2, "m2", "2.00"),
        product(3, "m1", "0.00"),
        product(4, None, "1.00"),
    ],
    "merchants": [{"merchant_id": "m1", "name": "A", "country_code": "de", "email": "a@example.com"}],
    "countries": [{"country_code": "de", "code": "d"}],
    "orders_enriched": [order(1, "m1", "1.50"), order(2, "m1", "2.00"), order(3, "m2", "9.00", "open")],
}


def test_the_jobs_of_the_page_read_another_place_and_write_here(tmp_path: Path, interpreted: SparkSession) -> None:
    conf = {"conf/dev.yml": "lake: ./lake\nsources: {lake: ./silver}\n"}
    lab = Lab(write_project(tmp_path / "p", EXAMPLES | conf), interpreted)
    silver = lab.home / "silver"

    def append(name: str, rows: list[dict[str, Any]]) -> None:
        schema = pa.schema(list(COLUMNS[name].items()))
        write_deltalake(str(silver / name), pa.Table.from_pylist(rows, schema=schema), mode="append")

    for name, rows in ROWS.items():
        DeltaTable.create(str(silver / name), pa.schema(list(COLUMNS[name].items())), configuration=FEED)
        append(name, rows)

    def run() -> tuple[list[str], list[Any], list[Any]]:
        before = files_below(silver)
        found = lab.run_all()
        assert files_below(silver) == before, "nothing is written there"
        products = [
            (row["product_id"], row["merchant_name"], row["country"]) for row in lab.rows("products_with_merchant")
        ]
        return (
            [f"{job.status}{job.error or ''}" for job in found.jobs],
            sorted(products),
            [(row["merchant_id"], row["orders"], row["revenue"]) for row in lab.rows("revenue_by_merchant")],
        )

    status, products, revenue = run()
    assert status == ["created", "created"]
    assert products == [("p1", "A", "D"), ("p2", None, None), ("p4", None, None)]
    assert revenue == [("m1", 2, Decimal("3.50"))]
    append("merchants", [{"merchant_id": "m2", "name": "B", "country_code": "fr"}])
    append("orders_enriched", [order(4, "m2", "4.00")])
    status, products, revenue = run()
    assert status == ["updated", "updated"]
    assert products == [("p1", "A", "D"), ("p2", "B", None), ("p4", None, None)]
    assert revenue == [("m1", 2, Decimal("3.50")), ("m2", 1, Decimal("4.00"))]
