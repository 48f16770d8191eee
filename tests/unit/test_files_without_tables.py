"""What validation and a plan find in the files alone, where tables do not exist or are not opened."""

from __future__ import annotations

from pathlib import Path

from deltalake import write_deltalake
from pyarrow import Table

import enrich
from enrich.answers import inspection
from kit.project import write_project

CONF = "lake: ./lake\n"
JOB = """\
job: joined
sources:
  orders: {table: orders, key: id}
  people: {table: people, key: id}
from: orders
join:
  people: {kind: foreign_key, on: orders.person}
select: {id: orders.id, name: people.name}
target: {table: joined}
"""
FEED = {"delta.enableChangeDataFeed": "true"}


def shop(home: Path, **jobs: str) -> Path:
    """Write a project whose job `joined` has its tables; other jobs by name."""
    write_deltalake(
        str(home / "lake" / "orders"), Table.from_pylist([{"id": "o1", "person": "p1"}]), configuration=FEED
    )
    write_deltalake(str(home / "lake" / "people"), Table.from_pylist([{"id": "p1", "name": "Ann"}]), configuration=FEED)
    files = {f"jobs/{name}.yml": text for name, text in {"joined": JOB, **jobs}.items()}
    return write_project(home, {"conf/dev.yml": CONF, **files})


def copy_of(job: str, source: str) -> str:
    return (
        f"job: {job}\nsources:\n  {source}: {{table: {source}, key: id}}\nfrom: {source}\n"
        f"select: {{id: {source}.id}}\ntarget: {{table: {job}}}\n"
    )


def test_a_column_that_the_job_before_does_not_select_is_found_without_tables(tmp_path: Path) -> None:
    after = copy_of("after", "joined").replace("joined.id}", "joined.id, who: joined.nmae}")
    project = enrich.load_project(shop(tmp_path / "shop", after=after))
    (fault,) = inspection.validate(project, offline=True)
    assert str(fault) == "jobs/after.yml:5: 'nmae' is not a column of 'joined' (table joined); did you mean 'name'?"
    assert inspection.validate(project) == [fault]


def test_beside_such_a_source_the_columns_of_the_others_are_checked(tmp_path: Path) -> None:
    after = (
        JOB.replace("joined", "after")
        .replace("table: people", "table: joined")
        .replace("orders.person", "orders.persn")
    )
    project = enrich.load_project(shop(tmp_path / "shop", after=after))
    said = "jobs/after.yml:7: 'persn' is not a column of 'orders' (table orders); did you mean 'person'?"
    assert [str(fault) for fault in inspection.validate(project)] == [said]


def test_offline_no_table_is_opened(tmp_path: Path) -> None:
    home = shop(tmp_path / "shop")
    (home / "lake" / "orders" / "_delta_log" / "00000000000000000000.json").write_text("no log")
    project = enrich.load_project(home)
    assert inspection.validate(project, offline=True) == []
    assert len(inspection.validate(project)) == 1


def test_a_source_that_another_job_writes_names_that_job(tmp_path: Path) -> None:
    home = shop(tmp_path / "shop", after=copy_of("after", "joined"))
    result = enrich.run(enrich.load_project(home), jobs=["after"])
    assert result.exit_code == 2
    assert str(result.jobs[0].error).endswith("job joined writes it: run `enrich run joined` first")
    alone = enrich.plan(enrich.load_project(home), ["after"]).jobs[0]
    assert str(alone.refused).endswith("job joined writes it: run `enrich run joined` first")


def test_a_plan_refuses_jobs_whose_sources_nothing_makes(tmp_path: Path) -> None:
    home = shop(tmp_path / "shop", alone=copy_of("alone", "elsewhere"), later=copy_of("later", "alone"))
    alone, later = enrich.plan(enrich.load_project(home), ["alone", "later"]).jobs
    assert (alone.exit_code, alone.mode) == (2, None)
    assert "there is no table at" in str(alone.refused)
    assert (later.exit_code, later.refused) == (0, "skipped: it reads job 'alone', which would not succeed")
