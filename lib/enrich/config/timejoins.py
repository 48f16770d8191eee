"""Whether the joins in time of a job file make sense: as of a moment, and within an interval."""

from __future__ import annotations

from typing import Any

from enrich.base.console import format_count
from enrich.config.draft import Draft, check_list
from enrich.config.durations import find_bound_faults


def check_as_of(draft: Draft, alias: str, join: dict[str, Any]) -> None:
    """Versions are told apart by the time from which they hold, and an as-of join keeps the left side or both."""
    key, start = draft.key(alias), join.get("valid_from")
    if key and isinstance(start, str) and start.strip() and start.lower() != key[-1].lower():
        message = f"'valid_from' names {start!r}, but the last column of the key of {alias!r} is {key[-1]!r}"
        draft.fault(f"{message}; 'valid_from' must be the last key column", "join", alias, "valid_from")
    if join.get("how") in ("right", "full"):
        draft.fault(f"'how' of an as_of join is left or inner, not {join['how']}", "join", alias, "how")


def check_intervals(draft: Draft) -> None:
    """An interval join is alone of its kind and the first; each pair of bounds makes sense."""
    joins = [(alias, join) for alias, join in draft.joins.items() if isinstance(join.get("kind"), str)]
    near = [alias for alias, join in joins if join["kind"] == "interval"]
    for position, (alias, join) in enumerate(joins):
        kind, how = join["kind"], join.get("how")
        if kind == "interval":
            _check_interval(draft, alias, join)
            if alias != near[0]:
                first = f"{near[0]!r}, line {draft.tree.line('join', near[0])}"
                draft.fault(f"a job has at most one interval join, and has one ({first})", "join", alias, "kind")
            elif position:
                message = f"an interval join is the first join; put {alias!r} before {joins[0][0]!r}"
                draft.fault(message, "join", alias, "kind")
        elif near and kind == "table":
            message = f"a job with an interval join ({near[0]!r}) has a row for each pair and no key to share; use"
            draft.fault(f"{message} kind: foreign_key", "join", alias, "kind")
        elif near and how in ("right", "full"):
            draft.fault(f"no right or full join follows an interval join ({near[0]!r})", "join", alias, "how")


def _check_interval(draft: Draft, alias: str, join: dict[str, Any]) -> None:
    """As many expressions as columns that they equal, and two bounds."""
    on, names, bounds = join.get("on"), join.get("match"), join.get("between")
    check_list(draft, join, "match", ("join", alias))
    if on == []:
        draft.fault("'on' is an empty list; give one expression for each column of 'match'", "join", alias, "on")
    elif names and "on" in join and not isinstance(on, dict) and not isinstance(names, dict):
        ours, theirs = (len(value) if isinstance(value, list) else 1 for value in (on, names))
        if ours != theirs:
            message = f"'on' has {format_count(ours, 'expression')}, but 'match' has {format_count(theirs, 'column')}"
            draft.fault(message, "join", alias, "on")
    if "between" in join and bounds is not None:
        if not isinstance(bounds, list):
            draft.fault("'between' must be a list of two bounds: [-1h, 24h]", "join", alias, "between")
            return
        for message in find_bound_faults(bounds):
            draft.fault(message, "join", alias, "between")
