"""Stage the difference, and write it: the quarantine's commit, the target's with the cursor, and their proof.

A run that ends between its two commits is set right by the next one's plan (``progress.continuity.find_apart``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base import result as results
from enrich.base.errors import Blocked, Conflict, EnrichError, Locked, SourceMoved
from enrich.base.failpoints import pass_point
from enrich.base.failures import find_value_fault
from enrich.base.names import find_quarantine
from enrich.base.result import JobResult, Proof, State, add_proofs
from enrich.base.schemas import NOT_NULL
from enrich.base.spec import FAILED_COLUMN, KEY_NOT_NULL, KEY_UNIQUE, KEYLESS, OPERATION, RUN_ID_COLUMN, Affected, quote
from enrich.base.suites import MASS_CHANGE, list_needed_columns
from enrich.delta import extents, reads, sink, tables
from enrich.delta.runs import INTENT, RunRow, RunsTable
from enrich.delta.sink import Commit
from enrich.delta.tables import keeps_values
from enrich.frames import difference
from enrich.frames.columns import unite
from enrich.frames.difference import Difference, Identity, QuarantineIdentity, complete_rows, mark_violations
from enrich.joins import find_kind
from enrich.progress import cursor
from enrich.progress.plan import Plan
from enrich.steps.gate import JudgedRows
from enrich.steps.rows import Rows, describe_table, make_no_rows, select_live_rows
from enrich.steps.run import Run, identify_rows, measure, read_target
from enrich.steps.source_changes import Changes
from enrich.steps.state import carry_state

_MATCHES = "__enrich_matches"


@dataclass(frozen=True)
class StagedTable:
    """What is about to be written to one table."""

    difference: Difference
    identity: Identity
    table: tables.TableState | None  # the table as it is; None: it is created
    # All rows, where they are written in place of the table's: of another job, or of other types.
    whole: DataFrame | None = None

    @property
    def is_quarantine(self) -> bool:
        """True for the quarantine, False for the target."""
        return isinstance(self.identity, QuarantineIdentity)

    @property
    def strategy(self) -> str:
        """What is done to the table, as a result names it."""
        if self.table is None:
            return results.CREATE
        if self.whole is not None:
            return results.REWRITE
        if not self.difference.operations:
            return results.CURSOR
        return results.MERGE if sink.touches_rows(self.difference.operations) else results.APPEND


@dataclass(frozen=True)
class StagedRun:
    """What a run is about to write: to the target, and to the quarantine if there is anything."""

    target: StagedTable
    quarantine: StagedTable | None = None
    compared: bool = True  # False when the target's rows have another key or other types than the new ones
    state: State | None = None  # what the target will hold; None until it is counted
    held: Proof | None = None  # of what the quarantine will hold

    @property
    def changes(self) -> bool:
        """True when target or quarantine are not yet as they should be."""
        beside = self.quarantine
        differs = beside is not None and (not beside.difference.is_empty or beside.whole is not None)
        return differs or not self.target.difference.is_empty


@measure("difference")
def stage_difference(
    run: Run, changed: Changes, rows: Rows, verdict: JudgedRows, affected: Affected | None
) -> StagedRun:
    """Compare the judged rows with the target and with the quarantine."""
    plan = run.plan
    pass_point("staged.before")
    identity = identify_rows(plan)
    table = plan.target.table
    places = run.wants_places
    small = table is not None and not places and sink.is_small(table.uri)
    whole, compared, old = None, affected, read_target(run, places=places, noted=small)
    if old is not None and affected is not None and places and not affected.has_few_places(len(plan.spec.columns)):
        known = select_live_rows(run, rows.before) if rows.before is not None else None
        if known is None and changed.have_come(plan.spec.driving, affected):
            known = verdict.good.limit(0)
        # One look at keys may spare a read of all columns.
        placed = None if known is None else difference.place_rows(old, known, identity, affected, run.keep)
        old, compared = (old, compared) if placed is None else (placed, None)
    if plan.rewrites:
        whole = verdict.good.select(*[F.col(quote(name)) for name in plan.spec.columns])
        kinds = {} if old is None else {each.name: each.dataType for each in old.schema}
        if any(verdict.good.schema[name].dataType != kinds.get(name) for name in (*identity.left, *identity.right)):
            old = None
    is_limited = any(rule.rule == MASS_CHANGE for rule in plan.rules)
    counts_all = plan.everything or plan.recorded_state is None  # the state is, and no old value is needed for it
    with sink.hold_settings(run.session, {sink.BROADCAST: "-1"} if small else {}):
        found = difference.compute_difference(
            verdict.good,
            old,
            identity,
            replace(compared, count=0) if compared is not None and small else compared,  # uncounted keys are not sent
            has_copies=plan.has_copies,
            emptied_in=plan.list_recorded(plan.spec.columns) if is_limited and not plan.has_copies else (),
            remember=None if counts_all else list_needed_columns(plan.suite, plan.spec.columns),
            counted=verdict.tally.get("rows"),
            keep_old=table is not None and table.has_change_feed,
            write_row=None if counts_all else plan.write_row,
        )
    beside, held = _stage_quarantine(run, changed, verdict, affected)
    pass_point("staged.after")
    return StagedRun(StagedTable(found, identity, table, whole), beside, compared=old is not None, held=held)


def _stage_quarantine(
    run: Run, changed: Changes, verdict: JudgedRows, affected: Affected | None
) -> tuple[StagedTable | None, Proof | None]:
    """Compare what is quarantined, with a key and without, with the quarantine; None when there is nothing to write.

    Beside it stands what will prove the quarantine.
    """
    plan, before = run.plan, run.plan.target.quarantine
    fits = True
    if before is not None:  # columns and fields that came later it may lack
        kinds = {field.name: field.dataType.jsonValue() for field in verdict.good.schema.fields}
        ours = {name: kind for name, kind in before.table.columns.items() if name not in (FAILED_COLUMN, RUN_ID_COLUMN)}
        fits = all(name in kinds and keeps_values(kind, kinds[name]) for name, kind in ours.items())
    replaces = before is not None and (plan.rewrites or (plan.everything and not fits))
    driving, without_key = plan.spec.driving, None
    # Without a quarantine nothing lacked its key before; then only the window can have brought such rows.
    lacking = any(each.expectation in KEYLESS and each.source == driving for each in changed.findings)
    if before is not None or lacking or (driving in changed.net and changed.net[driving].null_images > 0):
        shown = []
        kept = ((KEY_NOT_NULL, run.snapshot(driving, null_keys=True)), (KEY_UNIQUE, run.read_held(driving)))
        for rule, rows in [(rule, run.keep(rows)) for rule, rows in kept if rows is not None]:
            if not rows.isEmpty():
                alone = find_kind(plan.spec).show_keyless(run, rows)
                shown.append(run.keep(alone.withColumn(FAILED_COLUMN, F.array(F.lit(rule)))))
        without_key = unite(shown) if shown else None
    if before is None and verdict.bad is None and without_key is None:
        return None, plan.target.held
    keys, names = identify_rows(plan), [*plan.spec.columns, FAILED_COLUMN]
    columns = tuple(verdict.good.schema[name] for name in plan.spec.columns)
    identity = QuarantineIdentity(keys.left, keys.right, keys.has_pairs, columns)
    nothing = verdict.good.limit(0).withColumn(FAILED_COLUMN, F.array().cast("array<string>"))
    with_key = verdict.bad if verdict.bad is not None else nothing
    bad = difference.stage_quarantined_rows(with_key, without_key, identity.columns)
    table = None
    if before is not None and (fits or not replaces):
        place = before.table
        places = not replaces and sink.wants_places(place)
        table = run.keep(
            reads.read_snapshot(run.session, place.uri, place.version, names, like=verdict.good, places=places)
        )
    prove = partial(difference.compute_difference, bad, has_copies=True, write_row=plan.write_row)
    found = prove(None if replaces else table, identity, affected)
    held = found.proof
    if not replaces and table is not None:  # others may have written into it: all rows are proven by what they shall be
        held = add_proofs(plan.target.held, held) if affected is not None else prove(None, identity).proof
    if replaces and table is not None:  # all rows are written, but those that were there before are not new
        counted = difference.compute_difference(bad, table, identity, affected, has_copies=True)
        found = replace(found, inserted=counted.inserted)
    # A quarantine of which nobody knows what it contains gets a record that says so, whether its rows are right or not.
    is_known = before is None or (before.present is not None and not before.is_edited)
    if found.is_empty and not replaces and is_known:
        return None, held
    staged = found.rows.withColumn(RUN_ID_COLUMN, F.lit(plan.run_id))
    whole = staged.select(*[F.col(quote(name)) for name in (*names, RUN_ID_COLUMN)]) if replaces else None
    return StagedTable(replace(found, rows=staged), identity, None if before is None else before.table, whole), held


@measure("write")
def write_run(run: Run, result: JobResult, found: StagedRun, runs: RunsTable) -> JobResult:
    """Count what is staged and, unless this is a dry run, write it after the intent, and prove the commits."""
    plan, new, beside = run.plan, found.target.difference, found.quarantine
    held = beside.difference.inserted if beside is not None else 0
    counts = replace(result.counts, inserted=new.inserted, updated=new.updated, deleted=new.deleted, quarantined=held)
    status = results.CREATED if plan.target.table is None else results.UPDATED if found.changes else results.UNCHANGED
    result = replace(result, status=status, counts=counts)
    if status == results.UNCHANGED and not plan.advances:  # what was computed again is as it was
        return _end_unmoved(run, result)
    for staged in (found.target, found.quarantine):
        if staged is not None and found.changes:
            _refuse_rows(run, staged)
    if plan.options.dry_run:
        version = plan.target.table.version if plan.target.table else None
        return replace(result, target_version=version, strategy=found.target.strategy)
    return _commit_run(run, result, found, runs)


@measure("write")
def write_cursor(run: Run, result: JobResult, runs: RunsTable) -> JobResult:
    """Record the new versions in a commit without data; columns that a source gained come along."""
    plan = run.plan
    if plan.options.dry_run or not plan.advances:
        return _end_unmoved(run, result)
    nothing = StagedTable(Difference(make_no_rows(run)), identify_rows(plan), plan.target.table)
    staged = StagedRun(nothing, state=carry_state(run), held=plan.target.held)
    return _commit_run(run, replace(result, status=results.UNCHANGED), staged, runs)


def _end_unmoved(run: Run, result: JobResult) -> JobResult:
    """End a run that has no row to write and no version to record; a first reader may still need the change feed."""
    plan = run.plan
    assert plan.target.table is not None  # noqa: S101 - an incremental run has a target
    if not plan.options.dry_run:
        sink.prepare_target(run.session, plan.place.name, plan.new_comments, feed=plan.needs_feed)
    return replace(result, status=results.UNCHANGED, target_version=plan.target.table.version, strategy=results.NOTHING)


def _commit_run(run: Run, result: JobResult, found: StagedRun, runs: RunsTable) -> JobResult:
    """Write intent, quarantine and target, in this order, and find both commits in the logs."""
    plan = run.plan
    record = _write_intent(plan, found, runs)
    if found.quarantine is not None:  # a run that ends before the target's commit leaves one with later versions
        pass_point("quarantine.before")
        refuse_if_beaten(plan)
        _commit(run, found.quarantine, record)
        pass_point("quarantine.after")
    result = replace(result, number=record.number, strategy=found.target.strategy, state=found.state)

    def landed(version: int) -> None:
        refuse_drift(plan, version)
        run.committed(replace(result, target_version=version))

    pass_point("target.before")
    version = _commit(run, found.target, record, landed)
    result, uri = replace(result, target_version=version), _locate(run, found.target)
    with suppress(EnrichError):  # where the log cannot be read, the commit is made all the same, and the run is done
        return replace(result, written=extents.measure_commit(uri, version) if uri is not None else None)
    return result


def _write_intent(plan: Plan, found: StagedRun, runs: RunsTable) -> cursor.Cursor:
    """Write the intent under the next number, and return it: the record of both commits.

    The number is one more than the planned state's, so that Delta skips a run that wakes up after another one has
    committed; without a target, beyond those of all intents. The quarantine's commits are counted by themselves. A
    source that is another table by now is a SourceMoved: what was read of it may not be what the record names.
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
    record = plan.cursor(number, beside, found.state, found.held)
    for alias, mark in record.sources.items():
        if mark.commit is not None and tables.fingerprint(plan.tables[alias].uri, mark.to) not in (None, mark.commit):
            raise SourceMoved(f"another table has taken the place of source {alias!r} meanwhile", hint="run again")
    runs.append(RunRow(plan.run_id, plan.job.job, plan.place.label, INTENT, record.to_dict(), number, mode=plan.mode))
    pass_point("intent.after")
    return record


def _commit(
    run: Run, staged: StagedTable, record: cursor.Cursor, landed: Callable[[int], None] = lambda _: None
) -> int:
    """Write one of the two tables in one commit with the record, and return its version."""
    plan, table, beside = run.plan, staged.table, staged.is_quarantine
    commit = Commit(
        f"the quarantine of {plan.job.job!r}" if beside else plan.place.label,
        lambda: _locate(run, staged),
        None if table is None else table.version,
        cursor.name_application(plan.job.job),
        record.quarantine_number if beside else record.number,
        record.to_json(),
        lambda written: cursor.is_of_run(written, plan.run_id),
        require=lambda: refuse_if_beaten(plan, beside=beside),
        lost=lambda: refuse_if_beaten(plan),
        landed=landed,
    )
    return sink.commit_and_prove(commit, lambda: _write(run, staged, commit))


def _locate(run: Run, staged: StagedTable) -> str | None:
    """Return where the target or its quarantine is by now; None when the catalog does not know it."""
    if staged.table is not None:
        return staged.table.uri  # without Spark, whose JVM a signal may have ended
    location = find_quarantine(run.plan.place.location) if staged.is_quarantine else run.plan.place.location
    return location if isinstance(location, str) else reads.find_catalog_location(run.session, location.parts)


def _write(run: Run, staged: StagedTable, commit: Commit) -> None:
    """Create a table, write all rows in its place, or apply the difference."""
    plan, found, identity, table = run.plan, staged.difference, staged.identity, staged.table
    if table is not None and not staged.is_quarantine:
        sink.prepare_target(run.session, plan.place.name, plan.new_comments, feed=plan.needs_feed)
    if table is None and run.draft is not None and not staged.is_quarantine:
        sink.commit_draft(run.session, run.draft, commit)
    elif table is None:
        names = [name for name in found.rows.columns if name not in (*identity.names, OPERATION)]
        rows = found.rows.select(*[F.col(quote(name)) for name in names])
        sink.create_table(run.session, describe_table(plan, rows, None, beside=staged.is_quarantine), rows, commit)
    elif staged.whole is not None:
        described = describe_table(plan, staged.whole, table, beside=staged.is_quarantine)
        sink.overwrite_table(run.session, described, staged.whole, commit)
    else:
        if isinstance(identity, QuarantineIdentity):
            there = run.session.read.format("delta").load(table.uri).schema
            identity = replace(identity, stored=reads.fit_columns(there, identity.columns, "t."))
        rows, matches, has_nulls = found.rows, identity.of("t."), bool(identity.right)
        if found.has_copies:  # an insert matches no row: beside it there may be a ``D`` that takes all rows of its key
            rows, has_nulls = rows.withColumn(_MATCHES, F.col(OPERATION) != "I"), True
            matches = {**matches, _MATCHES: F.lit(True)}
        changed = sink.Changed(rows, matches, has_nulls, found.operations, old=found.old, replaced=found.replaced)
        sink.write_difference(run.session, table.uri, changed, commit)


def _refuse_rows(run: Run, staged: StagedTable) -> None:
    """Stop before a commit that a table would refuse: Delta would tell the values.

    Raises:
        Blocked: Naming the constraints and how many rows each refuses.
    """
    table, rows, stored = staged.table, staged.whole, None
    if table is None or not table.demands.constraints:
        return
    constraints = table.demands.constraints
    if rows is None:
        rows = staged.difference.rows
        stored = reads.read_snapshot(run.session, table.uri, table.version, list(table.columns))
    else:  # with the schema, only CHECK stays
        constraints = tuple(each for each in constraints if not each.path)
    what = "quarantine" if staged.is_quarantine else "target"
    try:
        _, found = mark_violations(complete_rows(rows, stored, staged.identity, table.demands), constraints)
    except (PySparkException, Py4JJavaError) as error:
        if find_value_fault(error) is None:
            raise
        said = f"a constraint or a generated column of the {what} of {run.plan.job.job!r} cannot be computed for a row"
        hint = "correct the row in the sources, or the table's constraints; then run again"
        raise Blocked(f"{said}, nothing was written", hint=hint) from error
    if found:
        told = "; ".join(f"{each} ({count} {'row' if count == 1 else 'rows'})" for each, (_, count) in found.items())
        drop = "ALTER COLUMN ... DROP NOT NULL" if next(iter(found)).type == NOT_NULL else "DROP CONSTRAINT ..."
        raise Blocked(
            f"the {what} refuses rows of {run.plan.job.job!r}, nothing was written: {told}",
            hint=f"correct the rows in the sources, leave them out with where: or a rule that quarantines, or take the"
            f" constraint away with ALTER TABLE delta.`{table.uri}` {drop}; then run again",
        )


def refuse_if_beaten(plan: Plan, *, beside: bool = False) -> None:
    """Raise when the target, or the quarantine ``beside`` it, is no longer what the run was planned on.

    Delta refuses a number that it knows; but ``delta.setTransactionRetentionDuration`` may let it forget numbers. And
    an append conflicts with nothing: it would double rows that a RESTORE has brought back since.

    Raises:
        Locked: Another run has written the target.
        Conflict: Another run is between its two commits, or others have changed or dropped what this run goes on from.
    """
    job, there = plan.job.job, plan.target.quarantine if beside else plan.target
    if there is None:
        return
    table, uri = there.table, plan.place.uri if there.table is None else there.table.uri
    log = tables.open_log(uri) if uri is not None and tables.exists(uri) else None
    number = None if log is None else cursor.find_number(log, job, cursor.BESIDE if beside else cursor.NUMBER)
    if log is not None and number not in (None, there.number):
        if beside:
            raise Conflict(f"another run is writing the quarantine of {job!r}", hint="run again")
        records = map(cursor.read_run, tables.read_history(log, tables.RECENT))
        winner = next((found["run_id"] for found in records if "run_id" in found), "another run")
        raise Locked(f"run {winner} has written the target of {job!r} meanwhile", hint="run again")
    if table is None or plan.rewrites:
        return
    if log is None or str(log.metadata().id) != table.table_id or _list_drift(plan, table, log, log.version() + 1):
        raise Conflict(f"others have changed the {'quarantine' if beside else 'target'} of {job!r}", hint="run again")


def refuse_drift(plan: Plan, version: int) -> None:
    """Raise ``DriftError`` when others' rows came between plan and commit; Delta sees only what overlaps."""
    table = plan.target.table
    if table is not None and (changing := _list_drift(plan, table, tables.open_log(table.uri), version)):
        raise cursor.describe_drift(plan.job.job, changing)


def _list_drift(plan: Plan, table: tables.TableState, log: tables.Log, version: int) -> tuple[int, ...]:
    """Return the commits of others that changed rows of a table between the plan and a version, both excluded."""
    entries = tables.read_history(log, log.version() - table.version)
    base = next((cursor.find_base(each) for each in entries if int(each["version"]) == version), None)
    others = cursor.list_others_between(entries, (table.version if base is None else base, version))
    return cursor.list_changing(table.uri, others, plan.spec.columns)
