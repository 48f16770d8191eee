"""The examples of the page that binds query jobs, as they stand there, and the columns of the tables that they name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

FOLDER = Path(__file__).with_suffix("")
EXAMPLES = {str(path.relative_to(FOLDER)): path.read_text("utf-8") for path in FOLDER.rglob("*.yml")}
"""File -> its text; the blocks of the page."""

PHRASES = {
    "customers": """\
job: customers
sources: {customers: {table: customer_events}, more: {table: countries, key: country_code, doubled_keys: quarantine}}
from: customers
join: {more: {kind: foreign_key, on: customers.country_code}}
target: {table: customers}
""",
    "dealers": "job: dealers\nsources: {merchants: merchants}\nfrom: merchants\ntarget: {table: dealers}\n",
    "prices": """\
job: prices
sources: {products: {table: products, key: product_id}, terms: {table: terms, key: [product_id, _fivetran_start]}}
from: products
join:
  terms:
    kind: as_of
    on: products.product_id
    at: products.sold_at
    valid_from: _fivetran_start
    valid_to: {column: _fivetran_end, inclusive: true}
target: {table: prices}
""",
    "past": """\
job: past
kind: history
sources: {merchants: merchants}
from: merchants
history: {on_delete: erase}
target: {table: past}
""",
}
"""What the page says in its sentences, each in the smallest job that has it."""

TEXT, MOMENT = pa.string(), pa.timestamp("us", "UTC")
COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "products": {
        "product_id": TEXT, "title": TEXT, "merchant_id": TEXT, "price": pa.decimal128(10, 2), "sold_at": MOMENT
    },
    "merchants": {"merchant_id": TEXT, "name": TEXT, "country_code": TEXT, "email": TEXT},
    "countries": {"country_code": TEXT, "code": TEXT},
    "orders_enriched": {
        "order_id": TEXT, "merchant_id": TEXT, "amount": pa.decimal128(12, 2), "ordered_at": MOMENT,
        "customer_id": TEXT, "status": TEXT,
    },
    "terms": {"product_id": TEXT, "_fivetran_start": MOMENT, "_fivetran_end": MOMENT, "discount": pa.int32()},
    "customers_log": {"customer_id": TEXT, "country_code": TEXT, "lsn": pa.int64(), "op": TEXT},
}  # fmt: skip
"""Table -> its columns; ``customers_log`` stands for the page's ``cdc.customers``, which is a name of a catalog."""
