"""What a run does when files of a table are gone: plan again, ask for a full refresh, or for the table's repair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from enrich.base import hints
from enrich.base.errors import Conflict, EnrichError, HistoryError, RefreshNeeded, RunFailed, SourceMoved
from enrich.base.failures import find_lack, is_gone
from enrich.progress.task import REPAIR, Task
from enrich.steps.work import Work
from enrich.storage import tables


@contextmanager
def explain_losses(work: Work) -> Iterator[None]:
    """Find out, when files of a version are gone, whether a fresh plan would read other ones.

    Raises:
        Conflict: The pinned version of a source, the target or the quarantine was vacuumed, and later ones have come.
        HistoryError: The pinned version was chosen with ``--until``.
        RunFailed: A source's latest version, the target or the quarantine has lost files.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if is_gone(error):
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
            raise find_lack(error) or _describe_lost_end(work, alias) from error


def can_read(work: Work, alias: str, version: int) -> bool:
    """Tell whether a source can be read at a version, which is asked only after something went wrong."""
    try:
        _read_whole(work.snapshot(alias, version))
    except (PySparkException, Py4JJavaError) as error:
        if lacking := find_lack(error):
            raise lacking from error
        return False
    return True


def _describe_lost_end(work: Work, alias: str) -> EnrichError:
    task, end = work.task, work.task.window[alias].to
    said = f"source {alias!r} cannot be read at version {end}: files of it are gone"
    if task.mode == REPAIR:
        hint = f"run `{hints.refresh(task.job.job)}`"
        instead = f"run `{hints.run(task.job.job)}`, which goes on to the latest version, and verify then"
        return RefreshNeeded(f"{said}, and the target was computed from it", hint=hint, instead=instead)
    if alias in task.until:
        return HistoryError(f"{said}, and --until ends there", hint="name a later version")
    if tables.read_state(task.tables[alias].uri).version > end:
        return SourceMoved(f"{said}, and later versions have come", hint="run again")
    return RunFailed(said, hint="restore the source, and run again")


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
            raise find_lack(error) or _describe_lost_result(work.task.job.job, what, table) from error


def _describe_lost_result(job: str, what: str, table: tables.TableState) -> EnrichError:
    said = f"the {what} of {job!r} cannot be read at version {table.version}: files of it are gone"
    if tables.read_state(table.uri).version > table.version:  # by OPTIMIZE and VACUUM, for instance
        return Conflict(f"{said}, and later versions have come", hint="run again")
    hint = f"restore them from a backup, or drop the {what}; then run again, and the run computes it anew"
    return RunFailed(said, hint=hint)


def _read_whole(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def keeps_layout(task: Task, alias: str, window: tuple[int, int]) -> bool:
    """Return whether the used columns have their values under the same names in the files at both ends of a range.

    Delta refuses a feed across a column that is renamed, or dropped and added again; but where that is the first commit
    of the range, the feed is just empty.
    """
    table, used = task.tables[alias], task.spec.sources[alias].columns
    known = {table.version: table.layout}
    if task.target.cursor is not None:
        mark = task.target.cursor.sources[alias]
        known.setdefault(mark.to, mark.layout)
    ends = []
    for version in window:
        state = None if version in known else tables.state_at(table.uri, version)
        if version not in known and state is None:
            return False
        ends.append(known[version] if state is None else state.layout)
    before, after = ends
    return all(after.get(name) == there for name, there in before.items() if name in used)
