"""An executor dies and takes rows with it that a step has computed: they are computed anew, once."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import enrich
from enrich.steps import run
from faults.stops import hooked
from kit.lab import Lab

pytestmark = pytest.mark.soak

COLUMNS = {"id": pa.int64(), "name": pa.string()}


def losing(lab: Lab, times: int) -> Callable[[str], None]:
    """Return a hook that takes away what Spark keeps, as lost executors do, after the difference is computed."""
    left = times

    def hook(name: str) -> None:
        nonlocal left
        if name == "staged.after" and left:
            left -= 1
            for rows in lab.spark.sparkContext._jsc.getPersistentRDDs().values():
                rows.unpersist(True)

    return hook


def test_rows_that_an_executor_takes_with_it_are_computed_anew_once(lab: Lab) -> None:
    lab.table("items", "id", COLUMNS, [{"id": key, "name": f"name{key}"} for key in (1, 2, 3)])
    lab.job("job: kept\nsources:\n  items: {table: items, key: id}\nfrom: items\ntarget: {table: kept}\n")
    with hooked(losing(lab, 1)):
        first = lab.run()
    assert (first.exit_code, first.status, first.counts.inserted) == (0, "created", 3), first.error
    lab.put("items", {"id": 1, "name": "new"})
    with hooked(losing(lab, 2)):
        second = lab.run()
    assert (second.exit_code, second.status) == (1, "failed")
    assert "executors" in str(second.error)
    assert len(lab.log("kept")) == 1
    with hooked(losing(lab, 1)):
        third = lab.run()
    assert (third.exit_code, third.status, third.counts.updated) == (0, "updated", 1), third.error
    assert lab.rows("kept") == lab.rows("items")

    lab.drop("kept", "id = 2")
    project = enrich.load_project(lab.home)
    with hooked(losing(lab, 1)):
        (check,) = enrich.verify(project, repair=True, spark=lab.spark).jobs
    assert (check.exit_code, check.status, check.target.missing) == (0, "repaired", 1), check.error
    assert lab.rows("kept") == lab.rows("items")


def test_rows_that_large_lookups_are_filtered_by_are_computed_anew_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They are kept without their past: an executor that dies between two of their readers takes them with it."""
    lost: list[DataFrame] = []

    def lose_first(frame: DataFrame) -> DataFrame:
        kept = compute_once(frame)
        if not lost:
            lost.append(kept)
            kept.count()
            for rows in lab.spark.sparkContext._jsc.getPersistentRDDs().values():
                rows.unpersist(True)
        return kept

    compute_once = run.compute_once
    monkeypatch.setattr(run, "compute_once", lose_first)
    monkeypatch.setattr(run, "LARGE_LOOKUP", 0)
    lab.table("towns", "name", {"name": pa.string()}, [{"name": "owner1"}, {"name": "owner2"}])
    lab.table("owners", "id", COLUMNS, [{"id": key, "name": f"owner{key}"} for key in (1, 2)])
    lab.table("items", "id", {"id": pa.int64(), "owner": pa.int64()}, [{"id": key, "owner": 1} for key in (1, 2, 3)])
    lab.job(
        "job: owned\nsources:\n  items: {table: items, key: id}\n  owners: {table: owners, key: id}\n"
        "  towns: {table: towns, key: name}\nfrom: items\n"
        "join:\n  owners: {kind: foreign_key, on: items.owner}\n  towns: {kind: foreign_key, on: owners.name}\n"
        "select: {id: items.id, owner: towns.name}\ntarget: {table: owned}\n"
    )
    assert lab.run().status == "created"
    lab.put("items", {"id": 1, "owner": 2})
    with caplog.at_level(logging.INFO, "enrich"):
        again = lab.run()
    assert (again.exit_code, again.status, again.counts.updated) == (0, "updated", 1), again.error
    assert "an executor was lost with computed rows" in caplog.text
    assert {row["id"]: row["owner"] for row in lab.rows("owned")} == {1: "owner2", 2: "owner1", 3: "owner1"}
