"""OpenLineage events of every job of a run, by the project's own client: START, then COMPLETE, FAIL or ABORT.

The run's id in an event belongs to one job of one run of enrich. ``OPENLINEAGE_PARENT_ID`` (namespace/job/run), which
schedulers set, names the run that has started it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    error_message_run,
    execution_parameters_run,
    job_type_job,
    parent_run,
    processing_engine_run,
    test_run,
)
from openlineage.client.transport.file import FileConfig, FileTransport
from openlineage.client.transport.http import HttpConfig, HttpTransport
from openlineage.client.transport.transport import Transport

from enrich.base.extras import read_version
from enrich.base.result import LOCKED, Finding, JobResult
from enrich.config.models import Lineage
from enrich.config.project import Project
from enrich.observe.tables import describe_inputs, describe_outputs
from enrich.progress.task import Task

_ENDED_BADLY = {LOCKED: RunState.ABORT}
_RETRY = {"total": 2, "read": 0, "backoff_factor": 0.1}
"""An event whose answer does not come may have been taken: it is not sent again."""


def build_transport(settings: Lineage, project: Project, api_key: str | None) -> Transport:
    """Return what carries the events to the file or the server that the conf file names."""
    if settings.file is not None:
        path = project.dir / settings.file
        path.parent.mkdir(parents=True, exist_ok=True)
        return FileTransport(FileConfig(log_file_path=str(path), append=True))
    auth = {} if api_key is None else {"auth": {"type": "api_key", "apiKey": api_key}}
    address = {"url": settings.url or "", "endpoint": settings.endpoint, "timeout": float(settings.timeout)}
    return HttpTransport(HttpConfig.from_dict({**address, "retry": _RETRY, **auth}))


class Sender:
    """Makes and sends the events of one run.

    Args:
        project: The project.
        run_id: The run of enrich.
        settings: What the conf file says of lineage.
        api_key: The key for the server.
    """

    def __init__(self, project: Project, run_id: str, settings: Lineage, api_key: str | None) -> None:
        self.project = project
        self.run_id = run_id
        self.namespace = settings.namespace or f"enrich/{project.deployment}"
        self.client = OpenLineageClient(transport=build_transport(settings, project, api_key))

    def start(self, job: str) -> None:
        """Say that a job begins."""
        self._send(job, RunState.START, {})

    def end(self, result: JobResult, task: Task | None) -> None:
        """Say how a job ended, with its tables as far as they are known.

        Args:
            result: Its result.
            task: What it had to do; None when it did not get that far.
        """
        facets: dict[str, Any] = {}
        if task is not None:
            facets |= self._describe_windows(result)
        if result.findings:
            facets["test"] = test_run.TestRunFacet([describe_test(each) for each in result.findings])
        if result.error is not None:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(result.error, "python")
        state = RunState.COMPLETE if result.exit_code == 0 else _ENDED_BADLY.get(result.status, RunState.FAIL)
        inputs = describe_inputs(self.project, task, result, self.namespace) if task is not None else []
        done = task is not None and state is RunState.COMPLETE
        outputs = describe_outputs(self.project, task, result, self.namespace) if done and task is not None else []
        self._send(result.job, state, facets, inputs, outputs)

    def abort(self, job: str) -> None:
        """Say that a job was interrupted."""
        self._send(job, RunState.ABORT, {})

    def _send(
        self,
        job: str,
        state: RunState,
        facets: Mapping[str, Any],
        inputs: list[InputDataset] | None = None,
        outputs: list[OutputDataset] | None = None,
    ) -> None:
        version = read_version()
        engine = processing_engine_run.ProcessingEngineRunFacet(version, "enrich")
        known = {"processing_engine": engine, **describe_parent(), **facets}
        kind = job_type_job.JobTypeJobFacet("BATCH", "ENRICH", "JOB")
        self.client.emit(
            RunEvent(
                eventTime=datetime.now(UTC).isoformat(),
                eventType=state,
                run=Run(str(uuid5(UUID(self.run_id), job)), known),
                job=Job(self.namespace, job, {"jobType": kind}),
                inputs=inputs or [],
                outputs=outputs or [],
                producer=f"urn:x-enrich:{version}",
            )
        )

    def _describe_windows(self, result: JobResult) -> dict[str, Any]:
        """Return the facet of what the run was about: its id, its mode, the versions that it took of each source."""
        told: dict[str, object] = {"run_id": self.run_id, "mode": result.mode}
        for alias, window in result.sources.items():
            told |= {f"sources.{alias}.from": window.start, f"sources.{alias}.to": window.to}
        parameters = [
            execution_parameters_run.ExecutionParameter(key=key, value=str(value))
            for key, value in told.items()
            if value is not None
        ]
        return {"executionParameters": execution_parameters_run.ExecutionParametersRunFacet(parameters)}


def describe_parent() -> dict[str, Any]:
    """Return the facet of the run that started this one, as ``OPENLINEAGE_PARENT_ID`` names it; empty without it."""
    parts = os.environ.get("OPENLINEAGE_PARENT_ID", "").rsplit("/", 2)
    if len(parts) != 3:
        return {}
    try:
        run = parent_run.Run(str(UUID(parts[2])))
    except ValueError:
        return {}
    return {"parent": parent_run.ParentRunFacet(run, parent_run.Job(parts[0], parts[1]))}


def describe_test(finding: Finding) -> test_run.TestExecution:
    """Return a finding as a test of the standard, with counts and no values."""
    columns = finding.column_list or ((finding.column,) if finding.column else ())
    status = "skip" if finding.success is None and finding.error is None else "fail" if finding.is_failing else "pass"
    params = {"action": finding.action, "scope": finding.scope, "checked": finding.checked, "failed": finding.failed}
    place = "".join(f" in {alias}" for alias in [finding.source] if alias is not None)
    return test_run.TestExecution(
        name=f"{finding.expectation}({', '.join(columns)}){place}" if columns else f"{finding.expectation}{place}",
        status=status,
        severity="error" if finding.action == "fail" and not finding.accepted else "warn",
        type=finding.expectation,
        params=params,
    )
