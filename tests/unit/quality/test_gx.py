"""The second opinion of GX's own models, and silence."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path
from typing import Any

from enrich.base.suites import Suite
from enrich.project.suitefiles import load_suite
from enrich.quality.gx import check_with_gx, name_error, silence_gx


def suite_of(tmp_path: Path, *rules: tuple[str, dict[str, Any]]) -> Suite:
    path = tmp_path / "s.json"
    entries = [{"type": kind, "kwargs": kwargs} for kind, kwargs in rules]
    path.write_text(json.dumps({"name": "s", "expectations": entries}, indent=1))
    return load_suite(path, "expectations/s.json")


def test_gx_has_nothing_to_add_to_a_good_suite(tmp_path: Path) -> None:
    rules: list[tuple[str, dict[str, Any]]] = [
        ("expect_column_values_to_not_be_null", {"column": "a.b", "row_condition": "x > 1"}),
        ("expect_column_values_to_be_between", {"column": "d", "min_value": "2026-01-01"}),
        ("expect_table_row_count_to_be_between", {"min_value": 1}),
    ]
    assert check_with_gx(suite_of(tmp_path, *rules)) == []


def test_what_gx_alone_refuses_is_told_with_its_line_and_without_values(tmp_path: Path) -> None:
    good = ("expect_column_values_to_not_be_null", {"column": "c"})
    bad = ("expect_column_values_to_match_strftime_format", {"column": "c", "strftime_format": "hunter2 %D"})
    (fault,) = check_with_gx(suite_of(tmp_path, good, bad))
    assert fault.where == "expectations/s.json:10"
    assert "expect_column_values_to_match_strftime_format: strftime_format" in fault.message
    assert "hunter2" not in fault.message


def test_quiet_silences_and_restores() -> None:
    logger = logging.getLogger("great_expectations.execution_engine")
    states = [logger.disabled]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with silence_gx():
            states.append(logger.disabled)
            warnings.warn("a value", stacklevel=1)
        assert told == []
    assert [*states, logger.disabled] == [False, True, False]


def test_error_class_never_holds_the_message() -> None:
    class Odd(Exception):
        def getCondition(self) -> str:  # noqa: N802 - pyspark's name
            raise RuntimeError("secret")

    class Coded(Exception):
        def getCondition(self) -> str:  # noqa: N802 - pyspark's name
            return "CAST_INVALID_INPUT"

    assert name_error(ValueError("secret")) == "ValueError"
    assert name_error(Odd("secret")) == "Odd"
    assert name_error(Coded("secret")) == "Coded[CAST_INVALID_INPUT]"
