"""Send OpenLineage events of every job of a run, by the project's own client: START, then COMPLETE, FAIL or ABORT.

The run's id in an event belongs to one job of one run of enrich. ``OPENLINEAGE_PARENT_ID`` (namespace/job/run), which
schedulers set, names the run that has started it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid5

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    data_quality_assertions_dataset,
    data_quality_metrics_dataset,
    dataset_version_dataset,
    documentation_dataset,
    documentation_job,
    error_message_run,
    execution_parameters_run,
    job_type_job,
    lifecycle_state_change_dataset,
    output_statistics_output_dataset,
    ownership_dataset,
    ownership_job,
    parent_run,
    processing_engine_run,
    schema_dataset,
    symlinks_dataset,
    test_run,
)
from openlineage.client.transport.file import FileConfig, FileTransport
from openlineage.client.transport.http import HttpConfig, HttpTransport
from openlineage.client.transport.transport import Transport

from enrich.base.errors import EnrichError
from enrich.base.failures import read_version
from enrich.base.names import CatalogName, Location, find_quarantine
from enrich.base.result import CREATE, LOCKED, REWRITE, Finding, JobResult
from enrich.base.schemas import fields_of, kind_of, name_of
from enrich.base.spec import DataType
from enrich.delta import tables
from enrich.progress.plan import Plan
from enrich.project import models
from enrich.project.kinds import JOBS
from enrich.project.kinds.syntax import Source
from enrich.project.models import Lineage
from enrich.project.project import Project

_RETRY = {"total": 2, "read": 0, "backoff_factor": 0.1}
"""An event whose answer does not come may have been taken: it is not sent again."""


class Sender:
    """Makes and sends the events of one run."""

    def __init__(self, project: Project, run_id: str, settings: Lineage, api_key: str | None) -> None:
        self.project = project
        self.run_id = run_id
        self.namespace = settings.namespace or f"enrich/{project.deployment}"
        transport: Transport
        if settings.file is not None:
            path = project.dir / settings.file
            path.parent.mkdir(parents=True, exist_ok=True)
            transport = FileTransport(FileConfig(log_file_path=str(path), append=True))
        else:
            auth = {} if api_key is None else {"auth": {"type": "api_key", "apiKey": api_key}}
            address = {"url": settings.url or "", "endpoint": settings.endpoint, "timeout": float(settings.timeout)}
            transport = HttpTransport(HttpConfig.from_dict({**address, "retry": _RETRY, **auth}))
        self.client = OpenLineageClient(transport=transport)

    def start(self, job: str) -> None:
        """Say that a job begins."""
        self._send(job, RunState.START, {})

    def end(self, result: JobResult, plan: Plan | None) -> None:
        """Say how a job ended, with its tables as far as they are known."""
        facets: dict[str, Any] = {}
        if plan is not None:
            told: dict[str, object] = {"run_id": self.run_id, "mode": result.mode}
            for alias, window in result.sources.items():
                told |= {f"sources.{alias}.from": window.start, f"sources.{alias}.to": window.to}
            parameters = [
                execution_parameters_run.ExecutionParameter(key=key, value=str(value))
                for key, value in told.items()
                if value is not None
            ]
            facets["executionParameters"] = execution_parameters_run.ExecutionParametersRunFacet(parameters)
        if result.findings:
            facets["test"] = test_run.TestRunFacet([describe_test(each) for each in result.findings])
        if result.error is not None:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(result.error, "python")
        badly = RunState.ABORT if result.status == LOCKED else RunState.FAIL
        state = RunState.COMPLETE if result.exit_code == 0 else badly
        inputs = describe_inputs(self.project, plan, result, self.namespace) if plan is not None else []
        done = plan is not None and state is RunState.COMPLETE
        outputs = describe_outputs(self.project, plan, result, self.namespace) if done and plan is not None else []
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
        known: dict[str, Any] = {"processing_engine": engine}
        parts = os.environ.get("OPENLINEAGE_PARENT_ID", "").rsplit("/", 2)
        if len(parts) == 3:  # the run that started this one
            with suppress(ValueError):
                parent = parent_run.Run(str(UUID(parts[2])))
                known["parent"] = parent_run.ParentRunFacet(parent, parent_run.Job(parts[0], parts[1]))
        kind = job_type_job.JobTypeJobFacet("BATCH", "ENRICH", "JOB")
        self.client.emit(
            RunEvent(
                eventTime=datetime.now(UTC).isoformat(),
                eventType=state,
                run=Run(str(uuid5(UUID(self.run_id), job)), {**known, **facets}),
                job=Job(self.namespace, job, {"jobType": kind, **describe_words(self.project.jobs[job], of_job=True)}),
                inputs=inputs or [],
                outputs=outputs or [],
                producer=f"urn:x-enrich:{version}",
            )
        )


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


# --- The tables of a job as the inputs and outputs of an OpenLineage event, with their facets ------------------------

_Version = dataset_version_dataset.DatasetVersionDatasetFacet
_CHANGES = {
    CREATE: lifecycle_state_change_dataset.LifecycleStateChange.CREATE,
    REWRITE: lifecycle_state_change_dataset.LifecycleStateChange.OVERWRITE,
}


def name_sources(project: Project, plan: Plan, namespace: str) -> dict[str, Name]:
    """Return the datasets of a job's sources by alias."""
    return {
        alias: name_dataset(project.location(source.table), plan.tables[alias].uri, namespace)
        for alias, source in plan.job.sources.items()
    }


def describe_inputs(project: Project, plan: Plan, result: JobResult, namespace: str) -> list[InputDataset]:
    """Return the sources at the versions that the run took; a table under several aliases is one of them."""
    found: dict[Name, InputDataset] = {}
    for alias, name in name_sources(project, plan, namespace).items():
        table, window = plan.tables[alias], result.sources.get(alias)
        facets = {
            "version": _Version(str(table.version if window is None else window.to)),
            **describe_schema(table.columns, table.comments),
            **describe_words(plan.job.sources[alias]),
            **describe_alias(project.location(plan.job.sources[alias].table), namespace),
        }
        dataset = found.setdefault(name, InputDataset(name.namespace, name.name, facets=facets))
        assertions = [
            data_quality_assertions_dataset.Assertion(
                assertion=each.expectation,
                success=each.success is True,
                column=each.column,
                severity="error" if each.action == "fail" else "warn",
            )
            for each in result.findings  # of the built-in rules, which judge the rows of a source
            if each.index is None and each.rule is None and each.source == alias
            if each.success is not None or each.error is not None
        ]
        if assertions and dataset.inputFacets is not None:
            known = dataset.inputFacets.get("dataQualityAssertions")
            before = getattr(known, "assertions", [])
            facet = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet([*before, *assertions])
            dataset.inputFacets["dataQualityAssertions"] = facet
    return list(found.values())


def describe_outputs(project: Project, plan: Plan, result: JobResult, namespace: str) -> list[OutputDataset]:
    """Return the target, and its quarantine if there is one, after a run that succeeded."""
    location = plan.place.location
    name = name_dataset(location, plan.place.uri, namespace)
    names, traced = name_sources(project, plan, namespace), JOBS[plan.spec.kind].find_origins(plan.spec)

    def describe(source: Source, word: str) -> column_lineage_dataset.InputField:
        found = [column_lineage_dataset.Transformation(type="DIRECT", subtype=word)]
        home = names[source[0]]
        return column_lineage_dataset.InputField(home.namespace, home.name, source[1], found)

    fields = {
        column: column_lineage_dataset.Fields([describe(each, word) for each, word in sources.items()])
        for column, sources in traced.items()
    }
    facets: dict[str, Any] = {**describe_alias(location, namespace), **describe_words(plan.job)}
    facets |= {"columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(fields)}
    if result.target_version is not None:
        facets["version"] = _Version(str(result.target_version))
    if plan.place.uri is not None:
        with suppress(EnrichError):  # else what the log has now is not known
            table = tables.read_state(plan.place.uri)
            facets |= describe_schema(table.columns, table.comments)
    if result.state is not None:
        nulls = {
            column: data_quality_metrics_dataset.ColumnMetrics(nullCount=count, quantiles=None)
            for column, count in result.state.nulls.items()
        }
        facets["dataQualityMetrics"] = data_quality_metrics_dataset.DataQualityMetricsDatasetFacet(
            nulls, rowCount=result.state.rows
        )
    if result.strategy in _CHANGES:
        change = _CHANGES[result.strategy]
        facets["lifecycleStateChange"] = lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet(change)
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=result.counts.inserted + result.counts.updated,
        size=result.written.bytes if result.written is not None else 0,
        fileCount=result.written.files if result.written is not None else 0,
    )
    found = [OutputDataset(name.namespace, name.name, facets=facets, outputFacets={"outputStatistics": statistics})]
    if result.quarantine is not None:
        beside = find_quarantine(location)
        dataset = name_dataset(beside, plan.place.quarantine_uri, namespace)
        rows = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=result.counts.quarantined)
        found.append(
            OutputDataset(
                dataset.namespace,
                dataset.name,
                facets=describe_alias(beside, namespace),
                outputFacets={"outputStatistics": rows},
            )
        )
    return found


# --- Tables as OpenLineage names and describes them ------------------------------------------------------------------

_URI = re.compile(r"([a-z][a-z0-9]*)://([^/]+)(/.*)?")
_SCHEMES = {"s3a": "s3"}  # what OpenLineage writes for the same store
_ROOTED = ("hdfs",)  # stores whose names begin with a slash


@dataclass(frozen=True)
class Name:
    """What identifies a dataset."""

    namespace: str
    name: str


def name_dataset(location: Location, uri: str | None, namespace: str) -> Name:
    """Return a table's name by the naming rules of OpenLineage: that of its directory, as its Spark agent does.

    ``location``: what the job file names; ``uri``: where a catalog table is, None where that is not known;
    ``namespace``: where such a table belongs.
    """
    place = uri if isinstance(location, CatalogName) else location
    if place is None:
        return Name(namespace, str(location))
    match = _URI.fullmatch(place)
    if match is None:
        return Name("file", place)
    scheme, authority, path = match[1], match[2], match[3] or "/"
    return Name(f"{_SCHEMES.get(scheme, scheme)}://{authority}", path if scheme in _ROOTED else path.lstrip("/") or "/")


def describe_alias(location: Location, namespace: str) -> dict[str, Any]:
    """Return the facet that says how a catalog calls a table; empty for tables that are named by their path."""
    if not isinstance(location, CatalogName):
        return {}
    identifier = symlinks_dataset.Identifier(namespace, str(location), "TABLE")
    return {"symlinks": symlinks_dataset.SymlinksDatasetFacet([identifier])}


def describe_words(told: models.Job | models.Source, *, of_job: bool = False) -> dict[str, Any]:
    """Return the facets of what the files say of a table or a job: what it is, and who answers for it."""
    facets: dict[str, Any] = {}
    if told.description is not None:
        documentation = (
            documentation_job.DocumentationJobFacet if of_job else documentation_dataset.DocumentationDatasetFacet
        )
        facets["documentation"] = documentation(told.description)
    if told.owner is not None and of_job:
        facets["ownership"] = ownership_job.OwnershipJobFacet([ownership_job.Owner(told.owner)])
    elif told.owner is not None:
        facets["ownership"] = ownership_dataset.OwnershipDatasetFacet([ownership_dataset.Owner(told.owner)])
    return facets


def describe_schema(columns: dict[str, DataType], comments: Mapping[str, str]) -> dict[str, Any]:
    """Return the facet of a table's columns, their types and their comments."""
    return {"schema": schema_dataset.SchemaDatasetFacet(_describe_fields(columns, comments))}


def _describe_fields(
    columns: Mapping[str, DataType], comments: Mapping[str, str] = MappingProxyType({})
) -> list[schema_dataset.SchemaDatasetFacetFields]:
    """Return columns, and the fields of structs; arrays and maps are told by their type alone."""
    inside = {
        name: _describe_fields(fields_of(kind)) if kind_of(kind) == "struct" else None for name, kind in columns.items()
    }
    return [
        schema_dataset.SchemaDatasetFacetFields(name, name_of(kind), comments.get(name), fields=inside[name])
        for name, kind in columns.items()
    ]
