"""What Spark, Delta and storage raise -> the few errors of enrich, without their texts: those quote the data."""

from __future__ import annotations

from enrich.errors import Conflict, EnrichError, HistoryError, RunFailed

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
_CONFLICTS = ("Concurrent", "CONCURRENT", "ProtocolChanged", "MetadataChanged", "ALREADY_EXISTS", "SCHEMA_CHANGE")


def is_conflict(error: Exception) -> bool:
    """Tell whether somebody else's commit came in between, so that a fresh plan may succeed."""
    if isinstance(error, EnrichError):
        return isinstance(error, Conflict)
    return any(word in _described(error) or word in str(error)[:400] for word in _CONFLICTS)


def named(error: Exception, job: str) -> EnrichError:
    """Turn what a job raised into one line without values: Spark's own texts quote the data."""
    if isinstance(error, EnrichError):
        return error
    text = _described(error)
    if gone := next((word for word in _GONE if word in str(error)), None):
        return HistoryError(
            f"job {job!r}: files or commits of a version that it needs are gone ({gone})",
            hint=f"run `enrich run {job} --full-refresh`",
        )
    if is_conflict(error):
        return RunFailed(f"other writers kept changing the target of {job!r}", hint="run again when they are done")
    return RunFailed(f"job {job!r} failed: {text}", hint="run again; `enrich validate` checks files and tables")


def _described(error: Exception) -> str:
    """Return an error's class and condition."""
    condition = getattr(error, "getCondition", None)
    java = str(getattr(error, "java_exception", "") or "").split(":", 1)[0]
    parts = (type(error).__name__, condition() if callable(condition) else "", java.rsplit(".", 1)[-1])
    return " ".join(part for part in parts if part)
