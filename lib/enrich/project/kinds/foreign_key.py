"""Read a foreign-key join: expressions of the rows give the lookup's key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enrich.base.console import format_count
from enrich.base.spec import Step
from enrich.project.kinds.syntax import JoinSyntax

if TYPE_CHECKING:
    from enrich.project.compile import Compiler
    from enrich.project.kinds.syntax import Draft
    from enrich.project.models import Join


class ForeignKey(JoinSyntax):
    """``merchants: {kind: foreign_key, on: products.merchant_id}``."""

    name = "foreign_key"
    says = "'on' gives the lookup's key"
    needs = ("on",)

    def check(self, draft: Draft, alias: str, join: dict[str, Any]) -> None:
        """One expression for each key column, and at most one join of a job that keeps the lookup's own rows."""
        check_references(draft, alias, join)
        others = {name: each for name, each in draft.joins.items() if each.get("kind") == self.name}
        kept = [name for name, each in others.items() if each.get("how") in ("right", "full")]
        if alias in kept[1:]:
            first = f"{kept[0]!r}, line {draft.tree.line('join', kept[0])}"
            message = f"a job has at most one right or full foreign-key join, and has one ({first})"
            draft.fault(message, "join", alias, "how")

    def compile(self, compiler: Compiler, alias: str, join: Join) -> Step:
        """Compare the types of ``on`` and of the lookup's key."""
        texts = join.on or ()
        for text, key in zip(texts, compiler.keys[alias], strict=True):
            compiler.refer(alias, text, key, "on")
        return Step(alias, self.name, join.how, on=tuple(texts))

    def describe_pairs(self, step: Step) -> str | None:
        """Rows that only the lookup has are identified by its key."""
        return f"a {step.how} foreign-key join" if step.keeps_right else None


def check_references(draft: Draft, alias: str, join: dict[str, Any], *, before_last: bool = False) -> None:
    """``on`` has an expression for each column of the lookup's key, or for each but the last one."""
    key, on = draft.key(alias), join.get("on")
    before = " before the last" if before_last else ""
    if on == []:
        draft.fault(f"'on' is an empty list; give one expression for each key column{before}", "join", alias, "on")
    elif key and "on" in join and not isinstance(on, dict):
        count, wanted = len(on) if isinstance(on, list) else 1, len(key) - before_last
        if count != wanted:
            message = f"'on' has {format_count(count, 'expression')}, but the key of {alias!r} has {wanted}{before}"
            draft.fault(message, "join", alias, "on")
