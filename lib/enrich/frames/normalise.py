r"""Make the rows of a source of those of its table, where a job asks for it: the engine sees them as if it held them.

Text keys are brought into another form, and of several rows with one key one is left, or none:

==============================  ===============================  ===============================
rows of one key in the table    ``latest: {order: n, ...}``      ``doubled_keys: quarantine``
==============================  ===============================  ===============================
(n 1, a)                        (n 1, a)                         (n 1, a)
(n 2, b), (n 1, a)              (n 2, b), however they came      -, and both are held
(n 2, b), (n 2, b)              (n 2, b)                         -, and both are held
(n 2, b), (n 2, c)              (n 2, c), the greater contents   -, and both are held
(n 3, ``delete`` is true), ...  -                                -, and all are held
(n null, a), (n 1, b)           (n 1, b)                         -, and both are held
==============================  ===============================  ===============================

Rows with a null in their key stay as they are.

==========  =====================================================================  ==================  ==========
normaliser  what it does                                                           before              after
==========  =====================================================================  ==================  ==========
visible     removes control and format characters (Unicode Cc, Cf), BOM included   ``"\u200bu1"``       ``"u1"``
nfc         puts letters and their accents into one form (Unicode NFC)             ``"e\u0301"``        ``"é"``
trim        cuts white space at both ends                                          ``" u1\u00a0"``      ``"u1"``
lower       lower case                                                             ``"U1"``            ``"u1"``
integer     cuts the fraction of a whole number: keys that were numbers once       ``"7.0"``           ``"7"``
unpad       cuts leading zeros; a key of zeros alone stays one ``0``               ``"007"``, ``"00"``  ``"7"``, ``"0"``
==========  =====================================================================  ==================  ==========

A null stays null, and what becomes empty is an empty text. A text whose bytes are no UTF-8 stays as it is, byte for
byte: the functions would put one character in the place of all bytes that are none, and make one key of two. What
refers to a normalised key (a foreign key, an id in a list) is normalised in the same way before the two are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from enrich.base.spec import TEXT_TYPE, WEIGHT, SourceSpec, name_inside, quote
from enrich.frames.columns import aggregate, make_exact

_ROW, _MARKED, _COUNT = "__enrich_row", "__enrich_marked", "__enrich_count"
WHITE_SPACE = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode's property White_Space."""


def normalise(column: Column, steps: Sequence[str]) -> Column:
    """Return a text column in the form that ``steps`` give it, one after the other."""
    if not steps:
        return column
    is_text = F.is_valid_utf8(column)
    # Null for the steps, too: a Python worker gets every row, whatever stands around its function.
    found = F.when(is_text, column)
    for step in steps:
        found = _FORMS[step](found)
    return F.when(is_text, found).otherwise(column)


def normalise_keys(rows: DataFrame, source: SourceSpec) -> DataFrame:
    """Return the rows of a source with its text key columns normalised; the same columns, in the same order."""
    if not source.normalise:
        return rows
    texts = {name_inside(name) for name in source.key if source.columns[name] == TEXT_TYPE}
    columns = {name: F.col(quote(name)) for name in rows.columns if name in texts}
    return rows.withColumns({name: normalise(column, source.normalise) for name, column in columns.items()})


def derive_rows(rows: DataFrame, source: SourceSpec, *also: str) -> DataFrame:
    """Return the rows of a source, given those of its table that have a whole key.

    In: the used columns, ``WEIGHT`` where a row stands for several, and columns ``also`` beside the key, which tell
    several states of the table apart. Out: the used columns and ``also``.
    """
    if not source.is_derived:
        return rows
    found, latest = _group_rows(rows, source, *also), source.latest
    found = found if latest is not None else found.where(~F.col(_MARKED))
    key, names = ([name_inside(name) for name in each] for each in (source.key, source.columns))
    found = found.select(*map(quote, key), *also, f"{_ROW}.*")
    # Without what Spark notes of a CHAR: by that it fills up a text that it is compared with, which no feed's rows do.
    found = found.select(*[F.col(quote(name)).alias(name, metadata={}) for name in names], *also)
    if latest is not None and latest.gone is not None:
        # On the event that has won alone: on others the condition need not be computable.
        found = found.where(~F.coalesce(F.expr(latest.gone), F.lit(False)))
    return found


def count_derived(rows: DataFrame, source: SourceSpec) -> tuple[int, int]:
    """Count rows of a table with a whole key, and among them those that are held.

    Of a log, count the keys, and those of which several events have the greatest order, and other contents.
    """
    one = F.lit(1) if source.latest is not None else F.col(_COUNT)
    looked_at, marked = aggregate(_group_rows(rows, source), F.sum(one), F.sum(F.when(F.col(_MARKED), one)))
    return int(looked_at or 0), int(marked or 0)


def find_held(rows: DataFrame, source: SourceSpec) -> DataFrame:
    """Return those of a table's rows that are held because others have their key; with a whole key all of them."""
    key = [name_inside(name) for name in source.key]
    doubled = _group_rows(rows, source).where(F.col(_MARKED)).select(*map(quote, key))
    return rows.join(doubled, on=key, how="left_semi").select(*map(quote, rows.columns))


def _group_rows(rows: DataFrame, source: SourceSpec, *also: str) -> DataFrame:
    """Return for each key: one row as ``_ROW``, ``_COUNT`` rows that it has, and whether it is ``_MARKED``."""
    key = [quote(name_inside(name)) for name in source.key]
    others = [name_inside(name) for name in source.columns if name not in source.key]
    row = F.struct(*[F.col(quote(name)) for name in others], F.lit(True).alias(_ROW))
    grouped = rows.groupBy(*key, *also)
    count = F.sum(WEIGHT if WEIGHT in rows.columns else F.lit(1)).alias(_COUNT)
    if source.latest is None:
        return grouped.agg(F.any_value(row).alias(_ROW), count, (count > 1).alias(_MARKED))
    # Exact forms, for a map is not ordered, and 0.0 and -0.0 are written in two ways.
    contents = [make_exact(F.col(quote(name)), rows.schema[name].dataType) for name in others]
    order = [F.col(quote(name_inside(name))).alias(f"o{i}") for i, name in enumerate(source.latest.order)]
    parts = [part.alias(f"c{i}") for i, part in enumerate(contents)]
    whole = F.struct(*order, *parts)
    # The least and the greatest fingerprint among the events of the greatest order: another one is another content.
    # Spark's hash passes over nulls and empty lists; JSON has one character for all that is no UTF-8.
    mark = F.xxhash64(*contents, F.to_json(F.struct(F.lit(0), *parts)))
    both = mark, F.bitwise_not(mark)
    greatest, least = (F.max(F.struct(*order, each.alias("mark"))).getField("mark") for each in both)
    return grouped.agg(F.max_by(row, whole).alias(_ROW), count, (greatest != F.bitwise_not(least)).alias(_MARKED))


def normalise_references(parts: Sequence[Column], source: SourceSpec) -> list[Column]:
    """Return what refers to a source's key, one column for each part of it, in the form of the keys."""
    pairs = zip(parts, source.key, strict=True)
    return [normalise(part, source.normalise) if source.columns[name] == TEXT_TYPE else part for part, name in pairs]


def _compose(column: Column) -> Column:
    """Spark has no function for Unicode's forms: this one step runs in Python workers.

    The function is local, so that it travels by value: workers need pandas and pyarrow, but not enrich.
    """
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.pandas.functions import pandas_udf

    def nfc(texts: Any) -> Any:
        return texts.str.normalize("NFC")

    nfc.__annotations__ = {"texts": pd.Series, "return": pd.Series}  # where Spark looks for the kind of function
    wrap: Any = pandas_udf  # its overloads do not know functions whose annotations come later
    found: Column = wrap(nfc, TEXT_TYPE)(column)
    return found


_FORMS: Mapping[str, Callable[[Column], Column]] = {
    "visible": lambda column: F.regexp_replace(column, r"[\p{Cc}\p{Cf}]+", ""),
    "nfc": _compose,
    "trim": lambda column: F.btrim(column, F.lit(WHITE_SPACE)),
    "lower": F.lower,
    "integer": lambda column: F.regexp_replace(column, r"^(-?[0-9]+)\.0+\z", "$1"),
    "unpad": lambda column: F.regexp_replace(column, "(?s)^0+(?=.)", ""),
}
