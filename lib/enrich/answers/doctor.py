"""Find what may keep the jobs of a deployment from running, or make them dear, and what repairs it: ``enrich doctor``.

Reads files, logs and the runs table. No JVM starts and nothing is written. Tables of a catalog are known to Spark alone
and are left out.
"""

from __future__ import annotations

import math
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import Any

from enrich.answers.inspection import JobStatus, read_status
from enrich.base import hints
from enrich.base.errors import ConfigError, EnrichError, EnvironmentFault, HistoryError, find_gravest, format_bytes
from enrich.base.failures import EXPECTATIONS, SPARK, describe_error, install, require_extra
from enrich.base.names import CatalogName, find_quarantine, identify
from enrich.base.result import SKIPPED, name_deployment
from enrich.base.spec import quote
from enrich.delta import extents, tables
from enrich.delta.runs import RunsTable
from enrich.delta.stores import find_local_path
from enrich.operations.workplace import Workplace
from enrich.progress.continuity import find_way_on
from enrich.project.models import Job
from enrich.project.project import Project
from enrich.spark.jars import find_delta_jars, list_lacking_names, require_java

OK, ADVICE, FAULT, UNKNOWN = "ok", "advice", "fault", "unknown"


@dataclass(frozen=True)
class Diagnosis:
    """What one check found."""

    check: str
    # ``ok``; ``advice`` where something costs or shows more than need be; ``fault`` where runs will fail or lose
    # something; ``unknown`` where the check is not possible without Spark.
    level: str
    about: str  # the program, directory or table
    message: str
    repair: str | None = None  # the statement or command that repairs it; None where there is nothing to repair
    exit_code: int = 0  # what a run would end with; 0 unless it is a fault


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
        checks = [dict(vars(each)) for each in self.found]
        return {**name_deployment(self.deployment), "exit_code": self.exit_code, "checks": checks}


def describe_fault(check: str, about: str, error: EnrichError) -> Diagnosis:
    """Return an error that a run would end with as what a check found."""
    return Diagnosis(check, FAULT, about, error.message, error.hint, error.exit_code)


def ask(check: str, about: str, need: Callable[[], object], well: str) -> Diagnosis:
    """Return what is missing, as ``need`` raises it, or that all is well with what it returns."""
    try:
        return Diagnosis(check, OK, str(need() or about), well)
    except EnvironmentFault as error:
        return describe_fault(check, about, error)


# --- The machine: Java, jars, packages, directories ------------------------------------------------------------------


_LEAST_FREE = 2**30


def diagnose(project: Project) -> Checkup:
    """Look for what may keep the jobs of a deployment from running, and say what repairs it; starts no JVM."""
    return Checkup(project.deployment, (*check_machine(project), *check_tables(project)))


def check_machine(project: Project) -> Iterator[Diagnosis]:
    """Check what does not depend on the tables' contents."""
    try:
        yield Diagnosis("spark", OK, "pyspark", f"pyspark {version('pyspark')}, delta-spark {version('delta-spark')}")
    except PackageNotFoundError as error:
        message = f"{error.name} is not installed: commands that read rows do not work on this machine"
        yield Diagnosis("spark", FAULT, "pyspark", message, f"run `{install(SPARK)}`", EnvironmentFault.exit_code)
    else:
        yield ask("java", "java", require_java, "a version that Spark runs on")
        try:
            if jars := find_delta_jars(project.settings.spark.jars, fetch=False):
                lacking = list_lacking_names(jars)
                message = f"they lack {', '.join(lacking)}: rows are written by MERGE, which reads more of a target"
                told = (ADVICE, message) if lacking else (OK, f"{len(jars)} jars")
                yield Diagnosis("jars", told[0], str(jars[0].parent), told[1])
            else:
                message = "they are not in the cache, or damaged; the first run fetches them from Maven"
                yield Diagnosis("jars", ADVICE, "Delta jars", message, "python -m enrich.spark")
        except EnvironmentFault as error:
            yield describe_fault("jars", "Delta jars", error)
    if project.suites:
        yield ask("suites", "great_expectations", partial(require_extra, EXPECTATIONS), "what suites need is there")
    lake = None if project.lake is None else find_local_path(project.lake)
    places = (("state", find_local_path(project.state)), ("lake", lake))
    for name, local in ((name, local) for name, local in places if local is not None):
        nearest = next((each for each in (local, *local.parents) if os.access(each, os.F_OK)), local)
        if not nearest.is_dir():
            message, repair = f"{nearest} is not a directory", "move it away, or name another directory"
            yield Diagnosis("directories", FAULT, str(local), message, repair, EnvironmentFault.exit_code)
        elif not os.access(nearest, os.R_OK | os.W_OK | os.X_OK):
            message, repair = f"this user cannot write to {nearest}", f"give {nearest} to the user that runs enrich"
            if nearest.stat().st_uid == os.getuid():
                repair = f"chmod -R u+rwX {shlex.quote(str(nearest))}"
            yield Diagnosis("directories", FAULT, str(local), message, repair, EnvironmentFault.exit_code)
        elif (free := shutil.disk_usage(nearest).free) < _LEAST_FREE:
            repair = f"make room: `{hints.maintain()}` removes old files"
            yield Diagnosis("directories", ADVICE, str(local), f"{format_bytes(free)} are free there", repair)
        else:
            yield Diagnosis("directories", OK, str(local), f"{name}: can be written, and has room")


# --- The tables: change feeds, how long their past stays, what their logs show ---------------------------------------


_DAY = 86_400
_RUNS = 200
_SLACK = 2  # how many times the longest pause between two runs the past of a source must stay: one run may fail


def check_tables(project: Project) -> Iterator[Diagnosis]:
    """Check the sources, targets and quarantines of all jobs."""
    written = {identify(project.location(job.target.table)) for job in project.jobs.values()}
    try:
        statuses = {status.job: status for status in read_status(project)}
        times: dict[tuple[str, str], list[datetime]] = {}  # job, target -> runs that neither failed nor were skipped
        for row in RunsTable(project.state).read_recent(_RUNS):
            if not row["exit_code"] and row["status"] != SKIPPED:
                times.setdefault((row["job"], row["target"]), []).append(row["at"])
        now = datetime.now(UTC)
        pauses = {  # the longest between two of them, or since the last
            place: max((later - earlier).total_seconds() for earlier, later in pairwise([*sorted(at), now]))
            for place, at in times.items()
        }
    except Exception as error:  # noqa: BLE001 - what storage raises is what a checkup is asked for
        yield describe_fault("tables", project.state, describe_error(error, "the deployment"))
        return
    for name, job in project.jobs.items():
        pause = pauses.get((name, str(project.location(job.target.table))))
        try:
            yield from _check_job(project, job, statuses[name], pause, written)
        except Exception as error:  # noqa: BLE001 - as above; the other jobs are checked all the same
            yield describe_fault("tables", name, describe_error(error, name))


def _check_job(
    project: Project, job: Job, status: JobStatus, pause: float | None, written: set[str]
) -> Iterator[Diagnosis]:
    found = [each for alias in job.sources for each in _check_source(project, job, alias, pause, written)]
    for lag in status.sources:
        if lag.days_left == 0:
            message = f"changes that {job.job!r} has not taken yet may be gone already"
            repair = f"{hints.run(job.job)}; if it is refused, {hints.run(job.job, find_way_on(job))}"
            found.append(Diagnosis("retention", FAULT, lag.table, message, repair, HistoryError.exit_code))
    yield from (each for each in found if each.check == "clustering")
    well = {
        "change_feed": "all sources have their change feed",
        "retention": "the sources keep their past for at least twice the job's longest pause",
    }
    for check, told in well.items():
        yield from [each for each in found if each.check == check] or [Diagnosis(check, OK, job.job, told)]
    place = project.location(job.target.table)
    if isinstance(place, CatalogName):
        yield Diagnosis("target", UNKNOWN, job.job, "a catalog table: its log can only be read with Spark")
        return
    # Delta's log has the smallest and greatest value of each file.
    target, others, workplace = str(place), list[Diagnosis](), Workplace(project, [job.job], run_id="")
    try:
        spec = workplace.open_job(job).spec
    except EnrichError:  # what the job's keys are cannot be said
        workplace.target(job)  # whoever calls this tells what is wrong with it; the sources are told above
        return
    known = {*spec.identity, *spec.right_identity, *job.target.cluster_by}
    for uri in (target, str(find_quarantine(target))):
        measured: list[str] = []  # top-level columns of which its log has the smallest and greatest values
        if tables.exists(uri):
            files = tables.open_log(uri).get_add_actions(flatten=True)
            filled = (name for name in files.schema.names if files.column(name).null_count < files.num_rows)
            sides = [name.partition(".") for name in filled]
            measured = [column for side, _, column in sides if side in ("min", "max")]
        if surplus := [name for name in dict.fromkeys(measured) if name not in known]:
            message = (
                f"its log shows values of {', '.join(surplus)}, and no run needs them; those that are there stay until"
                " their files are written anew"
            )
            keys = sorted(known & {*measured}) or sorted(known)
            repair = tables.suggest_properties(uri, extents.list_statistics(keys))
            others.append(Diagnosis("statistics", ADVICE, uri, message, repair))
    yield from others or [Diagnosis("statistics", OK, job.job, "no log shows values of columns that are no keys")]


def _check_source(
    project: Project, job: Job, alias: str, pause: float | None, written: set[str]
) -> Iterator[Diagnosis]:
    """Check that a source has a change feed, and keeps its past; runs switch on the feed of a target that is read."""
    name = job.sources[alias].table
    place = project.location(name)
    is_written = identify(place) in written
    if isinstance(place, CatalogName):
        yield Diagnosis("change_feed", UNKNOWN, name, "a catalog table: only Spark can read its log")
        return
    try:
        table = tables.read_state(place)
    except EnrichError as error:
        if not is_written:
            yield describe_fault("change_feed", name, error)
        return
    if not table.has_change_feed and not is_written:
        message = f"source {alias!r} of {job.job!r} has no change feed"
        repair = tables.suggest_properties(table.uri, {tables.CHANGE_FEED: "true"})
        yield Diagnosis("change_feed", FAULT, name, message, repair, ConfigError.exit_code)
    is_log = job.sources[alias].latest is not None and not table.partitions
    if is_log and "clustering" not in (tables.open_log(table.uri).protocol().writer_features or ()):
        keys = ", ".join(map(quote, job.sources[alias].key[:4]))
        message = f"a log that is not clustered by its key: for the last events of few keys {job.job!r} reads all of it"
        repair = f"ALTER TABLE delta.`{table.uri.rstrip('/')}` CLUSTER BY ({keys}), then OPTIMIZE"
        yield Diagnosis("clustering", ADVICE, name, message, repair)
    kept = tables.compute_retention(table.properties)
    if kept is not None and pause is not None and kept < _SLACK * pause:
        message = (
            f"{job.job!r} has paused for {pause / _DAY:.1f} days, and the table keeps its past for"
            f" {kept / _DAY:.1f} days: one run that fails may lose changes"
        )
        days = max(7, math.ceil((_SLACK + 1) * pause / _DAY))  # the log keeps thirty by itself
        spans = {tables.KEEPS_FILES: f"interval {days} days", tables.KEEPS_LOG: f"interval {max(30, days)} days"}
        yield Diagnosis("retention", ADVICE, name, message, tables.suggest_properties(table.uri, spans))
