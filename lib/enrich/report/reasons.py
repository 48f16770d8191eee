"""Why rows fail, for the rules of the table now: what ``enrich failing`` found is put beside the recorded counts.

recorded                     found                              the report says
rule 0: 12 of 100 fail       9 no_such_key, 3 deleted_at        9 no such key, 3 deleted
rule 1:  4 of 100 fail       5 no_such_key                      nothing: a run came in between
rule 2:  0 of 100 fail       -                                  no reasons
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from enrich.report.models import JobReport, Report, RuleNow


class Causes(Protocol):
    """What was found about one rule of a whole target; ``enrich.diagnosis`` gives it as ``RuleCauses``."""

    @property
    def index(self) -> int:
        """The rule's position in the suite."""

    @property
    def checked(self) -> int | None:
        """Rows that it judges."""

    @property
    def failed(self) -> int | None:
        """Rows that it finds wanting."""

    @property
    def reasons(self) -> Mapping[str, int]:
        """Reason -> failing rows."""

    @property
    def near_misses(self) -> Mapping[str, int]:
        """Kind -> failing rows that are near misses."""


def list_failing(report: Report) -> list[str]:
    """Return the jobs whose recorded state has failing rows."""
    return [job.job for job in report.jobs if job.now is not None and any(rule.failed for rule in job.now.rules)]


def add_reasons(report: Report, found: Mapping[str, Iterable[Causes]]) -> Report:
    """Return the report with the reasons of the rows that fail.

    Reasons are those of the recorded state: where the counts are not the recorded ones, because a run came in between,
    or where the suite has another rule at this place now, there are none.

    Args:
        report: What ``read_report`` gave.
        found: Job -> what was found about its rules. Jobs that no row fails need none; others that are not named
            could not be answered, and stay as they are.
    """
    unknown = set(list_failing(report)) - set(found)
    jobs = [job if job.job in unknown else _explain_job(job, found.get(job.job, ())) for job in report.jobs]
    return report.model_copy(update={"jobs": tuple(jobs)})


def _explain_job(job: JobReport, found: Iterable[Causes]) -> JobReport:
    if job.now is None:
        return job
    causes = {each.index: each for each in found}
    rules = tuple(_explain_rule(rule, causes.get(rule.index)) for rule in job.now.rules)
    return job.model_copy(update={"now": job.now.model_copy(update={"rules": rules})})


def _explain_rule(rule: RuleNow, causes: Causes | None) -> RuleNow:
    if rule.failed == 0:
        return rule.model_copy(update={"reasons": {}})
    if causes is None or rule.failed is None or rule.verdict is None:
        return rule
    reasons = dict(causes.reasons)
    if (causes.checked, causes.failed, sum(reasons.values())) != (rule.checked, rule.failed, rule.failed):
        return rule
    return rule.model_copy(update={"reasons": reasons, "near_misses": dict(causes.near_misses)})
