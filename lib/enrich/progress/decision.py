"""Decide what a run does with one job: everything or by changes, and which versions of its sources it takes.

The first table is decided from files and logs alone, no JVM is needed (``decide_plan``). Two rows need the types of the
job's rows, which only Spark knows (``decide_again``).

==========================================================  =====================================================
what is found                                               what the run computes
==========================================================  =====================================================
no target                                                   everything: ``bootstrap``
``--full-refresh``                                          everything: ``full_refresh``
no record of what the target has consumed                   refused, exit 5
rows of another writer in the target                        refused, exit 6
another definition, or a source that is another table       refused, exit 5
a list's lookup has other columns; CHAR became other text   everything: ``full_refresh``
nobody knows what the quarantine contains                   everything; of a history refused, exit 5
it contains other versions; of a history                    all that is recorded, and what changed since
it contains other versions; of a right or full join         everything: ``full_refresh``
it contains other versions; of any other job                by changes, and once more what only one of the two has
``--since beginning``                                       everything, and the mode stays
anything else                                               by changes: ``incremental``, with both ends ``replay``
==========================================================  =====================================================

==========================================================  =====================================================
the target's table cannot hold the rows                     everything: ``full_refresh``, written in its place
another writer's column has become the job's                everything; of a history all that is recorded
==========================================================  =====================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace

from enrich.base import hints
from enrich.base.errors import ConfigError, HistoryError, RefreshNeeded
from enrich.base.result import SourceWindow
from enrich.base.schemas import find, strip_type
from enrich.base.spec import DataType
from enrich.base.suites import MASS_CHANGE
from enrich.delta.extents import MEASURED
from enrich.delta.tables import TableState, keeps_values
from enrich.progress import continuity, window
from enrich.progress.cursor import Cursor, TargetState, describe_drift
from enrich.progress.plan import (
    BOOTSTRAP,
    FULL_REFRESH,
    INCREMENTAL,
    REPAIR,
    REPLAY,
    OpenJob,
    Plan,
    Span,
    TargetPlace,
    reaches_before_all,
)
from enrich.progress.window import Range


def decide_plan(opened: OpenJob) -> Plan:
    """Decide mode and window from the logs, and refuse what cannot be continued.

    Raises:
        ConfigError: ``--since`` would skip changes.
        DriftError: Somebody else changed the target's rows.
        HistoryError: The definition changed, the cursor is lost, or a source is another table than before.
    """
    target, spec = opened.target, opened.spec
    if target.table is None:
        return take_all(opened, BOOTSTRAP)
    if opened.options.full_refresh:
        return take_all(opened)
    cursor = _require_key(opened)
    if target.others:
        raise describe_drift(opened.job.job, target.others)
    continuity.check(cursor, opened.definition, opened.tables)
    if continuity.find_reshaped(cursor, spec):
        return take_all(opened)  # every list is computed anew, its elements in their new shape
    if not spec.remembers and continuity.is_recast(cursor, opened.tables):
        return take_all(opened)  # what CHAR fills with blanks is other values, of rows that no feed names
    apart = continuity.find_apart(target, cursor, opened.tables)
    if apart is None:  # nobody knows what the quarantine contains
        try:
            return take_all(opened)
        except HistoryError as refused:
            name, hint = opened.job.job, f"run `{hints.repair(opened.job.job)}`"
            if target.quarantine is None:
                start, alias = window.look_back(opened).start, spec.driving
                hint += f"; what only the quarantine had begins with version {start} of source {alias!r}, or is lost"
            raise HistoryError(
                f"what the quarantine of {name!r} should contain is no longer there, and {refused.message}", hint=hint
            ) from refused
    if apart and spec.right_step is not None:
        return take_all(opened)  # a row of the lookup comes and goes with references of then, which no feed tells
    return _take_changes(opened, cursor, apart)


def decide_again(plan: Plan, find_types: Callable[[], Mapping[str, DataType]]) -> Plan:
    """Return a plan whose rows its target can hold: the same, or one that writes all of them anew.

    Structs are compared and written field by field, by position. So a list whose lookup has gained, lost or moved a
    column needs a table that is written anew, even where the lookup itself is not shown. ``find_types`` tells the types
    of the job's columns, as Spark has them; it is asked only where they decide.

    Raises:
        HistoryError: A run by changes, or a comparison, meets a column of another type than the job's that somebody
            else has added to the target, or widened there; or a comparison meets lists of another shape.
    """
    table, target = plan.target.table, plan.target
    if table is None or plan.rewrites:
        return plan
    there = {name.lower(): strip_type(kind) for name, kind in table.columns.items()}
    recorded = {name.lower() for name in target.cursor.columns} if target.cursor is not None else set()
    shared = [name for name in plan.spec.columns if name.lower() in there]
    added = [name for name in shared if name.lower() not in recorded]
    nested = [name for name in shared if _outline(there[name.lower()]) is not None]
    beside = {name.lower() for name in target.quarantine.table.columns} if target.quarantine is not None else set()
    adopts = bool(added) or any(name.lower() in beside - recorded for name in plan.spec.columns)
    remade = plan.mode == FULL_REFRESH and not continuity.is_ours(target, plan.definition)
    known = plan.compiled.kinds or plan.spec.sources[plan.spec.driving].columns
    wider = not all(keeps_values(there[name.lower()], known[name]) for name in shared if name in known)
    may_differ = remade or table.is_widened or wider  # not by a job; DROP FEATURE forgets that it was
    if not adopts and not nested and not may_differ:
        return plan
    kinds = find_types()
    foreign = [name for name in (shared if may_differ else added) if kinds[name] != there[name.lower()]]
    outgrown = [name for name in nested if _outline(kinds[name]) != _outline(there[name.lower()])]
    if plan.mode == FULL_REFRESH:
        return replace(plan, outgrown=True, rewrites=True, has_copies=False) if foreign or outgrown else plan
    if foreign:
        raise RefreshNeeded(
            f"column {foreign[0]!r} of the target of {plan.job.job!r} is of another writer, and of another type than"
            " the column that the job has now",
            hint=f"run `{hints.refresh(plan.job.job)}`, which takes its place",
        )
    if plan.spec.remembers:  # it would forget versions; its rows are fitted to fields that have come
        outgrown = [name for name in outgrown if not keeps_values(there[name.lower()], kinds[name])]
    if outgrown and plan.mode == REPAIR:
        raise HistoryError(
            f"the lists in column {outgrown[0]!r} have other fields, or in another order, than in the target",
            hint=f"run `{hints.refresh(plan.job.job)}`, which writes them again",
        )
    if outgrown:
        return replace(take_all(plan), outgrown=True, rewrites=True)
    if plan.everything or not adopts:
        return plan
    # A column that becomes the job's may have another writer's values, or a DEFAULT's, in any row. A history is not
    # read from its beginning for that, which may be forgotten: what is recorded is compared.
    return replace(plan, anew=True) if plan.spec.remembers else take_all(plan)


def _outline(kind: DataType) -> object:
    """Return the fields of the structs within a type, in order and without case; None when there are none."""
    if isinstance(kind, str):
        return None
    if kind["type"] == "struct":
        return tuple((each["name"].lower(), _outline(each["type"])) for each in kind["fields"])
    inner = [_outline(kind[part]) for part in ("elementType", "keyType", "valueType") if part in kind]
    return tuple(inner) if any(each is not None for each in inner) else None


def decide_repair(opened: OpenJob) -> Plan:
    """Take a job back to the versions that its target records, to be compared with what they give.

    Without target or cursor, and where it is not this job's doing over these sources, that is a HistoryError.
    """
    name, cursor = opened.job.job, _require_key(opened)
    continuity.check(cursor, opened.definition, opened.tables)
    if lists := continuity.find_reshaped(cursor, opened.spec):
        raise HistoryError(
            f"source {lists[0]!r} has gained a column or a field since the target was written, and the target shows it",
            hint=f"run `{hints.run(name)}`, which computes them again",
        )
    versions = {alias: SourceWindow(mark.start, mark.to) for alias, mark in cursor.sources.items()}
    return _make_plan(opened, REPAIR, versions, span=window.look_back(opened) if opened.spec.remembers else None)


def decide_comparison(opened: OpenJob) -> Plan:
    """Take a job as its file is now back to the versions that its target records; a new source to its latest."""
    require_target(opened)
    cursor, tables = require_cursor(opened.job.job, opened.target, opened.place), opened.tables
    if cursor.definition == opened.definition and opened.spec.remembers:
        return decide_repair(opened)  # what its source has forgotten is taken from the target itself
    continuity.check(
        replace(cursor, sources={alias: mark for alias, mark in cursor.sources.items() if alias in tables}),
        cursor.definition,
        tables,
    )
    return replace(take_all(opened), mode=REPAIR, rewrites=False, has_copies=True)


def require_target(opened: OpenJob) -> TableState:
    """Return the target's table; a HistoryError where there is none yet."""
    name, table = opened.job.job, opened.target.table
    if table is None:
        raise HistoryError(f"job {name!r} has no target yet", hint=f"run `{hints.run(name)}` to create it")
    return table


def _require_key(opened: OpenJob) -> Cursor:
    """Return the record of a target; a HistoryError where it is not there, or has lost its key."""
    there, name = require_target(opened).columns, opened.job.job
    cursor = require_cursor(name, opened.target, opened.place)
    keys = *opened.spec.identity, *opened.spec.right_identity
    if lost := [each for each in keys if each in cursor.columns and find(each, there) is None]:
        said = f"another writer has dropped or renamed column {lost[0]!r} of the target of {name!r}, a part of its key"
        raise RefreshNeeded(said, hint=f"run `{hints.refresh(name)}`, which writes all rows anew")
    return cursor


def _make_plan(
    opened: OpenJob,
    mode: str,
    versions: Mapping[str, SourceWindow],
    *,
    again: Mapping[str, tuple[tuple[int, int], ...]] | None = None,
    span: Span | None = None,
) -> Plan:
    """Put a plan together; of a job that has one already, only what was open then is taken."""
    known = {each.name: getattr(opened, each.name) for each in fields(OpenJob)}
    target, cursor = opened.target, opened.target.cursor
    rewrites, has_copies = False, mode == REPAIR
    if mode == FULL_REFRESH and target.table is not None:
        # Its rows have other columns or types than the job's, or nobody needs to be told which of them differ.
        has_copies = not continuity.is_ours(target, opened.definition)
        rewrites = cursor is None or not continuity.fits(cursor, opened.spec) or (has_copies and not _keeps(opened))
    found = Plan(**known, mode=mode, window=versions, again=again or {}, span=span, rewrites=rewrites)
    return replace(found, has_copies=has_copies and not rewrites)


def _keeps(opened: OpenJob) -> bool:
    """Return whether rows of another definition, or of others, are compared, so that readers get what differs alone."""
    table, spec, job = opened.target.table, opened.spec, opened.job
    has_feed = opened.place.change_feed or (table is not None and table.has_change_feed)
    if table is None or not has_feed or any(rule.rule == MASS_CHANGE for rule in job.rules):
        return False
    measured = {name.strip("`") for name in table.properties.get(MEASURED, "").split(",") if name}
    keys, clusters = {*spec.identity, *spec.right_identity}, {*job.target.cluster_by}
    return tuple(table.columns) == tuple(spec.columns) and clusters <= measured <= keys | clusters


def take_all(opened: OpenJob, mode: str = FULL_REFRESH) -> Plan:
    """Compute all keys anew; a HistoryError where that would forget versions that a history's target has."""
    versions = {alias: SourceWindow(None, table.version) for alias, table in opened.tables.items()}
    return _make_plan(opened, mode, versions, span=window.begin(opened) if opened.spec.remembers else None)


def _take_changes(opened: OpenJob, cursor: Cursor, apart: Mapping[str, Range]) -> Plan:
    """Put the window of each source together from what target and quarantine contain, and what the run was told."""
    name, options, remembers = opened.job.job, opened.options, opened.spec.remembers
    if remembers:
        since = window.find_since(opened)
    else:
        since = window.find_versions(name, opened.tables, "--since", options.since)
    versions, again = {}, {}
    for alias, table in opened.tables.items():
        asked, end = since.get(alias), opened.until.get(alias)
        if asked is not None and end is not None and asked > end:
            said = f"--since is later than --until for source {alias!r} of {name!r}"
            raise ConfigError(said, hint="exchange the two values")
        start = None if asked is None else min(asked, table.version)
        point = options.is_point(alias)
        found, more = window.compute_window(cursor.sources[alias].to, table.version, start, end, point=point)
        if found.gap is not None and not options.allow_gap:
            raise ConfigError(
                f"--since would leave out changes of source {alias!r} of {name!r}: versions {found.gap[0] + 1} to"
                f" {found.gap[1]} are not in the target yet",
                hint=f"run `{hints.run(name, replace(opened.asked, since=None))}` to take them, or accept the loss with"
                f" --allow-gap: `{hints.run(name, replace(opened.asked, allow_gap=True))}`",
            )
        versions[alias] = found
        if ranges := [each for each in (more, None if remembers else apart.get(alias)) if each is not None]:
            again[alias] = tuple(dict.fromkeys(ranges))
    mode = REPLAY if options.since and options.until else INCREMENTAL
    span = None
    if remembers and reaches_before_all(again):
        span = window.begin(opened)
    elif remembers:
        alias = opened.spec.driving
        span, versions[alias] = window.go_on(opened, versions[alias], again.get(alias, ()))
    return replace(_make_plan(opened, mode, versions, again=again, span=span), anew=remembers and bool(apart))


def require_cursor(job: str, target: TargetState, place: TargetPlace) -> Cursor:
    """Return the record of a target; a RefreshNeeded where there is none any more."""
    if target.cursor is None:
        raise RefreshNeeded(
            f"neither the log of {place.label} nor the runs table says what the target has consumed",
            hint=f"run `{hints.refresh(job)}`",
        )
    return target.cursor
