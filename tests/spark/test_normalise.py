"""Every normaliser against what Python itself says of the same texts."""

from __future__ import annotations

import random
import re
import unicodedata
from typing import TYPE_CHECKING

import pyarrow as pa

from enrich.base.spec import NORMALISERS, Latest, SourceSpec
from enrich.frames.normalise import count_derived, derive_rows, normalise, normalise_keys, normalise_references

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Python counts four separators as white space that Unicode's White_Space leaves out.
SPACES = "".join(char for char in map(chr, range(0x11000)) if char.isspace() and char not in "\x1c\x1d\x1e\x1f")

PYTHON = {
    "visible": lambda text: "".join(char for char in text if unicodedata.category(char) not in ("Cc", "Cf")),
    "nfc": lambda text: unicodedata.normalize("NFC", text),
    "trim": lambda text: text.strip(SPACES),
    "lower": str.lower,
    "integer": lambda text: re.sub(r"\A(-?[0-9]+)\.0+\Z", r"\1", text),
    "unpad": lambda text: re.sub(r"\A0+(?=.)", "", text, flags=re.DOTALL),
}

TEXTS = [
    "",
    "0",
    "000",
    "007",
    "00\n",
    "0 7",
    "u1",
    "\u200bu1",
    "\ufeffu1\u2060",
    "u\x00\x1f1",
    " u1\u00a0\u3000",
    "\u0085u1\u2028",
    "U1",
    "STRASSE Straße",
    "ΟΔΥΣΣΕΥΣ ΣΑΣ Σ",
    "İstanbul I ı",
    "e\u0301 \u00e9 A\u030a \u212b",
    "\u1112\u1161\u11ab",
    "👩\u200d👩\u200d👧",
    "م\u200cن",
    "\u202eabc",
    "\U000e0041tag",
    "$1 \\d [x]",
    "7.0",
    "-007.000",
    "7.0\n",
    "7.05",
    "7.",
    ".0",
    "1.0.0",
    "1e3.0",
    "\u0667.0",
]


def random_texts(count: int) -> list[str]:
    dice = random.Random(7)
    pieces = ["0", ".0", "7", "a", "B", "É", "ß", "Ω", "e\u0301", "\u00ad"]
    pieces += [" ", "\t", "\u00a0", "\u200b", "\u2029", "\ufeff"]
    return ["".join(dice.choices(pieces, k=dice.randrange(6))) for _ in range(count)]


def test_each_normaliser_does_what_python_does(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    texts = [*TEXTS, *random_texts(400)]
    orders = [(name,) for name in NORMALISERS] + [
        NORMALISERS,
        ("trim", "visible"),
        ("visible", "trim"),
        ("unpad", "lower"),
    ]
    frame = spark.createDataFrame(pa.table({"text": pa.array([*texts, None], pa.string())}))
    columns = [normalise(F.col("text"), steps).alias("+".join(steps)) for steps in orders]
    rows = frame.select("text", *columns).collect()
    assert len(rows) == len(texts) + 1
    for row in rows:
        for steps in orders:
            expected = row["text"]
            for step in steps:
                expected = None if expected is None else PYTHON[step](expected)
            assert row["+".join(steps)] == expected, (row["text"], steps)


def test_only_text_columns_of_a_key_are_normalised(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    source = SourceSpec("s", ("a.b", "n"), {"a.b": "string", "n": "long", "x": "string"}, normalise=("lower",))
    rows = spark.createDataFrame(pa.table({"x": ["X"], "a.b": ["K"], "n": [1]}))
    assert [tuple(row) for row in normalise_keys(rows, source).collect()] == [("X", "k", 1)]
    assert normalise_keys(rows, source).columns == ["x", "a.b", "n"]
    pair = normalise_references([F.lit("Q"), F.lit(2)], source)
    assert tuple(rows.select(*pair).first() or ()) == ("q", 2)


def test_events_of_one_order_are_told_apart_by_where_they_have_nulls(spark: SparkSession) -> None:
    source = SourceSpec("s", ("id",), dict.fromkeys(("id", "n", "a", "b", "c"), "string"), latest=Latest(("n",)))
    events = spark.sql(
        """
        SELECT * FROM VALUES (1, 1, null, 'x', array(1)), (1, 1, 'x', null, array(1)), (2, 1, 'x', 'x', null),
            (2, 1, 'x', 'x', array()), (3, 1, 'x', null, array(null)), (3, 1, 'x', null, array(null))
            AS t(id, n, a, b, c)
        """
    )
    assert count_derived(events, source) == (3, 2)


def test_a_delete_event_is_told_as_the_feed_has_it_by_a_text_that_is_not_filled_up(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    source = SourceSpec("s", ("id",), dict.fromkeys(("id", "n", "op"), "string"), latest=Latest(("n",), "op = 'd'"))
    events = spark.sql("SELECT 'a' AS id, 1 AS n, 'd   ' AS op")
    declared = F.col("op").alias("op", metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(4)"})
    for rows in (events, events.select("id", "n", declared)):
        assert derive_rows(rows, source).count() == 1
