"""What people see: tables that align, nothing that a terminal obeys, no rule that passed without judging."""

from __future__ import annotations

import pytest
from click import unstyle

from enrich.base.console import clean, format_finding, format_run, format_table, list_notes, measure_width
from enrich.base.result import Counts, Finding, JobResult, RunResult, SourceWindow


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("two\nlines", "two\nlines"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("bell\x07 tab\t", "bell\\x07 tab\\t"),
        ("\u200buser", "\\u200buser"),
        ("\ufeffuser", "\\ufeffuser"),
        ("abc\u202eexe.txt", "abc\\u202eexe.txt"),
        ("\x9b2J", "\\x9b2J"),
        ("line\u2028break", "line\\u2028break"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("Zürich, 東京, 😀", "Zürich, 東京, 😀"),
    ],
)
def test_clean_shows_what_a_terminal_would_obey_or_hide(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_table_aligns_wide_and_combining_characters() -> None:
    lines = format_table(("name", "n"), [("東京", "1"), ("e\u0301", "22")], right=(1,)).split("\n")
    assert len({measure_width(line) for line in lines}) == 1


def test_table_ignores_colours_when_it_aligns() -> None:
    plain = format_table(("a", "b"), [("updated", "x"), ("failed", "y")])
    styled = format_table(("a", "b"), [("\x1b[32mupdated\x1b[0m", "x"), ("\x1b[31mfailed\x1b[0m", "y")])
    assert unstyle(styled) == plain


def finding(**given: object) -> Finding:
    values = {"index": 0, "expectation": "expect_x", "column": "email", "action": "warn", "checked": 12, "failed": 1}
    return Finding(**{**values, "success": False, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (finding(), "warn expect_x(email): 1 of 12 rows failed"),
        (finding(checked=1), "warn expect_x(email): 1 of 1 row failed"),
        (finding(success=None, checked=0, failed=0), "expect_x(email): 0 rows checked"),
        (finding(success=None, error="KeyError"), "warn expect_x(email): raised an error: KeyError"),
        (finding(column=None, column_list=("a", "b")), "warn expect_x(a, b): 1 of 12 rows failed"),
        (
            finding(expectation="key_unique", column=None, source="accounts", action="fail"),
            "fail key_unique in accounts: 1 of 12 rows failed",
        ),
        (
            finding(expectation="mass_change", column=None, at_most=0.05, accepted=True),
            "warn mass_change: 1 of 12 rows failed, at most 0.05 may fail, accepted for this run",
        ),
        (
            finding(expectation="match_rate", column=None, source="a", at_least=1.0),
            "warn match_rate in a: 1 of 12 rows failed, at least 1.0 must pass",
        ),
        (
            finding(expectation="mass_change", column=None, at_most=3, success=None, checked=0, failed=0),
            "mass_change: 0 rows checked",
        ),
        (finding(column="\x1b[2J"), "warn expect_x(\\x1b[2J): 1 of 12 rows failed"),
    ],
)
def test_finding_text(found: Finding, text: str) -> None:
    assert format_finding(found) == text


@pytest.mark.parametrize("count", [1, 3])
def test_that_no_row_was_judged_is_no_news_where_nothing_changed(count: int) -> None:
    silent = tuple(finding(index=each, success=None, checked=0, failed=0) for each in range(count))
    assert list_notes(JobResult("j", "unchanged", findings=silent)) == []
    assert len(list_notes(JobResult("j", "updated", findings=silent))) == 1


def test_a_job_tells_its_rare_counts_findings_and_error() -> None:
    passed = finding(success=True, failed=0)
    job = JobResult(
        "j",
        "blocked",
        counts=Counts(quarantined=1, null_values=2),
        findings=(passed, finding(action="fail")),
        error="a\nb\x1b",
        exit_code=3,
    )
    assert [unstyle(note) for note in list_notes(job)] == [
        "1 quarantined, 2 null values",
        "fail expect_x(email): 1 of 12 rows failed",
        "error a",
        "error b\\x1b",
    ]


def test_one_is_no_plural() -> None:
    counts = Counts(null_foreign_keys=1, null_list_ids=11, null_values=1)
    assert list_notes(JobResult("j", "updated", counts=counts)) == [
        "1 null foreign key, 11 null list ids, 1 null value"
    ]


def test_a_run_that_judged_nothing_says_so_in_one_line() -> None:
    silent = [finding(index=i, success=None, checked=0, failed=0) for i in range(3)]
    assert list_notes(JobResult("j", "updated", findings=tuple(silent))) == ["3 rules, 0 rows checked"]
    assert list_notes(JobResult("j", "updated", findings=(silent[0],))) == ["expect_x(email): 0 rows checked"]
    told = list_notes(JobResult("j", "updated", findings=(*silent, finding(success=True, failed=0))))
    assert told == ["expect_x(email): 0 rows checked"] * 3


def test_run_text_is_one_line_a_job_and_the_outcome_last() -> None:
    windows = {"consents": SourceWindow(None, 3, 9), "accounts": SourceWindow(3, 7, 12)}
    jobs = (
        JobResult("customers", "updated", "incremental", windows, Counts(inserted=3, updated=7, deleted=2)),
        JobResult("other_job", "unchanged"),
    )
    lines = unstyle(format_run(RunResult("01H", "dev", jobs))).split("\n")
    assert lines == [
        "job        status     mode         inserted  updated  deleted  windows",
        "customers  updated    incremental         3        7        2  consents start->3 (9), accounts 3->7 (12)",
        "other_job  unchanged  -                   0        0        0  -",
        "run 01H, deployment dev: 1 job changed",
    ]
    assert unstyle(format_run(RunResult("01H", "dev", jobs), quiet=True)).split("\n") == lines[:-1]
    assert format_run(RunResult("01H", "dev", jobs[1:])).endswith("nothing to do")
    failed = RunResult("01H", "dev", (JobResult("j", "failed", exit_code=5),))
    assert format_run(failed).endswith("exit 5")
