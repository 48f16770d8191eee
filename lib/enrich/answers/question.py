"""Answer why one key of a target has its row, and each cell its value, or why not: ``enrich why``.

key as text -> row of the target, or none      is it live, which cells are null
-> what it refers to (evidence)    one reason a source
-> one reason for the row, and for each cell
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from enrich.answers import evidence, opened_job, reasons
from enrich.answers.opened_job import Inquiry, Side
from enrich.answers.reasons import MATCHED, Reason, Why, explain_cell, explain_row
from enrich.base.errors import ConfigError, suggest
from enrich.base.schemas import find, name_of
from enrich.base.spec import FAILED_COLUMN, LIVE, TEXT_TYPE, JobSpec, quote
from enrich.delta import reads, tables
from enrich.frames import difference, normalise
from enrich.frames.columns import aggregate, drop_nulls
from enrich.joins import find_kind
from enrich.project.kinds import JOINS
from enrich.project.project import Project
from enrich.steps.run import Run, identify_rows


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

    Args:
        project: What ``load_project`` gave.
        job: The job's name.
        key: The target's key: its text or value (``"u1"``, ``101``, a date); for a composite one ``"k1=v1,k2=v2"``,
            ``["k1=v1", "k2=v2"]``, or a mapping. A list or a mapping with the columns that hold the lookup's key asks
            for a row that only the lookup of a right or full foreign-key join has.
        column: A target column; None for all.
        spark: A session.
        show_keys: Keep the keys of near misses in the reasons' ``found``.

    Returns:
        One reason for the row, for each source and for each column; ``to_dict()`` holds no keys and no values.

    Raises:
        ConfigError: No such job or column, the key has another form, or the lookup's row is not alone.
        HistoryError: The target's definition or sources are not those that it was written from.
        DriftError: Somebody else changed the target.
        RunFailed: A snapshot cannot be read.
    """
    workplace, plan = opened_job.open_recorded(project, job, spark)
    spec, table = plan.spec, plan.target.table
    # Rows without left side are asked for when the key names just the columns of the lookup's key.
    side, *others = opened_job.list_sides(spec)
    for each in others:
        if sorted(find(name, each.identity) or name for name, _ in _list_pairs(key) or ()) == sorted(each.identity):
            side = each
    parts = read_key(key, side.identity)
    columns = list(spec.columns)
    if column is not None:
        found = find(column, spec.columns)
        if found is None:
            raise ConfigError(f"the target of {job!r} has no column {column!r}", hint=suggest(column, spec.columns))
        columns = [found]
    if table is None:
        unknown = Reason(reasons.NOT_YET_RUN)
        return Why(job, None, unknown, {}, dict.fromkeys(columns, unknown))

    def answer(run: Inquiry) -> Why:
        spec, keys = run.plan.spec, _cast_key(run, side, parts)
        affected = opened_job.build_affected(run, side, keys)
        # An interval join may give several rows: a cell is null when it is in one of them.
        flags = {each: F.max(F.when(F.col(LIVE), F.col(quote(each)).isNull())) for each in spec.columns}
        rows = drop_nulls(find_kind(spec).derive_rows(run, affected), side.names)
        live, *found = aggregate(rows, F.max(LIVE), *[each.alias(f"n{i}") for i, each in enumerate(flags.values())])
        nulls = dict(zip(flags, found, strict=True)) if live is not None else {}
        asked = evidence.list_questions(run, side, affected)
        told = next(iter(evidence.find_reasons(run, asked, found_keys=show_keys).values()), {})
        driving = told.get(spec.driving) if live is None else None
        lookups = opened_job.assume_reasons(spec, side, [each.alias for each in asked], driving) | told
        if side.right is not None and live is None and lookups[side.alias].reason == MATCHED:
            raise ConfigError(
                f"the target has no lookup-only row of {side.alias!r} with this key: a driving row refers to it",
                hint=f"ask for the driving row, by its {', '.join(spec.identity)}",
            )
        row = explain_row(live, _list_needed(spec, side, lookups, live=live), _find_holding_rules(run, side, keys))
        cells = {
            each: explain_cell(row, sources, lookups, is_null=nulls.get(each, True), driving=spec.driving)
            for each, sources in ((each, opened_job.find_dependencies(spec, side, each)) for each in columns)
        }
        return Why(job, table.version, row, lookups, cells)

    return opened_job.answer_inside(workplace, plan, answer)


def _cast_key(run: Run, side: Side, texts: Mapping[str, str]) -> DataFrame:
    """Return one row with the key's parts in the types, and the form, of the target's key."""
    source = run.plan.spec.sources[side.alias]
    parts = []
    for name, column, identity in zip(side.names, side.columns, side.identity, strict=True):
        kind, text = source.columns[column], F.lit(texts[identity])
        if kind == TEXT_TYPE:
            part = normalise.normalise(text, source.normalise if column in source.key else ())
        else:
            part = F.try_to_binary(text, F.lit("hex")) if kind == "binary" else text.try_cast(name_of(kind))
        parts.append(part.alias(name))
    frame = run.session.range(1).select(*parts)
    nulls = frame.select(*[F.col(name).isNull() for name in frame.columns]).first() or ()
    for is_null, column, identity in zip(nulls, side.columns, side.identity, strict=True):
        if is_null:
            kind = name_of(source.columns[column])
            raise ConfigError(f"the text for the key column {identity!r} is not of type {kind}", hint="correct the key")
    return frame


def _list_needed(
    spec: JobSpec, side: Side, lookups: Mapping[str, Reason], *, live: bool | None
) -> Iterator[tuple[str, Reason]]:
    """Yield the sources without which there is no such row, in the order of the joins, with their reasons."""
    steps = spec.steps if side.right is None else spec.steps[spec.steps.index(side.right) + 1 :]
    is_widened = side.right is None and any(step.shares_key and step.keeps_right for step in steps)
    if not is_widened:
        yield side.alias, lookups[side.alias]
    for step in steps:
        word = JOINS[step.kind].explain_removal(step, lookups[step.alias].reason)
        if word is not None:
            yield step.alias, replace(lookups[step.alias], reason=word)
    if live is None:
        yield side.alias, lookups[side.alias]


def _find_holding_rules(run: Run, side: Side, keys: DataFrame) -> list[str]:
    """Return the rules that hold the row in the quarantine."""
    spec, uri = run.plan.spec, run.plan.place.quarantine_uri
    if uri is None or not tables.exists(uri):
        return []
    version, columns = tables.read_state(uri).version, [*spec.identity, *spec.right_identity, FAILED_COLUMN]
    rows = reads.read_snapshot(run.session, uri, version, columns).where(~difference.is_keyless())
    parts = identify_rows(run.plan).of()
    keyed = rows.select(*[part.alias(name) for name, part in parts.items()], FAILED_COLUMN)
    found = keyed.join(keys, on=side.names, how="left_semi").select(FAILED_COLUMN).collect()
    return [str(rule) for row in found for rule in row[FAILED_COLUMN]]


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
    parts = [str(part).partition("=") for part in key]
    return [(name if sign else "", value) for name, sign, value in parts]


def _write_value(value: object) -> str:
    """Return a value as ``enrich why`` reads it; raise ConfigError for null, which is no part of a key."""
    if value is None:
        raise ConfigError("a part of the key is None", hint="a key has no nulls; rows with one are in the quarantine")
    return value.hex() if isinstance(value, bytes) else str(value)
