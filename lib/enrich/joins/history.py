"""Keep what a source said of each key, commit by commit, as versions with the times from and to which they hold.

Unlike the net changes of a window, nothing cancels between two commits: A -> B -> A is three versions, however the
commits are cut into runs. Commits are ordered by their versions; their times only say from when a version holds.

======  ==================  =====================================
commit  what it did to K1   versions of K1 afterwards
======  ==================  =====================================
4       insert a            a [t4, null)
5       update a -> b       a [t4, t5), b [t5, null)
6       same columns        a [t4, t5), b [t5, null)
7       delete              a [t4, t5), b [t5, t7)
9       insert b            a [t4, t5), b [t5, t7), b [t9, null)
======  ==================  =====================================
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from enrich.base import hints
from enrich.base.errors import HistoryError, RefreshNeeded
from enrich.base.failpoints import pass_point
from enrich.base.failures import find_lack, find_value_fault, tell_unreadable
from enrich.base.result import Counts
from enrich.base.spec import COMMIT, FAILED_COLUMN, LIVE, WEIGHT, Affected, Read, name_left_key, name_reference, quote
from enrich.delta import reads, tables
from enrich.frames import changes as net_changes
from enrich.frames import columns, difference, normalise
from enrich.frames.columns import add_up, drop_nulls, lacks_value, make_comparable, name_parts, pack_columns, unite
from enrich.progress import cursor as progress
from enrich.progress.plan import REPAIR, Plan, Span
from enrich.steps import source_changes
from enrich.steps.rows import Rows, keep_rows
from enrich.steps.run import Run, build_finding, list_kinds, read_target
from enrich.steps.source_changes import Changes, check_ends, describe_window

if TYPE_CHECKING:
    from enrich.project.kinds.history import HistorySpec

FROM, TO, IMAGE = "__enrich_from", "__enrich_to", "__enrich_image"
"""Since when a version holds, when it ends (null: it does not), and the source's used columns (null: no row)."""
COME = "__enrich_come"
_STATE, _WAS, _TOTAL, _SURPLUS = "__enrich_state", "__enrich_was", "__enrich_total", "__enrich_surplus"
_GONE = "__enrich_gone"  # the last commit after which a key had no row; null: it always had one
_BASE = -1  # the commit of what was there before all commits that are read
BEGINNING = "0001-01-01T00:00:00Z"


@dataclass(frozen=True)
class Ledger:
    """What a history is computed from."""

    base: DataFrame  # the versions before the events, as ``take_rows`` gives them
    events: DataFrame  # what the commits did, as ``find_events`` gives it
    identities: DataFrame | None  # ``__enrich_k*`` of the target's rows that may differ; None when all may
    touched: net_changes.Touched  # the source's changed keys
    come: int  # rows that came with a commit, or that the first version has; rows without a key among them
    keyless: int  # rows among them that have a null in their key
    surplus: int  # rows beyond the first of their key, in any snapshot that is looked at
    counted: tuple[int, int] = (0, 0)  # of changed keys, what ``source_changes.judge_derived`` takes


def get_spec(run: Run) -> HistorySpec:
    """Return the job of a run as the history that it is."""
    return cast("HistorySpec", run.plan.spec)


def read_changes(run: Run) -> Changes:
    """Read what each commit of the window did: nothing is netted. What cannot be read is a HistoryError."""
    spec, span = get_spec(run), run.plan.span
    assert span is not None  # noqa: S101 - a history is given one with its window
    alias = spec.driving
    pass_point("feed_of_source.before")
    try:
        ledger = _build_ledger(run, spec, span)
    except (PySparkException, Py4JJavaError) as error:
        if find_lack(error) or find_value_fault(error):
            raise
        check_ends(run, [alias])
        try:
            ledger = _build_ledger(run, spec, span)  # it may have been a task that failed, and not the feed
        except (PySparkException, Py4JJavaError) as again:
            raise find_lack(again) or HistoryError(
                f"the feed of source {alias!r} cannot be read after version {span.start}: {tell_unreadable(again)}",
                hint=f"run `{hints.plan(spec.job)}` to see what can be read",
            ) from error
    pass_point("feed_of_source.after")
    found, findings = ledger.touched, []
    if ledger.keyless:
        findings.append(build_finding("key_not_null", "quarantine", (ledger.come, ledger.keyless), alias))
    if ledger.surplus:
        findings.append(build_finding("key_unique", "fail", (ledger.come - ledger.keyless, ledger.surplus), alias))
    findings += source_changes.judge_derived(run, spec.source, ledger.counted)
    count = ledger.come - ledger.keyless if run.plan.everything else found.count
    window = {alias: describe_window(run.plan, alias, count, compared=bool(found.compared))}
    return Changes({}, window, tuple(findings), {alias: found}, ledger, {alias: frozenset(found.compared)})


def find_affected(run: Run, changed: Changes) -> Affected:
    """Return the versions that the commits of the window may have made, ended or taken back."""
    # Only another kind has no ledger; and where all may differ, nobody asks.
    assert changed.ledger and changed.ledger.identities is not None  # noqa: S101, PT018
    versions = run.keep(changed.ledger.identities)
    return Affected(versions, count=versions.count())


def compute_rows(run: Run, changed: Changes, affected: Affected | None) -> Rows:
    """Compute the versions of the keys that the commits changed."""
    assert changed.ledger is not None  # noqa: S101 - only another kind has none
    versions = derive_versions(get_spec(run), changed.ledger.base, changed.ledger.events)
    versions, counted, tally = keep_rows(run, versions, *([F.count("*")] if affected is None else []))
    return Rows(versions, Counts(affected_keys=affected.count if affected else counted[0]), tally=tally)


def derive_rows(run: Run, affected: Affected | None) -> DataFrame:
    """Return the source's rows as versions that begin now, of some of its keys, or of all."""
    spec = get_spec(run)
    base = take_rows(spec, run.snapshot(spec.driving), F.current_timestamp())
    current = derive_versions(spec, base, base.limit(0).withColumn(COMMIT, F.lit(0).cast("long")))
    return current if affected is None else current.join(affected.left, on=affected.left.columns, how="left_semi")


def show_keyless(run: Run, rows: DataFrame) -> DataFrame:
    """Return the source's rows without a whole key as versions: nobody can say since when they hold."""
    spec, nothing = get_spec(run), F.lit(None).cast("timestamp")
    shown = {name: F.col(quote(name)) for name in spec.source.columns}
    shown |= {spec.valid_from: nothing, spec.valid_to: nothing}
    return rows.select(*[shown[name].alias(name) for name in spec.columns])


def list_reads(plan: Plan, _moved: Mapping[str, bool]) -> list[Read]:
    """Return the source where versions begin with its rows, or are compared with them."""
    span = plan.span
    return [(plan.spec.driving, None)] if span is not None and (span.whole or span.compares) else []


def _build_ledger(run: Run, spec: HistorySpec, span: Span) -> Ledger:
    end = run.plan.window[spec.driving].to
    if span.whole or span.compares:
        source_changes.require_sound(run.plan, spec.driving, span.start)
    times = _read_times(run, spec, span)
    recorded = None if span.whole else _read_recorded(run, spec)
    # Where nothing is taken again, nothing is rolled back: times may seem to go back when a log forgets the past.
    again = not span.whole and span.start < min(end, run.plan.target.marks[spec.driving].to)
    bound = F.timestamp_millis(F.lit(times[span.start + 1])) if again else None
    earlier = recorded if recorded is None or bound is None else roll_back(recorded, bound)
    parts, compared, counted = _read_images(run, spec, (span.start, end)) if span.start < end else ([], (), (0, 0, 0))
    if span.compares and earlier is not None:
        parts.append(_compare_rows(run, spec, earlier, span.start))
    if (base := earlier) is None:
        first = F.timestamp_millis(F.lit(times[span.start]))
        since = F.lit(BEGINNING).cast("timestamp") if spec.from_beginning else first
        base = take_rows(spec, run.snapshot(spec.driving, span.start), since)
    moments = _list_times(run, times)
    if run.plan.mode == REPAIR and parts:  # whatever the feed says, the open versions are the snapshot's rows
        told = run.keep(unite(parts))
        made = derive_versions(spec, base, find_events(spec, told, moments))
        parts = [told, _compare_rows(run, spec, take_versions(spec, made, {}), end)]
    nothing = {WEIGHT: F.lit(0), COMMIT: F.lit(0).cast("long")}
    images = run.keep(unite(parts) if parts else run.read_source(spec.driving).limit(0).withColumns(nothing))
    events = run.keep(find_events(spec, images, moments))
    keys = run.keep(events.select(*name_left_key(len(spec.key))).distinct())
    identities = None
    if recorded is not None and not run.plan.everything:
        recorded = run.keep(recorded.join(keys, on=keys.columns, how="left_semi"))
        base = recorded if bound is None else roll_back(recorded, bound)
        *names, moment = name_left_key(len(spec.identity))
        identities = unite(each.select(*names, F.col(FROM).alias(moment)) for each in (recorded, events)).distinct()
    if spec.source.trusted:
        base = base.dropDuplicates([*name_left_key(len(spec.key)), FROM])
    surplus = 0 if spec.source.trusted else count_surplus(spec, base, events)
    touched, come, keyless = _count(run, spec, images, keys)
    if run.plan.unsearched and not run.plan.everything:
        surplus = max(surplus, *_search_ends(run, spec, images))
    # Where it holds doubled keys, the quarantine has rows that the source has not.
    null_keys = counted[2] if spec.source.holds_doubled else touched.null_keys
    touched = replace(touched, null_keys=null_keys, compared=compared)
    return Ledger(base, events, identities, touched, come, keyless, surplus, counted[:2])


def _count(run: Run, spec: HistorySpec, images: DataFrame, keys: DataFrame) -> tuple[net_changes.Touched, int, int]:
    """Count what came, by a commit or with the first version."""
    lacks_key, weight = lacks_value(spec.key), F.greatest(F.col(WEIGHT), F.lit(0))
    sums = add_up(weight), add_up(F.when(lacks_key, weight)), F.count_if(lacks_key)
    come, keyless, null_images = map(int, columns.aggregate(images, *sums))
    if run.plan.everything or run.plan.unsearched:
        (rows,) = net_changes.count_rows((run.read_source(spec.driving), spec.source, False))
        come, keyless = rows.rows + rows.null_keys, rows.null_keys
    names = name_reference(len(spec.key))
    return net_changes.Touched((images,), keys.toDF(*names), keys.count(), null_images), come, keyless


def _search_ends(run: Run, spec: HistorySpec, images: DataFrame) -> tuple[int, int]:
    """Count the rows beyond the first of their key in the whole source, at the window's end and at its start."""
    now = run.read_source(spec.driving).withColumn(WEIGHT, F.lit(1))
    went = images.select(*[F.col(quote(name)) for name in spec.source.columns], (-F.col(WEIGHT)).alias(WEIGHT))
    sides = [now, now.unionByName(went)]  # at its start: less what came, and with what went
    names = [quote(name) for name in spec.key]
    counted = [each.where(~lacks_value(spec.key)).groupBy(*names).agg(F.sum(WEIGHT).alias(WEIGHT)) for each in sides]
    above = add_up(F.when(F.col(WEIGHT) > 1, F.col(WEIGHT) - 1))
    end, start = (int(columns.aggregate(each, above)[0]) for each in counted)
    return end, start


def _read_times(run: Run, spec: HistorySpec, span: Span) -> Mapping[int, int]:
    """Return version -> milliseconds since 1970 of the commits after a span's start, and of its start where known.

    Where the log has forgotten one, that is a HistoryError.
    """
    known = tables.read_commits(tables.open_log(run.plan.tables[spec.driving].uri))
    first = span.start if span.whole or span.compares else span.start + 1
    versions = range(first, run.plan.window[spec.driving].to + 1)
    if lacking := [version for version in versions if version not in known]:
        raise _refuse_forgotten(spec, lacking[0])
    return {version: known[version] for version in versions}


def _refuse_forgotten(spec: HistorySpec, version: int) -> HistoryError:
    hint = f"run `{hints.plan(spec.job)}` to see what can be read"
    return HistoryError(f"the log of source {spec.driving!r} does not know version {version} any more", hint=hint)


def _list_times(run: Run, times: Mapping[int, int]) -> DataFrame:
    """Return ``COMMIT`` and ``FROM`` of commits."""
    text = json.dumps([[version, at] for version, at in times.items()])
    found = run.session.range(1).select(F.explode(F.from_json(F.lit(text), "array<array<bigint>>")).alias("pair"))
    return found.select(F.col("pair")[0].alias(COMMIT), F.timestamp_millis(F.col("pair")[1]).alias(FROM))


def _read_images(
    run: Run, spec: HistorySpec, ends: tuple[int, int]
) -> tuple[list[DataFrame], tuple[tuple[int, int], ...], tuple[int, int, int]]:
    """Return what each commit of a range removed and added, one row an image.

    Across other partition columns, and a column that goes or is retyped, no feed reaches: two snapshots tell of them.

    Returns:
        The images; the ranges, of one commit each, whose ends are compared; and of a source whose rows depend on others
        of their key, what ``normalise.count_derived`` counts of changed keys, and how many images its table has.

    Raises:
        HistoryError: A commit is lost that was there a moment ago, or holds what is not known.
    """
    alias, names, uri = spec.driving, list(spec.source.columns), run.plan.tables[spec.driving].uri
    told = source_changes.read_range(run.plan, alias, ends)
    if told.lost:
        raise _refuse_forgotten(spec, told.lost[0])
    feeds, compared, start = [], [], ends[0]
    apart = tables.list_apart(uri, told)
    like = reads.read_snapshot(run.session, uri, ends[1], names)
    for version in (*apart, ends[1] + 1):
        if start < version - 1:
            feeds.append(reads.read_change_feed(run.session, uri, (start, version - 1), names, like=like))
        if version <= ends[1]:
            compared.append((version - 1, version))
            source_changes.require_sound(run.plan, alias, *compared[-1])
            feeds.append(reads.read_snapshot_difference(run.session, uri, compared[-1], names, ends[1]))
        start = version
    images = [
        net_changes.sum_images(normalise.normalise_keys(feed, spec.source), spec.source, COMMIT) for feed in feeds
    ]
    if not spec.source.is_derived:
        return images, tuple(compared), (0, 0, 0)
    whole = run.keep(unite(images))
    now = run.keep(source_changes.read_touched_rows(run, alias, whole))
    looked_at, marked = normalise.count_derived(now, spec.source)
    return [net_changes.follow_rows(whole, now, spec.source)], tuple(compared), (looked_at, marked, whole.count())


def _compare_rows(run: Run, spec: HistorySpec, recorded: DataFrame, version: int) -> DataFrame:
    """Return what leads from the recorded open versions to a snapshot, as if its commit had done it all."""
    now = run.snapshot(spec.driving, version).withColumn(WEIGHT, F.lit(1))
    fields = [F.col(IMAGE).getField(name).alias(name) for name in spec.source.columns]
    before = recorded.where(F.col(TO).isNull()).select(*fields).withColumn(WEIGHT, F.lit(-1))
    both = now.unionByName(before).withColumn(COMMIT, F.lit(version).cast("long"))
    return net_changes.sum_images(both, spec.source, COMMIT)


def _read_recorded(run: Run, spec: HistorySpec) -> DataFrame:
    """Return the versions that the target has, and those that its quarantine had beside them.

    Versions move between the two, when they end and a rule is about that. So a quarantine that is ahead, or was
    restored, may lack one that the target has not got: only the rows that belong to the target's are taken.
    RefreshNeeded: they cannot be read any more.
    """
    target, there, cursor = read_target(run), run.plan.target.quarantine, run.plan.target.cursor
    version = None
    if there is not None and cursor is not None and cursor.quarantine_number:
        version = there.table.version if there.belongs_to(cursor) else find_quarantine_version(there.table.uri, cursor)
        if version is None:  # the log of the quarantine has forgotten it
            raise _refuse_without_rows(run)
    beside = _read_quarantined(run, spec, version)
    assert target is not None  # noqa: S101 - only a first run has none
    target = target.select(*[F.col(quote(name)) for name in run.plan.list_recorded(target.columns)])
    if beside is not None:
        target = target.unionByName(beside, allowMissingColumns=True)
    kinds = {field.name: field.dataType for field in run.read_source(spec.driving).schema.fields}
    return take_versions(spec, target, kinds)


def find_quarantine_version(uri: str, named: progress.Cursor) -> int | None:
    """Return the version of a quarantine to read the rows in that a target's record names; None when it is forgotten.

    That is the last one before its rows changed: VACUUM may have removed the files that an OPTIMIZE has put together.
    """
    same: int | None = None
    for entry in tables.read_history(tables.open_log(uri)):
        record, version = progress.read_record(entry, named.job), int(entry["version"])
        same = version if same is None else same
        is_named = record is not None and record[progress.BESIDE] == named.quarantine_number
        if record is not None and is_named and named.quarantine_run in (None, record["run_id"]):
            return same
        if record is not None or entry.get("operation") not in progress.UPKEEP:
            same = None
    return None


def _refuse_without_rows(run: Run) -> RefreshNeeded:
    name = run.plan.job.job
    return RefreshNeeded(
        f"the quarantine of {name!r} is not at the same source version as the target,"
        " and its older rows cannot be read any more",
        hint=f"run `{hints.refresh(name)}`, which computes all versions from the source",
        instead=f"drop the quarantine, then run `{hints.repair(name)}`: what it held is taken from what"
        " the source still tells, and what ended before that is lost",
    )


def _read_quarantined(run: Run, spec: HistorySpec, version: int | None) -> DataFrame | None:
    """Return the rows with a key that the quarantine has, or had at a version (if not, HistoryError), as the target."""
    there = run.plan.target.quarantine
    if there is None or version is None:
        return None
    names = run.plan.list_recorded([name for name in spec.columns if name in there.table.columns])
    if version == there.table.version:
        rows = reads.read_snapshot(run.session, there.table.uri, version, [*names, FAILED_COLUMN])
        rows = rows.where(~difference.is_keyless()).drop(FAILED_COLUMN)
        return reads.fit_rows(rows, list_kinds(run, rows.columns))
    try:
        like = reads.read_snapshot(run.session, there.table.uri, there.table.version, [*names, FAILED_COLUMN])
        rows = reads.read_snapshot(run.session, there.table.uri, version, [*names, FAILED_COLUMN], like=like)
        rows = run.keep(rows.where(~difference.is_keyless()).drop(FAILED_COLUMN))
        rows.count()  # here, where it can be told which files are missing
    except (PySparkException, Py4JJavaError) as error:
        if find_lack(error):
            raise
        raise _refuse_without_rows(run) from error
    return reads.fit_rows(rows, list_kinds(run, rows.columns))


# --- frames -----------------------------------------------------------------------------------------------------------


def find_events(spec: HistorySpec, images: DataFrame, times: DataFrame) -> DataFrame:
    """Return what each commit left of each key that it changed.

    In: the used columns, ``WEIGHT`` and ``COMMIT``, as ``changes.sum_images`` gives them; ``COMMIT`` and ``FROM``, its
    time. Out: ``__enrich_k*`` (the source's key, never null), ``COMMIT``, ``FROM``, ``IMAGE`` (null: the row is gone),
    ``WEIGHT`` (by how many rows the key grew) and ``COME`` (how many rows came).
    """
    names = name_left_key(len(spec.key))
    parts = name_parts(spec.key, names)
    rows = drop_nulls(images.select(*parts, COMMIT, WEIGHT, pack_columns(spec.source.columns).alias(IMAGE)), names)
    has_come = F.col(WEIGHT) > 0
    found = rows.groupBy(*names, COMMIT).agg(
        F.any_value(F.when(has_come, F.col(IMAGE)), True).alias(IMAGE),
        F.sum(WEIGHT).alias(WEIGHT),
        F.sum(F.when(has_come, F.col(WEIGHT)).otherwise(0)).alias(COME),
    )
    return found.join(F.broadcast(times), on=COMMIT, how="inner")


def take_rows(spec: HistorySpec, rows: DataFrame, since: Column) -> DataFrame:
    """Return the rows of a snapshot, without null keys, as open versions.

    Out: ``__enrich_k*`` (the source's key), ``FROM``, ``TO`` (null) and ``IMAGE``.
    """
    parts = name_parts(spec.key, name_left_key(len(spec.key)))
    ends = F.lit(None).cast("timestamp").alias(TO)
    return rows.select(*parts, since.alias(FROM), ends, pack_columns(spec.source.columns).alias(IMAGE))


def take_versions(spec: HistorySpec, rows: DataFrame, kinds: Mapping[str, Any]) -> DataFrame:
    """Return the rows of a target or quarantine as versions, as ``take_rows`` does; one that both have is there once.

    Tracked columns that are new, and so not among ``rows``, are null of the type in ``kinds``.
    """
    names = name_left_key(len(spec.key))
    known = {name.lower() for name in rows.columns}
    fields = [
        (F.col(quote(name)) if name.lower() in known else F.lit(None).cast(kinds[name])).alias(name)
        for name in spec.source.columns
    ]
    ends = [F.col(quote(spec.valid_from)).alias(FROM), F.col(quote(spec.valid_to)).alias(TO)]
    found = rows.select(*name_parts(spec.key, names), *ends, F.struct(*fields).alias(IMAGE))
    return drop_nulls(found, [*names, FROM]).dropDuplicates([*names, FROM])


def roll_back(versions: DataFrame, bound: Column) -> DataFrame:
    """Return versions as they were before the commits from the time ``bound`` on: later ones gone, ended ones open."""
    return versions.where(F.col(FROM) < bound).withColumn(TO, F.when(F.col(TO) < bound, F.col(TO)))


def derive_versions(spec: HistorySpec, base: DataFrame, events: DataFrame) -> DataFrame:
    """Compute the versions of all keys in ``base`` and ``events``.

    In: the versions before the events, as ``take_rows`` gives them, of which those that have ended stay as they are;
    what the commits did after that, as ``find_events`` gives it. Out: ``__enrich_k*`` (key and time), ``LIVE`` (always
    true) and the target's columns.
    """
    names = name_left_key(len(spec.key))
    opened = base.where(F.col(TO).isNull()).withColumn(COMMIT, F.lit(_BASE).cast("long"))
    wanted = [*names, COMMIT, FROM, IMAGE]
    steps = opened.select(*wanted).unionByName(events.select(*wanted))
    kinds = {field.name: field.dataType for field in steps.schema[IMAGE].dataType.fields}  # type: ignore[attr-defined]
    values = [make_comparable(F.col(IMAGE).getField(n), kinds[n]).alias(f"c{i}") for i, n in enumerate(spec.tracked)]
    state = F.when(F.col(IMAGE).isNotNull(), F.struct(F.lit(True).alias("there"), *values))
    order = Window.partitionBy(*names).orderBy(COMMIT)
    steps = steps.withColumn(_STATE, state).withColumn(_WAS, F.lag(_STATE).over(order))
    if spec.erases:
        gone = F.max(F.when(F.col(IMAGE).isNull(), F.col(COMMIT)))
        steps = steps.withColumn(_GONE, gone.over(Window.partitionBy(*names)))
    moved = steps.where(~F.col(_STATE).eqNullSafe(F.col(_WAS)))
    ended = moved.withColumn(TO, F.lead(FROM).over(order)).where(F.col(IMAGE).isNotNull())
    earlier = base.where(F.col(TO).isNotNull())
    if spec.erases:
        # Also where a key's delete is not among the events: what has ended stays beside what is open, and not alone.
        stays = steps.where((F.col(COMMIT) == _BASE) & F.col(_GONE).isNull()).select(*names).distinct()
        earlier = earlier.join(stays, on=names, how="left_semi")
        ended = ended.where(F.col(_GONE).isNull() | (F.col(COMMIT) > F.col(_GONE)))
    found = ended.select(*names, FROM, TO, IMAGE).unionByName(earlier)
    shown = {spec.valid_from: F.col(FROM), spec.valid_to: F.col(TO)}
    shown |= {name: F.col(IMAGE).getField(name) for name in spec.source.columns}
    target = [shown[name].alias(name) for name in spec.columns]
    *_, moment = name_left_key(len(spec.identity))
    return found.select(*names, F.col(FROM).alias(moment), F.lit(True).alias(LIVE), *target)


def count_surplus(spec: HistorySpec, base: DataFrame, events: DataFrame) -> int:
    """Count the rows beyond the first of their key, in the fullest of ``base`` and the snapshots after each commit."""
    names = name_left_key(len(spec.key))
    weights = [F.lit(_BASE).cast("long").alias(COMMIT), F.lit(1).alias(WEIGHT), F.lit(1).alias(COME)]
    opened = base.where(F.col(TO).isNull()).select(*names, *weights)
    summed = opened.unionByName(events.select(*names, COMMIT, WEIGHT, COME)).groupBy(*names, COMMIT)
    rows = summed.agg(F.sum(WEIGHT).alias(WEIGHT), F.sum(COME).alias(COME))
    rows = rows.withColumn(_TOTAL, F.sum(WEIGHT).over(Window.partitionBy(*names).orderBy(COMMIT)))
    surplus = F.greatest(F.col(_TOTAL), F.col(COME)) - 1
    worst = rows.groupBy(*names).agg(F.max(surplus).alias(_SURPLUS)).where(F.col(_SURPLUS) > 0)
    return int(columns.aggregate(worst, add_up(F.col(_SURPLUS)))[0])
