"""Turn what Spark, Delta and storage raise into the few errors of enrich, without their texts: those quote the data.

Of another library's error only classes and conditions are told.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from enrich.base import hints
from enrich.base.errors import Blocked, ConfigError, Conflict, EnrichError, EnvironmentFault, RefreshNeeded, RunFailed
from enrich.base.spec import quote_literal

# History that is no more; in the middle of a chain of causes, too.
_GONE = re.compile(
    r"FAILED_READ_FILE\.FILE_NOT_EXIST|SparkFileNotFoundException|DELTA_FILE_NOT_FOUND|DELTA_LOG_FILE_NOT_FOUND"
    r"|DELTA_TRUNCATED_TRANSACTION_LOG|DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION"
    r"|DELTA_VERSION_NOT_FOUND|DELTA_VERSIONS_NOT_CONTIGUOUS"
)
# A file that is there and holds something else: of Parquet, of deletion vectors, of commits.
_DAMAGED = re.compile(
    r"CANNOT_READ_FILE_FOOTER|is not a Parquet file|ParquetDecodingException|can not read class org\.apache\.parquet"
    r"|ChecksumException|DELTA_DELETION_VECTOR_\w*(?:MISMATCH|INVALID)|java\.io\.EOFException|jackson\.core\.\w+Exception"
)
_CONFLICT = re.compile(
    r"Concurrent|CONCURRENT|ProtocolChanged|MetadataChanged|SCHEMA_CHANGE|(?:TABLE|VIEW)_ALREADY_EXISTS"
)
_LACKS = (
    (
        r"^PythonException: .*No module named '(pyarrow|pandas|jsonschema)'|Cannot run program \"[^\"]*python[^\"]*\"",
        "Spark's workers have no Python, or it lacks pyarrow, pandas or jsonschema",
        "install it where spark.executorEnv.PYSPARK_PYTHON points; docs/clusters.md says what needs it",
    ),
    (
        r"(IO|FileSystem|FS|OS)(Exception|Error).{0,500}(No space left on device|quota exceeded|Read-only file system)",
        "a disk is full or read-only",
        "tables, the state directory and temporary files need room that can be written; then run again",
    ),
    (
        r"java\.lang\.OutOfMemoryError|SparkOutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY|^MemoryError",
        "there is not enough memory",
        "give Spark more with spark.driver.memory or spark.executor.memory, and run again",
    ),
    (r"CATALOG_NOT_FOUND", "Spark has no such catalog", "set spark.sql.catalog.NAME in the conf file, or correct it"),
    (
        r"SCHEMA_NOT_FOUND",
        "the catalog has no such schema",
        "create it with CREATE SCHEMA, or correct the table's name",
    ),
    (r"INVALID_SCHEMA_OR_RELATION_NAME", "this catalog takes no '-' in the names of tables", "give the table another"),
    (
        r"ClassNotFoundException|NoClassDefFoundError|DATA_SOURCE_NOT_FOUND|^ModuleNotFoundError",
        "a package is missing",
        "install it, or name it in spark.jars.packages of the conf file, and run again",
    ),
)
"""Words of an error, what is lacking, the next step."""

# How Delta begins to say which constraint refuses a row, before it quotes the row.
_REFUSED = (
    (r"\[DELTA_NOT_NULL_CONSTRAINT_VIOLATED\] NOT NULL constraint violated for column: (.+?)\.\s", "NOT NULL of {!r}"),
    (r"\[DELTA_MISSING_NOT_NULL_COLUMN_VALUE\] Column (.+?), which", "NOT NULL of {!r}"),
    (r"\[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES\] CHECK constraint (.+?) \(", "CHECK constraint {!r}"),
    (
        r"\[(?:DELTA_EXCEED_CHAR_VARCHAR_LIMIT|EXCEED_LIMIT_LENGTH)\]|DeltaInvariantViolationException",
        "a constraint or the length of a column",
    ),
)
_NOT_ALLOWED = {
    "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES": (
        "a column of {!r}, or a field in one, has a name that Delta refuses",
        "select it under a name without blanks and ,;{}()=",
    ),
    "DELTA_CANNOT_MODIFY_APPEND_ONLY": (
        "the target of {!r} has delta.appendOnly: it takes no updates and deletes",
        "set the property to 'false' with ALTER TABLE ... SET TBLPROPERTIES, or write to another table",
    ),
}
# How Python, delta-rs, Java and Hadoop begin a line that says that a permission is missing; a cell begins none.
_DENIED = re.compile(
    r"(?:^PermissionError|^PermissionDenied|^(?:OSError|TableNotFoundError|DeltaError)\b"
    r"[\s\S]{0,1000}(?:Permission ?[Dd]enied|AccessDenied|ACCESS_DENIED)"
    r"|^(?:\w*: |Caused by: )?[\w.$]*(?:AccessControlException|AccessDeniedException)\b"
    r"|^(?:\w*: |Caused by: )?[\w.$]*(?:FileNotFoundException|IOException|FileSystemException)\b"
    r"[^\n]*Permission denied)[^\n]*",
    re.MULTILINE,
)
_PATH = re.compile(r"(?:[a-z0-9]+:/)?/[^\s()\"':]+")


def is_conflict(error: Exception) -> bool:
    """Tell whether somebody else's commit came in between, so that a fresh plan may succeed."""
    if isinstance(error, EnrichError):
        return isinstance(error, Conflict)
    return _CONFLICT.search(f"{_name_class(error)} {str(error)[:400]}") is not None


def is_gone(error: Exception) -> bool:
    """Tell whether files or commits of a version do not exist any more."""
    return _GONE.search(find_condition(error) or str(error)) is not None


def is_damaged(error: Exception) -> bool:
    """Tell whether a file of a table is there and does not hold what it should."""
    text = f"{find_condition(error)} {error}"
    return "FAILED_READ_FILE" in text and not is_gone(error) and _DAMAGED.search(text) is not None


def has_lost_rows(error: Exception) -> bool:
    """Tell whether rows that a step had computed (``localCheckpoint``) went away with the executor that held them."""
    return "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND" in str(error)


def find_lack(error: Exception) -> EnvironmentFault | None:
    """Return what the machine lacks where that is the cause: room, memory, a package; None for every other cause."""
    if missing := find_missing_extra(error):
        return missing
    kind = type(error).__name__
    # What is about a value quotes it, and it may be a line of a log.
    if find_value_fault(error) is None and (denied := _DENIED.search(f"{kind}: {error}")):
        path = _PATH.search(denied.group())
        # Its directory; values in names of partitions are cut off.
        directory = re.sub(r"/[^/]*=.*|/[^/]*$", "", path.group(), count=1) if path else ""
        return deny(directory or "a directory of the tables")
    # Where Spark names a condition, that alone is searched: the text beside it may quote a cell.
    text = f"{kind}: {find_condition(error) or error}"
    for words, what, hint in _LACKS:
        if re.search(words, text, re.DOTALL):
            return EnvironmentFault(f"{what} ({kind})", hint=hint)
    return None


def is_denied(error: BaseException) -> bool:
    """Tell whether a permission is missing where tables are; Spark names it among the causes, not as condition."""
    return _DENIED.search(f"{type(error).__name__}: {error}") is not None


def deny(place: str) -> EnvironmentFault:
    """Return the error of a place that this user may not read or write."""
    hint = f"give it to the user that runs enrich; `{hints.doctor()}` checks the directories"
    return EnvironmentFault(f"a permission is missing: {place} cannot be read or written", hint=hint)


def find_refusal(error: Exception, table: str) -> Blocked | None:
    """Return the error of a table that refuses rows by a constraint; None for every other cause."""
    for words, what in _REFUSED:
        if found := re.search(words, str(error)):
            return Blocked(
                f"{table} refuses a row: {what.format(*found.groups())}; nothing was written to it",
                hint="correct the row where it comes from, or take the constraint away; then run again",
            )
    return None


def describe_unreadable(uri: str, error: Exception) -> EnrichError:
    """Return the error of a table whose log cannot be read."""
    if is_denied(error):
        return deny(uri)
    return RunFailed(f"cannot read the log of {uri} ({type(error).__name__})", hint="check the storage")


def tell_unreadable(error: Exception) -> str:
    """Return why versions of a table cannot be read, in words or with Spark's condition."""
    gone = "files or commits of these versions are gone"
    return gone if is_gone(error) else find_condition(error) or "no reason given"


def is_no_verdict(error: Exception) -> bool:
    """Tell whether an error is about the machine, or files or computed rows that are gone, and not about values."""
    return find_lack(error) is not None or is_gone(error) or has_lost_rows(error)


def find_condition(error: BaseException) -> str:
    """Return Spark's word for what went wrong, such as ``CAST_INVALID_INPUT``; empty where it has none."""
    return _ask(error, "getCondition")


def describe_error(error: Exception, job: str) -> EnrichError:
    """Turn what a job raised into one line without values."""
    if isinstance(error, EnrichError):
        return error
    if known := find_refusal(error, f"the target of {job!r}") or find_lack(error):
        return known
    condition = find_condition(error)
    if condition == "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION":  # a run ended before it was registered
        name, place = re.findall(r"\('(?:file:)?(.+?)'\)", str(error))[:2]
        statement = f"CREATE TABLE {name} USING delta LOCATION {quote_literal(place)}"
        hint = f"run `{statement}` in Spark SQL if they are its own, or remove them"
        return ConfigError(f"the catalog does not know {name}, and there are files at its place {place}", hint=hint)
    if condition in _NOT_ALLOWED:
        said, hint = _NOT_ALLOWED[condition]
        return ConfigError(said.format(job), hint=hint)
    if is_gone(error):
        return RefreshNeeded(
            f"job {job!r} needs files or commits of a version that do not exist any more",
            hint=f"run `{hints.refresh(job)}`",
            instead=f"run `{hints.plan(job)}`, which says what can still be read",
        )
    said, hint = f"job {job!r} failed: {_name_class(error)}", f"run again; `{hints.validate()}` checks files and tables"
    if is_conflict(error):
        said, hint = f"other writers kept changing the target of {job!r}", "run again when they are done"
    elif has_lost_rows(error):
        said, hint = f"executors with computed rows of {job!r} were lost", "run again, with more memory for executors"
    elif type(error).__name__ in ("Py4JNetworkError", "ConnectionRefusedError"):
        said = f"Spark's JVM ended before job {job!r} was done"
        hint = "run again; where nobody stopped it, give it more memory with spark.driver.memory"
    return RunFailed(said, hint=hint)


def _name_class(error: Exception) -> str:
    java = str(getattr(error, "java_exception", "") or "").split(":", 1)[0]
    return " ".join(filter(None, (type(error).__name__, find_condition(error), java.rsplit(".", 1)[-1])))


# --- the distribution as pip knows it, and the extras that not every installation has (ADR 18) ------------------------

DISTRIBUTION = "enrich-delta"  # the name to install by; the import name and the command are `enrich`
UPGRADE = f"pip install --upgrade {DISTRIBUTION}"

SPARK, EXPECTATIONS, LINEAGE, STORES = "spark", "gx", "lineage", "stores"
MODULES = {SPARK: ("pyspark", "delta", "py4j"), EXPECTATIONS: ("great_expectations",), STORES: ("obstore",)}
"""Extra -> the packages that it brings and that enrich imports; a cluster may bring them in another way."""

PURPOSE = {
    SPARK: "Spark with Delta",
    EXPECTATIONS: "Great Expectations",
    STORES: "writes with a condition in object stores",
}


def read_version() -> str:
    """Return the installed version; ``0+source`` where there is none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0+source"


def require_extra(extra: str) -> None:
    """Raise an EnvironmentFault with the line that installs an extra where one of its packages is missing."""
    for module in MODULES[extra]:
        if find_spec(module) is None:
            raise describe_missing(extra, module)


def describe_missing(extra: str, module: str) -> EnvironmentFault:
    """Return the error for a package of an extra that is not there."""
    told = f"this needs {PURPOSE[extra]}, and the package {module!r} is not installed"
    return EnvironmentFault(told, hint=f"run `{install(extra)}`")


def install(extra: str) -> str:
    """Return the line that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def find_missing_extra(error: BaseException) -> EnvironmentFault | None:
    """Return what an import that failed means to users; None where it is not about a package of an extra."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    name = (error.name or "").partition(".")[0]
    return next((describe_missing(extra, name) for extra, modules in MODULES.items() if name in modules), None)


# --- values: a text that is no number, a division by zero, a place that no list has -----------------------------------

# Under ANSI rules each ends the run. Spark says so with an SQLSTATE of class 22, "data exception", or these conditions,
# and mostly with the part of the expression that failed. Some conditions of logs and files have such an SQLSTATE, too.
_OF_VALUES = ("DUPLICATED_MAP_KEY", "INVALID_FORMAT", "COLLECTION_SIZE_LIMIT_EXCEEDED")
_OF_FILES = ("DELTA_", "FAILED_READ_FILE")
_MOST_CAUSES = 20

INSTEAD = (
    "functions such as try_cast, try_divide, try_to_date, try_element_at and get give null there instead;"
    " case when ... then ... end keeps such values out"
)
"""What helps against a value that cannot be computed with."""


@dataclass(frozen=True)
class ValueFault:
    """What Spark says of a value that it cannot compute with, and which part of the expression failed, if it tells."""

    condition: str
    fragment: str = ""
    start: int = 0

    def is_in(self, text: str) -> bool:
        """Tell whether an expression has the part that failed, at its place."""
        return bool(self.fragment) and text.startswith(self.fragment, self.start)


def find_value_fault(error: BaseException) -> ValueFault | None:
    """Return what is wrong with a value, where that is the cause of an error; None for every other cause."""
    thrown, causes = getattr(error, "java_exception", None) or getattr(error, "_origin", None), list[Any]()
    with suppress(Exception):  # the JVM may be gone; what is told so far is told
        while thrown is not None and len(causes) < _MOST_CAUSES:
            causes.append(thrown)
            thrown = thrown.getCause()
    for cause in causes or [error]:
        condition = _ask(cause, "getCondition")
        if condition.startswith(_OF_FILES):
            return None
        if condition and (_ask(cause, "getSqlState").startswith("22") or condition.startswith(_OF_VALUES)):
            with suppress(Exception):  # what is no text of an expression has no place
                for place in cause.getQueryContext():
                    return ValueFault(condition, str(place.fragment()), int(place.startIndex()))
            return ValueFault(condition)
    return None


def _ask(cause: Any, method: str) -> str:
    """Return what an exception says; empty where it has no such word. Java objects take every name for a method."""
    try:
        return str(getattr(cause, method)() or "")
    except Exception:  # noqa: BLE001 - nothing may hide the first error
        return ""
