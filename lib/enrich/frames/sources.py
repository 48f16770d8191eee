"""The pinned snapshots of a job, as the joins read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column, DataFrame

from enrich.base.spec import Affected, JoinSpec, Step, name_left_key
from enrich.frames.columns import keep_in_ranges, pack_rows


class StepKind(Protocol):
    """One kind of join: what it makes of rows, and which rows refer to what; ``enrich.joins`` has a module for each.

    Attributes:
        CARRIES: Whether a row refers to one key at most, so that what refers and the driving row are read at once.
    """

    CARRIES: bool

    def join(self, sources: Sources, rows: DataFrame, affected: Affected | None, step: Step) -> DataFrame:
        """Join a lookup to the rows so far.

        In: ``__enrich_k*``, ``__enrich_r*`` behind a join that keeps rows of its lookup, ``ALIVE`` and one struct, or
        list, an alias. Out: the same, with the lookup's, its ``name_partners``, and ``ALIVE`` where the join keeps a
        row.
        """

    def refer(self, rows: DataFrame, spec: JoinSpec, step: Step) -> tuple[DataFrame, list[Column]]:
        """Return the parts of the key that live rows refer to, and the rows in which these are columns."""

    def narrow(self, sources: Sources, found: DataFrame, step: Step, changed: DataFrame) -> DataFrame:
        """Return the references of rows, to go by which of the lookup's changed keys they may lead to.

        In and out: among others ``__enrich_j*``; ``changed``: the same, the changed keys.
        """


@dataclass(frozen=True)
class Sources:
    """The pinned snapshots of a job.

    Attributes:
        snapshots: Alias -> rows with the used columns and no null in the key.
        kind_of: A join -> what its kind does.
        large: Foreign-key and list lookups of which the affected rows refer to a small part; without them all of a
            lookup is sorted for the join.
        keep: Makes a frame that is used twice compute once, where that is no whole table.
    """

    spec: JoinSpec
    snapshots: Mapping[str, DataFrame]
    kind_of: Callable[[Step], StepKind]
    large: frozenset[str] = frozenset()
    keep: Callable[[DataFrame], DataFrame] = lambda frame: frame

    def frame(self, alias: str, names: Sequence[str]) -> DataFrame:
        """Return the rows of ``alias`` as its key parts, named ``names``, and one struct column."""
        return pack_rows(self.snapshots[alias], self.spec.sources[alias], names)

    def affected_rows(self, alias: str, names: Sequence[str], affected: Affected | None) -> DataFrame:
        """Return ``frame`` for the affected rows of a source that has the driving source's key; None: for all."""
        if affected is None:
            return self.frame(alias, names)
        keys = name_left_key(len(names))
        known = affected.known.get(alias)
        found = known.rows.toDF(*names, alias) if known is not None else None
        wanted = known.others if known is not None else affected.left
        if wanted is None:
            assert found is not None  # noqa: S101 - all rows are known
            return found
        ranges = {name: affected.ranges[key] for key, name in zip(keys, names, strict=True) if key in affected.ranges}
        rows = keep_in_ranges(self.frame(alias, names), ranges).join(
            wanted.toDF(*names), on=list(names), how="left_semi"
        )
        return rows if found is None else found.unionByName(rows)
