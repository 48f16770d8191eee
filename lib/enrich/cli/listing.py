"""What ``ls``, ``status``, ``validate`` and ``schema`` show. All of it without a JVM."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from enrich.cli.selection import graph_of
from enrich.console import clean, count_of, table
from enrich.errors import ConfigError, Fault

if TYPE_CHECKING:
    from enrich.config import Project


def listed(project: Project) -> list[dict[str, Any]]:
    """Return a project's jobs in run order: name, kind, sources by alias, target, suite, jobs that it reads."""
    graph = graph_of(project)
    jobs = [project.jobs[name] for name in graph]
    return [
        {
            "job": job.job,
            "kind": job.kind,
            "sources": {alias: source.table for alias, source in job.sources.items()},
            "target": job.target.table,
            "expectations": job.expectations,
            "after": sorted(graph[job.job]),
        }
        for job in jobs
    ]


def listing_text(jobs: list[dict[str, Any]]) -> str:
    """Return the table of ``enrich ls``."""
    rows = [
        (
            clean(job["job"]),
            job["kind"],
            clean(", ".join(named(alias, reference) for alias, reference in job["sources"].items())),
            clean(job["target"]),
            clean(", ".join(job["after"]) or "-"),
        )
        for job in jobs
    ]
    return table(("job", "kind", "sources", "target", "after"), rows)


def named(alias: str, reference: str) -> str:
    """Return ``alias=reference``, or one of them where both are the same."""
    return alias if alias == reference else f"{alias}={reference}"


def find_faults(load: Callable[[], Project]) -> tuple[Project | None, tuple[Fault, ...]]:
    """Load a project and hold it against its tables' logs; return it and everything that is wrong."""
    try:
        project = load()
    except ConfigError as error:
        return None, error.faults

    from enrich.runner import validate

    return project, tuple(validate(project))


def validated_text(project: Project) -> str:
    """Return the good news of ``enrich validate``."""
    jobs, suites = count_of(len(project.jobs), "job"), count_of(len(project.suites), "suite")
    return f"{jobs}, {suites}, target {project.target}: no faults"


def schema_text(kind: str) -> str:
    """Return the JSON Schema of a kind of file."""
    from enrich.config.schema import schemas

    return json.dumps(schemas()[f"{kind}.schema.json"], indent=2)
