"""Compare a target with what its job gives at the versions that it records: ``enrich verify``; and heal it.

The comparison is a full refresh's, taken back to the recorded versions: the same reads, joins and quarantine rules, but
nothing is written. ``--repair`` writes the difference alone, and the cursor as it was under a new number.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from enrich.base import context, hints
from enrich.base.errors import Blocked, DriftError, EnrichError, Locked, find_gravest
from enrich.base.extras import EXPECTATIONS, require_extra
from enrich.base.result import FAILED, LOCKED, UPDATED, State, name_deployment
from enrich.base.suites import list_unjudged
from enrich.delta import locks
from enrich.operations.loading import choose_jobs
from enrich.operations.runner import record_outcome
from enrich.operations.workplace import Workplace
from enrich.progress import continuity
from enrich.progress.decision import decide_repair
from enrich.progress.plan import Options, Plan
from enrich.project.models import Job
from enrich.project.project import Project
from enrich.steps.commits import retry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.frames.difference import Difference

log = logging.getLogger("enrich")

EQUAL, DIFFERENT, REPAIRED = "equal", "different", "repaired"


@dataclass(frozen=True)
class Discrepancy:
    """How a table differs from what it should be.

    Attributes:
        missing: Rows that it lacks.
        surplus: Rows that it should not have, further copies of a row among them.
        differing: Rows with other values.
    """

    missing: int = 0
    surplus: int = 0
    differing: int = 0

    @property
    def rows(self) -> int:
        """All of them."""
        return self.missing + self.surplus + self.differing


@dataclass(frozen=True)
class StateCheck:
    """The state of a target, as recorded and as counted.

    Attributes:
        recorded: What the record says; None when it says nothing.
        counted: What the target's rows, and the sources at the recorded versions, say.
    """

    recorded: State | None
    counted: State

    @property
    def equal(self) -> bool | None:
        """Whether the two agree; None without a record."""
        return self.recorded.agrees_with(self.counted) if self.recorded is not None else None

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as in the JSON."""
        recorded = self.recorded.to_dict() if self.recorded is not None else None
        return {"equal": self.equal, "recorded": recorded, "counted": self.counted.to_dict()}


@dataclass(frozen=True)
class Check:
    """One job's target and quarantine, compared.

    Attributes:
        status: ``equal different repaired failed locked``.
        versions: Alias -> the recorded version that the rows were computed at.
        target: What differs in the target, before a repair.
        quarantine: What differs in the quarantine.
        ahead: Alias -> the version that the quarantine contains where its rows are not those that the target's record
            names: a run is between its two commits, or has ended there, and the next one makes that good. Then what
            differs in the quarantine is no difference.
        others: Versions of the target that other writers made.
        state: What the target's record says of all its rows, and what they are.
        gaps: Alias -> versions that a run was told to skip; what they brought shows as a difference.
        target_version: The target's version that was compared, or that a repair has made.
        error: One line with the next step.
    """

    job: str
    status: str
    versions: dict[str, int] = field(default_factory=dict)
    target: Discrepancy = Discrepancy()
    quarantine: Discrepancy = Discrepancy()
    ahead: dict[str, int] = field(default_factory=dict)
    others: tuple[int, ...] = ()
    gaps: dict[str, list[list[int]]] = field(default_factory=dict)
    state: StateCheck | None = None
    target_version: int | None = None
    error: str | None = None
    exit_code: int = 0
    seconds: float = 0.0

    @property
    def differs(self) -> bool:
        """True when target, quarantine or recorded state is not what it should be."""
        rows = self.target.rows + (0 if self.ahead else self.quarantine.rows)
        return bool(rows) or (self.state is not None and self.state.equal is False)

    def to_dict(self) -> dict[str, Any]:
        """Return the job's part of the JSON; counts of the target stand at the top."""
        return {
            "job": self.job,
            "status": self.status,
            "versions": self.versions,
            **vars(self.target),
            "quarantine": vars(self.quarantine),
            "quarantine_versions": self.ahead,
            "foreign_versions": list(self.others),
            "gaps": self.gaps,
            "state": self.state.to_dict() if self.state is not None else None,
            "target_version": self.target_version,
            "exit_code": self.exit_code,
            "error": self.error,
        }


@dataclass(frozen=True)
class VerifyResult:
    """What one ``enrich verify`` found."""

    run_id: str
    deployment: str
    jobs: tuple[Check, ...] = ()

    @property
    def exit_code(self) -> int:
        """The most serious exit code of the jobs: 0 when all are equal or repaired, 6 when one differs."""
        return find_gravest([job.exit_code for job in self.jobs])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich verify --output json``."""
        jobs = [job.to_dict() for job in self.jobs]
        head = {"run_id": self.run_id, **name_deployment(self.deployment)}
        return {**head, "exit_code": self.exit_code, "jobs": jobs}


def verify(
    project: Project,
    jobs: Sequence[str] | None = None,
    *,
    repair: bool = False,
    spark: SparkSession | None = None,
    on_result: Callable[[Check], None] | None = None,
) -> VerifyResult:
    """Compare targets and quarantines with what their jobs give at the recorded versions, by key and by row.

    Args:
        project: What ``load_project`` gave.
        jobs: Names; None for all.
        repair: Write the difference. Rows of other writers go, gaps close, and ``run`` goes on from the same cursor.
            The runs table records what was repaired; where nothing was, nothing is recorded.
        spark: A session, left as it was found; None: the active one, or one is built.
        on_result: Called with each job's result as it ends.

    Returns:
        One result a job; a job that cannot be compared is a result, not an exception.

    Raises:
        ConfigError: An unknown job.
    """
    names = choose_jobs(project, jobs, ())
    workplace = Workplace(project, names, Options(dry_run=not repair), given=spark)
    context.begin_run(workplace.run_id)
    checking = _Checking(workplace)
    found: list[Check] = []
    for name in names:
        with context.work_on(name):
            try:
                found.append(checking.check_job(project.jobs[name]))
            except BaseException:  # a signal takes its way, but what is committed is told first
                if on_result is not None and name in checking.repaired:
                    on_result(checking.repaired[name])
                raise
        if on_result is not None:
            on_result(found[-1])
    return VerifyResult(workplace.run_id, project.deployment, tuple(found))


@dataclass
class _Checking:
    """One verification.

    Attributes:
        compared: Job -> what was found, before the difference is written.
        repaired: Job -> what was found and is mended, where the log has the commit.
    """

    workplace: Workplace
    compared: dict[str, Check] = field(default_factory=dict)
    repaired: dict[str, Check] = field(default_factory=dict)

    def check_job(self, job: Job) -> Check:
        """Compare one job, under its lock when the difference is to be written; never raises for what it finds."""
        started, workplace = time.monotonic(), self.workplace
        if workplace.options.dry_run:
            lock: AbstractContextManager[None] = nullcontext()
        else:
            context.note_written(f"the target of {job.job!r} is unchanged")
            lock = locks.hold_lock(workplace.project.state, job.job, workplace.run_id)
        try:
            with lock:
                check = retry(  # again from a fresh plan where that may help, as in a run
                    lambda: self._compare_job(job), job.job, workplace.run_id, lambda: job.job in workplace.committed
                )
        except Exception as error:  # noqa: BLE001 - a job's failure is a result; the others are still compared
            if job.job not in workplace.committed:
                known = workplace.describe(job, error)
                status = LOCKED if isinstance(known, Locked) else FAILED
                return Check(job.job, status, error=str(known), exit_code=known.exit_code)
            log.warning("%s: committed, but then failed with %s", job.job, type(error).__name__)
        except BaseException:
            if job.job in workplace.committed:
                self._record_repair(job, time.monotonic() - started)
            raise
        else:
            if job.job not in workplace.committed:  # a run that was blocked, or failed, is still the last word
                return replace(check, seconds=round(time.monotonic() - started, 3))
        return self._record_repair(job, time.monotonic() - started)

    def _record_repair(self, job: Job, seconds: float) -> Check:
        """Record a commit that is in the log as the job's outcome, and return what was found and is mended."""
        done = replace(self.workplace.committed[job.job], status=UPDATED, seconds=round(seconds, 3))
        repaired = replace(self.compared[job.job], status=REPAIRED, seconds=done.seconds)
        self.repaired[job.job] = replace(repaired, target_version=done.target_version)
        outcome = replace(done, quarantine=self.workplace.count_quarantined(job))
        recorded = record_outcome(self.workplace, outcome.with_findings(list_unjudged(job.rules, ())))
        return replace(self.repaired[job.job], error=recorded.error, exit_code=recorded.exit_code)

    def _compare_job(self, job: Job) -> Check:
        plan = decide_repair(self.workplace.open_job(job, as_recorded=True))
        # Rules say when a run may write, not what is right.
        plan = replace(plan, job=job.model_copy(update={"rules": ()}))
        if plan.suite is not None:
            require_extra(EXPECTATIONS)  # before a JVM starts
        check = self.workplace.open_inside(plan, self._compare_rows)
        self.workplace.note_commit(job)
        return check

    def _compare_rows(self, plan: Plan, session: SparkSession) -> Check:
        """Compute all rows at the recorded versions, compare them, and write the difference if that was asked for."""
        from enrich import pipeline
        from enrich.steps import gate, publish, state
        from enrich.steps.run import Run
        from enrich.steps.source_changes import explain_losses

        plan = self.workplace.fit(plan, session)
        cursor, table = plan.target.cursor, plan.target.table
        assert cursor is not None  # noqa: S101 - `decide_repair` has refused what has none
        assert table is not None  # noqa: S101 - the same
        versions = {alias: mark.to for alias, mark in cursor.sources.items()}
        gaps = {alias: [list(gap) for gap in mark.gaps] for alias, mark in cursor.sources.items() if mark.gaps}
        check = Check(plan.job.job, EQUAL, versions, others=plan.target.others, gaps=gaps, target_version=table.version)
        with ExitStack() as cleanup:
            run = Run(plan, session, cleanup, self.workplace.note_result)
            cleanup.enter_context(explain_losses(run))
            try:
                result, found = pipeline.compute(run)
            except gate.Closed as closed:
                raise Blocked(str(gate.refuse_run(closed, plan).error)) from None
            assert found is not None  # noqa: S101 - a repair computes all rows
            target = _tell_discrepancy(found.target.difference)
            quarantine = _tell_discrepancy(found.quarantine.difference if found.quarantine is not None else None)
            assert found.state is not None  # noqa: S101 - counted with the difference
            states = StateCheck(plan.recorded_state, state.count_present(run, found.state.lookups))
            beside, ahead = plan.target.quarantine, dict[str, int]()
            agrees = continuity.find_apart(plan.target, cursor, plan.tables) == {}
            if not agrees and beside is not None and beside.cursor is not None:
                ahead = {alias: mark.to for alias, mark in beside.cursor.sources.items()}
            check = replace(check, target=target, quarantine=quarantine, ahead=ahead, state=states)
            if plan.options.dry_run:
                return _judge(check)
            wrong = check.differs or bool(quarantine.rows)
            if not wrong and not check.others and not check.gaps and not plan.lacks_state:
                return check
            self.workplace.require_safe_commits(table.uri, session)
            self.compared[plan.job.job] = check
            publish.write_run(run, result, found, self.workplace.runs)
            return check


def _tell_discrepancy(found: Difference | None) -> Discrepancy:
    return Discrepancy() if found is None else Discrepancy(found.inserted, found.deleted, found.updated)


def _judge(check: Check) -> Check:
    """Say what a comparison means when nothing is to be written."""
    if not check.differs:
        return check
    counts = [f"{number} {name}" for name, number in vars(check.target).items() if number]
    beside = {} if check.ahead else vars(check.quarantine)
    counts += [f"{number} {name} in the quarantine" for name, number in beside.items() if number]
    if check.state is not None and check.state.equal is False:
        counts.append("counts in its recorded state")
    error = EnrichError(
        f"the target of {check.job!r} is not what its job gives at the recorded versions: {', '.join(counts)}",
        hint=f"run `{hints.repair(check.job)}`",
    )
    return replace(check, status=DIFFERENT, error=str(error), exit_code=DriftError.exit_code)
