"""The difference -> the quarantine's commit, the target's commit with the cursor, and the proof that it is there."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base.errors import Blocked, EnrichError
from enrich.base.failpoints import pass_point
from enrich.base.names import find_quarantine
from enrich.base.result import (
    APPEND,
    CREATE,
    CREATED,
    CURSOR,
    MERGE,
    NOTHING,
    REWRITE,
    UNCHANGED,
    UPDATED,
    JobResult,
    State,
)
from enrich.base.schemas import NOT_NULL
from enrich.base.spec import (
    FAILED_COLUMN,
    KEY_NOT_NULL,
    OPERATION,
    RUN_ID_COLUMN,
    Affected,
    name_left_key,
    quote,
)
from enrich.base.suites import MASS_CHANGE, list_needed_columns
from enrich.delta import extents, reads, sink, tables
from enrich.delta.runs import INTENT, RunRow, RunsTable
from enrich.delta.sink import Commit
from enrich.delta.tables import keeps_values
from enrich.frames import difference
from enrich.frames.columns import is_within
from enrich.frames.difference import Difference, Identity, QuarantineIdentity, complete_rows, mark_violations
from enrich.joins import find_kind
from enrich.progress import cursor
from enrich.progress.plan import REPAIR, Plan
from enrich.steps import commits
from enrich.steps.gate import JudgedRows
from enrich.steps.rows import make_no_rows
from enrich.steps.run import Run, identify_rows, measure, read_target
from enrich.steps.source_changes import Changes
from enrich.steps.state import carry_state


@dataclass(frozen=True)
class StagedRun:
    """What a run is about to write.

    Attributes:
        target: The difference to the target.
        quarantine: The difference to the quarantine; None when there is nothing to write.
        replaces_quarantine: True when the rows of ``quarantine`` are all rows, written in place of a table that cannot
            hold them as it is.
        whole: All rows, when the target is written anew because its old rows are not this job's.
        compared: False when the target's rows have another key or other types than the new ones.
        state: What the target will hold; None until it is counted.
    """

    target: Difference
    quarantine: Difference | None = None
    replaces_quarantine: bool = False
    whole: DataFrame | None = None
    compared: bool = True
    state: State | None = None

    @property
    def changes(self) -> bool:
        """True when target or quarantine are not yet as they should be."""
        differs = self.quarantine is not None and (not self.quarantine.is_empty or self.replaces_quarantine)
        return differs or not self.target.is_empty


@measure("difference")
def stage_difference(run: Run, changed: Changes, verdict: JudgedRows, affected: Affected | None) -> StagedRun:
    """Compare the judged rows with the target and with the quarantine."""
    plan = run.plan
    pass_point("staged.before")
    identity = identify_rows(plan)
    whole, old = None, read_target(run)
    if plan.rewrites:
        whole = verdict.good.select(*[F.col(quote(name)) for name in plan.spec.columns])
        old = _find_comparable_rows(run, verdict.good)
    is_limited = any(rule.rule == MASS_CHANGE for rule in plan.job.rules)
    repairs = plan.mode == REPAIR  # others may have written to the table
    counts_all = plan.everything or plan.recorded_state is None  # the state is, and no old value is needed for it
    found = difference.compute_difference(
        verdict.good,
        old,
        identity,
        affected,
        has_copies=repairs,
        emptied_in=plan.list_recorded(plan.spec.columns) if is_limited and not repairs else (),
        remember=None if counts_all else list_needed_columns(plan.suite, plan.spec.columns),
        counted=verdict.tally.get("rows"),
    )
    beside, replaces = _stage_quarantine(run, changed, verdict, affected)
    pass_point("staged.after")
    return StagedRun(found, beside, replaces, whole, compared=old is not None)


def _find_comparable_rows(run: Run, rows: DataFrame) -> DataFrame | None:
    """Return the target's rows when they can be compared with ``rows``: the same key, of the same types."""
    table, identity = read_target(run), identify_rows(run.plan)
    keys = (*identity.left, *identity.right)
    if table is None or any(name not in table.columns for name in keys):
        return None
    same = all(table.schema[name].dataType == rows.schema[name].dataType for name in keys)
    return table if same else None


def _stage_quarantine(
    run: Run, changed: Changes, verdict: JudgedRows, affected: Affected | None
) -> tuple[Difference | None, bool]:
    """Compare what is quarantined, with a key and without, with the quarantine table.

    Returns:
        The difference, None when there is nothing to write; and whether it replaces all rows of the table.
    """
    plan = run.plan
    before = plan.target.quarantine
    replaces = before is not None and (plan.rewrites or (plan.everything and not _can_hold(before.table, verdict.good)))
    driving, without_key = plan.spec.driving, None
    # Without a quarantine nothing lacked its key before; then only the window can have brought such rows.
    lacking = any(each.expectation == "key_not_null" and each.source == driving for each in changed.findings)
    if before is not None or lacking or (driving in changed.net and changed.net[driving].null_images > 0):
        rows = run.keep(run.snapshot(driving, null_keys=True))
        if not rows.isEmpty():
            rows = find_kind(plan.spec).show_keyless(run, rows)
            without_key = run.keep(rows.withColumn(FAILED_COLUMN, F.array(F.lit(KEY_NOT_NULL))))
    if before is None and verdict.bad is None and without_key is None:
        return None, False
    identity = _identify_quarantined_rows(plan, verdict.good)
    nothing = verdict.good.limit(0).withColumn(FAILED_COLUMN, F.array().cast("array<string>"))
    bad = difference.stage_quarantined_rows(
        verdict.bad if verdict.bad is not None else nothing, without_key, identity.columns
    )
    table = None
    if before is not None and (not replaces or _can_hold(before.table, verdict.good)):
        names, place = [*plan.spec.columns, FAILED_COLUMN], before.table
        table = run.keep(reads.read_snapshot(run.session, place.uri, place.version, names, like=verdict.good))
    found = difference.compute_difference(bad, None if replaces else table, identity, affected, has_copies=True)
    if replaces and table is not None:  # all rows are written, but those that were there before are not new
        counted = difference.compute_difference(bad, table, identity, affected, has_copies=True)
        found = replace(found, inserted=counted.inserted)
    # A quarantine of which nobody knows what it contains gets a record that says so, whether its rows are right or not.
    if found.is_empty and not replaces and (before is None or before.present is not None):
        return None, False
    return replace(found, rows=found.rows.withColumn(RUN_ID_COLUMN, F.lit(plan.run_id))), replaces


def _can_hold(table: tables.TableState, rows: DataFrame) -> bool:
    """Return whether a quarantine has the types of ``rows``; columns and fields that came later it may lack."""
    kinds = {field.name: field.dataType.jsonValue() for field in rows.schema.fields}
    ours = {name: kind for name, kind in table.columns.items() if name not in (FAILED_COLUMN, RUN_ID_COLUMN)}
    return all(name in kinds and keeps_values(kind, kinds[name]) for name, kind in ours.items())


def _identify_quarantined_rows(plan: Plan, rows: DataFrame) -> QuarantineIdentity:
    columns = tuple(rows.schema[name] for name in plan.spec.columns)
    keys = identify_rows(plan)
    return QuarantineIdentity(keys.left, keys.right, keys.has_pairs, columns)


@measure("write")
def write_run(run: Run, result: JobResult, found: StagedRun, runs: RunsTable) -> JobResult:
    """Count what is staged and, unless this is a dry run, write it and prove that the commit is ours.

    Args:
        run: The job's run.
        result: What is known of its result.
        found: What is to be written.
        runs: Where the intent is written before the target is touched.
    """
    plan, target = run.plan, found.target
    counts = replace(
        result.counts,
        inserted=target.inserted,
        updated=target.updated,
        deleted=target.deleted,
        quarantined=found.quarantine.inserted if found.quarantine is not None else 0,
    )
    status = CREATED if plan.target.table is None else UPDATED if found.changes else UNCHANGED
    result = replace(result, status=status, counts=counts)
    if status == UNCHANGED and not plan.advances:  # what was computed again is as it was
        return _end_unmoved(run, result)
    before, whole = plan.target.quarantine, found.whole
    # Stop before anything is written when the target or its quarantine would refuse rows.
    if found.changes and plan.target.table is not None:
        rows = target.rows if whole is None else whole
        _refuse_rows(run, ("the target", plan.target.table), rows, identify_rows(plan), replaces=whole is not None)
    if found.quarantine is not None and before is not None and found.changes:
        keys, replaces = _identify_quarantined_rows(plan, found.quarantine.rows), found.replaces_quarantine
        _refuse_rows(run, ("the quarantine", before.table), found.quarantine.rows, keys, replaces=replaces)
    if plan.dry_run:
        version = plan.target.table.version if plan.target.table else None
        return replace(result, target_version=version, strategy=_name_strategy(plan, found))
    return _commit_run(run, result, found, runs)


@measure("write")
def write_cursor(run: Run, result: JobResult, runs: RunsTable) -> JobResult:
    """Record the new versions in a commit without data; columns that a source gained come along."""
    plan = run.plan
    if plan.dry_run or not plan.advances:
        return _end_unmoved(run, result)
    nothing = StagedRun(Difference(make_no_rows(run)), state=carry_state(run))
    return _commit_run(run, replace(result, status=UNCHANGED), nothing, runs)


def _end_unmoved(run: Run, result: JobResult) -> JobResult:
    """End a run that has no row to write and no version to record; a first reader may still need the change feed."""
    plan = run.plan
    table = plan.target.table
    assert table is not None  # noqa: S101 - an incremental run has a target
    if plan.needs_feed and not plan.dry_run:
        sink.enable_change_feed(run.session, plan.place.name)
    return replace(result, status=UNCHANGED, target_version=table.version, strategy=NOTHING)


def _commit_run(run: Run, result: JobResult, found: StagedRun, runs: RunsTable) -> JobResult:
    """Write intent, quarantine and target, in this order, and find both commits in the logs."""
    plan, table = run.plan, run.plan.target.table
    record = _write_intent(plan, found, runs)
    if found.quarantine is not None:
        _write_quarantine(run, found, record)
    result = replace(result, number=record.number, strategy=_name_strategy(plan, found), state=found.state)

    def landed(version: int) -> None:
        commits.refuse_drift(plan, version)
        run.committed(replace(result, target_version=version))

    commit = Commit(
        plan.place.label,
        lambda: _locate(run, quarantined=False),
        None if table is None else table.version,
        cursor.name_application(plan.job.job),
        record.number,
        record.to_json(),
        lambda written: cursor.is_of_run(written, plan.run_id),
        require=lambda: commits.refuse_if_beaten(plan),
        lost=lambda: commits.refuse_if_beaten(plan),
        landed=landed,
    )
    version = sink.commit_and_prove(commit, lambda: _write_target(run, found, commit))
    result, uri = replace(result, target_version=version), _locate(run, quarantined=False)
    with suppress(EnrichError):  # where the log cannot be read, the commit is made all the same, and the run is done
        return replace(result, written=extents.measure_commit(uri, version) if uri is not None else None)
    return result


def _name_strategy(plan: Plan, found: StagedRun) -> str:
    """Return what is done to the target, as a result names it."""
    if plan.target.table is None:
        return CREATE
    if found.whole is not None:
        return REWRITE
    if not found.target.operations:
        return CURSOR
    return MERGE if sink.touches_rows(found.target.operations) else APPEND


def _write_intent(plan: Plan, found: StagedRun, runs: RunsTable) -> cursor.Cursor:
    """Write the intent under the next number, and return it: the record of both commits.

    The number is one more than the planned state's, so that Delta skips a run that wakes up after another one has
    committed. A target that is created has no such state: its number is beyond those of all intents. The quarantine's
    commits are counted by themselves, from 1 when it is created: with its number goes the run that wrote it.
    """
    pass_point("intent.before")
    before = plan.target.quarantine
    number = (runs.last_number(plan.place.label) if plan.target.table is None else plan.target.number) + 1
    beside: tuple[int, str | None] = (0, None)
    if found.quarantine is not None:
        beside = (before.number + 1 if before is not None else 1, plan.run_id)
    elif before is not None:  # the target's record may know longer than its own log which run its rows come from
        known, writer = plan.target.cursor, before.run_id
        if writer is None and known is not None and before.belongs_to(known):
            writer = known.quarantine_run
        beside = (before.present or 0, writer)
    assert found.state is not None  # noqa: S101 - counted before anything is written
    record = plan.cursor(number, beside, found.state)
    runs.append(RunRow(plan.run_id, plan.job.job, plan.place.label, INTENT, record.to_dict(), number, mode=plan.mode))
    pass_point("intent.after")
    return record


def _locate(run: Run, *, quarantined: bool) -> str | None:
    """Return where the target or its quarantine is by now; None when the catalog does not know it."""
    place = run.plan.place
    location = find_quarantine(place.location) if quarantined else place.location
    return location if isinstance(location, str) else reads.find_catalog_location(run.session, location.parts)


def _describe_table(plan: Plan, rows: DataFrame, *, quarantined: bool) -> sink.NewTable:
    """Return how the target or its quarantine is made: deletion vectors, statistics of key and clustering columns."""
    place, target = plan.place, plan.job.target
    properties = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "50"}
    wanted = [*plan.spec.identity, *plan.spec.right_identity, *target.cluster_by]
    properties |= sink.choose_statistics(rows, wanted)
    if quarantined:
        return sink.NewTable(place.quarantine_name, place.quarantine_uri, properties)
    if place.change_feed:
        properties[tables.CHANGE_FEED] = "true"
    return sink.NewTable(place.name, place.uri, properties, target.cluster_by)


def _write_target(run: Run, found: StagedRun, commit: Commit) -> None:
    plan = run.plan
    pass_point("target.before")
    if plan.target.table is None or plan.place.uri is None:
        rows = found.target.rows.select(*[F.col(quote(name)) for name in plan.spec.columns])
        sink.create_table(run.session, _describe_table(plan, rows, quarantined=False), rows, commit)
        return
    if plan.needs_feed:
        sink.enable_change_feed(run.session, plan.place.name)
    if found.whole is not None:
        sink.overwrite_table(run.session, _describe_table(plan, found.whole, quarantined=False), found.whole, commit)
        return
    changed = match_rows(found.target, identify_rows(plan), plan.place.uri)
    sink.write_difference(run.session, plan.place.uri, changed, commit)


def _write_quarantine(run: Run, found: StagedRun, record: cursor.Cursor) -> None:
    """Write the quarantine, ahead of the target: a run that ends in between leaves one that contains later versions."""
    plan, before = run.plan, run.plan.target.quarantine
    pass_point("quarantine.before")
    commits.refuse_if_beaten(plan)
    own = Commit(
        f"the quarantine of {plan.job.job!r}",
        lambda: _locate(run, quarantined=True),
        before.table.version if before is not None else None,
        cursor.name_application(plan.job.job),
        record.quarantine,
        record.to_json(),
        lambda written: cursor.is_of_run(written, plan.run_id),
        require=lambda: commits.refuse_if_beaten_beside(plan),
        lost=lambda: commits.refuse_if_beaten(plan),
    )
    sink.commit_and_prove(own, lambda: _put_quarantine(run, found, own))
    pass_point("quarantine.after")


def _put_quarantine(run: Run, found: StagedRun, own: Commit) -> None:
    plan, before, beside = run.plan, run.plan.target.quarantine, found.quarantine
    assert beside is not None  # noqa: S101 - callers have looked
    rows = beside.rows.select(*[F.col(quote(name)) for name in (*plan.spec.columns, FAILED_COLUMN, RUN_ID_COLUMN)])
    if before is None:
        sink.create_table(run.session, _describe_table(plan, rows, quarantined=True), rows, own)
    elif found.replaces_quarantine:
        table = replace(_describe_table(plan, rows, quarantined=True), uri=before.table.uri)
        sink.overwrite_table(run.session, table, rows, own)
    else:
        identity = _identify_quarantined_rows(plan, beside.rows)
        stored = reads.fit_columns(run.session, before.table.uri, identity.columns, "t.")
        identity = replace(identity, stored=stored)
        changed = match_rows(beside, identity, before.table.uri)
        sink.write_difference(run.session, before.table.uri, changed, own)


# --- Which rows of its table a staged row matches, and between which keys the table is looked into for them ----------

_MATCHES = "__enrich_matches"


def match_rows(found: Difference, identity: Identity, uri: str) -> sink.Changed:
    """Return the staged rows and what they match in the table at ``uri``, below ``t``.

    Where rows may have copies, inserts match none: beside one there may be a ``D`` that takes all rows of its key.
    """
    if found.has_copies:
        rows = found.rows.withColumn(_MATCHES, F.col(OPERATION) != "I")
        return sink.Changed(rows, {**identity.of("t."), _MATCHES: F.lit(True)}, True, found.operations)
    changed = sink.Changed(found.rows, identity.of("t."), bool(identity.right), found.operations)
    if identity.right or not sink.touches_rows(found.operations):  # the left key may be null; an append reads nothing
        return changed
    names = zip(identity.left, name_left_key(len(identity.left)), strict=True)
    ranges = {column: found.ranges[name] for column, name in names if name in found.ranges}
    bounds = extents.find_bounds(uri, ranges)
    return replace(changed, near=[is_within(F.col("t." + quote(column)), ends) for column, ends in bounds.items()])


# --- What a table demands of its rows, looked at before anything is written: Delta would tell the values ------------


def _refuse_rows(
    run: Run, written: tuple[str, tables.TableState], rows: DataFrame, identity: Identity, *, replaces: bool
) -> None:
    """Stop before a commit that a table would refuse.

    Args:
        run: The job's run.
        written: The table as messages name it, and as it is.
        rows: The identity's columns, ``OPERATION`` and the columns; all columns alone where they replace the table.
        identity: How rows are told apart.
        replaces: Whether all rows and the schema are written anew, which keeps no other constraints than CHECK.

    Raises:
        Blocked: Naming the constraints and how many rows each refuses.
    """
    what, table = written
    if not table.demands.constraints:
        return
    constraints = [each for each in table.demands.constraints if not (replaces and each.path)]
    stored = None
    if not replaces:
        stored = reads.read_snapshot(run.session, table.uri, table.version, list(table.columns))
    rows = complete_rows(rows, stored, identity, table.demands)
    _, found = mark_violations(rows, constraints)
    if found:
        told = "; ".join(f"{each} ({count} {'row' if count == 1 else 'rows'})" for each, (_, count) in found.items())
        drop = "ALTER COLUMN ... DROP NOT NULL" if next(iter(found)).type == NOT_NULL else "DROP CONSTRAINT ..."
        raise Blocked(
            f"{what} refuses rows of {run.plan.job.job!r}, nothing was written: {told}",
            hint=f"correct the rows in the sources, leave them out with where: or a rule that quarantines, or take the"
            f" constraint away with ALTER TABLE delta.`{table.uri}` {drop}; then run again",
        )
