"""An executor dies and takes rows with it that a step has computed: they are computed anew, once."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from faults.stops import hooked
from kit.lab import Lab

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
