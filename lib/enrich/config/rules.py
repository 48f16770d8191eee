"""What the built-in rules of a job file may say: which join, which threshold.

Like ``checks``, this reads plain values, so that a fault elsewhere in the file hides none of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enrich.base.errors import did_you_mean
from enrich.config.kinds import JOINS
from enrich.config.shape import describe

if TYPE_CHECKING:
    from enrich.config.draft import Draft

AT_LEAST, AT_MOST = "at_least", "at_most"


@dataclass(frozen=True)
class _Known:
    """What one rule takes.

    Attributes:
        about: What it counts.
        threshold: ``at_least`` or ``at_most``.
        join: Whether it is about one join.
        refers: Whether that join must be one whose references can be null.
        scoped: True when it can count the whole target.
    """

    about: str
    threshold: str = AT_MOST
    join: bool = False
    refers: bool = False
    scoped: bool = False


RULES = {
    "match_rate": _Known("joins", AT_LEAST, join=True, scoped=True),
    "null_foreign_keys": _Known("joins", join=True, refers=True, scoped=True),
    "new_orphans": _Known("joins", join=True),
    "mass_change": _Known("what a run changes"),
    "value_conflicts": _Known("mirrors"),
}


def check_rules(draft: Draft) -> None:
    """Each rule is about something that the job has, and has the threshold that it needs."""
    declared = draft.root.get("rules")
    seen: set[tuple[Any, ...]] = set()
    for index, rule in enumerate(declared if isinstance(declared, list) else []):
        name = rule.get("rule") if isinstance(rule, dict) else None
        if not isinstance(name, str) or name not in RULES:
            continue  # its shape is a fault already
        for message, key in _find_faults(draft, rule):
            draft.fault(message, "rules", index, *([key] if key else []))
        given = {"scope": "changed", **rule}
        names = ("rule", "join", "action", "scope")
        same = tuple(given[key] if isinstance(given.get(key), str) else None for key in names)
        if same in seen:
            draft.fault(f"{same[0]} is declared twice with the same action and scope; keep one", "rules", index)
        seen.add(same)


def _find_faults(draft: Draft, rule: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield ``(message, key)`` for what is wrong with one rule."""
    name = rule["rule"]
    known = RULES[name]
    if name not in draft.syntax.rules:
        allowed = ", ".join(each for each in RULES if each in draft.syntax.rules)
        yield f"{name} is about {known.about}; a {draft.syntax.name} job can have {allowed}", "rule"
    elif known.join:
        yield from _find_join_faults(draft, rule, known)
    elif "join" in rule:
        yield f"{name} is about the whole target; leave 'join' out", "join"
    if (
        name == "value_conflicts"
        and name in draft.syntax.rules
        and draft.tree.mapping("mirror").get("conflict", "fail") == "fail"
    ):
        yield (
            "value_conflicts goes with conflict first, last or collect; with 'fail' one conflict blocks the run",
            "rule",
        )
    if "scope" in rule and not known.scoped:
        names = " and ".join(each for each, other in RULES.items() if other.scoped)
        yield f"only {names} take 'scope'; leave it out", "scope"
    yield from _find_threshold_faults(rule, known)


def _find_join_faults(draft: Draft, rule: dict[str, Any], known: _Known) -> Iterator[tuple[str, str | None]]:
    name, alias = rule["rule"], rule.get("join")
    fit = [kind.name for kind in JOINS.values() if kind.refers or not known.refers]
    kind = draft.joins.get(alias, {}).get("kind") if isinstance(alias, str) else None
    if "join" not in rule:
        joins = [each for each, join in draft.joins.items() if join.get("kind") in fit]
        yield f"{name} needs 'join', the alias of what is joined{did_you_mean('', joins)}", None
    elif isinstance(alias, str) and alias not in draft.joins and alias.strip():
        what = "the driving source" if alias == draft.driving else "not among the joins"
        yield f"{name} names {alias!r}, which is {what}{did_you_mean(alias, draft.joins)}", "join"
    elif isinstance(kind, str) and kind in JOINS and kind not in fit:  # an unknown kind is a fault already
        why = f"the key of a {kind} join is never null"
        yield f"{name} is for joins of kind {' or '.join(fit)}, not for {alias!r}: {why}", "join"


def _find_threshold_faults(rule: dict[str, Any], known: _Known) -> Iterator[tuple[str, str | None]]:
    name, wanted = rule["rule"], known.threshold
    other = AT_LEAST if wanted == AT_MOST else AT_MOST
    if other in rule:
        yield f"{name} takes '{wanted}', not '{other}'", other
    if wanted not in rule and other not in rule:
        yield f"{name} needs '{wanted}'", None
    value = rule.get(wanted)
    if value is not None and (message := find_threshold_fault(wanted, value, is_share=wanted == AT_LEAST)):
        yield message, wanted


def find_threshold_fault(name: str, value: Any, *, is_share: bool = False) -> str | None:
    """Return what is wrong with a threshold; ``is_share`` when a number of rows is wrong, too."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"'{name}' must be a whole number of rows or a share from 0.0 to 1.0, not {describe(value)}"
    if isinstance(value, float) and not 0 <= value <= 1:
        return f"'{name}' with a decimal point is a share from 0.0 to 1.0; write rows as a whole number"
    if isinstance(value, int) and is_share:
        return f"'{name}' is a share from 0.0 to 1.0: write 1.0 for all rows; a number of rows would fail small runs"
    return f"'{name}' cannot be negative" if value < 0 else None
