"""Expectations before publishing: which rows may go to the target, which wait in quarantine, and what stops the run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from enrich import merge
from enrich.result import BLOCKED, Counts, Finding, JobResult
from enrich.spec import Affected, quoted
from enrich.stages import Rows, Work, identity_of, live_rows, target_rows, timed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Judged:
    """Rows with their verdict.

    Attributes:
        good: The identity's columns and the target's columns, for the target.
        bad: The same and ``_failed``, for the quarantine; None when no rule quarantines.
    """

    good: DataFrame
    bad: DataFrame | None
    findings: tuple[Finding, ...]
    closing: tuple[Finding, ...]


def closing(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings of built-in rules that close the gate."""
    return tuple(finding for finding in findings if finding.action == "fail" and finding.success is False)


def refused(result: JobResult, closed_by: Iterable[Finding]) -> JobResult:
    """End a job whose gate is closed: nothing is written, the same changes are judged again next time."""
    rules = "; ".join(dict.fromkeys(_described(each) for each in closed_by))
    hint = "mend the rows or the rule and run again; the target is untouched"
    return replace(result, status=BLOCKED, counts=Counts(), error=f"blocked by {rules}; {hint}", exit_code=3)


def _described(finding: Finding) -> str:
    where = finding.source or finding.column or ",".join(finding.column_list or ())
    what = f"{finding.expectation}{f' ({where})' if where else ''}"
    if finding.error:
        return f"{what}: {finding.error}"
    return f"{what}: {finding.failed} of {finding.checked} rows"


@timed("rules")
def judged(work: Work, rows: Rows, affected: Affected | None) -> Judged:
    """Hold the affected rows against the job's suite."""
    from pyspark.sql import functions as F

    from enrich.quality.judge import judge

    live = live_rows(work, rows)
    suite = work.task.suite
    if suite is None:
        return Judged(live, None, (), ())
    columns = [F.col(quoted(name)) for name in work.task.spec.columns]
    verdict = judge(live.select(*columns), suite, lambda reasons: _published(work, live, affected, reasons))
    if verdict.reasons is None:
        return Judged(live, None, verdict.findings, verdict.closing)
    labelled = work.kept(live.withColumn("_failed", verdict.reasons))
    is_good = F.size("_failed") == 0
    bad = labelled.where(~is_good)
    return Judged(labelled.where(is_good).drop("_failed"), bad, verdict.findings, verdict.closing)


def _published(work: Work, live: DataFrame, affected: Affected | None, reasons: Column | None) -> DataFrame:
    """Return the whole target as it would be after this run."""
    from pyspark.sql import functions as F

    columns = [F.col(quoted(name)) for name in work.task.spec.columns]
    fresh = live if reasons is None else live.where(F.size(reasons) == 0)
    fresh = fresh.select(*columns)
    table = target_rows(work)
    if table is None or affected is None:
        return fresh
    identity = identity_of(work.task)
    keys = merge.identities(affected, identity)
    theirs = identity.of()
    keyed = table.withColumns({f"{name}_at": part for name, part in theirs.items()})
    condition = reduce(and_, [identity.same(F.col(f"{name}_at"), F.col(name)) for name in identity.names])
    kept = keyed.join(keys, on=condition, how="left_anti").drop(*[f"{name}_at" for name in theirs])
    return kept.unionByName(fresh, allowMissingColumns=True)
