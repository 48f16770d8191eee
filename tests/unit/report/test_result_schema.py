"""Every result that a run can give is what ``enrich schema result`` says."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft7Validator

from enrich.base.errors import GRAVITY, Blocked, ConfigError, Locked, RunFailed
from enrich.base.result import (
    Counts,
    Extent,
    Finding,
    JobResult,
    Lookup,
    LookupState,
    Quarantine,
    RuleState,
    RunResult,
    SourceWindow,
    State,
    name_deployment,
)
from enrich.report.models import build_result_schema

VALIDATOR = Draft7Validator(build_result_schema())
FULL = JobResult(
    "customers",
    "updated",
    "incremental",
    {"a": SourceWindow(None, 3, 2), "b": SourceWindow(3, 7, 2, gap=(1, 3))},
    Counts(9, 3, 2, 1, 1, 1, 1, 1),
    9,
    (
        Finding(0, "expect_column_values_to_not_be_null", "email", "warn", 9, 2, success=False),
        Finding(
            1, "expect_compound_columns_to_be_unique", None, "fail", 9, 0, None, "KeyError", column_list=("a", "b")
        ),
        Finding(None, "key_unique", "id", "fail", 9, 0, success=True, source="a", scope="target", scanned=True),
        Finding(None, "mass_change", None, "fail", 9, 9, False, rule=0, at_most=0.5, accepted=True),
        Finding(None, "match_rate", None, "warn", 9, 9, True, source="b", rule=1, at_least=3),
    ),
    lookups={"b": Lookup(9, 7, 1, "list")},
    quarantine=Quarantine(5, {"x:y": 5}),
    stages={"changes": 0.25},
    strategy="merge",
    written=Extent(1, 2048),
    state=State(
        100, (RuleState(0, 100, 12), RuleState(3, error="KeyError")), {"b": LookupState(9, 7, 1)}, {"email": 2}
    ),
)


def faults(found: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(json.loads(json.dumps(found)))]


def test_the_schema_is_one() -> None:
    Draft7Validator.check_schema(build_result_schema())


@pytest.mark.parametrize(
    "job",
    [
        FULL,
        JobResult("a", "skipped", error="skipped: why"),
        *(FULL.failed_with(error("no")) for error in (RunFailed, Blocked, Locked, ConfigError)),
    ],
    ids=lambda job: job.status,
)
def test_results_are_of_the_schema(job: JobResult) -> None:
    result = RunResult("f00d", "prod", (job, replace(job, job="other")))
    assert faults(result.to_dict()) == []


def test_what_an_interrupted_run_prints_is_of_the_schema() -> None:
    end = {"exit_code": 143, "jobs": [FULL.to_dict()], "error": "terminated"}
    assert faults({"run_id": None, **name_deployment("dev"), **end}) == []


def test_all_exit_codes_are_in_the_schema() -> None:
    assert set(build_result_schema()["properties"]["exit_code"]["enum"]) == set(GRAVITY)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda found: found.pop("run_id"),
        lambda found: found.update(exit_code=99),
        lambda found: found["jobs"][0].update(status="fine"),
        lambda found: found["jobs"][0].pop("state"),
        lambda found: found["jobs"][0].update(new=1),
        lambda found: found["jobs"][0]["findings"][0].pop("success"),
        lambda found: found["jobs"][0]["sources"]["a"].pop("from"),
    ],
)
def test_what_is_no_result_is_not(spoil: Any) -> None:
    found = RunResult("f00d", "prod", (FULL,)).to_dict()
    spoil(found)
    assert faults(found)
