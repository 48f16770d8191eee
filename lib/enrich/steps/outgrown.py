"""Whether a target's table can hold the rows that its job gives now, which only Spark knows the types of.

Structs are compared and written field by field, by position. So a list whose lookup has gained, lost or moved a column
needs a table that is written anew, even where the lookup itself is not shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import replace

from pyspark.sql import SparkSession

from enrich.base import hints
from enrich.base.errors import HistoryError, RefreshNeeded
from enrich.base.schemas import strip_type
from enrich.base.spec import DataType
from enrich.progress.prepare import open_whole
from enrich.progress.task import FULL_REFRESH, REPAIR, Task
from enrich.steps.rows import make_no_rows
from enrich.steps.work import Work
from enrich.storage.layout import keeps_values


def fit_to_target(task: Task, session: SparkSession) -> Task:
    """Return a task whose rows its target can hold: the same, or one that writes all of them anew.

    Raises:
        HistoryError: A run by changes, or a comparison, meets a column of another type than the job's that somebody
            else has added to the target; or a comparison meets lists of another shape.
    """
    table = task.target.table
    if table is None or task.rewrites:
        return task
    there = {name.lower(): strip_type(kind) for name, kind in table.columns.items()}
    recorded = {name.lower() for name in task.target.cursor.columns} if task.target.cursor is not None else set()
    shared = _share(task.spec.columns, there)
    added = [name for name in shared if name.lower() not in recorded]
    nested = [name for name in shared if _outline(there[name.lower()]) is not None]
    beside = {} if task.target.quarantine is None else task.target.quarantine.table.columns
    adopts = bool(added) or any(each.lower() not in recorded for each in _share(task.spec.columns, beside))
    if not adopts and not nested:
        return task
    kinds = _find_types(task, session)
    foreign = [name for name in added if kinds[name] != there[name.lower()]]
    outgrown = [name for name in nested if _outline(kinds[name]) != _outline(there[name.lower()])]
    if task.mode == FULL_REFRESH:
        return replace(task, outgrown=True) if foreign or outgrown else task
    if foreign:
        raise RefreshNeeded(
            f"column {foreign[0]!r} of the target of {task.job.job!r} is of another writer, and of another type than"
            " the column that the job has now",
            hint=f"run `{hints.refresh(task.job.job)}`, which takes its place",
        )
    if task.spec.remembers:  # it would forget versions; its rows are fitted to fields that have come
        outgrown = [name for name in outgrown if not keeps_values(there[name.lower()], kinds[name])]
    if outgrown and task.mode == REPAIR:
        raise HistoryError(
            f"the lists in column {outgrown[0]!r} have other fields, or in another order, than in the target",
            hint=f"run `{hints.refresh(task.job.job)}`, which writes them again",
        )
    if outgrown:
        return replace(_take_whole(task), outgrown=True)
    return _adopt_columns(task) if adopts and not task.everything else task


def _share(ours: Collection[str], theirs: Collection[str]) -> list[str]:
    known = {name.lower() for name in theirs}
    return [name for name in ours if name.lower() in known]


def _take_whole(task: Task) -> Task:
    return replace(open_whole(task), again={}, apart={})


def _adopt_columns(task: Task) -> Task:
    """Compute all rows: a column that becomes the job's may have another writer's values, or a DEFAULT's, in any.

    A history is not read from its beginning for that, which may be forgotten: what is recorded is compared.
    """
    return replace(task, anew=True) if task.spec.remembers else _take_whole(task)


def _find_types(task: Task, session: SparkSession) -> Mapping[str, DataType]:
    """Return the types of the job's columns; nothing is read but logs."""
    with ExitStack() as cleanup:
        rows = make_no_rows(Work(task, session, cleanup))
    return {field.name: strip_type(field.dataType.jsonValue()) for field in rows.schema.fields}


def _outline(kind: DataType) -> object:
    """Return the fields of the structs within a type, in order and without case; None when there are none."""
    if isinstance(kind, str):
        return None
    if kind["type"] == "struct":
        return tuple((field["name"].lower(), _outline(field["type"])) for field in kind["fields"])
    inner = [_outline(kind[part]) for part in ("elementType", "keyType", "valueType") if part in kind]
    return tuple(inner) if any(each is not None for each in inner) else None
