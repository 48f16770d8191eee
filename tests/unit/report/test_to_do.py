"""What a report says is to be done: worst first, in words, with reasons, what has changed, and the next command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enrich.project.catalogue import TYPES
from enrich.project.models import Job
from enrich.report import build_report
from enrich.report.models import JobReport
from enrich.report.page import format_junit, format_markdown, render_page
from enrich.report.text import describe, format_report
from kit.history import NOT_NULL, expect, finding, project_in, row, state

LENGTH = "expect_column_value_lengths_to_be_between"
BETWEEN = "expect_column_values_to_be_between"


@pytest.fixture
def told(tmp_path: Path) -> JobReport:
    """A job of which two runs are known: in the second more addresses are missing, and what was too long is mended."""
    project = project_in(tmp_path, rules=[expect(), expect("ok", LENGTH, min_value=1)])
    runs = []
    for number, (missing, long) in enumerate([(8, 3), (12, 0)]):
        lookups = {"accounts": {"rows": 300, "matched": 290, "null_references": 4}}
        findings = [finding(failed=missing, success=False, checked=300), finding(LENGTH, index=1, column="ok")]
        counted = state(missing, long, rows=300, lookups=lookups, nulls={"id": 0, "email": missing, "ok": number})
        held = {"rows": 5, "reasons": {f"{NOT_NULL}:email": 4, "key_not_null": 1}} if number else None
        runs.append(row(number, findings=findings, state=counted, quarantine=held))
    (found,) = build_report([(project.jobs["customers"], runs)], project).jobs
    return found


def test_findings_have_words_reasons_and_a_command(told: JobReport) -> None:
    held, missing = told.to_do
    assert (held.what, held.why) == ("5 rows in the quarantine", "email is missing: 4, the key is missing: 1")
    assert missing.what == "email is missing: 12 of 300 rows"
    assert missing.rule == f"{NOT_NULL}(email)", "Great Expectations' name stands beside"
    assert missing.next == "enrich failing customers 0"


def test_what_differs_from_the_run_before(told: JobReport) -> None:
    assert [(each.what, each.before, each.now, each.how) for each in told.changes] == [
        ("email is missing", 8, 12, "rose"),
        ("ok is too short or too long", 3, 0, "recovered"),
        ("nulls in ok", 0, 1, "rose"),
    ]


def test_a_rule_that_begins_to_fail(tmp_path: Path) -> None:
    project = project_in(tmp_path, rules=[expect()])
    runs = [row(n, findings=[finding()], state=state(failed)) for n, failed in enumerate([0, 2])]
    (job,) = build_report([(project.jobs["customers"], runs)], project).jobs
    assert [each.how for each in job.changes] == ["fails now"]


def test_nulls_have_the_reasons_that_the_counts_tell(tmp_path: Path) -> None:
    project = project_in(tmp_path, rules=[expect()])
    job = project.jobs["customers"]
    job = job.model_copy(update={"join": {"accounts": job.join["accounts"].model_copy(update={"how": "left"})}})
    lookups = {"accounts": {"rows": 300, "matched": 290, "null_references": 4}}

    def tell(rows: int, nulls: int, job: Job = job) -> dict[str, int]:
        counted = state(nulls, rows=rows, lookups=lookups, nulls={"email": nulls})
        (found,) = build_report([(job, [row(0, findings=[finding()], state=counted)])], project).jobs
        assert found.now is not None
        return found.now.nulls["email"].reasons

    driving = job.model_copy(update={"select": {"email": "consents.email"}})
    assert tell(300, 12, driving) == {"value_null": 12}, "the driving source has none"
    full = {"accounts": job.join["accounts"].model_copy(update={"how": "full"})}
    assert tell(300, 12, driving.model_copy(update={"join": full})) == {}, "or there is no driving row"
    assert tell(300, 12) == {"without_partner": 6, "foreign_key_null": 4, "value_null_in_lookup": 2}
    assert job.join["accounts"].how == "left"
    assert tell(299, 12) == {}, "not every driving row is in the table"
    near = {"on": ("consents.id",), "match": ("id",), "at": "consents.at", "time": "at", "between": ("0", "1d")}
    for change in ({"how": "right"}, {"how": "full"}, {"kind": "interval", **near}):
        added: dict[str, Any] = {"sources": {**job.sources, "more": job.sources["accounts"]}}
        added["join"] = {"more": job.join["accounts"].model_copy(update=change), **job.join}
        found = tell(300, 12, job.model_copy(update=added))
        assert found == {}, "rows that a join adds may stand for driving rows that are gone"
    assert tell(300, 9) == {}, "the numbers do not go together"


def test_a_rule_of_the_run_says_its_limit_or_what_it_did(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    rate = {"index": None, "column": None, "source": "accounts", "failed": 3, "success": False}
    findings = [
        finding("match_rate", **rate, at_least=0.95),
        finding("expect_column_values_to_be_unique", column="id", failed=2, success=False, action="quarantine"),
    ]
    (job,) = build_report([(project.jobs["customers"], [row(0, findings=findings)])], project).jobs
    assert [(each.what, each.why) for each in job.to_do] == [
        ("id stands in several rows: 2 of 10 rows", "the rows went to the quarantine"),
        ("too few references have a partner in accounts: 3 of 10 rows", "at least 95 %"),
    ]


def test_the_worst_job_comes_first_everywhere(tmp_path: Path) -> None:
    project = project_in(tmp_path, "a", "b", "c")
    jobs = [(project.jobs[name], [row(0, job=name, status=status)]) for name, status in
            (("a", "updated"), ("b", "failed"), ("c", "blocked"))]  # fmt: skip
    report = build_report(jobs, project)
    assert [job.job for job in report.jobs] == ["a", "b", "c"], "in JSON they stand as they run"
    assert [job.job for job in report.worst_first] == ["b", "c", "a"]
    page = render_page(report)
    assert page.index(">b</a></th>") < page.index(">c</a></th>") < page.index(">a</a></th>")
    for text in (format_report(report), format_markdown(report)):
        assert text.index("enrich run b") < text.index("enrich run c")


@pytest.mark.parametrize(
    ("exit_code", "error", "command"),
    [
        (1, "the disk is full", "enrich run customers"),
        (2, "jobs/customers.yml:3: column 'x' is not a column of 'accounts'", "enrich validate"),
        (2, "--since is before version 1; run `enrich run customers --since v1`", "enrich run customers --since v1"),
    ],
)
def test_a_job_that_is_refused_for_its_file_asks_for_a_look_at_the_file(
    tmp_path: Path, exit_code: int, error: str, command: str
) -> None:
    project = project_in(tmp_path)
    ended = {**row(0, status="failed", error=error), "exit_code": exit_code}
    (job,) = build_report([(project.jobs["customers"], [ended])], project).jobs
    assert [each.next for each in job.to_do] == [command]


def test_a_job_that_never_ran_says_how_to_begin(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    (job,) = build_report([(project.jobs["customers"], [])], project).jobs
    assert [(each.what, each.next) for each in job.to_do] == [("it has never run", "enrich run customers")]


def test_every_rule_has_words() -> None:
    assert (
        describe("expect_column_values_to_match_json_schema", ["x"])
        == "x does not hold: column values to match json schema"
    )
    assert describe("expect_table_column_count_to_equal", ()) == "does not hold: table column count to equal"
    assert describe("key_not_null", (), "accounts") == "the key is missing in accounts"
    for rule in ("key_not_null", "key_unique", "order_unique", "value_unique", "group_not_null"):
        assert "does not hold" not in describe(rule, ()), rule
    for kind in TYPES:
        assert "expect" not in describe(kind, ["x"])


def test_of_two_rules_of_one_type_and_column_each_is_told(tmp_path: Path) -> None:
    regex = "expect_column_values_to_match_regex"
    strict = {**expect("email", regex, regex="^[a-z]"), "severity": "critical"}
    project = project_in(tmp_path, rules=[expect("email", regex, regex="@"), strict])
    found = [
        finding(regex, index=0, failed=1, success=False, checked=10),
        finding(regex, index=1, failed=2, success=False, checked=10, action="fail"),
    ]
    rows = [row(0, findings=found, state=state(3, 0, rows=300), status="blocked")]
    (job,) = build_report([(project.jobs["customers"], rows)], project).jobs
    shown = [each.what.rpartition(": ")[2] for each in job.to_do if "form" in each.what]
    assert sorted(shown) == ["2 of 10 rows", "3 of 300 rows"]


def test_rules_of_one_type_and_column_keep_apart_when_they_move_or_go(tmp_path: Path) -> None:
    rules = {high: expect("email", BETWEEN, min_value=0, max_value=high) for high in (10, 100, 1000)}
    suites = project_in(tmp_path, rules=list(rules.values())).suites
    names = dict(zip(rules, (each.fingerprint for each in suites["rules"].rules), strict=True))

    def ran(number: int, counts: dict[int, int], checked: int, **more: Any) -> dict[str, Any]:
        found = [
            finding(BETWEEN, index=index, checked=checked, failed=failed, success=not failed if checked else None)
            for index, failed in enumerate(counts.values() if checked else [0] * len(counts))
        ]
        known: dict[str, Any] = {
            "findings": found,
            "state": state(*counts.values()),
            "suite_rules": [names[high] for high in counts],
        }
        return row(number, **known, **more)

    runs = [ran(0, {10: 7, 100: 0, 1000: 3}, 100), ran(1, {100: 0, 10: 7}, 0, status="unchanged", sources={})]
    project = project_in(tmp_path, rules=[rules[100], rules[10]])
    report = build_report([(project.jobs["customers"], runs)], project)
    (job,) = report.jobs
    assert (job.changes, job.headline) == ((), "table now: 1 of 2 rules fails; this run: 1 failed, 1 passed")
    assert [(each.what, each.next) for each in job.to_do] == [
        ("email is out of its range: 7 of 100 rows", "enrich failing customers 1")
    ]
    assert job.now is not None
    assert [(each.trend, each.since and each.since.run_id) for each in job.now.rules] == [
        ((0, 0), None),
        ((7, 7), "run0000"),
    ]
    assert format_junit(report).count("<testcase") == 3
    assert format_junit(report).count("<failure") == 1
    project = project_in(tmp_path, rules=[rules[100]])
    (job,) = build_report([(project.jobs["customers"], runs)], project).jobs
    assert (job.verdict, job.to_do) == ("passed", ())


def test_a_rule_that_raised_has_judged_no_row(tmp_path: Path) -> None:
    project = project_in(tmp_path, rules=[expect("email")])
    raised = state(rules=[{"index": 0, "checked": None, "failed": None, "error": "KeyError"}])
    (job,) = build_report([(project.jobs["customers"], [row(0, findings=[finding()], state=raised)])], project).jobs
    assert [each.what.rpartition(": ")[2] for each in job.to_do if each.rule] == ["not judged"]


@pytest.mark.parametrize(("how", "known"), [("left", {"value_null": 12}), ("right", {}), ("full", {})])
def test_a_row_without_driving_row_has_no_value_that_is_null(tmp_path: Path, how: str, known: dict[str, int]) -> None:
    project = project_in(tmp_path, rules=[expect("email")])
    job = project.jobs["customers"]
    join = {"accounts": job.join["accounts"].model_copy(update={"how": how})}
    job = job.model_copy(update={"select": {"email": "consents.email"}, "join": join})
    lookups = {"accounts": {"rows": 300, "matched": 290, "null_references": 4}}
    counted = state(12, rows=300, lookups=lookups, nulls={"email": 12})
    (told,) = build_report([(job, [row(0, findings=[finding()], state=counted)])], project).jobs
    assert told.now is not None
    assert told.now.nulls["email"].reasons == known
