"""Count which rows of a whole target fail its rules, and say why: ``enrich failing``.

    target            rule 0: email not null     sources' reasons        rule 0
    u1, a@b                                                              2 of 3 rows fail
    u2, null     ->   u2 fails              ->   u2: no_such_key    ->   1 no_such_key
    u3, null          u3 fails                   u3: deleted_at          1 deleted_at

What ``why`` says of each of them is asked of all at once. The labels are Great Expectations' own, and one pass counts
all rules that can share it. A second pass takes the failing rows alone, when there are any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from enrich.answers import evidence
from enrich.answers.evidence import HELD
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
from enrich.answers.reasons import (
    MATCHED,
    NULL_VALUES,
    QUARANTINED_UPSTREAM,
    Cause,
    FailingRow,
    FailingRows,
    Reason,
    RuleCauses,
    explain_cell,
    list_worst,
    sort_causes,
)
from enrich.base import hints
from enrich.base.errors import ConfigError, HistoryError
from enrich.base.extras import EXPECTATIONS, require_extra
from enrich.base.result import RuleState
from enrich.base.spec import JobSpec, quote
from enrich.base.suites import SuiteRule
from enrich.frames.columns import unite
from enrich.operations.loading import choose_jobs
from enrich.operations.workplace import Workplace
from enrich.progress.plan import OpenJob, Plan
from enrich.project.project import Project
from enrich.quality.gx import silence_gx
from enrich.quality.judge import RULE, Labels, count_rules, find_failing, label_rows
from enrich.steps.rows import make_no_rows
from enrich.steps.run import identify_rows, read_target

MOST_KEYS = 100
"""How many failing rows of one rule are shown with their keys at most."""
_FACTS, _TEXTS, _SIDE, _PLACE = "__enrich_facts", "__enrich_texts", "__enrich_side", "__enrich_place"
_ABSENT = -1


def examine_rules(
    project: Project, name: str, rule: int | None, *, spark: SparkSession | None, show_keys: bool
) -> FailingRows:
    """Answer ``enrich.failing``."""
    (name,) = choose_jobs(project, [name], ())
    rules = _choose_rules(project, name, rule)
    workplace, opened = open_recorded(project, name, spark)
    version = _find_version(opened)
    found = _examine(workplace, rewind(workplace, opened), rules, MOST_KEYS if show_keys else 0)
    return FailingRows(name, version, found)


def examine_recorded(
    project: Project, name: str, *, spark: SparkSession | None, beside: Iterable[str]
) -> tuple[RuleCauses, ...]:
    """Answer ``enrich.answers.find_causes``."""
    workplace, opened = open_recorded(project, name, spark, beside)
    _find_version(opened)
    plan, suite = rewind(workplace, opened), project.suite(project.jobs[name])
    recorded = plan.recorded_state
    if suite is None or recorded is None:
        return ()
    failing = {each.index for each in recorded.rules if each.failed}
    rules = [rule for rule in suite.row_rules if rule.index in failing]
    return _examine(workplace, plan, rules, 0) if rules else ()


def _find_version(opened: OpenJob) -> int:
    """Return the version of the target.

    Raises:
        HistoryError: There is no target.
    """
    if opened.target.table is None:
        name = opened.job.job
        raise HistoryError(f"job {name!r} has no target yet", hint=f"run `{hints.run(name)}` to create it")
    return opened.target.table.version


def _choose_rules(project: Project, name: str, index: int | None) -> tuple[SuiteRule, ...]:
    """Return the rules that are asked about.

    Raises:
        ConfigError: There are none, or the one that is meant does not judge each row by itself.
    """
    job = project.jobs[name]
    suite = project.suite(job)
    if suite is None:
        raise ConfigError(f"job {name!r} has no suite", hint=f"name one with `expectations` in {job.file}")
    rules: tuple[SuiteRule, ...] = suite.row_rules
    chosen = tuple(rule for rule in rules if index in (None, rule.index))
    if chosen:
        return chosen
    listed = ", ".join(f"{rule.index} ({rule.label})" for rule in rules)
    hint = f"the rules that do are {listed}" if listed else f"`{hints.report()}` shows what the others found"
    if index is None:
        raise ConfigError(f"no rule of job {name!r} judges each row by itself", hint=hint)
    is_there = any(rule.index == index for rule in suite.rules)
    lack = "does not judge each row by itself" if is_there else "does not exist, so it judges no row"
    raise ConfigError(f"rule {index} of job {name!r} {lack}", hint=hint)


def _examine(workplace: Workplace, plan: Plan, rules: Sequence[SuiteRule], most: int) -> tuple[RuleCauses, ...]:
    """Count the rows that fail, and say why they do; at most ``most`` keys a rule. The plan is rewound."""
    require_extra(EXPECTATIONS)

    def answer(run: Inquiry) -> tuple[RuleCauses, ...]:
        rows, spec = read_target(run), run.plan.spec
        assert rows is not None  # noqa: S101 - the caller has looked
        if len(rows.columns) != len(spec.columns):  # rows written before a column have nulls in it
            empty = make_no_rows(run).select(*map(quote, spec.columns))
            rows = empty.unionByName(rows, allowMissingColumns=True)
        labels = label_rows(rows, rules)
        counted, _ = count_rules([(rows, 1)], rules, labels)
        good = {index: each for index, each in labels.items() if isinstance(each, Labels)}
        wanting = [rule for rule in rules if counted[rule.index].failed]
        if not wanting:
            return tuple(_conclude(rule, counted[rule.index]) for rule in rules)
        run.expect_rows(sum(counted[rule.index].failed or 0 for rule in wanting))
        nulls = _name_nulls(spec, wanting)
        facts = {flag: F.col(quote(cell)).isNull() for cell, flag in nulls.items()}
        names = [*identify_rows(run.plan).names, *nulls.values()]
        with silence_gx():
            marked = rows.withColumns({**identify_rows(run.plan).of(), **facts})
            found = _classify(run, find_failing(marked, wanting, good, names), wanting, most)
        return tuple(_conclude(rule, counted[rule.index], *found.get(rule.index, ())) for rule in rules)

    return answer_inside(workplace, plan, answer)


def _conclude(
    rule: SuiteRule, counted: RuleState, causes: tuple[Cause, ...] = (), rows: tuple[FailingRow, ...] = ()
) -> RuleCauses:
    """Put together what is known of one rule; one that raised has no counts."""
    names = (rule.column, rule.column_list)
    return RuleCauses(rule.index, rule.type, *names, counted.checked, counted.failed, counted.error, causes, rows)


def _find_cells(rule: SuiteRule, names: Sequence[str]) -> tuple[str, ...]:
    """Return the target columns that a rule judges; a field of a struct stands for its column."""
    found = []
    for column in rule.columns:
        bare = column[1:-1] if column.startswith("`") and column.endswith("`") else column
        found.append(next((name for name in (column, bare) if name in names), column.partition(".")[0]))
    return tuple(dict.fromkeys(found))


def _name_nulls(spec: JobSpec, rules: Sequence[SuiteRule]) -> dict[str, str]:
    """Return target column that a rule judges -> the column that says whether it is null."""
    cells = dict.fromkeys(cell for rule in rules for cell in _find_cells(rule, spec.columns))
    return {cell: f"__enrich_null{i}" for i, cell in enumerate(cells)}


@dataclass(frozen=True)
class Subject:
    """What decides why rows of one side fail one rule.

    Attributes:
        run: The job.
        cells: The rule's target columns, in its order, each with the sources that it depends on.
        assumed: Alias -> the reason of rows that refer to it not even with a null.
    """

    run: Inquiry
    cells: tuple[tuple[str, tuple[str, ...]], ...]
    assumed: Mapping[str, Reason]

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
        facts = [F.col(nulls[cell]) for cell, _ in self.cells]
        facts += [F.col(held[cell]) if cell in held else F.lit(None) for cell, _ in self.cells]
        for alias in self.aliases:
            word = F.col(evidence.name_word(alias))
            facts += [word.getField("rank"), word.getField("detail")] if alias in asked else [F.lit(None)] * 2
        return F.array(*[F.coalesce(fact.cast("int"), F.lit(_ABSENT)) for fact in facts])

    def explain(self, facts: Sequence[int]) -> Reason:
        """Return the reason of the first of the rule's cells that has another one than ``matched``."""
        held, words = facts[len(self.cells) : 2 * len(self.cells)], facts[2 * len(self.cells) :]
        told = {
            alias: evidence.read_detail(self.run, list_worst()[rank], None if detail == _ABSENT else detail)
            for alias, rank, detail in zip(self.aliases, words[::2], words[1::2], strict=True)
            if rank != _ABSENT
        }
        lookups, driving = {**self.assumed, **told}, self.run.plan.spec.driving
        for (_, aliases), is_null, holder in zip(self.cells, facts, held, strict=False):
            found = explain_cell(Reason(MATCHED), aliases, lookups, is_null=bool(is_null), driving=driving)
            if found.reason in NULL_VALUES and holder != _ABSENT:
                return replace(evidence.read_detail(self.run, QUARANTINED_UPSTREAM, holder), source=found.source)
            if found.reason != MATCHED:
                return found
        return Reason(MATCHED)


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


def _classify(
    run: Inquiry, failing: DataFrame, rules: Sequence[SuiteRule], most: int
) -> dict[int, tuple[tuple[Cause, ...], tuple[FailingRow, ...]]]:
    """Say why rows fail their rules, in the words that ``why`` has for each of them, for all at once.

        failing rows      what the sources say    what the rule's columns depend on       collected
        rule 0, u2   ->   accounts: no_such_key   rule 0: email null, accounts missing -> (rule 0, [1, 3, -1]): 2 rows
        rule 0, u3        accounts: no_such_key   the same

    Only what the columns of a rule depend on is told apart, as small numbers. So few combinations reach the driver
    however many rows fail, and there ``explain_cell`` decides, as it does for ``why``.

    Args:
        run: The job, with its window at what the target has consumed.
        failing: ``RULE``, the key's parts and ``_name_nulls``, one row per row and rule that it fails.
        rules: The rules.
        most: For how many rows of each rule the keys are told, in the order of the keys.

    Returns:
        Index of a rule -> how many rows fail it for which reason, and the rows with their keys.
    """
    failing, spec = run.keep(failing), run.plan.spec
    sides = (build_left_side(spec), build_right_side(spec, spec.right_step()))
    found = [_classify_side(run, side, failing, rules) for side in sides if side is not None]
    if most:  # and so read twice
        found = [replace(part, rows=run.keep(part.rows)) for part in found]
    counts: dict[int, Counter[Reason]] = {rule.index: Counter() for rule in rules}
    for part in found:
        for row in part.rows.groupBy(RULE, _FACTS).count().collect():
            counts[row[RULE]][part.subjects[row[RULE]].explain(row[_FACTS])] += row["count"]
    shown: dict[int, list[FailingRow]] = {}
    if most:
        parts = [part.rows.withColumn(_SIDE, F.lit(number)) for number, part in enumerate(found)]
        place = F.row_number().over(Window.partitionBy(RULE).orderBy(_SIDE, _TEXTS))
        rows = unite(parts).withColumn(_PLACE, place).where(F.col(_PLACE) <= most)
        for row in rows.orderBy(RULE, _PLACE).collect():
            part = found[row[_SIDE]]
            key = dict(zip(part.side.identity, row[_TEXTS], strict=True))
            reason = part.subjects[row[RULE]].explain(row[_FACTS])
            shown.setdefault(row[RULE], []).append(FailingRow(key, reason))
    return {rule.index: (sort_causes(counts[rule.index]), tuple(shown.get(rule.index, ()))) for rule in rules}


def _classify_side(run: Inquiry, side: Side, failing: DataFrame, rules: Sequence[SuiteRule]) -> Classified:
    """Ask the sources about the failing rows of one side."""
    spec = run.plan.spec
    is_left = reduce(and_, [F.col(name).isNotNull() for name in build_left_side(spec).names])
    rows = failing.where(is_left if side.right is None else ~is_left)
    affected = build_affected(run, side, run.keep(rows.select(*side.names).distinct()))
    asked = evidence.list_questions(run, side, affected)
    assumed = assume_reasons(spec, side, [each.alias for each in asked])
    subjects = {}
    for rule in rules:
        cells = [(cell, tuple(find_dependencies(spec, side, cell))) for cell in _find_cells(rule, spec.columns)]
        subjects[rule.index] = Subject(run, tuple(cells), assumed)
    held = {}
    for number, cell in enumerate(dict.fromkeys(cell for each in subjects.values() for cell, _ in each.cells)):
        found = evidence.find_held_cells(run, asked, cell)
        if found is not None:
            held[cell] = f"{HELD}{number}"
            rows = rows.join(found.withColumnRenamed(HELD, held[cell]), on=side.names, how="left")
    needed = {alias for subject in subjects.values() for alias in subject.aliases}
    asked = [each for each in asked if each.alias in needed]
    if asked:
        rows = rows.join(evidence.find_words(run, asked), on=side.names, how="left")
    nulls, aliases = _name_nulls(spec, rules), [each.alias for each in asked]
    facts = [F.when(F.col(RULE) == index, subject.pack(nulls, held, aliases)) for index, subject in subjects.items()]
    # The key as `enrich why` reads it.
    texts = [F.hex(name) if rows.schema[name].dataType.typeName() == "binary" else F.col(name) for name in side.names]
    key = F.array(*[text.cast("string") for text in texts]).alias(_TEXTS)
    return Classified(side, rows.select(RULE, F.coalesce(*facts).alias(_FACTS), key), subjects)
