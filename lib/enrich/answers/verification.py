"""Compare a target with what its job gives at the versions that it records: ``verify``, its repair, and ``diff``.

The comparison is a full refresh's, taken back to the recorded versions: the same reads, joins and quarantine rules, but
nothing is written. ``--repair`` writes the difference alone, and the cursor as it was under a new number. ``diff``
takes the job as its file is now, also where that is not what has written the target, and tells columns apart.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from enrich.answers.inspection import show_proof
from enrich.base import context, hints
from enrich.base.errors import Blocked, ConfigError, DriftError, EnrichError, HistoryError, Locked
from enrich.base.failures import EXPECTATIONS, require_extra
from enrich.base.result import FAILED, LOCKED, UPDATED, Proof, ShownJobs, State, name_deployment
from enrich.base.rowforms import write_row
from enrich.base.schemas import find
from enrich.base.spec import FAILED_COLUMN, quote
from enrich.base.suites import list_unjudged
from enrich.delta import locks
from enrich.delta.runs import PROVEN, RunRow
from enrich.delta.tables import TableState, read_state
from enrich.operations.loading import choose_jobs, load_project
from enrich.operations.runner import record_outcome, retry
from enrich.operations.workplace import Workplace
from enrich.progress import continuity
from enrich.progress.decision import decide_comparison, decide_repair, require_cursor, require_target
from enrich.progress.plan import OpenJob, Options, Plan
from enrich.project.models import Job
from enrich.project.project import Project
from enrich.report.models import JobDiff

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from enrich.frames.difference import Difference, Identity
    from enrich.steps.run import Run

log = logging.getLogger("enrich")

EQUAL, DIFFERENT, REPAIRED = "equal", "different", "repaired"


@dataclass(frozen=True)
class Discrepancy:
    """How a table differs from what it should be: rows that it lacks, rows too many, rows with other values."""

    missing: int = 0
    surplus: int = 0
    differing: int = 0

    @classmethod
    def of(cls, found: Difference) -> Discrepancy:
        """Return what would have to be written, as what is wrong."""
        return cls(found.inserted, found.deleted, found.updated)


@dataclass(frozen=True)
class Check:
    """One job's target and quarantine, compared."""

    job: str
    status: str  # ``equal different repaired failed locked``
    # Alias -> the recorded version that the rows were computed at.
    versions: dict[str, int] = field(default_factory=dict)
    target: Discrepancy = Discrepancy()  # what differs in the target, before a repair; ``quarantine`` the same
    quarantine: Discrepancy = Discrepancy()
    # Alias -> the version that the quarantine contains where that is not what the target's record names: a run is
    # between its two commits, or has ended there, and the next one makes that good. Then what differs in the quarantine
    # is no difference.
    ahead: dict[str, int] = field(default_factory=dict)
    others: tuple[int, ...] = ()  # versions of the target that other writers made
    # Alias -> versions that a run was told to skip; what they brought shows as a difference.
    gaps: dict[str, list[list[int]]] = field(default_factory=dict)
    lasting: dict[str, list[list[int]]] = field(default_factory=dict)  # those that no repair closes: no feed tells them
    # Table -> what its commits say that it holds, and what it holds: rows and sums; a recorded one may be None.
    proof: dict[str, dict[str, Proof | None]] = field(default_factory=dict)
    recorded: State | None = None  # what the target's record says of all its rows; None when it says nothing
    counted: State | None = None  # what the target's rows, and the sources at the recorded versions, say
    target_version: int | None = None  # the target's version that was compared, or that a repair has made
    error: str | None = None  # one line with the next step
    exit_code: int = 0

    @property
    def state_is_equal(self) -> bool | None:
        """Whether the recorded state is what was counted, but for rules without counts; None where one is missing."""
        if self.recorded is None or self.counted is None:
            return None
        theirs = {each.index: each for each in self.counted.rules}
        same = replace(self.recorded, rules=()) == replace(self.counted, rules=())
        return same and all(each == theirs.get(each.index) for each in self.recorded.rules if each.is_counted)

    @property
    def unproven(self) -> list[str]:
        """The tables that do not hold what their commits say."""
        known = {name: each for name, each in self.proof.items() if None not in each.values()}
        return [name for name, each in known.items() if each["recorded"] != each["counted"]]

    @property
    def differences(self) -> list[str]:
        """What is not as it should be in target, quarantine and recorded state, with counts."""
        found = [f"{number} {name}" for name, number in vars(self.target).items() if number]
        beside = {} if self.ahead else vars(self.quarantine)
        found += [f"{number} {name} in the quarantine" for name, number in beside.items() if number]
        found += ["counts in its recorded state"] if self.state_is_equal is False else []
        return found or [f"the recorded sums of the {name}" for name in self.unproven]

    def to_dict(self) -> dict[str, Any]:
        """Return the job's part of the JSON; counts of the target stand at the top."""
        state = None
        if self.counted is not None:
            recorded = None if self.recorded is None else self.recorded.to_dict()
            state = {"equal": self.state_is_equal, "recorded": recorded, "counted": self.counted.to_dict()}
        return {
            "job": self.job,
            "status": self.status,
            "versions": self.versions,
            **vars(self.target),
            "quarantine": vars(self.quarantine),
            "quarantine_versions": self.ahead,
            "foreign_versions": list(self.others),
            "gaps": self.gaps,
            "state": state,
            "proof": {name: {side: show_proof(of) for side, of in each.items()} for name, each in self.proof.items()},
            "target_version": self.target_version,
            "exit_code": self.exit_code,
            "error": self.error,
        }


@dataclass(frozen=True, repr=False)
class VerifyResult(ShownJobs):
    """What one ``enrich verify`` found; its exit code is 0 when all are equal or repaired, 6 when one differs."""

    run_id: str
    deployment: str
    jobs: tuple[Check, ...] = ()

    def summarise(self) -> tuple[str, list[dict[str, object]]]:
        """Return how the comparison ended, and its jobs."""
        line = f"verify {self.run_id}, deployment {self.deployment}: exit {self.exit_code}, jobs {len(self.jobs)}"
        return line, self.show_jobs("job", "status", "error")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich verify --output json``."""
        head = {"run_id": self.run_id, **name_deployment(self.deployment), "exit_code": self.exit_code}
        return {**head, "jobs": [job.to_dict() for job in self.jobs]}


def verify(  # noqa: PLR0913 - the options of the command
    project: Project,
    jobs: Sequence[str] | None = None,
    *,
    repair: bool = False,
    quick: bool = False,
    against: str | None = None,
    spark: SparkSession | None = None,
    on_result: Callable[[Check], None] | None = None,
) -> VerifyResult:
    """Compare targets and quarantines with what their jobs give at the recorded versions, by key and by row.

    ``jobs``: None for all. ``repair`` writes the difference: rows of other writers go, gaps close, and ``run`` goes on
    from the same cursor; the runs table records what was repaired, and nothing where nothing was. A job that cannot be
    compared is a result, not an exception; ``on_result`` is called with each. ``ConfigError``: an unknown job.
    ``quick``: no source is read; the tables are held against the proof in their commits (docs/proof.md). ``against``:
    no source is read; the target of the one job is held against this table, written as tables are in job files.
    """
    if quick and repair:
        raise ConfigError("a quick comparison does not know which rows differ", hint="give --repair without --quick")
    names = choose_jobs(project, jobs, ())
    if against is not None and (repair or quick or len(names) != 1):
        raise ConfigError(
            "a table is compared with the target of one job, and nothing else is looked at",
            hint=f"name one job, without --repair and --quick: `{hints.verify('JOB')} --against TABLE`",
        )
    workplace = Workplace(project, names, Options(dry_run=not repair), given=spark)
    context.begin_run(workplace.run_id)
    checking = _Checking(workplace, quick, against)
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
    """One verification: job -> what was found, and of that what is mended, where the log has the commit."""

    workplace: Workplace
    quick: bool = False
    against: str | None = None
    compared: dict[str, Check] = field(default_factory=dict)
    repaired: dict[str, Check] = field(default_factory=dict)

    def check_job(self, job: Job) -> Check:
        """Compare one job, under its lock when the difference is to be written; never raises for what it finds."""
        started, workplace, name = time.monotonic(), self.workplace, job.job
        is_dry = workplace.options.dry_run

        def compare() -> Check:
            if self.quick:
                return self._compare_proofs(job)
            if self.against is not None:
                opened = workplace.open_job(job, as_recorded=True)
                return workplace.open_inside(opened, partial(self._compare_with, self.against))
            plan = decide_repair(workplace.open_job(job, as_recorded=True))
            if plan.suite is not None:
                require_extra(EXPECTATIONS)  # before a JVM starts
            check = workplace.open_inside(plan, self._compare_rows)
            workplace.note_commit(job)
            self._remember(plan, check)
            return check

        if not is_dry:
            context.note_written(f"the target of {name!r} is unchanged")
        try:
            with nullcontext() if is_dry else locks.hold_lock(workplace.project.state, name, workplace.run_id):
                # From a fresh plan where that may help, as in a run.
                check = retry(compare, name, workplace.run_id, lambda: name in workplace.committed)
        except Exception as error:  # noqa: BLE001 - a job's failure is a result; the others are still compared
            if name not in workplace.committed:
                known = workplace.describe(job, error)
                status = LOCKED if isinstance(known, Locked) else FAILED
                return Check(name, status, error=str(known), exit_code=known.exit_code)
            log.warning("%s: committed, but then failed with %s", name, type(error).__name__)
        except BaseException:
            if name in workplace.committed:
                self._record_repair(job, started)
            raise
        else:
            if name not in workplace.committed:  # a run that was blocked, or failed, is still the last word
                return check
        return self._record_repair(job, started)

    def _remember(self, plan: OpenJob, check: Check) -> None:
        """Note which version was proven to be what the sources give; who may only read does without."""
        if check.status == EQUAL and plan.job.job not in self.workplace.committed:
            known = self.workplace.run_id, plan.job.job, plan.place.label
            proven = {"version": check.target_version, "table_id": require_target(plan).table_id}
            try:
                self.workplace.runs.append(RunRow(*known, PROVEN, proven))
            except EnrichError as error:
                log.info("%s: that it was proven is not recorded (%s)", plan.job.job, error.message)

    def _compare_proofs(self, job: Job) -> Check:
        """Hold the rows of target and quarantine against the proof in their commits; no source is looked at."""
        target, place = self.workplace.target(job)
        if target.table is None:
            raise HistoryError(f"job {job.job!r} has no target yet", hint=f"run `{hints.run(job.job)}` to create it")
        cursor = require_cursor(job.job, target, place)
        proofs = {"target": None if cursor.state is None else cursor.state.proof, "quarantine": target.held}
        if target.quarantine is None:  # it may be lost
            proofs["quarantine"] = cursor.held
        if lacking := [name for name, each in proofs.items() if each is None]:
            raise HistoryError(
                f"no proof is recorded for the {' and the '.join(lacking)} of {job.job!r}: its last commit says none,"
                " or its log has forgotten it",
                hint=f"run `{hints.repair(job.job)}`, which compares all rows and records it",
            )
        beside = target.quarantine.table if target.quarantine else None
        asked = {"target": (target.table, cursor.columns), "quarantine": (beside, (*cursor.columns, FAILED_COLUMN))}
        counted = self.workplace.work_inside(lambda own: {name: _prove(own, *each) for name, each in asked.items()})
        found = {name: {"recorded": proofs[name], "counted": counted[name]} for name in asked}
        check = Check(job.job, EQUAL, others=target.others, proof=found, target_version=target.table.version)
        if not check.unproven:
            return check
        told = []
        for name in check.unproven:
            should, does = (each[0] if each else 0 for each in (proofs[name], counted[name]))
            what = f"{should} rows, not {does}" if should != does else f"{should} rows with other values"
            told.append(f"the {name} should have {what}")
        message = f"job {job.job!r}: tables do not hold what their commits say: {'; '.join(told)}"
        hint = f"run `{hints.verify(job.job)}`, which says how many rows differ, then `{hints.repair(job.job)}`"
        if target.table.is_widened:
            hint = f"a column's type was widened, as digits of a decimal: run `{hints.refresh(job.job)}`"
        error = EnrichError(message, hint=hint)
        return replace(check, status=DIFFERENT, error=str(error), exit_code=DriftError.exit_code)

    def _compare_with(self, against: str, opened: OpenJob, session: SparkSession) -> Check:
        """Compare the target with a table made elsewhere: by their proofs, and row by row only where these differ."""
        from enrich.delta.reads import read_snapshot
        from enrich.steps.run import identify_rows

        target, project = require_target(opened), self.workplace.project
        names, cursor = opened.list_recorded(target.columns), opened.target.cursor
        other = read_state(self.workplace.locate(project.location(project.resolve(against))) or against)
        if lacking := [name for name in names if find(name, other.columns) is None]:
            raise ConfigError(f"{against} has no column {lacking[0]!r}", hint=f"build it with {', '.join(names)}")
        recorded = cursor.state.proof if cursor is not None and cursor.state is not None else None
        proof = {"target": {"recorded": recorded, "counted": _prove(session, other, names)}}
        check = Check(opened.job.job, EQUAL, others=opened.target.others, proof=proof, target_version=target.version)
        if recorded is not None and not (check.unproven or check.others):
            return check
        theirs = read_snapshot(session, other.uri, other.version, names)
        found = _compare_columns(_read_written(opened, session), theirs, identify_rows(opened), exact=True)
        check = replace(check, target=Discrepancy(found["gone"], found["added"], found["changed"]))
        if check.target == Discrepancy():
            return check
        hint = f"run `{hints.verify(opened.job.job)}`, which says whether it is the target that is wrong"
        said = EnrichError(f"the target of {opened.job.job!r} and {against} have other rows", hint=hint)
        return replace(check, status=DIFFERENT, error=str(said), exit_code=DriftError.exit_code)

    def _record_repair(self, job: Job, started: float) -> Check:
        """Record a commit that is in the log as the job's outcome, and return what was found and is mended."""
        done = replace(self.workplace.committed[job.job], status=UPDATED, seconds=round(time.monotonic() - started, 3))
        mended = replace(self.compared[job.job], status=REPAIRED, target_version=done.target_version)
        self.repaired[job.job] = mended
        outcome = replace(done, quarantine=self.workplace.count_quarantined(job))
        recorded = record_outcome(self.workplace, outcome.with_findings(list_unjudged(job.rules, ())))
        return replace(mended, error=recorded.error, exit_code=recorded.exit_code)

    def _compare_rows(self, plan: Plan, session: SparkSession) -> Check:
        """Compute all rows at the recorded versions, compare them, and write the difference if that was asked for."""
        from enrich import pipeline
        from enrich.steps import publish, state
        from enrich.steps.run import read_target

        plan = self.workplace.fit(plan, session)
        name, cursor, table, others = plan.job.job, plan.target.cursor, require_target(plan), plan.target.others
        assert cursor is not None  # noqa: S101 - `decide_repair` has refused what has none
        versions = {alias: mark.to for alias, mark in cursor.sources.items()}
        gaps = {alias: [list(gap) for gap in mark.gaps] for alias, mark in cursor.sources.items() if mark.gaps}
        beside, ahead = plan.target.quarantine, dict[str, int]()
        if plan.target.is_apart and beside is not None and beside.cursor is not None:
            ahead = {alias: mark.to for alias, mark in beside.cursor.sources.items()}
        lasting = {alias: [list(gap) for gap in plan.list_open_gaps(alias)] for alias in gaps}
        with _computing(self.workplace, plan, session) as run:
            result, found = pipeline.compute(run)
            assert found is not None  # noqa: S101 - a repair computes all rows
            assert found.state is not None  # noqa: S101 - counted with the difference
            target = Discrepancy.of(found.target.difference)
            quarantine = Discrepancy() if found.quarantine is None else Discrepancy.of(found.quarantine.difference)
            rows = read_target(run)
            assert rows is not None  # noqa: S101 - `require_target` has looked
            counted = state.count_rows(plan, rows, found.state.lookups)
            recorded = plan.recorded_state
            proof = {"target": {"recorded": None if recorded is None else recorded.proof, "counted": counted.proof}}
            if not ahead and beside is not None:
                proof["quarantine"] = {"recorded": plan.target.held, "counted": found.held}
            facts = versions, target, quarantine, ahead, others, gaps, lasting, proof, recorded, counted, table.version
            check = Check(name, EQUAL, *facts)
            dry_run = plan.options.dry_run
            if dry_run and check.differences:
                message = f"the target of {name!r} is not what its job gives at the recorded versions: "
                error = EnrichError(message + ", ".join(check.differences), hint=f"run `{hints.repair(name)}`")
                return replace(check, status=DIFFERENT, error=str(error), exit_code=DriftError.exit_code)
            # A history may refuse to run while nobody knows what its quarantine contains, though all rows are right.
            is_unknown = continuity.find_apart(plan.target, cursor, plan.tables) is None
            is_wrong = is_unknown or check.differences or quarantine != Discrepancy()
            lacks_proof = any(each["recorded"] is None for each in check.proof.values())
            if dry_run or not (is_wrong or check.others or gaps != lasting or plan.lacks_state or lacks_proof):
                return check
            self.workplace.require_safe_commits(table.uri, session)
            self.compared[name] = check
            publish.write_run(run, result, found, self.workplace.runs)
            return check


def _prove(session: SparkSession, table: TableState | None, names: Sequence[str]) -> Proof:
    """Read all rows of a table, and return what proves them, some of its columns; of no rows where there is none."""
    from pyspark.sql import functions as F

    from enrich.delta import reads
    from enrich.frames.columns import PARTS, add_up, aggregate, hash_rows, read_proof

    if table is None:
        return 0, 0, 0
    names = [there for name in names if (there := find(name, table.columns)) is not None]
    rows = hash_rows(reads.read_snapshot(session, table.uri, table.version, names), write_row, names)
    count, *parts = aggregate(rows, F.count("*"), *[add_up(F.expr(part)) for part in PARTS])
    return read_proof(count, parts) or (0, 0, 0)


@contextmanager
def _computing(workplace: Workplace, plan: Plan, session: SparkSession) -> Iterator[Run]:
    """Give the run in which rows are computed; what closes its gate, two rows with one key for instance, is Blocked."""
    from enrich.steps import gate
    from enrich.steps.run import Run
    from enrich.steps.source_changes import explain_losses

    with ExitStack() as cleanup:
        run = Run(plan, session, cleanup, workplace.note_result)
        cleanup.enter_context(explain_losses(run))
        try:
            yield run
        except gate.Closed as closed:
            raise Blocked(str(gate.refuse_run(closed, plan).error)) from None


# --- What a changed job would change ----------------------------------------------------------------------------------


def diff(
    project: Project, job: str, *, other: str | None = None, spark: SparkSession | None = None, show_keys: int = 0
) -> JobDiff:
    """Compare what a job gives, as its file is now, with its target; or this target with that of another deployment.

    ``other`` is that deployment. ``show_keys`` keys of each change are kept. Nothing is written.
    """
    (name,) = choose_jobs(project, [job], ())
    workplace = Workplace(project, [name], Options(dry_run=True), given=spark)

    def compare(opened: OpenJob, session: SparkSession) -> JobDiff:
        from enrich.steps import gate, rows, source_changes

        old, known = _read_written(opened, session), dict[str, Any](deployment=project.deployment)
        if other is not None:
            with context.work_at(other):  # what has to be done there first
                there = Workplace(load_project(project.dir, target=other), [name], Options(dry_run=True), given=session)
                found = there.open_job(there.project.jobs[name], as_recorded=True)
                known |= {"with_deployment": other, "with_version": require_target(found).version}
                theirs = _read_written(found, session)
            return _tell_columns(opened, old, theirs, show_keys, known)
        plan = decide_comparison(opened)
        if plan.judging_suite is not None:
            require_extra(EXPECTATIONS)
        with _computing(workplace, plan, session) as run:
            changed = source_changes.read_changes(run)
            gate.open_account(run).add(changed.findings)
            good = gate.judge_rows(run, rows.compute_rows(run, changed, None), None).good
            return _tell_columns(plan, good.select(*map(quote, plan.spec.columns)), old, show_keys, known)

    try:
        return workplace.open_inside(workplace.open_job(project.jobs[name], as_recorded=True), compare)
    except Exception as error:  # what Spark raises becomes one line without values
        raise workplace.describe(project.jobs[name], error) from error


def _read_written(opened: OpenJob, session: SparkSession) -> DataFrame:
    """Return the target's rows, those columns that the job has written."""
    from enrich.delta import reads

    table = require_target(opened)
    return reads.read_snapshot(session, table.uri, table.version, opened.list_recorded(table.columns))


def _tell_columns(opened: OpenJob, new: DataFrame, old: DataFrame, most: int, known: Mapping[str, Any]) -> JobDiff:
    """Compare two tables of a job, by key and column by column."""
    from enrich.steps.run import identify_rows

    found, cursor = _compare_columns(new, old, identify_rows(opened), most), opened.target.cursor
    differs = found["added"] or found["gone"] or found["changed"] or any(each["change"] for each in found["columns"])
    return JobDiff(
        **known,
        **found,
        job=opened.job.job,
        exit_code=DriftError.exit_code if differs else 0,
        versions={alias: table.version for alias, table in opened.tables.items()},
        target_version=require_target(opened).version,
        definition_changed=cursor is not None and cursor.definition != opened.definition,
    )


_NEW, _OLD, _CHANGE, _PLACE = "__enrich_new", "__enrich_old", "__enrich_change", "_place"


def _compare_columns(
    new: DataFrame, old: DataFrame, identity: Identity, most: int = 0, *, exact: bool = False
) -> dict[str, Any]:
    """Compare all rows of two tables of one job by key; a column of another type as the new type has its old value.

    ``exact``: a value that the new type cannot hold whole is another one; a text may be any that has the value.
    Of rows with one key the first meets the first, and so on: what one table has more of them is added, or gone.
    Returns the fields of a ``JobDiff``. ``compared`` is false where the keys have other columns or types.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from enrich.frames.columns import aggregate, make_comparable, write_key
    from enrich.frames.difference import can_compute

    fields, were = ({each.name.lower(): each for each in rows.schema.fields} for rows in (new, old))
    columns = dict[str, dict[str, Any]]()
    for low in dict.fromkeys([*were, *fields]):
        name = (fields.get(low) or were[low]).name
        after, before = (side[low].dataType.simpleString() if low in side else None for side in (fields, were))
        what = "added" if before is None else "gone" if after is None else "type" if before != after else None
        columns[low] = {"name": name, "change": what, "before": before, "after": after, "rows": None}
    parts = [name.lower() for name in (*identity.left, *identity.right)]
    known = {"compared": False, "columns": [*columns.values()], "added": 0, "gone": 0, "changed": 0}
    if any(low not in columns or columns[low]["change"] is not None for low in parts):
        return known | {"added": new.count(), "gone": old.count()}

    def pack(rows: DataFrame, row: str) -> DataFrame:
        keys = [part.alias(f"{row}_{name}") for name, part in identity.of().items()]
        packed = rows.select(*keys, F.struct(*[F.col(quote(name)) for name in rows.columns]).alias(row))
        same = Window.partitionBy(*packed.columns[:-1]).orderBy(F.lit(1))
        return packed.withColumn(f"{row}{_PLACE}", F.row_number().over(same))

    condition = [identity.same(F.col(f"{_NEW}_{name}"), F.col(f"{_OLD}_{name}")) for name in identity.names]
    condition.append(F.col(_NEW + _PLACE) == F.col(_OLD + _PLACE))
    pairs = pack(new, _NEW).join(pack(old, _OLD), on=reduce(and_, condition), how="full")
    now, then = F.col(_NEW), F.col(_OLD)
    there = now.isNotNull() & then.isNotNull()
    flags: dict[str, Column] = {}
    for low in [low for low in fields if low in were]:
        kind, was, theirs = fields[low].dataType, were[low].dataType, then.getField(were[low].name)
        value, is_lost = theirs, F.lit(False)
        if kind.simpleString() != was.simpleString():
            cast = theirs.try_cast(kind)
            back = cast.try_cast(was) if exact and was.typeName() != "string" else cast
            value = cast if can_compute(pairs, back) else F.lit(None).cast(kind)
            is_lost = value.isNull() & theirs.isNotNull()
            if back is not cast:
                is_lost |= ~make_comparable(value.try_cast(was), was).eqNullSafe(make_comparable(theirs, was))
        same = make_comparable(now.getField(fields[low].name), kind).eqNullSafe(make_comparable(value, kind))
        flags[low] = there & (~same | is_lost)
    change = F.when(then.isNull(), "added").when(now.isNull(), "gone")
    change = change.when(reduce(or_, flags.values()), "changed")
    keys = [F.coalesce(F.col(f"{_NEW}_{name}"), F.col(f"{_OLD}_{name}")) for name in identity.names]
    texts = [write_key(key, fields[low].dataType) for key, low in zip(keys, parts, strict=True)]
    marked = pairs.select(
        change.alias(_CHANGE),
        F.array(*texts).alias("key"),
        *[flag.alias(f"c{place}") for place, flag in enumerate(flags.values())],
    )
    sides = ("added", "gone", "changed")
    sums = [F.count_if(F.col(_CHANGE) == side) for side in sides]
    added, gone, changed, *counts = aggregate(marked, *sums, *[F.count_if(f"c{place}") for place in range(len(flags))])
    told = [
        (side, {fields[low].name: text for low, text in zip(parts, row["key"], strict=True) if text is not None})
        for side in sides
        if most
        for row in marked.where(F.col(_CHANGE) == side).orderBy("key").limit(most).collect()
    ]
    for low, count in zip(flags, counts, strict=True):
        columns[low]["rows"] = count
    return known | {"compared": True, "added": added, "gone": gone, "changed": changed, "keys": told}
