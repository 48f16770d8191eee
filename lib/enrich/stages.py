"""The steps of the flow for one job, between the verbs and storage: ``pipeline`` says their order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, TypeVar

from enrich import changes as net_changes
from enrich import join, keys, merge, mirror, normalise, quarantine, tables
from enrich.changes import NetChanges, Touched
from enrich.clock import timed
from enrich.errors import HistoryError
from enrich.faults import point
from enrich.prepare import Task
from enrich.result import Counts, Finding, Lookup, SourceWindow
from enrich.spec import (
    HOLDERS,
    LIVE,
    OPERATION,
    WEIGHT,
    Affected,
    JoinSpec,
    MirrorSpec,
    SourceSpec,
    left_names,
    partners_name,
    quoted,
    right_names,
    without_nulls,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_PARTNERS = ("rows", "matched", "nulls")
_REFERRING = ("foreign_key", "list")
Found = TypeVar("Found", NetChanges, Touched)


@dataclass(frozen=True)
class Work:
    """One job's run inside Spark.

    Attributes:
        session: The job's own session.
        cleanup: Releases what the stages persisted.
        seconds: Stage -> how long it took; fills as the stages end.
    """

    task: Task
    session: SparkSession
    cleanup: ExitStack
    seconds: dict[str, float] = field(default_factory=dict)

    def kept(self, frame: DataFrame) -> DataFrame:
        """Persist a frame until the job ends."""
        frame = frame.persist()
        self.cleanup.callback(frame.unpersist)
        return frame

    def snapshot(self, alias: str, version: int | None = None, *, null_keys: bool = False) -> DataFrame:
        """Return the rows of a source, at the window's end unless told otherwise, with or only without a whole key."""
        from pyspark.sql import functions as F

        source, state = self.task.spec.sources[alias], self.task.tables[alias]
        names, end = list(source.columns), self.task.window[alias].to
        rows = tables.snapshot(self.session, state.uri, end, names)
        if version is not None and version != end:  # the source may have gained columns since
            rows = tables.snapshot(self.session, state.uri, version, names, like=rows)
        rows = normalise.keys(rows, source)
        is_null = reduce(or_, [F.col(quoted(name)).isNull() for name in source.key])
        return rows.where(is_null if null_keys else ~is_null)

    def sources(self, *, before: bool = False) -> join.Sources:
        """Return all snapshots, at the window's end or before it."""
        spec = self.task.spec
        assert isinstance(spec, JoinSpec)  # noqa: S101 - callers have looked at the kind
        window = self.task.window
        return join.Sources(spec, {a: self.snapshot(a, window[a].start if before else None) for a in spec.sources})


@dataclass(frozen=True)
class Changed:
    """What the window brought.

    Attributes:
        net: Alias -> net changes, of the sources that moved; empty when everything is computed anew.
        window: The windows with their counts of changes.
        findings: Null and ambiguous keys in the sources.
        again: Alias -> what changed before the cursor and is computed anew because the run was told so.
    """

    net: Mapping[str, NetChanges]
    window: dict[str, SourceWindow]
    findings: tuple[Finding, ...]
    again: Mapping[str, Touched] = field(default_factory=dict)

    def may_lack_keys(self, alias: str) -> bool:
        """Return whether rows with a null key came to or left a source."""
        lacking = any(each.expectation == "key_not_null" and each.source == alias for each in self.findings)
        return lacking or (alias in self.net and self.net[alias].null_images > 0)

    @property
    def differing(self) -> dict[str, DataFrame]:
        """Alias -> changed keys, of the sources that have any, or whose rows without key changed."""
        found = {alias: each.changed() for alias, each in self.net.items() if each.count or each.null_images}
        for alias, each in self.again.items():
            if each.count:
                found[alias] = found[alias].unionByName(each.held).distinct() if alias in found else each.held
        return found


@timed("changes")
def read_changes(work: Work) -> Changed:
    """Read the window of every source and look for null and ambiguous keys in what it brings."""
    from pyspark.sql import functions as F

    point("changes.before")
    task = work.task
    net: dict[str, NetChanges] = {}
    again = {} if task.everything else {alias: _read_again(work, alias) for alias in task.again}
    window, findings = {}, []
    for alias, source in task.spec.sources.items():
        at = task.window[alias]
        if task.everything:
            rows, surplus = _whole_source(work, alias)
            nulls = work.snapshot(alias, null_keys=True).count()
            count, come = rows, rows + nulls
        elif at.start == at.to or at.start is None:
            count = come = nulls = surplus = 0
        else:
            net[alias] = _read_window(work, alias, (at.start, at.to))
            count, come, nulls = net[alias].count, net[alias].rows, net[alias].null_keys
            grown = net[alias].keys.where(F.col(WEIGHT) > 0).drop(WEIGHT)
            search = net[alias].grown and not source.trusted
            surplus = net_changes.surplus_rows(work.snapshot(alias), source, grown)[1] if search else 0
        if at.gap is not None and not task.everything:  # what the gap brought was never looked at
            come, surplus = _whole_source(work, alias)
            nulls = work.snapshot(alias, null_keys=True).count()
            come += nulls
        window[alias] = _told(task, alias, count, _all_keys(net.get(alias), again.get(alias)))
        driving = alias == task.spec.driving
        if nulls:
            findings.append(_built_in("key_not_null", "quarantine" if driving else "warn", (come, nulls), alias))
        if surplus:
            findings.append(_built_in("key_unique", "fail", (come - nulls, surplus), alias))
    point("changes.after")
    return Changed(net, window, tuple(findings), again)


def _all_keys(net: NetChanges | None, again: Touched | None) -> int | None:
    """Count the keys of a window that was widened; None for one that was not."""
    if again is None:
        return None
    return again.count if net is None else net.changed().unionByName(again.held).distinct().count()


def _told(task: Task, alias: str, count: int, widened: int | None) -> SourceWindow:
    """Return a source's window as the result shows it: from where ``--since`` widened it to."""
    at = task.window[alias]
    start = max(task.again[alias][0], 0) if alias in task.again else at.start
    return SourceWindow(start, at.to, count if widened is None else widened, at.gap)


def _whole_source(work: Work, alias: str) -> tuple[int, int]:
    """Count a source's rows and those that share their key."""
    source = work.task.spec.sources[alias]
    if source.trusted:
        return work.snapshot(alias).count(), 0
    return net_changes.surplus_rows(work.snapshot(alias), source)


def _read_window(work: Work, alias: str, window: tuple[int, int]) -> NetChanges:
    """Net a source's change feed."""
    return _read(work, alias, window, net_changes.net)


def _read_again(work: Work, alias: str) -> Touched:
    """Find the keys that a source's commits changed in the range that is taken again."""
    return _read(work, alias, work.task.again[alias], net_changes.touched)


def _read(work: Work, alias: str, window: tuple[int, int], by: Callable[[DataFrame, SourceSpec], Found]) -> Found:
    """Read a range of a source's change feed; where it cannot be read whole, compare the two snapshots instead."""
    source, uri = work.task.spec.sources[alias], work.task.tables[alias].uri
    names = list(source.columns)
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    point("feed_of_source.before")
    try:
        found = by(normalise.keys(tables.change_feed(work.session, uri, window, names), source), source)
    except (PySparkException, Py4JJavaError):
        log.info("the change feed of %s cannot be read whole; comparing its two snapshots", alias)
        try:
            feed = tables.snapshot_difference(work.session, uri, window, names)
            found = by(normalise.keys(feed, source), source)
        except (PySparkException, Py4JJavaError) as error:
            raise HistoryError(
                f"source {alias!r} cannot be read from version {window[0]} to {window[1]} ({type(error).__name__})",
                hint=f"run `enrich run {work.task.job.job} --full-refresh`",
            ) from error
    point("feed_of_source.after")
    work.cleanup.callback(found.held.unpersist)
    return found


def _built_in(rule: str, action: str, counts: tuple[int, int], alias: str | None) -> Finding:
    return Finding(None, rule, None, action, counts[0], counts[1], success=False, source=alias)


@timed("keys")
def affected_keys(work: Work, changed: Changed) -> Affected | None:
    """Return the target keys whose rows may differ, counted; None for all."""
    if work.task.everything:
        return None
    found = _affected(work, changed)
    count = found.left.count() + (found.right.count() if found.right is not None else 0)
    return replace(found, count=count)


def _affected(work: Work, changed: Changed) -> Affected:
    spec = work.task.spec
    held = _held_keys(work)
    if isinstance(spec, MirrorSpec):
        images = [*[net.images for net in changed.net.values()], *[each.images for each in changed.again.values()]]
        values = [*[mirror.affected_values(spec, each) for each in images], *[each.left for each in held]]
        return Affected(work.kept(reduce(lambda a, b: a.unionByName(b), values).distinct()))
    now = work.sources()
    refer = partial(join.references, now)
    left = work.kept(keys.affected_left(spec, changed.differing, refer, [each.left for each in held]))
    right = spec.right_step()
    if right is None:
        return Affected(left)
    moved = [
        frame.select(*[name for name in frame.columns if name.startswith("__enrich_j")])
        for frame in (
            join.references(now, right, Affected(left)),
            join.references(work.sources(before=True), right, Affected(left)),
        )
    ]
    moved += [each.right for each in held if each.right is not None]
    return Affected(left, work.kept(keys.affected_right(spec, changed.differing, refer, moved)))


def _held_keys(work: Work) -> list[Affected]:
    """Return the keys that the quarantine holds when they shall be tried again, else nothing."""
    from pyspark.sql import functions as F

    task, uri = work.task, work.task.place.held_uri
    if not task.retry or uri is None:
        return []
    identity = identity_of(task)
    names = [*identity.left, *identity.right, quarantine.FAILED]
    held = tables.snapshot(work.session, uri, tables.read_state(uri).version, names).where(~quarantine.is_keyless())
    found = held.select(*[part.alias(name) for name, part in identity.of().items()])
    lefts, rights = left_names(len(identity.left)), right_names(len(identity.right))
    is_lone = reduce(or_, [F.col(name).isNull() for name in lefts])
    left = found.where(~is_lone).select(*lefts)
    return [Affected(left, without_nulls(found.where(is_lone).select(*rights)) if rights else None)]


@dataclass(frozen=True)
class Rows:
    """The affected rows, computed anew.

    Attributes:
        frame: The identity's columns, ``LIVE``, one ``partners_name`` a join, and the target's columns; persisted.
        counts: Affected keys and nulls in references.
        findings: Conflicting mirror values.
        lookups: Alias -> how its join went; empty for mirrors.
        values: A mirror's values, and those with several holders.
    """

    frame: DataFrame
    counts: Counts
    findings: tuple[Finding, ...] = ()
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    values: tuple[int, int] = (0, 0)


@timed("join")
def new_rows(work: Work, changed: Changed, affected: Affected | None) -> Rows:
    """Compute the affected rows from the pinned snapshots."""
    point("join.before")
    spec = work.task.spec
    if isinstance(spec, MirrorSpec):
        return _mirrored(work, spec, changed, affected)
    from pyspark.sql import functions as F

    frame = work.kept(join.enriched(work.sources(), affected))
    sums = [
        F.coalesce(F.sum(F.col(partners_name(step.alias)).getField(part)), F.lit(0))
        for step in spec.steps
        for part in _PARTNERS
    ]
    found = frame.agg(F.count("*"), *sums).first()
    assert found is not None  # noqa: S101 - an aggregate without groups has one row
    counted = (found[i : i + len(_PARTNERS)] for i in range(1, len(found), len(_PARTNERS)))
    lookups = {step.alias: Lookup(step.kind, *each) for step, each in zip(spec.steps, counted, strict=True)}
    nulls = {kind: sum(each.null_references for each in lookups.values() if each.kind == kind) for kind in _REFERRING}
    counts = Counts(
        affected_keys=affected.count if affected is not None else found[0],
        null_foreign_keys=nulls["foreign_key"],
        null_list_ids=nulls["list"],
    )
    return Rows(frame, counts, lookups=lookups)


def _mirrored(work: Work, spec: MirrorSpec, changed: Changed, affected: Affected | None) -> Rows:
    from pyspark.sql import functions as F

    frame = work.kept(mirror.derived(spec, work.snapshot(spec.driving), affected.left if affected else None))
    found = frame.agg(F.count("*").alias("rows"), F.count(F.when(F.col(HOLDERS) > 1, 1)).alias("shared")).first()
    assert found is not None  # noqa: S101 - an aggregate without groups has one row
    nulls = _null_values(work, spec, changed)
    counts = Counts(affected_keys=affected.count if affected else found["rows"], null_values=nulls)
    conflict = spec.conflict == "fail" and found["shared"]
    findings = (_built_in("value_unique", "fail", (found["rows"], found["shared"]), spec.driving),) if conflict else ()
    return Rows(frame.drop(HOLDERS), counts, findings, values=(found["rows"], found["shared"]))


def _null_values(work: Work, spec: MirrorSpec, changed: Changed) -> int:
    """Count the master's rows, or those that the window brought, that have a key and no value."""
    from pyspark.sql import functions as F

    if work.task.everything:
        come = work.snapshot(spec.driving)
    elif spec.driving in changed.net:
        come = changed.net[spec.driving].images.where(F.col(WEIGHT) > 0)
    else:
        return 0
    is_null = reduce(or_, [F.col(quoted(name)).isNull() for name in spec.value])
    lacks_key = reduce(or_, [F.col(quoted(name)).isNull() for name in spec.key])
    return come.where(is_null & ~lacks_key).count()


def identity_of(task: Task) -> merge.Identity:
    """Return how the target's rows are told apart."""
    return merge.Identity(task.spec.identity, task.spec.right_identity)


def target_rows(work: Work) -> DataFrame | None:
    """Return the target's rows at its pinned version; None when it does not exist."""
    table = work.task.target.table
    if table is None:
        return None
    names = [name for name in work.task.spec.columns if name in table.columns]
    return tables.snapshot(work.session, table.uri, table.version, names)


def live_rows(work: Work, rows: Rows) -> DataFrame:
    """Return the rows that belong to the target, with the identity's columns."""
    from pyspark.sql import functions as F

    names = identity_of(work.task).names
    columns = [F.col(quoted(name)) for name in work.task.spec.columns]
    return rows.frame.where(F.col(LIVE)).select(*names, *columns)


def no_rows(work: Work) -> DataFrame:
    """Return an empty difference: the identity's columns, the operation, the target's columns as new rows would be."""
    from pyspark.sql import functions as F

    spec = work.task.spec
    if isinstance(spec, MirrorSpec):
        frame = mirror.derived(spec, work.snapshot(spec.driving), None)
    else:
        frame = join.enriched(work.sources(), None)
    columns = [F.col(quoted(name)) for name in spec.columns]
    operation = F.lit("U").alias(OPERATION)
    return frame.limit(0).select(*identity_of(work.task).names, operation, *columns)
