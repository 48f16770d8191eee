r"""Find keys that are nearly one, and count them join by join: ``enrich doctor keys``.

Every set of normalisers gives a key another form; two keys that a small set makes equal are a near miss of that kind.
Only keys that the whole set makes equal to another one are looked at more closely.

============  ===========  ====================================
reference     key          kind
============  ===========  ====================================
``M1``        ``m1``       ``case``
``\ufeffm1``  ``m1``       ``invisible``
`` m1``       ``m1``       ``blank``
``007``       ``7``        ``leading_zeros``
``7.0``       ``7``        ``other_type``
`` M1``       ``m1``       ``combination``
============  ===========  ====================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from enrich.answers.opened_job import Inquiry, answer_inside
from enrich.answers.reasons import JoinKeys, KeyReport, Refused, Suggestion
from enrich.base.errors import ConfigError, suggest
from enrich.base.result import SourceWindow
from enrich.base.spec import NORMALISERS, TEXT_TYPE, Step, name_reference
from enrich.frames import join
from enrich.frames.columns import aggregate, name_parts
from enrich.frames.normalise import normalise
from enrich.operations.loading import choose_jobs
from enrich.operations.workplace import Workplace
from enrich.progress.decision import make_plan
from enrich.progress.plan import FULL_REFRESH, Options
from enrich.project.models import Job
from enrich.project.project import Project
from enrich.steps.run import Run

KINDS = {
    "trim": "blank",
    "visible": "invisible",
    "nfc": "unicode_form",
    "integer": "other_type",
    "lower": "case",
    "unpad": "leading_zeros",
}
"""What two keys differ by when one normaliser makes them equal, the gentlest first."""
SETS = tuple(
    tuple(step for step in NORMALISERS if step in steps)
    for size in range(1, len(NORMALISERS) + 1)
    for steps in combinations(KINDS, size)
)
"""All sets of normalisers, the smallest first and of these the gentlest; each in the order in which it is applied."""
REFERENCES = "__enrich_references"
"""How many rows refer to a key."""
PRESENT = "__enrich_present"
"""True when the lookup has a row of this key."""
SET = "__enrich_set"
"""Position in ``SETS``."""
FOUND = "__enrich_found"
"""The lookup's key that is nearly the one looked for: a struct of its parts."""
_FORM = "__enrich_form"
_RESOLVED = "__enrich_resolved"
_SHARED = "__enrich_shared"
_SHARED_LEFT = "__enrich_shared_left"


@dataclass(frozen=True)
class Effect:
    """What one set of normalisers would do.

    Attributes:
        steps: The set, in the order in which it is applied.
        heals: Rows that would find a partner.
        ambiguous: Keys of the lookup that would be one with another of its keys.
        ambiguous_left: The same among the referring keys, where these are keys themselves.
    """

    steps: tuple[str, ...]
    heals: int
    ambiguous: int
    ambiguous_left: int


def kind_of(position: int) -> str:
    """Return the kind of near miss that a set, by its position in ``SETS``, resolves; ``combination`` of several."""
    steps = SETS[position]
    return KINDS[steps[0]] if len(steps) == 1 else "combination"


def pair_keys(references: DataFrame, lookup: DataFrame) -> DataFrame:
    """Put the keys of both sides into one frame.

    Args:
        references: ``__enrich_j*`` without nulls, one row per referring row.
        lookup: ``__enrich_j*`` of the lookup, distinct.

    Returns:
        ``__enrich_j*``, distinct, ``REFERENCES`` and ``PRESENT``.
    """
    names = lookup.columns
    ours = references.withColumns({REFERENCES: F.lit(1), PRESENT: F.lit(False)})
    both = ours.unionByName(lookup.withColumns({REFERENCES: F.lit(0), PRESENT: F.lit(True)}))
    return both.groupBy(*names).agg(F.sum(REFERENCES).alias(REFERENCES), F.max(PRESENT).alias(PRESENT))


def add_forms(keys: DataFrame, texts: Sequence[bool], *, shared: bool = False) -> DataFrame:
    """Give every key that has a relative all its forms, and tell what each form would change.

    Args:
        keys: What ``pair_keys`` gives.
        texts: For each part of the key, whether it is text.
        shared: The references are keys themselves (a table join), so that two of them must not become one.

    Returns:
        ``__enrich_j*``, ``REFERENCES``, ``SET``, ``FOUND`` and whether the set resolves or confuses the key; to be
        persisted by the caller, who asks it twice.
    """
    names = name_reference(len(texts))
    keys = keys.select("*", *_build_canonical(names, texts))
    unmatched = (F.col(REFERENCES) > 0) & ~F.col(PRESENT)
    family = Window.partitionBy(*[f"__enrich_c{i}" for i in range(len(names))])
    present, lost = F.sum(F.col(PRESENT).cast("int")).over(family), F.sum(unmatched.cast("int")).over(family)
    referring = F.sum((F.col(REFERENCES) > 0).cast("int")).over(family)
    related = ((present > 0) & (lost > 0)) | (present > 1) | (F.lit(shared) & (referring > 1))
    keys = keys.withColumn("__enrich_related", related).where(F.col("__enrich_related"))
    parts_of: dict[tuple[str, ...], list[str]] = {(): list(names)}  # set of normalisers -> names of its parts
    for step in NORMALISERS:  # every form of every key, each computed from the one that lacks its last step
        added: dict[str, Column] = {}
        for steps, parts in list(parts_of.items()):
            forms = [f"{part}_{step}" if is_text else part for part, is_text in zip(parts, texts, strict=True)]
            added |= {form: normalise(F.col(p), (step,)) for form, p in zip(forms, parts, strict=True) if form != p}
            parts_of[(*steps, step)] = forms
        keys = keys.withColumns(added)
    every = F.array(
        *[F.struct(*[F.col(p).alias(name) for p, name in zip(parts_of[each], names, strict=True)]) for each in SETS]
    )
    exploded = keys.select(*names, REFERENCES, PRESENT, F.posexplode(every).alias(SET, _FORM))
    same = Window.partitionBy(SET, _FORM)
    present = F.sum(F.col(PRESENT).cast("int")).over(same)
    referring = F.sum((F.col(REFERENCES) > 0).cast("int")).over(same)
    found = F.min(F.when(F.col(PRESENT), F.struct(*names))).over(same)
    told = exploded.withColumns(
        {
            _RESOLVED: unmatched & (present > 0),
            _SHARED: F.col(PRESENT) & (present > 1),
            _SHARED_LEFT: F.lit(shared) & (F.col(REFERENCES) > 0) & (referring > 1),
            FOUND: found,
        }
    )
    return told.drop(_FORM, PRESENT)


def _build_canonical(names: Sequence[str], texts: Sequence[bool]) -> list[Column]:
    """Return the parts of a key, ``__enrich_c*``, in the form that all normalisers together give it."""
    parts = [
        normalise(F.col(name), NORMALISERS) if is_text else F.col(name)
        for name, is_text in zip(names, texts, strict=True)
    ]
    return [part.alias(f"__enrich_c{i}") for i, part in enumerate(parts)]


def find_near_misses(found: DataFrame, count: int) -> DataFrame:
    """Return the references, keys of ``count`` parts, that lack a partner and have a near miss in ``add_forms``.

    Returns:
        ``__enrich_j*``, distinct, ``REFERENCES``, ``SET`` (the smallest that resolves) and ``FOUND``.
    """
    names = name_reference(count)
    resolved = found.where(F.col(_RESOLVED)).groupBy(*names)
    return resolved.agg(F.max(REFERENCES).alias(REFERENCES), F.min_by(FOUND, SET).alias(FOUND), F.min(SET).alias(SET))


def measure_effects(found: DataFrame) -> list[Effect]:
    """Return what each set of normalisers that changes anything would do."""

    def count(name: str) -> Column:
        return F.count(F.when(F.col(name), 1)).alias(name)

    resolved = F.coalesce(F.sum(F.when(F.col(_RESOLVED), F.col(REFERENCES))), F.lit(0)).alias(_RESOLVED)
    rows = found.groupBy(SET).agg(resolved, count(_SHARED), count(_SHARED_LEFT)).collect()
    return [
        Effect(SETS[row[SET]], int(row[_RESOLVED]), int(row[_SHARED]), int(row[_SHARED_LEFT]))
        for row in sorted(rows, key=lambda row: int(row[SET]))
    ]


def find_related(lookup: DataFrame, wanted: DataFrame, texts: Sequence[bool], *, few: bool = True) -> DataFrame:
    """Return the keys of a lookup that all normalisers together make equal to one of the wanted ones.

    Both are ``__enrich_j*``, those of the lookup distinct; ``texts`` says of each part of the key whether it is text,
    and ``few`` whether the wanted ones are so few that every task gets them all.
    """
    names = name_reference(len(texts))
    ours = lookup.select(*names, *_build_canonical(names, texts))
    theirs = wanted.select(*_build_canonical(names, texts)).distinct()
    sent = F.broadcast(theirs) if few else theirs
    return ours.join(sent, on=theirs.columns, how="left_semi").select(*names)


# --- enrich doctor keys ----------------------------------------------------------------------------------------------


def examine(
    project: Project, name: str, alias: str | None, *, spark: SparkSession | None, show_keys: bool
) -> KeyReport:
    """Answer ``enrich.doctor_keys``."""
    workplace = Workplace(project, choose_jobs(project, [name], ()), Options(full_refresh=True), "", spark)
    job = project.jobs[name]
    if alias is not None and alias not in job.join:
        raise ConfigError(f"job {name!r} has no join {alias!r}", hint=suggest(alias, job.join))
    if not job.join:
        return KeyReport(name, job.file, ())
    opened = workplace.open_job(job)
    versions = {each: SourceWindow(None, table.version) for each, table in opened.tables.items()}
    plan = make_plan(opened, FULL_REFRESH, versions)

    def answer(run: Inquiry) -> KeyReport:
        spec = run.plan.spec
        wanted = [step for step in spec.steps if alias in (None, step.alias)]
        return KeyReport(name, job.file, tuple(examine_join(run, step, show_keys=show_keys) for step in wanted))

    return answer_inside(workplace, plan, answer)


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
    keys = run.keep(pair_keys(references, run.snapshot(step.alias).select(*parts).distinct()))
    total = aggregate(
        keys,
        F.coalesce(F.sum(REFERENCES), F.lit(0)).alias("all"),
        F.coalesce(F.sum(F.when(~F.col(PRESENT), F.col(REFERENCES))), F.lit(0)).alias("lost"),
    )
    counted = JoinKeys(step.alias, step.kind, int(total["all"]), int(total["lost"]), {})
    if not counted.unmatched or not any(texts):
        return counted
    found = run.keep(add_forms(keys, texts, shared=step.shares_key))
    misses = find_near_misses(found, len(texts))
    rows = misses.groupBy(SET).agg(F.sum(REFERENCES).alias("rows")).collect()
    kinds = Counter[str]()
    for row in sorted(rows, key=lambda row: int(row[SET])):
        kinds[kind_of(row[SET])] += int(row["rows"])
    # What an interval join matches by is no key, which alone is normalised.
    may_resolve = kinds and step.interval is None
    best, worse = choose_effects(measure_effects(found) if may_resolve else [])
    suggestion = refused = None
    if best is not None:
        sharing = [spec.driving, *[each.alias for each in spec.steps if each.shares_key]]
        lines = suggest_lines(run.plan.job, sharing if step.shares_key else [step.alias], best.steps)
        suggestion = Suggestion(best.steps, best.heals, lines)
    if worse is not None:
        told = {step.alias: worse.ambiguous, spec.driving: worse.ambiguous_left}
        refused = Refused(worse.steps, worse.heals, {alias: number for alias, number in told.items() if number})
    pairs: list[tuple[str, str, str]] = []
    if show_keys:
        ours = F.concat_ws(",", *[F.col(name).cast("string") for name in names]).alias("ours")
        shown = misses.select(SET, ours, write_found(names).alias("theirs")).orderBy("ours").limit(MOST_PAIRS).collect()
        pairs = [(kind_of(row[SET]), row["ours"], row["theirs"]) for row in shown]
    return replace(counted, near_misses=dict(kinds), suggestion=suggestion, refused=refused, pairs=tuple(pairs))


def choose_effects(effects: Sequence[Effect]) -> tuple[Effect | None, Effect | None]:
    """Choose the set that resolves most with the fewest steps and confuses no keys.

    Returns:
        It, and the best of the sets that resolve more but make keys ambiguous; None where there is none.
    """

    def rank(effect: Effect) -> tuple[int, int, int]:
        return (-effect.heals, len(effect.steps), SETS.index(effect.steps))

    resolving = sorted((effect for effect in effects if effect.heals), key=rank)
    best = next((each for each in resolving if not (each.ambiguous or each.ambiguous_left)), None)
    least = best.heals if best is not None else 0
    worse = next((each for each in resolving if (each.ambiguous or each.ambiguous_left) and each.heals > least), None)
    return best, worse


def suggest_lines(job: Job, aliases: Sequence[str], steps: Sequence[str]) -> dict[str, str]:
    """Return the lines of a job's sources with more steps in ``normalise``, by alias."""
    import yaml

    lines = {}
    for alias in aliases:
        source = job.sources[alias]
        line: dict[str, object] = {
            "table": source.table,
            "key": source.key[0] if len(source.key) == 1 else [*source.key],
        }
        if source.unique != "checked":
            line["unique"] = source.unique
        line["normalise"] = [each for each in NORMALISERS if each in {*source.normalise, *steps}]
        text = yaml.safe_dump(line, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
        lines[alias] = f"{alias}: {text.strip()}"
    return lines


def write_found(names: Sequence[str]) -> Column:
    """Return the parts of ``FOUND`` as one text."""
    return F.concat_ws(",", *[F.col(FOUND).getField(name).cast("string") for name in names])
