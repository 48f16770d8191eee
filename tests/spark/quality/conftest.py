# ruff: noqa: E501 - a table reads better with one case a line
"""What the tests of the gate share: the rows, suites from plain lists, and GX run by itself as the reference."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from enrich.base.suites import Suite

Entry = tuple[str, dict[str, Any]] | tuple[str, dict[str, Any], dict[str, Any]]

SCHEMA = (
    "id int, email string, name string, n int, m int, k bigint, d double, price decimal(10,2), day date, "
    "at timestamp, doc string, born string, flag boolean, home struct<city:string,zip:int>"
)

ROWS: list[tuple[Any, ...]] = [
    (1, "a@x.org", "Ann", 1, 1, 10, 0.5, "1.50", "2026-01-01", "2026-01-01 10:00:00", '{"a": 1}', "2020-01-31", True, ("Ulm", 1)),
    (2, "b@x.org", "Bob", 2, 3, 20, 1.5, "2.50", "2026-01-02", "2026-01-02 10:00:00", '{"a": "x"}', "2020-02-30", False, ("Bonn", 2)),
    (3, None, "cy", 3, None, 30, 2.5, "3.50", "2026-01-03", "2026-01-03 10:00:00", "[]", "31.01.2020", None, (None, 3)),
    (4, "", "", None, 4, 40, None, None, None, None, None, None, True, None),
    (5, "d@x", "Dora", 5, 4, None, 4.5, "5.50", "2026-01-05", "2026-01-05 10:00:00", '"t"', "2021-12-01", True, ("Ulm", None)),
    (6, "a@x.org", None, 5, 5, 60, 5.5, "6.50", "2026-01-06", "2026-01-06 10:00:00", "1", "", False, ("Köln", 6)),
    (7, "E@X.ORG", "Ann", None, None, 70, 100.0, "99.99", "2026-02-01", "2026-02-01 10:00:00", "null", "2020-01-31", None, None),
    (8, " f@x.org", "ann", 8, 7, 70, 3.5, "0.00", "2025-12-31", "2025-12-31 23:59:59", '{"a": 2}', "x", True, ("Ulm", 1)),
    (9, "<b>@x.org", "O'Neil", -9, -9, -90, -1.5, "-1.00", "2026-01-01", "2026-01-01 10:00:00", "{}", "2020-01-31", False, ("", 0)),
    (10, "žluť@x.org", 'say "hi"', 0, 0, 0, 0.0, "0.10", "2026-01-01", "2026-01-01 00:00:00", "{}", "2020-01-01", None, ("Ulm", 9)),
]  # fmt: skip


@dataclass(frozen=True)
class Reference:
    """GX's own answer to one expectation."""

    success: bool
    raised: bool
    result: dict[str, Any]

    @property
    def checked(self) -> int | None:
        """Rows that GX judged, for row expectations."""
        if "element_count" not in self.result:
            return None
        return int(self.result["element_count"]) - int(self.result.get("missing_count") or 0)


@pytest.fixture(scope="module", autouse=True)
def _interpreted(interpreted: SparkSession) -> None:
    """Hundreds of conditions over ten rows each."""


@pytest.fixture(scope="session")
def people(spark: SparkSession) -> DataFrame:
    """Ten rows with nulls, blanks and odd values in every kind of column."""
    from pyspark.sql import functions as F

    texts = (
        SCHEMA.replace("decimal(10,2)", "string").replace("day date", "day string").replace("at timestamp", "at string")
    )
    raw = spark.createDataFrame(ROWS, texts)
    casts = {"price": "decimal(10,2)", "day": "date", "at": "timestamp"}
    frame = raw.select(*(F.col(c).cast(casts[c]).alias(c) if c in casts else F.col(c) for c in raw.columns))
    return frame.coalesce(1).persist()


@pytest.fixture
def suite_of(tmp_path: Path) -> Callable[[Sequence[Entry]], Suite]:
    """Give a suite from ``(type, kwargs, {severity, meta ...})``."""
    from enrich.project.suitefiles import load_suite

    def build(entries: Sequence[Entry]) -> Suite:
        items = [{"type": entry[0], "kwargs": entry[1], **(entry[2] if len(entry) > 2 else {})} for entry in entries]
        path = tmp_path / "suite.json"
        path.write_text(json.dumps({"name": "suite", "expectations": items}), encoding="utf-8")
        return load_suite(path, "expectations/suite.json")

    return build


@pytest.fixture(scope="session")
def ask_gx() -> Callable[[DataFrame, Sequence[Entry]], list[Reference]]:
    """Run GX by itself: ``batch.validate(suite)`` on the frame, as its documentation shows it."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx
        from great_expectations.core.expectation_suite import ExpectationSuite
        from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

        context: Any = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False, "metric_calculations": False}
        asset = context.data_sources.add_spark("spark", persist=False).add_dataframe_asset("rows")
        batches = asset.add_batch_definition_whole_dataframe("whole")
    asked = iter(range(1_000_000))

    def ask(frame: DataFrame, entries: Sequence[Entry]) -> list[Reference]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            configs = [
                ExpectationConfiguration(type=entry[0], kwargs=dict(entry[1]), meta={"position": position})
                for position, entry in enumerate(entries)
            ]
            # Given to the constructor, because adding one by one replaces an expectation on the same columns.
            suite = ExpectationSuite(name=f"reference{next(asked)}", expectations=configs)
            context.suites.add(suite)
            batch = batches.get_batch(batch_parameters={"dataframe": frame})
            # Counts are compared: with no value asked for, GX has none looked for, which is a Spark job a row expectation.
            counts = {"result_format": "BASIC", "partial_unexpected_count": 0}
            results: list[Any] = batch.validate(suite, result_format=counts).results
        found: list[Reference | None] = [None] * len(entries)
        for item in results:
            info = item.exception_info
            raised = bool(info.get("raised_exception", True) if "raised_exception" in info or not info else True)
            answer = Reference(bool(item.success), raised, dict(item.result))
            found[item.expectation_config.meta["position"]] = answer
        assert None not in found
        return [reference for reference in found if reference is not None]

    return ask
