"""Keep joined Delta Lake tables right, incrementally, from cron.

    job -> window (pinned versions) -> changes (CDF, net per key) -> affected keys -> join at the pinned versions
        -> expectations -> MERGE + cursor in one commit -> report

>>> import enrich
>>> project = enrich.load_project("path/to/project", target="dev")      # files only, no JVM
>>> result = enrich.run(project, jobs=["products_with_merchant"])       # doctest: +SKIP
>>> result.exit_code, result.to_dict()                                   # doctest: +SKIP
"""

from enrich.base.errors import ConfigError, EnrichError
from enrich.base.result import JobResult, RunResult
from enrich.config import Project
from enrich.diagnosis import diagnose, doctor_keys, failing, summarise, why
from enrich.operations.loading import load_project
from enrich.operations.maintenance import MaintainResult, maintain
from enrich.operations.planning import PlanResult, plan
from enrich.operations.runner import run
from enrich.operations.verification import VerifyResult, verify

__all__ = [
    "ConfigError",
    "EnrichError",
    "JobResult",
    "MaintainResult",
    "PlanResult",
    "Project",
    "RunResult",
    "VerifyResult",
    "diagnose",
    "doctor_keys",
    "failing",
    "load_project",
    "maintain",
    "plan",
    "run",
    "summarise",
    "verify",
    "why",
]
