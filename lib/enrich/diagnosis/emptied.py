"""Cells that are null because the cell that they show, in another job's target, is null for a row that is held.

    clean_people holds b  ->  named: order 2 has no mail  ->  after: its mail, copied from named, is null

The job that writes the table is asked about the same column, at what its own target has consumed, and so on upwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base.errors import EnrichError
from enrich.base.spec import JobSpec
from enrich.diagnosis import evidence
from enrich.diagnosis.opening import rewind
from enrich.diagnosis.sides import build_affected, build_left_side
from enrich.diagnosis.upstream import HELD, Inquiry, find_held, find_writer
from enrich.frames.columns import drop_nulls, unite


def find_held_cells(run: Inquiry, asked: Sequence[evidence.Question], column: str) -> DataFrame | None:
    """Find rows whose cell is null because of a row that a job upstream of the shown table holds.

    Args:
        run: The job that is asked about.
        asked: What its rows refer to.
        column: The column of its target.

    Returns:
        ``rows`` of the questions and ``HELD``, the cells that are not null among them; None where there are none.
    """
    found = []
    questions = {each.alias: each for each in asked}
    for alias, name in _list_shown(run.plan.spec, column):
        if alias in questions:
            question = questions[alias]
            keys = drop_nulls(question.references.select(*question.names).distinct())
            held = _find_in_source(run, question, keys, name)
            found += [] if held is None else [_tell_rows(question, held)]
    return _unite(found, asked[0].rows) if found else None


def _find_in_source(run: Inquiry, question: evidence.Question, keys: DataFrame, column: str) -> DataFrame | None:
    """Find keys of a source whose cell its writer could not fill, because of a row that is held: keys and ``HELD``."""
    workplace = run.require_workplace()
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
    order = [question.names[question.columns.index(name)] for name in side.identity]
    affected = build_affected(theirs, side, keys.select(*order).toDF(*side.names))
    asked = {each.alias: each for each in evidence.list_side_questions(theirs, side, affected)}
    found = []
    for alias, name in _list_shown(plan.spec, column):
        if alias in asked:
            wanted = drop_nulls(asked[alias].references.select(*asked[alias].names).distinct())
            lost = find_held(theirs, alias, asked[alias].columns, wanted)
            deeper = _find_in_source(theirs, asked[alias], wanted, name)
            found += [_tell_rows(asked[alias], each) for each in (lost, deeper) if each is not None]
    if not found:
        return None
    names = dict(zip(side.names, order, strict=True))
    return _unite(found, side.names).withColumnsRenamed(names)


def _tell_rows(question: evidence.Question, held: DataFrame) -> DataFrame:
    """Return the rows that refer to keys, with the ``HELD`` of these."""
    return question.references.join(held, on=question.names).select(*question.rows, HELD)


def _unite(found: Sequence[DataFrame], names: Sequence[str]) -> DataFrame:
    return unite(found).groupBy(*names).agg(F.min(HELD).alias(HELD))


def _list_shown(spec: JobSpec, column: str) -> Iterator[tuple[str, str]]:
    """Yield the sources and their columns that a column of the target shows."""
    if not spec.outputs:
        yield spec.driving, column
        return
    for output in spec.outputs:
        if output.name == column:
            yield from ((path[0], path[1]) for path in sorted(output.paths) if len(path) > 1)
