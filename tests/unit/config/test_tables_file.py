"""Tables that tables.yml declares once: what jobs take from it, what wins, and faults at their lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from enrich.base.errors import ConfigError
from enrich.base.spec import DataType
from enrich.init.firstjob import write_first_job
from enrich.operations.loading import load_project
from enrich.project.compile import compile_job, list_private_columns
from enrich.project.models import Job
from kit.project import write_project
from unit.config.small_project import CONF, faults_of

COLUMNS: Mapping[str, dict[str, DataType]] = {
    "p": {"product_id": "long", "merchant_id": "string"},
    "m": {"merchant_id": "string", "name": "string", "email": "string"},
}

TABLES = """\
merchants:
  key: merchant_id
  owner: crm
  unique: trusted
  normalise: [trim]
  columns: {email: {private: true}}
products:
  table: shop.products_raw
  key: product_id
"""
QUERY = """\
job: wide
query: |
  SELECT p.product_id, m.name
  FROM products AS p
  LEFT JOIN merchants AS m ON p.merchant_id = m.merchant_id
target: {table: wide}
"""
JOIN = """\
job: wide
sources:
  p: {table: shop.products_raw, key: product_id}
  m: {table: merchants, key: merchant_id, unique: trusted, normalise: trim}
from: p
join:
  m: {kind: foreign_key, on: p.merchant_id}
select: {product_id: p.product_id, name: m.name}
target: {table: wide}
"""


def write(home: Path, job: str, tables: str = TABLES) -> Path:
    return write_project(home, {"conf/dev.yml": CONF, "jobs/wide.yml": job, "tables.yml": tables})


def load(home: Path, job: str, tables: str = TABLES) -> Job:
    return load_project(write(home, job, tables)).jobs["wide"]


def test_a_source_takes_what_is_declared(tmp_path: Path) -> None:
    written = JOIN.replace("{table: shop.products_raw, key: product_id}", "products")
    written = written.replace("{table: merchants, key: merchant_id, unique: trusted, normalise: trim}", "merchants")
    job = load(tmp_path, written)
    assert (job.sources["p"].table, job.sources["p"].key) == ("shop.products_raw", ("product_id",))
    merchants = job.sources["m"]
    assert (merchants.table, merchants.key, merchants.unique) == ("merchants", ("merchant_id",), "trusted")
    assert (merchants.normalise, merchants.owner, merchants.columns["email"].private) == (("trim",), "crm", True)
    same = compile_job(load(tmp_path, JOIN, "{}"), COLUMNS)
    assert compile_job(job, COLUMNS).meaning == same.meaning  # no full refresh when tables move to tables.yml


def test_what_the_job_says_wins(tmp_path: Path) -> None:
    job = load(
        tmp_path, JOIN.replace("key: merchant_id, unique: trusted, normalise: trim", "key: [name], unique: checked")
    )
    merchants = job.sources["m"]
    assert (merchants.key, merchants.unique, merchants.normalise) == (("name",), "checked", ("trim",))


def test_from_names_tables_that_no_source_lists(tmp_path: Path) -> None:
    job = load(tmp_path, QUERY)
    assert {alias: each.table for alias, each in job.sources.items()} == {"p": "shop.products_raw", "m": "merchants"}
    assert compile_job(job, COLUMNS).meaning == compile_job(load(tmp_path, JOIN), COLUMNS).meaning
    own = QUERY.replace("query:", "sources: {merchants: {table: other, key: x}}\nquery:").replace(
        "m.merchant_id", "m.x"
    )
    assert load(tmp_path, own).sources["m"].table == "other"  # an alias of the job comes first


def test_the_file_has_one_name(tmp_path: Path) -> None:
    home = write(tmp_path, JOIN)
    (home / "tables.yml").rename(home / "tables.yaml")
    assert faults_of(home) == [("tables.yaml", "is not read; rename it to tables.yml")]
    with pytest.raises(ConfigError, match=r"tables\.yaml is not read; rename it to tables\.yml"):
        write_first_job(["merchants"], home, "dev")


def test_an_alias_of_the_query_is_no_other_source(tmp_path: Path) -> None:
    """What the job would read is the table that the query names, never one that has the alias for its name."""
    said = "the source {} is not in FROM, where {} is the alias of {}; remove it, or choose another alias"
    unused = QUERY.replace("query:", "sources: {m: {table: old, key: merchant_id}}\nquery:")
    assert faults_of(write(tmp_path, unused)) == [("jobs/wide.yml:2", said.format("'m'", "'m'", "'merchants'"))]
    driving = QUERY.replace("query:", "sources: {P: {table: old, key: product_id}}\nquery:")
    assert faults_of(write(tmp_path, driving)) == [("jobs/wide.yml:2", said.format("'P'", "'p'", "'products'"))]


def test_from_takes_the_name_as_it_is_written_first(tmp_path: Path) -> None:
    other = "sources: {Merchants: {table: other, key: merchant_id}}\nquery:"
    both = QUERY.replace("query:", other)
    with_both = both.replace("  LEFT JOIN", "  LEFT JOIN Merchants AS o ON p.merchant_id = o.merchant_id\n  LEFT JOIN")
    tables = {alias: each.table for alias, each in load(tmp_path, with_both).sources.items()}
    assert tables == {"p": "shop.products_raw", "o": "other", "m": "merchants"}
    either = with_both.replace("merchants AS m", "MERCHANTS AS m")
    assert [place for place, _ in faults_of(write(tmp_path, either))] == ["jobs/wide.yml:7:13"]


def test_a_source_without_its_key_is_the_only_fault(tmp_path: Path) -> None:
    job = QUERY.replace("query:", "sources:\n  products: {table: p, keys: product_id}\nquery:")
    assert faults_of(write(tmp_path, job, TABLES.replace("products:", "others:"))) == [
        ("jobs/wide.yml:3", "'key' is missing in 'sources.products'"),
        ("jobs/wide.yml:3", "unknown key 'keys'; did you mean 'key'?"),
    ]


def test_a_fault_is_at_its_line_in_its_file(tmp_path: Path) -> None:
    assert faults_of(write(tmp_path, QUERY.replace("merchants AS", "merchant AS"))) == [
        ("jobs/wide.yml:5:13", "'merchant' is not a source of this job; did you mean 'merchants'?")
    ]
    assert faults_of(write(tmp_path, QUERY.replace("products AS", "produits AS"), "{}")) == [
        ("jobs/wide.yml:4:8", "'produits' is not a source of this job; add it to 'sources', or to tables.yml")
    ]
    short = JOIN.replace("{table: merchants, key: merchant_id, unique: trusted, normalise: trim}", "merchnats")
    assert faults_of(write(tmp_path, short)) == [
        ("jobs/wide.yml:4", "'merchnats' is not a table of tables.yml; did you mean 'merchants'?")
    ]
    wrong = TABLES.replace("owner:", "ownr:").replace("private", "privat").replace("key: product_id", "key: [a, a]")
    wrong += "Q: {table: a b}\nq:\n"
    found = [("tables.yml:3", "unknown key 'ownr'; did you mean 'owner'?")]
    found += [("tables.yml:6", "unknown key 'privat'; did you mean 'private'?")]
    found += [("tables.yml:9", "'key' names the column 'a' twice")]
    found += [("tables.yml:10", "'key' is missing in 'Q'")]
    wrong_name = "table reference 'a b' is not a table name (letters, digits, '_', '-', catalog names with dots)"
    found += [("tables.yml:10", f"{wrong_name}; a path is written ./x, /x or scheme://bucket/x")]
    found += [("tables.yml:11", "'q' has no value; give one or leave it out")]
    found += [("tables.yml:11", "the names 'Q' and 'q' differ only in case")]
    assert faults_of(write(tmp_path, QUERY, wrong)) == found
    assert faults_of(write(tmp_path, JOIN, "- a\n")) == [
        ("tables.yml:1", "the file must be a mapping of keys and values, not a list")
    ]


MADE = """\
job: wide
query: |
  SELECT p.product_id, m.EMAIL AS mail, upper(m.email) AS loud, sha2(lower(m.email), 256) AS mark, m.name
  FROM products AS p LEFT JOIN merchants AS m ON p.merchant_id = m.merchant_id
target: {table: wide}
"""


def test_what_is_made_of_private_columns_is_private(tmp_path: Path) -> None:
    job = load(tmp_path, MADE, TABLES.replace("email:", "eMail:"))
    assert list_private_columns(job) == ("loud", "mail")
    assert list_private_columns(job, compile_job(job, COLUMNS).spec) == ("loud", "mail")
    job = load(tmp_path, MADE + "columns: {loud: {private: false}, mail: {description: x}, name: {private: true}}\n")
    assert list_private_columns(job) == ("mail", "name")
    assert list_private_columns(load(tmp_path, JOIN, "{}")) == ()


def faults_over_tables(job: Job) -> list[tuple[str | None, str]]:
    with pytest.raises(ConfigError) as caught:
        compile_job(job, COLUMNS)
    return [(each.where, each.message) for each in caught.value.faults]


WHY = "of which the log of the table keeps values; let the table have a hash, such as"


def test_no_key_and_no_column_to_cluster_by_is_private(tmp_path: Path) -> None:
    own = MADE.replace("{table: wide}", "{table: wide, cluster_by: [loud]}")
    tables = TABLES + "  columns: {product_id: {private: true}}\n"
    said = [
        ("jobs/wide.yml:3:10", f"'product_id' is private and a key of the target, {WHY} sha2(product_id, 256)"),
        (
            "jobs/wide.yml:3:41",
            f"'loud' is private and a column that the target is clustered by, {WHY} sha2(loud, 256)",
        ),
    ]
    home = write(tmp_path, own, tables)
    with pytest.raises(ConfigError) as caught:
        load_project(home)
    assert [(each.where, each.message) for each in caught.value.faults] == [
        (where, f"{message}, and take that in its place") for where, message in said
    ]
    mine = MADE + "columns:\n  product_id: {private: true}\n"
    with pytest.raises(ConfigError, match="'product_id' is private and a key of the target") as caught:
        load_project(write(tmp_path, mine))
    assert caught.value.faults[0].where == "jobs/wide.yml:7"


def test_words_are_about_columns_that_are_there(tmp_path: Path) -> None:
    assert faults_over_tables(load(tmp_path, MADE, TABLES.replace("email:", "emial:"))) == [
        ("tables.yml:6", "the private column 'emial' is not a column of 'm'; did you mean 'email'?")
    ]
    with pytest.raises(ConfigError) as caught:
        load_project(write(tmp_path, MADE + "columns: {nmae: {description: Who}}\n"))
    assert [(each.where, each.message) for each in caught.value.faults] == [
        ("jobs/wide.yml:6", "'nmae' is not a target column; did you mean 'name'?")
    ]
