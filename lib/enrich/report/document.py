"""Make the report's document of the rows of the runs table: of each job the table now, then what the last run said."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import takewhile
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, FiniteFloat, ValidationError, field_validator

from enrich.base import hints, result
from enrich.base.console import format_count, format_reasons
from enrich.base.errors import ConfigError, refuse_text
from enrich.base.names import identify
from enrich.base.result import LookupState, Quarantine, RuleState, State, resolve_threshold
from enrich.base.suites import Suite, SuiteRule
from enrich.delta.runs import RunsTable, require_known
from enrich.project.catalogue import TYPES
from enrich.project.compile import list_private_columns
from enrich.project.models import Job
from enrich.project.project import Project, sort_jobs
from enrich.report import models, text
from enrich.report.models import JobReport, Report, RuleNow, RuleReport, RunMark, TableNow, ToDo, Verdict

# --- what the runs table says -----------------------------------------------------------------------------------------
#
# Whoever may write the state directory may have written its rows and their documents: a part that cannot be read is
# left out, and long texts are cut.

LONGEST = 500  # longer texts are cut to this many characters

_NOT_NULL = "expect_column_values_to_not_be_null"
_ACTED = (result.CREATED, result.UPDATED, result.BLOCKED, result.FAILED)

Seconds = Annotated[FiniteFloat, AfterValidator(lambda seconds: round(max(seconds, 0.0), 3))]


class Outcome(BaseModel, frozen=True):
    """One row of the runs table and the document in it; what is not there, or no such value, has its default."""

    run_id: str = ""
    at: datetime | None = None
    status: str = "unknown"
    mode: str | None = None
    seconds: Seconds | None = None
    exit_code: int = 0
    error: str | None = None
    target_version: int | None = None
    counts: result.Counts = result.Counts()
    sources: dict[str, result.SourceWindow] = {}
    findings: tuple[result.Finding, ...] = ()
    lookups: dict[str, result.Lookup] = {}
    quarantine: Quarantine | None = None
    stages: dict[str, Seconds] = {}
    state: State | None = None
    suite_rules: tuple[str, ...] = ()  # fingerprints; documents of older releases have none

    @field_validator("*", mode="wrap")
    @classmethod
    def _leave_out(cls, value: Any, read: Any, info: Any) -> Any:
        try:
            return read(value)
        except ValidationError:
            return cls.model_fields[info.field_name or ""].default

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Outcome:
        """Read a row; a document that is none is empty, one of a newer release is a HistoryError."""
        try:
            document = _cut(json.loads(row.get("document") or "{}"))
        except (ValueError, TypeError, RecursionError):
            document = {}
        document = document if isinstance(document, dict) else {}
        require_known(document, "the runs table")
        columns = {name: row.get(name) for name in ("run_id", "at", "status", "mode", "seconds", "exit_code")}
        counts = {name: max(document[name], 0) for name in vars(result.Counts()) if type(document.get(name)) is int}
        return cls(**{**document, **_cut(columns), "counts": counts})

    @property
    def repairs(self) -> bool:
        """True for ``enrich verify --repair``: it takes no change, and judges only by the rules that quarantine."""
        return self.mode == "repair"

    @property
    def judged(self) -> bool:
        """True when a rule came to a verdict: a run without changes lists its rules, too."""
        return any(each.success is not None or each.error is not None for each in self.findings)

    def attempt(self) -> models.Attempt:
        """Return when and how the run ended."""
        at = "" if self.at is None else text.format_moment(self.at)
        return models.Attempt(**{name: getattr(self, name) for name in models.Attempt.model_fields} | {"at": at})

    def run(self) -> models.Run:
        """Return when and how the run ended, and what it wrote."""
        counts = {name: getattr(self.counts, name) for name in ("inserted", "updated", "deleted", "quarantined")}
        return models.Run(**vars(self.attempt()), **counts, held=self.quarantine.rows if self.quarantine else None)

    @cached_property
    def rules(self) -> dict[Any, result.Finding]:
        """The findings by what tells rules apart and is the same in other runs, even if the suite grew."""
        seen, found, names = Counter[Any](), {}, dict[int | None, str](enumerate(self.suite_rules))
        for each in self.findings:
            name = names.get(each.index) or (each.expectation, each.column, each.column_list, each.source)
            found[name, seen[name]] = each
            seen[name] += 1
        return found

    @cached_property
    def counted_rules(self) -> dict[Any, RuleState]:
        """The rules of the state, by what tells rules apart: that of the finding with the same index."""
        places = {each.index: identity for identity, each in reversed(self.rules.items())}
        rules = () if self.state is None else self.state.rules
        return {places[each.index]: each for each in rules if each.index in places}


def _cut(value: Any) -> Any:
    match value:
        case str() if len(value) > LONGEST:
            return f"{value[: LONGEST - 3]}..."
        case dict():
            return {_cut(name): _cut(each) for name, each in value.items()}
        case list():
            return [_cut(each) for each in value]
    return value


def select_acted(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the runs that did something, if only to move their cursor or to count what the target holds."""
    found, known = [], None
    for each in outcomes:
        moved = any(window.start != window.to for window in each.sources.values())
        counted = each.state is not None and each.state != known
        if each.status in _ACTED or (each.status == result.UNCHANGED and (moved or each.judged or counted)):
            found.append(each)
        known = each.state or known
    return found


# --- the report of it ------------------------------------------------------------------------------------------------

DEFAULT_RUNS = 30  # how many runs of each job a report goes back

_COMMAND = re.compile(r"`(enrich [^`]*)`")
_PATH = re.compile(r"\w+[.]\w+")  # an expression that only names a column of a source
_GRAVITY: tuple[Verdict, ...] = get_args(Verdict)
_RULE_GRAVITY: tuple[models.RuleVerdict, ...] = get_args(models.RuleVerdict)
_TO_SEE_TO = ("error", "blocked", "held", "warned")
_VERDICT_OF_STATUS: dict[str, Verdict] = {result.FAILED: "failed", result.BLOCKED: "blocked", result.SKIPPED: "skipped"}


def read_report(project: Project, jobs: Sequence[str] | None = None, runs: int = DEFAULT_RUNS) -> Report:
    """Read the runs table and build the report of ``jobs`` in their order; of all in run order where none are named."""
    refuse_text("jobs", jobs)
    # Idle runs are read, too: one that only moved the cursor did something, and the very last is always told.
    rows = RunsTable(project.state).read_recent(runs + 1)
    names = sort_jobs(project.jobs, project) if jobs is None else list(jobs)
    found = []
    for job in (project.jobs[name] for name in names):
        place = str(project.location(job.target.table))
        known = [row for row in rows if row["job"] == job.job and row["target"] == place]
        wrote = [[row["at"] for row in known if row["status"] == each] for each in (result.CREATED, result.UPDATED)]
        # Before the first of as many as are read there may be others; what is older would be told across a gap.
        start = max((ends[0] for ends in wrote if len(ends) > runs), default=None)
        found.append((job, [row for row in known if start is None or row["at"] >= start]))
    return build_report(found, project, runs)


def build_report(
    jobs: Sequence[tuple[Job, Sequence[Mapping[str, Any]]]], project: Project, runs: int = DEFAULT_RUNS
) -> Report:
    """Build the report from each job's outcomes, oldest first."""
    tables: dict[str, str] = {}  # by the identity of their place, as the first job names them
    found = []
    for job, rows in jobs:
        report = _build_job_report(job, project.suite(job), [Outcome.of(row) for row in rows], runs)
        reads = []
        for alias, source in job.sources.items():
            place = identify(project.location(source.table))
            table = tables.setdefault(place, source.table)
            reads.append(models.SourceRead(alias=alias, table=table, job=project.makers.get(place)))
        found.append(_advise(report.model_copy(update={"reads": tuple(reads)})))
    counts = Counter(each.verdict for each in found)
    told = [f"{counts[verdict]} {text.format_verdict(verdict)}" for verdict in _GRAVITY if counts[verdict]]
    return Report(
        generated=text.format_moment(datetime.now(UTC)),
        target=project.deployment,
        deployment=project.deployment,
        verdict=min(counts, key=_GRAVITY.index, default="never_run"),
        headline=f"{format_count(len(found), 'job')}: {', '.join(told)}" if told else "no jobs",
        jobs=tuple(found),
    )


def _build_job_report(job: Job, suite: Suite | None, outcomes: Sequence[Outcome], runs: int) -> JobReport:
    known: dict[str, Any] = {"job": job.job, "target": job.target.table, "suite": job.expectations}
    known |= {"description": job.description, "owner": job.owner, "private": list_private_columns(job)}
    if not outcomes:
        return JobReport(**known, verdict="never_run", headline="never run")
    last, acted = outcomes[-1], select_acted(outcomes)[-runs:]
    counted = next((each for each in reversed(outcomes) if each.state is not None), None)
    now, rules_now = None, dict[Any, RuleNow]()
    if counted is not None and counted.state is not None:
        rules_now = _build_rules_now(counted, outcomes, acted, suite)
        now = _build_table_now(job, _mark(counted), counted.state, acted, tuple(rules_now.values()))
    # The run whose rules and lookups describe what stands now. A failed run judged nothing, nor did one that only moved
    # its cursor, nor a repair. A blocked one is told until a later run finds nothing left to do.
    counting = [each for each in outcomes if each.status not in (result.SKIPPED, result.LOCKED, result.FAILED)]
    settled = next((each for each in reversed(counting) if not each.repairs), last)
    out = (result.FAILED, result.BLOCKED) if settled.status == result.UNCHANGED else (result.FAILED,)
    took = (each for each in reversed(acted) if each.status not in out and not each.repairs)
    judged = next((each for each in took if each.status != result.UNCHANGED or each.judged), None)
    rules = [] if judged is None else list(_build_rules(judged, acted, rules_now, suite))
    held = counting[-1].quarantine if counting else None
    ended = next((each for each in reversed(outcomes) if each.status != result.LOCKED), None)
    is_waiting = ended is not None and ended.repairs and judged is not None and judged.status == result.BLOCKED
    status = result.BLOCKED if is_waiting else ended.status if ended is not None else None
    verdict: Verdict = _VERDICT_OF_STATUS.get(status or "", "passed") if status is not None else "never_run"
    if verdict == "passed":
        wanting = any(rule.verdict in _TO_SEE_TO for rule in rules)
        failing = any(rule.verdict == "warned" for rule in rules_now.values())
        if wanting or failing or (held is not None and held.rows):
            verdict = "warned"
        elif rules and all(rule.verdict == "not_checked" for rule in rules):
            verdict = "not_checked"
    known |= {"verdict": verdict, "headline": _write_headline(verdict, last.status, rules, held, now)}
    known |= {"last": last.attempt(), "state": counted.state if counted else None, "now": now}
    known |= {"quarantine": held, "runs": tuple(each.run() for each in acted)}
    if judged is None:
        return JobReport(**known)
    trends = {alias: tuple(_compute_match_share(each.lookups.get(alias)) for each in acted) for alias in judged.lookups}
    counts = ("affected_keys", "null_foreign_keys", "null_list_ids", "null_values")
    return JobReport(
        **known,
        judged=judged.run(),
        **{name: getattr(judged.counts, name) for name in counts},
        target_version=judged.target_version,
        sources=judged.sources,
        rules=tuple(rules),
        lookups={
            alias: models.LookupReport(**vars(each), share=_compute_match_share(each), trend=trends[alias])
            for alias, each in judged.lookups.items()
        },
        stages=judged.stages,
    )


_ENDS = {
    "failed": "the last run failed",
    "blocked": "the last run was blocked, the target is unchanged",
    "skipped": "the last run was skipped",
    "never_run": "it has never run",
}
_DONE = {"held": "the rows went to the quarantine", "blocked": "the rule blocks the run"}
_STATUSES = {result.SKIPPED: "skipped", result.LOCKED: "another run had the lock"}


def _write_headline(
    verdict: Verdict, status: str, rules: Sequence[RuleReport], held: Quarantine | None, now: TableNow | None
) -> str:
    """Return how the last run ended, how many rules fail in the table, what the run said, how much is quarantined."""
    counted = [] if now is None else [rule for rule in now.rules if rule.verdict is not None]
    failing = sum(rule.verdict == "warned" for rule in counted)
    fails = "fails" if 1 in (failing, len(counted)) else "fail"
    table = f"table now: {failing} of {format_count(len(counted), 'rule')} {fails}" if counted else ""
    told = [_ENDS.get(verdict, "") if verdict != "skipped" else "", _STATUSES.get(status, ""), table]
    if rules and verdict not in ("failed", "skipped"):
        words = {"passed": "passed", "tolerated": "tolerated", "not_checked": "judged no row"}
        counts = {"failed": 0, **dict.fromkeys(words.values(), 0)}
        counts |= Counter(words.get(rule.run_verdict, "failed") for rule in rules)
        said = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        told.append(f"this run: {said}" if table else f"{format_count(len(rules), 'rule')}: {said}")
    if held is not None and held.rows:
        told.append(f"{format_count(held.rows, 'row')} in quarantine")
    return "; ".join(part for part in told if part) or "up to date"


# --- what is to be done, and what has changed ------------------------------------------------------------------------


def _advise(job: JobReport) -> JobReport:
    """Add what is to be seen to, the worst first, and the counts that differ from those of the run before."""
    now, told, changes = job.now, list[tuple[int, int, ToDo]](), list[models.Change]()

    def compare(what: str, trend: Sequence[int | None], *, is_rule: bool = False) -> None:
        before = next((each for each in reversed(trend[:-1]) if each is not None), None)
        if before is None or (last := trend[-1]) is None or before == last:
            return
        words: Any = ("recovered", "fails now") if is_rule and 0 in (before, last) else ("fell", "rose")
        changes.append(models.Change(what=what, before=before, now=last, how=words[last > before]))

    ask_for_row = hints.why(job.job, "--key", "NAME=VALUE")

    def note(verdict: models.RuleVerdict, count: int, **known: Any) -> None:
        told.append((_RULE_GRAVITY.index(verdict), -count, ToDo(**known)))

    if now is not None:
        for rule in now.rules:
            what, failed, checked = text.describe_rule(rule), rule.failed or 0, rule.checked or 0
            compare(what, rule.trend, is_rule=True)
            if rule.verdict in _TO_SEE_TO:
                nulls = now.nulls.get(rule.column or "") if rule.expectation == _NOT_NULL else None
                known = nulls.reasons if nulls and nulls.rows == failed else {}
                counted = f"{text.format_number(failed)} of {text.format_number(checked)} rows"
                what = f"{what}: {counted if rule.error is None else 'not judged'}"
                why, ask = rule.error or format_reasons(known, {}), hints.failing(job.job, rule.index)
                note(rule.verdict, failed, what=what, rule=text.format_rule(rule), why=why, next=ask)
        compare("rows of the table", now.trend)
        ruled = {rule.column for rule in now.rules if rule.expectation == _NOT_NULL}
        for column, nulls in now.nulls.items():
            compare(f"nulls in {column}", () if column in ruled else nulls.trend)
        for alias, lookup in now.lookups.items():
            compare(f"references to {alias} without a partner", lookup.orphans_trend)
    for each in job.rules:
        if each.verdict in _TO_SEE_TO and (each.now is None or each.now.verdict not in _TO_SEE_TO):
            counted = f": {text.format_number(each.failed)} of {text.format_number(each.checked)} rows"
            what = f"{text.describe_rule(each)}{counted if each.by_row else ''}"
            why = text.format_terms(each) or _DONE.get(each.verdict, "")
            ask = hints.failing(job.job) if each.verdict == "error" else ask_for_row
            note(each.verdict, each.failed, what=what, rule=text.format_rule(each), why=why, next=ask)
    if job.quarantine is not None and job.quarantine.rows:
        why = ", ".join(f"{text.describe_reason(reason)}: {rows}" for reason, rows in job.quarantine.reasons.items())
        what = f"{format_count(job.quarantine.rows, 'row')} in the quarantine"
        note("held", job.quarantine.rows, what=what, why=why, next=ask_for_row)
    compare("rows in the quarantine", [run.held for run in job.runs])
    first = []
    if job.verdict in _ENDS:
        named = _COMMAND.findall((job.last.error or "") if job.last is not None else "")  # the error leads on
        is_refused = job.last is not None and job.last.exit_code == ConfigError.exit_code
        otherwise = hints.run() if job.verdict == "skipped" else hints.validate() if is_refused else hints.run(job.job)
        first = [ToDo(what=_ENDS[job.verdict], next=named[-1] if named else otherwise)]
    ordered = [to_do for *_, to_do in sorted(told, key=lambda each: each[:2])]
    return job.model_copy(update={"to_do": (*first, *ordered), "changes": tuple(changes)})


# --- what the rules said of a run -------------------------------------------------------------------------------------


def _build_rules(
    judged: Outcome, acted: Sequence[Outcome], rules_now: Mapping[Any, RuleNow], suite: Suite | None
) -> Iterator[RuleReport]:
    """Yield the rules of a run that the suite still has; one that fails in the table now is at least warned."""
    left = set(judged.suite_rules) - {each.fingerprint for each in (suite.rules if suite else ())}
    for identity, each in judged.rules.items():
        if identity[0] in left:
            continue
        of_runs, now = [run.rules.get(identity) for run in acted], rules_now.get(identity)
        verdict: models.RuleVerdict = "held" if each.action == "quarantine" else "warned"
        if each.tolerated:
            verdict = "tolerated"
        elif each.error is not None:
            verdict = "error"
        elif each.success is None:
            verdict = "not_checked"
        elif each.success:
            verdict = "passed"
        elif each.action == "fail":
            verdict = "blocked" if judged.status == result.BLOCKED else "tolerated"
        known = TYPES.get(each.expectation)
        by_row = known is None or (known.is_row and not known.verdict_only)  # built-in rules count rows, too
        yield RuleReport(
            **{name: value for name, value in vars(each).items() if name in RuleReport.model_fields},
            verdict=min(verdict, "warned", key=_RULE_GRAVITY.index) if now and now.verdict == "warned" else verdict,
            run_verdict=verdict,
            share=_compute_share(each.failed, each.checked) if by_row else None,
            by_row=by_row,
            trend=tuple(None if run is None or run.success is None else run.failed for run in of_runs),
            now=now,
        )


def _compute_share(part: int, whole: int) -> float | None:
    return round(min(part, whole) / whole, 6) if whole > 0 else None


def _compute_match_share(lookup: LookupState | None) -> float | None:
    return None if lookup is None else _compute_share(lookup.matched, lookup.rows)


# --- the table as it is now: the last recorded state, held against the suite, with its history ------------------------


def _mark(outcome: Outcome) -> RunMark:
    return RunMark(run_id=outcome.run_id, at=outcome.attempt().at)


def _build_table_now(
    job: Job, counted: RunMark, state: State, acted: Sequence[Outcome], rules: tuple[RuleNow, ...]
) -> TableNow:
    states = [each.state for each in acted]
    lookups = {}
    for alias, lookup in state.lookups.items():
        join, history = job.join.get(alias), [each.lookups.get(alias) if each else None for each in states]
        lookups[alias] = models.LookupNow(
            kind=None if join is None else join.kind,
            **vars(lookup),
            orphans=_count_orphans(lookup),
            match_rate=_compute_match_rate(lookup),
            trend=tuple(_compute_match_rate(each) if each else None for each in history),
            orphans_trend=tuple(_count_orphans(each) if each else None for each in history),
        )
    nulls = {}
    for column, rows in state.nulls.items():
        trend = tuple(each.nulls.get(column) if each else None for each in states)
        why = _explain_nulls(job, state, column, rows)
        nulls[column] = models.NullsNow(rows=rows, share=_compute_share(rows, state.rows), trend=trend, reasons=why)
    trend = tuple(each.rows if each else None for each in states)
    return TableNow(counted=counted, rows=state.rows, trend=trend, rules=rules, lookups=lookups, nulls=nulls)


def _explain_nulls(job: Job, state: State, column: str, rows: int) -> dict[str, int]:
    """Return why a column is null that the driving source gives, or a left join, if the table has all driving rows."""
    selected = job.select.get(column, "") if isinstance(job.select, Mapping) else ""
    alias = str(selected).partition(".")[0] if _PATH.fullmatch(str(selected)) else ""
    if not rows or any(each.how in ("right", "full") for each in job.join.values()):
        return {}
    if alias == job.from_:
        return {"value_null": rows}
    join, lookup = job.join.get(alias), state.lookups.get(alias)
    has_pairs = any(each.between is not None for each in job.join.values())  # as many may have come as others went
    if has_pairs or join is None or join.how != "left" or lookup is None or lookup.rows != state.rows:
        return {}
    counts = {"without_partner": _count_orphans(lookup), "foreign_key_null": lookup.null_references}
    counts["value_null_in_lookup"] = rows - sum(counts.values())
    return {} if counts["value_null_in_lookup"] < 0 else {word: count for word, count in counts.items() if count}


def _compute_match_rate(state: LookupState) -> float | None:
    return _compute_share(state.matched, state.rows - state.null_references)


def _count_orphans(state: LookupState) -> int:
    return max(0, state.rows - state.null_references - state.matched)


def _build_rules_now(
    counted: Outcome, outcomes: Sequence[Outcome], acted: Sequence[Outcome], suite: Suite | None
) -> dict[Any, RuleNow]:
    """Return what each rule of the state that ``counted`` recorded says of the table, by what tells rules apart."""
    found, uncounted = {}, RuleState(0)
    for identity, state in counted.counted_rules.items():
        entries = [each.counted_rules.get(identity, uncounted) for each in acted]
        listed = [(each, each.counted_rules[identity].failed) for each in outcomes if identity in each.counted_rules]
        failing = takewhile(lambda run: run[1] != 0, reversed(listed))
        first = next((each for each, failed in reversed([*failing]) if failed), None)  # since it rows fail
        rule = next((each for each in suite.rules if each.index == state.index), None) if suite else None
        if rule is not None and identity[0] not in (rule.fingerprint, (rule.type, rule.column, rule.column_list, None)):
            rule = None  # it has the place of the one that the run counted
        found[identity] = RuleNow(
            **vars(state),
            **{name: getattr(counted.rules[identity], name) for name in ("expectation", "column", "column_list")},
            verdict=_judge_state(state, rule),
            share=None if state.failed is None else _compute_share(state.failed, state.checked or 0),
            mostly=None if rule is None or "mostly" not in rule.kwargs else float(rule.kwargs["mostly"]),
            tolerate=None if rule is None else rule.tolerate,
            since=None if first is None else _mark(first),
            since_or_before=first is listed[0][0] and first.status != result.CREATED,
            trend=tuple(each.failed for each in entries),
            checked_trend=tuple(each.checked for each in entries),
        )
    return found


def _judge_state(state: RuleState, rule: SuiteRule | None) -> models.RuleVerdict | None:
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
    if (state.checked - state.failed) / state.checked >= float(rule.kwargs.get("mostly", 1)):  # as GX divides
        return "passed"
    is_tolerated = rule.tolerate is not None and state.failed <= resolve_threshold(rule.tolerate, state.checked)
    return "tolerated" if is_tolerated else "warned"
