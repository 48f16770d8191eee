"""What Spark and Delta raise becomes one line with the right exit code, and none of their text."""

from __future__ import annotations

import pytest

from enrich.base.errors import ConfigError, DriftError, EnvironmentFault, RefreshNeeded, RunFailed
from enrich.base.failures import describe_error, find_lack, is_conflict

CANARY = "jane@example.com"


class NumberFormatException(Exception):
    """As pyspark gives it: a text that quotes a cell, and a condition that does not."""

    def getCondition(self) -> str:  # noqa: N802 - as in pyspark
        return "CAST_INVALID_INPUT"


class InvalidNames(Exception):
    """As Delta refuses names of columns and fields."""

    def getCondition(self) -> str:  # noqa: N802 - as in pyspark
        return "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"


class AppendOnly(Exception):
    """As Delta refuses to update or delete a row of a table of this property."""

    def getCondition(self) -> str:  # noqa: N802 - as in pyspark
        return "DELTA_CANNOT_MODIFY_APPEND_ONLY"


class WrongValue(NumberFormatException):
    """The same, with what SQL calls such a fault."""

    def getSqlState(self) -> str:  # noqa: N802 - as in pyspark
        return "22018"


class Py4JNetworkError(Exception):
    """As py4j names what it meets where the JVM was."""


def test_a_jvm_that_is_gone_is_named() -> None:
    """By the kernel, for its memory, or by a signal: what py4j says tells nobody what to do."""
    assert str(describe_error(ConnectionRefusedError(), "customers")).startswith("Spark's JVM ended")
    found = describe_error(Py4JNetworkError("Answer from Java side is empty"), "customers")
    assert found.exit_code == 1
    assert str(found).startswith("Spark's JVM ended before job 'customers' was done; run again; where nobody stopped")


def test_a_cell_that_is_a_line_of_a_log_is_no_fault_of_the_machine() -> None:
    cell = f"Traceback\nPermissionError: [Errno 13] Permission denied: '/home/{CANARY}/r.txt'"
    assert find_lack(WrongValue(f"[CAST_INVALID_INPUT] The value '{cell}' of the type ...")) is None
    text = f"[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint c (id > 1) violated by row with values:\n - {cell}"
    said = str(describe_error(RuntimeError(text), "j"))
    assert CANARY not in said
    assert "CHECK constraint 'c'" in said


class ConcurrentAppendException(Exception):
    """As Delta names it."""


class PythonException(Exception):
    """As pyspark names what a worker raised."""


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (RuntimeError(f"[FAILED_READ_FILE.FILE_NOT_EXIST] {CANARY} file:/lake/accounts/x.parquet"), RefreshNeeded, 5),
        (
            RuntimeError(f"failed\n{CANARY}\nCaused by: org.apache.spark.SparkFileNotFoundException"),
            RefreshNeeded,
            5,
        ),
        (RuntimeError("[DELTA_VERSION_NOT_FOUND] Cannot time travel Delta table to version 3"), RefreshNeeded, 5),
        (RuntimeError("java.io.FileNotFoundException: /tmp/blockmgr/x"), RunFailed, 1),
        (RuntimeError(f"{CANARY}\nCaused by: java.io.IOException: No space left on device"), EnvironmentFault, 7),
        (RuntimeError("java.nio.file.FileSystemException: /x: No space left on device"), EnvironmentFault, 7),
        (OSError(28, "No space left on device", CANARY), EnvironmentFault, 7),
        (RuntimeError(f"{CANARY}: java.lang.OutOfMemoryError: Java heap space"), EnvironmentFault, 7),
        (MemoryError(CANARY), EnvironmentFault, 7),
        (RuntimeError("java.lang.ClassNotFoundException: Class S3AFileSystem not found"), EnvironmentFault, 7),
        (
            RuntimeError("CatalogNotFoundException: [CATALOG_NOT_FOUND] The catalog `prod` not found"),
            EnvironmentFault,
            7,
        ),
        (ModuleNotFoundError(f"No module named {CANARY!r}"), EnvironmentFault, 7),
        (PythonException(f"{CANARY}\nModuleNotFoundError: No module named 'pyarrow'"), EnvironmentFault, 7),
        (PythonException(f"{CANARY}\nModuleNotFoundError: No module named 'jsonschema'"), EnvironmentFault, 7),
        (RuntimeError(f'{CANARY} java.io.IOException: Cannot run program "/no/python3": error=2'), EnvironmentFault, 7),
        (NumberFormatException("The value 'java.lang.OutOfMemoryError' cannot be cast"), RunFailed, 1),
        (NumberFormatException("The value 'DELTA_FILE_NOT_FOUND' cannot be cast"), RunFailed, 1),
        (ConcurrentAppendException(CANARY), RunFailed, 1),
        (InvalidNames(CANARY), ConfigError, 2),
        (AppendOnly(CANARY), ConfigError, 2),
        (
            RuntimeError(f"Job aborted: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_7_0 {CANARY}"),
            RunFailed,
            1,
        ),
        (ValueError(CANARY), RunFailed, 1),
    ],
)
def test_each_kind_has_its_exit_code_and_tells_nothing(error: Exception, kind: type[Exception], code: int) -> None:
    found = describe_error(error, "customers")
    assert (type(found), found.exit_code) == (kind, code)
    assert CANARY not in str(found)
    assert found.hint


def test_a_table_that_another_run_creates_is_a_conflict_and_a_column_that_is_there_twice_is_none() -> None:
    assert is_conflict(RuntimeError("[DELTA_TABLE_ALREADY_EXISTS] Table already exists"))
    assert is_conflict(RuntimeError("[TABLE_OR_VIEW_ALREADY_EXISTS] Cannot create table"))
    assert not is_conflict(RuntimeError("[COLUMN_ALREADY_EXISTS] The column `x` already exists"))


DENIED = {
    "python": (PermissionError(13, "Permission denied", "/lake/people/mail=" + CANARY + "/x"), "/lake/people"),
    "delta-rs": (
        OSError("Kernel error -> \n Unable to open file /lake/people/x.json\n Permission denied (os error 13)"),
        "/lake/people",
    ),
    "java": (
        RuntimeError(f"{CANARY}\nCaused by: java.io.FileNotFoundException: /lake/people/x (Permission denied)"),
        "/lake/people",
    ),
    "java nio": (
        RuntimeError(f"calling o1.\n: java.nio.file.AccessDeniedException: /lake/people/x: {CANARY}"),
        "/lake/people",
    ),
    "hadoop": (
        RuntimeError("\nCaused by: org.apache.hadoop.security.AccessControlException: Permission denied: user=x"),
        "a directory of the tables",
    ),
    "s3": (
        OSError("Generic S3 error: Client error with status 403 Forbidden: <Code>AccessDenied</Code>"),
        "a directory",
    ),
}


@pytest.mark.parametrize("name", DENIED)
def test_a_missing_permission_is_told_with_its_place(name: str) -> None:
    error, place = DENIED[name]
    found = describe_error(error, "customers")
    assert found.exit_code == 7
    assert str(found).startswith(f"a permission is missing: {place}")
    assert CANARY not in str(found)


def test_a_cell_that_speaks_of_permissions_is_no_missing_permission() -> None:
    text = "The value 'java.nio.file.AccessDeniedException: Permission denied' cannot be cast"
    assert describe_error(NumberFormatException(text), "customers").exit_code == 1


def test_workers_without_pyarrow_are_told_apart_from_a_driver_without_it() -> None:
    text = "No module named 'pyarrow'"
    assert "workers" in str(describe_error(PythonException(text), "customers"))
    assert "workers" not in str(describe_error(ModuleNotFoundError(text), "customers"))


def test_history_that_is_gone_names_the_command() -> None:
    found = describe_error(RuntimeError("[DELTA_FILE_NOT_FOUND_DETAILED]"), "customers")
    assert "enrich run customers --full-refresh" in str(found)


def test_errors_of_our_own_stay_as_they_are() -> None:
    drift = DriftError("changed", hint="repair it")
    assert describe_error(drift, "customers") is drift
