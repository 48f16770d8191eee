"""Which rows of a whole target fail its rules, and why: what ``why`` says of each of them, asked of all at once.

    target            rule 0: email not null     sources' reasons        rule 0
    u1, a@b                                                              2 of 3 rows fail
    u2, null     ->   u2 fails              ->   u2: no_such_key    ->   1 no_such_key
    u3, null          u3 fails                   u3: deleted_at          1 deleted_at

The labels are Great Expectations' own, and one pass counts all rules that can share it. A second pass takes the failing
rows alone, when there are any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession

from enrich.base import hints
from enrich.base.errors import ConfigError, HistoryError
from enrich.base.extras import EXPECTATIONS, require_extra
from enrich.base.spec import quote
from enrich.config.project import Project
from enrich.diagnosis.causes import MOST_KEYS, Cause, FailingRow, FailingRows, RuleCauses
from enrich.diagnosis.classify import add_facts, classify, list_facts
from enrich.diagnosis.opening import answer_inside, check_name, open_recorded, rewind
from enrich.diagnosis.upstream import Inquiry
from enrich.operations.workplace import Workplace
from enrich.progress.task import Task
from enrich.quality.counting import RuleCounts, count_rules, find_failing
from enrich.quality.gx import silence_gx
from enrich.quality.labels import Labels, label_rows
from enrich.quality.suites import SuiteRule
from enrich.steps.joined_rows import make_no_rows
from enrich.steps.work import Work, read_target


def examine_rules(
    project: Project, name: str, rule: int | None, *, spark: SparkSession | None, show_keys: bool
) -> FailingRows:
    """Answer ``enrich.failing``."""
    rules = _choose_rules(project, check_name(project, name), rule)
    workplace, task = open_recorded(project, name, spark)
    version = _find_version(task)
    found = _examine(workplace, rewind(workplace, task), rules, MOST_KEYS if show_keys else 0)
    return FailingRows(name, version, found)


def _find_version(task: Task) -> int:
    """Return the version of the target.

    Raises:
        HistoryError: There is no target.
    """
    if task.target.table is None:
        name = task.job.job
        raise HistoryError(f"job {name!r} has no target yet", hint=f"run `{hints.run(name)}` to create it")
    return task.target.table.version


def examine_recorded(
    project: Project, name: str, *, spark: SparkSession | None, beside: Iterable[str]
) -> tuple[RuleCauses, ...]:
    """Answer ``enrich.diagnosis.find_causes``."""
    workplace, task = open_recorded(project, name, spark, beside)
    _find_version(task)
    task, suite = rewind(workplace, task), project.suite(project.jobs[name])
    recorded = task.recorded_state
    if suite is None or recorded is None:
        return ()
    failing = {each.index for each in recorded.rules if each.failed}
    rules = [rule for rule in suite.row_rules if rule.index in failing]
    return _examine(workplace, task, rules, 0) if rules else ()


def count_reasons(project: Project, name: str, *, spark: SparkSession | None) -> dict[int, dict[str, int]]:
    """Answer ``enrich.diagnosis.summarise``."""
    suite = project.suite(project.jobs[check_name(project, name)])
    if suite is None or not suite.row_rules:
        return {}
    workplace, task = open_recorded(project, name, spark)
    found = {}
    if task.target.table is not None:
        task, recorded = rewind(workplace, task), task.recorded_state
        sound = {each.index for each in recorded.rules if each.failed == 0} if recorded is not None else set()
        rules = [rule for rule in suite.row_rules if rule.index not in sound]
        found = {each.index: each.reasons for each in _examine(workplace, task, rules, 0)} if rules else {}
    return {rule.index: found.get(rule.index, {}) for rule in suite.row_rules}


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


def _examine(workplace: Workplace, task: Task, rules: Sequence[SuiteRule], most: int) -> tuple[RuleCauses, ...]:
    """Count the rows that fail, and say why they do; at most ``most`` keys a rule. The task is rewound."""
    require_extra(EXPECTATIONS)

    def answer(work: Inquiry) -> tuple[RuleCauses, ...]:
        rows = _read_whole(work)
        labels = label_rows(rows, rules)
        counted, _ = count_rules([(rows, 1)], rules, labels)
        good = {index: each for index, each in labels.items() if isinstance(each, Labels)}
        wanting = [rule for rule in rules if counted[rule.index].error is None and counted[rule.index].failed]
        if not wanting:
            return tuple(_conclude(rule, counted[rule.index]) for rule in rules)
        work.expect_rows(sum(counted[rule.index].failed for rule in wanting))
        with silence_gx():
            failing = find_failing(add_facts(work, rows, wanting), wanting, good, list_facts(work, wanting))
            found = classify(work, failing, wanting, most)
        return tuple(_conclude(rule, counted[rule.index], *found.get(rule.index, ())) for rule in rules)

    return answer_inside(workplace, task, answer)


def _read_whole(work: Work) -> DataFrame:
    """Return the target's rows with all columns that the job writes; rows written before a column have nulls in it."""
    rows = read_target(work)
    assert rows is not None  # noqa: S101 - the caller has looked
    if len(rows.columns) == len(work.task.spec.columns):
        return rows
    names = [quote(name) for name in work.task.spec.columns]
    return make_no_rows(work).select(*names).unionByName(rows, allowMissingColumns=True)


def _conclude(
    rule: SuiteRule, counted: RuleCounts, causes: tuple[Cause, ...] = (), rows: tuple[FailingRow, ...] = ()
) -> RuleCauses:
    """Put together what is known of one rule; one that raised has no counts."""
    checked, failed = (counted.checked, counted.failed) if counted.error is None else (None, None)
    names = (rule.column, rule.column_list)
    return RuleCauses(rule.index, rule.type, *names, checked, failed, counted.error, causes, rows)
