"""What `enrich init` writes runs as it stands: its tables, targets from tables, and then nothing to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import enrich
from enrich.init import write_project
from enrich.init.firstjob import write_first_job
from faults.shop import SOAK
from kit.lab import Lab

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_new_project_runs_and_then_has_nothing_to_do(tmp_path: Path, interpreted: SparkSession) -> None:
    home = tmp_path / "shop"
    write_project(home)
    lab = Lab(home, interpreted)
    first = lab.run_all()
    assert first.exit_code == 0, first.to_dict()
    assert {job.job: job.status for job in first.jobs} == dict.fromkeys(
        (
            "accounts_history",
            "baskets_with_products",
            "customers_with_email",
            "orders_with_customer",
            "orders_with_payment",
            "payments_in_euro",
            "product_of_barcode",
        ),
        "created",
    )
    assert [(row["customer_id"], row["email"]) for row in lab.rows("customers_with_email")] == [
        ("c1", "ada@example.com"), ("c2", "grace@example.com"), ("c3", None), ("c4", "barbara@example.com"),
    ]  # fmt: skip
    assert {row["order_id"]: (row["customer"], row["email"]) for row in lab.rows("orders_with_customer")} == {
        "o1": ("Ada", "ada@example.com"), "o2": ("Ada", "ada@example.com"), "o3": ("Edsger", None),
        "o4": (None, None), "o5": (None, None),
    }  # fmt: skip
    assert [row["order_id"] for row in lab.rows("orders_with_customer__quarantine")] == ["o6"]
    assert {row["barcode"]: row["product_id"] for row in lab.rows("product_of_barcode")} == {
        "40000011": "p1", "40000028": "p2", "40000035": "p3",
    }  # fmt: skip
    titles = {
        row["basket_id"]: [each["title"] for each in row["products"]] for row in lab.rows("baskets_with_products")
    }
    assert titles == {"b1": ["Pen", "Paper"], "b2": ["Pencil", None], "b3": []}
    assert {row["payment_id"]: row["euro"] and str(row["euro"]) for row in lab.rows("payments_in_euro")} == {
        "y1": "19.90", "y2": "2.50", "y3": "2.48", "y4": "42.30", "y5": None,
    }  # fmt: skip
    assert {(row["order_id"], row["payment_id"]) for row in lab.rows("orders_with_payment")} == {
        ("o1", "y1"), ("o2", "y2"), ("o2", "y3"), *((order, None) for order in ("o3", "o4", "o5", "o6", "o7")),
    }  # fmt: skip
    assert {(row["customer_id"], row["valid_to"]) for row in lab.rows("accounts_history")} == {
        ("c1", None), ("c2", None), ("c4", None),
    }  # fmt: skip

    second = lab.run_all()
    assert {job.status for job in second.jobs} == {"unchanged"}
    assert len(lab.log("orders")) == 1

    done = write_first_job([lab.path("orders"), lab.path("customers")], home, "dev")
    assert done.notes == []
    guessed = lab.run("orders_with_customers")
    assert (guessed.status, guessed.exit_code) == ("created", 0), guessed.to_dict()
    assert len(lab.rows("orders_with_customers")) == 7
    moments = write_first_job([lab.path("payments"), lab.path("rates")], home, "dev")
    assert moments.notes == []
    paid = lab.run("payments_with_rates")
    assert (paid.status, paid.exit_code) == ("created", 0), paid.to_dict()
    rates = {row["payment_id"]: row["rates_rate"] and str(row["rates_rate"]) for row in lab.rows("payments_with_rates")}
    assert rates == {
        "y1": "1.0000", "y2": "1.0000", "y3": "0.9200", "y4": "0.9400", "y5": None,
    }  # fmt: skip
    for each in (guessed, paid):
        assert [finding.success for finding in each.findings if finding.expectation == "match_rate"] == [True]
    if SOAK:  # the rows of its targets are written out above
        assert enrich.verify(enrich.load_project(home), spark=interpreted).exit_code == 0
