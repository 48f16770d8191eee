"""The examples of the page that binds query jobs load, and fit tables with the columns that they name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

import enrich
from enrich.answers.inspection import validate
from enrich.base.names import CatalogName
from kit.lab import FEED
from kit.project import write_project
from kit.query_page import COLUMNS, EXAMPLES, PHRASES


def test_every_example_fits_its_tables(tmp_path: Path) -> None:
    phrases = {f"jobs/{name}.yml": text for name, text in PHRASES.items()}
    tables = EXAMPLES["tables.yml"].replace("cdc.customers", "customers_log")
    home = write_project(tmp_path, {**EXAMPLES, **phrases, "tables.yml": tables, "conf/here.yml": "lake: ./lake\n"})
    for name, columns in COLUMNS.items():
        DeltaTable.create(str(home / "lake" / name), pa.schema(list(columns.items())), configuration=FEED)
    project = enrich.load_project(home, target="here")
    assert project.jobs.keys() == {"products_with_merchant", "revenue_by_merchant", *PHRASES}
    assert validate(project) == []


def test_the_places_are_those_of_the_page(tmp_path: Path) -> None:
    project = enrich.load_project(write_project(tmp_path, EXAMPLES))
    assert project.location("products") == CatalogName(("prod", "silver", "products"))
    assert project.location("revenue_by_merchant") == f"{tmp_path}/lake/revenue_by_merchant"
