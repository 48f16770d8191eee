# ruff: noqa: E501 - a table reads better with one case a line
"""What an as-of join may say: each fault with its line, from the file alone and from its tables' types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enrich import ConfigError, load_project
from enrich.base.spec import JoinSpec
from enrich.project.compile import check_file, compile_job

JOB = """\
job: seen
sources:
  clicks: {table: clicks, key: id}
  accounts: {table: accounts, key: [customer, valid_from]}
from: clicks
join:
  accounts:
    kind: as_of
    on: clicks.customer
    at: clicks.ts
    valid_from: valid_from
    valid_to: valid_to
    gone: accounts.deleted
target: {table: seen}
"""
TABLES: dict[str, dict[str, Any]] = {
    "clicks": {"id": "long", "customer": "string", "ts": "timestamp", "day": "date", "plain": "timestamp_ntz"},
    "accounts": {
        "customer": "string",
        "valid_from": "timestamp",
        "valid_to": "timestamp",
        "email": "string",
        "deleted": "boolean",
        "day": "date",
    },
}


def load(base: Path, text: str) -> Any:
    for name, content in {"jobs/seen.yml": text, "conf/dev.yml": "lake: ./lake\n"}.items():
        (base / name).parent.mkdir(exist_ok=True)
        (base / name).write_text(content)
    return load_project(base).jobs["seen"]


def faults_of(base: Path, text: str, types: dict[str, dict[str, Any]]) -> list[tuple[int, str]]:
    with pytest.raises(ConfigError) as caught:
        compile_job(load(base, text), types)
    assert caught.value.exit_code == 2
    return [(int((fault.where or ":0").rsplit(":", 1)[1]), fault.message) for fault in caught.value.faults]


OF_THE_FILE = [
    ("    at: clicks.ts\n", "", 7, "kind as_of needs 'at'"),
    ("    valid_from: valid_from\n", "", 7, "kind as_of needs 'valid_from'"),
    ("    on: clicks.customer\n", "", 7, "kind as_of needs 'on'"),
    ("on: clicks.customer", "on: [clicks.customer, clicks.ts]", 9, "'on' has 2 expressions, but the key of 'accounts' has 1 before the last"),
    ("on: clicks.customer", "on: []", 9, "'on' is an empty list; give one expression for each key column before the last"),
    ("key: [customer, valid_from]", "key: valid_from", 4, "an as_of join needs the key of the thing and then the time from which a version holds, but the key of 'accounts' has 1 column"),
    ("key: [customer, valid_from]", "key: [valid_from, customer]", 11, "'valid_from' names 'valid_from', but the last column of the key of 'accounts' is 'customer'; 'valid_from' must be the last key column"),
    ("    at: clicks.ts\n", "    at: clicks.ts\n    how: full\n", 11, "'how' of kind as_of is left or inner, not full"),
    ("    at: clicks.ts\n", "    at: clicks.ts\n    how: right\n", 11, "'how' of kind as_of is left or inner, not right"),
    ("    at: clicks.ts\n", "    at: clicks.ts\n    elements: clicks.ids\n", 11, "'elements' is not for kind as_of, only for list"),
    ("valid_to: valid_to", "valid_to: 5", 12, "'join.accounts.valid_to.column' must be text, not a number; put it in quotes"),
    ("valid_to: valid_to", "valid_to: {inclusive: true}", 12, "'column' is missing in 'join.accounts.valid_to'"),
    ("valid_to: valid_to", "valid_to: {column: valid_to, inclusiv: true}", 12, "unknown key 'inclusiv'; did you mean 'inclusive'?"),
    ("valid_to: valid_to", "valid_to: {column: valid_to, inclusive: 1}", 12, "'join.accounts.valid_to.inclusive' must be true or false, not a number"),
    ("kind: as_of", "kind: foreign_key", 10, "'at' is not for kind foreign_key, only for as_of and interval"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "message"), OF_THE_FILE)
def test_a_fault_of_the_file_has_its_line(tmp_path: Path, old: str, new: str, line: int, message: str) -> None:
    assert JOB.count(old) == 1
    assert (line, message) in faults_of(tmp_path, JOB.replace(old, new), TABLES)


OF_THE_TABLES = [
    ("at: clicks.ts", "at: clicks.day", 10, "clicks.day is date and accounts.valid_from is timestamp; give both sides one type"),
    ("at: clicks.ts", "at: clicks.plain", 10, "clicks.plain is timestamp_ntz and accounts.valid_from is timestamp; give both sides one type"),
    ("at: clicks.ts", "at: clicks.nope", 10, "'nope' is not a column of 'clicks' (table clicks)"),
    ("at: clicks.ts", "at: accounts.valid_to", 10, "unknown name 'accounts'"),
    ("on: clicks.customer", "on: clicks.id", 9, "clicks.id is bigint and accounts.customer is string; give both sides one type"),
    ("valid_to: valid_to", "valid_to: day", 12, "accounts.day is date and accounts.valid_from is timestamp; give both sides one type"),
    ("valid_to: valid_to", "valid_to: {inclusive: true, column: ends}", 12, "'ends' is not a column of 'accounts' (table accounts)"),
    ("valid_to: valid_to", "valid_to: ends", 12, "'ends' is not a column of 'accounts' (table accounts)"),
    ("gone: accounts.deleted", "gone: accounts.email", 13, "'gone' is string; it must be a condition"),
    ("gone: accounts.deleted", "gone: clicks.id > 1", 13, "unknown name 'clicks'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "message"), OF_THE_TABLES)
def test_a_fault_against_the_tables_has_its_line(tmp_path: Path, old: str, new: str, line: int, message: str) -> None:
    found = faults_of(tmp_path, JOB.replace(old, new), TABLES)
    assert [at for at, told in found if told.startswith(message)] == [line], found


@pytest.mark.parametrize("kind", ["string", "boolean", "binary"])
def test_a_time_is_a_date_a_timestamp_or_a_number(tmp_path: Path, kind: str) -> None:
    accounts = TABLES["accounts"] | {"valid_from": kind, "valid_to": kind}
    found = faults_of(tmp_path, JOB, {"clicks": TABLES["clicks"] | {"ts": kind}, "accounts": accounts})
    assert found == [(11, f"accounts.valid_from is {kind}; it must be a date, a timestamp or a number")]


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz", "long", "double", "decimal(12,3)"])
def test_every_kind_of_time_compiles(tmp_path: Path, kind: str) -> None:
    accounts = TABLES["accounts"] | {"valid_from": kind, "valid_to": kind}
    found = compile_job(load(tmp_path, JOB), {"clicks": TABLES["clicks"] | {"ts": kind}, "accounts": accounts})
    assert isinstance(found.spec, JoinSpec)
    (step,) = found.spec.steps
    assert (step.kind, step.on, step.at, step.valid_to) == ("as_of", ("clicks.customer",), "clicks.ts", "valid_to")
    assert step.reads == {"clicks"}
    assert step.is_plain


def test_the_file_alone_is_checked_too(tmp_path: Path) -> None:
    assert check_file(load(tmp_path, JOB)) == []
    messages = [fault.message for fault in check_file(load(tmp_path, JOB), {"accounts": ["customer", "valid_from"]})]
    assert any("'valid_to' is not a column of 'accounts'" in each for each in messages)
    assert any("'deleted' is not a column of 'accounts'" in each for each in messages)


def test_without_select_the_lookups_key_is_left_out(tmp_path: Path) -> None:
    spec = compile_job(load(tmp_path, JOB), TABLES).spec
    names = [name for name in spec.columns if name.startswith("accounts_")]
    assert names == ["accounts_valid_to", "accounts_email", "accounts_deleted", "accounts_day"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("valid_to: valid_to", "how: left"),
        ("valid_to: valid_to", "valid_to: {column: valid_to, inclusive: true}"),
        ("gone: accounts.deleted", "how: left"),
        ("gone: accounts.deleted", "gone: not accounts.deleted"),
        ("at: clicks.ts", "at: clicks.ts + interval 1 day"),
    ],
)
def test_what_decides_the_partner_is_part_of_the_jobs_meaning(tmp_path: Path, old: str, new: str) -> None:
    before = compile_job(load(tmp_path, JOB), TABLES).meaning
    assert compile_job(load(tmp_path, JOB.replace(old, new)), TABLES).meaning != before


@pytest.mark.parametrize("same", ["{column: valid_to}", "{column: valid_to, inclusive: false}"])
def test_an_exclusive_end_is_the_same_definition_however_it_is_written(tmp_path: Path, same: str) -> None:
    before = compile_job(load(tmp_path, JOB), TABLES).meaning
    assert compile_job(load(tmp_path, JOB.replace("valid_to: valid_to", f"valid_to: {same}")), TABLES).meaning == before


def test_a_condition_that_can_fail_is_not_plain(tmp_path: Path) -> None:
    text = JOB.replace("gone: accounts.deleted", "gone: 1 / length(accounts.email) > 0")
    spec = compile_job(load(tmp_path, text), TABLES).spec
    assert isinstance(spec, JoinSpec)
    assert not spec.steps[0].is_plain


def test_a_truth_value_is_a_condition(tmp_path: Path) -> None:
    """As in `where`: YAML's `true` is the text that Spark reads."""
    assert load(tmp_path, JOB.replace("gone: accounts.deleted", "gone: true")).join["accounts"].gone == "true"
    spec = compile_job(load(tmp_path, JOB.replace("gone: accounts.deleted", "gone: True")), TABLES).spec
    assert isinstance(spec, JoinSpec)
    assert spec.steps[0].gone == "true"
