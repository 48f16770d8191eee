"""Join lookups in a chain: each join looks up what the rows so far refer to, and adds it.

What the joins make of rows is told by ``enrich.frames.join``; here it meets the tables, and the net changes of all
sources tell which rows of the target may differ.

A target row comes about in steps, one a join. If it differs between two versions, take the first step after which it
does: the row before that step is the same at both versions, so what it refers to at the *new* version leads to it.
Hence the changed keys of the driving source and of table joins, plus for every other changed lookup the rows that refer
to a changed key *now*, cover every difference; old images are needed only for rows of a lookup that lost their last
left row.

========================  ==========================================
changed                   affected
========================  ==========================================
left row ``P1``           ``P1``
merchant ``M1``           every product that names ``M1``
address ``a2``            every person whose list holds ``a2``
``P1`` left ``M1`` (full)  ``P1``, and ``M1`` as a row of its own
========================  ==========================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base import spec as specs
from enrich.base.result import Counts, Lookup, Lookups, LookupState
from enrich.base.schemas import strip_type
from enrich.base.spec import Affected, JoinSpec, KnownRows, Read, Step, name_left_key, name_reference, name_right_key
from enrich.base.suites import NEW_ORPHANS
from enrich.frames import join
from enrich.frames.changes import count_keys_that_differ
from enrich.frames.columns import Ranges, aggregate, drop_nulls, has_null, lacks_value, pack_rows, take_column, unite
from enrich.frames.join import Sources
from enrich.joins import find_step_kind
from enrich.progress.plan import Plan
from enrich.steps.rows import Rows, count_left, keep_rows
from enrich.steps.run import FEW, Run
from enrich.steps.source_changes import Changes
from enrich.steps.source_changes import read_windows as read_changes  # noqa: F401 - a part of the kind


def find_affected(run: Run, changed: Changes) -> Affected:
    """Return the driving keys that have changed, or that lead to a key of a lookup that has, and the lookup's own."""
    now, spec = replace(run.now, keep=run.keep), run.now.spec
    right = spec.right_step
    dependent = []
    for step in spec.steps:
        if not step.shares_key and step.alias in changed.differing:
            keys, images = changed.differing[step.alias], changed.images(step.alias)
            dependent.append(run.keep(now.kind_of(step).find_dependent(now, step, keys, images)))
    left = run.keep(unite(_list_lefts(spec, changed.differing, dependent)).distinct())
    at_hand = {}
    for alias in specs.list_sharing(spec):
        come = find_moved_rows(now, changed, alias, come=True)
        if (known := find_known_rows(spec, alias, come, changed.differing, dependent)) is not None:
            at_hand[alias] = known
    narrowed = {step.alias: own for step in spec.steps if (own := _find_come(now, changed, step)) is not None}
    affected = Affected(left, known=at_hand, narrowed=narrowed)
    if right is not None:
        find, own = now.kind_of(right).find_partners, changed.differing.get(spec.driving)
        partners = [found for at in (now, run.before) if (found := find(at, right, left, own)) is not None]
        affected = replace(affected, right=run.keep(find_affected_right(spec, changed.differing, dependent, partners)))
    counted = count_left(run, affected, _take_counts(spec, changed))
    if not run.are_few(counted.count):
        return counted
    # Read once: the joins at both ends of the window are about them.
    names = name_left_key(len(spec.key_columns))
    rows = {alias: run.now.affected_rows(alias, names, counted) for alias in specs.list_sharing(spec)}
    read = {alias for alias in rows if alias not in counted.known or counted.known[alias].others is not None}
    return replace(counted, known={a: KnownRows(run.keep(each), read=a in read) for a, each in rows.items()})


def _find_come(now: Sources, changed: Changes, step: Step) -> DataFrame | None:
    """Return all rows of a lookup that affected rows, not pairs, refer to: those that came, where it alone changed."""
    is_alone = [*changed.differing] == [step.alias] and _refers_by_key(step) and now.spec.interval_step is None
    come = find_moved_rows(now, changed, step.alias, come=True) if is_alone else None
    return None if come is None else _pack_lookup(come, now.spec.sources[step.alias])


def _refers_by_key(step: Step) -> bool:
    """Tell whether a row that refers to a lookup names the whole key of one row."""
    return find_step_kind(step).carries and step.at is None


def _pack_lookup(rows: DataFrame, source: specs.SourceSpec) -> DataFrame:
    """Return rows of a lookup that have a key as ``Sources.frame`` does."""
    return pack_rows(rows.where(~lacks_value(source.key)), source, name_reference(len(source.key)))


def _take_counts(spec: JoinSpec, changed: Changes) -> tuple[int, Ranges] | None:
    """Return how many left keys are affected, and their ranges, if they are those that changed in one source."""
    differing = list(changed.differing)
    if len(differing) != 1:
        return None
    (alias,) = differing
    if alias not in specs.list_sharing(spec) or alias in changed.again:
        return None
    net, count = changed.net[alias], len(spec.key_columns)
    names = zip(name_left_key(count), name_reference(count), strict=True)
    return net.count, {name: net.ranges[part] for name, part in names if part in net.ranges}


def _list_lefts(spec: JoinSpec, changed: Mapping[str, DataFrame], dependent: Sequence[DataFrame]) -> list[DataFrame]:
    names = name_left_key(len(spec.key_columns))
    parts = [changed[alias].toDF(*names) for alias in specs.list_sharing(spec) if alias in changed]
    return parts + [drop_nulls(frame.select(*names)) for frame in dependent]


def find_known_rows(
    spec: JoinSpec, alias: str, come: DataFrame | None, changed: Mapping[str, DataFrame], dependent: Sequence[DataFrame]
) -> KnownRows | None:
    """Return the affected rows of a source with the left key that need not be read again, and which are left to read.

    A row that came in the window is what its table has at the window's end, if no two rows share a key. A driving row
    that was read because it refers to a changed key is at hand, too.

    In: ``come``, the source's rows that came in the window; None when it has not changed.
    """
    names = name_left_key(len(spec.key_columns))
    carrying = [frame for frame in dependent if alias == spec.driving and alias in frame.columns]
    parts = [drop_nulls(frame.select(*names, alias), names) for frame in carrying]
    read = [frame.select(*names) for frame in parts]
    if len(parts) > 1:
        parts = [unite(parts).dropDuplicates(names)]
    if come is not None:
        read.append(changed[alias].toDF(*names))
        parts = [frame.join(read[-1], on=names, how="left_anti") for frame in parts]
        parts.append(drop_nulls(pack_rows(come, spec.sources[alias], names), names))
    if not parts:
        return None
    elsewhere = {name: keys for name, keys in changed.items() if come is None or name != alias}
    others = _list_lefts(spec, elsewhere, [frame for frame in dependent if frame not in carrying])
    if not others:
        return KnownRows(unite(parts))
    unread = unite(others).distinct()
    for frame in read:
        unread = unread.join(frame, on=names, how="left_anti")
    return KnownRows(unite(parts), unread)


def find_affected_right(
    spec: JoinSpec, changed: Mapping[str, DataFrame], dependent: Sequence[DataFrame], moved: Sequence[DataFrame]
) -> DataFrame:
    """Return the keys of the right or full foreign-key or interval lookup whose own rows may appear, differ or go.

    In: ``moved``, keys that the affected left rows refer to or are near, at both ends of the window.
    Out: ``__enrich_r*``, distinct and without nulls.
    """
    right = spec.right_step
    assert right is not None  # noqa: S101 - callers have looked
    names = name_right_key(len(spec.sources[right.alias].key))
    parts = [frame.toDF(*names) for frame in moved]
    if right.alias in changed:
        parts.append(changed[right.alias].toDF(*names))
    lefts = name_left_key(len(spec.key_columns))
    parts += [drop_nulls(rows.where(has_null(lefts)).select(*names)) for rows in dependent if names[0] in rows.columns]
    return unite(parts).distinct()


def find_moved_rows(now: join.Sources, changed: Changes, alias: str, *, come: bool) -> DataFrame | None:
    """Return the rows of a source that came in the window, or went, when these are all rows that their keys had.

    They are not where two rows may share a key, and where the feed has another type than the snapshot: a struct that
    has gained a field since. Where older changes are taken again, more keys have changed than rows came.
    """
    net = changed.net.get(alias)
    if net is None or alias not in changed.differing or (come and alias in changed.again):
        return None
    if net.crowded or now.spec.sources[alias].trusted:
        return None
    moved = net.images.where(F.col(specs.WEIGHT) > 0 if come else F.col(specs.WEIGHT) < 0).drop(specs.WEIGHT)
    same = strip_type(moved.schema.jsonValue()) == strip_type(now.snapshots[alias].schema.jsonValue())
    return moved if same else None


def compute_rows(run: Run, changed: Changes, affected: Affected | None) -> Rows:
    """Join the affected rows anew, and count the partners that they have found."""
    spec = run.now.spec
    went = _find_rows_that_went(run, spec, changed, affected)
    joined = affected if affected is None or went is None else replace(affected, went=went)
    # Which rows have orphans in their lists is asked once more.
    asks = any(step.elements for step in spec.steps) and any(each.rule == NEW_ORPHANS for each in run.plan.rules)
    with run.joining(affected):
        frame = join.join_all(run.sources_for(affected), joined)
        frame, counted, tally = keep_rows(run, frame, *join.list_sums(frame, spec.steps), drafts=not asks)
    found, partners, were = join.read_sums(counted, spec.steps)
    before = None
    if went is not None:
        before, frame = (frame.where(each).drop(join.WENT) for each in (F.col(join.WENT), ~F.col(join.WENT)))
    elif affected is not None:
        before, were = _join_before(run, spec, changed, affected)
    lookups = {step.alias: Lookup(**vars(partners[step.alias]), kind=step.kind) for step in spec.steps}
    ids = sum(lookups[step.alias].null_references for step in spec.steps if step.elements is not None)
    nulls = sum(each.null_references for each in lookups.values()) - ids
    count = found if affected is None else affected.count
    counts = Counts(affected_keys=count, null_foreign_keys=nulls, null_list_ids=ids)
    before = before if run.plan.explains_target else None
    return Rows(frame, counts, lookups=lookups, went=were, before=before, tally=tally)


def knows_old(plan: Plan, count: float) -> bool:
    """Tell whether the sources tell what the target has of so many affected rows."""
    return count <= FEW and plan.explains_target and not cast(JoinSpec, plan.spec).adds_rows


def _join_before(
    run: Run, spec: JoinSpec, changed: Changes, affected: Affected
) -> tuple[DataFrame | None, Lookups | None]:
    """Join the affected rows as they were, and count the partners that they had; None where a read costs less."""
    is_told = knows_old(run.plan, affected.count) and not changed.have_come(spec.driving, affected)
    if not (is_told and run.wants_places) or affected.has_few_places(len(spec.columns)):
        return None, None
    sources, rows, opened = _find_before(run, spec, changed, affected, _list_touched(spec, changed))
    with run.joining(None if opened else affected):
        frame = run.keep(join.join_all(sources, rows))
        return frame, join.read_sums(aggregate(frame, *join.list_sums(frame, spec.steps)), spec.steps).now


def _find_rows_that_went(run: Run, spec: JoinSpec, changed: Changes, affected: Affected | None) -> DataFrame | None:
    """Return the affected driving rows as they were, where these few are all that has changed, and joins add no rows.

    Joined beside those that came, they tell how joins went before, and what the target has, without a query of its own.
    """
    is_few = affected is not None and run.plan.recorded_state is not None and run.are_few(affected.count)
    is_alone = [*changed.differing] == [spec.driving] and _take_counts(spec, changed) is not None
    adds = any(step.keeps_right or not run.now.kind_of(step).carries for step in spec.steps)
    if not is_few or not is_alone or adds or not (spec.steps or run.wants_places):
        return None
    went, names = find_moved_rows(run.now, changed, spec.driving, come=False), name_left_key(len(spec.key_columns))
    return None if went is None else drop_nulls(pack_rows(went, spec.sources[spec.driving], names), names)


def derive_rows(run: Run, affected: Affected | None) -> DataFrame:
    """Return the joined rows."""
    return join.join_all(run.sources_for(affected), affected)


def show_keyless(run: Run, rows: DataFrame) -> DataFrame:
    """Join driving rows that have a null in their key, each for itself, for the quarantine.

    Nothing is filtered and no lookup adds rows. So they have no partners in an interval join.
    """
    sources, spec = run.now, run.now.spec
    alone = replace(sources, snapshots={**sources.snapshots, spec.driving: rows})
    keys = name_left_key(len(spec.key_columns))
    start = alone.frame(spec.driving, keys).withColumn("__enrich_row", F.monotonically_increasing_id())
    start, steps = start.localCheckpoint(), join.leave_own_rows_out(spec.steps)
    if spec.interval_step is not None:  # which would give a row for each partner
        alias = spec.interval_step.alias
        kind = sources.frame(alias, name_right_key(len(spec.sources[alias].key))).schema[alias].dataType
        start, steps = start.withColumn(alias, F.lit(None).cast(kind)), [each for each in steps if each.alias != alias]
    joined = join.add_key(spec, join.join_steps(sources, start, None, steps))
    condition = join.meet_condition(spec)
    # As for rows with a key, joins and condition guard what can fail; columns are shown whatever they say.
    cells = [(each, F.expr(each.expression)) for each in spec.outputs]
    return joined.select(
        *[(cell if each.is_plain else F.when(condition, cell)).alias(each.name) for each, cell in cells]
    )


def list_reads(plan: Plan, moved: Mapping[str, bool]) -> Iterator[Read]:
    """Yield the sources that the joins read, and those that tell which rows refer to what has changed."""
    spec = cast(JoinSpec, plan.spec)
    right = spec.right_step
    everything = plan.everything or spec.adds_rows or plan.lacks_state
    if plan.everything and right is not None:  # once more for the rows of the lookup that no row refers to
        yield from ((alias, None) for alias in (spec.driving, right.alias))
    lookups = [step for step in spec.steps if not step.shares_key]
    sharing = specs.list_sharing(spec)
    at_hand = {*sharing, *[step.alias for step in lookups if _refers_by_key(step)]} - {*plan.again}
    for alias in (*sharing, *[step.alias for step in lookups]):
        # What came in the window is at hand where nothing else makes a row an affected one.
        if everything or {*moved} != {alias} or alias not in at_hand or spec.sources[alias].trusted:
            yield alias, None
    for step in lookups:
        if step.alias in moved and not plan.everything:
            before = join.list_deciding_steps(spec, step)
            yield from ((each.alias, None) for each in before)
            if before or spec.sources[spec.driving].trusted or not find_step_kind(step).carries:
                yield spec.driving, None  # else the rows that refer to what has changed bring themselves along


def count_lookups(run: Run, changed: Changes, affected: Affected, recorded: Lookups, now: Lookups) -> Lookups:
    """Return how each join goes over all driving rows: what is recorded, less what the affected rows had before."""
    spec = run.now.spec
    if _keeps_partners(run, spec, changed):
        return recorded
    if changed.have_come(spec.driving, affected) and not spec.sources[spec.driving].trusted:
        return {alias: recorded[alias] + each for alias, each in now.items()}  # no such row was there before
    steps = _list_touched(spec, changed)
    sources, rows, opened = _find_before(run, spec, changed, affected, steps)
    with run.joining(None if opened else affected):
        were = _count_partners(sources, rows, steps)
    return {
        alias: recorded[alias] + (each + -were[alias] if alias in were else LookupState())
        for alias, each in now.items()
    }


def _find_before(
    run: Run, spec: JoinSpec, changed: Changes, affected: Affected, steps: Sequence[Step]
) -> tuple[Sources, Affected, bool]:
    """Return the sources and the affected rows at the window's start, and whether an older version is opened for that.

    A source was what it is, without the rows of its changed keys, and with those that have gone: none is opened but
    where the feed does not tell. ``steps``: those whose lookups may have been others.
    """
    sources = run.sources_for(affected)
    names = name_left_key(len(spec.key_columns))
    sharing, snapshots, known, opened = specs.list_sharing(spec), dict(sources.snapshots), {}, False
    narrowed = {alias: rows for alias, rows in sources.narrowed.items() if alias not in {step.alias for step in steps}}
    # Rows referred to what they refer to, by the first join that may go otherwise, where they are what they were.
    first = steps[0].alias if steps and not _list_moved(changed) & {*sharing} else None
    for alias in spec.sources:
        net = changed.net.get(alias)
        if net is None or not net.count:
            if alias in sharing:
                known[alias] = KnownRows(sources.affected_rows(alias, names, affected))
            continue
        gone = find_moved_rows(sources, changed, alias, come=False)
        if gone is None:
            snapshots[alias], opened = run.snapshot(alias, run.plan.window[alias].start), True
        elif alias in sharing:
            stayed = sources.affected_rows(alias, names, affected)
            stayed = stayed.join(net.select_changed().toDF(*names), on=names, how="left_anti")
            went = drop_nulls(pack_rows(gone, spec.sources[alias], names), names)
            known[alias] = KnownRows(stayed.unionByName(went))
        else:
            key = spec.sources[alias].key
            parts = dict(zip(name_reference(len(key)), map(take_column, key), strict=True))
            keys = F.broadcast(net.select_changed()) if run.are_few(net.count) else net.select_changed()
            if alias == first and alias in sources.narrowed:
                stayed = sources.narrowed[alias].join(keys, on=[*parts], how="left_anti")
                narrowed[alias] = stayed.unionByName(_pack_lookup(gone, spec.sources[alias]))
                continue
            stayed = snapshots[alias].withColumns(parts).join(keys, on=[*parts], how="left_anti").drop(*parts)
            snapshots[alias] = stayed.unionByName(gone.where(~lacks_value(key)))
    return replace(sources, snapshots=snapshots, narrowed=narrowed, tables={}), replace(affected, known=known), opened


def _list_moved(changed: Changes) -> set[str]:
    return {alias for alias, net in changed.net.items() if net.count}


def _list_touched(spec: JoinSpec, changed: Changes) -> list[Step]:
    """Return the joins that may go otherwise than before: those that see what has changed, or what these leave."""
    moved = _list_moved(changed)
    if moved & {*specs.list_sharing(spec)}:
        return list(spec.steps)
    touched: list[Step] = []
    for step in spec.steps:
        if step.alias in moved or step.reads & moved or any(each.how in ("inner", "right") for each in touched):
            touched.append(step)
            moved.add(step.alias)
    return touched


def recount_lookups(run: Run) -> Lookups:
    """Count how each join goes over all driving rows."""
    return _count_partners(run.now, None, run.now.spec.steps)


def _count_partners(sources: Sources, affected: Affected | None, wanted: Sequence[Step]) -> Lookups:
    """Count how joins go for driving rows, as they do on the way to the target; None: for all of them."""
    before = [each for step in wanted for each in join.list_deciding_steps(sources.spec, step, exact=True)]
    # Pairs are counted by each join that sees them.
    steps = [step for step in sources.spec.steps if step in (*before, *wanted) or step.interval is not None]
    steps = join.leave_own_rows_out(steps)
    rows = join.apply_steps(sources, affected, steps)
    return join.read_sums(aggregate(rows, *join.list_sums(rows, steps)), steps).now


def _keeps_partners(run: Run, spec: JoinSpec, changed: Changes) -> bool:
    """Tell whether every row has as many partners as before: no key has come or gone, and nothing decisive differs.

    Looking costs one query over the changed rows; where these are many, the partners are counted again unseen.
    """
    moved = {alias: net for alias, net in changed.net.items() if net.count}
    if any(net.grown or net.shrunk for net in moved.values()):
        return False
    decisive = frozenset[tuple[str, str]]().union(*[step.decisive for step in spec.steps])
    looked_at = {alias: {column for of, column in decisive if of == alias} for alias in moved}
    seen = {alias: columns for alias, columns in looked_at.items() if columns}
    if not all(run.are_few(moved[alias].count) for alias in seen):
        return False
    return not any(count_keys_that_differ(moved[alias], spec.sources[alias], seen[alias]) for alias in seen)
