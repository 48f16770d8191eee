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
from enrich.operations import choice
from enrich.operations.workplace import Options, Workplace
from enrich.progress.prepare import open_task
from enrich.progress.since import Bounds
from enrich.progress.task import Task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Answer = TypeVar("Answer")


def check_name(project: Project, name: str) -> str:
    """Return the name of a job.

    Raises:
        ConfigError: There is none of this name.
    """
    return choice.choose_jobs(project, [name], ())[0]


def open_recorded(
    project: Project, name: str, spark: SparkSession | None, beside: Iterable[str] = ()
) -> tuple[Workplace, Task]:
    """Return where a job is asked about, and what it had to do at the versions that its target contains.

    A session that is built for it fits the tables of the jobs ``beside`` it, too.

    Raises:
        ConfigError: No such job, or it does not fit its tables.
        HistoryError: A source's log does not know the recorded version any more.
    """
    chosen = choice.choose_jobs(project, [name, *beside], ())
    workplace = Workplace(project, chosen, Options(), "", spark)
    try:
        return workplace, workplace.task(project.jobs[name], as_recorded=True)
    except RefreshNeeded as error:
        raise workplace.describe(project.jobs[name], error) from error


def rewind(workplace: Workplace, task: Task) -> Task:
    """Let the task's window end where the target's cursor does.

    Raises:
        HistoryError: The target's definition or sources are not those that it was written from.
        DriftError: Somebody else changed the target.
    """
    try:
        task = open_task(task, full_refresh=False, bounds=Bounds(allow_gap=True))
    except RefreshNeeded as error:
        raise workplace.describe(task.job, error) from error
    starts = {alias: each.gap[0] if each.gap is not None else each.start for alias, each in task.window.items()}
    consumed = {alias: start if start is not None else task.window[alias].to for alias, start in starts.items()}
    return replace(task, window={alias: SourceWindow(version, version) for alias, version in consumed.items()})


def answer_inside(workplace: Workplace, task: Task, answer: Callable[[Inquiry], Answer]) -> Answer:
    """Answer with the job opened in Spark; what Spark raises becomes one line without values.

    The job is compiled against the tables of ``task``; the answer sees their latest versions.
    """

    def work(ready: Task, session: SparkSession) -> Answer:
        latest = {alias: workplace.table(source.table) for alias, source in task.job.sources.items()}
        with ExitStack() as cleanup:
            return answer(Inquiry(replace(ready, tables=latest), session, cleanup, workplace=workplace))

    try:
        return workplace.open_inside(task, work)
    except (PySparkException, Py4JJavaError) as error:
        raise workplace.describe(task.job, error) from error
