"""Keep joined Delta Lake tables right, incrementally, from cron.

    job -> window (pinned versions) -> changes (CDF, net per key) -> affected keys -> join at the pinned versions
        -> expectations -> one commit of rows and cursor (MERGE, or by position) -> report

>>> import enrich
>>> project = enrich.load_project("path/to/project", target="dev")      # files only, no JVM
>>> result = enrich.run(project, jobs=["products_with_merchant"])       # doctest: +SKIP
>>> result.exit_code, result.to_dict()                                   # doctest: +SKIP

The names are imported when they are first used: who parses a DAG (`enrich.airflow`) imports this package, and nothing
but the reader of the project's files.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enrich.answers.doctor import diagnose as diagnose
    from enrich.answers.failing_rows import failing as failing
    from enrich.answers.inspection import prove as prove
    from enrich.answers.inspection import sql as sql
    from enrich.answers.near_misses import doctor_keys as doctor_keys
    from enrich.answers.question import why as why
    from enrich.answers.trace import trace as trace
    from enrich.answers.verification import VerifyResult as VerifyResult
    from enrich.answers.verification import diff as diff
    from enrich.answers.verification import verify as verify
    from enrich.base.errors import ConfigError as ConfigError
    from enrich.base.errors import EnrichError as EnrichError
    from enrich.base.result import JobResult as JobResult
    from enrich.base.result import RunResult as RunResult
    from enrich.dumps.load import load as load
    from enrich.dumps.result import DumpOptions as DumpOptions
    from enrich.dumps.result import LoadResult as LoadResult
    from enrich.observe.run import run as run
    from enrich.operations.loading import load_project as load_project
    from enrich.operations.maintenance import MaintainResult as MaintainResult
    from enrich.operations.maintenance import maintain as maintain
    from enrich.operations.planning import PlanResult as PlanResult
    from enrich.operations.planning import plan as plan
    from enrich.project.project import Project as Project

    __version__: str

_MODULES = {
    "enrich.base.errors": ("ConfigError", "EnrichError"),
    "enrich.base.result": ("JobResult", "RunResult"),
    "enrich.project.project": ("Project",),
    "enrich.answers.doctor": ("diagnose",),
    "enrich.answers.failing_rows": ("failing",),
    "enrich.answers.inspection": ("prove", "sql"),
    "enrich.answers.near_misses": ("doctor_keys",),
    "enrich.answers.question": ("why",),
    "enrich.answers.trace": ("trace",),
    "enrich.dumps.load": ("load",),
    "enrich.dumps.result": ("DumpOptions", "LoadResult"),
    "enrich.observe.run": ("run",),
    "enrich.operations.loading": ("load_project",),
    "enrich.operations.maintenance": ("MaintainResult", "maintain"),
    "enrich.operations.planning": ("PlanResult", "plan"),
    "enrich.answers.verification": ("VerifyResult", "diff", "verify"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name from its module, once; an EnvironmentFault says which extra that needs."""
    if name != "__version__" and name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    failures = importlib.import_module("enrich.base.failures")
    try:
        found = getattr(importlib.import_module(_HOME[name]), name) if name in _HOME else failures.read_version()
    except ModuleNotFoundError as error:
        raise failures.find_missing_extra(error) or error from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, "__version__"})
