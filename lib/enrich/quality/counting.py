"""Row rules counted over rows: one projection and one aggregate for all that can share it.

    rows                 rule                          marks                 counts
    1, a@b; 2, null      not null (email)              (1, 1, 0), (1, 1, 1)  let in 2, checked 2, failed 1

Rows count as often as the weight of their frame says: the state of a target grows by the new images of changed rows,
weight 1, and shrinks by the old ones, weight -1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.failures import is_no_verdict
from enrich.frames.columns import unite
from enrich.quality.gx import RuleError, filter_rows, silence_gx
from enrich.quality.labels import Labels, label_measured
from enrich.quality.suites import SuiteRule
from enrich.quality.whole import try_or_split

Weighted = Sequence[tuple[DataFrame, int]]
"""Frames with the same columns, each with how often its rows count."""

RULE = "__enrich_rule"
"""The index of a rule that a row fails."""

_PYTHON = (
    "expect_column_values_to_be_json_parseable",
    "expect_column_values_to_match_json_schema",
    "expect_column_values_to_match_strftime_format",
)


@dataclass(frozen=True)
class RuleCounts:
    """What one row rule says of some rows.

    Attributes:
        total: Rows that its row condition lets in.
        checked: Those without the nulls that GX ignores.
        failed: Those that it finds wanting.
        label: What it was counted with; None when it raised.
        error: The class of what it raised.
    """

    total: int = 0
    checked: int = 0
    failed: int = 0
    label: Labels | None = None
    error: str | None = None


def count_rules(
    rows: Weighted,
    rules: Sequence[SuiteRule],
    labels: Mapping[int, Labels | RuleError],
    marks: Mapping[str, Column] | None = None,
) -> tuple[dict[int, RuleCounts], dict[str, int]]:
    """Count what row rules say of rows, by the rule's index; a rule that raises has its error alone.

    A rule that looks at other rows, or that runs Python on a value, must not see what its row condition keeps out, so
    with a row condition it has a pass of its own.

    Args:
        rows: Frames with the columns for which ``labels`` were made.
        rules: Row rules.
        labels: What they say of a row, by index; none for rules that measure the rows first.
        marks: Further conditions to be counted in the same pass, by name.

    Returns:
        What the rules say, by index; and for how many rows each of ``marks`` is true.
    """
    good = {index: label for index, label in labels.items() if isinstance(label, Labels)}
    shared = [rule for rule in rules if rule.index in good and not needs_own_rows(rule)]
    found, counts = _count_together(rows, shared, good, marks or {})
    with silence_gx():
        for rule in rules:
            if rule.index not in found:
                found |= try_or_split([rule], lambda part: _count_alone(rows, part[0], labels), _note_error)
    return found, counts


def _count_together(
    rows: Weighted, rules: Sequence[SuiteRule], labels: Mapping[int, Labels], marks: Mapping[str, Column]
) -> tuple[dict[int, RuleCounts], dict[str, int]]:
    """Count rules and marks in one pass; when that raises, the marks, and each rule, in passes of their own."""
    if not rules:
        return {}, count_marks(rows, marks) if marks else {}
    with silence_gx():
        try:
            return _count(rows, rules, labels, marks)
        except Exception as error:
            if is_no_verdict(error):
                raise
            found = try_or_split(rules, lambda part: _count(rows, part, labels)[0], _note_error)
    return found, count_marks(rows, marks) if marks else {}


def needs_own_rows(rule: SuiteRule) -> bool:
    """Tell whether a rule must not be evaluated on rows that its row condition keeps out."""
    return rule.row_condition is not None and (rule.spec.windowed or rule.type in _PYTHON)


def _note_error(_rule: SuiteRule, error: str) -> RuleCounts:
    return RuleCounts(error=error)


def find_failing(
    frame: DataFrame, rules: Sequence[SuiteRule], labels: Mapping[int, Labels], kept: Sequence[str]
) -> DataFrame:
    """Return every row that fails a rule, once for each rule that it fails.

    ```
    rows         rules                          failing, kept: id
    1, a@b       0: email not null        ->    2, rule 0
    2, null      1: email matches @             3, rule 1
    3, none
    ```

    Args:
        frame: Rows with the target's columns.
        rules: Row rules that ``count_rules`` has counted without an error.
        labels: What ``label_rows`` gave for them.
        kept: The columns to keep.

    Returns:
        ``kept`` and ``RULE``, the rule's index. Read the rows within ``silence_gx``.
    """
    alone = [rule for rule in rules if needs_own_rows(rule)]
    shared = [rule for rule in rules if rule not in alone]
    parts = [(frame, shared)] if shared else []
    parts += [(filter_rows(frame, rule), [rule]) for rule in alone]
    found = []
    for rows, chosen in parts:
        marks = [F.when(labels[rule.index].failing(), F.lit(rule.index)) for rule in chosen]
        found.append(rows.select(*kept, F.explode(F.array_compact(F.array(*marks))).alias(RULE)))
    return unite(found)


def _count_alone(rows: Weighted, rule: SuiteRule, labels: Mapping[int, Labels | RuleError]) -> dict[int, RuleCounts]:
    """Count one rule over the rows that it judges; a rule without label measures them first."""
    label = labels.get(rule.index)
    if isinstance(label, RuleError):
        raise label
    if label is None:
        ((frame, weight),) = rows
        measured, own = label_measured(frame, rule)
        return _count([(measured, weight)], [rule], {rule.index: own})[0]
    return _count([(filter_rows(frame, rule), weight) for frame, weight in rows], [rule], {rule.index: label})[0]


_PARTS = ("total", "checked", "failed")


def _count(
    rows: Weighted, rules: Sequence[SuiteRule], labels: Mapping[int, Labels], more: Mapping[str, Column] | None = None
) -> tuple[dict[int, RuleCounts], dict[str, int]]:
    marks: dict[tuple[str, str], Column] = {}
    for rule in rules:
        label = labels[rule.index]
        total = F.lit(True) if label.domain is None else F.coalesce(label.domain, F.lit(False))
        checked = total if label.ignored is None else total & ~label.ignored
        columns = (total, checked, label.failing())
        marks.update(zip(zip(_PARTS, label.keys, strict=True), columns, strict=True))
    names = {key: f"l{number}" for number, key in enumerate(marks)}
    more = more or {}
    counts = count_marks(rows, {**more, **{names[key]: condition for key, condition in marks.items()}})
    found: dict[int, RuleCounts] = {}
    for rule in rules:
        label = labels[rule.index]
        total_rows, checked_rows, failed = (counts[names[key]] for key in zip(_PARTS, label.keys, strict=True))
        found[rule.index] = RuleCounts(total_rows, checked_rows, failed, label)
    return found, {name: counts[name] for name in more}


def count_marks(rows: Weighted, marks: Mapping[str, Column]) -> dict[str, int]:
    """Count for how many rows each condition is true, by its name."""
    projected = [
        frame.select(*[F.when(condition, F.lit(weight)).alias(name) for name, condition in marks.items()])
        for frame, weight in rows
    ]
    united = unite(projected)
    counts = united.agg(*[F.coalesce(F.sum(F.col(name)), F.lit(0)).alias(name) for name in marks]).collect()[0]
    return {name: int(counts[name]) for name in marks}
