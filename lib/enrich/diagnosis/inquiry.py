"""What is asked about a job: one key of its target, all its rows, or how the keys of its joins meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from enrich.base.errors import ConfigError, suggest
from enrich.base.result import SourceWindow
from enrich.base.schemas import find, name_of
from enrich.base.spec import (
    FAILED_COLUMN,
    LIVE,
    TEXT_TYPE,
    Affected,
    JobSpec,
    Step,
    name_inside,
    name_left_key,
    quote,
)
from enrich.config.kinds import JOINS
from enrich.config.project import Project
from enrich.diagnosis import evidence, reasons
from enrich.diagnosis.doctor import KeyReport, examine_join
from enrich.diagnosis.emptied import find_held_cells
from enrich.diagnosis.keytext import KeyText, key_of, names_all
from enrich.diagnosis.opening import answer_inside, check_name, open_recorded, rewind
from enrich.diagnosis.reasons import (
    MATCHED,
    NOT_YET_RUN,
    QUARANTINED_UPSTREAM,
    VALUE_NULL,
    VALUE_NULL_IN_LOOKUP,
    Reason,
    Why,
    explain_cell,
    explain_row,
)
from enrich.diagnosis.sides import (
    Side,
    assume_reasons,
    build_affected,
    build_left_side,
    build_pair_side,
    build_right_side,
    find_dependencies,
)
from enrich.diagnosis.upstream import HELD, Inquiry
from enrich.frames import normalise, quarantine
from enrich.frames.columns import drop_nulls
from enrich.joins import find_kind, interval
from enrich.operations.workplace import Options, Workplace
from enrich.progress.decision import make_plan
from enrich.progress.plan import FULL_REFRESH
from enrich.steps.run import Run, identify_rows, read_target
from enrich.storage import reads, tables


def ask(
    project: Project, name: str, key: KeyText, column: str | None, *, spark: SparkSession | None, show_keys: bool
) -> Why:
    """Answer ``enrich.why``."""
    workplace, plan = open_recorded(project, name, spark)
    side, pair = _build_side(plan.spec, key), _find_pair(plan.spec, key)
    parts = key_of(key, side.identity if pair is None else (*side.identity, *pair.identity))
    columns = [_find_column(plan.spec, column)] if column is not None else list(plan.spec.columns)
    if plan.target.table is None:
        unknown = Reason(NOT_YET_RUN)
        return Why(name, None, unknown, {}, dict.fromkeys(columns, unknown))
    version = plan.target.table.version

    def answer(run: Inquiry) -> Why:
        spec = run.plan.spec
        affected = build_affected(run, side, _cast_key(run, side, [parts[each] for each in side.identity]))
        theirs = None if pair is None else _cast_key(run, pair, [parts[each] for each in pair.identity])
        live, nulls = _read_flags(run, side, affected, theirs)
        lookups = _find_reasons(run, side, affected, is_row=live is not None, found_keys=show_keys)
        if pair is not None and pair.right is not None and theirs is not None:
            lookups[pair.alias] = explain_pair(run, pair.right, affected.left, theirs, lookups[pair.alias])
        if side.right is not None and live is None and lookups[side.alias].reason == MATCHED:
            raise ConfigError(
                f"the target has no lookup-only row of {side.alias!r} with this key: a driving row refers to it",
                hint=f"ask for the driving row, by its {', '.join(spec.identity)}",
            )
        needed = _list_needed(spec, side, lookups, live)
        if pair is not None:
            needed.append((pair.alias, lookups[pair.alias]))
        row = explain_row(live, needed, _find_rules(run, side, affected))
        cells = {
            each: explain_cell(
                row,
                find_dependencies(spec, side, each),
                lookups,
                is_null=nulls.get(each, True),
                driving=spec.driving,
            )
            for each in columns
        }
        for each, told in cells.items():
            if told.reason in (VALUE_NULL, VALUE_NULL_IN_LOOKUP):
                cells[each] = _blame(run, evidence.list_side_questions(run, side, affected), each, told)
        return Why(name, version, row, lookups, cells)

    return answer_inside(workplace, rewind(workplace, plan), answer)


def _blame(run: Inquiry, asked: Sequence[evidence.Question], column: str, told: Reason) -> Reason:
    """Return why a cell is null of one key: the given reason, or that a row upstream of the source is held."""
    held = find_held_cells(run, asked, column)
    row = None if held is None else held.first()
    return told if row is None else replace(told, reason=QUARANTINED_UPSTREAM, job=run.name_job(row[HELD]))


def find_all_reasons(project: Project, name: str, spark: SparkSession) -> dict[evidence.Key, dict[str, Reason]]:
    """Return for every row of a job's target, by its key, why it has a partner in each source, or why not."""
    workplace, plan = open_recorded(project, name, spark)
    if plan.target.table is None:
        return {}

    def answer(run: Inquiry) -> dict[evidence.Key, dict[str, Reason]]:
        spec, rows = run.plan.spec, read_target(run)
        assert rows is not None  # noqa: S101 - the table is there
        names = name_left_key(len(spec.identity))
        keys = drop_nulls(rows.select(*[quote(each) for each in spec.identity]).toDF(*names)).distinct()
        affected = build_affected(run, build_left_side(spec), run.keep(keys))
        return evidence.find_reasons(run, evidence.list_questions(run, affected))

    return answer_inside(workplace, rewind(workplace, plan), answer)


def examine(
    project: Project, name: str, alias: str | None, *, spark: SparkSession | None, show_keys: bool
) -> KeyReport:
    """Answer ``enrich.doctor_keys``."""
    workplace = Workplace(project, [name], Options(full_refresh=True), "", spark)
    job = project.jobs[check_name(project, name)]
    if alias is not None and alias not in job.join:
        raise ConfigError(f"job {name!r} has no join {alias!r}", hint=suggest(alias, job.join))
    if not job.join:
        return KeyReport(name, job.file, ())
    opened = workplace.open_job(job)
    versions = {each: SourceWindow(None, table.version) for each, table in opened.tables.items()}
    plan = make_plan(opened, FULL_REFRESH, versions)

    def answer(run: Inquiry) -> KeyReport:
        spec = run.plan.spec
        wanted = [step for step in spec.steps if alias in (None, step.alias)]
        return KeyReport(name, job.file, tuple(examine_join(run, step, show_keys=show_keys) for step in wanted))

    return answer_inside(workplace, plan, answer)


def _find_column(spec: JobSpec, column: str) -> str:
    found = find(column, spec.columns)
    if found is None:
        raise ConfigError(f"the target of {spec.job!r} has no column {column!r}", hint=suggest(column, spec.columns))
    return found


def _build_side(spec: JobSpec, key: KeyText) -> Side:
    """Return what is asked for: rows without left side when the key names just the columns of the lookup's key."""
    right = build_right_side(spec)
    return right if right is not None and names_all(key, right.identity) else build_left_side(spec)


def _find_pair(spec: JobSpec, key: KeyText) -> Side | None:
    """Return the lookup's part of the pair of an interval join, where the key names both parts; else None."""
    pair = build_pair_side(spec)
    return pair if pair is not None and names_all(key, (*spec.identity, *pair.identity)) else None


def _cast_key(run: Run, side: Side, texts: Sequence[str]) -> DataFrame:
    """Return one row with the key's parts in the types, and the form, of the target's key."""
    source = run.plan.spec.sources[side.alias]
    parts = []
    for text, column in zip(texts, side.columns, strict=True):
        kind = source.columns[column]
        if kind == TEXT_TYPE:
            steps = source.normalise if column in source.key else ()
            parts.append(normalise.normalise(F.lit(text), steps))
        elif kind == "binary":
            parts.append(F.try_to_binary(F.lit(text), F.lit("hex")))
        else:
            parts.append(F.lit(text).try_cast(name_of(kind)))
    frame = run.session.range(1).select(*[part.alias(name) for part, name in zip(parts, side.names, strict=True)])
    nulls = frame.select(*[F.col(name).isNull() for name in frame.columns]).first() or ()
    for is_null, column, identity in zip(nulls, side.columns, side.identity, strict=True):
        if is_null:
            kind = name_of(source.columns[column])
            raise ConfigError(f"the text for the key column {identity!r} is not of type {kind}", hint="correct the key")
    return frame


def _find_reasons(run: Inquiry, side: Side, affected: Affected, *, is_row: bool, found_keys: bool) -> dict[str, Reason]:
    """Return the reasons of one key, by alias; ``is_row``: whether the joins give a row for it."""
    asked, spec = evidence.list_side_questions(run, side, affected), run.plan.spec
    found = next(iter(evidence.find_reasons(run, asked, found_keys=found_keys).values()), {})
    driving = None if is_row else found.get(spec.driving)
    return assume_reasons(spec, side, [each.alias for each in asked], driving) | found


def _read_flags(
    run: Run, side: Side, affected: Affected, theirs: DataFrame | None
) -> tuple[bool | None, dict[str, bool]]:
    """Return whether the join and the condition keep the row (None: no row at all), and which cells are null.

    Of the pairs of an interval join, only that with the lookup's key ``theirs`` is looked at, if one is given.
    """
    spec = run.plan.spec
    rows = find_kind(spec).derive_rows(run, affected)
    rows = drop_nulls(rows, side.names)
    if theirs is not None:
        rows = rows.join(theirs, on=theirs.columns, how="left_semi")
    # An interval join may give several rows: a cell is null when it is in one of them.
    cells = [
        F.max(F.when(F.col(LIVE), F.col(quote(name)).isNull())).alias(f"n{i}") for i, name in enumerate(spec.columns)
    ]
    found = rows.agg(F.max(LIVE), *cells).first()
    if found is None or found[0] is None:
        return None, {}
    return bool(found[0]), dict(zip(spec.columns, found[1:], strict=True))


def _list_needed(
    spec: JobSpec, side: Side, lookups: Mapping[str, Reason], live: bool | None
) -> list[tuple[str, Reason]]:
    """Return the source that gives the row, and those that remove it, in the order of the joins."""
    steps = spec.steps
    if side.right is not None:
        steps = steps[steps.index(side.right) + 1 :]
    widened = any(step.shares_key and step.keeps_right for step in steps) and side.right is None
    own = (side.alias, lookups[side.alias])
    found = [] if widened else [own]
    for step in steps:
        word = JOINS[step.kind].explain_removal(step, lookups[step.alias].reason)
        if word is not None:
            found.append((step.alias, replace(lookups[step.alias], reason=word)))
    return [*found, own] if live is None else found


def _find_rules(run: Run, side: Side, affected: Affected) -> list[str]:
    """Return the rules that keep the row in quarantine."""
    uri, spec = run.plan.place.quarantine_uri, run.plan.spec
    if uri is None or not tables.exists(uri):
        return []
    version, columns = tables.read_state(uri).version, [*spec.identity, *spec.right_identity, FAILED_COLUMN]
    rows = reads.read_snapshot(run.session, uri, version, columns).where(~quarantine.is_keyless())
    parts = identify_rows(run.plan).of()
    keyed = rows.select(*[part.alias(name) for name, part in parts.items()], FAILED_COLUMN)
    keys = affected.left if side.right is None or affected.right is None else affected.right
    found = keyed.join(keys, on=side.names, how="left_semi").select(FAILED_COLUMN).collect()
    return [str(rule) for row in found for rule in row[FAILED_COLUMN]]


def explain_pair(run: Inquiry, step: Step, ours: DataFrame, theirs: DataFrame, asked: Reason) -> Reason:
    """Return why an interval join makes a pair of two rows, or why not.

    ======================  ======  =====  ==========================================
    lookup's row            match   near   reason
    ======================  ======  =====  ==========================================
    not there               -       -      that of its key: ``deleted_at``, ...
    there                   yes     yes    ``matched``
    there, ``on`` is null   -       -      ``foreign_key_null``
    there                   yes     no     ``out_of_interval``
    there                   no      -      ``no_such_key``
    ======================  ======  =====  ==========================================

    Args:
        run: Its window ends at what the target has consumed.
        step: The interval join.
        ours: ``__enrich_k*`` of the driving row.
        theirs: ``__enrich_r*`` of the lookup's row.
        asked: Why the driving row has any partner, or why not.
    """
    key = run.plan.spec.sources[step.alias].key
    names = tuple(theirs.columns)
    own = evidence.Question(step.alias, key, evidence.repeat_key(theirs, names, len(key)), names)
    there = next(iter(evidence.find_reasons(run, [own]).values()))[step.alias]
    if there.reason != reasons.MATCHED:
        return there
    wanted = theirs.toDF(*map(name_inside, key))
    row = run.snapshot(step.alias).join(wanted, on=wanted.columns, how="left_semi")
    if not interval.list_neighbours(run.now, step, ours, row).isEmpty():
        return there
    if asked.reason == reasons.FOREIGN_KEY_NULL:
        return asked
    matches = not interval.list_neighbours(run.now, step, ours, row, at_any_time=True).isEmpty()
    return Reason(reasons.OUT_OF_INTERVAL if matches else reasons.NO_SUCH_KEY)
