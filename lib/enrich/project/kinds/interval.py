"""Read an interval join: rows of both sides that are near each other in time."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from enrich.base import spec
from enrich.base.console import format_count
from enrich.base.errors import show_text
from enrich.base.schemas import is_time, may_be_key, name_of
from enrich.base.spec import OUT_OF_INTERVAL, Step
from enrich.base.words import parse_duration
from enrich.project.kinds.syntax import Draft, JoinSyntax, check_list, check_references, list_names

if TYPE_CHECKING:
    from enrich.project.compile import Compiler
    from enrich.project.models import Join


_DAY = 86_400
_MOST = Decimal(10) ** 18  # how great a bound may be, in microseconds or as a number: with it sums stay within 64 bits


class Interval(JoinSyntax):
    """``payments: {kind: interval, on: ..., match: ..., at: ..., time: ..., between: [-1h, 24h]}``."""

    name = "interval"
    says = "rows of both sides that are near each other in time; each pair is a row of the target"
    needs = ("on", "match", "at", "time", "between")
    reasons = MappingProxyType(
        {OUT_OF_INTERVAL: "the source has rows that match, and none of them is within the interval"}
    )

    def check(self, draft: Draft, alias: str, join: dict[str, Any]) -> None:
        """As many expressions as columns that they equal, and two bounds; it is alone of its kind, and the first."""
        match, bounds = list_names(join.get("match")), join.get("between")
        check_list(draft, join, "match", ("join", alias))
        has = f"'match' has {format_count(len(match), 'column')}"
        check_references(draft, alias, join, len(match), "column of 'match'", has)
        if isinstance(bounds, list):
            for message in find_bound_faults(bounds):
                draft.fault(message, "join", alias, "between")
        elif bounds is not None:
            draft.fault("'between' must be a list of two bounds: [-1h, 24h]", "join", alias, "between")
        # What the other joins of the job cannot be; the first interval join says it.
        joins = [(name, each) for name, each in draft.joins.items() if isinstance(each.get("kind"), str)]
        near = [name for name, each in joins if each["kind"] == Interval.name]
        if alias != near[0]:
            first = f"{near[0]!r}, line {draft.tree.line('join', near[0])}"
            draft.fault(f"a job has at most one interval join, and has one ({first})", "join", alias, "kind")
            return
        if alias != joins[0][0]:
            message = f"an interval join is the first join; put {alias!r} before {joins[0][0]!r}"
            draft.fault(message, "join", alias, "kind")
        for name, other in joins:
            if other["kind"] == "table":
                message = f"a job with an interval join ({alias!r}) has a row for each pair and no key to share; use"
                draft.fault(f"{message} kind: foreign_key", "join", name, "kind")
            elif other["kind"] != Interval.name and other.get("how") in ("right", "full"):
                draft.fault(f"no right or full join follows an interval join ({alias!r})", "join", name, "how")

    def compile(self, compiler: Compiler, alias: str, join: Join) -> Step:
        """Compare the types of ``on`` and ``match``, of ``at`` and ``time``; bring the bounds to the time's unit."""
        texts = join.on or ()
        match = [_find_column(compiler, alias, name, "match") for name in join.match or ()]
        for text, name in zip(texts, match, strict=True):
            compiler.refer(alias, text, name, "on")
        time = _find_column(compiler, alias, join.time or "", "time")
        compiler.refer(alias, join.at or "", time, "at")
        kind = compiler.tables[alias].get(time)
        bounds: tuple[Decimal, Decimal] | str = (Decimal(0), Decimal(0))
        if kind is not None and is_time(kind):
            bounds = _scale_bounds(join.between or (), str(kind))
        elif kind is not None:
            message = f"{time!r} of {alias!r} is {name_of(kind)}; a time is a date, a timestamp or a number"
            compiler.fault(message, "join", alias, "time")
        if isinstance(bounds, str):
            compiler.fault(f"{bounds}, not {list(join.between or ())}", "join", alias, "between")
            bounds = (Decimal(0), Decimal(0))
        near = spec.Interval(tuple(match), join.at or "", time, *bounds)
        compiler.written[alias] = [join.match, join.time, join.between]
        compared = frozenset((alias, name) for name in (*match, time))
        return Step(alias, self.name, join.how, on=tuple(texts), interval=near, decisive=compared)

    def describe_pairs(self, step: Step) -> str | None:  # noqa: ARG002
        """Each pair is a row."""
        return "an interval join"


def _find_column(compiler: Compiler, alias: str, column: str, option: str) -> str:
    """Resolve a column of a lookup that is compared; a type that cannot be is a fault."""
    name = compiler.named(alias, column, "join", alias, option)
    kind = compiler.tables[alias].get(name)
    if kind is not None and not may_be_key(kind):
        compiler.fault(f"{name!r} of type {name_of(kind)} cannot be compared", "join", alias, option)
    return name


class Bound(NamedTuple):
    """One end of ``between``: seconds where it has a unit of time, or a number."""

    amount: Decimal
    is_duration: bool


def read_bound(value: Any) -> Bound | None:
    """Return what a value of ``between`` means; None when it is neither a duration nor a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        number = Decimal(repr(value))
        return Bound(number, is_duration=False) if number.is_finite() and abs(number) <= _MOST else None
    text = value.strip() if isinstance(value, str) else ""
    seconds = parse_duration(text[1:] if text[:1] in ("+", "-") else text)
    if seconds is None or seconds * 1_000_000 > _MOST:
        return None
    return Bound(Decimal(-seconds if text[0] == "-" else seconds), is_duration=True)


def find_bound_faults(values: Sequence[Any]) -> list[str]:
    """Return what is wrong with ``between``, whatever the type of the times."""
    if len(values) != 2:
        return [f"'between' needs two bounds, the lower and the upper one, not {len(values)}"]
    lower, upper = map(read_bound, values)
    if lower is None or upper is None:
        hint = "write a duration such as 90s, 10m, 1h or 2d, or a number for numbers"
        wrong = [value for value, bound in zip(values, (lower, upper), strict=True) if bound is None]
        return [f"'between' has {show_text(str(value))!r}; {hint}" for value in wrong]
    if lower.amount and upper.amount and lower.is_duration != upper.is_duration:
        return ["'between' has a duration and a number; give both bounds a unit, or none"]
    if lower.amount > upper.amount:
        return ["the first bound of 'between' is greater than the second; write the lower bound first"]
    return []


def _scale_bounds(values: Sequence[Any], kind: str) -> tuple[Decimal, Decimal] | str:
    """Return the bounds as the times of a type count, in days, microseconds or numbers, or what is wrong with them."""
    lower, upper = [bound for bound in map(read_bound, values) if bound is not None]
    units = {bound.is_duration for bound in (lower, upper) if bound.amount}  # a 0 needs none
    if kind not in ("date", "timestamp", "timestamp_ntz"):
        return "the times are numbers; write the bounds as numbers" if True in units else (lower.amount, upper.amount)
    if False in units:
        return f"the times are of type {kind}; give the bounds a unit: 90s, 10m, 1h, 2d"
    if kind != "date":
        return lower.amount * 1_000_000, upper.amount * 1_000_000
    if lower.amount % _DAY or upper.amount % _DAY:
        return "the times are dates; write the bounds as whole days: 2d"
    return lower.amount / _DAY, upper.amount / _DAY
