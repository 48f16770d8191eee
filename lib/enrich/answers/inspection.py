"""Look without touching: ``enrich status`` and ``enrich validate``, from files and logs, without a JVM."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from enrich.base import hints
from enrich.base.errors import ConfigError, EnrichError, Fault, HistoryError, Locked
from enrich.base.failures import describe_error
from enrich.base.names import CatalogName
from enrich.base.result import Proof
from enrich.base.rowforms import DUCKDB, SPARK, write_query, write_text
from enrich.base.schemas import name_of
from enrich.base.spec import FAILED_COLUMN, DataType, quote
from enrich.delta import tables
from enrich.operations.loading import choose_jobs
from enrich.operations.workplace import Workplace, check_sources
from enrich.progress.continuity import SourceLag, find_way_on, measure_lag
from enrich.progress.cursor import TargetState, read_record
from enrich.progress.decision import decide_plan
from enrich.progress.target import read_record_at, read_target
from enrich.project.compile import check_file, compile_job
from enrich.project.kinds import JOBS
from enrich.project.models import Job
from enrich.project.project import Project, sort_jobs
from enrich.project.querynames import list_sources
from enrich.project.statictypes import check_types
from enrich.project.suitefiles import check_columns, list_leaves


@dataclass(frozen=True)
class JobStatus:
    """One job's target now."""

    job: str
    target: str
    target_version: int | None  # None before the first run
    sources: tuple[SourceLag, ...]  # the lag behind each source
    last_status: str | None = None  # the last run's status, and when it ended; None when none is recorded
    last_run: datetime | None = None
    note: str | None = None  # what has to be seen to before the next run, in one line; None when nothing has
    # What the whole target holds, as its commit records it; None when no commit does.
    state: dict[str, Any] | None = None
    # Why the next run would be refused, as far as files and logs tell; None when they tell nothing.
    refused: str | None = None
    # The version that ``enrich verify`` last found to be what the sources give, and when; None when it never did.
    proven: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the job's part of the JSON of ``enrich status --output json``."""
        sources = {lag.alias: vars(lag) | {"versions_behind": lag.versions} for lag in self.sources}
        at = self.last_run.isoformat(timespec="seconds") if self.last_run else None
        told = self.proven and self.proven | {"at": self.proven["at"].isoformat(timespec="seconds")}
        return vars(self) | {"sources": sources, "last_run": at, "proven": told}


def read_status(project: Project) -> list[JobStatus]:
    """Return the state of every job's target, in the order in which the jobs run."""
    workplace = Workplace(project, list(project.jobs), run_id="")
    ended, proven, found = workplace.runs.read_latest(), workplace.runs.read_proven(), []
    for job in (project.jobs[name] for name in sort_jobs(project.jobs, project)):
        place = project.location(job.target.table)
        row = ended.get((job.job, str(place)), {})
        target, note, fault = TargetState(None, None, 0), None, None
        if isinstance(place, CatalogName):
            note = "a catalog table: its log can only be read with Spark"
        else:
            try:
                if tables.exists(place):
                    target = read_target(place, job.job, workplace.runs, place)
            except Exception as error:  # noqa: BLE001 - whatever storage raises: the other jobs are told all the same
                fault = describe_error(error, job.job)
        lags = tuple(
            measure_lag(alias, source.table, project.location(source.table), target.marks.get(alias))
            for alias, source in job.sources.items()
        )
        fault = fault or _find_refusal(workplace, job, target)
        refused = "; ".join(str(fault).splitlines()) if fault is not None else None
        # What an operator has to see to.
        warnings = [] if refused is None else [refused]
        if target.others:
            versions = ", ".join(str(version) for version in sorted(target.others)[:5])
            warnings.append(f"changed by another writer (version {versions}): run `{hints.repair(job.job)}`")
        for lag in lags:
            if ranges := ", ".join(f"{start + 1} to {end}" for start, end in lag.gaps):
                said = "are not in this history" if job.remembers else f"were left out: run `{hints.repair(job.job)}`"
                warnings.append(f"versions {ranges} of {lag.alias} {said}")
            if refused is None and lag.days_left == 0:
                warnings.append(
                    f"changes of {lag.alias} that are waiting may be gone already: run `{hints.run(job.job)}`; if it is"
                    f" refused, run `{hints.run(job.job, find_way_on(job))}`"
                )
            elif refused is None and lag.days_left is not None and lag.days_left < 1:
                warnings.append(
                    f"source {lag.alias} forgets changes that are waiting within a day: run `{hints.run(job.job)}`"
                )
        note = note or "; ".join(warnings) or None
        version = target.table.version if target.table else None
        told = target.cursor.state.to_dict() if target.cursor is not None and target.cursor.state is not None else None
        last = row.get("status"), row.get("at")
        seen, its_id = proven.get(str(place), {}), target.table and target.table.table_id
        if seen.pop("table_id", its_id) != its_id and not isinstance(place, CatalogName):
            seen = {}  # of a table that is there no more
        found.append(JobStatus(job.job, str(place), version, lags, *last, note, told, refused, seen or None))
    return found


def _find_refusal(workplace: Workplace, job: Job, target: TargetState) -> EnrichError | None:
    """Return why the next run of a job would be refused; None where files and logs show nothing.

    Sources that other jobs of the run make may not exist yet, and it gives them what they lack. A first run has nothing
    to go on from. What others did to the target is told by its own words.
    """
    project = workplace.project
    sources = [project.location(source.table) for source in job.sources.values()]
    if target.others or any(isinstance(place, CatalogName) for place in (*sources, project.location(job.target.table))):
        return None
    made = {project.location(each.target.table) for each in project.jobs.values()}
    theirs = [place for place in sources if place in made]
    try:
        if not all(tables.exists(str(place)) for place in theirs):
            return None
        plan = workplace.open_job(job)
        if plan.target.table is not None:
            decide_plan(plan)
    except Exception as error:  # noqa: BLE001 - whatever a run would end with is what is asked for
        known = workplace.describe(job, error)
        # A run at this moment is nothing to see to; nor is what the job that writes a source may mend before.
        return None if isinstance(known, Locked) or (isinstance(known, ConfigError) and theirs) else known
    return None


def validate(project: Project, *, offline: bool = False) -> list[Fault]:
    """Hold every job against the logs of its tables and every suite against its job; ``offline``: look at files alone.

    A source that another job writes may not exist yet; it is then taken on trust.
    """
    faults, jobs, workplace = list[Fault](), project.jobs, Workplace(project, [], run_id="")
    selected = {project.location(job.target.table): job.select for job in jobs.values()}
    for job in (jobs[name] for name in sort_jobs(jobs, project)):
        places = {alias: project.location(source.table) for alias, source in job.sources.items()}
        found: dict[str, tables.TableState] = {}
        for alias, place in places.items():
            if offline or isinstance(place, CatalogName) or (place in selected and not tables.exists(place)):
                continue
            try:
                found[alias] = tables.read_state(place)
            except EnrichError as error:
                faults.append(Fault(f"{error.message}; {error.hint}", job.at("sources", alias)))
        is_mapped = isinstance(target := project.location(job.target.table), CatalogName)  # or maybe so
        if not offline and isinstance(target, str):  # at both places may be something that is not this job's
            try:
                is_mapped = tables.has_mapping(workplace.target(job)[0].table)
            except EnrichError as error:
                faults.append(Fault(f"{error.message}; {error.hint}", job.at("target")))
        columns = {alias: table.columns for alias, table in found.items()}
        if len(found) == len(places):
            outside = {alias: table for alias, table in found.items() if places[alias] not in selected}
            faults += _check_job(project, job, outside, columns, is_mapped=is_mapped)
        else:  # of sources that other jobs write, the columns that the files of these name are known
            chosen = {alias: selected.get(place) for alias, place in places.items()}
            known: dict[str, Collection[str]] = {alias: each for alias, each in chosen.items() if each is not None}
            faults += check_file(job, known | columns)
    return list(dict.fromkeys(faults))


def sql(project: Project, job: str) -> str:
    """Return a job of joins as one SQL query over its sources, named by their aliases; ConfigError: there is none."""
    (name,) = choose_jobs(project, [job], ())
    known = project.jobs[name]
    opened = Workplace(project, [name], run_id="").open_job(known)
    text = JOBS[known.kind].write_query(opened.spec, list_sources(known))
    if text is None:
        raise ConfigError(
            f"job {name!r} is no query: SQL has no words for its kind or for one of its joins",
            hint="queries are jobs whose joins are of the kinds table and foreign_key",
        )
    return text


def prove(project: Project, job: str, version: int | None = None, dialect: str = SPARK) -> dict[str, Any]:
    """Return what the commits of a job say that target and quarantine hold, and queries that compute it; no JVM.

    ``version`` is one of the target, None the latest. The quarantine is that of the target's version; its query is None
    where no commit of it is known any more, as where it was never needed.
    """
    (name,) = choose_jobs(project, [job], ())
    target, place = Workplace(project, [name], run_id="").target(project.jobs[name])
    uri, beside = place.uri, place.quarantine_uri
    if uri is None or target.table is None:
        raise HistoryError(f"job {name!r} has no target yet", hint=f"run `{hints.run(name)}` to create it")
    if version is not None and version > (latest := target.table.version):
        raise ConfigError(f"the target of {name!r} has no version {version} yet", hint=f"its latest is {latest}")
    found, at = read_record_at(uri, name, version)
    query = None if found is None else _write_proof(uri, at, found.columns, dialect)
    if found is None or query is None or found.state is None or found.state.proof is None:
        hint = f"run `{hints.repair(name)}`, which compares all rows and records it for the latest version"
        raise HistoryError(f"no proof is recorded for version {at} of the target of {name!r}", hint=hint)
    meant, held = {"quarantine_number": found.quarantine_number, "run_id": found.quarantine_run}.items(), None
    if beside is not None and target.quarantine is not None:
        log, names = tables.read_history(tables.open_log(beside)), (*found.columns, FAILED_COLUMN)
        commits = (int(each["version"]) for each in log if meant <= (read_record(each, name) or {}).items())
        held = next((_write_proof(beside, of, names, dialect) for of in commits), None)
    shown = {"target": show_proof(found.state.proof), "quarantine": show_proof(found.held), "dialect": dialect}
    return {"job": name, "target_version": at, **shown, "query": query, "quarantine_query": held}


def _write_proof(uri: str, at: int, names: Collection[str], dialect: str) -> str | None:
    """Return the query over these columns of a table at a version; None where the log does not reach back so far."""
    there, ours = tables.state_at(uri, at), {each.lower() for each in names}
    if there is None:
        return None
    older = f", version => {at}" if dialect != SPARK and tables.open_log(uri).version() != at else ""
    scan = f"delta_scan({write_text(uri, DUCKDB)}{older})"
    place = f"delta.{quote(uri)} VERSION AS OF {at}" if dialect == SPARK else scan
    return write_query({name: kind for name, kind in there.columns.items() if name.lower() in ours}, dialect, place)


def show_proof(proof: Proof | None) -> dict[str, Any] | None:
    """Return a proof as it stands in JSON: the sums as text, for they have more digits than a number there may have."""
    return None if proof is None else {"rows": proof[0], "sums": [str(each) for each in proof[1:]]}


def _check_job(
    project: Project,
    job: Job,
    outside: dict[str, tables.TableState],
    columns: dict[str, dict[str, DataType]],
    *,
    is_mapped: bool,
) -> list[Fault]:
    """Compile a job; ``outside`` are its sources that no job writes, ``columns`` those of all its sources."""
    faults: list[Fault] = []
    try:
        check_sources(job, outside, {})
    except ConfigError as error:
        faults += error.faults
    try:
        plan = compile_job(job, columns, check_types, is_mapped=is_mapped)
    except ConfigError as error:
        return faults + list(error.faults)
    suite = project.suite(job)
    if suite is None:
        return faults
    if missing := check_columns(suite, plan.spec.columns):
        return faults + missing
    # What Spark would refuse in row conditions of kind `spark`, as far as types tell without it.
    for rule, leaf in ((each, leaf) for each in suite.rules for leaf in list_leaves(each.row_condition)):
        if leaf["type"] != "pass_through":
            continue
        place = rule.places.get("row_condition", rule.where)
        try:
            kind = check_types(plan.kinds, leaf["pass_through_filter"])
        except ConfigError as error:
            faults.append(Fault(f"{rule.type}: row_condition: {error}", place))
            continue
        if kind not in (None, "boolean"):
            faults.append(Fault(f"{rule.type}: row_condition is {name_of(kind)}; it must be a condition", place))
    return faults
