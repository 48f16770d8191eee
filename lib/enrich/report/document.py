"""Rows of the runs table -> the report's document: of each job the table now, then what the last run said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Protocol, get_args

from enrich.base.console import format_count
from enrich.base.errors import refuse_text
from enrich.base.result import (
    BLOCKED,
    CREATED,
    FAILED,
    LOCKED,
    SKIPPED,
    UNCHANGED,
    LookupState,
    Quarantine,
    RuleState,
    State,
    resolve_threshold,
)
from enrich.base.suites import Suite, SuiteRule
from enrich.delta.runs import RunsTable
from enrich.project.catalogue import TYPES
from enrich.project.models import Job
from enrich.project.project import Project, sort_jobs
from enrich.report.models import (
    JobReport,
    LookupNow,
    LookupReport,
    NullsNow,
    Report,
    RuleNow,
    RuleReport,
    RuleVerdict,
    RunMark,
    TableNow,
    Verdict,
)
from enrich.report.outcomes import Outcome, select_acted
from enrich.report.words import (
    compute_share,
    format_moment,
    format_verdict,
    read_bound,
    read_count,
    read_list,
    read_name,
    read_number,
    read_text,
)

DEFAULT_RUNS = 30
"""How many runs of each job a report goes back."""

_GRAVITY: tuple[Verdict, ...] = get_args(Verdict)
_RULE_GRAVITY: tuple[RuleVerdict, ...] = get_args(RuleVerdict)
_VERDICT_OF_STATUS: dict[str, Verdict] = {FAILED: "failed", BLOCKED: "blocked", SKIPPED: "skipped"}


def read_report(project: Project, jobs: Sequence[str] | None = None, runs: int = DEFAULT_RUNS) -> Report:
    """Read the runs table and build the report of ``jobs`` in their order; of all in run order where none are named.

    Raises:
        EnrichError: The runs table cannot be read.
    """
    refuse_text("jobs", jobs)
    # Idle runs are read, too: one that only moved the cursor did something, and the very last is always told.
    rows = RunsTable(project.state).read_recent(runs)
    names = sort_jobs(project.jobs, project) if jobs is None else list(jobs)
    found = []
    for job in (project.jobs[name] for name in names):
        place = str(project.location(job.target.table))
        found.append((job, [row for row in rows if row["job"] == job.job and row["target"] == place]))
    return build_report(found, project, runs)


def build_report(
    jobs: Sequence[tuple[Job, Sequence[Mapping[str, Any]]]],
    project: Project,
    runs: int = DEFAULT_RUNS,
) -> Report:
    """Build the report from each job's outcomes, oldest first."""
    found = tuple(
        _build_job_report(job, project.suite(job), [Outcome.of(row) for row in rows], runs) for job, rows in jobs
    )
    counts = Counter(job.verdict for job in found)
    told = [f"{counts[verdict]} {format_verdict(verdict)}" for verdict in _GRAVITY if counts[verdict]]
    gravest: Verdict = min((job.verdict for job in found), key=_GRAVITY.index, default="never_run")
    return Report(
        generated=format_moment(datetime.now(UTC)),
        target=project.deployment,
        deployment=project.deployment,
        verdict=gravest,
        headline=f"{format_count(len(found), 'job')}: {', '.join(told)}" if told else "no jobs",
        jobs=found,
    )


def _build_job_report(job: Job, suite: Suite | None, outcomes: Sequence[Outcome], runs: int) -> JobReport:
    known: dict[str, Any] = {"job": job.job, "target": read_name(job.target.table), "suite": job.expectations}
    if not outcomes:
        return JobReport(**known, verdict="never_run", headline="never run")
    last, acted = outcomes[-1], select_acted(outcomes)[-runs:]
    counted, rules_now = find_counted(outcomes), build_rules_now(outcomes, acted, suite)
    now = build_table_now(job, outcomes, acted, tuple(rules_now.values()))
    judged = _find_judged(acted, outcomes)
    rules = _build_rules(judged, acted, rules_now) if judged else ()
    in_quarantine = last.quarantine() or (judged.quarantine() if judged else None)
    ended = next((each for each in reversed(outcomes) if each.status != LOCKED), None)
    is_waiting = ended is not None and ended.repairs and judged is not None and judged.status == BLOCKED
    status = BLOCKED if is_waiting else ended.status if ended is not None else None
    verdict = _decide_verdict(status, rules, in_quarantine, now)
    known |= {"verdict": verdict, "headline": write_job_headline(verdict, last.status, rules, in_quarantine, now)}
    known |= {"last": last.attempt(), "state": counted.state if counted else None, "now": now}
    history = tuple(each.run() for each in acted)
    if judged is None:
        return JobReport(**known, quarantine=in_quarantine, runs=history)
    return JobReport(
        **known,
        judged=judged.run(),
        target_version=read_number(judged.document.get("target_version")),
        **{name: judged.count(name) for name in ("affected_keys", "null_foreign_keys", "null_list_ids", "null_values")},
        sources=judged.windows(),
        rules=rules,
        lookups={
            read_name(alias): LookupReport(
                kind=read_name(each.get("kind")),
                rows=read_count(each.get("rows")),
                matched=read_count(each.get("matched")),
                null_references=read_count(each.get("null_references")),
                share=judged.match_share(alias),
                trend=tuple(run.match_share(alias) for run in acted),
            )
            for alias, each in judged.lookups().items()
        },
        quarantine=in_quarantine,
        stages=judged.stages(),
        runs=history,
    )


def _find_judged(acted: Sequence[Outcome], outcomes: Sequence[Outcome]) -> Outcome | None:
    """Return the run whose rules and lookups describe what stands now; None when there is none.

    A failed run judged nothing, nor did one that only moved its cursor, nor a repair. A blocked one is told until a
    later run finds nothing left to do.
    """
    ended = (each for each in reversed(outcomes) if not each.repairs and each.status not in (SKIPPED, LOCKED, FAILED))
    out = (FAILED, BLOCKED) if next(ended, outcomes[-1]).status == UNCHANGED else (FAILED,)
    runs = (each for each in reversed(acted) if each.status not in out and not each.repairs)
    return next((each for each in runs if each.status != UNCHANGED or each.judged), None)


def _decide_verdict(
    status: str | None, rules: Sequence[RuleReport], in_quarantine: Quarantine | None, now: TableNow | None
) -> Verdict:
    """Return the verdict on the last run that did not only meet another run's lock; ``status`` is None without one."""
    if status is None:
        return "never_run"
    if status in _VERDICT_OF_STATUS:
        return _VERDICT_OF_STATUS[status]
    wanting = any(rule.verdict in ("error", "blocked", "held", "warned") for rule in rules)
    failing = now is not None and any(rule.verdict == "warned" for rule in now.rules)
    if wanting or failing or (in_quarantine is not None and in_quarantine.rows):
        return "warned"
    return "not_checked" if rules and all(rule.verdict == "not_checked" for rule in rules) else "passed"


def _build_rules(judged: Outcome, acted: Sequence[Outcome], now: Mapping[Any, RuleNow]) -> tuple[RuleReport, ...]:
    """Return the rules of a run; one that fails in the table now is warned, if it was nothing worse."""
    histories = [each.rules() for each in acted]
    found = []
    for identity, each in judged.rules().items():
        counted = [None if run.get(identity, {}).get("success") is None else run[identity] for run in histories]
        trend = tuple(None if entry is None else read_count(entry.get("failed")) for entry in counted)
        rule = _build_rule(each, trend, blocked=judged.status == BLOCKED)
        if identity in now and now[identity].verdict == "warned":
            rule = rule.model_copy(update={"verdict": min(rule.verdict, "warned", key=_RULE_GRAVITY.index)})
        found.append(rule)
    return tuple(found)


def _build_rule(finding: Mapping[str, Any], trend: tuple[int | None, ...], *, blocked: bool) -> RuleReport:
    success, error = finding.get("success"), read_text(finding.get("error"))
    success = success if isinstance(success, bool) else None
    checked, failed = read_count(finding.get("checked")), read_count(finding.get("failed"))
    columns = read_list(finding.get("column_list"))
    expectation = read_name(finding.get("expectation"))
    known = TYPES.get(expectation)
    by_row = known is None or (known.is_row and not known.verdict_only)  # built-in rules count rows, too
    action = read_name(finding.get("action"))
    is_tolerated = finding.get("tolerated") is True
    verdict = "tolerated" if is_tolerated else _decide_rule_verdict(success, error, action, blocked=blocked)
    return RuleReport(
        index=read_number(finding.get("index")),
        expectation=expectation,
        column=read_text(finding.get("column")),
        column_list=tuple(map(read_name, columns)) or None,
        source=read_text(finding.get("source")),
        action=action,
        verdict=verdict,
        run_verdict=verdict,
        scope=read_text(finding.get("scope")),
        checked=checked,
        failed=failed,
        success=success,
        share=compute_share(failed, checked) if by_row else None,
        by_row=by_row,
        error=error,
        at_least=read_bound(finding.get("at_least")),
        at_most=read_bound(finding.get("at_most")),
        accepted=finding.get("accepted") is True,
        trend=trend,
    )


def _decide_rule_verdict(success: bool | None, error: str | None, action: str, *, blocked: bool) -> RuleVerdict:
    if error is not None:
        return "error"
    if success is None:
        return "not_checked"
    if success:
        return "passed"
    if action == "fail":
        return "blocked" if blocked else "tolerated"
    return "held" if action == "quarantine" else "warned"


_ENDS = {"failed": "the last run failed", "blocked": "the last run was blocked, the target is unchanged"}
_STATUSES = {SKIPPED: "skipped", LOCKED: "another run had the lock"}


def write_job_headline(
    verdict: Verdict,
    status: str,
    rules: Sequence[RuleReport],
    in_quarantine: Quarantine | None,
    now: TableNow | None,
) -> str:
    """Return how the last run ended, how many rules fail in the table, what the run said, how much is quarantined."""
    counted = [] if now is None else [rule for rule in now.rules if rule.verdict is not None]
    failing = sum(rule.verdict == "warned" for rule in counted)
    fails = "fails" if 1 in (failing, len(counted)) else "fail"
    table = f"table now: {failing} of {format_count(len(counted), 'rule')} {fails}" if counted else ""
    told = [_ENDS.get(verdict, ""), _STATUSES.get(status, ""), table]
    if rules and verdict not in ("failed", "skipped"):
        words = {"passed": "passed", "tolerated": "tolerated", "not_checked": "judged no row"}
        counts = {"failed": 0, **dict.fromkeys(words.values(), 0)}
        counts |= Counter(words.get(rule.run_verdict, "failed") for rule in rules)
        said = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        told.append(f"this run: {said}" if table else f"{format_count(len(rules), 'rule')}: {said}")
    if in_quarantine is not None and in_quarantine.rows:
        told.append(f"{format_count(in_quarantine.rows, 'row')} in quarantine")
    return "; ".join(part for part in told if part) or "up to date"


# --- the table as it is now: the last recorded state, held against the suite, with its history ------------------------
#
# states after three runs        suite                 now
# rule 0: 0, 4, 12 of 100        mostly 0.95           warned: 12 of 100 fail, since the second run; trend 0 4 12


def find_counted(outcomes: Sequence[Outcome]) -> Outcome | None:
    """Return the last run that recorded what the target holds; None when none did."""
    return next((each for each in reversed(outcomes) if each.state is not None), None)


def build_rules_now(outcomes: Sequence[Outcome], acted: Sequence[Outcome], suite: Suite | None) -> dict[Any, RuleNow]:
    """Return what each rule of the last state says of the table, by what tells rules apart.

    Args:
        outcomes: All known runs of the job, oldest first.
        acted: Those of its history: what the trends are about.
        suite: The job's suite as it is now.
    """
    counted = find_counted(outcomes)
    if counted is None:
        return {}
    findings = counted.rules()
    return {
        identity: replace(
            _build_rule_now(each, findings.get(identity, {}), suite), **_trace_rule(identity, outcomes, acted)
        )
        for identity, each in counted.counted_rules.items()
    }


def build_table_now(
    job: Job, outcomes: Sequence[Outcome], acted: Sequence[Outcome], rules: Sequence[RuleNow]
) -> TableNow | None:
    """Return the table of a job as it is now; None when no run recorded it."""
    counted = find_counted(outcomes)
    if counted is None or counted.state is None:
        return None
    state, states = counted.state, [each.state for each in acted]
    return TableNow(
        counted=_mark(counted),
        rows=state.rows,
        trend=tuple(None if each is None else each.rows for each in states),
        rules=tuple(rules),
        lookups={alias: _build_lookup(job, alias, each, states) for alias, each in state.lookups.items()},
        nulls={
            column: NullsNow(
                rows=rows,
                share=compute_share(rows, state.rows),
                trend=tuple(None if each is None else each.nulls.get(column) for each in states),
            )
            for column, rows in state.nulls.items()
        },
    )


def _mark(outcome: Outcome) -> RunMark:
    attempt = outcome.attempt()
    return RunMark(run_id=attempt.run_id, at=attempt.at)


# --- rules of the table -----------------------------------------------------------------------------------------------


def _build_rule_now(state: RuleState, finding: Mapping[str, Any], suite: Suite | None) -> RuleNow:
    rule = next((each for each in suite.rules if each.index == state.index), None) if suite is not None else None
    if rule is not None:  # which has its place, and must still be the one that the run counted
        listed = None if rule.column_list is None else list(rule.column_list)
        counted = (finding.get("expectation"), finding.get("column"), finding.get("column_list"))
        rule = rule if (rule.type, rule.column, listed) == counted else None
    columns = tuple(map(read_name, read_list(finding.get("column_list"))))
    return RuleNow(
        **vars(state),
        expectation=read_name(finding.get("expectation")),
        column=read_text(finding.get("column")),
        column_list=columns or None,
        verdict=judge_state(state, rule),
        share=None if state.checked is None or state.failed is None else compute_share(state.failed, state.checked),
        mostly=None if rule is None or "mostly" not in rule.kwargs else float(_read_mostly(rule)),
        tolerate=None if rule is None else rule.tolerate,
    )


def judge_state(state: RuleState, rule: SuiteRule | None) -> RuleVerdict | None:
    """Return the verdict over all rows of the target; None when there is nothing to judge, or to judge by.

    ``mostly`` that is met is a pass. Shares are fractions exactly as the suite writes them, and the ends are inclusive.
    """
    if rule is None:
        return None
    if state.error is not None:
        return "error"
    if state.checked is None or state.failed is None:
        return None
    if state.checked == 0:
        return "not_checked"
    if state.failed == 0 or Fraction(state.checked - state.failed, state.checked) >= _read_mostly(rule):
        return "passed"
    is_tolerated = rule.tolerate is not None and state.failed <= resolve_threshold(rule.tolerate, state.checked)
    return "tolerated" if is_tolerated else "warned"


def _read_mostly(rule: SuiteRule) -> Fraction:
    """Return the share of rows that must pass, exactly as written; GX also accepts it as text."""
    given = rule.kwargs.get("mostly", 1)
    return Fraction(repr(given) if isinstance(given, float) else given)


def _trace_rule(identity: Any, outcomes: Sequence[Outcome], acted: Sequence[Outcome]) -> dict[str, Any]:
    """Return the history of one rule: its counts after each run, and since when rows fail."""
    uncounted = RuleState(0)
    entries = [each.counted_rules.get(identity, uncounted) for each in acted]
    known = [each for each in outcomes if each.counted_rules.get(identity, uncounted).failed is not None]
    first = None
    for each in reversed(known):
        if not each.counted_rules[identity].failed:
            break
        first = each
    earlier = [each for each in outcomes if each.state is not None][:1]
    return {
        "since": None if first is None else _mark(first),
        "since_or_before": first is not None and earlier == [first] and first.status != CREATED,
        "trend": tuple(each.failed for each in entries),
        "checked_trend": tuple(each.checked for each in entries),
    }


# --- joins of the table -----------------------------------------------------------------------------------------------


def _build_lookup(job: Job, alias: str, state: LookupState, states: Sequence[State | None]) -> LookupNow:
    history = [None if each is None else each.lookups.get(alias) for each in states]
    join = job.join.get(alias)
    return LookupNow(
        kind=None if join is None else join.kind,
        **vars(state),
        orphans=_count_orphans(state),
        match_rate=_compute_match_rate(state),
        trend=tuple(None if each is None else _compute_match_rate(each) for each in history),
        orphans_trend=tuple(None if each is None else _count_orphans(each) for each in history),
    )


def _compute_match_rate(state: LookupState) -> float | None:
    return compute_share(state.matched, max(0, state.rows - state.null_references))


def _count_orphans(state: LookupState) -> int:
    return max(0, state.rows - state.null_references - state.matched)


# --- why rows fail ----------------------------------------------------------------------------------------------------


class Causes(Protocol):
    """What was found about one rule of a whole target; ``enrich.answers`` gives it as ``RuleCauses``."""

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

        recorded                     found                              the report says
        rule 0: 12 of 100 fail       9 no_such_key, 3 deleted_at        9 no such key, 3 deleted
        rule 1:  4 of 100 fail       5 no_such_key                      nothing: a run came in between
        rule 2:  0 of 100 fail       -                                  no reasons

    Reasons are those of the recorded state: where the counts are not the recorded ones, because a run came in between,
    or where the suite has another rule at this place now, there are none.

    Args:
        report: What ``read_report`` gave.
        found: Job -> what was found about its rules. Jobs that no row fails need none; others that are not named
            could not be answered, and stay as they are.
    """
    unknown = set(list_failing(report)) - set(found)
    jobs = []
    for job in report.jobs:
        if job.now is None or job.job in unknown:
            jobs.append(job)
            continue
        causes = {each.index: each for each in found.get(job.job, ())}
        rules = tuple(_explain_rule(rule, causes.get(rule.index)) for rule in job.now.rules)
        jobs.append(job.model_copy(update={"now": job.now.model_copy(update={"rules": rules})}))
    return report.model_copy(update={"jobs": tuple(jobs)})


def _explain_rule(rule: RuleNow, causes: Causes | None) -> RuleNow:
    if rule.failed == 0:
        return replace(rule, reasons={})
    if causes is None or rule.failed is None or rule.verdict is None:
        return rule
    reasons = dict(causes.reasons)
    if (causes.checked, causes.failed, sum(reasons.values())) != (rule.checked, rule.failed, rule.failed):
        return rule
    return replace(rule, reasons=reasons, near_misses=dict(causes.near_misses))
