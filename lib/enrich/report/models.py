"""What a report says, as frozen models: the versioned JSON of ``enrich report --output json``.

Fields may be added to version 1; none is renamed, removed or given another meaning.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Verdict = Literal["failed", "blocked", "skipped", "warned", "not_checked", "never_run", "passed"]
RuleVerdict = Literal["error", "blocked", "held", "warned", "tolerated", "not_checked", "passed"]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Attempt(_Model):
    """One run of one job."""

    run_id: str
    at: str = Field(description="When it ended, ISO 8601, UTC.")
    status: str = Field(description="created, updated, unchanged, blocked, failed, skipped or locked.")
    mode: str | None = Field(None, description="bootstrap, incremental, full_refresh or replay.")
    seconds: float | None = None
    exit_code: int = 0
    error: str | None = Field(None, description="One line; long ones are cut.")


class Run(Attempt):
    """One run of a job's history: what it wrote."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    quarantined: int = Field(0, description="Rows newly put into the quarantine.")
    held: int | None = Field(None, description="Rows in the quarantine after the run; null when none was recorded.")


class Window(_Model):
    """The versions of one source that the run consumed."""

    from_: int | None = Field(None, alias="from", description="The last version contained before; null at first.")
    to: int
    changes: int = Field(0, description="Net changed keys; at the first run: rows.")


class Rule(_Model):
    """One rule's verdict, in the order of the suite, then the built-in ones."""

    index: int | None = Field(None, description="Position in the suite; null for built-in rules.")
    expectation: str
    column: str | None = None
    column_list: tuple[str, ...] | None = None
    source: str | None = None
    action: str
    verdict: RuleVerdict
    checked: int
    failed: int
    success: bool | None
    share: float | None = Field(None, description="failed / checked; null for rules with one verdict for all rows.")
    by_row: bool = Field(description="Whether the rule counts rows; else failed is 0 or 1.")
    error: str | None = None
    at_least: int | float | None = Field(None, description="Threshold of the job's own rules: a share.")
    at_most: int | float | None = Field(None, description="Threshold of the job's own rules: a share, or whole rows.")
    accepted: bool = Field(False, description="The rule would have blocked, and the run was told to accept it.")
    trend: tuple[int | None, ...] = Field((), description="failed in each of the job's runs; null: was not judged.")


class Lookup(_Model):
    """How many rows, or list elements, found a partner in a lookup."""

    kind: str
    rows: int
    matched: int
    null_references: int
    share: float | None = Field(None, description="matched / rows; null when there were none.")
    trend: tuple[float | None, ...] = Field((), description="share in each of the job's runs.")


class Quarantine(_Model):
    """What the quarantine holds."""

    rows: int
    reasons: dict[str, int] = Field(description="Rule or built-in rule -> rows; a row may have several reasons.")


class JobReport(_Model):
    """One job: what stands, and how it came about."""

    job: str
    target: str = Field(description="The target's table reference.")
    suite: str | None = None
    verdict: Verdict
    headline: str
    last: Attempt | None = Field(None, description="The last run, whatever it did; null: never run.")
    judged: Run | None = Field(None, description="The run that rules, lookups, sources and stages below are of.")
    target_version: int | None = None
    affected_keys: int = 0
    null_foreign_keys: int = 0
    null_list_ids: int = 0
    null_values: int = 0
    sources: dict[str, Window] = {}
    rules: tuple[Rule, ...] = ()
    lookups: dict[str, Lookup] = {}
    quarantine: Quarantine | None = None
    stages: dict[str, float] = Field({}, description="Seconds by stage.")
    runs: tuple[Run, ...] = Field((), description="The last runs that did something, oldest first.")


class Report(_Model):
    """The state of a project's jobs for one deployment target."""

    version: Literal[1] = 1
    generated: str = Field(description="ISO 8601, UTC.")
    target: str = Field(description="The deployment target.")
    verdict: Verdict = Field(description="The gravest of the jobs'.")
    headline: str
    jobs: tuple[JobReport, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        return self.model_dump(mode="json", by_alias=True)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a report."""
    found = Report.model_json_schema(by_alias=True, mode="serialization")
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **found, "title": "A report of enrich"}
