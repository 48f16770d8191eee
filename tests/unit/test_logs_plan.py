"""`latest` and `doubled_keys` on their way from the job file into the compiled job, and what they are refused for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enrich import ConfigError, Project, load_project
from enrich.base.spec import CompiledJob, Latest
from enrich.project.compile import check_file, compile_job
from enrich.project.statictypes import check_types

JOB = """\
job: orders
sources:
  orders: {table: orders, key: order_id}
  customers: {table: events, key: idMORE}
from: orders
join:
  customers: {kind: foreign_key, on: orders.customer}
select: {order_id: orders.order_id, name: customers.name}
target: {table: wide}
"""
TABLES: dict[str, dict[str, Any]] = {
    "orders": {"order_id": "long", "customer": "string"},
    "customers": {
        "id": "string",
        "lsn": "long",
        "op": "string",
        "name": "string",
        "other": "string",
        "tags": {"type": "array", "elementType": "string", "containsNull": True},
        "source": {"type": "struct", "fields": [{"name": "lsn", "type": "long", "nullable": True, "metadata": {}}]},
    },
}


def project(base: Path, more: str) -> Project:
    for name, text in {"jobs/orders.yml": JOB.replace("MORE", more), "conf/dev.yml": "lake: ./lake\n"}.items():
        (base / name).parent.mkdir(exist_ok=True)
        (base / name).write_text(text)
    return load_project(base)


def plan(base: Path, more: str = "") -> CompiledJob:
    return compile_job(project(base, more).jobs["orders"], TABLES, check_types)


def refuse(base: Path, more: str) -> str:
    with pytest.raises(ConfigError) as caught:
        plan(base, more)
    assert caught.value.exit_code == 2
    (fault,) = caught.value.faults
    assert fault.where == "jobs/orders.yml:4"
    return fault.message


def test_what_makes_rows_of_a_log_is_read_and_used(tmp_path: Path) -> None:
    source = plan(tmp_path, ", latest: {order: [lsn], delete: op = 'd'}").spec.sources
    assert source["customers"].latest == Latest(("lsn",), "op = 'd'")
    assert list(source["customers"].columns) == ["id", "lsn", "op", "name"]
    assert source["customers"].is_derived
    assert not source["orders"].is_derived
    assert plan(tmp_path, ", latest: {order: lsn}").spec.sources["customers"].latest == Latest(("lsn",))


def test_they_are_part_of_what_the_job_means_and_only_where_there_are_any(tmp_path: Path) -> None:
    texts = [
        *("", ", latest: {order: lsn}", ", latest: {order: [lsn, op]}", ", latest: {order: [op, lsn]}"),
        *(", latest: {order: lsn, delete: op = 'd'}", ", latest: {order: lsn, delete: op = 'D'}"),
        ", doubled_keys: quarantine",
    ]
    meanings = [plan(tmp_path, each).meaning for each in texts]
    assert all(a != b for i, a in enumerate(meanings) for b in meanings[:i])
    assert not {"latest", "doubled_keys"} & meanings[0].keys()
    assert plan(tmp_path, ", doubled_keys: fail").meaning == meanings[0]
    assert plan(tmp_path, ", latest: {order: lsn, delete: \"OP  = 'd'\"}".replace("OP", "op")).meaning == meanings[4]


def test_a_job_over_a_log_has_the_rule_that_a_retention_must_not_empty_its_target(tmp_path: Path) -> None:
    def rules(more: str) -> list[tuple[str, Any, bool]]:
        return [(rule.rule, rule.at_most, rule.blocks) for rule in project(tmp_path, more).jobs["orders"].rules]

    assert rules("") == []
    assert rules(", latest: {order: lsn}") == [("mass_change", 0.5, True)]
    own = "}\nrules:\n  - {rule: mass_change, at_most: 0.9, action: warn}\n#"
    text = JOB.replace("MORE", ", latest: {order: lsn}").replace("target: {table: wide}", "target: {table: wide" + own)
    (tmp_path / "jobs/orders.yml").write_text(text)
    job = load_project(tmp_path).jobs["orders"]
    assert [(rule.at_most, rule.blocks) for rule in job.rules] == [(0.9, False)]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (", latest: {order: lns}", "'lns' is not a column of 'customers' (table events); did you mean 'lsn'?"),
        (", latest: {order: source.lsn}", "'source.lsn' is not a column of 'customers'"),
        (", latest: {order: tags}", "'order' cannot be by 'tags' of type array<string>"),
        (", latest: {order: lsn, delete: po = 'd'}", "unknown column 'po'"),
        (", latest: {order: lsn, delete: op}", "'delete' is string; it must be a condition"),
        (", latest: {order: lsn, delete: source.lns > 0}", "source.lns > 0"),
        (", latest: {order: lsn, delete: rand() > 0}", "rand"),
        (", latest: {order: []}", "'order' is an empty list; name at least one column"),
        (", latest: {order: [lsn, lsn]}", "'order' names the column 'lsn' twice"),
        (", latest: {delete: op = 'd'}", "'order' is missing in 'sources.customers.latest'"),
        (", latest: {order: lsn, deleted: x}", "unknown key 'deleted'; did you mean 'delete'?"),
        (", latest: lsn", "'sources.customers.latest' must be a mapping"),
        (", doubled_keys: drop", "'sources.customers.doubled_keys' is 'drop', but must be one of fail, quarantine"),
        (", doubled_keys: quarantine, unique: trusted", "has no effect beside 'unique: trusted'"),
        (", doubled_keys: quarantine, latest: {order: lsn}", "has no effect beside 'latest'"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, more: str, said: str) -> None:
    assert said in refuse(tmp_path, more)


def test_a_file_alone_shows_what_is_wrong_in_a_condition(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="current_date"):
        project(tmp_path, ", latest: {order: lsn, delete: current_date > at}")
    assert check_file(project(tmp_path, ", latest: {order: lsn, delete: anything = 'd'}").jobs["orders"]) == []


def test_of_a_log_no_two_rows_share_a_key_so_trust_changes_nothing(tmp_path: Path) -> None:
    assert not plan(tmp_path, ", unique: trusted, latest: {order: lsn}").spec.sources["customers"].trusted
