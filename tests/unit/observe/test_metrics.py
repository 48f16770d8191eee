"""The file for Prometheus, read with Prometheus' own parser."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from enrich.base.errors import Blocked, RunFailed
from enrich.base.result import Counts, Finding, JobResult, Lookup, LookupState, Quarantine, RuleState, State
from enrich.observe.metrics import FAMILIES, write_metrics

GOOD = JobResult(
    "customers",
    "updated",
    "incremental",
    counts=Counts(affected_keys=9, inserted=3, updated=2, deleted=1, quarantined=1),
    findings=(
        Finding(0, "expect_column_values_to_not_be_null", "email", "warn", 9, 2, success=False),
        Finding(1, "expect_column_values_to_be_unique", "email", "fail", 9, 0, success=True),
        Finding(2, "expect_column_values_to_be_in_set", "kind", "quarantine", 9, 0, success=None, error="KeyError"),
    ),
    seconds=4.25,
    lookups={"accounts": Lookup(9, 7, 0, "table")},
    quarantine=Quarantine(5, {"x": 5}),
    stages={"changes": 0.5, "write": 1.0},
    state=State(100, (RuleState(0, 100, 12), RuleState(1, 100, 0)), {"accounts": LookupState(105, 75, 5)}, {}),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "collector" / "enrich.prom"


def write(
    path: Path, *results: JobResult, deployment: str = "prod", jobs: Iterable[str] = ("customers", "orders")
) -> None:
    lags = {result.job: {"accounts": 61.5} for result in results if result.status != "failed"}
    write_metrics(path, (deployment, frozenset(jobs)), results, lags)


def read(path: Path) -> dict[tuple[str, ...], float]:
    """Return name, job, deployment and further labels' values of each sample."""
    found = {}
    for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
        for sample in family.samples:
            labels = dict(sample.labels)
            place = (sample.name.removeprefix("enrich_job_"), labels.pop("job"), labels.pop("deployment"))
            found[(*place, *labels.values())] = sample.value
    return found


def told(path: Path, *place: str, job: str = "customers", deployment: str = "prod") -> float | None:
    return read(path).get((place[0], job, deployment, *place[1:]))


def test_what_a_run_did_is_told(path: Path) -> None:
    write(path, GOOD)
    assert told(path, "runs_total", "updated") == 1
    assert told(path, "runs_total", "failed") == 0
    assert [told(path, "rows_total", each) for each in ("inserted", "updated", "deleted")] == [3, 2, 1]
    assert (told(path, "duration_seconds"), told(path, "stage_duration_seconds", "changes")) == (4.25, 0.5)
    assert told(path, "lag_seconds", "accounts") == 61.5
    assert told(path, "match_ratio", "accounts") == 0.75
    assert (told(path, "target_rows"), told(path, "quarantine_rows"), told(path, "rules_failing")) == (100, 5, 1)
    assert [told(path, "findings_failing", each) for each in ("warn", "quarantine", "fail")] == [1, 1, 0]
    assert told(path, "last_success_timestamp_seconds") == told(path, "last_run_timestamp_seconds")


def test_every_family_has_its_help_and_type_once(path: Path) -> None:
    write(path, GOOD, replace(GOOD, job="orders"))
    lines = path.read_text(encoding="utf-8").splitlines()
    for family, (kind, _) in FAMILIES.items():
        assert lines.count(f"# TYPE enrich_job_{family} {kind}") == 1, family
        assert sum(line.startswith(f"# HELP enrich_job_{family} ") for line in lines) == 1, family


def test_counters_go_on_and_other_jobs_stay(path: Path) -> None:
    write(path, GOOD, replace(GOOD, job="orders"))
    write(path, GOOD)
    write(path, GOOD, deployment="dev")
    assert told(path, "runs_total", "updated") == 2
    assert told(path, "rows_total", "inserted") == 6
    assert told(path, "runs_total", "updated", job="orders") == 1
    assert told(path, "runs_total", "updated", deployment="dev") == 1


def test_jobs_that_left_the_project_leave_the_file(path: Path) -> None:
    write(path, GOOD, replace(GOOD, job="orders"))
    write(path, GOOD, jobs=["customers"])
    assert {place[1] for place in read(path)} == {"customers"}


def test_a_failed_run_keeps_what_it_did_not_find_out(path: Path) -> None:
    write(path, GOOD)
    success = told(path, "last_success_timestamp_seconds")
    write(path, JobResult("customers", "failed").failed_with(RunFailed("no")))
    assert told(path, "last_success_timestamp_seconds") == success
    assert (told(path, "last_exit_code"), told(path, "runs_total", "failed")) == (1, 1)
    assert (told(path, "target_rows"), told(path, "quarantine_rows"), told(path, "rows_total", "inserted")) == (
        100,
        5,
        3,
    )
    assert told(path, "findings_failing", "warn") == 1
    # A lag of an earlier run would say that nothing has waited since.
    assert told(path, "lag_seconds", "accounts") is None


def test_a_blocked_run_tells_its_findings_and_no_success(path: Path) -> None:
    blocked = Finding(0, "mass_change", None, "fail", 100, 90, success=False)
    write(path, replace(GOOD, findings=(blocked,)).failed_with(Blocked("no")))
    assert told(path, "findings_failing", "fail") == 1
    assert told(path, "last_success_timestamp_seconds") is None
    assert told(path, "rows_total", "inserted") is None
    assert told(path, "last_exit_code") == 3


def test_a_skipped_job_is_counted_and_nothing_else(path: Path) -> None:
    write(path, JobResult("customers", "skipped"))
    assert {place[0] for place in read(path)} == {"runs_total"}
    assert told(path, "runs_total", "skipped") == 1


def test_a_run_that_judged_no_row_leaves_the_findings(path: Path) -> None:
    write(path, GOOD)
    idle = replace(GOOD, status="unchanged", findings=(replace(GOOD.findings[0], success=None, checked=0, failed=0),))
    write(path, idle)
    assert told(path, "findings_failing", "warn") == 1


def test_names_are_escaped(path: Path) -> None:
    name = 'a"b\\c\nd'
    for _ in range(2):
        write(path, replace(GOOD, job=name), jobs=[name])
    assert told(path, "rows_total", "inserted", job=name) == 6


@pytest.mark.parametrize("text", ["", "nonsense\n", 'enrich_job_runs_total{job="customers"} x\n', "\x00\n"])
def test_a_damaged_file_is_written_anew(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    write(path, GOOD)
    assert told(path, "runs_total", "updated") == 1


def test_runs_that_end_at_the_same_time_lose_no_count(path: Path) -> None:
    threads = [
        threading.Thread(target=write, args=(path, replace(GOOD, job=job))) for job in ("customers", "orders") * 8
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [told(path, "runs_total", "updated", job=job) for job in ("customers", "orders")] == [8, 8]
    assert [each.name for each in path.parent.glob("*.prom")] == ["enrich.prom"]


def test_the_file_is_replaced_in_one_step(path: Path) -> None:
    write(path, GOOD)
    with path.open(encoding="utf-8") as opened:
        write(path, GOOD)
        assert "enrich_job_rows_total" in opened.read(), "the old file stays whole for whoever reads it"
    assert path.stat().st_mode & 0o444
