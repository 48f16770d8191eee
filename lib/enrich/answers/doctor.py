"""Find what may keep the jobs of a deployment from running, or make them dear, and what repairs it: ``enrich doctor``.

Reads files, logs and the runs table. No JVM starts and nothing is written. Tables of a catalog are known to Spark alone
and are left out.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any

from enrich.answers.inspection import JobStatus, read_status
from enrich.base import hints
from enrich.base.console import clean, format_bytes, format_count, format_table
from enrich.base.errors import EnrichError, EnvironmentFault, find_gravest
from enrich.base.extras import SPARK, install
from enrich.base.failures import describe_error
from enrich.base.names import CatalogName, find_quarantine, identify
from enrich.base.result import SKIPPED, name_deployment
from enrich.delta import extents, tables
from enrich.delta.runs import RunsTable
from enrich.delta.stores import find_local_path
from enrich.delta.tables import TableState
from enrich.operations.workplace import Workplace
from enrich.progress.continuity import find_way_on
from enrich.project.models import Job
from enrich.project.project import Project
from enrich.spark.archive import find_archive
from enrich.spark.fit import MEMORY, choose_memory, find_memory, is_in_one_process
from enrich.spark.jars import find_delta_jars, require_java
from enrich.spark.logstore import CONDITIONAL, SETTINGS, SINGLE_DRIVER, may_lose_commits

OK, ADVICE, FAULT, UNKNOWN = "ok", "advice", "fault", "unknown"


@dataclass(frozen=True)
class Diagnosis:
    """What one check found.

    Attributes:
        check: Which check it was.
        level: ``ok``; ``advice`` where something costs or shows more than need be; ``fault`` where runs will fail or
            lose something; ``unknown`` where the check is not possible without Spark.
        about: The program, directory or table.
        message: What was found.
        repair: The statement or command that repairs it; None where there is nothing to repair.
        exit_code: What a run would end with; 0 unless it is a fault.
    """

    check: str
    level: str
    about: str
    message: str
    repair: str | None = None
    exit_code: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the check's part of the JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class Checkup:
    """What one ``enrich doctor`` found, in the order of the checks."""

    deployment: str
    found: tuple[Diagnosis, ...]

    @property
    def exit_code(self) -> int:
        """The most serious exit code of the faults; advice alone gives 0."""
        return find_gravest([each.exit_code for each in self.found])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich doctor --output json``."""
        checks = [each.to_dict() for each in self.found]
        return {**name_deployment(self.deployment), "exit_code": self.exit_code, "checks": checks}


def describe_fault(check: str, about: str, error: EnrichError) -> Diagnosis:
    """Return an error that a run would end with as what a check found."""
    return Diagnosis(check, FAULT, about, error.message, error.hint, error.exit_code)


def settle(check: str, about: str, found: Iterator[Diagnosis], well: str) -> Iterator[Diagnosis]:
    """Yield what a check found, or, where that is nothing, that all is well."""
    problems = list(found)
    yield from problems or [Diagnosis(check, OK, about, well)]


def format_checkup(found: Checkup) -> str:
    """Return the table of a checkup, a line a check, and below it what repairs what.

    ```
    check      result  about           what was found
    java       ok      /usr/bin/java   a version that Spark runs on
    retention  advice  accounts        ...
    ```
    """
    rows = [(each.check, each.level, clean(each.about), clean(each.message)) for each in found.found]
    lines = [format_table(("check", "result", "about", "what was found"), rows)]
    repairs = dict.fromkeys(each.repair for each in found.found if each.repair is not None)
    if repairs:
        lines += ["", "What repairs it:", *(f"  {clean(repair)}" for repair in repairs)]
    return "\n".join(lines)


# --- The machine: Java, jars, class-data archive, memory, directories, log store -------------------------------------


_ENVIRONMENT = 7
_FILL_CACHE = "python -m enrich.spark"
_LEAST_FREE = 2**30
_SIZE = re.compile(r"(\d+)([kmgt])b?", re.IGNORECASE)
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def check_machine(project: Project) -> Iterator[Diagnosis]:
    """Check what does not depend on the tables' contents."""
    try:
        yield Diagnosis("spark", OK, "pyspark", f"pyspark {version('pyspark')}, delta-spark {version('delta-spark')}")
    except PackageNotFoundError as error:
        message = f"{error.name} is not installed: commands that read rows do not work on this machine"
        yield Diagnosis("spark", FAULT, "pyspark", message, f"run `{install(SPARK)}`", _ENVIRONMENT)
    else:
        try:
            yield Diagnosis("java", OK, str(require_java()), "a version that Spark runs on")
        except EnvironmentFault as error:
            yield describe_fault("java", "java", error)
        yield from _check_jars(project)
    yield from settle("memory", "memory", _check_memory(project), f"{format_bytes(find_memory())} for all processes")
    yield from _check_directories(project)
    well = "of two commits of one version of a target, only one succeeds"
    yield from settle("log_store", "log store", _check_log_store(project), well)


def _check_jars(project: Project) -> Iterator[Diagnosis]:
    try:
        jars = find_delta_jars(project.settings.spark.jars, fetch=False)
    except EnvironmentFault as error:
        yield describe_fault("jars", "Delta jars", error)
        return
    if not jars:
        message = "they are not in the cache, or damaged; the first run fetches them from Maven"
        yield Diagnosis("jars", ADVICE, "Delta jars", message, _FILL_CACHE)
        return
    yield Diagnosis("jars", OK, str(jars[0].parent), f"{len(jars)} jars")
    try:
        archive = find_archive(jars)
    except EnvironmentFault:  # told with Java
        return
    if archive is None:
        message = "there is none for this Java and these jars: short runs cost a quarter more"
        yield Diagnosis("archive", ADVICE, "class-data archive", message, _FILL_CACHE)
    else:
        yield Diagnosis("archive", OK, str(archive), "it fits this Java and these jars")


def _check_memory(project: Project) -> Iterator[Diagnosis]:
    spark = project.settings.spark
    there, asked = find_memory(), spark.conf.get("spark.driver.memory")
    if spark.master is not None and not is_in_one_process(spark.master):
        return
    said = _SIZE.fullmatch(asked.strip()) if asked is not None else None
    if said is not None and int(said[1]) * _UNITS[said[2].lower()] > there:
        message = f"spark.driver.memory is {asked}, and there are {format_bytes(there)}: the process would be killed"
        repair = f"in conf/{project.deployment}.yml: spark: {{conf: {{spark.driver.memory: {choose_memory()}}}}}"
        yield Diagnosis("memory", FAULT, "memory", message, repair, _ENVIRONMENT)
    elif asked is None and there < 2 * MEMORY[0]:
        message = f"there are {format_bytes(there)}, of which Spark takes {choose_memory()}: large runs may be killed"
        yield Diagnosis("memory", ADVICE, "memory", message, "give the machine or the container 4 GB")


def _check_directories(project: Project) -> Iterator[Diagnosis]:
    """Check that lake, state, targets and quarantines can be written, and that there is room."""
    places = {"state": project.state}
    if project.lake is not None:
        places["lake"] = project.lake
    for job in project.jobs.values():
        target = project.location(job.target.table)
        places |= {f"target of {job.job}": str(target), f"quarantine of {job.job}": str(find_quarantine(target))}
    for name, place in places.items():
        local = find_local_path(place) if place.startswith(("/", "file:")) else None
        if local is None:
            continue
        if name in ("state", "lake"):
            yield from settle("directories", place, _check_directory(local), f"{name}: can be written, and has room")
        elif _is_there(local):
            yield from _check_directory(local)
    for job in project.jobs.values():
        for source in job.sources.values():
            local = find_local_path(str(project.location(source.table)))
            if local is not None and _is_there(local) and not os.access(local / "_delta_log", os.R_OK | os.X_OK):
                repair = f"chmod -R u+rX {shlex.quote(str(local))}"
                yield Diagnosis("directories", FAULT, str(local), "cannot be read", repair, _ENVIRONMENT)


def _is_there(path: Path) -> bool:
    """Return whether there is something at a path; where that must not be seen, the directory above is what is told."""
    try:
        return path.exists()
    except OSError:
        return False


def _check_directory(path: Path) -> Iterator[Diagnosis]:
    nearest = path
    while not _is_there(nearest) and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        message, repair = f"{nearest} is not a directory", "move it away, or name another directory"
        yield Diagnosis("directories", FAULT, str(path), message, repair, _ENVIRONMENT)
    elif not os.access(nearest, os.R_OK | os.W_OK | os.X_OK):
        message, repair = f"this user cannot write to {nearest}", f"chmod -R u+rwX {shlex.quote(str(nearest))}"
        yield Diagnosis("directories", FAULT, str(path), message, repair, _ENVIRONMENT)
    elif (free := shutil.disk_usage(nearest).free) < _LEAST_FREE:
        message = f"{format_bytes(free)} are free there"
        yield Diagnosis("directories", ADVICE, str(path), message, f"make room: `{hints.maintain()}` removes old files")


def _check_log_store(project: Project) -> Iterator[Diagnosis]:
    """Check that two drivers that write to one bucket cannot overwrite each other's commits."""
    written = {job.job: str(project.location(job.target.table)) for job in project.jobs.values()}
    inside = sorted(name for name, place in written.items() if may_lose_commits(place, project.settings.spark.conf.get))
    if not inside:
        return
    message = (
        f"the targets of {', '.join(inside)} are in S3, and Delta's own log store ({SINGLE_DRIVER}) lets two drivers"
        " overwrite each other's commits"
    )
    repair = f"in conf/{project.deployment}.yml: spark: {{conf: {{{SETTINGS[0]}: {CONDITIONAL}}}}}"
    yield Diagnosis("log_store", FAULT, "log store", message, repair, _ENVIRONMENT)


# --- The tables: change feeds, how long their past stays, what their logs show, their shape --------------------------


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
        times: dict[str, list[datetime]] = {}  # target -> runs that neither failed nor were skipped
        for row in RunsTable(project.state).read_recent(_RUNS):
            if not row["exit_code"] and row["status"] != SKIPPED:
                times.setdefault(row["target"], []).append(row["at"])
        now = datetime.now(UTC)
        pauses = {  # the longest between two of them, or since the last
            target: max((later - earlier).total_seconds() for earlier, later in pairwise([*sorted(at), now]))
            for target, at in times.items()
        }
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
    well = "the sources keep their past for at least twice the job's longest pause"
    yield from settle("retention", name, _check_retention(project, job, status, pause), well)
    if isinstance(project.location(job.target.table), CatalogName):
        yield Diagnosis("target", UNKNOWN, name, "a catalog table: its log can only be read with Spark")
        return
    well = "no log shows e-mail addresses, nor values of columns that are no keys"
    yield from settle("statistics", name, _check_statistics(project, job), well)
    well = "few small files"
    yield from settle("shape", name, _check_shape(project, job, status), well)


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
        spec = Workplace(project, [job.job], run_id="").open_job(job).spec
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
    table = tables.read_state(place)
    if (
        extents.measure_table(place).bytes > extents.SMALL_TABLE
        and table.properties.get(_VECTORS, "false").lower() != "true"
    ):
        message = "deletion vectors are off: a run writes every file anew in which a row changes"
        yield Diagnosis("shape", ADVICE, place, message, tables.suggest_properties(place, {_VECTORS: "true"}))
    if why := extents.find_need(place, project.settings.optimize):
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
