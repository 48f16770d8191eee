"""Judge rows before publishing: which may go to the target, which wait in quarantine, and what stops the run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base import hints, suites
from enrich.base.errors import Blocked
from enrich.base.result import BLOCKED, Counts, Finding, JobResult, LookupState, RuleState
from enrich.base.spec import FAILED_COLUMN, KEY_UNIQUE, Affected, SourceSpec, name_left_key, name_partners, quote
from enrich.base.suites import TARGET
from enrich.frames import changes, difference, join
from enrich.frames.columns import aggregate
from enrich.frames.difference import drop_affected
from enrich.progress.plan import Plan
from enrich.quality.judge import SuiteVerdict, judge, judge_state
from enrich.steps.rows import Rows, select_live_rows
from enrich.steps.run import Run, build_finding, identify_rows, measure, read_target


@dataclass(frozen=True)
class JudgedRows:
    """Rows with their verdict, an empty one without a suite."""

    good: DataFrame  # the identity's columns and the target's columns, for the target
    bad: DataFrame | None  # the same and ``_failed``, for the quarantine; None when no rule quarantines
    verdict: SuiteVerdict = field(default_factory=SuiteVerdict)
    # What ``mark_rows`` counts over ``good``, where that is known already.
    tally: Mapping[str, int] = field(default_factory=dict)

    @property
    def findings(self) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
        """What the suite finds, and what of it closes the gate; nothing while rules about the whole target are open."""
        return ((), ()) if self.verdict.open_rules else (self.verdict.findings, self.verdict.closing)


class Closed(Exception):
    """Rules have closed the gate: nothing may be written."""

    def __init__(self, result: JobResult, findings: Sequence[Finding]) -> None:
        self.result = result
        self.findings = findings


@dataclass(frozen=True)
class Account:
    """What is known of a run's result so far, ``blocked`` until something is written, and what has closed the gate."""

    result: JobResult
    closing: tuple[Finding, ...] = ()

    def add(self, findings: Iterable[Finding], closing: Iterable[Finding] | None = None, **known: Any) -> Account:
        """Note findings and what else is known, and raise ``Closed`` when one of them closes the gate.

        ``closing``: those that do; None: those of action ``fail`` that failed. The job's own rules can be accepted, so
        one of them does not stop the run: each acceptance would lead to the next refusal.
        """
        findings = tuple(findings)
        if closing is None:
            closing = [each for each in findings if each.action == "fail" and each.success is False]
        found = Account(replace(self.result, **known).with_findings(findings), (*self.closing, *closing))
        if any(each.rule is None for each in found.closing):
            raise Closed(found.result, found.closing)
        return found


def open_account(run: Run) -> Account:
    """Return what is known of a run's result before its first step."""
    plan = run.plan
    result = JobResult(plan.job.job, BLOCKED, plan.mode, dict(plan.window), findings=plan.unjudged, stages=run.seconds)
    return Account(replace(result, state=plan.recorded_state))


def refuse_run(closed: Closed, plan: Plan) -> JobResult:
    """End a job whose gate is closed: nothing is written, the same changes are judged again next time."""
    result, closed_by = closed.result, closed.findings
    rules = "; ".join(dict.fromkeys(_describe(each) for each in closed_by))
    if all(each.rule is not None for each in closed_by):
        accepting = hints.run(result.job, plan.asked.accepting(each.expectation for each in closed_by))
        hint = "correct the rows or the rule and run again; the target is unchanged"
        hint += f". If the change is intended, accept it once: `{accepting}`"
    else:
        doubled = {each.source for each in closed_by if each.expectation == KEY_UNIQUE}
        sources = [each for each in plan.spec.sources.values() if each.alias in doubled and not each.normalise]
        what = f"the rows, whose keys `{_list_doubled(plan, sources[0])}` lists" if sources else "the rows or the rule"
        hint = f"the target is unchanged: correct {what}, then run `{hints.run(result.job, plan.asked)}`"
    return replace(
        result, status=BLOCKED, counts=Counts(), error=f"blocked by {rules}; {hint}", exit_code=Blocked.exit_code
    )


def _list_doubled(plan: Plan, source: SourceSpec) -> str:
    """Return a query for the keys that stand in several rows of a source."""
    table = f"delta.{quote(plan.tables[source.alias].uri)} VERSION AS OF {plan.window[source.alias].to}"
    names = ", ".join(map(quote, source.key))
    return f"SELECT {names}, count({names}) FROM {table} GROUP BY {names} HAVING count({names}) > 1"  # noqa: S608 - quoted


def _describe(finding: Finding) -> str:
    where = finding.source or finding.column or ",".join(finding.column_list or ())
    what = f"{finding.expectation} ({where})" if where else finding.expectation
    if not finding.error:
        return f"{what}: {finding.failed} of {finding.checked} rows"
    return f"{f'{finding.where}: ' if finding.where else ''}{what}: {finding.error}"


@measure("rules")
def check_job_rules(run: Run, rows: Rows, lookups: Mapping[str, LookupState]) -> list[Finding]:
    """Hold the job's own rules but ``mass_change`` against rows, those of scope ``target`` against all ``lookups``."""
    found = [*rows.findings, *_find_shared_keys(run, rows)]
    for finding in suites.list_unjudged(run.plan.rules, run.plan.options.accepted):
        if finding.expectation == suites.VALUE_CONFLICTS:
            found.append(suites.judge_counts(finding, *rows.values))
        elif finding.source is not None:
            how = lookups[finding.source] if finding.scope == TARGET else rows.lookups[finding.source]
            referring = how.rows - how.null_references
            counted = referring, referring - how.matched
            if finding.expectation == suites.NULL_FOREIGN_KEYS:
                counted = how.rows, how.null_references
            elif finding.expectation == suites.NEW_ORPHANS:
                counted = _count_new_orphans(run, rows, finding.source, counted)
            found.append(suites.judge_counts(finding, *counted))
    return found


def _find_shared_keys(run: Run, rows: Rows) -> list[Finding]:
    """Find two rows with one key where no search in the sources has excluded them: MERGE would insert both."""
    sources = [source for source in run.plan.spec.sources.values() if source.trusted]
    if not sources:
        return []
    grouped = changes.count_by_key(select_live_rows(run, rows.frame).select(*identify_rows(run.plan).names))
    if grouped.where(F.col(changes.ROWS) > F.col(changes.KEYS)).isEmpty():
        return []
    counted = changes.count_rows(*[(run.read_source(each.alias), each, True) for each in sources])
    found = zip(sources, counted, strict=True)
    return [build_finding(KEY_UNIQUE, "fail", (at.rows, at.surplus), of.alias) for of, at in found if at.surplus]


def _count_new_orphans(run: Run, rows: Rows, alias: str, counted: tuple[int, int]) -> tuple[int, int]:
    """Count rows that refer to a lookup, and new orphans among them; asks Spark where the counts do not tell."""
    spec = run.plan.spec
    step = next(step for step in spec.steps if step.alias == alias)
    referring, unmatched = counted
    if step.elements is None and (unmatched == 0 or run.plan.everything):
        return referring, unmatched
    keys = name_left_key(len(spec.key_columns))
    names = keys if spec.interval_step is None else identify_rows(run.plan).names
    now = rows.frame.select(*names, name_partners(alias))
    found = now.where(join.count_referring(alias) > 0).withColumn("new", join.is_orphan(alias))
    if unmatched and not run.plan.everything:
        among = Affected(now.where(join.is_orphan(alias)).select(*keys).distinct())
        were = run.before
        earlier = join.leave_own_rows_out((*join.list_earlier_steps(were.spec, step), step))
        before = join.apply_steps(were, among, earlier)
        was = before.where(join.is_orphan(alias)).select(*[F.col(name).alias(f"{name}_was") for name in names])
        # Null-safe: a pair has a part that a lookup-only row lacks.
        same = [F.col(name).eqNullSafe(F.col(f"{name}_was")) for name in names]
        found = found.join(was.withColumn("was", F.lit(True)), on=same, how="left")
        found = found.withColumn("new", F.col("new") & F.col("was").isNull())
    counts = aggregate(found, F.count("*"), F.count_if("new"))
    return int(counts[0]), int(counts[1])


@measure("rules")
def check_mass_change(run: Run, target: difference.Difference, *, compared: bool) -> list[Finding]:
    """Hold the difference against the rules about how much of the target a run may delete or empty."""
    rules = suites.list_unjudged(run.plan.rules, run.plan.options.accepted)
    asked = [finding for finding in rules if finding.expectation == suites.MASS_CHANGE]
    table = read_target(run) if asked else None
    if table is None:
        return []
    rows = table.count()
    # Where old and new rows cannot be compared, only how many there are tells what is lost.
    lost = target.deleted + target.emptied if compared else max(0, rows - target.inserted)
    return [suites.judge_counts(finding, rows, lost) for finding in asked]


@measure("rules")
def judge_rows(run: Run, rows: Rows, affected: Affected | None) -> JudgedRows:
    """Hold the affected rows against the job's suite, but for the rules about the whole target: ``judge_target``."""
    live = select_live_rows(run, rows.frame)
    suite = run.plan.judging_suite
    if suite is None:
        return JudgedRows(live, None, tally=rows.tally)
    verdict = judge(
        live.select(*_order_columns(run)),
        suite,
        lambda reasons: build_published(run, live, affected, reasons),
        scans=affected is not None and run.plan.target.table is not None,
        whole=bool(rows.tally),
    )
    if verdict.reasons is None:
        return JudgedRows(live, None, verdict, rows.tally)
    labelled = run.keep(live.withColumn(FAILED_COLUMN, verdict.reasons))
    is_good = F.size(FAILED_COLUMN) == 0
    return JudgedRows(labelled.where(is_good).drop(FAILED_COLUMN), labelled.where(~is_good), verdict)


def judge_target(
    run: Run, judged: JudgedRows, entries: Sequence[RuleState], scanned: Collection[int]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Judge the rules of the suite about the whole target by the entries of its state as it will be.

    ``scanned``: those for which the whole target was read. Returns what is found, and what of it closes the gate.
    """
    suite = run.plan.judging_suite
    if suite is None or not judged.verdict.open_rules:
        return (), ()
    return judge_state(suite, judged.verdict, {each.index: each for each in entries}, scanned)


def build_published(run: Run, live: DataFrame, affected: Affected | None, reasons: Column | None) -> DataFrame:
    """Return the whole target as it would be after this run, less the live rows for which there are ``reasons``."""
    fresh = live if reasons is None else live.where(F.size(reasons) == 0)
    fresh = fresh.select(*_order_columns(run))
    table = read_target(run)
    if table is None or affected is None:
        return fresh
    identity = identify_rows(run.plan)
    theirs = identity.of()
    kept = drop_affected(table.withColumns(theirs), affected, identity).drop(*theirs)
    return kept.unionByName(fresh, allowMissingColumns=True)


def _order_columns(run: Run) -> list[str]:
    """Return the target's columns, quoted, in the order that its table has then: those that it gains come last."""
    plan = run.plan
    there = () if plan.target.table is None or plan.rewrites else plan.target.table.columns
    return [*map(quote, dict.fromkeys([*(name for name in there if name in plan.spec.columns), *plan.spec.columns]))]
