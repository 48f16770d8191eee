"""Run jobs for those who ask, and tell those whom ``conf/`` names what happens."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from enrich.base.errors import ConfigError, EnvironmentFault, find_gravest
from enrich.base.failures import LINEAGE, install
from enrich.base.result import SKIPPED, JobResult, RunResult
from enrich.delta.runs import RunsTable
from enrich.operations.loading import choose_jobs, read_run_options
from enrich.operations.runner import Watch, run_jobs
from enrich.operations.workplace import Workplace
from enrich.progress.continuity import measure_lag
from enrich.progress.cursor import Mark
from enrich.progress.plan import Plan
from enrich.progress.since import Said
from enrich.project.models import Reference
from enrich.project.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.observe.lineage import Sender
    from enrich.observe.notify import Recipient

log = logging.getLogger("enrich")

METRICS_SECONDS, PREVIOUS_SECONDS = 10.0, 10.0
INTERRUPTED_SECONDS = 1.5  # what each of them gets after a signal: the process has to end within seconds


def run(  # noqa: PLR0913 - the public interface: every keyword is an option of `enrich run`
    project: Project,
    jobs: Sequence[str] | None = None,
    *,
    exclude: Iterable[str] = (),
    spark: SparkSession | None = None,
    since: Said = None,
    until: Said = None,
    allow_gap: bool = False,
    full_refresh: bool = False,
    dry_run: bool = False,
    accept: Iterable[str] = (),
    max_bytes: int | str | None = None,
    fail_fast: bool = False,
    on_result: Callable[[JobResult], None] | None = None,
) -> RunResult:
    """Run jobs in the order of their dependencies.

    Args:
        project: What ``load_project`` gave.
        jobs: Names; None for all.
        exclude: Names to leave out.
        spark: A Delta-capable session, left as it was found; None: the active one, or one is built when there is work.
        since: Widen each window back to here, in a form of ``enrich.progress.since``; several as a sequence or
            comma-separated.
        until: End each window here; the same forms. With both, replay that window.
        allow_gap: Let ``since`` skip changes that are not in the target yet, and histories those that no feed tells
            any more; the cursor records the gap.
        full_refresh: Compute every row anew and write the difference.
        dry_run: Compute and count, write nothing.
        accept: Rules of the jobs (``mass_change`` ...) that shall warn in this run where they would block it.
        max_bytes: Refuse each job that would read more, before it reads anything: bytes, or a text such as ``20GB``.
        fail_fast: Skip the remaining jobs after the first that does not succeed.
        on_result: Called with each job's result as it ends.

    Returns:
        One result per job; a failed job is a result, not an exception.

    Raises:
        ConfigError: An unknown job, or an option that cannot be honoured.
    """
    names = choose_jobs(project, jobs, exclude)
    options = read_run_options(
        *(project, names, since, until),
        accept=accept,
        max_bytes=max_bytes,
        allow_gap=allow_gap,
        full_refresh=full_refresh,
        dry_run=dry_run,
    )
    workplace = Workplace(project, names, options, given=spark, by_changes=True)
    told = project.settings.lineage or project.settings.metrics or project.settings.notify
    watch = Watch() if dry_run or not told else Observer(project, workplace.run_id)
    return run_jobs(workplace, watch, fail_fast=fail_fast, on_result=on_result)


class Observer(Watch):
    """Tells those whom ``conf/`` names about the jobs of one run."""

    def __init__(self, project: Project, run_id: str) -> None:
        self.project = project
        self.run_id = run_id
        self.plans: dict[str, Plan] = {}
        self.results: list[JobResult] = []
        self.interrupted = False
        self.recipients = _open_recipients(project)
        self.sender = _open_sender(project, run_id)
        self.previous: dict[str, str] = {}
        if self.recipients:
            self._guard("notify", PREVIOUS_SECONDS, self._read_previous)

    def start(self, job: str) -> None:
        """Take note that a job begins."""
        self._send(f"the start of {job}", lambda sender: sender.start(job))

    def plan(self, plan: Plan) -> None:
        """Take note of what a job has to do, once that is known."""
        self.plans[plan.job.job] = plan

    def end(self, result: JobResult) -> None:
        """Take note of how a job ended; a job that was skipped has not begun."""
        self.results.append(result)
        if result.status != SKIPPED:
            self._send(f"the end of {result.job}", lambda sender: sender.end(result, self.plans.get(result.job)))

    def abort(self, job: str, done: JobResult | None) -> None:
        """Take note that the run was interrupted; ``done`` is the job's result where it has committed all the same."""
        self.interrupted = True
        if done is not None:
            self.end(done)
        else:
            self._send(f"the end of {job}", lambda sender: sender.abort(job))

    def finish(self, *, interrupted: bool) -> None:
        """Write the figures and notify: the run is over, whatever came of it."""
        self.interrupted = self.interrupted or interrupted
        if not self.results:
            return
        if (metrics := self.project.settings.metrics) is not None:
            self._guard("metrics", METRICS_SECONDS, partial(self._write_metrics, self.project.dir / metrics.file))
        for name, recipient in self.recipients.items():
            self._guard(f"notify.{name}", recipient.settings.timeout + 1, partial(self._notify, recipient))

    def _guard(self, what: str, seconds: float, work: Callable[[], object]) -> bool:
        """Do something that must not fail the run, nor hold it up; say once what came of it, and return whether it did.

        Texts of other libraries quote addresses, so only the class of an error is told.
        """
        from enrich.observe.notify import NotDelivered

        bound = min(seconds, INTERRUPTED_SECONDS) if self.interrupted else seconds
        try:
            run_within(bound, work)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong here, the run is done and recorded
            why = f"no answer for {bound:g} s" if isinstance(error, TooLate) else type(error).__name__
            why = str(error) if isinstance(error, NotDelivered | ConfigError) else why
            log.warning("%s: not delivered (%s); the run goes on", what, why)
            return False
        return True

    def _send(self, what: str, send: Callable[[Sender], None]) -> None:
        """Send an event; after one that fails, no more are sent, so that the run waits once and not for each job."""
        sender, settings = self.sender, self.project.settings.lineage
        if sender is None or settings is None:
            return
        if not self._guard(f"lineage: {what}, and what follows in this run", settings.timeout, lambda: send(sender)):
            self.sender = None

    @cached_property
    def _lags(self) -> dict[str, dict[str, float]]:
        """For each job that began, how long the oldest change of each source waits, where that is known."""
        lags: dict[str, dict[str, float]] = {}
        for result in self.results:
            plan, found = self.plans.get(result.job), lags.setdefault(result.job, {})
            if plan is None:
                continue
            for alias, source in plan.job.sources.items():
                mark, table = plan.target.marks.get(alias), plan.tables[alias]
                if result.exit_code == 0 and alias in result.sources:
                    to = result.sources[alias].to
                    mark = Mark(table.table_id, None, to, {}, commit=table.commit if to == table.version else None)
                seconds = measure_lag(alias, source.table, table.uri, mark).seconds
                if seconds is not None:
                    found[alias] = seconds
        return lags

    def _write_metrics(self, file: Path) -> None:
        from enrich.observe.metrics import write_metrics

        deployment = (self.project.deployment, frozenset(self.project.jobs))
        write_metrics(file, deployment, self.results, self._lags)

    def _read_previous(self) -> None:
        """Read how the jobs ended before this run."""
        settled = RunsTable(self.project.state).read_latest(judged=True)
        for name, job in self.project.jobs.items():
            if (place := (name, str(self.project.location(job.target.table)))) in settled:
                self.previous[name] = settled[place]["status"]

    def _notify(self, recipient: Recipient) -> None:
        """Tell one recipient what it wants to know of this run, if there is anything."""
        from enrich.observe.notify import EndedRun, build_body, build_event, post

        code = find_gravest(result.exit_code for result in self.results)
        run = EndedRun(self.project.dir.name, self.project.deployment, self.run_id, code)
        owners = {name: job.owner for name, job in self.project.jobs.items()}
        lags = self._lags if "late" in recipient.settings.on else {}
        waiting = {job: max(found.values(), default=0.0) for job, found in lags.items()}
        event = build_event(recipient.settings, run, self.results, self.previous, owners, waiting)
        if event is not None:
            post(recipient, build_body(recipient.settings, event))


def _resolve(project: Project, reference: Reference, name: str) -> str:
    """Return a secret, which messages call ``name``; a ConfigError says where it should be, never what is there."""
    where = f"conf/{project.deployment}.yml"
    if reference.env is not None:
        if found := os.environ.get(reference.env, "").strip():
            return found
        raise ConfigError(f"{where}: the environment variable {reference.env} of '{name}' is not set", hint="set it")
    path = project.dir / (reference.file or "")
    try:
        found = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        said = f"{where}: the file {str(path)!r} of '{name}' cannot be read: {why}"
        raise ConfigError(said, hint="create it") from None
    if not found:
        raise ConfigError(f"{where}: the file {str(path)!r} of '{name}' is empty", hint="write the value into it")
    return found


def _open_recipients(project: Project) -> dict[str, Recipient]:
    """Return who is to be told, with the secrets in place; one that is missing, or no address, is a ConfigError."""
    if not project.settings.notify:
        return {}
    from enrich.observe.notify import Recipient

    found = {}
    for name, settings in project.settings.notify.items():
        place = f"notify.{name}"
        url = _resolve(project, settings.url, f"{place}.url")
        if not re.match(r"https?://[^/\s]", url):
            hint = "put the whole address there, with https://"
            raise ConfigError(f"conf/{project.deployment}.yml: what '{place}.url' names is no http address", hint=hint)
        headers = {each: _resolve(project, at, f"{place}.headers.{each}") for each, at in settings.headers.items()}
        found[name] = Recipient(settings, url, headers)
    return found


def _open_sender(project: Project, run_id: str) -> Sender | None:
    """Return what sends lineage; None where ``conf/`` asks for none.

    A key that is missing is a ConfigError, a client of OpenLineage that is not installed an EnvironmentFault.
    """
    settings = project.settings.lineage
    if settings is None:
        return None
    api_key = None if settings.api_key is None else _resolve(project, settings.api_key, "lineage.api_key")
    try:
        from enrich.observe.lineage import Sender
    except ModuleNotFoundError as error:
        hint = f"run `{install(LINEAGE)}`, or remove 'lineage' from the conf file"
        raise EnvironmentFault(f"'lineage' needs the package openlineage-python ({error.name})", hint=hint) from None
    try:
        return Sender(project, run_id, settings, api_key)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise EnvironmentFault(
            f"the directory of 'lineage.file' cannot be made: {reason}", hint="check its permissions"
        ) from None


# --- Work that may take so long and no longer, whatever it waits for: a name server, a full pipe, a disk ------------


class TooLate(TimeoutError):
    """The time was up; the work may still go on, but nobody waits for it."""


def run_within(seconds: float, work: Callable[[], object]) -> None:
    """Do ``work`` in a thread that does not keep the process alive, wait for it no longer, and raise what it raised.

    That is TooLate where it took longer.
    """
    raised: list[Exception] = []

    def do() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - handed over to the thread that waits
            raised.append(error)

    # With the context of the caller: what is logged there belongs to the same run and job.
    thread = threading.Thread(target=copy_context().run, args=(do,), name="enrich-observe", daemon=True)
    thread.start()
    thread.join(max(seconds, 0.0))
    if raised:
        raise raised[0]
    if thread.is_alive():
        raise TooLate
