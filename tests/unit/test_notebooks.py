"""What a notebook and a console show of results, plans and answers: small, escaped, without keys and values."""

from __future__ import annotations

from html.parser import HTMLParser

from enrich.answers.reasons import Cause, FailingRows, Reason, RuleCauses, Why
from enrich.answers.verification import VerifyResult
from enrich.base.result import JobResult, RunResult
from enrich.operations.planning import JobPlan, PlanResult


class Reader(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not attrs
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_run_in_a_notebook() -> None:
    wild = "<script>alert(1)</script>\x1b[31m"
    found = RunResult("f00d", "prod", tuple(JobResult(f"job{n}", "updated", error=wild) for n in range(60)))
    page = Reader(found._repr_html_())
    assert set(page.tags) == {"p", "table", "tr", "th", "td"}
    assert page.texts[:2] == ["run f00d, deployment prod: exit 0, jobs 60", "job"]
    assert "and 10 more" in page.texts
    assert wild not in page.texts, "what a terminal would obey is shown as an escape"
    assert repr(found) == "<RunResult: run f00d, deployment prod: exit 0, jobs 60>"


def test_plans_and_answers_in_a_notebook() -> None:
    plan = PlanResult("dev", (JobPlan("a", "incremental", affected_keys=3, has_work=True), JobPlan("b")))
    assert repr(plan) == "<PlanResult: plan, deployment dev: 1 of 2 jobs have work>"
    assert Reader(plan._repr_html_()).texts[1:8] == [
        "job",
        "mode",
        "has_work",
        "affected_keys",
        "refused",
        "a",
        "incremental",
    ]
    assert repr(VerifyResult("f00d", "dev")) == "<VerifyResult: verify f00d, deployment dev: exit 0, jobs 0>"

    near = Reason("near_miss", kind="case", source="p", found="Secret-Key")
    why = Why("orders", 3, Reason("matched"), {"p": near}, {"mail": near})
    assert repr(why) == "<Why: why, job orders: row matched>"
    assert Reader(why._repr_html_()).texts[-4:] == ["column", "mail", "near_miss", "case; in p"]
    assert "Secret" not in why._repr_html_() + repr(why), "keys stay where they were asked for"

    rule = RuleCauses(0, "expect_column_values_to_not_be_null", "mail", None, 10, 2, causes=(Cause(near, 2),))
    rows = FailingRows("orders", 3, (rule,))
    assert repr(rows) == "<FailingRows: failing, job orders: 1 of 1 rules fail>"
    assert Reader(rows._repr_html_()).texts[-1] == "2 near miss"
