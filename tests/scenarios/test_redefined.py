"""A full refresh of a job whose key or clustering columns have other names: Delta's settings name them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from enrich.delta.tables import read_state
from faults.stops import Crash, crash_on, hooked
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
    # The last one has all that may change, and a run after it.
    [*(pytest.param(*each, marks=pytest.mark.soak) for each in REDEFINED[:-1]), REDEFINED[-1]],
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
    detail = lab.spark.sql(f"DESCRIBE DETAIL delta.`{lab.path('made')}`").first()
    assert detail is not None
    assert detail["clusteringColumns"] == [], "the job has no clustering any more"


FED = JOB.replace("clustered}}}", "clustered}, change_feed: true}}").replace("expectations: named\n", "{more}")
SIZED = "id: items.id, name: items.name, size: '{}'"


def run_fed(lab: Lab) -> None:
    """Run a job whose target has a change feed, and is clustered by size."""
    rows: list[dict[str, Any]] = [{"id": each, "name": f"n{each}", "size": each} for each in range(1, 4)]
    lab.table("items", "id", {"id": pa.int64(), "name": pa.string(), "size": pa.int64()}, rows)
    lab.job(write_fed("items.size"))
    assert lab.run().status == "created"


def write_fed(size: str, more: str = "") -> str:
    return FED.format(select=SIZED.format(size), clustered=", cluster_by: [size]", more=more)


def list_told(lab: Lab, version: int | None) -> list[tuple[str, int, int]]:
    """Return what the target's feed tells of one version: kind, key and size."""
    assert version is not None
    feed = lab.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version)
    rows = feed.option("endingVersion", version).load(lab.path("made")).collect()
    return sorted((row["_change_type"], row["id"], row["size"]) for row in rows)


def test_a_full_refresh_tells_the_readers_of_a_target_what_differs_alone(prepared: Prepared) -> None:
    lab = prepared("fed", run_fed)
    lab.job(write_fed("if(items.id = 2, items.size + 10, items.size)", "where: items.id < 3\n"))
    assert lab.run().exit_code == 5
    # The rows of another writer go, also the copy of one that is right.
    lab.spark.sql(f"INSERT INTO delta.`{lab.path('made')}` VALUES (1, 'n1', 1), (777, 'foreign', 1)")
    done = lab.run(full_refresh=True)
    assert (done.mode, done.strategy, done.state and done.state.rows) == ("full_refresh", "merge", 2), done.error
    assert [(row["id"], row["size"]) for row in lab.rows("made")] == [(1, 1), (2, 12)]
    told = list_told(lab, done.target_version)
    assert [each for each in told if each[1] == 2] == [("update_postimage", 2, 12), ("update_preimage", 2, 2)]
    assert {3, 777} <= {key for kind, key, _ in told if kind == "delete"} <= {1, 3, 777}
    detail = lab.spark.sql(f"DESCRIBE DETAIL delta.`{lab.path('made')}`").first()
    assert detail is not None
    assert detail["clusteringColumns"] == ["size"]
    assert lab.run().status == "unchanged"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(write_fed("cast(items.size AS string)"), marks=pytest.mark.soak),
        write_fed("items.size', twice: 'items.size * 2"),
        write_fed("items.size").replace("size]", "name]"),
    ],
    ids=["type", "column", "clustering"],
)
def test_a_table_that_cannot_hold_the_rows_as_they_are_is_written_anew(prepared: Prepared, text: str) -> None:
    lab = prepared("fed", run_fed)
    lab.job(text + "where: items.id < 3\n")
    done = lab.run(full_refresh=True)
    assert (done.strategy, len(lab.rows("made"))) == ("rewrite", 2), done.error
    assert lab.run().status == "unchanged"


READS = "sources: {made: {table: made, key: id}}\nfrom: made\n"
MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"


def test_a_target_with_a_feed_and_column_mapping_takes_other_columns(prepared: Prepared) -> None:
    """Delta refuses that in one commit: the feed is off in it, so that readers compare the rows at both sides."""
    lab = prepared("fed", run_fed)
    lab.job(f"job: seen\n{READS}select: {{id: made.id, name: made.name}}\ntarget: {{table: seen}}\n")
    lab.job(f"job: past\nkind: history\n{READS}history: {{columns: [name]}}\ntarget: {{table: past}}\n")
    lab.spark.sql(f"ALTER TABLE delta.`{lab.path('made')}` SET TBLPROPERTIES ({MAPPED})")
    assert lab.run_all().exit_code == 0

    def redefine(select: str) -> None:
        lab.job(FED.format(select=select, clustered=", cluster_by: [id]", more=""))
        assert lab.run("made").exit_code == 5

    def agree(names: set[tuple[int, str]], *columns: str) -> None:
        made, rows = read_state(lab.path("made")), [*lab.rows("seen"), *lab.rows("made")]
        assert (made.has_change_feed, tuple(made.columns)) == (True, columns)
        assert [{(row["id"], row["name"]) for row in rows[at : at + len(names)]} for at in (0, len(names))] == [
            names
        ] * 2

    redefine("id: items.id, name: \"concat(items.name, '!')\", total: items.size")  # one column goes, and one comes
    done = lab.run("made", full_refresh=True)
    assert (done.strategy, done.error) == ("rewrite", None)
    lab.put("items", {"id": 4, "name": "new", "size": 4})
    assert (lab.run("made").counts.inserted, lab.run("seen").exit_code) == (1, 0)
    agree({(1, "n1!"), (2, "n2!"), (3, "n3!"), (4, "new!")}, "id", "name", "total")
    assert "`enrich run past --allow-gap`" in str(lab.run("past").error)
    assert lab.run("past", allow_gap=True).counts.inserted == 4

    redefine("id: items.id, name: items.name, total: cast(items.size AS string)")  # another type, and runs that die
    for point in ("overwrite.before", "overwrite.after"):
        with pytest.raises(Crash), hooked(crash_on(point)):
            lab.run("made", full_refresh=True)
        assert not read_state(lab.path("made")).has_change_feed
    assert lab.run_all("made", "seen").exit_code == 0
    agree({(1, "n1"), (2, "n2"), (3, "n3"), (4, "new")}, "id", "name", "total")


def test_what_others_took_away_is_counted_before_their_rows_go(prepared: Prepared) -> None:
    lab = prepared("fed", run_fed)
    lab.job(write_fed("items.size", "rules: [{rule: mass_change, at_most: 0.5}]\n"))
    lab.spark.sql(f"INSERT INTO delta.`{lab.path('made')}` VALUES (777, 'foreign', 1)")
    done = lab.run(full_refresh=True)
    assert (done.strategy, done.counts.deleted) == ("rewrite", 1), done.error
