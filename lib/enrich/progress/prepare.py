"""A job, the logs of its tables and its target's cursor -> what this run has to do; files and logs only, no JVM."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from enrich.base import hints
from enrich.base.errors import ConfigError, Fault, HistoryError, RefreshNeeded
from enrich.base.names import FEED_COLUMNS
from enrich.base.result import SourceWindow
from enrich.base.spec import CompiledJob
from enrich.compiler.compile import Typer, compile_job
from enrich.config.models import Job
from enrich.progress import continuity, evolution, spans
from enrich.progress.cursor import Cursor, TargetState, describe_drift
from enrich.progress.since import Bounds
from enrich.progress.task import BOOTSTRAP, FULL_REFRESH, INCREMENTAL, REPAIR, REPLAY, Span, TargetPlace, Task
from enrich.progress.window import compute_reach, find_versions
from enrich.storage.tables import CHANGE_FEED, TableState, is_occupied, suggest_properties

log = logging.getLogger("enrich")


def check_free(job: Job, uri: str | None) -> None:
    """Refuse to create a target, or its quarantine, where something else already is.

    Raises:
        ConfigError: A file, or a directory that is not empty.
    """
    if uri is not None and is_occupied(uri):
        raise ConfigError(
            f"{uri} is not a Delta table", hint="move it away, or name another target", where=job.at("target")
        )


def check_sources(job: Job, tables: Mapping[str, TableState]) -> None:
    """Refuse sources without change feed, and histories whose feed Delta cannot read; the message says what mends it.

    Raises:
        ConfigError: Naming every such source.
    """
    faults = [
        Fault(
            f"source {alias!r} ({job.sources[alias].table}) has no change feed; run:"
            f" {suggest_properties(table.uri, {CHANGE_FEED: 'true'})}",
            job.at("sources", alias),
        )
        for alias, table in tables.items()
        if not table.has_change_feed
    ]
    if job.remembers:  # what other jobs cannot read, they compare
        faults += [
            Fault(
                f"source {alias!r} ({job.sources[alias].table}) has a column {name!r}, and so has its change feed:"
                " Delta cannot read what its commits changed, of which a history consists; rename the column",
                job.at("sources", alias),
            )
            for alias, table in tables.items()
            for name in table.columns
            if name.lower() in FEED_COLUMNS
        ]
    if faults:
        raise ConfigError.of(faults)


def compile_task(
    job: Job, tables: Mapping[str, TableState], cursor: Cursor | None, typer: Typer | None = None
) -> CompiledJob:
    """Compile a job against its tables.

    A column that the cursor knows and the table lost is not a slip in the job file: the source changed.

    Raises:
        ConfigError: The job file does not fit its tables.
        HistoryError: It did when the target was last written.
    """
    schemas = {alias: table.columns for alias, table in tables.items()}
    if cursor is not None:
        evolution.check(job.job, schemas, cursor)
    return compile_job(job, schemas, typer)


def open_task(task: Task, *, full_refresh: bool, bounds: Bounds | None = None) -> Task:
    """Decide mode and window, and refuse what cannot be continued.

    Raises:
        ConfigError: ``--since`` would skip changes.
        DriftError: Somebody else changed the target's rows.
        HistoryError: The definition changed, the cursor is lost, or a source is another table than before.
    """
    name, target = task.job.job, task.target
    if target.table is None:
        return open_whole(task, BOOTSTRAP)
    if full_refresh:
        return open_whole(task)
    cursor = _require_continuable(name, target, task.place)
    continuity.check(cursor, task.definition, task.tables)
    if evolution.find_reshaped(cursor, task.spec):
        return open_whole(task)  # every list is computed anew, its elements in their new shape
    if not task.spec.remembers and evolution.find_recast(cursor, task.tables):
        return open_whole(task)  # what CHAR fills with blanks is other values, of rows that no feed names
    beside = continuity.find_contained(target, cursor, task.spec, task.tables)
    if beside is None:
        return _open_without_quarantine(task)
    return _continue_task(task, (cursor, beside), bounds or Bounds())


def foresee_mode(
    job: Job, target: TargetState, place: TargetPlace, unmade: Collection[str], *, full_refresh: bool
) -> str:
    """Decide the mode of a job before the run has made all of its sources; refuse what ``open_task`` will refuse then.

    Args:
        job: The job.
        target: What is at its target.
        place: Where that is.
        unmade: The aliases of the sources that the run makes first.
        full_refresh: As for ``open_task``.

    Raises:
        DriftError: As from ``open_task``.
        HistoryError: As from ``open_task``; the target exists, and has not consumed the tables that are to come.
    """
    if target.table is None:
        return BOOTSTRAP
    if not full_refresh:
        raise continuity.describe_unmade(_require_continuable(job.job, target, place), unmade)
    if job.remembers and job.from_ in unmade:
        spans.check_unmade(job.job, job.from_, target)
    return FULL_REFRESH


def _open_without_quarantine(task: Task) -> Task:
    """Compute everything again, because nobody knows what the quarantine contains.

    Raises:
        HistoryError: That would forget versions of a history's target.
    """
    try:
        return open_whole(task)
    except HistoryError as refused:
        name, alias = task.job.job, task.spec.driving
        hint = f"run `{hints.repair(name)}`"
        if task.target.quarantine is None:
            begin = spans.look_back(alias, task).start
            hint += (
                f"; of the versions that only the quarantine had, those that ended before version {begin} of source"
                f" {alias!r} are lost, and those that were open then begin with it"
            )
        raise HistoryError(
            f"what the quarantine of {name!r} should contain is no longer there, and {refused.message}", hint=hint
        ) from refused


def reopen_task(task: Task) -> Task:
    """Take a job back to the versions that its target records, to be compared with what they give.

    Raises:
        HistoryError: The target does not exist, its cursor is lost, or it is not this job's doing over these sources.
    """
    if task.target.table is None:
        raise HistoryError(
            f"job {task.job.job!r} has no target yet", hint=f"run `{hints.run(task.job.job)}` to create it"
        )
    cursor = _require_cursor(task.job.job, task.target, task.place)
    continuity.check(cursor, task.definition, task.tables)
    if lists := evolution.find_reshaped(cursor, task.spec):
        raise HistoryError(
            f"source {lists[0]!r} has gained a column since the target was written, and its lists have all columns",
            hint=f"run `{hints.run(task.job.job)}`, which computes them again",
        )
    window = {alias: SourceWindow(mark.start, mark.to) for alias, mark in cursor.sources.items()}
    task = replace(task, mode=REPAIR, window=window)
    found = spans.look_back(task.spec.driving, task) if task.spec.remembers else None
    return replace(task, span=found)


def _require_continuable(job: str, target: TargetState, place: TargetPlace) -> Cursor:
    """Return what a target has consumed, if the job alone has written it."""
    cursor = _require_cursor(job, target, place)
    if target.others:
        raise describe_drift(job, target.others)
    return cursor


def _require_cursor(job: str, target: TargetState, place: TargetPlace) -> Cursor:
    if target.cursor is None:
        raise RefreshNeeded(
            f"neither the log of {place.label} nor the runs table says what the target has consumed",
            hint=f"run `{hints.refresh(job)}`",
        )
    return target.cursor


def _continue_task(task: Task, contained: tuple[Cursor, Cursor], bounds: Bounds) -> Task:
    """Put the window of each source together from what target and quarantine contain, and what the run was told."""
    name, (cursor, beside) = task.job.job, contained
    is_history = task.spec.remembers
    since = spans.find_since(task, bounds.since) if is_history else find_versions(name, task.tables, bounds.since)
    window, again = {}, {}
    for alias, table in task.tables.items():
        mark, point = cursor.sources[alias], bounds.is_point(alias)
        asked, end = since.get(alias), task.until.get(alias)
        if asked is not None and end is not None and asked > end:
            raise ConfigError(
                f"--since is later than --until for source {alias!r} of {name!r}", hint="exchange the two values"
            )
        start = None if asked is None else min(asked, table.version)
        found = compute_reach(mark.to, table.version, start, end, point=point)
        if found.gap is not None and not bounds.allow_gap:
            raise ConfigError(
                f"--since would leave out changes of source {alias!r} of {name!r}: versions {found.gap[0] + 1} to"
                f" {found.gap[1]} are not in the target yet",
                hint=f"run `{hints.run(name, replace(task.asked, since=None))}` to take them, or accept the loss with"
                f" --allow-gap: `{hints.run(name, replace(task.asked, allow_gap=True))}`",
            )
        window[alias] = SourceWindow(found.start, found.to, gap=found.gap)
        ranges = [*([found.again] if found.again else []), *continuity.list_ranges_between(cursor, beside, alias)]
        if ranges:
            again[alias] = tuple(dict.fromkeys(ranges))
    mode = REPLAY if bounds.replays else INCREMENTAL
    apart = {alias: mark.to for alias, mark in beside.sources.items()} if beside is not cursor else {}
    task = replace(task, mode=mode, window=window, again=again, apart=apart)
    if not is_history:
        return task
    if task.everything:
        return replace(task, span=_begin_history(task))
    span, at = spans.go_on(name, task.spec.driving, task, allow_gap=bounds.allow_gap)
    return replace(task, span=span, window={task.spec.driving: at})


def announce(task: Task) -> None:
    """Say what the job is about to do, and loudly what it leaves out."""
    windows = [f"{alias} {each.start}->{each.to}" for alias, each in task.window.items() if each.start != each.to]
    windows += [f"{alias} {start}->{end} once more" for alias, ranges in task.again.items() for start, end in ranges]
    log.info("%s: %s", task.job.job, task.mode if task.everything else f"{task.mode} of {', '.join(windows)}")
    for alias, each in task.window.items():
        if each.gap is not None:
            log.warning(
                "%s: versions %d to %d of source %s are left out: rows may be missing or outdated until `%s` or a full"
                " refresh",
                *(task.job.job, each.gap[0] + 1, each.gap[1], alias, hints.repair(task.job.job)),
            )


def open_whole(task: Task, mode: str = FULL_REFRESH) -> Task:
    """Return the task with all keys computed anew."""
    window = {alias: SourceWindow(None, table.version) for alias, table in task.tables.items()}
    task = replace(task, mode=mode, window=window)
    return replace(task, span=_begin_history(task)) if task.spec.remembers else task


def _begin_history(task: Task) -> Span:
    return spans.begin(task.job.job, task.spec.driving, task.tables[task.spec.driving], task.target)
