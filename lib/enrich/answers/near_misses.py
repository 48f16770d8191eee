"""Find keys that are nearly one, and count them join by join: ``enrich doctor keys``.

Every set of normalisers gives a key another form; two keys that a small set makes equal are a near miss of that kind:
``M1`` and ``m1`` of ``case``, `` M1`` and ``m1`` of ``combination``. Only keys that the whole set makes equal to
another one are looked at more closely.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from enrich.answers.opened_job import Inquiry, answer_inside
from enrich.answers.reasons import JoinKeys, KeyReport, Suggestion
from enrich.base.errors import ConfigError
from enrich.base.spec import NORMALISERS, TEXT_TYPE, Step, list_sharing, name_reference
from enrich.base.words import suggest
from enrich.frames.columns import add_up, aggregate, name_parts
from enrich.frames.join import find_references
from enrich.frames.normalise import normalise
from enrich.operations.loading import choose_jobs
from enrich.operations.workplace import Workplace
from enrich.progress.decision import take_all
from enrich.progress.plan import Options
from enrich.project.models import Job
from enrich.project.project import Project
from enrich.project.querynames import list_sources
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
SET, KIND, FOUND = "__enrich_set", "__enrich_kind", "__enrich_found"
_REFERENCES = "__enrich_references"
MOST_PAIRS = 100  # how many near misses are shown at most


def find_near_misses(lost: DataFrame, present: DataFrame, texts: Sequence[bool]) -> DataFrame:
    """Return the keys that are nearly one of those that are there.

    In: ``lost`` with ``__enrich_j*`` without nulls, distinct, and maybe further columns; ``present`` with
    ``__enrich_j*`` of the lookup, none of them lost; ``texts``, for each part of the key, whether it is text: others
    are compared as they are. Out: the columns of ``lost``; ``SET``, the position in ``SETS`` of the smallest set that
    makes the two equal; its ``KIND``; ``FOUND``, the key that is there, as one text.
    """
    names = name_reference(len(texts))
    canonical = [
        (normalise(F.col(name), NORMALISERS) if is_text else F.col(name)).alias(f"__enrich_c{i}")
        for i, (name, is_text) in enumerate(zip(names, texts, strict=True))
    ]
    theirs = [f"__enrich_p{i}" for i in range(len(names))]
    keys = present.select(*canonical, *names).withColumnsRenamed(dict(zip(names, theirs, strict=True)))
    pairs = lost.select("*", *canonical).join(keys, on=[f"__enrich_c{i}" for i in range(len(names))])
    pairs = _add_forms(_add_forms(pairs, names, texts, "__enrich_ours"), theirs, texts, "__enrich_theirs")
    equal = F.zip_with("__enrich_ours", "__enrich_theirs", lambda ours, their: ours == their)
    position = (F.array_position(equal, F.lit(True)) - 1).cast("int")
    best = F.min(F.struct(position.alias(SET), F.struct(*theirs).alias(FOUND))).alias("best")
    found = pairs.groupBy(*lost.columns).agg(best).select(*lost.columns, "best.*")
    kind = F.element_at(F.array(*map(F.lit, KINDS.values())), F.col(SET) + 1)
    parts = [F.col(FOUND).getField(name).cast("string") for name in theirs]
    is_single = F.col(SET) < len(KINDS)
    return found.withColumns({KIND: F.when(is_single, kind).otherwise("combination"), FOUND: F.concat_ws(",", *parts)})


def _add_forms(keys: DataFrame, parts: Sequence[str], texts: Sequence[bool], name: str) -> DataFrame:
    """Add the forms that ``SETS`` give a key, as an array."""
    parts_of: dict[tuple[str, ...], list[str]] = {(): list(parts)}  # set of normalisers -> names of its parts
    for step in NORMALISERS:  # each form is computed from the one that lacks its last step
        added: dict[str, Column] = {}
        for steps, before in list(parts_of.items()):
            forms = [f"{part}_{step}" if is_text else part for part, is_text in zip(before, texts, strict=True)]
            added |= {form: normalise(F.col(p), (step,)) for form, p in zip(forms, before, strict=True) if form != p}
            parts_of[(*steps, step)] = forms
        keys = keys.withColumns(added)
    names = name_reference(len(parts))
    every = [F.struct(*[F.col(p).alias(n) for p, n in zip(parts_of[each], names, strict=True)]) for each in SETS]
    return keys.withColumn(name, F.array(*every))


# --- enrich doctor keys ----------------------------------------------------------------------------------------------


def doctor_keys(
    project: Project, job: str, *, join: str | None = None, spark: SparkSession | None = None, show_keys: bool = False
) -> KeyReport:
    """Count the references of a job that have no partner but nearly match, and suggest what resolves them.

    Looks at the latest versions of the sources; ``join``: one lookup's alias, None for all. ``show_keys`` keeps near
    misses with their keys in ``pairs``, at most 100 a join. ``ConfigError``: no such job or join.
    """
    workplace = Workplace(project, choose_jobs(project, [job], ()), Options(full_refresh=True), "", spark)
    known = project.jobs[job]
    if join is not None and join not in known.join:
        raise ConfigError(f"job {job!r} has no join {join!r}", hint=suggest(join, known.join))
    if not known.join:
        return KeyReport(job, known.file, ())

    def answer(run: Inquiry) -> KeyReport:
        wanted = [step for step in run.plan.spec.steps if join in (None, step.alias)]
        return KeyReport(job, known.file, tuple(_examine_join(run, step, show_keys=show_keys) for step in wanted))

    return answer_inside(workplace, take_all(workplace.open_job(known)), answer)


def _examine_join(run: Run, step: Step, *, show_keys: bool) -> JoinKeys:
    spec = run.plan.spec
    lookup = spec.sources[step.alias]
    # Of an as-of join without the last part: no moment is nearly another one.
    key = lookup.key[:-1] if step.at is not None else lookup.key
    columns = step.interval.match if step.interval is not None else key
    texts = [lookup.columns[name] == TEXT_TYPE for name in columns]
    names = name_reference(len(texts))
    references = run.keep(find_references(run.now, step).select(*names))
    present = run.snapshot(step.alias).select(*name_parts(columns, names)).distinct()
    without = references.join(present, on=names, how="left_anti")
    lost = run.keep(without.groupBy(*names).agg(F.count("*").alias(_REFERENCES)))
    unmatched = int(aggregate(lost, add_up(F.col(_REFERENCES)))[0])
    counted = JoinKeys(step.alias, step.kind, references.count(), unmatched, {})
    if not unmatched or not any(texts):
        return counted
    misses = run.keep(find_near_misses(lost, present, texts))
    kinds, steps = Counter[str](), set[str]()
    for row in misses.groupBy(SET, KIND).agg(F.sum(_REFERENCES).alias(_REFERENCES)).orderBy(SET).collect():
        kinds[row[KIND]] += int(row[_REFERENCES])
        steps |= {*SETS[row[SET]]}
    suggestion, pairs = None, list[tuple[str, str, str]]()
    if steps and step.interval is None:  # what an interval join matches by is no key, which alone is normalised
        lines = suggest_lines(run.plan.job, list_sharing(spec) if step.shares_key else [step.alias], steps)
        suggestion = Suggestion([each for each in NORMALISERS if each in steps], kinds.total(), lines)
    if show_keys and not hides_keys(run, step):
        ours = F.concat_ws(",", *[F.col(name).cast("string") for name in names]).alias("ours")
        shown = misses.select(KIND, ours, FOUND).orderBy("ours").limit(MOST_PAIRS).collect()
        pairs = [(row[KIND], row["ours"], row[FOUND]) for row in shown]
    return replace(counted, near_misses=dict(kinds), suggestion=suggestion, pairs=tuple(pairs))


def hides_keys(run: Run, step: Step) -> bool:
    """Tell whether the keys that a join compares are private."""
    compared = [*step.decisive, *((step.alias, name) for name in run.plan.spec.sources[step.alias].key)]
    return any(run.plan.job.describe(*each).private for each in compared)


def suggest_lines(job: Job, aliases: Sequence[str], steps: Collection[str]) -> dict[str, str]:
    """Return the lines of a job's sources with more steps in ``normalise``, by alias."""
    import yaml

    lines = {}
    for alias in aliases:
        source = job.sources[alias]
        line: dict[str, object] = {"table": source.table, "key": source.key if len(source.key) > 1 else source.key[0]}
        line |= source.model_dump(exclude={"table", "key", "normalise"}, exclude_defaults=True, mode="json")
        line["normalise"] = [each for each in NORMALISERS if each in {*source.normalise, *steps}]
        text = yaml.safe_dump(line, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
        lines[alias] = f"{list_sources(job)[alias]}: {text.strip()}"
    return lines
