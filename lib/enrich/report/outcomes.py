"""Read rows of the runs table, and the documents in them.

They were written by this or an earlier release, or by a hand that may write the state directory: a part that cannot be
read is left out, and long texts are cut.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, FiniteFloat, NonNegativeInt, ValidationError, field_validator

from enrich.base import result
from enrich.base.result import Finding, Lookup, Quarantine, RuleState, SourceWindow, State
from enrich.delta.runs import require_known
from enrich.report.models import Attempt, Run
from enrich.report.text import format_moment

LONGEST = 500
"""Longer texts are cut to this many characters."""

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
    affected_keys: NonNegativeInt = 0
    inserted: NonNegativeInt = 0
    updated: NonNegativeInt = 0
    deleted: NonNegativeInt = 0
    quarantined: NonNegativeInt = 0
    null_foreign_keys: NonNegativeInt = 0
    null_list_ids: NonNegativeInt = 0
    null_values: NonNegativeInt = 0
    sources: dict[str, SourceWindow] = {}
    findings: tuple[Finding, ...] = ()
    lookups: dict[str, Lookup] = {}
    quarantine: Quarantine | None = None
    stages: dict[str, Seconds] = {}
    state: State | None = None

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
        return cls(**{**document, **_cut(columns)})

    @property
    def repairs(self) -> bool:
        """True for ``enrich verify --repair``: it takes no change, and judges only by the rules that quarantine."""
        return self.mode == "repair"

    @property
    def judged(self) -> bool:
        """True when a rule came to a verdict: a run without changes lists its rules, too."""
        return any(each.success is not None or each.error is not None for each in self.findings)

    def attempt(self) -> Attempt:
        """Return when and how the run ended."""
        at = "" if self.at is None else format_moment(self.at)
        return Attempt(**{name: getattr(self, name) for name in Attempt.model_fields} | {"at": at})

    def run(self) -> Run:
        """Return when and how the run ended, and what it wrote."""
        counts = {name: getattr(self, name) for name in ("inserted", "updated", "deleted", "quarantined")}
        return Run(**vars(self.attempt()), **counts, held=self.quarantine.rows if self.quarantine else None)

    @cached_property
    def rules(self) -> dict[Any, Finding]:
        """The findings by what tells rules apart and is the same in other runs, even if the suite grew."""
        seen: Counter[Any] = Counter()
        found = {}
        for each in self.findings:
            identity = (each.expectation, each.column, each.column_list, each.source)
            found[identity, seen[identity]] = each
            seen[identity] += 1
        return found

    @cached_property
    def counted_rules(self) -> dict[Any, RuleState]:
        """The rules of the state, by what tells rules apart: that of the finding with the same index."""
        places = {each.index: identity for identity, each in reversed(self.rules.items())}
        rules = () if self.state is None else self.state.rules
        return {places.get(each.index, ("index", each.index)): each for each in rules}


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
