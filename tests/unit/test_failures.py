"""What Spark and Delta raise becomes one line with the right exit code, and none of their text."""

from __future__ import annotations

import pytest

from enrich.errors import DriftError, HistoryError, RunFailed
from enrich.failures import named

CANARY = "jane@example.com"


class ConcurrentAppendException(Exception):
    """As Delta names it."""


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (RuntimeError(f"[FAILED_READ_FILE.FILE_NOT_EXIST] {CANARY} file:/lake/accounts/x.parquet"), HistoryError, 5),
        (
            RuntimeError(f"failed\n{CANARY}\nCaused by: org.apache.spark.SparkFileNotFoundException"),
            HistoryError,
            5,
        ),
        (RuntimeError("[DELTA_VERSION_NOT_FOUND] Cannot time travel Delta table to version 3"), HistoryError, 5),
        (RuntimeError("java.io.FileNotFoundException: /tmp/blockmgr/x"), RunFailed, 1),
        (ConcurrentAppendException(CANARY), RunFailed, 1),
        (ValueError(CANARY), RunFailed, 1),
    ],
)
def test_each_kind_has_its_exit_code_and_tells_nothing(error: Exception, kind: type[Exception], code: int) -> None:
    found = named(error, "customers")
    assert (type(found), found.exit_code) == (kind, code)
    assert CANARY not in str(found)
    assert found.hint


def test_history_that_is_gone_names_the_command() -> None:
    found = named(RuntimeError("[DELTA_FILE_NOT_FOUND_DETAILED]"), "customers")
    assert "enrich run customers --full-refresh" in str(found)


def test_errors_of_our_own_stay_as_they_are() -> None:
    drift = DriftError("changed", hint="repair it")
    assert named(drift, "customers") is drift
