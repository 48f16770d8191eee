"""Why a row, a lookup or a cell is as it is: one word from a short list. No values, no Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from enrich.config.kinds import JOINS
from enrich.config.kinds.syntax import MATCHED as MATCHED  # noqa: PLC0414 - the first of the reasons

NO_SUCH_KEY = "no_such_key"
FOREIGN_KEY_NULL = "foreign_key_null"
ARRIVED_AFTER_WINDOW = "arrived_after_window"
DELETED_AT = "deleted_at"
NEAR_MISS = "near_miss"
TOO_EARLY = "too_early"
ENDED = "ended"
GONE = "gone"
OUT_OF_INTERVAL = "out_of_interval"
VALUE_NULL_IN_LOOKUP = "value_null_in_lookup"
VALUE_NULL = "value_null"
FILTERED_BY_WHERE = "filtered_by_where"
QUARANTINED = "quarantined"
QUARANTINED_UPSTREAM = "quarantined_upstream"
NOT_YET_RUN = "not_yet_run"

REASONS = {
    MATCHED: "there is a partner, or the row is in the target",
    NO_SUCH_KEY: "the source has no row with this key, and as far as its history can be read, it never had one",
    FOREIGN_KEY_NULL: "the reference to the source is null",
    ARRIVED_AFTER_WINDOW: "the partner came in a version that the target has not consumed yet",
    DELETED_AT: "this version of the source deleted the partner",
    NEAR_MISS: "the source has a key that differs only by something that a normaliser removes",
    TOO_EARLY: "the source has versions of this key, and the first of them begins after the row's moment",
    ENDED: "the version that began last before the row's moment had ended by then",
    GONE: "the version of the row's moment says that the thing does not exist",
    OUT_OF_INTERVAL: "the source has rows that match, and none of them is within the interval",
    VALUE_NULL_IN_LOOKUP: "there is a partner, and its value is null",
    VALUE_NULL: "the value is null in the driving source, or the expression gives null",
    FILTERED_BY_WHERE: "the job's where removes the row",
    QUARANTINED: "the row is in the quarantine",
    QUARANTINED_UPSTREAM: "a job upstream holds the row in its quarantine, so the source does not have it",
    NOT_YET_RUN: "the target does not exist yet",
}
"""The reasons that all kinds share, and their meanings."""


def list_meanings() -> dict[str, str]:
    """Return all reasons and their meanings, those that kinds of joins bring along among them."""
    return REASONS | {word: meaning for kind in JOINS.values() for word, meaning in kind.reasons.items()}


WORST = (
    *(
        ARRIVED_AFTER_WINDOW,
        QUARANTINED_UPSTREAM,
        DELETED_AT,
        NEAR_MISS,
        NO_SUCH_KEY,
        TOO_EARLY,
        ENDED,
        GONE,
        OUT_OF_INTERVAL,
    ),
    *(FOREIGN_KEY_NULL, MATCHED),
)
"""Of several references of one row, which reason stands for the row: the first of these that one of them has."""


@dataclass(frozen=True)
class Reason:
    """One answer.

    Attributes:
        reason: One of ``list_meanings``.
        kind: Of a near miss: ``case``, ``blank``, ``unicode_form``, ``invisible``, ``other_type``,
            ``leading_zeros``, ``combination``.
        version: The source's version that brought or deleted the partner.
        at: When that was, ISO 8601 in UTC.
        source: Whose reason it is: for rows and cells, and for sources that nothing refers to without a driving row.
        rules: What keeps a row in quarantine.
        elements: Reason -> number of elements, for lists.
        job: The job upstream that holds the row in its quarantine.
        found: The key of a near miss as text; never part of ``to_dict``.
    """

    reason: str
    kind: str | None = None
    version: int | None = None
    at: str | None = None
    source: str | None = None
    rules: tuple[str, ...] = ()
    elements: Mapping[str, int] | None = None
    job: str | None = None
    found: str | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return what applies, without keys and values."""
        every = asdict(self) | {"rules": list(self.rules) or None, "found": None}
        return {name: value for name, value in every.items() if value is not None}


@dataclass(frozen=True)
class Why:
    """The answer for one key of one job.

    Attributes:
        target_version: The version of the target that the answer is about; None when it does not exist.
        row: Whether the row is in the target (``matched``), and if not, why.
        lookups: Alias -> whether the row has a partner there; the driving source among them.
        columns: Target column -> why its cell is as it is.
    """

    job: str
    target_version: int | None
    row: Reason
    lookups: Mapping[str, Reason] = field(default_factory=dict)
    columns: Mapping[str, Reason] = field(default_factory=dict)

    @property
    def in_target(self) -> bool:
        """True when the target has the row."""
        return self.row.reason == MATCHED

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich why --output json``."""
        return {
            "job": self.job,
            "target_version": self.target_version,
            "in_target": self.in_target,
            "row": self.row.to_dict(),
            "lookups": {alias: reason.to_dict() for alias, reason in self.lookups.items()},
            "columns": {name: reason.to_dict() for name, reason in self.columns.items()},
        }


def explain_list(elements: Sequence[tuple[Reason, int]]) -> Reason:
    """Return the reason of a list, from reasons and numbers of elements: that of the worst, and how many have which."""
    counts = Counter[str]()
    for reason, number in elements:
        counts[reason.reason] += number
    return replace(choose_worst([reason for reason, _ in elements]), elements=dict(counts))


def choose_worst(told: Iterable[Reason]) -> Reason:
    """Return the reason that stands for several."""
    return min(told, key=lambda reason: WORST.index(reason.reason), default=Reason(MATCHED))


def explain_row(live: bool | None, needed: Iterable[tuple[str, Reason]], rules: Sequence[str]) -> Reason:
    """Return whether a row is in the target.

    Args:
        live: Whether the join and the condition keep it; None when no join gives it at all.
        needed: The sources without which there is no row, in the order of the joins, with their reasons.
        rules: What keeps it in quarantine.
    """
    if rules:
        return Reason(QUARANTINED, rules=tuple(rules))
    if live:
        return Reason(MATCHED)
    for alias, reason in needed:
        if reason.reason != MATCHED:
            return replace(reason, source=reason.source or alias, elements=None)
    return Reason(FILTERED_BY_WHERE)


def explain_cell(
    row: Reason, aliases: Sequence[str], lookups: Mapping[str, Reason], *, is_null: bool, driving: str
) -> Reason:
    """Return why a cell is as it is; where the row is not in the target, neither is the cell.

    ``aliases`` are the sources that the column depends on, in the order of the joins; ``driving`` is no lookup.
    """
    if row.reason != MATCHED:
        return row
    for alias in aliases:
        if lookups[alias].reason != MATCHED:
            return replace(lookups[alias], source=alias)
    if is_null and (not aliases or aliases[-1] == driving):
        return Reason(VALUE_NULL, source=aliases[-1] if aliases else None)
    if is_null:
        return Reason(VALUE_NULL_IN_LOOKUP, source=aliases[-1])
    return Reason(MATCHED)
