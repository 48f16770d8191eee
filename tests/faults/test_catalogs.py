"""Tables that a catalog knows: what else a name may stand for, and what a killed run leaves."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from faults.stops import hooked
from kit.lab import Lab
from kit.session import forget_tables

OWN = "lab_names"


def write_job(lab: Lab, name: str, source: str, target: str) -> None:
    lab.job(f"job: {name}\nsources:\n  s: {{table: {source}, key: id}}\nfrom: s\ntarget: {{table: {target}}}\n")


@pytest.fixture
def named(lab: Lab) -> Iterator[Lab]:
    """Give a project whose tables are in a schema of the session's catalog, with one source of three rows."""
    lab.spark.sql(f"CREATE SCHEMA {OWN} LOCATION '{lab.home / OWN}'")
    (lab.home / "conf" / "dev.yml").write_text(f"catalog: {OWN}\nstate: ./state\n")
    write_source(lab, "items", lab.home / "items")
    write_job(lab, "copies", "items", "copies")
    yield lab
    lab.spark.sql(f"DROP SCHEMA {OWN} CASCADE")


def write_source(lab: Lab, name: str, place: Path) -> None:
    """Write three rows that have the table's name."""
    rows = lab.spark.range(3).select("id", F.lit(name).alias("name")).write.format("delta")
    rows = rows.option("path", str(place)).option("delta.enableChangeDataFeed", "true")
    rows.saveAsTable(f"{OWN}.{name}")


def test_a_name_of_the_catalog_stands_for_a_view_or_a_table_of_another_format_or_without_files(named: Lab) -> None:
    named.spark.sql(f"CREATE VIEW {OWN}.seen AS SELECT * FROM {OWN}.items")
    named.spark.sql(f"CREATE TABLE {OWN}.csv (id INT) USING csv")
    write_source(named, "lost", named.home / "lost")
    shutil.rmtree(named.home / "lost")
    forget_tables(named.spark)
    for source, target in (("seen", "a"), ("csv", "b"), ("lost", "c"), ("items", "seen"), ("items", "csv")):
        write_job(named, "asked", source, target)
        refused = named.run("asked")
        said = "is a view, a table of another format, or has no files"
        assert (refused.exit_code, said in str(refused.error)) == (2, True), (source, target, refused.error)


def test_a_first_run_is_killed_before_the_catalog_knows_its_table(named: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert named.run("copies").status == "created"
    (detail,) = named.spark.sql(f"DESCRIBE DETAIL {OWN}.copies").collect()
    place = Path(detail["location"].removeprefix("file:"))
    shutil.copytree(place, named.home / "kept")
    named.spark.sql(f"DROP TABLE {OWN}.copies")
    shutil.copytree(named.home / "kept", place, dirs_exist_ok=True)
    refused = named.run("copies")
    said = re.search(r"run `(CREATE TABLE .*)` in Spark SQL", str(refused.error))
    assert (refused.exit_code, said is not None) == (2, True), refused.error
    assert said is not None
    named.spark.sql(said[1])
    assert named.run("copies").status == "unchanged"

    def lose_catalog(point: str) -> None:  # as a signal does, which ends the JVM
        if point == "proof.before":
            monkeypatch.delattr("enrich.delta.reads.find_catalog_location")

    named.spark.sql(f"INSERT INTO {OWN}.items VALUES (7, 'more')")
    with hooked(lose_catalog):
        assert named.run("copies").status == "updated", "a table that is there needs no catalog to be found"


def test_a_directory_may_have_a_name_that_no_uri_has_as_it_is(named: Lab) -> None:
    write_source(named, "wrong", named.home / "place")
    write_source(named, "right", named.home / "place#2")
    write_job(named, "rights", "right", "rights")
    assert named.run("rights").status == "created"
    assert {row["name"] for row in named.spark.table(f"{OWN}.rights").collect()} == {"right"}


def test_a_table_has_one_place_under_two_names_and_a_schema_may_be_missing(named: Lab) -> None:
    write_job(named, "reader", f"spark_catalog.{OWN}.copies", "reader")
    assert [(each.job, each.status) for each in named.run_all().jobs] == [("copies", "created"), ("reader", "created")]
    write_job(named, "late", "items", "nowhere.late")
    late = named.run("late")
    assert (late.exit_code, "has no such schema" in str(late.error)) == (7, True), late.error
