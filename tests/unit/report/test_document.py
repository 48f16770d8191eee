"""Rows of the runs table in, the report's document out."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from enrich.base.errors import HistoryError
from enrich.delta.runs import FORMAT, OUTCOME, RunRow, RunsTable
from enrich.report import Report, build_report, build_schema, read_report
from enrich.report.models import JobReport
from enrich.report.text import format_report, tell_job
from kit.history import NOT_NULL, finding, project_in, row, state


@pytest.fixture
def told(tmp_path: Path) -> Any:
    """Build the report of one job from its rows."""
    project = project_in(tmp_path)

    def _told(*rows: dict[str, Any], runs: int = 30) -> JobReport:
        report = build_report([(project.jobs["customers"], rows)], project, runs)
        Draft7Validator(build_schema()).validate(report.to_dict())
        return report.jobs[0]

    return _told


# --- which run is told, and the verdict -------------------------------------------------------------------------------

FAILING = finding(failed=3, success=False)
IDLE: dict[str, Any] = {"status": "unchanged", "sources": {}}
REPAIR: dict[str, Any] = {"mode": "repair", "findings": [finding(checked=0, success=None)]}


@pytest.mark.parametrize(
    ("rows", "verdict", "told_run"),
    [
        ([], "never_run", None),
        ([row(0, status="created")], "passed", "run0000"),
        ([row(0, findings=[FAILING])], "warned", "run0000"),
        ([row(0, findings=[finding(failed=3, success=False, action="fail")])], "passed", "run0000"),  # tolerated
        ([row(0, findings=[finding(failed=3, success=False, tolerated=True)])], "passed", "run0000"),
        ([row(0, findings=[{**FAILING, "tolerated": False}])], "warned", "run0000"),
        ([row(0, findings=[finding(success=None, checked=0)])], "not_checked", "run0000"),
        ([row(0, findings=[finding(success=None, checked=0), finding()])], "passed", "run0000"),
        ([row(0, findings=[finding(success=None, error="KeyError")])], "warned", "run0000"),
        ([row(0, quarantine={"rows": 2, "reasons": {"key_not_null": 2}})], "warned", "run0000"),
        ([row(0, quarantine={"rows": 0, "reasons": {}})], "passed", "run0000"),
        ([row(0), row(1, status="blocked", findings=[FAILING])], "blocked", "run0001"),
        ([row(0), row(1, status="blocked"), row(2, status="locked", sources={})], "blocked", "run0001"),
        ([row(0), row(1, status="failed", sources={}), row(2, status="locked", sources={})], "failed", "run0000"),
        ([row(0), row(1, status="locked", sources={})], "passed", "run0000"),
        ([row(0, status="locked", sources={})], "never_run", None),
        ([row(0), row(1, status="failed", sources={})], "failed", "run0000"),
        ([row(0), row(1, status="skipped", sources={})], "skipped", "run0000"),
        ([row(0, status="failed", sources={})], "failed", None),
        ([row(0), row(1, status="unchanged", sources={"a": {"from": 4, "to": 4}})], "passed", "run0000"),
        ([row(0), row(1, status="unchanged", sources={"a": {"from": 4, "to": 5}})], "passed", "run0000"),
        ([row(0), row(1, **IDLE, findings=[finding(), finding(checked=0, success=None)])], "passed", "run0001"),
        ([row(0), row(1, status="blocked", findings=[FAILING]), row(2, **IDLE)], "passed", "run0000"),
        ([row(0, findings=[FAILING]), row(1, status="failed"), row(2, **IDLE)], "warned", "run0000"),
        ([row(0, findings=[FAILING]), row(1, **REPAIR)], "warned", "run0000"),
        ([row(0), row(1, status="failed"), row(2, **REPAIR)], "passed", "run0000"),
        ([row(0), row(1, status="blocked", findings=[FAILING]), row(2, **REPAIR)], "blocked", "run0001"),
        ([row(0), row(1, status="blocked", findings=[FAILING]), row(2, **REPAIR), row(3)], "passed", "run0003"),
        ([row(0), row(1, status="blocked", findings=[FAILING]), row(2, **IDLE), row(3, **REPAIR)], "passed", "run0000"),
        ([row(0), row(1, status="blocked"), row(2, **IDLE), row(3, status="locked", sources={})], "passed", "run0000"),
    ],
)  # fmt: skip
def test_verdict_is_of_the_run_that_made_what_stands(told: Any, rows: Any, verdict: str, told_run: str | None) -> None:
    job = told(*rows)
    assert job.verdict == verdict
    assert (job.judged.run_id if job.judged else None) == told_run
    assert (job.last.run_id if job.last else None) == (f"run{len(rows) - 1:04}" if rows else None)


def test_idle_runs_are_not_in_the_history_but_the_last_is_told(told: Any) -> None:
    idle: dict[str, Any] = {"status": "unchanged", "sources": {"a": {"from": 4, "to": 4, "changes": 0}}}
    idle["findings"] = [finding(checked=0, success=None)]
    moved = idle | {"sources": {"a": {"from": 4, "to": 5, "changes": 0}}}
    job = told(row(0, findings=[FAILING]), row(1, **idle), row(2, **moved), row(3, **idle))
    assert [run.run_id for run in job.runs] == ["run0000", "run0002"]
    assert job.last.run_id == "run0003"
    assert [rule.verdict for rule in job.rules] == ["warned"]


def test_history_is_as_long_as_asked(told: Any) -> None:
    job = told(*[row(number, findings=[finding(failed=number)]) for number in range(50)], runs=7)
    assert [run.run_id for run in job.runs] == [f"run{number:04}" for number in range(43, 50)]
    assert job.rules[0].trend == tuple(range(43, 50))


# --- rules, lookups, quarantine ---------------------------------------------------------------------------------------


def test_a_rule_keeps_its_trend_when_the_suite_grows(told: Any) -> None:
    before = row(0, findings=[finding(failed=1, success=False)])
    unjudged = row(1, findings=[finding(checked=0, success=None)])
    after = row(2, findings=[finding("expect_x", column="a"), finding(index=1, failed=4), finding(index=2, failed=5)])
    job = told(before, unjudged, after)
    assert [rule.trend for rule in job.rules] == [(None, None, 0), (1, None, 4), (None, None, 5)]


@pytest.mark.parametrize(
    ("more", "verdict", "share"),
    [
        ({"failed": 0}, "passed", 0.0),
        ({"failed": 2, "success": False}, "warned", 0.2),
        ({"failed": 2, "success": False, "action": "quarantine"}, "held", 0.2),
        ({"failed": 2, "success": False, "action": "fail"}, "tolerated", 0.2),
        ({"checked": 0, "success": None}, "not_checked", None),
        ({"success": None, "error": "KeyError"}, "error", 0.0),
    ],
)
def test_every_rule_has_a_verdict_and_a_share(told: Any, more: Any, verdict: str, share: float | None) -> None:
    rule = told(row(0, findings=[finding(**more)])).rules[0]
    assert (rule.verdict, rule.share) == (verdict, share)


def test_rules_with_one_verdict_for_all_rows_have_no_share(told: Any) -> None:
    names = ("expect_column_mean_to_be_between", "expect_column_values_to_be_of_type", "key_unique", NOT_NULL)
    rules = told(row(0, findings=[finding(name, failed=1, success=False) for name in names])).rules
    assert [(rule.by_row, rule.share) for rule in rules] == [(False, None), (False, None), (True, 0.1), (True, 0.1)]


def test_the_jobs_own_rules_tell_their_threshold(told: Any) -> None:
    rate = finding("match_rate", index=None, column=None, source="accounts", action="fail", failed=3, at_least=0.7)
    change = finding("mass_change", index=None, column=None, failed=3, success=False, at_most=2, accepted=True)
    job = told(row(0, findings=[rate, change]))
    rules = tell_job(job)[-1].tables[0].rows
    assert [(row[0], row[-2]) for row in rules] == [
        ("too few references have a partner in accounts", "at least 70 %"),
        ("too many rows would go, or lose a value", "at most 2, accepted for this run"),
    ]
    assert [(rule.verdict, rule.share) for rule in job.rules] == [("passed", 0.3), ("warned", 0.3)]


def test_a_blocked_runs_failing_rules_are_those_that_blocked(told: Any) -> None:
    failing = finding(failed=2, success=False, action="fail")
    assert told(row(0, status="blocked", findings=[failing])).rules[0].verdict == "blocked"


def test_the_headline_counts_rules_by_what_became_of_them(told: Any) -> None:
    job = told(row(0, findings=[FAILING, finding(), finding(), finding(checked=0, success=None)]))
    assert job.headline == "4 rules: 1 failed, 2 passed, 1 judged no row"
    assert told(row(0, findings=[finding()])).headline == "1 rule: 1 passed"


def test_lookups_and_quarantine_are_told_with_their_trend(told: Any) -> None:
    def lookup(rows: int, matched: int) -> dict[str, Any]:
        return {"accounts": {"kind": "table", "rows": rows, "matched": matched, "null_references": 1}}

    held = {"rows": 3, "reasons": {"key_not_null": 1, f"{NOT_NULL}:email": 2}}
    job = told(row(0), row(1, lookups=lookup(0, 0)), row(2, lookups=lookup(8, 6), quarantine=held))
    assert job.lookups["accounts"].share == 0.75
    assert job.lookups["accounts"].trend == (None, None, 0.75)
    assert [run.held for run in job.runs] == [None, None, 3]
    assert job.quarantine.reasons == held["reasons"]
    later = told(row(0, quarantine=held), row(1, **IDLE, quarantine={"rows": 0, "reasons": {}}))
    assert (later.quarantine.rows, later.verdict) == (0, "passed")


@pytest.mark.parametrize(
    ("status", "rows"),
    [("failed", 3), ("skipped", 3), ("locked", 3), ("unchanged", None), ("updated", None), ("blocked", None)],
)
def test_a_quarantine_of_which_the_last_run_found_none_is_gone(told: Any, status: str, rows: int | None) -> None:
    """What did not get that far has not looked."""
    runs = [row(0, quarantine={"rows": 3, "reasons": {"key_not_null": 3}}), row(1, status=status)]
    for job in (told(*runs), told(*runs, row(2, status="failed"))):
        assert (job.quarantine and job.quarantine.rows) == rows
        assert any("in the quarantine" in each.what for each in job.to_do) == (rows is not None)


def test_rows_of_an_older_release_are_read(told: Any) -> None:
    older = row(0)
    document = json.loads(older["document"])
    kept = {name: value for name, value in document.items() if name not in ("lookups", "quarantine", "stages")}
    job = told(older | {"document": json.dumps(kept)})
    assert (job.verdict, job.lookups, job.quarantine, job.stages) == ("passed", {}, None, {})


# --- rows of foreign make ---------------------------------------------------------------------------------------------

ODD: list[Any] = [
    None,
    True,
    -3,
    10**400,
    1.5,
    float("inf"),
    "x" * 2000,
    "\ud800",
    [],
    [[]],
    {},
    {"a": {"b": [None]}},
    {"from": "y"},
]


def odd(random_: random.Random, depth: int = 0) -> Any:
    """Return some value, now and then one that looks like part of a document."""
    if depth < 3 and random_.random() < 0.5:
        names = [
            "findings",
            "sources",
            "quarantine",
            "reasons",
            "rows",
            "lookups",
            "stages",
            "expectation",
            "column_list",
        ]
        return {name: odd(random_, depth + 1) for name in random_.sample(names, 3)}
    return [odd(random_, depth + 1)] if depth < 3 and random_.random() < 0.2 else random_.choice(ODD)


def test_any_document_gives_a_report(told: Any) -> None:
    """What stands in the runs table may come from another release, or from a hand."""
    from enrich.report.page import render_page

    random_ = random.Random(20261121)
    for _ in range(150):
        plain = row(1)
        document = json.loads(plain["document"]) | {
            name: odd(random_)
            for name in random_.sample(
                ["sources", "findings", "lookups", "quarantine", "stages", "error", "updated"], 3
            )
        }
        document["findings"] = random_.choice([document["findings"], [odd(random_), finding()]])
        job = told(row(0), plain | {"document": json.dumps(document), "seconds": random_.choice(ODD[:6])})
        report = Report(generated="", target="dev", deployment="dev", verdict=job.verdict, headline="", jobs=(job,))
        assert "<html" in render_page(report)
        assert format_report(report)


@pytest.mark.parametrize("text", ["", "null", "[]", "{", "[" * 100_000, None])
def test_a_document_that_is_none_is_an_empty_one(told: Any, text: str | None) -> None:
    assert told(row(0) | {"document": text}).verdict == "passed"


def test_long_texts_are_cut(told: Any) -> None:
    long = "x" * 1_000_000
    job = told(
        row(0, status="blocked", error=long, findings=[finding(long, column=long, column_list=[long], error=long)],
            sources={long: {"from": 1, "to": 2}}, quarantine={"rows": 1, "reasons": {long: 1}}, stages={long: 1.0})
    )  # fmt: skip
    assert len(json.dumps(job.model_dump())) < 15_000


# --- the runs table ---------------------------------------------------------------------------------------------------


def test_history_is_read_from_the_runs_table(tmp_path: Path) -> None:
    project = project_in(tmp_path, "customers", "orders")
    runs = RunsTable(project.state)
    assert {job.verdict for job in read_report(project).jobs} == {"never_run"}

    def outcome(number: int, status: str, target: str = "customers", **document: Any) -> None:
        found = json.loads(row(number, **document)["document"])
        place = f"{project.lake}/{target}"
        runs.append(RunRow(f"run{number}", "customers", place, OUTCOME, found, None, status, "incremental", 0, 1.5))

    outcome(0, "created", findings=[FAILING], state=state(3))
    outcome(1, "updated", target="elsewhere")
    for number in range(2, 6):
        outcome(number, "unchanged", sources={"consents": {"from": 1, "to": 1, "changes": 0}})
    report = read_report(project, runs=2)
    assert [(job.job, job.verdict) for job in report.jobs] == [("customers", "warned"), ("orders", "never_run")]
    customers = report.jobs[0]
    assert [run.run_id for run in customers.runs] == ["run0"]
    assert customers.last is not None
    assert customers.last.run_id == "run5"
    assert report.headline == "2 jobs: 1 warned, 1 never run"
    assert report.verdict == "warned"

    for number in range(6, 10):  # of which the first is not read: nobody knows what the table held before the second
        outcome(number, "updated", findings=[FAILING], state=state(3))
    now = read_report(project, runs=2).jobs[0].now
    assert now is not None
    (rule,) = now.rules
    assert rule.since is not None
    assert (rule.since.run_id, rule.since_or_before) == ("run7", True)


def test_the_documents_of_the_engine_have_what_the_report_reads(told: Any) -> None:
    """Field names are written in two places: the result's and here."""
    from enrich.base.result import Finding, JobResult, Lookup, Quarantine, SourceWindow

    result = JobResult(
        "customers",
        "updated",
        sources={"a": SourceWindow(1, 2, 3)},
        findings=(Finding(0, "e", "c", "warn", 2, 1, False),),
    )
    names = set(json.loads(row(0)["document"]))
    assert names <= set(result.to_dict())
    lookup, held = Lookup(3, 2, 1, "table"), Quarantine(1, {"key_not_null": 1})
    more = replace(result, lookups={"a": lookup}, quarantine=held, stages={"join": 1.5})
    job = told(row(0, **more.to_dict()))
    assert job.lookups["a"].to_dict().items() >= {"rows": 3, "matched": 2, "null_references": 1}.items()
    assert job.quarantine == held
    assert job.stages == {"join": 1.5}
    assert set(finding()) <= set(result.to_dict()["findings"][0])
    assert set(result.to_dict()["sources"]["a"]) == {"from", "to", "changes"}


def test_a_run_of_a_newer_release_ends_the_report(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    place, document = f"{project.lake}/customers", {"enrich": FORMAT + 1}
    RunsTable(project.state).append(RunRow("r1", "customers", place, OUTCOME, document, None, "updated"))
    with pytest.raises(HistoryError, match="the runs table was written by a newer release of enrich"):
        read_report(project)
