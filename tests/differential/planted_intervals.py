"""Wrong variants of interval joins, planted as ``planted`` does it."""

from __future__ import annotations

from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

from differential.planting import wrap
from enrich.base.spec import WEIGHT
from enrich.frames.join import ALIVE
from enrich.joins import interval

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import Column, DataFrame

    from differential.planting import Mine, Plant

_NEAR, _TOUCH = interval.Scale.is_near, interval.Scale.touch


def wrong_bound(lower: int, upper: int) -> Plant:
    """Move the bounds by so many microseconds, or days: a bound is exclusive."""

    def plant(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
        from pyspark.sql import functions as F

        before = interval.Scale.is_near

        def near(scale: Any, at: Column, time: Column) -> Column:
            other = interval.Scale(scale.kind, scale.lower + Decimal(lower), scale.upper + Decimal(upper))
            wrong = _NEAR(other, at, time)
            return F.when(is_mine(F.col("__enrich_f0")), wrong).otherwise(before(scale, at, time))

        patch.setattr(interval.Scale, "is_near", near)

    return plant


def neighbour_forgotten(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
    """Only the first bucket that an interval touches is asked."""
    from pyspark.sql import functions as F

    def touch(scale: Any, at: Column) -> Column:
        every = _TOUCH(scale, at)
        return F.when(is_mine(F.col("__enrich_f0")), F.slice(every, 1, 1)).otherwise(every)

    patch.setattr(interval.Scale, "touch", touch)


def old_images_forgotten(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
    """A changed row of the lookup reaches the rows that it is near now, not those that it was near."""
    _wrap_changes(patch, is_mine, f"{WEIGHT} > 0")


def new_images_forgotten(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
    """A changed row of the lookup reaches the rows that it was near, not those that it is near now."""
    _wrap_changes(patch, is_mine, f"{WEIGHT} < 0")


def _wrap_changes(patch: pytest.MonkeyPatch, is_mine: Mine, condition: str) -> None:
    from pyspark.sql import functions as F

    def around(find: Any, kind: Any, now: Any, step: Any, *changed: Any) -> Any:
        (column,), (keys, images) = step.interval.match, changed
        return find(kind, now, step, keys, [each.where(~is_mine(F.col(column)) | F.expr(condition)) for each in images])

    wrap(patch, interval.Interval, "find_dependent", around)


def partners_forgotten(place: int) -> Plant:
    """Rows of the lookup that changed rows are near (0), or were near (1), are not looked at."""

    def plant(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
        from pyspark.sql import functions as F

        moments = count()

        def around(find: Any, *args: Any) -> DataFrame:
            found: DataFrame = find(*args)
            return found.where(~is_mine(F.col("__enrich_r0"))) if next(moments) == place else found

        wrap(patch, interval.Interval, "find_partners", around)

    return plant


def lone_rows(*, stay: bool) -> Plant:
    """A row on the left stays alone beside its first partner, or does not return after the last one."""

    def plant(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
        from pyspark.sql import functions as F

        def around(pair: Any, rows: DataFrame, lookup: DataFrame, step: Any, **how: Any) -> DataFrame:
            found: DataFrame = pair(rows, lookup, step, **how)
            is_own = is_mine(F.col("__enrich_k0")) & F.col("__enrich_r0").isNull()
            return found.withColumn(ALIVE, F.when(is_own, F.lit(stay)).otherwise(F.col(ALIVE)))

        wrap(patch, interval, "join_pairs", around)

    return plant


def nulls_match(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
    """A row without a time is near every row that matches."""
    from pyspark.sql import functions as F

    def around(find: Any, rows: DataFrame, lookup: DataFrame, step: Any, **how: Any) -> DataFrame:
        right: DataFrame = find(rows, lookup, step, **how)
        timeless = rows.where(F.col(interval.AT).isNull() & is_mine(F.col("__enrich_f0")))
        same = F.col("__enrich_f0") == F.col("__enrich_m0")
        return right.unionByName(timeless.join(lookup, on=same, how="inner").select(*right.columns))

    wrap(patch, interval, "find_pairs", around)


BUGS: tuple[tuple[str, Plant], ...] = (
    ("lower_bound_is_exclusive", wrong_bound(1, 0)),
    ("upper_bound_is_exclusive", wrong_bound(0, -1)),
    ("bucket_next_door_forgotten", neighbour_forgotten),
    ("old_images_of_the_near_forgotten", old_images_forgotten),
    ("new_images_of_the_near_forgotten", new_images_forgotten),
    ("partners_that_came_forgotten", partners_forgotten(0)),
    ("partners_that_went_forgotten", partners_forgotten(1)),
    ("lone_row_stays_beside_its_first_partner", lone_rows(stay=True)),
    ("lone_row_does_not_return", lone_rows(stay=False)),
    ("no_time_is_near_everything", nulls_match),
)
"""Name -> how it is planted. All show in a full join."""
