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
from typing import TYPE_CHECKING, Any, get_args

from enrich.report.models import (
    Attempt,
    JobReport,
    Lookup,
    Quarantine,
    Report,
    Rule,
    RuleVerdict,
    Run,
    Verdict,
    Window,
)
from enrich.report.values import (
    MAX_ERROR,
    bound_of,
    count_of,
    list_of,
    mappings_of,
    moment,
    name_of,
    number_of,
    seconds_of,
    share,
    text_of,
)
from enrich.result import BLOCKED, CREATED, FAILED, LOCKED, SKIPPED, UNCHANGED, UPDATED

if TYPE_CHECKING:
    from enrich.config.models import Job
    from enrich.config.project import Project

DEFAULT_RUNS = 30
"""How many runs of each job a report goes back."""

_ACTED = (CREATED, UPDATED, BLOCKED, FAILED)
_GRAVITY: tuple[Verdict, ...] = get_args(Verdict)
_WORDS = {"never_run": "never run", "not_checked": "not checked"}
_STAGES = ("changes", "keys", "join", "rules", "difference", "write")


def read_report(project: Project, jobs: Sequence[str] | None = None, runs: int = DEFAULT_RUNS) -> Report:
    """Read the runs table and build the report.

    Args:
        project: The project.
        jobs: Names, in the order of the report; None: all, in run order.
        runs: How many runs of each job to go back.

    Raises:
        RunFailed: The runs table cannot be read.
    """
    from enrich.config.graph import ordered
    from enrich.errors import RunFailed
    from enrich.runs import RunsTable

    table = RunsTable(project.state)
    try:
        # Idle runs are read, too: one that only moved the cursor did something, and the very last is always told.
        rows = table.recent(runs)
    except Exception as error:
        raise RunFailed(
            f"the runs table at {table.uri} cannot be read ({type(error).__name__})", hint="check the state directory"
        ) from error
    names = ordered(project.jobs, project) if jobs is None else list(jobs)
    return build([(project.jobs[name], _rows_of(project, project.jobs[name], rows)) for name in names], project, runs)


def _rows_of(project: Project, job: Job, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    place = str(project.location(job.target.table))
    return [row for row in rows if row["job"] == job.job and row["target"] == place]


def build(
    jobs: Sequence[tuple[Job, Sequence[Mapping[str, Any]]]],
    project: Project,
    runs: int = DEFAULT_RUNS,
    now: datetime | None = None,
) -> Report:
    """Build the report from each job's outcomes, oldest first."""
    found = tuple(_job_report(job, [_Outcome.of(row) for row in rows], runs) for job, rows in jobs)
    gravest: Verdict = min((job.verdict for job in found), key=_GRAVITY.index, default="never_run")
    return Report(
        generated=moment(now or datetime.now(UTC)),
        target=project.target,
        verdict=gravest,
        headline=_headline(found),
        jobs=found,
    )


def _headline(jobs: Sequence[JobReport]) -> str:
    counts = Counter(job.verdict for job in jobs)
    told = [f"{counts[verdict]} {_WORDS.get(verdict, verdict)}" for verdict in _GRAVITY if counts[verdict]]
    return f"{len(jobs)} job{'' if len(jobs) == 1 else 's'}: {', '.join(told)}" if told else "no jobs"


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
        return cls(row, document if isinstance(document, dict) else {})

    @property
    def status(self) -> str:
        return text_of(self.row.get("status")) or "unknown"

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
        return [each for each in list_of(self.document.get("findings")) if isinstance(each, dict)]

    def windows(self) -> dict[str, Window]:
        return {
            name_of(alias): Window.model_validate(
                {
                    "from": number_of(each.get("from")),
                    "to": count_of(each.get("to")),
                    "changes": count_of(each.get("changes")),
                }
            )
            for alias, each in mappings_of(self.document.get("sources")).items()
        }

    def count(self, name: str) -> int:
        return count_of(self.document.get(name))

    def attempt(self) -> Attempt:
        return Attempt(**self._attempt())

    def _attempt(self) -> dict[str, Any]:
        row, at = self.row, self.row.get("at")
        return {
            "run_id": text_of(row.get("run_id")) or "",
            "at": moment(at) if isinstance(at, datetime) else "",
            "status": self.status,
            "mode": text_of(row.get("mode")),
            "seconds": seconds_of(row.get("seconds")),
            "exit_code": number_of(row.get("exit_code")) or 0,
            "error": text_of(self.document.get("error"), MAX_ERROR),
        }

    def run(self) -> Run:
        held = self.quarantine()
        counts = {name: self.count(name) for name in ("inserted", "updated", "deleted", "quarantined")}
        return Run.model_validate({**self._attempt(), **counts, "held": held.rows if held else None})

    def quarantine(self) -> Quarantine | None:
        held = self.document.get("quarantine")
        if not isinstance(held, dict):
            return None
        reasons = held.get("reasons")
        named = {name_of(reason): count_of(n) for reason, n in (reasons if isinstance(reasons, dict) else {}).items()}
        return Quarantine(rows=count_of(held.get("rows")), reasons=named)

    def lookups(self) -> dict[str, Mapping[str, Any]]:
        return mappings_of(self.document.get("lookups"))

    def stages(self) -> dict[str, float]:
        stages = self.document.get("stages")
        found = {
            name_of(name): seconds_of(value) for name, value in (stages if isinstance(stages, dict) else {}).items()
        }
        names = [*(name for name in _STAGES if name in found), *(name for name in found if name not in _STAGES)]
        return {name: seconds for name in names if (seconds := found[name]) is not None}

    def failures(self) -> dict[Any, int]:
        """Return the failed rows of each rule that was judged, by the rule's identity."""
        identities = _identities(self.findings())
        judged = zip(identities, self.findings(), strict=True)
        return {identity: count_of(each.get("failed")) for identity, each in judged if each.get("success") is not None}

    def match_share(self, alias: str) -> float | None:
        each = self.lookups().get(alias, {})
        return share(count_of(each.get("matched")), count_of(each.get("rows")))


def _job_report(job: Job, outcomes: Sequence[_Outcome], runs: int) -> JobReport:
    last = outcomes[-1] if outcomes else None
    acted = [each for each in outcomes if each.acted][-runs:]
    judged = _judged(acted, last)
    known: dict[str, Any] = {"job": job.job, "target": name_of(job.target.table), "suite": job.expectations}
    if last is None:
        return JobReport(**known, verdict="never_run", headline="never run")
    rules = _rules(judged, acted) if judged else ()
    held = last.quarantine() or (judged.quarantine() if judged else None)
    verdict = _verdict(last.status, rules, held)
    history = tuple(each.run() for each in acted)
    known |= {"verdict": verdict, "headline": _told(verdict, last, rules, held), "last": last.attempt()}
    if judged is None:
        return JobReport(**known, runs=history)
    return JobReport(
        **known,
        judged=judged.run(),
        target_version=number_of(judged.document.get("target_version")),
        affected_keys=judged.count("affected_keys"),
        null_foreign_keys=judged.count("null_foreign_keys"),
        null_list_ids=judged.count("null_list_ids"),
        null_values=judged.count("null_values"),
        sources=judged.windows(),
        rules=rules,
        lookups=_lookups(judged, acted),
        quarantine=held,
        stages=judged.stages(),
        runs=history,
    )


def _judged(acted: Sequence[_Outcome], last: _Outcome | None) -> _Outcome | None:
    """Return the run whose rules and lookups describe what stands now; None when there is none.

    A failed run judged nothing, nor did one that only moved its cursor. A blocked one is told until a later run finds
    nothing left to do.
    """
    out = (FAILED, BLOCKED) if last is not None and last.status == UNCHANGED else (FAILED,)
    told = [each for each in acted if each.status not in out and (each.status != UNCHANGED or each.judged)]
    return told[-1] if told else None


def _verdict(status: str, rules: Sequence[Rule], held: Quarantine | None) -> Verdict:
    if status == FAILED:
        return "failed"
    if status == BLOCKED:
        return "blocked"
    if status == SKIPPED:
        return "skipped"
    wanting = any(rule.verdict in ("error", "blocked", "held", "warned", "tolerated") for rule in rules)
    if wanting or (held is not None and held.rows):
        return "warned"
    return "not_checked" if rules and all(rule.verdict == "not_checked" for rule in rules) else "passed"


def _told(verdict: Verdict, last: _Outcome, rules: Sequence[Rule], held: Quarantine | None) -> str:
    """Return the job's state in one line, made of our own words and numbers."""
    failing = sum(rule.success is False or rule.verdict == "error" for rule in rules)
    passing = sum(rule.verdict == "passed" for rule in rules)
    parts = {"failed": "the last run failed", "blocked": "the last run was blocked, the target is untouched"}
    told = [parts.get(verdict, {SKIPPED: "skipped", LOCKED: "another run held the job"}.get(last.status, ""))]
    if rules and verdict not in ("failed", "skipped"):
        counts = {"failed": failing, "passed": passing, "judged no row": len(rules) - failing - passing}
        said = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        told.append(f"{len(rules)} rule{'' if len(rules) == 1 else 's'}: {said}")
    if held is not None and held.rows:
        told.append(f"{held.rows} row{'' if held.rows == 1 else 's'} in quarantine")
    return "; ".join(part for part in told if part) or "up to date"


def _identities(findings: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return what tells the rules of a run apart and is the same in other runs, even if the suite grew."""
    seen: Counter[Any] = Counter()
    found = []
    for each in findings:
        parts = [each.get(name) for name in ("expectation", "column", "column_list", "source")]
        identity = json.dumps(parts, default=str)
        found.append((identity, seen[identity]))
        seen[identity] += 1
    return found


def _rules(judged: _Outcome, acted: Sequence[_Outcome]) -> tuple[Rule, ...]:
    trends = [each.failures() for each in acted]
    findings = judged.findings()
    rules = zip(_identities(findings), findings, strict=True)
    blocked = judged.status == BLOCKED
    return tuple(
        _rule(each, tuple(trend.get(identity) for trend in trends), blocked=blocked) for identity, each in rules
    )


def _rule(finding: Mapping[str, Any], trend: tuple[int | None, ...], *, blocked: bool) -> Rule:
    success, error = finding.get("success"), text_of(finding.get("error"))
    success = success if isinstance(success, bool) else None
    checked, failed = count_of(finding.get("checked")), count_of(finding.get("failed"))
    columns = list_of(finding.get("column_list"))
    by_row = _counts_rows(finding.get("expectation"))
    action = name_of(finding.get("action"))
    return Rule(
        index=number_of(finding.get("index")),
        expectation=name_of(finding.get("expectation")),
        column=text_of(finding.get("column")),
        column_list=tuple(map(name_of, columns)) or None,
        source=text_of(finding.get("source")),
        action=action,
        verdict=_rule_verdict(success, error, action, blocked=blocked),
        checked=checked,
        failed=failed,
        success=success,
        share=share(failed, checked) if by_row else None,
        by_row=by_row,
        error=error,
        at_least=bound_of(finding.get("at_least")),
        at_most=bound_of(finding.get("at_most")),
        accepted=finding.get("accepted") is True,
        trend=trend,
    )


def _rule_verdict(success: bool | None, error: str | None, action: str, *, blocked: bool) -> RuleVerdict:
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
    from enrich.quality.catalogue import TYPES

    spec = TYPES.get(expectation) if isinstance(expectation, str) else None
    return spec is None or (spec.is_row and not spec.verdict_only)


def _lookups(judged: _Outcome, acted: Sequence[_Outcome]) -> dict[str, Lookup]:
    found = {}
    for alias, each in judged.lookups().items():
        rows, matched = count_of(each.get("rows")), count_of(each.get("matched"))
        found[name_of(alias)] = Lookup(
            kind=name_of(each.get("kind")),
            rows=rows,
            matched=matched,
            null_references=count_of(each.get("null_references")),
            share=share(matched, rows),
            trend=tuple(run.match_share(alias) for run in acted),
        )
    return found
