"""Gather what speaks for each reason: what the sources say about the keys that some target rows refer to.

They are there, there later, there before, nearly there, or held by a job upstream. Read from the snapshots that the
target has consumed, from the sources' histories and from quarantines; the questions are asked of all rows at once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.answers import near_misses, reasons
from enrich.answers.opened_job import Inquiry, Side, build_affected, build_left_side, rewind
from enrich.answers.reasons import Reason
from enrich.base.errors import EnrichError
from enrich.base.names import find_quarantine, identify
from enrich.base.spec import (
    COMMIT,
    TEXT_TYPE,
    WEIGHT,
    Affected,
    JobSpec,
    Step,
    name_reference,
    name_right_key,
)
from enrich.delta import feeds, reads, tables
from enrich.frames import join, normalise
from enrich.frames.columns import drop_nulls, has_null, name_parts, unite
from enrich.frames.join import VERDICT
from enrich.operations.workplace import Workplace
from enrich.project.models import Job
from enrich.steps.run import FEW

log = logging.getLogger(__name__)

Key = tuple[Any, ...]
HELD = "__enrich_held"
"""The place of the job that holds a row among the jobs of the project."""
_ARRIVED, _DELETED, _DETAIL = "__enrich_arrived", "__enrich_deleted", "__enrich_detail"
_REASON, _COUNT = "__enrich_reason", "__enrich_count"


# --- The questions: what rows refer to -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """What some rows refer to in one source.

    Attributes:
        columns: The source's columns that are looked up: its key, or what an interval join matches by.
        references: ``rows`` and ``__enrich_j*``, one row per reference, with nulls; ``VERDICT`` where the kind of the
            join adds it.
        rows: The columns that hold the key of the target's row: ``__enrich_k*`` or ``__enrich_r*``.
        is_list: Whether a row refers to many keys.
    """

    alias: str
    columns: tuple[str, ...]
    references: DataFrame
    rows: tuple[str, ...]
    is_list: bool = False

    @property
    def names(self) -> list[str]:
        """The columns of the referenced key."""
        return name_reference(len(self.columns))


def list_questions(run: Inquiry, side: Side, affected: Affected) -> list[Question]:
    """Return what rows of one side refer to: the source that has their key first, then in the order of the joins.

    Rows that only the lookup of a right or full foreign-key join has refer to its key, and to what later joins look up
    by its columns.
    """
    spec = run.plan.spec
    if side.right is not None:
        assert affected.right is not None  # noqa: S101 - it holds the keys that are asked for
        key = spec.sources[side.alias].key
        names = tuple(name_right_key(len(key)))
        later = [step for step in spec.steps[spec.steps.index(side.right) + 1 :] if not step.shares_key]
        own = ask_for_key(side.alias, key, affected.right, names)
        return [own, *(_ask_of_step(run, step, affected, names) for step in later)]
    names = tuple(affected.left.columns)
    found = [ask_for_key(spec.driving, spec.key_columns, affected.left, names)]
    for step in spec.steps:
        if step.shares_key:
            found.append(ask_for_key(step.alias, spec.sources[step.alias].key, affected.left, names))
        else:
            found.append(_ask_of_step(run, step, affected, names))
    return found


def ask_for_key(alias: str, columns: tuple[str, ...], keys: DataFrame, names: tuple[str, ...]) -> Question:
    """Ask for keys that refer to themselves, by as many of their first parts as there are columns."""
    parts = zip(names, name_reference(len(columns)), strict=False)
    return Question(alias, columns, keys.select(*names, *[F.col(name).alias(part) for name, part in parts]), names)


def _ask_of_step(run: Inquiry, step: Step, affected: Affected, names: tuple[str, ...]) -> Question:
    """Return what rows refer to in a lookup, also those that an earlier join removes, with nulls.

    Not where that is computed in a way that may fail: a run computes it for no removed row.
    """
    sources = run.now
    keeps_all, earlier, is_plain = {"inner": "left", "right": "full"}, list[Step](), step.is_plain
    for each in reversed(join.list_earlier_steps(sources.spec, step)):
        earlier.insert(0, replace(each, how=keeps_all.get(each.how, each.how)) if is_plain else each)
        is_plain = is_plain and each.is_plain

    def find_others() -> dict[str, DataFrame]:
        """Return the lookup's rows that came after the window, and those that it has with what its writer holds."""
        alias, found = step.alias, {}
        if (latest := run.plan.tables[alias].version) != run.plan.window[alias].to:
            found[reasons.ARRIVED_AFTER_WINDOW] = run.snapshot(alias, latest)
        writer, rows = find_writer(run.workplace, run.plan.job.sources[alias].table), run.snapshot(alias)
        held = None if writer is None else _read_quarantine(run, writer, rows.columns)
        if held is not None:
            held = normalise.normalise_keys(held, run.plan.spec.sources[alias])
            found[reasons.QUARANTINED_UPSTREAM] = rows.unionByName(held)
        return found

    rows = drop_nulls(join.apply_steps(sources, affected, earlier), names)
    columns, references = sources.kind_of(step).ask(sources, step, rows, find_others)
    told = [name for name in references.columns if name in (*name_reference(len(columns)), VERDICT)]
    return Question(step.alias, columns, references.select(*names, *told), names, step.elements is not None)


# --- The answers: why rows have a partner, or why not ----------------------------------------------------------------


def find_reasons(run: Inquiry, asked: Sequence[Question], *, found_keys: bool = False) -> dict[Key, dict[str, Reason]]:
    """Return for every target key and source why the row has a partner there, or why not.

    A key is left out where no row gives a reference: the driving row is not there, or its list is empty.
    ``found_keys`` tells the keys of near misses.
    """

    @cache
    def read_times(alias: str) -> dict[int, int]:
        return tables.read_commits(tables.open_log(run.plan.tables[alias].uri))

    elements: dict[tuple[Key, str], list[tuple[Reason, int]]] = {}
    for row in _tell_all_reasons(run, asked).collect():
        version = row[COMMIT]
        time = read_times(row["alias"]).get(version) if version is not None else None
        at = None if time is None else datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="seconds")
        reason = read_detail(run, row[_REASON], row[_DETAIL])
        reason = replace(reason, version=version, at=at, found=row[near_misses.FOUND] if found_keys else None)
        key = tuple(row[name] for name in asked[0].rows)
        elements.setdefault((key, row["alias"]), []).append((reason, int(row[_COUNT])))
    lists = {each.alias for each in asked if each.is_list}
    answered: dict[Key, dict[str, Reason]] = {}
    for (key, alias), told in elements.items():
        worst = reasons.choose_worst([reason for reason, _ in told])
        answered.setdefault(key, {})[alias] = reasons.explain_list(told) if alias in lists else worst
    return answered


def find_words(run: Inquiry, asked: Sequence[Question]) -> DataFrame:
    """Return the same as ``find_reasons`` without versions, for any number of keys.

    Returns:
        ``rows`` of the questions, and for each source ``name_word(alias)``: a struct of the word's position in
        ``reasons.list_worst`` and its detail, as in ``_tell_reasons``, which ``read_detail`` turns into a reason. It is
        null where no row gives a reference.
    """
    rank = F.array_position(F.array(*map(F.lit, reasons.list_worst())), F.col(_REASON)) - 1
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
    return Reason(word, near_misses.kind_of(detail))


@dataclass(frozen=True)
class Lost:
    """The keys of a question that the source does not have.

    Attributes:
        keys: ``__enrich_j*``, distinct, without nulls.
        few: Whether they are so few that every task gets them all.
    """

    keys: DataFrame
    few: bool


def _tell_all_reasons(run: Inquiry, asked: Sequence[Question]) -> DataFrame:
    """Return what ``_tell_reasons`` does, for all questions."""
    marked = {}
    for each in asked:  # whether the referenced key is there; null where the reference is null
        there = _find_present(run, each).withColumn(near_misses.PRESENT, F.lit(True))
        joined = each.references.join(there, on=each.names, how="left")
        is_there = F.when(~has_null(each.names), F.coalesce(F.col(near_misses.PRESENT), F.lit(False)))
        marked[each.alias] = run.keep(joined.withColumn(near_misses.PRESENT, is_there))
    lost = [
        frame.where(~F.col(near_misses.PRESENT)).agg(F.lit(alias).alias("alias"), F.count("*").alias("rows"))
        for alias, frame in marked.items()
    ]
    missing = {row["alias"]: int(row["rows"]) for row in unite(lost).collect()}
    return unite([_tell_reasons(run, each, marked[each.alias], missing[each.alias]) for each in asked])


def _find_present(run: Inquiry, asked: Question) -> DataFrame:
    """Return the distinct keys that the source has at the version that the target has consumed."""
    return drop_nulls(run.snapshot(asked.alias).select(*name_parts(asked.columns, asked.names))).distinct()


def _tell_reasons(run: Inquiry, asked: Question, marked: DataFrame, missing: int) -> DataFrame:
    """Return the question's ``rows``, ``alias``, reason, version, detail, found key, and for how many references.

    The detail is a number: the set of a near miss, or the job that holds a row. The first fact decides:

    ==================================================  =========================
    the key that a row refers to                        reason
    ==================================================  =========================
    is null                                             ``foreign_key_null``
    is there                                            ``matched``, or as the kind of the join says (``VERDICT``)
    is not there, and the source has it now             ``arrived_after_window``
    is not there, and a job upstream holds it           ``quarantined_upstream``
    is not there, and a version before has deleted it   ``deleted_at``
    is not there, and a key is there that is nearly it  ``near_miss``
    is not there                                        ``no_such_key``
    ==================================================  =========================
    """
    nothing = {_ARRIVED: "long", _DELETED: "long", HELD: "int", near_misses.SET: "int", near_misses.FOUND: "string"}
    if missing:
        keys = marked.where(~F.col(near_misses.PRESENT)).select(*asked.names).distinct()
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
    is_judged = VERDICT in marked.columns
    reason = (
        F.when(F.col(near_misses.PRESENT).isNull(), reasons.FOREIGN_KEY_NULL)
        .when(F.col(near_misses.PRESENT), F.col(VERDICT) if is_judged else F.lit(reasons.MATCHED))
        .when(F.col(_ARRIVED).isNotNull(), reasons.ARRIVED_AFTER_WINDOW)
        .when(F.col(HELD).isNotNull(), reasons.QUARANTINED_UPSTREAM)
        .when(F.col(_DELETED).isNotNull(), reasons.DELETED_AT)
        .when(F.col(near_misses.SET).isNotNull(), reasons.NEAR_MISS)
        .otherwise(reasons.NO_SUCH_KEY)
    )
    is_near, is_held = reason == reasons.NEAR_MISS, reason == reasons.QUARANTINED_UPSTREAM
    writer = find_writer(run.workplace, run.plan.job.sources[asked.alias].table)
    holder = F.col(HELD) if writer is None else F.coalesce(F.col(HELD), F.lit(_find_number(run, writer)))
    told = marked.select(
        *asked.rows,
        reason.alias(_REASON),
        F.when(~is_held, F.coalesce(F.col(_ARRIVED), F.col(_DELETED))).alias(COMMIT),
        F.when(is_near, F.col(near_misses.SET)).when(is_held, holder).cast("int").alias(_DETAIL),
        F.when(is_near, F.col(near_misses.FOUND)).alias(near_misses.FOUND),
    ).withColumn("alias", F.lit(asked.alias))
    return told.groupBy(*told.columns).agg(F.count("*").alias(_COUNT))


# --- In the source's history, and among its other keys ---------------------------------------------------------------


def _find_later(run: Inquiry, asked: Question, lost: Lost) -> DataFrame | None:
    """Find keys that the source has now: the version that brought them."""
    at, state = run.plan.window[asked.alias].to, run.plan.tables[asked.alias]
    moves = None if state.version == at else _find_moves(run, asked, lost, (at, state.version))
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
    net, parts = F.sum(WEIGHT), name_parts(asked.columns, asked.names)
    if not feeds.read_range(uri, window).is_whole:
        log.info("the change feed of %s does not tell all from version %d on", asked.alias, window[0] + 1)
        return None
    try:
        feed = normalise.normalise_keys(reads.read_change_feed(run.session, uri, window, columns), source)
        sent = F.broadcast(lost.keys) if lost.few else lost.keys
        rows = feed.select(*parts, WEIGHT, COMMIT).join(sent, on=asked.names, how="left_semi")
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
    candidates = near_misses.find_related(_find_present(run, asked), lost.keys, texts, few=lost.few)
    forms = near_misses.add_forms(near_misses.pair_keys(lost.keys, candidates), texts)
    found = near_misses.find_near_misses(forms, len(texts))
    text = near_misses.write_found(asked.names)
    return found.select(*asked.names, near_misses.SET, text.alias(near_misses.FOUND))


# --- In the quarantines of jobs upstream -----------------------------------------------------------------------------
#
#     people  ->  clean_people  ->  clean, and clean__quarantine with person b
#     clean   ->  copy_people   ->  copies: no b, for clean has none
#     copies  ->  orders_named: order 2 refers to b: ``quarantined_upstream``, job clean_people
#
# A job that keeps its driving source's key passes it on, so the quarantine before it is looked into for the same keys.


def find_held(run: Inquiry, alias: str, columns: Sequence[str], keys: DataFrame) -> DataFrame | None:
    """Find keys that jobs upstream hold: those that are held, with ``HELD``; None where no job can hold any.

    Args:
        run: The job that is asked about.
        alias: The source that lacks them.
        columns: The source's columns.
        keys: Their values, in this order, in the form that the job gives them.
    """
    source, found = run.plan.spec.sources[alias], []
    for job, theirs in _list_holders(run.workplace, run.plan.job.sources[alias].table, tuple(columns)):
        rows = _read_quarantine(run, job, theirs)
        if rows is not None:
            rows = drop_nulls(normalise.normalise_keys(rows.toDF(*columns), source)).toDF(*keys.columns)
            held = rows.join(keys, on=keys.columns, how="left_semi")
            found.append(held.withColumn(HELD, F.lit(_find_number(run, job))))
    return _unite_held(found, keys.columns)


def _list_holders(
    workplace: Workplace, reference: str, columns: tuple[str, ...]
) -> Iterator[tuple[Job, tuple[str, ...]]]:
    """Yield the jobs that may hold rows of a table, with the columns of their targets that are ``columns`` there.

    The one that writes it is first; there is none where other systems write it.
    """
    writer = find_writer(workplace, reference)
    if writer is None:
        return
    yield writer, columns
    try:
        spec = workplace.open_job(writer).spec
    except EnrichError:  # it fits its tables no more: what it reads cannot be told
        return
    side = build_left_side(spec)
    names = dict(zip(side.identity, side.columns, strict=True))
    if not set(columns) <= set(names):
        return
    places = {spec.driving: tuple(names[column] for column in columns)}
    for step in spec.steps:
        if step.shares_key and step.how in ("inner", "right", "full"):  # it has the same key
            theirs = dict(zip(side.identity, spec.sources[step.alias].key, strict=True))
            places[step.alias] = tuple(theirs[column] for column in columns)
    for alias, before in places.items():
        yield from _list_holders(workplace, writer.sources[alias].table, before)


def find_writer(workplace: Workplace, reference: str) -> Job | None:
    """Return the job of the project that writes a table."""
    project = workplace.project
    place = identify(project.location(reference))
    jobs = project.jobs.values()
    return next((job for job in jobs if identify(project.location(job.target.table)) == place), None)


def _find_number(run: Inquiry, job: Job) -> int:
    return list(run.workplace.project.jobs).index(job.job)


def _read_quarantine(run: Inquiry, job: Job, columns: Sequence[str]) -> DataFrame | None:
    """Return what a job's quarantine has in some columns; None where there is none, or not with these columns."""
    workplace = run.workplace
    uri = workplace.locate(find_quarantine(workplace.project.location(job.target.table)))
    if uri is None or not tables.exists(uri):
        return None
    state = tables.read_state(uri)
    return reads.read_snapshot(run.session, uri, state.version, columns) if {*columns} <= {*state.columns} else None


def _unite_held(found: Sequence[DataFrame], names: Sequence[str]) -> DataFrame | None:
    return unite(found).groupBy(*names).agg(F.min(HELD).alias(HELD)) if found else None


def find_held_cells(run: Inquiry, asked: Sequence[Question], column: str) -> DataFrame | None:
    """Find rows whose cell is null because the cell that it shows, in another job's target, lacks a row that is held.

        clean_people holds b  ->  named: order 2 has no mail  ->  after: its mail, copied from named, is null

    The job that writes the table is asked about the same column, at what its own target has consumed, and so on
    upwards.

    Args:
        run: The job that is asked about.
        asked: What its rows refer to.
        column: The column of its target.

    Returns:
        ``rows`` of the questions and ``HELD``, the cells that are not null among them; None where there are none.
    """
    found = []
    for question, name in _list_shown(run.plan.spec, column, asked):
        keys = drop_nulls(question.references.select(*question.names).distinct())
        held = _find_in_source(run, question, keys, name)
        found += [] if held is None else [_tell_rows(question, held)]
    return _unite_held(found, asked[0].rows)


def _find_in_source(run: Inquiry, question: Question, keys: DataFrame, column: str) -> DataFrame | None:
    """Find keys of a source whose cell its writer could not fill, because of a row that is held: keys and ``HELD``."""
    workplace = run.workplace
    writer = find_writer(workplace, run.plan.job.sources[question.alias].table)
    if writer is None:
        return None
    try:
        plan = rewind(workplace, workplace.complete(workplace.open_job(writer, as_recorded=True), run.session))
    except EnrichError:  # it cannot be asked; what is known without it is told
        return None
    side = build_left_side(plan.spec)
    if column not in plan.spec.columns or set(question.columns) != set(side.identity):
        return None
    theirs = Inquiry(plan, run.session, run.cleanup, workplace=workplace)
    names = [question.names[question.columns.index(name)] for name in side.identity]
    asked = list_questions(theirs, side, build_affected(theirs, side, keys.select(*names).toDF(*side.names)))
    found = []
    for each, name in _list_shown(plan.spec, column, asked):
        wanted = drop_nulls(each.references.select(*each.names).distinct())
        lost = find_held(theirs, each.alias, each.columns, wanted)
        deeper = _find_in_source(theirs, each, wanted, name)
        found += [_tell_rows(each, held) for held in (lost, deeper) if held is not None]
    held = _unite_held(found, side.names)
    return None if held is None else held.withColumnsRenamed(dict(zip(side.names, names, strict=True)))


def _tell_rows(question: Question, held: DataFrame) -> DataFrame:
    """Return the rows that refer to keys, with the ``HELD`` of these."""
    return question.references.join(held, on=question.names).select(*question.rows, HELD)


def _list_shown(spec: JobSpec, column: str, asked: Sequence[Question]) -> Iterator[tuple[Question, str]]:
    """Yield the sources that a column of the target shows a column of, by their questions."""
    outputs = [output for output in spec.outputs if output.name == column]
    shown = sorted(path[:2] for output in outputs for path in output.paths if len(path) > 1)
    if not spec.outputs:
        shown = [(spec.driving, column)]
    questions = {each.alias: each for each in asked}
    for alias, name in shown:
        if alias in questions:
            yield questions[alias], name
