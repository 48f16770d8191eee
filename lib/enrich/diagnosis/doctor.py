"""Which references of a job nearly match, by kind; and the line in the job file that would resolve most of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import NORMALISERS, TEXT_TYPE, Step, name_reference
from enrich.config.models import Job, Source
from enrich.diagnosis import near
from enrich.frames import join
from enrich.frames.columns import aggregate, name_parts
from enrich.steps.run import Run


@dataclass(frozen=True)
class Suggestion:
    """Lines for the job file.

    Attributes:
        normalise: The steps that are to be added.
        heals: Rows that would find a partner.
        lines: Alias -> the source's line as it should read below ``sources``.
    """

    normalise: tuple[str, ...]
    heals: int
    lines: Mapping[str, str]


@dataclass(frozen=True)
class Refused:
    """Steps that would resolve more than what is suggested, and are not, because keys would no longer be unique.

    Attributes:
        ambiguous: Alias -> keys that would be one with another key of the same source.
    """

    normalise: tuple[str, ...]
    heals: int
    ambiguous: Mapping[str, int]


@dataclass(frozen=True)
class JoinKeys:
    """How one join's keys meet.

    Attributes:
        join: The lookup's alias.
        kind: ``table``, ``foreign_key``, ``as_of`` or ``list``.
        references: Rows (of a list: elements) that refer to a key of the lookup.
        unmatched: Those without a partner.
        near_misses: Kind -> unmatched references that nearly match.
        suggestion: What would resolve most in the fewest steps; None when nothing may.
        refused: What would resolve more, but make keys ambiguous.
        pairs: Kind, reference and key of near misses, only when they were asked for; never part of the JSON.
    """

    join: str
    kind: str
    references: int
    unmatched: int
    near_misses: Mapping[str, int]
    suggestion: Suggestion | None = None
    refused: Refused | None = None
    pairs: tuple[tuple[str, str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class KeyReport:
    """The answer for one job.

    Attributes:
        file: The job's file, relative to the project.
        joins: In their order; empty for mirrors and for jobs without lookups.
    """

    job: str
    file: str
    joins: tuple[JoinKeys, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``enrich doctor keys --output json``: counts and suggestions, without keys."""

        def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            return {
                name: list(value) if isinstance(value, tuple) else value for name, value in pairs if name != "pairs"
            }

        return asdict(self, dict_factory=keep)


MOST_PAIRS = 100
"""How many near misses are shown at most."""


def examine_join(run: Run, step: Step, *, show_keys: bool = False) -> JoinKeys:
    """Hold the keys of one join against each other."""
    spec = run.plan.spec
    lookup = spec.sources[step.alias]
    # Of an as-of join without the last part: no moment is nearly another one.
    key = lookup.key[:-1] if step.at is not None else lookup.key
    columns = step.interval.match if step.interval is not None else key
    texts = [lookup.columns[name] == TEXT_TYPE for name in columns]
    names = name_reference(len(texts))
    references = join.find_references(run.now, step).select(*names)
    parts = name_parts(columns, names)
    keys = run.keep(near.pair_keys(references, run.snapshot(step.alias).select(*parts).distinct()))
    total = aggregate(
        keys,
        F.coalesce(F.sum(near.REFERENCES), F.lit(0)).alias("all"),
        F.coalesce(F.sum(F.when(~F.col(near.PRESENT), F.col(near.REFERENCES))), F.lit(0)).alias("lost"),
    )
    counted = JoinKeys(step.alias, step.kind, int(total["all"]), int(total["lost"]), {})
    if not counted.unmatched or not any(texts):
        return counted
    found = run.keep(near.add_forms(keys, texts, shared=step.shares_key))
    misses = near.find_near_misses(found, len(texts))
    rows = misses.groupBy(near.SET).agg(F.sum(near.REFERENCES).alias("rows")).collect()
    kinds = Counter[str]()
    for row in sorted(rows, key=lambda row: int(row[near.SET])):
        kinds[near.kind_of(row[near.SET])] += int(row["rows"])
    # What an interval join matches by is no key, which alone is normalised.
    may_resolve = kinds and step.interval is None
    suggestion, refused = _suggest(run, step, near.measure_effects(found) if may_resolve else [])
    pairs = _list_pairs(misses, len(texts)) if show_keys else ()
    return replace(counted, near_misses=dict(kinds), suggestion=suggestion, refused=refused, pairs=pairs)


def _suggest(run: Run, step: Step, effects: Sequence[near.Effect]) -> tuple[Suggestion | None, Refused | None]:
    best, worse = choose_effects(effects)
    job, spec = run.plan.job, run.plan.spec
    sharing = [spec.driving, *[each.alias for each in spec.steps if each.shares_key]]
    aliases = sharing if step.shares_key else [step.alias]
    suggestion = Suggestion(best.steps, best.heals, suggest_lines(job, aliases, best.steps)) if best else None
    refused = None
    if worse is not None:
        told = {step.alias: worse.ambiguous, spec.driving: worse.ambiguous_left}
        refused = Refused(worse.steps, worse.heals, {alias: number for alias, number in told.items() if number})
    return suggestion, refused


def choose_effects(effects: Sequence[near.Effect]) -> tuple[near.Effect | None, near.Effect | None]:
    """Choose the set that resolves most with the fewest steps and confuses no keys.

    Returns:
        It, and the best of the sets that resolve more but make keys ambiguous; None where there is none.
    """

    def rank(effect: near.Effect) -> tuple[int, int, int]:
        return (-effect.heals, len(effect.steps), near.SETS.index(effect.steps))

    resolving = sorted((effect for effect in effects if effect.heals), key=rank)
    best = next((each for each in resolving if not (each.ambiguous or each.ambiguous_left)), None)
    least = best.heals if best is not None else 0
    worse = next((each for each in resolving if (each.ambiguous or each.ambiguous_left) and each.heals > least), None)
    return best, worse


def suggest_lines(job: Job, aliases: Sequence[str], steps: Sequence[str]) -> dict[str, str]:
    """Return the lines of a job's sources with more steps in ``normalise``, by alias."""
    return {alias: _format_line(alias, job.sources[alias], steps) for alias in aliases}


def _format_line(alias: str, source: Source, steps: Sequence[str]) -> str:
    import yaml

    written: dict[str, Any] = {"table": source.table, "key": source.key[0] if len(source.key) == 1 else [*source.key]}
    if source.unique != "checked":
        written["unique"] = source.unique
    written["normalise"] = [each for each in NORMALISERS if each in {*source.normalise, *steps}]
    text = yaml.safe_dump(written, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return f"{alias}: {text.strip()}"


def _list_pairs(misses: DataFrame, count: int) -> tuple[tuple[str, str, str], ...]:
    names = name_reference(count)
    ours = F.concat_ws(",", *[F.col(name).cast("string") for name in names]).alias("ours")
    theirs = F.concat_ws(",", *[F.col(near.FOUND).getField(name).cast("string") for name in names]).alias("theirs")
    rows = misses.select(near.SET, ours, theirs).orderBy("ours").limit(MOST_PAIRS).collect()
    return tuple((near.kind_of(row[near.SET]), row["ours"], row["theirs"]) for row in rows)
