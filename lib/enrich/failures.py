"""What Spark, Delta and storage raise -> the few errors of enrich, without their texts: those quote the data."""

from __future__ import annotations

from enrich.errors import EnrichError, HistoryError, Locked, RunFailed

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
_CONFLICTS = ("Concurrent", "ProtocolChanged", "MetadataChanged")


def named(error: Exception, job: str) -> EnrichError:
    """Turn what a job raised into one line without values: Spark's own texts quote the data."""
    if isinstance(error, EnrichError):
        return error
    text = type(error).__name__
    condition = getattr(error, "getCondition", None)
    if callable(condition):
        text = f"{text} {condition() or ''}".strip()
    java = str(getattr(error, "java_exception", "") or "").split(":", 1)[0]
    text = f"{text} {java.rsplit('.', 1)[-1]}".strip()
    if gone := next((word for word in _GONE if word in str(error)), None):
        return HistoryError(
            f"job {job!r}: files or commits of a version that it needs are gone ({gone})",
            hint=f"run `enrich run {job} --full-refresh`",
        )
    if any(word in text or word in str(error)[:400] for word in _CONFLICTS):
        return Locked(f"another writer changed the target of {job!r} meanwhile", hint="run again")
    return RunFailed(f"job {job!r} failed: {text}", hint="run again; `enrich validate` checks files and tables")
