"""Say what the rules of a suite are: frozen, each with what is known of its type; ``suitefiles`` reads them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from enrich.base.result import Finding
from enrich.base.state import RuleState
from enrich.quality.catalogue import TYPES, Type

Condition = Mapping[str, Any]
"""GX's mapping form: ``type`` is comparison, nullity, and, or, pass_through (Spark SQL text that was checked)."""

WARN, QUARANTINE, FAIL = "warn", "quarantine", "fail"
ACTIONS = (WARN, QUARANTINE, FAIL)
CHANGED, TARGET = "changed", "target"
SCOPES = (CHANGED, TARGET)
SEVERITIES = ("critical", "warning", "info")


@dataclass(frozen=True)
class SuiteRule:
    """One expectation of a suite.

    Attributes:
        index: Its position in the suite, from 0.
        type: GX's type.
        kwargs: GX's arguments, without the row condition and without what decides nothing (``result_format`` ...).
        action: ``warn``, ``quarantine`` or ``fail``.
        tolerate: Rows (int) or share of the checked rows (float) that may fail; None: none.
        scope: ``changed`` or ``target``.
        row_condition: Which rows are judged, in GX's mapping form; None: all.
        where: ``expectations/x.json:7``.
        places: ``file:line`` of single arguments, by name.
        condition_columns: The columns that the row condition names, in order, as the suite writes them.
        is_lasting: Whether the rule says the same of a row in every run: no text is read as the time of the run.
    """

    index: int
    type: str
    kwargs: Mapping[str, Any]
    action: str
    tolerate: int | float | None
    scope: str
    row_condition: Condition | None
    where: str
    places: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    condition_columns: tuple[str, ...] = ()
    is_lasting: bool = True

    @property
    def spec(self) -> Type:
        """What is known of the type."""
        return TYPES[self.type]

    @property
    def column(self) -> str | None:
        """The rule's ``column``, when it has exactly one."""
        return self.kwargs.get("column")

    @property
    def column_list(self) -> tuple[str, ...] | None:
        """The rule's columns, when it has several."""
        if "column_A" in self.kwargs:
            return self.kwargs["column_A"], self.kwargs["column_B"]
        columns = self.kwargs.get("column_list")
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
        """What tells the rule from those with other counts: type, row condition and all arguments but ``mostly``."""
        text = json.dumps(_describe_meaning(self), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def list_judged_columns(self) -> tuple[str, ...]:
        """Return the columns that must exist for the rule to be judged at all, the row condition's included."""
        is_judged = self.spec.is_row or (self.column is not None and self.type != "expect_column_to_exist")
        own = self.columns if is_judged else ()
        return tuple(dict.fromkeys((*own, *self.condition_columns)))


@dataclass(frozen=True)
class Suite:
    """One suite file; ``rules`` are in its order."""

    rules: tuple[SuiteRule, ...]

    @property
    def row_rules(self) -> tuple[SuiteRule, ...]:
        """Those that judge a row by itself, and always alike: their counts over the whole target are kept."""
        return tuple(rule for rule in self.rules if rule.is_lasting and rule.spec.single)


def list_uncounted(suite: Suite | None) -> tuple[RuleState, ...]:
    """Return an entry for each rule of the state of a target, without counts."""
    rules = suite.row_rules if suite is not None else ()
    return tuple(RuleState(rule.index, rule=rule.fingerprint) for rule in rules)


def list_needed_columns(suite: Suite | None, names: Sequence[str]) -> frozenset[str]:
    """Return the columns among ``names`` whose values the row rules of a suite look at."""
    rules = suite.row_rules if suite is not None else ()
    found = [resolve_column(column, names) or column for rule in rules for column in rule.list_judged_columns()]
    return frozenset(
        part for each in found for part in (each, each.strip("`"), each.partition(".")[0]) if part in names
    )


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
    """Return a canonical text of what decides which rows are quarantined: those rules alone, in their order."""
    rules = [_describe_meaning(rule) for rule in suite.rules if rule.action == QUARANTINE]
    return json.dumps(rules, sort_keys=True, ensure_ascii=True, separators=(",", ":")) if rules else ""


def _describe_meaning(rule: SuiteRule) -> dict[str, Any]:
    """Return what decides which rows a rule judges and finds wanting."""
    kwargs = {name: value for name, value in rule.kwargs.items() if name != "mostly"}
    return {"type": rule.type, "kwargs": kwargs, "row_condition": rule.row_condition}
