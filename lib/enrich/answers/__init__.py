"""Say why cells are null, and what would repair it: for one key, for the rows that fail a rule, for the keys of a job.

``question`` answers for one key, ``failing_rows`` for a rule, both by ``evidence``; ``near_misses`` compares keys, and
``doctor`` looks at machine and tables. Nothing is written, and no value is told. A session that is given as ``spark``
has Delta, and is left as it was found; None: the active one, or one is built.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from enrich.base.extras import SPARK, require_extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.answers.doctor import Checkup
    from enrich.answers.reasons import FailingRows, KeyReport, RuleCauses, Why
    from enrich.project.project import Project


def why(
    project: Project,
    job: str,
    key: object,
    column: str | None = None,
    *,
    spark: SparkSession | None = None,
    show_keys: bool = False,
) -> Why:
    """Say why a row of a job's target, and each of its cells, is as it is.

    Decided from the sources' versions that the target has consumed, and from their histories. Writes nothing.

    Args:
        project: What ``load_project`` gave.
        job: The job's name.
        key: The target's key: its text or value (``"u1"``, ``101``, a date); for a composite one ``"k1=v1,k2=v2"``,
            ``["k1=v1", "k2=v2"]``, or a mapping. A list or a mapping with the columns that hold the lookup's key asks
            for a row that only the lookup of a right or full foreign-key join has.
        column: A target column; None for all.
        spark: A session.
        show_keys: Keep the keys of near misses in the reasons' ``found``.

    Returns:
        One reason for the row, for each source and for each column; ``to_dict()`` holds no keys and no values.

    Raises:
        ConfigError: No such job or column, the key has another form, or the lookup's row is not alone.
        HistoryError: The target's definition or sources are not those that it was written from.
        DriftError: Somebody else changed the target.
        RunFailed: A snapshot cannot be read.
    """
    require_extra(SPARK)
    from enrich.answers.question import ask

    return ask(project, job, key, column, spark=spark, show_keys=show_keys)


def failing(
    project: Project,
    job: str,
    rule: int | None = None,
    *,
    spark: SparkSession | None = None,
    show_keys: bool = False,
) -> FailingRows:
    """Count the rows of a job's target that fail its rules, and say why they do.

    The rules are those that judge each row by itself. Every row that fails has the reason that ``why`` gives for its
    cell in the rule's column; with several columns, that of the first cell whose reason is not ``matched``.

    Args:
        project: What ``load_project`` gave.
        job: The job's name.
        rule: The rule's position in the suite, from 0; None for all of them.
        spark: A session.
        show_keys: Keep the keys of failing rows in the rules' ``rows``, at most 100 a rule.

    Returns:
        One entry a rule, in the order of the suite; the counts of its ``reasons`` add up to ``failed``. ``to_dict()``
        holds no keys and no values.

    Raises:
        ConfigError: No such job, no suite, or no such rule among those that judge each row by itself.
        EnrichError: There is no target, or as from ``why``.
    """
    require_extra(SPARK)
    from enrich.answers.failing_rows import examine_rules

    return examine_rules(project, job, rule, spark=spark, show_keys=show_keys)


def find_causes(
    project: Project, job: str, *, spark: SparkSession | None = None, beside: Iterable[str] = ()
) -> tuple[RuleCauses, ...]:
    """Say why rows fail those rules of a job that they fail according to the record of the target.

    What ``failing`` says of these rules, for ``enrich.report.add_reasons``. When there are none, Spark is not started.
    A session that is built fits the tables of the jobs ``beside`` it, too.
    """
    require_extra(SPARK)
    from enrich.answers.failing_rows import examine_recorded

    return examine_recorded(project, job, spark=spark, beside=beside)


def doctor_keys(
    project: Project,
    job: str,
    *,
    join: str | None = None,
    spark: SparkSession | None = None,
    show_keys: bool = False,
) -> KeyReport:
    """Count the references of a job that have no partner but nearly match, and suggest what resolves them.

    Looks at the latest versions of the sources.

    Args:
        project: What ``load_project`` gave.
        job: The job's name.
        join: One lookup's alias; None for all.
        spark: A session.
        show_keys: Keep near misses with their keys in ``pairs``, at most 100 a join.

    Raises:
        ConfigError: No such job or join.
        RunFailed: A snapshot cannot be read.
    """
    require_extra(SPARK)
    from enrich.answers.near_misses import examine

    return examine(project, job, join, spark=spark, show_keys=show_keys)


def diagnose(project: Project) -> Checkup:
    """Look for what may keep the jobs of a deployment from running, and say what repairs it; starts no JVM."""
    from enrich.answers.doctor import Checkup, check_machine, check_tables

    return Checkup(project.deployment, (*check_machine(project), *check_tables(project)))
