"""Rows of the runs table -> the report's document: of each job the table now, then what the last run said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, get_args

from enrich.base.console import format_count
from enrich.base.errors import refuse_text
from enrich.base.result import BLOCKED, FAILED, LOCKED, SKIPPED, UNCHANGED, Quarantine
from enrich.base.suites import Suite
from enrich.delta.runs import RunsTable
from enrich.project.catalogue import TYPES
from enrich.project.models import Job
from enrich.project.project import Project, sort_jobs
from enrich.report.models import (
    JobReport,
    LookupReport,
    Report,
    RuleNow,
    RuleReport,
    RuleVerdict,
    TableNow,
    Verdict,
)
from enrich.report.now import build_rules_now, build_table_now, find_counted
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
    gravest: Verdict = min((job.verdict for job in found), key=_GRAVITY.index, default="never_run")
    return Report(
        generated=format_moment(datetime.now(UTC)),
        target=project.deployment,
        deployment=project.deployment,
        verdict=gravest,
        headline=write_project_headline(found),
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
        lookups=_build_lookups(judged, acted),
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
    trends = [each.failures() for each in acted]
    found = []
    for identity, each in judged.rules().items():
        trend = tuple(trend.get(identity) for trend in trends)
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


def _build_lookups(judged: Outcome, acted: Sequence[Outcome]) -> dict[str, LookupReport]:
    return {
        read_name(alias): LookupReport(
            kind=read_name(each.get("kind")),
            rows=read_count(each.get("rows")),
            matched=read_count(each.get("matched")),
            null_references=read_count(each.get("null_references")),
            share=judged.match_share(alias),
            trend=tuple(run.match_share(alias) for run in acted),
        )
        for alias, each in judged.lookups().items()
    }


_ENDS = {"failed": "the last run failed", "blocked": "the last run was blocked, the target is unchanged"}
_STATUSES = {SKIPPED: "skipped", LOCKED: "another run had the lock"}


def write_project_headline(jobs: Sequence[JobReport]) -> str:
    """Return how many jobs have which verdict, the most serious first."""
    counts = Counter(job.verdict for job in jobs)
    told = [f"{counts[verdict]} {format_verdict(verdict)}" for verdict in get_args(Verdict) if counts[verdict]]
    return f"{format_count(len(jobs), 'job')}: {', '.join(told)}" if told else "no jobs"


def write_job_headline(
    verdict: Verdict,
    status: str,
    rules: Sequence[RuleReport],
    in_quarantine: Quarantine | None,
    now: TableNow | None,
) -> str:
    """Return how the last run ended, how many rules fail in the table, what the run said, how much is quarantined."""
    table = _tell_table(now)
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


def _tell_table(now: TableNow | None) -> str:
    """Return how many of the rules that are counted over the whole table fail there; empty when none is judged."""
    judged = [] if now is None else [rule for rule in now.rules if rule.verdict is not None]
    failing = sum(rule.verdict == "warned" for rule in judged)
    if not judged:
        return ""
    fails = "fails" if 1 in (failing, len(judged)) else "fail"
    return f"table now: {failing} of {format_count(len(judged), 'rule')} {fails}"
