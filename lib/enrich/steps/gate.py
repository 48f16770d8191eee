"""Expectations before publishing: which rows may go to the target, which wait in quarantine, and what stops the run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base import hints
from enrich.base.result import BLOCKED, Counts, Finding, JobResult, Lookup
from enrich.base.spec import FAILED_COLUMN, TEXT_TYPE, Affected, SourceSpec, name_left_key, name_partners, quote
from enrich.base.state import LookupState, RuleState
from enrich.base.values import ValueFault, suggest_function
from enrich.frames import changes, difference, join, orphans
from enrich.frames.columns import aggregate
from enrich.frames.identity import drop_affected
from enrich.progress.task import Task
from enrich.quality import suites
from enrich.quality.suites import TARGET
from enrich.steps.rows import Rows, select_live_rows
from enrich.steps.work import Work, build_finding, identify_rows, measure, read_target

if TYPE_CHECKING:
    from enrich.progress.task import Task
    from enrich.quality.judge import SuiteVerdict


@dataclass(frozen=True)
class JudgedRows:
    """Rows with their verdict.

    Attributes:
        good: The identity's columns and the target's columns, for the target.
        bad: The same and ``_failed``, for the quarantine; None when no rule quarantines.
        verdict: What the suite says; None without one.
        tally: What ``mark_rows`` counts over ``good``, where that is known already.
    """

    good: DataFrame
    bad: DataFrame | None
    verdict: SuiteVerdict | None = None
    tally: Mapping[str, int] = field(default_factory=dict)


class Closed(Exception):
    """A rule has closed the gate: nothing may be written.

    Attributes:
        findings: The findings that did.
    """

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(", ".join(dict.fromkeys(each.expectation for each in self.findings)))


def require_open(work: Work, findings: Iterable[Finding], closing: Iterable[Finding] | None = None) -> None:
    """Note findings in the run's result, and stop the run when one of them closes the gate.

    The job's own rules can be accepted, so one of them does not stop the run: what the later ones say is told with it,
    or each acceptance would lead to the next refusal. ``require_accepted`` stops it in the end.

    Args:
        work: The job's run.
        findings: What the rules found.
        closing: Those that close the gate; None: those of action ``fail`` that failed.

    Raises:
        Closed: Naming the findings that close the gate; it is caught once, in ``pipeline``.
    """
    findings = tuple(findings)
    work.result = work.result.with_findings(findings)
    if closing is None:
        closing = [each for each in findings if each.action == "fail" and each.success is False]
    work.closing += closing
    if any(each.rule is None for each in work.closing):
        raise Closed(work.closing)


def require_accepted(work: Work) -> None:
    """Stop the run when one of the job's own rules has closed the gate.

    Raises:
        Closed: As ``require_open``.
    """
    if work.closing:
        raise Closed(work.closing)


def refuse_run(result: JobResult, closed_by: Iterable[Finding], task: Task) -> JobResult:
    """End a job whose gate is closed: nothing is written, the same changes are judged again next time."""
    closed_by = tuple(closed_by)
    rules = "; ".join(dict.fromkeys(_describe(each) for each in closed_by))
    if all(each.rule is not None for each in closed_by):
        accepting = hints.run(result.job, task.asked.accepting(each.expectation for each in closed_by))
        hint = "correct the rows or the rule and run again; the target is unchanged"
        hint += f". If the change is intended, accept it once: `{accepting}`"
    else:
        again = hints.run(result.job, task.asked)
        hint = f"the target is unchanged: correct the rows or the rule, then run `{again}`"
    hint += suggest_queries(task, closed_by)
    return replace(result, status=BLOCKED, counts=Counts(), error=f"blocked by {rules}; {hint}", exit_code=3)


def _describe(finding: Finding) -> str:
    where = finding.source or finding.column or ",".join(finding.column_list or ())
    what = f"{finding.expectation}{f' ({where})' if where else ''}"
    if finding.error:
        condition = finding.error.partition("[")[2].rstrip("]")
        remedy = f"; {ValueFault(condition).suggest()}" if suggest_function(condition) else ""
        return f"{f'{finding.where}: ' if finding.where else ''}{what}: {finding.error}{remedy}"
    return f"{what}: {finding.failed} of {finding.checked} rows"


@measure("rules")
def check_job_rules(work: Work, rows: Rows, lookups: Mapping[str, LookupState]) -> None:
    """Hold the job's own rules against the rows, all but ``mass_change``, which needs the difference to the target.

    Args:
        work: The job's run.
        rows: The affected rows.
        lookups: How each join goes over all driving rows, for rules of scope ``target``.

    Raises:
        Closed: A mirror has conflicts that it may not have, or rows share a key.
    """
    found = [*rows.findings, *_find_shared_keys(work, rows)]
    for finding in suites.list_unjudged(work.task.job.rules, work.task.accepted):
        if finding.expectation == suites.VALUE_CONFLICTS:
            found.append(suites.judge_counts(finding, *rows.values))
        elif finding.source is not None:
            how = lookups[finding.source] if finding.scope == TARGET else rows.lookups[finding.source]
            found.append(suites.judge_counts(finding, *_count_join(work, rows, finding, how)))
    require_open(work, found)


def _find_shared_keys(work: Work, rows: Rows) -> list[Finding]:
    """Find two rows with one key where no search in the sources has excluded them: MERGE would insert both."""
    sources = [source for source in work.task.spec.sources.values() if source.trusted]
    if not sources:
        return []
    identity = identify_rows(work.task).names
    counted = changes.count_by_key(select_live_rows(work, rows).select(*identity))
    if counted.where(F.col(changes.ROWS) > F.col(changes.KEYS)).isEmpty():
        return []
    found = {each.alias: changes.count_rows(work.read_source(each.alias), each, search=True) for each in sources}
    return [
        build_finding("key_unique", "fail", (counts.rows, counts.surplus), alias)
        for alias, counts in found.items()
        if counts.surplus
    ]


def _count_join(work: Work, rows: Rows, finding: Finding, how: Lookup | LookupState) -> tuple[int, int]:
    """Count what a rule about a join judges, and what it finds wanting."""
    if finding.expectation == suites.NULL_FOREIGN_KEYS:
        return how.rows, how.null_references
    referring = how.rows - how.null_references
    unmatched = referring - how.matched
    if finding.expectation == suites.NEW_ORPHANS:
        return _count_new_orphans(work, rows, finding.source or "", (referring, unmatched))
    return referring, unmatched


def _count_new_orphans(work: Work, rows: Rows, alias: str, counted: tuple[int, int]) -> tuple[int, int]:
    """Count rows that refer to a lookup, and new orphans among them; asks Spark where the counts do not tell."""
    spec = work.task.spec
    step = next(step for step in spec.steps if step.alias == alias)
    referring, unmatched = counted
    if step.elements is None and (unmatched == 0 or work.task.everything):
        return referring, unmatched
    keys = name_left_key(len(spec.key_columns))
    names = keys if spec.interval_step is None else identify_rows(work.task).names
    now = rows.frame.select(*names, name_partners(alias))
    before = None
    if unmatched and not work.task.everything:
        among = Affected(orphans.find_orphans(now, alias).select(*keys).distinct())
        before = join.find_partners(work.before, step, among)
    found = aggregate(orphans.find_new_orphans(now, alias, names, before), F.count("*"), F.count_if("new"))
    return int(found[0]), int(found[1])


@measure("rules")
def check_mass_change(work: Work, target: difference.Difference, *, compared: bool) -> None:
    """Hold the difference against the rules about how much of the target a run may delete or empty.

    Args:
        work: The job's run.
        target: The difference to the target.
        compared: False when old and new rows cannot be compared; then only how many there are tells what is lost.
    """
    rules = suites.list_unjudged(work.task.job.rules, work.task.accepted)
    asked = [finding for finding in rules if finding.expectation == suites.MASS_CHANGE]
    table = read_target(work) if asked else None
    if table is None:
        return
    rows = table.count()
    lost = target.deleted + target.emptied if compared else max(0, rows - target.inserted)
    require_open(work, [suites.judge_counts(finding, rows, lost) for finding in asked])


@measure("rules")
def judge_rows(work: Work, rows: Rows, affected: Affected | None) -> JudgedRows:
    """Hold the affected rows against the job's suite, but for the rules about the whole target: ``judge_target``.

    Raises:
        Closed: A rule of the suite has closed the gate, and no other one is left to be judged.
    """
    from enrich.quality.judge import judge

    live = select_live_rows(work, rows)
    suite = work.task.judging_suite
    if suite is None:
        return JudgedRows(live, None, tally=rows.tally)
    columns = [F.col(quote(name)) for name in _order_columns(work)]
    verdict = judge(
        live.select(*columns),
        suite,
        lambda reasons: build_published(work, live, affected, reasons),
        scans=affected is not None and work.task.target.table is not None,
        whole=bool(rows.tally),
    )
    if not verdict.open_rules:
        require_open(work, verdict.findings, verdict.closing)
    if verdict.reasons is None:
        return JudgedRows(live, None, verdict, rows.tally)
    labelled = work.keep(live.withColumn(FAILED_COLUMN, verdict.reasons))
    is_good = F.size(FAILED_COLUMN) == 0
    return JudgedRows(labelled.where(is_good).drop(FAILED_COLUMN), labelled.where(~is_good), verdict)


def judge_target(work: Work, judged: JudgedRows, entries: Sequence[RuleState], scanned: Collection[int]) -> None:
    """Judge the rules of the suite about the whole target by its state as it will be.

    Args:
        work: The job's run.
        judged: What ``judge_rows`` gave.
        entries: The rules of that state.
        scanned: Rules for which the whole target was read, by index.

    Raises:
        Closed: A rule of the suite has closed the gate.
    """
    from enrich.quality.judge import judge_state

    suite, verdict = work.task.judging_suite, judged.verdict
    if suite is None or verdict is None or not verdict.open_rules:
        return
    verdict = judge_state(suite, verdict, {each.index: each for each in entries}, scanned)
    require_open(work, verdict.findings, verdict.closing)


def build_published(work: Work, live: DataFrame, affected: Affected | None, reasons: Column | None) -> DataFrame:
    """Return the whole target as it would be after this run, less the live rows for which there are ``reasons``."""
    columns = [F.col(quote(name)) for name in _order_columns(work)]
    fresh = live if reasons is None else live.where(F.size(reasons) == 0)
    fresh = fresh.select(*columns)
    table = read_target(work)
    if table is None or affected is None:
        return fresh
    identity = identify_rows(work.task)
    theirs = identity.of()
    kept = drop_affected(table.withColumns(theirs), affected, identity).drop(*theirs)
    return kept.unionByName(fresh, allowMissingColumns=True)


def _order_columns(work: Work) -> list[str]:
    """Return the target's columns in the order that its table has after the run: those that it gains come last."""
    task = work.task
    there = () if task.target.table is None or task.rewrites else task.target.table.columns
    return list(dict.fromkeys([*(name for name in there if name in task.spec.columns), *task.spec.columns]))


# --- The query that lists the doubled keys of a source, for people: its rows stay theirs, and no message shows one ---

KEY_UNIQUE = "key_unique"

_FORMS = {
    "visible": r"regexp_replace({}, '[\\p{{Cc}}\\p{{Cf}}]+', '')",
    "trim": r"regexp_replace({}, '^\\p{{IsWhite_Space}}+|\\p{{IsWhite_Space}}+\\z', '')",
    "lower": "lower({})",
    "integer": r"regexp_replace({}, '^(-?[0-9]+)\\.0+\\z', '$1')",
    "unpad": "regexp_replace({}, '(?s)^0+(?=.)', '')",
}
"""Normalisers as Spark SQL writes them, after ``enrich.frames.normalise``; ``nfc`` has no function there."""


def suggest_queries(task: Task, findings: Iterable[Finding]) -> str:
    """Return the end of a sentence that lists the doubled keys of each source in which there are some; or nothing."""
    aliases = dict.fromkeys(each.source for each in findings if each.expectation == KEY_UNIQUE and each.source)
    return "".join(f". This lists the doubled keys of {alias}: {_build_query(task, alias)}" for alias in aliases)


def _build_query(task: Task, alias: str) -> str:
    table, source = task.tables[alias], task.spec.sources[alias]
    keys = ", ".join(_write_key(source, name) for name in source.key)
    filled = " AND ".join(f"{quote(name)} IS NOT NULL" for name in source.key)
    parts = (
        f"SELECT {keys}, count(*) AS count",
        f"FROM delta.{quote(table.uri)} VERSION AS OF {table.version}",
        f"WHERE {filled}",
        "GROUP BY ALL HAVING count(*) > 1",
    )
    return " ".join(parts) + (
        " (without the normaliser nfc, for which SQL has nothing)" if "nfc" in source.normalise else ""
    )


def _write_key(source: SourceSpec, name: str) -> str:
    """Return a key column as the engine sees it, after the normalisers of its source."""
    text = quote(name)
    if source.columns[name] != TEXT_TYPE or not source.normalise:
        return text
    for step in source.normalise:
        text = _FORMS[step].format(text) if step in _FORMS else text
    return f"{text} AS {quote(name)}"
