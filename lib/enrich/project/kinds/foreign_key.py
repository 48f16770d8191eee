"""Read a foreign-key join: expressions of the rows give the lookup's key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enrich.base.spec import Step
from enrich.project.kinds.syntax import Draft, JoinSyntax, check_references

if TYPE_CHECKING:
    from enrich.project.compile import Compiler
    from enrich.project.models import Join


class ForeignKey(JoinSyntax):
    """``merchants: {kind: foreign_key, on: products.merchant_id}``."""

    name = "foreign_key"
    says = "'on' gives the lookup's key"
    needs = ("on",)
    in_sql = True

    def check(self, draft: Draft, alias: str, join: dict[str, Any]) -> None:
        """One expression for each key column, and at most one join of a job that keeps the lookup's own rows."""
        key = draft.key(alias)
        check_references(draft, alias, join, len(key), "key column", f"the key of {alias!r} has {len(key)}")
        others = {name: each for name, each in draft.joins.items() if each.get("kind") == self.name}
        kept = [name for name, each in others.items() if each.get("how") in ("right", "full")]
        if alias in kept[1:]:
            first = f"{kept[0]!r}, line {draft.tree.line('join', kept[0])}"
            message = f"a job has at most one right or full foreign-key join, and has one ({first})"
            draft.fault(message, "join", alias, "how")

    def compile(self, compiler: Compiler, alias: str, join: Join) -> Step:
        """Compare the types of ``on`` and of the lookup's key."""
        texts = join.on or ()
        for index, (text, key) in enumerate(zip(texts, compiler.keys[alias], strict=True)):
            compiler.refer(alias, text, key, "on", index)
        return Step(alias, self.name, join.how, on=tuple(texts))

    def describe_pairs(self, step: Step) -> str | None:
        """Rows that only the lookup has are identified by its key."""
        return f"a {step.how} foreign-key join" if step.keeps_right else None
