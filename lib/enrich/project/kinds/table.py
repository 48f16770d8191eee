"""Read a table join: the lookup has the driving source's key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enrich.base.console import format_count
from enrich.base.schemas import build_struct
from enrich.base.spec import Step
from enrich.project.kinds.syntax import Draft, JoinSyntax

if TYPE_CHECKING:
    from enrich.project.compile import Compiler
    from enrich.project.models import Join


class Table(JoinSyntax):
    """``accounts: {kind: table}``."""

    name = "table"
    says = "both sides share the key"
    refers = False
    in_sql = True

    def check(self, draft: Draft, alias: str, join: dict[str, Any]) -> None:  # noqa: ARG002
        """Both keys have as many columns."""
        key, own = draft.key(alias), draft.key(draft.driving)
        if key and own and len(key) != len(own):
            has = f"that of {alias!r} has {format_count(len(key), 'column')} and that of {draft.driving!r} {len(own)}"
            draft.fault(f"a table join needs the same key, but {has}", "join", alias)

    def compile(self, compiler: Compiler, alias: str, join: Join) -> Step:
        """Compare the types of the keys; from here on, expressions see the coalesced ``key``."""
        driving = compiler.job.from_
        ours, table = compiler.keys[driving], compiler.tables[driving]
        for our, their in zip(ours, compiler.keys[alias], strict=True):
            compiler.check_types(alias, (f"{driving}.{our}", table.get(our)), their, ("join", alias))
        types = {name: table.get(name, "string") for name in ours}
        compiler.frame["key"] = types[ours[0]] if len(ours) == 1 else build_struct(types)
        return Step(alias, self.name, join.how)
