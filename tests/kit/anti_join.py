"""A kind of join that enrich does not have: driving rows without a partner. ``register(AntiJoin())`` is enough."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import MATCHED, Affected, Step
from enrich.frames.join import ALIVE, Sources
from enrich.joins import foreign_key
from enrich.project.kinds.foreign_key import ForeignKey

if TYPE_CHECKING:
    from enrich.project.compile import Compiler
    from enrich.project.kinds.syntax import Draft
    from enrich.project.models import Join


class AntiJoin(ForeignKey):
    """``blocked: {kind: anti, on: orders.customer}``: orders of customers who are not blocked."""

    name = "anti"
    says = "keeps the rows for which 'on' gives no key of the lookup"
    takes = ()
    reasons = {"has_partner": "the source has a row with this key, and the join keeps rows without one"}  # noqa: RUF012

    def check(self, draft: Draft, alias: str, join: dict[str, Any]) -> None:
        """No row of the target has a column of the lookup, so ``select`` says which columns there are."""
        super().check(draft, alias, join)
        if "select" not in draft.root:
            draft.fault("a job with an anti join needs 'select'", "join", alias)

    def compile(self, compiler: Compiler, alias: str, join: Join) -> Step:
        """As a foreign key; like an inner join it removes rows."""
        return replace(super().compile(compiler, alias, join), how="inner", module=__name__)

    def explain_removal(self, step: Step, reason: str) -> str | None:  # noqa: ARG002
        """A partner removes the row."""
        return "has_partner" if reason == MATCHED else None


class WithoutPartner(foreign_key.ForeignKey):
    """What a run does."""

    def join(self, sources: Sources, rows: DataFrame, affected: Affected | None, step: Step) -> DataFrame:  # noqa: ARG002
        """Look up partners, and bury the rows that have one; with ``left``, as `why` asks, keep all."""
        joined = self.join_referenced(sources, rows, replace(step, how="left"))
        if step.how == "left":
            return joined
        return joined.withColumn(ALIVE, F.col(ALIVE) & F.col(step.alias).isNull())


KIND = WithoutPartner()
