r"""Keys that are nearly one: found and classified in one pass over both sides, by the normalisers that make them equal.

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

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from enrich.base.spec import NORMALISERS, name_reference
from enrich.frames.normalise import normalise

KINDS = {
    "visible": "invisible",
    "nfc": "unicode_form",
    "trim": "blank",
    "lower": "case",
    "integer": "other_type",
    "unpad": "leading_zeros",
}
"""What two keys differ by when one normaliser makes them equal."""

_GENTLE = ("trim", "visible", "nfc", "integer", "lower", "unpad")

SETS = tuple(
    tuple(step for step in NORMALISERS if step in steps)
    for size in range(1, len(NORMALISERS) + 1)
    for steps in combinations(_GENTLE, size)
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
    keys, parts_of = _add_all_forms(keys, names, texts)
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


def _add_all_forms(
    keys: DataFrame, names: Sequence[str], texts: Sequence[bool]
) -> tuple[DataFrame, dict[tuple[str, ...], list[str]]]:
    """Add every form of every key, each computed from the one that lacks its last step.

    Returns:
        The keys with columns more, and set of normalisers -> names of its parts.
    """
    parts_of: dict[tuple[str, ...], list[str]] = {(): list(names)}
    for step in NORMALISERS:
        added: dict[str, Column] = {}
        for steps, parts in list(parts_of.items()):
            forms = [f"{part}_{step}" if is_text else part for part, is_text in zip(parts, texts, strict=True)]
            added |= {form: normalise(F.col(p), (step,)) for form, p in zip(forms, parts, strict=True) if form != p}
            parts_of[(*steps, step)] = forms
        keys = keys.withColumns(added)
    return keys, parts_of


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
