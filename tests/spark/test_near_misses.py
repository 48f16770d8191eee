"""Keys that are nearly one, and their kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from enrich.answers import near_misses
from enrich.base.spec import name_reference

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


def compare(ours: DataFrame, theirs: DataFrame, *texts: bool) -> dict[tuple[Any, ...], tuple[str, str]]:
    """Return lost key -> kind of near miss, and the key that is nearly it."""
    lost = ours.distinct().join(theirs, on=ours.columns, how="left_anti")
    rows = near_misses.find_near_misses(lost, theirs.distinct(), texts).collect()
    assert all(near_misses.SETS[row[near_misses.SET]] for row in rows)
    told = {row[: len(texts)]: (row[near_misses.KIND], row[near_misses.FOUND]) for row in rows}
    assert len(told) == len(rows)
    return told


def test_every_kind_is_told_apart(spark: SparkSession) -> None:
    ours = [reference for reference, _, _ in CASES] + MATCHED + UNKNOWN + ["M1"]
    theirs = [key for _, key, _ in CASES] + MATCHED
    told = compare(keys(spark, ours), keys(spark, theirs), True)
    assert told == {(reference,): (kind, key) for reference, key, kind in CASES}


def test_the_smallest_set_of_normalisers_decides_and_of_its_keys_the_least(spark: SparkSession) -> None:
    told = compare(keys(spark, ["A", "B", "c ", "E"]), keys(spark, ["a", " a", "b", "x", " e ", "\u200be"]), True)
    assert told == {("A",): ("case", "a"), ("B",): ("case", "b"), ("E",): ("combination", " e ")}


def test_the_parts_of_a_composite_key_count_together(spark: SparkSession) -> None:
    ours = keys(spark, ["DE", "de", "FR"], ["1", " 1", "2"])
    theirs = keys(spark, ["de", "FR"], ["1", "3"])
    assert compare(ours, theirs, True, True) == {("DE", "1"): ("case", "de,1"), ("de", " 1"): ("blank", "de,1")}
    # A part that is no text is compared as it is.
    numbers = [
        spark.createDataFrame(pa.table({"__enrich_j0": [t], "__enrich_j1": [n]}))
        for t, n in (("A", 1), ("a", 1), ("a", 2))
    ]
    assert compare(numbers[0], numbers[1].union(numbers[2]), True, False) == {("A", 1): ("case", "a,1")}
