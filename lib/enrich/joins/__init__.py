"""Find what a kind of job does: one module a kind, by the name that its compiled job has.

A kind's module tells all that is special about it, from what a window brings to the rows of the target. What all kinds
share is in ``enrich.steps``, which asks here and knows no kind.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame

    from enrich.base.result import Lookups
    from enrich.base.spec import Affected, JobSpec, Read, Step
    from enrich.frames.join import StepKind
    from enrich.progress.plan import Plan
    from enrich.steps.rows import Rows
    from enrich.steps.run import Run
    from enrich.steps.source_changes import Changes

_JOBS = {"join": "enrich.joins.chain", **{kind: f"enrich.joins.{kind}" for kind in ("mirror", "history", "group")}}
"""Kind -> its module; it is imported when a job of the kind runs, for it imports Spark."""


class JobKind(Protocol):
    """A kind of job, on its way from a window to rows: a module with these functions."""

    def read_changes(self, run: Run) -> Changes:
        """Return what the windows of the sources bring."""

    def find_affected(self, run: Run, changed: Changes) -> Affected:
        """Return the keys whose rows may differ, counted."""

    def compute_rows(self, run: Run, changed: Changes, affected: Affected | None) -> Rows:
        """Compute the affected rows anew from the pinned snapshots; None: all."""

    def derive_rows(self, run: Run, affected: Affected | None) -> DataFrame:
        """Return rows as the sources have them at the window's end, in the form of ``Rows.frame``, nothing counted."""

    def show_keyless(self, run: Run, rows: DataFrame) -> DataFrame:
        """Return rows of the driving source without a whole key, its used columns, with the target's columns."""

    def list_keys(self, run: Run) -> DataFrame:
        """Return the keys that the driving source gives, ``__enrich_k*``; only of kinds whose key is computed."""

    def list_reads(self, plan: Plan, moved: Mapping[str, bool]) -> Iterable[Read]:
        """Return how a run reads the tables of sources, beside their feeds and beside what is read for all kinds.

        ``moved``: the sources that differ, unless everything is computed, and whether rows of new keys may have come.
        """

    def explain_reads(self, plan: Plan) -> str | None:
        """Return why a run may read more, or less, than what moved tells; only of kinds that choose by its target."""

    def knows_old(self, plan: Plan, count: float) -> bool:
        """Tell whether the sources tell what the target has of so many affected rows; only of kinds where they may."""

    def count_lookups(self, run: Run, changed: Changes, affected: Affected, recorded: Lookups, now: Lookups) -> Lookups:
        """Return how each join goes over all driving rows, by what is recorded and how it went for affected rows."""

    def recount_lookups(self, run: Run) -> Lookups:
        """Count how each join goes over all driving rows."""


def find_kind(spec: JobSpec) -> JobKind:
    """Return what the kind of a compiled job does."""
    return cast(JobKind, import_module(_JOBS[spec.kind]))


def find_step_kind(step: Step) -> StepKind:
    """Return what the kind of a join does."""
    return cast("StepKind", import_module(step.module or f"enrich.joins.{step.kind}").KIND)
