"""How many rows of a whole target fail its rules, and why: counts, reasons, and keys for people. No Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from enrich.diagnosis.reasons import NEAR_MISS, Reason

MOST_KEYS = 100
"""How many failing rows of one rule are shown with their keys at most."""


@dataclass(frozen=True)
class Cause:
    """One reason of some failing rows.

    Attributes:
        reason: What ``why`` says of the cell, without version and time.
        rows: How many failing rows have it.
    """

    reason: Reason
    rows: int


@dataclass(frozen=True)
class FailingRow:
    """One failing row, for people.

    Attributes:
        key: Column of the target -> text, as ``enrich why`` reads it.
        reason: What ``why`` says of the cell.
    """

    key: dict[str, str] = field(repr=False)
    reason: Reason


@dataclass(frozen=True)
class RuleCauses:
    """What one row rule says of all rows of a target.

    Attributes:
        index: The rule's position in the suite.
        expectation: Great Expectations' type.
        column: The rule's ``column``, when it has exactly one.
        column_list: The rule's columns, when it has several.
        checked: Rows that it judges; None when it raised.
        failed: Rows that it finds wanting; None when it raised.
        error: The class of what it raised on a row.
        causes: Reasons of the failing rows, the most frequent first; they add up to ``failed``.
        rows: Failing rows with their keys, only when they were asked for; never part of the JSON.
    """

    index: int
    expectation: str
    column: str | None
    column_list: tuple[str, ...] | None
    checked: int | None
    failed: int | None
    error: str | None = None
    causes: tuple[Cause, ...] = ()
    rows: tuple[FailingRow, ...] = field(default=(), repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The rule's columns, however many."""
        return self.column_list or ((self.column,) if self.column is not None else ())

    @property
    def reasons(self) -> dict[str, int]:
        """Word -> failing rows, the most frequent first."""
        return _count((cause.reason.reason, cause.rows) for cause in self.causes)

    @property
    def near_misses(self) -> dict[str, int]:
        """Kind -> failing rows that are near misses, the most frequent first."""
        return _count(
            (cause.reason.kind or "", cause.rows) for cause in self.causes if cause.reason.reason == NEAR_MISS
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the rule's part of the JSON; what follows ``reasons`` only where it applies."""
        names = ("index", "expectation", "column", "checked", "failed", "reasons")
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.column_list is not None:
            found["column_list"] = list(self.column_list)
        if self.near_misses:
            found["near_misses"] = self.near_misses
        if self.error is not None:
            found["error"] = self.error
        return found


@dataclass(frozen=True)
class FailingRows:
    """The answer for one job.

    Attributes:
        target_version: The version of the target that was read.
        rules: In the order of the suite.
    """

    job: str
    target_version: int
    rules: tuple[RuleCauses, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich failing --output json``: counts, without keys and values."""
        rules = [rule.to_dict() for rule in self.rules]
        return {"job": self.job, "target_version": self.target_version, "rules": rules}


def sort_causes(counted: Counter[Reason]) -> tuple[Cause, ...]:
    """Return reasons with their counts, the most frequent first."""

    def rank(cause: Cause) -> tuple[int, str, str, str]:
        reason = cause.reason
        return -cause.rows, reason.reason, reason.kind or "", reason.source or ""

    return tuple(sorted((Cause(reason, rows) for reason, rows in counted.items()), key=rank))


def _count(told: Iterable[tuple[str, int]]) -> dict[str, int]:
    counts = Counter[str]()
    for word, rows in told:
        counts[word] += rows
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
