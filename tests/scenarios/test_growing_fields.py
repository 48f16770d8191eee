"""Sources whose structs gain and lose fields, in lists and maps too, and that have columns without a type."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import enrich
from enrich.answers import inspection
from faults.shop import SOAK
from kit.lab import Lab
from kit.project import hold_nulls

PERSONS = "sources: {p: {table: persons, key: id}}\nfrom: p\n"
VISITS = "sources: {v: {table: visits, key: id}, p: {table: persons, key: id}}\nfrom: v\n"
JOBS = {
    "field": PERSONS + "select: {id: p.id, city: p.home.city, numbers: p.phones.number}\n",
    "whole": PERSONS,
    "lookup": VISITS + "join: {p: {kind: foreign_key, on: v.person}}\nselect: {id: v.id, home: p.home}\n",
    "lists": VISITS + "join: {p: {kind: list, elements: v.persons}}\nselect: {id: v.id, items: p}\n",
    "mirror": "kind: mirror\n" + PERSONS + "mirror: {value: [name], columns: [home, notes], conflict: first}\n",
    "name": "kind: history\n" + PERSONS + "history: {columns: [name]}\n",
    "past": "kind: history\nexpectations: named\n" + PERSONS,
}
if not SOAK:  # lists that gain fields are in test_one_target.py and test_outgrown.py, too
    JOBS = {name: text for name, text in JOBS.items() if name not in ("lists", "name")}
BEFORE = """
SELECT id, name, named_struct('street', 'Main', 'city', 'Bern') AS home,
    array(named_struct('kind', 'mobile', 'number', '1')) AS phones, map('k', named_struct('a', 1)) AS notes
FROM VALUES (1L, 'Anna'), (3L, null), (null, 'Nobody') AS t(id, name)
"""
AFTER = """
SELECT {id}L AS id, {name} AS name, named_struct('street', 'Side', 'zip', '3000', 'city', 'Thun') AS home,
    array(named_struct('number', '2', 'kind', 'fixed', 'since', DATE '2026-01-01')) AS phones,
    map('k', named_struct('a', 2, 'b', 'two')) AS notes, NULL AS nick
"""


def write(lab: Lab, query: str) -> None:
    rows = lab.spark.sql(query).write.format("delta").mode("append").option("mergeSchema", "true")
    rows.save(lab.path("persons"))


def read(lab: Lab, table: str) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in lab.spark.read.format("delta").load(lab.path(table)).collect()]


def run(lab: Lab) -> dict[str, Any]:
    done = lab.run_all()
    assert [each.error for each in done.jobs if each.error] == []
    return {each.job: each for each in done.jobs}


def test_structs_that_gain_fields_and_columns_that_get_a_type(lab: Lab) -> None:
    lab.spark.sql(
        f"CREATE TABLE delta.`{lab.path('persons')}` USING delta"
        f" TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS SELECT * FROM ({BEFORE}) WHERE id IS NOT NULL"
    )
    write(lab, f"SELECT *, NULL AS nick FROM ({BEFORE}) WHERE id IS NULL")
    kinds = {"id": pa.int64(), "person": pa.int64(), "persons": pa.list_(pa.int64())}
    lab.table(
        "visits", "id", kinds, [{"id": 7, "person": 1, "persons": [1, 2]}, {"id": 8, "person": 2, "persons": [2]}]
    )
    lab.suite("named", hold_nulls("name"))
    for name, text in JOBS.items():
        lab.job(f"job: {name}\n{text}target: {{table: {name}}}\n")
    run(lab)
    assert "nick" not in read(lab, "whole")[0], "it has no type yet"

    write(lab, AFTER.format(id=2, name="'Otto'"))
    lab.spark.sql(f"UPDATE delta.`{lab.path('persons')}` SET name = 'Ottone' WHERE id = 2")
    # An old row gets a value in a new field; quarantined rows, with a key and without, go and come; a type comes.
    lab.spark.sql(f"UPDATE delta.`{lab.path('persons')}` SET home.zip = '1' WHERE id = 1 OR id IS NULL")
    notes = "map('k', named_struct('a', 3, 'b', 'c'))"
    lab.spark.sql(f"UPDATE delta.`{lab.path('persons')}` SET name = 'Eve', notes = {notes} WHERE id = 3")
    write(lab, AFTER.format(id=4, name="CAST(NULL AS STRING)").replace("NULL AS nick", "'n' AS nick"))
    found = run(lab)
    assert {found[job].mode for job in found.keys() & {"field", "name", "past"}} == {"incremental"}
    assert sorted((row["id"], row["city"], *row["numbers"]) for row in read(lab, "field")) == [
        *[(1, "Bern", "1"), (2, "Thun", "2"), (3, "Bern", "1"), (4, "Thun", "2")],
    ]
    assert sorted((row["id"], row["home"]["zip"]) for row in read(lab, "lookup")) == [(7, "1"), (8, "3000")]
    assert {row["name"]: (row["home"]["zip"], row["notes"]["k"]["b"]) for row in read(lab, "mirror")} == {
        "Anna": ("1", None),
        "Ottone": ("3000", "two"),
        "Eve": (None, "c"),
    }
    if SOAK:
        others = [name for name in JOBS if name not in ("whole", "past")]  # those two are read below
        checks = enrich.verify(enrich.load_project(lab.home), others, spark=lab.spark).jobs
        assert {each.job: each.status for each in checks} == dict.fromkeys(others, "equal"), checks
    rows = sorted(read(lab, "past"), key=lambda row: (row["id"], row["valid_from"]))
    past = [(row["id"], row["name"], row["home"]["zip"], row["nick"]) for row in rows]
    assert past == [(1, "Anna", None, None), (1, "Anna", "1", None), (2, "Otto", "3000", None),
                    (2, "Ottone", "3000", None), (3, "Eve", None, None)]  # fmt: skip
    beside = {row["id"]: row["home"]["zip"] for row in read(lab, "past__quarantine")}
    assert beside == {3: None, 4: "3000", None: "1"}
    assert {row["id"]: row["nick"] for row in read(lab, "whole")} == {1: None, 2: None, 3: None, 4: "n"}


def test_a_field_that_goes_asks_for_what_leads_on(lab: Lab) -> None:
    lab.spark.sql(
        f"CREATE TABLE delta.`{lab.path('persons')}` (id BIGINT, name STRING, home STRUCT<street STRING, city STRING>)"
        " USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name')"
    )
    write(lab, f"SELECT id, name, home FROM ({BEFORE}) WHERE name IS NOT NULL")
    played = ("whole", "mirror") if SOAK else ("whole",)
    for name in played:
        text = JOBS[name].replace(", notes", "")
        lab.job(f"job: {name}\n{text}target: {{table: {name}}}\n")
    lab.job(f"job: other\n{PERSONS}select: {{id: p.id, name: p.name}}\ntarget: {{table: other}}\n")
    lab.run_all()
    lab.spark.sql(f"ALTER TABLE delta.`{lab.path('persons')}` DROP COLUMN home.street")
    lab.spark.sql(f"UPDATE delta.`{lab.path('persons')}` SET name = 'Eve' WHERE id = 1")
    done = {each.job: each for each in lab.run_all().jobs}
    assert done["other"].status == "updated"
    for name in played:
        assert f"`enrich run {name} --full-refresh`" in str(done[name].error)
        assert lab.run(name, full_refresh=True).status == "updated"
        assert {tuple(row["home"]) for row in read(lab, name)} == {("city",)}


def test_a_field_that_no_target_can_hold_is_named_until_the_target_can(lab: Lab) -> None:
    persons, target = f"delta.`{lab.path('persons')}`", f"delta.`{lab.path('whole')}`"
    mapped = "'delta.columnMapping.mode' = 'name'"
    lab.spark.sql(
        f"CREATE TABLE {persons} (id BIGINT, name STRING, home STRUCT<city STRING>) USING delta"
        f" TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', {mapped})"
    )
    write(lab, "SELECT 1L AS id, 'Anna' AS name, named_struct('city', 'Bern') AS home")
    lab.job(f"job: whole\n{PERSONS}select:\n  id: p.id\n  home: p.home\ntarget: {{table: whole}}\n")
    named = "id: p.id\n  made: named_struct('its name', p.name)"
    lab.job(f"job: made\n{PERSONS}select:\n  {named}\ntarget: {{table: made}}\n")
    first = {each.job: each for each in lab.run_all().jobs}
    assert (first["whole"].status, first["made"].exit_code) == ("created", 2)  # only Spark knows this type
    assert "jobs/made.yml:6: column 'made' has a field 'its name' that no target can hold" in str(first["made"].error)
    lab.spark.sql(f"ALTER TABLE {persons} ADD COLUMN home.`Street Name` STRING")
    lab.spark.sql(f"UPDATE {persons} SET home = named_struct('city', 'Bern', 'Street Name', 'Main')")
    faults = [str(each) for each in inspection.validate(enrich.load_project(lab.home))]
    done = lab.run("whole")
    assert done.exit_code == 2
    assert [done.error] == [each for each in faults if each.startswith("jobs/whole.yml:6: column 'home' has a field")]
    versions = "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"
    lab.spark.sql(f"ALTER TABLE {target} SET TBLPROPERTIES ({mapped}, {versions})")
    assert inspection.validate(enrich.load_project(lab.home)) == []
    assert lab.run("whole").status == "updated"
    assert read(lab, "whole") == [{"id": 1, "home": {"city": "Bern", "Street Name": "Main"}}]
