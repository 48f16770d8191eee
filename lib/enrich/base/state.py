"""The state of a whole target: how many of all its rows fail each rule, how its joins went, where its columns are null.

    recorded                     + what a run changed                        = after the run
    rows 100, rule 0: 12 failed    2 rows come, 1 of them fails; 1 turns good  rows 102, rule 0: 12 failed

It is kept in the record of the target's commit, so that it is one with the rows, and stands in every result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class RuleState:
    """What one row rule says of all rows of a target.

    Attributes:
        index: The rule's position in the suite.
        checked: Rows that it judges; None when they are not counted yet, or when it raised.
        failed: Rows that it finds wanting; None like ``checked``.
        error: The class of what it raised on a row; None when it did not.
        rule: What tells the rule from others, wherever it stands: ``SuiteRule.fingerprint``.
    """

    index: int
    checked: int | None = None
    failed: int | None = None
    error: str | None = None
    rule: str = ""

    @property
    def is_counted(self) -> bool:
        """True when there are counts."""
        return self.checked is not None and self.failed is not None

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as in the result JSON."""
        return {"index": self.index, "checked": self.checked, "failed": self.failed, "error": self.error}


@dataclass(frozen=True)
class LookupState:
    """How one join went over all driving rows; for lists, over all elements.

    Attributes:
        rows: Those that reach the join; before ``where``.
        matched: Those with a partner.
        null_references: Those whose reference is null; always 0 in table joins.
    """

    rows: int = 0
    matched: int = 0
    null_references: int = 0

    def __add__(self, other: LookupState) -> LookupState:
        parts = ("rows", "matched", "null_references")
        return LookupState(*[getattr(self, part) + getattr(other, part) for part in parts])

    def __neg__(self) -> LookupState:
        return LookupState(-self.rows, -self.matched, -self.null_references)


Lookups = Mapping[str, LookupState]
"""Alias -> how its join went."""


@dataclass(frozen=True)
class State:
    """What a target holds.

    Attributes:
        rows: Its rows.
        rules: One entry for each rule that judges a row by itself, in the order of the suite.
        lookups: Alias -> how the join went.
        nulls: Column that the job writes -> rows where it is null.
    """

    rows: int = 0
    rules: tuple[RuleState, ...] = ()
    lookups: Mapping[str, LookupState] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the state as in the result JSON and in the record of a commit."""
        return {
            "rows": self.rows,
            "rules": [each.to_dict() for each in self.rules],
            "lookups": {alias: dict(vars(each)) for alias, each in self.lookups.items()},
            "nulls": dict(self.nulls),
        }

    @staticmethod
    def from_dict(found: Mapping[str, Any], fingerprints: Sequence[str] = ()) -> State:
        """Read a state back; ``fingerprints`` are those of its rules, which stand beside it in the record."""
        names = [*fingerprints, *[""] * (len(found["rules"]) - len(fingerprints))]
        return State(
            found["rows"],
            tuple(RuleState(**each, rule=name) for each, name in zip(found["rules"], names, strict=True)),
            {alias: LookupState(**each) for alias, each in found["lookups"].items()},
            dict(found["nulls"]),
        )

    def agrees_with(self, counted: State) -> bool:
        """Return whether all that is counted here is what ``counted`` says; rules without counts are not compared."""
        theirs = {each.index: each for each in counted.rules}
        same = (self.rows, dict(self.lookups), dict(self.nulls)) == (
            counted.rows,
            dict(counted.lookups),
            dict(counted.nulls),
        )
        return same and all(each == theirs.get(each.index) for each in self.rules if each.is_counted)

    def under(self, rules: Sequence[RuleState]) -> State:
        """Return this state with an entry for each of ``rules``, which are not counted where it has none for them.

        Rules are told apart by their fingerprints: one that moves within its suite keeps its counts, one that changes
        its arguments does not, and one that has left the suite is gone.
        """
        known = {each.rule: each for each in self.rules}
        kept = [replace(known[each.rule], index=each.index) if each.rule in known else each for each in rules]
        return replace(self, rules=tuple(kept))
