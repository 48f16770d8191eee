"""Rows of the runs table -> the report's document.

What stands in a row was written by this or an earlier release, or by a hand that may write the state directory: every
value is checked, missing ones are allowed for, texts are cut.
"""

from __future__ import annotations

import json
import math
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
from enrich.result import BLOCKED, CREATED, FAILED, LOCKED, SKIPPED, UNCHANGED, UPDATED

if TYPE_CHECKING:
    from enrich.config.models import Job
    from enrich.config.project import Project

DEFAULT_RUNS = 30
"""How many runs of each job a report goes back."""

MAX_NAME, MAX_ERROR = 200, 500
"""Longer texts are cut to this many characters."""

_ACTED = (CREATED, UPDATED, BLOCKED, FAILED)
_GRAVITY: tuple[Verdict, ...] = get_args(Verdict)
_WORDS = {"never_run": "never run"}


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
        generated=_moment(now or datetime.now(UTC)),
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
        return _text(self.row.get("status")) or "unknown"

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
        return [each for each in _list(self.document.get("findings")) if isinstance(each, dict)]

    def windows(self) -> dict[str, Window]:
        return {
            _name(alias): Window.model_validate(
                {
                    "from": _number(each.get("from")),
                    "to": _count(each.get("to")),
                    "changes": _count(each.get("changes")),
                }
            )
            for alias, each in _mappings(self.document.get("sources")).items()
        }

    def count(self, name: str) -> int:
        return _count(self.document.get(name))

    def attempt(self) -> Attempt:
        return Attempt(**self._attempt())

    def _attempt(self) -> dict[str, Any]:
        row, at = self.row, self.row.get("at")
        return {
            "run_id": _text(row.get("run_id")) or "",
            "at": _moment(at) if isinstance(at, datetime) else "",
            "status": self.status,
            "mode": _text(row.get("mode")),
            "seconds": _seconds(row.get("seconds")),
            "exit_code": _number(row.get("exit_code")) or 0,
            "error": _text(self.document.get("error"), MAX_ERROR),
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
        named = {_name(reason): _count(n) for reason, n in (reasons if isinstance(reasons, dict) else {}).items()}
        return Quarantine(rows=_count(held.get("rows")), reasons=named)

    def lookups(self) -> dict[str, Mapping[str, Any]]:
        return _mappings(self.document.get("lookups"))

    def stages(self) -> dict[str, float]:
        stages = self.document.get("stages")
        found = {_name(name): _seconds(value) for name, value in (stages if isinstance(stages, dict) else {}).items()}
        return {name: seconds for name, seconds in found.items() if seconds is not None}

    def failures(self) -> dict[Any, int]:
        """Return the failed rows of each rule that was judged, by the rule's identity."""
        identities = _identities(self.findings())
        judged = zip(identities, self.findings(), strict=True)
        return {identity: _count(each.get("failed")) for identity, each in judged if each.get("success") is not None}

    def match_share(self, alias: str) -> float | None:
        each = self.lookups().get(alias, {})
        return _share(_count(each.get("matched")), _count(each.get("rows")))


def _job_report(job: Job, outcomes: Sequence[_Outcome], runs: int) -> JobReport:
    last = outcomes[-1] if outcomes else None
    acted = [each for each in outcomes if each.acted][-runs:]
    judged = _judged(acted, last)
    known: dict[str, Any] = {"job": job.job, "target": _name(job.target.table), "suite": job.expectations}
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
        target_version=_number(judged.document.get("target_version")),
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
    return "warned" if wanting or (held is not None and held.rows) else "passed"


def _told(verdict: Verdict, last: _Outcome, rules: Sequence[Rule], held: Quarantine | None) -> str:
    """Return the job's state in one line, made of our own words and numbers."""
    failing = sum(rule.success is False or rule.verdict == "error" for rule in rules)
    parts = {"failed": "the last run failed", "blocked": "the last run was blocked, the target is untouched"}
    told = [parts.get(verdict, {SKIPPED: "skipped", LOCKED: "another run held the job"}.get(last.status, ""))]
    if rules and verdict not in ("failed", "skipped"):
        told.append(f"{failing} of {len(rules)} rules failed" if failing else f"{len(rules)} rules, none failed")
    unjudged = sum(rule.verdict == "not_checked" for rule in rules)
    if unjudged:
        told.append(f"{unjudged} judged no row")
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
    success, error = finding.get("success"), _text(finding.get("error"))
    success = success if isinstance(success, bool) else None
    checked, failed = _count(finding.get("checked")), _count(finding.get("failed"))
    columns = _list(finding.get("column_list"))
    by_row = _counts_rows(finding.get("expectation"))
    action = _name(finding.get("action"))
    return Rule(
        index=_number(finding.get("index")),
        expectation=_name(finding.get("expectation")),
        column=_text(finding.get("column")),
        column_list=tuple(map(_name, columns)) or None,
        source=_text(finding.get("source")),
        action=action,
        verdict=_rule_verdict(success, error, action, blocked=blocked),
        checked=checked,
        failed=failed,
        success=success,
        share=_share(failed, checked) if by_row else None,
        by_row=by_row,
        error=error,
        at_least=_bound(finding.get("at_least")),
        at_most=_bound(finding.get("at_most")),
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
        rows, matched = _count(each.get("rows")), _count(each.get("matched"))
        found[_name(alias)] = Lookup(
            kind=_name(each.get("kind")),
            rows=rows,
            matched=matched,
            null_references=_count(each.get("null_references")),
            share=_share(matched, rows),
            trend=tuple(run.match_share(alias) for run in acted),
        )
    return found


# --- values of foreign make ------------------------------------------------------------------------------------------


def _text(value: Any, limit: int = MAX_NAME) -> str | None:
    """Return a text, cut when it is too long; None for anything else."""
    if not isinstance(value, str):
        return None
    whole = value.encode("utf-8", "backslashreplace").decode("utf-8")  # half of a pair of surrogates is no text
    return whole if len(whole) <= limit else f"{whole[: limit - 3]}..."


def _name(value: Any) -> str:
    return _text(value) or "?"


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _count(value: Any) -> int:
    return max(0, _number(value) or 0)


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return round(max(0.0, float(value)), 3)


def _bound(value: Any) -> int | float | None:
    return _number(value) if isinstance(value, int) else _seconds(value)


def _share(part: int, whole: int) -> float | None:
    return round(min(part, whole) / whole, 6) if whole else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mappings(value: Any) -> dict[str, Mapping[str, Any]]:
    """Return the items of a mapping that are mappings themselves."""
    if not isinstance(value, dict):
        return {}
    return {name: each for name, each in value.items() if isinstance(each, dict)}


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
