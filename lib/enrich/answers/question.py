"""Answer why one key of a target has its row, and each cell its value, or why not: ``enrich why``.

key as text -> row of the target, or none      is it live, which cells are null
-> what it refers to (evidence)    one reason a source
-> one reason for the row, and for each cell
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from enrich.answers import evidence, opened_job, reasons
from enrich.answers.opened_job import Inquiry, Side
from enrich.answers.reasons import MATCHED, Link, Reason, Why, explain_cell, explain_row
from enrich.base.errors import ConfigError, EnrichError
from enrich.base.schemas import find, name_of
from enrich.base.spec import FAILED_COLUMN, HOLDERS, LIVE, TEXT_TYPE, DataType, JobSpec, SourceSpec, quote
from enrich.base.words import suggest
from enrich.frames import difference
from enrich.frames.columns import drop_nulls, name_parts
from enrich.frames.normalise import normalise
from enrich.joins import find_kind
from enrich.project.kinds import JOBS, JOINS
from enrich.project.project import Project
from enrich.steps.run import Run, identify_rows, read_target

log = logging.getLogger(__name__)


def why(
    project: Project,
    job: str,
    key: object,
    column: str | None = None,
    *,
    spark: SparkSession | None = None,
    show_keys: bool = False,
) -> Why:
    """Say why a row of a job's target, and each of its cells, is as it is.

    Decided from the sources' versions that the target has consumed, and from their histories. Writes nothing.

    ``key`` is the text or value of the target's key (``"u1"``, ``101``, a date); for a composite one ``"k1=v1,k2=v2"``,
    ``["k1=v1", "k2=v2"]``, or a mapping. A list or a mapping with the columns that hold the lookup's key asks for a row
    that only the lookup of a right or full foreign-key join has. ``column``: of the target; None for all.
    ``show_keys`` keeps the keys of near misses in the reasons' ``found``; ``to_dict()`` holds no keys and no values.

    Raises:
        ConfigError: No such job or column, the key has another form, or the lookup's row is not alone.
        HistoryError: The target's definition or sources are not those that it was written from.
        DriftError: Somebody else changed the target.
    """
    return explain(project, job, [key], column, spark=spark, show_keys=show_keys)[0]


def explain(
    project: Project,
    job: str,
    keys: Sequence[object],
    column: str | None = None,
    *,
    spark: SparkSession | None = None,
    show_keys: bool = False,
) -> list[Why]:
    """Answer ``why`` for several keys, which differ and have the same columns; it costs Spark about as much as one."""
    workplace, plan = opened_job.open_recorded(project, job, spark)
    spec, table = plan.spec, plan.target.table
    # Rows without left side are asked for when the key names just the columns of the lookup's key.
    side, *others = opened_job.list_sides(spec)
    for each in others:
        if sorted(find(name, each.identity) or name for name, _ in _list_pairs(keys[0]) or ()) == sorted(each.identity):
            side = each
    texts = [read_key(key, side.identity) for key in keys]
    columns = list(spec.columns)
    if column is not None:
        found = find(column, spec.columns)
        if found is None:
            raise ConfigError(f"the target of {job!r} has no column {column!r}", hint=suggest(column, spec.columns))
        columns = [found]
    if table is None:
        unknown = Reason(reasons.NOT_YET_RUN)
        return [Why(job, None, unknown, {}, dict.fromkeys(columns, unknown)) for _ in keys]

    def answer(run: Inquiry) -> list[Why]:
        spec = run.plan.spec
        own = spec.sources[side.alias]
        cast = [cast_key(own, side, parts, table.columns) for parts in texts]
        cast += [normalise_key(own, side, parts) for parts in cast]

        def select(every: Iterable[Sequence[Column]]) -> DataFrame:
            return run.session.range(1).select(F.inline(F.array(*[F.struct(*parts) for parts in every])))

        values = check_keys(select(cast), side)
        wanted = dict(zip(values, cast, strict=True))
        keys = select(wanted.values())
        affected = opened_job.build_affected(run, side, keys)
        # An interval join may give several rows: a cell is null when it is in one of them.
        flags = [F.max(F.when(F.col(LIVE), F.col(quote(each)).isNull())) for each in spec.columns]
        rows = drop_nulls(find_kind(spec).derive_rows(run, affected), side.names)
        holders = F.max(HOLDERS) if HOLDERS in rows.columns else F.lit(None)
        facts = [F.max(LIVE), holders.alias("holders"), *[each.alias(f"n{i}") for i, each in enumerate(flags)]]
        there = _read_by_key(rows.groupBy(*side.names).agg(*facts), side)
        asked = evidence.list_questions(run, side, affected)
        told = evidence.find_reasons(run, asked, found_keys=show_keys)
        held, rules = _read_held(run, side), dict[tuple[object, ...], Sequence[Any]]()
        if held is not None:
            names = held.join(keys, on=side.names, how="left_semi").groupBy(*side.names)
            rules = _read_by_key(names.agg(F.flatten(F.collect_list(FAILED_COLUMN))), side)
        source, version = run.plan.job.sources[spec.driving].table, run.plan.window[spec.driving].to
        query = JOBS[run.plan.job.kind].write_rows_query(spec, source, version)

        def tell(given: tuple[object, ...], formed: tuple[object, ...]) -> Why:
            key = given if given in there else formed
            live, count, *found = there.get(key, (None, None))
            nulls = dict(zip(spec.columns, found, strict=True)) if live is not None else {}
            reasons_there = told.get(key, {})
            driving = reasons_there.get(spec.driving) if live is None else None
            lookups = opened_job.assume_reasons(spec, side, [each.alias for each in asked], driving) | reasons_there
            if side.right is not None and live is None and lookups[side.alias].reason == MATCHED:
                said = f"the target has no lookup-only row of {side.alias!r} with this key: a driving row refers to it"
                raise ConfigError(said, hint=f"ask for the driving row, by its {', '.join(spec.identity)}")
            names = [str(rule) for rule in rules.get(key, [()])[0]]
            row = explain_row(live, _list_needed(spec, side, lookups, live=live), names)
            cells = {
                each: explain_cell(row, sources, lookups, is_null=nulls.get(each, True), driving=spec.driving)
                for each, sources in ((each, opened_job.find_dependencies(spec, side, each)) for each in columns)
            }
            told_so_far = Why(job, table.version, row, lookups, cells, count or 0, query)
            return _add_chains(run, side, run.session.range(1).select(*wanted[key]), asked, told_so_far)

        return [tell(*both) for both in zip(values, values[len(texts) :], strict=False)]

    return opened_job.answer_inside(workplace, plan, answer)


def _read_by_key(frame: DataFrame, side: Side) -> dict[tuple[object, ...], Sequence[Any]]:
    """Return key -> the other values of a frame's row; the key's parts are its first columns."""
    width = len(side.names)
    return {row[:width]: row[width:] for row in frame.withColumns(opened_job.write_keys(frame, side.names)).collect()}


def cast_key(
    source: SourceSpec, side: Side, texts: Mapping[str, str], target: Mapping[str, DataType] = MappingProxyType({})
) -> list[Column]:
    """Return the key's parts, literals in the types of the target's key; ``source`` is the side's.

    A part that no column of the source holds has the type of its column in ``target``.
    """
    parts = []
    for name, column, identity in zip(side.names, side.columns, side.identity, strict=True):
        kind, text = source.columns.get(column) or target[identity], F.lit(texts[identity])
        part = F.try_to_binary(text, F.lit("hex")) if kind == "binary" else text.try_cast(name_of(kind))
        parts.append(part.alias(name))
    return parts


def normalise_key(source: SourceSpec, side: Side, parts: Sequence[Column]) -> list[Column]:
    """Return the parts of a key in the form that the source's keys get."""
    texts = [source.columns.get(name) == TEXT_TYPE and name in source.key for name in side.columns]
    forms = [normalise(part, source.normalise) if text else part for part, text in zip(parts, texts, strict=True)]
    return [form.alias(name) for form, name in zip(forms, side.names, strict=True)]


def check_keys(keys: DataFrame, side: Side) -> list[tuple[object, ...]]:
    """Return the keys of a frame as texts; a null in one is a text that is none of the column's type."""
    found = [tuple(row) for row in keys.withColumns(opened_job.write_keys(keys, keys.columns)).collect()]
    for identity, kind, *values in zip(side.identity, keys.schema, *found, strict=True):
        if None in values:
            told = f"the text for the key column {identity!r} is not of type {kind.dataType.simpleString()}"
            raise ConfigError(told, hint="correct the key")
    return found


def _list_needed(
    spec: JobSpec, side: Side, lookups: Mapping[str, Reason], *, live: bool | None
) -> Iterator[tuple[str, Reason]]:
    """Yield the sources without which there is no such row, in the order of the joins, with their reasons."""
    steps = spec.steps if side.right is None else spec.steps[spec.steps.index(side.right) + 1 :]
    is_widened = side.right is None and any(step.shares_key and step.keeps_right for step in steps)
    # A right table join keeps its own rows alone, whatever stands before it.
    last = max((place for place, step in enumerate(steps) if step.shares_key and step.how == "right"), default=0)
    if not is_widened:
        yield side.alias, lookups[side.alias]
    for step in steps[last:]:
        if (word := JOINS[step.kind].explain_removal(step, lookups[step.alias].reason)) is not None:
            yield step.alias, replace(lookups[step.alias], reason=word)
    if live is None:
        yield side.alias, lookups[side.alias]


def _read_held(run: Inquiry, side: Side) -> DataFrame | None:
    """Return the rows of the quarantine with the key's parts and the rules that hold them; None where there are none.

    Left out are rows without a whole key, and those of keys that the target has all the same: a history's versions that
    have ended, pairs beside others.
    """
    spec, identity = run.plan.spec, identify_rows(run.plan)
    end: str | None = getattr(spec, "valid_to", None)
    names = [*spec.identity, *spec.right_identity, FAILED_COLUMN, *filter(None, [end])]
    rows = evidence.read_quarantine(run, run.plan.job, names)
    if rows is None:
        return None
    parts = [part.alias(name) for name, part in identity.of().items() if name in side.names]
    rows = rows if end is None else rows.where(F.col(quote(end)).isNull())
    held = rows.where(~difference.is_keyless()).select(*parts, FAILED_COLUMN)
    if identity.has_pairs and (target := read_target(run)) is not None:
        held = held.join(target.select(*parts), on=side.names, how="left_anti")
    return held


# --- The jobs upstream -----------------------------------------------------------------------------------------------
#
#     accounts (lacks c7)  ->  people: mail of u1 is null  ->  orders: person u1 is there, its mail is null
#
# A reason names a source; where a job of the project writes it, this job is asked for the row, or the cell, that is
# missed, and so on: up to a source that nobody here writes, or to rules that hold the row in a quarantine.

Chains = Counter[tuple[Link, ...]]
COMBINATION, ROWS = "__enrich_combination", "__enrich_rows"


def _add_chains(run: Inquiry, side: Side, keys: DataFrame, asked: Sequence[evidence.Question], answer: Why) -> Why:
    """Add to each reason of an answer about one key what the jobs upstream say."""
    one = keys.withColumn(ROWS, F.lit(1))
    follow = cache(lambda *place: next(iter(follow_upstream(run, side, one, asked, place, versions=True)), ()))

    def lengthen(reason: Reason, alias: str | None = None, column: str | None = None) -> Reason:
        place = find_cell(run.plan.spec, reason if alias is None else replace(reason, source=alias), column)
        return reason if place is None else replace(reason, upstream=follow(*place))

    lookups = {alias: lengthen(reason, alias) for alias, reason in answer.lookups.items()}
    cells = {name: lengthen(reason, None, name) for name, reason in answer.columns.items()}
    return replace(answer, row=lengthen(answer.row), lookups=lookups, columns=cells)


def find_cell(spec: JobSpec, reason: Reason, column: str | None) -> tuple[str, str | None] | None:
    """Return the source, and its column or None for its row, that a reason for a cell of ``column`` is about.

    None where no job upstream can say more, or where several columns make the cell.
    """
    found: set[tuple[str, str]] = set()
    if reason.source is None:
        return None
    if reason.reason in (reasons.QUARANTINED_UPSTREAM, reasons.DELETED_AT, reasons.NO_SUCH_KEY):
        return reason.source, None
    if reason.reason == reasons.FOREIGN_KEY_NULL:
        found = {pair for step in spec.steps if step.alias == reason.source for pair in step.decisive}
    elif reason.reason in (reasons.VALUE_NULL, reasons.VALUE_NULL_IN_LOOKUP) and column is not None:
        paths = {path for output in spec.outputs if output.name == column for path in output.paths}
        found = {(path[0], path[1]) for path in paths if path[0] == reason.source and len(path) > 1}
        found = found if spec.outputs else {(reason.source, column)}
    return found.pop() if len(found) == 1 else None


def follow_upstream(
    run: Inquiry,
    side: Side,
    rows: DataFrame,
    asked: Sequence[evidence.Question],
    place: tuple[str, str | None],
    *,
    versions: bool = False,
) -> Chains:
    """Say why a source has no such row, or a null in a column, for some target rows: chain of jobs -> rows.

    ``rows`` has the key's parts of the rows and ``ROWS``, how often each counts; a list counts by one of its elements.
    ``place`` is the source, and its column or None. Empty where no job of the project writes the source, or where its
    key is another one than what the rows refer to.
    """
    alias, column = place
    source, question = run.plan.spec.sources[alias], next((each for each in asked if each.alias == alias), None)
    writer = run.workplace.find_maker(run.plan.job.sources[alias].table)
    # A history is asked about its open version, which may not be the one that is referred to.
    if writer is None or question is None or writer.job == run.plan.spec.job or (column and writer.remembers):
        return Chains()
    references = drop_nulls(question.references.join(rows, on=side.names, how="inner"), question.names)
    if column is None and question.present is None:
        present = run.snapshot(alias).select(*name_parts(question.columns, question.names))
        references = references.join(present, on=question.names, how="left_anti")
    one = references.groupBy(*side.names).agg(F.min(F.struct(*question.names)).alias("one"), F.max(ROWS).alias(ROWS))
    try:
        plan = run.workplace.complete(opened_job.open_consumed(run.workplace, writer), run.session)
        above = opened_job.inquire(run.workplace, plan, run.session, run.cleanup)
        names = dict(zip(question.columns, question.names, strict=True))
        return _ask_writer(above, one.select("one.*", ROWS), names, source, column, versions)
    except EnrichError as error:  # its target is not what it wrote, or it does not fit its tables: it cannot be asked
        log.info("job %s cannot be asked (%s)", writer.job, type(error).__name__)
        return Chains()


def _ask_writer(
    run: Inquiry, references: DataFrame, names: dict[str, str], wanted: SourceSpec, column: str | None, versions: bool
) -> Chains:
    """Say of each reference to a job's target why its row, or a cell of it, is missing; ``names``: column -> name."""
    spec, (side, *_) = run.plan.spec, opened_job.list_sides(run.plan.spec)
    if {*names} != {*side.identity} or not {*wanted.normalise} <= {*spec.sources[spec.driving].normalise}:
        return Chains()
    parts = [F.col(names[name]).alias(part) for name, part in zip(side.identity, side.names, strict=True)]
    keys = run.keep(references.select(*parts, ROWS).groupBy(*side.names).agg(F.sum(ROWS).alias(ROWS)))
    affected = opened_job.build_affected(run, side, keys.select(*side.names))
    asked = evidence.list_questions(run, side, affected)
    judged = {rule.label: rule.columns for rule in (run.plan.suite.row_rules if run.plan.suite else ())}
    cells = dict.fromkeys(name for name in (column, *sum(judged.values(), ())) if name in spec.columns)
    flags = {name: f"__enrich_null{i}" for i, name in enumerate(cells)}
    nulls = [F.max(F.when(F.col(LIVE), F.col(quote(cell)).isNull())).alias(name) for cell, name in flags.items()]
    made = drop_nulls(find_kind(spec).derive_rows(run, affected), side.names).groupBy(*side.names)
    rows = keys.join(evidence.find_words(run, asked, versions=versions), on=side.names, how="left")
    rows = rows.join(made.agg(F.max(LIVE).alias(LIVE), *nulls), on=side.names, how="left")
    held = _read_held(run, side)
    if held is not None:
        holding = F.array_sort(F.flatten(F.collect_set(FAILED_COLUMN))).alias(FAILED_COLUMN)
        rows = rows.join(held.groupBy(*side.names).agg(holding), on=side.names, how="left")
    facts = [name for name in rows.columns if name not in (*side.names, ROWS)]
    rows = run.keep(rows.withColumn(COMBINATION, F.to_json(F.struct(*facts))))
    found = Chains()
    for row in rows.groupBy(COMBINATION, *facts).agg(F.sum(ROWS).alias(ROWS)).collect():
        words = [(each.alias, row[evidence.name_word(each.alias)]) for each in asked]
        known = [(alias, word, getattr(word, "version", None)) for alias, word in words if word is not None]
        said = {a: Reason(w.reason, w.kind, at, evidence.tell_time(run, a, at), job=w.job) for a, w, at in known}
        driving = said.get(spec.driving) if row[LIVE] is None else None
        lookups = opened_job.assume_reasons(spec, side, [each.alias for each in asked], driving) | said
        rules = tuple(row[FAILED_COLUMN] or ()) if held is not None else ()
        reason = explain_row(row[LIVE], _list_needed(spec, side, lookups, live=row[LIVE]), rules)

        def explain(name: str, lookups: Mapping[str, Reason] = lookups, row: Row = row) -> Reason:
            sources = opened_job.find_dependencies(spec, side, name)
            is_null = row[flags[name]] is not False
            return explain_cell(Reason(MATCHED), sources, lookups, is_null=is_null, driving=spec.driving)

        cell = column if reason.reason == MATCHED else None
        if cell is not None:
            reason = explain(cell)
        links = [_link(run, cell, reason)]
        if reason.reason == reasons.QUARANTINED:  # what the rules that hold it say no to
            for cell in (name for rule in rules for name in judged.get(rule, ()) if name in flags):
                if (reason := explain(cell)).reason != MATCHED:
                    links.append(_link(run, cell, reason))
                    break
        place, further = find_cell(spec, reason, cell), Chains()
        if place is not None:
            same = rows.where(F.col(COMBINATION) == row[COMBINATION]).select(*side.names, ROWS)
            further = follow_upstream(run, side, same, asked, place, versions=versions)
        for chain, number in further.items():
            found[(*links, *chain)] += number
        if rest := row[ROWS] - further.total():
            found[tuple(links)] += rest
    return found


def _link(run: Run, column: str | None, reason: Reason) -> Link:
    source = run.plan.job.sources.get(reason.source or "")
    return Link(run.plan.spec.job, column, reason, None if source is None else source.table)


# --- A key as a person writes it: `u1`, `country=DE,number=7`, or one `NAME=VALUE` for each column -------------------


def read_key(key: object, columns: Sequence[str]) -> dict[str, str]:
    """Return column -> text of a key in any form; one that can be read in two ways is a ConfigError, without its text.

    For a key of one column, one text is the value as it stands, commas and equal signs included. For a composite key it
    is ``k1=v1,k2=v2`` in any order; a value may hold commas, as long as what follows none of them reads ``,k2=``.
    """
    pairs = _list_pairs(key)
    if pairs is None and len(columns) == 1:
        return {columns[0]: _write_value(key)}
    if pairs is None:
        names = "|".join(re.escape(name) for name in sorted(columns, key=len, reverse=True))
        before, *rest = re.split(f"(?:^|,)({names})=", str(key), flags=re.IGNORECASE)
        pairs = [] if before else list(zip(rest[::2], rest[1::2], strict=True))
    found = {find(name, columns) or name: value for name, value in pairs}
    if len(found) != len(pairs) or sorted(found) != sorted(columns):
        options = " ".join(f"--key {name}=..." for name in columns)
        if len(columns) > 1:
            example = ",".join(f"{name}=..." for name in columns)
            options = f"{example}, or, if the values contain commas or equal signs, {options}"
        raise ConfigError(f"the key has the wrong form; its columns are {', '.join(columns)}", hint=f"write {options}")
    return found


def _list_pairs(key: object) -> list[tuple[str, str]] | None:
    """Return the names and values of a mapping or of ``NAME=VALUE``, one a column; None for a key in one piece."""
    if isinstance(key, Mapping):
        return [(str(name), _write_value(value)) for name, value in key.items()]
    if isinstance(key, str | bytes) or not isinstance(key, Sequence):
        return None
    return [(name if sign else "", value) for name, sign, value in (str(part).partition("=") for part in key)]


def _write_value(value: object) -> str:
    """Return a value as ``enrich why`` reads it; raise ConfigError for null, which is no part of a key."""
    if value is None:
        raise ConfigError("a part of the key is None", hint="a key has no nulls; rows with one are in the quarantine")
    return value.hex() if isinstance(value, bytes) else str(value)
