"""Rows of the runs table, and the documents in them, as the report reads them.

What stands in a row was written by this or an earlier release, or by a hand that may write the state directory: every
value is checked, missing ones are allowed for, texts are cut.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from enrich.base.result import (
    BLOCKED,
    CREATED,
    FAILED,
    UNCHANGED,
    UPDATED,
    LookupState,
    Quarantine,
    RuleState,
    SourceWindow,
    State,
)
from enrich.delta.runs import require_known
from enrich.report.models import Attempt, Run
from enrich.report.words import (
    MAX_ERROR,
    compute_share,
    format_moment,
    read_amount,
    read_count,
    read_list,
    read_mapping,
    read_mappings,
    read_name,
    read_number,
    read_seconds,
    read_text,
)

_ACTED = (CREATED, UPDATED, BLOCKED, FAILED)
_STAGES = ("changes", "keys", "join", "state", "rules", "difference", "write")


@dataclass(frozen=True)
class Outcome:
    """One row of the runs table and the document in it."""

    row: Mapping[str, Any]
    document: Mapping[str, Any]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Outcome:
        """Read the document of a row; one that cannot be read is empty.

        Raises:
            HistoryError: A newer release has written it.
        """
        try:
            document = json.loads(row.get("document") or "{}")
        except (ValueError, TypeError, RecursionError):
            document = {}
        found = read_mapping(document)
        require_known(found, "the runs table")
        return cls(row, found)

    @property
    def status(self) -> str:
        """How the run ended."""
        return read_text(self.row.get("status")) or "unknown"

    @property
    def repairs(self) -> bool:
        """True for ``enrich verify --repair``: it takes no change, and judges only by the rules that quarantine."""
        return self.row.get("mode") == "repair"

    @property
    def acted(self) -> bool:
        """True when the run did something, if only to move its cursor."""
        moved = any(window.start != window.to for window in self.windows().values())
        return self.status in _ACTED or (self.status == UNCHANGED and (moved or self.judged))

    @property
    def judged(self) -> bool:
        """True when a rule came to a verdict: a run without changes lists its rules, too."""
        return any(each.get("success") is not None or each.get("error") is not None for each in self.findings())

    def findings(self) -> list[Mapping[str, Any]]:
        """Return what each rule said."""
        return [each for each in read_list(self.document.get("findings")) if isinstance(each, dict)]

    def windows(self) -> dict[str, SourceWindow]:
        """Return the versions consumed, by alias."""
        return {
            read_name(alias): SourceWindow(
                start=read_number(each.get("from")),
                to=read_count(each.get("to")),
                changes=read_count(each.get("changes")),
            )
            for alias, each in read_mappings(self.document.get("sources")).items()
        }

    def count(self, name: str) -> int:
        """Return one of the counts of the document."""
        return read_count(self.document.get(name))

    def attempt(self) -> Attempt:
        """Return when and how the run ended."""
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
        """Return when and how the run ended, and what it wrote."""
        in_quarantine = self.quarantine()
        counts = {name: self.count(name) for name in ("inserted", "updated", "deleted", "quarantined")}
        return Run(**self.attempt().model_dump(), **counts, held=in_quarantine.rows if in_quarantine else None)

    def quarantine(self) -> Quarantine | None:
        """Return what was in the quarantine afterwards; None when that is not recorded."""
        in_quarantine = self.document.get("quarantine")
        if not isinstance(in_quarantine, dict):
            return None
        reasons = {read_name(reason): read_count(n) for reason, n in read_mapping(in_quarantine.get("reasons")).items()}
        return Quarantine(rows=read_count(in_quarantine.get("rows")), reasons=reasons)

    def lookups(self) -> dict[str, Mapping[str, Any]]:
        """Return how the joins went for the rows that the run computed, by alias."""
        return read_mappings(self.document.get("lookups"))

    def stages(self) -> dict[str, float]:
        """Return the seconds of each stage, in the order of the flow."""
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

    @cached_property
    def state(self) -> State | None:
        """What the target held when the run ended; None when the document does not say."""
        found = self.document.get("state")
        if not isinstance(found, dict) or read_amount(found.get("rows")) is None:
            return None
        rules = {}
        for each in read_list(found.get("rules")):
            index = read_number(each.get("index")) if isinstance(each, dict) else None
            if index is not None and index not in rules:
                checked, failed = read_amount(each.get("checked")), read_amount(each.get("failed"))
                rules[index] = RuleState(
                    index=index, checked=checked, failed=failed, error=read_text(each.get("error"))
                )
        lookups = {
            read_name(alias): LookupState(
                **{name: read_count(each.get(name)) for name in ("rows", "matched", "null_references")}
            )
            for alias, each in read_mappings(found.get("lookups")).items()
        }
        nulls = {read_name(column): read_count(rows) for column, rows in read_mapping(found.get("nulls")).items()}
        return State(rows=read_count(found.get("rows")), rules=tuple(rules.values()), lookups=lookups, nulls=nulls)

    @cached_property
    def counted_rules(self) -> dict[Any, RuleState]:
        """The rules of the state, by what tells rules apart: that of the finding with the same index."""
        places: dict[int, Any] = {}
        for identity, each in self.rules().items():
            index = read_number(each.get("index"))
            if index is not None:
                places.setdefault(index, identity)
        rules = () if self.state is None else self.state.rules
        return {places.get(each.index, ("index", each.index)): each for each in rules}

    def match_share(self, alias: str) -> float | None:
        """Return the share of the rows that the run computed that have a partner."""
        each = self.lookups().get(alias, {})
        return compute_share(read_count(each.get("matched")), read_count(each.get("rows")))


def select_acted(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the runs that did something, if only to move their cursor or to count what the target holds."""
    found, known = [], None
    for each in outcomes:
        counted = each.status == UNCHANGED and each.state is not None and each.state != known
        if each.acted or counted:
            found.append(each)
        known = known if each.state is None else each.state
    return found
