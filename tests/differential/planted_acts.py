"""Wrong variants of how ranges of commits are read, planted as ``planted`` does it; administrators make them show.

What is known of a range concerns the whole table: each of these needs a run of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from differential.acts import LATE
from differential.alterations import Alteration
from differential.planting import merge_ranges, wrap
from enrich.delta import reads, tables
from enrich.steps import source_changes

if TYPE_CHECKING:
    import pytest

    from differential.planting import Mine, Plant

WORLD, SHAPE = "pair_composite", "composite_full"
ACTS = (
    Alteration(1, 0, "ca", "unfed", ""),
    Alteration(2, 0, "ca", "restore", "@0"),
    Alteration(2, 0, SHAPE, "die", ""),
    Alteration(2, 0, "cb", "repartition", "b1"),
    Alteration(2, LATE, "", "since", "@0"),
)
"""A run dies over rows that were there before, in a range that is taken again and that no feed tells."""
LOST = (Alteration(1, LATE, "cb", "hole", ""),)


def _forget_partitions(patch: pytest.MonkeyPatch, _: Mine) -> None:
    """The partition columns of a range are not looked at; the feed is read with the latest ones."""

    def around(read: Any, *args: Any, **how: Any) -> Any:
        return read(*args, **how)._replace(repartitioned=())

    wrap(patch, tables, "read_range", around)
    wrap(patch, reads, "_find_snapshot", lambda _find, _relation, latest, _last, **_: latest)


def _pass_over_holes(patch: pytest.MonkeyPatch, _: Mine) -> None:
    """A commit that the log has lost is one that did nothing."""

    def around(read: Any, *args: Any, **how: Any) -> Any:
        return read(*args, **how)._replace(lost=())

    wrap(patch, tables, "read_range", around)


def _merge_ranges(patch: pytest.MonkeyPatch, _: Mine) -> None:
    """What ``--since`` names and what a dead run has taken are one range."""
    wrap(patch, source_changes, "_read_again", merge_ranges)


BUGS: tuple[tuple[str, Plant, tuple[Alteration, ...]], ...] = (
    ("partition_columns_are_not_looked_at", _forget_partitions, ACTS),
    ("ranges_are_merged", _merge_ranges, ACTS),
    ("holes_are_passed_over", _pass_over_holes, LOST),
)
"""Name -> how it is planted, and among which acts it shows."""
