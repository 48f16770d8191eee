"""Processes that begin and end with the step: a run on one changed row, a run with nothing to do, a bare script.

The tables are written without Spark, so that nothing but the processes under measurement starts a JVM.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from costs import Cost, measure_command
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from shapes import PRODUCTS
from worlds import write_project

from enrich.spark.archive import build_archive
from enrich.spark.jars import find_delta_jars

ROWS, MERCHANTS = 1000, 100
TEN = [f"job_{number}" for number in range(10)]
HERE = Path(__file__).parent

Record = Callable[[str, str, Cost], None]
"""World, rival, cost."""


def measure_cold(base: Path, rounds: int, record: Record) -> None:
    """Measure ``rounds`` rounds after one that is not counted."""
    jobs = (PRODUCTS.name, *TEN)
    write_project(base, {name: PRODUCTS.job.replace(PRODUCTS.name, name) for name in jobs})
    lake = base / "lake"
    _write_tables(lake)
    build_archive()
    jars = os.pathsep.join(map(str, find_delta_jars()))
    run = [sys.executable, "-m", "enrich", "--project-dir", str(base), "run", "--quiet"]
    enrich, ten = [*run, PRODUCTS.name], [*run, *TEN]
    measure_command(run, lake)  # the first runs
    for number in range(rounds + 1):
        DeltaTable(lake / "products").update(updates={"price": "price + 1"}, predicate=f"product_id = {number}")
        bare = [sys.executable, str(HERE / "bare.py"), str(lake)]
        version = str(DeltaTable(lake / "products").version())
        commands = {
            "enrich": enrich,
            "bare": [*bare, "bare", version, jars],
            "bare_fit": [*bare, "bare_fit", version, jars, "--fit"],
            "ten jobs": ten,
        }
        names = list(commands)
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            folder = lake / {"enrich": PRODUCTS.name, "ten jobs": ""}.get(name, name)
            _keep(record, number, name, measure_command(commands[name], folder)[0])
        # With a Java that is not there, a run that needed one would fail.
        without = {**os.environ, "JAVA_HOME": "/nowhere"}
        _keep(record, number, "nothing", measure_command(enrich, lake / PRODUCTS.name, without)[0])
        _check(lake)


def _keep(record: Record, number: int, name: str, cost: Cost) -> None:
    if number:
        record("cold", name, cost)


def _write_tables(lake: Path) -> None:
    """Write the two sources, and the targets of the bare scripts as they should be now."""
    feed = {"delta.enableChangeDataFeed": "true"}
    ids = list(range(ROWS))
    products: dict[str, Any] = {
        "product_id": ids,
        "title": [f"product {number}" for number in ids],
        "price": [number / 100 for number in ids],
        "stock": pa.array([number % 90 for number in ids], pa.int32()),
        "merchant_id": [number % MERCHANTS for number in ids],
    }
    names = [f"merchant number {number}" for number in range(MERCHANTS)]
    merchants = {"merchant_id": list(range(MERCHANTS)), "name": names, "country": [0] * MERCHANTS}
    write_deltalake(lake / "products", pa.table(products), configuration=feed)
    write_deltalake(lake / "merchants", pa.table(merchants), configuration=feed)
    joined = {**products, "merchant_name": [names[number % MERCHANTS] for number in ids]}
    for name in ("bare", "bare_fit"):
        write_deltalake(lake / name, pa.table(joined))


def _check(lake: Path) -> None:
    """End the benchmark unless all targets are what the sources say."""
    query = QueryBuilder()
    for name in ("products", "merchants", PRODUCTS.name, *TEN, "bare", "bare_fit"):
        query.register(name, DeltaTable(lake / name))
    joined = (
        "SELECT p.*, m.name AS merchant_name FROM products p LEFT JOIN merchants m ON p.merchant_id = m.merchant_id"
    )
    right = _rows(query, f"SELECT {', '.join(PRODUCTS.columns)} FROM ({joined}) x")
    for name in (PRODUCTS.name, *TEN, "bare", "bare_fit"):
        if _rows(query, f"SELECT {', '.join(PRODUCTS.columns)} FROM {name}") != right:
            raise SystemExit(f"WRONG: {name} is not what the sources say")


def _rows(query: QueryBuilder, text: str) -> list[Any]:
    found = pa.table(query.execute(f"{text} ORDER BY product_id"))
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def measure_demo(base: Path, record: Record) -> None:
    """Play what ``make demo`` plays."""
    command = [sys.executable, "-m", "enrich", "demo", str(base)]
    record("demo", "enrich", measure_command(command, base)[0])
