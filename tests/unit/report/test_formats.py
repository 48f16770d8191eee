"""The report as JUnit XML and as Markdown: what others read, whatever the names in it are."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from enrich.base.console import clean
from enrich.report import Report, build_report
from enrich.report.page import format_junit, format_markdown, quote_text
from kit.history import NOT_NULL, expect, finding, project_in, row, state
from kit.hostile import hostile, hostile_report

HELD = {"rows": 2, "reasons": {f"{NOT_NULL}:email": 2}}


def tell(home: Path, *rows: dict[str, Any], rules: tuple[dict[str, Any], ...] = (expect(),)) -> Report:
    """Return the report of one job."""
    project = project_in(home, rules=rules)
    return build_report([(project.jobs["customers"], rows)], project)


# --- JUnit ------------------------------------------------------------------------------------------------------------

ENDS = {"failure", "error", "skipped"}
ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "time", "tests", "failures", "errors", "skipped", "timestamp"},
    "testcase": {"name", "classname", "time"},
    **{end: {"type", "message"} for end in ENDS},
}
CHILDREN = {"testsuites": {"testsuite"}, "testsuite": {"testcase"}, "testcase": ENDS}


def read_junit(report: Report) -> ET.Element:
    """Parse the XML, and hold it against what Jenkins' schema (junit-10.xsd) allows and asks for."""
    text = format_junit(report)
    assert text.isascii()
    root = ET.fromstring(text)  # noqa: S314 - our own
    assert root.tag == "testsuites"
    for each in root.iter():
        assert set(each.attrib) == ATTRIBUTES[each.tag]
        assert {child.tag for child in each} <= CHILDREN.get(each.tag, set())
        assert each.tag == "testcase" or not ENDS & {each.tag} or each.text
        if each.tag.startswith("testsuite"):
            assert re.fullmatch(r"\d+\.\d{3}", each.attrib["time"])
            cases = list(each.iter("testcase"))
            assert int(each.attrib["tests"]) == len(cases)
            for name, end in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
                assert int(each.get(name, -1)) in (-1, len(list(each.iter(end))))
    for each in root.iter("testsuite"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", each.attrib["timestamp"])
        names = [case.attrib["name"] for case in each]
        assert len(set(names)) == len(names)
    return root


def list_ends(root: ET.Element) -> dict[str, str | None]:
    """Return how each case ended: the element and its type, None for a pass."""
    return {
        case.attrib["name"]: " ".join(f"{end.tag} {end.attrib['type']}" for end in case) or None
        for case in root.iter("testcase")
    }


@pytest.mark.parametrize(
    ("more", "kept", "end"),
    [
        ({}, 0, None),
        ({}, 3, "failure warned"),
        ({"failed": 3, "success": False}, 0, "failure warned"),
        ({"failed": 3, "success": False, "action": "quarantine"}, 0, "failure held"),
        ({"failed": 3, "success": False, "action": "fail"}, 0, None),  # tolerated: it has not blocked the run
        ({"failed": 3, "success": False, "tolerated": True}, 0, None),
        ({"checked": 0, "success": None}, 0, "skipped not_checked"),
        ({"checked": 0, "success": None}, 3, "failure warned"),
        ({"success": None, "error": "KeyError"}, 3, "error error"),
    ],
)
def test_a_rule_is_a_case(tmp_path: Path, more: Any, kept: int, end: str | None) -> None:
    ends = list_ends(read_junit(tell(tmp_path, row(0, findings=[finding(**more)], state=state(kept)))))
    assert ends[f"{NOT_NULL}(email)"] == end
    assert ends["job"] is None


@pytest.mark.parametrize(
    ("rows", "end"),
    [
        ([], "skipped never_run"),
        ([row(0)], None),
        ([row(0, quarantine=HELD)], "failure warned"),
        ([row(0), row(1, status="failed", error="no table")], "error failed"),
        ([row(0), row(1, status="blocked", error="blocked by x")], "failure blocked"),
        ([row(0), row(1, status="skipped", sources={})], "skipped skipped"),
    ],
)
def test_a_job_is_a_case_of_its_own(tmp_path: Path, rows: Any, end: str | None) -> None:
    root = read_junit(tell(tmp_path, *rows))
    assert list_ends(root)["job"] == end
    error = next((each for each in root.iter("error")), None)
    assert error is None or "no table" in (error.text or "")


def test_cases_have_names_of_their_own_and_rules_of_the_table_alone_are_told(tmp_path: Path) -> None:
    twice = [finding(), finding(index=1), finding(index=2)]
    idle = row(1, status="unchanged", sources={}, findings=twice, state=state(0, 1, 2))
    rules = (expect(), expect(mostly=0.99), expect(mostly=0.5))
    before = row(0, findings=twice[:1], state=state(0))
    ends = list_ends(read_junit(tell(tmp_path, before, idle, rules=rules)))
    name = f"{NOT_NULL}(email)"
    assert ends == {name: None, f"{name} #2": None, f"{name} #3": None, "job": None}


def test_a_failure_says_what_is_true_of_the_table_and_of_the_run(tmp_path: Path) -> None:
    root = read_junit(
        tell(tmp_path, row(0, findings=[finding()], state=state(0)), row(1, findings=[finding()], state=state(12)))
    )
    (failure,) = root.iter("failure")
    assert failure.attrib["message"] == (
        "table now: 12 of 100 rows fail since 2026-11-01T09:00:00Z; this run: 0 of 10 rows failed, action warn"
    )


def test_junit_holds_any_name(tmp_path: Path) -> None:
    root = read_junit(hostile_report(tmp_path))
    told = " ".join("\n".join([*each.attrib.values(), each.text or ""]) for each in root.iter())
    assert "<script>document.title='pwned'</script>" in told
    assert "\\x1b" in told
    assert "\x1b" not in told


# --- Markdown ---------------------------------------------------------------------------------------------------------


def test_markdown_tells_the_table_then_the_run_and_folds_what_passed(tmp_path: Path) -> None:
    project = project_in(tmp_path, "customers", "orders", "later", rules=[expect(mostly=0.95)])
    lookups = {"accounts": {"rows": 103, "matched": 90, "null_references": 3}}
    kept = state(12, lookups=lookups, nulls={"id": 0, "email": 12})
    bad = row(0, findings=[finding(failed=2, success=False)], state=kept, quarantine=HELD)
    good = row(0, job="orders", findings=[finding()], state=state(5))
    rows = {"customers": [bad], "orders": [good], "later": []}
    text = format_markdown(build_report([(project.jobs[name], rows[name]) for name in rows], project))
    lines = text.splitlines()
    assert lines[0] == "### enrich: warned"
    assert lines[2].startswith("3 jobs: 1 warned, 1 never run, 1 passed. Deployment `dev`, ")
    told = "table now: 1 of 1 rule fails; this run: 1 failed; 2 rows in quarantine"
    assert f"| `customers` | **warned** | 100 | {told} |" in lines
    assert "| table now: 0 of 1 rule fails; " in text
    since, name = "2026-11-01T08:00:00Z or before", f"`{NOT_NULL}(email)`"
    assert (
        f"| `email is missing` | **warned** | 12 | 100 | 12 % | {since} |  | at least 95 % must pass | {name} |"
        in lines
    )
    assert "| `accounts` | 90 | 100 | 90 % | 10 | 3 |  |" in lines
    assert "| `email` | 12 | 12 % |  |" in lines
    assert f"| `email is missing` | **warned** | warn | 2 | 10 | 20 % |  |  | {name} |" in lines
    assert f"| `email is missing` | 2 | `{NOT_NULL}:email` |" in lines
    assert text.index("**the table now") < text.index("**the run of")
    assert "<details><summary><code>orders</code>: passed</summary>" in lines
    assert text.count("<details>") == text.count("</details>") == 1
    assert "\n\n\n" not in text


def test_a_run_that_failed_says_why(tmp_path: Path) -> None:
    text = format_markdown(tell(tmp_path, row(0, status="failed", error="no *table* @all <b> `x`")))
    assert "Error: <code>no &#42;table&#42; &#64;all &#60;b&#62; &#96;x&#96;</code>" in text


def test_a_description_is_no_html(tmp_path: Path) -> None:
    (job,) = (report := tell(tmp_path, row(0))).jobs
    told = job.model_copy(update={"description": "Orders <details>"})
    assert "**`Orders <details>`**" in format_markdown(report.model_copy(update={"jobs": (told,)}))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a_b", "`a_b`"),
        ("*a* <b> @all #12", "`*a* <b> @all #12`"),
        ("`a`", "<code>&#96;a&#96;</code>"),
        ("a|b", "<code>a&#124;b</code>"),
        ("a\\|<b>`", "<code>a&#92;&#124;&#60;b&#62;&#96;</code>"),
        ("a\nb", "`a b`"),
        ("\u202e", "`\\u202e`"),
        ("", "<code></code>"),
    ],
)
def test_foreign_text_is_code(text: str, shown: str) -> None:
    assert quote_text(text) == shown


def test_markdown_holds_any_name(tmp_path: Path) -> None:
    """What is left when code is taken out is ours: no element, no link, no mention, and every table has its columns."""
    text = format_markdown(hostile_report(tmp_path))
    assert "\x1b" not in text
    own = re.sub(r"<code>[^<]*</code>", "", re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text))
    assert set(re.findall(r"<[^ >]*>?", own)) <= {"<details>", "<summary>", "</summary>", "</details>", "<"}
    assert not set("@[]\\{}$") & set(own)
    columns = 0
    for line in text.splitlines():
        columns = line.count("|") if line.startswith("|") and columns == 0 else columns
        assert not line.startswith("|") or line.count("|") == columns
        columns = columns if line.startswith("|") else 0


@pytest.mark.parametrize("text", hostile(9))
def test_markdown_shows_a_name_as_it_is(text: str) -> None:
    shown = quote_text(text)
    plain = unescape(shown[6:-7]) if shown.startswith("<code>") else shown.strip("`")
    assert plain.strip() == clean(text).strip().strip("`")
