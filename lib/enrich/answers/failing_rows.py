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
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from enrich.answers import evidence, opened_job
from enrich.answers.opened_job import Inquiry, Side
from enrich.answers.question import COMBINATION, ROWS, find_cell, follow_upstream
from enrich.answers.reasons import MATCHED, FailingRow, FailingRows, Reason, RuleCauses, explain_cell, sort_causes
from enrich.base import hints
from enrich.base.errors import ConfigError
from enrich.base.failures import EXPECTATIONS, require_extra
from enrich.base.spec import quote
from enrich.base.suites import SuiteRule
from enrich.frames.columns import has_null, unite
from enrich.operations.loading import choose_jobs
from enrich.operations.workplace import Workplace
from enrich.progress.decision import require_target
from enrich.progress.plan import Plan
from enrich.project.project import Project
from enrich.quality.gx import filter_rows, silence_gx
from enrich.quality.judge import Labels, count_rules, label_rows, needs_own_rows
from enrich.steps.rows import make_no_rows
from enrich.steps.run import identify_rows, read_target

MOST_KEYS = 100  # how many failing rows of one rule are shown with their keys at most
_KEY = "__enrich_key"
RULE = "__enrich_rule"  # the index of a rule that a row fails


def failing(
    project: Project,
    job: str,
    rule: int | str | None = None,
    *,
    spark: SparkSession | None = None,
    show_keys: bool = False,
) -> FailingRows:
    """Count the rows of a job's target that fail its rules, and say why they do.

    The rules are those that judge each row by itself. Every row that fails has the reason that ``why`` gives for its
    cell in the rule's column; with several columns, that of the first cell whose reason is not ``matched``.
    ``rule`` is its position in the suite, from 0; None for all. The counts of a rule's ``reasons`` add up to
    ``failed``. ``show_keys`` keeps at most 100 keys a rule in ``rows``; ``to_dict()`` holds no keys and no values.
    """
    choose_jobs(project, [job], ())
    suite = project.suite(project.jobs[job])
    if suite is None:
        raise ConfigError(f"job {job!r} has no suite", hint=f"name one with `expectations` in {project.jobs[job].file}")
    rules = [each for each in suite.row_rules if rule in (None, each.index, str(each.index))]
    if not rules:
        listed = ", ".join(f"{each.index} ({each.label})" for each in suite.row_rules)
        hint = f"the rules that do are {listed}" if listed else f"`{hints.report()}` shows what the others found"
        if rule is None:
            raise ConfigError(f"no rule of job {job!r} judges each row by itself", hint=hint)
        raise ConfigError(f"rule {rule} of job {job!r} does not exist, or judges no row by itself", hint=hint)
    workplace, plan = opened_job.open_recorded(project, job, spark)
    version = require_target(plan).version
    return FailingRows(job, version, _examine(workplace, plan, rules, MOST_KEYS if show_keys else 0))


def _examine(workplace: Workplace, plan: Plan, rules: Sequence[SuiteRule], most: int) -> tuple[RuleCauses, ...]:
    """Count the rows that fail, and say why they do; at most ``most`` keys a rule."""
    require_extra(EXPECTATIONS)

    def answer(run: Inquiry) -> tuple[RuleCauses, ...]:
        rows, spec = read_target(run), run.plan.spec
        assert rows is not None  # noqa: S101 - the caller has looked
        if len(rows.columns) != len(spec.columns):  # rows written before a column have nulls in it
            rows = make_no_rows(run).select(*map(quote, spec.columns)).unionByName(rows, allowMissingColumns=True)
        labels = label_rows(rows, rules)
        counted, _ = count_rules([(rows, 1)], rules, labels)
        good = {index: each for index, each in labels.items() if isinstance(each, Labels)}
        wanting = {rule.index: rule for rule in rules if counted[rule.index].failed}
        reasons, keys = Counter[tuple[int, Reason]](), list[tuple[int, FailingRow]]()
        if wanting:
            run.expect_rows(sum(counted[index].failed or 0 for index in wanting))
            cells = {}
            for index, rule in wanting.items():  # a field of a struct stands for its column
                judged = [name if name in spec.columns else name.strip("`") for name in rule.columns]
                cells[index] = [name if name in spec.columns else name.partition(".")[0] for name in judged]
            nulls = {cell: f"__enrich_null{i}" for i, cell in enumerate(set().union(*cells.values()))}
            facts = {name: F.col(quote(cell)).isNull() for cell, name in nulls.items()}
            identity = identify_rows(run.plan)
            with silence_gx():
                marked = rows.withColumns({**identity.of(), **facts})
                failing = run.keep(_find_failing(marked, list(wanting.values()), good, [*identity.names, *facts]))
                for side in opened_job.list_sides(spec):
                    counts, rows_of_side = _explain(run, side, failing, cells, nulls, most)
                    reasons.update(counts)
                    keys += rows_of_side
        told = []
        for rule in rules:
            said = counted[rule.index]
            causes = sort_causes({reason: rows for (index, reason), rows in reasons.items() if index == rule.index})
            shown = tuple([row for index, row in keys if index == rule.index][:most])
            names = rule.index, rule.type, rule.column, rule.column_list
            told.append(RuleCauses(*names, said.checked, said.failed, said.error, causes, shown))
        return tuple(told)

    return opened_job.answer_inside(workplace, plan, answer)


def _find_failing(
    frame: DataFrame, rules: Sequence[SuiteRule], labels: Mapping[int, Labels], kept: Sequence[str]
) -> DataFrame:
    """Return every row that fails a rule, once for each rule that it fails.

    ```
    rows         rules                          failing, kept: id
    1, a@b       0: email not null        ->    2, rule 0
    2, null      1: email matches @             3, rule 1
    3, none
    ```

    In: ``frame``, rows with the target's columns; ``rules`` that ``count_rules`` has counted without an error;
    ``labels``, what ``label_rows`` gave for them; ``kept``, the columns to keep. Out: ``kept`` and ``RULE``, the
    rule's index. Read the rows within ``silence_gx``.
    """
    shared = [rule for rule in rules if not needs_own_rows(rule)]
    parts = [(frame, shared)] if shared else []
    parts += [(filter_rows(frame, rule), [rule]) for rule in rules if needs_own_rows(rule)]
    found = []
    for rows, chosen in parts:
        marks = [F.when(labels[rule.index].failing(), F.lit(rule.index)) for rule in chosen]
        found.append(rows.select(*kept, F.explode(F.array_compact(F.array(*marks))).alias(RULE)))
    return unite(found)


def _explain(
    run: Inquiry,
    side: Side,
    failing: DataFrame,
    judged: Mapping[int, Sequence[str]],
    nulls: Mapping[str, str],
    most: int,
) -> tuple[Counter[tuple[int, Reason]], list[tuple[int, FailingRow]]]:
    """Say why rows of one side fail their rules, in the words that ``why`` has for each of them, for all at once.

        failing rows      what the sources say    what the rule's columns depend on        collected
        rule 0, u2   ->   accounts: no_such_key   rule 0: email null, accounts missing ->  rule 0, true, no_such_key: 2
        rule 0, u3        accounts: no_such_key   the same

    ``failing`` has ``RULE``, the key's parts and ``nulls`` (target column -> whether it is null), one row per row and
    rule that it fails; ``judged`` are the target's columns that rules judge. Returns how many rows fail which rule for
    which reason, and for ``most`` rows of each rule the keys, in their order.
    """
    spec, (left, *_) = run.plan.spec, opened_job.list_sides(run.plan.spec)
    rows = failing.where(~has_null(left.names) if side.right is None else has_null(left.names))
    affected = opened_job.build_affected(run, side, run.keep(rows.select(*side.names).distinct()))
    asked = evidence.list_questions(run, side, affected)
    assumed = opened_job.assume_reasons(spec, side, [each.alias for each in asked])
    sources = {
        index: {cell: opened_job.find_dependencies(spec, side, cell) for cell in cells}
        for index, cells in judged.items()
    }
    used = {alias for cells in sources.values() for aliases in cells.values() for alias in aliases}
    # A version of a history that has ended stays as it was, whatever its source says now.
    words = {each.alias: evidence.name_word(each.alias) for each in asked if each.alias in used and not spec.remembers}
    if words:
        said = evidence.find_words(run, [each for each in asked if each.alias in words])
        rows = rows.join(said, on=side.names, how="left")
    # Only what a rule depends on is told apart: so few combinations reach the driver, however many rows fail.
    rules_of: dict[str, list[int]] = {}
    for index, cells in sources.items():
        needed = [words[alias] for aliases in cells.values() for alias in aliases if alias in words]
        for name in {*[nulls[cell] for cell in cells], *needed}:
            rules_of.setdefault(name, []).append(index)
    facts = [F.when(F.col(RULE).isin(indexes), F.col(name)).alias(name) for name, indexes in rules_of.items()]
    # The key as `enrich why` reads it.
    key = F.array(*opened_job.write_keys(rows, side.names).values()).alias(_KEY)
    combination = F.to_json(F.struct(*facts)) if facts else F.lit("")
    rows = rows.select(RULE, *facts, key, combination.alias(COMBINATION), *side.names)
    rows = run.keep(rows) if most else rows

    def explain(row: Row) -> tuple[Reason, str | None]:
        """Return the reason of the first of the rule's cells that has another one than ``matched``, and the cell."""
        told = {alias: row[name] for alias, name in words.items() if row[name] is not None}
        lookups = assumed | {alias: Reason(word.reason, word.kind, job=word.job) for alias, word in told.items()}
        for cell, aliases in sources[row[RULE]].items():
            is_null = bool(row[nulls[cell]])
            found = explain_cell(Reason(MATCHED), aliases, lookups, is_null=is_null, driving=spec.driving)
            if found.reason != MATCHED:
                return found, cell
        return Reason(MATCHED), None

    counts, shown = Counter[tuple[int, Reason]](), list[tuple[int, FailingRow]]()
    followed: dict[tuple[int, Reason, tuple[str, str | None]], list[str]] = {}
    for row in rows.groupBy(RULE, COMBINATION, *rules_of).count().collect():
        reason, cell = explain(row)
        counts[row[RULE], reason] += row["count"]
        if (place := find_cell(spec, reason, cell)) is not None and not spec.remembers:
            followed.setdefault((row[RULE], reason, place), []).append(row[COMBINATION])
    for (index, reason, place), combinations in followed.items():  # the jobs upstream are asked once for each of these
        same = rows.where((F.col(RULE) == index) & F.col(COMBINATION).isin(combinations))
        same = same.select(*side.names, F.lit(1).alias(ROWS))
        for chain, number in follow_upstream(run, side, same, asked, place).items():
            counts[index, reason] -= number
            counts[index, replace(reason, upstream=chain)] += number
    for index in judged if most else ():
        for row in rows.drop(*side.names).where(F.col(RULE) == index).orderBy(_KEY).limit(most).collect():
            shown.append((index, FailingRow(dict(zip(side.identity, row[_KEY], strict=True)), explain(row)[0])))
    return +counts, shown
