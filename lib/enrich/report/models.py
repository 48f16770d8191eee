"""Describe the content of a report as frozen models: the versioned JSON of ``enrich report --output json``.

Fields may be added to version 1; none is renamed, removed or given another meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from enrich.base.errors import GRAVITY
from enrich.base.result import Lookup, LookupState, Quarantine, RuleState, RunResult, SourceWindow, State
from enrich.project.kinds import JOINS

Verdict = Literal["failed", "blocked", "skipped", "warned", "not_checked", "never_run", "passed"]
RuleVerdict = Literal["error", "blocked", "held", "warned", "tolerated", "not_checked", "passed"]

_DIALECT = "http://json-schema.org/draft-07/schema#"  # draft 7: what every editor's YAML support knows


class JsonModel(BaseModel):
    """What is written as JSON, and never changes."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return self.model_dump(mode="json", by_alias=True)


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
    now: RuleNow | None = Field(None, exclude=True)  # what the same rule says of the table now


class RunMark(JsonModel):
    """Which run, and when it ended."""

    run_id: str
    at: str = Field(description="In ISO 8601, UTC.")


@dataclass(frozen=True, kw_only=True)
class LookupReport(Lookup):
    """How one join went for the rows that a run computed, and in the runs before.

    Attributes:
        share: matched / rows; null if there were no rows.
        trend: share in each of the runs.
    """

    share: float | None = None
    trend: tuple[float | None, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RuleNow(RuleState):
    """What one row rule says of all rows of the target now.

    Attributes:
        index: Position in the suite.
        verdict: warned: more rows fail than mostly and tolerate allow. tolerated: tolerate allows them. passed: none
            fails, or mostly is met. null: not counted yet, or the suite no longer has this rule at this place.
        share: failed / checked; null if no row was judged.
        mostly: The share of rows that must pass, as the suite has it.
        tolerate: Rows, or a share, that may fail, as the suite has it.
        since: The first of the runs up to now after which rows failed.
        since_or_before: Rows may have failed before since: no earlier count is known.
        trend: failed after each of the runs; null if not known.
        checked_trend: checked after each of the runs.
    """

    expectation: str
    column: str | None = None
    column_list: tuple[str, ...] | None = None
    verdict: RuleVerdict | None = None
    share: float | None = None
    mostly: int | float | None = None
    tolerate: int | float | None = None
    since: RunMark | None = None
    since_or_before: bool = False
    trend: tuple[int | None, ...] = ()
    checked_trend: tuple[int | None, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LookupNow(LookupState):
    """How one join went over all driving rows; for lists over all elements.

    Attributes:
        kind: What the job file calls the kind of join.
        orphans: References that are not null and have no partner.
        match_rate: matched / (rows - null_references); null without references.
        trend: match_rate after each of the runs.
        orphans_trend: orphans after each of the runs.
    """

    kind: str | None = None
    orphans: int
    match_rate: float | None = None
    trend: tuple[float | None, ...] = ()
    orphans_trend: tuple[int | None, ...] = ()


class NullsNow(JsonModel):
    """How many rows of the target are null in one column."""

    rows: int
    share: float | None = Field(None, description="rows / all rows of the target.")
    trend: tuple[int | None, ...] = Field((), description="rows after each of the runs.")
    reasons: dict[str, int] = Field(
        {},
        description="Of a column that a left join takes from its lookup: without_partner, foreign_key_null and"
        " value_null_in_lookup -> rows; from the driving source: value_null; empty where the counts do not tell.",
    )


class TableNow(JsonModel):
    """The whole target now: the last state that a run recorded, and how it came to it."""

    counted: RunMark = Field(description="The run that recorded it.")
    rows: int
    trend: tuple[int | None, ...] = Field((), description="rows after each of the runs.")
    rules: tuple[RuleNow, ...] = ()
    lookups: dict[str, LookupNow] = {}
    nulls: dict[str, NullsNow] = {}


class ToDo(JsonModel):
    """Something to see to in a job."""

    what: str = Field(description="In words, with counts: email is missing: 12 of 300 rows.")
    rule: str | None = Field(None, description="The rule that says so: Great Expectations' type, or one of enrich.")
    why: str = Field("", description="The reasons with their counts, as far as the run knows them.")
    next: str = Field(description="The command that says more, or that mends it.")


class Change(JsonModel):
    """A count that differs from that of the run before."""

    what: str
    before: int
    now: int
    how: Literal["rose", "fell", "fails now", "recovered"]


class SourceRead(JsonModel):
    """A source of a job."""

    alias: str
    table: str = Field(description="The table, as a job file names it; the same for all jobs that read it.")
    job: str | None = Field(None, description="The job of the project that writes it, also to its quarantine.")


class JobReport(JsonModel):
    """One job: its state now, and the runs that led to it."""

    job: str
    target: str = Field(description="The target, as the job file names it.")
    reads: tuple[SourceRead, ...] = ()
    suite: str | None = None
    description: str | None = None
    owner: str | None = None
    private: tuple[str, ...] = Field((), description="The target's columns that are private, as far as the files say.")
    verdict: Verdict
    headline: str
    last: Attempt | None = Field(None, description="The last run, whatever it did; null if there was none.")
    judged: Run | None = Field(None, description="The run to which rules, lookups, sources and stages belong.")
    state: State | None = Field(None, description="What the target holds: the last one recorded; null if unknown.")
    now: TableNow | None = Field(None, description="The same with its history and the verdicts; null if unknown.")
    target_version: int | None = None
    affected_keys: int = 0
    null_foreign_keys: int = 0
    null_list_ids: int = 0
    null_values: int = 0
    sources: dict[str, SourceWindow] = {}
    rules: tuple[RuleReport, ...] = ()
    lookups: dict[str, LookupReport] = {}
    quarantine: Quarantine | None = None
    stages: dict[str, float] = Field({}, description="Seconds of each stage.")
    to_do: tuple[ToDo, ...] = Field((), description="What is to be seen to, the worst first.")
    changes: tuple[Change, ...] = Field((), description="Counts that the last run changed, or found changed.")
    runs: tuple[Run, ...] = Field((), description="The last runs that did something, the oldest first.")


class Report(JsonModel):
    """The state of a project's jobs for one deployment."""

    version: Literal[1] = 1
    generated: str = Field(description="When the report was made, in ISO 8601, UTC.")
    target: str = Field(description="The same as deployment.")
    deployment: str = Field(description="The deployment: conf/<deployment>.yml.")
    verdict: Verdict = Field(description="The most serious verdict of the jobs.")
    headline: str
    jobs: tuple[JobReport, ...]

    @property
    def worst_first(self) -> list[JobReport]:
        """The jobs, those with the most serious verdict first; else in their order."""
        return sorted(self.jobs, key=lambda job: get_args(Verdict).index(job.verdict))


class ColumnDiff(JsonModel):
    """A column of the target, on one side or on both."""

    name: str
    change: Literal["added", "gone", "type"] | None = Field(description="null: both sides have it, with one type.")
    before: str | None = Field(description="Its type in the target, or in the other deployment; null: it is not there.")
    after: str | None = Field(description="The type that the job gives it now; null: it is not there.")
    rows: int | None = Field(description="Rows that both sides have, in which it differs; null: it was not compared.")


class JobDiff(JsonModel):
    """What ``enrich diff`` found: from the target as it stands to what the job gives as its file is now."""

    job: str
    deployment: str
    with_deployment: str | None = Field(None, description="The deployment whose target is compared with this one's.")
    exit_code: int = Field(description="0: equal; 6: something differs.")
    definition_changed: bool = Field(description="The target was written by another definition.")
    versions: dict[str, int] = Field(description="Alias of a source -> the version that the rows are computed at.")
    target_version: int
    with_version: int | None = Field(None, description="The version of the other deployment's target.")
    compared: bool = Field(description="false: the key has other columns or types; all rows come, and all go.")
    added: int
    gone: int
    changed: int = Field(description="Rows of both sides with another value in a column that both have.")
    columns: tuple[ColumnDiff, ...]
    keys: tuple[tuple[str, dict[str, str]], ...] = Field((), exclude=True)


class KeyPlace(JsonModel):
    """Where a key still stands: files of one kind in one table."""

    table: str = Field(description="As a job file names it.")
    role: Literal["source", "target", "quarantine"]
    what: Literal["row", "masked", "old_version", "change_feed", "log"] = Field(
        description="A row, or files that have it all the same; docs/erasure.md says what each word means."
    )
    files: tuple[str, ...] = Field(description="The files' names.")
    until: str | None = Field(description="When they may go, in ISO 8601, UTC; null: not by themselves.")
    ends: str = Field(description="What ends it, then.")


class KeyTrace(JsonModel):
    """What ``enrich trace`` found."""

    job: str
    deployment: str
    exit_code: int = Field(description="0: the key stands nowhere; 3: somewhere.")
    places: tuple[KeyPlace, ...]


SCHEMAS: Mapping[str, tuple[str, type[JsonModel]]] = {
    "report": ("A report of enrich", Report),
    "diff": ("What a changed job would change", JobDiff),
    "trace": ("Where a key still stands", KeyTrace),
}


def build_schema(kind: str = "report") -> dict[str, Any]:
    """Return the JSON Schema of a report, or of what a command answers."""
    title, model = SCHEMAS[kind]
    return finish_schema(kind, title, model.model_json_schema(by_alias=True, mode="serialization"))


def build_result_schema() -> dict[str, Any]:
    """Return the JSON Schema of the result of a run, also of one that did not begin, or did not end by itself."""
    found = TypeAdapter(RunResult).json_schema(mode="serialization")
    parts = found["$defs"]
    parts["Lookup"]["properties"]["kind"]["enum"] = list(JOINS)
    counts, job = parts.pop("Counts"), parts["JobResult"]
    job["properties"] = counts["properties"] | {
        name: each for name, each in job["properties"].items() if name != "counts"
    }
    job["required"] = [name for name in job["required"] if name != "counts"] + counts["required"]
    known = found["properties"]
    known["run_id"] = {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "description": "null when the run was interrupted, or did not begin.",
    }
    known["target"] = {"type": "string", "description": "The same as deployment."}
    known["exit_code"] = {
        "type": "integer",
        "enum": sorted(GRAVITY),
        "description": "The most serious exit code of the jobs; --skip-code does not change it.",
    }
    known["error"] = {"type": "string", "description": "Why the run did not begin, or did not end by itself."}
    found["required"] = ["run_id", "target", "deployment", "exit_code", "jobs"]
    return finish_schema("result", "The result of a run of enrich", found)


def finish_schema(kind: str, title: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of pydantic's as one of draft 7 that names itself: its parts are under ``definitions``.

    ``kind`` is ``job``, ``conf``, ``test``, ``report`` or ``result``, and part of ``$id``, which is a name and no
    address: nobody is asked.
    """
    parts = schema.pop("$defs", {})
    whole = {"$schema": _DIALECT, "$id": f"urn:enrich:schema:{kind}", **schema, "title": title, "definitions": parts}
    found: dict[str, Any] = _convert_references(whole)
    return found


def _convert_references(value: Any) -> Any:
    """Let each ``$ref`` lead to ``definitions``, by ``allOf`` where it has neighbours, which draft 7 would ignore."""
    if isinstance(value, list):
        return [_convert_references(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _convert_references(item) for key, item in value.items()}
    if isinstance(found.get("$ref"), str):
        reference = {"$ref": found.pop("$ref").replace("#/$defs/", "#/definitions/")}
        return found | {"allOf": [reference]} if found else reference
    return found
