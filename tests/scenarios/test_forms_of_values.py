"""Values in several forms: equal ones that a function tells apart, and texts that have a length in their table."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import enrich
from kit.lab import Lab

JOB = """\
job: shown
sources: {items: {table: items, key: id}}
from: items
select: {id: items.id, x: items.x, flags: items.flags, names: map_keys(items.flags), text: cast(items.x as string)}
target: {table: shown}
"""


def test_a_change_of_form_alone_reaches_what_is_computed_from_it(lab: Lab) -> None:
    table = f"delta.`{lab.path('items')}`"
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    lab.spark.sql(f"CREATE TABLE {table} (id int, x double, flags map<string, int>) USING delta {feed}")
    lab.spark.sql(f"INSERT INTO {table} VALUES (1, 0.0D, map('a', 1, 'b', 2)), (2, 1.0D, map('a', 1))")
    lab.job(JOB)
    lab.run("shown")
    lab.spark.sql(f"UPDATE {table} SET x = -0.0D, flags = map('b', 2, 'a', 1) WHERE id = 1")
    done = lab.run("shown")
    assert (done.status, done.counts.updated) == ("updated", 1)
    first = next(row for row in lab.rows("shown") if row["id"] == 1)
    assert (first["names"], first["text"]) == (["b", "a"], "-0.0")
    found = enrich.verify(enrich.load_project(lab.home), spark=lab.spark)
    assert [check.status for check in found.jobs] == ["equal"]


def test_a_change_of_form_alone_writes_no_row_that_stays_equal(lab: Lab) -> None:
    table = f"delta.`{lab.path('items')}`"
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    lab.spark.sql(f"CREATE TABLE {table} (id int, x double, flags map<string, int>) USING delta {feed}")
    lab.spark.sql(f"INSERT INTO {table} VALUES (1, 0.0D, map('a', 1, 'b', 2))")
    lab.job(JOB.replace(", names: map_keys(items.flags), text: cast(items.x as string)", ""))
    lab.run("shown")
    lab.spark.sql(f"UPDATE {table} SET x = -0.0D, flags = map('b', 2, 'a', 1) WHERE id = 1")
    done = lab.run("shown")
    assert (done.status, done.strategy) == ("unchanged", "cursor")


@pytest.mark.parametrize(("digits", "places"), [(20, 0), (38, 18), (15, 4)])
def test_decimal_keys_of_tables_that_delta_rs_writes(lab: Lab, digits: int, places: int) -> None:
    """It keeps the least and greatest of long decimals as fractions in the log: literal ranges would miss them."""
    key = Decimal(int("1234567890123456789012345678901234567"[:digits])).scaleb(-places)
    kind = pa.decimal128(digits, places)
    lab.table("left", "id", {"id": kind, "v": pa.int64()}, [{"id": key, "v": 1}])
    lab.table("right", "id", {"id": kind, "w": pa.int64()}, [{"id": key, "w": 1}])
    lab.job(
        "job: both\nsources: {l: {table: left, key: id}, r: {table: right, key: id}}\nfrom: l\n"
        "join: {r: {kind: table, how: left}}\nselect: {id: l.id, v: l.v, w: r.w}\ntarget: {table: both}\n"
    )
    lab.run("both")
    lab.put("right", {"id": key, "w": 2})
    assert lab.run("both").status == "updated"
    assert lab.rows("both") == [{"id": key, "v": 1, "w": 2}]
    lab.append("left", {"id": key, "v": 9})
    assert lab.run("both").status == "blocked", "two rows have the key"


KINDS = {
    "plain": "",
    "mirror": "kind: mirror\nmirror: {value: mail, conflict: fail}\n",
    "history": "kind: history\nhistory: {start: beginning}\n",
}


def test_the_length_of_a_varchar_stays_with_its_source(lab: Lab) -> None:
    """It becomes longer there, and the target takes longer texts, too."""
    table = f"delta.`{lab.path('items')}`"
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    lab.spark.sql(f"CREATE TABLE {table} (id int, mail varchar(3), code char(2)) USING delta {feed}")
    lab.spark.sql(f"INSERT INTO {table} VALUES (1, 'a', 'x'), (2, 'b', 'yy')")
    for name, kind in KINDS.items():
        head = f"job: {name}\nsources: {{items: {{table: items, key: id}}}}\nfrom: items\n"
        lab.job(f"{head}{kind}target: {{table: {name}}}\n")
    created = lab.run_all()
    assert [(job.status, job.error) for job in created.jobs] == [("created", None)] * 3
    lab.spark.sql(f"ALTER TABLE {table} ALTER COLUMN mail TYPE varchar(200)")
    lab.spark.sql(f"INSERT INTO {table} VALUES (3, 'c@example.com', 'z')")
    updated = lab.run_all()
    assert [(job.status, job.error) for job in updated.jobs] == [("updated", None)] * 3
    assert [{row["mail"] for row in lab.rows(name)} for name in KINDS] == [{"a", "b", "c@example.com"}] * 3

    # A column that comes later, and a table that is written anew.
    lab.spark.sql(f"ALTER TABLE {table} ADD COLUMNS (note varchar(3))")
    lab.spark.sql(f"INSERT INTO {table} VALUES (4, 'd', 'z', 'n')")
    assert [(job.status, job.error) for job in lab.run_all().jobs if job.job != "mirror"] == [("updated", None)] * 2
    lab.job((lab.home / "jobs" / "history.yml").read_text().replace("{start: beginning}", "{valid_to: until}"))
    rewritten = lab.run("history", full_refresh=True)
    assert rewritten.strategy == "rewrite", rewritten.error
    fields = [field for name in KINDS for field in lab.spark.read.format("delta").load(lab.path(name)).schema.fields]
    assert [field.metadata for field in fields if field.metadata] == []
