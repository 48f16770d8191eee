"""Keys that are nearly one: their kinds, what heals them, and what would confuse them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from enrich.answers import near_misses
from enrich.answers.near_misses import choose_effects
from enrich.base.spec import NORMALISERS, name_reference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CASES = [
    ("M1", "m1", "case"),
    ("ΣΑΣ", "σας", "case"),
    (" m2", "m2", "blank"),
    ("m3\u00a0", "m3", "blank"),
    ("m4", "m4 ", "blank"),
    ("e\u0301clair", "éclair", "unicode_form"),
    ("\u212bngstrom", "Ångstrom", "unicode_form"),
    ("\u200bm5", "m5", "invisible"),
    ("m6", "\ufeffm6", "invisible"),
    ("m7\x00", "m7", "invisible"),
    ("m8\t", "m8", "blank"),
    ("007", "7", "leading_zeros"),
    ("000", "0", "leading_zeros"),
    ("-70.00", "-70", "other_type"),
    ("71", "71.0", "other_type"),
    ("0072.0", "72", "combination"),
    (" M9", "m9", "combination"),
    ("\u200b 08", "8", "combination"),
    ("E\u0301X", "éx", "combination"),
]
"""Reference, key, kind."""
MATCHED, UNKNOWN = ["same", "Same", "é"], ["nobody", "", "m1m1"]


def keys(spark: SparkSession, *columns: list[str]) -> DataFrame:
    names = name_reference(len(columns))
    return spark.createDataFrame(pa.table([pa.array(each, pa.string()) for each in columns], names=names))


def found(spark: SparkSession, ours: list[str], theirs: list[str], *, shared: bool = False) -> DataFrame:
    compared = near_misses.pair_keys(keys(spark, ours), keys(spark, theirs))
    return near_misses.add_forms(compared, [True], shared=shared).persist()


def test_every_kind_is_told_apart(spark: SparkSession) -> None:
    ours = [reference for reference, _, _ in CASES] + MATCHED + UNKNOWN + ["M1"]
    theirs = [key for _, key, _ in CASES] + MATCHED
    forms = found(spark, ours, theirs)
    rows = near_misses.find_near_misses(forms, 1).collect()
    told = {(row["__enrich_j0"], row[near_misses.FOUND][0], near_misses.kind_of(row[near_misses.SET])) for row in rows}
    assert told == set(CASES)
    assert {row["__enrich_j0"]: row[near_misses.REFERENCES] for row in rows} == Counter([*ours[: len(CASES)], "M1"])

    effects = {effect.steps: effect for effect in near_misses.measure_effects(forms)}
    kinds = Counter(kind for _, _, kind in CASES)
    for step, kind in near_misses.KINDS.items():
        # "M1" is referred to twice, the sign for Ångström is one letter with Å in lower case, a tab is invisible, too.
        assert effects[(step,)].heals == kinds[kind] + {"case": 2, "invisible": 1}.get(kind, 0), step
    everything = effects[NORMALISERS]
    assert everything.heals == len(CASES) + 1
    assert everything.ambiguous == 2  # "same" and "Same"
    assert effects[("visible", "nfc", "trim", "integer", "unpad")].ambiguous == 0
    best, worse = choose_effects(list(effects.values()))
    assert best is not None
    assert "lower" not in best.steps
    assert (worse.steps, worse.ambiguous) == (NORMALISERS, 2) if worse else pytest.fail("nothing refused")


def test_the_fewest_steps_are_suggested_and_ambiguous_ones_are_not(spark: SparkSession) -> None:
    best, worse = choose_effects(near_misses.measure_effects(found(spark, ["A", "B", "c "], ["a", "b", "x"])))
    assert best is not None
    assert (best.steps, best.heals, worse) == (("lower",), 2, None)
    best, worse = choose_effects(near_misses.measure_effects(found(spark, ["A"], ["a", " a"])))
    assert best is not None
    assert (best.steps, best.heals, worse) == (("lower",), 1, None)
    # The two references of a table join are keys: they must not become one.
    best, worse = choose_effects(near_misses.measure_effects(found(spark, ["a", "A"], ["a"], shared=True)))
    assert best is None
    assert worse is not None
    assert (worse.steps, worse.heals, worse.ambiguous, worse.ambiguous_left) == (("lower",), 1, 0, 2)
    assert choose_effects(near_misses.measure_effects(found(spark, ["a", "A"], ["a"])))[0] is not None
    assert choose_effects(near_misses.measure_effects(found(spark, ["z"], ["a"]))) == (None, None)


def test_the_parts_of_a_composite_key_count_together(spark: SparkSession) -> None:
    ours = keys(spark, ["DE", "de", "FR"], ["1", " 1", "2"])
    theirs = keys(spark, ["de", "FR"], ["1", "3"])
    forms = near_misses.add_forms(near_misses.pair_keys(ours, theirs), [True, True]).persist()
    rows = near_misses.find_near_misses(forms, 2).collect()
    told = {(row["__enrich_j0"], row["__enrich_j1"]): near_misses.kind_of(row[near_misses.SET]) for row in rows}
    assert told == {("DE", "1"): "case", ("de", " 1"): "blank"}
    # A part that is no text is compared as it is.
    numbers = near_misses.pair_keys(
        *[spark.createDataFrame(pa.table({"__enrich_j0": [t], "__enrich_j1": [n]})) for t, n in (("A", 1), ("a", 1))]
    )
    assert near_misses.find_near_misses(near_misses.add_forms(numbers, [True, False]), 2).count() == 1
