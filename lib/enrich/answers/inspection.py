"""Look without touching: ``enrich status`` and ``enrich validate``, from files and logs, without a JVM."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from enrich.base import hints
from enrich.base.errors import ConfigError, EnrichError, Fault, Locked
from enrich.base.failures import describe_error
from enrich.base.names import CatalogName, find_quarantine
from enrich.base.schemas import name_of
from enrich.base.spec import DataType
from enrich.base.suites import Suite
from enrich.delta import tables
from enrich.delta.runs import RunsTable
from enrich.operations.workplace import Workplace, check_free, check_sources
from enrich.progress.continuity import SourceLag, find_way_on, measure_lag
from enrich.progress.cursor import TargetState
from enrich.progress.decision import decide_plan
from enrich.progress.target import read_quarantine_state, read_target
from enrich.project.compile import check_file, compile_job
from enrich.project.models import Job
from enrich.project.project import Project, sort_jobs
from enrich.project.statictypes import check_types
from enrich.project.suitefiles import check_columns, list_leaves


@dataclass(frozen=True)
class JobStatus:
    """One job's target now.

    Attributes:
        target_version: None before the first run.
        sources: The lag behind each source.
        last_status: The last run's status; None when none is recorded.
        last_run: When it ended.
        note: What has to be seen to before the next run, in one line; None when nothing has.
        state: What the whole target holds, as its commit records it; None when no commit does.
        refused: Why the next run would be refused, as far as files and logs tell; None when they tell nothing.
    """

    job: str
    target: str
    target_version: int | None
    sources: tuple[SourceLag, ...]
    last_status: str | None = None
    last_run: datetime | None = None
    note: str | None = None
    state: dict[str, Any] | None = None
    refused: str | None = None


def read_status(project: Project) -> list[JobStatus]:
    """Return the state of every job's target, in the order in which the jobs run."""
    workplace = Workplace(project, list(project.jobs), run_id="")
    last = workplace.runs.read_latest()
    return [_read_job_status(workplace, project.jobs[name], last) for name in sort_jobs(project.jobs, project)]


def _read_job_status(workplace: Workplace, job: Job, last: dict[str, dict[str, Any]]) -> JobStatus:
    project = workplace.project
    place = project.location(job.target.table)
    row = last.get(str(place))
    target, note, refused = TargetState(None, None, 0), None, None
    if isinstance(place, CatalogName):
        note = "a catalog table: its log can only be read with Spark"
    else:
        try:
            if tables.exists(place):
                target = read_target(place, job.job, workplace.runs, place)
        except Exception as error:  # noqa: BLE001 - whatever storage raises: the other jobs are told all the same
            refused = _fold(describe_error(error, job.job))
    lags = tuple(
        measure_lag(alias, source.table, project.location(source.table), target.marks.get(alias))
        for alias, source in job.sources.items()
    )
    refused = refused or _find_refusal(workplace, job, target)
    note = note or _find_warning(job, target, lags, refused)
    state = None if target.cursor is None else target.cursor.state
    return JobStatus(
        job.job,
        str(place),
        target.table.version if target.table else None,
        lags,
        row["status"] if row else None,
        row["at"] if row else None,
        note,
        None if state is None else state.to_dict(),
        refused,
    )


def _find_refusal(workplace: Workplace, job: Job, target: TargetState) -> str | None:
    """Return why the next run of a job would be refused, in one line; None where files and logs show nothing.

    Sources that other jobs of the run make may not exist yet, and it gives them what they lack. A first run has nothing
    to go on from. What others did to the target is told by its own words.
    """
    project = workplace.project
    sources = [project.location(source.table) for source in job.sources.values()]
    if target.others or any(isinstance(place, CatalogName) for place in (*sources, project.location(job.target.table))):
        return None
    theirs: list[Any] = []
    try:
        made = {project.location(each.target.table) for each in project.jobs.values()}
        theirs = [place for place in sources if place in made]
        if not all(tables.exists(str(place)) for place in theirs):
            return None
        plan = workplace.open_job(job)
        if plan.target.table is not None:
            decide_plan(plan)
    except Exception as error:  # noqa: BLE001 - whatever a run would end with is what is asked for
        known = workplace.describe(job, error)
        # A run at this moment is nothing to see to; nor is what the job that writes a source may mend before.
        passes = isinstance(known, Locked) or (isinstance(known, ConfigError) and theirs)
        return None if passes else _fold(known)
    return None


def _fold(error: EnrichError) -> str:
    """Return an error in one line."""
    return "; ".join(str(error).splitlines())


def _find_warning(job: Job, target: TargetState, lags: tuple[SourceLag, ...], refused: str | None) -> str | None:
    """Return what an operator has to see to, in one line; None for nothing."""
    name = job.job
    found = [] if refused is None else [refused]
    if target.others:
        versions = ", ".join(str(version) for version in sorted(target.others)[:5])
        found.append(f"changed by another writer (version {versions}): run `{hints.repair(name)}`")
    for lag in lags:
        ranges = ", ".join(f"{start + 1} to {end}" for start, end in lag.gaps)
        if ranges:
            found.append(f"versions {ranges} of {lag.alias} were left out: run `{hints.repair(name)}`")
        if refused is None and lag.days_left == 0:
            found.append(
                f"changes of {lag.alias} that are waiting may be gone already: run `{hints.run(name)}`; if it is"
                f" refused, run `{hints.run(name, find_way_on(job))}`"
            )
        elif refused is None and lag.days_left is not None and lag.days_left < 1:
            found.append(f"source {lag.alias} forgets changes that are waiting within a day: run `{hints.run(name)}`")
    return "; ".join(found) or None


def validate(project: Project, *, offline: bool = False) -> list[Fault]:
    """Hold every job against the logs of its tables and every suite against its job.

    A source that another job writes may not exist yet; it is then taken on trust.

    Args:
        project: The project.
        offline: Open no table: look at the files alone.
    """
    faults: list[Fault] = []
    written = {project.location(job.target.table) for job in project.jobs.values()}
    for name in sort_jobs(project.jobs, project):
        job = project.jobs[name]
        found: dict[str, tables.TableState] = {}
        columns: dict[str, dict[str, DataType]] = {}
        for alias, source in job.sources.items():
            place = project.location(source.table)
            if offline or isinstance(place, CatalogName) or (place in written and not tables.exists(place)):
                continue
            try:
                found[alias] = tables.read_state(place)
                columns[alias] = found[alias].columns
            except EnrichError as error:
                faults.append(Fault(f"{error.message}; {error.hint}", job.at("sources", alias)))
        faults += [] if offline else _check_target(project, job)
        outside = {
            alias: state for alias, state in found.items() if project.location(job.sources[alias].table) not in written
        }
        if len(columns) == len(job.sources):
            faults += _check_job(project, job, outside, columns)
        else:
            # Of sources that other jobs write, the columns that the files of these name.
            selected = {project.location(each.target.table): each.select for each in project.jobs.values()}
            places = {alias: project.location(source.table) for alias, source in job.sources.items()}
            known: dict[str, Collection[str]] = {
                alias: names for alias, place in places.items() if (names := selected.get(place)) is not None
            }
            faults += check_file(job, known | columns)
    return list(dict.fromkeys(faults))


def _check_target(project: Project, job: Job) -> list[Fault]:
    """Look for something at the places of target and quarantine that is not this job's."""
    place = project.location(job.target.table)
    if isinstance(place, CatalogName):
        return []
    try:
        if tables.exists(place):
            read_target(place, job.job, RunsTable(project.state), place)
        else:
            check_free(job, place)
        beside = str(find_quarantine(place))
        if read_quarantine_state(beside, job.job) is None:
            check_free(job, beside)
    except EnrichError as error:
        return [Fault(f"{error.message}; {error.hint}", job.at("target"))]
    return []


def _check_job(
    project: Project, job: Job, outside: dict[str, tables.TableState], columns: dict[str, dict[str, DataType]]
) -> list[Fault]:
    """Compile a job; ``outside`` are its sources that no job writes, ``columns`` those of all its sources."""
    faults: list[Fault] = []
    try:
        check_sources(job, outside)
    except ConfigError as error:
        faults += error.faults
    try:
        plan = compile_job(job, columns, check_types)
    except ConfigError as error:
        return faults + list(error.faults)
    suite = project.suite(job)
    if suite is None:
        return faults
    missing = check_columns(suite, plan.spec.columns)
    return faults + missing + ([] if missing else _check_conditions(suite, plan.kinds))


def _check_conditions(suite: Suite, kinds: Mapping[str, DataType]) -> list[Fault]:
    """Return what Spark would refuse in the row conditions of kind ``spark``, as far as types tell without it."""
    faults = []
    for rule in suite.rules:
        for leaf in list_leaves(rule.row_condition):
            if leaf["type"] != "pass_through":
                continue
            place = rule.places.get("row_condition", rule.where)
            try:
                kind = check_types(kinds, leaf["pass_through_filter"])
            except ConfigError as error:
                faults.append(Fault(f"{rule.type}: row_condition: {error}", place))
                continue
            if kind not in (None, "boolean"):
                faults.append(Fault(f"{rule.type}: row_condition is {name_of(kind)}; it must be a condition", place))
    return faults
