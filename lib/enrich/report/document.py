"""Rows of the runs table -> the report's document.

What stands in a row was written by this or an earlier release, or by a hand that may write the state directory: every
value is checked, missing ones are allowed for, texts are cut.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, get_args

from enrich.base.console import format_count
from enrich.base.errors import RunFailed
from enrich.base.result import BLOCKED, CREATED, FAILED, LOCKED, SKIPPED, UNCHANGED, UPDATED
from enrich.config.graph import sort_jobs
from enrich.config.models import Job
from enrich.config.project import Project
from enrich.quality.catalogue import TYPES
from enrich.report.models import (
    Attempt,
    JobReport,
    LookupReport,
    QuarantineReport,
    Report,
    RuleReport,
    RuleVerdict,
    Run,
    Verdict,
    WindowReport,
)
from enrich.report.values import (
    MAX_ERROR,
    compute_share,
    format_moment,
    format_verdict,
    read_bound,
    read_count,
    read_list,
    read_mapping,
    read_mappings,
    read_name,
    read_number,
    read_seconds,
    read_text,
)
from enrich.storage.runs import RunsTable

DEFAULT_RUNS = 30
"""How many runs of each job a report goes back."""

_ACTED = (CREATED, UPDATED, BLOCKED, FAILED)
_GRAVITY: tuple[Verdict, ...] = get_args(Verdict)
_VERDICT_OF_STATUS: dict[str, Verdict] = {FAILED: "failed", BLOCKED: "blocked", SKIPPED: "skipped"}
_STAGES = ("changes", "keys", "join", "rules", "difference", "write")


def read_report(project: Project, jobs: Sequence[str] | None = None, runs: int = DEFAULT_RUNS) -> Report:
    """Read the runs table and build the report of ``jobs`` in their order; of all in run order where none are named.

    Raises:
        RunFailed: The runs table cannot be read.
    """
    table = RunsTable(project.state)
    try:
        # Idle runs are read, too: one that only moved the cursor did something, and the very last is always told.
        rows = table.recent(runs)
    except Exception as error:
        raise RunFailed(
            f"the runs table at {table.uri} cannot be read ({type(error).__name__})", hint="check the state directory"
        ) from error
    names = sort_jobs(project.jobs, project) if jobs is None else list(jobs)
    return build_report(
        [(project.jobs[name], _select_rows(project, project.jobs[name], rows)) for name in names], project, runs
    )


def _select_rows(project: Project, job: Job, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    place = str(project.location(job.target.table))
    return [row for row in rows if row["job"] == job.job and row["target"] == place]


def build_report(
    jobs: Sequence[tuple[Job, Sequence[Mapping[str, Any]]]],
    project: Project,
    runs: int = DEFAULT_RUNS,
    now: datetime | None = None,
) -> Report:
    """Build the report from each job's outcomes, oldest first."""
    found = tuple(_build_job_report(job, [_Outcome.of(row) for row in rows], runs) for job, rows in jobs)
    gravest: Verdict = min((job.verdict for job in found), key=_GRAVITY.index, default="never_run")
    return Report(
        generated=format_moment(now or datetime.now(UTC)),
        target=project.deployment,
        deployment=project.deployment,
        verdict=gravest,
        headline=_write_headline(found),
        jobs=found,
    )


def _write_headline(jobs: Sequence[JobReport]) -> str:
    counts = Counter(job.verdict for job in jobs)
    told = [f"{counts[verdict]} {format_verdict(verdict)}" for verdict in _GRAVITY if counts[verdict]]
    return f"{format_count(len(jobs), 'job')}: {', '.join(told)}" if told else "no jobs"


@dataclass(frozen=True)
class _Outcome:
    """One row of the runs table and the document in it."""

    row: Mapping[str, Any]
    document: Mapping[str, Any]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> _Outcome:
        try:
            document = json.loads(row.get("document") or "{}")
        except (ValueError, TypeError, RecursionError):
            document = {}
        return cls(row, read_mapping(document))

    @property
    def status(self) -> str:
        return read_text(self.row.get("status")) or "unknown"

    @property
    def acted(self) -> bool:
        """True when the run did something, if only to move its cursor."""
        moved = any(window.from_ != window.to for window in self.windows().values())
        return self.status in _ACTED or (self.status == UNCHANGED and (moved or self.judged))

    @property
    def judged(self) -> bool:
        """True when a rule came to a verdict: a run without changes lists its rules, too."""
        return any(each.get("success") is not None or each.get("error") is not None for each in self.findings())

    def findings(self) -> list[Mapping[str, Any]]:
        return [each for each in read_list(self.document.get("findings")) if isinstance(each, dict)]

    def windows(self) -> dict[str, WindowReport]:
        return {
            read_name(alias): WindowReport(
                from_=read_number(each.get("from")),
                to=read_count(each.get("to")),
                changes=read_count(each.get("changes")),
            )
            for alias, each in read_mappings(self.document.get("sources")).items()
        }

    def count(self, name: str) -> int:
        return read_count(self.document.get(name))

    def attempt(self) -> Attempt:
        row, at = self.row, self.row.get("at")
        return Attempt(
            run_id=read_text(row.get("run_id")) or "",
            at=format_moment(at) if isinstance(at, datetime) else "",
            status=self.status,
            mode=read_text(row.get("mode")),
            seconds=read_seconds(row.get("seconds")),
            exit_code=read_number(row.get("exit_code")) or 0,
            error=read_text(self.document.get("error"), MAX_ERROR),
        )

    def run(self) -> Run:
        held = self.quarantine()
        counts = {name: self.count(name) for name in ("inserted", "updated", "deleted", "quarantined")}
        return Run(**self.attempt().model_dump(), **counts, held=held.rows if held else None)

    def quarantine(self) -> QuarantineReport | None:
        held = self.document.get("quarantine")
        if not isinstance(held, dict):
            return None
        reasons = {read_name(reason): read_count(n) for reason, n in read_mapping(held.get("reasons")).items()}
        return QuarantineReport(rows=read_count(held.get("rows")), reasons=reasons)

    def lookups(self) -> dict[str, Mapping[str, Any]]:
        return read_mappings(self.document.get("lookups"))

    def stages(self) -> dict[str, float]:
        stages = read_mapping(self.document.get("stages"))
        found = {read_name(name): read_seconds(value) for name, value in stages.items()}
        names = sorted(found, key=lambda name: _STAGES.index(name) if name in _STAGES else len(_STAGES))
        return {name: seconds for name in names if (seconds := found[name]) is not None}

    def rules(self) -> dict[Any, Mapping[str, Any]]:
        """Return the findings by what tells rules apart and is the same in other runs, even if the suite grew."""
        seen: Counter[str] = Counter()
        found = {}
        for each in self.findings():
            parts = [each.get(name) for name in ("expectation", "column", "column_list", "source")]
            identity = json.dumps(parts, default=str)
            found[identity, seen[identity]] = each
            seen[identity] += 1
        return found

    def failures(self) -> dict[Any, int]:
        """Return the failed rows of each rule that was judged, by the rule's identity."""
        judged = {identity: each for identity, each in self.rules().items() if each.get("success") is not None}
        return {identity: read_count(each.get("failed")) for identity, each in judged.items()}

    def match_share(self, alias: str) -> float | None:
        each = self.lookups().get(alias, {})
        return compute_share(read_count(each.get("matched")), read_count(each.get("rows")))


def _build_job_report(job: Job, outcomes: Sequence[_Outcome], runs: int) -> JobReport:
    known: dict[str, Any] = {"job": job.job, "target": read_name(job.target.table), "suite": job.expectations}
    if not outcomes:
        return JobReport(**known, verdict="never_run", headline="never run")
    last, acted = outcomes[-1], [each for each in outcomes if each.acted][-runs:]
    judged = _find_judged(acted, last)
    rules = _build_rules(judged, acted) if judged else ()
    held = last.quarantine() or (judged.quarantine() if judged else None)
    verdict = _decide_verdict(last.status, rules, held)
    history = tuple(each.run() for each in acted)
    known |= {"verdict": verdict, "headline": _write_job_headline(verdict, last, rules, held), "last": last.attempt()}
    if judged is None:
        return JobReport(**known, runs=history)
    return JobReport(
        **known,
        judged=judged.run(),
        target_version=read_number(judged.document.get("target_version")),
        **{name: judged.count(name) for name in ("affected_keys", "null_foreign_keys", "null_list_ids", "null_values")},
        sources=judged.windows(),
        rules=rules,
        lookups=_build_lookups(judged, acted),
        quarantine=held,
        stages=judged.stages(),
        runs=history,
    )


def _find_judged(acted: Sequence[_Outcome], last: _Outcome) -> _Outcome | None:
    """Return the run whose rules and lookups describe what stands now; None when there is none.

    A failed run judged nothing, nor did one that only moved its cursor. A blocked one is told until a later run finds
    nothing left to do.
    """
    out = (FAILED, BLOCKED) if last.status == UNCHANGED else (FAILED,)
    told = (each for each in reversed(acted) if each.status not in out and (each.status != UNCHANGED or each.judged))
    return next(told, None)


def _decide_verdict(status: str, rules: Sequence[RuleReport], held: QuarantineReport | None) -> Verdict:
    if status in _VERDICT_OF_STATUS:
        return _VERDICT_OF_STATUS[status]
    wanting = any(rule.verdict in ("error", "blocked", "held", "warned", "tolerated") for rule in rules)
    if wanting or (held is not None and held.rows):
        return "warned"
    return "not_checked" if rules and all(rule.verdict == "not_checked" for rule in rules) else "passed"


def _write_job_headline(
    verdict: Verdict, last: _Outcome, rules: Sequence[RuleReport], held: QuarantineReport | None
) -> str:
    """Return the job's state in one line, made of our own words and numbers."""
    failing = sum(rule.success is False or rule.verdict == "error" for rule in rules)
    passing = sum(rule.verdict == "passed" for rule in rules)
    parts = {"failed": "the last run failed", "blocked": "the last run was blocked, the target is unchanged"}
    told = [parts.get(verdict, {SKIPPED: "skipped", LOCKED: "another run had the lock"}.get(last.status, ""))]
    if rules and verdict not in ("failed", "skipped"):
        counts = {"failed": failing, "passed": passing, "judged no row": len(rules) - failing - passing}
        said = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        told.append(f"{format_count(len(rules), 'rule')}: {said}")
    if held is not None and held.rows:
        told.append(f"{format_count(held.rows, 'row')} in quarantine")
    return "; ".join(part for part in told if part) or "up to date"


def _build_rules(judged: _Outcome, acted: Sequence[_Outcome]) -> tuple[RuleReport, ...]:
    trends = [each.failures() for each in acted]
    blocked = judged.status == BLOCKED
    return tuple(
        _build_rule(each, tuple(trend.get(identity) for trend in trends), blocked=blocked)
        for identity, each in judged.rules().items()
    )


def _build_rule(finding: Mapping[str, Any], trend: tuple[int | None, ...], *, blocked: bool) -> RuleReport:
    success, error = finding.get("success"), read_text(finding.get("error"))
    success = success if isinstance(success, bool) else None
    checked, failed = read_count(finding.get("checked")), read_count(finding.get("failed"))
    columns = read_list(finding.get("column_list"))
    by_row = _counts_rows(finding.get("expectation"))
    action = read_name(finding.get("action"))
    return RuleReport(
        index=read_number(finding.get("index")),
        expectation=read_name(finding.get("expectation")),
        column=read_text(finding.get("column")),
        column_list=tuple(map(read_name, columns)) or None,
        source=read_text(finding.get("source")),
        action=action,
        verdict=_decide_rule_verdict(success, error, action, blocked=blocked),
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


def _counts_rows(expectation: Any) -> bool:
    """Tell whether a rule's ``failed`` counts rows; built-in rules' do."""
    spec = TYPES.get(expectation) if isinstance(expectation, str) else None
    return spec is None or (spec.is_row and not spec.verdict_only)


def _build_lookups(judged: _Outcome, acted: Sequence[_Outcome]) -> dict[str, LookupReport]:
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
