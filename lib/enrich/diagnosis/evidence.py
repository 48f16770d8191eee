"""What the sources say about the keys that some target rows refer to: there, there later, there before, or nearly.

Read from the snapshots that the target has consumed and from the sources' histories; the questions are asked of all
rows at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import (
    COMMIT,
    TEXT_TYPE,
    WEIGHT,
    Affected,
    Interval,
    JobSpec,
    Step,
    name_left_key,
    name_reference,
    name_right_key,
)
from enrich.diagnosis import near, reasons
from enrich.diagnosis.reasons import Reason
from enrich.diagnosis.sides import Side
from enrich.diagnosis.upstream import HELD, Inquiry, add_held, find_held
from enrich.frames import join, normalise
from enrich.frames.columns import drop_nulls, has_null, name_parts, pack_rows, unite
from enrich.joins import as_of, interval
from enrich.steps.run import FEW
from enrich.storage import feeds, reads, tables

log = logging.getLogger(__name__)

Key = tuple[Any, ...]
_ARRIVED, _DELETED, _DETAIL = "__enrich_arrived", "__enrich_deleted", "__enrich_detail"
_REASON, _COUNT, _VERDICT, _INSIDE = "__enrich_reason", "__enrich_count", "__enrich_verdict", "__enrich_inside"


@dataclass(frozen=True)
class Lost:
    """The keys of a question that the source does not have.

    Attributes:
        keys: ``__enrich_j*``, distinct, without nulls.
        few: Whether they are so few that every task gets them all.
    """

    keys: DataFrame
    few: bool

    @property
    def sent(self) -> DataFrame:
        """The keys, for the small side of a join."""
        return F.broadcast(self.keys) if self.few else self.keys


@dataclass(frozen=True)
class Question:
    """What some rows refer to in one source.

    Attributes:
        columns: The source's columns that are looked up: its key, or a mirror's value.
        references: ``rows`` and ``__enrich_j*``, one row per reference, with nulls; of an as-of join ``_VERDICT``, too:
            the reason of a reference whose key is there.
        rows: The columns that hold the key of the target's row: ``__enrich_k*`` or ``__enrich_r*``.
        is_list: Whether a row refers to many keys.
        near: ``rows`` that have a partner, where a key that is there is not enough: in an interval join.
        writer: The number of the job that holds what ``_VERDICT`` says is held.
    """

    alias: str
    columns: tuple[str, ...]
    references: DataFrame
    rows: tuple[str, ...]
    is_list: bool = False
    near: DataFrame | None = None
    writer: int | None = None

    @property
    def names(self) -> list[str]:
        """The columns of the referenced key."""
        return name_reference(len(self.columns))


def list_side_questions(run: Inquiry, side: Side, affected: Affected) -> list[Question]:
    """Return what rows of one side refer to: the source that has their key first, then in the order of the joins."""
    spec = run.plan.spec
    if side.right is not None:
        return _list_right_questions(run, spec, side.right, affected)
    return list_questions(run, affected)


def list_questions(run: Inquiry, affected: Affected) -> list[Question]:
    """Return what the rows of some target keys refer to, the driving source first, then in the order of the joins."""
    spec = run.plan.spec
    names = tuple(affected.left.columns)

    def own(columns: tuple[str, ...], alias: str) -> Question:
        return Question(alias, columns, repeat_key(affected.left, names, len(columns)), names)

    found = [own(spec.key_columns, spec.driving)]
    for step in spec.steps:
        if step.shares_key:
            found.append(own(spec.sources[step.alias].key, step.alias))
        elif step.interval is not None:
            found.append(_ask_of_interval(run.now, step, step.interval, affected))
        else:
            found.append(_ask_of_step(run, step, affected, names))
    return found


def _list_right_questions(run: Inquiry, spec: JobSpec, right: Step, affected: Affected) -> list[Question]:
    """Return what rows refer to that only the lookup of a right or full foreign-key join has.

    The lookup's own key first, then what later joins look up by its columns.
    """
    assert affected.right is not None  # noqa: S101 - it holds the keys that are asked for
    key = spec.sources[right.alias].key
    names = tuple(name_right_key(len(key)))
    own = Question(right.alias, key, repeat_key(affected.right, names, len(key)), names)
    later = [step for step in spec.steps[spec.steps.index(right) + 1 :] if not step.shares_key]
    return [own, *(_ask_of_step(run, step, affected, names) for step in later)]


def repeat_key(keys: DataFrame, names: Sequence[str], count: int) -> DataFrame:
    """Return keys that refer to themselves, by their first ``count`` parts."""
    parts = zip(names[:count], name_reference(count), strict=True)
    return keys.select(*names, *[F.col(name).alias(part) for name, part in parts])


def _ask_of_interval(sources: join.Sources, step: Step, near_by: Interval, affected: Affected) -> Question:
    """Return what rows match by in an interval join, null where their time is, and which of them have a partner."""
    names = name_left_key(len(sources.spec.key_columns))
    has_time = F.expr(near_by.at).isNotNull()
    rows = join.apply_steps(sources, affected, [])
    parts = zip(step.on, name_reference(len(step.on)), strict=True)
    rows = rows.select(*names, *[F.when(has_time, F.expr(text)).alias(name) for text, name in parts])
    found = interval.list_neighbours(sources, step, affected.left).select(*names).distinct()
    return Question(step.alias, near_by.match, rows, tuple(names), near=found)


def _ask_of_step(run: Inquiry, step: Step, affected: Affected, names: tuple[str, ...]) -> Question:
    """Return what rows refer to in a lookup, also those that an earlier join removes, with nulls.

    Not where that is computed in a way that may fail: a run computes it for no removed row.
    """
    sources = run.now
    spec, key = sources.spec, sources.spec.sources[step.alias].key
    keeps_all, earlier, is_plain = {"inner": "left", "right": "full"}, list[Step](), step.is_plain
    for each in reversed(join.list_earlier_steps(spec, step)):
        earlier.insert(0, replace(each, how=keeps_all.get(each.how, each.how)) if is_plain else each)
        is_plain = is_plain and each.is_plain
    rows = join.refer(sources, join.apply_steps(sources, affected, earlier), step)
    rows = drop_nulls(rows.select(*names, *name_reference(len(key))), names)
    if step.at is not None:
        judged, writer = _judge_moments(run, step, rows)
        return Question(step.alias, key[:-1], judged, names, writer=writer)
    return Question(step.alias, key, rows, names, step.elements is not None)


def _judge_moments(run: Inquiry, step: Step, rows: DataFrame) -> tuple[DataFrame, int | None]:
    """Replace the moment that rows ask for by the reason that they have if their key is there.

    What the version that the source has now would answer, and the one that the target has consumed does not, has
    arrived after the window; what the rows would answer that its writer holds is quarantined there. A row without a
    moment has no reference at all.

    Returns:
        The rows, and the number of the writer.
    """
    alias = step.alias
    source, at, latest = run.plan.spec.sources[alias], run.plan.window[alias].to, run.plan.tables[alias].version
    wanted = name_reference(len(source.key))
    names = [f"__enrich_w{i}" for i in range(len(wanted))]

    def judge(rows: DataFrame, versions: DataFrame, verdict: str) -> DataFrame:
        return as_of.judge_moments(step, rows, pack_rows(versions, source, names), wanted, verdict)

    def is_matched(verdict: str) -> Column:
        told = F.col(verdict)
        return told.getField("found") & ~told.getField("ended") & ~told.getField("gone")

    rows = judge(rows, run.snapshot(alias, at), _VERDICT)
    arrived = held = F.lit(False)
    if latest != at:
        rows = judge(rows, run.snapshot(alias, latest), "__enrich_later")
        arrived = is_matched("__enrich_later")
    with_held = add_held(run, alias, run.snapshot(alias, at))
    if with_held is not None:
        rows = judge(rows, with_held[0], "__enrich_with_held")
        held = is_matched("__enrich_with_held")
    told = F.col(_VERDICT)
    reason = (
        F.when(is_matched(_VERDICT), reasons.MATCHED)
        .when(arrived, reasons.ARRIVED_AFTER_WINDOW)
        .when(held, reasons.QUARANTINED_UPSTREAM)
        .when(~told.getField("found"), reasons.TOO_EARLY)
        .when(told.getField("ended"), reasons.ENDED)
        .otherwise(reasons.GONE)
    )
    *parts, moment = wanted
    rows = rows.withColumns({_VERDICT: reason, **{p: F.when(F.col(moment).isNotNull(), F.col(p)) for p in parts}})
    return rows.drop(moment, "__enrich_later", "__enrich_with_held"), None if with_held is None else with_held[1]


def find_reasons(run: Inquiry, asked: Sequence[Question], *, found_keys: bool = False) -> dict[Key, dict[str, Reason]]:
    """Return for every target key and source why the row has a partner there, or why not.

    A key is left out where no row gives a reference: the driving row is not there, or its list is empty. The window of
    ``run`` ends at what the target has consumed; ``found_keys`` tells the keys of near misses.
    """

    @cache
    def read_times(alias: str) -> dict[int, int]:
        return tables.read_commits(tables.open_log(run.plan.tables[alias].uri))

    lists = {each.alias for each in asked if each.is_list}
    elements: dict[tuple[Key, str], list[tuple[Reason, int]]] = {}
    for row in _tell_all_reasons(run, asked).collect():
        key = tuple(row[name] for name in asked[0].rows)
        reason = _build_reason(run, row, read_times, found_keys=found_keys)
        elements.setdefault((key, row["alias"]), []).append((reason, int(row[_COUNT])))
    answered: dict[Key, dict[str, Reason]] = {}
    for (key, alias), told in elements.items():
        is_list = alias in lists
        found = reasons.explain_list(told) if is_list else reasons.choose_worst([reason for reason, _ in told])
        answered.setdefault(key, {})[alias] = found
    return answered


def find_words(run: Inquiry, asked: Sequence[Question]) -> DataFrame:
    """Return the same as ``find_reasons`` without versions, for any number of keys.

    Returns:
        ``rows`` of the questions, and for each source ``name_word(alias)``: a struct of the word's position in
        ``reasons.WORST`` and its detail, as in ``_tell_reasons``, which ``read_detail`` turns into a reason. It is null
        where no row gives a reference.
    """
    rank = F.array_position(F.array(*map(F.lit, reasons.WORST)), F.col(_REASON)) - 1
    word = F.struct(rank.cast("int").alias("rank"), F.col(_DETAIL).alias("detail"))
    words = [F.min(F.when(F.col("alias") == each.alias, word)).alias(name_word(each.alias)) for each in asked]
    return _tell_all_reasons(run, asked).groupBy(*asked[0].rows).agg(*words)


def name_word(alias: str) -> str:
    """Return the column that says why rows have a partner in a source, or why not."""
    return f"__enrich_word_{alias}"


def read_detail(run: Inquiry, word: str, detail: int | None) -> Reason:
    """Return a reason with the kind of a near miss, or the job that holds a row."""
    if detail is None:
        return Reason(word)
    if word == reasons.QUARANTINED_UPSTREAM:
        return Reason(word, job=run.name_job(detail))
    return Reason(word, near.kind_of(detail))


def _tell_all_reasons(run: Inquiry, asked: Sequence[Question]) -> DataFrame:
    """Return what ``_tell_reasons`` does, for all questions."""
    marked = {each.alias: run.keep(_mark_present(run, each)) for each in asked}
    lost = [
        frame.where(~F.col(near.PRESENT)).agg(F.lit(alias).alias("alias"), F.count("*").alias("rows"))
        for alias, frame in marked.items()
    ]
    missing = {row["alias"]: int(row["rows"]) for row in unite(lost).collect()}
    frames = [_tell_reasons(run, each, marked[each.alias], missing[each.alias]) for each in asked]
    return unite(frames)


def _build_reason(
    run: Inquiry, row: Any, read_times: Callable[[str], Mapping[int, int]], *, found_keys: bool
) -> Reason:
    version = row[COMMIT]
    time = read_times(row["alias"]).get(version) if version is not None else None
    at = None if time is None else datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="seconds")
    told = read_detail(run, row[_REASON], row[_DETAIL])
    return replace(told, version=version, at=at, found=row[near.FOUND] if found_keys else None)


def _mark_present(run: Inquiry, asked: Question) -> DataFrame:
    """Add whether the referenced key is there; null where the reference is null."""
    there = _find_present(run, asked).withColumn(near.PRESENT, F.lit(True))
    is_null = has_null(asked.names)
    joined = asked.references.join(there, on=asked.names, how="left")
    if asked.near is not None:
        is_inside = asked.near.withColumn(_INSIDE, F.lit(True))
        joined = joined.join(is_inside, on=list(asked.rows), how="left")
        joined = joined.withColumn(_INSIDE, F.coalesce(F.col(_INSIDE), F.lit(False)))
    return joined.withColumn(near.PRESENT, F.when(~is_null, F.coalesce(F.col(near.PRESENT), F.lit(False))))


def _find_present(run: Inquiry, asked: Question) -> DataFrame:
    """Return the distinct keys that the source has at the version that the target has consumed."""
    return drop_nulls(_rename_parts(run.snapshot(asked.alias), asked)).distinct()


def _rename_parts(rows: DataFrame, asked: Question, *more: str) -> DataFrame:
    parts = name_parts(asked.columns, asked.names)
    return rows.select(*parts, *more)


def _tell_reasons(run: Inquiry, asked: Question, marked: DataFrame, missing: int) -> DataFrame:
    """Return the question's ``rows``, ``alias``, reason, version, detail, found key, and for how many references.

    The detail is a number: the set of a near miss, or the job that holds a row.
    """
    nothing = {_ARRIVED: "long", _DELETED: "long", HELD: "int", near.SET: "int", near.FOUND: "string"}
    nothing[_INSIDE] = "boolean"
    if missing:
        keys = marked.where(~F.col(near.PRESENT)).select(*asked.names).distinct()
        lost = Lost(run.keep(keys), missing <= FEW)
        for facts in (
            _find_later(run, asked, lost),
            _find_earlier(run, asked, lost),
            _find_near_misses(run, asked, lost),
            find_held(run, asked.alias, asked.columns, lost.keys),
        ):
            if facts is not None:
                marked = marked.join(facts, on=asked.names, how="left")
    absent = {name: F.lit(None).cast(kind) for name, kind in nothing.items() if name not in marked.columns}
    marked = marked.withColumns(absent)
    reason = (
        F.when(F.col(near.PRESENT).isNull(), reasons.FOREIGN_KEY_NULL)
        .when(F.col(near.PRESENT) & ~F.coalesce(F.col(_INSIDE), F.lit(True)), reasons.OUT_OF_INTERVAL)
        .when(F.col(near.PRESENT), F.col(_VERDICT) if _VERDICT in marked.columns else F.lit(reasons.MATCHED))
        .when(F.col(_ARRIVED).isNotNull(), reasons.ARRIVED_AFTER_WINDOW)
        .when(F.col(HELD).isNotNull(), reasons.QUARANTINED_UPSTREAM)
        .when(F.col(_DELETED).isNotNull(), reasons.DELETED_AT)
        .when(F.col(near.SET).isNotNull(), reasons.NEAR_MISS)
        .otherwise(reasons.NO_SUCH_KEY)
    )
    is_near, is_held = reason == reasons.NEAR_MISS, reason == reasons.QUARANTINED_UPSTREAM
    version = F.when(~is_held, F.coalesce(F.col(_ARRIVED), F.col(_DELETED))).alias(COMMIT)
    detail = F.when(is_near, F.col(near.SET)).when(is_held, F.coalesce(F.col(HELD), F.lit(asked.writer)))
    told = marked.select(
        *asked.rows,
        reason.alias(_REASON),
        version,
        detail.cast("int").alias(_DETAIL),
        F.when(is_near, F.col(near.FOUND)).alias(near.FOUND),
    ).withColumn("alias", F.lit(asked.alias))
    return told.groupBy(*told.columns).agg(F.count("*").alias(_COUNT))


def _find_later(run: Inquiry, asked: Question, lost: Lost) -> DataFrame | None:
    """Find keys that the source has now: the version that brought them."""
    at, state = run.plan.window[asked.alias].to, run.plan.tables[asked.alias]
    if state.version == at:
        return None
    moves = _find_moves(run, asked, lost, (at, state.version))
    if moves is None:
        return None
    is_there = F.col("come") > F.coalesce(F.col("gone"), F.lit(-1))
    is_there = is_there | (F.col("total") > 0)  # one of several versions of a key may have gone again
    return moves.where(is_there).select(*asked.names, F.col("come").alias(_ARRIVED))


def _find_earlier(run: Inquiry, asked: Question, lost: Lost) -> DataFrame | None:
    """Find keys that the source had before: the last version that took them away."""
    at, uri = run.plan.window[asked.alias].to, run.plan.tables[asked.alias].uri
    first = min(tables.read_commits(tables.open_log(uri)), default=at)
    moves = _find_moves(run, asked, lost, (first - 1, at))
    if moves is None:
        # The feed may have been switched on late, or its files may be gone: look for the oldest version to read from.
        unreadable, readable = first - 1, at
        while readable - unreadable > 1:
            middle = (unreadable + readable) // 2
            tried = _find_moves(run, asked, lost, (middle, at))
            unreadable, readable = (middle, readable) if tried is None else (unreadable, middle)
            moves = moves if tried is None else tried
    if moves is None:
        return None
    return moves.where(F.col("gone").isNotNull()).select(*asked.names, F.col("gone").alias(_DELETED))


def _find_moves(run: Inquiry, asked: Question, lost: Lost, window: tuple[int, int]) -> DataFrame | None:
    """Return when each lost key last came and last went; None where the change feed cannot be read."""
    source, uri = run.plan.spec.sources[asked.alias], run.plan.tables[asked.alias].uri
    columns = list(dict.fromkeys([*source.key, *asked.columns]))
    net = F.sum(WEIGHT)
    if not feeds.read_range(uri, window).is_whole:
        log.info("the change feed of %s does not tell all from version %d on", asked.alias, window[0] + 1)
        return None
    try:
        feed = normalise.normalise_keys(reads.read_change_feed(run.session, uri, window, columns), source)
        rows = _rename_parts(feed, asked, WEIGHT, COMMIT).join(lost.sent, on=asked.names, how="left_semi")
        netted = rows.groupBy(*asked.names, COMMIT).agg(net.alias(WEIGHT))
        come = F.max(F.when(F.col(WEIGHT) > 0, F.col(COMMIT))).alias("come")
        gone = F.max(F.when(F.col(WEIGHT) < 0, F.col(COMMIT))).alias("gone")
        moves = run.keep(netted.groupBy(*asked.names).agg(come, gone, net.alias("total")))
        moves.count()
    except (PySparkException, Py4JJavaError):
        log.info("the change feed of %s cannot be read from version %d on", asked.alias, window[0] + 1)
        return None
    return moves


def _find_near_misses(run: Inquiry, asked: Question, lost: Lost) -> DataFrame | None:
    """Find keys that differ from those that are there by what normalisers remove."""
    kinds = run.plan.spec.sources[asked.alias].columns
    texts = [kinds[column] == TEXT_TYPE for column in asked.columns]
    if not any(texts):
        return None
    candidates = near.find_related(_find_present(run, asked), lost.keys, texts, few=lost.few)
    found = near.find_near_misses(near.add_forms(near.pair_keys(lost.keys, candidates), texts), len(texts))
    text = F.concat_ws(",", *[F.col(near.FOUND).getField(name).cast("string") for name in asked.names])
    return found.select(*asked.names, near.SET, text.alias(near.FOUND))
