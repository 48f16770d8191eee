"""What the windows of a job's sources bring, read and netted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from enrich.base import hints
from enrich.base.errors import HistoryError
from enrich.base.failpoints import pass_point
from enrich.base.failures import find_lack, tell_unreadable
from enrich.base.result import Finding, SourceWindow
from enrich.base.spec import SourceSpec
from enrich.frames import changes as net_changes
from enrich.frames import normalise
from enrich.frames.changes import NetChanges, RowCounts, Touched
from enrich.frames.columns import unite
from enrich.joins import find_kind
from enrich.progress.task import Task
from enrich.steps import feed_ranges
from enrich.steps.losses import check_ends, find_loss
from enrich.steps.work import Work, build_finding, measure
from enrich.storage import feed_rows

if TYPE_CHECKING:
    from enrich.joins.history import Ledger

log = logging.getLogger(__name__)

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
        compared: Alias -> the ranges whose two ends were compared, because the feed does not tell all.
    """

    net: Mapping[str, NetChanges]
    window: dict[str, SourceWindow]
    findings: tuple[Finding, ...]
    again: Mapping[str, Touched] = field(default_factory=dict)
    ledger: Ledger | None = None
    compared: Mapping[str, frozenset[tuple[int, int]]] = field(default_factory=dict)

    def may_lack_keys(self, alias: str) -> bool:
        """Return whether rows with a null key came to or left a source."""
        lacking = any(each.expectation == "key_not_null" and each.source == alias for each in self.findings)
        return lacking or (alias in self.net and self.net[alias].null_images > 0)

    def images(self, alias: str) -> Iterator[DataFrame]:
        """Yield the rows of a source that have come or gone, with more columns."""
        if alias in self.net:
            yield self.net[alias].images
        if alias in self.again:
            yield from self.again[alias].images

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
    for alias, at in task.window.items() if task.everything else ():
        feed_ranges.require_sound(task, alias, at.to)
    found = find_kind(task.spec).read_changes(work)
    work.result = replace(work.result, sources=found.window)
    work.expect_rows(sum(each.count for part in (found.net, found.again) for each in part.values()))
    pass_point("changes.after")
    return found


def read_windows(work: Work) -> Changes:
    """Net the window of every source, and count the rows in it that lack a key or share one."""
    task = work.task
    net: dict[str, NetChanges] = {}
    again = {} if task.everything else {alias: _read_again(work, alias) for alias in task.again}
    window, findings = {}, []
    compared: dict[str, frozenset[tuple[int, int]]] = {}
    for alias, source in task.spec.sources.items():
        at = task.window[alias]
        if task.everything:
            found = _count_source(work, alias)
            count, come, nulls, surplus = found.rows, found.rows + found.null_keys, found.null_keys, found.surplus
        elif at.start == at.to or at.start is None:
            count = come = nulls = surplus = 0
        else:
            net[alias] = _read(work, alias, (at.start, at.to), net_changes.compute_net_changes)
            count, come, nulls = net[alias].count, net[alias].rows, net[alias].null_keys
            search = net[alias].grown and not source.trusted
            surplus = net_changes.count_surplus_rows(work.snapshot(alias), source, net[alias]) if search else 0
        # What a gap brought was never looked at, nor what a source that was trusted until now has.
        if not task.everything and (at.gap is not None or alias in task.unsearched):
            if alias in net:
                before = net_changes.count_crowded_before(work.snapshot(alias), source, net[alias])
                net[alias] = replace(net[alias], crowded=net[alias].crowded + before)
            found = _count_source(work, alias)
            come, nulls, surplus = found.rows + found.null_keys, found.null_keys, found.surplus
        if alias in again:  # the window was widened
            more = again[alias].keys
            both = net[alias].select_changed().unionByName(more).distinct() if alias in net else None
            count = again[alias].count if both is None else both.count()
        compared[alias] = frozenset(each for part in (net, again) if alias in part for each in part[alias].compared)
        window[alias] = describe_window(task, alias, count, compared=bool(compared[alias]))
        driving = alias == task.spec.driving
        if nulls:
            findings.append(build_finding("key_not_null", "quarantine" if driving else "warn", (come, nulls), alias))
        if surplus:
            findings.append(build_finding("key_unique", "fail", (come - nulls, surplus), alias))
    return Changes(net, window, tuple(findings), again, compared=compared)


def describe_window(task: Task, alias: str, count: int, *, compared: bool = False) -> SourceWindow:
    """Return a source's window as the result shows it: from where ``--since`` widened it to."""
    at = task.window[alias]
    again = [start for start, _ in task.again.get(alias, ())]
    start = max(min(again), 0) if again else at.start
    return SourceWindow(start, at.to, count, at.gap, compared)


def _count_source(work: Work, alias: str) -> RowCounts:
    """Count a source's rows, those that share their key, and those without one."""
    source = work.task.spec.sources[alias]
    return net_changes.count_rows(work.read_source(alias), source, search=not source.trusted)


def _read_again(work: Work, alias: str) -> Touched:
    """Find the keys that a source's commits changed in the ranges that are taken again, each read by itself."""
    found = [_read(work, alias, window, net_changes.find_touched_keys) for window in work.task.again[alias]]
    if len(found) == 1:
        return found[0]
    keys = work.keep(unite([each.keys for each in found]).distinct())
    images = tuple(frame for each in found for frame in each.images)
    compared = tuple(window for each in found for window in each.compared)
    return Touched(images, keys, (), keys.count(), sum(each.null_keys for each in found), compared)


def _read(
    work: Work, alias: str, window: tuple[int, int], by: Callable[[DataFrame, SourceSpec], FeedResult]
) -> FeedResult:
    """Read a range of a source's change feed; where it does not tell all, compare the two snapshots instead."""
    source, uri = work.task.spec.sources[alias], work.task.tables[alias].uri
    names = list(source.columns)

    pass_point("feed_of_source.before")
    found = None
    if feed_ranges.tells_all(work.task, alias, window):
        try:
            feed = feed_rows.read_change_feed(work.session, uri, window, names)
            found = by(normalise.normalise_keys(feed, source), source)
        except (PySparkException, Py4JJavaError) as error:
            if find_lack(error):  # no snapshot could be read either
                raise
    if found is None:
        log.info("the change feed of %s cannot be read completely; comparing the two snapshots instead", alias)
        feed_ranges.require_sound(work.task, alias, *window)
        try:
            feed = feed_rows.read_snapshot_difference(work.session, uri, window, names, work.task.window[alias].to)
            found = replace(by(normalise.normalise_keys(feed, source), source), compared=(window,))
        except (PySparkException, Py4JJavaError) as error:
            if find_lack(error):
                raise
            check_ends(work, [alias])
            losses = [(version, find_loss(work, alias, version)) for version in window]
            told = "; ".join(f"version {version}: {loss}" for version, loss in losses if loss)
            if not isinstance(error, AnalysisException) and not told:
                raise  # both ends are there: another attempt may succeed, and a full refresh is not needed
            raise HistoryError(
                f"source {alias!r} cannot be read from version {window[0]} to {window[1]}:"
                f" {told or tell_unreadable(error)}",
                hint=f"run `{hints.refresh(work.task.job.job)}`",
            ) from error
    pass_point("feed_of_source.after")
    for frame in found.persisted:
        work.cleanup.callback(frame.unpersist)
    return found
