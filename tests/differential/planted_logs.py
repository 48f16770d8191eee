"""Wrong variants of logs and of doubled keys, planted as ``planted`` does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from differential.planting import wrap
from enrich.base.spec import WEIGHT, Latest, SourceSpec, quote
from enrich.frames import changes, normalise

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import DataFrame

    from differential.planting import Mine, Plant


def _deriving(wrong: Callable[[DataFrame, SourceSpec], tuple[DataFrame, SourceSpec]]) -> Plant:
    """Make the rows of a source of other rows, or by other rules, where the bug is planted.

    What is planted there is one bug: without that, the plan would double with every bug of the suite.
    """
    derive_rightly = normalise.derive_rows

    def plant(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
        from pyspark.sql import functions as F

        def around(derive: Any, rows: DataFrame, source: SourceSpec, *also: str) -> DataFrame:
            if not source.is_derived:
                return derive(rows, source, *also)  # type: ignore[no-any-return]
            key = F.col(quote(source.key[0]))
            rows = rows.localCheckpoint(eager=False)  # every bug reads them once more, and would plan them once more
            other, spec = wrong(rows.where(is_mine(key)), source)
            right: DataFrame = derive(rows.where(~is_mine(key)), source, *also)
            return right.unionByName(derive_rightly(other, spec, *also).select(*right.columns))

        wrap(patch, normalise, "derive_rows", around)

    return plant


def _by(**other: Any) -> Callable[[DataFrame, SourceSpec], tuple[DataFrame, SourceSpec]]:
    def wrong(rows: DataFrame, source: SourceSpec) -> tuple[DataFrame, SourceSpec]:
        assert isinstance(source.latest, Latest)
        return rows, replace(source, latest=replace(source.latest, **other))

    return wrong


def _without_deletes(rows: DataFrame, source: SourceSpec) -> tuple[DataFrame, SourceSpec]:
    """The event before a delete wins."""
    from pyspark.sql import functions as F

    assert source.latest is not None
    return rows.where(~F.coalesce(F.expr(source.latest.gone or "false"), F.lit(False))), source


def _keep_one(rows: DataFrame, source: SourceSpec) -> tuple[DataFrame, SourceSpec]:
    """One of the rows that share a key stands for all."""
    return rows.dropDuplicates(
        [*source.key, *[n for n in ("__enrich_at", "__enrich_until") if n in rows.columns]]
    ), source


def _release_nothing(rows: DataFrame, source: SourceSpec) -> tuple[DataFrame, SourceSpec]:
    """A key that was doubled before the window stays held, whatever the window does to its rows."""
    from pyspark.sql import functions as F

    if "__enrich_at" not in rows.columns:
        return rows, source
    before = rows.where("__enrich_at = -1").groupBy(*source.key).agg(F.sum(WEIGHT).alias("many"))
    return rows.join(before.where("many > 1"), on=list(source.key), how="left_anti"), source


def _only_the_window(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
    """The rows of the window decide among themselves: those that the table had before are not looked at."""
    from pyspark.sql import functions as F

    def around(follow: Any, images: DataFrame, now: DataFrame, source: SourceSpec) -> DataFrame:
        followed: DataFrame = follow(images, now.where(~is_mine(F.col(quote(source.key[0])))), source)
        return followed

    wrap(patch, changes, "follow_rows", around)


OF_LOGS: tuple[tuple[str, Plant], ...] = (
    ("the_latest_event_by_arrival_wins", _deriving(_by(order=("rid",)))),
    ("a_delete_event_leaves_the_row", _deriving(_by(gone=None))),
    ("the_event_before_a_delete_wins", _deriving(_without_deletes)),
    ("only_events_of_the_window_count", _only_the_window),
)
OF_DOUBLED: tuple[tuple[str, Plant], ...] = (
    ("one_of_doubled_rows_stays", _deriving(_keep_one)),
    ("a_healed_double_is_not_released", _deriving(_release_nothing)),
    ("a_row_of_the_window_doubles_none_before_it", _only_the_window),
)
