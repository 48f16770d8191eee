"""Which rows of a target are asked about: those with a left key, or those that only a lookup has.

A row of a right or full foreign-key join that no driving row refers to has no left key; it is known by the lookup's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from enrich.base.spec import Affected, JobSpec, Step, name_left_key, name_right_key
from enrich.diagnosis.reasons import FOREIGN_KEY_NULL, MATCHED, NO_SUCH_KEY, Reason
from enrich.frames.columns import take_column
from enrich.steps.run import Run


@dataclass(frozen=True)
class Side:
    """Which rows of a target are asked for.

    Attributes:
        alias: The source whose key they have: the driving one, or for rows without left side the lookup.
        columns: That source's columns, in the order of the key.
        identity: The target's columns that hold the key.
        right: The join that keeps rows without left side, when those are asked for.
    """

    alias: str
    columns: tuple[str, ...]
    identity: tuple[str, ...]
    right: Step | None = None

    @property
    def names(self) -> list[str]:
        """The key's columns in staged frames."""
        return (name_left_key if self.right is None else name_right_key)(len(self.identity))


def build_left_side(spec: JobSpec) -> Side:
    """Return the rows with a left key; of a mirror, all; of a history, those of a key of its source."""
    return Side(spec.driving, spec.key_columns, spec.asked_by)


def build_right_side(spec: JobSpec) -> Side | None:
    """Return the rows without left side; None where the job can have none."""
    right = spec.right_step()
    if right is None:
        return None
    return Side(right.alias, spec.sources[right.alias].key, spec.right_identity, right)


def build_pair_side(spec: JobSpec) -> Side | None:
    """Return the lookup's part of the pairs of an interval join; None in other jobs."""
    step = spec.interval_step
    if step is None:
        return None
    return Side(step.alias, spec.sources[step.alias].key, spec.right_identity, step)


def build_affected(run: Run, side: Side, keys: DataFrame) -> Affected:
    """Return the keys to look at, and none of the other side."""
    spec = run.plan.spec
    right = spec.right_step()
    if right is None:
        return Affected(keys)
    if side.right is not None:
        return Affected(_build_no_keys(run, spec.driving, spec.key_columns, name_left_key), keys)
    return Affected(keys, _build_no_keys(run, right.alias, spec.sources[right.alias].key, name_right_key))


def _build_no_keys(run: Run, alias: str, columns: Sequence[str], named: Callable[[int], list[str]]) -> DataFrame:
    return run.snapshot(alias).select(*map(take_column, columns)).toDF(*named(len(columns))).limit(0)


def assume_reasons(spec: JobSpec, side: Side, asked: Iterable[str], driving: Reason | None = None) -> dict[str, Reason]:
    """Return the reasons, by alias, of a row that refers to no source, not even with a null.

    A source that a driving row refers to not even once has nothing to miss. Where there is no driving row, nothing
    refers to a source: it has the driving source's reason. A row without left side is one that the driving source has
    no row for; what only the left side would refer to is null.

    Args:
        spec: The job.
        side: The row's side.
        asked: The sources that rows of this side may refer to.
        driving: Why the driving source has no row; None or ``matched`` where it has, or where a row needs none.
    """
    if side.right is None:
        if driving is None or driving.reason == MATCHED:
            return dict.fromkeys(spec.sources, Reason(MATCHED))
        return dict.fromkeys(spec.sources, replace(driving, source=spec.driving))
    nothing = {**dict.fromkeys(spec.sources, Reason(FOREIGN_KEY_NULL)), spec.driving: Reason(NO_SUCH_KEY)}
    return nothing | dict.fromkeys(asked, Reason(MATCHED))


def find_dependencies(spec: JobSpec, side: Side, column: str) -> list[str]:
    """Return the sources that a target column depends on, in the order of the joins."""
    if not spec.outputs:
        return [spec.driving]
    used = {path[0] for output in spec.outputs if output.name == column for path in output.paths}
    # What leads to the lookup on the left is not there in a row without left side, and not missed.
    ends = {each.alias for each in (() if side.right is None else spec.steps[: spec.steps.index(side.right)])}
    sharing = [step for step in spec.steps if step.shares_key]
    for step in reversed(spec.steps):
        if step.alias in used and step is not side.right:
            used |= step.reads - ends - {spec.driving}
        if used & {"key", *[each.alias for each in sharing]}:
            used |= {each.alias for each in sharing if each.keeps_right} - ends
    if side.right is not None and "key" in used:
        used.add(spec.driving)
    return [alias for alias in (spec.driving, *[step.alias for step in spec.steps]) if alias in used]
