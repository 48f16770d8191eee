"""Open a job to ask about it: its sources as its target has consumed them, and their later versions beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from enrich.base.errors import RefreshNeeded
from enrich.base.result import SourceWindow
from enrich.config.project import Project
from enrich.diagnosis.upstream import Inquiry
from enrich.operations import loading
from enrich.operations.workplace import Options, Workplace
from enrich.progress.decision import decide_plan
from enrich.progress.plan import OpenJob, Plan
from enrich.progress.since import Bounds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Answer = TypeVar("Answer")


def check_name(project: Project, name: str) -> str:
    """Return the name of a job.

    Raises:
        ConfigError: There is none of this name.
    """
    return loading.choose_jobs(project, [name], ())[0]


def open_recorded(
    project: Project, name: str, spark: SparkSession | None, beside: Iterable[str] = ()
) -> tuple[Workplace, OpenJob]:
    """Return where a job is asked about, and what it had to do at the versions that its target contains.

    A session that is built for it fits the tables of the jobs ``beside`` it, too.

    Raises:
        ConfigError: No such job, or it does not fit its tables.
        HistoryError: A source's log does not know the recorded version any more.
    """
    chosen = loading.choose_jobs(project, [name, *beside], ())
    workplace = Workplace(project, chosen, Options(), "", spark)
    try:
        return workplace, workplace.open_job(project.jobs[name], as_recorded=True)
    except RefreshNeeded as error:
        raise workplace.describe(project.jobs[name], error) from error


def rewind(workplace: Workplace, opened: OpenJob) -> Plan:
    """Let the job's window end where the target's cursor does.

    Raises:
        HistoryError: The target's definition or sources are not those that it was written from.
        DriftError: Somebody else changed the target.
    """
    try:
        plan = decide_plan(opened, full_refresh=False, bounds=Bounds(allow_gap=True))
    except RefreshNeeded as error:
        raise workplace.describe(opened.job, error) from error
    starts = {alias: each.gap[0] if each.gap is not None else each.start for alias, each in plan.window.items()}
    consumed = {alias: start if start is not None else plan.window[alias].to for alias, start in starts.items()}
    return replace(plan, window={alias: SourceWindow(version, version) for alias, version in consumed.items()})


def answer_inside(workplace: Workplace, plan: Plan, answer: Callable[[Inquiry], Answer]) -> Answer:
    """Answer with the job opened in Spark; what Spark raises becomes one line without values.

    The job is compiled against the tables of ``plan``; the answer sees their latest versions.
    """

    def run(ready: Plan, session: SparkSession) -> Answer:
        latest = {alias: workplace.table(source.table) for alias, source in plan.job.sources.items()}
        with ExitStack() as cleanup:
            return answer(Inquiry(replace(ready, tables=latest), session, cleanup, workplace=workplace))

    try:
        return workplace.open_inside(plan, run)
    except (PySparkException, Py4JJavaError) as error:
        raise workplace.describe(plan.job, error) from error
