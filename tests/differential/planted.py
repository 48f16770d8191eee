"""Wrong variants of the engine; a suite that lets one pass is a defect of the suite. Nothing of this is in the package.

Each plants one classic bug of incremental joins at a public function of enrich. The histories of one run are dealt out
to the bugs of a suite, and a bug is wrong for the rows of its own histories alone: one run of a job shows which bugs
are caught, and that nothing is found in the histories that have none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import starmap
from operator import and_
from typing import TYPE_CHECKING, Any

import pytest

from differential import planted_acts, planted_histories, planted_intervals, planted_logs
from differential.alterations import Alteration
from differential.planting import wrap
from enrich.base.spec import LIVE, OPERATION, WEIGHT, name_partners, quote
from enrich.delta import reads, tables
from enrich.frames import changes, difference, join
from enrich.joins import as_of, chain, mirror
from enrich.steps import publish, source_changes, state

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from differential.planting import Mine, Plant

Patch = pytest.MonkeyPatch
_FEED, _SNAPSHOT, _ENRICHED, _DERIVED, _REFERENCES, _LATEST = (
    reads.read_change_feed,
    reads.read_snapshot,
    join.join_all,
    mirror.derive_mirror,
    join.find_references,
    as_of.find_latest,
)
"""The functions as they are, for what a bug reads beside the right rows."""


@dataclass(frozen=True)
class Bug:
    """One wrong variant; ``plant`` puts it in for the keys of some histories."""

    name: str
    plant: Plant


@dataclass(frozen=True)
class Suite:
    """Bugs that one run of a job must expose.

    Attributes:
        is_late: A source is written while the job runs.
        bugs: Each gets histories of its own; where there is a single one, it gets all.
        acts: What administrators do up to the last run, in which the bugs are planted.
    """

    name: str
    world: str
    shape: str
    bugs: tuple[Bug, ...]
    is_late: bool = False
    acts: tuple[Alteration, ...] = ()

    @property
    def last(self) -> int:
        """The window in whose run the bugs are planted."""
        return max((each.window for each in self.acts), default=1)

    @property
    def groups(self) -> int:
        """How many parts the histories are dealt out to: one for each bug, and one without."""
        return 1 if len(self.bugs) == 1 else len(self.bugs) + 1

    def plant(self, patch: Patch) -> None:
        """Plant all bugs: the bug at place ``n`` in the histories whose number is ``n`` modulo ``groups``."""
        for place, bug in enumerate(self.bugs):
            bug.plant(patch, _histories(place, self.groups))


def _histories(place: int, groups: int) -> Mine:
    from pyspark.sql import functions as F

    def is_mine(key: Column) -> Column:
        return F.coalesce(F.pmod(F.substring(key, 2, 5).try_cast("int"), F.lit(groups)) == place, F.lit(groups == 1))

    return is_mine


def write_during_the_run(patch: Patch, write: Callable[[], object]) -> None:
    """Let another writer commit once, after the window is read and before the rows are computed."""
    pending = [write]

    def around(read: Any, *args: Any) -> Any:
        found = read(*args)
        if pending:
            pending.pop()()
        return found

    wrap(patch, source_changes, "read_changes", around)


def _mixed(right: DataFrame, wrong: DataFrame, is_mine: Mine, key: Column) -> DataFrame:
    """Return the right rows, and the wrong ones where the bug is planted."""
    return right.where(~is_mine(key)).unionByName(wrong.where(is_mine(key)), allowMissingColumns=True)


def _identity(frame: DataFrame) -> Column:
    """Return what tells a row's history: its left key, or the lookup's key where it has no left side."""
    from pyspark.sql import functions as F

    return F.coalesce(*[F.col(name) for name in ("__enrich_k0", "__enrich_r0") if name in frame.columns])


def _keeping_keys(condition: str, *aliases: str) -> Plant:
    """Forget the changed keys of some sources for which ``condition`` over their weight does not hold."""

    def plant(patch: Patch, is_mine: Mine) -> None:
        from pyspark.sql import functions as F

        def around(net: Any, feed: DataFrame, source: Any, keep: Any) -> Any:
            found = net(feed, source, keep)
            if source.alias not in aliases:
                return found
            kept = found.keys.where(~is_mine(F.col("__enrich_j0")) | F.expr(condition.format(weight=WEIGHT)))
            return replace(found, keys=kept, count=kept.count())

        wrap(patch, changes, "compute_net_changes", around)

    return plant


def _reading(feed_of: Callable[..., DataFrame | None]) -> Plant:
    """Read another feed than the right one: what ``feed_of(session, uri, window, columns)`` gives, None for none."""

    def plant(patch: Patch, is_mine: Mine) -> None:
        from pyspark.sql import functions as F

        def around(feed: Any, session: Any, uri: str, window: tuple[int, int], columns: Any, **how: Any) -> DataFrame:
            found: DataFrame = feed(session, uri, window, columns, **how)
            wrong = feed_of(session, uri, window, columns)
            return _mixed(found, found.limit(0) if wrong is None else wrong, is_mine, F.col(quote(columns[0])))

        wrap(patch, reads, "read_change_feed", around)

    return plant


def _postimages(session: Any, uri: str, window: tuple[int, int], columns: Any) -> DataFrame:
    return _FEED(session, uri, window, columns).where(f"{WEIGHT} > 0")


def _without_preimages(session: Any, uri: str, window: tuple[int, int], columns: Any) -> DataFrame:
    """Read the feed without update preimages: an update that moves the key leaves the old key behind."""
    from pyspark.sql import functions as F

    reader = session.read.format("delta").option("readChangeFeed", "true")
    rows: DataFrame = reader.option("startingVersion", window[0] + 1).option("endingVersion", window[1]).load(uri)
    rows = rows.where("_change_type <> 'update_preimage'")
    weight = F.when(F.col("_change_type") == "delete", -1).otherwise(1).alias(WEIGHT)
    return rows.select(*[F.col(quote(name)) for name in columns], weight)


def _moved_window(start: int, end: int) -> Callable[..., DataFrame | None]:
    def feed(session: Any, uri: str, window: tuple[int, int], columns: Any) -> DataFrame | None:
        moved = (window[0] + start, window[1] + end)
        return _FEED(session, uri, moved, columns) if moved[0] < moved[1] else None

    return feed


def _latest_instead_of_pinned(patch: Patch, is_mine: Mine) -> None:
    from pyspark.sql import functions as F

    def around(snapshot: Any, session: Any, uri: str, version: int, columns: Any, **how: Any) -> DataFrame:
        found: DataFrame = snapshot(session, uri, version, columns, **how)
        wrong = _SNAPSHOT(session, uri, tables.read_state(uri).version, columns, like=how.get("like"))
        return _mixed(found, wrong, is_mine, F.col(quote(columns[0])))

    for way in ("read_snapshot", "read_files"):
        wrap(patch, reads, way, around)


def _joining(alias: str, how: str) -> Plant:
    """Join one lookup another way."""

    def wrong(sources: Any) -> Any:
        steps = tuple(replace(s, how=how) if s.alias == alias else s for s in sources.spec.steps)
        return replace(sources, spec=replace(sources.spec, steps=steps))

    return _enriching(wrong)


def _enriching(wrong: Callable[[Any], Any]) -> Plant:
    """Compute the rows of other sources, or of another job, than the right ones."""

    def plant(patch: Patch, is_mine: Mine) -> None:
        def around(enriched: Any, sources: Any, affected: Any) -> DataFrame:
            found: DataFrame = enriched(sources, affected)
            return _mixed(found, _ENRICHED(wrong(sources), affected), is_mine, _identity(found))

        wrap(patch, join, "join_all", around)

    return plant


def _without_condition(sources: Any) -> Any:
    return replace(sources, spec=replace(sources.spec, where=None))


def _inner_for_left(alias: str) -> Plant:
    def plant(patch: Patch, is_mine: Mine) -> None:
        from pyspark.sql import functions as F

        def around(enriched: Any, sources: Any, affected: Any) -> DataFrame:
            found: DataFrame = enriched(sources, affected)
            is_lone = F.col(name_partners(alias)).getField("matched") == 0
            return found.withColumn(LIVE, F.col(LIVE) & ~(is_mine(_identity(found)) & is_lone))

        wrap(patch, join, "join_all", around)

    return plant


def _no_delete_clause(patch: Patch, is_mine: Mine) -> None:
    from pyspark.sql import functions as F

    def around(compute: Any, *args: Any, **options: Any) -> Any:
        found = compute(*args, **options)
        is_lost = (F.col(OPERATION) == "D") & is_mine(_identity(found.rows))
        return replace(found, rows=found.rows.where(~is_lost))

    wrap(patch, difference, "compute_difference", around)


def _guarding(compare: Callable[[dict[str, Any]], Column]) -> Plant:
    """Compare new and old rows in another way: ``compare(column -> type)``."""

    def plant(patch: Patch, _: Mine) -> None:
        wrap(patch, difference, "_compare", lambda _, kinds, __: compare(kinds))

    return plant


def _compare_columns(kinds: dict[str, Any], *, null_safe: bool) -> Column:
    from pyspark.sql import functions as F

    rows = F.col("__enrich_new"), F.col("__enrich_old")
    pairs = [[row.getField(name) for row in rows] for name in kinds]
    return reduce(and_, [now.eqNullSafe(before) if null_safe else now == before for now, before in pairs])


def _plain_equality_in_the_guard(kinds: dict[str, Any]) -> Column:
    """``=`` for ``<=>``, column by column: two nulls are not equal."""
    return _compare_columns(kinds, null_safe=False)


def _guard_omits_text(kinds: dict[str, Any]) -> Column:
    return _compare_columns({n: kind for n, kind in kinds.items() if kind.typeName() != "string"}, null_safe=True)


def _no_guard(_: dict[str, Any]) -> Column:
    """Every affected row is written, whether it differs or not."""
    from pyspark.sql import functions as F

    return F.lit(False)


def _listing(change: Callable[[Column, Any], Column]) -> Plant:
    """Change the lists of the rows that were computed: ``change(list, type)``."""

    def plant(patch: Patch, is_mine: Mine) -> None:
        from pyspark.sql import functions as F

        def around(enriched: Any, sources: Any, affected: Any) -> DataFrame:
            found: DataFrame = enriched(sources, affected)
            lists = {field.name: field.dataType for field in found.schema if field.dataType.typeName() == "array"}
            is_here = is_mine(_identity(found))
            changed = {n: F.when(is_here, change(F.col(n), kind)).otherwise(F.col(n)) for n, kind in lists.items()}
            return found.withColumns(changed)

        wrap(patch, join, "join_all", around)

    return plant


def _in_any_order(items: Column, _: Any) -> Column:
    from pyspark.sql import functions as F

    return F.shuffle(items)


def _empty_for_null(items: Column, kind: Any) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(items, F.array().cast(kind))


def _null_for_empty(items: Column, _: Any) -> Column:
    from pyspark.sql import functions as F

    return F.when(F.size(items) > 0, items)


def _one_null_id(items: Column, kind: Any) -> Column:
    """Null ids as duplicates of each other."""
    from pyspark.sql import functions as F

    id_ = kind.elementType.fieldNames()[0]
    first = F.array_position(F.transform(items, lambda item: item.getField(id_).isNull()), True) - 1
    return F.filter(items, lambda item, place: item.getField(id_).isNotNull() | (place == first))


def _chained_changes_stop(patch: Patch, is_mine: Mine) -> None:
    """A change of a lookup reaches the rows that name it directly, but not through another lookup."""

    def around(references: Any, sources: Any, step: Any, *others: Any, **how: Any) -> DataFrame:
        found: DataFrame = references(sources, step, *others, **how)
        direct = all(path[0] == sources.spec.driving for path in _paths(sources.spec, step))
        return found if direct else found.where(~is_mine(_identity(found)))

    wrap(patch, join, "find_references", around)


def _generous_references(patch: Patch, is_mine: Mine) -> None:
    """The references of version 0.1: only over the joins that ``on`` reads, and over rows that these have removed."""

    def around(references: Any, sources: Any, step: Any, *others: Any, **how: Any) -> DataFrame:
        found: DataFrame = references(sources, step, *others, **how)
        wrong = _REFERENCES(_generous(sources, step), step, *others, **how)
        return _mixed(found, wrong, is_mine, _identity(found))

    wrap(patch, join, "find_references", around)


def _generous(sources: Any, step: Any) -> Any:
    """Return the sources of a job that has no other joins before ``step``, and none that removes a left row."""
    spec = sources.spec
    before = spec.steps[: [each.alias for each in spec.steps].index(step.alias)]
    needed = _read_by(spec, step, before)
    widened = set()
    for place, each in enumerate((*before, step)):
        is_plain = all(re.fullmatch(r"[\w.`]+", text) for text in _texts(each))
        if each.alias in (step.alias, *needed) and not is_plain:
            widened |= {other.alias for other in before[:place] if _keeps_right(other)}
    decisive = needed | widened
    softened = {"inner": "left", "right": "full"}
    kept = [replace(s, how=softened.get(s.how, s.how)) for s in before if s.alias in decisive]
    if spec.has_key and not any(each.kind == "table" for each in (*kept, step)):
        kept.insert(0, replace(next(each for each in before if each.kind == "table"), how="left"))
    return replace(sources, spec=replace(spec, steps=(*kept, step)))


def _keeps_right(step: Any) -> bool:
    return step.how in ("right", "full")


def _texts(step: Any) -> tuple[str, ...]:
    return (*step.references, *([step.elements] if step.elements else []))


def _paths(spec: Any, step: Any) -> set[tuple[str, ...]]:
    """Return what a join's expressions read."""
    from enrich.project.expressions import Scope, parse_expression

    lists = frozenset(each.alias for each in spec.steps if each.kind == "list")
    scope = Scope(frozenset(spec.sources) - lists, lists, spec.has_key)
    return {path for text in _texts(step) for path in parse_expression(text, scope).paths}


def _read_by(spec: Any, step: Any, before: Sequence[Any]) -> set[str]:
    """Return the joins that make what ``step`` reads what it is."""
    widening = {each.alias for each in before if each.kind == "table" and _keeps_right(each)}
    found: set[str] = set()
    todo = {path[0] for path in _paths(spec, step)}
    while todo:
        alias = todo.pop()
        for each in before:
            if each.alias == alias and alias not in found:
                found |= {alias}
                todo |= widening if each.kind == "table" else {path[0] for path in _paths(spec, each)}
        if alias == "key":
            todo |= widening - found
    return found


def _lone_lookup_rows_stay(patch: Patch, is_mine: Mine) -> None:
    """Full join: rows of the lookup alone follow changes of the lookup, but not the left rows that come and go."""
    _moving(patch, is_mine, 0)


def _old_references_forgotten(patch: Patch, is_mine: Mine) -> None:
    """Full join: only what the left rows refer to now is looked at, not what they referred to."""
    _moving(patch, is_mine, 1)


def _moving(patch: Patch, is_mine: Mine, first: int) -> None:
    from pyspark.sql import functions as F

    def around(affected: Any, spec: Any, changed: Any, references: Any, moved: Any) -> Any:
        kept = [frame.where(~is_mine(F.col("__enrich_j0"))) for frame in moved[first:]]
        return affected(spec, changed, references, [*moved[:first], *kept])

    wrap(patch, chain, "find_affected_right", around)


def _old_values_forgotten(patch: Patch, is_mine: Mine) -> None:
    """Mirror: only values that came are affected; the value that a key had before stays."""
    from pyspark.sql import functions as F

    def around(affected: Any, spec: Any, images: DataFrame) -> DataFrame:
        is_old = F.col(WEIGHT) < 0
        found: DataFrame = affected(spec, images.where(~(is_mine(F.col(quote(spec.value[0]))) & is_old)))
        return found

    wrap(patch, mirror, "find_affected_values", around)


def _deriving(wrong: Callable[[Any, DataFrame], tuple[Any, DataFrame]]) -> Plant:
    """Derive a mirror from another master, or by other rules, than the right ones."""

    def plant(patch: Patch, is_mine: Mine) -> None:
        def around(derived: Any, spec: Any, master: DataFrame, affected: Any) -> DataFrame:
            found: DataFrame = derived(spec, master, affected)
            return _mixed(found, _DERIVED(*wrong(spec, master), affected), is_mine, _identity(found))

        wrap(patch, mirror, "derive_mirror", around)

    return plant


def _order_ignored(spec: Any, master: DataFrame) -> tuple[Any, DataFrame]:
    """The winner is decided by the key alone."""
    return replace(spec, order=None), master


def _null_order_wins(spec: Any, master: DataFrame) -> tuple[Any, DataFrame]:
    from pyspark.sql import functions as F

    assert spec.conflict == "last"
    return spec, master.withColumn(spec.order, F.coalesce(F.col(quote(spec.order)), F.lit(2**62)))


def _begins_after_its_moment(patch: Patch, is_mine: Mine) -> None:
    """As of: a version that begins at the very moment does not hold yet. Moments are whole numbers here."""
    from pyspark.sql import functions as F

    def around(latest: Any, rows: DataFrame, versions: DataFrame, wanted: Sequence[str]) -> DataFrame:
        key, moment = F.col(wanted[0]), wanted[-1]
        earlier = F.col(moment) - F.when(is_mine(key), 1).otherwise(0)
        kept = rows.withColumns({"__enrich_right": F.col(moment), moment: earlier})
        found: DataFrame = latest(kept, versions, wanted)
        return found.withColumn(moment, F.col("__enrich_right")).drop("__enrich_right")

    wrap(patch, as_of, "find_latest", around)


def _ends_after_its_moment(patch: Patch, is_mine: Mine) -> None:
    """As of: a version that ends at the very moment still holds."""
    from pyspark.sql import functions as F

    def around(valid: Any, kind: Any, step: Any, moment: Column) -> Column:
        late = F.when(is_mine(F.col(step.alias).getField("u")), 1).otherwise(0)
        found: Column = valid(kind, step, moment - late)
        return found

    wrap(patch, as_of.AsOf, "accept", around)


def _with_steps(**fields: Any) -> Callable[[Any], Any]:
    """Return a change of a job's sources by which its joins have other fields."""

    def wrong(sources: Any) -> Any:
        steps = tuple(replace(step, **fields) for step in sources.spec.steps)
        return replace(sources, spec=replace(sources.spec, steps=steps))

    return wrong


def _falling_back(condition: str) -> Callable[[Any], Any]:
    """As of: a version for which ``condition`` does not hold at a moment is passed over, and an earlier one found.

    What holds at each moment, of which there are few, is written down as a version of its own.
    """
    from pyspark.sql import functions as F

    def wrong(sources: Any) -> Any:
        rows = sources.snapshots["accounts"]
        every = rows.crossJoin(rows.sparkSession.range(64).select(F.col("id").cast("int").alias("moment")))
        begun = every.where("since <= moment").where(condition)
        last = begun.groupBy("u", "moment").agg(F.max_by(F.struct(*rows.columns), "since").alias("last"))
        rest = {name: F.col("last").getField(name) for name in rows.columns if name != "u"}
        found = last.withColumns({**rest, "since": F.col("moment"), "until": F.col("moment") + 1})
        return replace(sources, snapshots={**sources.snapshots, "accounts": found.select(*rows.columns)})

    return wrong


def _only_what_refers_now(patch: Patch, is_mine: Mine) -> None:
    """As of: a changed version reaches the events that have it now, not those that had it or lost it to another."""
    from pyspark.sql import functions as F

    def around(touched: Any, rows: DataFrame, versions: DataFrame, changed: DataFrame, keep: Any) -> DataFrame:
        found: DataFrame = touched(rows, versions, changed, keep)
        *names, moment = changed.columns
        wrong = _LATEST(rows.withColumn(join.SALT, F.lit(0)), versions, [*names, moment]).drop(join.SALT, moment)
        wrong = wrong.withColumnRenamed(as_of.LATEST, moment).where(F.col(moment).isNotNull())
        return _mixed(found, wrong.select(*found.columns), is_mine, F.col(names[0]))

    wrap(patch, as_of, "find_touched", around)


def _forget_what_goes(patch: Patch, _: Mine) -> None:
    """Add what comes to the proof, and do not subtract what goes."""
    from pyspark.sql import functions as F

    def around(hashed: Any, rows: DataFrame, write_row: Any, names: Any, row: str = "") -> DataFrame:
        found: DataFrame = hashed(rows, write_row, names, row)
        return found.withColumns({"__enrich_h0": F.lit(0), "__enrich_h1": F.lit(0)}) if row.endswith("old") else found

    wrap(patch, difference, "hash_rows", around)


def _adding(module: Any, parts: Callable[[Any, Any], Sequence[Any]]) -> Plant:
    """Put another proof together: of ``parts(the recorded one, the change)``."""

    def plant(patch: Patch, _: Mine) -> None:
        wrap(patch, module, "add_proofs", lambda add, before, change: reduce(add, parts(before, change)))

    return plant


_OF_LINES = (
    Bug("deletes_of_the_left_ignored", _keeping_keys("{weight} >= 0", "products")),
    Bug("deletes_of_the_right_ignored", _keeping_keys("{weight} >= 0", "merchants")),
    Bug("updates_of_the_right_ignored", _keeping_keys("{weight} <> 0", "merchants")),
    Bug("only_postimages_are_read", _reading(_postimages)),
    Bug("preimages_are_dropped", _reading(_without_preimages)),
    Bug("window_starts_one_late", _reading(_moved_window(1, 0))),
    Bug("window_ends_one_early", _reading(_moved_window(0, -1))),
    Bug("latest_instead_of_pinned", _latest_instead_of_pinned),
    Bug("inner_for_left", _inner_for_left("merchants")),
    Bug("no_delete_clause", _no_delete_clause),
    Bug("condition_is_ignored", _enriching(_without_condition)),
    Bug("chained_changes_stop", _chained_changes_stop),
)
_OF_LONE_ROWS = (
    Bug("lone_lookup_rows_stay", _lone_lookup_rows_stay),
    Bug("old_references_forgotten", _old_references_forgotten),
    Bug("references_over_removed_rows", _generous_references),
)
_OF_LISTS = (
    Bug("deletes_of_the_list_parent_ignored", _keeping_keys("{weight} >= 0", "persons")),
    Bug("changes_of_list_elements_ignored", _keeping_keys("false", "addresses")),
    Bug("list_order_unstable", _listing(_in_any_order)),
    Bug("null_list_is_empty", _listing(_empty_for_null)),
    Bug("empty_list_is_null", _listing(_null_for_empty)),
    Bug("null_ids_are_duplicates", _listing(_one_null_id)),
    Bug("left_for_inner", _joining("shops", "left")),
)
_OF_MIRRORS = (
    Bug("old_mirror_values_forgotten", _old_values_forgotten),
    Bug("mirror_order_ignored", _deriving(_order_ignored)),
    Bug("null_order_wins", _deriving(_null_order_wins)),
)
_OF_VERSIONS = (
    Bug("version_begins_after_its_moment", _begins_after_its_moment),
    Bug("version_ends_after_its_moment", _ends_after_its_moment),
    Bug("ended_version_falls_back", _enriching(_falling_back("until IS NULL OR moment < until"))),
    Bug("gone_version_falls_back", _enriching(_falling_back("NOT coalesce(gone, false)"))),
    Bug("gone_is_ignored", _enriching(_with_steps(gone=None))),
    Bug("only_what_refers_now_is_recomputed", _only_what_refers_now),
)
SUITES = (
    Suite("versions", "versions", "as_of_all", _OF_VERSIONS),
    Suite(
        "inclusive_ends",
        "versions",
        "as_of_inner",
        (Bug("inclusive_end_is_exclusive", _enriching(_with_steps(is_inclusive=False))),),
    ),
    Suite("lines", "foreign_key", "fk_chained", _OF_LINES, is_late=True),
    Suite("lone_rows", "chains", "back_before_lone", _OF_LONE_ROWS),
    Suite("lists", "lists", "list_beside_fk", _OF_LISTS),
    Suite("mirrors", "mirrors", "mirror_last", _OF_MIRRORS),
    Suite("intervals", "intervals", "interval_full", tuple(starmap(Bug, planted_intervals.BUGS))),
    Suite(
        "histories",
        "histories",
        "past_without_open",
        tuple(starmap(Bug, planted_histories.BUGS)),
    ),
    # Which rows a source has is decided before any join: a job without one shows it, with a plan of a tenth.
    Suite("logs", "logs", "log_alone", tuple(starmap(Bug, planted_logs.OF_LOGS))),
    Suite("doubled", "doubled", "doubled_alone", tuple(starmap(Bug, planted_logs.OF_DOUBLED))),
    Suite(
        "erasing_histories",
        "histories",
        "past_erased",
        tuple(starmap(Bug, planted_histories.ERASING)),
    ),
    # What compares old and new rows knows no history: each of these has a run of its own.
    *(
        Suite(bug.name, "pair", "alone", (bug,))
        for bug in (
            Bug("plain_equality_in_the_guard", _guarding(_plain_equality_in_the_guard)),
            Bug("guard_omits_a_column", _guarding(_guard_omits_text)),
            Bug("no_guard_at_all", _guarding(_no_guard)),
        )
    ),
    # Nor does the proof: it is one for all rows.
    *(
        Suite(bug.name, world, shape, (bug,))
        for bug, world, shape in (
            (Bug("what_goes_stays_in_the_proof", _forget_what_goes), "pair", "alone"),
            (
                Bug("what_comes_is_proven_twice", _adding(state, lambda before, change: (before, change, change))),
                "pair",
                "alone",
            ),
            (
                Bug("quarantine_keeps_its_proof", _adding(publish, lambda before, _: (before,))),
                "doubled",
                "doubled_alone",
            ),
        )
    ),
    *(
        Suite(name, planted_acts.WORLD, planted_acts.SHAPE, (Bug(name, plant),), acts=acts)
        for name, plant, acts in planted_acts.BUGS
    ),
)
