"""What a run does when a table cannot be read: plan again, ask for a full refresh, for a repair, or for patience.

Files that are gone, files that are damaged and a storage that does not answer are three things: only after the last one
does it help to run again, and only for an older version may a full refresh help after the first two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base import hints
from enrich.base.errors import Conflict, EnrichError, HistoryError, RefreshNeeded, RunFailed, SourceMoved
from enrich.base.failures import find_lack, is_damaged, is_gone
from enrich.progress.task import REPAIR
from enrich.steps.work import Work
from enrich.storage import tables

GONE, DAMAGED = "files of it are gone", "files of it are damaged"


@contextmanager
def explain_losses(work: Work) -> Iterator[None]:
    """Find out, when files of a version are gone or damaged, whether a fresh plan would read other ones.

    Raises:
        Conflict: The pinned version of a source, the target or the quarantine was vacuumed, and later ones have come.
        HistoryError: The pinned version was chosen with ``--until``, or files are damaged.
        RunFailed: A source's latest version, the target or the quarantine has lost files.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if is_gone(error) or is_damaged(error):
            check_ends(work, work.task.window)
            _check_results(work)
        raise


def check_ends(work: Work, aliases: Iterable[str]) -> None:
    """Read sources at the ends of their windows, which is done only after something went wrong.

    Raises:
        EnrichError: As ``explain_losses``, for the first that cannot be read.
    """
    for alias in aliases:
        try:
            _read_whole(work.snapshot(alias))
        except (PySparkException, Py4JJavaError) as error:
            raise find_lack(error) or _describe_lost_end(work, alias, error) from error


def _tell_loss(error: Exception) -> str | None:
    """Return what is wrong with a table that cannot be read; None where the storage does not answer."""
    return GONE if is_gone(error) else DAMAGED if is_damaged(error) else None


def _describe_silence(what: str, error: Exception) -> RunFailed:
    return RunFailed(f"{what} cannot be read ({type(error).__name__})", hint="check the storage, and run again")


def find_loss(work: Work, alias: str, version: int) -> str | None:
    """Return what is lost of a version of a source, which is asked only after something went wrong; None for nothing.

    Raises:
        EnvironmentFault: Something else is lacking.
        RunFailed: The storage does not answer.
    """
    try:
        _read_whole(work.snapshot(alias, version))
    except (PySparkException, Py4JJavaError) as error:
        if found := _tell_loss(error):
            return found
        raise find_lack(error) or _describe_silence(f"source {alias!r} at version {version}", error) from error
    return None


def _describe_lost_end(work: Work, alias: str, error: Exception) -> EnrichError:
    task, end = work.task, work.task.window[alias].to
    loss, name = _tell_loss(error), work.task.job.job
    if loss is None:
        return _describe_silence(f"source {alias!r} at version {end}", error)
    said = f"source {alias!r} cannot be read at version {end}: {loss}"
    if task.mode == REPAIR:
        hint = f"run `{hints.refresh(name)}`"
        instead = f"run `{hints.run(name)}`, which goes on to the latest version, and verify then"
        return RefreshNeeded(f"{said}, and the target was computed from it", hint=hint, instead=instead)
    if alias in task.until:
        return HistoryError(f"{said}, and --until ends there", hint="name a later version")
    if tables.read_state(task.tables[alias].uri).version > end:
        return SourceMoved(f"{said}, and later versions have come", hint="run again")
    kind = HistoryError if loss == DAMAGED else RunFailed
    return kind(said, hint=f"restore the source, and run `{hints.run(name)}` again")


def _check_results(work: Work) -> None:
    """Read the target and its quarantine. A full refresh would not help here: it compares with the same tables.

    Raises:
        EnrichError: One of them cannot be read.
    """
    target, beside = work.task.target.table, work.task.target.quarantine
    for what, table in (("target", target), ("quarantine", beside.table if beside else None)):
        if table is None:
            continue
        try:
            _read_whole(tables.read_snapshot(work.session, table.uri, table.version, list(table.columns)))
        except (PySparkException, Py4JJavaError) as error:
            raise find_lack(error) or _describe_lost_result(work.task.job.job, what, table, error) from error


def _describe_lost_result(job: str, what: str, table: tables.TableState, error: Exception) -> EnrichError:
    loss = _tell_loss(error)
    if loss is None:
        return _describe_silence(f"the {what} of {job!r} at version {table.version}", error)
    said = f"the {what} of {job!r} cannot be read at version {table.version}: {loss}"
    if tables.read_state(table.uri).version > table.version:  # by OPTIMIZE and VACUUM, for instance
        return Conflict(f"{said}, and later versions have come", hint="run again")
    hint = f"restore them from a backup, or drop the {what}; then run again, and the run computes it anew"
    return HistoryError(said, hint=hint) if loss == DAMAGED else RunFailed(said, hint=hint)


def _read_whole(rows: DataFrame) -> None:
    """Read all values; a sink that takes nothing would do, but that is refused for tables with deletion vectors."""
    rows.agg(F.max(F.length(F.to_json(F.struct("*"))))).collect()
