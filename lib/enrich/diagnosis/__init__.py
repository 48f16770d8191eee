"""Why a cell is null, and what would heal it: reason codes for one key, near misses among all keys of a job.

Nothing is written, and no value is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from enrich.config import Project
    from enrich.diagnosis.doctor import KeyReport
    from enrich.diagnosis.reasons import Why


def why(
    project: Project,
    job: str,
    key: str | Mapping[str, object] | Sequence[str],
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
        key: The target's key: its text; for a composite one ``"k1=v1,k2=v2"``, ``["k1=v1", "k2=v2"]`` or a mapping.
            A list or mapping of the columns that hold the lookup's key asks for a row that only the lookup of a right
            or full foreign-key join has.
        column: A target column; None for all.
        spark: A Delta-capable session, left as it was found; None: the active one, or one is built.
        show_keys: Keep the keys of near misses in the reasons' ``found``.

    Returns:
        One reason for the row, for each source and for each column; ``to_dict()`` holds no keys and no values.

    Raises:
        ConfigError: No such job or column, or the key is not of the target's form, or the
            lookup's row that is asked for is not alone.
        HistoryError: The target's definition or sources are not those that it was written from.
        DriftError: Somebody else changed the target.
        RunFailed: A snapshot cannot be read.
    """
    from enrich.diagnosis.inquiry import ask

    return ask(project, job, key, column, spark=spark, show_keys=show_keys)


def doctor_keys(
    project: Project,
    job: str,
    *,
    join: str | None = None,
    spark: SparkSession | None = None,
    show_keys: bool = False,
) -> KeyReport:
    """Count the references of a job that have no partner but nearly match, and suggest what heals them.

    Looks at the latest versions of the sources. Writes nothing.

    Args:
        project: What ``load_project`` gave.
        job: The job's name.
        join: One lookup's alias; None for all.
        spark: A Delta-capable session, left as it was found; None: the active one, or one is built.
        show_keys: Keep near misses with their keys in ``pairs``, at most 100 a join.

    Returns:
        One result a join; ``to_dict()`` holds no keys.

    Raises:
        ConfigError: No such job or join.
        RunFailed: A snapshot cannot be read.
    """
    from enrich.diagnosis.inquiry import examine

    return examine(project, job, join, spark=spark, show_keys=show_keys)
