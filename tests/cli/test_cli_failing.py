"""`enrich failing` without a JVM: what it refuses before Spark is needed, and how its answers look."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import enrich
from cli.shop import JOB
from enrich.answers.reasons import FailingRow, FailingRows, Reason, RuleCauses, format_failing, sort_causes
from enrich.base import context
from enrich.base.errors import DriftError, HistoryError
from kit.command import Call, Start
from kit.project import suite, write_project

NOT_NULL = "expect_column_values_to_not_be_null"
RULES: list[dict[str, Any]] = [
    {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}},
    {"type": NOT_NULL, "kwargs": {"column": "email"}},
    {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}},
    {"type": "expect_column_pair_values_to_be_equal", "kwargs": {"column_A": "id", "column_B": "email"}},
]
LISTED = f"the rules that do are 1 ({NOT_NULL}:email), 3 (expect_column_pair_values_to_be_equal:id,email)"


@pytest.fixture
def judged(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project with a suite; starting Spark fails."""
    files = {"jobs/customers.yml": JOB + "expectations: customers\n"}
    write_project(project, {**files, "expectations/customers.json": suite("customers", *RULES)})
    monkeypatch.setattr("enrich.spark.session.get_session", lambda *_: pytest.fail("Spark was started"))
    return project


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'JOB'"),
        (["customer"], "did you mean 'customers'?"),
        (["customers", "x"], f"rule x of job 'customers' does not exist, or judges no row by itself; {LISTED}"),
        (["customers", "-1"], "No such option '-1'"),
        (["customers", "1", "2"], "unexpected extra argument"),
        (["customers", "0"], f"rule 0 of job 'customers' does not exist, or judges no row by itself; {LISTED}"),
        (["customers", "2"], f"rule 2 of job 'customers' does not exist, or judges no row by itself; {LISTED}"),
        (["customers", "4"], f"rule 4 of job 'customers' does not exist, or judges no row by itself; {LISTED}"),
        (["customers", "--show-keys"], "only to a terminal, never as JSON"),
        (["customers", "--show-keys", "--output", "json"], "only to a terminal, never as JSON"),
        (["customers", "--output", "xml"], "'xml' is not one of 'text', 'json'"),
    ],
)  # fmt: skip
def test_wrong_calls_are_told(judged: Path, call: Call, arguments: list[str], message: str) -> None:
    done = call("--project-dir", judged, "failing", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.parametrize("rules", [None, [], [RULES[0], RULES[2]]])
def test_a_job_without_such_rules_is_told(judged: Path, call: Call, rules: list[dict[str, Any]] | None) -> None:
    files = {"expectations/customers.json": suite("customers", *rules)} if rules is not None else {}
    write_project(judged, {**files, **({} if files else {"jobs/customers.yml": JOB})})
    for arguments in ([], ["0"]):
        done = call("--project-dir", judged, "failing", "customers", *arguments)
        assert (done.exit_code, done.stdout) == (2, "")
        expected = "has no suite; name one with `expectations` in jobs/customers.yml"
        if rules is not None:
            expected = "rule 0 of job 'customers' does" if arguments else "no rule of job 'customers' judges each row"
        assert expected in done.stderr
        assert rules is None or f"`enrich --project-dir {judged} report` shows what the others found" in done.stderr


def test_without_target_it_says_what_to_run(judged: Path, call: Call) -> None:
    done = call("--project-dir", judged, "failing", "customers", "1", "--output", "json")
    assert (done.exit_code, json.loads(done.stdout)["jobs"]) == (5, [])
    run = f"`enrich --project-dir {judged} run customers`"
    assert f"job 'customers' has no target yet; run {run} to create it" in done.stderr


@pytest.mark.parametrize(("error", "code"), [(HistoryError("old"), 5), (DriftError("drifted"), 6)])
def test_exit_codes_are_those_of_why(
    judged: Path, call: Call, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(enrich, "failing", fail)
    done = call("--project-dir", judged, "failing", "customers")
    assert (done.exit_code, done.stdout) == (code, "")
    assert str(error) in done.stderr


def test_a_wrong_rule_is_refused_without_spark_or_expectations(judged: Path, start: Start) -> None:
    done = start("--project-dir", judged, "failing", "customers", "9", PYTHONVERBOSE="1")
    assert done.returncode == 2
    assert "import 'enrich.cli.checks'" in done.stderr
    assert "import 'great_expectations'" not in done.stderr


MISSING, NEAR = Reason("no_such_key", source="accounts"), Reason("near_miss", kind="invisible", source="accounts")
CASE, GONE = Reason("near_miss", kind="case", source="towns"), Reason("deleted_at", source="accounts")
EMAIL = RuleCauses(1, NOT_NULL, "email", None, 100, 12, causes=sort_causes(Counter({MISSING: 9, GONE: 2, NEAR: 1})))


def test_the_text_says_how_many_why_and_what_next() -> None:
    lines = format_failing(FailingRows("customers", 3, (EMAIL,))).splitlines()
    assert lines[0] == (
        f"12 of 100 rows fail {NOT_NULL} email (rule 1): 9 no such key, 2 deleted, 1 near miss (1 invisible)"
    )
    assert lines[1].split() == ["rows", "reason", "detail", "meaning"]
    assert [line.split()[:2] for line in lines[2:5]] == [["9", "no_such_key"], ["2", "deleted_at"], ["1", "near_miss"]]
    assert "in accounts" in lines[2]
    assert "invisible; in accounts" in lines[4]
    assert "the source has no row with this key" in lines[2]
    assert lines[5:] == [
        "  to ask about one row: enrich why customers --key NAME=VALUE email",
        "  to see which rows: --show-keys, on a terminal",
    ]


def test_other_texts() -> None:
    pair = RuleCauses(2, "expect_x", None, ("a", "b"), 1, 1, causes=sort_causes(Counter({Reason("matched"): 1})))
    text = format_failing(FailingRows("job", 3, (pair,)))
    assert text.startswith("1 of 1 row fails expect_x a, b (rule 2): 1 matched\n")
    assert "the value itself fails the rule" in text
    assert "enrich why job --key NAME=VALUE\n" in text
    assert format_failing(FailingRows("job", 3, (RuleCauses(0, "expect_x", "a", None, 7, 0),))) == (
        "0 of 7 rows fail expect_x a (rule 0)"
    )
    raised = RuleCauses(0, "expect_x", "a", None, None, None, "PythonException[X]")
    assert (
        format_failing(FailingRows("job", 3, (raised, raised))).split("\n\n")
        == ["expect_x a (rule 0) raised an error, so its rows are not counted: PythonException[X]"] * 2
    )
    kinds = RuleCauses(0, "expect_x", "a", None, 7, 3, causes=sort_causes(Counter({NEAR: 2, CASE: 1})))
    assert kinds.near_misses == {"invisible": 2, "case": 1}
    assert "3 near miss (2 invisible, 1 case)" in format_failing(FailingRows("job", 3, (kinds,)))


def test_keys_are_in_the_text_alone() -> None:
    rows = (FailingRow({"country": "de", "id": "s3cret\u200b\n\x1b"}, MISSING), FailingRow({"m": "it's"}, GONE))
    answer = FailingRows("job", 3, (RuleCauses(0, "expect_x", "a", None, 7, 4, None, EMAIL.causes, rows),))
    assert "s3cret" not in json.dumps(answer.to_dict()) + repr(answer)
    lines = format_failing(answer).splitlines()
    assert [*lines[5:8], lines[8]] == [
        "  key                                               reason       detail",
        "  --key 'country=de' --key 'id=s3cret\\u200b\\n\\x1b'  no_such_key  in accounts",
        "  --key 'm=it's'                                    deleted_at   in accounts",
        "  and 2 rows more",
    ]
    assert lines[9:] == ["  to ask about one row: enrich why job --key NAME=VALUE a"]
    with context.work_at("prod"):
        asked = format_failing(answer).splitlines()[9]
    assert asked == "  to ask about one row: enrich --target prod why job --key NAME=VALUE a"


def test_json_has_what_does_not_always_apply_only_where_it_does() -> None:
    assert EMAIL.to_dict() == {
        "index": 1,
        "expectation": NOT_NULL,
        "column": "email",
        "checked": 100,
        "failed": 12,
        "reasons": {"no_such_key": 9, "deleted_at": 2, "near_miss": 1},
        "near_misses": {"invisible": 1},
    }
    raised = RuleCauses(0, "expect_x", None, ("a", "b"), None, None, "ValueError").to_dict()
    assert raised == {
        "index": 0,
        "expectation": "expect_x",
        "column": None,
        "checked": None,
        "failed": None,
        "reasons": {},
        "column_list": ["a", "b"],
        "error": "ValueError",
    }
