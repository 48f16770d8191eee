"""The JSON of ``enrich run --output json`` as models: the schema of ``enrich schema result``.

Fields may be added; none is renamed, removed or given another meaning.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from enrich.config.kinds import JOINS
from enrich.config.models import finish_schema
from enrich.report.models import JsonModel, QuarantineReport, StateReport

ExitCode = Literal[0, 1, 2, 3, 4, 5, 6, 7, 130, 143]


class Window(JsonModel):
    """The versions of one source that the run consumed."""

    from_: int | None = Field(
        alias="from",
        description="The last version consumed before, or that of --since; null when all rows are computed.",
    )
    to: int = Field(description="The pinned version.")
    changes: int = Field(description="Keys with a net change; in the first run: rows.")
    gap: tuple[int, int] | None = Field(
        None, description="Versions that --allow-gap left out: from the one after the first to the second."
    )
    compared: bool = Field(
        False,
        description="The source's rows at both ends were compared, because its change feed does not tell all of them.",
    )


class FindingOfRun(JsonModel):
    """What one rule says about the run."""

    index: int | None = Field(description="Position in the suite; null for other rules.")
    expectation: str = Field(description="The type of the expectation, or the name of the rule.")
    column: str | None
    action: Literal["warn", "quarantine", "fail"]
    checked: int = Field(description="Rows that it judged.")
    failed: int = Field(description="Rows that failed; 0 or 1 for rules with one verdict for all rows.")
    success: bool | None = Field(description="null if it judged no row, or raised an error.")
    error: str | None = Field(description="The class of what it raised.")
    scope: Literal["changed", "target"] = Field(description="The rows that it judged.")
    column_list: list[str] | None = Field(None, description="Its columns, if it has several.")
    source: str | None = Field(None, description="The alias, for rules about a source or a join.")
    at_least: int | float | None = Field(None, description="Threshold of a job rule: a share.")
    at_most: int | float | None = Field(None, description="Threshold of a job rule: a share, or a number of rows.")
    accepted: Literal[True] | None = Field(None, description="Without --accept, it would have blocked the run.")
    scanned: Literal[True] | None = Field(None, description="The whole target was read for it.")
    tolerated: Literal[True] | None = Field(None, description="Rows failed, and no more than tolerate allows.")


class LookupOfRun(JsonModel):
    """How one join went for the rows that the run computed."""

    kind: str = Field(json_schema_extra=lambda schema: schema.update(enum=list(JOINS)))
    rows: int = Field(description="Driving rows that reached the join; for lists, their elements.")
    matched: int = Field(description="Those with a partner.")
    null_references: int = Field(description="Those whose reference is null.")


class Written(JsonModel):
    """What the target's commit added."""

    files: int
    bytes: int


class CompactionOfTarget(JsonModel):
    """What OPTIMIZE did to the target after the run's commit."""

    version: int
    removed: Written = Field(description="The files that were put together or written anew.")
    added: Written = Field(description="The files that stand in their place.")
    why: str


class JobOfRun(JsonModel):
    """What the run did to one target."""

    job: str
    status: Literal["created", "updated", "unchanged", "blocked", "failed", "skipped", "locked"]
    mode: Literal["bootstrap", "incremental", "full_refresh", "replay"] | None = Field(
        description="null when the job did not get that far."
    )
    sources: dict[str, Window] = Field(description="By alias.")
    affected_keys: int
    inserted: int
    updated: int
    deleted: int
    quarantined: int = Field(description="Rows that this run put into the quarantine.")
    null_foreign_keys: int
    null_list_ids: int
    null_values: int
    target_version: int | None
    findings: list[FindingOfRun]
    error: str | None = Field(description="What went wrong, and the next step.")
    lookups: dict[str, LookupOfRun]
    quarantine: QuarantineReport | None = Field(description="What it contains after the run.")
    quarantined_upstream: dict[str, int] = Field(
        {},
        description="Job that this one reads, directly or not: rows that its quarantine contains; only where it does.",
    )
    stages: dict[str, float] = Field(description="Seconds of each stage.")
    strategy: Literal["create", "rewrite", "merge", "append", "cursor", "nothing"] | None
    written: Written | None
    optimized: CompactionOfTarget | None
    state: StateReport | None


class ResultOfRun(JsonModel):
    """What one run did."""

    run_id: str | None = Field(description="null when the run was interrupted, or did not begin.")
    target: str = Field(description="The same as deployment; an older name.")
    deployment: str = Field(description="The deployment: conf/<deployment>.yml.")
    exit_code: ExitCode = Field(description="The most serious exit code of the jobs; --skip-code does not change it.")
    dry_run: bool = Field(False, description="Nothing was written: this is what a run would do.")
    jobs: list[JobOfRun] = Field(description="In the order in which they ran.")
    error: str | None = Field(None, description="Why the run did not begin, or did not end by itself.")


def build_result_schema() -> dict[str, Any]:
    """Return the JSON Schema of a result."""
    return finish_schema("result", "The result of a run of enrich", ResultOfRun.model_json_schema(by_alias=True))
