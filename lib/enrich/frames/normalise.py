r"""Bring text keys into another form, where a job asks for it: the engine sees a source as if its table held it.

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

from enrich.base.spec import TEXT_TYPE, SourceSpec, name_inside, quote

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
    changed = {name_inside(name) for name in source.key if source.columns[name] == TEXT_TYPE}

    def read(name: str) -> Column:
        column = F.col(quote(name))
        return normalise(column, source.normalise).alias(name) if name in changed else column

    return rows.select(*[read(name) for name in rows.columns])


def normalise_references(parts: Sequence[Column], source: SourceSpec) -> list[Column]:
    """Return what refers to a source's key, one column for each part of it, in the form of the keys."""
    return [
        normalise(part, source.normalise) if source.columns[name] == TEXT_TYPE else part
        for part, name in zip(parts, source.key, strict=True)
    ]


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
