"""Run one job as an Airflow task. Imports Airflow, its names wherever the installed version has them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from enrich.airflow.command import Child, Command, decide, describe_end, describe_success, read_result

try:
    from airflow.sdk import DAG, Asset, BaseOperator, TaskGroup
except ImportError:  # Airflow 2
    from airflow.datasets import Dataset as Asset
    from airflow.models.baseoperator import BaseOperator
    from airflow.models.dag import DAG
    from airflow.utils.task_group import TaskGroup

try:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
except ImportError:  # before 3.2
    from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException

__all__ = ["DAG", "Asset", "EnrichRunOperator", "TaskGroup"]


class EnrichRunOperator(BaseOperator):
    """Run one job with ``enrich run`` in a process of its own; its result becomes the XCom.

    Args:
        project_dir: The project directory on the worker, absolute.
        job: The job.
        target: The deployment, ``conf/<target>.yml``.
        executable: The command ``enrich``: one word, or a list such as ``[python, "-m", "enrich"]``.
        arguments: Further options of ``enrich run``, a word each; templates are rendered.
        env: Variables that the process has in addition to the worker's; templates are rendered.
        until_interval_end: Take changes up to the end of the data interval only. Where a run has no data interval,
            as when an asset started it, all changes are taken.
        retries: How often to try again after the exit codes 1, 4 and 7, and after signals.
        kwargs: What every operator takes.

    Raises:
        ConfigError: ``arguments`` has an option that the task sets itself, or is text and no template.
    """

    template_fields: Sequence[str] = ("arguments", "env")
    template_fields_renderers: ClassVar[dict[str, str]] = {"env": "json"}
    ui_color = "#dfeee6"
    _child: Child | None = None

    def __init__(  # noqa: PLR0913 - Airflow gives an operator its arguments, and default_args, by these names
        self,
        *,
        project_dir: str | os.PathLike[str],
        job: str,
        target: str = "dev",
        executable: str | Sequence[str] = "enrich",
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        until_interval_end: bool = False,
        retries: int = 2,
        **kwargs: Any,
    ) -> None:
        super().__init__(retries=retries, **kwargs)
        self.project_dir = os.fspath(project_dir)
        self.job = job
        self.target = target
        self.executable = (executable,) if isinstance(executable, str) else tuple(executable)
        self.arguments = arguments
        self.env = env
        self.until_interval_end = until_interval_end
        is_plain = isinstance(arguments, str) and "{{" not in arguments and "{%" not in arguments
        if is_plain or isinstance(arguments, list | tuple):
            self._command().check(ends=until_interval_end)

    def execute(self, context: Mapping[str, Any]) -> dict[str, Any] | None:
        """Run the job and return its result.

        Raises:
            AirflowSkipException: There was nothing to do.
            AirflowFailException: Running again does not help: exit codes 2, 3, 5, 6.
            AirflowException: Running again may help.
        """
        end = context.get("data_interval_end") if self.until_interval_end else None
        if self.until_interval_end and end is None:
            self.log.info("this DAG run has no data interval: all changes are taken")
        line = self._command().line(end)
        self.log.info("Running: %s", shlex.join(line))
        try:
            self._child = Child(line, {**os.environ, **(self.env or {})})
        except OSError as error:
            why = f"{line[0]!r} cannot be started: {error.strerror}"
            raise AirflowException(f"{why}; install enrich on the worker, or give executable") from error
        exit_code, stdout = self._child.follow(lambda text: self.log.info("%s", text))
        result, verdict = read_result(stdout), decide(exit_code)
        if verdict == "success" and result is not None:
            self.log.info("%s", describe_success(result))
            return result
        if result is not None and self.do_xcom_push:  # what a run that raises leaves is read all the same
            context["ti"].xcom_push(key="return_value", value=result)
        if verdict == "skip":
            raise AirflowSkipException(f"job {self.job!r} has nothing to do")
        message = describe_end(self.job, exit_code, result)
        raise AirflowFailException(message) if verdict == "fail" else AirflowException(message)

    def on_kill(self) -> None:
        """End the process; a run that is ended leaves its target as it was."""
        if self._child is not None:
            self._child.end()

    def _command(self) -> Command:
        return Command(self.project_dir, self.job, self.target, self.executable, self.arguments)
