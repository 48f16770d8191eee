"""What the built-in rules of a job file may say: each case is one list of rules and the fault that must come."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from enrich.init import build_schemas
from enrich.project.project import load_project
from enrich.project.yamlfile import load_tree
from kit.project import write_project
from unit.config.small_project import CONF, MIRROR, faults_of

JOB = """\
job: orders
sources:
  orders: {table: orders_raw, key: order_id}
  customers: {table: customers, key: customer_id}
  notes: {table: notes, key: order_id}
  parts: {table: parts, key: part_id}
from: orders
join:
  customers: {kind: foreign_key, on: orders.customer_id}
  notes: {kind: table}
  parts: {kind: list, elements: orders.part_ids}
target: {table: orders_wide}
rules:
"""
LINE = len(JOB.splitlines()) + 1

RIGHT = [
    "{rule: match_rate, join: notes, at_least: 0.8}",
    "{rule: match_rate, join: customers, at_least: 1.0, action: fail}",
    "{rule: match_rate, join: customers, at_least: 0.9, action: warn}",
    "{rule: null_foreign_keys, join: customers, at_most: 0.05}",
    "{rule: null_foreign_keys, join: parts, at_most: 3}",
    "{rule: new_orphans, join: parts, at_most: 0}",
    "{rule: mass_change, at_most: 0.5}",
]

WRONG = {
    "unknown rule": ("{rule: match_rat, join: notes, at_least: 0.8}", "did you mean 'match_rate'?"),
    "no rule": ("{join: notes, at_least: 0.8}", "'rule' is missing in 'rules' (item 1)"),
    "a list of rules": ("{rule: [match_rate], at_least: 0.5}", "'rules.rule' is a list, but must be one of"),
    "a mapping of rules": ("{rule: {match_rate: 1}, at_least: 0.5}", "is a mapping, but must be one of"),
    "unknown key": ("{rule: mass_change, at_most: 1, at_mots: 0.8}", "unknown key 'at_mots'; did you mean 'at_most'?"),
    "a key of a join": ("{rule: mass_change, at_most: 1, kind: list}", "unknown key 'kind'; it belongs in"),
    "no mapping": ("mass_change", "'rules' (item 1) must be a mapping of keys and values, not text"),
    "no threshold": ("{rule: mass_change}", "mass_change needs 'at_most'"),
    "the other threshold": ("{rule: mass_change, at_least: 0.5}", "mass_change takes 'at_most', not 'at_least'"),
    "match_rate at most": ("{rule: match_rate, join: notes, at_most: 0.5}", "match_rate takes 'at_least'"),
    "a boolean": ("{rule: mass_change, at_most: true}", "'at_most' must be a whole number of rows or a share"),
    "a text": ("{rule: mass_change, at_most: 50%}", "from 0.0 to 1.0, not text"),
    "a negative number": ("{rule: mass_change, at_most: -1}", "'at_most' cannot be negative"),
    "a negative share": ("{rule: mass_change, at_most: -0.1}", "is a share from 0.0 to 1.0"),
    "a share above 1": ("{rule: mass_change, at_most: 1.5}", "is a share from 0.0 to 1.0; write rows as a whole"),
    "no number at all": ("{rule: mass_change, at_most: .nan}", "is a share from 0.0 to 1.0"),
    "no value": ("{rule: mass_change, at_most: }", "has no value"),
    "a match rate in rows": ("{rule: match_rate, join: notes, at_least: 1}", "write 1.0 for all rows"),
    "unknown alias": ("{rule: match_rate, join: note, at_least: 0.5}", "not among the joins; did you mean 'notes'?"),
    "the driving source": ("{rule: new_orphans, join: orders, at_most: 0}", "'orders', which is not among the joins"),
    "no alias": ("{rule: new_orphans, at_most: 0}", "needs 'join', the alias of what is joined; it can be customers"),
    "an alias too many": ("{rule: mass_change, join: notes, at_most: 0}", "the whole target; leave 'join' out"),
    "nulls of a table join": ("{rule: null_foreign_keys, join: notes, at_most: 0}", "not for 'notes': the key of a"),
    "a mirror's rule": ("{rule: value_conflicts, at_most: 0}", "value_conflicts is about mirrors; a join job can have"),
    "a scope of orphans": ("{rule: new_orphans, join: notes, at_most: 0, scope: target}", "only match_rate and null_"),
    "a scope of the target": ("{rule: mass_change, at_most: 1, scope: changed}", "take 'scope'; leave it out"),
    "a scope that is none": ("{rule: match_rate, join: notes, at_least: 0.5, scope: all}", "one of changed, target"),
    "quarantine": ("{rule: mass_change, at_most: 1, action: quarantine}", "must be one of warn, fail"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_rule_is_refused_at_its_line(tmp_path: Path, case: str) -> None:
    rule, message = WRONG[case]
    faults = faults_of(write_project(tmp_path, {"conf/dev.yml": CONF, "jobs/orders.yml": f"{JOB}  - {rule}\n"}))
    assert [where for where, _ in faults] == [f"jobs/orders.yml:{LINE}"], faults
    assert message in faults[0][1]


def test_a_rule_about_a_join_of_an_unknown_kind_adds_no_second_fault(tmp_path: Path) -> None:
    job = f"{JOB.replace('kind: foreign_key', 'kind: foriegn_key')}  - {RIGHT[1]}\n"
    ((where, message),) = faults_of(write_project(tmp_path, {"conf/dev.yml": CONF, "jobs/orders.yml": job}))
    assert where == f"jobs/orders.yml:{JOB.splitlines().index('join:') + 2}"
    assert "did you mean 'foreign_key'?" in message


def test_rules_are_a_list_without_repetitions(tmp_path: Path) -> None:
    again = f"{JOB}  - {RIGHT[0]}\n  - {RIGHT[0]}\n"
    faults = faults_of(write_project(tmp_path, {"conf/dev.yml": CONF, "jobs/orders.yml": again}))
    assert faults == [
        (f"jobs/orders.yml:{LINE + 1}", "match_rate is declared twice with the same action and scope; keep one")
    ]
    both = f"{JOB}  - {RIGHT[0]}\n  - {RIGHT[0].replace('{', '{scope: target, ')}\n"
    assert len(load_project(write_project(tmp_path, {"jobs/orders.yml": both})).jobs["orders"].rules) == 2
    mapping = f"{JOB}  mass_change: 1\n"
    faults = faults_of(write_project(tmp_path, {"conf/dev.yml": CONF, "jobs/orders.yml": mapping}))
    assert "'rules' must be a list of rules, not a mapping" in faults[0][1]


@pytest.mark.parametrize(
    ("conflict", "rule", "message"),
    [
        ("last", "{rule: match_rate, join: x, at_least: 0.5}", "a mirror job can have mass_change, value_co"),
        ("fail", "{rule: value_conflicts, at_most: 1}", "with 'fail' one conflict blocks the run"),
        ("collect", "{rule: value_conflicts, join: people, at_most: 1}", "leave 'join' out"),
    ],
)
def test_a_mirror_has_rules_of_its_own(tmp_path: Path, conflict: str, rule: str, message: str) -> None:
    text = MIRROR.replace("  columns: [note]\n", "").replace("  order: seen_at\n", "")
    text = text.replace("conflict: last", f"conflict: {conflict}") + f"rules:\n  - {rule}\n"
    (fault,) = faults_of(write_project(tmp_path, {"conf/dev.yml": CONF, "jobs/mails.yml": text}))
    assert message in fault[1]


@pytest.mark.parametrize("kind", ["[]", "{}", "1", "forein_key"])
def test_a_rule_about_a_join_of_no_kind_hides_no_other_fault(tmp_path: Path, kind: str) -> None:
    text = JOB.replace("kind: foreign_key", f"kind: {kind}") + "  - {rule: match_rate, join: customers}\n"
    assert text.count(f"kind: {kind}")
    found = faults_of(write_project(tmp_path, {"conf/dev.yml": CONF, "jobs/orders.yml": text}))
    assert any("match_rate needs 'at_least'" in message for _, message in found)


def test_right_rules_are_read_and_block_by_default_where_it_matters(tmp_path: Path) -> None:
    text = JOB + "".join(f"  - {rule}\n" for rule in RIGHT)
    mirror = MIRROR + "rules: [{rule: value_conflicts, at_most: 0}, {rule: mass_change, at_most: 3, action: warn}]\n"
    files = {"conf/dev.yml": CONF, "jobs/orders.yml": text, "jobs/mails.yml": mirror}
    project = load_project(write_project(tmp_path, files))
    rules = project.jobs["orders"].rules
    assert [(rule.at_least, rule.at_most) for rule in rules] == [
        (0.8, None),
        (1.0, None),
        (0.9, None),
        (None, 0.05),
        (None, 3),
        (None, 0),
        (None, 0.5),
    ]
    assert isinstance(rules[4].at_most, int)
    assert [rule.blocks for rule in rules] == [False, True, False, False, False, False, True]
    assert [rule.blocks for rule in project.jobs["mails"].rules] == [False, False]
    validator = Draft7Validator(json.loads(json.dumps(build_schemas()["job"])))
    assert not list(validator.iter_errors(load_tree(text, "x.yml").value))
    for wrong in ("{rule: mass_change, at_most: -1}", "{rule: mass_chance, at_most: 1}", "{at_most: 1}"):
        assert list(validator.iter_errors(load_tree(f"{JOB}  - {wrong}\n", "x.yml").value)), wrong
