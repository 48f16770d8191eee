"""Expectations before publishing: which rows may go to the target, which wait in quarantine, and what stops the run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from enrich import guards, join, merge
from enrich.clock import timed
from enrich.result import BLOCKED, Counts, Finding, JobResult
from enrich.spec import Affected, JoinSpec, left_names, partners_name, quoted
from enrich.stages import Rows, Work, identity_of, live_rows, target_rows

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
    closed_by = tuple(closed_by)
    rules = "; ".join(dict.fromkeys(_described(each) for each in closed_by))
    hint = "mend the rows or the rule and run again; the target is untouched"
    if all(each.rule is not None for each in closed_by):
        accepted = " ".join(dict.fromkeys(f"--accept {each.expectation}" for each in closed_by))
        hint += f". If this is wanted, let it through once: `enrich run {result.job} {accepted}`"
    return replace(result, status=BLOCKED, counts=Counts(), error=f"blocked by {rules}; {hint}", exit_code=3)


def _described(finding: Finding) -> str:
    where = finding.source or finding.column or ",".join(finding.column_list or ())
    what = f"{finding.expectation}{f' ({where})' if where else ''}"
    if finding.error:
        return f"{what}: {finding.error}"
    return f"{what}: {finding.failed} of {finding.checked} rows"


@timed("rules")
def guarded(work: Work, rows: Rows) -> tuple[Finding, ...]:
    """Hold the job's own rules against the rows, all but ``mass_change``, which needs the difference to the target."""
    counts = {
        guards.MATCH_RATE: _unmatched,
        guards.NULL_FOREIGN_KEYS: _null_references,
        guards.NEW_ORPHANS: _new_orphans,
    }
    found = []
    for finding in guards.unjudged(work.task.job.rules, work.task.accepted):
        if finding.expectation == guards.VALUE_CONFLICTS:
            found.append(guards.judged(finding, *rows.values))
        elif finding.source is not None:
            found.append(guards.judged(finding, *counts[finding.expectation](work, rows, finding.source)))
    return tuple(found)


def _unmatched(_work: Work, rows: Rows, alias: str) -> tuple[int, int]:
    lookup = rows.lookups[alias]
    referring = lookup.rows - lookup.null_references
    return referring, referring - lookup.matched


def _null_references(_work: Work, rows: Rows, alias: str) -> tuple[int, int]:
    return rows.lookups[alias].rows, rows.lookups[alias].null_references


def _new_orphans(work: Work, rows: Rows, alias: str) -> tuple[int, int]:
    """Count rows that refer to a lookup, and new orphans among them; asks Spark where the counts do not tell."""
    from pyspark.sql import functions as F

    spec = work.task.spec
    assert isinstance(spec, JoinSpec)  # noqa: S101 - the rule is refused for mirrors
    step = next(step for step in spec.steps if step.alias == alias)
    referring, lone = _unmatched(work, rows, alias)
    if step.kind != "list" and (lone == 0 or work.task.everything):
        return referring, lone
    names = left_names(len(spec.key_columns))
    now = rows.frame.select(*names, partners_name(alias))
    before = None
    if lone and not work.task.everything:
        among = Affected(guards.orphans(now, alias).select(*names))
        before = join.partners(work.sources(before=True), step, among)
    found = guards.new_orphans(now, alias, names, before).agg(F.count("*"), F.count_if("new")).first()
    assert found is not None  # noqa: S101 - an aggregate without groups has one row
    return int(found[0]), int(found[1])


@timed("rules")
def mass_change(work: Work, target: merge.Difference, *, compared: bool) -> tuple[Finding, ...]:
    """Hold the difference against the rules about how much of the target a run may delete or empty.

    Args:
        work: The job's run.
        target: The difference to the target.
        compared: False when old and new rows cannot be compared; then only how many there are tells what is lost.
    """
    rules = guards.unjudged(work.task.job.rules, work.task.accepted)
    asked = [finding for finding in rules if finding.expectation == guards.MASS_CHANGE]
    table = target_rows(work) if asked else None
    if table is None:
        return ()
    rows = table.count()
    lost = target.deleted + target.emptied if compared else max(0, rows - target.inserted)
    return tuple(guards.judged(finding, rows, lost) for finding in asked)


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
