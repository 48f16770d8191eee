"""Which joins of a job come before another one, and which of them decide what it sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from enrich.base.spec import JoinSpec, Step


def leave_own_rows_out(steps: Sequence[Step]) -> list[Step]:
    """Return joins that add no rows of their lookups."""
    hows = {"right": "inner", "full": "left"}
    return [replace(each, how=hows.get(each.how, each.how)) for each in steps]


def list_earlier_steps(spec: JoinSpec, step: Step) -> list[Step]:
    """Return the joins that come before ``step``."""
    aliases = [each.alias for each in spec.steps]
    return list(spec.steps[: aliases.index(step.alias)])


def list_deciding_steps(spec: JoinSpec, step: Step, *, exact: bool = False) -> list[Step]:
    """Return the earlier joins without which it cannot be told which rows refer to what.

    A left join that nothing reads changes no reference. An inner one only removes some: it is left out, too, when the
    references cannot fail on the rows that it removes, and when no later join brings these back as rows of its own.

    Args:
        spec: The job.
        step: The join.
        exact: Keep the joins that remove rows: the references of removed rows would be surplus.
    """
    kept: list[Step] = []
    for each in reversed(list_earlier_steps(spec, step)):
        later = (step, *kept)
        is_surplus = not exact and all(other.is_plain for other in later) and not any(e.keeps_right for e in kept)
        removable = each.how == "left" or (each.how == "inner" and is_surplus)
        if not removable or any(each.alias in other.reads for other in later):
            kept.insert(0, each)
    return kept
