"""``enrich diff``: what a job gives, as its file is now, beside what its target holds; nothing is written."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from jsonschema import Draft7Validator

import enrich
from enrich.report.models import build_schema
from kit.lab import Lab, Prepared
from kit.project import ROOT, hold_nulls
from scenarios.conftest import open_consents
from upgrade.project import JOBS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.report.models import JobDiff
    from kit.command import Call

JOB = """\
job: customers
sources:
  consents: {table: consents, key: id}
  accounts: {table: accounts, key: id}
from: consents
join:
  accounts: {kind: table, how: left}
select: {id: consents.id, email: accounts.email, n: "length(accounts.email)", m: "map('a', accounts.email)"}
target: {table: customers}
"""


def diff(lab: Lab, job: str = "customers", **how: Any) -> JobDiff:
    found = enrich.diff(enrich.load_project(lab.home), job, spark=lab.spark, **how)
    Draft7Validator(build_schema("diff")).validate(json.loads(json.dumps(found.to_dict())))
    return found


def rows(found: JobDiff) -> tuple[int, int, int]:
    return found.added, found.gone, found.changed


def differing(found: JobDiff) -> dict[str, tuple[str | None, int | None]]:
    return {each.name: (each.change, each.rows) for each in found.columns if each.change is not None or each.rows}


def files(lab: Lab) -> set[Path]:
    return {path for path in lab.home.rglob("*") if path.is_file()}


def run_diffed(lab: Lab) -> None:
    open_consents(lab)
    lab.job(JOB)
    assert lab.run().exit_code == 0


@pytest.fixture
def shop(prepared: Prepared) -> Lab:
    return prepared("diffed", run_diffed)


def test_a_changed_job_is_told_column_by_column(shop: Lab, call: Call) -> None:
    # What the target has not taken yet is no difference.
    shop.put("accounts", {"id": "u1", "email": "new@example.com", "note": "n"})
    before = files(shop)
    found = diff(shop)
    assert (found.exit_code, rows(found), differing(found)) == (0, (0, 0, 0), {})

    shop.job(JOB.replace("email: accounts.email", "email: upper(accounts.email)").replace("length(", "1L + length("))
    found = diff(shop)
    assert (found.exit_code, found.definition_changed, found.versions) == (6, True, {"consents": 1, "accounts": 1})
    assert (rows(found), differing(found)) == ((0, 0, 2), {"email": (None, 2), "n": ("type", 2)})

    shop.job(JOB.replace("n: ", "note: accounts.note, k: ").replace("target:", "where: consents.id <> 'u2'\ntarget:"))
    found = diff(shop, show_keys=5)
    assert (rows(found), found.keys) == ((0, 1, 0), (("gone", {"id": "u2"}),))
    assert differing(found) == {"n": ("gone", None), "note": ("added", None), "k": ("added", None)}
    assert "u2" not in json.dumps(found.to_dict())

    # Another key: no row is the same row.
    shop.job(JOB.replace("id: consents.id", "key_of: consents.id"))

    # The command line says the same, and a refused run leads here.
    ended = call("diff", "customers")
    assert ended.exit_code == 6
    assert "the key has other columns or types" in ended.stdout
    assert "customers: 3 rows added, 3 gone, 0 changed" in ended.stdout
    assert "`enrich run customers --full-refresh` writes what the job gives now" in ended.stdout
    assert call("diff", "customers", "--show-keys", "3").exit_code == 2, "keys are printed to a terminal only"
    assert files(shop) == before, "nothing is written"
    ended = call("run", "customers")
    assert ended.exit_code == 5
    assert "`enrich diff customers` shows what that changes" in ended.stderr + ended.stdout


def test_rows_that_a_suite_holds_are_not_in_the_target(shop: Lab) -> None:
    shop.suite("mails", hold_nulls("email"))
    shop.job(JOB + "expectations: mails\n")
    found = diff(shop)
    assert (rows(found), found.definition_changed) == ((0, 1, 0), True)


def test_a_source_that_is_new_is_taken_as_it_is(shop: Lab) -> None:
    shop.put("accounts", {"id": "u3", "email": "late@example.com", "note": "n"})
    job = JOB.replace("from:", "  more: {table: more, key: id}\nfrom:").replace("select: {", "select: {x: more.x, ")
    shop.job(job.replace("  accounts: {kind", "  more: {kind: table, how: left}\n  accounts: {kind"))
    shop.table("more", "id", {"id": pa.string(), "x": pa.string()}, [{"id": "u1", "x": "1"}])
    found = diff(shop)
    assert found.versions == {"consents": 1, "more": 1, "accounts": 1}, "the target has not taken the later account"
    assert (rows(found), differing(found)) == ((0, 0, 0), {"x": ("added", None)})


def test_with_another_deployment_both_targets_are_taken_as_they_stand(shop: Lab, call: Call) -> None:
    conf = (shop.home / "conf" / "dev.yml").read_text()
    (shop.home / "conf" / "prod.yml").write_text(conf)
    (shop.home / "conf" / "prod.yml").write_text(conf.replace("lake: ./lake", "lake: ./other"))
    with pytest.raises(enrich.EnrichError, match="there is no table at"):
        diff(shop, other="prod")
    for name in ("consents", "accounts"):
        shutil.copytree(shop.home / "lake" / name, shop.home / "other" / name)
    assert "`enrich --target prod run customers`" in call("diff", "customers", "--with", "prod").stderr
    shutil.rmtree(shop.home / "other")
    shutil.copytree(shop.home / "lake", shop.home / "other")
    assert diff(shop, other="prod").exit_code == 0
    shop.put("accounts", {"id": "u3", "email": "3@example.com", "note": "n"})
    shop.drop("consents", "id = 'u1'")
    assert shop.run().status == "updated"
    found = diff(shop, other="prod")
    assert (rows(found), differing(found)) == ((0, 1, 1), {"email": (None, 1), "n": (None, 1), "m": (None, 1)})
    assert (found.with_deployment, found.with_version, found.exit_code) == ("prod", found.target_version - 1, 6)
    ended = call("diff", "customers", "--with", "prod", "--output", "json")
    assert (ended.exit_code, json.loads(ended.stdout)) == (6, found.to_dict())
    assert call("diff", "customers", "--with", "nowhere").exit_code == 2
    shop.job(JOB.replace("{id: consents.id", "{no: consents.id"))
    found = diff(shop, other="prod")  # neither target has that column
    assert (found.compared, rows(found), found.exit_code) == (False, (2, 3, 0), 6)


def test_an_alias_that_was_renamed_reads_the_versions_that_the_target_contains(shop: Lab) -> None:
    shop.drop("consents", "id = 'u1'")
    shop.job(JOB.replace("consents: {", "c: {").replace("consents.id", "c.id").replace("from: consents", "from: c"))
    found = diff(shop)
    assert (rows(found), found.versions) == ((0, 0, 0), {"c": 1, "accounts": 1})


FIRST_ADDRESS = """\
elements: 'slice(persons.address_ids, 1, 1)'}
select: {person_id: persons.person_id, address_ids: addresses}"""


@pytest.fixture
def every_kind(tmp_path: Path, interpreted: SparkSession) -> Lab:
    """A lake with a job of every kind, which an earlier state of enrich has run."""
    with tarfile.open(ROOT / "tests" / "upgrade" / "lake-0b6df69.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return Lab(tmp_path / "project", interpreted)


def test_every_kind_of_job_is_told_what_it_would_change(every_kind: Lab) -> None:
    """Each job's file says something else than what the target was made by."""
    changed = {
        "products_with_merchant": ("merchants.name", "upper(merchants.name)"),
        "persons_with_addresses": (
            "elements: persons.address_ids}",
            FIRST_ADDRESS,
        ),
        "merchants_history": ("from: merchants\n", "from: merchants\nhistory: {columns: [name]}\n"),
        "email_mirror": ("conflict: first", "conflict: collect"),
        "products_by_merchant": ("count(*)", "count(*) FILTER (WHERE product_id > 2)"),
    }
    told = {}
    for name, (before, after) in changed.items():
        every_kind.job(JOBS[name].replace(before, after))
        found = diff(every_kind, name)
        assert (found.exit_code, found.definition_changed) == (6, True), name
        told[name] = rows(found), differing(found)
    assert told == {
        "products_with_merchant": ((0, 0, 5), {"merchant": (None, 5)}),
        "persons_with_addresses": ((0, 0, 1), {"address_ids": (None, 1)}),
        "merchants_history": ((0, 0, 0), {"country": ("gone", None)}),
        "email_mirror": ((0, 0, 4), {"customer_id": ("type", 4)}),
        "products_by_merchant": ((0, 0, 3), {"products": (None, 3)}),
    }
