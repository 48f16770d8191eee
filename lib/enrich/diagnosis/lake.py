"""The tables of a deployment: change feeds, how long their past stays, what their logs show, in what shape they are.

Read from logs and from the runs table, without a JVM. Tables of a catalog are known to Spark alone and are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

from enrich.base import hints
from enrich.base.console import format_count
from enrich.base.errors import EnrichError
from enrich.base.failures import describe_error
from enrich.base.names import CatalogName, find_quarantine, identify
from enrich.base.result import SKIPPED
from enrich.config.models import Job
from enrich.config.project import Project
from enrich.diagnosis.checkup import ADVICE, FAULT, UNKNOWN, Diagnosis, describe_fault, settle
from enrich.operations.inspection import JobStatus, read_status
from enrich.operations.workplace import Options, Workplace
from enrich.progress.continuity import find_way_on
from enrich.storage import extents, tables
from enrich.storage.runs import RunsTable
from enrich.storage.tables import TableState

_DAY = 86_400
_HISTORY, _FIRST = 5, 2
_RUNS = 200
_VECTORS = "delta.enableDeletionVectors"

_SLACK = 2
"""How many times the longest pause between two runs the past of a source must stay: one run may fail."""


def check_tables(project: Project) -> Iterator[Diagnosis]:
    """Check the sources, targets and quarantines of all jobs."""
    written = {identify(project.location(job.target.table)) for job in project.jobs.values()}
    try:
        statuses = {status.job: status for status in read_status(project)}
        pauses = _measure_pauses(project)
    except Exception as error:  # noqa: BLE001 - what storage raises is what a checkup is asked for
        yield describe_fault("tables", project.state, describe_error(error, "the deployment"))
        return
    for name, job in project.jobs.items():
        pause = pauses.get(str(project.location(job.target.table)))
        try:
            yield from list(_check_job(project, job, statuses[name], pause, written))
        except Exception as error:  # noqa: BLE001 - as above; the other jobs are checked all the same
            yield describe_fault("tables", name, describe_error(error, name))


def _check_job(
    project: Project, job: Job, status: JobStatus, pause: float | None, written: set[str]
) -> Iterator[Diagnosis]:
    name = job.job
    yield from settle("change_feed", name, _check_feeds(project, job, written), "all sources have their change feed")
    found = _check_retention(project, job, status, pause)
    yield from settle(
        "retention", name, found, "the sources keep their past for at least twice the job's longest pause"
    )
    if isinstance(project.location(job.target.table), CatalogName):
        message = "a catalog table: its log can only be read with Spark"
        yield Diagnosis("target", UNKNOWN, name, message)
        return
    yield from settle(
        "statistics",
        name,
        _check_statistics(project, job),
        "no log shows e-mail addresses, nor values of columns that are no keys",
    )
    found = _check_shape(project, job, status)
    yield from settle("shape", name, found, "few small files, and few rows that deletion vectors mark as gone")


def _read_source(project: Project, reference: str) -> TableState | None:
    """Return a source's state; None for a catalog table.

    Raises:
        EnrichError: It cannot be read.
    """
    place = project.location(reference)
    return None if isinstance(place, CatalogName) else tables.read_state(place)


def _check_feeds(project: Project, job: Job, written: set[str]) -> Iterator[Diagnosis]:
    """Check that each source has a change feed; runs switch on that of a target that is read."""
    for alias, source in job.sources.items():
        if identify(project.location(source.table)) in written:
            continue
        try:
            table = _read_source(project, source.table)
        except EnrichError as error:
            yield describe_fault("change_feed", source.table, error)
            continue
        if table is None:
            yield Diagnosis("change_feed", UNKNOWN, source.table, "a catalog table: only Spark can read its log")
        elif not table.has_change_feed:
            message = f"source {alias!r} of {job.job!r} has no change feed"
            repair = tables.suggest_properties(table.uri, {tables.CHANGE_FEED: "true"})
            yield Diagnosis("change_feed", FAULT, source.table, message, repair, 2)


def _measure_pauses(project: Project) -> dict[str, float]:
    """Return target -> the longest pause in seconds between two runs, neither failed nor skipped, or since the last."""
    times: dict[str, list[datetime]] = {}
    for row in RunsTable(project.state).read_recent(_RUNS):
        if not row["exit_code"] and row["status"] != SKIPPED:
            times.setdefault(row["target"], []).append(row["at"])
    now = datetime.now(UTC)
    found = {}
    for target, at in times.items():
        ends = [*sorted(at), now]
        found[target] = max((later - earlier).total_seconds() for earlier, later in pairwise(ends))
    return found


def _check_retention(project: Project, job: Job, status: JobStatus, pause: float | None) -> Iterator[Diagnosis]:
    """Check that no source forgets changes before the job has taken them."""
    for lag in status.sources:
        if lag.days_left == 0:
            message = f"changes that {job.job!r} has not taken yet may be gone already"
            repair = f"{hints.run(job.job)}; if it is refused, {hints.run(job.job, find_way_on(job))}"
            yield Diagnosis("retention", FAULT, lag.table, message, repair, _HISTORY)
    for source in job.sources.values():
        try:
            table = _read_source(project, source.table)
        except EnrichError:  # told with its change feed, or it is yet to be written
            continue
        if table is None:
            continue
        kept = tables.compute_retention(table.properties)
        if kept is None:
            message = f"{tables.KEEPS_FILES} or {tables.KEEPS_LOG} cannot be understood"
            yield Diagnosis("retention", ADVICE, source.table, message, _extend(table.uri, 7))
        elif pause is not None and kept < _SLACK * pause:
            message = (
                f"{job.job!r} has paused for {_format_time(pause)}, and the table keeps its past for"
                f" {_format_time(kept)}: one run that fails may lose changes"
            )
            repair = _extend(table.uri, max(7, math.ceil((_SLACK + 1) * pause / _DAY)))
            yield Diagnosis("retention", ADVICE, source.table, message, repair)


def _check_statistics(project: Project, job: Job) -> Iterator[Diagnosis]:
    """Check which values the logs of target and quarantine show: Delta keeps the smallest and greatest of each file."""
    target = str(project.location(job.target.table))
    try:
        spec = Workplace(project, [job.job], Options(), "").open_job(job).spec
        known = {*spec.identity, *spec.right_identity, *job.target.cluster_by}
    except EnrichError:  # told elsewhere: what the job's keys are cannot be said
        return
    for place in (target, str(find_quarantine(target))):
        if not tables.exists(place):
            continue
        measured = extents.find_measured_columns(place)
        others = [name for name in measured if name not in known]
        private = [name for name, is_private in measured.items() if is_private and name in known]
        if others:
            message = (
                f"its log shows values of {', '.join(others)}, and no run needs them; those that are there stay until"
                " their files are written anew"
            )
            yield Diagnosis("statistics", ADVICE, place, message, _limit_statistics(place, sorted(known & {*measured})))
        if private:
            message = (
                f"its log shows e-mail addresses: the smallest and greatest {', '.join(private)} of each file. Protect"
                " the log like the rows, or leave these values out of the log: runs then read more, and the values that"
                " are there stay until their files are written anew"
            )
            left = [name for name in measured if name in known and name not in private]
            yield Diagnosis("statistics", ADVICE, place, message, _limit_statistics(place, left))


def _check_shape(project: Project, job: Job, status: JobStatus) -> Iterator[Diagnosis]:
    """Check the files of the target."""
    place = str(project.location(job.target.table))
    if status.target_version is None:
        return
    measured, table = extents.measure_shape(place), tables.read_state(place)
    if measured.whole.bytes > extents.SMALL_TABLE and table.properties.get(_VECTORS, "false").lower() != "true":
        message = "deletion vectors are off: a run writes every file anew in which a row changes"
        yield Diagnosis("shape", ADVICE, place, message, tables.suggest_properties(place, {_VECTORS: "true"}))
    rows = status.state["rows"] if status.state is not None else None
    if why := extents.find_need(measured, rows, project.settings.optimize):
        yield Diagnosis("shape", ADVICE, place, why, hints.maintain(job.job))


def _extend(uri: str, days: int) -> str:
    """Return the statement that keeps a table's past for so many days; the log keeps thirty by itself."""
    return tables.suggest_properties(
        uri, {tables.KEEPS_FILES: f"interval {days} days", tables.KEEPS_LOG: f"interval {max(30, days)} days"}
    )


def _limit_statistics(uri: str, columns: list[str]) -> str:
    """Return what lets a table's log show values of these columns alone."""
    limit = tables.suggest_properties(uri, extents.list_statistics(columns))
    unset = f"ALTER TABLE delta.`{uri}` UNSET TBLPROPERTIES IF EXISTS ('{extents.MEASURED}')"
    return limit if columns else f"{limit}; {unset}"  # in this order: there is always a limit


def _format_time(seconds: float) -> str:
    if seconds < _FIRST * 3600:
        return format_count(math.ceil(seconds / 60), "minute")
    if seconds < _FIRST * _DAY:
        return format_count(math.ceil(seconds / 3600), "hour")
    return format_count(math.ceil(seconds / _DAY), "day")
