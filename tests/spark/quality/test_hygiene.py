"""What judging leaves behind: nothing on disk, nothing cached, nothing on the network, no value in any output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from enrich.quality.judge import judge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from enrich.base.suites import Suite

NOT_NULL = "expect_column_values_to_not_be_null"
BETWEEN = "expect_column_values_to_be_between"
CANARY = "canary-7f3a@secret.example"
Build = Callable[[list[Any]], "Suite"]

ROW_RULES: list[tuple[str, dict[str, Any]]] = [
    (NOT_NULL, {"column": "email"}),
    (BETWEEN, {"column": "n", "min_value": 0}),
    (
        BETWEEN,
        {"column": "d", "max_value": 5, "row_condition": 'col("n") > 1', "condition_parser": "great_expectations"},
    ),
    ("expect_column_values_to_match_regex", {"column": "email", "regex": "@"}),
    ("expect_column_values_to_be_in_set", {"column": "name", "value_set": ["Ann"]}),
    ("expect_column_value_lengths_to_be_between", {"column": "name", "min_value": 1}),
    ("expect_column_pair_values_to_be_equal", {"column_A": "n", "column_B": "m"}),
    ("expect_multicolumn_sum_to_equal", {"column_list": ["n", "m"], "sum_total": 2}),
    ("expect_column_values_to_be_json_parseable", {"column": "doc"}),
]


@contextmanager
def counted_jobs(spark: SparkSession, name: str) -> Iterator[list[int]]:
    """Give a list that holds, after the block, the Spark jobs that it started."""
    context = spark.sparkContext
    jobs: list[int] = []
    context.setJobGroup(name, name)
    try:
        yield jobs
        jobs += context.statusTracker().getJobIdsForGroup(name)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type] # takes it away


def test_more_row_rules_cost_no_more_passes(spark: SparkSession, people: DataFrame, suite_of: Build) -> None:
    """GX counts the rows of the empty frame once for each kind of rule; we count the real ones once for all rules."""
    people.count()
    more = [(kind, {**kwargs, "mostly": share / 10}) for share in range(5) for kind, kwargs in ROW_RULES]
    few, many = suite_of(ROW_RULES), suite_of(more)
    with counted_jobs(spark, "few-rules") as for_few:
        judge(people, few, lambda _: people)
    with counted_jobs(spark, "many-rules") as for_many:
        findings = judge(people, many, lambda _: people).findings
    assert [finding.error for finding in findings] == [None] * len(more)
    assert 0 < len(for_many) == len(for_few) <= 4


def test_rules_with_one_condition_share_their_columns(people: DataFrame, suite_of: Build) -> None:
    suite = suite_of([(NOT_NULL, {"column": "email", "mostly": share / 100}) for share in range(50)])
    findings = judge(people, suite, lambda _: people).findings
    assert {(finding.checked, finding.failed, finding.success) for finding in findings} == {(10, 1, True)}


def test_nothing_stays_cached(spark: SparkSession, people: DataFrame, suite_of: Build) -> None:
    """Only what is new counts: what earlier tests left is cleaned by the JVM's collector at any moment."""
    people.count()
    persisted = spark.sparkContext._jsc.getPersistentRDDs
    before = set(persisted().keySet())
    rules = [*ROW_RULES, ("expect_column_mean_to_be_between", {"column": "n", "min_value": 0})]
    judge(people, suite_of(rules), lambda _: people)
    assert set(persisted().keySet()) - before == set()


@pytest.mark.parametrize("action", ["warn", "quarantine"])
def test_findings_hold_no_values(spark: SparkSession, suite_of: Build, action: str) -> None:
    frame = spark.createDataFrame([(1, CANARY), (2, None)], "id int, email string").coalesce(1)
    rules = [
        (
            "expect_column_values_to_be_in_set",
            {"column": "email", "value_set": ["hunter2"]},
            {"meta": {"enrich": {"action": action}}},
        ),
        (BETWEEN, {"column": "email", "min_value": 5}),
        ("expect_column_values_to_be_in_set", {"column": "id", "value_set": ["hunter2"]}),
        ("expect_column_values_to_match_json_schema", {"column": "email", "json_schema": {"title": "hunter2"}}),
        ("expect_column_max_to_be_between", {"column": "email", "max_value": "2020-01-01"}),
        ("expect_column_most_common_value_to_be_in_set", {"column": "email", "value_set": ["hunter2"]}),
    ]
    verdict = judge(frame, suite_of(rules), lambda _: frame)
    told = json.dumps([finding.to_dict() for finding in verdict.findings])
    assert CANARY not in told
    assert "hunter2" not in told
    assert sum(finding.error is not None for finding in verdict.findings) >= 3


SCRIPT = """
import json, socket, sys
from pathlib import Path

calls = []
for name in ("connect", "connect_ex"):
    real = getattr(socket.socket, name)
    def watched(self, address, real=real):
        local = isinstance(address, (str, bytes)) or address[0] in ("127.0.0.1", "::1", "localhost")
        if not local:
            calls.append(str(address))
            raise OSError("no network in this test")
        return real(self, address)
    setattr(socket.socket, name, watched)
real_lookup = socket.getaddrinfo
def lookup(host, *rest, **more):
    if host not in ("127.0.0.1", "localhost", "::1", None):
        calls.append(str(host))
    return real_lookup(host, *rest, **more)
socket.getaddrinfo = lookup

from enrich.project.models import Spark
from enrich.quality.judge import judge; from enrich.project.suitefiles import load_suite
from enrich.spark.session import get_session

spark = get_session(Spark(master="local[1]", conf={"spark.sql.shuffle.partitions": "1"}))
print("--- judging")
frame = spark.createDataFrame([(1, sys.argv[2]), (2, None)], "id int, email string").coalesce(1).persist()
verdict = judge(frame, load_suite(Path(sys.argv[1]), "s.json"), lambda _: frame)
print(json.dumps({"calls": calls, "errors": [f.error for f in verdict.findings], "blocked": bool(verdict.closing)}))
spark.stop()
"""


def test_a_process_of_its_own_writes_no_file_calls_nobody_and_prints_no_value(tmp_path: Path) -> None:
    here, home = tmp_path / "here", tmp_path / "home"
    here.mkdir()
    home.mkdir()
    rules = [
        {"type": NOT_NULL, "kwargs": {"column": "email"}},
        {"type": BETWEEN, "kwargs": {"column": "email", "min_value": 5}},
        {"type": "expect_column_values_to_match_json_schema", "kwargs": {"column": "email", "json_schema": {}}},
        {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "email", "min_value": 5}},
        {"type": "expect_column_median_to_be_between", "kwargs": {"column": "id", "min_value": 1}},
        {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "nobody", "min_value": 5}},
    ]
    suite = tmp_path / "s.json"
    suite.write_text(json.dumps({"name": "s", "expectations": rules}))
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": cache}
    environment.pop("GX_ANALYTICS_ENABLED", None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(suite), CANARY],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    assert answer["calls"] == []
    assert answer["blocked"] is True
    assert answer["errors"][0] is None
    assert all(answer["errors"][number] for number in (1, 2, 3, 5))
    assert CANARY not in done.stdout + done.stderr
    assert "great_expectations" not in done.stderr
    assert list(here.iterdir()) == []
    assert list(home.iterdir()) == []
