"""Say in words why rows, references and cells are as they are: the answers, and how people read them. No Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from textwrap import indent
from typing import Any

from enrich.base import hints
from enrich.base.console import clean, format_count, format_reasons, format_table
from enrich.base.result import Shown
from enrich.base.spec import MATCHED as MATCHED  # noqa: PLC0414 - the first of the reasons
from enrich.project.kinds import JOINS

NO_SUCH_KEY = "no_such_key"
FOREIGN_KEY_NULL = "foreign_key_null"
ARRIVED_AFTER_WINDOW = "arrived_after_window"
DELETED_AT = "deleted_at"
NEAR_MISS = "near_miss"
AMBIGUOUS = "ambiguous"
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
    AMBIGUOUS: "the source has several rows with this key, and holds them (doubled_keys: quarantine)",
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
    missing = (AMBIGUOUS, ARRIVED_AFTER_WINDOW, QUARANTINED_UPSTREAM, DELETED_AT, NEAR_MISS, NO_SUCH_KEY)
    return (*missing, *(word for kind in JOINS.values() for word in kind.reasons), FOREIGN_KEY_NULL, MATCHED)


@dataclass(frozen=True)
class Reason:
    """One answer."""

    reason: str  # one of ``list_meanings``
    # Of a near miss, what normalisers would remove: ``case``, ``blank``, ..., or a ``combination``.
    kind: str | None = None
    # The source's version that brought or deleted the partner; that was ``at``, ISO 8601 in UTC.
    version: int | None = None
    at: str | None = None
    # Whose reason it is: for rows and cells, and for sources that nothing refers to without a driving row.
    source: str | None = None
    rules: tuple[str, ...] = ()  # what keeps a row in quarantine
    elements: Mapping[str, int] | None = None  # reason -> number of elements, for lists
    job: str | None = None  # the job upstream that holds the row in its quarantine
    found: str | None = field(default=None, repr=False)  # the key of a near miss as text; never part of ``to_dict``
    # Where a job of the project writes the source: what it says of the row or cell, and the jobs before it, the last
    # one with the source that is the reason.
    upstream: tuple[Link, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return what applies, without keys and values."""
        every = vars(self) | {"rules": list(self.rules) or None, "found": None}
        every["upstream"] = [link.to_dict() for link in self.upstream] or None
        return {name: value for name, value in every.items() if value is not None}


@dataclass(frozen=True)
class Link:
    """What a job upstream says of the row, or the cell, that a job after it lacks."""

    job: str
    column: str | None  # of the job's target; None for the row
    reason: Reason
    table: str | None  # what the reason's source stands for in that job

    def to_dict(self) -> dict[str, Any]:
        """Return what applies, without keys and values."""
        known = {"job": self.job, "column": self.column, "table": self.table}
        return {name: each for name, each in known.items() if each is not None} | {"reason": self.reason.to_dict()}


@dataclass(frozen=True, repr=False)
class Why(Shown):
    """The answer for one key of one job."""

    job: str
    target_version: int | None  # the version of the target that the answer is about; None when it does not exist
    row: Reason  # whether the row is in the target (``matched``), and if not, why
    # Alias -> whether the row has a partner there; the driving source among them.
    lookups: Mapping[str, Reason] = field(default_factory=dict)
    columns: Mapping[str, Reason] = field(default_factory=dict)  # target column -> why its cell is as it is
    rows: int = 0  # of groups: how many rows of the source make this one
    query: str | None = None  # and the SQL query that lists them, with parameters for the key

    @property
    def in_target(self) -> bool:
        """True when the target has the row."""
        return self.row.reason == MATCHED

    def list_told(self) -> list[tuple[str, str, Reason]]:
        """Return what is told about what: the row, the sources, the columns."""
        told = [("row", "", self.row)] + [("source", alias, each) for alias, each in self.lookups.items()]
        return told + [("column", name, each) for name, each in self.columns.items()]

    def summarise(self) -> tuple[str, list[dict[str, object]]]:
        """Return the reason of the row, and all reasons."""
        names = ("about", "what", "reason", "detail")
        told = [(about, what, replace(each, found=None)) for about, what, each in self.list_told()]
        rows = [(about, what, each.reason, format_detail(each)) for about, what, each in told]
        return f"why, job {self.job}: row {self.row.reason}", [dict(zip(names, row, strict=True)) for row in rows]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich why --output json``."""
        made = {} if self.query is None else {"rows": self.rows, "query": self.query}
        return {
            "job": self.job,
            "target_version": self.target_version,
            "in_target": self.in_target,
            "row": self.row.to_dict(),
            "lookups": {alias: reason.to_dict() for alias, reason in self.lookups.items()},
            "columns": {name: reason.to_dict() for name, reason in self.columns.items()},
        } | made


@dataclass(frozen=True)
class Cause:
    """How many failing rows have one reason: what ``why`` says of their cell, without version and time."""

    reason: Reason
    rows: int


@dataclass(frozen=True)
class FailingRow:
    """A failing row with its reason, for people; its key is target column -> text, as ``enrich why`` reads it."""

    key: dict[str, str] = field(repr=False)
    reason: Reason


@dataclass(frozen=True)
class RuleCauses:
    """What one row rule says of all rows of a target."""

    index: int  # the rule's position in the suite
    expectation: str  # Great Expectations' type
    column: str | None  # the rule's ``column``, when it has exactly one; else its columns are ``column_list``
    column_list: tuple[str, ...] | None
    checked: int | None  # rows that it judges; None when it raised, as ``failed``; ``error`` is the class of that
    failed: int | None
    error: str | None = None
    causes: tuple[Cause, ...] = ()  # reasons of the failing rows, the most frequent first; they add up to ``failed``
    # Failing rows with their keys, only when they were asked for; never part of the JSON.
    rows: tuple[FailingRow, ...] = field(default=(), repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The rule's columns, however many."""
        return self.column_list or ((self.column,) if self.column is not None else ())

    @property
    def reasons(self) -> dict[str, int]:
        """Word -> failing rows, the most frequent first."""
        return self._count(lambda reason: reason.reason)

    @property
    def near_misses(self) -> dict[str, int]:
        """Kind -> failing rows that are near misses, the most frequent first."""
        return self._count(lambda reason: reason.kind if reason.reason == NEAR_MISS else None)

    @property
    def upstream(self) -> list[dict[str, Any]]:
        """The chains of jobs to the sources that are reasons, each with its number of failing rows."""
        told = [(cause, cause.reason.to_dict()) for cause in self.causes if cause.reason.upstream]
        names = ("reason", "source", "upstream")
        return [{"rows": cause.rows, **{name: of[name] for name in names if name in of}} for cause, of in told]

    def _count(self, tell: Callable[[Reason], str | None]) -> dict[str, int]:
        counts = Counter[str]()
        for cause in self.causes:
            if (word := tell(cause.reason)) is not None:
                counts[word] += cause.rows
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def to_dict(self) -> dict[str, Any]:
        """Return the rule's part of the JSON; what follows ``reasons`` only where it applies."""
        names = ("index", "expectation", "column", "checked", "failed", "reasons")
        columns = None if self.column_list is None else list(self.column_list)
        more: dict[str, Any] = {"column_list": columns, "near_misses": self.near_misses or None, "error": self.error}
        more["upstream"] = self.upstream or None
        applies = {name: value for name, value in more.items() if value is not None}
        return {name: getattr(self, name) for name in names} | applies


@dataclass(frozen=True, repr=False)
class FailingRows(Shown):
    """The answer for one job: its rules in the order of the suite, and the version of the target that was read."""

    job: str
    target_version: int
    rules: tuple[RuleCauses, ...]

    def summarise(self) -> tuple[str, list[dict[str, object]]]:
        """Return how many rules have failing rows, and each rule with its reasons."""
        rows = [each.to_dict() for each in self.rules]
        names = ("index", "expectation", "column", "checked", "failed")
        shown = [{n: row[n] for n in names} | {"why": format_reasons(row["reasons"], {})} for row in rows]
        return f"failing, job {self.job}: {sum(bool(row['failed']) for row in rows)} of {len(rows)} rules fail", shown

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich failing --output json``: counts, without keys and values."""
        rules = [rule.to_dict() for rule in self.rules]
        return {"job": self.job, "target_version": self.target_version, "rules": rules}


@dataclass(frozen=True)
class Suggestion:
    """Steps by which ``heals`` rows would find a partner; alias -> the source's line as it should read in the file."""

    normalise: list[str]
    heals: int
    lines: Mapping[str, str]


@dataclass(frozen=True)
class JoinKeys:
    """How one join's keys meet."""

    join: str  # the lookup's alias
    kind: str
    references: int  # rows (of a list: elements) that refer to a key of the lookup; ``unmatched`` lack a partner
    unmatched: int
    near_misses: Mapping[str, int]  # kind -> unmatched references that nearly match
    suggestion: Suggestion | None = None  # what would make the near misses match; None when nothing may
    # Kind, reference and key of near misses, only when they were asked for; never part of the JSON.
    pairs: tuple[tuple[str, str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class KeyReport:
    """The answer for one job: its file, relative to the project, and its joins in their order."""

    job: str
    file: str
    joins: tuple[JoinKeys, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich doctor keys --output json``: counts and suggestions, without keys."""
        joins = [{n: each for n, each in asdict(join).items() if n != "pairs"} for join in self.joins]
        return {"job": self.job, "file": self.file, "joins": joins}


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
    """Return whether a row is in the target, or why not.

    In: ``live``, whether join and condition keep it, None when no join gives it at all; ``needed``, the sources without
    which there is no row, in the order of the joins, with their reasons; ``rules``, what keeps it in quarantine.
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
    if not is_null:
        return Reason(MATCHED)
    source = aliases[-1] if aliases else None
    return Reason(VALUE_NULL if source in (None, driving) else VALUE_NULL_IN_LOOKUP, source=source)


def sort_causes(counted: Mapping[Reason, int]) -> tuple[Cause, ...]:
    """Return reasons with their counts, the most frequent first."""
    causes = [Cause(reason, rows) for reason, rows in counted.items()]
    return tuple(
        sorted(causes, key=lambda it: (-it.rows, it.reason.reason, it.reason.kind or "", it.reason.source or ""))
    )


# --- The answers for people ------------------------------------------------------------------------------------------


def format_answer(answer: Why, column: str | None) -> str:
    """Return the answer: one line for a column that was asked for, else a table of row, sources and columns."""
    if column is not None:
        (reason,) = answer.columns.values()
        detail = format_detail(reason)
        said = [f"{reason.reason}: {detail}" if detail else reason.reason, *format_chains([reason])]
        return "\n".join([*said, *_format_rows(answer)])
    told = answer.list_told()
    lines = [(about, clean(what), reason.reason, format_detail(reason)) for about, what, reason in told]
    chains = format_chains([reason for _, _, reason in told])
    return "\n".join([format_table(("about", "what", "reason", "detail"), lines), *chains, *_format_rows(answer)])


def _format_rows(answer: Why) -> list[str]:
    """Return how many rows make a group, and the query that lists them."""
    if answer.query is None:
        return []
    return [f"made of {format_count(answer.rows, 'row')}, which this lists: {clean(answer.query)}"]


def format_chains(told: Iterable[Reason]) -> list[str]:
    """Return the chains of some reasons as lines, each chain once, a line a job."""
    lines = []
    for chain in dict.fromkeys(reason.upstream for reason in told if reason.upstream):
        for depth, link in enumerate(chain, start=1):
            detail = format_detail(link.reason) + (f", table {clean(link.table)}" if link.table else "")
            about = f"column {link.column}" if link.column else "row"
            said = clean(f"job {link.job}, {about}: {link.reason.reason}")
            lines.append(f"{'  ' * depth}because {said}{f': {detail}' if detail else ''}")
    return lines


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
        parts.append(f"quarantined by job {reason.job}: {hints.report(reason.job)}")
    if reason.found is not None:
        parts.append(f"key {quote_key(reason.found)}")
    return clean("; ".join(parts))


_MEANINGS = {
    MATCHED: "every source has its row; the value itself fails the rule",
    DELETED_AT: "the source had the row, and one of its versions deleted it",
}
"""What reasons mean where rows of the target fail a rule, where that is not what they always mean."""


def format_failing(answer: FailingRows) -> str:
    """Return a paragraph for each rule: how many rows fail it, why, and what to ask next."""
    paragraphs = []
    for rule in answer.rules:
        name = clean(f"{rule.expectation} {', '.join(rule.columns)} (rule {rule.index})")
        if rule.error is not None:
            paragraphs.append(f"{name} raised an error, so its rows are not counted: {clean(rule.error)}")
            continue
        verb = "fails" if rule.failed == 1 else "fail"
        first = f"{rule.failed} of {format_count(rule.checked or 0, 'row')} {verb} {name}"
        if not rule.failed:
            paragraphs.append(first)
            continue
        meanings = list_meanings() | _MEANINGS
        causes = [(str(cause.rows), cause.reason) for cause in rule.causes]
        lines = [(count, each.reason, format_detail(each), meanings[each.reason]) for count, each in causes]
        table = format_table(("rows", "reason", "detail", "meaning"), lines, right=(0,))
        shown = [f"{first}: {format_reasons(rule.reasons, rule.near_misses)}", indent(table, "  ")]
        for cause in rule.causes:
            if chain := format_chains([cause.reason]):
                shown += [f"  {format_count(cause.rows, 'row')} {cause.reason.reason}", indent("\n".join(chain), "  ")]
        keys = []
        for row in rule.rows:  # each with its key as the options of `enrich why`
            options = " ".join(f"--key {quote_key(f'{name}={value}')}" for name, value in row.key.items())
            keys.append((options, row.reason.reason, format_detail(row.reason)))
        if keys:
            shown.append(indent(format_table(("key", "reason", "detail"), keys), "  "))
        if keys and (more := rule.failed - len(keys)):
            shown.append(f"  and {format_count(more, 'row')} more")
        column = [rule.column] if rule.column is not None and not {".", "`"} & set(rule.column) else []
        shown.append(clean(f"  to ask about one row: {hints.why(answer.job, '--key', 'NAME=VALUE', *column)}"))
        if not keys:
            shown.append("  to see which rows: --show-keys, on a terminal")
        paragraphs.append("\n".join(shown))
    return "\n\n".join(paragraphs)


def quote_key(text: str) -> str:
    """Return a key on one line, with its ends visible."""
    return "'" + clean(text).replace("\n", "\\n") + "'"


def format_keys(report: KeyReport) -> str:
    """Return a paragraph for each join: counts by kind, and the lines that make most references match."""
    if not report.joins:
        return f"{report.job} has no joins, so there are no references to look at"
    shown = []
    for found in report.joins:
        lost = f"{found.unmatched} of {format_count(found.references, 'reference')} without a partner"
        near = f", near misses among them: {sum(found.near_misses.values())}" if found.unmatched else ""
        lines = [f"{found.join} ({found.kind}): {lost}{near}"]
        lines += [f"  {number:>8}  {kind}" for kind, number in found.near_misses.items()]
        lines += [f"  {kind}: {quote_key(ours)} nearly matches {quote_key(key)}" for kind, ours, key in found.pairs]
        if found.suggestion is not None:
            heals = format_count(found.suggestion.heals, "reference")
            lines.append(f"  to make {heals} match, write in {report.file} and run `{hints.refresh(report.job)}`:")
            lines += ["    sources:", *[f"      {line}" for line in found.suggestion.lines.values()]]
        shown.append(clean("\n".join(lines)))
    return "\n\n".join(shown)
