"""Answer why one key of a target has its row, and each cell its value, or why not: ``enrich why``.

key as text -> row of the target, or none      is it live, which cells are null
-> what it refers to (evidence)    one reason a source
-> one reason for the row, and for each cell
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from enrich.answers import evidence, reasons
from enrich.answers.opened_job import (
    Inquiry,
    Side,
    answer_inside,
    assume_reasons,
    build_affected,
    build_left_side,
    build_right_side,
    find_dependencies,
    open_recorded,
    rewind,
)
from enrich.answers.reasons import MATCHED, Reason, Why, explain_cell, explain_row
from enrich.base.errors import ConfigError, suggest
from enrich.base.schemas import find, name_of
from enrich.base.spec import FAILED_COLUMN, LIVE, TEXT_TYPE, Affected, Step, name_inside, name_left_key, quote
from enrich.delta import reads, tables
from enrich.frames import difference, normalise
from enrich.frames.columns import drop_nulls
from enrich.joins import find_kind, interval
from enrich.project.kinds import JOINS
from enrich.project.kinds.interval import OUT_OF_INTERVAL
from enrich.project.project import Project
from enrich.steps.run import Run, identify_rows, read_target

KeyText = object
"""One text, a mapping of column and value, one ``NAME=VALUE`` for each column, or the values in the columns' order.

A value that is no text is taken as the text that a cast makes a value of its type of; a single one is a key as well.
"""


def ask(
    project: Project, name: str, key: KeyText, column: str | None, *, spark: SparkSession | None, show_keys: bool
) -> Why:
    """Answer ``enrich.why``."""
    workplace, opened = open_recorded(project, name, spark)
    spec = opened.spec
    # Rows without left side are asked for when the key names just the columns of the lookup's key; a pair of an
    # interval join when it names both parts.
    right, pair = build_right_side(spec, spec.right_step()), build_right_side(spec, spec.interval_step)
    side = right if right is not None and names_all(key, right.identity) else build_left_side(spec)
    if pair is not None and not names_all(key, (*spec.identity, *pair.identity)):
        pair = None
    parts = read_key(key, side.identity if pair is None else (*side.identity, *pair.identity))
    columns = list(spec.columns)
    if column is not None:
        found = find(column, spec.columns)
        if found is None:
            raise ConfigError(f"the target of {name!r} has no column {column!r}", hint=suggest(column, spec.columns))
        columns = [found]
    if opened.target.table is None:
        unknown = Reason(reasons.NOT_YET_RUN)
        return Why(name, None, unknown, {}, dict.fromkeys(columns, unknown))
    version = opened.target.table.version

    def answer(run: Inquiry) -> Why:
        affected = build_affected(run, side, _cast_key(run, side, parts))
        theirs = None if pair is None else _cast_key(run, pair, parts)
        live, nulls = _read_flags(run, side, affected, theirs)
        asked = evidence.list_questions(run, side, affected)
        lookups = next(iter(evidence.find_reasons(run, asked, found_keys=show_keys).values()), {})
        driving = None if live is not None else lookups.get(run.plan.spec.driving)
        lookups = assume_reasons(run.plan.spec, side, [each.alias for each in asked], driving) | lookups
        if pair is not None and pair.right is not None and theirs is not None:
            lookups[pair.alias] = explain_pair(run, pair.right, affected.left, theirs, lookups[pair.alias])
        row = _explain_row(run, side, affected, lookups, live, pair)
        cells = {}
        for each in columns:
            aliases = find_dependencies(run.plan.spec, side, each)
            told = explain_cell(row, aliases, lookups, is_null=nulls.get(each, True), driving=run.plan.spec.driving)
            if told.reason in reasons.NULL_VALUES and (held := evidence.find_held_cells(run, asked, each)) is not None:
                holder = held.first()
                if holder is not None:
                    job = run.name_job(holder[evidence.HELD])
                    told = replace(told, reason=reasons.QUARANTINED_UPSTREAM, job=job)
            cells[each] = told
        return Why(name, version, row, lookups, cells)

    return answer_inside(workplace, rewind(workplace, opened), answer)


def find_all_reasons(project: Project, name: str, spark: SparkSession) -> dict[evidence.Key, dict[str, Reason]]:
    """Return for every row of a job's target, by its key, why it has a partner in each source, or why not."""
    workplace, opened = open_recorded(project, name, spark)
    if opened.target.table is None:
        return {}

    def answer(run: Inquiry) -> dict[evidence.Key, dict[str, Reason]]:
        spec, rows = run.plan.spec, read_target(run)
        assert rows is not None  # noqa: S101 - the table is there
        names = name_left_key(len(spec.identity))
        keys = drop_nulls(rows.select(*[quote(each) for each in spec.identity]).toDF(*names)).distinct()
        side = build_left_side(spec)
        asked = evidence.list_questions(run, side, build_affected(run, side, run.keep(keys)))
        return evidence.find_reasons(run, asked)

    return answer_inside(workplace, rewind(workplace, opened), answer)


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


def _read_flags(
    run: Run, side: Side, affected: Affected, theirs: DataFrame | None
) -> tuple[bool | None, dict[str, bool]]:
    """Return whether the join and the condition keep the row (None: no row at all), and which cells are null.

    Of the pairs of an interval join, only that with the lookup's key ``theirs`` is looked at, if one is given.
    """
    spec = run.plan.spec
    rows = drop_nulls(find_kind(spec).derive_rows(run, affected), side.names)
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


def _explain_row(
    run: Run, side: Side, affected: Affected, lookups: Mapping[str, Reason], live: bool | None, pair: Side | None
) -> Reason:
    """Return why the target has the row, or why not: for the first source without which there is none.

    Raises:
        ConfigError: A driving row refers to the lookup's row that was asked for, so it is not alone.
    """
    spec, steps = run.plan.spec, run.plan.spec.steps
    if side.right is not None:
        if live is None and lookups[side.alias].reason == MATCHED:
            raise ConfigError(
                f"the target has no lookup-only row of {side.alias!r} with this key: a driving row refers to it",
                hint=f"ask for the driving row, by its {', '.join(spec.identity)}",
            )
        steps = steps[steps.index(side.right) + 1 :]
    widened = any(step.shares_key and step.keeps_right for step in steps) and side.right is None
    own = (side.alias, lookups[side.alias])
    needed = [] if widened else [own]
    for step in steps:
        word = JOINS[step.kind].explain_removal(step, lookups[step.alias].reason)
        if word is not None:
            needed.append((step.alias, replace(lookups[step.alias], reason=word)))
    needed += [own] if live is None else []
    needed += [] if pair is None else [(pair.alias, lookups[pair.alias])]
    uri, rules = run.plan.place.quarantine_uri, list[str]()
    if uri is not None and tables.exists(uri):  # what keeps the row there
        version, columns = tables.read_state(uri).version, [*spec.identity, *spec.right_identity, FAILED_COLUMN]
        rows = reads.read_snapshot(run.session, uri, version, columns).where(~difference.is_keyless())
        parts = identify_rows(run.plan).of()
        keyed = rows.select(*[part.alias(name) for name, part in parts.items()], FAILED_COLUMN)
        keys = affected.left if side.right is None or affected.right is None else affected.right
        found = keyed.join(keys, on=side.names, how="left_semi").select(FAILED_COLUMN).collect()
        rules = [str(rule) for row in found for rule in row[FAILED_COLUMN]]
    return explain_row(live, needed, rules)


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
    own = evidence.ask_for_key(step.alias, key, theirs, tuple(theirs.columns))
    there = next(iter(evidence.find_reasons(run, [own]).values()))[step.alias]
    if there.reason != MATCHED:
        return there
    wanted = theirs.toDF(*map(name_inside, key))
    row = run.snapshot(step.alias).join(wanted, on=wanted.columns, how="left_semi")
    if not interval.list_neighbours(run.now, step, ours, row).isEmpty():
        return there
    if asked.reason == reasons.FOREIGN_KEY_NULL:
        return asked
    matches = not interval.list_neighbours(run.now, step, ours, row, at_any_time=True).isEmpty()
    return Reason(OUT_OF_INTERVAL if matches else reasons.NO_SUCH_KEY)


# --- A key as a person writes it: `u1`, `country=DE,number=7`, or one `NAME=VALUE` for each column -------------------


def read_key(key: KeyText, columns: Sequence[str]) -> dict[str, str]:
    """Return column -> text of a key in any form.

    For a key of one column, one text is the value as it stands, commas and equal signs included. For a composite key
    it is ``k1=v1,k2=v2`` in any order; a value may hold commas, as long as what follows none of them reads ``,k2=``.

    Raises:
        ConfigError: It is no key of these columns, or can be read in two ways; it is not quoted.
    """
    if not isinstance(key, str | Mapping | Sequence) or isinstance(key, bytes):
        key = [key]
    if isinstance(key, Sequence) and not isinstance(key, str) and not _is_named(key):
        if len(key) != len(columns):
            raise _refuse(columns)
        return {column: _write_value(value) for column, value in zip(columns, key, strict=True)}
    if isinstance(key, str):
        if len(columns) == 1:
            return {columns[0]: key}
        names = "|".join(re.escape(name) for name in sorted(columns, key=len, reverse=True))
        before, *rest = re.split(f"(?:^|,)({names})=", key, flags=re.IGNORECASE)
        pairs = list(zip(rest[::2], rest[1::2], strict=True))
        is_whole = not before
    elif isinstance(key, Mapping):
        pairs, is_whole = [(str(name), _write_value(value)) for name, value in key.items()], True
    else:
        parts = [str(part).partition("=") for part in key]
        pairs, is_whole = [(name, value) for name, _, value in parts], all(sign for _, sign, _ in parts)
    found = {find(name, columns) or name: value for name, value in pairs}
    if not is_whole or len(found) != len(pairs) or sorted(found) != sorted(columns):
        raise _refuse(columns)
    return found


def names_all(key: KeyText, columns: Sequence[str]) -> bool:
    """Return whether a key names these columns and no others; a key of one text names none."""
    if isinstance(key, str) or not isinstance(key, Mapping | Sequence) or not _is_named(key):
        return False
    given = key if isinstance(key, Mapping) else [str(part).partition("=")[0] for part in key]
    return sorted(find(str(name), columns) or str(name) for name in given) == sorted(columns)


def _is_named(key: Mapping[str, object] | Sequence[object]) -> bool:
    """Return whether a key says which value is of which column."""
    return isinstance(key, Mapping) or any(isinstance(part, str) and "=" in part for part in key)


def _write_value(value: object) -> str:
    """Return a value as ``enrich why`` reads it.

    Raises:
        ConfigError: It is null, which is no part of a key.
    """
    if value is None:
        raise ConfigError("a part of the key is None", hint="a key has no nulls; rows with one are in the quarantine")
    return value.hex() if isinstance(value, bytes) else str(value)


def _refuse(columns: Sequence[str]) -> ConfigError:
    example = ",".join(f"{name}=..." for name in columns)
    options = " ".join(f"--key {name}=..." for name in columns)
    if len(columns) == 1:
        return ConfigError(f"the key has the wrong form; its column is {columns[0]}", hint=f"write {options}")
    return ConfigError(
        f"the key has the wrong form; its columns are {', '.join(columns)}",
        hint=f"write {example}, or, if the values contain commas or equal signs, {options}",
    )
