"""Wrong variants of histories, planted as ``planted`` does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from differential.clocks import tell_time
from differential.planting import wrap
from enrich.base.spec import COMMIT, WEIGHT, quote
from enrich.frames import changes
from enrich.joins import history

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from differential.planting import Mine, Plant


def _spoil_events(wrong: Callable[[DataFrame], DataFrame]) -> Plant:
    """Change what the commits did to the keys that the bug is planted in."""

    def plant(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
        from pyspark.sql import functions as F

        def around(find: Any, *args: Any) -> DataFrame:
            found: DataFrame = find(*args)
            key = F.col("__enrich_k0")
            return found.where(~is_mine(key)).unionByName(wrong(found.where(is_mine(key))).select(*found.columns))

        wrap(patch, history, "find_events", around)

    return plant


def _net_the_window(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    last = events.groupBy("__enrich_k0").agg(F.max(COMMIT).alias(COMMIT))
    return events.join(last, on=["__enrich_k0", COMMIT], how="left_semi")


def _forget_deletes(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return events.where(F.col(history.IMAGE).isNotNull())


def _continue_on_return(events: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    later = F.lead(COMMIT).over(Window.partitionBy("__enrich_k0").orderBy(COMMIT))
    return events.withColumn("later", later).where(F.col(history.IMAGE).isNotNull() | F.col("later").isNull())


def _order_by_time(events: DataFrame) -> DataFrame:
    """Order commits by what they say of their time alone."""
    from pyspark.sql import functions as F

    times = F.array(*[F.lit(tell_time(version)) for version in range(100)])
    at = F.element_at(times, (F.col(COMMIT) + 1).cast("int")).cast("long")
    return events.withColumns({COMMIT: at, history.FROM: F.timestamp_millis(at)})


def _take_null_for_no_row(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    is_null = F.col(history.IMAGE).getField("name").isNull()
    return events.withColumn(history.IMAGE, F.when(~is_null, F.col(history.IMAGE)))


def _forget_held_versions(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
    """The versions that the quarantine has, which are the open ones, do not end."""
    from pyspark.sql import functions as F

    def around(take: Any, *args: Any) -> DataFrame:
        found: DataFrame = take(*args)
        return found.where(~is_mine(F.col("__enrich_k0")) | F.col(history.TO).isNotNull())

    wrap(patch, history, "take_versions", around)


def _end_a_moment_later(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
    """A version ends a microsecond after the next one begins."""
    from pyspark.sql import functions as F

    def around(derive: Any, spec: Any, base: DataFrame, events: DataFrame) -> DataFrame:
        found: DataFrame = derive(spec, base, events)
        later = F.timestamp_micros(F.unix_micros(F.col(spec.valid_to)) + 1)
        wrong = F.when(is_mine(F.col("__enrich_k0")), later).otherwise(F.col(spec.valid_to))
        return found.withColumn(spec.valid_to, wrong)

    wrap(patch, history, "derive_versions", around)


def _keep_equal_images(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
    """Every commit that lists a row makes a version of it, also with the values that it had."""
    from pyspark.sql import functions as F

    def around(net: Any, feed: DataFrame, source: Any, *also: str) -> DataFrame:
        found: DataFrame = net(feed, source, *also)
        key = F.col(quote(source.key[0]))
        came = feed.where(is_mine(key) & (F.col(WEIGHT) > 0)).select(*found.columns)
        gone = found.where(is_mine(key) & (F.col(WEIGHT) < 0))
        return found.where(~is_mine(key)).unionByName(came).unionByName(gone)

    def differing(compare: Any, column: SparkColumn, kind: Any) -> SparkColumn:
        return F.struct(compare(column, kind), F.when(is_mine(F.col("__enrich_k0")), F.col(COMMIT)))

    wrap(patch, changes, "sum_images", around)
    wrap(patch, history, "make_comparable", differing)


def _leave_old_versions_open(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
    """The version that was open before the window stays so."""
    from pyspark.sql import functions as F

    def around(derive: Any, spec: Any, base: DataFrame, events: DataFrame) -> DataFrame:
        found: DataFrame = derive(spec, base, events)
        opened = base.where(F.col(history.TO).isNull() & is_mine(F.col("__enrich_k0")))
        opened = opened.select("__enrich_k0", F.col(history.FROM).alias("__enrich_k1"), F.lit(True).alias("opened"))
        joined = found.join(opened, on=["__enrich_k0", "__enrich_k1"], how="left")
        return joined.withColumn(spec.valid_to, F.when(F.col("opened").isNull(), F.col(spec.valid_to))).drop("opened")

    wrap(patch, history, "derive_versions", around)


def _keep_erased_versions(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
    """The versions of a key that is deleted end, and stay."""
    from pyspark.sql import functions as F

    def around(derive: Any, spec: Any, *ledger: DataFrame) -> DataFrame:
        key, wrong = F.col("__enrich_k0"), derive(replace(spec, erases=False), *ledger)
        found: DataFrame = derive(spec, *ledger).where(~is_mine(key))
        return found.unionByName(wrong.where(is_mine(key)))

    wrap(patch, history, "derive_versions", around)


def _bring_back_on_return(patch: pytest.MonkeyPatch, is_mine: Mine) -> None:
    """A key that comes back has the versions again that it had before."""
    from pyspark.sql import functions as F

    def around(derive: Any, spec: Any, *ledger: DataFrame) -> DataFrame:
        key, found = F.col("__enrich_k0"), derive(spec, *ledger)
        there = found.where(is_mine(key)).select("__enrich_k0").distinct()
        wrong = derive(replace(spec, erases=False), *ledger).join(there, on="__enrich_k0", how="left_semi")
        right: DataFrame = found.where(~is_mine(key))
        return right.unionByName(wrong.select(*found.columns))

    wrap(patch, history, "derive_versions", around)


ERASING: tuple[tuple[str, Plant], ...] = (
    ("erased_versions_stay", _keep_erased_versions),
    ("a_return_brings_old_versions_back", _bring_back_on_return),
)
"""Those of a history that erases."""
BUGS: tuple[tuple[str, Plant], ...] = (
    ("the_window_is_netted", _spoil_events(_net_the_window)),
    ("equal_images_make_versions", _keep_equal_images),
    ("deletes_do_not_end", _spoil_events(_forget_deletes)),
    ("a_return_continues_the_old_version", _spoil_events(_continue_on_return)),
    ("old_versions_stay_open", _leave_old_versions_open),
    ("commits_are_ordered_by_time", _spoil_events(_order_by_time)),
    ("a_null_is_no_row", _spoil_events(_take_null_for_no_row)),
    ("held_versions_are_forgotten", _forget_held_versions),
    ("versions_end_a_moment_later", _end_a_moment_later),
)
"""Name -> how it is planted. All show in a history whose open versions are in the quarantine."""
