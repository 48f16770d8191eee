"""The project's files: models of jobs and settings, ``file:line`` errors, JSON Schemas. Never imports Spark or GX.

Flow: ``yamlfile`` (text -> values with lines) -> ``shape`` (values -> models) and ``checks`` (rules within a job) ->
``neighbours`` (rules between jobs) -> `Project`. ``places`` resolves table references, ``graph`` orders jobs.
"""

from __future__ import annotations

from enrich.config.graph import find_downstream, find_upstream, sort_jobs
from enrich.config.models import Job, Join, Mirror, Settings, Source, Spark, Target
from enrich.config.places import CatalogName, Location
from enrich.config.project import Project, find_project, load_project

__all__ = [
    "CatalogName",
    "Job",
    "Join",
    "Location",
    "Mirror",
    "Project",
    "Settings",
    "Source",
    "Spark",
    "Target",
    "find_downstream",
    "find_project",
    "find_upstream",
    "load_project",
    "sort_jobs",
]
