"""The state of a target as a value: its form in results and records, and what a changed suite leaves of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from enrich.base.result import LookupState, RuleState, State
from enrich.base.suites import FAIL, Suite, SuiteRule, list_uncounted
from enrich.project.catalogue import TYPES
from enrich.project.suitefiles import load_suite


def _rule(index: int = 0, **changed: Any) -> SuiteRule:
    known: dict[str, Any] = {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "quantity", "min_value": 1},
        "action": FAIL,
        "tolerate": None,
        "scope": "changed",
        "row_condition": None,
    }
    spec = TYPES[(known | changed)["type"]]
    return SuiteRule(index, **(known | changed), where="expectations/x.json:1", spec=spec)


def _state(rules: list[SuiteRule]) -> State:
    counted = [RuleState(each.index, 10, each.index, None, each.fingerprint) for each in rules]
    return State(10, tuple(counted), {"accounts": LookupState(12, 9, 1)}, {"quantity": 3})


def test_a_record_gives_the_state_back() -> None:
    """What stands in a commit is the form of the result; what tells the rules apart stands beside it."""
    state = _state([_rule(0), _rule(1, type="expect_column_values_to_not_be_null", kwargs={"column": "quantity"})])
    shown = state.to_dict()
    assert shown == {
        "rows": 10,
        "rules": [
            {"index": 0, "checked": 10, "failed": 0, "error": None},
            {"index": 1, "checked": 10, "failed": 1, "error": None},
        ],
        "lookups": {"accounts": {"rows": 12, "matched": 9, "null_references": 1}},
        "nulls": {"quantity": 3},
    }
    assert State.from_dict(shown, [each.rule for each in state.rules]) == state


@pytest.mark.parametrize(
    "changed",
    [
        {"action": "warn"},
        {"tolerate": 3},
        {"scope": "target"},
        {"kwargs": {"column": "quantity", "min_value": 1, "mostly": 0.9}},
    ],
)
def test_what_does_not_decide_about_a_row_keeps_the_counts(changed: dict[str, Any]) -> None:
    """Action, scope, ``mostly`` and ``tolerate`` say what follows from the counts."""
    assert _rule(**changed).fingerprint == _rule().fingerprint


@pytest.mark.parametrize(
    "changed",
    [
        {"type": "expect_column_value_lengths_to_be_between"},
        {"kwargs": {"column": "quantity", "min_value": 2}},
        {"kwargs": {"column": "quantity", "min_value": 1, "max_value": 5}},
        {"row_condition": {"type": "pass_through", "pass_through_filter": "quantity > 0"}},
    ],
)
def test_what_decides_about_a_row_makes_another_rule(changed: dict[str, Any]) -> None:
    """Counts of other arguments would be wrong."""
    before, after = _rule(), _rule(**changed)
    assert after.fingerprint != before.fingerprint
    carried = _state([before]).under(list_uncounted(Suite((after,))))
    assert [each.is_counted for each in carried.rules] == [False]


def test_a_rule_that_moves_keeps_its_counts_and_one_that_left_is_gone() -> None:
    """The order of a suite decides nothing."""
    first, second = _rule(0), _rule(1, kwargs={"column": "price", "min_value": 0})
    carried = _state([first, second]).under(list_uncounted(Suite((_rule(0, kwargs=second.kwargs),))))
    assert [(each.index, each.checked, each.failed) for each in carried.rules] == [(0, 10, 1)]


def test_rules_without_lasting_counts_have_no_entry(tmp_path: Path) -> None:
    """Uniqueness looks at other rows, an aggregate at all, and 'today' is another day tomorrow."""
    rules = [
        {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "quantity"}},
        {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "quantity", "min_value": 1}},
        {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "day", "value_set": ["today"]}},
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "quantity"}},
    ]
    file = tmp_path / "s.json"
    file.write_text(json.dumps({"name": "s", "expectations": rules}))
    assert [each.index for each in list_uncounted(load_suite(file, "expectations/s.json"))] == [3]
    assert list_uncounted(None) == ()
