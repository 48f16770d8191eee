"""Tell the table as it is now: the last state that a run recorded, held against the suite, with its history.

states after three runs        suite                 now
rule 0: 0, 4, 12 of 100        mostly 0.95           warned: 12 of 100 fail, since the second run; trend 0 4 12
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

from enrich.base.result import CREATED, LookupState, RuleState, State, resolve_threshold
from enrich.base.suites import Suite, SuiteRule
from enrich.project.models import Job
from enrich.report.models import (
    JobReport,
    LookupNow,
    NullsNow,
    Report,
    RuleNow,
    RuleVerdict,
    RunMark,
    TableNow,
)
from enrich.report.outcomes import Outcome
from enrich.report.words import compute_share, read_list, read_name, read_text


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
            _build_rule(each, findings.get(identity, {}), suite), **_trace_rule(identity, outcomes, acted)
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


# --- rules ------------------------------------------------------------------------------------------------------------


def _build_rule(state: RuleState, finding: Mapping[str, Any], suite: Suite | None) -> RuleNow:
    rule = _find_rule(state.index, finding, suite)
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


def _find_rule(index: int, finding: Mapping[str, Any], suite: Suite | None) -> SuiteRule | None:
    """Return the rule that the suite has at this place, if it is still the one that the run counted."""
    rule = next((each for each in suite.rules if each.index == index), None) if suite is not None else None
    if rule is None:
        return None
    columns = None if rule.column_list is None else list(rule.column_list)
    counted = (finding.get("expectation"), finding.get("column"), finding.get("column_list"))
    return rule if (rule.type, rule.column, columns) == counted else None


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


# --- joins ------------------------------------------------------------------------------------------------------------


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
        return replace(rule, reasons={})
    if causes is None or rule.failed is None or rule.verdict is None:
        return rule
    reasons = dict(causes.reasons)
    if (causes.checked, causes.failed, sum(reasons.values())) != (rule.checked, rule.failed, rule.failed):
        return rule
    return replace(rule, reasons=reasons, near_misses=dict(causes.near_misses))
