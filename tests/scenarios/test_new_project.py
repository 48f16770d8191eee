"""What `enrich init` writes runs as it stands: its tables, targets from tables, and then nothing to do."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

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

    if SOAK:  # the rows of its targets are written out above
        assert enrich.verify(enrich.load_project(home), spark=interpreted).exit_code == 0


# --- jobs that `enrich init --from` writes, for tables as public data sets and tools have them ------------------------

TEXT, NUMBER, TIME = pa.string(), pa.int64(), pa.timestamp("us", "UTC")
CUSTOMER = pa.struct([("id", NUMBER), ("first_name", TEXT), ("email", TEXT)])
ENVELOPE = pa.struct(
    [
        ("before", CUSTOMER),
        ("after", CUSTOMER),
        ("source", pa.struct([("connector", TEXT), ("ts_ms", NUMBER), ("lsn", NUMBER)])),
        ("op", TEXT),
        ("ts_ms", NUMBER),
    ]
)
PRICE = {"product_id": 7, "dbt_is_deleted": "False"}
SALLY, GEORGE = ({"id": n, "first_name": name, "email": f"{name}@acme.com"} for n, name in ((1001, "S"), (1002, "G")))


PLAIN_SHAPES = {  # queries such as all of the suite's jobs have, so only the soak runs them
    "olist_orders_with_olist_customers": ("olist_orders", "olist_customers"),
    "tracks_with_users": ("tracks", "users"),
}
PUBLIC_SHAPES = {  # the job that is guessed, and its tables
    **(PLAIN_SHAPES if SOAK else {}),
    "customers_with_shipping_address_default_billing_address": ("customers", "addresses"),
    "order_lines_with_prices": ("order_lines", "prices"),
    "inventory_orders_with_inventory_products": ("inventory_orders", "inventory_products"),
    "customers_topic_events": ("customers_topic",),
}


def at(day: int) -> datetime:
    return datetime(2026, 3, day, 12, tzinfo=UTC)


def message(offset: int, op: str | None, before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    source = {"connector": "postgresql", "ts_ms": 1, "lsn": 100 + offset}
    value = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1}
    return {"partition": 0, "offset": offset, "value": value if op else None}


def make_public_shapes(lab: Lab) -> None:
    order = {"order_id": TEXT, "customer_id": TEXT, "order_status": TEXT, "order_purchase_timestamp": TIME}
    lab.table("olist_orders", "order_id", order, [
        {"order_id": "e481", "customer_id": "9ef4", "order_status": "shipped", "order_purchase_timestamp": at(1)},
        {"order_id": "53cd", "customer_id": "b083", "order_status": "created", "order_purchase_timestamp": at(2)},
    ])  # fmt: skip
    customer = {"customer_id": TEXT, "customer_zip_code_prefix": TEXT, "customer_city": TEXT}
    lab.table("olist_customers", "customer_id", customer, [
        {"customer_id": "9ef4", "customer_zip_code_prefix": "03149", "customer_city": "sao paulo"},
    ])  # fmt: skip
    track = {"id": TEXT, "event": TEXT, "user_id": TEXT, "received_at": TIME}
    lab.table("tracks", "id", track, [
        {"id": "ajs-1", "event": "Signed Up", "user_id": "u1", "received_at": at(1)},
        {"id": "ajs-2", "event": "Paid", "user_id": "u1", "received_at": at(2)},
        {"id": "ajs-3", "event": "Paid", "user_id": None, "received_at": at(2)},
    ])  # fmt: skip
    lab.table("users", "id", {"id": TEXT, "email": TEXT}, [{"id": "u1", "email": "one@example.com"}])
    buyer = {"id": TEXT, "shipping_address_ids": pa.list_(TEXT), "default_billing_address_id": TEXT}
    lab.table("customers", "id", buyer, [
        {"id": "c1", "shipping_address_ids": ["a1", "a2"], "default_billing_address_id": "a1"},
        {"id": "c2", "shipping_address_ids": [], "default_billing_address_id": "a9"},
    ])  # fmt: skip
    lab.table(
        "addresses", "id", {"id": TEXT, "city": TEXT}, [{"id": "a1", "city": "Oslo"}, {"id": "a2", "city": "Rome"}]
    )
    line = {"order_line_id": NUMBER, "product_id": NUMBER, "sold_at": TIME}
    lines = ({"order_line_id": number, "product_id": 7, "sold_at": at(day)} for number, day in ((1, 2), (2, 6)))
    lab.table("order_lines", "order_line_id", line, lines)
    version = {"product_id": NUMBER, "price": NUMBER, "dbt_scd_id": TEXT, "dbt_is_deleted": TEXT}
    lab.table("prices", "dbt_scd_id", {**version, "dbt_valid_from": TIME, "dbt_valid_to": TIME}, [
        {**PRICE, "price": 10, "dbt_scd_id": "x1", "dbt_valid_from": at(1), "dbt_valid_to": at(5)},
        {**PRICE, "price": 12, "dbt_scd_id": "x2", "dbt_valid_from": at(5)},
    ])  # fmt: skip
    sold = {"order_number": NUMBER, "order_date": pa.date32(), "product_id": NUMBER}
    lab.table("inventory_orders", "order_number", sold, [
        {"order_number": 10001, "order_date": date(2016, 1, 16), "product_id": 102},
        {"order_number": 10002, "order_date": date(2016, 1, 17), "product_id": 105},
    ])  # fmt: skip
    product = {"id": NUMBER, "name": TEXT, "weight": pa.float64()}
    lab.table("inventory_products", "__lsn", {**product, "__op": TEXT, "__lsn": NUMBER, "__deleted": TEXT}, [
        {"id": 102, "name": "car battery", "weight": 8.1, "__op": "r", "__lsn": 1, "__deleted": "false"},
        {"id": 105, "name": "hammer", "weight": 0.875, "__op": "r", "__lsn": 2, "__deleted": "false"},
    ])  # fmt: skip
    topic = {"partition": pa.int32(), "offset": NUMBER, "value": ENVELOPE}
    lab.table("customers_topic", "offset", topic, [message(0, "r", None, SALLY), message(1, "r", None, GEORGE)])


def change_public_shapes(lab: Lab) -> None:
    lab.change("olist_orders", "order_id = 'e481'", order_status="'delivered'")
    lab.put(
        "olist_customers", {"customer_id": "b083", "customer_zip_code_prefix": "47813", "customer_city": "barreiras"}
    )
    lab.put("tracks", {"id": "ajs-3", "event": "Paid", "user_id": "u2", "received_at": at(2)})
    lab.put("users", {"id": "u2", "email": "two@example.com"})
    lab.change("customers", "id = 'c2'", default_billing_address_id="'a2'")
    lab.change("addresses", "id = 'a2'", city="'Graz'")
    lab.put("order_lines", {"order_line_id": 3, "product_id": 7, "sold_at": at(9)})
    lab.put(
        "prices", {"product_id": 7, "price": 12, "dbt_scd_id": "x3", "dbt_valid_from": at(8), "dbt_is_deleted": "True"}
    )
    lab.change("prices", "dbt_scd_id = 'x1'", price="11")
    lab.put("inventory_orders", {"order_number": 10003, "order_date": date(2016, 2, 19), "product_id": 102})
    lab.append("inventory_products",
        {"id": 102, "name": "12V car battery", "weight": 8.1, "__op": "u", "__lsn": 3, "__deleted": "false"},
        {"id": 105, "name": "hammer", "weight": 0.875, "__op": "d", "__lsn": 4, "__deleted": "true"},
    )  # fmt: skip
    anne = {**SALLY, "email": None}
    later = (message(2, "u", SALLY, anne), message(3, "d", GEORGE, None), message(4, None, None, None))
    lab.append("customers_topic", *later)


def test_first_jobs_for_public_shapes_of_tables_run_and_follow_changes_of_each_side(
    tmp_path: Path, interpreted: SparkSession
) -> None:
    lab = Lab(tmp_path / "shop", interpreted)
    make_public_shapes(lab)

    def guess(*names: str) -> None:
        done = write_first_job([lab.path(name) for name in names], lab.home, "dev")
        assert [note for note in done.notes if "envelope" not in note] == []

    for names in PUBLIC_SHAPES.values():
        guess(*names)
    first = lab.run_all()
    assert {job.job: job.status for job in first.jobs} == dict.fromkeys(PUBLIC_SHAPES, "created"), first.to_dict()
    guess("customers_topic_events")
    change_public_shapes(lab)
    second = lab.run_all()
    assert {job.job: (job.status, job.mode) for job in second.jobs} == {
        **dict.fromkeys(PUBLIC_SHAPES, ("updated", "incremental")),
        "customers_topic_events_checked": ("created", "bootstrap"),
    }, second.to_dict()

    def read(job: str, *columns: str) -> set[Any]:
        return {tuple(row[column] for column in columns) for row in lab.rows(job)}

    if SOAK:
        orders, cities = "olist_orders_with_olist_customers", "olist_customers_customer_city"
        assert read(orders, "order_id", "order_status", cities) == {
            ("e481", "delivered", "sao paulo"), ("53cd", "created", "barreiras"),
        }  # fmt: skip
        assert read("tracks_with_users", "id", "user_id", "users_email") == {
            ("ajs-1", "u1", "one@example.com"), ("ajs-2", "u1", "one@example.com"), ("ajs-3", "u2", "two@example.com"),
        }  # fmt: skip
    customers = lab.rows("customers_with_shipping_address_default_billing_address")
    assert {
        row["id"]: (row["default_billing_address_city"], [each["city"] for each in row["shipping_address_ids"]])
        for row in customers
    } == {"c1": ("Oslo", ["Oslo", "Graz"]), "c2": ("Graz", [])}
    assert read("order_lines_with_prices", "order_line_id", "prices_price") == {(1, 11), (2, 12), (3, None)}
    assert read("inventory_orders_with_inventory_products", "order_number", "inventory_products_name") == {
        (10001, "12V car battery"), (10002, None), (10003, "12V car battery"),
    }  # fmt: skip
    assert read("customers_topic_events", "offset", "__op", "__source_lsn", "id", "email") == {
        (0, "r", 100, 1001, "S@acme.com"), (1, "r", 101, 1002, "G@acme.com"),
        (2, "u", 102, 1001, None), (3, "d", 103, 1002, "G@acme.com"),
    }  # fmt: skip
    assert lab.rows("customers_topic_events_checked") == [{"id": 1001, "first_name": "S", "email": None}]
