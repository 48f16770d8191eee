"""Why rows fail, in every format: told where the counts are the recorded ones, and escaped whatever they hold."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from jsonschema import Draft7Validator

from enrich.answers.reasons import Cause, FailingRows, Reason, RuleCauses, format_failing, list_meanings
from enrich.report import Report, add_reasons, build_report, build_schema
from enrich.report.document import list_failing
from enrich.report.page import format_junit, format_markdown, render_page
from enrich.report.text import format_report
from kit.history import NOT_NULL, expect, finding, project_in, row, state
from kit.hostile import hostile, hostile_report

CAUSES = (
    Cause(Reason("no_such_key", source="accounts"), 9),
    Cause(Reason("deleted_at", source="accounts"), 2),
    Cause(Reason("near_miss", kind="invisible", source="accounts"), 1),
)
RANDOM = random.Random(7)
WORDS = "9 no such key, 2 deleted, 1 near miss (1 invisible)"


def found(index: int = 0, *causes: Cause, checked: int | None = 100, failed: int | None = None) -> RuleCauses:
    """Return what was found about a rule."""
    total = sum(each.rows for each in causes) if failed is None else failed
    return RuleCauses(index, NOT_NULL, "email", None, checked, total, causes=causes)


def tell(home: Path, *failed: int | None, rules: int | None = None) -> Report:
    """Return the report of one job of whose rules so many rows fail."""
    project = project_in(home, rules=[expect()] * (len(failed) if rules is None else rules))
    findings = [finding(index=index) for index in range(len(failed))]
    rows = [row(0, findings=findings, state=state(*failed))]
    return build_report([(project.jobs["customers"], rows)], project)


def list_reasons(report: Report) -> list[Any]:
    now = report.jobs[0].now
    assert now is not None
    return [each.reasons for each in now.rules]


# --- what is told -----------------------------------------------------------------------------------------------------


def test_reasons_stand_beside_the_counts(tmp_path: Path) -> None:
    plain = tell(tmp_path, 12, 0, None)
    assert list_reasons(plain) == [None, None, None]
    told = add_reasons(plain, {"customers": [found(0, *CAUSES)]})
    Draft7Validator(build_schema()).validate(told.to_dict())
    rules = told.to_dict()["jobs"][0]["now"]["rules"]
    assert [(each["reasons"], each["near_misses"]) for each in rules] == [
        ({"no_such_key": 9, "deleted_at": 2, "near_miss": 1}, {"invisible": 1}),
        ({}, {}),
        (None, {}),
    ]
    assert list(rules[0]["reasons"]) == ["no_such_key", "deleted_at", "near_miss"]
    assert (list_failing(told), list_reasons(plain)) == (["customers"], [None, None, None])


@pytest.mark.parametrize(
    "other",
    [
        [],
        [found(1, *CAUSES)],
        [found(0, *CAUSES[:2])],  # a row less fails
        [found(0, *CAUSES[:2], failed=12)],  # they do not add up
        [found(0, *CAUSES, checked=101)],  # a row that passes has come
        [found(0, checked=None, failed=None)],
        [RuleCauses(0, NOT_NULL, "email", None, None, None, "KeyError")],
    ],
)
def test_reasons_of_other_rows_are_not_told(tmp_path: Path, other: list[RuleCauses]) -> None:
    assert list_reasons(add_reasons(tell(tmp_path, 12, 0), {"customers": other})) == [None, {}]


def test_a_rule_that_left_the_suite_has_no_reasons(tmp_path: Path) -> None:
    report = tell(tmp_path, 3, 12, rules=1)
    assert list_reasons(add_reasons(report, {"customers": [found(1, *CAUSES)]})) == [None, None]


def test_a_job_that_was_not_answered_stays_as_it_is_and_one_that_no_row_fails_needs_no_answer(tmp_path: Path) -> None:
    assert list_reasons(add_reasons(tell(tmp_path / "a", 12, 0), {})) == [None, None]
    sound = tell(tmp_path / "b", 0, None)
    assert (list_failing(sound), list_reasons(add_reasons(sound, {}))) == ([], [{}, None])
    project = project_in(tmp_path / "c")
    for rows in ([], [row(0)]):  # never run, or by a release without states
        unknown = build_report([(project.jobs["customers"], rows)], project)
        assert (list_failing(unknown), add_reasons(unknown, {})) == ([], unknown)


# --- how it looks -----------------------------------------------------------------------------------------------------


def test_every_format_says_it_in_the_words_of_failing(tmp_path: Path) -> None:
    plain = tell(tmp_path, 12, 0)
    causes = found(0, *CAUSES)
    told = add_reasons(plain, {"customers": [causes]})
    assert format_failing(FailingRows("customers", 1, (causes,))).split("\n")[0].endswith(f": {WORDS}")
    lines = format_report(told).splitlines()
    assert f"    email is missing  {WORDS}  {NOT_NULL}(email)" in lines
    assert [line.split() for line in lines if line.startswith("  why rows fail")] == [
        ["why", "rows", "fail", "reasons", "rule"]
    ]
    assert WORDS in render_page(told)
    shown = format_markdown(told).splitlines()
    assert "| why rows fail | reasons | rule |" in shown
    since, name = "2026-11-01T08:00:00Z or before", f"`{NOT_NULL}(email)`"
    assert f"| `email is missing` | **warned** | 12 | 100 | 12 % | {since} |  |  | {name} |" in shown
    assert f"| `email is missing` | {WORDS} | {name} |" in shown
    assert f"| `email is missing` | passed | 0 | 100 | 0 % |  |  |  | {name} |" in shown
    (failure,) = ET.fromstring(format_junit(told)).iter("failure")  # noqa: S314 - our own
    assert failure.attrib["message"] == (
        f"table now: 12 of 100 rows fail since {since}: {WORDS}; this run: 0 of 10 rows failed, action warn"
    )
    for form in (format_report, render_page, format_markdown, format_junit):
        assert "why rows fail" not in form(plain)
        assert "no such key" not in form(plain)


def test_our_words_need_no_quotes_in_markdown(tmp_path: Path) -> None:
    kinds = ("case", "blank", "unicode_form", "invisible", "other_type", "leading_zeros", "combination")
    causes = [Cause(Reason("near_miss", kind=kind), 1) for kind in kinds]
    causes += [Cause(Reason(word), 1) for word in list_meanings() if word != "near_miss"]
    total = len(causes)
    text = format_markdown(add_reasons(tell(tmp_path, total), {"customers": [found(0, *causes)]}))
    to_do, line = [line for line in text.splitlines() if "near miss" in line]
    assert "`" not in line.split("|")[2]
    assert "1 unicode form" in line
    assert "`" not in to_do.split("|")[2]


def explain_hostile(home: Path) -> Report:
    """Return the hostile report with hostile reasons."""
    report = hostile_report(home)
    texts, jobs = hostile(9), []
    for job in report.jobs:
        assert job.now is not None
        words = {"near_miss": 2, RANDOM.choice(texts): 1, RANDOM.choice(texts) + "|`_": 1}
        near = dict.fromkeys(texts, 1)
        rules = tuple(replace(rule, reasons=words, near_misses=near) for rule in job.now.rules)
        jobs.append(job.model_copy(update={"now": job.now.model_copy(update={"rules": rules})}))
    return report.model_copy(update={"jobs": tuple(jobs)})


def test_hostile_reasons_are_text(tmp_path: Path) -> None:
    plain, told = hostile_report(tmp_path / "plain"), explain_hostile(tmp_path / "told")
    page = render_page(told)
    own = set(re.findall(r"<[a-zA-Z!/][^\s>]*", render_page(plain)))
    assert set(re.findall(r"<[a-zA-Z!/][^\s>]*", page)) <= own | {"<br"}
    assert "&lt;script&gt;document.title=" in page
    xml = format_junit(told)
    assert xml.isascii()
    ET.fromstring(xml)  # noqa: S314 - our own
    shown = format_markdown(told)
    text = re.sub(r"\x1b\[[0-9;]*m", "", format_report(told))
    for each in (page, xml, shown, text):
        assert not {"\x1b", "\x07", "\u202e"} & set(each)
    code = re.sub(r"<code>[^<]*</code>", "", re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", shown))
    assert set(re.findall(r"<[^ >]*>?", code)) <= {"<details>", "<summary>", "</summary>", "</details>", "<"}
    assert not set("@[]\\{}$") & set(code)
    assert {line for line in shown.splitlines() if "why rows fail" in line} == {"| why rows fail | reasons | rule |"}
