"""Gather what speaks for each reason: what the sources say about the keys that some target rows refer to.

They are there, there later, there before, nearly there, or held by a job upstream. Read from the snapshots that the
target has consumed, from the sources' histories and from quarantines; the questions are asked of all rows at once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.answers import near_misses, reasons
from enrich.answers.opened_job import Inquiry, Side, list_sides, write_keys
from enrich.answers.reasons import Reason
from enrich.base.errors import EnrichError
from enrich.base.names import find_quarantine
from enrich.base.schemas import find
from enrich.base.spec import COMMIT, TEXT_TYPE, WEIGHT, Affected, Step, name_reference
from enrich.delta import reads, tables
from enrich.frames import join, normalise
from enrich.frames.columns import drop_nulls, has_null, name_parts, unite
from enrich.frames.join import VERDICT
from enrich.joins import find_kind
from enrich.operations.workplace import Workplace
from enrich.project.models import Job

log = logging.getLogger(__name__)

Key = tuple[Any, ...]
_PRESENT, _ARRIVED, _DELETED, _HOLDER = "__enrich_present", "__enrich_arrived", "__enrich_deleted", "__enrich_holder"
_DOUBLED = "__enrich_doubled"
_REASON, _JOB, _COUNT = "__enrich_reason", "__enrich_job", "__enrich_count"


# --- The questions: what rows refer to -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """What some rows refer to in one source."""

    alias: str
    columns: tuple[str, ...]  # the source's columns that are looked up: its key, or what an interval join matches by
    # ``rows`` and ``__enrich_j*``, one row per reference, with nulls; ``VERDICT`` where the kind of the join adds it.
    references: DataFrame
    rows: list[str]  # the columns that hold the key of the target's row: ``__enrich_k*`` or ``__enrich_r*``
    is_list: bool = False  # whether a row refers to many keys
    present: DataFrame | None = None  # the keys that there are, where no columns of the source hold them

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
    keys, steps = affected.left, list(spec.steps)
    if side.right is not None:
        assert affected.right is not None  # noqa: S101 - it holds the keys that are asked for
        keys = affected.right
        steps = [step for step in steps[steps.index(side.right) + 1 :] if not step.shares_key]

    def ask_for_key(alias: str, columns: tuple[str, ...]) -> Question:
        """Ask for keys that refer to themselves, by as many of their first parts as there are columns."""
        parts = zip(side.names, name_reference(len(columns)), strict=False)
        references = keys.select(*side.names, *[F.col(name).alias(part) for name, part in parts])
        is_held = {*columns} <= {*spec.sources[alias].columns}
        present = None if is_held else find_kind(spec).list_keys(run).toDF(*name_reference(len(columns)))
        return Question(alias, columns, references, side.names, present=present)

    found = [ask_for_key(side.alias, side.columns)]
    for step in steps:
        key = spec.sources[step.alias].key
        found.append(ask_for_key(step.alias, key) if step.shares_key else _ask_of_step(run, step, affected, side.names))
    return found


def _ask_of_step(run: Inquiry, step: Step, affected: Affected, names: list[str]) -> Question:
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
        writer, rows = run.workplace.find_maker(run.plan.job.sources[alias].table), run.snapshot(alias)
        held = None if writer is None else read_quarantine(run, writer, rows.columns)
        if held is not None:
            held = normalise.normalise_keys(held, run.plan.spec.sources[alias])
            found[reasons.QUARANTINED_UPSTREAM] = rows.unionByName(held)
        return found

    rows = drop_nulls(join.apply_steps(sources, affected, earlier), names)
    columns, references = sources.kind_of(step).ask(sources, step, rows, find_others)
    told = [name for name in references.columns if name in (*name_reference(len(columns)), VERDICT)]
    return Question(step.alias, columns, references.select(*names, *told), names, step.elements is not None)


# --- The answers: why rows have a partner, or why not ----------------------------------------------------------------


def tell_time(run: Inquiry, alias: str, version: int | None) -> str | None:
    """Return when a version of a source was written, in ISO 8601, UTC; None where its log no longer says so."""
    time = None if version is None else run.read_times(alias).get(version)
    return None if time is None else datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="seconds")


def find_reasons(run: Inquiry, asked: Sequence[Question], *, found_keys: bool = False) -> dict[Key, dict[str, Reason]]:
    """Return for every target key and source why the row has a partner there, or why not; on demand with found keys.

    A key is left out where no row gives a reference: the driving row is not there, or its list is empty.
    """
    hidden = {each.alias for each in run.plan.spec.steps if near_misses.hides_keys(run, each)}
    elements: dict[tuple[Key, str], list[tuple[Reason, int]]] = {}
    rows = _tell_reasons(run, asked)
    for row in rows.withColumns(write_keys(rows, asked[0].rows)).collect():
        at = tell_time(run, row["alias"], row[COMMIT])
        found = row[near_misses.FOUND] if found_keys and row["alias"] not in hidden else None
        reason = Reason(row[_REASON], row[near_misses.KIND], row[COMMIT], at, job=row[_JOB], found=found)
        key = tuple(row[name] for name in asked[0].rows)
        elements.setdefault((key, row["alias"]), []).append((reason, int(row[_COUNT])))
    lists = {each.alias for each in asked if each.is_list}
    answered: dict[Key, dict[str, Reason]] = {}
    for (key, alias), told in elements.items():
        worst = reasons.choose_worst([reason for reason, _ in told])
        answered.setdefault(key, {})[alias] = reasons.explain_list(told) if alias in lists else worst
    return answered


def find_words(run: Inquiry, asked: Sequence[Question], *, versions: bool = False) -> DataFrame:
    """Return the same as ``find_reasons`` for any number of keys, on demand with versions.

    In ``name_word(alias)`` of each source is a struct with ``reason``, ``kind`` and ``job``; or null for no reference.
    """
    rank = F.array_position(F.array(*map(F.lit, reasons.list_worst())), F.col(_REASON))
    columns = {_REASON: "reason", near_misses.KIND: "kind", _JOB: "job"} | ({COMMIT: "version"} if versions else {})
    word = F.struct(rank.alias("rank"), *[F.col(column).alias(name) for column, name in columns.items()])
    words = [F.min(F.when(F.col("alias") == each.alias, word)).alias(name_word(each.alias)) for each in asked]
    return _tell_reasons(run, asked).groupBy(*asked[0].rows).agg(*words)


def name_word(alias: str) -> str:
    """Return the column that says why rows have a partner in a source, or why not."""
    return f"__enrich_word_{alias}"


def _tell_reasons(run: Inquiry, asked: Sequence[Question]) -> DataFrame:
    """Return ``rows``, ``alias``, reason, version, kind of near miss, job, found key, and for how many references.

    The first fact decides:

    ==================================================  =========================
    the key that a row refers to                        reason
    ==================================================  =========================
    is null                                             ``foreign_key_null``
    is there                                            ``matched``, or as the kind of the join says (``VERDICT``)
    is there several times, and such rows are held      ``ambiguous``
    is not there, and the source has it now             ``arrived_after_window``
    is not there, and a job upstream holds it           ``quarantined_upstream``
    is not there, and a version before has deleted it   ``deleted_at``
    is not there, and a key is there that is nearly it  ``near_miss``
    is not there                                        ``no_such_key``
    ==================================================  =========================
    """
    found = []
    for each in asked:
        present = each.present
        if present is None:
            present = drop_nulls(run.snapshot(each.alias).select(*name_parts(each.columns, each.names))).distinct()
        marked = each.references.join(present.withColumn(_PRESENT, F.lit(True)), on=each.names, how="left")
        is_there = F.when(~has_null(each.names), F.coalesce(F.col(_PRESENT), F.lit(False)))
        marked = run.keep(marked.withColumn(_PRESENT, is_there))
        lost = run.keep(marked.where(~F.col(_PRESENT)).select(*each.names).distinct())
        texts = [run.plan.spec.sources[each.alias].columns.get(name) == TEXT_TYPE for name in each.columns]
        if each.present is None and lost.count():  # which also tells Spark how few they are
            if (doubled := run.read_held(each.alias)) is not None:
                doubled = doubled.select(*name_parts(each.columns, each.names)).distinct()
                doubled = doubled.join(lost, on=each.names, how="left_semi").withColumn(_DOUBLED, F.lit(True))
            for facts in (
                *_find_in_history(run, each, lost),
                near_misses.find_near_misses(lost, present, texts).drop(near_misses.SET) if any(texts) else None,
                _find_held(run, each, lost),
                doubled,
            ):
                marked = marked if facts is None else marked.join(facts, on=each.names, how="left")
        # Where its kind says how the join goes, that such a key came, or is held, does not make it a partner.
        for fact, word in ((_ARRIVED, reasons.ARRIVED_AFTER_WINDOW), (_HOLDER, reasons.QUARANTINED_UPSTREAM)):
            if {fact, VERDICT} <= {*marked.columns}:
                marked = marked.withColumn(fact, F.when(F.col(VERDICT) == word, F.col(fact)))
        every = {_ARRIVED: "long", _DELETED: "long", _HOLDER: "string", near_misses.KIND: "string"}
        every |= {near_misses.FOUND: "string", VERDICT: "string", _DOUBLED: "boolean"}
        marked = marked.withColumns({n: F.lit(None).cast(kind) for n, kind in every.items() if n not in marked.columns})
        reason = (
            F.when(F.col(_PRESENT).isNull(), reasons.FOREIGN_KEY_NULL)
            .when(F.col(_PRESENT), F.coalesce(F.col(VERDICT), F.lit(reasons.MATCHED)))
            .when(F.col(_DOUBLED), reasons.AMBIGUOUS)
            .when(F.col(_ARRIVED).isNotNull(), reasons.ARRIVED_AFTER_WINDOW)
            .when(F.col(_HOLDER).isNotNull(), reasons.QUARANTINED_UPSTREAM)
            .when(F.col(_DELETED).isNotNull(), reasons.DELETED_AT)
            .when(F.col(near_misses.KIND).isNotNull(), reasons.NEAR_MISS)
            .otherwise(reasons.NO_SUCH_KEY)
        )
        is_near, is_held = reason == reasons.NEAR_MISS, reason == reasons.QUARANTINED_UPSTREAM
        writer = run.workplace.find_maker(run.plan.job.sources[each.alias].table)
        holder = F.coalesce(F.col(_HOLDER), F.lit(None if writer is None else writer.job))
        told = marked.select(
            *each.rows,
            F.lit(each.alias).alias("alias"),
            reason.alias(_REASON),
            F.when(~is_held, F.coalesce(F.col(_ARRIVED), F.col(_DELETED))).alias(COMMIT),
            F.when(is_held, holder).alias(_JOB),
            *[F.when(is_near, F.col(name)).alias(name) for name in (near_misses.KIND, near_misses.FOUND)],
        )
        found.append(told.groupBy(*told.columns).agg(F.count("*").alias(_COUNT)))
    return unite(found)


# --- In the source's history -----------------------------------------------------------------------------------------


def _find_in_history(run: Inquiry, asked: Question, lost: DataFrame) -> Iterator[DataFrame]:
    """Find keys that the source has now, with the version that brought them; and those that it had before.

    These have the last version that took them away. Where the change feed cannot be read, nothing is found.
    """
    at, state = run.plan.window[asked.alias].to, run.plan.tables[asked.alias]
    source = run.plan.spec.sources[asked.alias]
    moves = None if state.version == at else _find_moves(run, asked, lost, (at, state.version))
    if moves is not None:
        is_there = F.col("come") > F.coalesce(F.col("gone"), F.lit(-1))
        is_there = is_there | (F.col("total") > 0)  # one of several versions of a key may have gone again
        if source.is_derived:  # that a row came is not enough
            rows = run.snapshot(asked.alias, state.version).select(*name_parts(asked.columns, asked.names))
            moves, is_there = moves.join(rows, on=asked.names, how="left_semi"), F.col("come").isNotNull()
        yield moves.where(is_there).select(*asked.names, F.col("come").alias(_ARRIVED))
    first = min(tables.read_commits(tables.open_log(state.uri)), default=at)
    moves = _find_moves(run, asked, lost, (first - 1, at))
    if moves is None:
        # The feed may have been switched on late, or its files may be gone: look for the oldest version to read from.
        unreadable, readable = first - 1, at
        while readable - unreadable > 1:
            middle = (unreadable + readable) // 2
            tried = _find_moves(run, asked, lost, (middle, at))
            unreadable, readable = (middle, readable) if tried is None else (unreadable, middle)
            moves = moves if tried is None else tried
    if moves is not None:
        yield moves.where(F.col("gone").isNotNull()).select(*asked.names, F.col("gone").alias(_DELETED))


def _find_moves(run: Inquiry, asked: Question, lost: DataFrame, window: tuple[int, int]) -> DataFrame | None:
    """Return when each lost key last came and last went; None where the change feed cannot be read."""
    source, uri = run.plan.spec.sources[asked.alias], run.plan.tables[asked.alias].uri
    columns = list(source.columns) if source.latest is not None else list(dict.fromkeys([*source.key, *asked.columns]))
    net, parts = F.sum(WEIGHT), name_parts(asked.columns, asked.names)
    if not tables.read_range(uri, window).is_whole:
        return None
    try:
        feed = normalise.normalise_keys(reads.read_change_feed(run.session, uri, window, columns), source)
        says = F.lit(False) if source.latest is None or source.latest.gone is None else F.expr(source.latest.gone)
        rows = feed.select(*parts, WEIGHT, COMMIT, says.alias("says")).join(lost, on=asked.names, how="left_semi")
        is_more, is_less = F.col(WEIGHT) > 0, F.col(WEIGHT) < 0
        come, gone, said = (F.max(F.when(e, F.col(COMMIT))) for e in (is_more, is_less, is_more & F.col("says")))
        if source.latest is None:
            rows = rows.groupBy(*asked.names, COMMIT, "says").agg(net.alias(WEIGHT))
        else:  # events come beside those of before: one that says so takes the row away, or else a removed event
            come, gone = F.max(COMMIT), F.coalesce(said, gone)
        moves = run.keep(rows.groupBy(*asked.names).agg(come.alias("come"), gone.alias("gone"), net.alias("total")))
        moves.count()
    except (PySparkException, Py4JJavaError):
        log.info("the change feed of %s cannot be read from version %d on", asked.alias, window[0] + 1)
        return None
    return moves


# --- In the quarantines of jobs upstream -----------------------------------------------------------------------------
#
#     people  ->  clean_people  ->  clean, and clean__quarantine with person b
#     clean   ->  copy_people   ->  copies: no b, for clean has none
#     copies  ->  orders_named: order 2 refers to b: ``quarantined_upstream``, job clean_people
#
# A job that keeps its driving source's key passes it on, so the quarantine before it is looked into for the same keys.


def _find_held(run: Inquiry, asked: Question, lost: DataFrame) -> DataFrame | None:
    """Find keys that jobs upstream hold: the job; None where no job can hold any."""
    source, found = run.plan.spec.sources[asked.alias], []
    for job, theirs in _list_holders(run.workplace, run.plan.job.sources[asked.alias].table, asked.columns):
        if (rows := read_quarantine(run, job, theirs)) is not None:
            rows = drop_nulls(normalise.normalise_keys(rows.toDF(*asked.columns), source)).toDF(*asked.names)
            found.append(rows.join(lost, on=asked.names, how="left_semi").withColumn(_HOLDER, F.lit(job.job)))
    return unite(found).groupBy(*asked.names).agg(F.min(_HOLDER).alias(_HOLDER)) if found else None


def _list_holders(
    workplace: Workplace, reference: str, columns: tuple[str, ...]
) -> Iterator[tuple[Job, tuple[str, ...]]]:
    """Yield the jobs that may hold rows of a table, with the columns of their targets that are ``columns`` there.

    The one that writes it is first; there is none where other systems write it.
    """
    writer = workplace.find_maker(reference)
    if writer is None:
        return
    yield writer, columns
    try:
        spec = workplace.open_job(writer).spec
    except EnrichError:  # it fits its tables no more: what it reads cannot be told
        return
    side, *_ = list_sides(spec)
    if not set(columns) <= set(side.identity):
        return
    places = [side.identity.index(column) for column in columns]
    sharing = [step.alias for step in spec.steps if step.shares_key and step.how != "left"]  # they have the same key
    keys = {spec.driving: side.columns, **{alias: spec.sources[alias].key for alias in sharing}}
    for alias, key in keys.items():
        yield from _list_holders(workplace, writer.sources[alias].table, tuple(key[place] for place in places))


def read_quarantine(run: Inquiry, job: Job, columns: Sequence[str]) -> DataFrame | None:
    """Return what a job's quarantine has in some columns; None where there is none, or not with these columns."""
    workplace = run.workplace
    uri = workplace.locate(find_quarantine(workplace.project.location(job.target.table)))
    if uri is None or not tables.exists(uri):
        return None
    state = tables.read_state(uri)
    is_whole = all(find(name, state.columns) is not None for name in columns)
    return reads.read_snapshot(run.session, uri, state.version, columns) if is_whole else None
