"""Failing rows -> why they fail: the words that ``why`` has for each of them, found for all at once.

    failing rows      what the sources say    what the rule's columns depend on       collected
    rule 0, u2   ->   accounts: no_such_key   rule 0: email null, accounts missing -> (rule 0, [1, 3, -1]): 2 rows
    rule 0, u3        accounts: no_such_key   the same

Only what the columns of a rule depend on is told apart, as small numbers. So few combinations reach the driver however
many rows fail, and there ``explain_cell`` decides, as it does for ``why``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from enrich.base.spec import JobSpec, quote
from enrich.diagnosis import evidence
from enrich.diagnosis.causes import Cause, FailingRow, sort_causes
from enrich.diagnosis.emptied import find_held_cells
from enrich.diagnosis.reasons import (
    MATCHED,
    QUARANTINED_UPSTREAM,
    VALUE_NULL,
    VALUE_NULL_IN_LOOKUP,
    WORST,
    Reason,
    explain_cell,
)
from enrich.diagnosis.sides import (
    Side,
    assume_reasons,
    build_affected,
    build_left_side,
    build_right_side,
    find_dependencies,
)
from enrich.diagnosis.upstream import HELD, Inquiry
from enrich.frames.columns import unite
from enrich.quality.counting import RULE
from enrich.quality.suites import SuiteRule
from enrich.steps.work import identify_rows

_FACTS, _TEXTS, _SIDE, _PLACE = "__enrich_facts", "__enrich_texts", "__enrich_side", "__enrich_place"
_ABSENT = -1


@dataclass(frozen=True)
class Subject:
    """What decides why rows of one side fail one rule.

    Attributes:
        cells: The rule's target columns, in its order, each with the sources that it depends on.
        assumed: Alias -> the reason of rows that refer to it not even with a null.
        driving: The driving source.
        read: Turns a word and its detail into a reason.
    """

    cells: tuple[tuple[str, tuple[str, ...]], ...]
    assumed: Mapping[str, Reason]
    driving: str
    read: Callable[[str, int | None], Reason]

    @property
    def aliases(self) -> tuple[str, ...]:
        """The sources that the rule depends on."""
        return tuple(dict.fromkeys(alias for _, aliases in self.cells for alias in aliases))

    def pack(self, nulls: Mapping[str, str], held: Mapping[str, str], asked: Sequence[str]) -> Column:
        """Return the facts of a row as ``array<int>``, for ``explain``.

        Args:
            nulls: Target column -> the column that says whether it is null.
            held: Target column -> the column that says which job holds what it would show, where one can.
            asked: The sources with a ``name_word``.
        """
        facts = [F.col(nulls[cell]).cast("int") for cell, _ in self.cells]
        holders = [F.col(held[cell]) if cell in held else F.lit(None) for cell, _ in self.cells]
        facts += [F.coalesce(each.cast("int"), F.lit(_ABSENT)) for each in holders]
        for alias in self.aliases:
            word = F.col(evidence.name_word(alias))
            parts = [word.getField("rank"), word.getField("detail")] if alias in asked else [F.lit(None)] * 2
            facts += [F.coalesce(part.cast("int"), F.lit(_ABSENT)) for part in parts]
        return F.array(*facts)

    def explain(self, facts: Sequence[int]) -> Reason:
        """Return the reason of the first of the rule's cells that has another one than ``matched``."""
        held, words = facts[len(self.cells) : 2 * len(self.cells)], facts[2 * len(self.cells) :]
        told = {
            alias: self.read(WORST[rank], None if detail == _ABSENT else detail)
            for alias, rank, detail in zip(self.aliases, words[::2], words[1::2], strict=True)
            if rank != _ABSENT
        }
        lookups = {**self.assumed, **told}
        for (_, aliases), is_null, holder in zip(self.cells, facts, held, strict=False):
            found = explain_cell(Reason(MATCHED), aliases, lookups, is_null=bool(is_null), driving=self.driving)
            if found.reason in (VALUE_NULL, VALUE_NULL_IN_LOOKUP) and holder != _ABSENT:
                return replace(self.read(QUARANTINED_UPSTREAM, holder), source=found.source)
            if found.reason != MATCHED:
                return found
        return Reason(MATCHED)


def add_facts(work: Inquiry, rows: DataFrame, rules: Sequence[SuiteRule]) -> DataFrame:
    """Add to the rows of a target what ``classify`` needs of them: ``list_facts``."""
    nulls = {flag: F.col(quote(cell)).isNull() for cell, flag in _name_nulls(work.task.spec, rules).items()}
    return rows.withColumns({**identify_rows(work.task).of(), **nulls})


def list_facts(work: Inquiry, rules: Sequence[SuiteRule]) -> list[str]:
    """Return the columns that ``add_facts`` adds."""
    return [*identify_rows(work.task).names, *_name_nulls(work.task.spec, rules).values()]


def find_cells(rule: SuiteRule, names: Sequence[str]) -> tuple[str, ...]:
    """Return the target columns that a rule judges; a field of a struct stands for its column."""
    found = []
    for column in rule.columns:
        bare = column[1:-1] if column.startswith("`") and column.endswith("`") else column
        found.append(next((name for name in (column, bare) if name in names), column.partition(".")[0]))
    return tuple(dict.fromkeys(found))


def _name_nulls(spec: JobSpec, rules: Sequence[SuiteRule]) -> dict[str, str]:
    cells = dict.fromkeys(cell for rule in rules for cell in find_cells(rule, spec.columns))
    return {cell: f"__enrich_null{i}" for i, cell in enumerate(cells)}


@dataclass(frozen=True)
class Classified:
    """Failing rows of one side with their facts.

    Attributes:
        rows: ``RULE``, facts, and the key as texts.
        subjects: Index of a rule -> what decides why rows fail it.
    """

    side: Side
    rows: DataFrame
    subjects: Mapping[int, Subject]


def classify(
    work: Inquiry, failing: DataFrame, rules: Sequence[SuiteRule], most: int
) -> dict[int, tuple[tuple[Cause, ...], tuple[FailingRow, ...]]]:
    """Say why rows fail their rules.

    Args:
        work: The job, with its window at what the target has consumed.
        failing: ``RULE`` and ``list_facts``, one row per row and rule that it fails.
        rules: The rules.
        most: For how many rows of each rule the keys are told, in the order of the keys.

    Returns:
        Index of a rule -> how many rows fail it for which reason, and the rows with their keys.
    """
    failing = work.keep(failing)
    sides = [build_left_side(work.task.spec)]
    right = build_right_side(work.task.spec)
    if right is not None:
        sides.append(right)
    found = [_classify_side(work, side, failing, rules) for side in sides]
    if most:  # and so read twice
        found = [replace(part, rows=work.keep(part.rows)) for part in found]
    counts: dict[int, Counter[Reason]] = {rule.index: Counter() for rule in rules}
    for part in found:
        for row in part.rows.groupBy(RULE, _FACTS).count().collect():
            counts[row[RULE]][part.subjects[row[RULE]].explain(row[_FACTS])] += row["count"]
    shown = _list_rows(found, most) if most else {}
    return {rule.index: (sort_causes(counts[rule.index]), tuple(shown.get(rule.index, ()))) for rule in rules}


def _classify_side(work: Inquiry, side: Side, failing: DataFrame, rules: Sequence[SuiteRule]) -> Classified:
    """Ask the sources about the failing rows of one side."""
    spec = work.task.spec
    is_left = reduce(and_, [F.col(name).isNotNull() for name in build_left_side(spec).names])
    rows = failing.where(is_left if side.right is None else ~is_left)
    affected = build_affected(work, side, work.keep(rows.select(*side.names).distinct()))
    asked = evidence.list_side_questions(work, side, affected)
    assumed = assume_reasons(spec, side, [each.alias for each in asked])
    subjects = {
        rule.index: Subject(
            tuple((cell, tuple(find_dependencies(spec, side, cell))) for cell in find_cells(rule, spec.columns)),
            assumed,
            spec.driving,
            partial(evidence.read_detail, work),
        )
        for rule in rules
    }
    cells = dict.fromkeys(cell for subject in subjects.values() for cell, _ in subject.cells)
    held = {}
    for number, cell in enumerate(cells):
        found = find_held_cells(work, asked, cell)
        if found is not None:
            held[cell] = f"{HELD}{number}"
            rows = rows.join(found.withColumnRenamed(HELD, held[cell]), on=side.names, how="left")
    needed = {alias for subject in subjects.values() for alias in subject.aliases}
    asked = [each for each in asked if each.alias in needed]
    if asked:
        rows = rows.join(evidence.find_words(work, asked), on=side.names, how="left")
    nulls, aliases = _name_nulls(spec, rules), [each.alias for each in asked]
    facts = [F.when(F.col(RULE) == index, subject.pack(nulls, held, aliases)) for index, subject in subjects.items()]
    texts = F.array(*[_write_key(rows, name) for name in side.names])
    return Classified(side, rows.select(RULE, F.coalesce(*facts).alias(_FACTS), texts.alias(_TEXTS)), subjects)


def _write_key(rows: DataFrame, name: str) -> Column:
    """Return a part of a key as ``enrich why`` reads it."""
    is_binary = rows.schema[name].dataType.typeName() == "binary"
    return F.hex(F.col(name)) if is_binary else F.col(name).cast("string")


def _list_rows(found: Sequence[Classified], most: int) -> dict[int, list[FailingRow]]:
    """Return failing rows with their keys, by rule."""
    parts = [part.rows.withColumn(_SIDE, F.lit(number)) for number, part in enumerate(found)]
    place = F.row_number().over(Window.partitionBy(RULE).orderBy(_SIDE, _TEXTS))
    rows = unite(parts).withColumn(_PLACE, place).where(F.col(_PLACE) <= most)
    shown: dict[int, list[FailingRow]] = {}
    for row in rows.orderBy(RULE, _PLACE).collect():
        part = found[row[_SIDE]]
        key = dict(zip(part.side.identity, row[_TEXTS], strict=True))
        reason = part.subjects[row[RULE]].explain(row[_FACTS])
        shown.setdefault(row[RULE], []).append(FailingRow(key, reason))
    return shown
