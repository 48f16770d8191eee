"""Wrong variants of the engine, put in for one test each; a suite that lets one pass is a defect of the suite.

Each plants one classic bug of incremental joins by replacing functions of enrich, and names a job whose random
histories must expose it. Nothing of this is in the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import pytest

from enrich import changes, join, keys, merge, mirror, stages, tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Patch = pytest.MonkeyPatch
WEIGHT = changes.WEIGHT


@dataclass(frozen=True)
class Bug:
    """One wrong variant.

    Attributes:
        world: Where it shows.
        shape: The job that must expose it.
        plant: Puts it in.
        late_writer: It shows only when a source is written while the job runs.
    """

    name: str
    world: str
    shape: str
    plant: Callable[[Patch], None]
    late_writer: bool = False


def _wrap(patch: Patch, module: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace ``module.name`` by ``around(original, *args, **kwargs)``."""
    original = getattr(module, name)

    @wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs)

    patch.setattr(module, name, wrapped)


def _keeping_keys(condition: str, *aliases: str) -> Callable[[Patch], None]:
    """Forget the changed keys of some sources for which ``condition`` over their weight does not hold."""

    def plant(patch: Patch) -> None:
        def around(net: Any, feed: DataFrame, source: Any) -> Any:
            found = net(feed, source)
            if source.alias not in aliases:
                return found
            kept = found.keys.where(condition.format(weight=WEIGHT))
            return replace(found, keys=kept, count=kept.count())

        _wrap(patch, changes, "net", around)

    return plant


def write_during_the_run(patch: Patch, write: Callable[[], object]) -> None:
    """Let another writer commit once, after the window is read and before the rows are computed."""
    pending = [write]

    def around(read: Any, *args: Any) -> Any:
        found = read(*args)
        if pending:
            pending.pop()()
        return found

    _wrap(patch, stages, "read_changes", around)


def _only_postimages(patch: Patch) -> None:
    from pyspark.sql import functions as F

    def around(feed: Any, *args: Any) -> DataFrame:
        return feed(*args).where(F.col(WEIGHT) > 0)

    _wrap(patch, tables, "change_feed", around)


def _no_preimages(patch: Patch) -> None:
    """Read the feed without update preimages: an update that moves the key leaves the old key behind."""
    from pyspark.sql import functions as F

    def feed(spark: Any, uri: str, window: tuple[int, int], columns: Any) -> DataFrame:
        reader = spark.read.format("delta").option("readChangeFeed", "true")
        rows = reader.option("startingVersion", window[0] + 1).option("endingVersion", window[1]).load(uri)
        rows = rows.where("_change_type <> 'update_preimage'")
        weight = F.when(F.col("_change_type") == "delete", -1).otherwise(1).alias(WEIGHT)
        return rows.select(*[F.col(tables.quoted(name)) for name in columns], weight)

    patch.setattr(tables, "change_feed", feed)


def _window(shift_start: int, shift_end: int) -> Callable[[Patch], None]:
    def plant(patch: Patch) -> None:
        def around(feed: Any, spark: Any, uri: str, window: tuple[int, int], columns: Any) -> DataFrame:
            moved = (window[0] + shift_start, window[1] + shift_end)
            if moved[0] >= moved[1]:
                return feed(spark, uri, window, columns).limit(0)
            return feed(spark, uri, moved, columns)

        _wrap(patch, tables, "change_feed", around)

    return plant


def _latest_instead_of_pinned(patch: Patch) -> None:
    def around(snapshot: Any, spark: Any, uri: str, version: int, columns: Any, **how: Any) -> DataFrame:
        assert version >= 0
        found: DataFrame = snapshot(spark, uri, tables.read_state(uri).version, columns, **how)
        return found

    _wrap(patch, tables, "snapshot", around)


def _how(kind: str, wrong: dict[str, str]) -> Callable[[Patch], None]:
    def plant(patch: Patch) -> None:
        def around(join_one: Any, sources: Any, rows: Any, affected: Any, step: Any) -> Any:
            return join_one(sources, rows, affected, replace(step, how=wrong.get(step.how, step.how)))

        _wrap(patch, join, f"_join_{kind}", around)

    return plant


def _no_delete_clause(patch: Patch) -> None:
    from pyspark.sql import functions as F

    def around(difference: Any, *args: Any, **options: Any) -> Any:
        found = difference(*args, **options)
        return replace(found, rows=found.rows.where(F.col(merge.OPERATION) != "D"))

    _wrap(patch, merge, "difference", around)


def _plain_equality_in_the_guard(patch: Patch) -> None:
    """``=`` for ``<=>``: a change from or to null is not seen."""
    from pyspark.sql import functions as F

    def around(compared: Any, *args: Any) -> DataFrame:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(type(F.col("a")), "eqNullSafe", lambda self, other: self == other)
            found: DataFrame = compared(*args)
            return found

    _wrap(patch, merge, "_compared", around)


def _guard_omits_text(patch: Patch) -> None:
    from pyspark.sql import functions as F

    def around(comparable: Any, column: Column, kind: Any) -> Column:
        found: Column = F.lit(0) if kind.typeName() == "string" else comparable(column, kind)
        return found

    _wrap(patch, merge, "comparable", around)


def _no_guard(patch: Patch) -> None:
    """Every affected row is written, whether it differs or not."""
    from pyspark.sql import functions as F

    def around(comparable: Any, column: Column, kind: Any) -> Column:
        return F.rand() if kind.typeName() == "string" else comparable(column, kind)

    _wrap(patch, merge, "comparable", around)


def _list_in_any_order(patch: Patch) -> None:
    from pyspark.sql import functions as F

    def around(collected: Any, *args: Any) -> DataFrame:
        found: DataFrame = collected(*args)
        return found.withColumn("__enrich_list", F.shuffle("__enrich_list"))

    _wrap(patch, join, "_collected", around)


def _null_list_is_empty(patch: Patch) -> None:
    from pyspark.sql import functions as F

    def around(join_list: Any, sources: Any, rows: Any, affected: Any, step: Any) -> Any:
        found = join_list(sources, rows, affected, step)
        kind = found.schema[step.alias].dataType
        return found.withColumn(step.alias, F.coalesce(F.col(step.alias), F.array().cast(kind)))

    _wrap(patch, join, "_join_list", around)


def _empty_list_is_null(patch: Patch) -> None:
    from pyspark.sql import functions as F

    def around(join_list: Any, sources: Any, rows: Any, affected: Any, step: Any) -> Any:
        found = join_list(sources, rows, affected, step)
        return found.withColumn(step.alias, F.when(F.size(step.alias) > 0, F.col(step.alias)))

    _wrap(patch, join, "_join_list", around)


def _null_ids_are_duplicates(patch: Patch) -> None:
    def first(exploded: DataFrame, identity: Any) -> DataFrame:
        return exploded.dropDuplicates([*identity, "__enrich_id"])

    patch.setattr(join, "_first_of_each_id", first)


def _condition_is_ignored(patch: Patch) -> None:
    def around(enriched: Any, sources: Any, affected: Any) -> Any:
        return enriched(replace(sources, spec=replace(sources.spec, where=None)), affected)

    _wrap(patch, join, "enriched", around)


def _chained_changes_stop(patch: Patch) -> None:
    """A change of a lookup reaches the rows that name it directly, but not through another lookup."""

    def around(affected: Any, spec: Any, changed: Any, *others: Any) -> Any:
        direct = {a: c for a, c in changed.items() if not any(s.alias == a and s.needs for s in spec.steps)}
        return affected(spec, direct or changed, *others)

    _wrap(patch, keys, "affected_left", around)


def _lone_lookup_rows_stay(patch: Patch) -> None:
    """Full join: rows of the lookup alone follow changes of the lookup, but not the left rows that come and go."""

    def around(affected: Any, spec: Any, changed: Any, references: Any, moved: Any) -> Any:
        return affected(spec, changed, references, [frame.limit(0) for frame in moved])

    _wrap(patch, keys, "affected_right", around)


def _old_references_forgotten(patch: Patch) -> None:
    """Full join: only what the left rows refer to now is looked at, not what they referred to."""

    def around(affected: Any, spec: Any, changed: Any, references: Any, moved: Any) -> Any:
        return affected(spec, changed, references, moved[:1])

    _wrap(patch, keys, "affected_right", around)


def _old_values_forgotten(patch: Patch) -> None:
    """Mirror: only values that came are affected; the value that a key had before stays."""

    def around(affected: Any, spec: Any, images: DataFrame) -> DataFrame:
        found: DataFrame = affected(spec, images.where(f"{WEIGHT} > 0"))
        return found

    _wrap(patch, mirror, "affected_values", around)


def _order_ignored(patch: Patch) -> None:
    """Mirror: the winner is decided by the key alone."""

    def around(rank: Any, spec: Any, *, first: bool) -> Column:
        found: Column = rank(replace(spec, order=None), first=first)
        return found

    _wrap(patch, mirror, "_rank", around)


def _null_order_wins(patch: Patch) -> None:
    from pyspark.sql import functions as F

    def rank(spec: Any, *, first: bool) -> Column:
        names = ([spec.order] if spec.order else []) + list(spec.key)
        order = [F.col(tables.quoted(name)) for name in names]
        return F.struct(order[0].isNotNull() if first else order[0].isNull(), *order)

    patch.setattr(mirror, "_rank", rank)


BUGS = (
    Bug("deletes_of_the_left_ignored", "pair", "table_left", _keeping_keys("{weight} >= 0", "a")),
    Bug("deletes_of_the_right_ignored", "pair", "table_left", _keeping_keys("{weight} >= 0", "b")),
    Bug("updates_of_the_right_ignored", "foreign_key", "fk_left", _keeping_keys("{weight} <> 0", "merchants")),
    Bug("deletes_of_the_list_parent_ignored", "lists", "list_keep", _keeping_keys("{weight} >= 0", "persons")),
    Bug("changes_of_list_elements_ignored", "lists", "list_keep", _keeping_keys("false", "addresses")),
    Bug("only_postimages_are_read", "pair", "table_left", _only_postimages),
    Bug("preimages_are_dropped", "pair", "table_left", _no_preimages),
    Bug("window_starts_one_late", "foreign_key", "fk_left", _window(1, 0)),
    Bug("window_ends_one_early", "foreign_key", "fk_left", _window(0, -1)),
    Bug("latest_instead_of_pinned", "pair", "table_left", _latest_instead_of_pinned, late_writer=True),
    Bug("inner_for_left", "foreign_key", "fk_left", _how("foreign_key", {"left": "inner"})),
    Bug("left_for_inner", "pair", "table_inner", _how("table", {"inner": "left"})),
    Bug("no_delete_clause", "foreign_key", "fk_inner", _no_delete_clause),
    Bug("plain_equality_in_the_guard", "pair", "table_left", _plain_equality_in_the_guard),
    Bug("guard_omits_a_column", "foreign_key", "fk_left", _guard_omits_text),
    Bug("no_guard_at_all", "mirrors", "mirror_last", _no_guard),
    Bug("list_order_unstable", "lists", "list_keep", _list_in_any_order),
    Bug("null_list_is_empty", "lists", "list_keep", _null_list_is_empty),
    Bug("empty_list_is_null", "lists", "list_keep", _empty_list_is_null),
    Bug("null_ids_are_duplicates", "lists", "list_distinct", _null_ids_are_duplicates),
    Bug("condition_is_ignored", "pair", "alone", _condition_is_ignored),
    Bug("chained_changes_stop", "foreign_key", "fk_chained", _chained_changes_stop),
    Bug("lone_lookup_rows_stay", "foreign_key", "fk_full", _lone_lookup_rows_stay),
    Bug("old_references_forgotten", "foreign_key", "fk_full", _old_references_forgotten),
    Bug("old_mirror_values_forgotten", "mirrors", "mirror_last", _old_values_forgotten),
    Bug("mirror_order_ignored", "mirrors", "mirror_last", _order_ignored),
    Bug("null_order_wins", "mirrors", "mirror_last", _null_order_wins),
)
