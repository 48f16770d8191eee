"""Turn what Spark, Delta and storage raise into the few errors of enrich, without their texts: those quote the data.

First errors of tables and of the machine; then, for ``--debug``, where an error comes from; then values that Spark
cannot compute with. Of another library's error only classes, conditions and lines of code are told.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from enrich.base import hints
from enrich.base.errors import Blocked, Conflict, EnrichError, EnvironmentFault, RefreshNeeded, RunFailed, show_text
from enrich.base.extras import find_missing_extra

_GONE = (
    "FAILED_READ_FILE.FILE_NOT_EXIST",
    "DELTA_FILE_NOT_FOUND",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
    "DELTA_VERSION_NOT_FOUND",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "SparkFileNotFoundException",
)
"""What Spark and Delta say of history that is no more; in the middle of a chain of causes, too."""
_DAMAGED = re.compile(
    r"CANNOT_READ_FILE_FOOTER|is not a Parquet file|ParquetDecodingException|can not read class org\.apache\.parquet"
    r"|ChecksumException|DELTA_DELETION_VECTOR_\w*(?:MISMATCH|INVALID)|java\.io\.EOFException|jackson\.core\.\w+Exception"
)
"""What Parquet, Delta, Hadoop and the reader of commits say of a file that is there and holds something else."""
_THERE = ("TABLE_ALREADY_EXISTS", "VIEW_ALREADY_EXISTS")
_CONFLICTS = ("Concurrent", "CONCURRENT", "ProtocolChanged", "MetadataChanged", "SCHEMA_CHANGE", *_THERE)
_LACKS = (
    (
        r"^PythonException: .*No module named '(pyarrow|pandas|jsonschema)'|Cannot run program \"[^\"]*python[^\"]*\"",
        "Spark's workers have no Python, or it lacks pyarrow, pandas or jsonschema",
        "install it where spark.executorEnv.PYSPARK_PYTHON points; docs/clusters.md says what needs it",
    ),
    (
        r"(IOException|FileSystemException|FSError|OSError).{0,500}(No space left on device|Disk quota exceeded)",
        "a disk is full",
        "make room where the tables, the state directory and temporary files are, and run again",
    ),
    (
        r"(IOException|FileSystemException|FSError|OSError).{0,500}Read-only file system",
        "a file system is read-only",
        "mount it for writing where the tables and the state directory are, and run again",
    ),
    (
        r"java\.lang\.OutOfMemoryError|SparkOutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY|^MemoryError",
        "there is not enough memory",
        "give Spark more with spark.driver.memory or spark.executor.memory, and run again",
    ),
    (
        r"ClassNotFoundException|NoClassDefFoundError|DATA_SOURCE_NOT_FOUND|^ModuleNotFoundError",
        "a package is missing",
        "install it, or name it in spark.jars.packages of the conf file, and run again",
    ),
)
"""Words of an error, what is lacking, the next step."""
_REFUSED = (
    (
        r"\[DELTA_NOT_NULL_CONSTRAINT_VIOLATED\] NOT NULL constraint violated for column: (.+?)\.\s",
        "NOT NULL of column {}",
    ),
    (r"\[DELTA_MISSING_NOT_NULL_COLUMN_VALUE\] Column (.+?), which", "NOT NULL of column {}"),
    (r"\[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES\] CHECK constraint (.+?) \(", "CHECK constraint {}"),
    (r"\[DELTA_EXCEED_CHAR_VARCHAR_LIMIT\]", "the length of a char or varchar column"),
    (r"DeltaInvariantViolationException", "a constraint"),
)
"""How Delta begins to say which constraint refuses a row, before it quotes the row."""
_DENIED = re.compile(
    r"^PermissionError|^PermissionDenied|^(?:OSError|TableNotFoundError|DeltaError)\b"
    r"[\s\S]{0,1000}(?:Permission ?[Dd]enied|AccessDenied|ACCESS_DENIED)"
    r"|^(?:\w*: |Caused by: )?[\w.$]*(?:AccessControlException|AccessDeniedException)\b"
    r"|^(?:\w*: |Caused by: )?[\w.$]*(?:FileNotFoundException|IOException|FileSystemException)\b"
    r"[^\n]*Permission denied",
    re.MULTILINE,
)
"""How Python, delta-rs, Java and Hadoop begin a line that says that a permission is missing; a cell begins none."""
_PATH = re.compile(r"(?:[a-z0-9]+:/)?/[^\s()\"':]+")


def is_conflict(error: Exception) -> bool:
    """Tell whether somebody else's commit came in between, so that a fresh plan may succeed."""
    if isinstance(error, EnrichError):
        return isinstance(error, Conflict)
    return any(word in _name_class(error) or word in str(error)[:400] for word in _CONFLICTS)


def is_gone(error: Exception) -> bool:
    """Tell whether files or commits of a version do not exist any more."""
    return _find_gone(error) is not None


def is_damaged(error: Exception) -> bool:
    """Tell whether a file of a table is there and does not hold what it should."""
    text = f"{find_condition(error)} {error}"
    return "FAILED_READ_FILE" in text and not is_gone(error) and _DAMAGED.search(text) is not None


def _find_gone(error: Exception) -> str | None:
    return next((word for word in _GONE if word in _tell_cause(error)), None)


def has_lost_rows(error: Exception) -> bool:
    """Tell whether rows that a step had computed (``localCheckpoint``) went away with the executor that held them."""
    return "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND" in str(error)


def find_lack(error: Exception) -> EnvironmentFault | None:
    """Return what the machine lacks where that is the cause: room, memory, a package; None for every other cause.

    Where Spark names a condition, that alone is searched: the text beside it may quote a cell.
    """
    if missing := find_missing_extra(error):
        return missing
    if is_denied(error):
        # Of the directory that it is about, values in names of partitions are cut off.
        named, text = getattr(error, "filename", None), f"{type(error).__name__}: {error}"
        if not isinstance(named, str):
            denied = _DENIED.search(text)
            said = text[denied.start() : denied.end()] + text[denied.end() :].split("\n", 1)[0] if denied else ""
            named = next(iter(_PATH.findall(said)), "").rpartition("/")[0]
        kept = "/".join(takewhile(lambda part: "=" not in part, named.split("/")))
        return deny(kept or "a directory of the tables")
    text = f"{type(error).__name__}: {_tell_cause(error)}"
    for words, what, hint in _LACKS:
        if re.search(words, text, re.DOTALL):
            return EnvironmentFault(f"{what} ({type(error).__name__})", hint=hint)
    return None


def is_denied(error: BaseException) -> bool:
    """Tell whether a permission is missing where tables are; Spark names it among the causes, not as condition."""
    return _DENIED.search(f"{type(error).__name__}: {error}") is not None


def deny(place: str) -> EnvironmentFault:
    """Return the error of a place that this user may not read or write."""
    return EnvironmentFault(
        f"a permission is missing: {place} cannot be read or written",
        hint=f"give it to the user that runs enrich; `{hints.doctor()}` checks the directories",
    )


def find_refusal(error: Exception, table: str) -> Blocked | None:
    """Return the error of a table that refuses rows by a constraint; None for every other cause."""
    text = str(error)
    for words, what in _REFUSED:
        if found := re.search(words, text):
            named = what.format(*[repr(each) for each in found.groups()])
            return Blocked(
                f"{table} refuses a row: {named}; nothing was written to it",
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
    return (
        "files or commits of these versions are gone" if is_gone(error) else find_condition(error) or "no reason given"
    )


def is_no_verdict(error: Exception) -> bool:
    """Tell whether an error is about the machine, or files or computed rows that are gone, and not about values."""
    return find_lack(error) is not None or is_gone(error) or has_lost_rows(error)


def find_condition(error: BaseException) -> str:
    """Return Spark's word for what went wrong, such as ``CAST_INVALID_INPUT``; empty where it has none."""
    condition = getattr(error, "getCondition", None)
    try:
        return str(condition() or "") if callable(condition) else ""
    except Exception:  # noqa: BLE001 - nothing may hide the first error
        return ""


def _tell_cause(error: Exception) -> str:
    return find_condition(error) or str(error)


def describe_error(error: Exception, job: str) -> EnrichError:
    """Turn what a job raised into one line without values: Spark's own texts quote the data."""
    tell_frames(error)
    if isinstance(error, EnrichError):
        return error
    if lacking := find_lack(error):
        return lacking
    if refused := find_refusal(error, f"the target of {job!r}"):
        return refused
    if gone := _find_gone(error):
        condition = f" ({gone})" if gone.isupper() else ""
        return RefreshNeeded(
            f"job {job!r} needs files or commits of a version that do not exist any more{condition}",
            hint=f"run `{hints.refresh(job)}`",
            instead=f"run `{hints.plan(job)}`, which says what can still be read",
        )
    if is_conflict(error):
        return RunFailed(f"other writers kept changing the target of {job!r}", hint="run again when they are done")
    if has_lost_rows(error):
        return RunFailed(
            f"executors with computed rows of {job!r} were lost", hint="run again, with more memory for executors"
        )
    return RunFailed(
        f"job {job!r} failed: {_name_class(error)}", hint=f"run again; `{hints.validate()}` checks files and tables"
    )


def _name_class(error: Exception) -> str:
    """Return an error's class and condition."""
    java = str(getattr(error, "java_exception", "") or "").split(":", 1)[0]
    parts = (type(error).__name__, find_condition(error), java.rsplit(".", 1)[-1])
    return " ".join(part for part in parts if part)


log = logging.getLogger("enrich")

_MOST_FRAMES_OF, _MOST_JVM_FRAMES = 8, 40


# --- where an error comes from: classes and lines of code, never a message or a local variable -----------------------


def tell_frames(error: BaseException) -> None:
    """Log the frames of an error and of its causes at level debug, where that level is shown."""
    if log.isEnabledFor(logging.DEBUG):
        frames = list(list_frames(error))
        log.debug("where it comes from, without messages and values:\n%s", "\n".join(frames), extra={"frames": frames})


def list_frames(error: BaseException) -> Iterator[str]:
    """Yield the class of an error, its frames, those of the JVM behind it, and then the same of its causes."""
    current: BaseException | None = error
    for depth in range(_MOST_FRAMES_OF):
        if current is None:
            return
        yield f"{'caused by ' if depth else ''}{type(current).__name__}"
        for frame in traceback.extract_tb(current.__traceback__):
            yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
        yield from _list_jvm_frames(current)
        current = current.__cause__ or current.__context__  # that of "from None", too: its text stays hidden


def _list_jvm_frames(error: BaseException) -> Iterator[str]:
    """Yield classes and frames of the Java exception behind an error, as long as its JVM answers."""
    java: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    try:
        for _ in range(_MOST_FRAMES_OF):
            if java is None:
                return
            yield f"  in the JVM: {java.getClass().getName()}"
            frames = java.getStackTrace()
            for index in range(min(len(frames), _MOST_JVM_FRAMES)):  # each one is asked of the JVM
                yield f"    {frames[index].toString()}"
            java = java.getCause()
    except Exception:  # noqa: BLE001 - the JVM may be gone; what is told so far is told
        return


# --- values: a text that is no number, a division by zero, a place that no list has -----------------------------------

# Under ANSI rules each ends the run. Spark says so with an SQLSTATE of class 22, "data exception", and mostly with the
# part of the expression that failed.
_DATA_EXCEPTION = "22"
_MORE = ("DUPLICATED_MAP_KEY", "INVALID_FORMAT", "COLLECTION_SIZE_LIMIT_EXCEEDED")
"""Conditions of values that have an SQLSTATE of another class."""
_OTHERS = ("DELTA_", "FAILED_READ_FILE")
"""Conditions of logs and files, some of which have an SQLSTATE of that class, and what they are caused by."""
_MOST_CAUSES = 20

_CALL = re.compile(r"\s*([a-z_0-9]+)\s*\(", re.IGNORECASE)
_PARSING = re.compile(r"\b(to_date|to_timestamp|to_timestamp_ltz|to_timestamp_ntz)\s*\(", re.IGNORECASE)
_TRY = dict.fromkeys(
    ("cast", "date", "timestamp", "int", "bigint", "smallint", "tinyint", "float", "double"), "try_cast"
)
_TRY |= dict.fromkeys(("decimal", "boolean", "binary"), "try_cast") | {"mod": "try_mod", "pmod": "try_mod"}
_TRY |= {name: f"try_{name}" for name in ("element_at", "make_interval", "make_timestamp", "make_timestamp_ltz")}
_TRY |= {name: f"try_{name}" for name in ("make_timestamp_ntz", "parse_json", "parse_url", "to_binary", "to_date")}
_TRY |= {name: f"try_{name}" for name in ("to_number", "to_timestamp", "url_decode", "validate_utf8", "variant_get")}
_TRY |= {"to_timestamp_ltz": "try_to_timestamp", "to_timestamp_ntz": "try_to_timestamp"}
"""Function -> the one that gives null where it fails."""
_OPERATORS = {"/": "try_divide", "%": "try_mod", "*": "try_multiply", "+": "try_add", "-": "try_subtract"}
_BY_CONDITION = (
    ("ARRAY_INDEX_IN_ELEMENT_AT", "try_element_at"),
    ("INDEX_OF_ZERO", "try_element_at"),
    ("ARRAY_INDEX", "get"),
    ("CAST_", "try_cast"),
    ("CONVERSION_INVALID_INPUT", "try_cast"),
    ("CANNOT_PARSE_DECIMAL", "try_cast"),
    ("NUMERIC_VALUE_OUT_OF_RANGE", "try_cast"),
    ("CANNOT_PARSE_TIME", "try_to_timestamp"),
    ("DIVIDE", "try_divide"),
    ("REMAINDER", "try_mod"),
    ("UTF8", "try_validate_utf8"),
)


@dataclass(frozen=True)
class ValueFault:
    """What Spark says of a value that it cannot compute with.

    Attributes:
        condition: Spark's word for it, such as ``CAST_INVALID_INPUT``.
        fragment: The part of an expression that failed, as written; empty where Spark does not tell.
        start: Where that begins in the expression.
    """

    condition: str
    fragment: str = ""
    start: int = 0

    def is_in(self, text: str) -> bool:
        """Tell whether an expression has the part that failed, at its place."""
        return bool(self.fragment) and text.startswith(self.fragment, self.start)

    def suggest(self, text: str = "") -> str:
        """Return what helps; ``text`` is the expression, for where Spark does not tell what of it failed."""
        if function := suggest_function(self.condition, self.fragment or text):
            return f"{_rewrite(function, show_text(' '.join(self.fragment.split())))} gives null there instead"
        return "case when ... then ... end keeps such values out"


def suggest_function(condition: str, fragment: str = "") -> str | None:
    """Return the function that gives null where a condition arises, by the part of the expression that failed."""
    called = _CALL.match(fragment)
    if called and (function := _TRY.get(called[1].lower())):
        return function
    if condition.startswith("CANNOT_PARSE_TIME") and (parsing := _PARSING.search(fragment)):
        return _TRY[parsing[1].lower()]
    if re.search(r"\bdiv\b", fragment, re.IGNORECASE) and "ZERO" in condition:
        return "nullif"
    if "ZERO" in condition or ("OVERFLOW" in condition and not condition.startswith("CAST")):
        found = [name for sign, name in _OPERATORS.items() if sign in fragment]
        if found:
            return found[0]
    return next((function for word, function in _BY_CONDITION if word in condition), None)


def _rewrite(function: str, fragment: str) -> str:
    """Return the part that failed as it is written with another function, where that is simple."""
    called = _CALL.match(fragment)
    if called and function == f"try_{called[1].lower()}":
        return f"try_{fragment}"
    sign = next((sign for sign, name in _OPERATORS.items() if name == function and fragment.count(sign) == 1), None)
    if not called and sign is not None:
        left, right = fragment.split(sign)
        return f"{function}({left.strip()}, {right.strip()})"
    if function == "try_cast" and (found := re.fullmatch(r"([\w.`]+)\s*::\s*(\w+)", fragment)):
        return f"try_cast({found[1]} as {found[2]})"
    if function == "get" and (found := re.fullmatch(r"([\w.`]+)\[([^\[\]]+)\]", fragment)):
        return f"get({found[1]}, {found[2]})"
    return f"{function}(...)"


def find_value_fault(error: BaseException) -> ValueFault | None:
    """Return what is wrong with a value, where that is the cause of an error; None for every other cause."""
    for cause in _list_causes(error):
        condition = _ask(cause, "getCondition")
        if condition.startswith(_OTHERS):
            return None
        state = _ask(cause, "getSqlState")
        if condition and (state.startswith(_DATA_EXCEPTION) or condition.startswith(_MORE)):
            with suppress(Exception):  # nothing may hide the first error; what is no text of an expression has no place
                for place in cause.getQueryContext():
                    return ValueFault(condition, str(place.fragment()), int(place.startIndex()))
            return ValueFault(condition)
    return None


def _list_causes(error: BaseException) -> Iterator[Any]:
    """Yield what Java has raised, the causes last; where there is nothing of Java's, the error itself."""
    raised = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if raised is None:
        yield error
        return
    for _ in range(_MOST_CAUSES):
        if raised is None:
            return
        yield raised
        with suppress(Exception):  # nothing may hide the first error
            raised = raised.getCause()
            continue
        return


def _ask(cause: Any, method: str) -> str:
    """Return what an exception says; empty where it has no such word. Java objects take every name for a method."""
    try:
        return str(getattr(cause, method)() or "")
    except Exception:  # noqa: BLE001 - nothing may hide the first error
        return ""
