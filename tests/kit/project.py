"""Write the files of a project."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
"""The repository."""

CONF = "lake: ./lake\n"

CUSTOMERS = """\
job: customers
sources:
  consents: {table: consents, key: id}
  accounts: {table: accounts, key: id}
from: consents
join:
  accounts: {kind: table, how: full}
select:
  id: key
  email: accounts.email
  ok: consents.ok
target: {table: customers}
"""

SHOP = """\
job: shop
sources:
  products: {table: products, key: id}
  merchants: {table: merchants, key: id}
from: products
join:
  merchants: {kind: foreign_key, on: products.merchant_id}
select: {id: products.id, title: products.title, merchant: merchants.name}
target: {table: shop}
"""

# Two jobs of a chain: the first holds people without a mail, the last reads what a job ``orders`` makes of the others.
CLEAN = "job: clean\nsources: {p: {table: people, key: id}}\nfrom: p\nexpectations: clean\ntarget: {table: clean}\n"
AFTER = """\
job: after
sources: {o: {table: orders, key: id}}
from: o
select: {id: o.id, mail: o.mail}
expectations: named
target: {table: after}
"""


def write_project(home: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files (path below ``home`` -> content), and the folders of jobs and conf; return ``home``."""
    for folder in ("jobs", "conf"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return home


def suite(name: str, *expectations: Mapping[str, Any]) -> str:
    """Return a suite as Great Expectations writes it."""
    return json.dumps({"name": name, "expectations": list(expectations)})


def hold_nulls(column: str, **more: Any) -> dict[str, Any]:
    """Return a rule that puts rows without a value into the quarantine."""
    meta = {"enrich": {"action": "quarantine"}}
    return {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": column}, **more, "meta": meta}


def files_below(directory: Path) -> set[str]:
    """Return all files, as paths relative to ``directory``."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
