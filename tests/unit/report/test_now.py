"""The table now: the last state that is known, its history, and what the suite of today says of it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from enrich.base.result import LookupState, RuleState, State
from enrich.report import Report, build_report, build_schema
from enrich.report.models import JobReport
from enrich.report.page import render_page
from enrich.report.text import format_report
from kit.history import NOT_NULL, expect, finding, project_in, row, state

IN_SET = "expect_column_values_to_be_in_set"


@pytest.fixture
def told(tmp_path: Path) -> Any:
    """Build the report of one job from its suite's rules and its rows."""

    def _told(rules: list[dict[str, Any]], *rows: dict[str, Any], runs: int = 30) -> JobReport:
        project = project_in(tmp_path, rules=rules)
        report = build_report([(project.jobs["customers"], rows)], project, runs)
        Draft7Validator(build_schema()).validate(report.to_dict())
        return report.jobs[0]

    return _told


def ran(number: int, *failed: int | None, **document: Any) -> dict[str, Any]:
    """Return a run whose rules passed and after which rows of the table fail."""
    findings = [finding(index=index) for index in range(len(failed))]
    return row(number, **{"findings": findings, "state": state(*failed), **document})


# --- the last state that is known -------------------------------------------------------------------------------------


def test_the_state_of_the_engine_is_told_as_it_is(told: Any) -> None:
    rules = (RuleState(0, 100, 12), RuleState(2), RuleState(3, error="PythonException"))
    kept = State(100, rules, {"accounts": LookupState(103, 90, 3)}, {"id": 0, "email": 12}).to_dict()
    job = told([expect()], row(0, findings=[finding()], state=kept))
    assert json.loads(job.model_dump_json())["state"] == kept
    assert (job.now.rows, job.now.counted.run_id) == (100, "run0000")


@pytest.mark.parametrize("lacking", [{}, {"state": None}])
def test_rows_without_state_give_none(told: Any, lacking: Any) -> None:
    job = told([expect()], row(0, findings=[finding()], **lacking))
    assert (job.state, job.now, job.verdict) == (None, None, "passed")
    assert told([expect()]).state is None


def test_a_failed_run_does_not_hide_the_state(told: Any) -> None:
    failed: dict[str, Any] = {"status": "failed", "state": None, "findings": []}
    job = told([expect()], ran(0, 3), ran(1, 4), row(2, **failed), row(3, **failed))
    assert (job.verdict, job.state.rules[0].failed, job.now.counted.run_id) == ("failed", 4, "run0001")
    assert job.now.rules[0].trend == (3, 4, None, None)


def test_a_blocked_run_says_what_stands_not_what_would_be(told: Any) -> None:
    judged = [finding(failed=9, success=False, action="fail")]
    job = told([expect()], ran(0, 3), ran(1, 3, status="blocked", findings=judged))
    assert (job.verdict, job.rules[0].verdict, job.rules[0].failed) == ("blocked", "blocked", 9)
    assert (job.now.rules[0].failed, job.now.rules[0].verdict) == (3, "warned")


def test_a_run_that_only_counts_is_part_of_the_history(told: Any) -> None:
    idle: dict[str, Any] = {"status": "unchanged", "sources": {}}
    unjudged = {"findings": [finding(checked=0, success=None)]}
    job = told(
        [expect()],
        row(0),
        ran(1, None, **idle, **unjudged),
        ran(2, 7, **idle, **unjudged),
        ran(3, 7, **idle, **unjudged),
    )
    assert [run.run_id for run in job.runs] == ["run0000", "run0001", "run0002"]
    assert job.now.counted.run_id == "run0003"
    assert job.now.rules[0].trend == (None, None, 7)


# --- the verdict ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "failed", "verdict"),
    [
        ({}, 0, "passed"),
        ({}, 1, "warned"),
        ({}, None, None),
        ({"mostly": 0.9}, 10, "passed"),
        ({"mostly": 0.9}, 11, "warned"),
        ({"mostly": "0.9"}, 10, "passed"),
        ({"mostly": 0.71}, 29, "passed"),  # as floats, 1 - 0.71 is less than 0.29
        ({"mostly": 1}, 1, "warned"),
        ({"mostly": 0}, 100, "passed"),
        ({"enrich": {"tolerate": 5}}, 5, "tolerated"),
        ({"enrich": {"tolerate": 5}}, 6, "warned"),
        ({"enrich": {"tolerate": 0.29}}, 29, "tolerated"),
        ({"enrich": {"tolerate": 0.29}}, 30, "warned"),
        ({"enrich": {"tolerate": 0}}, 1, "warned"),
        ({"enrich": {"tolerate": 20}, "mostly": 0.9}, 15, "tolerated"),
        ({"enrich": {"tolerate": 20}, "mostly": 0.9}, 21, "warned"),
    ],
)  # fmt: skip
def test_more_rows_than_the_suite_allows_are_a_warning(told: Any, more: Any, failed: Any, verdict: Any) -> None:
    job = told([expect(**more)], ran(0, failed))
    assert job.now.rules[0].verdict == verdict
    warned = "warned" if verdict == "warned" else "passed"
    assert (job.verdict, job.rules[0].verdict, job.rules[0].run_verdict) == (warned, warned, "passed")


def test_the_share_is_of_the_rows_that_the_rule_judges(told: Any) -> None:
    entry = {"index": 0, "checked": 40, "failed": 10, "error": None}
    job = told([expect(mostly=0.8)], row(0, findings=[finding()], state=state(rules=[entry])))
    assert (job.now.rules[0].share, job.now.rules[0].verdict, job.now.rules[0].mostly) == (0.25, "warned", 0.8)
    entry = {"index": 0, "checked": 6, "failed": 1, "error": None}
    job = told([expect(mostly=5 / 6)], row(0, findings=[finding()], state=state(rules=[entry])))
    assert job.now.rules[0].verdict == "passed"  # as Great Expectations divides


def test_a_rule_that_judges_no_row_or_raises_is_no_warning(told: Any) -> None:
    none, raised = {"checked": 0, "failed": 0}, {"checked": None, "failed": None, "error": "KeyError"}
    for entry, verdict in ((none, "not_checked"), (raised, "error")):
        job = told([expect()], row(0, findings=[finding()], state=state(rules=[{"index": 0, **entry}])))
        assert (job.now.rules[0].verdict, job.verdict) == (verdict, "passed")


@pytest.mark.parametrize(
    "today",
    [
        [],
        [expect("id")],
        [expect(kind=IN_SET, value_set=[1])],
        [expect("id"), expect()],
        [{**expect(), "type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["id", "email"]}}],
    ],
)
def test_what_the_suite_no_longer_has_at_that_place_is_not_judged(told: Any, today: Any) -> None:
    job = told(today, ran(0, 50))
    assert (job.now.rules[0].verdict, job.now.rules[0].failed, job.verdict) == (None, 50, "passed")


def test_a_rule_over_two_columns_is_known_by_both(told: Any) -> None:
    pair = "expect_column_pair_values_to_be_equal"
    rule = {"type": pair, "kwargs": {"column_A": "id", "column_B": "email"}, "severity": "warning"}
    for columns, verdict in ((["id", "email"], "warned"), (["email", "id"], None)):
        each = finding(pair, column=None, column_list=columns)
        assert told([rule], row(0, findings=[each], state=state(4))).now.rules[0].verdict == verdict


def test_what_is_worse_stays_worse(told: Any) -> None:
    held = finding(failed=2, success=False, action="quarantine")
    assert told([expect()], ran(0, 4, findings=[held])).rules[0].verdict == "held"
    allowed = finding(failed=2, success=False, action="fail")
    assert told([expect()], ran(0, 4, findings=[allowed])).rules[0].verdict == "warned"
    assert told([expect()], ran(0, 4, findings=[finding(checked=0, success=None)])).verdict == "warned"
    assert told([expect()], ran(0, 4), row(1, status="skipped", sources={}, state=None)).verdict == "skipped"


def test_a_new_rule_warns_before_any_run_has_judged_it(told: Any) -> None:
    idle: dict[str, Any] = {"status": "unchanged", "sources": {}}
    unjudged = [finding(checked=0, success=None), finding(IN_SET, index=1, checked=0, success=None)]
    rules = [expect(), expect(kind=IN_SET, value_set=[1])]
    job = told(rules, ran(0, 0), row(1, **idle, findings=unjudged, state=state(0, 8)))
    assert [rule.expectation for rule in job.rules] == [NOT_NULL]
    assert [(rule.expectation, rule.verdict) for rule in job.now.rules] == [(NOT_NULL, "passed"), (IN_SET, "warned")]
    assert job.verdict == "warned"
    assert job.headline == "table now: 1 of 2 rules fails; this run: 1 passed"


# --- the history ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "since", "or_before"),
    [
        ([0, 0], None, False),
        ([0, 3, 4], "run0001", False),
        ([5, 0, 3, 4], "run0002", False),
        ([5, 3], "run0000", True),
        ([0, 3, None, 4], "run0001", False),
        ([None, 3, 4], "run0001", False),
        ([4, 4, None], "run0000", True),
    ],
)
def test_since_which_run_rows_fail(told: Any, history: Any, since: Any, or_before: bool) -> None:
    job = told([expect()], *[ran(number, failed) for number, failed in enumerate(history)])
    rule = job.now.rules[0]
    assert rule.trend == tuple(history)
    assert (rule.since.run_id if rule.since else None, rule.since_or_before) == (since, or_before)


def test_rows_cannot_fail_before_the_table_was_created(told: Any) -> None:
    rule = told([expect()], ran(0, 3, status="created"), ran(1, 3)).now.rules[0]
    assert (rule.since.run_id, rule.since_or_before) == ("run0000", False)


def test_since_looks_further_back_than_the_history_that_is_shown(told: Any) -> None:
    rule = told([expect()], *[ran(number, number) for number in range(40)], runs=5).now.rules[0]
    assert (rule.trend, rule.since.run_id) == ((35, 36, 37, 38, 39), "run0001")


def test_rules_keep_their_history_when_they_move(told: Any) -> None:
    """The index is that of the suite which the run read; what tells rules apart is in the findings of the same run."""
    moved = [finding(IN_SET, index=0), finding(index=1)]
    rules = [expect(kind=IN_SET, value_set=[1]), expect()]
    job = told(rules, ran(0, 3), row(1, findings=moved, state=state(7, 4)))
    assert [(rule.expectation, rule.trend) for rule in job.now.rules] == [(IN_SET, (None, 7)), (NOT_NULL, (3, 4))]
    assert job.now.rules[1].since.run_id == "run0000"


def test_joins_and_nulls_are_told_with_their_history(told: Any) -> None:
    def kept(rows: int, matched: int, nulls: int) -> dict[str, Any]:
        lookup = {"rows": rows, "matched": matched, "null_references": 3}
        return state(lookups={"accounts": lookup}, nulls={"id": 0, "email": nulls})

    job = told([], row(0, state=kept(3, 0, 1)), row(1), row(2, state=kept(103, 90, 12)))
    lookup, nulls = job.now.lookups["accounts"], job.now.nulls
    assert (lookup.kind, lookup.orphans, lookup.match_rate) == ("table", 10, 0.9)
    assert (lookup.trend, lookup.orphans_trend) == ((None, None, 0.9), (0, None, 10))
    assert (nulls["email"].rows, nulls["email"].share, nulls["email"].trend) == (12, 0.12, (1, None, 12))
    assert job.now.trend == (100, None, 100)


# --- documents of foreign make ----------------------------------------------------------------------------------------

ODD: list[Any] = [None, True, -3, 10**400, 1.5, float("inf"), "x" * 2000, "\ud800", [], [[]], {}, {"a": {"b": [None]}}]


def odd_state(random_: random.Random) -> Any:
    """Return something that looks more or less like a state."""

    def some(value: Any) -> Any:
        return value if random_.random() < 0.6 else random_.choice(ODD)

    def entry() -> Any:
        counts = {"index": random_.randrange(3), "checked": 9, "failed": random_.choice([0, 4, 90]), "error": None}
        return some({name: some(value) for name, value in counts.items()})

    lookup = {name: some(5) for name in ("rows", "matched", "null_references")}
    found = {
        "rows": some(9),
        "rules": some([entry() for _ in range(4)]),
        "lookups": some({"accounts": some(lookup), "x" * 900: lookup}),
        "nulls": some({"email": some(3), "": some(2)}),
    }
    return some({name: value for name, value in found.items() if random_.random() < 0.9})


def test_any_state_gives_a_report(told: Any) -> None:
    random_ = random.Random(20261203)
    for _ in range(50):
        rows = [
            row(n, findings=[finding(), finding(index=random_.choice(ODD))], state=odd_state(random_)) for n in range(3)
        ]
        job = told([expect(mostly=0.5), expect(enrich={"tolerate": 2})], *rows)
        report = Report(generated="", target="dev", deployment="dev", verdict=job.verdict, headline="", jobs=(job,))
        assert "<html" in render_page(report)
        assert format_report(report)
