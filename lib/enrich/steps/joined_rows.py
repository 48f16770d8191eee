"""The affected rows, computed anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base.failpoints import pass_point
from enrich.base.result import Counts, Finding, Lookup
from enrich.base.spec import (
    HOLDERS,
    LIVE,
    OPERATION,
    WEIGHT,
    Affected,
    HistorySpec,
    JoinSpec,
    MirrorSpec,
    quote,
)
from enrich.frames import join, mirror
from enrich.frames.columns import aggregate, lacks_value, mark_rows
from enrich.frames.partners import sum_partners
from enrich.spark.fit import read_broadcast_limit
from enrich.steps import history
from enrich.steps.source_changes import Changes
from enrich.steps.work import Work, build_finding, identify_rows, measure

_REFERRING = ("foreign_key", "as_of", "interval", "list")


@dataclass(frozen=True)
class Rows:
    """The affected rows, computed anew.

    Attributes:
        frame: The identity's columns, ``LIVE``, one ``name_partners`` a join, and the target's columns; kept, unless
            it is cheaper to compute them again.
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
    marks = mark_rows(spec.columns) if work.task.everything and not work.task.may_quarantine else {}
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
    sent = read_broadcast_limit(work.session)
    return all(
        step.kind in ("table", "foreign_key")
        and step.how in ("inner", "left")
        and work.measure_source(step.alias) <= sent
        for step in spec.steps
    )


def _compute_mirror(work: Work, spec: MirrorSpec, changed: Changes, affected: Affected | None) -> Rows:
    frame = work.keep(mirror.derive_mirror(spec, work.snapshot(spec.driving), affected))
    found = aggregate(frame, F.count("*").alias("rows"), F.count(F.when(F.col(HOLDERS) > 1, 1)).alias("shared"))
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
    is_null = lacks_value(spec.value)
    lacks_key = lacks_value(spec.key)
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
