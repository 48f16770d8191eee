"""Say what rules are: those of a suite, and those of a job about its joins and changes.

Those of a job never decide where a row goes, only whether the run may write: they are no part of its definition.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from enrich.base.result import Finding, RuleState, resolve_threshold

if TYPE_CHECKING:
    from enrich.project.models import Rule

COLUMN, PAIR, MULTI, AGGREGATE = "column", "pair", "multi", "aggregate"
Condition = Mapping[str, Any]
"""GX's mapping form: ``type`` is comparison, nullity, and, or, pass_through (Spark SQL text that was checked)."""

WARN, QUARANTINE, FAIL = "warn", "quarantine", "fail"
CHANGED, TARGET = "changed", "target"
NULL_FOREIGN_KEYS, NEW_ORPHANS = "null_foreign_keys", "new_orphans"
MASS_CHANGE, VALUE_CONFLICTS = "mass_change", "value_conflicts"


@dataclass(frozen=True)
class Kind:
    """What one argument takes: its description for messages, and the test that GX's own model applies."""

    text: str
    accepts: Callable[[Any], bool]


@dataclass(frozen=True)
class Type:
    """One expectation type."""

    judges: str  # column, pair, multi (rules that judge rows) or aggregate (one verdict for all rows)
    required: Mapping[str, Kind] = field(default_factory=dict)
    optional: Mapping[str, Kind] = field(default_factory=dict)  # these may also be null
    verdict_only: bool = False  # a row type that GX answers from the schema, without counts
    either: tuple[str, ...] = ()  # at least one of these must be given
    windowed: bool = False  # the condition looks at other rows through a window
    measured: bool = False  # the condition holds figures that GX computes from the rows first
    unconditional: bool = False  # GX judges all rows whatever row_condition says, and so do we

    @property
    def is_row(self) -> bool:
        """True for those whose failures are counted by row, and the two types GX files with them."""
        return self.judges != AGGREGATE

    @property
    def single(self) -> bool:
        """True when every row is judged by itself, which quarantine needs."""
        return self.is_row and not (self.verdict_only or self.windowed or self.measured)

    def arguments(self) -> dict[str, Kind]:
        """Return every argument that may stand in ``kwargs``, but for `COMMON` and `CONDITION`."""
        return {**self.required, **self.optional}


@dataclass(frozen=True)
class SuiteRule:
    """One expectation of a suite."""

    index: int  # its position in the suite, from 0
    type: str
    kwargs: Mapping[str, Any]  # GX's, without the row condition and what decides nothing (``result_format`` ...)
    action: str
    tolerate: int | float | None  # rows, or the share of the checked rows, that may fail
    scope: str
    row_condition: Condition | None  # which rows are judged; None: all
    where: str  # expectations/x.json:7; ``places`` are those of single arguments
    places: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    condition_columns: tuple[str, ...] = ()  # as the row condition names them, in order
    is_lasting: bool = True  # the rule says the same of a row in every run: no text is read as the time of the run
    spec: Type = field(kw_only=True, compare=False, repr=False)

    @property
    def column(self) -> str | None:
        """The rule's ``column``, when it has exactly one."""
        return self.kwargs.get("column")

    @property
    def column_list(self) -> tuple[str, ...] | None:
        """The rule's columns, when it has several."""
        names = [self.kwargs[key] for key in ("column_A", "column_B") if key in self.kwargs]
        columns = names or self.kwargs.get("column_list")
        return None if columns is None else tuple(str(name) for name in columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """The rule's columns, however many."""
        return self.column_list or () if self.column is None else (self.column,)

    @property
    def label(self) -> str:
        """How ``_failed`` of the quarantine names the rule: ``<type>:<column>``, the bare type without columns."""
        return f"{self.type}:{','.join(self.columns)}" if self.columns else self.type

    @property
    def unjudged(self) -> Finding:
        """The finding of a run that judged no row."""
        return Finding(
            self.index, self.type, self.column, self.action, 0, 0, success=None,
            column_list=self.column_list, scope=self.judged_scope, where=self.where,
        )  # fmt: skip

    @property
    def judged_scope(self) -> str:
        """``scope`` as it applies: what is quarantined must not depend on the rest of the target."""
        return CHANGED if self.action == QUARANTINE else self.scope

    @property
    def fingerprint(self) -> str:
        """What tells the rule from those with other counts."""
        return hashlib.sha256(_write_canonically(self.meaning).encode()).hexdigest()[:16]

    @property
    def meaning(self) -> dict[str, Any]:
        """What decides which rows the rule judges and finds wanting: not ``mostly``."""
        kwargs = {name: value for name, value in self.kwargs.items() if name != "mostly"}
        return {"type": self.type, "kwargs": kwargs, "row_condition": self.row_condition}

    def list_judged_columns(self) -> tuple[str, ...]:
        """Return the columns without which the rule is not judged, the row condition's included."""
        is_judged = self.spec.is_row or (self.column is not None and self.type != "expect_column_to_exist")
        return tuple(dict.fromkeys((*(self.columns if is_judged else ()), *self.condition_columns)))


@dataclass(frozen=True)
class Suite:
    """One suite file; ``rules`` are in its order."""

    rules: tuple[SuiteRule, ...]

    @property
    def row_rules(self) -> tuple[SuiteRule, ...]:
        """Those that judge a row by itself, and always alike: their counts over the whole target are kept."""
        return tuple(rule for rule in self.rules if rule.is_lasting and rule.spec.single)


def list_unjudged(rules: Sequence[Rule], accepted: Collection[str]) -> tuple[Finding, ...]:
    """Return the findings of a run that judged no row; rules named in ``accepted`` do not block it."""
    return tuple(
        Finding(
            None, rule.rule, None, FAIL if rule.blocks and rule.rule not in accepted else WARN, 0, 0, success=None,
            source=rule.join, rule=position, accepted=rule.blocks and rule.rule in accepted,
            at_least=rule.at_least, at_most=None if rule.at_least is not None else rule.at_most or 0,
            scope=TARGET if rule.rule == MASS_CHANGE else rule.scope or CHANGED,
        )
        for position, rule in enumerate(rules)
    )  # fmt: skip


def judge_counts(finding: Finding, checked: int, failed: int) -> Finding:
    """Return a rule's finding with its counts and its verdict; no verdict over no rows."""
    passed = failed <= resolve_threshold(finding.at_most or 0, checked)
    if finding.at_least is not None:
        passed = checked - failed >= resolve_threshold(finding.at_least, checked)
    return replace(finding, checked=checked, failed=failed, success=passed if checked else None)


def list_uncounted(suite: Suite | None) -> tuple[RuleState, ...]:
    """Return an entry for each rule of the state of a target, without counts."""
    return () if suite is None else tuple(RuleState(rule.index, rule=rule.fingerprint) for rule in suite.row_rules)


def list_needed_columns(suite: Suite | None, names: Sequence[str]) -> frozenset[str]:
    """Return the columns among ``names`` whose values the row rules of a suite look at."""
    rules = suite.row_rules if suite is not None else ()
    found = [resolve_column(column, names) or column for rule in rules for column in rule.list_judged_columns()]
    parts = (part for each in found for part in (each, each.strip("`"), each.partition(".")[0]))
    return frozenset(part for part in parts if part in names)


def resolve_column(column: str, names: Sequence[str]) -> str | None:
    """Return ``column`` as Spark and GX must be given it, a name with a dot in backticks; None when there is none."""
    if column in names:
        return f"`{column}`" if "." in column else column
    if column.startswith("`") and column.endswith("`") and column[1:-1] in names:
        return column if "." in column else column[1:-1]
    head, dot, _ = column.partition(".")
    return column if dot and head in names else None


def select_quarantine_rules(suite: Suite) -> Suite | None:
    """Return a suite with the rules alone that decide which rows the target holds; None when it has none."""
    rules = tuple(rule for rule in suite.rules if rule.action == QUARANTINE)
    return replace(suite, rules=rules) if rules else None


def fingerprint_quarantine(suite: Suite) -> str:
    """Return a canonical text of what decides which rows are quarantined, in the order of the rules."""
    chosen = select_quarantine_rules(suite)
    return _write_canonically([rule.meaning for rule in chosen.rules]) if chosen else ""


def _write_canonically(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
