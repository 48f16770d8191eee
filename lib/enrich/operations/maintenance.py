"""Keep the files of tables in shape, by OPTIMIZE, and remove those that nobody needs, by VACUUM: ``enrich maintain``.

Rows and cursors stay as they are. VACUUM removes what is older than the table itself promises to keep, and nothing
while a job of the project has yet to read changes that are as old. Of other projects and deployments that read the same
tables nothing is known.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from enrich.base import context, hints
from enrich.base.errors import ConfigError, EnrichError, HistoryError, find_gravest
from enrich.base.failures import describe_error
from enrich.base.names import find_quarantine, identify
from enrich.base.result import Extent, name_deployment
from enrich.delta import extents, locks, tables
from enrich.delta.tables import KEEPS_FILES, compute_file_retention
from enrich.operations.loading import choose_jobs
from enrich.operations.workplace import Options, Workplace
from enrich.progress.cursor import TargetState
from enrich.project.models import Job
from enrich.project.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.base.result import Compaction

log = logging.getLogger("enrich")

TARGET, QUARANTINE, SOURCE = "target", "quarantine", "source"
DONE, NOTHING, FAILED, LOCKED = "done", "nothing", "failed", "locked"

MARGIN = 24
"""Hours before the end of a table's retention from which on nothing is removed that a job has yet to read."""

USUAL = 7 * 24
"""Hours for which a table keeps removed files that says nothing of it."""

_HOUR = 3_600_000
_NO_FILES = frozenset({"VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES"})


@dataclass(frozen=True)
class Need:
    """What a job may still read of one source.

    Attributes:
        table_id: The identity of the table that it has read; of another one at the same place it needs nothing.
        version: It needs this version, and the changes after it.
    """

    job: str
    table_id: str
    version: int


@dataclass(frozen=True)
class Upkeep:
    """What was done for one table, or would be.

    Attributes:
        job: The job that writes the table; None for sources.
        role: ``target quarantine source``.
        status: ``done nothing failed locked``; a dry run says ``done`` of what would be done.
        rewritten: The files that OPTIMIZE has written anew; in a dry run, the small ones.
        became: The files that stand in their place; None in a dry run.
        version: The version that OPTIMIZE made; None when it made none.
        removed: The files that VACUUM has removed.
        kept: The hours of the table's past that it has left; None where it did not get that far.
        error: One line with the next step.
    """

    job: str | None
    table: str
    role: str
    status: str = NOTHING
    rewritten: Extent = field(default_factory=Extent)
    became: Extent | None = None
    version: int | None = None
    removed: Extent = field(default_factory=Extent)
    kept: int | None = None
    error: str | None = None
    exit_code: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the table's part of the JSON."""
        became = vars(self.became) if self.became is not None else None
        return {
            "job": self.job,
            "table": self.table,
            "role": self.role,
            "status": self.status,
            "optimize": {**vars(self.rewritten), "into": became, "version": self.version},
            "vacuum": {**vars(self.removed), "kept_hours": self.kept},
            "error": self.error,
            "exit_code": self.exit_code,
        }

    def settle(self, error: EnrichError | None = None) -> Upkeep:
        """Return this with the status that its numbers have, or with what stopped it; what was done before is done."""
        if error is not None:
            status = LOCKED if error.exit_code == 4 else FAILED
            return replace(self, status=status, error=str(error), exit_code=error.exit_code)
        return replace(self, status=DONE) if not self.exit_code and self.rewritten.files + self.removed.files else self


@dataclass(frozen=True)
class MaintainResult:
    """What one ``enrich maintain`` did, a table at a time."""

    run_id: str
    deployment: str
    dry_run: bool
    tables: tuple[Upkeep, ...] = ()

    @property
    def exit_code(self) -> int:
        """The most serious exit code of the tables."""
        return find_gravest([each.exit_code for each in self.tables])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich maintain --output json``."""
        head = {"run_id": self.run_id, **name_deployment(self.deployment), "exit_code": self.exit_code}
        return {**head, "dry_run": self.dry_run, "tables": [each.to_dict() for each in self.tables]}


def maintain(  # noqa: PLR0913 - the public interface: every keyword is an option of `enrich maintain`
    project: Project,
    jobs: Sequence[str] | None = None,
    *,
    exclude: Iterable[str] = (),
    sources: bool = False,
    dry_run: bool = False,
    spark: SparkSession | None = None,
    on_result: Callable[[Upkeep], None] | None = None,
) -> MaintainResult:
    """Put the files of tables in shape, and remove those that nobody needs; no row changes.

    Args:
        project: What ``load_project`` gave.
        jobs: Names; None for all.
        exclude: Names to leave out.
        sources: Also VACUUM the sources of these jobs, as far as no job of the project needs them.
        dry_run: Only measure.
        spark: A Delta-capable session, left as it was found; None: the active one, or one is built.
        on_result: Called for each table as it is done.

    Returns:
        One entry a table; a table that fails is a result, not an exception.

    Raises:
        ConfigError: An unknown job.
    """
    names = choose_jobs(project, jobs, exclude)
    keeper = _Keeper(Workplace(project, names, Options(dry_run=dry_run), given=spark))
    context.begin_run(keeper.workplace.run_id)
    done: list[Upkeep] = []
    for each in keeper.keep(sources=sources):
        done.append(each)
        if on_result is not None:
            on_result(each)
    return MaintainResult(keeper.workplace.run_id, project.deployment, dry_run, tuple(done))


@dataclass
class _Keeper:
    """One call of ``enrich maintain``.

    Attributes:
        kept: The sources that were looked at.
        needs: Job -> alias -> what it may still read, or why that is not known.
    """

    workplace: Workplace
    kept: set[str] = field(default_factory=set)
    needs: dict[str, dict[str, Need] | EnrichError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dry_run = self.workplace.options.dry_run

    def keep(self, *, sources: bool) -> Iterator[Upkeep]:
        """Keep all tables, one after the other."""
        jobs = [self.workplace.project.jobs[name] for name in self.workplace.chosen]
        for job in jobs:
            with context.work_on(job.job):
                yield from self._keep_job(job)
        for job in jobs if sources else ():
            yield from self._keep_sources(job)

    def _keep_job(self, job: Job) -> Iterator[Upkeep]:
        """Keep target and quarantine, with the job's lock: no run of it is planned on what goes."""
        location = self.workplace.project.location(job.target.table)
        for role, place in ((TARGET, location), (QUARANTINE, find_quarantine(location))):
            found = Upkeep(job.job, str(place), role)
            try:
                uri = self.workplace.locate(place)
                if uri is None or not tables.exists(uri):
                    continue
                state = self.workplace.project.state
                with locks.hold_lock(state, job.job, self.workplace.run_id):
                    self.workplace.target(job)  # refuses a table that this job never wrote
                    found = self._optimize(found, job, uri)
                    found = self._vacuum(found, uri)
            except Exception as error:  # noqa: BLE001 - the other tables are kept all the same
                found = found.settle(describe_error(error, job.job))
            yield found.settle()

    def _optimize(self, found: Upkeep, job: Job, uri: str) -> Upkeep:
        """Write files anew that are due; none where OPTIMIZE was the last to write any."""
        from enrich.delta.upkeep import optimize_table

        def optimize(own: SparkSession) -> Compaction | None:
            self.workplace.require_safe_commits(uri, own)
            return optimize_table(own, uri, (self.workplace.run_id, job.job), "enrich maintain")

        history = tables.read_history(tables.open_log(uri))
        last = next((each.get("operation") for each in history if each.get("operation") not in _NO_FILES), None)
        if last == "OPTIMIZE":
            return found
        if self.dry_run:
            small = extents.measure_table(uri, extents.SMALL_FILE)
            return replace(found, rewritten=small) if small.files > 1 else found
        log.info("%s: OPTIMIZE of %s", job.job, found.table)
        done = self.workplace.work_inside(optimize)
        if done is None:
            return found
        return replace(found, rewritten=done.removed, became=done.added, version=done.version)

    def _vacuum(self, found: Upkeep, uri: str) -> Upkeep:
        """Remove files; where that fails or is refused, what was done before stays in the result."""
        from enrich.delta.upkeep import vacuum_table

        try:
            kept = self._check_readers(found.table, uri)
            log.info("VACUUM of %s: %d hours of its past stay", found.table, kept)
            gone = self.workplace.work_inside(lambda own: vacuum_table(own, uri, dry_run=self.dry_run))
        except Exception as error:  # noqa: BLE001 - as in ``_keep_job``
            return found.settle(describe_error(error, found.job or found.table))
        return replace(found, removed=gone, kept=kept)

    def _keep_sources(self, job: Job) -> Iterator[Upkeep]:
        """VACUUM the sources of a job that no job of the project writes, each of them once."""
        project = self.workplace.project
        targets = [project.location(each.target.table) for each in project.jobs.values()]
        written = {identify(each) for target in targets for each in (target, find_quarantine(target))}
        for source in job.sources.values():
            place = project.location(source.table)
            if identify(place) in written | self.kept:
                continue
            self.kept.add(identify(place))
            found = Upkeep(None, str(place), SOURCE)
            try:
                uri = self.workplace.uri(source.table)
                if uri is None:
                    message = f"the catalog has no table {source.table!r}"
                    raise ConfigError(message, hint="create it, or correct the name")
                found = self._vacuum(found, uri)
            except Exception as error:  # noqa: BLE001 - as in ``_keep_job``
                found = found.settle(describe_error(error, job.job))
            yield found.settle()

    def _check_readers(self, name: str, uri: str) -> int:
        """Return for how many hours a table keeps removed files, if no job has yet to read what is as old.

        Raises:
            ConfigError: What the table promises cannot be understood.
            HistoryError: A job has yet to read what is almost as old, or nobody knows what it has read.
        """
        history = tables.open_log(uri)
        state, commits = tables.read_open_state(history), tables.read_commits(history)
        seconds = compute_file_retention(state.properties)
        if seconds is None:
            hint = f"run {tables.suggest_properties(uri, {KEEPS_FILES: 'interval 168 hours'})}"
            raise ConfigError(f"{KEEPS_FILES} of {name} cannot be understood", hint=hint)
        hours = math.ceil(seconds / 3600)
        # Delta goes by what the property was when the last checkpoint was written, which may have been less.
        bound = time.time() * 1000 - (min(hours, USUAL) - MARGIN) * _HOUR
        for need in self._list_readers(uri):
            waits = need.table_id == state.table_id and need.version < state.version
            if waits and commits.get(need.version + 1, 0) < bound:
                raise HistoryError(
                    f"nothing is removed: job {need.job!r} has yet to read what came after version {need.version}, and"
                    " that is so old that VACUUM may remove it",
                    hint=f"run `{hints.run(need.job)}`",
                )
        return hours

    def _list_readers(self, uri: str) -> list[Need]:
        """Return what each job of the project may still need of a table.

        Raises:
            HistoryError: Of a job nobody knows it.
        """
        found = []
        for name, job in self.workplace.project.jobs.items():
            aliases = [alias for alias, each in job.sources.items() if self.workplace.spot(each.table) == identify(uri)]
            if not aliases:
                continue
            if name not in self.needs:
                try:
                    self.needs[name] = list_needs(name, self.workplace.target(job)[0])
                except EnrichError as error:
                    self.needs[name] = error
            needs = self.needs[name]
            if isinstance(needs, EnrichError):
                raise HistoryError(
                    f"nothing is removed: what job {name!r} still needs of the table is not known ({needs.message})",
                    hint=needs.hint,
                )
            found += [needs[alias] for alias in aliases if alias in needs]
        return found


def list_needs(job: str, target: TargetState) -> dict[str, Need]:
    """Return alias -> what the job may still read of that source; empty before its first run.

    Raises:
        HistoryError: Neither the target's log nor the runs table says what it has consumed.
    """
    if target.table is None:
        return {}
    if target.cursor is None:
        raise HistoryError(f"nobody knows what the target of {job!r} has consumed", hint=f"run `{hints.refresh(job)}`")
    cursors, beside = [target.cursor], target.quarantine
    if beside is not None and beside.cursor is not None and not beside.belongs_to(target.cursor):
        cursors.append(beside.cursor)  # a run has ended between its two commits
    found = {}
    for alias, mark in target.cursor.sources.items():
        marks = [each.sources[alias] for each in cursors if alias in each.sources]
        version = min(each.to for each in marks if each.table_id == mark.table_id)
        found[alias] = Need(job, mark.table_id, version)
    return found
