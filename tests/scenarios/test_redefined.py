"""A full refresh of a job whose key or clustering columns have other names: Delta's settings name them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from faults.stops import hooked
from kit.lab import Lab, Prepared
from kit.project import hold_nulls

JOB = """\
job: made
sources: {{items: {{table: items, key: id}}}}
from: items
select: {{{select}}}
target: {{table: made{clustered}}}
expectations: named
"""
STATISTICS = "delta.dataSkippingStatsColumns"


def measured_columns(lab: Lab, table: str) -> set[str]:
    """Return the columns of which the log shows the least values, in the files that a table has now."""
    found = DeltaTable(lab.path(table)).get_add_actions(flatten=True)
    return {name.removeprefix("min.") for name in found.schema.names if name.startswith("min.")}


def run_made(lab: Lab) -> None:
    """Run a job with a quarantined row, whose target is clustered by size."""
    kinds = {"id": pa.int64(), "name": pa.string(), "size": pa.int64()}
    rows: list[dict[str, Any]] = [{"id": 1, "name": "a", "size": 3}, {"id": 2, "name": None, "size": 4}]
    lab.table("items", "id", kinds, rows)
    lab.suite("named", hold_nulls("name"))
    lab.job(JOB.format(select="id: items.id, name: items.name, size: items.size", clustered=", cluster_by: [size]"))
    assert lab.run().status == "created"


REDEFINED = (
    ("nr: items.id, name: items.name, size: items.size", "size", "`nr`,`size`"),
    ("id: items.id, name: items.name", "name", "`id`,`name`"),
    ("nr: items.id, name: items.name", "", "`nr`"),
    ("nr: items.id, size: items.size, name: items.name", "nr,size", "`nr`,`size`"),
)
"""What the job shows now, what clusters its target, and of which columns the log shows the least values."""


@pytest.mark.parametrize(
    ("select", "clustered", "measured"),
    # The last one has all that may change, and a run after it; the one before it has no clustering any more.
    [*(pytest.param(*each, marks=pytest.mark.soak) for each in REDEFINED[:2]), *REDEFINED[2:]],
)
def test_a_full_refresh_takes_other_columns(prepared: Prepared, select: str, clustered: str, measured: str) -> None:
    lab = prepared("made", run_made)
    lab.job(JOB.format(select=select, clustered=f", cluster_by: [{clustered}]" if clustered else ""))
    assert lab.run().exit_code == 5
    done = lab.run(full_refresh=True)
    assert (done.status, done.strategy) == ("updated", "rewrite"), done.error
    wanted = {"id": 2, "nr": 2, "name": None, "size": 4}
    (held,) = lab.rows("made__quarantine")
    assert {name: value for name, value in held.items() if name in wanted} == {
        name.split(":")[0]: wanted[name.split(":")[0]] for name in select.split(", ")
    }
    detail = lab.spark.sql(f"DESCRIBE DETAIL delta.`{lab.path('made')}`").first()
    assert detail is not None
    assert sorted(detail["properties"][STATISTICS].split(",")) == measured.split(",")
    assert ",".join(detail["clusteringColumns"]) == clustered

    known = {name.strip("`") for name in measured.split(",")}
    assert measured_columns(lab, "made") == known
    assert {"nr" if "nr" in known else "id"} <= measured_columns(lab, "made__quarantine") <= known

    # The commits about the settings are no foreign ones, and the next run goes on from the cursor.
    assert lab.run().status == "unchanged"
    if clustered == "nr,size":
        lab.append("items", {"id": 3, "name": "c", "size": 5})
        after = lab.run()
        assert (after.status, after.counts.inserted) == ("updated", 1), after.error


def test_what_an_operator_has_taken_out_of_the_log_stays_out(lab: Lab) -> None:
    """`enrich doctor` advises it where the log shows e-mail addresses."""
    lab.table("people", "mail", {"mail": pa.string(), "size": pa.int64()}, [{"mail": "a@example.com", "size": 1}])
    job = "job: made\nsources: {people: {table: people, key: mail}}\nfrom: people\ntarget: {table: made}\n"
    lab.job(job)
    assert lab.run().status == "created"
    for statement in (
        "SET TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '0')",
        f"UNSET TBLPROPERTIES ('{STATISTICS}')",
    ):
        lab.spark.sql(f"ALTER TABLE delta.`{lab.path('made')}` {statement}")
    lab.job(f"{job}where: people.size > 0\n")
    done = lab.run(full_refresh=True)
    assert (done.strategy, measured_columns(lab, "made")) == ("rewrite", set()), done.error


def test_rows_of_another_writer_that_a_refresh_overwrote_are_no_drift(prepared: Prepared) -> None:
    lab = prepared("made", run_made)
    lab.job(JOB.format(select="id: items.id, name: items.name, more: items.size", clustered=""))

    def insert(point: str) -> None:
        if point == "overwrite.before":
            lab.spark.sql(f"INSERT INTO delta.`{lab.path('made')}` VALUES (777, 'foreign', 1)")

    with hooked(insert):
        assert lab.run(full_refresh=True).status == "updated"
    assert [row["id"] for row in lab.rows("made")] == [1]
    assert lab.run().status == "unchanged"
