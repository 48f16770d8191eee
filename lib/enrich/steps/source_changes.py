"""Read and net what the windows of a job's sources bring."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base import hints
from enrich.base.errors import (
    ANOTHER_TARGET,
    Conflict,
    EnrichError,
    HistoryError,
    RefreshNeeded,
    RunFailed,
    SourceMoved,
)
from enrich.base.failpoints import pass_point
from enrich.base.failures import find_lack, find_value_fault, is_damaged, is_gone, tell_unreadable
from enrich.base.result import Finding, SourceWindow
from enrich.base.spec import COMMIT, KEY_UNIQUE, WEIGHT, Affected, SourceSpec, name_inside, quote
from enrich.delta import reads, tables
from enrich.delta.sink import hold_settings
from enrich.delta.tables import Told, find_damage
from enrich.frames import changes as net_changes
from enrich.frames import normalise
from enrich.frames.changes import NetChanges, RowCounts, Touched
from enrich.frames.columns import Keep, count_with_ranges, drop_nulls, keep_in_ranges, lacks_value, unite
from enrich.joins import find_kind
from enrich.progress.plan import FULL_REFRESH, REPAIR, Plan
from enrich.spark import PARTITIONS
from enrich.steps.run import Run, build_finding, compute_once, measure

if TYPE_CHECKING:
    from enrich.joins.history import Ledger

log = logging.getLogger(__name__)

_BYTES_A_ROW = 50  # of a feed's files, where one task can have many rows
FeedResult = TypeVar("FeedResult", NetChanges, Touched)
Netting = Callable[[DataFrame, SourceSpec, Keep], FeedResult]


def read_range(plan: Plan, alias: str, window: tuple[int, int]) -> Told:
    """Read what the commits of a range say of its feed; errors as ``tables.read_range``."""
    table, cursor = plan.tables[alias], plan.target.cursor
    mark = None if cursor is None else cursor.sources.get(alias)
    known = mark.partitions if mark is not None and mark.to == window[0] else None
    return tables.read_range(table.uri, window, known)


def tells_all(plan: Plan, alias: str, told: Told) -> bool:
    """Return whether a source's feed tells all that the commits ``told`` of have changed in its used columns."""
    uri, used = plan.tables[alias].uri, plan.spec.sources[alias].columns
    return told.is_whole and all(tables.keeps_columns(uri, each, used) for each in told.redefined)


def require_sound(plan: Plan, alias: str, *versions: int) -> None:
    """Raise ``HistoryError`` for versions that lack what an empty commit file should tell, but in a full refresh."""
    name = plan.job.job
    for version in versions:
        damaged = find_damage(plan.tables[alias].uri, version)
        if damaged is None:
            continue
        said = f"the file of commit {damaged} in the log of source {alias!r} of {name!r} is empty or damaged"
        if plan.mode == FULL_REFRESH:
            log.warning("%s: its changes are missing in what is read now", said)
            continue
        if plan.target.table is None:
            raise HistoryError(f"{said}, and version {version} is read without it", hint="restore that file")
        raise RefreshNeeded(
            f"{said}, and version {version} would be read without it",
            hint=f"restore that file and run again, or run `{hints.refresh(name)}` to go on without it",
            instead="restore that file, and run again",
        )


@dataclass(frozen=True)
class Changes:
    """What the window brought."""

    # Alias -> net changes, of the sources that moved; empty when everything is computed anew.
    net: Mapping[str, NetChanges]
    window: dict[str, SourceWindow]
    findings: tuple[Finding, ...]  # null and ambiguous keys in the sources
    # Alias -> what changed before the cursor and is computed anew because the run was told so.
    again: Mapping[str, Touched] = field(default_factory=dict)
    ledger: Ledger | None = None  # what a history is computed from; None for other jobs
    # Alias -> the ranges whose two ends were compared, because the feed does not tell all.
    compared: Mapping[str, frozenset[tuple[int, int]]] = field(default_factory=dict)

    def images(self, alias: str) -> Iterator[DataFrame]:
        """Yield the rows of a source that have come or gone, with more columns."""
        if alias in self.net:
            yield self.net[alias].images
        if alias in self.again:
            yield from self.again[alias].images

    def have_come(self, alias: str, affected: Affected) -> bool:
        """Tell whether the affected keys are those of a source that came in the window, each with one row."""
        net = self.net.get(alias)
        if net is None or net.crowded or self.again or affected.right is not None:
            return False
        return 0 < net.grown == affected.count

    @cached_property
    def differing(self) -> dict[str, DataFrame]:
        """Alias -> changed keys, of the sources that have any, or whose rows without key changed."""
        found = {alias: each.select_changed() for alias, each in self.net.items() if each.count or each.null_images}
        for alias, each in self.again.items():
            if each.count or each.null_keys:
                found[alias] = found[alias].unionByName(each.keys).distinct() if alias in found else each.keys
        return found


@measure("changes")
def read_changes(run: Run) -> Changes:
    """Read the window of every source and look for null and ambiguous keys in what it brings."""
    pass_point("changes.before")
    plan = run.plan
    for alias, at in plan.window.items() if plan.everything else ():
        require_sound(plan, alias, at.to)
    found = find_kind(plan.spec).read_changes(run)
    run.expect_rows(sum(each.count for part in (found.net, found.again) for each in part.values()))
    pass_point("changes.after")
    return found


def read_windows(run: Run) -> Changes:
    """Net the window of every source, and count the rows in it that lack a key or share one."""
    plan = run.plan
    net: dict[str, NetChanges] = {}
    again = {} if plan.everything else {alias: _read_again(run, alias) for alias in plan.again}
    window, findings = {}, []
    compared: dict[str, frozenset[tuple[int, int]]] = {}
    counted = _count_sources(run, *plan.spec.sources) if plan.everything else {}
    for alias, source in plan.spec.sources.items():
        at = plan.window[alias]
        if plan.everything:
            found = counted[alias]
            count, come, nulls, surplus = found.rows, found.rows + found.null_keys, found.null_keys, found.surplus
        elif at.start == at.to or at.start is None:
            count = come = nulls = surplus = 0
        else:
            net[alias] = _read(run, alias, (at.start, at.to), net_changes.compute_net_changes)
            count, come, nulls = net[alias].count, net[alias].rows, net[alias].null_keys
            search = net[alias].grown and source.is_searched
            surplus = net_changes.count_surplus_rows(run.snapshot(alias), source, net[alias]) if search else 0
        # What a gap brought was never looked at, nor what a source that was trusted until now has.
        if not plan.everything and (at.gap is not None or alias in plan.unsearched):
            if alias in net:
                before = net_changes.count_crowded_before(run.snapshot(alias), source, net[alias])
                net[alias] = replace(net[alias], crowded=net[alias].crowded + before)
            found = _count_sources(run, alias)[alias]
            come, nulls, surplus = found.rows + found.null_keys, found.null_keys, found.surplus
        if alias in again:  # the window was widened
            both = net[alias].select_changed().unionByName(again[alias].keys).distinct() if alias in net else None
            count = again[alias].count if both is None else both.count()
        compared[alias] = frozenset(each for part in (net, again) if alias in part for each in part[alias].compared)
        window[alias] = describe_window(plan, alias, count, compared=bool(compared[alias]))
        driving = alias == plan.spec.driving
        if nulls:
            findings.append(build_finding("key_not_null", "quarantine" if driving else "warn", (come, nulls), alias))
        if surplus:
            findings.append(build_finding(KEY_UNIQUE, "fail", (come - nulls, surplus), alias))
        findings += judge_derived(run, source, (net[alias].looked_at, net[alias].marked) if alias in net else (0, 0))
    return Changes(net, window, tuple(findings), again, compared=compared)


def judge_derived(run: Run, source: SourceSpec, counted: tuple[int, int]) -> list[Finding]:
    """Return what is wanting in a table not all of whose rows are rows of the source.

    ``counted``: what ``normalise.count_derived`` looked at among changed keys, and marked.
    """
    if not source.is_derived:
        return []
    if run.plan.everything or run.plan.window[source.alias].gap is not None:
        rows = run.read_table(source.alias).where(~lacks_value(source.key))
        counted = normalise.count_derived(rows, source)
    is_held = source.alias == run.plan.spec.driving and source.latest is None
    rule = "order_unique" if source.latest is not None else KEY_UNIQUE
    return [build_finding(rule, "quarantine" if is_held else "warn", counted, source.alias)] if counted[1] else []


def describe_window(plan: Plan, alias: str, count: int, *, compared: bool = False) -> SourceWindow:
    """Return a source's window as the result shows it, widened by ``--since``."""
    at = plan.window[alias]
    again = [start for start, _ in plan.again.get(alias, ())]
    return SourceWindow(max(min(again), 0) if again else at.start, at.to, count, at.gap, compared)


def _count_sources(run: Run, *aliases: str) -> dict[str, RowCounts]:
    sources = [run.plan.spec.sources[alias] for alias in aliases]
    rows = [(run.read_source(each.alias), each, each.is_searched) for each in sources]
    return dict(zip(aliases, net_changes.count_rows(*rows), strict=True))


def _read_again(run: Run, alias: str) -> Touched:
    """Find the keys that a source's commits changed in the ranges that are taken again."""
    found = [_read(run, alias, window, net_changes.find_touched_keys) for window in run.plan.again[alias]]
    if len(found) == 1:
        return found[0]
    keys = run.keep(unite([each.keys for each in found]).distinct())
    images = tuple(frame for each in found for frame in each.images)
    compared = tuple(window for each in found for window in each.compared)
    return Touched(images, keys, keys.count(), sum(each.null_keys for each in found), compared)


def _read(run: Run, alias: str, window: tuple[int, int], by: Netting[FeedResult]) -> FeedResult:
    """Read a range of a source's change feed; where it does not tell all, compare the two snapshots instead."""
    source, uri = run.plan.spec.sources[alias], run.plan.tables[alias].uri
    names = list(source.columns)
    pass_point("feed_of_source.before")
    found = None
    commits = read_range(run.plan, alias, window)
    if tells_all(run.plan, alias, commits):
        try:
            net = commits.marks and by is net_changes.compute_net_changes
            feed = reads.read_change_feed(run.session, uri, window, names, net=net)
            with hold_settings(run.session, {PARTITIONS: run.count_tasks(commits.size // _BYTES_A_ROW)}):
                found = _follow(run, alias, feed, by)
        except (PySparkException, Py4JJavaError) as error:
            if find_lack(error) or find_value_fault(error):  # no snapshot could be read either
                raise
    if found is None:
        log.info("the change feed of %s cannot be read completely; comparing the two snapshots instead", alias)
        require_sound(run.plan, alias, *window)
        try:
            feed = reads.read_snapshot_difference(run.session, uri, window, names, run.plan.window[alias].to)
            found = replace(_follow(run, alias, feed, by), compared=(window,))
        except (PySparkException, Py4JJavaError) as error:
            if find_lack(error) or find_value_fault(error):
                raise
            check_ends(run, [alias])
            said = f"source {alias!r} cannot be read from version {window[0]} to {window[1]}"
            losses = [(version, find_loss(partial(run.snapshot, alias, version), said)) for version in window]
            told = "; ".join(f"version {version}: {loss}" for version, loss in losses if loss)
            if not isinstance(error, AnalysisException) and not told:
                raise  # both ends are there: another attempt may succeed, and a full refresh is not needed
            hint = f"run `{hints.refresh(run.plan.job.job)}`"
            raise HistoryError(f"{said}: {told or tell_unreadable(error)}", hint=hint) from error
    pass_point("feed_of_source.after")
    return found


def _follow(run: Run, alias: str, feed: DataFrame, by: Netting[FeedResult]) -> FeedResult:
    """Read what a feed of a source's table says of the source: the one place where changes of rows become its own."""
    source = run.plan.spec.sources[alias]
    feed = normalise.normalise_keys(feed, source)
    if not source.is_derived:
        return by(feed, source, run.keep)
    if by is not net_changes.compute_net_changes:
        # Whatever event was the last one of its key at some time is there now, or was removed meanwhile.
        images = run.keep(net_changes.sum_images(feed, source, COMMIT))
        told = {WEIGHT: F.lit(1), COMMIT: F.lit(None).cast("long")}
        return by(images.unionByName(read_touched_rows(run, alias, images).withColumns(told)), source, run.keep)
    images = run.keep(net_changes.sum_images(feed.withColumn(COMMIT, F.lit(0).cast("long")), source, COMMIT))
    now = run.keep(read_touched_rows(run, alias, images))
    # Kept without their past: Spark wrote 35 MB to describe a join of logs, with all that its rows were made of.
    found = by(net_changes.follow_rows(images, now, source), source, lambda rows: run.keep(compute_once(rows)))
    assert isinstance(found, NetChanges)  # noqa: S101 - that is what nets
    looked_at, marked = normalise.count_derived(now, source)
    # Rows of one key may come and go while none of them is a row of the source; but the quarantine has them all.
    null_images = images.count() if source.holds_doubled else found.null_images
    return replace(found, looked_at=looked_at, marked=marked, null_images=null_images)


def read_touched_rows(run: Run, alias: str, images: DataFrame) -> DataFrame:
    """Return the rows that a source's table has at the window's end of those keys that images of it have."""
    source, names = run.plan.spec.sources[alias], [name_inside(name) for name in run.plan.spec.sources[alias].key]
    keys = run.keep(drop_nulls(images.select(*map(quote, names)).distinct()))
    (count,), ranges = count_with_ranges(keys, names)
    rows = reads.fit_rows(run.read_table(alias), {each.name: each.dataType for each in images.schema.fields})
    rows = keep_in_ranges(rows.where(~lacks_value(source.key)), ranges)
    keys = F.broadcast(keys) if run.are_few(count) else keys
    return rows.join(keys, on=names, how="left_semi").select(*map(quote, rows.columns))


GONE, DAMAGED = "files or commits of it are gone", "files of it are damaged"


@contextmanager
def explain_losses(run: Run) -> Iterator[None]:
    """Find out, when files of a version are gone or damaged, whether a fresh plan would read other ones."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if is_gone(error) or is_damaged(error):
            check_ends(run, run.plan.window)
            target, beside = run.plan.target.table, run.plan.target.quarantine
            for what, table in (("target", target), ("quarantine", beside.table if beside else None)):
                if table is None:
                    continue
                said = f"the {what} of {run.plan.job.job!r} cannot be read at version {table.version}"
                read = partial(reads.read_snapshot, run.session, table.uri, table.version, list(table.columns))
                # A full refresh would not help: it compares with the same tables.
                hint = f"restore them from a backup, or drop the {what}; then run again, and the run computes it anew"
                if loss := find_loss(read, said):
                    is_latest = tables.read_state(table.uri).version <= table.version
                    raise _tell_loss(said, loss, hint, is_latest=is_latest) from error
        raise


def check_ends(run: Run, aliases: Iterable[str]) -> None:
    """Read sources at the ends of their windows after something went wrong, and raise what is lost of them.

    Raises:
        Conflict: The pinned version was vacuumed, and later ones have come.
        HistoryError: The pinned version was chosen with ``--until``, or files are damaged.
        RunFailed: The latest version has lost files.
    """
    plan, name = run.plan, run.plan.job.job
    for alias in aliases:
        end = plan.window[alias].to
        said = f"source {alias!r} cannot be read at version {end}"
        loss = find_loss(partial(run.snapshot, alias), said)
        if loss is None:
            continue
        if plan.mode == REPAIR:
            hint = f"run `{hints.refresh(name)}`"
            instead = f"run `{hints.run(name)}`, which goes on to the latest version, and verify then; where that is"
            instead += f" refused, too, {ANOTHER_TARGET}"
            raise RefreshNeeded(f"{said}: {loss}, and the target was computed from it", hint=hint, instead=instead)
        if alias in plan.until:
            raise HistoryError(f"{said}: {loss}, and --until ends there", hint="name a later version")
        hint = f"restore the source, and run `{hints.run(name)}` again"
        is_latest = tables.read_state(plan.tables[alias].uri).version <= end
        raise _tell_loss(said, loss, hint, is_latest=is_latest, moved=SourceMoved)


def _tell_loss(said: str, loss: str, hint: str, *, is_latest: bool, moved: type[Conflict] = Conflict) -> EnrichError:
    """Return the error of a version that has lost files; later ones may come from OPTIMIZE and VACUUM, for instance."""
    if not is_latest:
        return moved(f"{said}: {loss}, and later versions have come", hint="run again")
    return (HistoryError if loss == DAMAGED else RunFailed)(f"{said}: {loss}", hint=hint)


def find_loss(read: Callable[[], DataFrame], said: str) -> str | None:
    """Read all values of a table, return what is lost of it, or None; where that cannot be told, raise what is said."""
    try:  # a sink that takes nothing would do, but that is refused for tables with deletion vectors
        read().agg(F.max(F.length(F.to_json(F.struct("*"))))).collect()
    except (PySparkException, Py4JJavaError) as error:
        if lacking := find_lack(error):
            raise lacking from error
        if find_value_fault(error):  # of the condition by which an event of a log says that there is no row
            raise
        if is_gone(error) or is_damaged(error):
            return GONE if is_gone(error) else DAMAGED
        raise RunFailed(f"{said} ({type(error).__name__})", hint="check the storage, and run again") from error
    return None
