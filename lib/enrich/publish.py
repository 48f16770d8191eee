"""The difference -> the quarantine's commit, the target's commit with the cursor, and the proof that it is there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from enrich import commits, cursor, join, merge, quarantine, tables
from enrich.clock import timed
from enrich.config.graph import QUARANTINE
from enrich.config.places import sibling
from enrich.errors import Blocked
from enrich.faults import point
from enrich.gate import Judged
from enrich.guards import MASS_CHANGE
from enrich.merge import Commit, Difference
from enrich.prepare import REPAIR, Task
from enrich.result import CREATED, UNCHANGED, UPDATED, JobResult
from enrich.runs import INTENT, RunRow, RunsTable
from enrich.spec import OPERATION, Affected, JoinSpec, quoted
from enrich.stages import Changed, Work, identity_of, no_rows, target_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MATCHES = "__enrich_matches"


@dataclass(frozen=True)
class Held:
    """The quarantine's part of a run.

    Attributes:
        rows: Identity, content, operation and the table's columns; None when nothing differs.
        come: Rows newly held.
        gone: Rows no longer held.
        differing: Rows whose columns or reasons differ.
    """

    rows: DataFrame | None
    come: int = 0
    gone: int = 0
    differing: int = 0


@dataclass(frozen=True)
class Staged:
    """What a run is about to write.

    Attributes:
        target: The difference to the target.
        held: The difference to the quarantine.
        whole: All rows, when the target is written anew because its old rows are not this job's.
        compared: False when the target's rows have another key or other types than the new ones.
    """

    target: Difference
    held: Held
    whole: DataFrame | None = None
    compared: bool = True


@timed("difference")
def staged(work: Work, changed: Changed, verdict: Judged, affected: Affected | None) -> Staged:
    """Compare the judged rows with the target and with the quarantine."""
    from pyspark.sql import functions as F

    task = work.task
    point("staged.before")
    identity = identity_of(task)
    among = merge.identities(affected, identity) if affected is not None else None
    whole, old = None, target_rows(work)
    if task.rewrites:
        whole = verdict.good.select(*[F.col(quoted(name)) for name in task.spec.columns])
        old = _alike(work, verdict.good)
    guarded = any(rule.rule == MASS_CHANGE for rule in task.job.rules)
    found = _compared(work, verdict.good, old, among, count_emptied=guarded)
    _guard(work, found)
    held = _held(work, changed, verdict, among)
    point("staged.after")
    return Staged(found, held, whole, compared=old is not None)


def _guard(work: Work, found: Difference) -> None:
    """Refuse two rows with one key where no search has excluded them: MERGE would insert both.

    Raises:
        Blocked: A source is ``unique: trusted`` and should not be.
    """
    from pyspark.sql import functions as F

    trusted = [alias for alias, source in work.task.spec.sources.items() if source.trusted]
    if not trusted:
        return
    come = found.rows.where(F.col(OPERATION) != "D")
    shared = come.groupBy(*identity_of(work.task).names).count().where(F.col("count") > 1).count()
    if shared:
        raise Blocked(
            f"{shared} keys of {work.task.place.label} would get two rows: {', '.join(map(repr, trusted))} is"
            " `unique: trusted` and is not unique",
            hint="remove the double rows, or `unique: trusted` to have them found",
        )


def _compared(
    work: Work, rows: DataFrame, table: DataFrame | None, among: DataFrame | None, *, count_emptied: bool = False
) -> Difference:
    """Compare rows with a table of ours; for a repair, with one that others may have written to."""
    identity = identity_of(work.task)
    if work.task.mode == REPAIR:
        return merge.discrepancy(rows, table, identity)
    return merge.difference(rows, table, identity, among, count_emptied=count_emptied)


def _alike(work: Work, rows: DataFrame) -> DataFrame | None:
    """Return the target's rows when they can be compared with ``rows``: the same key, and the same types."""
    table, identity = target_rows(work), identity_of(work.task)
    if table is None or any(name not in table.columns for name in (*identity.left, *identity.right)):
        return None
    same = all(table.schema[name].dataType == rows.schema[name].dataType for name in table.columns)
    return table if same else None


def _held(work: Work, changed: Changed, verdict: Judged, among: DataFrame | None) -> Held:
    """Compare what is to be held with the quarantine table; both its parts in one frame."""
    from pyspark.sql import functions as F

    task = work.task
    uri, before = task.place.held_uri, task.target.quarantine
    there = before is not None and not task.rewrites
    # Without a quarantine nothing lacked its key before; then only the window can have brought such rows.
    without_key = _keyless(work) if there or changed.may_lack_keys(task.spec.driving) else None
    if not there and verdict.bad is None and without_key is None:
        return Held(None)
    identity, columns = identity_of(task), list(task.spec.columns)
    table = None
    if there and uri is not None and before is not None:
        names = [*columns, quarantine.FAILED]
        table = work.kept(tables.snapshot(work.session, uri, before.version, names, like=verdict.good))
    keyed = table.where(~quarantine.is_keyless()) if table is not None else None
    nothing = verdict.good.limit(0).withColumn(quarantine.FAILED, F.array().cast("array<string>"))
    found = _compared(work, verdict.bad if verdict.bad is not None else nothing, keyed, among)
    _guard(work, found)
    frame = found.rows.withColumn(quarantine.CONTENT, F.lit(None).cast("string"))
    new = without_key if without_key is not None else nothing.drop(*identity.names)
    old = table.where(quarantine.is_keyless()) if table is not None else nothing.drop(*identity.names)
    lone = quarantine.keyless(new, old, columns)
    work.cleanup.callback(lone.held.unpersist)
    if found.is_empty and not lone.changed:
        return Held(None)
    frame = frame.unionByName(lone.rows, allowMissingColumns=True)
    frame = frame.withColumn(quarantine.RUN_ID, F.lit(task.run_id)).localCheckpoint()
    return Held(frame, found.inserted + lone.come, found.deleted + lone.gone, found.updated)


def _keyless(work: Work) -> DataFrame | None:
    """Return the driving rows with a null in their key as the quarantine holds them; None when there are none."""
    from pyspark.sql import functions as F

    spec = work.task.spec
    rows = work.kept(work.snapshot(spec.driving, null_keys=True))
    if rows.isEmpty():
        return None
    if isinstance(spec, JoinSpec):
        found = join.keyless(work.sources(), rows)
    else:
        keys = [F.col(quoted(name)) for name in spec.key]
        whole = F.array(keys[0] if len(keys) == 1 else F.struct(*keys)).alias(spec.columns[len(spec.value)])
        shown = [whole] if spec.conflict == "collect" else keys
        found = rows.select(*[F.col(quoted(n)) for n in spec.value], *shown, *[F.col(quoted(n)) for n in spec.extra])
    return work.kept(found.withColumn(quarantine.FAILED, F.array(F.lit(quarantine.KEY_NOT_NULL))))


@timed("write")
def written(work: Work, result: JobResult, found: Staged, runs: RunsTable) -> JobResult:
    """Count what is staged and, unless this is a dry run, write it and prove that the commit is ours."""
    task, target = work.task, found.target
    counts = replace(
        result.counts,
        inserted=target.inserted,
        updated=target.updated,
        deleted=target.deleted,
        quarantined=found.held.come,
    )
    changed = not target.is_empty or found.held.rows is not None
    status = CREATED if task.target.table is None else UPDATED if changed else UNCHANGED
    result = replace(result, status=status, counts=counts)
    if status == UNCHANGED and not task.advances:  # what was computed again is as it was
        return _unmoved(work, result)
    if task.dry_run:
        return replace(result, target_version=task.target.table.version if task.target.table else None)
    return _committed(work, result, found, runs)


@timed("write")
def cursor_alone(work: Work, result: JobResult, runs: RunsTable) -> JobResult:
    """Record the new versions in a commit without data; columns that a source gained come along."""
    task = work.task
    if task.dry_run or not task.moved:
        return _unmoved(work, result)
    nothing = Staged(Difference(no_rows(work), 0, 0, 0), Held(None))
    return _committed(work, replace(result, status=UNCHANGED), nothing, runs)


def _unmoved(work: Work, result: JobResult) -> JobResult:
    """End a run that has no row to write and no version to record; a first reader may still need the change feed."""
    task = work.task
    table = task.target.table
    assert table is not None  # noqa: S101 - an incremental run has a target
    if task.needs_feed and not task.dry_run:
        _enable_feed(work)
    return replace(result, status=UNCHANGED, target_version=table.version)


def _committed(work: Work, result: JobResult, found: Staged, runs: RunsTable) -> JobResult:
    """Write intent, quarantine and target, in this order, and find both commits in the logs."""
    task = _intended(work.task, found, runs)
    work = replace(work, task=task)
    task = replace(task, held=_write_quarantine(work, found.held.rows))
    work = replace(work, task=task)
    commit = Commit(cursor.application(task.job.job), task.number, task.cursor().to_json())
    table = task.target.table

    def landed(version: int) -> None:
        commits.refuse_drift(task, version)
        task.committed(replace(result, target_version=version, number=task.number))

    version = commits.settled(
        task,
        commits.Write(
            task.place.label,
            lambda: _where(work, held=False),
            None if table is None else table.version,
            lambda: _write_target(work, found, commit),
            landed,
        ),
    )
    return replace(result, target_version=version, number=task.number)


def _intended(task: Task, found: Staged, runs: RunsTable) -> Task:
    """Write the intent under the next number.

    The number is one more than the planned state's, so that Delta skips a run that wakes up after another one has
    committed. A target that is created has no such state: its number is beyond those of all intents.
    """
    point("intent.before")
    before = task.target.quarantine
    number = (runs.last_number(task.place.label) if task.target.table is None else task.target.number) + 1
    held = cursor.UNKNOWN if _writes_quarantine(task, found.held.rows) else before.version if before else None
    task = replace(task, number=number, held=held)
    record = task.cursor().to_dict()
    runs.append(RunRow(task.run_id, task.job.job, task.place.label, INTENT, record, number, mode=task.mode))
    point("intent.after")
    return task


def _where(work: Work, *, held: bool) -> str | None:
    """Return where the target or its quarantine is by now; None when the catalog does not know it."""
    place = work.task.place
    location = sibling(place.location, QUARANTINE) if held else place.location
    return location if isinstance(location, str) else tables.catalog_location(work.session, location.parts)


def _properties(task: Task, rows: DataFrame) -> dict[str, str]:
    """Return a new table's properties: deletion vectors, statistics of keys and clustering columns alone.

    Delta refuses to keep statistics of binary, boolean and nested columns.
    """
    from pyspark.sql import types as T

    wanted = dict.fromkeys([*task.spec.identity, *task.spec.right_identity, *task.job.target.cluster_by])
    kinds = (T.NumericType, T.StringType, T.DateType, T.TimestampType, T.TimestampNTZType)
    known = {field.name: field.dataType for field in rows.schema.fields}
    measured = [quoted(name) for name in wanted if isinstance(known.get(name), kinds)]
    found = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "50"}
    if measured:
        return {**found, "delta.dataSkippingStatsColumns": ",".join(measured)}
    return {**found, "delta.dataSkippingNumIndexedCols": "0"}


def _write_target(work: Work, found: Staged, commit: Commit) -> None:
    from pyspark.sql import functions as F

    task = work.task
    point("target.before")
    if task.target.table is None or task.place.uri is None:
        rows = found.target.rows.select(*[F.col(quoted(name)) for name in task.spec.columns])
        properties = _properties(task, rows)
        if task.place.change_feed:
            properties[tables.CHANGE_FEED] = "true"
        cluster = task.job.target.cluster_by
        merge.create(work.session, task.place.name, rows, cluster_by=cluster, properties=properties, commit=commit)
        return
    if task.needs_feed:
        _enable_feed(work)
    if found.whole is not None:
        merge.overwrite(work.session, task.place.uri, found.whole, commit)
        return
    rows, same = _matching(task, found.target.rows, identity_of(task).of("t."))
    merge.merge(work.session, task.place.uri, rows, same, commit)


def _matching(task: Task, rows: DataFrame, same: dict[str, Column]) -> tuple[DataFrame, dict[str, Column]]:
    """Let the inserts of a repair match no row: beside one there may be a ``D`` that takes all rows of its key."""
    from pyspark.sql import functions as F

    if task.mode != REPAIR:
        return rows, same
    return rows.withColumn(_MATCHES, F.col(OPERATION) != "I"), {**same, _MATCHES: F.lit(True)}


def _enable_feed(work: Work) -> None:
    """Switch the target's change feed on for its first reader."""
    point("feed.before")
    work.session.sql(
        " ".join(["ALTER TABLE", work.task.place.name, "SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"])
    )
    point("feed.after")


def _writes_quarantine(task: Task, rows: DataFrame | None) -> bool:
    return rows is not None or (task.rewrites and task.target.quarantine is not None)


def _write_quarantine(work: Work, rows: DataFrame | None) -> int | None:
    """Write the quarantine, ahead of the target: until the target's commit names this version, it does not count.

    Returns:
        The version that belongs to the target's new rows; None without a quarantine.
    """
    task, before = work.task, work.task.target.quarantine
    if not _writes_quarantine(task, rows):
        return before.version if before is not None else None
    point("quarantine.before")
    commits.refuse_if_beaten(task)
    number = before.number + 1 if before is not None else 1
    own = Commit(cursor.application(task.job.job), number, task.cursor().to_json())
    version = commits.settled(
        task,
        commits.Write(
            f"the quarantine of {task.job.job!r}",
            lambda: _where(work, held=True),
            before.version if before is not None else None,
            lambda: _put_quarantine(work, rows, own),
        ),
    )
    point("quarantine.after")
    return version


def _put_quarantine(work: Work, rows: DataFrame | None, own: Commit) -> None:
    from pyspark.sql import functions as F

    task, uri, before = work.task, work.task.place.held_uri, work.task.target.quarantine
    names = [*task.spec.columns, quarantine.FAILED, quarantine.RUN_ID]
    columns = [F.col(quoted(name)) for name in names]
    if rows is None or (task.rewrites and before is not None and uri is not None):
        empty = no_rows(work).withColumns(
            {quarantine.FAILED: F.array().cast("array<string>"), quarantine.RUN_ID: F.lit(task.run_id)}
        )
        kept = rows if rows is not None else empty
        assert uri is not None  # noqa: S101 - there is a quarantine to be emptied
        merge.overwrite(work.session, uri, kept.select(*columns), own)
    elif before is not None and uri is not None:
        known = {name.lower() for name in tables.read_state(uri).columns}
        lacking = frozenset(name for name in task.spec.columns if name.lower() not in known)
        same = quarantine.identity(identity_of(task).of("t."), rows, task.spec.columns, lacking)
        merge.merge(work.session, uri, *_matching(task, rows.select(*same, OPERATION, *columns), same), own)
    else:
        held = rows.select(*columns)
        properties = _properties(task, held)
        merge.create(work.session, task.place.held_name, held, cluster_by=(), properties=properties, commit=own)
