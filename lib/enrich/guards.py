"""The built-in rules of a job: counts of a run -> findings.

    rule                                            counts                       finding
    match_rate accounts, at_least 0.8               7 of 10 with a partner       checked 10, failed 3, false
    mass_change, at_most 0.5                        4 of 10 rows would go        checked 10, failed 4, true

They never decide where a row goes, only whether the run may write: they are no part of the job's definition.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from enrich.config.models import Rule
from enrich.result import Finding, rows_of
from enrich.spec import partners_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MATCH_RATE, NULL_FOREIGN_KEYS, NEW_ORPHANS = "match_rate", "null_foreign_keys", "new_orphans"
MASS_CHANGE, VALUE_CONFLICTS = "mass_change", "value_conflicts"


def unjudged(rules: Sequence[Rule], accepted: Collection[str]) -> tuple[Finding, ...]:
    """Return the findings of a run that judged no row, in the order of the job file.

    Args:
        rules: The job's rules.
        accepted: Names of rules that shall not block this run.
    """
    found = []
    for position, rule in enumerate(rules):
        is_accepted = rule.blocks and rule.rule in accepted
        action = "fail" if rule.blocks and not is_accepted else "warn"
        bound = ("at_least", rule.at_least) if rule.at_least is not None else ("at_most", rule.at_most or 0)
        found.append(
            Finding(
                None, rule.rule, None, action, 0, 0, success=None,
                source=rule.join, rule=position, bound=bound, accepted=is_accepted,
            )
        )  # fmt: skip
    return tuple(found)


def judged(finding: Finding, checked: int, failed: int) -> Finding:
    """Return a rule's finding with its counts and its verdict; no verdict over no rows."""
    assert finding.bound is not None  # noqa: S101 - the job's own rules have one
    name, bound = finding.bound
    limit = rows_of(bound, checked)
    passed = checked - failed >= limit if name == "at_least" else failed <= limit
    return replace(finding, checked=checked, failed=failed, success=passed if checked else None)


def orphans(rows: DataFrame, alias: str) -> DataFrame:
    """Return the rows that refer to a lookup without finding a partner; for lists one element is enough.

    Args:
        rows: At least the join's ``partners_name``.
        alias: The join.
    """
    return rows.where(_is_orphan(alias))


def new_orphans(rows: DataFrame, alias: str, names: Sequence[str], before: DataFrame | None) -> DataFrame:
    """Tell which rows refer to a lookup, and which of them have become orphans.

    Args:
        rows: The key's parts and the join's ``partners_name``, as the run leaves them.
        alias: The join.
        names: The key's parts.
        before: The same of the window's start; None: every orphan is new.

    Returns:
        ``new``: one row per row that refers to the lookup; true when it is an orphan and was none before.
    """
    from pyspark.sql import functions as F

    referring = rows.where(_referring(alias) > 0).select(*names, _is_orphan(alias).alias("is"))
    if before is None:
        return referring.select(F.col("is").alias("new"))
    was = orphans(before, alias).select(*names, F.lit(True).alias("was"))
    both = referring.join(was, on=list(names), how="left")
    return both.select((F.col("is") & F.col("was").isNull()).alias("new"))


def _referring(alias: str) -> Column:
    """Return how many references of a row are not null; null in a row without left side."""
    from pyspark.sql import functions as F

    partners = F.col(partners_name(alias))
    return partners.getField("rows") - partners.getField("nulls")


def _is_orphan(alias: str) -> Column:
    from pyspark.sql import functions as F

    return _referring(alias) > F.col(partners_name(alias)).getField("matched")
