"""The tables of a job as the inputs and outputs of an OpenLineage event, with their facets."""

from __future__ import annotations

from typing import Any

from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    data_quality_assertions_dataset,
    data_quality_metrics_dataset,
    dataset_version_dataset,
    lifecycle_state_change_dataset,
    output_statistics_output_dataset,
)

from enrich.base.errors import EnrichError
from enrich.base.result import CREATE, REWRITE, Finding, JobResult
from enrich.config.kinds import trace_columns
from enrich.config.kinds.syntax import Source
from enrich.config.places import find_quarantine
from enrich.config.project import Project
from enrich.observe.datasets import Name, describe_alias, describe_schema, name_dataset
from enrich.progress.task import Task
from enrich.storage import tables

_CHANGES = {
    CREATE: lifecycle_state_change_dataset.LifecycleStateChange.CREATE,
    REWRITE: lifecycle_state_change_dataset.LifecycleStateChange.OVERWRITE,
}


def name_sources(project: Project, task: Task, namespace: str) -> dict[str, Name]:
    """Return the datasets of a job's sources by alias."""
    return {
        alias: name_dataset(project.location(source.table), task.tables[alias].uri, namespace)
        for alias, source in task.job.sources.items()
    }


def describe_inputs(project: Project, task: Task, result: JobResult, namespace: str) -> list[InputDataset]:
    """Return the sources at the versions that the run took; a table under several aliases is one of them."""
    found: dict[Name, InputDataset] = {}
    for alias, name in name_sources(project, task, namespace).items():
        table, window = task.tables[alias], result.sources.get(alias)
        facets = {
            "version": _describe_version(table.version if window is None else window.to),
            **describe_schema(table.columns),
            **describe_alias(project.location(task.job.sources[alias].table), namespace),
        }
        dataset = found.setdefault(name, InputDataset(name.namespace, name.name, facets=facets))
        assertions = [_describe_assertion(each) for each in result.findings if _is_about(each, alias)]
        if assertions and dataset.inputFacets is not None:
            known = dataset.inputFacets.get("dataQualityAssertions")
            before = getattr(known, "assertions", [])
            facet = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet([*before, *assertions])
            dataset.inputFacets["dataQualityAssertions"] = facet
    return list(found.values())


def _is_about(finding: Finding, alias: str) -> bool:
    """Return whether a finding has judged the rows of a source, as the built-in rules do."""
    built_in = finding.index is None and finding.rule is None
    return built_in and finding.source == alias and (finding.success is not None or finding.error is not None)


def _describe_assertion(finding: Finding) -> data_quality_assertions_dataset.Assertion:
    return data_quality_assertions_dataset.Assertion(
        assertion=finding.expectation,
        success=finding.success is True,
        column=finding.column,
        severity="error" if finding.action == "fail" else "warn",
    )


def describe_outputs(project: Project, task: Task, result: JobResult, namespace: str) -> list[OutputDataset]:
    """Return the target, and its quarantine if there is one, after a run that succeeded."""
    location = task.place.location
    name = name_dataset(location, task.place.uri, namespace)
    facets: dict[str, Any] = {**describe_alias(location, namespace), **_describe_columns(project, task, namespace)}
    if result.target_version is not None:
        facets["version"] = _describe_version(result.target_version)
    facets |= _describe_target_schema(task)
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
        dataset = name_dataset(beside, task.place.quarantine_uri, namespace)
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


def _describe_version(version: int) -> dataset_version_dataset.DatasetVersionDatasetFacet:
    return dataset_version_dataset.DatasetVersionDatasetFacet(str(version))


def _describe_target_schema(task: Task) -> dict[str, Any]:
    """Return the facet of the target's columns as its log has them now; empty where that is not known."""
    place = task.place.uri
    if place is None:
        return {}
    try:
        return describe_schema(tables.read_state(place).columns)
    except EnrichError:
        return {}


def _describe_columns(project: Project, task: Task, namespace: str) -> dict[str, Any]:
    """Return the facet of which columns each column of the target comes from."""
    names, traced = name_sources(project, task, namespace), trace_columns(task.spec)

    def describe(source: Source, kind: str, words: tuple[str, ...]) -> column_lineage_dataset.InputField:
        name = names[source[0]]
        found = [column_lineage_dataset.Transformation(type=kind, subtype=word) for word in words]
        return column_lineage_dataset.InputField(name.namespace, name.name, source[1], found)

    fields = {
        column: column_lineage_dataset.Fields([describe(each, "DIRECT", (word,)) for each, word in sources.items()])
        for column, sources in traced.direct.items()
    }
    rows = [describe(each, "INDIRECT", words) for each, words in traced.indirect.items()]
    return {"columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(fields, rows)}
