"""Which rows of a whole target fail its rules, and why: the same words as `enrich why`, asked for each row alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import enrich
from enrich.answers.question import explain
from enrich.base.errors import DriftError, HistoryError
from kit.project import CUSTOMERS
from scenarios.references import NOT_NULL, VALUE, WIDE, Rule, check_against_why, find_rule, list_keys, rule

if TYPE_CHECKING:
    from kit.command import Call
    from kit.lab import Lab

JSON_SCHEMA = "expect_column_values_to_match_json_schema"
WORDS = {"type": "object", "properties": {"a": {"type": "string"}}}


def where(column: str, operator: str, parameter: Any) -> Rule:
    return {"type": "comparison", "column": {"name": column}, "operator": operator, "parameter": parameter}


STORY = [
    rule(NOT_NULL, column="email"),
    rule(NOT_NULL, "fail", column="ok", mostly=0.1),
    {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}},
    rule("expect_column_pair_values_to_be_equal", column_A="id", column_B="email", ignore_row_if="neither"),
    rule(NOT_NULL, column="email", row_condition=where("ok", "==", True), condition_parser="great_expectations"),
    rule("expect_column_values_to_not_be_in_set", column="id", value_set=["nobody"]),
]
LATER = [
    # A rule in Python sees no row that its row condition keeps out, or it would raise.
    rule(
        JSON_SCHEMA, column="note", json_schema=WORDS, row_condition=where("id", "==", "a1"),
        condition_parser="great_expectations",
    ),
    rule(JSON_SCHEMA, column="note", json_schema=WORDS),
]  # fmt: skip


@pytest.fixture
def story(lab: Lab) -> Lab:
    """Consents and accounts after a run: each account is missing, or its address is, for another reason."""
    text = pa.string()
    lab.table("consents", "id", {"id": text, "ok": pa.bool_()})
    lab.table("accounts", "id", {"id": text, "email": text, "note": text})

    def account(key: str, email: str | None, note: str = "n") -> dict[str, Any]:
        return {"id": key, "email": email, "note": note}

    lab.append("consents", *[{"id": f"u{i}", "ok": i != 4} for i in range(1, 7)])
    lab.append("accounts", account("u1", VALUE), account("u2", None), account("u4", VALUE))
    lab.append("accounts", account("\u200bu3", VALUE), account("a1", VALUE, '{"a": 1}'))
    lab.drop("accounts", "id = 'u4'")
    lab.job(CUSTOMERS.replace("  ok:", "  note: accounts.note\n  ok:") + "expectations: customers\n")
    lab.suite("customers", *STORY)
    return lab


def test_failing_rows_of_the_story(story: Lab, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    project = enrich.load_project(story.home)
    with pytest.raises(HistoryError, match="'customers' has no target yet") as caught:
        enrich.failing(project, "customers")
    assert (caught.value.exit_code, caught.value.hint) == (5, "run `enrich run customers` to create it")
    ran = story.run()
    assert ran.status == "created"
    as_json = call("failing", "customers", 5, "--output", "json")  # answered without Spark
    version = ran.target_version
    story.append("accounts", {"id": "u5", "email": VALUE, "note": "n"})
    story.suite("customers", *STORY, *LATER)
    project = enrich.load_project(story.home)
    answer = enrich.failing(project, "customers", spark=story.spark, show_keys=True)

    assert [each.index for each in answer.rules] == [0, 1, 3, 4, 5, 6, 7]
    found = answer.to_dict()
    assert (found["job"], found["target_version"]) == ("customers", version)
    assert found["rules"][0] == {
        "index": 0,
        "expectation": NOT_NULL,
        "column": "email",
        "checked": 8,
        "failed": 5,
        "reasons": {
            "arrived_after_window": 1, "deleted_at": 1, "near_miss": 1, "no_such_key": 1, "value_null_in_lookup": 1,
        },
        "near_misses": {"invisible": 1},
    }  # fmt: skip
    assert list_keys(find_rule(answer, 0)) == {"u2", "u3", "u4", "u5", "u6"}
    assert (found["rules"][1]["checked"], find_rule(answer, 1).reasons) == (8, {"near_miss": 1, "no_such_key": 1})
    assert list_keys(find_rule(answer, 1)) == {"a1", "\u200bu3"}
    pair = found["rules"][2]
    assert (pair["column"], pair["column_list"], pair["checked"]) == (None, ["id", "email"], 8)
    assert pair["reasons"]["matched"] == 3  # the address is not the key, but nobody misses a row
    assert list_keys(find_rule(answer, 4)) == {"u2", "u3", "u5", "u6"}  # u4 is kept out by the row condition
    assert found["rules"][4]["reasons"] == {}
    assert (found["rules"][4]["checked"], found["rules"][4]["failed"]) == (8, 0)
    assert found["rules"][5].items() >= {"checked": 1, "failed": 1, "reasons": {"matched": 1}}.items()
    broken = found["rules"][6]
    assert (broken["checked"], broken["failed"], broken["reasons"]) == (None, None, {})
    assert broken["error"]
    assert VALUE not in json.dumps(found)
    assert "u6" not in json.dumps(found)
    keys = list({json.dumps(row.key): row.key for each in answer.rules for row in each.rows}.values())
    check_against_why(answer, zip(keys, explain(project, "customers", keys, spark=story.spark), strict=True))
    assert (as_json.exit_code, json.loads(as_json.stdout)) == (0, found | {"rules": [found["rules"][4]]})
    check_command_line(call, monkeypatch)

    story.append("customers", {"id": "x", "email": None, "note": None, "ok": None})
    with pytest.raises(DriftError, match="customers"):
        enrich.failing(project, "customers", spark=story.spark)
    assert call("failing", "customers").exit_code == 6


def check_command_line(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = call("failing", "customers", 0)
    assert shown.exit_code == 0
    head, *lines = shown.stdout.splitlines()
    assert head == (
        "5 of 8 rows fail expect_column_values_to_not_be_null email (rule 0): 1 arrived after window, 1 deleted,"
        " 1 near miss (1 invisible), 1 no such key, 1 value null in lookup"
    )
    assert lines[0].split() == ["rows", "reason", "detail", "meaning"]
    (near,) = [line for line in lines if "near_miss" in line]
    assert near.strip().startswith("1  near_miss")
    assert "invisible; in accounts" in near
    assert lines[-2:] == [
        "  to ask about one row: enrich why customers --key NAME=VALUE email",
        "  to see which rows: --show-keys, on a terminal",
    ]
    assert "u6" not in shown.stdout
    refused = call("failing", "customers", "--show-keys")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "only to a terminal" in refused.stderr
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    with_keys = call("failing", "customers", 1, "--show-keys")
    words = [line.split() for line in with_keys.stdout.splitlines()]
    assert ["--key", "'id=a1'", "no_such_key", "in", "consents"] in words
    assert ["--key", "'id=\\u200bu3'", "near_miss", "invisible;", "in", "consents"] in words
    assert VALUE not in shown.output + with_keys.output


def test_a_source_that_has_gained_a_column_since(lake: Lab) -> None:
    """The target and the recorded versions do not have it yet; a list, and the default select, will."""
    lake.job(WIDE.replace("expectations: wide\n", ""))
    everything = "job: everything\nsources:\n  products: {table: products, key: id}\n"
    lake.job(everything + "from: products\ntarget: {table: everything}\nexpectations: everything\n")
    lake.suite("everything", rule(NOT_NULL, column="title"))
    assert lake.run_all("wide", "everything").exit_code == 0
    lake.spark.sql("ALTER TABLE delta.`{}` ADD COLUMN extra STRING".format(lake.path("tags")))
    lake.spark.sql("ALTER TABLE delta.`{}` ADD COLUMN extra STRING".format(lake.path("products")))
    lake.append("tags", {"id": "t9", "label": "late", "extra": "x"})
    project = enrich.load_project(lake.home)
    told = enrich.why(project, "wide", "p4", "tags", spark=lake.spark).columns["tags"]
    assert told.reason == "arrived_after_window"
    assert enrich.why(project, "everything", "p8", "title", spark=lake.spark).columns["title"].reason != "matched"
    answer = enrich.failing(project, "everything", spark=lake.spark)
    assert answer.rules[0].reasons == {"value_null": 1}
