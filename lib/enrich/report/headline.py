"""One line about a job, and one about all jobs: our own words and numbers, no names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from enrich.base.console import format_count
from enrich.base.result import LOCKED, SKIPPED
from enrich.report.models import JobReport, QuarantineReport, RuleReport, TableNow, Verdict
from enrich.report.values import format_verdict

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
    in_quarantine: QuarantineReport | None,
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
