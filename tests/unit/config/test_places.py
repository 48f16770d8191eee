"""Tables that a deployment reads elsewhere (`sources` of conf): which they are, and that nothing is written there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from enrich.base.errors import ConfigError
from enrich.base.names import CatalogName
from enrich.dumps.load import load
from enrich.init.firstjob import write_first_job
from enrich.operations.loading import load_project
from enrich.operations.maintenance import maintain
from enrich.project.project import Project
from enrich.testing.lake import redirect
from kit.project import write_project
from unit.config.small_project import JOIN, MIRROR, faults_of

NEXT = JOIN.replace("job: orders", "job: next").replace("orders_raw", "orders_wide").replace("orders_wide, cl", "n, cl")
BELOW = "where nothing is written; give 'lake', 'state' and targets another place"


def write(home: Path, conf: str, job: str = JOIN) -> Path:
    return write_project(home, {"conf/dev.yml": conf, "jobs/orders.yml": job, "jobs/next.yml": NEXT})


def read(home: Path, conf: str) -> Project:
    return load_project(write(home, conf))


def test_bare_names_that_no_job_writes_are_looked_up_there(tmp_path: Path) -> None:
    project = read(tmp_path, "lake: ./lake\nsources: {lake: s3a://prod/silver}\n")
    own = f"{tmp_path}/lake"
    assert {name: project.location(name) for name in ("orders_raw", "orders_wide", "orders_wide__quarantine")} == {
        "orders_raw": "s3a://prod/silver/orders_raw",
        "orders_wide": f"{own}/orders_wide",
        "orders_wide__quarantine": f"{own}/orders_wide__quarantine",
    }
    assert project.location("./orders_raw") == f"{tmp_path}/orders_raw"
    assert project.state == f"{own}/_enrich"
    project = read(tmp_path, "lake: ./lake\nsources: {catalog: prod.silver}\n")
    assert project.location("customers") == CatalogName(("prod", "silver", "customers"))
    assert project.location("orders_wide") == f"{own}/orders_wide"
    scenario = redirect(project, tmp_path / "here")
    assert scenario.location("orders_raw") == f"{tmp_path}/here/orders_raw"
    project = read(tmp_path, "catalog: dev.silver\nstate: ./s\nsources: {catalog: prod.silver}\n")
    assert str(project.location("orders_raw")) == "prod.silver.orders_raw"
    assert str(project.location("ORDERS_WIDE")) == "dev.silver.ORDERS_WIDE"  # a catalog's names have no case


@pytest.mark.parametrize(
    ("conf", "target", "faults"),
    [
        (
            "lake: ./lake\nsources: {lake: ./prod}\n",
            "./prod/wide",
            [("jobs/orders.yml:11", f"'HOME/prod/wide' lies below 'sources' of conf/dev.yml, {BELOW}")],
        ),
        (
            "lake: ./lake\nsources: {catalog: prod.silver}\n",
            "silver.wide",
            [("jobs/orders.yml:11", f"'silver.wide' lies below 'sources' of conf/dev.yml, {BELOW}")],
        ),
        (
            "lake: ./lake\nstate: ./prod/s\nsources: {lake: ./prod}\n",
            "orders_wide",
            [("conf/dev.yml", f"'HOME/prod/s' lies below 'sources' of conf/dev.yml, {BELOW}")],
        ),
        (
            "lake: ./lake\nsources: {}\n",
            "orders_wide",
            [("conf/dev.yml:2", "'sources' needs either 'lake' or 'catalog': where the tables are")],
        ),
        (
            "lake: ./lake\nsources:\n  catalog: a.b.c\n",
            "orders_wide",
            [
                (
                    "conf/dev.yml:3",
                    "'sources.catalog': it must be a schema of a catalog, written catalog.schema or schema",
                )
            ],
        ),
    ],
)
def test_nothing_that_is_written_lies_there(
    tmp_path: Path, conf: str, target: str, faults: list[tuple[str, str]]
) -> None:
    home = write(tmp_path, conf, JOIN.replace("orders_wide,", f"{target},"))
    assert faults_of(home) == [(where, said.replace("HOME", str(tmp_path))) for where, said in faults]


def test_load_and_maintain_leave_them_alone(tmp_path: Path) -> None:
    project = read(tmp_path, "lake: ./lake\nsources: {lake: ./prod}\n")
    (tmp_path / "o.csv").write_text("order_id\no1\n")
    said = f"'{tmp_path}/prod/orders_raw' lies below 'sources' of conf/dev.yml, where nothing is written"
    for reference in ("orders_raw", "./prod/orders_raw"):
        with pytest.raises(ConfigError) as caught:
            load(project, reference, [str(tmp_path / "o.csv")], key=["order_id"])
        assert (caught.value.exit_code, caught.value.message) == (2, said)
        assert "--target" in str(caught.value.hint)
    kept = maintain(project, ["orders"], sources=True)
    assert (kept.exit_code, [each.table for each in kept.tables]) == (
        2,
        [f"{tmp_path}/prod/orders_raw", f"{tmp_path}/prod/customers"],
    )
    assert kept.tables[0].error == f"{said}; leave out --sources; who owns the table runs VACUUM"
    assert not (tmp_path / "prod").exists()


def test_a_first_job_reads_there_and_writes_here(tmp_path: Path) -> None:
    home = write_project(
        tmp_path, {"conf/dev.yml": "lake: ./lake\nsources: {lake: ./prod}\n", "jobs/mails.yml": MIRROR}
    )
    for place, name in (("prod", "orders"), ("lake", "customers")):
        write_deltalake(str(home / place / name), pa.table({f"{name[:-1]}_id": ["a"], "customer_id": ["a"]}))
    done = write_first_job(["orders", "customers"], home, "dev")
    text = (home / next(each for each in done.files if each.startswith("jobs/"))).read_text()
    assert "{table: orders, key: order_id}" in text
    assert "{table: ./lake/customers, key: customer_id}" in text
    (home / "conf/dev.yml").write_text("lake: ./prod/mine\nsources: {lake: ./prod}\n")
    with pytest.raises(ConfigError, match=r"lies below 'sources' of conf/dev.yml.*give 'lake'"):
        write_first_job([str(home / "prod/orders")], home, "dev")
