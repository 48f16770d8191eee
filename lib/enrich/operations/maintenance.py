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
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from enrich.base import context, hints
from enrich.base.errors import ConfigError, EnrichError, HistoryError, Locked, find_gravest
from enrich.base.failures import describe_error
from enrich.base.names import Location, find_quarantine, identify
from enrich.base.result import Extent, name_deployment
from enrich.delta import locks, tables
from enrich.delta.tables import KEEPS_FILES, read_interval
from enrich.operations.loading import choose_jobs
from enrich.operations.workplace import Workplace
from enrich.progress.cursor import TargetState
from enrich.project.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.base.result import Compaction

log = logging.getLogger("enrich")

TARGET, QUARANTINE, SOURCE = "target", "quarantine", "source"
DONE, NOTHING, FAILED, LOCKED = "done", "nothing", "failed", "locked"

MARGIN = 1 / 7  # the last part of a table's retention, in which nothing is removed that a job has yet to read
USUAL = 7 * 24  # hours for which a table keeps removed files that says nothing of it
_HOUR = 3_600_000
_NO_FILES = frozenset({"VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES"})


@dataclass(frozen=True)
class Upkeep:
    """What was done for one table."""

    job: str | None  # the job that writes the table; None for sources
    table: str
    role: str  # ``target quarantine source``
    status: str = NOTHING  # ``done nothing failed locked``
    # The files that OPTIMIZE has written anew; those in their place are ``became``, in ``version``.
    rewritten: Extent = field(default_factory=Extent)
    became: Extent | None = None
    version: int | None = None
    removed: Extent = field(default_factory=Extent)  # the files that VACUUM has removed
    kept: int | None = None  # the hours of the table's past that it has left; None where it did not get that far
    error: str | None = None
    exit_code: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the table's part of the JSON."""
        plain = ("job", "table", "role", "status", "error", "exit_code")
        became = vars(self.became) if self.became is not None else None
        return {
            **{name: getattr(self, name) for name in plain},
            "optimize": {**vars(self.rewritten), "into": became, "version": self.version},
            "vacuum": {**vars(self.removed), "kept_hours": self.kept},
        }


@dataclass(frozen=True)
class MaintainResult:
    """What one ``enrich maintain`` did, a table at a time."""

    run_id: str
    deployment: str
    tables: tuple[Upkeep, ...] = ()

    @property
    def exit_code(self) -> int:
        """The most serious exit code of the tables."""
        return find_gravest([each.exit_code for each in self.tables])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich maintain --output json``."""
        head = {"run_id": self.run_id, **name_deployment(self.deployment), "exit_code": self.exit_code}
        return {**head, "tables": [each.to_dict() for each in self.tables]}


def maintain(
    project: Project,
    jobs: Sequence[str] | None = None,
    *,
    exclude: Iterable[str] = (),
    sources: bool = False,
    spark: SparkSession | None = None,
    on_result: Callable[[Upkeep], None] = lambda _: None,
) -> MaintainResult:
    """Put the files of tables in shape, and remove those that nobody needs; no row changes.

    With ``sources``, the sources of these jobs are vacuumed, too, as far as no job of the project needs them. A table
    that fails is a result, not an exception; an unknown job is a ConfigError.
    """
    keeper = _Keeper(Workplace(project, choose_jobs(project, jobs, exclude), given=spark))
    context.begin_run(keeper.workplace.run_id)
    done: list[Upkeep] = []
    for each in keeper.keep(sources=sources):
        if each is not None:
            done.append(each)
            on_result(each)
    return MaintainResult(keeper.workplace.run_id, project.deployment, tuple(done))


@dataclass(frozen=True)
class _Keeper:
    """One call of ``enrich maintain``."""

    workplace: Workplace

    def keep(self, *, sources: bool) -> Iterator[Upkeep | None]:
        """Keep all tables, one after the other; None of one that is not there."""
        project = self.workplace.project
        jobs = [project.jobs[name] for name in self.workplace.chosen]
        for job in jobs:
            location = project.location(job.target.table)
            for role, place in ((TARGET, location), (QUARANTINE, find_quarantine(location))):
                # With the job's lock: no run of it is planned on what goes.
                lock = locks.hold_lock(project.state, job.job, self.workplace.run_id)
                with context.work_on(job.job):
                    yield self._work(Upkeep(job.job, str(place), role), place, (self._optimize, self._vacuum), lock)
        seen = self.workplace.list_tables_written(project.jobs)  # no job of the project writes what is left
        for table in [source.table for job in jobs for source in job.sources.values()] if sources else []:
            place = project.location(table)
            if identify(place) not in seen:
                seen.add(identify(place))
                yield self._work(Upkeep(None, str(place), SOURCE), place, (self._vacuum,))

    def _work(
        self,
        found: Upkeep,
        place: Location,
        steps: Sequence[Callable[[Upkeep, str], Upkeep]],
        lock: AbstractContextManager[None] | None = None,
    ) -> Upkeep | None:
        """Take one step after the other; where one fails or is refused, what was done before stays in the result."""
        try:
            if said := self.workplace.project.explain_read_only(place):
                raise ConfigError(said, hint="leave out --sources; who owns the table runs VACUUM")
            uri = self.workplace.locate(place)
            if uri is None or not tables.exists(uri):
                if found.role != SOURCE:
                    return None
                raise ConfigError(f"there is no table {found.table!r}", hint="create it, or correct the name")
            with lock or nullcontext():
                for step in steps:
                    found = step(found, uri)
        except Exception as error:  # noqa: BLE001 - the other tables are kept all the same
            known = describe_error(error, found.job or found.table)
            status = LOCKED if known.exit_code == Locked.exit_code else FAILED
            return replace(found, status=status, error=str(known), exit_code=known.exit_code)
        return replace(found, status=DONE) if found.rewritten.files + found.removed.files else found

    def _optimize(self, found: Upkeep, uri: str) -> Upkeep:
        """Write files anew that are due; none where OPTIMIZE was the last to write any."""
        from enrich.delta.upkeep import optimize_table

        job = self.workplace.project.jobs[found.job or ""]
        self.workplace.target(job)  # refuses a table that this job never wrote
        history = tables.read_history(tables.open_log(uri))
        if next((each["operation"] for each in history if each.get("operation") not in _NO_FILES), "") == "OPTIMIZE":
            return found
        log.info("%s: OPTIMIZE of %s", job.job, found.table)

        def optimize(own: SparkSession) -> Compaction | None:
            self.workplace.require_safe_commits(uri, own)
            return optimize_table(own, uri, (self.workplace.run_id, job.job), "enrich maintain")

        done = self.workplace.work_inside(optimize)
        if done is None:
            return found
        return replace(found, rewritten=done.removed, became=done.added, version=done.version)

    def _vacuum(self, found: Upkeep, uri: str) -> Upkeep:
        from enrich.delta.upkeep import vacuum_table

        job = self.workplace.project.jobs.get(found.job or "")
        if found.role == QUARANTINE and job is not None and job.remembers and self.workplace.target(job)[0].is_apart:
            # The next run reads the quarantine as it was beside the target.
            said = f"nothing is removed: a run of job {job.job!r} has ended between its two commits"
            raise HistoryError(said, hint=f"run `{hints.run(job.job)}`")
        kept = self._check_readers(found.table, uri)
        log.info("VACUUM of %s: %d hours of its past stay", found.table, kept)
        return replace(found, removed=self.workplace.work_inside(lambda own: vacuum_table(own, uri)), kept=kept)

    def _check_readers(self, name: str, uri: str) -> int:
        """Return for how many hours a table keeps removed files, if no job has yet to read what is as old.

        Else, or where nobody knows what a job has read, that is a HistoryError.
        """
        history = tables.open_log(uri)
        state, commits = tables.read_open_state(history), tables.read_commits(history)
        seconds = read_interval(state.properties, KEEPS_FILES)
        if seconds is None:
            hint = f"run {tables.suggest_properties(uri, {KEEPS_FILES: 'interval 168 hours'})}"
            raise ConfigError(f"{KEEPS_FILES} of {name} cannot be understood", hint=hint)
        hours = math.ceil(seconds / 3600)
        # Delta goes by what the property was when the last checkpoint was written, which may have been less.
        bound = time.time() * 1000 - min(hours, USUAL) * (1 - MARGIN) * _HOUR
        for job, table_id, version in self._list_needs(uri):
            if table_id == state.table_id and version < state.version and commits.get(version + 1, 0) < bound:
                raise HistoryError(
                    f"nothing is removed: job {job!r} has yet to read what came after version {version}, and that is so"
                    " old that VACUUM may remove it",
                    hint=f"run `{hints.run(job)}`",
                )
        return hours

    def _list_needs(self, uri: str) -> list[tuple[str, str, int]]:
        """Return what jobs of the project have read of a table: job, the table's identity, and the version.

        A job of which nobody knows it is a HistoryError.
        """
        found = []
        for name, job in self.workplace.project.jobs.items():
            aliases = [alias for alias, each in job.sources.items() if self.workplace.spot(each.table) == identify(uri)]
            try:
                needs = list_needs(name, self.workplace.target(job)[0]) if aliases else {}
            except EnrichError as error:
                raise HistoryError(
                    f"nothing is removed: what job {name!r} still needs of the table is not known ({error.message})",
                    hint=error.hint,
                ) from error
            found += [(name, *needs[alias]) for alias in aliases if alias in needs]
        return found


def list_needs(job: str, target: TargetState) -> dict[str, tuple[str, int]]:
    """Return alias -> the source's identity, and the version after which the job may still read it.

    Where neither log nor runs table says what the target has consumed, that is a HistoryError.
    """
    if target.table is None:
        return {}
    if target.cursor is None:
        raise HistoryError(f"nobody knows what the target of {job!r} has consumed", hint=f"run `{hints.refresh(job)}`")
    cursors = [target.cursor]
    if target.is_apart and target.quarantine is not None and target.quarantine.cursor is not None:
        cursors.append(target.quarantine.cursor)  # a run has ended between its two commits
    found = {}
    for alias, mark in target.cursor.sources.items():
        marks = [each.sources[alias] for each in cursors if alias in each.sources]
        found[alias] = (mark.table_id, min(each.to for each in marks if each.table_id == mark.table_id))
    return found
