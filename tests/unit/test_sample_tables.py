"""Sample data: what `tables.yml` may say, and what becomes of the files, without a JVM."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

import enrich
from enrich.operations import inspection
from enrich.operations.samples import create_sample_tables, is_free
from enrich.storage.shape import find_measured_columns
from kit.project import write_project

CONF = "lake: ./lake\nsamples: ./samples\n"
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
TABLES = """\
orders: {id: string, person: string, amount: "decimal(5,2)", day: date}
people: {id: string, name: string, tags: array<string>}
"""
ORDERS = 'id,person,amount,day\no1,p1,1.50,2026-01-31\no2,,,\n"",p2,3,2026-02-01\n'
PEOPLE = '{"id": "p1", "name": "Ann", "tags": ["a"]}\n{"id": "p2"}\n'


def shop(home: Path, **files: str) -> Path:
    """Write a project with sample data; `orders_csv="..."` overrides a file, an empty text leaves it out."""
    plain = {
        "conf/dev.yml": CONF,
        "jobs/joined.yml": JOB,
        "samples/tables.yml": TABLES,
        "samples/orders.csv": ORDERS,
        "samples/people.jsonl": PEOPLE,
    }
    changed = {name: files.pop(name.split("/")[1].replace(".", "_"), text) for name, text in plain.items()}
    extra = {f"samples/{name.replace('_', '.')}": text for name, text in files.items()}
    return write_project(home, {name: text for name, text in {**changed, **extra}.items() if text})


def rows(home: Path, table: str) -> list[dict[str, object]]:
    query = QueryBuilder().register("t", DeltaTable(str(home / "lake" / table)))
    return list(pa.table(query.execute("SELECT * FROM t").read_all()).to_pylist())


def faults(home: Path) -> list[str]:
    with pytest.raises(enrich.ConfigError) as refused:
        enrich.load_project(home)
    return [str(fault) for fault in refused.value.faults]


def test_tables_are_made_in_one_commit_with_their_change_feed(tmp_path: Path) -> None:
    home = shop(tmp_path / "shop")
    assert create_sample_tables(enrich.load_project(home), ["joined"]) == {}
    assert rows(home, "orders") == [
        {"id": "o1", "person": "p1", "amount": Decimal("1.50"), "day": date(2026, 1, 31)},
        {"id": "o2", "person": None, "amount": None, "day": None},
        {"id": "", "person": "p2", "amount": Decimal("3.00"), "day": date(2026, 2, 1)},
    ]
    assert rows(home, "people") == [
        {"id": "p1", "name": "Ann", "tags": ["a"]},
        {"id": "p2", "name": None, "tags": None},
    ]
    for table in ("orders", "people"):
        made = DeltaTable(str(home / "lake" / table))
        assert (made.version(), made.metadata().configuration["delta.enableChangeDataFeed"]) == (0, "true")
        assert find_measured_columns(str(home / "lake" / table)) == {}, "no value is in the log"


def test_a_table_that_exists_is_not_touched(tmp_path: Path) -> None:
    home = shop(tmp_path / "shop")
    own = pa.table({"id": ["mine"], "person": ["p9"]})
    write_deltalake(str(home / "lake" / "orders"), own)
    (home / "lake" / "people").mkdir()
    (home / "lake" / "people" / "notes.txt").write_text("something else")
    create_sample_tables(enrich.load_project(home), ["joined"])
    assert DeltaTable(str(home / "lake" / "orders")).version() == 0
    assert rows(home, "orders") == own.to_pylist()
    assert [path.name for path in (home / "lake" / "people").iterdir()] == ["notes.txt"]


def test_without_the_line_in_conf_there_are_no_samples(tmp_path: Path) -> None:
    home = shop(tmp_path / "shop", dev_yml="lake: ./lake\n")
    assert create_sample_tables(enrich.load_project(home), ["joined"]) == {}
    assert not (home / "lake").exists()


def test_a_dry_run_makes_no_table_and_says_who_does(tmp_path: Path) -> None:
    home = shop(tmp_path / "shop")
    result = enrich.run(enrich.load_project(home), dry_run=True)
    assert (result.exit_code, {each.status for each in result.jobs}) == (0, {"skipped"})
    assert "its sources are made first, from samples/orders.csv" in str(result.jobs[0].error)
    assert not (home / "lake" / "orders").exists()


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ("catalog: main.silver\nstate: ./s\nsamples: ./samples\n", "only for tables on this machine"),
        ("lake: s3a://bucket/lake\nsamples: ./samples\n", "only for tables on this machine"),
        ("lake: ./lake\nsamples: s3a://bucket/samples\n", "only for tables on this machine"),
        (
            "lake: ./lake\nsamples: ./elsewhere\n",
            "elsewhere/tables.yml: there is no such file, but 'samples' in conf/ names its directory",
        ),
    ],
)
def test_samples_are_for_a_lake_on_this_machine(tmp_path: Path, conf: str, said: str) -> None:
    assert said in faults(shop(tmp_path / "shop", dev_yml=conf))[0]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"tables_yml": "orders: {id: strng}\n"}, "samples/tables.yml:1: the type of 'id' must be one of string, int"),
        ({"tables_yml": "orders: {id: array<string>}\n"}, "which a CSV file cannot hold; write orders.jsonl"),
        ({"tables_yml": "orders:\n"}, "table 'orders' needs its columns"),
        ({"tables_yml": "[]\n"}, "write the tables as 'table: {column: type}'"),
        ({"tables_yml": "joined: {id: string}\n", "joined_csv": "id\n"}, "job 'joined' writes the table 'joined'"),
        ({"tables_yml": "a.b: {id: string}\n"}, "'a.b' is not the bare name of a table"),
        ({"tables_yml": "'./orders': {id: string}\n"}, "is not the bare name of a table"),
        ({"orders_csv": ""}, "samples/tables.yml:1: table 'orders' has neither orders.csv nor orders.jsonl"),
        ({"orders_jsonl": "{}"}, "table 'orders' has both orders.csv and orders.jsonl"),
    ],
)
def test_what_is_wrong_with_the_declarations_is_said_with_its_line(
    tmp_path: Path, files: dict[str, str], said: str
) -> None:
    assert said in faults(shop(tmp_path / "shop", **files))[0]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"orders_csv": "id,person,amount,day\no1,p1,secret,\n"}, "row 1 does not have the type of column 'amount'"),
        (
            {"orders_csv": "id,person,amount,day\no1,p1,1,\no2,p1,1,secret\n"},
            "row 2 does not have the type of column 'day'",
        ),
        (
            {"orders_csv": "id,person\no1,secret\n"},
            "the header of samples/orders.csv is id, person; tables.yml has id,",
        ),
        ({"orders_csv": "id,person,amount,day\nsecret\n"}, "cannot be read as comma-separated values"),
        ({"people_jsonl": '{"id": "p1", "nmae": "secret"}\n'}, "does not have the columns and types of tables.yml"),
        ({"people_jsonl": '{"id": "p1", "tags": "secret"}\n'}, "does not have the columns and types of tables.yml"),
    ],
)
def test_wrong_rows_fail_the_job_that_reads_them_and_quote_no_value(
    tmp_path: Path, files: dict[str, str], said: str
) -> None:
    home = shop(tmp_path / "shop", **files)
    result = enrich.run(enrich.load_project(home))
    assert (result.exit_code, result.jobs[0].status) == (2, "failed")
    assert said in str(result.jobs[0].error)
    assert "secret" not in str(result.jobs[0].error)


def test_a_place_that_cannot_be_read_is_not_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs that read it fail, and the others run."""

    def look(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", look)
    assert not is_free(str(tmp_path / "orders"))


def test_an_empty_file_makes_an_empty_table(tmp_path: Path) -> None:
    home = shop(tmp_path / "shop", people_jsonl="\n", orders_csv="id,person,amount,day\n")
    create_sample_tables(enrich.load_project(home), ["joined"])
    assert rows(home, "people") == rows(home, "orders") == []
    assert [field.name for field in DeltaTable(str(home / "lake" / "people")).schema().fields] == ["id", "name", "tags"]


@pytest.mark.parametrize("offline", [False, True])
def test_validate_takes_the_columns_from_the_declarations(tmp_path: Path, offline: bool) -> None:
    home = shop(tmp_path / "shop")
    assert inspection.validate(enrich.load_project(home), offline=offline) == []
    (home / "jobs" / "joined.yml").write_text(JOB.replace("people.name", "people.nmae"))
    (fault,) = inspection.validate(enrich.load_project(home), offline=offline)
    assert "nmae" in str(fault)
    assert "did you mean 'name'?" in str(fault)
    assert not (home / "lake").exists()


def test_a_column_that_the_job_before_does_not_select_is_found_without_tables(tmp_path: Path) -> None:
    after = (
        "job: after\nsources:\n  joined: {table: joined, key: id}\nfrom: joined\n"
        "select: {id: joined.id, who: joined.nmae}\ntarget: {table: after}\n"
    )
    home = shop(tmp_path / "shop")
    (home / "jobs" / "after.yml").write_text(after)
    project = enrich.load_project(home)
    (fault,) = inspection.validate(project, offline=True)
    assert str(fault) == "jobs/after.yml:5: 'nmae' is not a column of 'joined' (table joined); did you mean 'name'?"
    assert inspection.validate(project) == [fault]


def test_beside_such_a_source_the_columns_of_the_others_are_checked(tmp_path: Path) -> None:
    home = shop(tmp_path / "shop")
    after = (
        JOB.replace("joined", "after")
        .replace("table: people", "table: joined")
        .replace("orders.person", "orders.persn")
    )
    (home / "jobs" / "after.yml").write_text(after)
    project = enrich.load_project(home)
    for offline in (True, False):
        faults = [str(fault) for fault in inspection.validate(project, offline=offline)]
        assert faults == [
            "jobs/after.yml:7: 'persn' is not a column of 'orders' (table orders); did you mean 'person'?"
        ]


def test_offline_no_table_is_opened(tmp_path: Path) -> None:
    home = shop(tmp_path / "shop", dev_yml="lake: ./lake\n")
    (home / "lake" / "orders" / "_delta_log").mkdir(parents=True)
    (home / "lake" / "orders" / "_delta_log" / "00000000000000000000.json").write_text("no log")
    project = enrich.load_project(home)
    assert inspection.validate(project, offline=True) == []
    assert len(inspection.validate(project)) == 2


@pytest.mark.parametrize("kind", ["map<string,int>", "binary", "timestamp_ntz", "array<struct<a:binary>>", "strng"])
def test_a_type_that_no_sample_can_have_is_refused(tmp_path: Path, kind: str) -> None:
    (fault,) = faults(shop(tmp_path / "shop", tables_yml=TABLES.replace("array<string>", f'"{kind}"')))
    assert "the type of 'tags' must be one of string" in fault


def test_a_source_that_another_job_writes_names_that_job(tmp_path: Path) -> None:
    home = shop(tmp_path / "shop")
    (home / "jobs" / "after.yml").write_text(
        "job: after\nsources:\n  joined: {table: joined, key: id}\nfrom: joined\n"
        "select: {id: joined.id}\ntarget: {table: after}\n"
    )
    result = enrich.run(enrich.load_project(home), jobs=["after"])
    assert result.exit_code == 2
    assert str(result.jobs[0].error).endswith("job joined writes it: run `enrich run joined` first")
    assert not (home / "lake" / "orders").exists()


def copy_of(job: str, source: str) -> str:
    return (
        f"job: {job}\nsources:\n  {source}: {{table: {source}, key: id}}\nfrom: {source}\n"
        f"select: {{id: {source}.id}}\ntarget: {{table: {job}}}\n"
    )


def test_a_plan_takes_tables_for_granted_that_the_run_makes_first(tmp_path: Path) -> None:
    home = shop(tmp_path / "shop")
    for job, source in (("second", "joined"), ("third", "second")):
        (home / "jobs" / f"{job}.yml").write_text(copy_of(job, source))
    found = enrich.plan(enrich.load_project(home))
    assert found.exit_code == 0
    told = [(job.job, job.mode, job.has_work, job.affected, job.after, job.refused) for job in found.jobs]
    assert told == [
        ("joined", "bootstrap", True, None, (), None),
        ("second", "bootstrap", True, None, ("joined",), None),
        ("third", "bootstrap", True, None, ("second",), None),
    ]
    assert found.to_dict()["jobs"][0]["samples"] == ["samples/orders.csv", "samples/people.jsonl"]
    assert not (home / "lake").exists()


def test_a_plan_knows_a_table_by_another_spelling(tmp_path: Path) -> None:
    home = shop(tmp_path / "shop")
    (home / "link").symlink_to("lake")
    (home / "jobs" / "second.yml").write_text(
        copy_of("second", "joined").replace("table: joined", "table: ./link/joined")
    )
    project = enrich.load_project(home)
    told = [(job.job, job.mode, job.after, job.refused) for job in enrich.plan(project).jobs]
    assert told == [("joined", "bootstrap", (), None), ("second", "bootstrap", ("joined",), None)]
    alone = enrich.plan(project, ["second"]).jobs[0]
    assert str(alone.refused).endswith("job joined writes it: run `enrich run joined` first")


def test_a_plan_refuses_jobs_whose_sources_nothing_makes(tmp_path: Path) -> None:
    home = shop(tmp_path / "shop")
    (home / "jobs" / "alone.yml").write_text(copy_of("alone", "elsewhere"))
    (home / "jobs" / "later.yml").write_text(copy_of("later", "alone"))
    alone, _, later = enrich.plan(enrich.load_project(home)).jobs
    assert (alone.exit_code, alone.mode, alone.samples) == (2, None, ())
    assert "there is no table at" in str(alone.refused)
    assert (later.exit_code, later.refused) == (0, "skipped: it reads job 'alone', which would not succeed")


def _create(home: Path) -> int | None:
    from enrich.storage.creation import create_table

    return create_table(home / "lake" / "people", {"id": "string", "name": "string"}, home / "people.csv", "people.csv")


def test_of_several_runs_at_once_one_makes_the_table(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,name\n" + "".join(f"p{i},Ann\n" for i in range(20_000)))
    with ThreadPoolExecutor(8) as workers:
        made = list(workers.map(_create, [tmp_path] * 8))
    assert sorted(made, key=str) == [20_000, *[None] * 7]
    assert DeltaTable(str(tmp_path / "lake" / "people")).version() == 0
    assert [path.name for path in (tmp_path / "lake").iterdir()] == ["people"]
