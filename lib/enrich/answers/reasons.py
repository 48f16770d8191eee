"""Say in words why rows, references and cells are as they are: the answers, and how people read them. No Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from enrich.base import hints
from enrich.base.console import clean, format_count, format_reasons, format_table
from enrich.project.kinds import JOINS
from enrich.project.kinds.syntax import MATCHED as MATCHED  # noqa: PLC0414 - the first of the reasons

NO_SUCH_KEY = "no_such_key"
FOREIGN_KEY_NULL = "foreign_key_null"
ARRIVED_AFTER_WINDOW = "arrived_after_window"
DELETED_AT = "deleted_at"
NEAR_MISS = "near_miss"
VALUE_NULL_IN_LOOKUP = "value_null_in_lookup"
VALUE_NULL = "value_null"
FILTERED_BY_WHERE = "filtered_by_where"
QUARANTINED = "quarantined"
QUARANTINED_UPSTREAM = "quarantined_upstream"
NOT_YET_RUN = "not_yet_run"
NULL_VALUES = (VALUE_NULL, VALUE_NULL_IN_LOOKUP)
REASONS = {
    MATCHED: "there is a partner, or the row is in the target",
    NO_SUCH_KEY: "the source has no row with this key, and as far as its history can be read, it never had one",
    FOREIGN_KEY_NULL: "the reference to the source is null",
    ARRIVED_AFTER_WINDOW: "the partner came in a version that the target has not consumed yet",
    DELETED_AT: "this version of the source deleted the partner",
    NEAR_MISS: "the source has a key that differs only by something that a normaliser removes",
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


def list_worst() -> tuple[str, ...]:
    """Return, of several references of one row, which reason stands for the row: the first that one of them has."""
    own = [word for kind in JOINS.values() for word in kind.reasons]
    missing = (ARRIVED_AFTER_WINDOW, QUARANTINED_UPSTREAM, DELETED_AT, NEAR_MISS, NO_SUCH_KEY)
    return (*missing, *own, FOREIGN_KEY_NULL, MATCHED)


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


def _count(told: Iterable[tuple[str, int]]) -> dict[str, int]:
    counts = Counter[str]()
    for word, rows in told:
        counts[word] += rows
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True)
class Suggestion:
    """Lines for the job file.

    Attributes:
        normalise: The steps that are to be added.
        heals: Rows that would find a partner.
        lines: Alias -> the source's line as it should read below ``sources``.
    """

    normalise: tuple[str, ...]
    heals: int
    lines: Mapping[str, str]


@dataclass(frozen=True)
class Refused:
    """Steps that would resolve more than what is suggested, and are not, because keys would no longer be unique.

    Attributes:
        ambiguous: Alias -> keys that would be one with another key of the same source.
    """

    normalise: tuple[str, ...]
    heals: int
    ambiguous: Mapping[str, int]


@dataclass(frozen=True)
class JoinKeys:
    """How one join's keys meet.

    Attributes:
        join: The lookup's alias.
        kind: The join's kind.
        references: Rows (of a list: elements) that refer to a key of the lookup.
        unmatched: Those without a partner.
        near_misses: Kind -> unmatched references that nearly match.
        suggestion: What would resolve most in the fewest steps; None when nothing may.
        refused: What would resolve more, but make keys ambiguous.
        pairs: Kind, reference and key of near misses, only when they were asked for; never part of the JSON.
    """

    join: str
    kind: str
    references: int
    unmatched: int
    near_misses: Mapping[str, int]
    suggestion: Suggestion | None = None
    refused: Refused | None = None
    pairs: tuple[tuple[str, str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class KeyReport:
    """The answer for one job.

    Attributes:
        file: The job's file, relative to the project.
        joins: In their order; empty for mirrors and for jobs without lookups.
    """

    job: str
    file: str
    joins: tuple[JoinKeys, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich doctor keys --output json``: counts and suggestions, without keys."""

        def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            return {
                name: list(value) if isinstance(value, tuple) else value for name, value in pairs if name != "pairs"
            }

        return asdict(self, dict_factory=keep)


# --- Which reason stands for several ---------------------------------------------------------------------------------


def explain_list(elements: Sequence[tuple[Reason, int]]) -> Reason:
    """Return the reason of a list, from reasons and numbers of elements: that of the worst, and how many have which."""
    counts = Counter[str]()
    for reason, number in elements:
        counts[reason.reason] += number
    return replace(choose_worst([reason for reason, _ in elements]), elements=dict(counts))


def choose_worst(told: Iterable[Reason]) -> Reason:
    """Return the reason that stands for several."""
    return min(told, key=lambda reason: list_worst().index(reason.reason), default=Reason(MATCHED))


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


def sort_causes(counted: Counter[Reason]) -> tuple[Cause, ...]:
    """Return reasons with their counts, the most frequent first."""

    def rank(cause: Cause) -> tuple[int, str, str, str]:
        reason = cause.reason
        return -cause.rows, reason.reason, reason.kind or "", reason.source or ""

    return tuple(sorted((Cause(reason, rows) for reason, rows in counted.items()), key=rank))


# --- The answers for people ------------------------------------------------------------------------------------------


def format_answer(answer: Why, column: str | None) -> str:
    """Return the answer: one line for a column that was asked for, else the row, the sources and the columns.

    ```
    about     what      reason     detail
    row                 matched
    source    accounts  near_miss  invisible
    column    email     near_miss  invisible; accounts
    ```
    """
    if column is not None:
        (reason,) = answer.columns.values()
        detail = format_detail(reason)
        return f"{reason.reason}: {detail}" if detail else reason.reason
    told = [("row", "", answer.row)]
    told += [("source", alias, reason) for alias, reason in answer.lookups.items()]
    told += [("column", name, reason) for name, reason in answer.columns.items()]
    lines = [(about, clean(what), reason.reason, format_detail(reason)) for about, what, reason in told]
    return format_table(("about", "what", "reason", "detail"), lines)


def format_detail(reason: Reason) -> str:
    """Return what belongs to a reason, in one line."""
    parts = [reason.kind] if reason.kind else []
    if reason.version is not None:
        parts.append(f"version {reason.version}{f' of {reason.at}' if reason.at else ''}")
    if reason.rules:
        parts.append(", ".join(reason.rules))
    if reason.elements is not None and len(reason.elements) > 1:
        parts.append(", ".join(f"{number} {name}" for name, number in reason.elements.items()))
    if reason.source is not None:
        parts.append(f"in {reason.source}")
    if reason.job is not None:
        parts.append(f"held by job {reason.job}: {hints.report(reason.job)}")
    if reason.found is not None:
        parts.append(f"key {quote_key(reason.found)}")
    return clean("; ".join(parts))


_MEANINGS = {
    MATCHED: "every source has its row; the value itself fails the rule",
    DELETED_AT: "the source had the row, and one of its versions deleted it",
}
"""What reasons mean where rows of the target fail a rule, where that is not what they always mean."""


def format_failing(answer: FailingRows) -> str:
    """Return a paragraph for each rule: how many rows fail it, why, and what to ask next.

    ```
    3 of 9 rows fail expect_column_values_to_not_be_null email (rule 0): 2 no such key, 1 near miss (a key that ...)
      rows  reason       detail                 meaning
         2  no_such_key  in accounts            the source has no row with this key, and as far as its history can ...
         1  near_miss    invisible; in accounts the source has a key that differs only by something that a ...
      to ask about one row: enrich why customers --key NAME=VALUE email
    ```
    """
    return "\n\n".join(_format_rule(answer.job, rule) for rule in answer.rules)


def _format_rule(job: str, rule: RuleCauses) -> str:
    name = clean(f"{rule.expectation} {', '.join(rule.columns)} (rule {rule.index})")
    if rule.error is not None:
        return f"{name} raised an error, so its rows are not counted: {clean(rule.error)}"
    first = (
        f"{rule.failed} of {format_count(rule.checked or 0, 'row')} {'fails' if rule.failed == 1 else 'fail'} {name}"
    )
    if not rule.failed:
        return first
    meanings = list_meanings() | _MEANINGS
    lines = [
        (str(cause.rows), cause.reason.reason, format_detail(cause.reason), meanings[cause.reason.reason])
        for cause in rule.causes
    ]
    table = format_table(("rows", "reason", "detail", "meaning"), lines, right=(0,))
    shown = [f"{first}: {format_reasons(rule.reasons, rule.near_misses)}", *_indent(table)]
    keys = []
    for row in rule.rows:  # each with its key as the options of `enrich why`
        options = " ".join(f"--key {quote_key(f'{name}={value}')}" for name, value in row.key.items())
        keys.append((options, row.reason.reason, format_detail(row.reason)))
    if keys:
        shown += _indent(format_table(("key", "reason", "detail"), keys))
    if keys and (more := rule.failed - len(keys)):
        shown.append(f"  and {format_count(more, 'row')} more")
    column = [rule.column] if rule.column is not None and not {".", "`"} & set(rule.column) else []
    shown.append(clean(f"  to ask about one row: {hints.why(job, '--key', 'NAME=VALUE', *column)}"))
    if not keys:
        shown.append("  to see which rows: --show-keys, on a terminal")
    return "\n".join(shown)


def _indent(text: str) -> list[str]:
    return [f"  {line}" for line in text.split("\n")]


def quote_key(text: str) -> str:
    """Return a key on one line, with its ends visible."""
    return "'" + clean(text).replace("\n", "\\n") + "'"


def format_keys(report: KeyReport) -> str:
    """Return a paragraph for each join: counts by kind, and the lines that make most references match."""
    if not report.joins:
        return f"{report.job} has no joins, so there are no references to look at"
    return "\n\n".join(clean(format_join(report, each)) for each in report.joins)


def format_join(report: KeyReport, found: JoinKeys) -> str:
    """Return one join's paragraph."""
    near = sum(found.near_misses.values())
    lost = f"{found.unmatched} of {format_count(found.references, 'reference')} without a partner"
    lines = [f"{found.join} ({found.kind}): {lost}" + (f", near misses among them: {near}" if found.unmatched else "")]
    lines += [f"  {number:>8}  {kind}" for kind, number in found.near_misses.items()]
    lines += [f"  {kind}: {quote_key(ours)} nearly matches {quote_key(theirs)}" for kind, ours, theirs in found.pairs]
    if found.suggestion is not None:
        heals = format_count(found.suggestion.heals, "reference")
        lines.append(f"  to make {heals} match, write in {report.file} and run `{hints.refresh(report.job)}`:")
        lines += ["    sources:", *[f"      {line}" for line in found.suggestion.lines.values()]]
    if found.refused is not None:
        steps = ", ".join(found.refused.normalise)
        confused = ", ".join(
            f"{format_count(number, 'key')} of {alias}" for alias, number in found.refused.ambiguous.items()
        )
        heals = format_count(found.refused.heals, "reference")
        lines.append(f"  not advised: [{steps}] would make {heals} match, but {confused} ambiguous")
    return "\n".join(lines)
