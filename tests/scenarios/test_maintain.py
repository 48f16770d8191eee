"""``enrich maintain`` and OPTIMIZE after a run's own commit: files change, rows and cursors do not."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import enrich
from enrich.base.result import Extent
from enrich.delta import extents, locks, upkeep
from enrich.delta.tables import open_log, query_rows
from enrich.operations.maintenance import MaintainResult, Upkeep
from faults.stops import Crash, Place, crash_at
from kit.lab import Lab, Prepared
from kit.project import CONF, SHOP

DOWNSTREAM = """job: titles
sources: {shop: {table: shop, key: id}}
from: shop
select: {id: shop.id, title: shop.title}
target: {table: titles, cluster_by: [id]}
"""
KEEPS_NOTHING = "'delta.deletedFileRetentionDuration' = 'interval 0 hours'"


def _build(lab: Lab) -> None:
    """Build a shop and a job that reads it, after two runs of which the second has marked rows as gone."""
    _set_optimize(lab, "after_commit: false")
    lab.table("merchants", "id", {"id": pa.int64(), "name": pa.string()})
    lab.put("merchants", *[{"id": number, "name": f"merchant {number}"} for number in (1, 2, 3)])
    lab.table("products", "id", {"id": pa.int64(), "title": pa.string(), "merchant_id": pa.int64()})
    lab.put("products", *[{"id": each, "title": f"product {each}", "merchant_id": each % 3} for each in range(1, 9)])
    lab.job(SHOP)
    lab.job(DOWNSTREAM)
    assert lab.run_all().exit_code == 0
    _change(lab, 1)
    assert lab.run_all().exit_code == 0


def _set_optimize(lab: Lab, settings: str) -> None:
    (lab.home / "conf" / "dev.yml").write_text(f"{CONF}optimize: {{{settings}}}\n")


def _change(lab: Lab, product: int) -> None:
    lab.put("products", {"id": product, "title": f"new {product}", "merchant_id": 1})


@pytest.fixture
def shop(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Give the shop; every table counts as large, so that deletion vectors are written."""
    monkeypatch.setattr(extents, "SMALL_TABLE", -1)
    return prepared("maintained shop", _build)


def _maintain(lab: Lab, **how: Any) -> MaintainResult:
    return enrich.maintain(enrich.load_project(lab.home), spark=lab.spark, **how)


def _select(found: MaintainResult, name: str) -> Upkeep:
    return next(each for each in found.tables if Path(each.table).name == name)


def _versions(lab: Lab) -> dict[str, int]:
    return {name: DeltaTable(lab.path(name)).version() for name in ("shop", "titles", "products", "merchants")}


def test_jobs_go_on_after_maintenance(shop: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("enrich.operations.maintenance.MARGIN", 0)
    for name in ("shop", "titles"):
        shop.spark.sql(f"ALTER TABLE delta.`{shop.path(name)}` SET TBLPROPERTIES ({KEEPS_NOTHING})")
    for name in ("products", "merchants"):
        DeltaTable(shop.path(name)).alter.set_table_properties(
            {"delta.deletedFileRetentionDuration": "interval 0 hours"}
        )
    _change(shop, 2)
    shop.drop("products", "id = 3")
    assert shop.run("shop").exit_code == 0
    _change(shop, 4)  # the shop has not seen this, and the titles not what came before
    rows, before = shop.rows("shop"), _versions(shop)

    done = _maintain(shop, sources=True)
    kept = _select(done, "shop")
    assert done.exit_code == 5, "jobs still need the feeds"
    assert (kept.rewritten.files > 1, kept.version) == (True, before["shop"] + 1)
    assert kept.became is not None
    assert kept.became.files == 1
    assert (shop.rows("shop"), len(query_rows("SELECT 1 FROM this", this=open_log(shop.path("shop"))))) == (
        rows,
        len(rows),
    )
    products = _select(done, "products")
    for held, job in ((kept, "titles"), (products, "shop")):
        assert (held.removed.files, held.status, f"job '{job}' has yet to read" in str(held.error)) == (
            0,
            "failed",
            True,
        )
    assert (_select(done, "titles").version, _select(done, "titles").became) == (before["titles"] + 1, Extent(1, ANY))

    found = shop.run_all()
    assert [(job.job, job.status, job.mode) for job in found.jobs] == [
        ("shop", "updated", "incremental"),
        ("titles", "updated", "incremental"),
    ]
    assert shop.rows("titles") == [{"id": row["id"], "title": row["title"]} for row in shop.rows("shop")]

    assert _select(_maintain(shop), "shop").version is not None
    assert [(job.status, job.strategy) for job in shop.run_all().jobs] == [
        ("unchanged", "nothing"),
        ("unchanged", "cursor"),  # its source has a new version, without changes
    ]
    done = _maintain(shop, sources=True)
    assert done.exit_code == 0
    for name in ("shop", "products"):  # nobody needs the past any more
        assert _select(done, name).removed.files > 0
        assert _select(done, name).removed.bytes > 0
    _change(shop, 5)
    assert [(job.status, job.error) for job in shop.run_all().jobs] == [("updated", None), ("updated", None)]
    titles = {name: {(row["id"], row["title"]) for row in shop.rows(name)} for name in ("products", "shop", "titles")}
    assert titles["products"] == titles["shop"] == titles["titles"]


def test_what_cannot_be_kept_is_said(shop: Lab) -> None:
    with locks.hold_lock(str(Path(shop.path("_enrich"))), "shop", "other"):
        found = _maintain(shop, jobs=["shop"])
    assert (found.exit_code, _select(found, "shop").status) == (4, "locked")


def test_a_commit_that_leaves_many_small_files_is_followed_by_optimize(
    shop: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(extents, "SMALL_TABLE", 8 * 2**20)
    _set_optimize(shop, "")
    _change(shop, 2)
    first = shop.run("shop")
    assert (first.status, first.optimized, "optimize" in first.stages) == ("updated", None, False)

    _set_optimize(shop, "small_files: 2")
    _change(shop, 3)
    planned = enrich.plan(enrich.load_project(shop.home), jobs=["shop"], spark=shop.spark).jobs[0].forecast
    assert planned is not None
    assert planned.optimize is not None
    assert "small_files is 2" in planned.optimize
    rows = shop.rows("shop")
    found = shop.run_all()
    done = found.jobs[0].optimized
    assert (found.exit_code, done is not None) == (0, True)
    assert done is not None
    assert (done.version, found.jobs[0].target_version) == (DeltaTable(shop.path("shop")).version(), done.version - 1)
    assert (done.added.files, len(shop.rows("shop")), found.to_dict()["jobs"][0]["optimized"]["version"]) == (
        *(1, len(rows)),
        done.version,
    )
    assert shop.log("shop")[0]["operation"] == "OPTIMIZE"
    assert [(job.status, job.strategy) for job in shop.run_all().jobs] == [("unchanged", "nothing")] * 2

    monkeypatch.setattr(extents, "SMALL_TABLE", -1)  # the merge leaves a second file and deletion vectors
    for number, point in ((6, "optimize.before"), (7, "optimize.after")):
        _change(shop, number)
        with crash_at(Place(point)), pytest.raises(Crash):
            shop.run("shop")
        again = shop.run("shop")
        assert (again.status, again.error) == ("unchanged", None)
        assert f"new {number}" in {row["title"] for row in shop.rows("shop")}

    def fail(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(upkeep, "optimize_table", fail)
    monkeypatch.setattr(extents, "find_need", lambda *_: "always")
    _change(shop, 4)
    with caplog.at_level(logging.WARNING, "enrich"):
        failed = shop.run("shop")
    assert (failed.status, failed.exit_code, failed.optimized) == ("updated", 0, None)
    assert "OPTIMIZE failed (OSError)" in caplog.text

    _set_optimize(shop, "small_files: 2, after_commit: false")
    monkeypatch.undo()
    _change(shop, 5)
    assert (shop.run("shop").error, "OPTIMIZE" in shop.log("shop")[0]["operation"]) == (None, False)
