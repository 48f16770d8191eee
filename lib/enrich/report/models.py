"""The content of a report as frozen models: the versioned JSON of ``enrich report --output json``.

Fields may be added to version 1; none is renamed, removed or given another meaning.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from enrich.config.models import finish_schema

Verdict = Literal["failed", "blocked", "skipped", "warned", "not_checked", "never_run", "passed"]
RuleVerdict = Literal["error", "blocked", "held", "warned", "tolerated", "not_checked", "passed"]


class JsonModel(BaseModel):
    """What is written as JSON, and never changes."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Attempt(JsonModel):
    """One run of one job."""

    run_id: str
    at: str = Field(description="When it ended, in ISO 8601, UTC.")
    status: str = Field(description="created, updated, unchanged, blocked, failed, skipped or locked.")
    mode: str | None = Field(None, description="bootstrap, incremental, full_refresh or replay.")
    seconds: float | None = None
    exit_code: int = 0
    error: str | None = Field(None, description="The message in one line; a long one is cut.")


class Run(Attempt):
    """One run of a job, and what it wrote."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    quarantined: int = Field(0, description="Rows that this run put into the quarantine.")
    held: int | None = Field(None, description="Rows in the quarantine after the run; null if not recorded.")


class WindowReport(JsonModel):
    """The versions of one source that the run consumed."""

    from_: int | None = Field(
        None,
        alias="from",
        description="The last version consumed before, or that of --since; null when all rows are computed.",
    )
    to: int
    changes: int = Field(0, description="Keys with a net change; in the first run: rows.")


class RuleReport(JsonModel):
    """One rule with its verdict: first the expectations in the order of the suite, then the other rules."""

    index: int | None = Field(None, description="Position in the suite; null for other rules.")
    expectation: str
    column: str | None = None
    column_list: tuple[str, ...] | None = None
    source: str | None = None
    action: str
    verdict: RuleVerdict = Field(
        description="The verdict of the run; warned, if not worse, when the rule fails in the table now."
    )
    run_verdict: RuleVerdict = Field("not_checked", description="The verdict of the run alone.")
    scope: str | None = Field(None, description="changed or target: the rows that the rule judged, as far as recorded.")
    checked: int
    failed: int
    success: bool | None
    share: float | None = Field(None, description="failed / checked; null for rules with one verdict for all rows.")
    by_row: bool = Field(description="True if the rule counts rows; otherwise failed is 0 or 1.")
    error: str | None = None
    at_least: int | float | None = Field(None, description="Threshold of a job rule: a share.")
    at_most: int | float | None = Field(None, description="Threshold of a job rule: a share, or a number of rows.")
    accepted: bool = Field(False, description="Without --accept, the rule would have blocked the run.")
    trend: tuple[int | None, ...] = Field((), description="failed in each of the runs; null where it judged no row.")


class LookupReport(JsonModel):
    """How many rows, or elements of lists, have a partner in a lookup."""

    kind: str
    rows: int
    matched: int
    null_references: int
    share: float | None = Field(None, description="matched / rows; null if there were no rows.")
    trend: tuple[float | None, ...] = Field((), description="share in each of the runs.")


class RuleStateReport(JsonModel):
    """What one row rule says of all rows of the target, as recorded."""

    index: int = Field(description="Position in the suite, as the run read it.")
    checked: int | None = Field(description="Rows that the rule judges; null if they are not counted yet.")
    failed: int | None = Field(description="Rows that fail; null if they are not counted yet.")
    error: str | None = Field(description="Class of the error that the rule raised on a row of the target.")


class LookupStateReport(JsonModel):
    """How one join went over all driving rows, as recorded; for lists over all elements."""

    rows: int
    matched: int
    null_references: int


class StateReport(JsonModel):
    """What the whole target holds, as recorded by a run."""

    rows: int
    rules: tuple[RuleStateReport, ...]
    lookups: dict[str, LookupStateReport]
    nulls: dict[str, int] = Field(description="Column -> rows of the target where it is null.")


class RunMark(JsonModel):
    """Which run, and when it ended."""

    run_id: str
    at: str = Field(description="In ISO 8601, UTC.")


class RuleNow(JsonModel):
    """What one row rule says of all rows of the target now."""

    index: int = Field(description="Position in the suite.")
    expectation: str
    column: str | None = None
    column_list: tuple[str, ...] | None = None
    verdict: RuleVerdict | None = Field(
        None,
        description="warned: more rows fail than mostly and tolerate allow. tolerated: tolerate allows them. passed:"
        " none fails, or mostly is met. null: not counted yet, or the suite no longer has this rule at this place.",
    )
    checked: int | None = None
    failed: int | None = None
    share: float | None = Field(None, description="failed / checked; null if no row was judged.")
    error: str | None = None
    reasons: dict[str, int] | None = Field(
        None, description="Reason of enrich why -> failing rows; empty if none fails. null: not asked, or not known."
    )
    near_misses: dict[str, int] = Field({}, description="Kind -> failing rows that are near misses, if asked.")
    mostly: int | float | None = Field(None, description="The share of rows that must pass, as the suite has it.")
    tolerate: int | float | None = Field(None, description="Rows, or a share, that may fail, as the suite has it.")
    since: RunMark | None = Field(None, description="The first of the runs up to now after which rows failed.")
    since_or_before: bool = Field(False, description="Rows may have failed before since: no earlier count is known.")
    trend: tuple[int | None, ...] = Field((), description="failed after each of the runs; null if not known.")
    checked_trend: tuple[int | None, ...] = Field((), description="checked after each of the runs.")


class LookupNow(JsonModel):
    """How one join went over all driving rows; for lists over all elements."""

    kind: str | None = Field(None, description="table, foreign_key, as_of, list or interval.")
    rows: int
    matched: int
    null_references: int
    orphans: int = Field(description="References that are not null and have no partner.")
    match_rate: float | None = Field(None, description="matched / (rows - null_references); null without references.")
    trend: tuple[float | None, ...] = Field((), description="match_rate after each of the runs.")
    orphans_trend: tuple[int | None, ...] = Field((), description="orphans after each of the runs.")


class NullsNow(JsonModel):
    """How many rows of the target are null in one column."""

    rows: int
    share: float | None = Field(None, description="rows / all rows of the target.")
    trend: tuple[int | None, ...] = Field((), description="rows after each of the runs.")


class TableNow(JsonModel):
    """The whole target now: the last state that a run recorded, and how it came to it."""

    counted: RunMark = Field(description="The run that recorded it.")
    rows: int
    trend: tuple[int | None, ...] = Field((), description="rows after each of the runs.")
    rules: tuple[RuleNow, ...] = ()
    lookups: dict[str, LookupNow] = {}
    nulls: dict[str, NullsNow] = {}


class QuarantineReport(JsonModel):
    """What is in the quarantine."""

    rows: int
    reasons: dict[str, int] = Field(description="Rule -> number of rows; a row may have several reasons.")


class JobReport(JsonModel):
    """One job: its state now, and the runs that led to it."""

    job: str
    target: str = Field(description="The target, as the job file names it.")
    suite: str | None = None
    verdict: Verdict
    headline: str
    last: Attempt | None = Field(None, description="The last run, whatever it did; null if there was none.")
    judged: Run | None = Field(None, description="The run to which rules, lookups, sources and stages belong.")
    state: StateReport | None = Field(
        None, description="What the target holds: the last one recorded; null if unknown."
    )
    now: TableNow | None = Field(None, description="The same with its history and the verdicts; null if unknown.")
    target_version: int | None = None
    affected_keys: int = 0
    null_foreign_keys: int = 0
    null_list_ids: int = 0
    null_values: int = 0
    sources: dict[str, WindowReport] = {}
    rules: tuple[RuleReport, ...] = ()
    lookups: dict[str, LookupReport] = {}
    quarantine: QuarantineReport | None = None
    stages: dict[str, float] = Field({}, description="Seconds of each stage.")
    runs: tuple[Run, ...] = Field((), description="The last runs that did something, the oldest first.")


class Report(JsonModel):
    """The state of a project's jobs for one deployment."""

    version: Literal[1] = 1
    generated: str = Field(description="When the report was made, in ISO 8601, UTC.")
    target: str = Field(description="The same as deployment; an older name.")
    deployment: str = Field(description="The deployment: conf/<deployment>.yml.")
    verdict: Verdict = Field(description="The most serious verdict of the jobs.")
    headline: str
    jobs: tuple[JobReport, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        return self.model_dump(mode="json", by_alias=True)


def build_schema() -> dict[str, Any]:
    """Return the JSON Schema of a report."""
    found = Report.model_json_schema(by_alias=True, mode="serialization")
    return finish_schema("report", "A report of enrich", found)
