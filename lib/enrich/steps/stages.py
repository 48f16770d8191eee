"""The steps of the flow for one job, between the verbs and storage: ``pipeline`` says their order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base.errors import HistoryError
from enrich.base.failures import find_lack
from enrich.base.faults import pass_point
from enrich.base.result import Counts, Finding, Lookup, SourceWindow
from enrich.base.spec import (
    HOLDERS,
    LIVE,
    OPERATION,
    WEIGHT,
    Affected,
    HistorySpec,
    JoinSpec,
    KnownRows,
    MirrorSpec,
    SourceSpec,
    Step,
    name_left_key,
    name_reference,
    quote,
)
from enrich.compiler.schemas import strip_type
from enrich.frames import changes as net_changes
from enrich.frames import join, keys, mirror, normalise
from enrich.frames.changes import NetChanges, RowCounts, Touched
from enrich.frames.columns import Ranges, count_with_ranges, has_null, mark_rows
from enrich.frames.partners import sum_partners
from enrich.progress.prepare import Task
from enrich.steps import history, neighbours, retrying
from enrich.steps.clock import measure
from enrich.steps.history import Ledger
from enrich.steps.losses import check_ends, keeps_layout
from enrich.steps.work import Work, build_finding, identify_rows
from enrich.storage import extents, tables

log = logging.getLogger(__name__)

_REFERRING = ("foreign_key", "as_of", "interval", "list")
FeedResult = TypeVar("FeedResult", NetChanges, Touched)


@dataclass(frozen=True)
class Changes:
    """What the window brought.

    Attributes:
        net: Alias -> net changes, of the sources that moved; empty when everything is computed anew.
        window: The windows with their counts of changes.
        findings: Null and ambiguous keys in the sources.
        again: Alias -> what changed before the cursor and is computed anew because the run was told so.
        ledger: What a history is computed from; None for other jobs.
    """

    net: Mapping[str, NetChanges]
    window: dict[str, SourceWindow]
    findings: tuple[Finding, ...]
    again: Mapping[str, Touched] = field(default_factory=dict)
    ledger: Ledger | None = None

    def may_lack_keys(self, alias: str) -> bool:
        """Return whether rows with a null key came to or left a source."""
        lacking = any(each.expectation == "key_not_null" and each.source == alias for each in self.findings)
        return lacking or (alias in self.net and self.net[alias].null_images > 0)

    def images(self, alias: str) -> Iterator[DataFrame]:
        """Yield the rows of a source that have come or gone, with more columns."""
        yield from [each.images for each in (self.net.get(alias), self.again.get(alias)) if each is not None]

    @cached_property
    def differing(self) -> dict[str, DataFrame]:
        """Alias -> changed keys, of the sources that have any, or whose rows without key changed."""
        found = {alias: each.select_changed() for alias, each in self.net.items() if each.count or each.null_images}
        for alias, each in self.again.items():
            if each.count or each.null_keys:
                found[alias] = found[alias].unionByName(each.keys).distinct() if alias in found else each.keys
        return found


@measure("changes")
def read_changes(work: Work) -> Changes:
    """Read the window of every source and look for null and ambiguous keys in what it brings."""
    pass_point("changes.before")
    task = work.task
    if isinstance(task.spec, HistorySpec):
        return _read_commits(work, task.spec)
    net: dict[str, NetChanges] = {}
    again = {} if task.everything else {alias: _read_again(work, alias) for alias in task.again}
    window, findings = {}, []
    for alias, source in task.spec.sources.items():
        at = task.window[alias]
        if task.everything:
            found = _count_source(work, alias)
            count, come, nulls, surplus = found.rows, found.rows + found.null_keys, found.null_keys, found.surplus
        elif at.start == at.to or at.start is None:
            count = come = nulls = surplus = 0
        else:
            net[alias] = _read_window(work, alias, (at.start, at.to))
            count, come, nulls = net[alias].count, net[alias].rows, net[alias].null_keys
            search = net[alias].grown and not source.trusted
            surplus = net_changes.count_surplus_rows(work.snapshot(alias), source, net[alias]) if search else 0
        if at.gap is not None and not task.everything:  # what the gap brought was never looked at
            found = _count_source(work, alias)
            come, nulls, surplus = found.rows + found.null_keys, found.null_keys, found.surplus
        window[alias] = _describe_window(task, alias, count, _count_all_keys(net.get(alias), again.get(alias)))
        driving = alias == task.spec.driving
        if nulls:
            findings.append(build_finding("key_not_null", "quarantine" if driving else "warn", (come, nulls), alias))
        if surplus:
            findings.append(build_finding("key_unique", "fail", (come - nulls, surplus), alias))
    work.result = replace(work.result, sources=window)
    work.expect_rows(sum(each.count for each in net.values()) + sum(each.count for each in again.values()))
    pass_point("changes.after")
    return Changes(net, window, tuple(findings), again)


def _read_commits(work: Work, spec: HistorySpec) -> Changes:
    """Read what each commit of a history's window did: nothing is netted."""
    ledger, alias = history.read_ledger(work, spec), spec.driving
    found = ledger.touched
    count = ledger.come - ledger.keyless if work.task.everything else found.count
    window = {alias: _describe_window(work.task, alias, count, None)}
    work.result = replace(work.result, sources=window)
    work.expect_rows(found.count)
    pass_point("changes.after")
    return Changes({}, window, ledger.list_findings(alias), {alias: found}, ledger)


def _count_all_keys(net: NetChanges | None, again: Touched | None) -> int | None:
    """Count the keys of a window that was widened; None for one that was not."""
    if again is None:
        return None
    return again.count if net is None else net.select_changed().unionByName(again.keys).distinct().count()


def _describe_window(task: Task, alias: str, count: int, widened: int | None) -> SourceWindow:
    """Return a source's window as the result shows it: from where ``--since`` widened it to."""
    at = task.window[alias]
    start = max(task.again[alias][0], 0) if alias in task.again else at.start
    return SourceWindow(start, at.to, count if widened is None else widened, at.gap)


def _count_source(work: Work, alias: str) -> RowCounts:
    """Count a source's rows, those that share their key, and those without one."""
    source = work.task.spec.sources[alias]
    return net_changes.count_rows(work.read_source(alias), source, search=not source.trusted)


def _read_window(work: Work, alias: str, window: tuple[int, int]) -> NetChanges:
    """Net a source's change feed."""
    return _read(work, alias, window, net_changes.compute_net_changes)


def _read_again(work: Work, alias: str) -> Touched:
    """Find the keys that a source's commits changed in the range that is taken again."""
    return _read(work, alias, work.task.again[alias], net_changes.find_touched_keys)


def _read(
    work: Work, alias: str, window: tuple[int, int], by: Callable[[DataFrame, SourceSpec], FeedResult]
) -> FeedResult:
    """Read a range of a source's change feed; where it does not tell all, compare the two snapshots instead."""
    source, uri = work.task.spec.sources[alias], work.task.tables[alias].uri
    names = list(source.columns)

    pass_point("feed_of_source.before")
    found = None
    if keeps_layout(work.task, alias, window):
        try:
            feed = tables.read_change_feed(work.session, uri, window, names)
            found = by(normalise.normalise_keys(feed, source), source)
        except (PySparkException, Py4JJavaError) as error:
            if find_lack(error):  # no snapshot could be read either
                raise
    if found is None:
        log.info("the change feed of %s cannot be read completely; comparing the two snapshots instead", alias)
        try:
            feed = tables.read_snapshot_difference(work.session, uri, window, names)
            found = by(normalise.normalise_keys(feed, source), source)
        except (PySparkException, Py4JJavaError) as error:
            if find_lack(error):
                raise
            check_ends(work, [alias])
            raise HistoryError(
                f"source {alias!r} cannot be read from version {window[0]} to {window[1]} ({type(error).__name__})",
                hint=f"run `enrich run {work.task.job.job} --full-refresh`",
            ) from error
    pass_point("feed_of_source.after")
    for frame in found.persisted:
        work.cleanup.callback(frame.unpersist)
    return found


@measure("keys")
def find_affected_keys(work: Work, changed: Changes) -> Affected | None:
    """Return the target keys whose rows may differ, counted; None for all."""
    if work.task.everything:
        return None
    if changed.ledger is not None and changed.ledger.identities is not None:
        versions = work.keep(changed.ledger.identities)
        return Affected(versions, count=versions.count())
    found = _find_affected(work, changed)
    count, ranges = _count_left(work, changed, found.left)
    count += found.right.count() if found.right is not None else 0
    work.expect_rows(count)
    found = replace(found, count=count, ranges=ranges)
    if not work.are_few(count) or not isinstance(work.task.spec, JoinSpec):
        return found
    # Read once: the joins at both ends of the window are about them.
    names = name_left_key(len(work.task.spec.key_columns))
    rows = {alias: work.now.affected_rows(alias, names, found) for alias in keys.list_sharing(work.task.spec)}
    read = {alias for alias in rows if alias not in found.known or found.known[alias].others is not None}
    known = {alias: KnownRows(work.keep(each), read=alias in read) for alias, each in rows.items()}
    return replace(found, known=known)


def _count_left(work: Work, changed: Changes, left: DataFrame) -> tuple[int, Ranges]:
    """Count the affected left keys and find their ranges, which is done already where they changed in one source."""
    spec, differing = work.task.spec, list(changed.differing)
    if isinstance(spec, JoinSpec) and not work.task.retry and len(differing) == 1:
        (alias,) = differing
        if alias in keys.list_sharing(spec) and alias not in changed.again:
            net = changed.net[alias]
            names = zip(left.columns, name_reference(len(left.columns)), strict=True)
            return net.count, {name: net.ranges[part] for name, part in names if part in net.ranges}
    (count,), ranges = count_with_ranges(left, left.columns)
    return count, ranges


def _find_affected(work: Work, changed: Changes) -> Affected:
    spec = work.task.spec
    waiting = retrying.find_quarantined_keys(work)
    assert not isinstance(spec, HistorySpec)  # noqa: S101 - its ledger tells them
    if isinstance(spec, MirrorSpec):
        images = [*[net.images for net in changed.net.values()], *[each.images for each in changed.again.values()]]
        values = [*[mirror.find_affected_values(spec, each) for each in images], *[each.left for each in waiting]]
        return Affected(work.keep(reduce(lambda a, b: a.unionByName(b), values).distinct()))
    now, right = work.now, spec.right_step()
    carry = not spec.sources[spec.driving].trusted

    def refer(step: Step, touched: DataFrame) -> DataFrame:
        return join.find_references(now, step, changed=touched, carry=carry)

    dependent = [work.keep(frame) for frame in keys.find_dependents(spec, changed.differing, refer)]
    near = spec.interval_step
    if near is not None and near.alias in changed.differing:
        dependent.append(work.keep(neighbours.find_near_changes(work.now, near, list(changed.images(near.alias)))))
    others = [each.left for each in waiting]
    left = work.keep(keys.find_affected_left(spec, changed.differing, dependent, others))
    known = {}
    for alias in keys.list_sharing(spec):
        come = find_moved_rows(now, changed, alias, come=True)
        rows = keys.find_known_rows(spec, alias, come, changed.differing, dependent, others)
        if rows is not None:
            known[alias] = rows
    if right is None:
        return Affected(left, known=known)
    moments = [now, work.before, *([work.sources(work.task.apart)] if work.task.apart else [])]
    if right is near:
        moved = neighbours.find_near_rows(moments, right, changed.differing.get(spec.driving))
    else:
        references = [join.find_references(each, right, Affected(left)) for each in moments]
        moved = [
            frame.select(*[name for name in frame.columns if name.startswith("__enrich_j")]) for frame in references
        ]
    moved += [each.right for each in waiting if each.right is not None]
    return Affected(left, work.keep(keys.find_affected_right(spec, changed.differing, dependent, moved)), known=known)


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
    moved = net.images.where(F.col(WEIGHT) > 0 if come else F.col(WEIGHT) < 0).drop(WEIGHT)
    same = strip_type(moved.schema.jsonValue()) == strip_type(now.snapshots[alias].schema.jsonValue())
    return moved if same else None


@dataclass(frozen=True)
class Rows:
    """The affected rows, computed anew.

    Attributes:
        frame: The identity's columns, ``LIVE``, one ``name_partners`` a join, and the target's columns; persisted.
        counts: Affected keys and nulls in references.
        findings: Conflicting mirror values.
        lookups: Alias -> how its join went; empty for mirrors.
        values: A mirror's values, and those with several holders.
        tally: What ``mark_rows`` counts, over the live rows; empty where they are not the whole target.
    """

    frame: DataFrame
    counts: Counts
    findings: tuple[Finding, ...] = ()
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    values: tuple[int, int] = (0, 0)
    tally: Mapping[str, int] = field(default_factory=dict)


@measure("join")
def compute_rows(work: Work, changed: Changes, affected: Affected | None) -> Rows:
    """Compute the affected rows from the pinned snapshots."""
    pass_point("join.before")
    spec = work.task.spec
    if isinstance(spec, MirrorSpec):
        return _compute_mirror(work, spec, changed, affected)
    if isinstance(spec, HistorySpec):
        assert changed.ledger is not None  # noqa: S101 - it was read with the changes
        versions = work.keep(history.derive_rows(spec, changed.ledger))
        return Rows(versions, Counts(affected_keys=affected.count if affected else versions.count()))

    frame = join.join_all(work.sources_for(affected), affected)
    frame = frame if _is_cheaper_again(work, spec) else work.keep(frame)
    # Where all rows are computed and none is quarantined, these are the target's: its state needs no pass of its own.
    marks = mark_rows(spec.columns) if work.task.everything and not work.task.holds_rows else {}
    marks = {name: F.col(LIVE) & mark for name, mark in marks.items()}
    found, partners, tally = sum_partners(frame, spec.steps, marks)
    lookups = {step.alias: Lookup(step.kind, **vars(partners[step.alias])) for step in spec.steps}
    nulls = {kind: sum(each.null_references for each in lookups.values() if each.kind == kind) for kind in _REFERRING}
    counts = Counts(
        affected_keys=affected.count if affected is not None else found,
        null_foreign_keys=nulls["foreign_key"] + nulls["as_of"] + nulls["interval"],
        null_list_ids=nulls["list"],
    )
    return Rows(frame, counts, lookups=lookups, tally=tally)


def _is_cheaper_again(work: Work, spec: JoinSpec) -> bool:
    """Return whether a first run computes its rows twice, to count them and to write them, and does not keep them.

    To keep ten million rows costs more than to join them with tables that Spark sends to every task. Rules of a suite
    would read the rows more often.
    """
    if not work.task.everything or work.task.target.table is not None or work.task.judging_suite is not None:
        return False
    sent = work.session._jsparkSession.sessionState().conf().autoBroadcastJoinThreshold()
    return all(
        step.kind in ("table", "foreign_key")
        and step.how in ("inner", "left")
        and extents.measure_table(work.task.tables[step.alias].uri).bytes <= sent
        for step in spec.steps
    )


def _compute_mirror(work: Work, spec: MirrorSpec, changed: Changes, affected: Affected | None) -> Rows:
    frame = work.keep(mirror.derive_mirror(spec, work.snapshot(spec.driving), affected))
    found = frame.agg(F.count("*").alias("rows"), F.count(F.when(F.col(HOLDERS) > 1, 1)).alias("shared")).first()
    assert found is not None  # noqa: S101 - an aggregate without groups has one row
    nulls = _count_null_values(work, spec, changed)
    counts = Counts(affected_keys=affected.count if affected else found["rows"], null_values=nulls)
    conflict = spec.conflict == "fail" and found["shared"]
    findings = (
        (build_finding("value_unique", "fail", (found["rows"], found["shared"]), spec.driving),) if conflict else ()
    )
    return Rows(frame.drop(HOLDERS), counts, findings, values=(found["rows"], found["shared"]))


def _count_null_values(work: Work, spec: MirrorSpec, changed: Changes) -> int:
    """Count the master's rows, or those that the window brought, that have a key and no value."""
    if work.task.everything:
        come = work.snapshot(spec.driving)
    elif spec.driving in changed.net:
        come = changed.net[spec.driving].images.where(F.col(WEIGHT) > 0)
    else:
        return 0
    is_null = has_null(spec.value)
    lacks_key = has_null(spec.key)
    return come.where(is_null & ~lacks_key).count()


def select_live_rows(work: Work, rows: Rows) -> DataFrame:
    """Return the rows that belong to the target, with the identity's columns."""
    names = identify_rows(work.task).names
    columns = [F.col(quote(name)) for name in work.task.spec.columns]
    return rows.frame.where(F.col(LIVE)).select(*names, *columns)


def make_no_rows(work: Work) -> DataFrame:
    """Return an empty difference: the identity's columns, the operation, the target's columns as new rows would be."""
    spec = work.task.spec
    if isinstance(spec, MirrorSpec):
        frame = mirror.derive_mirror(spec, work.snapshot(spec.driving), None)
    elif isinstance(spec, HistorySpec):
        frame = history.make_no_rows(work, spec)
    else:
        frame = join.join_all(work.now, None)
    columns = [F.col(quote(name)) for name in spec.columns]
    operation = F.lit("U").alias(OPERATION)
    return frame.limit(0).select(*identify_rows(work.task).names, operation, *columns)
