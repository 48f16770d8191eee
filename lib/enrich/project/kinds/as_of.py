"""Read an as-of join: the version of the lookup that holds at a moment that the row gives."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from enrich.base.schemas import is_time, name_of
from enrich.base.spec import ENDED, GONE, TOO_EARLY, Step
from enrich.project.expressions import Scope
from enrich.project.kinds.syntax import Draft, JoinSyntax, check_references

if TYPE_CHECKING:
    from enrich.project.compile import Compiler
    from enrich.project.models import Join


class AsOf(JoinSyntax):
    """``prices: {kind: as_of, on: orders.product_id, at: orders.ordered_at, valid_from: since}``."""

    name = "as_of"
    says = "the version of the lookup that is valid at the moment 'at'"
    needs = ("on", "at", "valid_from")
    takes = ("valid_to", "gone", "how")
    hows = ("left", "inner")
    reasons = MappingProxyType(
        {
            TOO_EARLY: "the source has versions of this key, and the first of them begins after the row's moment",
            ENDED: "the version that began last before the row's moment had ended by then",
            GONE: "the version of the row's moment says that the thing does not exist",
        }
    )

    def check(self, draft: Draft, alias: str, join: dict[str, Any]) -> None:
        """Versions are told apart by the time from which they hold, the last column of the lookup's key."""
        key, start, on = draft.key(alias), join.get("valid_from"), join.get("on")
        if len(key) == 1 and on != []:
            message = "an as_of join needs the key of the thing and then the time from which a version holds"
            draft.fault(f"{message}, but the key of {alias!r} has 1 column", "sources", alias, "key")
        else:
            has = f"the key of {alias!r} has {len(key) - 1} before the last"
            check_references(draft, alias, join, len(key) - 1, "key column before the last", has)
        if key and isinstance(start, str) and start.strip() and start.lower() != key[-1].lower():
            message = f"'valid_from' names {start!r}, but the last column of the key of {alias!r} is {key[-1]!r}"
            draft.fault(f"{message}; 'valid_from' must be the last key column", "join", alias, "valid_from")

    def compile(self, compiler: Compiler, alias: str, join: Join) -> Step:
        """Compare types with the lookup's key: those of ``on`` with its parts, that of ``at`` with its time."""
        *parts, start = compiler.keys[alias]
        texts, moment, known = join.on or (), join.at or "", compiler.tables[alias]
        for text, key in zip(texts, parts, strict=True):
            compiler.refer(alias, text, key, "on")
        compiler.refer(alias, moment, start, "at")
        if start in known and not is_time(known[start]):
            message = f"{alias}.{start} is {name_of(known[start])}; it must be a date, a timestamp or a number"
            compiler.fault(message, "join", alias, "valid_from")
        end, gone = None, None
        is_inclusive = join.valid_to is not None and join.valid_to.inclusive
        if join.valid_to is not None:
            place = ("join", alias, "valid_to", "column")
            end = compiler.named(alias, join.valid_to.column, *place)
            compiler.check_types(alias, (f"{alias}.{end}", known.get(end)), start, place)
        if join.gone is not None:  # it says of a version that the thing is gone, and sees the lookup alone
            compiler.see(alias)
            gone = compiler.parse(join.gone, Scope(frozenset({alias})), "join", alias, "gone")
            compiler.check_condition(gone, "join", alias, "gone")
        compiler.written[alias] = [end, gone.canonical if gone is not None else None]
        if is_inclusive:  # without it a definition is what it was before there was this option
            compiler.written[alias].append("inclusive")
        decisive = frozenset({(alias, end)} if end is not None else ())
        decisive |= compiler.list_columns(gone) if gone is not None else frozenset()
        step = Step(alias, self.name, join.how, on=tuple(texts), at=moment, valid_to=end, gone=join.gone)
        return replace(step, is_inclusive=is_inclusive, is_plain=gone is None or gone.is_path, decisive=decisive)
