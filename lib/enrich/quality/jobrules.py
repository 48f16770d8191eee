"""The job rules: counts of a run -> findings.

    rule                                            counts                       finding
    match_rate accounts, at_least 0.8               7 of 10 with a partner       checked 10, failed 3, false
    mass_change, at_most 0.5                        4 of 10 rows would go        checked 10, failed 4, true

They never decide where a row goes, only whether the run may write: they are no part of the job's definition.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from enrich.base.result import Finding, resolve_threshold

if TYPE_CHECKING:
    from enrich.config.models import Rule

NULL_FOREIGN_KEYS, NEW_ORPHANS = "null_foreign_keys", "new_orphans"
MASS_CHANGE, VALUE_CONFLICTS = "mass_change", "value_conflicts"


def list_unjudged(rules: Sequence[Rule], accepted: Collection[str]) -> tuple[Finding, ...]:
    """Return the findings of a run that judged no row; rules named in ``accepted`` do not block it."""
    found = []
    for position, rule in enumerate(rules):
        is_accepted = rule.blocks and rule.rule in accepted
        action = "fail" if rule.blocks and not is_accepted else "warn"
        scope = "target" if rule.rule == MASS_CHANGE else rule.scope or "changed"
        bound = ("at_least", rule.at_least) if rule.at_least is not None else ("at_most", rule.at_most or 0)
        found.append(
            Finding(
                None, rule.rule, None, action, 0, 0, success=None,
                source=rule.join, rule=position, bound=bound, accepted=is_accepted, scope=scope,
            )
        )  # fmt: skip
    return tuple(found)


def judge_counts(finding: Finding, checked: int, failed: int) -> Finding:
    """Return a rule's finding with its counts and its verdict; no verdict over no rows."""
    assert finding.bound is not None  # noqa: S101 - the job's own rules have one
    name, bound = finding.bound
    limit = resolve_threshold(bound, checked)
    passed = checked - failed >= limit if name == "at_least" else failed <= limit
    return replace(finding, checked=checked, failed=failed, success=passed if checked else None)
