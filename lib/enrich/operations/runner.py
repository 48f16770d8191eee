"""Run all jobs in their order: one consistent cut of their sources, one result; a JVM only when there is work."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from enrich.base import context, failures, hints
from enrich.base.errors import SourceMoved
from enrich.base.failpoints import pass_point
from enrich.base.result import APPEND, CREATED, FAILED, MERGE, NOTHING, SKIPPED, UNCHANGED, JobResult, RunResult
from enrich.delta import extents, locks
from enrich.delta.runs import FORMAT, OUTCOME, RunRow
from enrich.operations.planning import refuse_beyond_cap
from enrich.operations.workplace import Workplace
from enrich.progress.decision import decide_plan
from enrich.progress.plan import Plan
from enrich.project.models import Job
from enrich.project.project import find_edges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("enrich")

T = TypeVar("T")
PAUSES = (0.5, 1.5, 4.0)  # seconds before the next attempt, half of it more or less


def retry(attempt: Callable[[], T], job: str, run_id: str, is_final: Callable[[], bool]) -> T:
    """Make attempts until one succeeds, is the last, or fails for a reason that a fresh plan does not heal.

    Rows that got lost are computed anew once: where it happens again, executors die of the job itself. ``run_id``
    decides how long this run waits, so that two do not wait in step; ``is_final``: the job is done despite the error.
    """
    losses = 0
    for pause in PAUSES:
        try:
            return attempt()
        except Exception as error:
            lost = failures.has_lost_rows(error)
            losses += lost
            is_value = failures.find_value_fault(error) is not None  # its text may quote what looks like a conflict
            if is_final() or is_value or losses > 1 or not (lost or failures.is_conflict(error)):
                raise
            what = "an executor was lost with computed rows" if lost else "another writer committed meanwhile"
            log.info("%s: %s (%s); planning again", job, what, type(error).__name__)
        time.sleep(pause * (0.5 + int(run_id[:4], 16) / 0xFFFF))
    return attempt()


class Watch:
    """Who is told what a run does, by a subclass; nobody is. Nothing that happens there reaches the run."""

    def start(self, job: str) -> None:
        """Take note that a job begins."""

    def plan(self, plan: Plan) -> None:
        """Take note of what a job has to do, once that is known."""

    def end(self, result: JobResult) -> None:
        """Take note of how a job ended."""

    def abort(self, job: str, done: JobResult | None) -> None:
        """Take note that the run was interrupted; ``done`` is the job's result where it has committed all the same."""

    def finish(self, *, interrupted: bool) -> None:
        """Take note that the run is over; ``interrupted``: the process has to end soon."""


def run_jobs(
    workplace: Workplace, watch: Watch, *, fail_fast: bool = False, on_result: Callable[[JobResult], None] | None = None
) -> RunResult:
    """Run the jobs of a workplace in their order; a failed job is a result, not an exception."""
    names, dry_run = workplace.chosen, workplace.options.dry_run
    context.begin_run(workplace.run_id)
    running = _Running(workplace, watch, on_result or (lambda _: None))
    workplace.pin()
    results: list[JobResult] = []
    try:
        for name in names:
            stopped = fail_fast and any(each.exit_code for each in results)
            with context.work_on(name):
                results.append(running.take(name, "an earlier job did not succeed" if stopped else None))
    finally:
        watch.finish(interrupted=len(results) < len(names))
    if not dry_run and (workplace.built is not None or any(each.status != UNCHANGED for each in results)):
        from enrich import report

        report.write_latest(workplace.project)
    return RunResult(workplace.run_id, workplace.project.deployment, tuple(results), dry_run)


@dataclass
class _Running:
    """One run: its workplace, who is told of it, and what became of each job."""

    workplace: Workplace
    watch: Watch
    on_result: Callable[[JobResult], None]
    done: dict[str, JobResult] = field(default_factory=dict)

    def take(self, name: str, stopped: str | None) -> JobResult:
        """Run a job, or skip it for the reason ``stopped``, and tell what became of it.

        A signal takes its way, but what is committed is told first.
        """
        told = False
        try:
            result = self._run_job(name) if stopped is None else self._skip(name, stopped)
            told = True
            self.on_result(result)
        except BaseException:
            done = self.done.get(name)
            self.watch.abort(name, done if done is not None and done.exit_code == 0 else None)
            if done is not None and not told:
                self.on_result(done)
            raise
        self.watch.end(result)
        return result

    def _skip(self, name: str, why: str) -> JobResult:
        self.done[name] = JobResult(name, SKIPPED, error=f"skipped: {why}")
        return record_outcome(self.workplace, self.done[name])

    def _run_job(self, name: str) -> JobResult:
        """Run one job and record its outcome; never raises for what a job can do wrong."""
        workplace, project = self.workplace, self.workplace.project
        for other in find_edges(project)[name]:
            found, why = self.done.get(other), ""
            if found is not None and (found.exit_code or found.status == SKIPPED):
                why = "did not succeed" if found.exit_code else "was skipped"
            elif found is not None and found.status == CREATED and workplace.options.dry_run:
                why = "has yet to create its target: a dry run writes none"
            if why:
                return self._skip(name, f"it reads job {other!r}, which {why}")
        self.watch.start(name)
        context.note_written(f"the target of {name!r} is unchanged")
        started = time.monotonic()
        job, run_id, committed = project.jobs[name], workplace.run_id, workplace.committed
        is_dry = workplace.options.dry_run  # who writes nothing hinders nobody
        try:
            with nullcontext() if is_dry else locks.hold_lock(project.state, name, run_id):
                result = retry(lambda: self._attempt(job), name, run_id, lambda: name in committed)
        except Exception as error:  # noqa: BLE001 - a job's failure is a result; the other jobs still run
            if name in committed:  # what the log says counts, whatever went wrong after the commit
                log.warning("%s: committed, but then failed with %s", name, type(error).__name__)
                result = self._count_held(committed[name])
            else:
                result = JobResult(name, FAILED).failed_with(workplace.describe(job, error))
        except BaseException:
            if name in committed:
                self.done[name] = record_outcome(workplace, committed[name])
            raise
        self.done[name] = replace(result, seconds=round(time.monotonic() - started, 3))
        return record_outcome(workplace, self.done[name])

    def _attempt(self, job: Job) -> JobResult:
        """Plan a job and do it; the next attempt may read later versions where this one's are gone."""
        workplace = self.workplace
        log.info("%s: reading versions", job.job)
        plan = decide_plan(workplace.open_job(job))
        self.watch.plan(plan)
        table = plan.target.table
        if table is not None and plan.is_idle:
            unchanged = JobResult(job.job, UNCHANGED, plan.mode, dict(plan.window), findings=plan.unjudged)
            unchanged = replace(unchanged, target_version=table.version, strategy=NOTHING, state=plan.recorded_state)
            return self._count_held(unchanged)
        if (refused := refuse_beyond_cap(plan)) is not None:
            return self._count_held(refused)
        if plan.suite is not None:
            failures.require_extra(failures.EXPECTATIONS)  # before a JVM starts
        from enrich import pipeline

        def flow(opened: Plan, own: SparkSession) -> JobResult:
            complete = workplace.fit(opened, own)
            if complete.everything != opened.everything and (refused := refuse_beyond_cap(complete)) is not None:
                return refused
            if not plan.options.dry_run:
                workplace.require_safe_commits(complete.place.uri, own)
            complete.announce()
            self.watch.plan(complete)
            return keep_in_shape(complete, own, pipeline.run_job(complete, own, workplace.runs, workplace.note_result))

        try:
            return self._count_held(workplace.open_inside(plan, flow))
        except SourceMoved:  # the next attempt reads the latest versions, but for sources that other jobs read
            others = [workplace.project.jobs[name] for name in workplace.chosen if name != job.job]
            shared = {workplace.spot(source.table) for other in others for source in other.sources.values()}
            for spot in {workplace.spot(source.table) for source in job.sources.values()} - shared:
                workplace.pins.pop(spot or "", None)
            raise

    def _count_held(self, result: JobResult) -> JobResult:
        """Return a result with what its quarantine, and those of the jobs that it reads, hold now."""
        workplace, jobs = self.workplace, self.workplace.project.jobs
        edges = find_edges(workplace.project)
        waiting, seen = list(edges[result.job]), set[str]()  # directly or not
        while waiting:
            if (other := waiting.pop()) not in seen:
                seen.add(other)
                waiting += edges[other]
        counted = {other: workplace.count_quarantined(jobs[other]) for other in sorted(seen)}
        held = {other: found.rows for other, found in counted.items() if found is not None and found.rows}
        return replace(result, quarantine=workplace.count_quarantined(jobs[result.job]), quarantined_upstream=held)


def record_outcome(workplace: Workplace, result: JobResult) -> JobResult:
    """Append the outcome to the runs table; a state directory that cannot be written fails a job that was run."""
    if workplace.options.dry_run:
        return result
    job = workplace.project.jobs[result.job]
    target, suite = str(workplace.project.location(job.target.table)), workplace.project.suite(job)
    try:
        pass_point("outcome.before")
        told = {name: getattr(result, name) for name in ("number", "status", "mode", "exit_code", "seconds")}
        rules = [rule.fingerprint for rule in suite.rules] if suite else []
        document = {"enrich": FORMAT, "suite_rules": rules, **result.to_dict()}
        workplace.runs.append(RunRow(workplace.run_id, result.job, target, OUTCOME, document, **told))
        pass_point("outcome.after")
    except Exception as error:  # noqa: BLE001 - as in ``job``
        if not result.exit_code and result.status != SKIPPED:
            return replace(result.failed_with(failures.describe_error(error, result.job)), counts=result.counts)
    return result


def keep_in_shape(plan: Plan, session: SparkSession, result: JobResult) -> JobResult:
    """Run OPTIMIZE on the target if the run's commit leaves it out of shape and ``conf/`` does not forbid it.

    The rows are committed by then: whatever goes wrong here is a warning (ADR 21).
    """
    uri = plan.place.uri
    if result.strategy not in (MERGE, APPEND) or result.written is None or uri is None:
        return result
    try:
        why = extents.find_need(uri, plan.optimize)
        if why is None:
            return result
        from enrich.delta import upkeep

        started = time.monotonic()
        log.info("%s: OPTIMIZE of the target: %s", result.job, why)
        done = upkeep.optimize_table(session, uri, (plan.run_id, result.job), why)
        spent = {**result.stages, "optimize": round(time.monotonic() - started, 3)}
        return replace(result, optimized=done, stages=spent)
    except Exception as error:  # noqa: BLE001 - the job is done, and another run or `enrich maintain` can do this
        said = "%s: the rows are committed, but OPTIMIZE failed (%s); `%s` tries it again"
        log.warning(said, result.job, type(error).__name__, hints.maintain(result.job))
        return result
