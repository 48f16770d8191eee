"""Thresholds, findings and their order, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from enrich.base import hints, suites
from enrich.base.result import Finding, JobResult, Quarantine, resolve_threshold
from enrich.project.models import Rule
from enrich.steps import gate


def rule(name: str, **how: object) -> Rule:
    return Rule.model_validate({"rule": name, **how})


@pytest.mark.parametrize(
    ("given", "checked", "failed", "success"),
    [
        (rule("match_rate", join="a", at_least=0.8), 10, 2, True),
        (rule("match_rate", join="a", at_least=0.8), 10, 3, False),
        (rule("match_rate", join="a", at_least=0.71), 100, 29, True),
        (rule("match_rate", join="a", at_least=1.0), 3, 0, True),
        (rule("match_rate", join="a", at_least=1.0), 3, 1, False),
        (rule("match_rate", join="a", at_least=0.0), 3, 3, True),
        (rule("match_rate", join="a", at_least=0.8), 0, 0, None),
        (rule("mass_change", at_most=0.29), 100, 29, True),
        (rule("mass_change", at_most=0.29), 100, 30, False),
        (rule("mass_change", at_most=1), 100, 1, True),
        (rule("mass_change", at_most=1), 100, 2, False),
        (rule("mass_change", at_most=1.0), 100, 100, True),
        (rule("new_orphans", join="a", at_most=0), 5, 0, True),
        (rule("new_orphans", join="a", at_most=0), 5, 1, False),
        (rule("value_conflicts", at_most=0), 0, 0, None),
    ],
)
def test_thresholds_are_inclusive_and_exact(given: Rule, checked: int, failed: int, success: bool | None) -> None:
    (finding,) = suites.list_unjudged([given], ())
    found = suites.judge_counts(finding, checked, failed)
    assert (found.checked, found.failed, found.success) == (checked, failed, success)


def test_a_share_is_what_is_written_and_not_its_nearest_float() -> None:
    assert 0.29 * 100 < 29
    assert resolve_threshold(0.29, 100) == 29
    assert resolve_threshold(3, 100) == 3


def test_an_accepted_rule_warns_and_says_so() -> None:
    rules = [rule("mass_change", at_most=0.5), rule("match_rate", join="a", at_least=0.5, action="fail")]
    wanted, other = suites.list_unjudged(rules, {"mass_change"})
    assert (wanted.action, wanted.accepted, other.action, other.accepted) == ("warn", True, "fail", False)
    assert wanted.to_dict() == {
        "index": None,
        "expectation": "mass_change",
        "column": None,
        "action": "warn",
        "checked": 0,
        "failed": 0,
        "success": None,
        "error": None,
        "scope": "target",
        "at_most": 0.5,
        "accepted": True,
    }
    assert (other.to_dict()["source"], other.to_dict()["at_least"]) == ("a", 0.5)
    (warning,) = suites.list_unjudged([rule("mass_change", at_most=0.5, action="warn")], {"mass_change"})
    assert not warning.accepted, "nothing had to be accepted"


def test_findings_keep_their_places() -> None:
    suite = [Finding(i, "expect", None, "warn", 0, 0, success=None) for i in range(2)]
    own = suites.list_unjudged([rule("mass_change", at_most=1), rule("mass_change", at_most=0.5, action="warn")], ())
    built_in = Finding(None, "key_unique", None, "fail", 3, 1, success=False, source="a")
    result = JobResult("j", "blocked", findings=(*suite, *own))
    result = result.with_findings([suites.judge_counts(own[1], 10, 2), built_in, suites.judge_counts(own[0], 10, 2)])
    judged = Finding(1, "expect", None, "warn", 5, 0, success=True)
    result = result.with_findings([judged])
    assert [(each.expectation, each.checked, each.success) for each in result.findings] == [
        ("expect", 0, None),
        ("expect", 5, True),
        ("key_unique", 3, False),
        ("mass_change", 10, False),
        ("mass_change", 10, True),
    ]


_SOURCE = SimpleNamespace(alias="a", key=("id", "at"), normalise=())
PLAN: Any = SimpleNamespace(
    asked=hints.NO_OPTIONS,
    spec=SimpleNamespace(sources={"a": _SOURCE}),
    tables={"a": SimpleNamespace(uri="/lake/a")},
    window={"a": SimpleNamespace(to=7)},
)


def test_the_error_says_how_to_let_a_wanted_change_through() -> None:
    rules = [rule("match_rate", join=alias, at_least=0.5, action="fail") for alias in "ab"]
    closed_by = [
        suites.judge_counts(each, 10, 9) for each in suites.list_unjudged([*rules, rule("mass_change", at_most=1)], ())
    ]
    refused = gate.refuse_run(gate.Closed(JobResult("j", "blocked"), closed_by), PLAN)
    assert "match_rate (a): 9 of 10 rows; match_rate (b): 9 of 10 rows; mass_change: 9 of 10 rows" in str(refused.error)
    assert str(refused.error).endswith("`enrich run j --accept match_rate --accept mass_change`")
    built_in = Finding(None, "key_unique", None, "fail", 3, 1, success=False, source="a")
    told = str(gate.refuse_run(gate.Closed(JobResult("j", "blocked"), [*closed_by, built_in]), PLAN).error)
    assert "--accept" not in told
    assert "key_unique (a): 1 of 3 rows" in told
    assert "FROM delta.`/lake/a` VERSION AS OF 7 GROUP BY `id`, `at` HAVING count(`id`, `at`) > 1`" in told


def test_a_row_with_two_reasons_counts_once_and_for_both() -> None:
    assert Quarantine.of([(("b",), 2), (("b", "a"), 1)]) == Quarantine(3, {"a": 1, "b": 3})
